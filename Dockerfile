# pare on Debian 12:
#   docker build -t pare .
#   docker run --rm -v "$PWD:/work" pare inspect model.onnx
FROM debian:12-slim AS build
COPY . /src
WORKDIR /src
# The same steps as ./quickstart: packages, then the program alone.
RUN bash -c 'set -e; source scripts/setup.sh; setup_packages; setup_program' && \
    strip build/release/pare && mkdir -p /opt/pare/bin && cp -r build/release/pare build/release/light /opt/pare/bin/

FROM debian:12-slim
# What the program is linked to; Node runs ONNX Runtime, in which `pare bench` and `pare compress` time models besides.
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      libtorch1.13 libgloo0 libopenblas0-openmp libdnnl2 libonnx1 libprotobuf32 libfmt9 libpng16-16 libjpeg62-turbo zlib1g nodejs npm && \
    npm install --prefix /usr/local/share/pare --ignore-scripts --no-audit --no-fund onnxruntime-node@1.30.0 && \
    apt-get purge -y npm && apt-get autoremove -y && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/pare /opt/pare
ENV PATH=/opt/pare/bin:$PATH PARE_DATA=/usr/local/share/pare
WORKDIR /work
ENTRYPOINT ["pare"]
CMD ["--help"]

#!/bin/bash
# Throughput of Grad-CAM against PyTorch eager, in turns, and the cost of LRP against a forward and backward.
#   bench/attribution.sh [ROUNDS [IMAGES]]     (7, 1000); needs python3-torch
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
rounds=${1:-7} images=${2:-1000}
cmake -S . -B build/release -DPARE_BENCH=ON >/dev/null
cmake --build build/release -j2 --target bench_attribution >/dev/null
median() { tr ' ' '\n' <<<"$*" | sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
# Two lines in, two measurements out; the first one warms up.
own() { printf '\n\n' | build/release/bench_attribution "$1" "$3" "$images" "$2" | tail -n 1; }
peer() { printf '\n\n' | OMP_NUM_THREADS=$2 /usr/bin/python3 bench/attribution_peer.py "$1" "$images" "$2" | tail -n 1; }

printf '%d rounds in turns, %d images, batch 50; images per second, medians\n' "$rounds" "$images"
printf '%-10s %7s %10s %10s %7s %26s\n' model threads Grad-CAM PyTorch ratio "LRP / forward and backward"
for arch in vgg9-bn resnet20; do
  for threads in 1 2; do
    ours=() theirs=() costs=()
    for ((round = 0; round < rounds; ++round)); do
      for side in $( ((round % 2)) && echo own peer || echo peer own); do
        if [ "$side" = own ]; then
          read -r rate _ < <(own $arch $threads gradcam)
          ours+=("$rate")
        else
          theirs+=("$(peer $arch $threads)")
        fi
      done
      read -r rate plain < <(own $arch $threads lrp)
      costs+=("$(awk -v a="$rate" -v b="$plain" 'BEGIN {print b / a}')")
    done
    awk -v n=$arch -v t=$threads -v a="$(median "${ours[@]}")" -v b="$(median "${theirs[@]}")" -v c="$(median "${costs[@]}")" \
      'BEGIN {printf "%-10s %7d %10.0f %10.0f %7.2f %26.2f\n", n, t, a, b, a / b, c}'
  done
done

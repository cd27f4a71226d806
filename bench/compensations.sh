#!/bin/bash
# Every compensation beside none on the MobileNetV2 and the SqueezeNet of ../shared/data, group by group at a quarter of
# the channels; exit code 4 where one is worse by more than a point of the test pictures.
#   bench/compensations.sh [PICTURES [SAMPLES [EVERY [METHOD…]]]]     (0 0 1: all test pictures; as many samples as prune takes; every group)
# Takes hours on two cores.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
shared=${PARE_SHARED:-$root/../shared}/data
[ -e "$shared/imagenet-sample/labels.csv" ] || { echo "no pictures in $shared" >&2; exit 1; }
cmake -S "$root" -B "$root/build/release" -DPARE_BENCH=ON >/dev/null
cmake --build "$root/build/release" -j2 --target bench_compensations >/dev/null
status=0
for model in mobilenetv2 squeezenet1.1; do
  echo "$model"
  "$root/build/release/bench_compensations" "$shared/$model.imagenet.onnx" "csv:$shared/imagenet-sample/labels.csv" "${@:-0}" ||
    status=$?
done
exit $status

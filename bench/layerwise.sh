#!/bin/bash
# Layer by layer least squares to given widths, `pare prune --widths --compensate calibrated`, in turns with the same in
# Python: torch for the networks, numpy for what is solved (bench/layerwise_peer.py). One thread. ResNet-20 on CIFAR-10, half of
# the channels inside its blocks, 256 training images and their mirror images; or MobileNetV2, a quarter, 250 pictures.
#   bench/layerwise.sh [ROUNDS [resnet20|mobilenetv2]]     (5, resnet20)
# Needs python3-torch, python3-onnx, python3-pil (mobilenetv2: python3-torchvision), CIFAR-10 and the checkpoints and pictures of
# ../shared/data. $PARE is the program, $SAMPLES how many images are learned from. Medians. Wall seconds are those of the method
# alone; CPU seconds are of the method alone in Python, and of the whole command here, with start and reading.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
export PARE_DATA=${PARE_DATA:-$root/data} OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
shared=$(readlink -m "${PARE_SHARED:-$root/../shared}/data")
rounds=${1:-5} arch=${2:-resnet20}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$root"
case $arch in
  resnet20)
    samples=${SAMPLES:-256} cut=(0.5 --round-to 1) table=$(readlink -f "$("$pare" data path cifar10)")
    data=cifar10:$table
    "$pare" convert "$shared/resnet20.cifar10.th" --arch resnet20 -q --no-record -o "$scratch/whole.onnx" >/dev/null
    ;;
  mobilenetv2)
    samples=${SAMPLES:-250} cut=(0.25) table=$shared/imagenet-sample/labels.csv
    data=csv:$table
    cp "$shared/mobilenetv2.imagenet.onnx" "$scratch/whole.onnx"
    ;;
  *) echo "expected resnet20 or mobilenetv2, found $arch" >&2; exit 2 ;;
esac
cd "$scratch"
field() { node -e 'let v = JSON.parse(require("fs").readFileSync(0, "utf8")); for (const key of process.argv[1].split(".")) v = v[key]; console.log(v)' "$1"; }
median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# Each appends its wall and CPU seconds to a file of its name. `--limit`: only one test image is looked at.
own() {
  TIMEFORMAT='%U %S'
  { time "$pare" prune whole.onnx --widths widths.toml --inner-only --compensate calibrated --data "$data" --limit 1 \
    --samples "$samples" --threads 1 --json -q --no-record --force -o own.onnx >own.json; } 2>own.time
  echo "$(field seconds.method <own.json) $(tail -n 1 own.time | awk '{print $1 + $2}')" >>own
}
peer() {
  /usr/bin/python3 "$root/bench/layerwise_peer.py" "$arch" whole.onnx widths.toml "$table" "$samples" peer.onnx >peer.json
  echo "$(field seconds <peer.json) $(field cpu <peer.json)" >>peer
}
top1() { "$pare" eval "$1" --data "$data" --metrics top1 --threads 1 --json -q --no-record | field models.0.metrics.top1; }

"$pare" prune whole.onnx --criterion l1 --channels "${cut[@]}" --inner-only --compensate none --plan --save-plan widths.toml \
  --json -q --no-record >/dev/null
for ((round = 0; round < rounds; ++round)); do
  for side in $( ((round % 2)) && echo own peer || echo peer own); do $side; done
done
printf '%s, %d rounds in turns, %d images and their mirror images, one thread; seconds, medians\n' "$arch" "$rounds" "$samples"
printf '%-10s %10s %10s %12s\n' "" wall CPU "top-1 after"
for side in own peer; do
  wall=$(cut -d ' ' -f 1 $side | median) cpu=$(cut -d ' ' -f 2 $side | median)
  echo "$wall $cpu" >$side.median
  printf '%-10s %10.2f %10.2f %12.4f\n' "$([ $side = own ] && echo pare || echo Python)" "$wall" "$cpu" "$(top1 $side.onnx)"
done
paste -d ' ' own.median peer.median | awk '{printf "%-10s %10.2f %10.2f\n", "ratio", $3 / $1, $4 / $2}'

#!/bin/bash
# The two published checkpoints give their known accuracy: straight from PyTorch's file, and after conversion to ONNX and
# to safetensors. Skipped, and said so, where the files are not on this machine ($PARE_SHARED/data, ../shared/data).
# $PARE is the program (build/release/pare).
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
shared=$(readlink -m "${PARE_SHARED:-$root/../shared}/data")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$root" # data sets are found from here

passed=0 failed=0 skipped=0

top1() {
  "$pare" eval "$@" --metrics top1 --json -q |
    node -e 'const r = JSON.parse(require("fs").readFileSync(0, "utf8")); console.log(r.models[0].metrics.top1.toFixed(4), r.samples)'
}

# expect WHAT TOP1 ARGUMENTS…: within 0.0005 of it, on all 10,000 test images
expect() {
  local what=$1 wanted=$2 got
  shift 2
  if got=$(top1 "$@") && awk -v w="$wanted" '{d = $1 - w; exit !(d * d <= 0.00050001 ^ 2 && $2 == 10000)}' <<<"$got"; then
    printf 'ok    %-42s top-1 %s\n' "$what" "${got% *}"
    passed=$((passed + 1))
  else
    printf 'FAIL  %-42s top-1 %s of %s images, not %s\n' "$what" ${got:-nothing nothing} "$wanted"
    failed=$((failed + 1))
  fi
}

# checkpoint FILE ARCH TOP1 DATA NORMALISATION…
checkpoint() {
  local file=$shared/$1 arch=$2 wanted=$3 data=$4
  shift 4
  if [ ! -e "$file" ]; then
    echo "skip  $arch: there is no $file"
    skipped=$((skipped + 3))
    return
  fi
  expect "$arch, ${file##*/}" "$wanted" "$file" --arch "$arch" --data "$data" "$@"
  "$pare" convert "$file" --arch "$arch" -q -o "$scratch/$arch.onnx" >/dev/null
  expect "$arch, converted to ONNX" "$wanted" "$scratch/$arch.onnx" --data "$data" "$@"
  "$pare" convert "$file" --arch "$arch" -q -o "$scratch/$arch.safetensors" >/dev/null
  expect "$arch, converted to safetensors" "$wanted" "$scratch/$arch.safetensors" --arch "$arch" --data "$data" "$@"
}

checkpoint lenet-300-100.fashion-mnist.pth.tar lenet-300-100 0.8980 fashion-mnist --mean 0.5 --std 0.5
checkpoint resnet20.cifar10.th resnet20 0.9173 cifar10 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]

#!/bin/bash
# What the Python module adds to the library: CPU-seconds of the same evaluation and the same pruning of ResNet-20, called from
# C++ and from Python, in turns on one thread. Samples are arrays, and again an iterable of batches of 100.
#   bench/binding.sh [ROUNDS [IMAGES]]     (9, 1000) needs the checkpoints of ../shared/data
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
build=${BUILD:-$root/build/release}
shared=$(readlink -m "${PARE_SHARED:-$root/../shared}/data")
rounds=${1:-9} images=${2:-1000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake -S "$root" -B "$build" -DPARE_BENCH=ON >/dev/null
cmake --build "$build" -j1 --target bench_binding >/dev/null
[ -e "$shared/resnet20.cifar10.th" ] || { echo "there is no $shared/resnet20.cifar10.th" >&2; exit 1; }
export PYTHONPATH=$build/python OMP_NUM_THREADS=1
cd "$scratch"
"$build/pare" convert "$shared/resnet20.cifar10.th" --arch resnet20 --no-record -q -o model.onnx
/usr/bin/python3 -c "
import numpy
random = numpy.random.default_rng(0)
numpy.save('images.npy', random.normal(size=($images, 3, 32, 32)).astype('float32'))
numpy.save('labels.npy', random.integers(0, 10, $images))"

run() { # SIDE
  case $1 in
  program) "$build/bench_binding" model.onnx images.npy labels.npy ;;
  *) /usr/bin/python3 "$root/bench/binding.py" model.onnx images.npy labels.npy "$1" ;;
  esac >>"$1.txt"
}
for ((round = 0; round < rounds; ++round)); do
  for side in $( ((round % 2)) && echo program arrays batches || echo batches arrays program); do run "$side"; done
done
# The least of the rounds: on a machine that others use too it is nearest to what the work costs.
least() { sort -g | head -n 1; }
# The same figures, or nothing was compared.
[ "$(cut -d ' ' -f 3,4 program.txt arrays.txt | sort -u | wc -l)" -eq 1 ] || { echo "the sides compute different things" >&2; exit 4; }
for column in 1 2; do
  what=$([ $column = 1 ] && echo evaluate || echo prune)
  own=$(cut -d ' ' -f $column program.txt | least)
  for side in arrays batches; do
    theirs=$(cut -d ' ' -f $column $side.txt | least)
    awk -v what=$what -v side=$side -v own="$own" -v theirs="$theirs" \
      'BEGIN {printf "%-8s  C++ %.3f CPU-s, Python (%s) %.3f CPU-s: %+.1f %%\n", what, own, side, theirs, 100 * (theirs / own - 1)}'
  done
done

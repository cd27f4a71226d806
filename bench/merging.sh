#!/bin/bash
# Neuron merging over all of VGG-16 (CIFAR form, batch norm, half the channels of every layer): `pare prune` against the
# same algorithm in numpy as it was published, a loop over pairs of filters. Both have the same weights, every filter like
# some others, and have to make the same of them: exit code 4 where they do not.
#   bench/merging.sh [ROUNDS]
# Needs python3-onnx. $PARE is the program (build/release/pare). One thread; seconds of the method alone, loading and writing
# not counted; medians.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
rounds=${1:-5}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

"$pare" convert --arch vgg16-bn -q --no-record -o "$scratch/fresh.onnx" >/dev/null
/usr/bin/python3 "$root/bench/merging_peer.py" draw "$scratch/fresh.onnx" "$scratch/vgg.onnx"
for ((round = 0; round < rounds; ++round)); do
  "$pare" prune "$scratch/vgg.onnx" --criterion l1 --channels 0.5 --round-to 1 --unchecked --threads 1 --json -q --no-record --force -o "$scratch/slim.onnx" |
    node -e 'const s = JSON.parse(require("fs").readFileSync(0, "utf8")).seconds; console.log(s.method, s.total)' >>"$scratch/own"
  OPENBLAS_NUM_THREADS=1 /usr/bin/python3 "$root/bench/merging_peer.py" merge "$scratch/vgg.onnx" "$scratch/slim.onnx" 0.5 >>"$scratch/peer"
done
own=$(cut -d ' ' -f 1 "$scratch/own" | median) total=$(cut -d ' ' -f 2 "$scratch/own" | median) peer=$(median <"$scratch/peer")
awk -v a="$own" -v t="$total" -v b="$peer" 'BEGIN {printf "pare %.3f s (the whole command beyond loading %.3f s), numpy %.2f s: %.0f times faster\n", a, t, b, b / a}'

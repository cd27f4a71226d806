#!/bin/bash
# What every command prints with --json, against docs/schemas/pare.schema.json.
#   tests/cli/schemas.sh [PROGRAM]     (build/release/pare); needs node, and for scenes Fashion-MNIST and CIFAR-10
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${1:-$root/build/release/pare}")
export PARE_DATA=${PARE_DATA:-$root/data}
models=$root/tests/data/cli
schema=$root/docs/schemas/pare.schema.json
# shellcheck source=tests/cli/lib.sh
source "$root/tests/cli/lib.sh"
declare -A tried

# fits STATUS COMMAND WORDS…: ends so, and prints what the schema says
fits() {
  local faults
  exits "$*" "$@" -q --json --force --threads 1
  faults=$(node "$root/tests/cli/validate.mjs" "$schema" "$2" stdout)
  check "$2: as the schema says" "$faults" test -z "$faults"
  tried[$2]=1
}

small_data
mnist=(--data fashion-mnist:small --limit 48)
fits 0 train --arch lenet-5 "${mnist[@]}" --epochs 1 --batch 16 -o a.onnx
fits 0 train --arch lenet-5 "${mnist[@]}" --epochs 1 --batch 16 --seed 1 --validation 0.25 -o b.onnx
fits 0 inspect a.onnx
fits 0 inspect "$models/unknown_operator.onnx"
fits 1 inspect absent.onnx
fits 2 inspect a.onnx --threads -1
fits 3 run "$models/unknown_operator.onnx" --random
fits 0 eval a.onnx b.onnx "${mnist[@]}" --ensemble
fits 0 bench a.onnx b.onnx --rounds 5 --seconds 0.1
fits 0 diff a.onnx b.onnx
fits 0 verify a.onnx a.onnx
fits 4 verify a.onnx b.onnx
fits 0 run a.onnx --random -o outputs
fits 0 compress a.onnx --macs 0.2 "${mnist[@]}" --samples 48 --runtime pare -o compressed.onnx
fits 0 prune a.onnx --channels 0.5 --round-to 1 "${mnist[@]}" --attribution-drift 4 --finetune 1 -o pruned.onnx
fits 5 prune a.onnx --channels 0.5 --round-to 1 "${mnist[@]}" --max-drop 0 -o gate.onnx
fits 0 prune a.onnx --channels 0.5 --plan
fits 0 sparsify a.onnx --method magnitude --sparsity 0.5 --finetune 1 "${mnist[@]}" -o sparse.onnx
fits 0 quantize a.onnx "${mnist[@]}" --samples 32 -o int8.onnx
fits 0 distill --teacher a.onnx --arch lenet-5 --width 0.5 --epochs 1 "${mnist[@]}" --attribution-drift 4 -o student.onnx
fits 0 fuse a.onnx b.onnx "${mnist[@]}" -o fused.onnx
fits 0 explain a.onnx --compare b.onnx --data fashion-mnist:small --count 2 -o maps
fits 0 tickets --arch lenet-300-100 "${mnist[@]}" --epochs 1 --method imp --rounds 1 -o tickets
fits 0 convert --arch vgg9-bn --width 0.25 -o scenes.onnx
fits 0 localize scenes.onnx --data scenes --limit 4
fits 0 roar scenes.onnx --data scenes --limit 16 --epochs 1 --levels 0.5 --retrain lenet-5
fits 0 reproduce merging --list
fits 0 data list
fits 0 data path fashion-mnist
fits 0 completions bash
fits 0 report runs -o report.html
tried[launch]=1  # what it prints is its command's
for command in $("$pare" --help | awk '/^  [a-z]+ / {print $1}' | grep -v '^pare$'); do
  check "$command has been tried" "add it here and to $schema" test -n "${tried[$command]:-}"
done
summary

#!/bin/bash
# Recipes of others beside ours at equal multiply-accumulates, nothing trained on labels: ResNet-20 on CIFAR-10, inside its
# blocks, at those of uniform cuts of 30 and 50 % of the channels. Top-1 on the 10,000 test images, on which nothing is chosen;
# mean ± standard deviation over seeds where a recipe draws anything: each seed draws 256 training images (and 32 to judge).
#   bench/recipes.sh [DIRECTORY [SEEDS [ROW…]]]     (a scratch directory; 3; all rows)
# What is in DIRECTORY is not made again, so that an interrupted run goes on. Needs python3-torch, python3-onnx, python3-pil,
# CIFAR-10 and the checkpoint of ../shared/data. $PARE is the program, $THREADS the threads (1).
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
export PARE_DATA=${PARE_DATA:-$root/data}
checkpoint=$(readlink -m "${PARE_SHARED:-$root/../shared}/data")/resnet20.cifar10.th
threads=${THREADS:-1}
export OMP_NUM_THREADS=$threads OPENBLAS_NUM_THREADS=$threads
cifar=$(cd "$root" && "$pare" data path cifar10)
cifar=$(cd "$root" && readlink -f "$cifar")
[ -e "$checkpoint" ] || { echo "there is no $checkpoint" >&2; exit 1; }
if [ -z "${1:-}" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
fi
directory=${1:-$scratch} seeds=${2:-3}
rows=("${@:3}")
[ ${#rows[@]} -gt 0 ] || rows=(l1 most-sim wanda fold l1-solved synthetic allocated repaired)
mkdir -p "$directory"
cd "$directory"

field() { node -e 'let v = JSON.parse(require("fs").readFileSync(0, "utf8")); for (const key of process.argv[1].split(".")) v = v[key]; console.log(v)' "$1"; }
peer() { /usr/bin/python3 "$root/bench/recipes_peer.py" "$@"; }
prune() { "$pare" prune resnet20.onnx --inner-only --threads "$threads" --json -q --no-record --force "$@"; }
uniform() { prune --criterion l1 --channels "$1" --round-to 1 "${@:2}"; }

normal=(--mean 0.4914,0.4822,0.4465 --std 0.2470,0.2435,0.2616) # what pare takes for CIFAR-10 unless told
# make NAME CUT SEED OUT: the network by a recipe, an ONNX file.
make() {
  local name=$1 cut=$2 seed=$3 out=$4 data=(--data "csv:images-$3/labels.csv" --limit 1 --seed "$3" "${normal[@]}")
  local macs
  macs=$(cat "macs-$cut")
  case $name in
    l1) uniform "$cut" --compensate none -o "$out" ;;
    most-sim) uniform "$cut" --compensate most-sim --unchecked -o "$out" ;;
    l1-solved) uniform "$cut" --compensate calibrated "${data[@]}" -o "$out" ;;
    wanda) peer wanda resnet20.onnx "widths-$cut.toml" "images-$seed" "$out" ;;
    fold) peer fold resnet20.onnx "widths-$cut.toml" "$seed" "$out" ;;
    allocated) prune --scope allocate --macs "$macs" --round-to 1 --compensate calibrated "${data[@]}" \
      --save-plan "allocated-$cut-$seed.toml" -o "$out" ;;
    synthetic) prune --scope allocate --macs "$macs" --round-to 1 --compensate synthetic --seed "$seed" -o "$out" ;;
    repaired)
      [ -e "allocated-$cut-$seed.onnx" ] || measure allocated "$cut" "$seed"
      prune --widths "allocated-$cut-$seed.toml" --compensate calibrated --minutes 0.5 "${data[@]}" -o "$out"
      ;;
    *) echo "there is no row $name" >&2; exit 2 ;;
  esac
}

# measure NAME CUT SEED: makes it, and leaves top-1 and multiply-accumulates in NAME-CUT-SEED.txt.
measure() {
  local file=$1-$2-$3
  [ ! -e "$file.txt" ] || return 0
  echo "recipes: $file" >&2
  make "$1" "$2" "$3" "$file.new.onnx" >"$file.json" || { cat "$file.json" >&2; exit 1; }
  mv "$file.new.onnx" "$file.onnx"
  local top1 macs
  top1=$("$pare" eval "$file.onnx" --data "cifar10:$cifar" --metrics top1 --threads "$threads" --json -q --no-record |
    field models.0.metrics.top1)
  macs=$("$pare" inspect "$file.onnx" --json -q --no-record | field macs)
  echo "$top1 $macs" >"$file.new.txt"
  mv "$file.new.txt" "$file.txt"
}

[ -e resnet20.onnx ] ||
  "$pare" convert "$checkpoint" --arch resnet20 -q --no-record -o resnet20.onnx >/dev/null
all=$("$pare" inspect resnet20.onnx --json -q --no-record | field macs)
for ((seed = 0; seed < seeds; ++seed)); do
  [ -e images-$seed/labels.csv ] || peer draw "$cifar" $seed images-$seed
done
for cut in 0.3 0.5; do
  [ -e macs-$cut ] && continue
  left=$(uniform $cut --compensate none --plan --save-plan widths-$cut.toml | field after.macs)
  awk -v a="$left" -v b="$all" 'BEGIN {printf "%.6f\n", 1 - a / b}' >macs-$cut
done
draws() { case $1 in l1 | most-sim) echo 1 ;; *) echo "$seeds" ;; esac; }
for row in "${rows[@]}"; do
  for cut in 0.3 0.5; do
    for ((seed = 0; seed < $(draws "$row"); ++seed)); do measure "$row" $cut $seed; done
  done
done

declare -A says=(
  [l1]="uniform l1, nothing made up for" [most-sim]="uniform l1, neuron merging as published" [wanda]="uniform Wanda, nothing made up for"
  [fold]="uniform model folding, no data" [l1-solved]="uniform l1, readers solved by ridge regression"
  [synthetic]="allocated and solved on made images, no data" [allocated]="allocated and solved"
  [repaired]="allocated and solved, --minutes 0.5")
printf 'ResNet-20, CIFAR-10, inside its blocks; top-1 on all test images, %d seeds\n' "$seeds"
printf '%-46s %18s %6s %18s %6s\n' recipe "30 % of channels" "MACs" "50 % of channels" "MACs"
for row in "${rows[@]}"; do
  printf '%-46s' "${says[$row]}"
  for cut in 0.3 0.5; do
    for ((seed = 0; seed < $(draws "$row"); ++seed)); do cat "$row-$cut-$seed.txt"; done | awk -v all="$all" '
      {v[NR] = $1; sum += $1; macs += $2}
      END {
        for (i = 1; i <= NR; ++i) square += (v[i] - sum / NR) ^ 2
        said = sprintf("%.4f", sum / NR)
        if (NR > 1) said = said sprintf(" ± %.4f", sqrt(square / (NR - 1)))
        printf " %18s %5.1f%%", said, 100 * (1 - macs / NR / all)
      }'
  done
  printf '\n'
done

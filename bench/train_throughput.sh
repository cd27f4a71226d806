#!/bin/bash
# Throughput of `pare train` against the same training in PyTorch eager with images that are ready in memory, in turns:
# same architecture, batch, optimiser and threads, each round in the other order. pare converts bytes as it goes.
#   bench/train_throughput.sh [ROUNDS [ARCH]]      (7)
# Needs python3-torch and python3-pil. $PARE is the program, $THREADS the thread counts ("2 1").
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
rounds=${1:-7} only=${2:-}
cd "$root"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

number() { node -e 'const r = JSON.parse(require("fs").readFileSync(0, "utf8")); const h = r.history?.[0] ?? r; console.log(h.images_per_second)'; }
median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# compare ARCH DATA BATCH IMAGES THREADS
compare() {
  local arch=$1 data=$2 batch=$3 images=$4 threads=$5 round side own=() peer=()
  [ -z "$only" ] || [ "$only" = "$arch" ] || return 0
  coproc PEER { OMP_NUM_THREADS=$threads exec /usr/bin/python3 bench/train_peer.py "$arch" "$("$pare" data path "$data")" --batch "$batch" --threads "$threads" --limit "$images"; }
  local peer_pid=$PEER_PID answer
  echo >&"${PEER[1]}" && read -r <&"${PEER[0]}" || { echo "$arch: the peer does not start" >&2; exit 1; }
  for ((round = 0; round < rounds; ++round)); do
    for side in $( ((round % 2)) && echo own peer || echo peer own); do
      if [ "$side" = own ]; then
        own+=("$("$pare" train --arch "$arch" --data "$data" --batch "$batch" --limit "$images" --epochs 1 --schedule constant \
          --threads "$threads" --runs "$scratch/runs" --fresh --force --json -q -o "$scratch/out.onnx" | number)")
      else
        echo >&"${PEER[1]}"
        read -r answer <&"${PEER[0]}"
        peer+=("$(number <<<"$answer")")
      fi
    done
  done
  eval "exec ${PEER[1]}>&-"
  wait "$peer_pid" || true
  local a b
  a=$(printf '%s\n' "${own[@]}" | median) b=$(printf '%s\n' "${peer[@]}" | median)
  awk -v n="$arch" -v t="$threads" -v a="$a" -v b="$b" 'BEGIN {printf "%-14s %7d %12.0f %12.0f %7.2f\n", n, t, a, b, a / b}'
}

printf '%d rounds in turns; training images per second, medians\n' "$rounds"
printf '%-14s %7s %12s %12s %7s\n' model threads pare PyTorch ratio
for threads in ${THREADS:-2 1}; do
  compare resnet20 cifar10 128 2560 "$threads"
  compare lenet-5 fashion-mnist 64 12800 "$threads"
  compare lenet-300-100 fashion-mnist 64 25600 "$threads"
done

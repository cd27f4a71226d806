#!/bin/bash
# Throughput of `pare eval` against PyTorch eager, in turns: same checkpoint, batch and threads, each round in the other
# order. Both convert bytes to normalised batches as they go; IMAGES=ready gives the peer finished tensors instead.
#   bench/eval_throughput.sh [ROUNDS [ARCH]]     (9, at least 7)
# Needs python3-torch, python3-pil, and the checkpoints of ../shared/data. $PARE is the program, $BATCH the batch (250),
# $LIMIT the number of test images (all 10,000).
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
shared=$(readlink -m "${PARE_SHARED:-$root/../shared}/data")
rounds=${1:-9} only=${2:-} batch=${BATCH:-250} images=${IMAGES:-bytes} limit=${LIMIT:-10000}
cd "$root"
[ "$rounds" -ge 7 ] || { echo "at least 7 rounds, for a median that means something" >&2; exit 2; }

field() { node -e 'const r = JSON.parse(require("fs").readFileSync(0, "utf8")); const m = r.models?.[0].metrics ?? r; console.log(r.seconds, r.images_per_second, m.top1)'; }
median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# compare ARCH CHECKPOINT DATA DATA_DIRECTORY THREADS NORMALISATION…
compare() {
  local arch=$1 checkpoint=$shared/$2 data=$3 directory=$4 threads=$5 round side own=() peer=() own_top1 peer_top1
  shift 5
  [ -z "$only" ] || [ "$only" = "$arch" ] || return 0
  [ -e "$checkpoint" ] || { echo "$arch: skipped, there is no $checkpoint"; return; }
  coproc PEER { OMP_NUM_THREADS=$threads exec /usr/bin/python3 bench/eval_peer.py "$arch" "$checkpoint" "$directory" --batch "$batch" --threads "$threads" --limit "$limit" --images "$images"; }
  local peer_pid=$PEER_PID
  echo >&"${PEER[1]}" && read -r <&"${PEER[0]}" || { echo "$arch: the peer does not start" >&2; exit 1; }
  for ((round = 0; round < rounds; ++round)); do
    for side in $( ((round % 2)) && echo own peer || echo peer own); do
      local result
      if [ "$side" = own ]; then
        result=$("$pare" eval "$checkpoint" --arch "$arch" --data "$data" --batch "$batch" --threads "$threads" --limit "$limit" --metrics top1 --json -q --no-record "$@" | field)
        own+=("$(cut -d ' ' -f 2 <<<"$result")") own_top1=${result##* }
      else
        echo >&"${PEER[1]}"
        read -r result <&"${PEER[0]}"
        result=$(field <<<"$result")
        peer+=("$(cut -d ' ' -f 2 <<<"$result")") peer_top1=${result##* }
      fi
    done
  done
  eval "exec ${PEER[1]}>&-"
  wait "$peer_pid" || true
  local a b
  a=$(printf '%s\n' "${own[@]}" | median) b=$(printf '%s\n' "${peer[@]}" | median)
  awk -v n="$arch" -v t="$threads" -v a="$a" -v b="$b" -v p="$own_top1" -v q="$peer_top1" \
    'BEGIN {printf "%-14s %7d %14.0f %14.0f %7.2f   %.4f %.4f\n", n, t, a, b, a / b, p, q}'
}

printf '%d rounds in turns, %d images, batch %d; images per second, medians\n' "$rounds" "$limit" "$batch"
printf '%-14s %7s %14s %14s %7s   %s\n' model threads pare PyTorch ratio "top-1 of each"
cifar=$("$pare" data path cifar10)
fashion=$("$pare" data path fashion-mnist)
for threads in 2 1; do
  compare resnet20 resnet20.cifar10.th cifar10 "$cifar" $threads --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
  compare lenet-300-100 lenet-300-100.fashion-mnist.pth.tar fashion-mnist "$fashion" $threads --mean 0.5 --std 0.5
done

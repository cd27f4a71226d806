#!/bin/bash
# Several ranks from outside: the same weights by training and by calibration, ranks that are killed, interrupted and
# stopped, resuming on another number of them.
#   tests/cli/distributed.sh [PROGRAM]     (build/release/pare); needs bash and node, no Python and no data sets
# PARE_FULL=1 adds a rank that hangs, and two hosts whose connection is cut (network namespaces: root and iproute2).
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${1:-$root/build/release/pare}")
# shellcheck source=tests/cli/lib.sh
source "$root/tests/cli/lib.sh"
small_data
train=(train --data fashion-mnist:small --width 0.25 --batch 32 --threads 1 --seed 3 --augment crop:2)

# near A B [BOUND]: the largest difference of their weights is below 1e-5
near() {
  local bound=${3:-1e-5}
  "$pare" convert "$1" -q -o a.safetensors --force >/dev/null && "$pare" convert "$2" -q -o b.safetensors --force >/dev/null && node -e '
    const read = (file) => {
      const bytes = require("fs").readFileSync(file), end = 8 + Number(bytes.readBigUInt64LE(0));
      const header = JSON.parse(bytes.subarray(8, end));
      delete header.__metadata__;
      return Object.fromEntries(Object.entries(header).filter(([, t]) => t.dtype === "F32").map(([name, t]) =>
        [name, new Float32Array(new Uint8Array(bytes.subarray(end + t.data_offsets[0], end + t.data_offsets[1])).buffer)]));
    };
    const a = read("a.safetensors"), b = read("b.safetensors");
    let worst = 0;
    for (const name in a) a[name].forEach((x, i) => (worst = Math.max(worst, Math.abs(x - b[name][i]))));
    if (worst > 0) console.log(`      largest difference ${worst}`);
    process.exit(worst < Number(process.argv[1]) ? 0 : 1)' "$bound"
}
# rank_of N: the process that is rank N of the launch that runs as $process
rank_of() {
  local child
  for child in $(pgrep -P $process); do
    if tr '\0' '\n' <"/proc/$child/environ" | grep -qx "RANK=$1"; then echo "$child"; fi
  done
}
# started EPOCHS ARGUMENTS…: a launch in the background, once it has trained so many epochs
started() {
  local epochs=$1
  shift
  : >stderr
  env --default-signal=INT "$pare" launch "$@" >stdout 2>stderr &
  process=$!
  until [ "$(grep -c "^epoch" stderr)" -ge "$epochs" ] || ! kill -0 $process 2>/dev/null; do sleep 0.1; done
}
# ended: waits for it, a minute at the most; fills $status and $seconds
ended() {
  local begin=$SECONDS
  (sleep 60; kill -9 $process 2>/dev/null) &
  wait $process
  status=$?
  seconds=$((SECONDS - begin))
}

# The same batch and seed on one rank and on several.
for arch in convnet convnet-bn; do
  exits "$arch on one rank" 0 "${train[@]}" --arch $arch --epochs 2 --sync-bn -o $arch-1.onnx --runs one
  exits "$arch on two" 0 launch -n 2 "${train[@]}" --arch $arch --epochs 2 --sync-bn -o $arch-2.onnx --runs two --json
  check "only rank 0 prints" "$(head -c 300 stdout)" is_json stdout
  check "a line an epoch" "$(head -c 300 stderr)" lines stderr 2
  check "$arch: the same weights" "they differ" near $arch-1.onnx $arch-2.onnx
done
exits "batch norms that see their rank's images" 0 launch -n 3 "${train[@]}" --arch convnet-bn --epochs 1 -o own.onnx --runs own

# As mpirun says it.
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 10000))
mpi=("${train[@]}" --arch convnet --epochs 2 --sync-bn -o mpi.onnx --runs mpi -q)
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "$pare" "${mpi[@]}" >/dev/null 2>&1 &
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 exits "started by mpirun" 0 "${mpi[@]}"
wait $!
check "both ranks end" "exit $?" test $? -eq 0
check "with the same weights" "they differ" near convnet-1.onnx mpi.onnx
RANK=2 WORLD_SIZE=2 exits "an impossible rank" 2 "${mpi[@]}"

# Ranks share the images that a method learns from: sums over all of them are those of one.
learn=(--data fashion-mnist:small --samples 40 --threads 1)
compress=(prune convnet-bn-1.onnx --channels 0.5 --criterion subset --compensate calibrated "${learn[@]}")
merge=(fuse convnet-bn-1.onnx own.onnx --align activations --repair rescale "${learn[@]}")
for what in compress merge; do
  declare -n words=$what
  exits "$what, learning on one rank" 0 "${words[@]}" -o $what-1.onnx
  exits "$what, learning on two" 0 launch -n 2 "${words[@]}" -o $what-2.onnx --json
  check "only rank 0 prints" "$(head -c 300 stdout)" is_json stdout
  check "$what: the same weights" "they differ" near $what-1.onnx $what-2.onnx 1e-3 # regression amplifies rounding
done
exits "fewer images than ranks" 2 launch -n 2 "${compress[@]}" --samples 1 -o few.onnx

# A rank is killed: the others say which, and any number of ranks goes on.
# Steps are small, so that rounding stays small.
long=("${train[@]}" --arch convnet --epochs 40 --schedule constant --lr 0.00005)
exits "a whole run" 0 "${long[@]}" -o whole.onnx --runs whole
for rank in 1 0; do
  started 2 -n 3 "${long[@]}" -o killed.onnx --runs "killed-$rank"
  kill -9 "$(rank_of $rank)"
  ended
  check "rank $rank killed: the others end within 30 s" "$seconds s" test $seconds -lt 30
  check "with an error" "exit $status" test $status -eq 1
  check "that names it" "$(tail -n 4 stderr)" grep -q "rank $rank is lost" stderr
  exits "--resume on $((2 - rank)) ranks" 0 launch -n $((2 - rank)) "${long[@]}" -o "killed-$rank.onnx" --runs "killed-$rank" --resume
  check "to the same weights" "they differ" near whole.onnx "killed-$rank.onnx"
done

# One rank is interrupted: all store and end.
started 2 -n 2 "${long[@]}" -o interrupted.onnx --runs interrupted
kill -INT "$(rank_of 1)"
ended
check "SIGINT on one rank ends all with 130" "exit $status" test $status -eq 130
check "and says how to go on" "$(tail -c 300 stderr)" grep -q "goes on from there" stderr
started 2 -n 2 "${long[@]}" -o interrupted.onnx --runs interrupted
kill -INT $process
ended
check "SIGINT of the launcher too" "exit $status" test $status -eq 130
exits "--resume" 0 launch -n 2 "${long[@]}" -o interrupted.onnx --runs interrupted --resume
check "goes on" "they differ" near whole.onnx interrupted.onnx

if [ -n "${PARE_FULL:-}" ]; then
  started 2 -n 2 "${long[@]}" -o hangs.onnx --runs hangs
  hanging=$(rank_of 1)
  kill -STOP "$hanging"
  begin=$SECONDS
  until grep -q "rank 1 is lost" stderr || [ $((SECONDS - begin)) -gt 40 ]; do sleep 0.2; done
  check "a rank that hangs is named within 30 s" "$((SECONDS - begin)) s: $(tail -n 2 stderr)" test $((SECONDS - begin)) -lt 30
  kill -9 "$hanging"
  ended

  # Two hosts: a network namespace each, joined by a cable that is pulled out.
  one=pare-$$-1 two=pare-$$-2
  if ip netns add $one 2>/dev/null && ip netns add $two && ip link add veth1 netns $one type veth peer name veth2 netns $two; then
    ip -n $one addr add 10.77.0.1/24 dev veth1 && ip -n $one link set veth1 up && ip -n $one link set lo up
    ip -n $two addr add 10.77.0.2/24 dev veth2 && ip -n $two link set veth2 up && ip -n $two link set lo up
    export MASTER_ADDR=10.77.0.1 WORLD_SIZE=2
    cut=("${train[@]}" --arch convnet --epochs 4000 --schedule constant --lr 0.0005 -o cut.onnx --runs cut)
    RANK=1 ip netns exec $two "$pare" "${cut[@]}" >/dev/null 2>stderr-1 &
    other=$!
    : >stderr
    RANK=0 ip netns exec $one "$pare" "${cut[@]}" >stdout 2>stderr &
    process=$!
    until [ "$(grep -c "^epoch" stderr)" -ge 2 ] || ! kill -0 $process 2>/dev/null; do sleep 0.1; done
    check "two hosts train together" "$(tail -n 2 stderr stderr-1)" test "$(grep -c "^epoch" stderr)" -ge 2
    ip -n $one link set veth1 down
    ended
    check "their connection cut: rank 0 ends within 30 s" "$seconds s" test $seconds -lt 30
    check "with an error that names rank 1" "exit $status: $(tail -n 2 stderr)" grep -q "rank 1 is lost" stderr
    process=$other
    ended
    check "rank 1 likewise" "exit $status after $seconds s: $(tail -n 2 stderr-1)" grep -q "rank 0 is lost" stderr-1
    unset WORLD_SIZE
  else
    echo "skip  a cut connection: no network namespaces here (they need root and iproute2)"
  fi
  ip netns del $one 2>/dev/null
  ip netns del $two 2>/dev/null
fi

# Methods that train.
exits "sparsify on two ranks" 0 launch -n 2 sparsify --arch convnet-bn --width 0.25 --data fashion-mnist:small --epochs 2 \
  --batch 32 --threads 1 --runs methods --method l0 --finetune 1 -o l0.onnx --masks masks.safetensors --json
exits "prune and fine-tune on two ranks" 0 launch -n 2 prune convnet-bn-1.onnx --data fashion-mnist:small --channels 0.5 \
  --round-to 1 --finetune 1 --batch 32 --threads 1 --runs methods -o pruned.onnx --json

# Eight candidates by three workers, one of which is killed at its first; and by ranks.
tickets=(tickets --arch convnet-bn --width 0.25 --data fashion-mnist:small --batch 32 --threads 1)
eight=(--epochs 3 --s-init=-0.3,-0.2,-0.1,-0.05,0,0.03,0.06,0.1)
: >stderr
"$pare" "${tickets[@]}" "${eight[@]}" --processes 3 --runs tickets -o found --json >stdout 2>stderr &
process=$!
until [ "$(find tickets -name state.safetensors 2>/dev/null | wc -l)" -ge 3 ] || ! kill -0 $process 2>/dev/null; do sleep 0.1; done
kill -9 "$(pgrep -P $process | head -n 1)"
ended
check "a search with a worker killed ends" "exit $status: $(tail -c 300 stderr)" test $status -eq 0
check "with all 8 candidates" "$(head -c 300 stdout)" node -e '
  process.exit(JSON.parse(require("fs").readFileSync("stdout")).tickets.length === 8 ? 0 : 1)'
check "and says so" "$(tail -c 300 stderr)" grep -q "the others do its part" stderr
exits "tickets on two ranks" 0 launch -n 2 "${tickets[@]}" --epochs 1 --s-init=-0.1,0 --runs ranks -o ranks-found --json
check "two candidates" "$(head -c 300 stdout)" node -e '
  process.exit(JSON.parse(require("fs").readFileSync("stdout")).tickets.length === 2 ? 0 : 1)'

exits "launch: a command of one process" 2 launch -n 2 eval convnet-1.onnx
exits "launch: no ranks" 2 launch -n 0 "${train[@]}"
exits "launch: nothing to start" 2 launch -n 2
exits "launch: no command" 2 launch -n 2 nothing
exits "launch: the command's own error" 2 launch -n 2 "${train[@]}" --arch convnet
summary

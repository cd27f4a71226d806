#!/bin/bash
# Training from outside: runs that are interrupted, killed at any moment, repeated, given rubbish; logs and event files.
#   tests/cli/training.sh [PROGRAM]     (build/release/pare); needs bash and node, no Python and no data sets
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${1:-$root/build/release/pare}")
# shellcheck source=tests/cli/lib.sh
source "$root/tests/cli/lib.sh"

small_data
small=(--data fashion-mnist:small)
base=(train "${small[@]}" --width 0.25 --batch 32 --threads 1 --seed 3)
train=("${base[@]}" --arch convnet-bn --epochs 4)
# Of the weights alone, without the metadata.
digest() {
  "$pare" convert "$1" -q --no-record -o "$1.safetensors" --force >/dev/null && node -e '
    const bytes = require("fs").readFileSync(process.argv[1]), end = 8 + Number(bytes.readBigUInt64LE(0));
    const header = JSON.parse(bytes.subarray(8, end));
    delete header.__metadata__;
    console.log(require("crypto").createHash("sha256").update(JSON.stringify(header)).update(bytes.subarray(end)).digest("hex"));' "$1.safetensors"
}

exits "train" 0 "${train[@]}" --runs runs -o whole.onnx --json
check "train prints JSON with a history" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")); process.exit(r.history.length === 4 && r.metrics.top1 > 0.5 && r.steps === 76 ? 0 : 1)'
check "a line an epoch" "$(head -c 300 stderr)" lines stderr 4
whole=$(digest whole.onnx)
directory=$(dirname runs/*/state.safetensors)
check "log.jsonl has a line an epoch" "it has not" lines "$directory/log.jsonl" 4
check "log.csv has a heading and a line an epoch" "it has not" lines "$directory/log.csv" 5
exits "the same command again" 0 "${train[@]}" --runs runs -o whole.onnx
check "says that it is done" "$(head -c 300 stderr)" grep -q "done already" stderr
check "and trains nothing" "the weights changed" test "$(digest whole.onnx)" = "$whole"
exits "another run does not replace a file" 2 "${train[@]}" --lr 0.01 --runs runs -o whole.onnx
exits "the model evaluates with its own normalisation" 0 eval whole.onnx "${small[@]}" --json
exits "eval of several models and their ensemble" 0 eval whole.onnx whole.onnx --ensemble "${small[@]}" --json
check "three rows" "$(head -c 300 stdout)" node -e 'process.exit(JSON.parse(require("fs").readFileSync("stdout")).models.length === 3 ? 0 : 1)'

# Killed after various times, as often as it takes, then run to its end.
for delay in 0.2 0.3 0.45 0.7; do
  killed=0
  for _ in 1 2 3 4 5 6; do
    "$pare" "${train[@]}" --runs "killed-$delay" -q -o "killed-$delay.onnx" >/dev/null 2>&1 &
    process=$!
    sleep "$delay"
    if kill -9 $process 2>/dev/null; then killed=$((killed + 1)); fi
    wait $process 2>/dev/null
  done
  exits "resumed after kill -9 ($killed times, $delay s)" 0 "${train[@]}" --runs "killed-$delay" -o "killed-$delay.onnx" --force
  check "to the same bits" "weights differ" test "$(digest "killed-$delay.onnx")" = "$whole"
done

# Interrupted as soon as it works: it stores its state, says so and exits with 130.
: >stderr
# A shell without job control starts it with SIGINT ignored, and so may whoever started this script.
env --default-signal=INT "$pare" "${base[@]}" --arch convnet-bn --epochs 2000 --runs interrupted -o interrupted.onnx >stdout 2>stderr &
process=$!
until [ "$(grep -c epoch stderr)" -ge 2 ] || ! kill -0 $process 2>/dev/null; do sleep 0.1; done
kill -INT $process
(sleep 60; kill -9 $process 2>/dev/null) &
wait $process
status=$?
check "SIGINT exits with 130" "exit $status" test $status -eq 130
check "and says how to go on" "$(tail -c 300 stderr)" grep -q "goes on from there" stderr
check "with a stored state" "there is none" test -s "$(echo interrupted/*)/state.safetensors"
check "and no output" "there is one" test ! -e interrupted.onnx
exits "--resume goes on" 0 "${train[@]}" --runs runs -o again.onnx --resume --json
exits "--resume without a run" 2 "${base[@]}" --arch convnet-bn --epochs 3 --runs runs -o none.onnx --resume
check "names the place" "$(head -c 300 stderr)" grep -q "no run to go on with" stderr

exits "--validation, --tensorboard, --log-every" 0 "${train[@]}" --validation 0.2 --patience 3 --tensorboard events --log-every 5 --runs runs -o v.onnx
check "an event file" "there is none" test -s "$(echo events/*tfevents*)"

# What cannot work is said before anything is trained.
exits "train: an opset that cannot be written" 2 "${train[@]}" --opset 99 --runs opsets -o opset.onnx
check "train: an opset that cannot be written: nothing was trained" "$(head -c 300 stderr)" lines stderr 1
exits "train: too few classes" 1 "${train[@]}" --classes 3 --runs few -o few.onnx
check "train: too few classes: says what was expected" "$(head -c 300 stderr)" grep -q "3 scores for an image, .* has 10 classes" stderr

# Images in a folder that is not divided: two classes, the same for training and testing.
explained=(explain whole.onnx "${small[@]}" --count 2 --method gradient --no-record)
run "${explained[@]}" -o folded
mkdir -p fold/a fold/b
pictures=(folded/*.png)
cp "${pictures[0]}" fold/a/1.png
cp "${pictures[1]}" fold/b/1.png
folded=(--data folder:fold --size 28 --threads 1 --runs folds --json)
exits "train on a folder that is not divided" 0 train --arch convnet --width 0.25 --epochs 20 --classes 10 "${folded[@]}" -o folded.onnx
check "train on a folder that is not divided: is said" "$(head -c 300 stderr)" grep -q "note: the data is not divided" stderr
check "train on a folder that is not divided: is in the result" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")); process.exit(r.split === "all" && r.metrics.top1 >= 0 ? 0 : 1)'
run inspect folded.onnx --json
check "--classes 10 for data of two" "$(grep -A4 '"outputs"' stdout)" grep -q '\[N, 10\]' stdout
exits "prune, fine-tune and judge on a folder that is not divided" 0 prune folded.onnx --channels 0.5 --round-to 1 --finetune 1 --max-drop 1 \
  "${folded[@]}" -o folded-pruned.onnx
check "prune, fine-tune and judge on a folder that is not divided: is said" "$(head -c 300 stderr)" grep -q "note: the data is not divided.*--max-drop" stderr
check "prune, fine-tune and judge on a folder that is not divided: is in the result" "$(head -c 300 stdout)" grep -q '"split": "all"' stdout

# Pruning with fine-tuning, and the gate.
exits "prune and fine-tune" 0 prune whole.onnx "${small[@]}" --channels 0.5 --round-to 1 --finetune 2 --batch 32 --threads 1 --runs runs -o tuned.onnx --json
check "smaller, with metrics before and after" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")); process.exit(r.after.parameters < r.before.parameters && r.after.metrics.top1 > 0.3 ? 0 : 1)'
exits "prune: a gate that holds" 0 prune whole.onnx "${small[@]}" --channels 0.5 --round-to 1 --max-drop 1 -o gate.onnx
exits "prune: a gate that is missed" 5 prune whole.onnx "${small[@]}" --channels 0.9 --round-to 1 --compensate none --max-drop 0 --runs missed -o missed.onnx
check "prune: a gate that is missed: the table, and what would have fitted" "$(head -c 300 stdout stderr)" \
  bash -c 'grep -q "^top1 " stdout && grep -qE "max-drop: top1 falls from .*would have fitted" stderr'
check "prune: a gate that is missed is recorded" "$(find missed 2>/dev/null)" bash -c 'grep -q "\"error\": .*max-drop" missed/prune-*/record.json'
check "writes nothing" "there is a file" test ! -e missed.onnx
# Compression by its goal.
exits "compress" 0 compress whole.onnx "${small[@]}" --macs 0.4 --runtime pare --runs memory -o compressed.onnx --frontier frontier.svg --save-plan widths.toml --json
check "compress: smaller by the goal, with its proof" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")); const p = r.points[r.chosen];
  process.exit(r.reached && r.after.macs <= 0.6 * r.before.macs && p.score > 0 && p.latency > 0 && r.after.metrics.top1 > 0.2 ? 0 : 1)'
check "compress: draws what was tried" "there is none" grep -q "<svg" frontier.svg
exits "compress again" 0 compress whole.onnx "${small[@]}" --macs 0.4 --runtime pare --runs memory -o compressed2.onnx --log again.jsonl --json
check "compress again: the same model" "they differ" cmp <("$pare" inspect compressed.onnx --json | grep -v model) <("$pare" inspect compressed2.onnx --json | grep -v model)
exits "prune by the widths that were found" 0 prune whole.onnx "${small[@]}" --widths widths.toml -o by_plan.onnx --json
exits "compress: a drop that is exceeded" 5 compress whole.onnx "${small[@]}" --macs 0.9 --max-drop 0 --round-to 1 --runtime pare --runs memory -o missed.onnx --json
check "compress: a drop that is exceeded: what was found" "$(head -c 300 stdout)" grep -q 'max-drop' stdout
check "compress: a drop that is exceeded: writes nothing" "there is a file" test ! -e missed.onnx
exits "compress --max-drop" 0 compress whole.onnx "${small[@]}" --max-drop 0.5 --runtime pare --runs memory -o within.onnx
exits "prune --scan" 0 prune whole.onnx "${small[@]}" --scan scan.svg --round-to 1
check "draws a plot" "there is none" grep -q "<svg" scan.svg
exits "prune --scan --layers" 0 prune whole.onnx "${small[@]}" --scan scan.svg --force --round-to 1 --layers conv1 --json
check "one group alone" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")); process.exit(r.curves.length === 1 && r.left.some((g) => /--layers/.test(g.reason)) ? 0 : 1)'
exits "prune --empty: nothing is empty" 2 prune whole.onnx --empty -o x.onnx
exits "prune --empty beside --channels" 2 prune whole.onnx --empty --channels 0.5 -o x.onnx
exits "prune: fine-tuning without data" 2 prune whole.onnx --channels 0.5 --finetune 1 -o x.onnx

# Sparsification.
sparse=(sparsify --arch convnet-bn --width 0.25 "${small[@]}" --epochs 3 --batch 32 --threads 1 --runs sparse)
for method in cs l0; do
  exits "sparsify by $method" 0 "${sparse[@]}" --method $method --finetune 1 -o $method.onnx --masks $method.safetensors --json
done
for method in magnitude gmp imp imp-continued lr-rewind weight-rewind slimming; do
  rounds=(--rounds 2)
  case $method in magnitude | gmp | slimming) rounds=() ;; esac
  rewind=()
  case $method in imp | lr-rewind | weight-rewind) rewind=(--rewind 1) ;; esac
  exits "sparsify by $method" 0 "${sparse[@]}" --method $method --sparsity 0.5 "${rounds[@]}" "${rewind[@]}" -o $method.onnx --json
  check "$method removes half" "$(head -c 300 stdout)" node -e '
    const r = JSON.parse(require("fs").readFileSync("stdout")), before = r.before.parameters, after = r.after;
    if (!(r.seconds.method > 0 && r.seconds.method <= r.seconds.total)) process.exit(1);
    if (!r.groups.some((g) => g.kept < g.total)) process.exit(1);
    process.exit(process.argv[1] === "slimming" ? (after.parameters < before && after.sparsity > 0 ? 0 : 1) : Math.abs(after.sparsity - 0.5) < 0.001 ? 0 : 1)' $method
done
exits "sparsify a trained model" 0 sparsify whole.onnx "${small[@]}" --method magnitude --sparsity 0.9 --finetune 1 --runs sparse -o nine.onnx --json
check "zeros are exact" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")); process.exit(Math.abs(r.after.sparsity - 0.9) < 0.001 && r.groups.length === 3 ? 0 : 1)'
exits "sparsify --resume: a stage that was not begun" 0 "${sparse[@]}" --method magnitude --sparsity 0.5 --finetune 1 --resume -o resumed.onnx
exits "sparsify --resume: nothing was begun" 2 "${sparse[@]}" --method magnitude --sparsity 0.4 --lr 0.03 --resume -o x.onnx
exits "sparsify by gmp in another pattern" 0 "${sparse[@]}" --method gmp --sparsity 0.75 --pattern 1:4 -o pattern.onnx
check "is another run" "$(head -c 300 stderr)" bash -c '! grep -q "done already" stderr && grep -q epoch stderr'
exits "sparsify: a pattern that is not the sparsity" 2 "${sparse[@]}" --method gmp --sparsity 0.5 --pattern 1:4 -o x.onnx
check "names both" "$(head -c 300 stderr)" grep -q -e '--pattern.*0.75.*--sparsity.*0.5' stderr
exits "sparsify --validation: gmp keeps its last epoch" 0 "${sparse[@]}" --method gmp --sparsity 0.5 --validation 0.2 -o validated.onnx --json
check "and says so" "$(head -c 300 stderr)" grep -q 'held out.*last epoch is kept' stderr
check "removes what was asked" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout"));
  process.exit(Math.abs(r.removed - 0.5) < 0.001 && r.asked === 0.5 && r.splits.measured_on === "test" && r.notes.length === 0 ? 0 : 1)'
exits "sparsify: a sparsity of one" 2 "${sparse[@]}" --method gmp --sparsity 1 -o x.onnx
exits "sparsify: no sparsity named" 2 "${sparse[@]}" --method gmp -o x.onnx
exits "sparsify: logits that keep everything" 2 "${sparse[@]}" --method cs --s-init 2 -o x.onnx
exits "sparsify: a rewind after the end" 2 "${sparse[@]}" --method imp --rewind 9 -o x.onnx
exits "sparsify: a glob that matches nothing" 2 "${sparse[@]}" --method cs --include 'nothing*' -o x.onnx

# Tickets: two searches in two processes, collected; the same again is done already.
tickets=(tickets --arch convnet-bn --width 0.25 "${small[@]}" --epochs 2 --batch 32 --threads 1 --rewind 1 --runs tickets)
exits "tickets" 0 "${tickets[@]}" --s-init=-0.05,0 --rounds 2 --processes 2 -o found --transfer fashion-mnist:small --json
check "no worker failed" "$(cat stderr)" bash -c '! grep -q "a worker ended with status" stderr'
check "four candidates and the best named" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout"));
  process.exit(r.tickets.length === 4 && r.best_performing >= 0 && r.transfer.length >= 2 && r.tickets[1].sparsity >= r.tickets[0].sparsity ? 0 : 1)'
check "chosen on a part held out, measured on the test images" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")), chosen = [r.best_performing, r.sparsest_matching];
  if (r.splits.chosen_on !== "validation" || r.splits.validation !== 0.1 || r.splits.measured_on !== "test") process.exit(1);
  process.exit(r.tickets.every((t, i) => ("metric" in t) === chosen.includes(i) && t.validation >= 0) ? 0 : 1)'
printf 'processes = 2\ntransfer = "fashion-mnist:small"\nrounds = 2\n' >search.toml
exits "tickets by a recipe" 0 "${tickets[@]}" --s-init=-0.05,0 --recipe search.toml --fresh -o by_recipe --json
check "by a recipe: no worker failed" "$(cat stderr)" bash -c '! grep -q "a worker ended with status" stderr'
check "by a recipe: the same tickets" "$(head -c 300 stdout)" node -e '
  const read = (file) => JSON.parse(require("fs").readFileSync(file));
  const kept = (r) => JSON.stringify(r.tickets.map((t) => [t.name, t.sparsity, t.validation]));
  process.exit(kept(read("stdout")) === kept(read("found/tickets.json")) && read("stdout").transfer.length >= 2 ? 0 : 1)'
check "by a recipe: nothing is left beside them" "$(ls -A by_recipe)" test -z "$(find by_recipe -name '*.toml')"
cp found/tickets.json transferred
check "each kept" "they are not" test "$(find found -name 'ticket-*.safetensors' | wc -l)" -eq 4
runs=$(find tickets -name state.safetensors | wc -l)
exits "tickets again" 0 "${tickets[@]}" --s-init=-0.05,0 --rounds 2 -o found --json
check "trains nothing" "new runs" test "$(find tickets -name state.safetensors | wc -l)" -eq "$((runs))"
check "the table has the transfer, each ticket once" "$(head -c 300 found/tickets.json)" node -e '
  const fs = require("fs"), names = JSON.parse(fs.readFileSync("transferred")).transfer.map((t) => t.name);
  process.exit(names.length >= 2 && new Set(names).size === names.length ? 0 : 1)'
exits "tickets: another search does not replace them" 2 "${tickets[@]}" --s-init=-0.05 -o found
check "names --force" "$(head -c 300 stderr)" grep -q -e "found.*--force" stderr
exits "tickets --force: a smaller search" 0 "${tickets[@]}" --s-init=-0.05 --rounds 2 -o found --force
check "leaves none of the larger" "$(ls found)" test "$(find found -name 'ticket-*.safetensors' | wc -l)" -eq 2
: >afile
exits "tickets: a file instead of a directory" 1 "${tickets[@]}" --lr 0.03 -o afile
exits "tickets: a transfer to nothing" 2 "${tickets[@]}" --lr 0.03 -o x --transfer nosuch
exits "tickets as published" 0 "${tickets[@]}" --s-init=-0.05 --as-published -o published
check "are named so" "$(cat stdout)" grep -q 's_init -0.05, round 1, as published' stdout
exits "tickets as published by imp" 2 "${tickets[@]}" --method imp --as-published -o x
exits "tickets: more processes than any machine has" 2 "${tickets[@]}" --processes 1000000 -o x
exits "tickets: no patience" 2 "${tickets[@]}" --lr 0.03 -o x --patience 1
runs=$(find tickets -name state.safetensors | wc -l)
exits "tickets: no fine-tuning" 2 "${tickets[@]}" --lr 0.03 -o x --finetune 1
check "before anything is trained" "new runs" test "$(find tickets -name state.safetensors | wc -l)" -eq "$((runs))"
exits "tickets --fresh in two processes" 0 "${tickets[@]}" --s-init=-0.05,0 --processes 2 -o fresh --fresh
check "the one that collects trains nothing" "$(tail -c 300 stderr)" bash -c '! grep -q "epoch 1/" stderr'
: >stderr
"$pare" "${tickets[@]}" --rounds 2000 --s-init=-0.05,0 --processes 2 -o ended >stdout 2>stderr &
process=$!
until [ "$(pgrep -c -P $process)" -eq 2 ] || ! kill -0 $process 2>/dev/null; do sleep 0.1; done
workers=$(pgrep -P $process)
kill -TERM $process
wait $process 2>/dev/null
for _ in $(seq 100); do
  # shellcheck disable=SC2086
  kill -0 $workers 2>/dev/null || break
  sleep 0.1
done
# shellcheck disable=SC2086
check "workers end with the search" "they go on" bash -c "test $(echo $workers | wc -w) -eq 2 && ! kill -9 $(echo $workers) 2>/dev/null"
exits "tickets by imp" 0 "${tickets[@]}" --method imp --rounds 2 -o imp --json
check "20 % a round" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")); process.exit(Math.abs(r.tickets[1].sparsity - 0.36) < 0.001 ? 0 : 1)'
exits "tickets by another method" 2 "${tickets[@]}" --method gmp --sparsity 0.5 -o x
exits "tickets: an impossible address" 2 "${tickets[@]}" --join nowhere -o x

# Rubbish.
exits "no output named" 2 "${train[@]}" --runs runs
exits "no architecture" 2 train "${small[@]}" -o x.onnx
exits "no data" 2 train --arch lenet-5 -o x.onnx
exits "data that is not there" 1 train --arch lenet-5 --data fashion-mnist:nowhere -o x.onnx
check "names the place looked in" "$(head -c 300 stderr)" grep -q nowhere stderr
exits "an unknown augmentation" 2 "${train[@]}" --augment melt --runs runs -o x.onnx
exits "no learning rate" 2 "${train[@]}" --lr 0 --runs runs -o x.onnx
exits "patience without validation" 2 "${train[@]}" --patience 2 --runs runs -o x.onnx
exits "validation of everything" 2 "${train[@]}" --validation 1 --runs runs -o x.onnx
exits "a loss that explodes" 1 "${base[@]}" --arch convnet --epochs 4 --lr 1e30 --schedule constant --runs runs -o nan.onnx
check "names step and norms" "$(head -c 300 stderr)" grep -q "not finite at step.*norms" stderr
check "and writes no model" "there is one" test ! -e nan.onnx
exits "a damaged state (whole run)" 0 "${base[@]}" --arch convnet-bn --epochs 1 --runs damaged -o d.onnx
state=$(echo damaged/*/state.safetensors)
printf 'x' | dd of="$state" bs=1 seek=$(($(stat -c %s "$state") / 2)) conv=notrunc 2>/dev/null
exits "a damaged state is an error" 1 "${base[@]}" --arch convnet-bn --epochs 1 --runs damaged -o d2.onnx
check "that names --fresh" "$(head -c 300 stderr)" grep -q -e "--fresh" stderr
check "and keeps the file" "it is gone" test -s "$state"
exits "--fresh begins anew" 0 "${base[@]}" --arch convnet-bn --epochs 1 --runs damaged -o d2.onnx --fresh
exits "runs where nothing can be written" 1 "${base[@]}" --arch convnet-bn --epochs 1 --runs /proc/nowhere -o x.onnx
# A disk that fills up: no file may grow beyond 64 KiB.
(
  trap '' XFSZ
  ulimit -f 64
  "$pare" "${base[@]}" --arch lenet-300-100 --epochs 1 --runs full -o full.onnx >stdout 2>stderr
)
status=$?
check "a full disk" "exit $status" test $status -eq 1
check "is named" "$(head -c 300 stderr)" grep -q "state.safetensors.*could not be written" stderr
check "and leaves no half-written state" "$(ls full/*)" test "$(find full -name 'state*' | wc -l)" -eq 0
summary

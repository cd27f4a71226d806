#!/bin/bash
# The command line from outside: exit codes, what goes to stdout and what to stderr, bad files, overwriting, pipes.
#   tests/cli/run.sh [PROGRAM]     (build/release/pare); needs bash and node, no Python and no data sets
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${1:-$root/build/release/pare}")
models=$root/tests/data/cli
# shellcheck source=tests/cli/lib.sh
source "$root/tests/cli/lib.sh"

# --- help, version, usage ---------------------------------------------------------------------------------------------
commands="inspect convert verify run train eval compress prune fuse distill sparsify quantize tickets explain localize roar bench diff report reproduce data completions"
exits "--help" 0 --help
for command in $commands; do
  check "--help lists $command" "it does not" grep -q "\b$command\b" stdout
done
exits "--version" 0 --version
check "--version names libtorch and ONNX" "it does not: $(head -c 300 stdout)" grep -qiE 'torch|onnx' stdout
for command in $commands; do
  exits "$command --help" 0 "$command" --help
  check "$command --help is on stdout" "stdout is empty" test -s stdout
  check "$command --help leaves stderr empty" "$(head -c 200 stderr)" test ! -s stderr
  exits "$command: unknown flag" 2 "$command" "$models/mlp.onnx" --no-such-flag
  check "$command: unknown flag is named" "$(head -c 200 stderr)" grep -q -e '--no-such-flag' stderr
  check "$command: usage errors leave stdout empty" "$(head -c 200 stdout)" test ! -s stdout
done
# Help has the options that most people need, by what they are for, and examples; --help-all has every option there is.
exits "prune --help" 0 prune --help
check "prune --help fits on two screens" "$(wc -l <stdout) lines" test "$(wc -l <stdout)" -lt 70
check "prune --help has groups, examples and a way to the rest" "$(head -c 300 stdout)" bash -c '
  grep -q "^What to remove" stdout && grep -q "^How to make up for it" stdout && grep -q "^Examples" stdout &&
  grep -q -e "--macs X " stdout && ! grep -q -e "--nmf-iterations" stdout && grep -q "more options: pare prune --help-all" stdout'
check "help is no wider than a hundred columns" "$(awk 'length > 100' stdout | head -n 1)" bash -c '! grep -v "^  pare" stdout | awk "length > 104" | grep -q .'
exits "prune --help-all" 0 prune --help-all
check "prune --help-all has what completions have" "it has not" bash -c '
  for flag in $("$1" completions bash | sed -n "s/^    prune) flags=.\(.*\). ;;/\1/p"); do
    [ "$flag" = --help ] || [ "$flag" = --help-all ] || grep -q -e "^  \(-., \)\{0,1\}$flag\( \|\$\)" stdout || { echo "$flag"; exit 1; }
  done' _ "$pare"
exits "the network that comes along" 0 inspect "$root/models/resnet20.cifar10.onnx" --json
check "the network that comes along: whole, and small enough to come along" "$(head -c 200 stdout)" bash -c '
  grep -q "\"parameters\": 269722" stdout && [ "$(stat -c %s "$1")" -lt 1200000 ]' _ "$root/models/resnet20.cifar10.onnx"
exits "no command" 2
exits "unknown command" 2 frobnicate
check "unknown command is named" "$(head -c 200 stderr)" grep -q frobnicate stderr
exits "missing argument" 2 inspect
exits "unknown architecture" 2 inspect --arch lenet-300-10
check "unknown architecture: the nearest is offered" "$(head -c 300 stderr)" grep -q 'lenet-300-100' stderr
exits "number out of range" 2 inspect "$models/mlp.onnx" --threads -3
exits "convert to an unknown format" 2 convert "$models/mlp.onnx" -o out.xyz

# --- files that are not there -----------------------------------------------------------------------------------------
for file in absent.onnx absent.safetensors absent.pth; do
  arch=()
  [ $file = absent.onnx ] || arch=(--arch lenet-300-100)
  for command in inspect convert; do
    out=()
    [ $command = convert ] && out=(-o out.onnx)
    exits "$command $file" 1 $command $file "${arch[@]}" "${out[@]}"
    check "$command $file: one line on stderr" "$(wc -l <stderr) lines" lines stderr 1
    check "$command $file: names the file" "$(head -c 200 stderr)" grep -q $file stderr
    check "$command $file: stdout is empty" "$(head -c 200 stdout)" test ! -s stdout
  done
done
exits "a directory instead of a file" 1 inspect "$scratch"
exits "output in a directory that is not there" 1 convert "$models/mlp.onnx" -o nowhere/out.onnx

# --- files that are not what they claim -------------------------------------------------------------------------------
run convert --arch lenet-5 -o good.safetensors --force
[ -s good.safetensors ] || run convert "$models/mlp.onnx" -o good.safetensors
cp "$models/mlp.onnx" good.onnx
cp "$root/tests/data/io/tiny_zip.pth" good.pt
cp "$root/tests/data/io/tiny_legacy.pth" good.pth
for kind in onnx safetensors pt pth; do
  whole=$(stat -c %s good.$kind)
  : >empty.$kind
  head -c 4096 "$pare" >garbage.$kind
  printf 'hello, world\n' >text.$kind
  printf '\377\377\377\377\377\377\377\177{"a":' >header.$kind
  head -c $((whole / 2)) good.$kind >half.$kind
  head -c $((whole - 1)) good.$kind >short.$kind
  head -c 5 good.$kind >five.$kind
  for damage in empty garbage text header half short five; do
    arch=()
    [ $kind = onnx ] || arch=(--arch lenet-5)
    exits "convert $damage.$kind" 1 convert $damage.$kind "${arch[@]}" -o out.onnx || continue
    check "convert $damage.$kind: says why, and of which file" "$(head -c 200 stderr)" grep -q "$damage.$kind" stderr
    check "convert $damage.$kind: nothing on stdout" "$(head -c 200 stdout)" test ! -s stdout
    check "convert $damage.$kind: no file is left" "$(ls)" test ! -e out.onnx -a -z "$(find . -name 'out.onnx*')"
    rm -f out.onnx*
  done
done
# A pickle that would run a command is refused by name and runs nothing.
printf 'cposix\nsystem\n(S"touch pwned"\ntR.' >evil.pth
exits "a pickle that calls os.system" 1 inspect evil.pth --arch lenet-5
check "a pickle that calls os.system: nothing was run" "it was run" test ! -e pwned

# --- results ----------------------------------------------------------------------------------------------------------
exits "inspect" 0 inspect "$models/mlp.onnx"
check "inspect: results are on stdout" "stdout is empty" test -s stdout
check "inspect: types of inputs and outputs, and what keeps channels" "$(cat stdout)" bash -c '
  grep -qE "^  input +x float32 \[" stdout && grep -qE "^  output +y float32 \[" stdout && grep -qE "^ +3 +1  it is the graph output .y.$" stdout'
exits "inspect --json" 0 inspect "$models/mlp.onnx" --json
check "inspect --json is JSON" "$(head -c 200 stdout)" is_json stdout
check "inspect --json lists groups" "it does not" \
  node -e 'const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")); process.exit(r.groups.some((g) => g.prunable) && r.groups.some((g) => !g.prunable && g.reason) ? 0 : 1)'
exits "inspect an architecture" 0 inspect --arch resnet20 --json
check "inspect --arch --json is JSON" "$(head -c 200 stdout)" is_json stdout
check "ResNet-20 has 269,722 trainable parameters and its running statistics" "$(head -c 300 stdout)" grep -qE '"parameters": ?(269722|271098|272474)' stdout
# Names of files may be any bytes; JSON is UTF-8.
odd=$'odd\xff.onnx'
cp "$models/mlp.onnx" "$odd"
exits "inspect --json of a name that is not UTF-8" 0 inspect "$odd" --json --log odd.jsonl
check "inspect --json of a name that is not UTF-8: JSON, in UTF-8" "$(head -c 200 stdout)" bash -c '
  iconv -f UTF-8 -t UTF-8 stdout odd.jsonl >/dev/null && node -e "JSON.parse(require(\"fs\").readFileSync(\"stdout\", \"utf8\"))"'
exits "--print-config of a name that is not UTF-8" 0 inspect "$odd" --print-config
exits "prune of a name that is not UTF-8" 0 prune "$odd" --channels 0.5 --round-to 1 --runs odd_runs -o odd_pruned.onnx --json
check "prune of a name that is not UTF-8: leaves a record" "$(ls odd_runs 2>/dev/null; head -c 200 stderr)" node -e '
  const fs = require("fs"), run = fs.readdirSync("odd_runs")[0];
  const r = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(fs.readFileSync(`odd_runs/${run}/record.json`)));
  process.exit(r.command === "prune" && r.options.model === "odd\ufffd.onnx" && r.result.after.parameters > 0 ? 0 : 1)'
exits "report of a name that is not UTF-8" 0 report odd_runs -o odd.html
for arch in lenet-300-100 lenet-5 mlpnet vgg11 vgg16-bn resnet18 wrn-40-4 mobilenetv1; do
  exits "inspect --arch $arch" 0 inspect --arch $arch
done

exits "convert to ONNX" 0 convert "$models/mlp.onnx" -o copy.onnx
check "convert writes the file" "there is none" test -s copy.onnx
exits "convert --json" 0 convert "$models/mlp.onnx" -o copy.onnx --json --force
check "convert --json is JSON" "$(head -c 200 stdout)" is_json stdout
exits "refuses to overwrite" 2 convert "$models/mlp.onnx" -o copy.onnx
check "refuses to overwrite: names the file and --force" "$(head -c 200 stderr)" grep -q -e 'copy.onnx.*--force' stderr
before=$(sha256sum <copy.onnx)
exits "a failure leaves the old file as it was" 1 convert half.onnx -o copy.onnx --force
check "a failure leaves the old file as it was: content" "it changed" test "$before" = "$(sha256sum <copy.onnx)"
exits "--force overwrites" 0 convert "$models/mlp.onnx" -o copy.onnx --force
exits "-q says nothing on stderr" 0 convert "$models/mlp.onnx" -o copy.onnx --force -q
check "-q says nothing on stderr: nothing" "$(head -c 200 stderr)" test ! -s stderr

exits "verify: a copy is the same" 0 verify "$models/mlp.onnx" copy.onnx
exits "verify: hidden units in another order are the same" 0 verify "$models/mlp.onnx" "$models/mlp_permuted.onnx"
exits "verify: another function is not" 4 verify "$models/mlp.onnx" "$models/mlp_changed.onnx"
exits "verify: what differs is recorded" 4 verify "$models/mlp.onnx" "$models/mlp_changed.onnx" --runs verified -q
check "verify: what differs is recorded: with the error and the figures" "$(find verified 2>/dev/null)" node -e '
  const fs = require("fs"), r = JSON.parse(fs.readFileSync(`verified/${fs.readdirSync("verified")[0]}/record.json`, "utf8"));
  process.exit(r.command === "verify" && /differs/.test(r.error) && r.result.same === false && r.result.outputs.length ? 0 : 1)'
exits "verify --json" 4 verify "$models/mlp.onnx" "$models/mlp_changed.onnx" --json
check "verify --json is JSON" "$(head -c 200 stdout)" is_json stdout
# Writes ONNX files of inputs a, b … of extents [1, N] and one node for each output, for node.
onnx='
  const fs = require("fs");
  const part = (field, ...parts) => {
    const body = Buffer.concat(parts.map((p) => Buffer.from(p)));
    return Buffer.concat([Buffer.from([(field << 3) | 2, (body.length & 127) | 128, body.length >> 7]), body]);
  };
  const number = (field, value) => Buffer.from([field << 3, value]);
  const value = (field, name, n) => part(field, part(1, name), part(2, part(1, number(1, 1),
    part(2, part(1, number(1, 1)), part(1, number(1, n))))));
  const onnx = (file, n, inputs, outputs) => fs.writeFileSync(file, Buffer.concat([number(1, 7), part(8, number(2, 13)), part(7,
    ...outputs.map(([name, op, ...from]) => part(1, ...from.map((x) => part(1, x)), part(2, name), part(4, op))), part(2, "small"),
    ...inputs.map((name) => value(11, name, n)), ...outputs.map(([name]) => value(12, name, n)))]));
  const npy = (file, values) => {
    const head = `{"descr": "<f4", "fortran_order": False, "shape": (1, ${values.length})}`.replaceAll("\"", "\x27").padEnd(117) + "\n";
    fs.writeFileSync(file, Buffer.concat([Buffer.from("\x93NUMPY\x01\x00\x76\x00", "latin1"), Buffer.from(head), Buffer.from(new Float32Array(values).buffer)]));
  };'
node -e "$onnx"'
  onnx("two.onnx", 4, ["a", "b"], [["y", "Neg", "a"], ["z", "Abs", "b"]]);
  onnx("single.onnx", 4, ["a"], [["y", "Neg", "a"], ["z", "Abs", "a"]]);
  onnx("less.onnx", 4, ["a", "b"], [["y", "Neg", "a"]]);
  npy("p.npy", [1, 2, 3, 4]), npy("q.npy", [-1, -2, -3, -4]);'
run convert --arch lenet-300-100 --width 0.1 -o flat28.onnx
for other in single less; do
  exits "verify: another number of inputs or outputs ($other)" 4 verify two.onnx $other.onnx --json
  check "verify: another number of inputs or outputs ($other): a document that says so" "$(head -c 300 stdout)" node -e '
    const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
    process.exit(!r.same && r.outputs.length === 2 && /inputs.*outputs/.test(r.outputs[0].problem) ? 0 : 1)'
done
exits "verify: inputs of another shape" 4 verify "$models/mlp.onnx" flat28.onnx --json
check "verify: inputs of another shape: a document that says so" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")); process.exit(!r.same && /does not take/.test(r.outputs[0].problem) ? 0 : 1)'
testdata=/usr/share/libonnx-testdata/data/node/test_relu
[ -d $testdata ] || testdata=$(dirname "$(find /usr/share -path '*node/test_relu/model.onnx' 2>/dev/null | head -n 1)")
if [ -e "$testdata/model.onnx" ]; then
  exits "verify --test-data" 0 verify "$testdata/model.onnx" --test-data "$testdata"
  exits "verify --test-data of another model" 4 verify "${testdata%relu}tanh/model.onnx" --test-data "$testdata"
fi

exits "run --random" 0 run "$models/mlp.onnx" --random -o outputs
check "run writes an array per output" "$(ls outputs 2>/dev/null)" test -s outputs/y.npy
exits "run: an unknown kind of input file" 2 run "$models/mlp.onnx" --input half.onnx -o outputs2
head -c 100 "$root/tests/data/io/c_order.npy" >half.npy
exits "run: a truncated array" 1 run "$models/mlp.onnx" --input half.npy -o outputs2
check "run: a truncated array: no output" "there is one" test ! -e outputs2
exits "run: several inputs as words" 0 run two.onnx --input p.npy q.npy -o outputs4
check "run: several inputs as words: each in its place" "$(ls outputs4)" bash -c '
  test "$(od -An -tf4 -j128 -N4 outputs4/y.npy) $(od -An -tf4 -j128 -N4 outputs4/z.npy)" = "$(od -An -tf4 -j128 -N4 q.npy) $(od -An -tf4 -j128 -N4 p.npy)"'
exits "run: several inputs by name" 0 run two.onnx --input b=p.npy a=q.npy -o outputs5
rm outputs4/y.npy
exits "run: one of two outputs is there" 2 run two.onnx --random -o outputs4
check "run: one of two outputs is there: nothing is written" "$(ls outputs4)" test ! -e outputs4/y.npy
exits "an unknown operator" 3 run "$models/unknown_operator.onnx" --random -o outputs3
check "an unknown operator: names the operator and the node" "$(head -c 300 stderr)" grep -q 'Frobnicate' stderr
check "an unknown operator: no output" "there is one" test ! -e outputs3

exits "same seed, same result" 0 run "$models/mlp.onnx" --random --seed 5 -o seed_a
run run "$models/mlp.onnx" --random --seed 5 -o seed_b
check "same seed, same result: bytes" "they differ" cmp -s seed_a/y.npy seed_b/y.npy

# --- open extents -----------------------------------------------------------------------------------------------------
# The same network with an open height and width: a dimension's value becomes an empty name.
run convert --arch resnet20 --width 0.25 -o closed.onnx
node -e '
  const fs = require("fs"), file = fs.readFileSync("closed.onnx"), from = Buffer.from("0a0208030a0208200a020820", "hex");
  Buffer.from("0a0208030a0212000a021200", "hex").copy(file, file.indexOf(from));
  fs.writeFileSync("open.onnx", file);'
name=$("$pare" inspect open.onnx --json --no-record | node -e 'console.log(JSON.parse(require("fs").readFileSync(0)).inputs[0].name)')
given=(--input-shape "$name=1x3x32x32")
read_result='const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));'
exits "open extents: run takes the size that is assumed" 0 run open.onnx --random --json
check "open extents: run says which" "$(head -c 300 stderr)" grep -q "any size: analysed at 1x3x224x224 (--input-shape" stderr
exits "open extents: bench takes it too" 0 bench open.onnx --json --threads 1 --rounds 1 --no-onnxruntime --no-record
exits "open extents: diff takes it too" 0 diff open.onnx open.onnx --json
check "open extents: diff compares the outputs" "$(head -c 300 stdout)" bash -c '! grep -q not_compared stdout'
exits "--input-shape: run" 0 run open.onnx --random -o open_outputs "${given[@]}"
exits "--input-shape: inspect" 0 inspect open.onnx --json "${given[@]}"
check "--input-shape: inspect counts, and shows the input as it is" "$(head -c 300 stdout)" \
  node -e "$read_result"'process.exit(r.macs > 0 && /3, [?], [?]/.test(r.inputs[0].shape) ? 0 : 1)'
exits "--input-shape: bench" 0 bench open.onnx --json --threads 1 --batch 2 --rounds 1 --no-onnxruntime --no-record "${given[@]}"
check "--input-shape: bench in its own batch" "$(head -c 300 stdout)" \
  node -e "$read_result"'process.exit(r.batch === 2 && r.models[0].macs > 0 && r.notes.length === 0 ? 0 : 1)'
exits "--input-shape: verify" 0 verify closed.onnx open.onnx "${given[@]}"
exits "--input-shape: diff" 0 diff closed.onnx open.onnx --json "${given[@]}"
check "--input-shape: diff compares the outputs" "$(head -c 300 stdout)" \
  node -e "$read_result"'process.exit(!r.not_compared && r.outputs.length === 1 && r.totals.b.macs === r.totals.a.macs ? 0 : 1)'
exits "--input-shape: fuse" 0 fuse open.onnx open.onnx --method hungarian -o open_fused.onnx --no-record "${given[@]}"
exits "--input-shape: prune" 0 prune open.onnx --channels 0.5 --round-to 1 --compensate synthetic --samples 4 --distill-steps 2 \
  -o open_pruned.onnx --json --no-record "${given[@]}"
check "--input-shape: prune counts" "$(head -c 300 stdout)" node -e "$read_result"'process.exit(r.before.macs > r.after.macs && r.after.macs > 0 ? 0 : 1)'
for file in open_fused open_pruned; do
  run inspect $file.onnx --json
  check "--input-shape: the input of $file stays open" "$(grep -A3 '"inputs"' stdout)" \
    node -e "$read_result"'process.exit(/3, [?], [?]/.test(r.inputs[0].shape) ? 0 : 1)'
done
exits "open extents: inspect assumes a size" 0 inspect open.onnx
check "open extents: inspect says which, and counts" "$(cat stdout stderr)" bash -c 'grep -q "assumed '"$name"' .1, 3, 224, 224." stdout && grep -q "any size: analysed at 1x3x224x224 (--input-shape" stderr && ! grep -q "no channel groups" stdout'
exits "open extents: prune judges" 0 prune open.onnx --channels 0.5 --round-to 1 --compensate most-sim -o judged.onnx --json --no-record
check "open extents: prune judges on noise of that size" "$(head -c 600 stderr; head -c 300 stdout)" bash -c 'grep -q "\"judges\": 16" stdout && ! grep -q "not looked at" stderr'
exits "open extents: prune" 0 prune open.onnx --channels 0.5 --round-to 1 --compensate most-sim --unchecked -o any_size.onnx --json --no-record
check "open extents: prune says at which size it counts" "$(head -c 300 stderr)" grep -q "analysed at 1x3x224x224" stderr
check "open extents: prune counts" "$(head -c 300 stdout)" node -e "$read_result"'process.exit(r.before.macs > r.after.macs && r.after.macs > 0 ? 0 : 1)'
run prune closed.onnx --channels 0.5 --round-to 1 --compensate most-sim --unchecked -o any_closed.onnx --no-record
exits "open extents: prune finds the same channels as at a fixed size" 0 verify any_closed.onnx any_size.onnx "${given[@]}"
exits "--input-shape: no such input" 2 run open.onnx --random -o open_outputs2 --input-shape nosuch=1x3x32x32
check "--input-shape: no such input: names those that are" "$(head -c 300 stderr)" grep -q "nosuch.*$name" stderr
exits "--input-shape: an extent that is fixed" 2 inspect open.onnx --input-shape "$name=1x4x32x32"
exits "--input-shape: too few extents" 2 inspect open.onnx --input-shape "$name=3x32x32"

# --- fuse -------------------------------------------------------------------------------------------------------------
exits "fuse: a model and its permuted copy" 0 fuse "$models/mlp.onnx" "$models/mlp_permuted.onnx" -o fused.onnx
check "fuse: prints the layers" "$(head -c 300 stdout)" grep -q 'split' stdout
exits "fuse: a model and its permuted copy are that model" 0 verify "$models/mlp.onnx" fused.onnx
for method in ot hungarian greedy rebasin merge-many barycentre; do
  exits "fuse --method $method" 0 fuse "$models/mlp.onnx" "$models/mlp_permuted.onnx" -o fused.onnx --force --method $method
  exits "fuse --method $method: the same function" 0 verify "$models/mlp.onnx" fused.onnx
done
exits "fuse --weights 1,0" 0 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx --force --weights 1,0
exits "fuse --weights 1,0: the first model" 0 verify "$models/mlp.onnx" fused.onnx
exits "fuse --json" 0 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx --force --json --plans plans
check "fuse --json has before, after, groups and seconds" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(r.before.models.length === 2 && r.after.parameters > 0 && r.groups.length > 0 && r.groups[0].cost >= 0 && r.seconds.method >= 0 ? 0 : 1)'
check "fuse --plans writes images" "$(ls plans 2>/dev/null)" bash -c 'ls plans/*.png >/dev/null'
exits "fuse --opset" 0 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx --force --opset 17
check "fuse --opset: it is written" "it is another" node -e '
  const file = require("fs").readFileSync("fused.onnx"), has = (hex) => file.includes(Buffer.from(hex, "hex"));
  process.exit(has("42040a001011") || has("42021011") ? 0 : 1)'
exits "fuse: runs that cannot be written" 0 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx --force --json --runs /proc/none
check "fuse: runs that cannot be written: a result without plans, and a note" "$(head -c 300 stderr)" bash -c '
  grep -q "note: no plans were kept" stderr && node -e "process.exit(JSON.parse(require(\"fs\").readFileSync(\"stdout\")).plans.length)"'
exits "fuse: plans that cannot be written" 1 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o unplanned.onnx --plans /proc/none
check "fuse: plans that cannot be written: said before anything is" "$(head -c 300 stderr)" \
  bash -c 'grep -q "^pare: /proc/none: the directory cannot be made" stderr && test ! -e unplanned.onnx'
exits "fuse --repair rescale without data" 0 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx --force --repair rescale
exits "fuse --repair regression without data" 0 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx --force --repair regression
exits "fuse: refuses to overwrite" 2 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx
exits "fuse: one model" 2 fuse "$models/mlp.onnx" -o one.onnx
for weights in "0.5,0.5" "0.5 0.5"; do
  # shellcheck disable=SC2086
  exits "fuse --weights $weights before the models" 0 fuse --weights $weights "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx --force
done
for weights in 0,0 1,-1 1 nan,1; do
  exits "fuse --weights $weights" 2 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o one.onnx --weights=$weights
done
exits "fuse: activations without data" 2 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o one.onnx --align activations
while read -r option value method; do
  exits "fuse --method $method: refuses $option, which it does not look at" 2 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o one.onnx --method "$method" "$option" "$value"
  check "fuse --method $method: refuses $option by name" "$(head -c 300 stderr)" grep -q -e "^pare: $option: " stderr
done <<'OPTIONS'
--solver sinkhorn barycentre
--importance l1 barycentre
--align activations barycentre
--ground cosine barycentre
--solver sinkhorn hungarian
--scaling published greedy
--ground cosine average
--regularization 0.5 ot
--rho 0.5 ot
--inputs 7 rebasin
--samples 7 ot
OPTIONS
exits "fuse: an unknown method" 2 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o one.onnx --method magic
run convert --arch mlpnet --width 0.1 -o small.onnx
run convert --arch mlpnet --width 0.2 --seed 1 -o large.onnx
run convert --arch mlpnet --width 0.1 --classes 7 -o seven.onnx
run convert --arch convnet -o convnet.onnx
run convert --arch convnet-bn -o convnet-bn.onnx
exits "fuse: into smaller widths" 0 fuse large.onnx small.onnx --into small.onnx -o into.onnx --json
check "fuse: into smaller widths: they are the target's" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")); process.exit(r.after.parameters === r.before.models[1].parameters ? 0 : 1)'
exits "fuse: another number of classes" 1 fuse small.onnx seven.onnx -o one.onnx
check "fuse: another number of classes: names the node" "$(head -c 300 stderr)" grep -q 'fc4' stderr
exits "fuse: another topology" 1 fuse convnet.onnx convnet-bn.onnx -o one.onnx
check "fuse: another topology: names the node" "$(head -c 300 stderr)" grep -q 'act_conv1' stderr
check "fuse: a failure leaves no file" "there is one" test ! -e one.onnx

exits "data list" 0 data list
exits "data list --json" 0 data list --json
check "data list --json is JSON" "$(head -c 200 stdout)" is_json stdout
check "data list: scenes are here where cifar10 and fashion-mnist are" "$(head -c 600 stdout)" node -e '
  const list = JSON.parse(require("fs").readFileSync("stdout", "utf8")), sets = list.datasets;
  const here = (name) => sets.find((d) => d.name === name).found;
  process.exit(here("scenes") === (here("cifar10") && here("fashion-mnist")) ? 0 : 1)'
exits "data path scenes" 2 data path scenes
check "data path scenes: says how to keep them" "$(head -c 300 stderr)" grep -q 'composed in memory.*data make scenes' stderr
exits "data make: nothing to make" 2 data make castles -o castles
exits "data make scenes: no directory" 2 data make scenes
mkdir -p there
exits "data make scenes: refuses to overwrite" 2 data make scenes -o there
# Writes idx files, for node.
idx='
  const fs = require("fs");
  const idx = (file, sizes, fill) => {
    const count = sizes.reduce((a, b) => a * b, 1), data = Buffer.alloc(4 + 4 * sizes.length + count);
    data[2] = 8; data[3] = sizes.length; sizes.forEach((n, i) => data.writeUInt32BE(n, 4 + 4 * i));
    for (let i = 0; i < count; ++i) data[4 + 4 * sizes.length + i] = fill(i);
    fs.writeFileSync(file, data);
  };'
# Three all-black scenes of 56 x 56, each with a class of its own, as `data make scenes` lays them out.
mkdir scenes
node -e "$idx"'
  idx("scenes/test-images-idx4-ubyte", [3, 3, 56, 56], () => 0);
  idx("scenes/test-labels-idx2-ubyte", [3, 10], (i) => (i % 11 === 0 ? 1 : 0));
  idx("scenes/test-masks-idx3-ubyte", [3, 56, 56], (i) => (i % 56 < 20 ? 1 + Math.floor(i / 3136) : 0));'
run convert --arch vgg9-bn -o vgg9.onnx --force
run convert --arch vgg9-bn --seed 1 -o other.onnx --force
exits "eval of multi-label data" 0 eval vgg9.onnx vgg9.onnx --ensemble --data scenes:scenes --json
check "eval of multi-label data: five metrics of three rows" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(r.models.length === 3 && r.models.every((m) => ["map", "class-map", "f1", "macro-f1", "loss"].every((k) => m.metrics[k] >= 0)) ? 0 : 1)'
exits "eval: a model between numbers and flags" 0 eval --data scenes:scenes --mean 0.28 0.3,0.3 vgg9.onnx --std 0.35 --json
check "eval: a model between numbers and flags: it is evaluated" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")); process.exit(r.models.length === 1 && r.models[0].model === "vgg9.onnx" ? 0 : 1)'
exits "eval: top1 of multi-label data" 2 eval vgg9.onnx --data scenes:scenes --metrics top1
exits "eval: scenes that are not there" 1 eval vgg9.onnx --data scenes:scenes --split train
check "eval: scenes that are not there: names the file" "$(head -c 200 stderr)" grep -q 'train-images' stderr
exits "eval of a kit that is none" 1 eval vgg9.onnx --data voc:scenes

exits "localize" 0 localize vgg9.onnx vgg9.onnx --data scenes:scenes --json
check "localize: a model is like itself, every metric is there" "$(head -c 400 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")), m = r.models[1];
  process.exit(r.pairs === 3 && m.cosine > 0.999 && m.rank_correlation > 0.999 && m.present.auc >= 0 && m.present.point >= 0 && m.metrics.map > 0 ? 0 : 1)'
exits "localize by relevance" 0 localize vgg9.onnx --data scenes:scenes --method lrp --tolerance 5
check "localize by relevance: says what is lost" "$(head -c 400 stdout)" grep -q 'vgg9.onnx: .* % of the score is lost in the mean' stdout
exits "localize: an unknown method" 2 localize vgg9.onnx --data scenes:scenes --method magic
mkdir digits
node -e "$idx"'
  idx("digits/t10k-images-idx3-ubyte", [2, 28, 28], (i) => i % 256);
  idx("digits/t10k-labels-idx1-ubyte", [2], (i) => i);'
exits "localize: data without masks" 2 localize convnet.onnx --data mnist:digits
check "localize: data without masks: says so" "$(head -c 300 stderr)" grep -q 'has no masks' stderr
run convert --arch vgg9-bn --classes 3 -o three.onnx
exits "localize: a model of other classes" 1 localize vgg9.onnx three.onnx --data scenes:scenes
check "localize: a model of other classes: names it" "$(head -c 300 stderr)" grep -q 'three.onnx.*3 scores.*10 classes' stderr
exits "explain of a data set" 0 explain vgg9.onnx --data scenes:scenes --count 2 -o maps --json
check "explain: a picture for each class present" "$(ls maps)" test "$(find maps -name '*.png' | wc -l)" -eq 2
check "explain --json is JSON" "$(head -c 200 stdout)" is_json stdout
exits "explain: refuses a directory with files" 2 explain vgg9.onnx --data scenes:scenes -o maps
picture=$(find maps -name '*.png' | head -n 1)
for method in gradcam hirescam gradcam++ gradient input-x-gradient ig smoothgrad ebp contrastive-ebp lrp rap; do
  exits "explain an image by $method" 0 explain vgg9.onnx "$picture" --method $method --compare vgg9.onnx --class 3 -o "maps_$method"
  check "explain an image by $method: one picture" "$(ls "maps_$method")" test "$(find "maps_$method" -name '*.png' | wc -l)" -eq 1
done
run convert --arch lenet-5 -o biased.onnx
exits "explain: biases keep a part" 0 explain biased.onnx "$picture" --class 3 --method lrp --lrp zero --layer input -o maps_biased
check "explain: says that it is lost" "$(cat stdout stderr)" grep -qE 'biased.onnx: ([0-9.]+ % of the score is lost|relevance is off by)' stdout
check "explain: warns of it" "$(cat stderr)" grep -q 'note: biased.onnx: the maps do not add up to the score' stderr
exits "explain: a rule without biases" 0 explain biased.onnx "$picture" --class 3 --method lrp --layer input -o maps_kept
check "explain: nothing is lost, no warning" "$(cat stderr)" bash -c '! grep -q "add up" stderr'
run convert --arch lenet-5 -o biased.safetensors
node -e '
  const fs = require("fs"), file = fs.readFileSync("biased.safetensors");
  file.fill(0, 8 + Number(file.readBigUInt64LE(0)));
  fs.writeFileSync("silent.safetensors", file);'
run convert silent.safetensors --arch lenet-5 -o silent.onnx
exits "explain beside a model that says nothing" 0 explain biased.onnx "$picture" --class 3 --compare silent.onnx -o maps_silent
check "explain: no map, not a cosine of zero" "$(cat stdout)" bash -c 'grep -q "no map" stdout && ! grep -q "0.0000 *0.0000" stdout'
exits "explain beside two models" 0 explain vgg9.onnx "$picture" --compare vgg9.onnx,other.onnx --class 3 -o maps_three --json
check "explain beside two models: each compared" "$(head -c 400 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")), [same, other] = r.explanations[0].compared;
  process.exit(same.cosine > 0.999 && other.model === "other.onnx" && other.cosine < 0.999 && r.nan_maps === 0 &&
               r.compared[1].model === "other.onnx" && r.compared[1].layer === r.layer ? 0 : 1)'
exits "explain beside a model of other classes" 2 explain vgg9.onnx "$picture" --compare three.onnx --class 3 -o maps2
check "explain beside a model of other classes: names it" "$(head -c 300 stderr)" grep -q 'three.onnx.*3 classes' stderr
mkdir left right
cp "$picture" left/1.png
cp "$picture" right/1.png
exits "explain images of one name" 0 explain vgg9.onnx left/1.png right/1.png --class 3 -o maps_named --json
check "explain images of one name: a picture for each" "$(head -c 400 stdout)" node -e '
  const fs = require("fs"), files = JSON.parse(fs.readFileSync("stdout", "utf8")).explanations.map((e) => e.file);
  process.exit(files.join() === "maps_named/1-3.png,maps_named/1-3-2.png" && files.every((f) => fs.existsSync(f)) ? 0 : 1)'
exits "explain beside a model of other images" 1 explain vgg9.onnx "$picture" --compare convnet.onnx -o maps2
check "explain beside a model of other images: names both and their images" "$(head -c 300 stderr)" \
  grep -qE 'convnet.onnx.*[[]1, 28, 28[]].*vgg9.onnx.*[[]3, 56, 56[]]' stderr
exits "explain: neither images nor data" 2 explain vgg9.onnx -o maps2
exits "explain: a class out of range" 2 explain vgg9.onnx "$picture" --class 10 -o maps2
exits "explain: a class of no name" 2 explain vgg9.onnx "$picture" --class unicorn -o maps2
exits "explain: a layer that is not there" 2 explain vgg9.onnx "$picture" --layer conv99 -o maps2
for odd in "--lrp epsilon" "--steps 5" "--samples 5" "--noise 0.3" "--size 64"; do
  exits "explain: an option that this has no use for, $odd" 2 explain vgg9.onnx "$picture" --class 3 $odd -o maps2
  check "explain: says which, $odd" "$(head -c 300 stderr)" grep -q -e "^pare: ${odd% *}:" stderr
done
exits "localize: an option of another method" 2 localize vgg9.onnx --data scenes:scenes --lrp epsilon
exits "explain: a layer without extent" 1 explain vgg9.onnx "$picture" --layer flatten -o maps2
exits "explain: a picture that is none" 1 explain vgg9.onnx half.onnx -o maps2
check "explain: a picture that is none: names the file" "$(head -c 200 stderr)" grep -q half.onnx stderr
exits "explain: a model without images" 1 explain "$models/mlp.onnx" "$picture" -o maps2

# Six scenes of noise for training and six for testing.
node -e "$idx"'
  let state = 1;
  const noise = () => (state = (state * 48271) % 2147483647) % 256;
  for (const split of ["train", "test"]) {
    idx(`scenes/${split}-images-idx4-ubyte`, [6, 3, 56, 56], noise);
    idx(`scenes/${split}-labels-idx2-ubyte`, [6, 10], (i) => (i % 11 === 0 ? 1 : 0));
    idx(`scenes/${split}-masks-idx3-ubyte`, [6, 56, 56], (i) => (i % 56 < 20 ? 1 + Math.floor(i / 3136) : 0));
  }'
learn=(--data scenes:scenes --epochs 1 --batch 3 --threads 1 --runs learned)
student=(--arch vgg9-bn --width 0.25)
for match in none at at-grad ewa swa sswa; do
  exits "distill --match $match" 0 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match $match -o student.onnx --force --json --attribution-drift 4
  check "distill --match $match: smaller, with metrics and drift" "$(head -c 400 stdout)" node -e '
    const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
    process.exit(r.after.parameters < r.before.parameters / 5 && r.after.metrics.map > 0 && r.history[0].loss > 0 && r.attribution_drift.images === 4 ? 0 : 1)'
done
exits "distill: the same command again" 0 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match sswa -o student.onnx
check "distill: the same command again: is done already" "$(head -c 300 stderr)" grep -q "done already" stderr
exits "distill: done already, but the file is another run's" 2 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match ewa -o student.onnx
check "distill: done already, but the file is another run's: names --force" "$(head -c 300 stderr)" grep -q -e 'student.onnx.*--force' stderr
exits "distill: another run does not replace a file" 2 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match swa --drop 0.1 -o student.onnx
exits "distill into a model" 0 distill --teacher vgg9.onnx --student student.onnx "${learn[@]}" --match-layers features.23 --match swa -o again.onnx
short=(train --arch vgg9-bn --width 0.1 "${learn[@]}" -q)
for out in t1 t2; do exits "train -o $out.onnx" 0 "${short[@]}" -o $out.onnx; done
check "train: each output has its record" "$(ls learned)" bash -c 'for out in t1 t2; do grep -lq "\"output\": \"$out.onnx\"" learned/train-*/record.json || exit 1; done'
check "train: one training" "$(ls learned)" test "$(ls -d learned/train-*/state.safetensors | wc -l)" -eq 1
exits "train: another rate" 0 "${short[@]}" --lr 0.3 -o t3.onnx
exits "train: done already, but the file is another run's" 2 "${short[@]}" --lr 0.3 -o t1.onnx
check "train: done already, but the file is another run's: names --force" "$(head -c 300 stderr)" grep -q -e 't1.onnx.*--force' stderr
exits "train: done already, the file is its own" 0 "${short[@]}" -o t1.onnx
exits "train to weights" 0 "${short[@]}" -o t1.safetensors
exits "train to weights: done already" 0 "${short[@]}" -o t1.safetensors
exits "train to weights: done already, but the file is another run's" 2 "${short[@]}" --lr 0.3 -o t1.safetensors
exits "distill: no teacher" 2 distill "${student[@]}" "${learn[@]}" -o none.onnx
exits "distill: no student" 2 distill --teacher vgg9.onnx "${learn[@]}" -o none.onnx
exits "distill: an unknown matching" 2 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match magic -o none.onnx
exits "distill: a part of channels above one" 2 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match sswa --drop 2 -o none.onnx
exits "distill: the drop of another matching" 2 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match swa --drop 0.5 -o none.onnx
exits "distill: the weight of no matching" 2 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match-weight 5 -o none.onnx
exits "distill: a layer that is not there" 2 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match swa --match-layers conv99 -o none.onnx
exits "distill: layers of different extents" 1 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --match swa --match-layers features.13=features.26 -o none.onnx
check "distill: layers of different extents: says both" "$(head -c 300 stderr)" grep -q '7x7.*14x14' stderr
run convert --arch lenet-300-100 --image 3,56,56 -o flat.onnx
exits "distill: a teacher without extent" 1 distill --teacher flat.onnx "${student[@]}" "${learn[@]}" --match swa -o none.onnx
check "distill: a teacher without extent: says so" "$(head -c 300 stderr)" grep -q 'spatial extent' stderr
exits "distill: a teacher of other images" 1 distill --teacher convnet.onnx "${student[@]}" "${learn[@]}" -o none.onnx
check "distill: nothing is left of what failed" "$(ls none.onnx 2>/dev/null)" test ! -e none.onnx

exits "distill with another normalisation" 0 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]}" --mean 0.1 --std 0.2 -o shifted.onnx
for command in "localize student.onnx shifted.onnx --data scenes:scenes" "explain student.onnx --data scenes:scenes --compare shifted.onnx -o maps_shifted"; do
  # shellcheck disable=SC2086
  exits "${command%% *} of models of two normalisations" 0 $command
  check "${command%% *} of models of two normalisations: names the second" "$(head -c 300 stderr)" \
    bash -c 'grep -q "note: shifted.onnx: .*mean of 0.1" stderr && ! grep -q "student.onnx: learned" stderr'
done
class=$("$pare" explain student.onnx --data scenes:scenes --count 1 --json -q --no-record -o maps_class | node -e '
  process.stdout.write(JSON.parse(require("fs").readFileSync(0, "utf8")).explanations[0].class_name)')
exits "explain an image for a class by name" 0 explain student.onnx "$picture" --class "$class" -o maps_by_name --json
check "explain an image for a class by name: that class" "$class: $(head -c 300 stdout)" node -e '
  const [e] = JSON.parse(require("fs").readFileSync("stdout", "utf8")).explanations; process.exit(e.class === 0 && e.class_name === process.argv[1] ? 0 : 1)' "$class"

prune=(prune vgg9.onnx --channels 0.5 --compensate none --round-to 1 --data scenes:scenes --batch 3 --threads 1 --runs learned)
exits "prune --finetune --match" 0 "${prune[@]}" --finetune 1 --match sswa -o matched.onnx --attribution-drift 3 --json
check "prune: attribution drift" "$(head -c 300 stdout)" node -e '
  const d = JSON.parse(require("fs").readFileSync("stdout", "utf8")).attribution_drift; process.exit(d.cosine >= 0 && d.rank_correlation >= -1 ? 0 : 1)'
exits "prune --match without fine-tuning" 2 "${prune[@]}" --match swa -o none.onnx
exits "sparsify --match" 0 sparsify vgg9.onnx "${learn[@]}" --method imp-continued --rounds 2 --match ewa --attribution-drift 3 -o sparse.onnx
check "sparsify: attribution drift is printed" "$(head -c 600 stdout)" grep -q 'attribution: cosine' stdout
exits "sparsify --match without a dense network" 2 sparsify "${student[@]}" "${learn[@]}" --method cs --match ewa -o none.onnx
exits "sparsify --match without fine-tuning" 2 sparsify vgg9.onnx "${learn[@]}" --method magnitude --sparsity 0.5 --match ewa -o none.onnx
check "sparsify --match without fine-tuning: names it" "$(head -c 300 stderr)" grep -q -e '--finetune' stderr
exits "sparsify --match in one shot without fine-tuning" 2 sparsify vgg9.onnx --data scenes:scenes --method wanda --sparsity 0.5 --match ewa -o none.onnx
check "sparsify --match in one shot: names it" "$(head -c 300 stderr)" grep -q -e '--finetune.*wanda trains nothing' stderr
mkdir untested
cp scenes/train-* untested
exits "attribution drift without test images" 1 distill --teacher vgg9.onnx "${student[@]}" "${learn[@]/scenes:scenes/scenes:untested}" --attribution-drift 3 -o untested.onnx
check "attribution drift without test images: before anything is trained" "$(head -c 300 stderr)" \
  bash -c 'grep -q "attribution-drift.*test-images" stderr && test ! -e untested.onnx'
exits "fuse --attribution-drift" 0 fuse vgg9.onnx vgg9.onnx -o fused.onnx --force --data scenes:scenes --attribution-drift 3 --json
check "fuse --attribution-drift: a model with itself looks the same" "$(tail -c 300 stdout)" node -e '
  process.exit(JSON.parse(require("fs").readFileSync("stdout", "utf8")).attribution_drift.cosine > 0.99 ? 0 : 1)'
exits "attribution drift of a student without extent" 1 distill --teacher vgg9.onnx --arch lenet-300-100 "${learn[@]}" --attribution-drift 3 -o flat_student.onnx
check "attribution drift of a student without extent: before anything is trained" "$(head -c 300 stderr)" \
  bash -c 'grep -q "attribution-drift.*spatial extent" stderr && test ! -e flat_student.onnx'
exits "attribution drift without data" 2 prune --arch lenet-5 --channels 0.5 --round-to 1 --attribution-drift 3 -o none.onnx
exits "attribution drift of a model without extent" 1 prune flat.onnx --channels 0.5 --data scenes:scenes --attribution-drift 3 -o none.onnx
check "attribution drift of a model without extent: says so" "$(head -c 300 stderr)" grep -q 'attribution-drift.*spatial extent' stderr
exits "roar" 0 roar vgg9.onnx student.onnx "${learn[@]}" --retrain vgg9 --retrain-width 0.1 --levels 0.2,0.7 --plot roar.svg --json
check "roar: two curves and a random one" "$(head -c 400 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(r.metric === "f1" && r.curves.length === 3 && r.curves[2].maps === "random" && r.curves.every((c) => c.points.length === 2) && r.whole.f1 >= 0 ? 0 : 1)'
check "roar draws a plot" "there is none" grep -q '<svg' roar.svg
check "roar: maps that say nothing are counted" "$(head -c 400 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")); process.exit(r.curves.every((c) => c.zero_maps >= 0 && c.nan_maps === 0) ? 0 : 1)'
exits "roar: several seeds" 0 roar vgg9.onnx "${learn[@]}" --retrain vgg9 --retrain-width 0.1 --levels 0.2 --seeds 2
check "roar: several seeds have standard errors" "$(head -c 400 stdout)" grep -q 'vgg9.onnx *0\.[0-9]* ± 0\.' stdout
exits "roar: a model of other classes" 1 roar vgg9.onnx three.onnx "${learn[@]}" --seed 9
check "roar: a model of other classes: before anything is trained" "$(head -c 300 stderr)" \
  bash -c 'grep -q "three.onnx.*3 scores.*10 classes" stderr && ! grep -q "epoch" stderr'
exits "roar: of another part of the data" 2 roar vgg9.onnx "${learn[@]}" --split test
check "roar: of another part of the data: says what it takes" "$(head -c 300 stderr)" grep -q -e '--split: expected train, found test' stderr
exits "train: of another part of the data" 2 train --arch vgg9 "${learn[@]}" --split test -o none.onnx
exits "train: the part it learns from may be named" 0 train --arch vgg9 --width 0.1 "${learn[@]}" --split train -o split.onnx
exits "roar: a level out of range" 2 roar vgg9.onnx "${learn[@]}" --levels 1.5
exits "roar: refuses to overwrite" 2 roar vgg9.onnx "${learn[@]}" --plot roar.svg

exits "eval of an unknown data set" 2 eval "$models/mlp.onnx" --data no-such-data
exits "bench --json" 0 bench "$models/mlp.onnx" --json --threads 1
check "bench --json is JSON" "$(head -c 200 stdout)" is_json stdout
run convert --arch lenet-300-100 -o dense.safetensors
node -e '
  const fs = require("fs"), file = fs.readFileSync("dense.safetensors");
  file.fill(0, 8 + Number(file.readBigUInt64LE(0)));
  fs.writeFileSync("zeros.safetensors", file);'
exits "bench of one sparse model" 0 bench zeros.safetensors --arch lenet-300-100 --json --threads 1 --rounds 5 --seconds 0.1 --no-onnxruntime --no-record
check "bench of one sparse model: it is compared with none" "$(head -c 400 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")); process.exit(r.models[0].zeros === 1 && r.notes.length === 0 ? 0 : 1)'
run convert --arch lenet-300-100 -o dense.onnx
exits "prune a sparse model" 0 prune zeros.safetensors --arch lenet-300-100 --channels 0.5 --compensate none --round-to 1 -o zeros_pruned.onnx --no-record
exits "bench of a model with removed channels and zeros" 0 bench dense.onnx zeros_pruned.onnx --json --threads 1 --rounds 5 --seconds 0.1 --no-onnxruntime --no-record
check "bench: does not ask for what was done" "$(head -c 900 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(r.models[1].mac_ratio > 1.5 && !r.notes.some((n) => /bought nothing|Remove channels/i.test(n)) ? 0 : 1)'
# The first float of the data becomes NaN.
node -e '
  const fs = require("fs"), file = fs.readFileSync("dense.safetensors");
  file.writeFloatLE(NaN, 8 + Number(file.readBigUInt64LE(0)));
  fs.writeFileSync("nan.safetensors", file);'
exits "prune a model with NaN" 1 prune nan.safetensors --arch lenet-300-100 --channels 0.5 -o nan.onnx
check "prune a model with NaN: says which tensor, and why" "$(cat stderr)" grep -qE 'holds NaN: its channels can neither be ranked nor merged' stderr
check "prune a model with NaN: writes nothing" "$(ls nan.onnx 2>/dev/null)" test ! -e nan.onnx

exits "verify: NaN against NaN" 0 verify nan.safetensors nan.safetensors --arch lenet-300-100 --json
check "verify: NaN against NaN: is said" "$(cat stderr)" grep -q "note: output .* numbers are NaN in both, which says nothing" stderr
check "verify: NaN against NaN: is counted" "$(head -c 300 stdout)" node -e '
  process.exit(JSON.parse(require("fs").readFileSync("stdout", "utf8")).outputs[0].nan > 0 ? 0 : 1)'
exits "verify: numbers" 0 verify dense.onnx dense.onnx --json
check "verify: numbers: nothing is said" "$(cat stderr)" test ! -s stderr

# Another number of threads and another directory are other measurements.
mkdir -p timed/one timed/two
for place in one two; do cp "$models/mlp.onnx" timed/$place/m.onnx; done
brief=(--rounds 1 --seconds 0.01 --no-onnxruntime -q --runs)
for threads in 1 2; do exits "bench --threads $threads" 0 bench timed/one/m.onnx --threads $threads "${brief[@]}" timed/runs; done
for place in one two; do (cd timed/$place && "$pare" bench m.onnx --threads 1 "${brief[@]}" ../runs >/dev/null); done
check "bench: a record of each" "$(ls timed/runs)" test "$(ls timed/runs/*/record.json | wc -l)" -eq 4
# A file that fixes its batch: throughput, speed-up and MACs are of an image.
run convert --arch lenet-5 -o lenet-open.onnx
node -e '
  // The open extent, {dim_param: NAME}, becomes {dim_value: 8}: a varint filled up to the same length.
  const fs = require("fs"), file = fs.readFileSync("lenet-open.onnx");
  for (const name of ["N", "batch"])
    for (const open = Buffer.from(`\x12${String.fromCharCode(name.length)}${name}`); file.includes(open); ) {
      const at = file.indexOf(open);
      file.fill(0x80, at, at + open.length);
      file[at] = 8, file[at + 1] = 0x88, file[at + open.length - 1] = 0;
    }
  fs.writeFileSync("lenet-fixed.onnx", file);'
exits "bench of a fixed batch" 0 bench lenet-open.onnx lenet-fixed.onnx --json --threads 1 --rounds 5 --seconds 0.1 --no-onnxruntime --no-record
check "bench of a fixed batch: figures of an image, and said" "$(head -c 900 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")), [a, b] = r.models;
  const rate = Math.abs(b.images_per_second * b.median_seconds - 8) < 1e-6;
  const faster = Math.abs(b.speed_up - b.images_per_second / a.images_per_second) < 1e-6;
  process.exit(b.batch === 8 && rate && faster && b.mac_ratio === 1 && a.macs === b.macs && /fixed.onnx.*batch of 8/.test(r.notes[0]) ? 0 : 1)'
# MACs of inputs of different sizes are no ratio.
exits "bench at two sizes" 0 bench closed.onnx open.onnx --json --threads 1 --rounds 5 --seconds 0.1 --no-onnxruntime --no-record
check "bench at two sizes: no ratio of MACs, and it is said" "$(head -c 900 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")), [a, b] = r.models;
  const said = r.notes.some((n) => /open.onnx: MACs are counted at 1x3x224x224, those of closed.onnx at 1x3x32x32/.test(n));
  process.exit(a.mac_ratio === 1 && !("mac_ratio" in b) && b.macs > a.macs && said ? 0 : 1)'
exits "diff of a fixed batch" 0 diff lenet-open.onnx lenet-fixed.onnx --json --no-record
check "diff of a fixed batch: names the input, MACs of an image" "$(tail -c 600 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(r.inputs.length === 1 && /8x1x28x28/.test(r.inputs[0].b) && r.totals.a.macs === r.totals.b.macs ? 0 : 1)'
exits "inspect of a fixed batch" 0 inspect lenet-fixed.onnx --json
cp stdout fixed.json
exits "inspect of an open batch" 0 inspect lenet-open.onnx --json
check "inspect of a fixed batch: MACs of an image, in all and by layer" "$(head -c 300 stdout)" node -e '
  const read = name => JSON.parse(require("fs").readFileSync(name, "utf8")), a = read("stdout"), b = read("fixed.json");
  process.exit(a.macs > 0 && a.macs === b.macs && a.nodes.every((node, i) => node.macs === b.nodes[i].macs) ? 0 : 1)'

# --- prune ------------------------------------------------------------------------------------------------------------
exits "prune" 0 prune --arch lenet-5 --channels 0.5 --round-to 1 -o pruned.onnx
check "prune lists groups and reasons" "$(head -c 300 stdout)" grep -q "graph output" stdout
exits "prune: the model runs" 0 run pruned.onnx --random -o pruned_outputs
exits "prune: will not overwrite" 2 prune --arch lenet-5 --channels 0.5 --round-to 1 -o pruned.onnx
exits "prune --json" 0 prune --arch lenet-300-100 --params 0.5 --compensate gaussian --json --force -o pruned.onnx
check "prune --json: before, after, groups, seconds" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(r.after.parameters <= 0.5 * r.before.parameters && r.groups.length === 3 && r.seconds.method >= 0 ? 0 : 1)'
for method in none most-sim nnls nmf gaussian; do
  exits "prune --compensate $method" 0 prune --arch resnet20 --width 0.5 --channels 0.4 --compensate $method --force -o method.onnx
done
exits "prune --compensate synthetic" 0 prune --arch resnet20 --width 0.25 --channels 0.4 --round-to 1 --compensate synthetic --samples 4 --distill-steps 2 --force -o method.onnx
exits "prune --compensate synthetic without batch norm" 0 prune --arch lenet-5 --channels 0.4 --round-to 1 --compensate synthetic --samples 4 --force -o method.onnx
check "prune without data: says that its cost was not measured" "$(head -c 600 stderr)" grep -q "what this costs was not measured: name --data" stderr
check "prune: distils from the classes then and says so" "$(head -c 300 stderr)" grep -q "from the classes" stderr
exits "prune --steps" 0 prune --arch lenet-300-100 --channels 0.5 --round-to 1 --steps 3 --force -o steps.onnx
exits "prune --steps: small groups too" 0 prune --arch resnet20 --inner-only --channels 0.5 --steps 4 --compensate none --json -o steps4.onnx
check "prune --steps: small groups too: half of 16" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(r.groups.find((g) => g.name === "layer1.0.conv1").kept === 8 ? 0 : 1)'
exits "prune --scope global with ties" 0 prune --arch resnet20 --criterion bn --scope global --channels 0.3 --round-to 1 --compensate none --json -o ties.onnx
check "prune --scope global with ties: as many as asked for" "$(head -c 300 stdout)" node -e '
  const { groups } = JSON.parse(require("fs").readFileSync("stdout")), sum = (key) => groups.reduce((all, group) => all + group[key], 0);
  const removed = 1 - sum("kept") / sum("total");
  process.exit(removed > 0.28 && removed <= 0.3 ? 0 : 1)'
exits "prune to .safetensors" 0 prune --arch lenet-5 --channels 0.5 --round-to 1 -o narrow.safetensors
check "prune to .safetensors: says that it cannot be read again" "$(head -c 300 stderr)" grep -q 'narrow.safetensors.*write .onnx' stderr
exits "prune: a negative gate" 2 prune --arch lenet-5 --channels 0.5 --max-drop=-0.5 -o bad.onnx
for option in --channels=0.5 --params=0.5 --macs=0.5 --empty --steps=2 --finetune=1 --max-drop=0.1 --attribution-drift=3; do
  exits "prune --scan $option" 2 prune --arch lenet-5 --scan bad.svg $option
  check "prune --scan $option: is named" "$(head -c 300 stderr)" grep -q -e "${option%%=*}: .*without --scan" stderr
done
# What is empty goes without images and without anything that makes up for it.
for option in --minutes=1 --samples=8 --ridge=1 --unchecked --no-mirror; do
  exits "prune --empty $option" 2 prune --arch lenet-5 --empty $option -o bad.onnx
  check "prune --empty $option: is named" "$(head -c 300 stderr)" grep -q -e "${option%%=*}: .*without --empty" stderr
done
for ratio in 0 1 nan 1.5; do
  exits "prune: a ratio of $ratio" 2 prune --arch lenet-5 --channels $ratio -o bad.onnx
done
exits "prune: no budget" 2 prune --arch lenet-5 -o bad.onnx
exits "prune: two budgets" 2 prune --arch lenet-5 --channels 0.5 --macs 0.5 -o bad.onnx
run convert --arch lenet-300-100 --width 0.2 -o lenet.onnx
exits "prune: globs as words" 0 prune lenet.onnx --channels 0.5 --round-to 1 --layers fc1 fc2 --json -o globs.onnx --print-config
check "prune: globs as words: all of them" "$(grep layers stdout)" grep -qx 'layers = \["fc1","fc2"\]' stdout
exits "prune: globs before the model" 0 prune --layers fc1,fc2 --skip fc3 lenet.onnx --channels 0.5 --print-config
check "prune: globs before the model: one word each" "$(cat stdout)" bash -c '
  grep -qx "skip = \[\"fc3\"\]" stdout && grep -qx "model = \"lenet.onnx\"" stdout'
exits "sparsify: numbers below zero as words" 0 sparsify --s-init -0.1 0.0 .1 lenet.onnx --data scenes:scenes -o none.onnx --print-config
check "sparsify: numbers below zero as words: all of them, and the model" "$(cat stdout)" bash -c '
  grep -qx "s-init = \[-0.1,0.0,0.1\]" stdout && grep -qx "model = \"lenet.onnx\"" stdout'
exits "prune: a glob that matches nothing" 2 prune --arch lenet-5 --channels 0.5 --layers 'no.such.*' -o bad.onnx
exits "prune: nothing would change" 2 prune --arch lenet-5 --channels 0.5 --round-to 4096 -o bad.onnx
check "prune: nothing would change: says why" "$(head -c 300 stderr)" grep -q -e "--round-to" stderr
exits "prune: calibrated without data" 2 prune --arch lenet-5 --channels 0.5 --compensate calibrated -o bad.onnx
exits "prune: a gate without data" 2 prune --arch lenet-5 --channels 0.5 --max-drop 0.1 -o bad.onnx
exits "prune: neither -o nor --scan" 2 prune --arch lenet-5 --channels 0.5
check "prune: nothing is left of what failed" "$(ls bad.onnx 2>/dev/null)" test ! -e bad.onnx

# --- pictures: one preprocessing, whoever reads them ----------------------------------------------------------------------
mkdir -p pics/a pics/b
node -e '
  const zlib = require("zlib"), fs = require("fs");
  const chunk = (type, body) => {
    const head = Buffer.alloc(4), data = Buffer.concat([Buffer.from(type), body]), tail = Buffer.alloc(4);
    head.writeUInt32BE(body.length);
    let c, crc = 0xffffffff;
    for (const b of data) { c = (crc ^ b) & 255; for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1; crc = c ^ (crc >>> 8); }
    tail.writeUInt32BE((crc ^ 0xffffffff) >>> 0);
    return Buffer.concat([head, data, tail]);
  };
  const png = (width, height, pixel) => {
    const head = Buffer.alloc(13), rows = [];
    head.writeUInt32BE(width, 0); head.writeUInt32BE(height, 4); head.set([8, 2, 0, 0, 0], 8);
    for (let y = 0; y < height; y++) { rows.push(0); for (let x = 0; x < width; x++) rows.push(...pixel(x, y)); }
    return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", zlib.deflateSync(Buffer.from(rows))), chunk("IEND", Buffer.alloc(0))]);
  };
  fs.writeFileSync("pics/a/1.png", png(90, 60, (x, y) => [(x * 37 + y * y) % 256, (x * y) % 256, (5 * x + 3 * y) % 256]));
  fs.writeFileSync("pics/b/2.PNG", png(50, 70, (x, y) => [(x * x) % 256, (7 * y) % 256, (x + y * 11) % 256]));'
cp pics/b/2.PNG shot.PNG
# tests/program/pictures_test.cpp compares what networks are shown to the bit; here: who says what.
run convert --arch resnet20 --classes 2 -o two_classes.onnx
for fit in stretch crop imagenet; do
  exits "run: a picture by $fit" 0 run two_classes.onnx --input pics/a/1.png --preprocess $fit -o fit_$fit --force
done
check "run: preprocessings differ" "they do not" bash -c '! cmp -s fit_stretch/*.npy fit_crop/*.npy && ! cmp -s fit_crop/*.npy fit_imagenet/*.npy'
exits "run: a guess is said" 0 run two_classes.onnx --input pics/a/1.png
check "run: a guess is said: how" "$(cat stderr)" grep -q 'note: .*--preprocess crop is a guess' stderr
check "run without -o: the largest scores" "$(cat stdout)" grep -q '^largest of ' stdout
exits "run without -o: as JSON" 0 run two_classes.onnx --input shot.PNG --json
check "run without -o: as JSON: a score for each of two classes" "$(head -c 300 stdout)" node -e '
  process.exit(JSON.parse(require("fs").readFileSync("stdout", "utf8")).outputs[0].top.length === 2 ? 0 : 1)'
mkdir -p loose && cp pics/a/1.png pics/b/2.PNG loose/
exits "explain: pictures without labels" 0 explain two_classes.onnx --data folder:loose --json -o loose_maps
check "explain: pictures without labels: their class is what the model says" "$(head -c 600 stdout)" node -e '
  const { explanations } = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(explanations.length === 2 && explanations.every((e) => e.class_name === String(e.class)) ? 0 : 1)'
exits "a directory instead of a data set" 2 eval two_classes.onnx --data pics
check "a directory instead of a data set: what was meant" "$(cat stderr)" grep -q 'unknown data set "pics" (did you mean folder:pics?)' stderr
exits "prune: pictures of several sizes, inputs of any" 1 prune open.onnx --channels 0.5 --data folder:loose -o several.onnx --no-record
check "prune: pictures of several sizes, inputs of any: both ways out" "$(cat stderr)" grep -q -e '--size N makes all N x N.*--input-shape' stderr
exits "run: --mean of an array" 2 run "$models/mlp.onnx" --input seed_a/*.npy --mean 0.5
check "run: --mean of an array: is named" "$(cat stderr)" grep -q -e '^pare: --mean: applies only with --input' stderr
exits "train on pictures" 0 train --model two_classes.onnx --data folder:pics --preprocess stretch --epochs 1 --batch 2 --runs pics_runs -o of_pics.onnx
check "train on pictures: says how in the file" "it does not" bash -c '"$1" inspect of_pics.onnx --json | grep -q "\"pare.preprocess\": \"stretch\""' - "$pare"
check "train on pictures: no path in the file" "there is one" bash -c '! "$1" inspect of_pics.onnx --json | grep "pare.recipe" | grep -q "$2"' - "$pare" "$scratch"
exits "eval on pictures" 0 eval of_pics.onnx --data folder:pics --json
check "eval on pictures: nothing to guess" "$(cat stderr)" bash -c '! grep -q "guess" stderr'
exits "eval otherwise than trained" 0 eval of_pics.onnx --data folder:pics --preprocess crop
check "eval otherwise than trained: is said" "$(cat stderr)" grep -q 'learned pictures fitted by stretch; here they are by crop' stderr
exits "explain and run see the same" 0 explain of_pics.onnx pics/a/1.png --json -o pics_maps
score=$(node -e 'console.log(JSON.parse(require("fs").readFileSync("stdout", "utf8")).explanations[0].score)')
exits "explain and run see the same: run" 0 run of_pics.onnx --input pics/a/1.png --json
check "explain and run see the same: one score" "$score, $(head -c 400 stdout)" node -e '
  const run = JSON.parse(require("fs").readFileSync("stdout", "utf8")).outputs[0].top[0].score;
  process.exit(Math.abs(run - Number(process.argv[1])) < 1e-5 ? 0 : 1)' "$score"
exits "--no-metadata" 0 convert of_pics.onnx --no-metadata -o bare.onnx
check "--no-metadata: has none" "$("$pare" inspect bare.onnx --json | grep -A3 '"metadata"')" bash -c '"$1" inspect bare.onnx --json | grep -q "\"metadata\": {}"' - "$pare"

# --- classes: their number and their order --------------------------------------------------------------------------------
run convert --arch resnet20 --classes 5 -o scores5.onnx
exits "two directories, five scores" 1 eval scores5.onnx --data folder:pics
check "two directories, five scores: says what to do" "$(cat stderr)" grep -q -e '5 scores.*2 classes.*--class-map' stderr
printf 'x\nb\ny\na\nz\n' >map.txt
exits "a class map" 0 eval scores5.onnx --data folder:pics --class-map map.txt
printf '\xef\xbb\xbffile,label,split\r\na/1.png,3,train\r\n"b/2.PNG",1,test\r\n' >pics/pics.csv
printf 'file,label\npics/a/1.png,a\npics/b/2.PNG,b\n' >named.csv
exits "a table of pictures, classes by index" 0 eval scores5.onnx --data csv:pics/pics.csv
exits "a table of pictures, classes by name" 1 eval scores5.onnx --data csv:named.csv
check "names say no order" "$(cat stderr)" grep -q -e '5 scores.*2 classes.*--class-map' stderr
exits "a table of pictures, a class map" 0 eval scores5.onnx --data csv:named.csv --class-map map.txt
printf 'b\na\n' >turned.txt
exits "classes in another order than the model's" 2 eval of_pics.onnx --data folder:pics --class-map turned.txt
exits "a gate at chance" 5 prune scores5.onnx --channels 0.5 --data folder:pics --class-map map.txt --max-drop 1 -o gated.onnx
check "a gate at chance: says so" "$(cat stderr)" grep -q 'no better than chance among 5 classes' stderr
exits "too many samples for the memory" 1 prune scores5.onnx --channels 0.5 --compensate calibrated --samples 2 --data folder:pics --class-map map.txt --max-memory 0.0001 -o gated.onnx
check "too many samples for the memory: says what needs less" "$(cat stderr)" grep -qE 'needs .* the limit is .*--max-memory.*lower --samples or --limit' stderr
exits "no gate at chance" 0 prune scores5.onnx --channels 0.5 --data folder:pics --class-map map.txt -o gated.onnx
check "no gate at chance: a note" "$(cat stderr)" grep -q 'note: .*no better than chance' stderr
exits "pictures shown otherwise" 0 prune scores5.onnx --channels 0.5 --data folder:pics --class-map map.txt --mean 0.4 --std 0.3 --preprocess stretch -o shown.onnx
exits "pictures shown otherwise: eval" 0 eval shown.onnx --data folder:pics --class-map map.txt --json
check "pictures shown otherwise: eval knows" "$(cat stderr; head -c 300 stdout)" bash -c '! grep -qE "guess|learned" stderr && tr -d " \n" <stdout | grep -q "\"mean\":\[0.4,0.4,0.4\]"'

for command in "fuse scores5.onnx scores5.onnx" "sparsify scores5.onnx --method wanda --sparsity 0.5" "quantize scores5.onnx"; do
  # shellcheck disable=SC2086
  exits "$command keeps how pictures are shown" 0 $command --data folder:pics --class-map map.txt --mean 0.4 --std 0.3 --preprocess stretch -o kept.onnx --force
  run inspect kept.onnx --json
  check "$command keeps how pictures are shown: in the file" "$(grep -A9 '"metadata"' stdout)" node -e '
    const { metadata } = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
    process.exit(metadata["pare.mean"] === "[0.4,0.4,0.4]" && metadata["pare.std"] && metadata["pare.preprocess"] === "stretch" ? 0 : 1)'
done

# --- options that would be ignored ----------------------------------------------------------------------------------------
refuses() {  # OPTION ARGUMENTS…
  local option=$1
  shift
  exits "ignored: $*" 2 "$@"
  check "ignored: $*: $option is named" "$(cat stderr)" grep -q -e "^pare: $option: applies only" stderr
}
refuses --ridge prune scores5.onnx --channels 0.5 --criterion l1 --compensate most-sim --ridge 1 -o x.onnx
refuses --terms prune scores5.onnx --channels 0.5 --terms 2 -o x.onnx
refuses --nmf-iterations prune scores5.onnx --channels 0.5 --nmf-iterations 2 -o x.onnx
refuses --images prune scores5.onnx --channels 0.5 --criterion l1 --compensate most-sim --images pink -o x.onnx
refuses --distill-steps prune scores5.onnx --channels 0.5 --compensate synthetic --images pink --distill-steps 3 -o x.onnx
refuses --floor prune scores5.onnx --channels 0.5 --floor 0.5 -o x.onnx
refuses --samples prune scores5.onnx --channels 0.5 --criterion l1 --compensate most-sim --samples 9 -o x.onnx
exits "learning, where auto learns nothing" 2 prune scores5.onnx --channels 0.5 --criterion l1 --samples 9 -o x.onnx
check "learning, where auto learns nothing: named" "$(cat stderr)" grep -q -e '--samples: would have no effect' stderr
refuses --lr prune scores5.onnx --channels 0.5 --lr 0.1 -o x.onnx
refuses --arch inspect scores5.onnx --arch lenet-5
refuses --width inspect scores5.onnx --width 2
refuses --gmp-every sparsify scores5.onnx --data folder:pics --method magnitude --sparsity 0.5 --gmp-every 5 -o x.onnx
refuses --s-init sparsify scores5.onnx --data folder:pics --method imp --s-init 0 -o x.onnx
refuses --rewind sparsify scores5.onnx --data folder:pics --method magnitude --sparsity 0.5 --rewind 1 -o x.onnx
refuses --solver fuse scores5.onnx scores5.onnx --method barycentre --solver sinkhorn -o x.onnx
refuses --align fuse scores5.onnx scores5.onnx --method barycentre --align activations -o x.onnx
refuses --momentum train --arch lenet-5 --data folder:pics --optimizer adam --momentum 0.5 -o x.onnx
refuses --preview data list --preview 3
refuses --opset convert scores5.onnx -o x.safetensors --opset 11
printf 'terms = 7\n' >ignored.toml
refuses --terms prune scores5.onnx --channels 0.5 -o x.onnx --recipe ignored.toml

# --- numbers, messages, JSON of errors ------------------------------------------------------------------------------------
exits "more threads than cores" 0 inspect scores5.onnx --threads 1000
check "more threads than cores: is said" "$(cat stderr)" grep -q 'note: --threads 1000: there are' stderr
exits "a number past 64 bits" 2 inspect scores5.onnx --seed 99999999999999999999
check "a number past 64 bits: is named" "$(cat stderr)" grep -q -e '--seed: expected a whole number of 64 bits' stderr
exits "per cent where a fraction is expected" 2 prune scores5.onnx --channels 20% -o x.onnx
check "per cent where a fraction is expected: is named" "$(cat stderr)" grep -q -e '--channels: expected a number, found 20%' stderr
exits "a mistyped option" 2 prune scores5.onnx --chanels 0.5 -o x.onnx
check "a mistyped option: what was meant" "$(cat stderr)" grep -q -e 'did you mean --channels' stderr
exits "an option twice" 2 prune scores5.onnx --channels 0.5 --channels 0.6 -o x.onnx
check "an option twice: is said" "$(cat stderr)" grep -q -e '--channels: given more than once' stderr
exits "an error with --json" 1 inspect absent.onnx --json
check "an error with --json: a document" "$(cat stdout)" node -e '
  const e = JSON.parse(require("fs").readFileSync("stdout", "utf8")).error;
  process.exit(e.kind === "file" && e.where === "absent.onnx" && e.exit_code === 1 ? 0 : 1)'
exits "fractions of layers are a budget" 0 prune scores5.onnx --layers 'layer1.0.conv1=0.5' --round-to 1 --compensate most-sim -o own.onnx
for file in m.tflite m.keras m.h5; do
  : >$file
  echo x >$file
  exits "$file" 3 inspect $file
  check "$file: is named, and how to convert it" "$(cat stderr)" grep -qi 'tf2onnx' stderr
done
for file in /etc/passwd pics/a/1.png; do
  exits "$file is no model" 1 inspect $file
  check "$file is no model: says what is" "$(cat stderr)" grep -q 'is not a model: expected an ONNX file.*--arch' stderr
done
cp pics/a/1.png upper.JPEG.PNG
exits "a picture in capital letters" 0 run scores5.onnx --input upper.JPEG.PNG --json
mkdir -p broken/one broken/two
cp "$(find pics_runs -name record.json | head -1)" broken/one/
echo '{' >broken/two/record.json
exits "report beside a broken record" 0 report broken -o broken.html
check "report beside a broken record: is said" "$(cat stderr)" grep -q 'note: left out: .*two/record.json' stderr
mkdir -p foreign/run elsewhere
cp pics/a/1.png elsewhere/secret.png
cat >foreign/run/record.json <<'EOF'
{"command": "explain", "directory": "/", "result": {"model": "m", "explanations": [{"image": "i", "class_name": "c", "file": "SECRET"}]}}
EOF
sed -i "s|SECRET|$scratch/elsewhere/secret.png|" foreign/run/record.json
(cd foreign && "$pare" report run -o page.html >/dev/null 2>&1)
check "report: no picture from elsewhere" "it is there" bash -c '! grep -q "data:image/png" foreign/page.html'

# --- plans ---------------------------------------------------------------------------------------------------------------
exits "prune --plan" 0 prune "$models/mlp.onnx" --channels 0.5 --round-to 1 --plan --save-plan plan.toml --plan-plot plan.svg --json
check "prune --plan: says what would be left" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout")); process.exit(r.after.macs < r.before.macs && r.groups.some((g) => g.kept < g.total) ? 0 : 1)'
check "prune --plan: saves it" "$(cat plan.toml)" grep -qE '^"[^"]+" = [0-9]+  # of [0-9]+$' plan.toml
check "prune --plan: draws it" "there is none" grep -q "<svg" plan.svg
exits "prune --widths" 0 prune "$models/mlp.onnx" --widths plan.toml -o by_widths.onnx --json
check "prune --widths: those of the plan" "$(head -c 300 stdout)" node -e '
  const fs = require("fs"), r = JSON.parse(fs.readFileSync("stdout"));
  const wanted = new Map(fs.readFileSync("plan.toml", "utf8").split("\n").map((l) => /^"(.+)" = (\d+)/.exec(l)).filter(Boolean).map((m) => [m[1], Number(m[2])]));
  process.exit(wanted.size > 0 && r.groups.every((g) => g.kept === (wanted.get(g.name) ?? g.total)) ? 0 : 1)'
exits "prune --plan beside -o" 2 prune "$models/mlp.onnx" --channels 0.5 --plan -o planned.onnx
check "prune --plan beside -o: writes nothing" "there is a file" test ! -e planned.onnx
exits "prune --widths beside --channels" 2 prune "$models/mlp.onnx" --channels 0.5 --widths plan.toml -o planned.onnx
for bad in 'nowhere = 3' 'seed = "much"' '"fc1" = 1.5' '' '= 3'; do
  printf '%s\n' "$bad" >bad_plan.toml
  exits "prune --widths: '$bad'" 2 prune "$models/mlp.onnx" --widths bad_plan.toml -o planned.onnx
  check "prune --widths: '$bad': is named" "$(head -c 200 stderr)" grep -qE 'bad_plan.toml|--widths' stderr
done
exits "prune --widths: one that is not there" 1 prune "$models/mlp.onnx" --widths absent.toml -o planned.onnx
exits "compress without a goal" 2 compress "$models/mlp.onnx" --data fashion-mnist:none -o planned.onnx
check "compress without a goal: says which there are" "$(head -c 300 stderr)" grep -q -e '--faster.*--max-drop' stderr
exits "compress without data" 2 compress "$models/mlp.onnx" --macs 0.5 -o planned.onnx
exits "compress: two goals" 2 compress "$models/mlp.onnx" --macs 0.5 --params 0.5 --data fashion-mnist:none -o planned.onnx
exits "compress --plan beside -o" 2 compress "$models/mlp.onnx" --macs 0.5 --data fashion-mnist:none --plan -o planned.onnx
exits "compress without a file to write" 2 compress "$models/mlp.onnx" --macs 0.5 --data fashion-mnist:none

# --- integers ---------------------------------------------------------------------------------------------------------
run convert --arch lenet-5 -o lenet.onnx --force
made="--images pink --samples 8"
exits "quantize without data: on images made from the network" 0 quantize lenet.onnx $made -o int8.onnx
exits "quantize: what is written runs" 0 run int8.onnx --random -o int8_outputs
exits "quantize --json" 0 quantize lenet.onnx $made -o int8.onnx --force --json -q
check "quantize --json: before, after and layers" "$(head -c 300 stdout)" node -e '
  const d = JSON.parse(require("fs").readFileSync("stdout"));
  process.exit(d.after.bytes < d.before.bytes && d.layers.length > 0 && d.layers.every((l) => l.bits === 8) ? 0 : 1)'
exits "convert of a quantised model" 0 convert int8.onnx -o int8_copy.onnx
check "convert of a quantised model: its integers stay integers" "$(stat -c %s int8.onnx int8_copy.onnx | tr '\n' ' ')" \
  test "$(stat -c %s int8_copy.onnx)" -le $(($(stat -c %s int8.onnx) * 21 / 20))
exits "convert of a quantised model: it computes the same" 0 verify int8.onnx int8_copy.onnx
exits "quantize of a quantised model" 2 quantize int8.onnx -o twice.onnx
check "quantize of a quantised model: says so" "$(head -c 300 stderr)" grep -q 'quantised already' stderr
exits "quantize --weights int4 --block 16" 0 quantize lenet.onnx $made --weights int4 --activations none --block 16 -o int4.onnx
exits "quantize --weights int4: what is written runs" 0 run int4.onnx --random -o int4_outputs
exits "quantize --scan" 0 quantize lenet.onnx $made --scan --json -q
check "quantize --scan: the dearest first" "$(head -c 300 stdout)" node -e '
  const d = JSON.parse(require("fs").readFileSync("stdout")).layers.map((l) => l.divergence);
  process.exit(d.length > 1 && d.every((x, i) => i === 0 || x <= d[i - 1]) ? 0 : 1)'
exits "quantize --skip that matches nothing" 2 quantize lenet.onnx --skip 'nothing*' -o none.onnx
exits "quantize into a file of weights" 2 quantize lenet.onnx -o int8.safetensors
exits "quantize --block of int8 weights" 2 quantize lenet.onnx --block 16 -o none.onnx
exits "quantize without a file to write" 2 quantize lenet.onnx
exits "sparsify --method obs without a model" 2 sparsify --arch lenet-5 --method obs --sparsity 0.5 --data fashion-mnist:none -o none.onnx
exits "sparsify --block of a method that knows none" 2 sparsify "$models/mlp.onnx" --method magnitude --sparsity 0.5 --block 1x4 --data fashion-mnist:none -o none.onnx

# --- configuration, logs, completions ---------------------------------------------------------------------------------
exits "--print-config" 0 inspect "$models/mlp.onnx" --print-config --seed 7
check "--print-config shows what was set" "$(head -c 200 stdout)" grep -qE '^seed *= *7' stdout
printf 'seed = 11\n' >recipe.toml
exits "--recipe" 0 inspect "$models/mlp.onnx" --recipe recipe.toml --print-config
check "--recipe: its value is used" "$(head -c 200 stdout)" grep -qE '^seed *= *11' stdout
exits "--recipe: a flag wins over it" 0 inspect "$models/mlp.onnx" --recipe recipe.toml --seed 12 --print-config
check "--recipe: a flag wins over it: value" "$(head -c 200 stdout)" grep -qE '^seed *= *12' stdout
"$pare" prune "$models/mlp.onnx" --channels 0.5 --round-to 1 --print-config >recipe.toml
exits "--recipe: what --print-config printed, arguments too" 0 prune --recipe recipe.toml --force -o from_recipe.onnx
exits "--recipe: an argument wins over it" 0 prune pruned.onnx --recipe recipe.toml --force --json -o from_recipe.onnx
check "--recipe: an argument wins over it: value" "$(head -c 300 stdout)" grep -q '"model": "pruned.onnx"' stdout
exits "one argument too many" 2 prune pruned.onnx "$models/mlp.onnx" --channels 0.5 -o from_recipe.onnx
printf 'compare = ["other.onnx", "vgg9.onnx"]\nmean = [0.5, 0.4, 0.3]\n' >recipe.toml
exits "--recipe: lists" 0 explain vgg9.onnx "$picture" --recipe recipe.toml -o maps_recipe --json
check "--recipe: lists: every entry is used" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(r.compare.join() === "other.onnx,vgg9.onnx" && r.mean.join() === "0.5,0.4,0.3" ? 0 : 1)'
printf 'no-such-key = 1\n' >recipe.toml
exits "--recipe: unknown key" 2 inspect "$models/mlp.onnx" --recipe recipe.toml
check "--recipe: unknown key: both are named" "$(head -c 200 stderr)" grep -q 'recipe.toml: no-such-key' stderr
for bad in 'seed = "much"' 'seed = ' 'threads = 1.5' 'json = 1' '[inspect]' 'recipe = "other.toml"'; do
  printf '%s\n' "$bad" >recipe.toml
  exits "--recipe: $bad" 2 inspect "$models/mlp.onnx" --recipe recipe.toml
  check "--recipe: $bad: the recipe is named" "$(head -c 200 stderr)" grep -q 'recipe.toml: ' stderr
done
printf 'channels = 7\n' >recipe.toml
exits "--recipe: a value out of range" 2 prune "$models/mlp.onnx" --recipe recipe.toml -o none.onnx
check "--recipe: a value out of range: both are named" "$(head -c 200 stderr)" grep -q -e '--channels.*recipe.toml' stderr
exits "--recipe: a directory" 1 inspect "$models/mlp.onnx" --recipe .
exits "--recipe: one that is not there" 1 inspect "$models/mlp.onnx" --recipe absent.toml
"$pare" inspect "$models/mlp.onnx" --recipe <(echo "seed = 13") --print-config >stdout 2>stderr
check "--recipe: a pipe" "$(head -c 200 stderr)" grep -qx 'seed = 13' stdout
"$pare" prune "$models/mlp.onnx" --channels 0.5 --round-to 1 -o first.onnx --print-config >recipe.toml
exits "--recipe: -o wins over it" 0 prune --recipe recipe.toml -o second.onnx
check "--recipe: -o wins over it: the file" "$(ls ./*.onnx)" test -s second.onnx -a ! -e first.onnx
printf 'models = ["vgg9.onnx"]\ndata = "scenes:scenes"\n' >recipe.toml
exits "--recipe: arguments take the place of its own" 0 eval other.onnx --recipe recipe.toml --json
check "--recipe: arguments take the place of its own: one model" "$(head -c 300 stdout)" node -e '
  const r = JSON.parse(require("fs").readFileSync("stdout", "utf8")); process.exit(r.models.length === 1 && r.models[0].model === "other.onnx" ? 0 : 1)'
odd=$'has#hash "quotes" \\back\\ , \xc3\xbc\n.onnx'
"$pare" prune "$odd" --channels 0.5 --layers 'a#*' -o "-$odd" --print-config >recipe.toml
exits "--recipe: any text" 0 prune --recipe recipe.toml --print-config
check "--recipe: any text: as it was" "$(diff recipe.toml stdout)" cmp -s recipe.toml stdout
check "--recipe: any text: as it was given" "$(cat stdout)" node -e '
  const line = require("fs").readFileSync("stdout", "utf8").split("\n").find((l) => l.startsWith("model = "));
  process.exit(JSON.parse(line.slice(8)) === process.argv[1] ? 0 : 1)' "$odd"
exits "--log" 0 convert "$models/mlp.onnx" -o logged.onnx --log log.jsonl
check "--log: every line is JSON" "$(head -c 200 log.jsonl 2>/dev/null)" node -e '
  const lines = require("fs").readFileSync("log.jsonl", "utf8").trim().split("\n"); lines.forEach((l) => JSON.parse(l)); process.exit(lines.length ? 0 : 1)'
for shell in bash zsh fish; do
  exits "completions $shell" 0 completions $shell
  check "completions $shell: mention the commands" "they do not" grep -q inspect stdout
  cp stdout completions.$shell
  if [ $shell = bash ] || command -v $shell >/dev/null; then
    check "completions $shell: parse" "they do not" $shell -n completions.$shell
  fi
done
exits "completions of an unknown shell" 2 completions tcsh
exits "completions man" 0 completions man
check "the man page: every command" "it has not" bash -c 'for c in '"$commands"'; do grep -q "^.SS pare $c" stdout || exit 1; done'
exits "completions markdown" 0 completions markdown
check "docs/reference.md is what the program prints" "make it anew with: pare completions markdown >docs/reference.md" cmp -s stdout "$root/docs/reference.md"

# --- records, reports, differences ------------------------------------------------------------------------------------
rm -rf runs
exits "prune leaves a record" 0 prune --arch lenet-5 --channels 0.5 --round-to 1 --force -o pruned.onnx
check "prune leaves a record: options, machine, result" "$(ls runs 2>/dev/null)" node -e '
  const fs = require("fs"), run = fs.readdirSync("runs")[0];
  const r = JSON.parse(fs.readFileSync(`runs/${run}/record.json`, "utf8"));
  process.exit(r.command === "prune" && r.options.channels === 0.5 && r.machine.cores > 0 && r.result.groups.length === 4 &&
               r.files[0].bytes > 0 && r.seconds > 0 && r.version && /T[0-9:]{8}\.[0-9]{3}Z$/.test(r.started) ? 0 : 1)'
exits "--no-record" 0 prune --arch lenet-5 --channels 0.25 --round-to 1 --force --no-record -o other.onnx
check "--no-record: leaves none" "$(ls runs)" test "$(ls runs | wc -l)" -eq 1
exits "fuse leaves its plans" 0 fuse "$models/mlp.onnx" "$models/mlp_changed.onnx" -o fused.onnx --force
check "fuse leaves its plans: beside its record" "$(ls runs/*)" bash -c 'ls runs/fuse-*/plans/*.png >/dev/null'
check "fuse leaves its plans: named from the record on" "$(ls runs/*)" bash -c 'grep -q "\"file\": \"plans/" runs/fuse-*/record.json'
exits "bench leaves a record" 0 bench pruned.onnx other.onnx --threads 1 --rounds 5 --seconds 0.1
exits "report" 0 report runs -o report.html
check "report: one page with a script of its own and no address" "$(head -c 300 report.html)" bash -c '
  grep -q "<table>" report.html && grep -q "class=\"bar\"" report.html && grep -q "data:image/png" report.html &&
  [ "$(grep -c "<script" report.html)" = 1 ] && grep -q "default-src .none.*script-src .sha256-" report.html && ! grep -oE "(src|href)=\"[^\"]*" report.html | grep -vqE "=\"data:"'
cp -r runs copied
exits "report of a copied directory, by two paths" 0 report copied copied/. -o copied.html --json
check "report of a copied directory: its pictures, and no record twice" "$(cat stdout)" bash -c '
  grep -q "data:image/png" copied.html && ! grep -q "not found" copied.html && grep -q "\"records\": $(ls copied/*/record.json | wc -l)$" stdout'
exits "report: will not overwrite" 2 report runs -o report.html
exits "report: no such run" 1 report nowhere -o other.html
printf '[]' >odd.json
exits "report: not a record" 1 report odd.json -o other.html
check "report: nothing is left of what failed" "it is" test ! -e other.html
printf '{"command": "eval", "result": {"models": [
  {"model": "a", "parameters": 9, "metrics": {"top1": 0.9}}, {"model": "b", "parameters": 5, "metrics": {"top1": 0.8}}]}}' >eval.json
exits "report --plots" 0 report eval.json -o plotted.html --plots plots/of/eval
check "report --plots: a picture in a new directory" "$(ls plots/of/eval 2>/dev/null)" grep -q '<svg' plots/of/eval/1.svg
exits "report --plots: refuses to overwrite" 2 report eval.json -o other.html --plots plots/of/eval
check "report --plots: refuses to overwrite: names the file, writes no page" "$(head -c 300 stderr)" \
  bash -c 'grep -q -e "1.svg.*--force" stderr && test ! -e other.html'
exits "report --plots --force" 0 report eval.json -o other.html --plots plots/of/eval --force
node -e 'console.log(`{"command": "eval", "result": ${"[".repeat(100000)}${"]".repeat(100000)}}`)' >deep.json
exits "report: a record that is nested without end" 1 report deep.json -o deep.html
check "report: a record that is nested without end: says so" "$(head -c 300 stderr)" grep -q 'deep.json.*nested' stderr
exits "diff" 0 diff pruned.onnx other.onnx
check "diff: names what changed" "$(head -c 300 stdout)" grep -q "weight shape" stdout
exits "diff of a model with itself" 0 diff pruned.onnx pruned.onnx --json
check "diff of a model with itself: nothing" "$(head -c 300 stdout)" node -e '
  const d = JSON.parse(require("fs").readFileSync("stdout", "utf8"));
  process.exit(d.changed + d.added + d.removed === 0 && d.same > 0 && d.outputs[0].largest === 0 ? 0 : 1)'
exits "diff --html" 0 diff pruned.onnx other.onnx --html diff.html
check "diff --html: both graphs" "$(head -c 300 diff.html)" bash -c 'grep -q "class=\"changed\"" diff.html && [ "$(grep -c "<script" diff.html)" = 1 ]'
exits "diff of models with other inputs" 0 diff pruned.onnx "$models/mlp.onnx"
check "diff of models with other inputs: says so" "$(head -c 300 stdout)" grep -q "not compared" stdout
exits "reproduce an unknown paper" 2 reproduce no-such-paper
exits "reproduce --fresh --list" 2 reproduce merging --fresh --list --runs listed
check "reproduce --fresh --list: names both" "$(head -c 300 stderr)" grep -q -e '--fresh.*--list' stderr
exits "reproduce --list" 0 reproduce merging --list --runs listed
check "reproduce --list: the rows" "$(head -c 300 stdout)" grep -q 'LeNet-300-100' stdout
check "reproduce --list: leaves no record" "$(find listed -name record.json)" test -z "$(find listed -name record.json)"
# No table has that name: nothing is measured, and the paper's own record is not touched.
exits "reproduce --tables that match nothing" 2 reproduce merging --tables 'no such table' --processes 1 --runs unmatched
check "reproduce --tables that match nothing: named" "$(head -c 300 stderr)" grep -q "'no such table' matches no table" stderr
exits "reproduce --tables" 0 reproduce merging --tables 'vgg16_bn.imagenet*' --processes 1 --runs chosen
check "reproduce --tables: what is missing" "$(head -c 300 stdout)" grep -q 'needs --imagenet' stdout
check "reproduce --tables: its record is not the paper's" "$(find chosen -name record.json)" \
  bash -c 'ls chosen/reproduce-[0-9a-f]*/record.json >/dev/null && test -z "$(find chosen/reproduce-merging-* -name record.json)"'

# --- launch -----------------------------------------------------------------------------------------------------------
for option in --json "--seed 5" "--print-config" "--recipe recipe.toml"; do
  # shellcheck disable=SC2086
  exits "launch $option before the command" 2 launch $option -n 1 train --arch lenet-5 --data scenes:scenes -o none.onnx
  check "launch $option before the command: says where it belongs" "$(head -c 300 stderr)" grep -q -e "${option%% *}: .*after the command" stderr
  check "launch $option before the command: prints nothing" "$(head -c 300 stdout)" test ! -s stdout
done
exits "launch: one rank prints the configuration" 0 launch -q -n 2 train --arch lenet-5 --data scenes:scenes -o none.onnx --print-config --seed 5
check "launch: one rank prints the configuration: once" "$(grep seed stdout)" test "$(grep -cx 'seed = 5' stdout)" -eq 1

# --- hostile files ----------------------------------------------------------------------------------------------------
# shellcheck source=tests/cli/hostile.sh
source "$root/tests/cli/hostile.sh"

# --- threads ----------------------------------------------------------------------------------------------------------
# OpenMP says what it has read: no rounds in which threads only wait.
spins() { env "$@" OMP_DISPLAY_ENV=verbose "$pare" --version 2>&1 >/dev/null | sed -n "s/.*GOMP_SPINCOUNT = '\(.*\)'/\1/p"; }
check "threads that wait sleep" "they spin $(spins -u OMP_WAIT_POLICY) rounds" test "$(spins -u OMP_WAIT_POLICY)" = 0
check "threads that wait spin where that is asked for" "$(spins OMP_WAIT_POLICY=active)" test "$(spins OMP_WAIT_POLICY=active)" != 0
check "threads that wait: in an environment of nothing" "$(env -i "$pare" --version | head -1)" test "$(env -i "$pare" --version | head -c 5)" = "pare "

# --- terminals and pipes ----------------------------------------------------------------------------------------------
NO_COLOR=1 run inspect "$models/mlp.onnx"
check "NO_COLOR: no escape sequences" "there are" bash -c "! grep -q $'\033' stdout stderr"
run inspect "$models/mlp.onnx"
check "not a terminal: no escape sequences" "there are" bash -c "! grep -q $'\033' stdout stderr"
"$pare" inspect --arch resnet56 2>stderr | head -n 1 >/dev/null
pipe=("${PIPESTATUS[@]}")
check "a closed pipe ends it quietly" "exit ${pipe[0]}: $(head -c 200 stderr)" test "${pipe[0]}" -eq 0 -o "${pipe[0]}" -eq 141
check "a closed pipe: nothing on stderr about it" "$(head -c 200 stderr)" bash -c '! grep -qiE "broken pipe|terminate|abort" stderr'
exits "no such command" 2 inspct "$models/mlp.onnx"
check "says what may have been meant" "$(head -c 300 stderr)" grep -q 'inspct: is not a command; did you mean inspect' stderr
"$pare" inspect "$models/nosuch.onnx" --json >/dev/full 2>stderr
status=$?
check "an error that cannot be printed as JSON keeps its exit code" "exit $status" test $status -eq 1
"$pare" inspect "$models/mlp.onnx" >/dev/full 2>stderr
check "a full device is reported" "exit 0" test $? -ne 0
(
  trap '' XFSZ
  ulimit -f 8
  "$pare" convert --arch resnet20 -o full_disk.onnx --no-record >stdout 2>stderr
)
status=$?
check "a full disk" "exit $status" test $status -eq 1
check "a full disk: names the file and the reason" "$(head -c 300 stderr)" grep -qE 'full_disk.onnx.*(File too large|No space left)' stderr
check "a full disk: leaves nothing" "$(ls full_disk*)" test -z "$(find . -maxdepth 1 -name 'full_disk*')"
# A dumb terminal cannot go back in a line: nothing is drawn on it. Needs script, which gives a program a terminal. A bar
# is drawn after a second: the training takes several, on a fast machine too.
if command -v script >/dev/null; then
  mkdir -p drawn
  node -e "$idx"'
    for (const name of ["train", "t10k"]) {
      idx(`drawn/${name}-images-idx3-ubyte`, [6000, 28, 28], (i) => i % 251);
      idx(`drawn/${name}-labels-idx1-ubyte`, [6000], (i) => i % 10);
    }'
  long=("$pare" train --arch convnet-bn --data mnist:drawn --epochs 8 --no-record --runs drawn_runs -o drawn.onnx --force --fresh)
  TERM=dumb script -qec "${long[*]}" typed </dev/null >/dev/null
  check "TERM=dumb: no escape sequences, no bar" "$(tail -c 300 typed)" bash -c "test -s typed && ! grep -q $'\033' typed && ! grep -q 'images/s.*\r.*images/s' typed"
  TERM=xterm script -qec "stty cols 80; ${long[*]}" typed </dev/null >/dev/null
  check "a terminal: the bar stays in a line of 80 columns" "$(tail -c 300 typed)" node -e '
    const text = require("fs").readFileSync("typed", "utf8"), drawn = text.split(/[\r\n]/).map((l) => l.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, ""));
    const bars = drawn.filter((l) => /^training /.test(l));
    process.exit(bars.length > 0 && bars.every((l) => [...l].length < 80) ? 0 : 1)'
else
  ok "TERM=dumb: skipped, there is no script(1) here"
fi
for words in --help --version "inspect --help" "inspect $models/mlp.onnx --print-config"; do
  # shellcheck disable=SC2086
  "$pare" $words >/dev/full 2>stderr
  status=$?
  check "a full device is reported: ${words##* }" "exit $status: $(head -c 200 stderr)" test $status -eq 1
done
timeout 60 "$pare" inspect "$models/mlp.onnx" >stdout 2>stderr <&-
check "works with stdin closed" "$(head -c 200 stderr)" test -s stdout

summary

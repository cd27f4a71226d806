# Files that nobody means well with: what is printed of them, and that every command ends in time, in little memory, with
# an error of pare's own. Read by run.sh.
# shellcheck shell=bash
node "$root/tests/cli/make_hostile.mjs" . || bad "hostile files" "they could not be made"
mkfifo pipe.bin pipe.onnx pipe.safetensors
# plain FILE: UTF-8, and nothing in it that steers a terminal
plain() { node -e '
  const bytes = require("fs").readFileSync(process.argv[1]), text = bytes.toString("utf8");
  const steers = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(text);
  process.exit(!steers && Buffer.from(text).equals(bytes) ? 0 : 1)' "$1"; }
# own_words FILE: no text of a library
own_words() { ! grep -qiE 'exception|aten|c10|torch|expected all|tensor\.|dispatch|0x[0-9a-f]|terminate|RuntimeError|\.cpp' "$1"; }
# ends WHAT STATUS ARGUMENTS…: as exits, within 4 GB of address space and in pare's own words
ends() {
  local what=$1 wanted=$2
  shift 2
  (ulimit -v 4500000 && exec timeout 60 "$pare" "$@") >stdout 2>stderr </dev/null
  status=$?
  if [ $status -eq "$wanted" ]; then ok "$what"; else bad "$what" "exit $status, not $wanted: $(head -c 300 stderr)"; fi
  check "$what: own words" "$(head -c 300 stderr)" own_words stderr
}

for words in "inspect escapes.onnx" "inspect escapes.onnx --layers -v" "run escapes.onnx --random -o escaped --force" \
  "inspect escapes_unknown.onnx" "run escapes_unknown.onnx --random -o escaped" "inspect escapes_error.onnx" \
  "convert escapes.onnx -o escaped.onnx --force" "diff escapes.onnx escapes.onnx" "inspect escapes.onnx --json" \
  "prune escapes.onnx --channels 0.5 -o pruned_escapes.onnx --force --no-record" "bench escapes.onnx --no-record"; do
  # shellcheck disable=SC2086
  run $words
  check "$words: nothing steers the terminal" "$(cat -v stdout stderr | head -c 400)" eval 'plain stdout && plain stderr'
  check "$words: no line is made up" "$(cat -v stdout stderr | head -c 400)" bash -c '! grep -q "^pare: all is well" stdout stderr'
done
run inspect escapes.onnx
check "escaped names can be read" "$(cat -v stdout | head -c 400)" grep -qF 'node\x1b]0;owned\x07\x1b[31m\u009b31m\u202e\x7f\xff\npare' stdout
run inspect escapes.onnx --json
check "--json of names that are not UTF-8" "$(head -c 300 stdout)" is_json stdout

ends "external data that is a pipe" 1 inspect pipe_data.onnx
check "external data that is a pipe: says so" "$(head -c 300 stderr)" grep -q "'pipe.bin'.*regular file" stderr
ends "a model that is a pipe" 1 inspect pipe.onnx
ends "weights that are a pipe" 1 inspect pipe.safetensors --arch lenet-5

ends "inspect of constants that double" 0 inspect constant_doubling.onnx
ends "convert of constants that double" 0 convert constant_doubling.onnx -o converted.onnx --force
check "convert of constants that double: stays small" "$(stat -c %s converted.onnx)" test "$(stat -c %s converted.onnx)" -lt 200000000
ends "run of constants that double" 1 run constant_doubling.onnx --random -o bombs --max-memory 0.5
check "run of constants that double: names the node and its need" "$(head -c 300 stderr)" grep -qE "node 'double[0-9]+' \(Concat\): needs .* MB.*--max-memory" stderr
ends "inspect of channels that double" 0 inspect channel_doubling.onnx
check "inspect of channels that double: says why they stay" "$(head -c 600 stdout)" grep -q 'double.*than is followed' stdout
ends "run of channels that double" 1 run channel_doubling.onnx --random -o bombs --max-memory 0.5
check "run of channels that double: names the node" "$(head -c 300 stderr)" grep -q "node 'double" stderr
ends "ConstantOfShape of gigabytes" 1 run constant_of_shape.onnx --random -o bombs --max-memory 0.5
check "ConstantOfShape of gigabytes: names its need" "$(head -c 300 stderr)" grep -q 'ConstantOfShape): needs 17.2 GB' stderr
ends "inspect ConstantOfShape of gigabytes" 0 inspect constant_of_shape.onnx
ends "an input of exabytes" 1 run exabytes.onnx --random -o bombs
check "an input of exabytes: named" "$(head -c 300 stderr)" grep -q "input 'x'.*1152921504606846976\|input 'x'.*1073741824" stderr
ends "inspect an input of exabytes" 0 inspect exabytes.onnx
ends "--max-memory below 0" 2 inspect --arch lenet-5 --max-memory -1

ends "inspect a Concat of scalars" 0 inspect scalar_concat.onnx
ends "run a Concat of scalars" 1 run scalar_concat.onnx --random -o bombs
ends "inspect a Split of scalars" 0 inspect scalar_split.onnx
ends "run a Split of scalars" 1 run scalar_split.onnx --random -o bombs
ends "an attribute that nobody knows" 3 inspect attribute.onnx
check "an attribute that nobody knows: named" "$(head -c 300 stderr)" grep -q "'first' (Relu).*'slope'" stderr
ends "Celu of half precision" 0 run celu_half.onnx --random -o celu
ends "the smallest integer by -1" 0 run smallest.onnx --random -o smallest
ends "inspect the smallest integer by -1" 0 inspect smallest.onnx
ends "an integer by zero" 1 run by_zero.onnx --random -o bombs
check "an integer by zero: names the node" "$(head -c 300 stderr)" grep -q "'ratio' (Div).*zero" stderr
ends "inspect an integer by zero" 0 inspect by_zero.onnx
rm -f pipe.bin pipe.onnx pipe.safetensors

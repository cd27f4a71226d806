# What the tests of the command line share: a scratch directory to work in, and cases that are counted.
# The caller has set $pare.
# shellcheck shell=bash
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
[ -x "$pare" ] || { echo "there is no program at $pare" >&2; exit 1; }

passed=0 failed=0
ok() { printf 'ok    %s\n' "$1"; passed=$((passed + 1)); }
bad() {
  printf 'FAIL  %s: %s\n' "$1" "$2"
  failed=$((failed + 1))
}
# check WHAT REASON COMMAND…: ok if the command succeeds
check() {
  local what=$1 reason=$2
  shift 2
  if "$@"; then ok "$what"; else bad "$what" "$reason"; fi
}

# run ARGUMENTS…: fills $status, and the files `stdout` and `stderr`
run() {
  timeout 120 "$pare" "$@" >stdout 2>stderr </dev/null
  status=$?
}
# exits WHAT STATUS ARGUMENTS…
exits() {
  local what=$1 wanted=$2
  shift 2
  run "$@"
  if [ $status -eq "$wanted" ]; then ok "$what"; else
    bad "$what" "exit $status, not $wanted (pare $*): $(head -c 300 stderr)"
    return 1
  fi
}
lines() { [ "$(grep -c '' "$1")" -eq "$2" ]; }
is_json() { node -e 'JSON.parse(require("fs").readFileSync(0, "utf8"))' <"$1" 2>/dev/null; }
# small_data: 600 training and 100 test images of ten classes in Fashion-MNIST's layout, in ./small
small_data() {
  mkdir small
  node -e '
    const fs = require("fs");
    const idx = (file, sizes, fill) => {
      const count = sizes.reduce((a, b) => a * b), head = Buffer.alloc(4 + 4 * sizes.length);
      head.writeUInt32BE(0x800 + sizes.length, 0);
      sizes.forEach((s, i) => head.writeUInt32BE(s, 4 + 4 * i));
      fs.writeFileSync(file, Buffer.concat([head, Buffer.from(Array.from({ length: count }, (_, i) => fill(i)))]));
    };
    let state = 1;
    const noise = () => (state = (state * 48271) % 2147483647) % 150;
    for (const [name, count] of [["train", 600], ["t10k", 100]]) {
      idx(`small/${name}-labels-idx1-ubyte`, [count], (i) => i % 10);
      idx(`small/${name}-images-idx3-ubyte`, [count, 28, 28], (i) => noise() + (Math.floor(i / 56) % 14 === Math.floor(i / 784) % 10 ? 100 : 0));
    }'
}
# The last command of a test.
summary() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
}

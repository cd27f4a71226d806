#!/bin/bash
# Installs a build into a temporary prefix, and builds programs with it: through find_package(pare) README's own and that of
# docs/cpp.md, one with samples of its own and one that adds a method; and a small one through pkg-config as well. No more than 20 headers
# are installed, and README's program compiles in less than 15 CPU-seconds.
#   tests/install/run.sh [BUILD_DIRECTORY]    (build/release)
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$root/build/release}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
expected='lenet-300-100 has [0-9]+ nodes and [1-9][0-9]* tensors'

quietly() {
  "$@" >"$scratch/log" 2>&1 || {
    tail -n 40 "$scratch/log" >&2
    echo "FAIL  $*" >&2
    exit 1
  }
}
fail() {
  echo "FAIL  $*" >&2
  exit 1
}
# A page's program, out of its only block of C++.
from_page() { sed -n '/^```cpp$/,/^```$/p' "$root/$1" | sed '1d;$d'; }
says_so() {
  local output
  output=$("$1")
  [[ $output =~ $expected ]] || {
    echo "FAIL  the program prints: $output" >&2
    exit 1
  }
  echo "ok    $2: $output"
}

quietly cmake --install "$build" --prefix "$prefix"
echo "ok    installed $(find "$prefix" -type f | wc -l) files"
headers=$(find "$prefix" -name '*.h' | wc -l)
[ "$headers" -le 20 ] || fail "$headers headers are installed"
echo "ok    $headers headers"
# libtorch's idle dependencies stay out of the program.
mapped=$(ldd "$prefix/bin/pare" | grep -E 'libopencv_|libavcodec' | grep -vc 'lib/pare/light' || true)
[ "$mapped" -eq 0 ] || fail "the program maps $mapped libraries of OpenCV and FFmpeg"
readelf -d "$prefix/bin/pare" | grep -E 'R(UN)?PATH' | grep -E '::|\[:|:\]' && fail "the program looks for libraries where it is started"
"$prefix/bin/pare" --version >/dev/null || fail "the installed program does not start"
echo "ok    the program maps $(ldd "$prefix/bin/pare" | wc -l) libraries"

quietly cmake -S "$root/tests/install/consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
quietly cmake --build "$scratch/consumer" -j1
cd "$scratch"
says_so "$scratch/consumer/main" "find_package(pare)"
cmp <(from_page docs/cpp.md) <(tail -n +2 "$root/tests/install/consumer/fuse.cpp") || fail "docs/cpp.md has another program than fuse.cpp"
said=$("$scratch/consumer/fuse" consumer.onnx consumer.onnx fused.onnx)
[[ $said == *"computes what the first does"* && -s fused.onnx ]] || fail "the program of docs/cpp.md says: $said"
echo "ok    the program of docs/cpp.md: ${said//$'\n'/; }"
cmp <(from_page README.md) <(tail -n +2 "$root/tests/install/consumer/slim.cpp") || fail "README has another program than slim.cpp"
said=$("$scratch/consumer/slim" consumer.onnx)
[[ $said == *" of "*" MACs" && -s slim.onnx ]] || fail "README's program says: $said"
echo "ok    README's program: $said"
"$scratch/consumer/fuse" missing.onnx consumer.onnx out.onnx 2>/dev/null && fail "a missing file is no error"
for name in own_samples own_method; do
  said=$("$scratch/consumer/$name") || fail "$name: $said"
  echo "ok    $name: $said"
done

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name pare.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs pare)
# shellcheck disable=SC2086
quietly g++ -std=c++20 "$root/tests/install/consumer/main.cpp" $flags -o "$scratch/by_pkg_config"
says_so "$scratch/by_pkg_config" "pkg-config pare"
# shellcheck disable=SC2086
TIMEFORMAT=%U
spent=$({ time g++ -std=c++20 -c "$root/tests/install/consumer/slim.cpp" $(pkg-config --cflags pare) -o "$scratch/slim.o"; } 2>&1)
[ "${spent%.*}" -lt 15 ] || fail "README's program takes $spent s to compile"
echo "ok    README's program compiles in $spent s"

if [ -x "$prefix/bin/pare" ]; then
  quietly "$prefix/bin/pare" --version
  echo "ok    the installed program runs"
fi

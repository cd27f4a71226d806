#!/bin/bash
# Installs a build into a temporary prefix, and builds a small program with it twice: through find_package(pare) and
# through pkg-config.
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

quietly cmake -S "$root/tests/install/consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
quietly cmake --build "$scratch/consumer"
says_so "$scratch/consumer/consumer" "find_package(pare)"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name pare.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs pare)
# shellcheck disable=SC2086
quietly g++ -std=c++20 "$root/tests/install/consumer/main.cpp" $flags -o "$scratch/by_pkg_config"
says_so "$scratch/by_pkg_config" "pkg-config pare"

if [ -x "$prefix/bin/pare" ]; then
  quietly "$prefix/bin/pare" --version
  echo "ok    the installed program runs"
fi

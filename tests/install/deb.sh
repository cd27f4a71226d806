#!/bin/bash
# The Debian package of a build: program, library, Python module, man page and completions, which work where they are unpacked.
#   tests/install/deb.sh [BUILD_DIRECTORY]    (build/release)
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$root/build/release}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAIL  $*" >&2
  exit 1
}
cd "$scratch"
cpack -G DEB --config "$build/CPackConfig.cmake" >log 2>&1 || fail "cpack: $(tail -n 5 log)"
package=$(ls pare_*.deb)
dpkg-deb -f "$package" Depends | grep -q libtorch || fail "it does not depend on libtorch"
dpkg-deb -x "$package" unpacked
for file in bin/pare lib/libpare.a include/pare/pare.h share/man/man1/pare.1 share/bash-completion/completions/pare; do
  [ -s "unpacked/usr/$file" ] || fail "$file is not in it"
done
unpacked/usr/bin/pare --version >/dev/null || fail "the program does not run"
PYTHONPATH=unpacked/usr/lib/python3/dist-packages /usr/bin/python3 -c '
import pare
assert "unpacked" in pare.__file__
assert pare.verify(pare.build("lenet-5"), pare.build("lenet-5"))' || fail "the module does not work"
echo "ok    $package: $(($(stat -c %s "$package") / 1000)) kB, program and module work"

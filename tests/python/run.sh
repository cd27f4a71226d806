#!/bin/bash
# The Python module of a build.
#   tests/python/run.sh [BUILD_DIRECTORY] [ARGUMENTS OF UNITTEST…]    (build/release)
# Debian's Python, for which it is built, whatever else is first in PATH.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$root/build/release}")
[ $# -gt 0 ] && shift
ls "$build"/python/pare/_pare*.so >/dev/null || { echo "FAIL  there is no module in $build/python" >&2; exit 1; }
PARE_BUILD=$build PYTHONPATH=$build/python exec /usr/bin/python3 "$root/tests/python/pare_test.py" "$@"

#!/bin/bash
# Transport solvers against POT and SciPy: 200 random problems of each kind. Needs python3-pot and python3-scipy.
set -euo pipefail
root=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
cd "$root"
cmake --preset release -DPARE_BENCH=ON >/dev/null
cmake --build --preset release --target bench_transport >/dev/null
exec /usr/bin/python3 tests/peers/transport.py build/release/bench_transport

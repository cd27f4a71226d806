#!/bin/bash
# The cost of matching in distillation: a training step by each method against one with soft targets alone.
#   bench/distill.sh [ROUNDS]     (31)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
cmake -S . -B build/release -DPARE_BENCH=ON >/dev/null
cmake --build build/release -j2 --target bench_distill >/dev/null
for threads in 1 2; do
  printf '%s threads, medians of %s rounds: a step, and how many times that of soft targets alone\n' "$threads" "${1:-31}"
  build/release/bench_distill "${1:-31}" "$threads"
done

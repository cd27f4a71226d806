#!/bin/bash
# Throughput of Grad-CAM against PyTorch eager, in turns, and the cost of LRP against a forward and backward.
#   bench/attribution.sh [ROUNDS [IMAGES]]     (7, 1000); needs python3-torch
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
rounds=${1:-7} images=${2:-1000}
cmake -S . -B build/release -DPARE_BENCH=ON >/dev/null
cmake --build build/release -j2 --target bench_attribution >/dev/null
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

printf '%d rounds in turns, %d images, batch 50; images a second, medians\n' "$rounds" "$images"
printf '%-10s %7s %10s %10s %7s\n' model threads pare PyTorch ratio
for arch in vgg9-bn resnet20; do
  for threads in 1 2; do
    coproc OWN { exec build/release/bench_attribution $arch gradcam "$images" $threads; }
    exec {own_in}>&"${OWN[1]}" {own_out}<&"${OWN[0]}"
    exec {peer_in}> >(OMP_NUM_THREADS=$threads exec /usr/bin/python3 bench/attribution_peer.py $arch "$images" $threads >"${TMPDIR:-/tmp}/attribution_peer.$$")
    own=() a=
    for ((round = 0; round <= rounds; ++round)); do  # the first warms up
      before=$(wc -l <"${TMPDIR:-/tmp}/attribution_peer.$$" 2>/dev/null || echo 0)
      echo >&$own_in && read -r a _ <&$own_out
      echo >&$peer_in
      while [ "$(wc -l <"${TMPDIR:-/tmp}/attribution_peer.$$")" -le "$before" ]; do sleep 0.05; done
      [ $round -eq 0 ] || own+=("$a")
    done
    exec {own_in}>&- {own_out}<&- {peer_in}>&-
    eval "exec ${OWN[1]}>&-"
    a=$(printf '%s\n' "${own[@]}" | median)
    b=$(tail -n +2 "${TMPDIR:-/tmp}/attribution_peer.$$" | median)
    rm -f "${TMPDIR:-/tmp}/attribution_peer.$$"
    awk -v n=$arch -v t=$threads -v a="$a" -v b="$b" 'BEGIN {printf "%-10s %7d %10.0f %10.0f %7.2f\n", n, t, a, b, a / b}'
  done
done

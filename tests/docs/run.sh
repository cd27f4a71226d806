#!/bin/bash
# Every command line of the documentation: blocks marked `console`, lines that begin with `$ pare`, in one directory.
#   tests/docs/run.sh [PROGRAM]     (build/release/pare); needs Fashion-MNIST
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${1:-$root/build/release/pare}")
export PARE_DATA=${PARE_DATA:-$root/data}
export OMP_WAIT_POLICY=passive  # threads that wait leave the cores to others
# shellcheck source=tests/cli/lib.sh
source "$root/tests/cli/lib.sh"
mkdir bin && ln -s "$pare" bin/pare
PATH=$PWD/bin:$PATH

pages=(tutorial how-to methods/merging methods/fusion methods/sparsification methods/attribution methods/distillation)
for page in "${pages[@]}"; do
  while IFS= read -r line; do
    if timeout 300 bash -c "$line" >stdout 2>stderr </dev/null; then ok "$page: $line"; else
      bad "$page: $line" "exit $?: $(tail -n 3 stderr)"
    fi
  done < <(awk '/^```console$/ {on = 1; next} /^```/ {on = 0} on && sub(/^\$ /, "")' "$root/docs/$page.md")
done
for page in "$root"/docs/*.md "$root"/docs/methods/*.md; do
  for link in $(grep -oE '\]\([^)#]+' "$page" | cut -c 3- | grep -v '://'); do
    check "$(basename "$page"): link $link" "there is no such file" test -e "$(dirname "$page")/$link"
  done
done
check "the report of the tutorial" "it is not there" test -s report.html
summary

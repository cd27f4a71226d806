#!/bin/bash
# Every command line of the documentation, and where its figures are from (scripts/figures).
#   tests/docs/run.sh [PROGRAM]     (build/release/pare); needs Fashion-MNIST
# Blocks marked `console` are run, page after page in one directory: lines that begin with `$ pare`. All other commands, in
# blocks and in running text, must be taken by the program's parser (--print-config: options are read and nothing is run).
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${1:-$root/build/release/pare}")
export PARE_DATA=${PARE_DATA:-$root/data}
export OMP_WAIT_POLICY=passive  # threads that wait leave the cores to others
# shellcheck source=tests/cli/lib.sh
source "$root/tests/cli/lib.sh"
mkdir bin && ln -s "$pare" bin/pare
ln -s "$root/models" models
PATH=$PWD/bin:$PATH

# fenced KIND PAGE: the lines of its `console` blocks, or of its other blocks; one that ends in a backslash goes on in the next
fenced() {
  awk -v wanted="$1" '
    /^```/ {kind = kind ? "" : $0 == "```console" ? "console" : "other"; next}
    kind == wanted {while (sub(/ *\\$/, "") && (getline more) > 0) {sub(/^ */, " ", more); $0 = $0 more}; print}' "$2"
}

# inline PAGE: what stands between backticks in its running text
inline() { awk '/^```/ {on = !on; next} !on' "$1" | tr '\n' ' ' | grep -oE '`[^`]+`' | tr -d '`'; }

pages=(tutorial how-to methods/merging methods/layerwise methods/compress methods/fusion methods/sparsification methods/attribution methods/distillation)
for page in "${pages[@]}"; do
  while IFS= read -r line; do
    if timeout 300 bash -c "$line" >stdout 2>stderr </dev/null; then ok "$page: $line"; else
      bad "$page: $line" "exit $?: $(tail -n 3 stderr)"
    fi
  done < <(fenced console "$root/docs/$page.md" | sed -n 's/^\$ //p')
done
check "the report of the tutorial" "it is not there" test -s report.html

commands=" $(pare --help | awk '/^  [a-z]/ && $1 != "pare" {print $1}' | tr '\n' ' ')"
data_sets=$(pare data list | awk 'NR > 2 {print $1}' | paste -sd '|')
declare -A seen

# plain LINE: the command alone. No prompt, launcher, comment, or description after two spaces; a placeholder that the parser
# would refuse has a value, of several words to choose from the first is taken, and dots are left out.
plain() {
  sed -E 's/^\$ //; s/^(torchrun|mpirun|srun) .* pare /pare /; s/ +# .*//; s/^(pare [a-z]+) +/\1 /; s/   *[^ ].*$//
    s/ *…//g; s/ ([a-z]+)(\|[a-z]+)+/ \1/; s/ N( |$)/ 1\1/; s/ COMMAND/ train/; s/--arch [A-Z]+/--arch lenet-5/' <<<"$1"
}

accepted() { timeout 60 bash -c "$1 --print-config" >stdout 2>stderr </dev/null; }

# parses PAGE LINE [MORE…]: does the parser take it, as it is or with one of these after it? It does not look at data sets.
parses() {
  local page=$1 line more name reason
  line=$(plain "$2")
  shift 2
  [ -z "${seen[$line]:-}" ] || return 0
  seen[$line]=1
  for name in $(grep -oE -- '--(data|transfer)[ =][^ ]+' <<<"$line" | sed -E 's/^[^ =]+.//'); do
    [[ $name =~ ^($data_sets|folder:.*|csv:.*|voc:.*|segmentation:.*|coco:.*|yolo:.*|[A-Z]+)$ || $name =~ ^($data_sets):. ]] || { bad "$page: $line" "$name is no data set"; return; }
  done
  for more in "" "$@"; do
    if accepted "$line$more"; then ok "$page: $line"; return; fi
    [ -n "$more" ] || reason=$(head -n 1 stderr)
  done
  bad "$page: $line" "$reason"
}

for file in "$root"/{README,AGENTS,SECURITY,models/README}.md "$root"/docs/*.md "$root"/docs/methods/*.md; do
  page=${file#"$root"/} page=${page%.md}
  while IFS= read -r line; do
    case $line in
      'pare '* | '$ pare '* | torchrun*' pare '* | mpirun*' pare '* | srun*' pare '*) parses "$page" "$line" ;;
      ./* | '$ ./'* | tests/* | bench/*)
        script=${line#'$ '} script=${script%% *}
        check "$page: $script" "there is no such program" test -x "$root/$script" ;;
    esac
  done < <(fenced other "$file"; [[ " ${pages[*]/#/docs/} " == *" $page "* ]] || fenced console "$file")
  [ "$page" != docs/reference ] || continue  # its text is printed by the program
  # In running text a command may lack its model, or its last option a value.
  while IFS= read -r span; do
    read -r first second _ <<<"$span"
    if [ "$first" != pare ] && [[ $commands == *" $first "* && $second == --* ]]; then span="pare $span"; fi
    case $span in
      'pare '[a-z]*' '*) parses "$page" "$span" ' MODEL' ' 1' ' 1 MODEL' ;;
      'pare '[a-z]*) [[ $commands == *" ${span#pare } "* ]] || bad "$page: $span" "there is no such command" ;;
    esac
  done < <(inline "$file")
  for link in $(grep -oE '\]\([^)#]+' "$file" | cut -c 3- | grep -v '://'); do
    check "$page: link $link" "there is no such file" test -e "$(dirname "$file")/$link"
  done
done
for command in $commands; do
  check "docs/commands: pare $command" "it is not in the table of commands" grep -q "^pare $command " "$root/docs/commands.md"
done
check "figures are those of docs/figures" "$("$root/scripts/figures" --check 2>&1)" "$root/scripts/figures" --check
check "docs/reference.md is what the program prints" "pare completions markdown >docs/reference.md" \
  cmp -s <(pare completions markdown) "$root/docs/reference.md"
summary

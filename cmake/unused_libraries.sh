#!/bin/sh
# The libraries that LIBRARY is linked to, among those whose names match PATTERN, of which it takes no symbol.
#   unused_libraries.sh LIBRARY PATTERN
set -eu
library=$1
pattern=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
nm -D --undefined-only "$library" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u >"$scratch/taken"
for name in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -E "$pattern"); do
  file=$(ldd "$library" | awk -v name="$name" '$1 == name { print $3 }')
  [ -n "$file" ] || continue
  nm -D --defined-only "$file" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/given"
  [ -z "$(comm -12 "$scratch/taken" "$scratch/given")" ] && echo "$name"
done
exit 0

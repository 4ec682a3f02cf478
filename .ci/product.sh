#!/usr/bin/env bash
# The product is only the product: neither the simulator's libraries nor a planted bug are in what `-p zest` builds.
set -euo pipefail
cd "$(dirname "$0")/.."
TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
ZEST=${ZEST:-$TARGET_DIR/release/zest}
tree=$(cargo tree -p zest -e normal,build,features --prefix none)
for foreign in madsim turmoil proptest 'zest-sim' 'zest-world feature "planted"' 'tokio feature "test-util"'; do
  if grep -qF -- "$foreign" <<<"$tree"; then
    printf 'product: %s is in the dependencies of zest\n' "$foreign" >&2
    exit 1
  fi
done
# The names of the planted bugs, and of the libraries' source files, would stand in the program.
bugs=$(grep -o 'Bug::[A-Z][a-z][A-Za-z]*' actors/world/src/planted.rs | cut -d: -f3 | sort -u)
[ -n "$bugs" ] || { printf 'product: no planted bugs found in actors/world/src/planted.rs\n' >&2; exit 1; }
for word in madsim- turmoil- planted::activate $bugs; do
  if grep -aqF -- "$word" "$ZEST"; then
    printf 'product: %s contains the word %s\n' "$ZEST" "$word" >&2
    exit 1
  fi
done
printf 'product: %s bugs can be planted, none is in the program; no part of the simulator either\n' "$(wc -w <<<"$bugs")"

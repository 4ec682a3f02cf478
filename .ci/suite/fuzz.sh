#!/usr/bin/env bash
# Every fuzz target for SECONDS_EACH seconds, from its saved corpus if it has one. TARGETS chooses some of them.
# `fuzz.sh build` only builds them.
set -euo pipefail
cd "$(dirname "$0")/../.."
SECONDS_EACH=${SECONDS_EACH:-10}
# cargo-fuzz sets its own flags; the two switches of the simulator are off here, as in the product.
unset RUSTFLAGS
unset CARGO_TARGET_DIR
FUZZ=(cargo +nightly fuzz)
"${FUZZ[@]}" build
[ "${1:-}" != build ] || exit 0
log=$(mktemp)
for target in ${TARGETS:-$("${FUZZ[@]}" list)}; do
  "${FUZZ[@]}" run "$target" -- -max_total_time="$SECONDS_EACH" -max_len=4096 -print_final_stats=1 2>"$log" || {
    tail -n 40 "$log"
    exit 1
  }
  printf 'fuzz %s: %s runs, nothing found\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
done
rm -f "$log"

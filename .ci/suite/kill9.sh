#!/usr/bin/env bash
# The serving process is killed with signal 9 under load, ROUNDS times; after each new mount everything that was
# synced must be there and equal, and nothing half there. The program behind it is fuse-frontend/examples/crash_load.
source "$(dirname "$0")/../lib.sh"
ALONE=1
ROUNDS=${ROUNDS:-50} THREADS=${THREADS:-4} SEED=${SEED:-1}
CRASH_LOAD=${CRASH_LOAD:-$TARGET_DIR/release/examples/crash_load}
[ -x "$CRASH_LOAD" ] || (cd "$REPO" && cargo build --quiet --release -p zest --example crash_load)

fs_format
fs_command
"$CRASH_LOAD" --dir "$MNT" --rounds "$ROUNDS" --threads "$THREADS" --seed "$SEED" --log "$SCRATCH/server.log" \
  ${SERVE[@]+-- "${SERVE[@]}"} || fail "kill -9: repeat with SEED=$SEED ROUNDS=$ROUNDS $0"
say "kill -9: $ROUNDS rounds, nothing synced was lost"

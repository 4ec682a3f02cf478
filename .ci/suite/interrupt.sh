#!/usr/bin/env bash
# Processes that wait for a mount, in every way there is, are called away: kill -9 ends each within a second, a signal
# with a handler interrupts those calls that may be interrupted, and the mount is unharmed. Stores and servers are made
# to wait by stopping their processes. CASES chooses some of: store, locks, meta.
export DOOR=${DOOR:-dev}
source "$(dirname "$0")/../lib.sh"
need python3 s3s-fs redis-server
CASES=${CASES:-store locks meta}
[ "$FS" = zest ] || fail "only zest has a door that hears of signals"

waits() { python3 "$REPO/.ci/suite/interrupt.py" "$@"; }

s3_start
S3_PID=${EXTRA_PIDS[-1]}
redis_start
# What is stopped is let go again, however the suite ends: a stopped process can't end.
let_go() { kill -CONT "$S3_PID" "$REDIS_PID" 2>/dev/null || true; }
trap 'status=$?; set +e; let_go; (exit $status); at_end' EXIT

for case in $CASES; do
  section "$case"
  rm -rf "$SCRATCH/volume"
  export ACCESS_KEY=$S3_KEY SECRET_KEY=$S3_SECRET
  if [ "$case" = store ]; then unset META_URL; else META_URL=redis://127.0.0.1:$REDIS_PORT/1; fi
  redis-cli -p "$REDIS_PORT" -n 1 flushdb >/dev/null
  # What the case before left in its store is no concern of this one.
  mkdir "$SCRATCH/s3/$case"
  fs_format --storage s3 --bucket "$S3_URL/$case"
  fs_mount --buffer-size 80M --memory-cache 0
  case $case in
    store) waits store "$MNT" "$S3_PID" ;;
    locks) waits locks "$MNT" 0 ;;
    meta) waits meta "$MNT" "$REDIS_PID" ;;
  esac
  let_go
  fs_umount
done
say "interrupts: every wait could be left, and the mount went on"

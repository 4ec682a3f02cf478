#!/usr/bin/env bash
# File locks between mounts of one volume on a real Redis: two of ours with --posix-locks, then one of ours and one of
# JuiceFS. STEPS of each of four processes at one counter. Without juicefs its part is skipped aloud. Everything lies in
# memory: each step of the counter stores a block, and locks are what is looked at, not the disk.
[ ! -w /dev/shm ] || SCRATCH_BASE=${SCRATCH_BASE:-/dev/shm}
source "$(dirname "$0")/../lib.sh"
only_zest
need python3
STEPS=${STEPS:-1000}
ONE=$SCRATCH/one TWO=$SCRATCH/two
redis_start
URL=redis://127.0.0.1:$REDIS_PORT/1
"$ZEST" format "$URL" locks --bucket "$SCRATCH/objects" --trash-days 0 >"$SCRATCH/format.log" 2>&1 ||
  fail "format: $(tail -n 3 "$SCRATCH/format.log")"

# zest_mount POINT OPTIONS...: mounts it; its process is SERVED.
zest_mount() { zest_serve "$URL" "$1" --posix-locks "${@:2}"; }

section "two mounts of ours"
zest_mount "$ONE" --heartbeat 1
zest_mount "$TWO" --heartbeat 1
SECOND=$SERVED
python3 "$REPO/.ci/suite/locks-judge.py" "$ONE" "$TWO" "$STEPS" || fail "locks between two mounts of ours"

section "a mount that dies"
exec 7> >(python3 "$REPO/.ci/suite/locks.py" >"$SCRATCH/holder")
printf 'open %s\ntry w\n' "$TWO/dead" >&7
for _ in $(seq 50); do [ "$(grep -c '^done' "$SCRATCH/holder")" = 2 ] && break; sleep 0.1; done
[ "$(grep -c '^done' "$SCRATCH/holder")" = 2 ] || fail "no lock in the mount that shall die: $(cat "$SCRATCH/holder")"
[ "$(printf 'open %s\ntry w\n' "$ONE/dead" | python3 "$REPO/.ci/suite/locks.py" | tail -n 1 | cut -d' ' -f1)" = EAGAIN ] ||
  fail "the lock of the other mount does not hold"
kill -KILL "$SECOND"
wait "$SECOND" 2>/dev/null || true
begun=$SECONDS
answer=$(printf 'open %s\nlock w\n' "$ONE/dead" | timeout 40 python3 "$REPO/.ci/suite/locks.py" | tail -n 1 | cut -d' ' -f1)
[ "$answer" = done ] || fail "the lock of a dead mount stays: $answer"
say "right: a dead mount's lock went after $((SECONDS - begun)) s with heartbeats of 1 s"
exec 7>&-
umount -l "$TWO"

if command -v juicefs >/dev/null 2>&1; then
  section "one mount of ours, one of JuiceFS"
  source "$REPO/.ci/clients.sh"
  client_mount juicefs "$URL" "$TWO.theirs" --attr-cache 0 --entry-cache 0 --dir-entry-cache 0
  python3 "$REPO/.ci/suite/locks-judge.py" "$ONE" "$TWO.theirs" "$STEPS" juicefs || fail "locks between ours and JuiceFS"
  client_umount juicefs "$TWO.theirs"
else
  say "SKIPPED: juicefs is not installed (.ci/install.sh bench)"
fi
"$ZEST" umount "$ONE" || fail "umount"
say "locks: all right"

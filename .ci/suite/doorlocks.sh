#!/usr/bin/env bash
# File locks of both kinds through our own door: inside one mount, between two mounts of one volume on a real Redis, and
# beside JuiceFS, whose part is skipped aloud without juicefs. STEPS of each of four processes at one counter. Everything lies in memory: locks are what is looked at, not the disk.
export DOOR=${DOOR:-dev}
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
zest_mount() { zest_serve "$URL" "$1" --door "$DOOR" --heartbeat 1 "${@:2}" && through_rings "$SERVED"; }

judge() { python3 "$REPO/.ci/suite/doorlocks.py" "$@"; }
actor() { python3 "$REPO/.ci/suite/locks.py"; }

zest_mount "$ONE"
section "one mount"
judge "$ONE" "$ONE" "$STEPS" || fail "locks inside a mount"

# It shall die, and nobody shall go on with it.
zest_mount "$TWO" --no-supervisor
SECOND=$SERVED
section "two mounts"
judge "$ONE" "$TWO" "$STEPS" || fail "locks between two mounts"

section "a mount that dies"
exec 7> >(actor >"$SCRATCH/holder")
printf 'open %s\ntry w\nflock w\n' "$TWO/dead" >&7
for _ in $(seq 100); do [ "$(grep -c '^done' "$SCRATCH/holder")" = 3 ] && break; sleep 0.1; done
[ "$(grep -c '^done' "$SCRATCH/holder")" = 3 ] || fail "no lock in the mount that shall die: $(cat "$SCRATCH/holder")"
for attempt in 'try w' 'flock w'; do
  [ "$(printf 'open %s\n%s\n' "$ONE/dead" "$attempt" | actor | tail -n 1 | cut -d' ' -f1)" = EAGAIN ] ||
    fail "a lock of the other mount does not hold: $attempt"
done
kill -KILL "$SECOND"
wait "$SECOND" 2>/dev/null || true
begun=$SECONDS
for wait in 'lock w' 'waitflock w'; do
  answer=$(printf 'open %s\n%s\n' "$ONE/dead" "$wait" | timeout 60 python3 "$REPO/.ci/suite/locks.py" | tail -n 1 | cut -d' ' -f1)
  [ "$answer" = done ] || fail "a lock of a dead mount stays: $wait: $answer"
done
say "right: a dead mount's locks went after $((SECONDS - begun)) s with heartbeats of 1 s"
exec 7>&-
umount -l "$TWO"

if command -v juicefs >/dev/null 2>&1; then
  section "one mount of ours, one of JuiceFS"
  source "$REPO/.ci/clients.sh"
  client_mount juicefs "$URL" "$TWO.theirs" --attr-cache 0 --entry-cache 0 --dir-entry-cache 0
  judge "$ONE" "$TWO.theirs" 0 || fail "locks between ours and JuiceFS"
  client_umount juicefs "$TWO.theirs"
else
  say "SKIPPED: juicefs is not installed (.ci/install.sh bench)"
fi
"$ZEST" umount "$ONE" || fail "umount"
say "door locks: all right"

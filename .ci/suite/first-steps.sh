#!/usr/bin/env bash
# What the README tells a newcomer, word by word: make and mount in one command, work, unmount in every way there is,
# mount again, look at the status; then the background, read-only, and what to do with a mount whose server died.
source "$(dirname "$0")/../lib.sh"
ALONE=1
only_zest
cd "$SCRATCH"
rmdir mnt

# serve ARGUMENTS...: a mount in the foreground, ready when this returns.
serve() {
  "$ZEST" mount "$@" >out 2>err </dev/null &
  FS_PID=$!
  wait_mounted "$MNT" "$FS_PID" || fail "mount $*: not ready: $(cat err)"
}

# ended HOW: the server must be gone, with status 0, and so must the mount.
ended() {
  local status=0
  wait_gone "$FS_PID" 60 || fail "the server is still there a minute after $1"
  wait "$FS_PID" || status=$?
  FS_PID=
  [ "$status" -eq 0 ] || fail "status $status after $1: $(tail -n 3 err)"
  ! is_mounted "$MNT" || fail "still mounted after $1"
  say "right: ended by $1"
}

serve --create ./volume ./mnt
for _ in $(seq 50); do [ -s out ] || [ -s err ] && break; sleep 0.1; done
lines=$(cat out err | grep -c . || true)
[ "$lines" -eq 1 ] || fail "a mount says $lines lines instead of one: $(cat out err)"
grep -q 'umount' out err || fail "the line does not say how to end: $(cat out err)"
say "right: $(cat out err)"
printf 'hello\n' >mnt/greeting
mkdir -p mnt/a/b
ln -s ../greeting mnt/a/link
kill -INT "$FS_PID"
ended "Ctrl-C"

serve --create ./volume ./mnt
[ "$(cat mnt/a/link)" = hello ] || fail "the second mount does not show what the first wrote"
kill -TERM "$FS_PID"
ended "TERM"

serve volume mnt
"$ZEST" umount mnt
ended "zest umount"
serve local://"$SCRATCH/volume" mnt
umount mnt
ended "umount"

python3 - <("$ZEST" status volume) <<'PY' || fail "status is no JSON with a UUID"
import json, sys
text = open(sys.argv[1]).read()
status = json.loads(text)
assert '"UUID"' in text and isinstance(status, dict), text
PY
say "right: status"
"$ZEST" version | grep -q '[0-9]' || fail "version says nothing"

"$ZEST" mount -d --log "$SCRATCH/background.log" volume mnt </dev/null >out 2>&1
is_mounted "$MNT" || fail "the background mount is not there when the command returns: $(cat out)"
[ "$(cat mnt/greeting)" = hello ] || fail "the background mount shows something else"
"$ZEST" umount mnt
! is_mounted "$MNT" || fail "the background mount is still there after umount"
say "right: background"

serve --read-only volume mnt
[ "$(cat mnt/greeting)" = hello ] || fail "the read-only mount shows something else"
if touch mnt/new 2>err2; then fail "a read-only mount took a change"; fi
grep -qi 'read-only' err2 || fail "a change on a read-only mount: $(cat err2)"
"$ZEST" umount mnt
ended "zest umount of a read-only mount"

serve volume mnt
printf 'synced\n' >mnt/kept
sync mnt/kept
kill -KILL "$FS_PID"
wait "$FS_PID" 2>/dev/null || true
FS_PID=
if ls mnt >/dev/null 2>&1; then fail "a mount whose server was killed still answers"; fi
"$ZEST" umount mnt || fail "zest umount does not take a dead mount away"
serve volume mnt
[ "$(cat mnt/kept)" = synced ] || fail "what was synced is gone after a kill"
"$ZEST" umount mnt
ended "zest umount after a kill"

"$ZEST" format memory-volume fleeting --storage mem >out 2>&1 || fail "format with --storage mem: $(cat out)"
serve memory-volume mnt
head -c 9000000 /dev/urandom >sample
cp sample mnt/sample
cmp sample mnt/sample
"$ZEST" umount mnt
ended "zest umount of a volume in memory"
say "first steps: all right"

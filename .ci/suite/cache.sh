#!/usr/bin/env bash
# Cache files on a real mount: what was read once is read again without the store, also after a new mount; what is
# damaged, cut, replaced or gone in the cache is never shown and comes from the store again; a full disk and a directory
# that vanishes cost nothing but speed; two mounts share a directory; strangers' files stay; `zest warmup` says what is
# so. ROUNDS is how often cache files are damaged at random.
source "$(dirname "$0")/../lib.sh"
ALONE=1
need python3
ROUNDS=${ROUNDS:-5} SIZE=${SIZE:-24}
[ "$FS" = zest ] || fail "this suite is about the cache of zest"
[ -x "$ZEST" ] || fail "no program at $ZEST: build it with 'cargo build --release -p zest', or set ZEST"
cd "$SCRATCH"
CACHE=$SCRATCH/cache
OBJECTS=$SCRATCH/objects
# Nothing of what is read may come from memory: neither ours nor the kernel's.
OPTIONS=(--cache-dir "$CACHE" --memory-cache 1 --free-space-ratio 0.01)
fresh() { echo 1 >/proc/sys/vm/drop_caches 2>/dev/null || true; }
mount_fresh() { fs_mount "${OPTIONS[@]}" "$@"; }
again() {
  fs_umount
  mount_fresh "$@"
}
sums() { (cd "$MNT" && find . -type f -print0 | sort -z | xargs -0 md5sum); }
away() { mv "$OBJECTS" "$OBJECTS.away" && mkdir "$OBJECTS"; }
back() { rm -rf "$OBJECTS" && mv "$OBJECTS.away" "$OBJECTS"; }
number() { python3 -c 'import json,sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
warmup() { "$ZEST" warmup --json "$@" "$MNT" | number "$NUMBER"; }
cached() { NUMBER=cached warmup --check; }
total() { NUMBER=bytes warmup --check; }
stored_files() { find "$CACHE" -regextype posix-extended -type f -regex '.*/zest(-[0-9])?/[0-9a-f]{2}/[0-9]+'; }
all_cached() {
  for _ in $(seq 100); do
    [ "$(cached)" != "$(total)" ] || return 0
    sleep 0.1
  done
  fail "not everything is cached: $(cached) of $(total) bytes"
}

fs_format --bucket "$OBJECTS"
mount_fresh
python3 - "$MNT" "$SIZE" <<'PY'
import os, random, sys
place, mib = sys.argv[1], int(sys.argv[2])
chance = random.Random(5)
os.makedirs(place + "/small")
for n in range(200):
    with open(f"{place}/small/{n}", "wb") as file:
        file.write(chance.randbytes(chance.choice([1, 100, 4096, 40_000, 70_000])))
with open(place + "/large", "wb") as file:
    for _ in range(mib):
        file.write(chance.randbytes(1 << 20))
with open(place + "/holes", "wb") as file:
    for n in range(20):
        file.seek(n * 3_000_000 + 17)
        file.write(chance.randbytes(100_001))
PY
sync
sums >want
section "what was written is cached, and read again without the store after a new mount"
all_cached
again
[ "$(cached)" = "$(total)" ] || fail "after a new mount $(cached) of $(total) bytes are cached"
away
sums | cmp - want || fail "without the store the cache shows something else"
back
say "right: $(total) bytes in $(stored_files | wc -l) files, read without the store"

section "warm-up fills, looks, takes out"
[ "$(NUMBER=evicted warmup --evict)" = "$(total)" ] || fail "not everything was taken out"
[ "$(cached)" = 0 ] || fail "after it was taken out $(cached) bytes are cached"
[ "$(stored_files | wc -l)" = 0 ] || fail "files were left: $(stored_files)"
[ "$(NUMBER=fetched warmup -p 4)" = "$(total)" ] || fail "not everything was fetched"
[ "$(cached)" = "$(total)" ] || fail "after the warm-up $(cached) of $(total) bytes are cached"
printf '%s\n' "$MNT/large" "$MNT/small" >list
"$ZEST" warmup -f list --check | grep -q '201 files checked' || fail "a list is not looked at"
! "$ZEST" warmup "$MNT/nothing" >/dev/null 2>&1 || fail "a path that is not there is no error"
[ "$(NUMBER=fetched warmup)" = 0 ] || fail "what is cached was fetched again"
say "right: the counts are true"

section "damage of every kind is never shown, $ROUNDS rounds"
echo mine >"$CACHE/note.txt"
mkdir -p "$(dirname "$(stored_files | head -n 1)")" && echo mine >"$(dirname "$(stored_files | head -n 1)")/note.txt"
for round in $(seq "$ROUNDS"); do
  for when in mounted unmounted; do
    [ "$when" = mounted ] || fs_umount
    python3 - "$round" $(stored_files) <<'PY'
import os, random, sys
chance = random.Random(int(sys.argv[1]))
gone = 0
for path in sys.argv[2:]:
    kind = chance.randrange(8)
    try:
        size, file = os.path.getsize(path), open(path, "r+b")
    except FileNotFoundError:
        # The mount has just thrown away what was damaged before.
        gone += 1
        continue
    with file:
        if kind == 0 and size:
            for _ in range(chance.choice([1, 5])):
                at = chance.randrange(size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << chance.randrange(8)]))
        elif kind == 1:
            file.truncate(chance.randrange(size + 1))
        elif kind == 2:
            file.truncate(0)
    if kind == 3:
        os.unlink(path)
assert gone * 4 < len(sys.argv), f"{gone} of {len(sys.argv) - 2} files are gone"
PY
    [ "$when" = mounted ] || mount_fresh
    fresh
    sums | cmp - want || fail "round $round, $when: a wrong byte"
    kill -0 "$FS_PID" || fail "the server ended"
  done
done
NUMBER=fetched warmup >/dev/null
[ "$(cached)" = "$(total)" ] || fail "the cache does not heal"
[ -e "$CACHE/note.txt" ] && [ "$(find "$CACHE" -name note.txt | wc -l)" = 2 ] || fail "a stranger's file was removed"
say "right: healed, and strangers' files are still there"

section "an index that is damaged or missing is not believed"
for how in damaged missing; do
  fs_umount
  index=$(find "$CACHE" -name index | head -n 1)
  case $how in
    damaged) printf 'x' | dd of="$index" bs=1 seek=3 conv=notrunc status=none ;;
    missing) rm "$index" ;;
  esac
  mount_fresh
  [ "$(cached)" = 0 ] || fail "an index that is $how was believed"
  sums | cmp - want || fail "an index that is $how: a wrong byte"
  NUMBER=fetched warmup >/dev/null
  [ "$(cached)" = "$(total)" ] || fail "an index that is $how: not filled again"
done
say "right: begun anew"

section "killed, and mounted again"
end_process "$FS_PID" KILL
wait_gone "$FS_PID" 10 || true
umount -l "$MNT" 2>/dev/null || true
mount_fresh
sums | cmp - want || fail "after a kill: a wrong byte"
[ "$(cached)" = "$(total)" ] || fail "after a kill $(cached) of $(total) bytes are cached"
say "right: after a kill everything is there"

section "two directories, one of which vanishes; and too little room"
again --cache-dir "$CACHE:$SCRATCH/cache2" --cache-size 16
NUMBER=fetched warmup >/dev/null
sums | cmp - want || fail "two directories: a wrong byte"
used=$(du -sbc $(stored_files) $(find "$SCRATCH/cache2" -type f -size +0) | tail -n 1 | cut -f 1)
[ "$used" -le $((18 << 20)) ] || fail "$used bytes are cached where 16 MiB were allowed"
rm -rf "$SCRATCH/cache2"
fresh
sums | cmp - want || fail "a directory vanished: a wrong byte"
for _ in $(seq 60); do
  ! grep -q 'it was removed' "$SCRATCH/server.log" || break
  sleep 0.1
done
grep -q 'it was removed' "$SCRATCH/server.log" || fail "that a directory vanished is not told"
NUMBER=fetched warmup >/dev/null
sums | cmp - want || fail "after a directory vanished: a wrong byte"
say "right: the mount lives on"

section "a disk that is full"
mkdir "$SCRATCH/tiny"
if mount -t tmpfs -o size=8M,mode=0700 tmpfs "$SCRATCH/tiny" 2>/dev/null; then
  again --cache-dir "$SCRATCH/tiny" --free-space-ratio 0
  sums | cmp - want || fail "on a full disk: a wrong byte"
  NUMBER=fetched warmup >/dev/null
  fresh
  sums | cmp - want || fail "on a full disk, again: a wrong byte"
  [ "$(cached)" -gt 0 ] || fail "a small disk caches nothing"
  dd if=/dev/zero of="$SCRATCH/tiny/others" bs=1M count=8 status=none 2>/dev/null || true
  fresh
  sums | cmp - want || fail "others filled the disk: a wrong byte"
  say "right: $(cached) bytes on a disk of 8 MiB"
else
  say "left out: a full disk, since no tmpfs can be mounted here"
fi

section "memory only, and a second mount on the same directory"
again --cache-dir memory --memory-cache 64
sums | cmp - want || fail "memory only: a wrong byte"
again
S_MNT=$SCRATCH/second
mkdir "$S_MNT"
# The embedded engine serves one process, so the second is a mount of a volume with the same number.
fs_umount
cp -r "$SCRATCH/volume" "$SCRATCH/volume2"
mount_fresh
"$ZEST" mount "$SCRATCH/volume2" "$S_MNT" --read-only "${OPTIONS[@]}" >>"$SCRATCH/second.log" 2>&1 </dev/null &
EXTRA_PIDS+=($!)
for _ in $(seq 100); do
  ! is_mounted "$S_MNT" || break
  sleep 0.1
done
is_mounted "$S_MNT" || fail "the second mount: $(tail -n 3 "$SCRATCH/second.log")"
grep -q 'zest-2' "$SCRATCH/second.log" || fail "the second mount does not say that it goes elsewhere"
sums | cmp - want || fail "the first of two: a wrong byte"
(cd "$S_MNT" && find . -type f -print0 | sort -z | xargs -0 md5sum) | cmp - want || fail "the second of two: a wrong byte"
"$ZEST" umount "$S_MNT"
say "right: each has a folder of its own"
fs_umount
say "cache: all right"

#!/usr/bin/env bash
# Compaction on a mount: small synced writes leave a short list of slices in both kinds of record stores; what was
# written is read by both clients while and after it happens, also when the process is killed in the middle; old
# objects go. WRITES small writes.
source "$(dirname "$0")/../lib.sh"
only_zest
need python3 sha256sum
cd "$SCRATCH"
WRITES=${WRITES:-300}

cat >writes.py <<'PY'
"""writes.py FILE COUNT SEED MODEL: small appends and overwrites, each synced; MODEL has what FILE must show then."""
import os, random, sys
path, count, seed, model = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rng = random.Random(seed)
content = bytearray(open(model, "rb").read() if os.path.exists(model) else b"")
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
copy = os.open(model, os.O_RDWR | os.O_CREAT, 0o644)
for n in range(count):
    at = len(content) if rng.random() < 0.4 else rng.randrange(len(content) + 1)
    data = rng.randbytes(rng.randrange(1, 9000))
    os.pwrite(fd, data, at)
    os.fsync(fd)
    os.pwrite(copy, data, at)
    content[at:at + len(data)] = data
    if n % 25 == 24:
        size = os.fstat(fd).st_size
        assert os.pread(fd, size + 1, 0) == bytes(content), f"after {n + 1} writes the file differs"
os.close(fd)
PY

slices() { # slices FILE: records of its first chunk.
  "$ZEST" info --raw --json "$1" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)[0]["chunks"]))'
}
few() { # few FILE LIMIT: its list becomes as short as that, soon.
  local seen
  for _ in $(seq 100); do
    cat "$1" >/dev/null
    seen=$(slices "$1")
    [ "$seen" -gt "$2" ] || return 0
    sleep 0.1
  done
  fail "$1 still consists of $seen pieces"
}
objects() { find "$1" -type f -path '*chunks*' | wc -l; }

section "embedded"
"$ZEST" format volume suite --trash-days 0 >format.log 2>&1 || fail "format: $(cat format.log)"
fs_format() { :; }
FS_URL=$SCRATCH/volume
"$ZEST" mount "$FS_URL" "$MNT" -d --log "$SCRATCH/zest.log" || fail "mount: $(tail -n 3 "$SCRATCH/zest.log")"
python3 writes.py "$MNT/file" "$WRITES" 1 model
few "$MNT/file" 4
cmp model "$MNT/file" || fail "the file differs"
"$ZEST" umount "$MNT"
[ "$(objects volume)" -le 6 ] || fail "$(objects volume) objects are left of $WRITES writes"
"$ZEST" fsck volume >fsck.log 2>&1 || fail "fsck: $(tail -n 4 fsck.log)"
say "embedded: $WRITES writes, $(objects volume) objects"

section "killed in the middle"
for round in 1 2 3 4; do
  "$ZEST" mount "$FS_URL" "$MNT" >serve.log 2>&1 </dev/null &
  FS_PID=$!
  for _ in $(seq 100); do is_mounted "$MNT" && break; sleep 0.1; done
  python3 writes.py "$MNT/killed" 120 "$round" model.killed
  # Every read of the list asks for it: the end comes while it is at work.
  for _ in 1 2 3; do cat "$MNT/killed" >/dev/null; done
  kill -9 "$FS_PID"
  wait "$FS_PID" 2>/dev/null || true
  FS_PID=
  "$ZEST" umount "$MNT" >/dev/null 2>&1 || umount -l "$MNT"
  "$ZEST" fsck volume >fsck.log 2>&1 || fail "fsck after a kill: $(tail -n 4 fsck.log)"
  "$ZEST" mount "$FS_URL" "$MNT" -d --log "$SCRATCH/zest.log"
  cmp model.killed "$MNT/killed" || fail "round $round: the file differs"
  "$ZEST" umount "$MNT"
done
JFS_GC_SKIPPEDTIME=0 "$ZEST" gc volume --delete >gc.log 2>&1 || fail "gc: $(tail -n 3 gc.log)"
"$ZEST" fsck volume >fsck.log 2>&1 || fail "fsck: $(tail -n 4 fsck.log)"

if ! command -v juicefs >/dev/null 2>&1 || ! command -v redis-server >/dev/null 2>&1; then
  say "the rest is skipped: juicefs or redis-server is not installed"
  exit 0
fi
source "$REPO/.ci/clients.sh"
redis_start
number=0
for days in 0 1; do
  section "on Redis, with the original client as reader, trash $days"
  number=$((number + 1))
  URL=redis://127.0.0.1:$REDIS_PORT/$number
  client_format zest "$URL" "$SCRATCH/objects$number" --trash-days "$days"
  client_mount zest "$URL" "$SCRATCH/one"
  client_mount juicefs "$URL" "$SCRATCH/two"
  rm -f model
  python3 writes.py one/file "$WRITES" 2 model
  cmp model two/file || fail "juicefs reads something else"
  few one/file 4
  [ "$(redis-cli -p "$REDIS_PORT" -n "$number" llen c"$(stat -c %i one/file)"_0)" -le 4 ] || fail "the list is long"
  cmp model one/file || fail "the file differs"
  if [ "$days" = 0 ]; then
    # What it has open and cached may name slices that are gone: it opens the file anew.
    sleep 1
  fi
  cmp model two/file || fail "juicefs reads something else after compaction"
  # And the other way: the original compacts what we have read.
  rm -f model
  python3 writes.py two/theirs "$WRITES" 3 model
  cmp model one/theirs || fail "we read something else"
  juicefs compact two/theirs >/dev/null 2>&1 || fail "juicefs compact"
  cmp model one/theirs || fail "we read something else after juicefs compact"
  client_umount juicefs "$SCRATCH/two"
  client_umount zest "$SCRATCH/one"
  # Without a mount, by --compact: three slices, which no reader has shortened yet.
  client_mount juicefs "$URL" "$SCRATCH/two"
  for n in 0 1 2; do dd if=/dev/urandom of=two/slow bs=5000 count=1 seek="$n" conv=notrunc,fsync status=none; done
  sha256sum two/slow >sums
  client_umount juicefs "$SCRATCH/two"
  "$ZEST" gc "$URL" --compact >gc.log 2>&1 || fail "gc --compact: $(tail -n 3 gc.log)"
  grep -qE 'Compacted [1-9][0-9]* chunks' gc.log || fail "nothing was compacted: $(cat gc.log)"
  "$ZEST" gc "$URL" --compact >gc.log 2>&1 || fail "gc --compact: $(tail -n 3 gc.log)"
  grep -q 'Compacted 0 chunks' gc.log || fail "something is compacted again: $(cat gc.log)"
  client_mount juicefs "$URL" "$SCRATCH/two"
  sha256sum -c sums >/dev/null || fail "gc --compact changed a file"
  client_umount juicefs "$SCRATCH/two"
  for program in "$ZEST" juicefs; do
    "$program" fsck "$URL" >fsck.log 2>&1 || fail "$program fsck: $(tail -n 4 fsck.log)"
    JFS_GC_SKIPPEDTIME=0 "$program" gc "$URL" >gc.log 2>&1 || fail "$program gc: $(tail -n 4 gc.log)"
    grep -q ' 0 leaked' gc.log || fail "$program gc: $(tail -n 1 gc.log)"
  done
  say "trash $days: $(grep -oE 'scanned.*' gc.log | cut -c1-120)"
done
say "done"

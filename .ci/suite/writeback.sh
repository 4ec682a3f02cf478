#!/usr/bin/env bash
# The write-back mode, and a store that is away, on real mounts: kill -9 and power cuts under load, a dead store with
# and without staging, damaged staged blocks, staged blocks of the original client. Parts can be named as arguments:
# kill cut away term direct damage takeover. ROUNDS: kills; CUTS: power cuts; AWAY: seconds without a store; WRITERS: how
# many wait for it.
source "$(dirname "$0")/../lib.sh"
ALONE=1
only_zest
ROUNDS=${ROUNDS:-4} CUTS=${CUTS:-3} AWAY=${AWAY:-6} WRITERS=${WRITERS:-40} SEED=${SEED:-1}
CRASH_LOAD=${CRASH_LOAD:-$TARGET_DIR/release/examples/crash_load}
[ -x "$CRASH_LOAD" ] || (cd "$REPO" && cargo build --quiet --release -p zest --example crash_load)
need getfattr sha256sum python3

CACHE=$SCRATCH/cache
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 -r sha256sum); }
waiting() { getfattr --only-values -n user.zest.staged "$1" 2>/dev/null | cut -d' ' -f1; }
journal_files() { find "$CACHE" -name 'journal-*' -o -name 'damaged-*' | sort; }
another_volume() {
  rm -rf "$SCRATCH/volume" "$SCRATCH/cache" "$SCRATCH/objects"
  unset META_URL
}

# What the mount shows is in the store: equal after the cache is gone.
same_without_cache() {
  "$ZEST" flush "$MNT" || fail "flush"
  sums "$MNT" >"$SCRATCH/before.sums"
  local file
  for file in $(find "$MNT" -type f | head -n 20); do
    [ "$(waiting "$file")" = 0 ] || fail "$file still waits after a flush: $(waiting "$file") blocks"
  done
  fs_umount
  [ -z "$(journal_files)" ] || fail "files of the journal are left after an unmount: $(journal_files)"
  rm -rf "$CACHE"
  fs_mount
  sums "$MNT" >"$SCRATCH/after.sums"
  cmp "$SCRATCH/before.sums" "$SCRATCH/after.sums" || fail "content differs once the cache is gone"
  say "$(wc -l <"$SCRATCH/after.sums") files are equal without the cache"
  fs_umount
  "$ZEST" fsck "${META_URL:-$SCRATCH/volume}" >"$SCRATCH/fsck.log" 2>&1 || fail "fsck: $(tail -n 3 "$SCRATCH/fsck.log")"
}

part_kill() {
  section "kill -9 under write-back load, $ROUNDS rounds"
  another_volume
  fs_format
  fs_command
  "$CRASH_LOAD" --dir "$MNT" --rounds "$ROUNDS" --threads 4 --seed "$SEED" --log "$SCRATCH/server.log" -- \
    "${SERVE[@]}" --writeback --cache-dir "$CACHE" --upload-delay 2 || fail "repeat with SEED=$SEED ROUNDS=$ROUNDS $0 kill"
  fs_mount --writeback --cache-dir "$CACHE"
  same_without_cache
}

# A power cut: a file system is told to forget what it has not written (as xfstests does it), after the process died.
# What it does not show is a device that loses writes it was given and not told to flush: that needs a device mapper
# with log-writes, which this kernel may not have; the simulated disk does it.
part_cut() {
  section "power cuts under write-back load, $CUTS rounds"
  another_volume
  local disk=$SCRATCH/disk
  mkdir -p "$disk"
  truncate -s 1G "$SCRATCH/disk.img"
  if ! mkfs.ext4 -q -F "$SCRATCH/disk.img" || ! mount -o loop "$SCRATCH/disk.img" "$disk" 2>/dev/null; then
    say "SKIPPED: no loop device or no ext4 here"
    return 0
  fi
  cat >"$SCRATCH/cut.sh" <<CUT
#!/usr/bin/env bash
# Takes the power from $disk, gives it back, and goes on with the command.
if [ -e "$disk/cut-next" ]; then
  python3 - "$disk" <<'PY' || exit 1
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(fd, 0x8004587D, struct.pack("I", 2))  # EXT4_IOC_SHUTDOWN, without flushing the log
PY
  for n in \$(seq 50); do umount "$disk" 2>/dev/null && break; sleep 0.1; done
  mount -o loop "$SCRATCH/disk.img" "$disk" || exit 1
  printf 'cut\n' >>"$SCRATCH/cuts"
fi
touch "$disk/cut-next"
sync -f "$disk"
exec "\$@"
CUT
  chmod +x "$SCRATCH/cut.sh"
  CACHE=$disk/cache
  "$ZEST" format "$disk/volume" suite --trash-days 0 >>"$SCRATCH/format.log" 2>&1 || fail "format"
  : >"$SCRATCH/cuts"
  "$CRASH_LOAD" --dir "$MNT" --rounds "$CUTS" --threads 4 --seed "$SEED" --log "$SCRATCH/server.log" -- \
    "$SCRATCH/cut.sh" "$ZEST" mount "$disk/volume" "$MNT" --writeback --cache-dir "$CACHE" --upload-delay 2 ||
    fail "repeat with SEED=$SEED CUTS=$CUTS $0 cut"
  say "$(wc -l <"$SCRATCH/cuts") power cuts, nothing synced was lost"
  META_URL=$disk/volume
  fs_mount --writeback --cache-dir "$CACHE"
  same_without_cache
  unset META_URL
  CACHE=$SCRATCH/cache
  umount "$disk"
  rm "$SCRATCH/disk.img"
}

store_up() {
  RUST_LOG=error s3s-fs --host 127.0.0.1 --port "$STORE_PORT" --access-key k --secret-key s "$SCRATCH/s3" \
    >>"$SCRATCH/s3.log" 2>&1 </dev/null &
  STORE_PID=$!
  EXTRA_PIDS+=("$STORE_PID")
  for _ in $(seq 100); do
    if (exec 3<>/dev/tcp/127.0.0.1/"$STORE_PORT") 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  fail "the S3 server does not listen"
}
store_down() {
  end_process "$STORE_PID" KILL
  wait "$STORE_PID" 2>/dev/null || true
}
on_s3() {
  need s3s-fs
  another_volume
  rm -rf "$SCRATCH/s3"
  mkdir -p "$SCRATCH/s3/suite"
  STORE_PORT=$(free_port)
  store_up
  fs_format --storage s3 --bucket "http://127.0.0.1:$STORE_PORT/suite" --access-key k --secret-key s
}

part_away() {
  section "the store is away for $AWAY seconds, with staging: writers go on"
  on_s3
  fs_mount --writeback --cache-dir "$CACHE"
  head -c 3000000 /dev/urandom >"$MNT/first"
  sync "$MNT/first"
  store_down
  local end=$((SECONDS + AWAY)) written=0
  while [ $SECONDS -lt $end ] || [ "$written" -eq 0 ]; do
    head -c 700000 /dev/urandom >"$SCRATCH/sample"
    timeout 30 dd if="$SCRATCH/sample" of="$MNT/f$written" bs=64k conv=fsync status=none || fail "a writer does not go on"
    timeout 30 cmp "$SCRATCH/sample" "$MNT/f$written" || fail "what waits is not what was written"
    written=$((written + 1))
  done
  [ "$(waiting "$MNT/f0")" -gt 0 ] || fail "nothing waits although there is no store"
  "$ZEST" info "$MNT/f0" | grep -q 'staged: [1-9]' || fail "zest info does not show what waits"
  say "$written files were written and synced without a store"
  store_up
  same_without_cache
  store_down
}

part_term() {
  section "TERM: what waits is uploaded; without a store a second one leaves it to the next mount"
  on_s3
  fs_mount --writeback --cache-dir "$CACHE" --upload-delay 1h
  head -c 3000000 /dev/urandom >"$SCRATCH/sample"
  cp "$SCRATCH/sample" "$MNT/one"
  sync "$MNT/one"
  [ "$(waiting "$MNT/one")" -gt 0 ] || fail "nothing waits although it should for an hour"
  kill -TERM "$FS_PID"
  wait_gone "$FS_PID" 60 || fail "the server does not end at TERM"
  [ -z "$(journal_files)" ] || fail "something still waits after TERM"
  fs_mount --writeback --cache-dir "$CACHE"
  cp "$SCRATCH/sample" "$MNT/two"
  store_down
  cp "$SCRATCH/sample" "$MNT/three"
  sync "$MNT/three"
  kill -TERM "$FS_PID"
  for _ in $(seq 200); do grep -q "go to the object store" "$SCRATCH/server.log" && break; sleep 0.1; done
  grep -q "go to the object store" "$SCRATCH/server.log" || fail "TERM does not say what it waits for"
  kill -TERM "$FS_PID"
  wait_gone "$FS_PID" 60 || fail "the server does not end at a second TERM"
  grep -q "mount the volume again with the same --cache-dir" "$SCRATCH/server.log" || fail "it is not said what is left"
  store_up
  fs_mount --cache-dir "$CACHE"
  cmp "$SCRATCH/sample" "$MNT/three" || fail "what was left is not there"
  same_without_cache
  store_down
}

part_direct() {
  section "the store is away for $AWAY seconds, without staging: $WRITERS writers wait, readers go on"
  on_s3
  fs_mount --buffer-size 96M
  head -c 8000000 /dev/urandom >"$SCRATCH/sample"
  cp "$SCRATCH/sample" "$MNT/cached"
  sync "$MNT/cached"
  cmp "$SCRATCH/sample" "$MNT/cached" || fail "what was written is not there"
  store_down
  local n pids=()
  for n in $(seq "$WRITERS"); do
    dd if="$SCRATCH/sample" of="$MNT/w$n" bs=1M iflag=fullblock conv=fsync status=none 2>>"$SCRATCH/writers.log" &
    pids+=($!)
  done
  local end=$((SECONDS + AWAY)) reads=0
  while [ $SECONDS -lt $end ]; do
    timeout 20 dd if="$MNT/cached" iflag=direct bs=1M status=none 2>/dev/null | cmp -s "$SCRATCH/sample" - ||
      fail "a reader of cached data does not go on"
    reads=$((reads + 1))
    sleep 0.2
  done
  [ ! -s "$SCRATCH/writers.log" ] || fail "a writer did not wait: $(head -n 1 "$SCRATCH/writers.log")"
  for n in "${pids[@]}"; do kill -0 "$n" 2>/dev/null || fail "a sync was answered without a store"; done
  store_up
  for n in "${pids[@]}"; do wait "$n" || fail "a writer failed: $(head -n 1 "$SCRATCH/writers.log")"; done
  for n in $(seq "$WRITERS"); do cmp "$SCRATCH/sample" "$MNT/w$n" || fail "w$n is not what was written"; done
  cp "$SCRATCH/sample" "$MNT/w1"
  sync "$MNT/w1" || fail "an error stuck to a file"
  say "$WRITERS writers waited and went on, $reads reads in between"
  fs_umount
  store_down
}

part_damage() {
  section "a damaged staged block"
  another_volume
  fs_format
  fs_mount --writeback --cache-dir "$CACHE" --upload-delay 1h
  head -c 900000 /dev/urandom >"$MNT/good"
  sync "$MNT/good"
  head -c 900000 /dev/urandom >"$SCRATCH/bad"
  cp "$SCRATCH/bad" "$MNT/bad"
  sync "$MNT/bad"
  local good
  good=$(sha256sum <"$MNT/good")
  end_process "$FS_PID" KILL
  wait "$FS_PID" 2>/dev/null || true
  umount -l "$MNT"
  python3 - "$SCRATCH/bad" $(journal_files) <<'PY'
import sys
wanted = open(sys.argv[1], "rb").read()[:4096]
for name in sys.argv[2:]:
    with open(name, "r+b") as file:
        at = file.read().find(wanted)
        if at >= 0:
            file.seek(at + 100)
            file.write(bytes([wanted[100] ^ 1]))
            sys.exit(0)
sys.exit("the block is in no file of the journal")
PY
  : >"$SCRATCH/server.log"
  fs_mount --writeback --cache-dir "$CACHE"
  if "$ZEST" flush "$MNT" 2>"$SCRATCH/answer" && ! grep -q "damaged" "$SCRATCH/server.log"; then
    fail "a damaged block is not told"
  fi
  grep -q "damaged" "$SCRATCH/server.log" || fail "the log says nothing of a damaged block"
  [ "$(sha256sum <"$MNT/good")" = "$good" ] || fail "the other file suffered"
  if cat "$MNT/bad" >"$SCRATCH/read" 2>/dev/null; then cmp "$SCRATCH/bad" "$SCRATCH/read" || fail "a wrong byte was served"; fi
  fs_umount
  find "$CACHE" -name 'damaged-*' | grep -q . || fail "the damaged block was not kept"
  say "damage is told and kept, and no wrong byte was served"
}

part_takeover() {
  section "staged blocks of the original client"
  if ! command -v juicefs >/dev/null || ! command -v redis-server >/dev/null; then
    say "SKIPPED: juicefs or redis-server is not installed"
    return 0
  fi
  another_volume
  redis_start
  META_URL=redis://127.0.0.1:$REDIS_PORT/1
  juicefs format "$META_URL" suite --storage file --bucket "$SCRATCH/objects/" --trash-days 0 >>"$SCRATCH/format.log" 2>&1 ||
    fail "juicefs format"
  juicefs mount "$META_URL" "$MNT" --no-usage-report --backup-meta 0 --cache-dir "$CACHE" --writeback --upload-delay 1h \
    --metrics 127.0.0.1:0 --no-agent >>"$SCRATCH/juicefs.log" 2>&1 </dev/null &
  local pid=$!
  EXTRA_PIDS+=("$pid")
  for _ in $(seq 100); do is_mounted "$MNT" && break; sleep 0.1; done
  head -c 9000000 /dev/urandom >"$SCRATCH/sample"
  cp "$SCRATCH/sample" "$MNT/left"
  sync "$MNT/left"
  local found
  found=$(find "$CACHE" -path '*rawstaging*' -type f | wc -l)
  [ "$found" -gt 0 ] || fail "the original client staged nothing"
  end_process "$pid" KILL
  wait "$pid" 2>/dev/null || true
  umount -l "$MNT"
  fs_mount --cache-dir "$CACHE"
  cmp "$SCRATCH/sample" "$MNT/left" || fail "what the other client staged can't be read"
  "$ZEST" flush "$MNT" || fail "flush"
  fs_umount
  [ "$(find "$CACHE" -path '*rawstaging*' -type f | wc -l)" -eq 0 ] || fail "staged files are left"
  rm -rf "$CACHE"
  fs_mount --cache-dir "$CACHE"
  cmp "$SCRATCH/sample" "$MNT/left" || fail "what the other client staged is not in the store"
  fs_umount
  unset META_URL
  say "$found staged blocks of the original client were taken over"
}

for part in ${*:-kill cut away term direct damage takeover}; do "part_$part"; done
say ""
say "write-back: all right"

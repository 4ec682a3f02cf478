#!/usr/bin/env bash
# Wrong use answers well: every case must end with a status other than 0 within seconds, say in one line what is
# wrong and what helps, and lose nothing. The words a line must hold are the third argument of `refused`.
source "$(dirname "$0")/../lib.sh"
only_zest
cases=0 wrong=0

# refused TITLE PATTERN COMMAND...: the command must fail with one line that matches PATTERN (extended, any case).
refused() {
  local title=$1 pattern=$2 status=0 lines
  shift 2
  timeout 60 "$@" >"$SCRATCH/answer" 2>&1 </dev/null || status=$?
  cases=$((cases + 1))
  lines=$(sed 's/\x1b\[[0-9;]*m//g' "$SCRATCH/answer" | grep -c . || true)
  local why=
  if [ "$status" -eq 0 ]; then why="status 0"; fi
  if [ "$status" -eq 124 ]; then why="no end within a minute"; fi
  if [ "$status" -ge 100 ] && [ "$status" -ne 124 ]; then why="status $status: a crash"; fi
  if [ "$lines" -ne 1 ]; then why="${why:+$why; }$lines lines"; fi
  if ! grep -qiE -- "$pattern" "$SCRATCH/answer"; then why="${why:+$why; }no match for '$pattern'"; fi
  if [ -n "$why" ]; then
    wrong=$((wrong + 1))
    say "WRONG  $title: $why"
    head -n 6 "$SCRATCH/answer" | sed 's/^/       | /'
  else
    say "right  $title: $(head -n 1 "$SCRATCH/answer")"
  fi
}

# holds TITLE COMMAND...: the command must succeed.
holds() {
  local title=$1
  shift
  cases=$((cases + 1))
  if "$@" >"$SCRATCH/answer" 2>&1 </dev/null; then
    say "right  $title"
  else
    wrong=$((wrong + 1))
    say "WRONG  $title"
    head -n 6 "$SCRATCH/answer" | sed 's/^/       | /'
  fi
}

volume=$SCRATCH/volume
mkdir "$SCRATCH/other" "$SCRATCH/empty" "$SCRATCH/photos"
printf 'not a volume\n' >"$SCRATCH/photos/cat.jpg"

section "what is no volume"
refused "mount of nothing" "nowhere.*(format|--create)" "$ZEST" mount "$SCRATCH/nowhere" "$MNT"
refused "mount of an empty folder" "empty.*(format|--create)" "$ZEST" mount "$SCRATCH/empty" "$MNT"
refused "mount of a folder of other things" "photos" "$ZEST" mount "$SCRATCH/photos" "$MNT"
refused "mount of a file" "cat.jpg" "$ZEST" mount "$SCRATCH/photos/cat.jpg" "$MNT"
refused "status of nothing" "nowhere" "$ZEST" status "$SCRATCH/nowhere"
refused "an engine this version has not" "tikv.*not supported yet" "$ZEST" mount tikv://127.0.0.1:1/0 "$MNT"
refused "a server that is not there" "127.0.0.1:1 .*running" "$ZEST" mount redis://127.0.0.1:1/0 "$MNT"
holds "the folder of other things is untouched" test "$(ls "$SCRATCH/photos")" = cat.jpg
holds "nothing was made by a refused mount" test ! -e "$SCRATCH/nowhere"

section "format"
refused "a name that is none" "name" "$ZEST" format "$SCRATCH/new" 'Bad Name!'
refused "a storage that is none" "storage|floppy" "$ZEST" format "$SCRATCH/new" good-name --storage floppy
refused "a block size that is none" "block.?size" "$ZEST" format "$SCRATCH/new" good-name --block-size banana
refused "a folder one may not write" "/proc" "$ZEST" format /proc/zest good-name
fs_format
fs_mount
printf 'precious\n' >"$MNT/kept"
sync "$MNT/kept"
fs_umount
uuid() { "$ZEST" status "$volume" | grep -o '"UUID": *"[^"]*"'; }
before=$(uuid)
refused "format over a volume" "volume.*(--force|exist|already)" "$ZEST" format "$volume" another
holds "the volume is the same" test "$before" = "$(uuid)"
mkdir "$SCRATCH/used-store"
cp -a "$volume/objects/." "$SCRATCH/used-store/"
refused "format onto the store of another volume" "used-store" \
  "$ZEST" format "$SCRATCH/new" suite --storage file --bucket "$SCRATCH/used-store"
holds "the store of the other volume is untouched" diff -r "$volume/objects" "$SCRATCH/used-store"

section "a bucket one may not write"
mkdir "$SCRATCH/ro"
mount -t tmpfs -o ro,size=1m none "$SCRATCH/ro"
refused "a read-only folder" "$SCRATCH/ro" "$ZEST" format "$SCRATCH/new2" good-name --storage file --bucket "$SCRATCH/ro/objects"
umount "$SCRATCH/ro"
s3_start
refused "a wrong secret" "suite|access|key" "$ZEST" format "$SCRATCH/new3" good-name --storage s3 \
  --bucket "$S3_URL/suite" --access-key "$S3_KEY" --secret-key wrong
refused "no such server" "127.0.0.1:9" "$ZEST" format "$SCRATCH/new4" good-name --storage s3 \
  --bucket http://127.0.0.1:9/suite --access-key a --secret-key b
holds "no secret in an answer" bash -c "! grep -q $S3_SECRET $SCRATCH/answer"

section "mount points"
refused "a mount point that is missing" "missing" "$ZEST" mount "$volume" "$SCRATCH/missing/deep"
refused "a mount point that is a file" "cat.jpg" "$ZEST" mount "$volume" "$SCRATCH/photos/cat.jpg"
fs_mount
refused "a mount point that is busy" "mnt.*(mounted|busy|umount)|(mounted|busy).*mnt" "$ZEST" mount --create "$SCRATCH/second" "$MNT"
refused "a volume in use: mount" "volume.*(in use|another|umount)|(in use|another).*volume" "$ZEST" mount "$volume" "$SCRATCH/other"
refused "a volume in use: format" "volume" "$ZEST" format "$volume" another --force
holds "the first mount is alive" test "$(cat "$MNT/kept")" = precious
(cd "$MNT" && exec sleep 30) &
holder=$!
EXTRA_PIDS+=("$holder")
sleep 0.3
refused "umount of a mount somebody stands in" "mnt.*(busy|use)|(busy|use).*mnt" "$ZEST" umount "$MNT"
holds "and it is still alive" test "$(cat "$MNT/kept")" = precious
end_process "$holder"
wait "$holder" || true
fs_umount
refused "umount of what is not mounted" "nothing.*mounted.*mnt|not mounted" "$ZEST" umount "$MNT"

section "a full disk"
mkdir "$SCRATCH/small" "$SCRATCH/small-mnt"
mount -t tmpfs -o size=48m none "$SCRATCH/small"
volume=$SCRATCH/small/volume
"$ZEST" format "$volume" small --trash-days 0 >/dev/null 2>&1
"$ZEST" mount "$volume" "$SCRATCH/small-mnt" >>"$SCRATCH/server.log" 2>&1 </dev/null &
FS_PID=$!
for _ in $(seq 100); do is_mounted "$SCRATCH/small-mnt" && break; sleep 0.1; done
head -c 4000000 /dev/urandom >"$SCRATCH/sample"
cp "$SCRATCH/sample" "$SCRATCH/small-mnt/before"
sync "$SCRATCH/small-mnt/before"
refused "writing more than there is" "no space|input/output|full" \
  dd if=/dev/urandom of="$SCRATCH/small-mnt/big" bs=1M count=100 conv=fsync status=none
holds "what was synced before is there" cmp "$SCRATCH/sample" "$SCRATCH/small-mnt/before"
holds "removing works on a full disk" rm "$SCRATCH/small-mnt/big"
freed() { for _ in $(seq 100); do cp "$SCRATCH/sample" "$SCRATCH/small-mnt/after" 2>/dev/null && sync "$SCRATCH/small-mnt/after" && return 0; sleep 0.2; done; return 1; }
holds "after that there is room again" freed
"$ZEST" umount "$SCRATCH/small-mnt"
wait_gone "$FS_PID" 60 || fail "the server is still there a minute after the unmount"
"$ZEST" mount "$volume" "$SCRATCH/small-mnt" >>"$SCRATCH/server.log" 2>&1 </dev/null &
FS_PID=$!
for _ in $(seq 100); do is_mounted "$SCRATCH/small-mnt" && break; sleep 0.1; done
holds "and after the next mount too" cmp "$SCRATCH/sample" "$SCRATCH/small-mnt/before"
"$ZEST" umount "$SCRATCH/small-mnt"
wait_gone "$FS_PID" 60 || fail "the server is still there a minute after the unmount"
FS_PID=

say ""
say "wrong use: $((cases - wrong)) of $cases answers right"
[ "$wrong" -eq 0 ] || fail "wrong use"

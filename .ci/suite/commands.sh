#!/usr/bin/env bash
# The commands that look after a volume, on Redis: what ours and the original client's say of the same volume must
# agree, whoever wrote it: check, search for leaked objects, and what each finds after the same damage.
source "$(dirname "$0")/../lib.sh"
only_zest
if ! command -v juicefs >/dev/null 2>&1; then
  say "skipped: juicefs is not installed, and this suite compares with it"
  exit 0
fi
source "$(dirname "$0")/../clients.sh"
cd "$SCRATCH"
redis_start
cli() { redis-cli -p "$REDIS_PORT" "$@"; }

# both STATUS WORDS COMMAND...: ours and theirs end with the status (0 or not), and ours says the words.
both() {
  local want=$1 words=$2 client status
  shift 2
  for client in "$ZEST" juicefs; do
    status=0
    timeout 300 "$client" "$@" >"answer" 2>&1 </dev/null || status=$?
    [ "$status" -gt 1 ] && fail "$client $*: status $status: $(tail -n 5 answer)"
    [ "$status" -eq "$want" ] || fail "$client $*: status $status and not $want: $(tail -n 5 answer)"
    grep -q -- "$words" answer || fail "$client $*: no '$words' in: $(cat answer)"
  done
  say "both: $* : $words"
}

# Ours and theirs must count alike: the numbers of the line that gc ends with, as both print it.
gc_alike() {
  "$ZEST" gc "$@" >ours 2>&1 || fail "zest gc: $(cat ours)"
  juicefs gc "$@" >theirs 2>&1 || fail "juicefs gc: $(cat theirs)"
  grep -oE 'scanned [0-9]+ objects.*' ours | sed -E 's/, [0-9]+ deleted.*//' >ours.line
  grep -oE 'scanned [0-9]+ objects.*' theirs | sed 's/ \[gc.*//' >theirs.line
  cmp -s ours.line theirs.line || fail "gc counts otherwise: ours: $(cat ours.line) theirs: $(cat theirs.line)"
  say "both: $(cat ours.line)"
}

fill() { # fill FOLDER: a tree with what a volume can hold.
  mkdir -p "$1"/a/b/c "$1"/empty
  head -c 9000000 /dev/urandom >"$1"/a/large
  for n in $(seq 50); do echo "$n" >"$1"/a/b/"$n"; done
  ln "$1"/a/large "$1"/a/b/again
  ln -s large "$1"/a/link
  truncate -s 200000000 "$1"/a/b/c/sparse
  printf 'x' | dd of="$1"/a/large bs=1 seek=5000000 conv=notrunc status=none
  mkfifo "$1"/fifo
  rm "$1"/a/b/7
}

number=0
for client in zest juicefs; do
  for shape in "--trash-days 0" "--trash-days 1" "--trash-days 0 --hash-prefix"; do
    number=$((number + 1))
    URL=redis://127.0.0.1:$REDIS_PORT/$number
    section "$client $shape"
    # shellcheck disable=SC2086 # several options
    client_format "$client" "$URL" "$SCRATCH/objects$number" $shape
    client_mount "$client" "$URL" "$SCRATCH/mnt"
    fill mnt
    both 0 "" fsck "$URL"
    client_umount "$client" "$SCRATCH/mnt"
    both 0 "Found [0-9]* blocks ([0-9]* bytes)" fsck "$URL"
    # What was never counted is nothing wrong for us, and is for them.
    "$ZEST" fsck "$URL" --path / --recursive --sync-dir-stat >ours 2>&1 || fail "--sync-dir-stat: $(cat ours)"
    both 0 "" fsck "$URL" --path / --recursive
    find "objects$number" -type f -exec touch -d '2 days ago' {} +
    gc_alike "$URL"
    grep -q ' 0 leaked' ours.line || fail "leaked on a sound volume: $(cat ours.line)"

    large=$(find "objects$number" -name '*_0_4194304' | head -n 1)
    leaked=$(dirname "$large")/$(basename "$large")
    # A slice number nobody has, in the folder where it belongs.
    case $shape in *hash*) leaked=objects$number/suite/chunks/F4/0/500_0_4194304 ;; *) leaked=objects$number/suite/chunks/0/0/500_0_4194304 ;; esac
    mkdir -p "$(dirname "$leaked")"
    cp -p "$large" "$leaked"
    gc_alike "$URL"
    grep -q ' 1 leaked (4194304 bytes)' ours.line || fail "a leaked object is not found: $(cat ours.line)"
    JFS_GC_SKIPPEDTIME=3600 "$ZEST" gc "$URL" --delete >ours 2>&1 || fail "gc --delete: $(cat ours)"
    [ ! -e "$leaked" ] || fail "a leaked object is still there: $(cat ours)"
    gc_alike "$URL"
    both 0 "" fsck "$URL"

    mv "$large" kept
    both 1 "1 objects are lost (4194304 bytes), 1 broken files" fsck "$URL"
    both 1 "1 broken files" fsck "$URL" --path /a --recursive
    mv kept "$large"
    both 0 "" fsck "$URL"

    dir=$(cli -n "$number" --raw hget d1 a | tail -c 9 | od -An -tu1 | awk '{ for (i = 1; i <= 8; i++) n = n * 256 + $i; print n }')
    cli -n "$number" hset dirUsedSpace "$dir" 5 >/dev/null
    "$ZEST" fsck "$URL" >ours 2>&1 || fail "statistics that are off make a check fail: $(cat ours)"
    grep -q 'warning: directory /a has statistics' ours || fail "statistics that are off are not told: $(cat ours)"
    "$ZEST" fsck "$URL" --path / --recursive --sync-dir-stat >ours 2>&1 || fail "--sync-dir-stat: $(cat ours)"
    "$ZEST" fsck "$URL" >ours 2>&1 || fail "fsck: $(cat ours)"
    ! grep -q 'directory /a has statistics' ours || fail "statistics are still off: $(cat ours)"
    both 0 "" fsck "$URL"
  done
done
say "done"

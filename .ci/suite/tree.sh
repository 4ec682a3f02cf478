#!/usr/bin/env bash
# A large tree is copied in, compared, unmounted, mounted again and compared again: names, kinds, modes, owners,
# times, links and every byte. TREE names the trees (default: the Rust toolchain and cargo's sources); together they
# must hold 20,000 files and 500 MB. STORE=s3 keeps the blocks on an S3 server on loopback.
source "$(dirname "$0")/../lib.sh"
TREE=${TREE:-$(rustc --print sysroot) ${CARGO_HOME:-$HOME/.cargo}/registry/src}
MIN_FILES=${MIN_FILES:-20000} MIN_MB=${MIN_MB:-500}

# One line for each file: everything but the content. A folder's size is its file system's own affair, and so are
# the link counts of folders.
manifest() {
  (cd "$1" && find . -type d -printf '%P %y %m %U %G %T@\n' -o -printf '%P %y %m %s %U %G %T@ %n %l\n') | LC_ALL=C sort
}

# The content of every file, as a checksum. Many at a time: small files from a distant store are all waiting.
contents() {
  (cd "$1" && find . -type f -print0 | xargs -0 -r -P 16 -n 32 sha1sum) | LC_ALL=C sort -k 2
}

files=0 bytes=0
for tree in $TREE; do
  [ -d "$tree" ] || fail "no folder at $tree: set TREE"
  files=$((files + $(find "$tree" -type f | wc -l)))
  bytes=$((bytes + $(find "$tree" -type f -printf '%s\n' | awk '{n += $1} END {printf "%d", n}')))
done
[ "$files" -ge "$MIN_FILES" ] && [ "$bytes" -ge $((MIN_MB * 1000000)) ] ||
  fail "$TREE: only $files files and $((bytes / 1000000)) MB; set TREE to more"

if [ "${STORE:-}" = s3 ]; then
  s3_start
  fs_format --storage s3 --bucket "$S3_URL/suite" --access-key "$S3_KEY" --secret-key "$S3_SECRET"
else
  fs_format
fi

compare() {
  local n=0
  for _ in $TREE; do
    n=$((n + 1))
    manifest "$MNT/tree$n" >"$SCRATCH/there"
    cmp -s "$SCRATCH/manifest$n" "$SCRATCH/there" || {
      diff "$SCRATCH/manifest$n" "$SCRATCH/there" | head -n 10
      fail "tree: names, kinds, modes, owners, times or links differ ($1)"
    }
    contents "$MNT/tree$n" >"$SCRATCH/there"
    cmp -s "$SCRATCH/contents$n" "$SCRATCH/there" || {
      diff "$SCRATCH/contents$n" "$SCRATCH/there" | head -n 10
      fail "tree: contents differ ($1)"
    }
  done
  say "tree: $files files, $((bytes / 1000000)) MB, equal $1"
}

fs_mount
start=$SECONDS n=0
for tree in $TREE; do
  n=$((n + 1))
  cp -a "$tree" "$MNT/tree$n"
  manifest "$tree" >"$SCRATCH/manifest$n"
  contents "$tree" >"$SCRATCH/contents$n"
done
say "tree: copied in $((SECONDS - start)) s"
compare "after the copy"
fs_umount
fs_mount
compare "after the second mount"
fs_umount

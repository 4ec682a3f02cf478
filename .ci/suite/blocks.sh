#!/usr/bin/env bash
# Blocks as the volume format has them, in both directions, for each way to compress, encrypt and spread them.
# Theirs: JuiceFS fills a volume; our codec reads every object, block by block equal to what was written; then our codec
# writes every object anew, and JuiceFS must show the same files and find nothing wrong. Ours: the same files through
# our own mount, twice, and nothing readable in an encrypted store. Wrong keys and passphrases are refused by name.
# CASES chooses some of the volumes. Without juicefs the first half is left out, and this says so.
source "$(dirname "$0")/../lib.sh"
need openssl python3 sqlite3
BLOCKS=${BLOCKS:-$TARGET_DIR/release/examples/blocks}
[ -x "$BLOCKS" ] || fail "no program at $BLOCKS: build it with 'cargo build --release -p zest --example blocks', or set BLOCKS"
[ -x "$ZEST" ] || fail "no program at $ZEST: build it with 'cargo build --release -p zest', or set ZEST"
PASS=blocks-of-a-volume
BS=$((64 * 1024))

cd "$SCRATCH"
openssl genrsa -traditional -out plain.pem 2048 2>/dev/null
openssl pkcs8 -topk8 -nocrypt -in plain.pem -out pkcs8.pem
openssl rsa -in plain.pem -traditional -aes256 -passout pass:$PASS -out legacy.pem 2>/dev/null
openssl pkcs8 -topk8 -in plain.pem -v2 aes-256-cbc -passout pass:$PASS -out protected.pem
openssl genrsa -out large.pem 4096 2>/dev/null

# Files of every length that is near an edge, of bytes that shrink and bytes that don't.
mkdir source
python3 - "$BS" <<'PY'
import random, sys
bs = int(sys.argv[1])
chance = random.Random(7)
for n, size in enumerate([1, 2, 15, 4095, 4096, 32768, bs - 1, bs, bs + 1, 3 * bs + 17, 16 * bs]):
    with open(f"source/text{n}", "wb") as file:
        file.write((b"a block of a volume, " * (size // 21 + 1))[:size])
    with open(f"source/noise{n}", "wb") as file:
        file.write(chance.randbytes(size))
    with open(f"source/zeros{n}", "wb") as file:
        file.write(bytes(size))
PY

# The plain blocks in a folder are those of the source files, each exactly once.
same_blocks() {
  python3 - "$BS" "$1" <<'PY'
import collections, hashlib, os, sys
bs, folder = int(sys.argv[1]), sys.argv[2]
digest = lambda data: hashlib.sha256(data).hexdigest()
want, got = collections.Counter(), collections.Counter()
for name in os.listdir("source"):
    data = open("source/" + name, "rb").read()
    want.update(digest(data[at:at + bs]) for at in range(0, len(data), bs))
for name in os.listdir(folder):
    got.update([digest(open(folder + "/" + name, "rb").read())])
assert want == got, f"{sum((want - got).values())} blocks are missing, {sum((got - want).values())} are others"
PY
}

# name, then options of `format` that both clients know
volumes() {
  cat <<'LIST'
plain
lz4 --compress lz4
zstd --compress zstd
hash-lz4 --hash-prefix --compress lz4
aes --encrypt-rsa-key plain.pem
aes-lz4 --encrypt-rsa-key pkcs8.pem --compress lz4
aes-zstd --encrypt-rsa-key legacy.pem --compress zstd
aes-large --encrypt-rsa-key large.pem --compress zstd --hash-prefix
chacha --encrypt-rsa-key protected.pem --encrypt-algo chacha20-rsa
chacha-lz4 --encrypt-rsa-key plain.pem --encrypt-algo chacha20-rsa --compress lz4
chacha-zstd --encrypt-rsa-key protected.pem --encrypt-algo chacha20-rsa --compress zstd --hash-prefix
shards --shards 3
shards-aes-zstd --shards 4 --hash-prefix --encrypt-rsa-key plain.pem --compress zstd
LIST
}

export JFS_RSA_PASSPHRASE=$PASS

bucket_of() { case " $* " in *" --shards "*) printf '%s' "$SCRATCH/$1/objects-%d/" ;; *) printf '%s' "$SCRATCH/$1/objects/" ;; esac; }

encrypted() { [[ " $* " == *" --encrypt-rsa-key "* ]]; }

# Nothing anybody could read in the objects of an encrypted volume.
nothing_readable() {
  encrypted "$@" || return 0
  ! grep -rqE 'a block of a volume|[0-9a-f]{8}-[0-9a-f]{4}-' "$SCRATCH/$1"/objects* || fail "$1: plain text in the store"
}

theirs() {
  local name=$1 dir=theirs-$1
  shift
  mkdir -p "$dir/mnt"
  juicefs format "sqlite3://$dir/meta.db" suite --storage file --bucket "$(bucket_of "$dir" "$@")" --block-size 64K \
    --trash-days 0 "$@" >"$dir/log" 2>&1 || fail "juicefs format $name: $(tail -n 3 "$dir/log")"
  their_mount "$dir"
  cp -r source "$dir/mnt/"
  juicefs umount "$dir/mnt" >>"$dir/log" 2>&1
  sqlite3 "$dir/meta.db" "select value from jfs_setting where name = 'format'" >"$dir/settings"
  nothing_readable "$dir" "$@"
  mkdir "$dir/read" "$dir/again"
  "$BLOCKS" read "$dir/settings" "$dir/read" >"$dir/count" || fail "$name: objects of JuiceFS can't be read"
  same_blocks "$dir/read" || fail "$name: blocks of JuiceFS are read as something else"
  ! encrypted "$@" || "$BLOCKS" damage "$dir/settings" >/dev/null || fail "$name: damage is not noticed"
  "$BLOCKS" rewrite "$dir/settings" >/dev/null || fail "$name: blocks can't be written anew"
  nothing_readable "$dir" "$@"
  rm -rf "$dir/cache"
  their_mount "$dir"
  diff -r source "$dir/mnt/source" || fail "$name: JuiceFS reads our objects as something else"
  juicefs umount "$dir/mnt" >>"$dir/log" 2>&1
  juicefs fsck "sqlite3://$dir/meta.db" >"$dir/fsck" 2>&1 || fail "$name: juicefs fsck: $(tail -n 3 "$dir/fsck")"
  say "right: $name: $(cat "$dir/count") blocks of JuiceFS read, written anew, and read by JuiceFS"
}

their_mount() {
  juicefs mount "sqlite3://$1/meta.db" "$1/mnt" -d --no-usage-report --backup-meta 0 --cache-dir "$SCRATCH/$1/cache" \
    --metrics 127.0.0.1:0 --no-agent --log "$SCRATCH/$1/mount.log" >>"$1/log" 2>&1 || fail "juicefs mount: $(tail -n 3 "$1/log")"
}

our_mount() {
  "$ZEST" mount "$1/volume" "$1/mnt" >>"$1/log" 2>&1 </dev/null &
  FS_PID=$!
  for _ in $(seq 300); do
    if is_mounted "$SCRATCH/$1/mnt"; then return 0; fi
    kill -0 "$FS_PID" 2>/dev/null || fail "zest mount: $(tail -n 3 "$1/log")"
    sleep 0.1
  done
  fail "$1: not mounted after 30 seconds"
}

our_umount() {
  "$ZEST" umount "$1/mnt" >>"$1/log" 2>&1 || fail "$1: $(tail -n 3 "$1/log")"
  wait_gone "$FS_PID" 60 || fail "$1: the server does not end"
  FS_PID=
}

ours() {
  local name=$1 dir=ours-$1
  shift
  mkdir -p "$dir/mnt"
  "$ZEST" format "$dir/volume" suite --bucket "$(bucket_of "$dir" "$@")" --block-size 64K --trash-days 0 "$@" \
    >"$dir/log" 2>&1 || fail "zest format $name: $(tail -n 3 "$dir/log")"
  our_mount "$dir"
  cp -r source "$dir/mnt/"
  our_umount "$dir"
  our_mount "$dir"
  diff -r source "$dir/mnt/source" || fail "$name: our mount shows something else"
  # A few bytes from the middle, from the store and not from memory.
  our_umount "$dir"
  our_mount "$dir"
  cmp <(tail -c +70000 source/noise10 | head -c 1000) <(tail -c +70000 "$dir/mnt/source/noise10" | head -c 1000) ||
    fail "$name: a range is something else"
  our_umount "$dir"
  nothing_readable "$dir" "$@"
  "$ZEST" format "$dir/volume" suite "$@" >>"$dir/log" 2>&1 || fail "$name: the same format again is refused: $(tail -n 1 "$dir/log")"
  say "right: $name: through our own mount"
}

# refused NAME WORD COMMAND...: fails, and says the word.
refused() {
  local name=$1 word=$2
  shift 2
  if "$@" >refused 2>&1; then fail "$name: this should be refused"; fi
  grep -qF -- "$word" refused || fail "$name: $word is not in: $(cat refused)"
}

while read -r name options; do
  [ -z "${CASES:-}" ] || [[ " $CASES " == *" $name "* ]] || continue
  # shellcheck disable=SC2086
  if command -v juicefs >/dev/null 2>&1; then theirs "$name" $options; else say "left out: $name by JuiceFS, which is not installed"; fi
  # shellcheck disable=SC2086
  ours "$name" $options
done < <(volumes)

if [ -d ours-chacha ]; then
  unset JFS_RSA_PASSPHRASE
  refused "no passphrase" JFS_RSA_PASSPHRASE "$ZEST" mount ours-chacha/volume ours-chacha/mnt
  JFS_RSA_PASSPHRASE=wrong refused "wrong passphrase" JFS_RSA_PASSPHRASE "$ZEST" mount ours-chacha/volume ours-chacha/mnt
  refused "format without the passphrase" JFS_RSA_PASSPHRASE "$ZEST" format other suite --encrypt-rsa-key protected.pem
  [ ! -e other ] || fail "a volume that was refused left something behind"
  export JFS_RSA_PASSPHRASE=$PASS
  refused "another key" "another private key" "$ZEST" format ours-chacha/volume suite --encrypt-rsa-key large.pem
  refused "another algorithm" "its encryption is chacha20-rsa" "$ZEST" format ours-chacha/volume suite --encrypt-algo aes256gcm-rsa
  refused "another compression" "its compression is none" "$ZEST" format ours-chacha/volume suite --compress lz4
  say "right: wrong keys, passphrases and changes are refused"
fi
say "blocks: all right"

#!/usr/bin/env bash
# Volumes of every shape on a real Redis, shared with the original client: formatted by one, filled by one, read by
# the other, changed there, read back, with copies (`clone`) made by both; content, attributes, access lists and extended attributes must be equal, and
# neither client's checks may find anything. FULL=1 tries every combination, else each value of each dimension.
source "$(dirname "$0")/../lib.sh"
source "$REPO/.ci/clients.sh"
need python3 openssl
HERE=$REPO/.ci/suite
export JFS_RSA_PASSPHRASE=suite-passphrase
openssl genrsa -aes256 -passout env:JFS_RSA_PASSPHRASE -out "$SCRATCH/key.pem" 2048 2>/dev/null
redis_start

# What everybody must see. The root's own attributes are the volume's, not the tree's.
see() { python3 "$HERE/sample.py" list "$MNT/tree" >"$1"; }
same() { diff "$1" "$2" >"$SCRATCH/diff" || fail "$3: $(head -n 6 "$SCRATCH/diff" | cut -c1-400)"; }

check() {
  juicefs fsck "$1" >"$SCRATCH/fsck.log" 2>&1 || fail "juicefs fsck of $2: $(grep -v INFO "$SCRATCH/fsck.log" | tail -n 4)"
  ! grep -qE 'ERROR|WARNING.*(missing|broken|invalid)' "$SCRATCH/fsck.log" ||
    fail "juicefs fsck of $2: $(grep -E 'ERROR|WARNING' "$SCRATCH/fsck.log" | head -n 4)"
  juicefs gc "$1" >"$SCRATCH/gc.log" 2>&1 || fail "juicefs gc of $2: $(tail -n 4 "$SCRATCH/gc.log")"
  grep -qE '0 leaked' "$SCRATCH/gc.log" || fail "juicefs gc of $2: $(grep -i leaked "$SCRATCH/gc.log" | tail -n 2)"
  "$ZEST" fsck "$1" >"$SCRATCH/fsck.log" 2>&1 || fail "zest fsck of $2: $(tail -n 4 "$SCRATCH/fsck.log")"
}

volumes=0
# One volume: who formats, who fills, compression, encryption, hash prefix, block size in KiB.
volume() {
  local formatter=$1 filler=$2 compress=$3 encrypt=$4 prefix=$5 block=$6 reader=juicefs
  [ "$filler" = zest ] || reader=zest
  local url=redis://127.0.0.1:$REDIS_PORT/$((volumes % 16)) name="$*"
  redis-cli -p "$REDIS_PORT" -n $((volumes % 16)) flushdb >/dev/null
  rm -rf "$SCRATCH/bucket" "$SCRATCH/cache"
  local options=(--compress "$compress" --block-size "$block" --enable-acl --trash-days 0)
  [ "$encrypt" = plain ] || options+=(--encrypt-rsa-key "$SCRATCH/key.pem")
  [ "$prefix" = flat ] || options+=(--hash-prefix)
  client_format "$formatter" "$url" "$SCRATCH/bucket" "${options[@]}"

  client_mount "$filler" "$url" "$MNT"
  mkdir "$MNT/tree"
  python3 "$HERE/sample.py" make "$MNT/tree" "$volumes" big
  client_clone "$filler" "$MNT/tree/d" "$MNT/tree/copy"
  client_clone "$filler" "$MNT/tree/overwritten" "$MNT/tree/copied"
  see "$SCRATCH/filled"
  client_umount "$filler" "$MNT"
  client_mount "$reader" "$url" "$MNT"
  see "$SCRATCH/read"
  same "$SCRATCH/filled" "$SCRATCH/read" "filled by $filler, read by $reader ($name)"
  python3 "$HERE/sample.py" change "$MNT/tree" "$volumes"
  # Of the other's copy, and of what it is a copy of.
  client_clone "$reader" "$MNT/tree/copy" "$MNT/tree/copied-again"
  client_clone "$reader" "$MNT/tree/punched" "$MNT/tree/empty/punched"
  see "$SCRATCH/changed"
  client_umount "$reader" "$MNT"
  client_mount "$filler" "$url" "$MNT"
  see "$SCRATCH/back"
  same "$SCRATCH/changed" "$SCRATCH/back" "changed by $reader, read by $filler ($name)"
  client_umount "$filler" "$MNT"
  check "$url" "$name"
  volumes=$((volumes + 1))
  say "matrix: $name: the same for both"
}

if [ "${FULL:-0}" = 1 ]; then
  for formatter in zest juicefs; do
    for filler in zest juicefs; do
      for compress in none lz4 zstd; do
        for encrypt in plain rsa; do
          for prefix in flat hash; do
            for block in 1024 4096; do volume $formatter $filler $compress $encrypt $prefix $block; done
          done
        done
      done
    done
  done
else
  volume zest zest none plain flat 4096
  volume juicefs juicefs none plain flat 4096
  volume zest juicefs lz4 rsa hash 1024
  volume juicefs zest zstd rsa flat 4096
  volume zest zest zstd plain hash 1024
  volume juicefs zest lz4 plain flat 1024
fi
say "matrix: $volumes volumes, no difference"

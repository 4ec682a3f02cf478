#!/usr/bin/env bash
# Every kind of store that can be had here does what a volume needs: `zest objbench` passes on it, and a small mounted
# round keeps its bytes: written, read, mounted anew, read again from the store, removed. STORES chooses some of: file s3
# moto. LARGE is the size of the large object of the functional tests, in MiB. A store that fails makes objbench fail.
source "$(dirname "$0")/../lib.sh"
only_zest
need python3
STORES=${STORES:-file s3 moto} LARGE=${LARGE:-256}
cd "$SCRATCH"

# An S3 server of another make on loopback, with a bucket `suite`. Sets S3_URL, S3_KEY, S3_SECRET.
moto_start() {
  need moto_server
  local port
  port=$(free_port)
  S3_KEY=suite-key S3_SECRET=suite-secret S3_URL=http://127.0.0.1:$port
  moto_server -H 127.0.0.1 -p "$port" >>"$SCRATCH/moto.log" 2>&1 </dev/null &
  EXTRA_PIDS+=($!)
  wait_listens "$port" moto "$SCRATCH/moto.log"
}

# Options that name the store, for objbench and for format.
store_options() {
  case $1 in
    file) OPTIONS=(--storage file) BUCKET=$SCRATCH/objects-file ;;
    *) OPTIONS=(--storage s3 --access-key "$S3_KEY" --secret-key "$S3_SECRET") BUCKET=$S3_URL/suite ;;
  esac
}

bench() {
  "$ZEST" objbench "$BUCKET" "${OPTIONS[@]}" --large-object-size "$LARGE" --big-object-size 16 --small-objects 50 "$@"
}

round() {
  local volume=$SCRATCH/volume-$1
  "$ZEST" format "$volume" "stores-$1" --trash-days 0 "${OPTIONS[@]}" --bucket "$BUCKET" --block-size 256K \
    >>"$SCRATCH/format.log" 2>&1 || fail "format: $(tail -n 3 "$SCRATCH/format.log")"
  META_URL=$volume fs_mount
  python3 - "$MNT" <<'PY'
import os, random, sys
chance = random.Random(11)
for n, size in enumerate([0, 1, 4096, 262_143, 262_144, 262_145, 3_000_001]):
    with open(f"{sys.argv[1]}/file {n}", "wb") as file:
        file.write(chance.randbytes(size))
with open(sys.argv[1] + "/file 6", "r+b") as file:
    for _ in range(50):
        file.seek(chance.randrange(3_000_000))
        file.write(chance.randbytes(1000))
    os.fsync(file.fileno())
PY
  (cd "$MNT" && md5sum -- *) >want
  META_URL=$volume fs_umount
  META_URL=$volume fs_mount
  (cd "$MNT" && md5sum -- *) | cmp - want || fail "$1: something else is there after a new mount"
  rm -f "$MNT"/file*
  META_URL=$volume fs_umount
  "$ZEST" fsck "$volume" >>"$SCRATCH/fsck.log" 2>&1 || fail "$1: $(tail -n 3 "$SCRATCH/fsck.log")"
}

for store in $STORES; do
  section "$store"
  case $store in
    file) ;;
    s3) s3_start ;;
    moto) moto_start ;;
    *) fail "STORES: $store is none of file, s3, moto" ;;
  esac
  store_options "$store"
  bench || fail "$store: objbench says that it does not do what a volume needs"
  bench --json --skip-functional-tests >bench.json
  python3 - bench.json <<'PY'
import json, sys
found = json.load(open(sys.argv[1]))
assert found["good"] and not found["functional"] and len(found["performance"]) == 8, found
assert all(rate["value"] > 0 and rate["error"] is None for rate in found["performance"]), found
PY
  round "$store"
  say "right: $store"
done

section "a store that is not there"
OPTIONS=(--storage s3 --access-key a --secret-key b) BUCKET=http://127.0.0.1:1/none
if bench >dead.txt; then
  fail "objbench finds nothing wrong with a server that does not exist"
fi
grep -q 'put an object: failed' dead.txt || fail "it does not say what failed: $(cat dead.txt)"
say "right: told, and no success"

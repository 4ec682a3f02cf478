#!/usr/bin/env bash
# One volume on a real Redis, two clients: the same operations leave the same records; both mounted at once, random
# operations from both sides for SECONDS_BOTH seconds, and eight of our writers in a directory of the other client,
# show no difference; both clients' checks are clean afterwards.
source "$(dirname "$0")/../lib.sh"
source "$REPO/.ci/clients.sh"
need python3
HERE=$REPO/.ci/suite
SECONDS_BOTH=${SECONDS_BOTH:-60} SEED=${SEED:-1}
redis_start
url() { printf 'redis://127.0.0.1:%s/%s' "$REDIS_PORT" "$1"; }
OURS=$SCRATCH/ours THEIRS=$SCRATCH/theirs

section "record for record"
for pair in "0 zest $OURS" "1 juicefs $THEIRS"; do
  read -r db client point <<<"$pair"
  client_format "$client" "$(url "$db")" "$SCRATCH/bucket-$client" --trash-days 0
  client_mount "$client" "$(url "$db")" "$point"
  python3 "$HERE/records.py" make "$point"
  # Statistics of directories are written once a second.
  sleep 2
  client_umount "$client" "$point"
  python3 "$HERE/records.py" dump "$REDIS_PORT" "$db" >"$SCRATCH/$client.records"
done
diff "$SCRATCH/zest.records" "$SCRATCH/juicefs.records" || fail "the two clients leave different records"
say "records: $(wc -l <"$SCRATCH/zest.records") keys, the same from both clients"

section "both at once"
client_format juicefs "$(url 2)" "$SCRATCH/bucket" --trash-days 0
now=(--attr-cache 0 --entry-cache 0 --dir-entry-cache 0)
client_mount zest "$(url 2)" "$OURS" "${now[@]}"
client_mount juicefs "$(url 2)" "$THEIRS" "${now[@]}"
mkdir "$OURS/both"
python3 "$HERE/both.py" "$OURS/both" "$THEIRS/both" "$SECONDS_BOTH" "$SEED" || fail "both at once, seed $SEED"

section "eight of our writers in one directory of theirs"
mkdir "$THEIRS/crowd"
pids=()
for writer in $(seq 8); do
  (for n in $(seq 200); do echo "$n" >"$OURS/crowd/ours-$writer-$n"; done) &
  pids+=($!)
done
for n in $(seq 200); do echo "$n" >"$THEIRS/crowd/theirs-$n" || fail "the other client was starved"; done
for pid in "${pids[@]}"; do wait "$pid" || fail "one of our writers failed"; done
for point in "$OURS" "$THEIRS"; do
  [ "$(ls "$point/crowd" | wc -l)" = 1800 ] || fail "$point has $(ls "$point/crowd" | wc -l) of 1800 entries"
done
! grep -E 'EIO|input/output error' "$SCRATCH/juicefs.log" || fail "the other client met errors"
say "crowd: 1600 files of ours and 200 of theirs, all there"

client_umount juicefs "$THEIRS"
client_umount zest "$OURS"
juicefs fsck "$(url 2)" >"$SCRATCH/fsck.log" 2>&1 || fail "juicefs fsck: $(tail -n 3 "$SCRATCH/fsck.log")"
"$ZEST" fsck "$(url 2)" >"$SCRATCH/fsck.log" 2>&1 || fail "zest fsck: $(tail -n 3 "$SCRATCH/fsck.log")"
say "shared: no difference"

#!/usr/bin/env bash
# The work people do: git, sqlite, tar, cargo and fio on the mount, each checked by its own judge.
# PARTS chooses some of them.
source "$(dirname "$0")/../lib.sh"
PARTS=${PARTS:-git sqlite tar cargo fio}

do_git() {
  need git
  local git=(git -c safe.directory='*' -c user.name=suite -c user.email=suite@localhost -c gc.auto=0)
  "${git[@]}" clone --quiet --no-local --no-hardlinks "$REPO" "$MNT/clone"
  "${git[@]}" -C "$MNT/clone" fsck --full --strict --no-progress
  for i in $(seq 20); do
    printf 'change %s\n' "$i" >>"$MNT/clone/notes"
    "${git[@]}" -C "$MNT/clone" add notes
    "${git[@]}" -C "$MNT/clone" commit --quiet -m "change $i"
  done
  "${git[@]}" -C "$MNT/clone" gc --quiet --aggressive --prune=now
  "${git[@]}" -C "$MNT/clone" fsck --full --strict --no-progress
  [ -z "$("${git[@]}" -C "$MNT/clone" status --porcelain)" ] || fail "git: the clone is not clean"
  [ "$("${git[@]}" -C "$MNT/clone" rev-parse HEAD~20)" = "$("${git[@]}" -C "$REPO" rev-parse HEAD)" ] ||
    fail "git: the clone is at another commit"
}

do_sqlite() {
  need sqlite3
  local mode db writer
  for mode in wal delete truncate persist; do
    db=$MNT/$mode.db
    sqlite3 "$db" "PRAGMA journal_mode=$mode; CREATE TABLE t(id INTEGER PRIMARY KEY, who INT, body BLOB);" >/dev/null
    # Two writers at once, so that locks and the shared index of WAL matter.
    local pids=()
    for writer in 1 2; do
      {
        printf '.timeout 60000\n'
        for _ in $(seq 60); do
          printf 'BEGIN IMMEDIATE; INSERT INTO t(who, body) VALUES (%s, randomblob(3000)), (%s, randomblob(9000)); COMMIT;\n' "$writer" "$writer"
        done
        printf 'UPDATE t SET body = randomblob(5000) WHERE who = %s AND id %% 3 = 0;\n' "$writer"
      } | sqlite3 -bail "$db" &
      pids+=($!)
    done
    for writer in "${pids[@]}"; do wait "$writer" || fail "sqlite: a writer failed with journal mode $mode"; done
    [ "$(sqlite3 "$db" 'PRAGMA integrity_check')" = ok ] || fail "sqlite: integrity check with journal mode $mode"
    [ "$(sqlite3 "$db" 'SELECT count(*) FROM t')" = 240 ] || fail "sqlite: rows are missing with journal mode $mode"
    sqlite3 "$db" 'DELETE FROM t WHERE id % 2 = 0; VACUUM;'
    [ "$(sqlite3 "$db" 'PRAGMA integrity_check; SELECT count(*) FROM t' | tr '\n' ' ')" = "ok 120 " ] ||
      fail "sqlite: after VACUUM with journal mode $mode"
  done
}

do_tar() {
  # A tree with many kinds of names, modes and links: the sources of this project and its history.
  tar -C "$REPO" --exclude=./target --exclude=./fuzz/target -cf "$SCRATCH/tree.tar" .
  mkdir "$MNT/untar" "$SCRATCH/untar"
  tar -C "$MNT/untar" -xpf "$SCRATCH/tree.tar"
  tar -C "$SCRATCH/untar" -xpf "$SCRATCH/tree.tar"
  diff -r --no-dereference "$SCRATCH/untar" "$MNT/untar"
  tar -C "$MNT/untar" --compare -f "$SCRATCH/tree.tar"
  tar -C "$MNT/untar" -czf "$MNT/again.tar.gz" .
  tar -C "$SCRATCH/untar" --compare -zf "$MNT/again.tar.gz"
  rm -rf "$SCRATCH/untar" "$SCRATCH/tree.tar" "$MNT/untar"
}

do_cargo() {
  need cargo
  (
    cd "$MNT"
    unset RUSTFLAGS CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR
    export CARGO_INCREMENTAL=1
    cargo new --quiet --vcs none small
    cd small
    cat >src/main.rs <<'RUST'
fn main() {
    let words: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    println!("{}", words.join(" "));
}
#[test]
fn counts() {
    assert_eq!((0..10).count(), 10);
}
RUST
    cargo build --quiet --offline
    [ "$(./target/debug/small)" = "0 1 2 3 4 5 6 7 8 9" ]
    cargo test --quiet --offline >/dev/null
    printf '\nfn _more() {}\n' >>src/main.rs
    cargo build --quiet --offline --release
    [ "$(./target/release/small)" = "0 1 2 3 4 5 6 7 8 9" ]
  ) || fail "cargo"
}

do_fio() {
  need fio
  local direct job
  mkdir -p "$MNT/fio"
  for direct in 0 1; do
    for job in "write 256k" "randwrite 4k" "randrw 12k" "randwrite 1m"; do
      fio --name=verify --directory="$MNT/fio" --rw="${job% *}" --bs="${job#* }" --size="${FIO_SIZE:-96M}" --numjobs=2 \
        --direct="$direct" --ioengine=libaio --iodepth=8 --verify=crc32c --do_verify=1 --verify_fatal=1 \
        --verify_backlog=512 --verify_state_save=0 --fsync=256 --io_size="${FIO_SIZE:-96M}" --randseed=7 --group_reporting \
        --output="$SCRATCH/fio.out" || {
        tail -n 30 "$SCRATCH/fio.out"
        fail "fio: $job, direct=$direct"
      }
      rm -f "$MNT"/fio/*
    done
  done
}

fs_format
fs_mount
cd "$SCRATCH" # fio leaves files where it stands
for part in $PARTS; do
  start=$SECONDS
  "do_$part"
  say "tools: $part right in $((SECONDS - start)) s"
done
fs_umount
say "tools: all right"

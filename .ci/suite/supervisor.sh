#!/usr/bin/env bash
# Life goes on: the process that serves a mount is killed with signal 9, ROUNDS times, and programs go on with what they
# have open, locked, mapped and listed; another program goes on with a mount under load; and what becomes of a mount when
# its supervisor is killed, when nobody can serve it any more, and at a second TERM. On the embedded engine and on Redis.
# CASES chooses some of: embedded redis writeback upgrade ends term stuck (half a minute, and not among the usual ones).
export DOOR=dev
source "$(dirname "$0")/../lib.sh"
only_zest
need python3 fio fsx
ROUNDS=${ROUNDS:-3} CASES=${CASES:-embedded redis writeback upgrade ends term}

# The process that serves, started by the one with this number.
worker_of() { cat /proc/"$1"/task/"$1"/children; }

# begin URL OPTIONS...: a new volume at MNT.
begin() {
  local url=$1 place=()
  shift
  rm -rf --one-file-system "$SCRATCH/volume" "$SCRATCH/objects"
  [[ $url != redis* ]] || place=(--bucket "$SCRATCH/objects")
  "$ZEST" format "$url" suite --trash-days 0 "${place[@]}" >"$SCRATCH/format.log" 2>&1 ||
    fail "format: $(tail -n 3 "$SCRATCH/format.log")"
  META_URL=$url
  fs_mount "$@"
}

# Ends the mount in good order; the volume must be free at once and whole, and nothing may be left of what was removed.
finish() {
  "$ZEST" umount "$MNT" || fail "umount"
  "$ZEST" fsck "$META_URL" >"$SCRATCH/fsck.log" 2>&1 || fail "fsck: $(tail -n 5 "$SCRATCH/fsck.log")"
  wait_gone "$FS_PID" 20 || fail "the supervisor is still there"
  wait "$FS_PID" || fail "a mount that was left in good order ended with status $?"
  FS_PID=
  "$ZEST" status "$META_URL" >"$SCRATCH/status.json" || fail "status"
  python3 - "$SCRATCH/status.json" <<'PY' || fail "sessions are left: $(cat "$SCRATCH/status.json")"
import json, sys
sys.exit(bool(json.load(open(sys.argv[1]))["Sessions"]))
PY
}

# killed URL OPTIONS...: the worker is killed under programs.
killed() {
  begin "$@"
  python3 "$REPO/.ci/suite/supervisor.py" "$MNT" "$FS_PID" "$ROUNDS" || fail "programs did not go on after kill -9"
  # A lost write nobody was told of would be told by the last sync: all were.
  finish
}

# meanwhile URL: what another mount changes while nobody serves is seen soon after, and what is mounted inside stays.
meanwhile() {
  begin "$1"
  zest_serve "$1" "$SCRATCH/other" --door dev --no-supervisor
  local other=$SERVED
  mkdir -p "$MNT/here/below" "$MNT/over"
  printf 'old' >"$MNT/here/changes"
  printf 'old' >"$MNT/here/goes"
  mount -t tmpfs none "$MNT/over"
  touch "$MNT/over/inside"
  # The kernel believes all of it for long from now on.
  stat "$MNT"/here/* "$MNT/here/below" >/dev/null
  (
    cd "$MNT/here/below"
    kill -STOP "$FS_PID"
    kill -KILL "$(worker_of "$FS_PID" | tr -d ' ')"
    mv "$SCRATCH/other/here/goes" "$SCRATCH/other/here/came"
    printf 'newer' >"$SCRATCH/other/here/changes"
    kill -CONT "$FS_PID"
    for _ in $(seq 10); do
      [ -e "$MNT/over/inside" ] || fail "what is mounted inside the mount"
      [ ! -e "$MNT/here/goes" ] && [ "$(cat "$MNT/here/changes")" = newer ] && break
      sleep 0.1
    done
    [ -e "$MNT/here/came" ] && [ ! -e "$MNT/here/goes" ] || fail "a name that changed while nobody served"
    [ "$(stat -c %s "$MNT/here/changes")$(cat "$MNT/here/changes")" = 5newer ] || fail "a file that changed while nobody served"
    [ "$(/bin/pwd)" = "$MNT/here/below" ] || fail "the working directory"
  ) || exit 1
  [ -e "$MNT/over/inside" ] || fail "what is mounted inside the mount"
  umount "$MNT/over"
  "$ZEST" umount "$SCRATCH/other" || fail "umount of the other mount"
  wait_gone "$other" 20 || fail "the other mount stays"
  finish
  say "right: what others changed while nobody served is seen"
}

# The mount goes on with this program and these options.
goes_on() { "$ZEST" mount "$META_URL" "$MNT" --door dev --cache-dir memory "$@" >>"$SCRATCH/goes-on.log" 2>&1; }

upgrade() {
  begin "$SCRATCH/volume"
  cp "$ZEST" "$SCRATCH/zest-new"
  mkdir "$MNT/dir"
  exec 8>"$MNT/open"
  printf 'one\n' >&8
  (cd "$MNT/dir" && exec fio --name=v --directory="$MNT/dir" --rw=randrw --bs=16k --size=12M --numjobs=2 --verify=crc32c \
    --verify_fatal=1 --verify_backlog=64 --verify_backlog_batch=32 --loops=400 --time_based --runtime=8 --minimal \
    >"$SCRATCH/fio.log" 2>&1) &
  local fio=$! n before
  for n in 1 2 3 4; do
    sleep 1
    before=$(worker_of "$FS_PID")
    ZEST=$SCRATCH/zest-new goes_on --memory-cache $((8 * n))M || fail "upgrade $n: $(tail -n 1 "$SCRATCH/goes-on.log")"
    [ "$(worker_of "$FS_PID")" != "$before" ] || fail "upgrade $n: the same process serves"
    [ "$(stat -Lc %i /proc/"$(worker_of "$FS_PID" | tr -d ' ')"/exe)" = "$(stat -c %i "$SCRATCH/zest-new")" ] || fail "another program serves"
  done
  printf 'two\n' >&8
  exec 8>&-
  [ "$(cat "$MNT/open")" = $'one\ntwo' ] || fail "a file that was open"
  wait "$fio" || fail "fio: $(tail -n 3 "$SCRATCH/fio.log")"
  printf 'flen = 4194304\n[opsize]\nmax = 131072\n[weights]\nclose_open = 1\nfsync = 1\ntruncate = 3\ninvalidate = 1\n' >"$SCRATCH/fsx.toml"
  fsx -f "$SCRATCH/fsx.toml" -N $((ROUNDS < 10 ? 1500 * ROUNDS : 15000)) -S "$ROUNDS" -P "$SCRATCH" "$MNT/fsx" >"$SCRATCH/fsx.out" 2>&1 &
  local fsx=$!
  while kill -0 "$fsx" 2>/dev/null; do
    goes_on || fail "an upgrade under fsx: $(tail -n 1 "$SCRATCH/goes-on.log")"
    sleep 0.1
  done
  wait "$fsx" || fail "fsx, seed $ROUNDS: $(tail -n 20 "$SCRATCH/fsx.out")"
  before=$(worker_of "$FS_PID")
  local wrong
  for wrong in "--read-only" "--subdir dir" "-o noexec"; do
    # shellcheck disable=SC2086
    if goes_on $wrong; then fail "an upgrade with $wrong was not refused"; fi
  done
  "$ZEST" format "$SCRATCH/another" another >/dev/null 2>&1
  if META_URL=$SCRATCH/another goes_on; then fail "an upgrade to another volume was not refused"; fi
  if goes_on --memory 1M; then fail "an upgrade with options that make no sense was not refused"; fi
  [ "$(worker_of "$FS_PID")" = "$before" ] || fail "a refused upgrade touched the mount"
  # Whether this will do is only found out by the new process.
  mkdir "$SCRATCH/memory"
  mount -t tmpfs none "$SCRATCH/memory"
  if goes_on --writeback --cache-dir "$SCRATCH/memory"; then fail "blocks can't be staged in memory"; fi
  umount "$SCRATCH/memory"
  grep -q "could not go on with the mount, and the one before does" "$SCRATCH/goes-on.log" || fail "nobody says so"
  [ "$(cat "$MNT/open")" = $'one\ntwo' ] || fail "the program before does not serve"
  say "right: $(grep -c '^OK' "$SCRATCH/goes-on.log") upgrades under fio and fsx, $(grep -c "can't go on" "$SCRATCH/goes-on.log") refused"
  finish
  rm -rf --one-file-system "$SCRATCH/another"
}

ends() {
  section "no supervisor"
  begin "$SCRATCH/volume" --no-supervisor
  [ -z "$(worker_of "$FS_PID")" ] || fail "--no-supervisor starts another process"
  finish

  section "a supervisor that is killed"
  begin "$SCRATCH/volume"
  local worker dead=$FS_PID
  worker=$(worker_of "$FS_PID" | tr -d ' ')
  EXTRA_PIDS+=("$worker")
  printf 'x' >"$MNT/before"
  kill -KILL "$dead"
  wait "$dead" 2>/dev/null || true
  [ "$(timeout 10 cat "$MNT/before")" = x ] || fail "the mount does not go on without its supervisor"
  "$ZEST" umount "$MNT" || fail "umount without a supervisor"
  wait_gone "$worker" 20 || fail "the worker stays"
  FS_PID=

  section "a worker that dies again and again"
  begin "$SCRATCH/volume"
  local n status=0
  for n in $(seq 400); do
    kill -0 "$FS_PID" 2>/dev/null || break
    for worker in $(worker_of "$FS_PID" 2>/dev/null || true); do kill -KILL "$worker" 2>/dev/null || true; done
    sleep 0.02
  done
  wait "$FS_PID" || status=$?
  FS_PID=
  [ "$status" -ne 0 ] || fail "a mount that was given up ended with status 0"
  ! is_mounted "$MNT" || fail "a mount that was given up is still there"
  grep -q "is unmounted, since nobody serves it any more" "$SCRATCH/server.log" || fail "nobody says why"

  section "TERM while the next one begins"
  for n in 0 1 2 3 4; do
    begin "$SCRATCH/volume"
    kill -KILL "$(worker_of "$FS_PID" | tr -d ' ')"
    sleep "0.0$((n * 2))"
    kill -TERM "$FS_PID"
    wait_gone "$FS_PID" 20 || fail "the mount does not end"
    ! is_mounted "$MNT" || fail "the mount is still there"
    wait "$FS_PID" || true
    FS_PID=
  done

  section "in the background"
  "$ZEST" mount "$SCRATCH/volume" "$MNT" --door dev -d --cache-dir memory --log "$SCRATCH/background.log" | grep -q '^OK' ||
    fail "no mount in the background"
  local inside
  inside=$("$ZEST" status "$MNT" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Mounts"][0]["Pid"])')
  kill -KILL "$inside"
  timeout 10 ls "$MNT" >/dev/null || fail "the mount in the background does not go on"
  "$ZEST" umount "$MNT" || fail "umount of a mount in the background"
}

# The store does not answer while the mount ends.
term() {
  s3_start
  local status=0
  S3_PID=${EXTRA_PIDS[-1]}
  trap 'status=$?; set +e; kill -CONT "$S3_PID" 2>/dev/null; (exit $status); at_end' EXIT
  rm -rf --one-file-system "$SCRATCH/volume"
  ACCESS_KEY=$S3_KEY SECRET_KEY=$S3_SECRET "$ZEST" format "$SCRATCH/volume" suite --trash-days 0 --storage s3 --bucket "$S3_URL/suite" \
    >"$SCRATCH/format.log" 2>&1 || fail "format: $(tail -n 3 "$SCRATCH/format.log")"
  export ACCESS_KEY=$S3_KEY SECRET_KEY=$S3_SECRET
  META_URL=$SCRATCH/volume
  fs_mount
  kill -STOP "$S3_PID"
  head -c 3000000 /dev/urandom >"$MNT/unflushed"
  : >"$SCRATCH/server.log"
  kill -TERM "$FS_PID"
  for n in $(seq 200); do is_mounted "$MNT" || break; sleep 0.1; done
  sleep 0.5
  kill -TERM "$FS_PID"
  for n in $(seq 100); do grep -q "would be lost" "$SCRATCH/server.log" && break; sleep 0.1; done
  grep -q "unflushed writes to 1 files, 3 MiB, would be lost" "$SCRATCH/server.log" || fail "a second TERM does not say what would be lost"
  kill -0 "$FS_PID" || fail "a second TERM ends it"
  kill -TERM "$FS_PID"
  wait_gone "$FS_PID" 30 || fail "a third TERM does not end it"
  wait "$FS_PID" || status=$?
  FS_PID=
  [ "$status" -ne 0 ] || fail "what was lost is no failure"
  kill -CONT "$S3_PID"
  say "right: $(grep "would be lost" "$SCRATCH/server.log")"
}

# The store does not answer while another program shall go on: the mount goes on with the one there is.
stuck() {
  s3_start
  S3_PID=${EXTRA_PIDS[-1]}
  trap 'status=$?; set +e; kill -CONT "$S3_PID" 2>/dev/null; (exit $status); at_end' EXIT
  rm -rf --one-file-system "$SCRATCH/volume"
  export ACCESS_KEY=$S3_KEY SECRET_KEY=$S3_SECRET
  "$ZEST" format "$SCRATCH/volume" suite --trash-days 0 --storage s3 --bucket "$S3_URL/suite" >"$SCRATCH/format.log" 2>&1 ||
    fail "format: $(tail -n 3 "$SCRATCH/format.log")"
  META_URL=$SCRATCH/volume
  fs_mount
  local worker
  worker=$(worker_of "$FS_PID")
  kill -STOP "$S3_PID"
  head -c 3000000 /dev/urandom >"$SCRATCH/sample"
  cp "$SCRATCH/sample" "$MNT/unflushed"
  (sleep 5; mkdir "$MNT/meanwhile") &
  local maker=$!
  if goes_on; then fail "a mount was handed over although its store does not answer"; fi
  kill -CONT "$S3_PID"
  wait "$maker" || fail "a request that was read meanwhile"
  [ "$(worker_of "$FS_PID")" = "$worker" ] || fail "another process serves"
  sync "$MNT/unflushed" || fail "what was written before is lost"
  goes_on || fail "not handed over when the store answers again"
  cmp "$SCRATCH/sample" "$MNT/unflushed" || fail "another content"
  [ -d "$MNT/meanwhile" ] || fail "a directory that was made meanwhile"
  say "right: $(grep -c "not everything could be written in time" "$SCRATCH/goes-on.log") time refused, and the mount went on"
  finish
}

for case in $CASES; do
  section "$case"
  case $case in
    embedded) killed "$SCRATCH/volume" ;;
    writeback) ROUNDS=$(((ROUNDS + 1) / 2)) killed "$SCRATCH/volume" --writeback --cache-dir "$SCRATCH/cache" ;;
    redis)
      redis_start
      killed "redis://127.0.0.1:$REDIS_PORT/1"
      meanwhile "redis://127.0.0.1:$REDIS_PORT/2"
      ;;
    upgrade) upgrade ;;
    ends) ends ;;
    term) term ;;
    stuck) stuck ;;
    *) fail "no case is called $case" ;;
  esac
done
say "supervisor: life went on"

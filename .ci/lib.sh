# Shared by the suites: a scratch folder, the file system under test, and an orderly end.
#
# FS says what is tested: `zest` (default, the program named by ZEST), `juicefs` or `dir` (a plain folder). The last
# two prove the suites themselves: what fails on a plain folder is a fault of the suite, not of ZestFS.
# DOOR chooses the door of `zest`: auto, uring, dev or fuser. ALONE=1: one process serves, for suites that kill or measure it.
# META_URL puts the records of `zest` on a server that runs already, instead of into a folder.
# Every server is started here, on a free loopback port or in the scratch folder, and ended by its process id, also
# when a suite fails. KEEP=1 leaves the scratch folder for a look.
# Source this file; it is no program.

set -euo pipefail

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET_DIR=${CARGO_TARGET_DIR:-$REPO/target}
FS=${FS:-zest}
ZEST=${ZEST:-$TARGET_DIR/release/zest}

SCRATCH=$(mktemp -d "${SCRATCH_BASE:-${TMPDIR:-/tmp}}/zest-suite.XXXXXX")
MNT=$SCRATCH/mnt
FS_PID=
EXTRA_PIDS=()
mkdir -p "$MNT"

say() { printf '%s\n' "$*"; }
section() { printf '\n=== %s ===\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}
need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null 2>&1 || fail "$tool is not installed: .ci/install.sh installs what the suites need"
  done
}

# For suites about our own program: it must be there, and takes no passwords from outside.
only_zest() {
  [ "$FS" = zest ] || fail "this suite is about our own program: FS=$FS makes no sense here"
  [ -x "$ZEST" ] || fail "no program at $ZEST: build it with 'cargo build --release -p zest', or set ZEST"
  unset REDIS_PASSWORD META_PASSWORD META_PASSWORD_FILE
}

# The process and what it started, by id.
end_process() {
  local pid=$1 signal=${2:-TERM} child
  for child in $(cat /proc/"$pid"/task/"$pid"/children 2>/dev/null || true); do
    kill -"$signal" "$child" 2>/dev/null || true
  done
  kill -"$signal" "$pid" 2>/dev/null || true
}

# Waits until the process is gone, or ends it the hard way after so many seconds.
wait_gone() {
  local pid=$1 seconds=$2
  for _ in $(seq $((seconds * 10))); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  end_process "$pid" KILL
  return 1
}

is_mounted() { grep -qs " $1 " /proc/self/mounts; }

at_end() {
  local status=$?
  trap - EXIT INT TERM
  set +e
  if [ "$status" -ne 0 ] && [ -s "$SCRATCH/server.log" ]; then
    printf -- '--- last lines of the server ---\n' >&2
    tail -n 20 "$SCRATCH/server.log" >&2
  fi
  local mount
  # The deepest first: a suite may have mounted something inside the scratch folder.
  for mount in $(awk '{print $2}' /proc/self/mounts | grep "^$SCRATCH/" | sort -r); do
    umount -l "$mount" 2>/dev/null || fusermount3 -uz "$mount" 2>/dev/null
  done
  local pid
  for pid in $FS_PID "${EXTRA_PIDS[@]}"; do
    end_process "$pid" TERM
    wait_gone "$pid" 10
  done
  if [ "${KEEP:-0}" = 1 ]; then
    printf 'kept: %s\n' "$SCRATCH" >&2
  else
    rm -rf --one-file-system "$SCRATCH"
  fi
  exit "$status"
}
trap at_end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Makes the volume. Options go to `format`.
fs_format() {
  case $FS in
    zest)
      [ -x "$ZEST" ] || fail "no program at $ZEST: build it with 'cargo build --release -p zest', or set ZEST"
      local place=()
      [ -z "${META_URL:-}" ] || [ $# -gt 0 ] || place=(--bucket "$SCRATCH/objects")
      "$ZEST" format "${META_URL:-$SCRATCH/volume}" suite --trash-days 0 "${place[@]}" "$@" >>"$SCRATCH/format.log" 2>&1 ||
        fail "format: $(tail -n 3 "$SCRATCH/format.log")"
      ;;
    juicefs)
      need juicefs
      local store=(--storage file --bucket "$SCRATCH/objects/")
      [ $# -eq 0 ] || store=("$@")
      juicefs format "sqlite3://$SCRATCH/meta.db" suite --trash-days 0 "${store[@]}" >>"$SCRATCH/format.log" 2>&1 ||
        fail "format: $(tail -n 3 "$SCRATCH/format.log")"
      ;;
    dir) ;;
    *) fail "FS=$FS is none of zest, juicefs, dir" ;;
  esac
}

# The command that serves the mount in the foreground, one word a line of the array SERVE.
fs_command() {
  case $FS in
    zest) SERVE=("$ZEST" mount "${META_URL:-$SCRATCH/volume}" "$MNT" ${DOOR:+--door "$DOOR"} ${ALONE:+--no-supervisor}) ;;
    juicefs)
      SERVE=(juicefs mount "sqlite3://$SCRATCH/meta.db" "$MNT" --no-usage-report --backup-meta 0
        --enable-xattr --cache-dir "$SCRATCH/cache" --metrics 127.0.0.1:0 --no-agent)
      ;;
    dir) SERVE=() ;;
  esac
}

# Whether the kernel has rings of io_uring for FUSE; who asks for them elsewhere gets the device, and proves nothing.
rings_offered() { grep -qsx Y /sys/module/fuse/parameters/enable_uring; }

# A mount that was to get rings must have them: PID.
through_rings() {
  [ "${DOOR:-}" = uring ] || return 0
  grep -qsx zest-ring-0 /proc/"$1"/task/*/comm || fail "no rings: $(tail -n 3 "$SCRATCH/server.log")"
}

# Serves the volume at MNT and waits until it is there. Options go to `mount`.
fs_mount() {
  [ "$FS" != dir ] || return 0
  # Blocks come from the store, and nothing is left in the machine's cache directory, unless a suite says otherwise.
  [ "$FS" != zest ] || [[ " $* " == *" --cache-dir "* ]] || set -- "$@" --cache-dir memory
  fs_command
  "${SERVE[@]}" "$@" >>"$SCRATCH/server.log" 2>&1 </dev/null &
  FS_PID=$!
  for _ in $(seq 300); do
    if is_mounted "$MNT" && [ "$(stat -c %i "$MNT" 2>/dev/null)" = 1 ]; then
      [ "$FS" != zest ] || through_rings "$FS_PID"
      return 0
    fi
    kill -0 "$FS_PID" 2>/dev/null || fail "the mount ended before it was ready: ${SERVE[*]} $*"
    sleep 0.1
  done
  fail "the mount is not ready after 30 seconds: ${SERVE[*]} $*"
}

# Unmounts in good order: the server must end by itself, with status 0.
fs_umount() {
  [ "$FS" != dir ] || return 0
  case $FS in
    zest) "$ZEST" umount "$MNT" ;;
    juicefs) juicefs umount "$MNT" ;;
  esac
  local status=0
  wait_gone "$FS_PID" 120 || fail "the server is still there two minutes after the unmount"
  wait "$FS_PID" || status=$?
  FS_PID=
  [ "$status" -eq 0 ] || fail "the server ended with status $status after a clean unmount"
  ! is_mounted "$MNT" || fail "$MNT is still mounted after the unmount"
}

# A port of loopback on which nobody listens.
free_port() {
  local port
  while true; do
    # Below those that the kernel gives to connections.
    port=$((12000 + RANDOM % 20000))
    if ! (exec 3<>/dev/tcp/127.0.0.1/"$port") 2>/dev/null; then
      printf '%s\n' "$port"
      return 0
    fi
  done
}

# Waits until a server answers: PORT NAME LOG.
wait_listens() {
  for _ in $(seq 600); do
    if (exec 3<>/dev/tcp/127.0.0.1/"$1") 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  fail "$2 does not listen: $(tail -n 3 "$3")"
}

# wait_mounted POINT PID: until PID has mounted it; fails when it ended before, or needs more than 30 seconds.
wait_mounted() {
  for _ in $(seq 300); do
    if is_mounted "$1"; then return 0; fi
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

# Serves a volume at one more point, by a process that is SERVED then: URL POINT OPTIONS...
zest_serve() {
  local url=$1 point=$2
  shift 2
  # As with fs_mount: nothing is left in the machine's cache directory.
  [[ " $* " == *" --cache-dir "* ]] || set -- "$@" --cache-dir memory
  mkdir -p "$point"
  "$ZEST" mount "$url" "$point" "$@" >>"$SCRATCH/server.log" 2>&1 </dev/null &
  SERVED=$!
  EXTRA_PIDS+=("$SERVED")
  wait_mounted "$point" "$SERVED" || fail "$point: not mounted: the process ended, or needs more than 30 seconds"
}

# An S3 server on loopback with one bucket `suite`. Sets S3_URL, S3_KEY, S3_SECRET.
s3_start() {
  need s3s-fs
  S3_KEY=suite-key S3_SECRET=suite-secret
  local port
  port=$(free_port)
  mkdir -p "$SCRATCH/s3/suite"
  RUST_LOG=error s3s-fs --host 127.0.0.1 --port "$port" --access-key "$S3_KEY" --secret-key "$S3_SECRET" \
    "$SCRATCH/s3" >>"$SCRATCH/s3.log" 2>&1 </dev/null &
  EXTRA_PIDS+=($!)
  S3_URL=http://127.0.0.1:$port
  wait_listens "$port" s3s-fs "$SCRATCH/s3.log"
}

# A Redis on loopback, with an empty folder of its own and what else is given. Sets REDIS_PORT and REDIS_PID.
redis_start() {
  need redis-server redis-cli
  REDIS_PORT=$(free_port)
  mkdir -p "$SCRATCH/redis-$REDIS_PORT"
  redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --save '' --daemonize no --dir "$SCRATCH/redis-$REDIS_PORT" "$@" \
    >>"$SCRATCH/redis.log" 2>&1 </dev/null &
  REDIS_PID=$!
  EXTRA_PIDS+=("$REDIS_PID")
  for _ in $(seq 100); do
    # One that wants a password answers, too.
    if redis-cli -p "$REDIS_PORT" ping 2>&1 | grep -qE 'PONG|NOAUTH'; then return 0; fi
    kill -0 "$REDIS_PID" 2>/dev/null || break
    sleep 0.1
  done
  fail "redis-server does not answer: $(tail -n 3 "$SCRATCH/redis.log")"
}

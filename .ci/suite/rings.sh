#!/usr/bin/env bash
# Crowds at our own door over rings of io_uring: more requests of one processor wait than its ring has places, and nothing
# hangs or is lost, also when the mount ends in any way there is. N waiters. DOOR=dev shows that the device does the same.
# Skipped aloud where the kernel offers no ring.
export DOOR=${DOOR:-uring}
source "$(dirname "$0")/../lib.sh"
only_zest
need python3 redis-server
if ! rings_offered; then
  say "SKIPPED: the kernel offers no ring (Linux 6.14, and Y in /sys/module/fuse/parameters/enable_uring)"
  exit 0
fi
N=${N:-300}
redis_start
META_URL=redis://127.0.0.1:$REDIS_PORT/1
crowds() { python3 "$REPO/.ci/suite/rings.py" "$@"; }

section "all at once"
fs_format
fs_mount
crowds crowd "$MNT" "$FS_PID" "$N" || fail "a crowd"
# Everybody is gone: it can be unmounted as if nothing had been.
fs_umount

# ends HOW: a mount that is used by N who wait; the function HOW ends it.
ends() {
  fs_mount --heartbeat 1
  crowds held "$MNT" "$N" >"$SCRATCH/held" 2>&1 &
  local waiting=$!
  EXTRA_PIDS+=("$waiting")
  for _ in $(seq 600); do grep -q waiting "$SCRATCH/held" && break; sleep 0.1; done
  grep -q waiting "$SCRATCH/held" || fail "nobody waits: $(cat "$SCRATCH/held")"
  local begun=$SECONDS
  "$1"
  wait_gone "$waiting" 60 || fail "those who wait hang"
  grep -q right "$SCRATCH/held" || fail "$(cat "$SCRATCH/held")"
  wait_gone "$FS_PID" 60 || fail "the server hangs"
  FS_PID=
  say "$(grep right "$SCRATCH/held"), and the server, after $((SECONDS - begun)) s"
  umount -l "$MNT" 2>/dev/null || true
}
killed() { kill -KILL "$FS_PID"; }
told() { kill -TERM "$FS_PID"; }
forced() { umount -f "$MNT" 2>/dev/null || umount -fl "$MNT"; }

section "kill -9"
ends killed
section "TERM"
ends told
section "a forced unmount"
ends forced

section "as few places as there may be"
fs_mount --memory 64M
dd if=/dev/urandom of="$SCRATCH/data" bs=1M count=24 status=none
cp "$SCRATCH/data" "$MNT/data"
for flag in '' iflag=direct; do
  dd if="$MNT/data" bs=4M ${flag:+"$flag"} status=none | cmp - "$SCRATCH/data" || fail "data through small places"
done
crowds crowd "$MNT" "$FS_PID" $((N / 3)) || fail "a crowd at small places"
say "right: resident $(awk '/VmHWM/ {print int($2 / 1024)}' /proc/"$FS_PID"/status) MiB at most with --memory 64M"
fs_umount
say "rings: all right"

#!/usr/bin/env bash
# A metadata server that falls silent under load: asleep, stopped, saving, killed and started again. Nothing fails,
# the reason is in the log, and what was acknowledged is there afterwards. ENTRIES keys make the server's fork cost
# something.
source "$(dirname "$0")/../lib.sh"
need redis-server redis-cli python3
ENTRIES=${ENTRIES:-200000}
redis_start --appendonly yes --appendfsync everysec --enable-debug-command local
META_URL=redis://127.0.0.1:$REDIS_PORT/0
ask() { redis-cli -p "$REDIS_PORT" "$@"; }
fs_format
fs_mount
mkdir "$MNT/load"

# Creates files as fast as it can, one after the other, until it is told to stop; the slowest is reported.
cat >"$SCRATCH/load.py" <<'PY'
import os, sys, time
folder, stop = sys.argv[1], sys.argv[2]
slowest, times, n = 0, [], 0
while not os.path.exists(stop):
    begun = time.monotonic()
    with open(f"{folder}/{n}", "wb") as file:
        file.write(b"%d" % n)
    times.append(time.monotonic() - begun)
    n += 1
times.sort()
print(n, f"{times[len(times) * 99 // 100 - 1] * 1000:.1f}", f"{times[-1] * 1000:.0f}")
PY

# Runs what is given in the middle of the load.
during() {
  local name=$1
  shift
  mkdir "$MNT/load/$name"
  rm -f "$SCRATCH/stop"
  python3 "$SCRATCH/load.py" "$MNT/load/$name" "$SCRATCH/stop" >"$SCRATCH/$name.out" 2>&1 &
  local load=$!
  sleep 1
  "$@"
  sleep 1
  touch "$SCRATCH/stop"
  wait "$load" || fail "$name: an operation failed: $(tail -n 2 "$SCRATCH/$name.out")"
  read -r files p99 slowest <"$SCRATCH/$name.out"
  [ "$(ls "$MNT/load/$name" | wc -l)" = "$files" ] || fail "$name: $(ls "$MNT/load/$name" | wc -l) of $files files are there"
  say "$name: $files files written and closed, none failed; 99 of 100 within $p99 ms, the slowest took $slowest ms"
}
named() { grep -qE "did not answer for [0-9]+ ms: .*$1" "$SCRATCH/server.log" || fail "the log does not name it: $1"; }

stopped() {
  kill -STOP "$REDIS_PID"
  sleep 3
  kill -CONT "$REDIS_PID"
}
saving() {
  ask bgsave >/dev/null
  while [ "$(ask info persistence | tr -d '\r' | sed -n 's/^rdb_bgsave_in_progress://p')" = 1 ]; do sleep 0.1; done
}
killed() {
  kill -KILL "$REDIS_PID"
  while kill -0 "$REDIS_PID" 2>/dev/null; do sleep 0.05; done
  redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --save '' --daemonize no --appendonly yes --appendfsync everysec --enable-debug-command local \
    --dir "$SCRATCH/redis-$REDIS_PORT" >>"$SCRATCH/redis.log" 2>&1 </dev/null &
  REDIS_PID=$!
  EXTRA_PIDS+=("$REDIS_PID")
}

# What the log names, status and metrics count.
counted() {
  "$ZEST" status "$META_URL" >"$SCRATCH/status.json"
  python3 - "$SCRATCH/status.json" "$MNT" <<'PY' || fail "stalls are not counted"
import json, sys, urllib.request
status, point = sys.argv[1:]
[mount] = [m for m in json.load(open(status))["Mounts"] if m["Point"] == point]
server, place = mount["MetaServer"], mount["Metrics"]
assert server["SilentMillis"] is None and server["Stalls"] >= 2, server
assert any(stall["Millis"] >= 2000 and stall["Cause"] for stall in server["Recent"]), server
lines = urllib.request.urlopen(place, timeout=10).read().decode().splitlines()
values = {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}
assert values["zest_meta_stalls"] >= 2 and values["zest_meta_stall_seconds"] >= 4, values
assert values["zest_meta_silent_seconds"] == 0 and values["juicefs_uptime"] > 4, values
PY
}

during quiet true
during asleep ask debug sleep 2
named .
during stopped stopped
[ "$(grep -cE 'did not answer for [23][0-9]{3} ms' "$SCRATCH/server.log")" -ge 1 ] || fail "three seconds of silence are not named"
counted
ask eval 'for i = 1, tonumber(ARGV[1]) do redis.call("HSET", "ballast" .. i % 1000, i, string.rep("x", 100)) end' 0 "$ENTRIES" >/dev/null
during saving saving
during killed killed
fs_umount
fs_mount
for name in quiet asleep stopped saving killed; do
  read -r files _ <"$SCRATCH/$name.out"
  [ "$(ls "$MNT/load/$name" | wc -l)" = "$files" ] || fail "after a new mount $name has lost files"
done
fs_umount
say "stalls: five kinds, nothing failed, nothing lost; status and metrics count them"

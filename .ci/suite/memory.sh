#!/usr/bin/env bash
# Many open readers and writers at a server that may take little memory: in a control group of 256 MiB, where one can be
# made, the server takes half of it for itself without being told, is not killed, answers everybody rightly, and nobody gets
# an error. Where none can be made, it is told, and only what it took is judged. READERS are open files that are
# read, WRITERS are files that are written at once, SECONDS_EACH is how long.
source "$(dirname "$0")/../lib.sh"
ALONE=1
only_zest
need python3
READERS=${READERS:-1000} WRITERS=${WRITERS:-100} SECONDS_EACH=${SECONDS_EACH:-8}
LIMIT=$((256 << 20))
cd "$SCRATCH"

# The control group: of the first kind or of the second.
GROUP=
for place in "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/zest-suite-$$ memory.max" \
  "/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:[^:]*memory[^:]*://p' /proc/self/cgroup)/zest-suite-$$ memory.limit_in_bytes"; do
  read -r dir file <<<"$place"
  if mkdir "$dir" 2>/dev/null; then
    if [ -e "$dir/$file" ] && echo "$LIMIT" >"$dir/$file" 2>/dev/null; then
      GROUP=$dir
      break
    fi
    rmdir "$dir"
  fi
done
leave_group() {
  [ -z "$GROUP" ] || rmdir "$GROUP" 2>/dev/null || true
}
trap 'leave_group; at_end' EXIT

REAL=$ZEST MEMORY=()
if [ -n "$GROUP" ]; then
  printf '#!/bin/sh\n[ "$1" != mount ] || echo $$ >%s/cgroup.procs\nexec %s "$@"\n' "$GROUP" "$(realpath "$REAL")" >grouped
  chmod +x grouped
  ZEST=$SCRATCH/grouped
  say "the server is in a control group of $((LIMIT >> 20)) MiB"
else
  MEMORY=(--memory 128M)
  say "no control group can be made here: the server is told to take 128 MiB"
fi

fs_format --block-size 1M
fs_mount "${MEMORY[@]}"
status() { "$REAL" status "$MNT" | python3 -c 'import json,sys; m=json.load(sys.stdin)["Mounts"][0]["Memory"]; print(eval(sys.argv[1], {"m": m}))' "$1"; }
[ "$(status 'm["total"]')" = $((128 << 20)) ] || fail "the memory of the mount is $(status 'm["total"]')"

ulimit -n "$(ulimit -Hn)"
python3 - "$MNT" "$READERS" "$WRITERS" "$SECONDS_EACH" <<'PY'
import os, random, sys, threading, time
place, readers, writers, seconds = sys.argv[1], *map(int, sys.argv[2:5])
size, files = 2 << 20, 40
base = random.Random(3).randbytes(size + files)
for n in range(files):
    with open(f"{place}/read{n}", "wb") as file:
        file.write(base[n:n + size])
    os.sync() if n % 10 == 9 else None
open_files = [(n % files, os.open(f"{place}/read{n % files}", os.O_RDONLY)) for n in range(readers)]
end, sums, wrong = time.time() + seconds, [0, 0], []
lock = threading.Lock()

def read(part):
    chance, done = random.Random(part), 0
    mine = open_files[part::16]
    places = [0] * len(mine)
    try:
        while time.time() < end:
            at = chance.randrange(len(mine))
            n, fd = mine[at]
            offset = places[at] if at % 2 else chance.randrange(size)
            data = os.pread(fd, 65536, offset)
            places[at] = (offset + 65536) % size
            if data != base[n + offset:n + min(size, offset + 65536)]:
                wrong.append(f"read{n} at {offset}: other bytes")
            done += len(data)
    except OSError as error:
        wrong.append(f"reading: {error}")
    with lock:
        sums[0] += done

def write(part):
    done = 0
    try:
        with open(f"{place}/write{part}", "wb", buffering=0) as file:
            while time.time() < end:
                done += file.write(base[part % files:part % files + 65536])
                if done > 8 << 20:
                    file.seek(0)
            os.fsync(file.fileno())
    except OSError as error:
        wrong.append(f"writing: {error}")
    with lock:
        sums[1] += done

begun = time.time()
threads = [threading.Thread(target=read, args=(n,)) for n in range(16)]
threads += [threading.Thread(target=write, args=(n,)) for n in range(writers)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
took = time.time() - begun
print(f"{readers} open readers: {sums[0] / took / (1 << 20):.1f} MiB/s; {writers} writers: {sums[1] / took / (1 << 20):.1f} MiB/s; {took:.1f} s")
assert not wrong, wrong[:5]
assert sums[0] > 0 and sums[1] > 0, sums
PY
kill -0 "$FS_PID" || fail "the server is gone"
most=$(status 'm["residentMost"]')
say "the server had at most $((most >> 20)) MiB in memory; shares: $(status '{k: v for k, v in m.items() if isinstance(v, dict)}')"
[ "$most" -le "$LIMIT" ] || fail "the server took $most bytes, more than $LIMIT"
fs_umount
say "right: nobody got an error, and the server stayed within its memory"

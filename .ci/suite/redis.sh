#!/usr/bin/env bash
# Records on Redis: first steps, settings and status, wrong use, a server that changes under a mount, pjdfstest and
# fsx, and JuiceFS on the same volume at the same time. OPS operations of fsx; without juicefs its part is skipped
# aloud.
source "$(dirname "$0")/../lib.sh"
only_zest
SUITES=$(cd "$(dirname "$0")" && pwd)
cd "$SCRATCH"
URL=
cli() { redis-cli -p "$REDIS_PORT" "$@"; }

# serve URL POINT OPTIONS...: a mount in the foreground, ready when this returns. Its process is SERVED.
serve() {
  local url=$1 point=$2
  shift 2
  mkdir -p "$point"
  "$ZEST" mount "$url" "$point" "$@" >out 2>err </dev/null &
  SERVED=$!
  EXTRA_PIDS+=("$SERVED")
  wait_mounted "$SCRATCH/$point" "$SERVED" || fail "mount $url: not ready: $(cat err)"
}

# ends STATUS HOW: the server must end with this status.
ends() {
  local status=0
  wait_gone "$SERVED" 60 || fail "the server is still there a minute after $2"
  wait "$SERVED" || status=$?
  [ "$status" -eq "$1" ] || fail "status $status and not $1 after $2: $(tail -n 3 err)"
  say "right: ended by $2 with status $1"
}

# refused STATUS PATTERN COMMAND...: one line that matches, and this status, within a minute.
refused() {
  local want=$1 pattern=$2 status=0
  shift 2
  timeout 60 "$@" >answer 2>&1 </dev/null || status=$?
  [ "$status" -eq "$want" ] || fail "status $status and not $want: $* : $(head -n 3 answer)"
  [ "$(tail -n 1 answer | grep -ciE -- "$pattern")" -eq 1 ] || fail "no match for '$pattern': $(cat answer)"
  say "right: $(tail -n 1 answer)"
}

within() { # within SECONDS COMMAND...: it must come true.
  local tries=$(($1 * 10))
  shift
  for _ in $(seq "$tries"); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  return 1
}

section "first steps"
redis_start
URL=redis://127.0.0.1:$REDIS_PORT/1
refused 1 "not formatted.*zest format" "$ZEST" mount "$URL" mnt
refused 1 "database is not formatted" "$ZEST" status "$URL"
"$ZEST" format "$URL" first --bucket objects >formatted 2>&1 || fail "format: $(cat formatted)"
grep -q '"UUID"' formatted || fail "format shows no settings: $(cat formatted)"
[ "$(cli -n 1 get setting | grep -c '"Bucket": "'"$SCRATCH"'/objects/"')" -eq 1 ] || fail "the bucket is not an absolute path with / at its end"
[ -z "$(cli -n 1 exists nextinode | grep -v 0)" ] || fail "format wrote a counter"
refused 1 "first.*other|other.*first" "$ZEST" format "$URL" other
refused 1 "block size" "$ZEST" format "$URL" first --block-size 1M
"$ZEST" format "$URL" ignored --no-update || fail "format --no-update of a volume"
serve "$URL" mnt
printf 'hello\n' >mnt/greeting
mkdir -p mnt/a/b
ln -s ../greeting mnt/a/link
head -c 9000000 /dev/urandom >sample
cp sample mnt/a/b/sample
cmp sample mnt/a/b/sample || fail "a file reads differently"
"$ZEST" status "$URL" >status || fail "status of a volume in use"
python3 - status <<'PY' || fail "status: $(cat status)"
import json, sys
status = json.load(open(sys.argv[1]))
session = status["Sessions"][0]
assert status["Setting"]["Name"] == "first" and len(status["Sessions"]) == 1, status
assert session["Version"].startswith("1.4.") and session["MountPoint"].endswith("/mnt"), session
assert status["Stat"]["UsedInodes"] >= 5, status["Stat"]
assert any(f["Id"] == "redis-persistence" for f in status["Findings"]), status["Findings"]
PY
sid=$(python3 -c 'import json; print(json.load(open("status"))["Sessions"][0]["Sid"])')
"$ZEST" status "$URL" --session "$sid" | grep -q '"Sustained"' || fail "status of one session"
refused 1 "no session 999" "$ZEST" status "$URL" --session 999
"$ZEST" umount mnt
ends 0 "zest umount"
[ "$(cli -n 1 zcard allSessions)" = 0 ] || fail "the session is still there"
"$ZEST" mount -d --log background.log "$URL" mnt </dev/null >out 2>&1 || fail "background: $(cat out)"
[ "$(cat mnt/a/link)" = hello ] || fail "the second mount does not show what the first wrote"
"$ZEST" umount mnt
serve "127.0.0.1:$REDIS_PORT/1" mnt --read-only
[ "$(cli -n 1 zcard allSessions)" = 0 ] || fail "a read-only mount made a session"
cmp sample mnt/a/b/sample || fail "a read-only mount reads differently"
! touch mnt/new 2>/dev/null || fail "a read-only mount took a change"
"$ZEST" umount mnt
ends 0 "zest umount of a read-only mount"

section "settings"
"$ZEST" config "$URL" | grep -q '"TrashDays": 1' || fail "config shows no settings"
cli -n 1 set setting "$(cli -n 1 get setting | sed 's/"Name": "first",/"Name": "first",\n"Unheard": {"of": 1},/')" >/dev/null
serve "$URL" mnt --heartbeat 1
"$ZEST" config "$URL" --trash-days 7 --capacity 1G >out 2>&1 || fail "config: $(cat out)"
grep -q 'trash-days: 1 -> 7' out || fail "config says: $(cat out)"
cli -n 1 get setting | grep -q '"Unheard"' || fail "config lost a member it does not know"
capped() { [ "$(stat -f -c '%b * %S' mnt | sed 's/ //g')" = '262144*4096' ]; }
within 10 capped || fail "the new limit does not reach the mount: $(stat -f mnt)"
say "right: a new limit reaches a mount"
"$ZEST" config "$URL" --trash-days 7 | grep -q 'Nothing changed' || fail "config: a change to the same"
refused 1 "nothing was changed" "$ZEST" config "$URL" --trash-days 0
refused 1 "only be raised" "$ZEST" config "$URL" --min-client-version 1.0.0
"$ZEST" config "$URL" --capacity 0 >/dev/null
cp sample mnt/unfinished
cli -n 1 set setting "$(cli -n 1 get setting | sed 's/"UUID": "[0-9a-f]*/"UUID": "00000000/')" >/dev/null
ends 11 "another volume in its place"
! is_mounted "$SCRATCH/mnt" || fail "still mounted"

section "wrong use"
refused 1 "tikv://.*not supported yet.*redis://" "$ZEST" mount tikv://127.0.0.1/x mnt
refused 1 "127.0.0.1:9" "$ZEST" status redis://127.0.0.1:9/1
refused 1 "no name of a directory" "$ZEST" mount "$URL" mnt --subdir /a/../b
refused 1 "missing.*no such file" "$ZEST" mount "$URL" mnt --subdir /missing --read-only
refused 1 "--root-squash is not supported" "$ZEST" mount "$URL" mnt --root-squash 1:1
FIRST_PORT=$REDIS_PORT
redis_start --requirepass secret
SECURED=redis://127.0.0.1:$REDIS_PORT/0
refused 1 "password" "$ZEST" format "$SECURED" safe --bucket objects
refused 1 "password" "$ZEST" format "redis://:wrong-word@127.0.0.1:$REDIS_PORT/0" safe --bucket objects
! grep -q wrong-word answer || fail "a password in an answer"
REDIS_PASSWORD=secret "$ZEST" format "$SECURED" safe --bucket objects >out 2>&1 || fail "format with REDIS_PASSWORD: $(cat out)"
META_PASSWORD=secret "$ZEST" status "$SECURED" >/dev/null || fail "META_PASSWORD"
printf 'secret\n' >word
META_PASSWORD_FILE=word "$ZEST" status "$SECURED" >/dev/null || fail "META_PASSWORD_FILE"
serve "redis://:secret@127.0.0.1:$REDIS_PORT/0" mnt
! tr '\0' ' ' <"/proc/$SERVED/cmdline" | grep -q secret || fail "the password is in the list of processes"
! grep -q secret out err || fail "the password is in the output: $(cat out err)"
"$ZEST" umount mnt
ends 0 "zest umount of a volume with a password"
"$ZEST" mount -d --log secured.log "redis://:secret@127.0.0.1:$REDIS_PORT/0" mnt </dev/null >out 2>&1 || fail "background: $(cat out)"
! grep -q secret out secured.log || fail "the password is in the log"
for pid in $(pgrep -f "$REDIS_PORT/0 mnt" || true); do
  ! tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q ':secret@' || fail "the password is in the list of processes"
done
"$ZEST" umount mnt
REDIS_PORT=$FIRST_PORT

section "a directory as root"
serve "$URL" mnt
mkdir -p mnt/top/inner
printf 'inside\n' >mnt/top/inner/file
"$ZEST" umount mnt
ends 0 "zest umount"
serve "$URL" mnt --subdir /top/
[ "$(cat mnt/inner/file)" = inside ] || fail "--subdir shows something else: $(ls mnt)"
[ "$(stat -c %i mnt)" = 1 ] || fail "the root of a mount is node 1"
[ "$(ls -A mnt)" = inner ] || fail "--subdir shows more: $(ls -A mnt)"
[ "$(ls -aif mnt | awk '$2 == "." {print $1}')" = 1 ] || fail "a listing of the root names another node: $(ls -aif mnt)"
mkdir mnt/more && mv mnt/inner/file mnt/more/file && ln mnt/more/file mnt/hard && rm mnt/hard
[ ! -e mnt/.trash ] || fail "the trash is shown in a part of the volume"
"$ZEST" info mnt | grep -q '/top$' || fail "info of the root: $("$ZEST" info mnt)"
"$ZEST" umount mnt
ends 0 "zest umount of a directory of a volume"
serve "$URL" mnt --subdir top/new/deep
touch mnt/made
"$ZEST" umount mnt
serve "$URL" mnt
[ -e mnt/top/new/deep/made ] && [ "$(cat mnt/top/more/file)" = inside ] || fail "what was done under --subdir is elsewhere"
"$ZEST" umount mnt
ends 0 "zest umount"
say "right: a directory as root"

section "neighbours"
"$ZEST" status "$URL" | grep -q shared-db && fail "a stranger in a database of our own"
cli -n 1 set user:7 x >/dev/null
"$ZEST" status "$URL" | grep -q 'user:7' || fail "status does not name the stranger's key"
cli -n 1 del user:7 >/dev/null
say "right: a stranger's key is named"

section "a server that throws keys away"
cli flushall >/dev/null
"$ZEST" format "$URL" second --bucket objects2 --trash-days 0 >/dev/null 2>&1 || fail "format after flushall"
cli config set maxmemory-policy allkeys-lru >/dev/null
refused 1 "allkeys-lru.*noeviction" "$ZEST" mount "$URL" mnt
refused 1 "allkeys-lru.*noeviction" "$ZEST" format "redis://127.0.0.1:$REDIS_PORT/2" third --bucket objects3
"$ZEST" status "$URL" | grep -q redis-eviction || fail "status does not name the policy"
serve "$URL" mnt --force-unsafe-engine
"$ZEST" umount mnt
ends 0 "zest umount of a forced mount"
cli config set maxmemory-policy noeviction >/dev/null
serve "$URL" mnt --heartbeat 1
touch mnt/before
cli config set maxmemory-policy volatile-lru >/dev/null
frozen() { ! touch mnt/now; }
within 10 frozen || fail "the mount takes changes while its server throws keys away"
[ -e mnt/before ] || fail "a frozen mount does not show files"
cli config set maxmemory-policy noeviction >/dev/null
within 10 touch mnt/again || fail "the mount takes no changes after the server was corrected"
say "right: frozen while the server throws keys away, and then not any more"
"$ZEST" umount mnt
ends 0 "zest umount"

section "a server that comes back without its last changes"
MAIN_PORT=$REDIS_PORT
redis_start
LOSING=redis://127.0.0.1:$REDIS_PORT/1
"$ZEST" format "$LOSING" losing --bucket objects6 --trash-days 0 >/dev/null 2>&1 || fail "format"
serve "$LOSING" mnt
touch mnt/kept
cli save >/dev/null
python3 -c 'import os
for n in range(1500): os.close(os.open(f"mnt/lost-{n}", os.O_CREAT | os.O_WRONLY))'
given=$(cli -n 1 get nextinode)
kill -KILL "$REDIS_PID"
wait "$REDIS_PID" 2>/dev/null || true
redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --save '' --daemonize no --dir "$SCRATCH/redis-$REDIS_PORT" \
  >>"$SCRATCH/redis.log" 2>&1 </dev/null &
EXTRA_PIDS+=($!)
within 20 touch mnt/after || fail "no changes after the server came back"
[ -e mnt/kept ] || fail "what the server kept is not shown"
within 5 test ! -e mnt/lost-0 || fail "what the server lost is still shown"
next=$(cli -n 1 get nextinode)
[ "$next" -gt $((given + 1000000)) ] || fail "the next inode is $next, and $given were given out before"
grep -q 'came back without its last changes' err || fail "nothing said of what was lost: $(tail -n 3 err)"
say "right: $given inode numbers were given out, and $next is the next one after the server lost some of them"
"$ZEST" umount mnt
ends 0 "zest umount"
REDIS_PORT=$MAIN_PORT

section "posix and content"
META_URL=redis://127.0.0.1:$REDIS_PORT/3 "$SUITES/pjdfstest.sh"
META_URL=redis://127.0.0.1:$REDIS_PORT/4 OPS=${OPS:-20000} SEEDS=1 "$SUITES/fsx.sh"

section "JuiceFS on the same volume"
if command -v juicefs >/dev/null 2>&1; then
  SHARED=redis://127.0.0.1:$REDIS_PORT/5
  "$ZEST" format "$SHARED" shared --bucket objects5 --trash-days 0 >/dev/null 2>&1 || fail "format"
  serve "$SHARED" mnt
  mkdir -p other
  juicefs mount "$SHARED" other --no-usage-report --backup-meta 0 --cache-dir "$SCRATCH/cache" --no-agent \
    --metrics 127.0.0.1:0 >juicefs.log 2>&1 </dev/null &
  EXTRA_PIDS+=($!)
  within 30 is_mounted "$SCRATCH/other" || fail "juicefs does not mount it: $(tail -n 5 juicefs.log)"
  cp sample mnt/from-us
  cp sample other/from-them
  mkdir mnt/dir-us other/dir-them
  ln mnt/from-us mnt/dir-us/hard
  ln -s ../from-them other/dir-them/soft
  cmp sample other/from-us || fail "juicefs reads something else than we wrote"
  cmp sample mnt/from-them || fail "we read something else than juicefs wrote"
  for round in 1 2 3 4 5; do
    head -c $((round * 700000)) /dev/urandom >part
    cp part mnt/turn
    cmp part other/turn || fail "close-to-open, from us to them, round $round"
    head -c $((round * 300000)) /dev/urandom >part
    cp part other/turn
    cmp part mnt/turn || fail "close-to-open, from them to us, round $round"
  done
  sleep 1.2
  tree() { (cd "$1" && find . -path ./.accesslog -o -path ./.config -o -path ./.stats -o -path ./.trash -prune -o -printf '%P %y %m %n %s %U %G %T@ %l\n' | sort); }
  diff <(tree mnt) <(tree other) || fail "the two mounts show different trees"
  "$ZEST" status "$SHARED" | grep -c '"Sid"' | grep -qx 2 || fail "status does not show both sessions"
  juicefs status "$SHARED" 2>/dev/null | grep -q 'zest' || fail "juicefs status does not show our session"
  juicefs umount other || fail "juicefs umount"
  "$ZEST" umount mnt
  ends 0 "zest umount of a shared volume"
  juicefs fsck "$SHARED" >fsck.log 2>&1 || fail "juicefs fsck: $(tail -n 5 fsck.log)"
  say "right: both see the same files, and juicefs fsck finds nothing"
else
  say "SKIPPED: juicefs is not installed (.ci/install.sh bench)"
fi
say "redis: all right"

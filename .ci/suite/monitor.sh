#!/usr/bin/env bash
# What a mount asks its Redis for, counted by the server's own MONITOR: a create in a warm directory is one script, a
# stat of a leased file is nothing, and a change by another client (JuiceFS where it is installed) ends the lease.
source "$(dirname "$0")/../lib.sh"
only_zest
need python3
ONE=$SCRATCH/one TWO=$SCRATCH/two
redis_start
URL=redis://127.0.0.1:$REDIS_PORT/1
cli() { redis-cli -p "$REDIS_PORT" "$@"; }
"$ZEST" format "$URL" monitor --bucket "$SCRATCH/objects" --trash-days 0 >"$SCRATCH/format.log" 2>&1 ||
  fail "format: $(tail -n 3 "$SCRATCH/format.log")"

# zest_mount POINT OPTIONS...: no heartbeat comes between what is counted.
zest_mount() { zest_serve "$URL" "$1" --heartbeat 600 "${@:2}"; }
zest_mount "$ONE"
# The one connection that said anything but what a mount begins with.
ADDRESS=$(cli client list | grep -v 'cmd=client' | sed -n 's/.* addr=\([^ ]*\).*/\1/p' | head -n 1)
[ "$(cli client list | grep -vc 'cmd=client')" = 1 ] || fail "one mount has more connections than one: $(cli client list)"
if command -v juicefs >/dev/null 2>&1; then
  source "$REPO/.ci/clients.sh"
  client_mount juicefs "$URL" "$TWO"
else
  say "juicefs is not installed: the other client is ours, too"
  zest_mount "$TWO"
fi
redis-cli -p "$REDIS_PORT" monitor >"$SCRATCH/monitor" 2>&1 &
EXTRA_PIDS+=($!)
for _ in $(seq 50); do grep -q OK "$SCRATCH/monitor" && break; sleep 0.1; done

# asked WHAT COMMAND...: what the mount asked for meanwhile is in WORDS, one command a line, without its heart's beat.
asked() {
  local what=$1
  shift
  cli echo "begin-$what" >/dev/null
  "$@" || fail "$what: $*"
  sleep 0.3
  cli echo "end-$what" >/dev/null
  for _ in $(seq 50); do grep -q "end-$what" "$SCRATCH/monitor" && break; sleep 0.1; done
  WORDS=$(sed -n "/begin-$what/,/end-$what/p" "$SCRATCH/monitor" | grep -F " $ADDRESS]" | cut -d']' -f2- |
    awk '{print $1}' | tr -d '"' | tr a-z A-Z | grep -v PING || true)
}
is() { # is EXPECTED...: exactly these commands.
  local expected
  expected=$(printf '%s\n' "$@" | sed '/^$/d')
  [ "$WORDS" = "$expected" ] || fail "asked for $(echo $WORDS), and not for $(echo $expected): $(tail -n 30 "$SCRATCH/monitor")"
}
create() { python3 -c 'import os,sys; os.close(os.open(sys.argv[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))' "$1"; }
many() { for _ in $(seq 20); do stat "$1" >/dev/null || return 1; done; }

mkdir "$ONE/warm"
create "$ONE/warm/first"
for name in a b c; do
  asked "create-$name" create "$ONE/warm/$name"
  is EVALSHA
done
say "right: a create in a warm directory is one script, and nothing else"
asked stat many "$ONE/warm/a"
is
say "right: a stat of a leased file asks for nothing"
asked missing sh -c "! stat $ONE/warm/none 2>/dev/null && ! stat $ONE/warm/none 2>/dev/null"
is
say "right: a name that does not exist in a directory that is known asks for nothing"
sleep 2
asked leased many "$ONE/warm/a"
is
say "right: nor two seconds later"

asked revoked chmod 600 "$TWO/warm/a"
is
for _ in $(seq 100); do [ "$(stat -c %a "$ONE/warm/a")" = 600 ] && break; sleep 0.02; done
asked again stat -c %a "$ONE/warm/a"
[ "$(stat -c %a "$ONE/warm/a")" = 600 ] || fail "a change by the other client is not seen"
grep -F " $ADDRESS]" "$SCRATCH/monitor" | tail -n 20 | grep -qiE '"(mget|get)" "i' || fail "nothing was asked for after the change"
asked calm many "$ONE/warm/a"
is
say "right: a change by the other client ends the lease: it is asked for once, and then not any more"
create "$TWO/warm/theirs"
for _ in $(seq 100); do [ -e "$ONE/warm/theirs" ] && break; sleep 0.02; done
[ -e "$ONE/warm/theirs" ] || fail "a file of the other client is not seen"
say "right: and so does a new name"
case $(awk '$2 == "'"$TWO"'" {print $1}' /proc/self/mounts) in
  JuiceFS*) client_umount juicefs "$TWO" ;;
  *) "$ZEST" umount "$TWO" ;;
esac || fail "umount of the other client"
"$ZEST" umount "$ONE" || fail "umount"
say "monitor: all right"

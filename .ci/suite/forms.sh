#!/usr/bin/env bash
# A volume on every kind of Redis installation: a socket of this machine, a password, TLS, a cluster, and sentinels
# whose primary is killed under load. CASES chooses some of them.
source "$(dirname "$0")/../lib.sh"
need redis-server redis-cli python3 openssl
CASES=${CASES:-socket password tls cluster sentinel}

# A server in the background: port (0 for none), name, options. Waits until it answers to what stands in ASK.
serve() {
  local port=$1 name=$2
  shift 2
  mkdir -p "$SCRATCH/$name"
  redis-server "$@" --port "$port" --bind 127.0.0.1 --save '' --daemonize no --dir "$SCRATCH/$name" \
    >>"$SCRATCH/$name.log" 2>&1 </dev/null &
  SERVED=$!
  EXTRA_PIDS+=("$SERVED")
  for _ in $(seq 100); do
    if "${ASK[@]}" ping 2>&1 | grep -qE 'PONG|NOAUTH'; then return 0; fi
    kill -0 "$SERVED" 2>/dev/null || break
    sleep 0.1
  done
  fail "$name does not answer: $(tail -n 3 "$SCRATCH/$name.log")"
}

# A volume there can be used, twice.
use() {
  META_URL=$1
  rm -rf "$SCRATCH/objects"
  fs_format
  fs_mount
  mkdir "$MNT/folder"
  head -c 5000000 /dev/urandom >"$MNT/folder/data"
  cp "$MNT/folder/data" "$SCRATCH/data"
  fs_umount
  fs_mount
  cmp "$MNT/folder/data" "$SCRATCH/data" || fail "$2: the file differs"
  fs_umount
  say "$2: right"
}

case_socket() {
  ASK=(redis-cli -s "$SCRATCH/r.sock")
  serve 0 socket --unixsocket "$SCRATCH/r.sock"
  use "unix://$SCRATCH/r.sock?db=3" socket
  "${ASK[@]}" -n 3 exists setting | grep -q 1 || fail "the volume is not in database 3"
}

case_password() {
  local port
  port=$(free_port)
  ASK=(redis-cli -p "$port")
  serve "$port" password --requirepass 'p@ss:/?word'
  use "redis://:p%40ss%3A%2F%3Fword@127.0.0.1:$port/0" "password in the URL"
  META_PASSWORD='p@ss:/?word' use_again "redis://127.0.0.1:$port/0" "password in the environment"
  if META_PASSWORD=wrong "$ZEST" status "redis://127.0.0.1:$port/0" >"$SCRATCH/out" 2>&1; then fail "a wrong password is let in"; fi
  grep -q 'META_PASSWORD' "$SCRATCH/out" || fail "a wrong password is not named: $(cat "$SCRATCH/out")"
}
use_again() {
  "$ZEST" status "$1" >"$SCRATCH/out" 2>&1 || fail "$2: $(cat "$SCRATCH/out")"
  say "$2: right"
}

case_tls() {
  local port
  port=$(free_port)
  (
    cd "$SCRATCH"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=suite-ca -keyout ca.key -out ca.pem
    for who in server client; do
      openssl req -newkey rsa:2048 -nodes -subj "/CN=$who" -keyout $who.key -out $who.csr
      openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $who.pem \
        -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1')
    done
  ) >"$SCRATCH/openssl.log" 2>&1
  ASK=(redis-cli -p "$port" --tls --cacert "$SCRATCH/ca.pem" --cert "$SCRATCH/client.pem" --key "$SCRATCH/client.key")
  serve 0 tls --tls-port "$port" --tls-cert-file "$SCRATCH/server.pem" --tls-key-file "$SCRATCH/server.key" \
    --tls-ca-cert-file "$SCRATCH/ca.pem"
  local ours="tls-cert-file=$SCRATCH/client.pem&tls-key-file=$SCRATCH/client.key"
  use "rediss://127.0.0.1:$port/0?tls-ca-cert-file=$SCRATCH/ca.pem&$ours" TLS
  use_again "rediss://127.0.0.1:$port/0?insecure-skip-verify=true&$ours" "TLS, not verified"
  if "$ZEST" status "rediss://127.0.0.1:$port/0?$ours" >"$SCRATCH/out" 2>&1; then fail "a certificate of nobody is believed"; fi
}

case_cluster() {
  local port
  port=$(free_port)
  ASK=(redis-cli -p "$port")
  serve "$port" cluster --cluster-enabled yes
  "${ASK[@]}" cluster addslotsrange 0 16383 >/dev/null
  for _ in $(seq 100); do
    "${ASK[@]}" cluster info | grep -q 'cluster_state:ok' && break
    sleep 0.1
  done
  use "redis://127.0.0.1:$port/7" cluster
  "${ASK[@]}" exists '{7}setting' | grep -q 1 || fail "the keys of a volume in a cluster do not begin with {7}"
}

case_sentinel() {
  local primary replica ports=() port n
  primary=$(free_port)
  ASK=(redis-cli -p "$primary")
  serve "$primary" primary --appendonly yes
  local first=$SERVED
  replica=$(free_port)
  ASK=(redis-cli -p "$replica")
  serve "$replica" replica --replicaof 127.0.0.1 "$primary"
  for n in 1 2 3; do
    port=$(free_port)
    ports+=("$port")
    printf 'sentinel monitor mymaster 127.0.0.1 %s 2\nsentinel down-after-milliseconds mymaster 1000\nsentinel failover-timeout mymaster 5000\n' \
      "$primary" >"$SCRATCH/sentinel-$n.conf"
    ASK=(redis-cli -p "$port")
    serve "$port" "sentinel-$n" "$SCRATCH/sentinel-$n.conf" --sentinel
  done
  # Sentinels share one port number in the URL's short form; here each has its own, so the first one must do.
  use "redis://mymaster,127.0.0.1:${ports[0]}/0" sentinel
  fs_mount
  mkdir "$MNT/load"
  redis-cli -p "$primary" wait 1 5000 >/dev/null
  (for n in $(seq 400); do echo "$n" >"$MNT/load/$n" || exit 1; done) >"$SCRATCH/load.out" 2>&1 &
  local load=$!
  sleep 0.5
  kill -KILL "$first"
  wait "$load" || fail "sentinel: an operation failed: $(tail -n 2 "$SCRATCH/load.out")"
  fs_umount
  fs_mount
  local there
  there=$(ls "$MNT/load" | wc -l)
  [ "$there" -ge 380 ] || fail "sentinel: $there of 400 files are there after the fail-over"
  fs_umount
  redis-cli -p "$replica" role | head -n 1 | grep -q master || fail "sentinel: the replica did not take over"
  say "sentinel: fail-over under load: no operation failed, $there of 400 files there (asynchronous replication may lose the last)"
}

for name in $CASES; do
  section "$name"
  "case_$name"
done
say "forms: all right"

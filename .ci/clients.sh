# Both clients of a shared volume: ours, and the original one. The latter is served in the foreground: put into the
# background it gives up when its machine is too busy to begin within ten seconds.
# Source it behind lib.sh; it is no program.

need juicefs redis-server redis-cli

# Mounts with a client (zest or juicefs) a URL at a folder; what follows goes to `mount`.
client_mount() {
  local client=$1 url=$2 point=$3
  shift 3
  mkdir -p "$point"
  case $client in
    zest)
      [[ " $* " == *" --cache-dir "* ]] || set -- "$@" --cache-dir memory
      "$ZEST" mount "$url" "$point" -d --log "$SCRATCH/zest.log" "$@"
      ;;
    juicefs)
      juicefs mount "$url" "$point" --no-usage-report --backup-meta 0 --enable-xattr --no-agent \
        --cache-dir "$SCRATCH/cache" "$@" >>"$SCRATCH/juicefs.log" 2>&1 </dev/null &
      EXTRA_PIDS+=($!)
      for _ in $(seq 600); do
        ! is_mounted "$point" || return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.1
      done
      fail "juicefs can't mount: $(tail -n 3 "$SCRATCH/juicefs.log")"
      ;;
  esac >>"$SCRATCH/mount.log" 2>&1 </dev/null || fail "$client can't mount: $(tail -n 3 "$SCRATCH/mount.log")"
}

client_umount() {
  local client=$1 point=$2 program=juicefs
  [ "$client" = juicefs ] || program=$ZEST
  "$program" umount "$point" >>"$SCRATCH/mount.log" 2>&1 || fail "$client can't unmount: $(tail -n 3 "$SCRATCH/mount.log")"
  for _ in $(seq 300); do
    # The process that served it may still be writing what it knows.
    if ! is_mounted "$point" && ! pgrep -f "mount .* $point( |\$)" >/dev/null; then return 0; fi
    sleep 0.1
  done
  fail "$point is still mounted"
}

# Copies a file or directory of a mount with its owners and times, without copying its data.
client_clone() {
  local client=$1 program=juicefs
  [ "$client" = juicefs ] || program=$ZEST
  "$program" clone -p "$2" "$3" >"$SCRATCH/clone.log" 2>&1 || fail "$client can't clone $2: $(tail -n 3 "$SCRATCH/clone.log")"
}

# Makes a volume with a client: URL, bucket, options of `format`.
client_format() {
  local client=$1 url=$2 bucket=$3 program=juicefs
  shift 3
  [ "$client" = juicefs ] || program=$ZEST
  "$program" format "$url" suite --storage file --bucket "$bucket/" "$@" >"$SCRATCH/format.log" 2>&1 ||
    fail "$client can't format: $(tail -n 3 "$SCRATCH/format.log")"
}

#!/usr/bin/env bash
# What the kernel believes of a shared volume: changes made through another mount, ours and JuiceFS's, are seen soon
# although it was told to believe for long; nothing is believed while the server is silent. Without juicefs its part is
# skipped aloud.
source "$(dirname "$0")/../lib.sh"
only_zest
need python3
ONE=$SCRATCH/one TWO=$SCRATCH/two DEAF=$SCRATCH/deaf
redis_start
URL=redis://127.0.0.1:$REDIS_PORT/1
"$ZEST" format "$URL" kernel --bucket "$SCRATCH/objects" --trash-days 0 >"$SCRATCH/format.log" 2>&1 ||
  fail "format: $(tail -n 3 "$SCRATCH/format.log")"
zest_serve "$URL" "$ONE"
zest_serve "$URL" "$TWO"

section "two mounts of ours"
python3 "$REPO/.ci/suite/kernel.py" "$ONE" "$TWO" "$REDIS_PORT" "$REDIS_PID" || fail "two mounts of ours"
python3 "$REPO/.ci/suite/kernel-opens.py" "$ONE" "$TWO" 100 || fail "what is opened"
python3 "$REPO/.ci/suite/kernel-replaced.py" "$ONE" "$TWO" 4 || fail "what is replaced"

section "a server that tells nothing"
redis-cli -p "$REDIS_PORT" acl setuser deaf on '>secret' '~*' '&*' +@all '-client|tracking' >/dev/null
zest_serve "redis://deaf:secret@127.0.0.1:$REDIS_PORT/1" "$DEAF" --attr-cache 30 --entry-cache 30
python3 "$REPO/.ci/suite/kernel-opens.py" "$DEAF" "$TWO" 100 || fail "what is opened where nothing is told"
"$ZEST" umount "$DEAF" || fail "umount"

"$ZEST" umount "$TWO" || fail "umount"

if command -v juicefs >/dev/null 2>&1; then
  section "JuiceFS changes, we show it"
  rm -rf "${ONE:?}"/*
  source "$REPO/.ci/clients.sh"
  client_mount juicefs "$URL" "$TWO" --attr-cache 0 --entry-cache 0 --dir-entry-cache 0
  python3 "$REPO/.ci/suite/kernel.py" "$ONE" "$TWO" "$REDIS_PORT" "$REDIS_PID" || fail "JuiceFS changes"
  client_umount juicefs "$TWO"
else
  say "SKIPPED: juicefs is not installed (.ci/install.sh bench)"
fi
"$ZEST" umount "$ONE" || fail "umount"
say "kernel: all right"

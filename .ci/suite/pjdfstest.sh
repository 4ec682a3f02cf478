#!/usr/bin/env bash
# POSIX, call by call: pjdfstest on a mount. Nothing may fail. Arguments choose tests by name.
source "$(dirname "$0")/../lib.sh"
need pjdfstest

# Two users nobody else uses; the suite acts as them.
for user in zest-suite-1 zest-suite-2; do
  id "$user" >/dev/null 2>&1 || useradd --no-create-home --shell /usr/sbin/nologin --user-group "$user"
done

cat >"$SCRATCH/pjdfstest.toml" <<'TOML'
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.01
allow_remount = false

[dummy_auth]
entries = [["zest-suite-1", "zest-suite-1"], ["zest-suite-2", "zest-suite-2"]]
TOML

fs_format
fs_mount
# The suite's users must get through to the mount.
chmod 755 "$SCRATCH" "$MNT"
# Links and moves to another file system must be refused, if there is another one.
second=()
[ "$(stat -c %d /dev/shm 2>/dev/null)" = "$(stat -c %d "$MNT")" ] || [ ! -w /dev/shm ] || second=(-s /dev/shm)
status=0
pjdfstest -c "$SCRATCH/pjdfstest.toml" -p "$MNT" "${second[@]}" "$@" >"$SCRATCH/out" 2>&1 || status=$?
# Colours off; a failure is printed with its reason.
sed -i 's/\x1b\[[0-9;]*m//g' "$SCRATCH/out"
grep -A 3 'FAILED$' "$SCRATCH/out" || true
if [ "${VERBOSE:-0}" = 1 ]; then grep -A 3 'skipped$' "$SCRATCH/out" || true; fi
summary=$(grep '^Summary' "$SCRATCH/out" || tail -n 3 "$SCRATCH/out")
say "pjdfstest: $summary"
fs_umount
[ "$status" -eq 0 ] || fail "pjdfstest"

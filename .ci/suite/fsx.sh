#!/usr/bin/env bash
# One file under random reads, writes, maps, truncates, holes and copies, compared with its image in memory after
# every step. OPS operations for each of SEEDS seeds and each profile; PROFILES chooses some of them.
source "$(dirname "$0")/../lib.sh"
need fsx
OPS=${OPS:-20000} SEEDS=${SEEDS:-5} FIRST_SEED=${FIRST_SEED:-1}
PROFILES=${PROFILES:-mmap nommap holes chunks}

profile() {
  case $1 in
    mmap) # The usual mix, through maps as well.
      cat <<'TOML'
flen = 1048576
[opsize]
max = 131072
[weights]
close_open = 1
invalidate = 1
fsync = 1
fdatasync = 1
truncate = 3
sendfile = 2
posix_fadvise = 1
TOML
      ;;
    nommap) # Every access is a request; files of several blocks.
      cat <<'TOML'
flen = 12582912
[opsize]
max = 524288
[weights]
mapread = 0
mapwrite = 0
close_open = 2
fsync = 1
truncate = 3
TOML
      ;;
    holes) # Holes, reservations and copies inside the file.
      cat <<'TOML'
flen = 9437184
[opsize]
max = 262144
[weights]
close_open = 1
fsync = 1
truncate = 3
posix_fallocate = 3
punch_hole = 6
copy_file_range = 6
TOML
      ;;
    chunks) # Three chunks of 64 MiB; large operations, so that many cross from one to the next.
      cat <<'TOML'
flen = 205520896
[opsize]
max = 3145728
[weights]
mapread = 3
mapwrite = 3
close_open = 1
fsync = 0.2
truncate = 2
posix_fallocate = 1
punch_hole = 4
copy_file_range = 4
TOML
      ;;
    *) fail "no fsx profile is called $1" ;;
  esac
}

fs_format
fs_mount
runs=0
for name in $PROFILES; do
  profile "$name" >"$SCRATCH/$name.toml"
  for seed in $(seq "$FIRST_SEED" $((FIRST_SEED + SEEDS - 1))); do
    start=$SECONDS
    if ! fsx -f "$SCRATCH/$name.toml" -N "$OPS" -S "$seed" -P "$SCRATCH" "$MNT/$name-$seed" >"$SCRATCH/fsx.out" 2>&1; then
      tail -n "${TAIL:-25}" "$SCRATCH/fsx.out"
      fail "fsx, profile $name, seed $seed: PROFILES=$name OPS=$OPS SEEDS=1 FIRST_SEED=$seed $0"
    fi
    rm -f "$MNT/$name-$seed"
    runs=$((runs + 1))
    say "fsx $name seed $seed: $OPS operations right in $((SECONDS - start)) s"
  done
done
fs_umount
say "fsx: $runs runs of $OPS operations, no difference"

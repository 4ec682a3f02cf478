#!/usr/bin/env bash
# Access control lists and inode flags on a mount, with the tools people use: setfacl, getfacl, chattr, lsattr. The
# expectations are what Linux does on its own file systems: FS=dir on one that has both proves the suite.
source "$(dirname "$0")/../lib.sh"
need setfacl getfacl chattr lsattr setpriv

as() { setpriv --reuid "$1" --regid "$2" --clear-groups -- "${@:3}"; }
refused() { if "$@" 2>/dev/null; then fail "this should have been refused: $*"; fi; }
is() { [ "$1" = "$2" ] || fail "$3: $1, not $2"; }
rules() { getfacl -cEn "$1" | tr '\n' ' '; }

do_rules() {
  cd "$MNT"
  chmod 755 .
  # The folders above the mount must let other users through.
  echo secret >f
  chmod 640 f
  refused as 5000 5000 cat f
  setfacl -m u:5000:r f
  is "$(as 5000 5000 cat f)" secret "a named user reads"
  refused as 5000 5000 sh -c 'echo x >>f'
  refused as 5001 5001 cat f
  setfacl -m g:6000:rw,m::r f
  is "$(rules f)" "user::rw- user:5000:r-- group::r-- group:6000:rw- mask::r-- other::---  " "rules of f"
  refused as 5001 6000 sh -c 'echo x >>f'
  is "$(stat -c %a f)" 640 "the group class of the mode is the mask"
  chmod 660 f
  as 5001 6000 sh -c 'echo more >>f'
  chmod 600 f
  refused as 5000 5000 cat f
  setfacl -b f
  is "$(rules f)" "user::rw- group::--- other::---  " "no rules left, and no more rights than the mask gave"

  mkdir d
  setfacl -d -m u:5000:rwx,g::rx,o::- d
  umask 077
  touch d/file
  mkdir d/sub
  umask 022
  is "$(rules d/file)" "user::rw- user:5000:rwx group::r-x mask::rw- other::---  " "rules of a new file, whatever the umask"
  is "$(stat -c %a d/file)" 660 "mode of a new file"
  is "$(getfacl -cEnd d/sub | tr '\n' ' ')" "user::rwx user:5000:rwx group::r-x mask::rwx other::---  " "default rules of a new directory"
  cp -a d copy
  is "$(rules copy/file)" "$(rules d/file)" "rules of a copy"
  getfacl -R . >"$SCRATCH/saved"
  setfacl -R -b .
  setfacl --restore="$SCRATCH/saved"
  getfacl -R . | cmp - "$SCRATCH/saved" || fail "rules that were saved come back"
  cd "$SCRATCH"
}

do_flags() {
  cd "$MNT"
  echo one >log
  chattr +a log
  echo two >>log
  refused sh -c 'echo three >log'
  refused rm -f log
  is "$(lsattr log | cut -d' ' -f1 | tr -d e-)" a "flags of log"
  chattr -a log
  chattr +i log
  refused sh -c 'echo three >>log'
  refused rm -f log
  refused chmod 600 log
  refused ln log other
  chattr -i log
  rm log
  mkdir fixed
  chattr +i fixed
  refused touch fixed/x
  chattr -i fixed
  rmdir fixed
  cd "$SCRATCH"
}

FORMAT_OPTIONS=(--enable-acl)
fs_format "${FORMAT_OPTIONS[@]}"
fs_mount
chmod 755 "$SCRATCH" "$MNT"
do_rules
do_flags
fs_umount
fs_mount
is "$(rules "$MNT/d/file")" "user::rw- user:5000:rwx group::r-x mask::rw- other::---  " "rules after another mount"
fs_umount
say "acl: all right"

#!/usr/bin/env bash
# Quotas, copies and the trash on Redis, by two clients: a quota that one sets is listed, enforced and counted right by
# the other, whoever filled the volume before and after; so are the first counts of users, groups and directories.
# Copies and what is restored read the same for both. Every table and status is compared with the original's.
source "$(dirname "$0")/../lib.sh"
only_zest
if ! command -v juicefs >/dev/null 2>&1; then
  say "skipped: juicefs is not installed, and this suite compares with it"
  exit 0
fi
source "$(dirname "$0")/../clients.sh"
need setpriv python3
cd "$SCRATCH"
chmod 755 .
redis_start
cli() { redis-cli -p "$REDIS_PORT" -n "$number" "$@"; }
ours() { "$ZEST" "$@" >ours 2>&1 || fail "zest $*: status $?: $(cat ours)"; }
theirs() { juicefs "$@" >theirs 2>theirs.log || fail "juicefs $*: status $?: $(tail -n 4 theirs theirs.log)"; }
refused() { # refused PROGRAM WORDS...: status 1.
  local status=0
  "$@" >answer 2>&1 || status=$?
  [ "$status" -eq 1 ] || fail "$*: status $status and not 1: $(tail -n 4 answer)"
}
as_user() { setpriv --reuid 1000 --regid 1000 --clear-groups "$@"; }

# The rows of a table, with one space between the columns; a missing limit has another name in the original's.
rows() { grep '^|' "$1" | tail -n +2 | sed -E 's/unchanged/unlimited/g; s/ +/ /g'; }
# Both list the same quotas with the same usage.
same_list() {
  ours quota list "$URL"
  theirs quota list "$URL"
  rows ours >ours.rows
  rows theirs >theirs.rows
  cmp -s ours.rows theirs.rows || fail "lists differ ($1): ours: $(cat ours.rows) theirs: $(cat theirs.rows)"
}
# Usage is right by both clients' counts, of these directories and of all owners.
both_right() {
  local dir
  for dir in "$@"; do
    ours quota check "$URL" --path "$dir"
    theirs quota check "$URL" --path "$dir"
  done
  ours quota check "$URL"
  theirs quota check "$URL" --uid 1000
}
fill() { # fill FOLDER: files, directories and links, of two owners.
  mkdir -p "$1"/a/b "$1"/empty
  for n in $(seq 9); do head -c $((n * 1500)) /dev/zero >"$1"/a/b/"$n"; done
  ln "$1"/a/b/3 "$1"/a/again
  chown 1000:1000 "$1"/a/b/[1-4] "$1"/empty
  mv "$1"/a/b/9 "$1"/empty/9
  rm "$1"/a/b/8
}
over() { # over FILE BYTES [COMMAND...]: writing so much is refused for the quota, soon.
  local file=$1 bytes=$2
  shift 2
  for _ in $(seq 60); do
    "$@" dd if=/dev/zero of="$file" bs="$bytes" count=1 conv=fsync 2>dd.log || {
      grep -qi 'quota exceeded' dd.log || fail "$file: $(cat dd.log)"
      return 0
    }
    rm -f "$file"
    sleep 0.5
  done
  fail "$file: a quota is not enforced"
}

number=0
for setter in zest juicefs; do
  other=juicefs
  program=$ZEST
  [ "$setter" = zest ] || { other=zest && program=juicefs; }
  number=$((number + 1))
  URL=redis://127.0.0.1:$REDIS_PORT/$number
  section "quotas set by $setter"
  client_format "$other" "$URL" "$SCRATCH/objects$number" --trash-days 0
  client_mount "$other" "$URL" "$SCRATCH/mnt" --heartbeat 2
  fill mnt/before
  client_umount "$other" "$SCRATCH/mnt"
  "$program" quota set "$URL" --path /before/a --capacity 1 >answer 2>&1 || fail "$setter: quota set: $(cat answer)"
  "$program" quota set "$URL" --path /new/dir --inodes 100 --create >answer 2>&1 || fail "$setter: $(cat answer)"
  "$program" quota set "$URL" --uid 1000 --capacity 1 --inodes 50 >answer 2>&1 || fail "$setter: $(cat answer)"
  "$program" quota set "$URL" --gid 1000 --inodes 40 >answer 2>&1 || fail "$setter: $(cat answer)"
  same_list "after the first count by $setter"
  both_right /before/a /new/dir
  client_mount zest "$URL" "$SCRATCH/one" --heartbeat 2
  client_mount juicefs "$URL" "$SCRATCH/two" --heartbeat 2
  fill one/new/dir/ours
  fill two/new/dir/theirs
  mv one/new/dir/theirs/a one/before/a/moved
  chown -R 1000:1000 two/before/empty
  client_umount zest "$SCRATCH/one"
  client_umount juicefs "$SCRATCH/two"
  same_list "after both have written"
  both_right /before/a /new/dir
  say "both: $(tr '\n' ' ' <ours.rows)"

  # Small limits, set while both are mounted.
  client_mount zest "$URL" "$SCRATCH/one" --heartbeat 2
  client_mount juicefs "$URL" "$SCRATCH/two" --heartbeat 2
  mkdir -m 1777 one/free
  "$program" quota set "$URL" --path /new/dir --capacity 0.001 >answer 2>&1 || fail "$setter: $(cat answer)"
  over one/new/dir/large 2000000
  over two/new/dir/large 2000000
  "$program" quota set "$URL" --uid 1000 --capacity 0.001 >answer 2>&1 || fail "$setter: $(cat answer)"
  over one/free/large 2000000 as_user
  over two/free/large 2000000 as_user
  "$program" quota delete "$URL" --uid 1000 >answer 2>&1 || fail "$setter: $(cat answer)"
  "$program" quota delete "$URL" --path /new/dir >answer 2>&1 || fail "$setter: $(cat answer)"
  client_umount zest "$SCRATCH/one"
  client_umount juicefs "$SCRATCH/two"
  same_list "after some are deleted"
  ! grep -q 'uid:1000\|/new/dir' ours.rows || fail "a deleted quota is listed: $(cat ours.rows)"
  both_right /before/a

  # What is off is told, with status 1, and put right.
  inode=$(redis-cli -p "$REDIS_PORT" -n "$number" hkeys dirQuota | head -n 1)
  cli hset dirQuotaUsedInodes "$inode" 77 >/dev/null
  cli hset userQuotaUsedSpace 1000 5 >/dev/null
  for client in "$ZEST" juicefs; do
    refused "$client" quota check "$URL" --path /before/a
    refused "$client" quota check "$URL" --uid 1000
  done
  "$program" quota check "$URL" --path /before/a --repair >answer 2>&1 || fail "$setter: $(cat answer)"
  "$program" quota check "$URL" --uid 1000 --repair >answer 2>&1 || fail "$setter: $(cat answer)"
  both_right /before/a
  refused "$ZEST" quota get "$URL" --path /nowhere
  refused "$ZEST" quota set "$URL" --uid 0 --capacity 1
  refused "$ZEST" quota get "$URL"
  "$ZEST" quota list "$URL" --json | python3 -c 'import json, sys; assert json.load(sys.stdin)[0]["Path"] == "/before/a"'
  juicefs fsck "$URL" --path / --recursive >theirs 2>&1 || fail "juicefs fsck: $(tail -n 4 theirs)"
done

section "statistics of directories, switched off and on"
refused "$ZEST" config "$URL" --dir-stats=false
ours quota delete "$URL" --path /before/a
ours config "$URL" --dir-stats=false
client_mount juicefs "$URL" "$SCRATCH/two"
fill two/uncounted
client_umount juicefs "$SCRATCH/two"
ours config "$URL" --dir-stats
juicefs fsck "$URL" --path / --recursive >theirs 2>&1 || fail "juicefs fsck: $(grep -v INFO theirs | tail -n 4)"
! grep -q 'usage stat of .* should be' theirs || fail "statistics are off: $(grep 'should be' theirs | head -n 3)"
ours config "$URL" --user-group-quota=false
client_mount juicefs "$URL" "$SCRATCH/two"
fill two/unseen
client_umount juicefs "$SCRATCH/two"
ours config "$URL" --user-group-quota
both_right

section "the first count while a client is at work"
client_mount zest "$URL" "$SCRATCH/one" --heartbeat 1
ours config "$URL" --user-group-quota=false
sleep 2.5 # two heartbeats: the mount counts no more
fill one/between
ours config "$URL" --user-group-quota
fill one/after
client_umount zest "$SCRATCH/one"
both_right

section "copies and the trash"
number=$((number + 1))
URL=redis://127.0.0.1:$REDIS_PORT/$number
client_format zest "$URL" "$SCRATCH/objects$number" --trash-days 1
client_mount zest "$URL" "$SCRATCH/one"
client_mount juicefs "$URL" "$SCRATCH/two"
fill one/tree
echo fresh >one/tree/fresh # not synced: it must be in the copy
"$ZEST" clone one/tree one/ours -p || fail "zest clone"
juicefs clone two/tree two/theirs -p >/dev/null 2>&1 || fail "juicefs clone"
"$ZEST" clone one/tree/a/b/5 one/empty.of.its.own --json | grep -q '"Inode"' || fail "zest clone of a file"
"$ZEST" clone one/tree one/ours/ || fail "zest clone into a directory"
refused "$ZEST" clone one/tree one/ours
refused "$ZEST" clone one/tree one/tree/a/below
refused "$ZEST" clone one/nowhere one/x
refused "$ZEST" clone one/tree two/x
for copy in one/ours two/ours one/theirs two/theirs one/ours/tree; do
  diff -r one/tree "$copy" >difference || { [ "$copy" != one/tree ] && grep -qv 'Only in .*/ours: tree' difference && fail "$copy: $(head -n 3 difference)"; true; }
done
(cd one/tree && find . -printf '%p %m %U %G %s %T@\n' | sort) >tree.list
(cd two/theirs && find . -printf '%p %m %U %G %s %T@\n' | sort) >theirs.list
(cd two/ours && find . -path ./tree -prune -o -printf '%p %m %U %G %s %T@\n' | sort) >ours.list
# Directories' own times differ: adding an entry changes them.
for list in ours theirs; do
  diff <(grep -v ' 4096 ' tree.list) <(grep -v ' 4096 ' $list.list) >difference || fail "$list: $(head -n 4 difference)"
done
chmod 700 one/tree/a
echo secret >one/tree/a/secret
chmod 644 one/tree/a/secret
mkdir -m 777 one/open
refused as_user "$ZEST" clone one/tree/a/secret one/open/secret
as_user "$ZEST" clone one/tree/fresh one/open/fresh || fail "a user can't copy what it can read"
[ "$(stat -c %u one/open/fresh)" = 1000 ] || fail "a copy belongs to $(stat -c %u one/open/fresh)"
[ ! -e one/late ] || fail "one/late is there"
"$ZEST" clone one/tree one/late
[ -e one/late ] || fail "the kernel does not see a copy where nothing was"

(cd one && find tree -type f -exec sha256sum {} + | sort -k 2) >before.sums
rm -r one/tree
rm -r two/theirs
hour=$(ls one/.trash)
[ -n "$hour" ] || fail "nothing in the trash"
client_umount juicefs "$SCRATCH/two"
client_umount zest "$SCRATCH/one"
for one in $hour; do
  ours restore "$URL" "$one" --put-back
  say "$(cat ours)"
done
refused "$ZEST" restore "$URL" 2001-01-01-00
refused "$ZEST" restore "$URL" nonsense
client_mount juicefs "$URL" "$SCRATCH/two"
(cd two && find tree -type f -exec sha256sum {} + | sort -k 2) >after.sums
# What had been removed before in the same hour came back, too.
diff before.sums <(grep -v 'a/b/8$' after.sums) >difference || fail "what was restored differs: $(head -n 4 difference)"
client_umount juicefs "$SCRATCH/two"
juicefs fsck "$URL" --path / --recursive >theirs 2>&1 || fail "juicefs fsck: $(tail -n 4 theirs)"
ours fsck "$URL"
say "done"

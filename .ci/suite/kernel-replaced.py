"""A file that is replaced again and again, by renaming another over it, is there for others at any moment.

Arguments: SEEN OTHER SECONDS. OTHER replaces the file, SEEN looks at it and reads it meanwhile. Its name is always
found. Whoever opens it just when it is replaced twice may be told that it is stale, as on NFS.
"""
import collections
import errno
import os
import sys
import threading
import time

seen, other, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
counts, wrong, stop = collections.Counter(), [], threading.Event()


def replace(number):
    with open(f"{other}/next", "w") as file:
        file.write(f"{number:08}")
    os.rename(f"{other}/next", f"{other}/replaced")


def look():
    last = -1
    while not stop.is_set() and not wrong:
        try:
            os.stat(f"{seen}/replaced")
            counts["found"] += 1
            with open(f"{seen}/replaced") as file:
                text = file.read()
        except OSError as error:
            counts[errno.errorcode[error.errno]] += 1
            if error.errno != errno.ESTALE:
                wrong.append(str(error))
            continue
        if len(text) != 8 or int(text) < last:
            wrong.append(f"{text!r} after {last}")
            return
        last = int(text)
        counts["read"] += 1


replace(0)
watchers = [threading.Thread(target=look) for _ in range(2)]
for watcher in watchers:
    watcher.start()
begun, number = time.monotonic(), 0
while time.monotonic() - begun < seconds and not wrong:
    number += 1
    replace(number)
stop.set()
for watcher in watchers:
    watcher.join()
assert not wrong, wrong[0]
assert number > 50 and counts["found"] > 100 and counts["read"] > 100, counts
print(f"right: replaced {number} times, found {counts['found']} times, read {counts['read']} times, {counts['ESTALE']} times stale")

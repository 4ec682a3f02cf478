"""One process that locks a file as it is told, line by line on stdin; answers on stdout, with the time it took.

open PATH | openread PATH | lock KIND [START LEN] | try KIND [START LEN] | close N | write TEXT | read | count N |
flock KIND | waitflock KIND | fork (answers the number of a child that has all descriptors and does nothing for a minute)
SIGUSR1 interrupts a wait.
"""
import errno
import fcntl
import os
import signal
import struct
import sys
import time

files = []
KINDS = {"r": fcntl.LOCK_SH, "w": fcntl.LOCK_EX, "u": fcntl.LOCK_UN}


def lock(kind, start, length, wait):
    flags = KINDS[kind] | (0 if wait or kind == "u" else fcntl.LOCK_NB)
    fcntl.lockf(files[0], flags, length, start)


def count(steps):
    """Adds one to the number in the file, under its lock, so often."""
    for _ in range(steps):
        fcntl.lockf(files[0], fcntl.LOCK_EX)
        found = os.pread(files[0], 8, 0)
        number = struct.unpack("<q", found)[0] if len(found) == 8 else 0
        os.pwrite(files[0], struct.pack("<q", number + 1), 0)
        fcntl.lockf(files[0], fcntl.LOCK_UN)


def do(words):
    what = words[0]
    if what == "open":
        files.append(os.open(words[1], os.O_RDWR | os.O_CREAT, 0o644))
    elif what == "openread":
        files.append(os.open(words[1], os.O_RDONLY))
    elif what in ("lock", "try"):
        start, length = (int(word) for word in words[2:4]) if len(words) > 2 else (0, 0)
        lock(words[1], start, length, what == "lock")
    elif what == "close":
        os.close(files.pop(int(words[1])))
    elif what == "write":
        os.pwrite(files[0], words[1].encode(), 0)
    elif what == "read":
        return os.pread(files[0], 100, 0).decode() or "-"
    elif what == "count":
        count(int(words[1]))
    elif what == "flock":
        fcntl.flock(files[0], KINDS[words[1]] | fcntl.LOCK_NB)
    elif what == "waitflock":
        fcntl.flock(files[0], KINDS[words[1]])
    elif what == "fork":
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            signal.pause()
        return str(pid)
    else:
        raise ValueError(what)
    return "done"


def interrupted(*_):
    raise InterruptedError(errno.EINTR, "called away")


signal.signal(signal.SIGUSR1, interrupted)


for line in sys.stdin:
    begun = time.monotonic()
    try:
        answer = do(line.split())
    except OSError as error:
        # This one has two names.
        answer = "EDEADLK" if error.errno == errno.EDEADLK else errno.errorcode.get(error.errno, str(error.errno))
    print(answer, round((time.monotonic() - begun) * 1000), time.monotonic(), flush=True)

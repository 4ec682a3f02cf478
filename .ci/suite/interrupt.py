#!/usr/bin/env python3
"""Waits of every kind on a mount, and how long it takes to leave them.

interrupt.py store|locks|meta MOUNT PID: PID is the process whose stopping makes the mount wait. Each wait is a child
process; it tells over a pipe that it begins, and must then still be waiting before it is called away.
"""
import errno
import fcntl
import mmap
import os
import signal
import sys
import time

KIND, MOUNT, SERVER = sys.argv[1], sys.argv[2], int(sys.argv[3])
GONE = 1.0
PATIENCE = 1.2


def stop():
    os.kill(SERVER, signal.SIGSTOP)


def go():
    os.kill(SERVER, signal.SIGCONT)


class Called(Exception):
    pass


def handler(*_):
    raise Called


def child(work):
    """Runs work in a child. Its end: 0 done, 7 called away by the handler's signal, 8 EINTR."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid:
        os.close(told)
        assert os.read(ready, 1) == b"x"
        os.close(ready)
        return pid
    status = 9
    try:
        signal.signal(signal.SIGUSR1, handler)
        os.write(told, b"x")
        work()
        status = 0
    except Called:
        status = 7
    except OSError as error:
        status = 8 if error.errno == errno.EINTR else 10
        print("child:", error, file=sys.stderr)
    finally:
        os._exit(status)


def ended(pid, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    return None


def killed(name, work, settle=0.3):
    pid = child(work)
    if ended(pid, settle) is not None:
        sys.exit(f"{name}: it did not wait at all")
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    status = ended(pid, 10)
    took = time.monotonic() - begin
    if status is None or took > GONE:
        go() if SERVER else None
        sys.exit(f"{name}: kill -9 took {took:.2f} s")
    print(f"{name}: gone {took * 1000:.0f} ms after kill -9", flush=True)


def interrupted(name, work, settle):
    pid = child(work)
    if ended(pid, settle) is not None:
        sys.exit(f"{name}: it did not wait at all")
    begin = time.monotonic()
    os.kill(pid, signal.SIGUSR1)
    status = ended(pid, 10)
    took = time.monotonic() - begin
    if status is None or os.waitstatus_to_exitcode(status) not in (7, 8) or took > GONE:
        go() if SERVER else None
        if status is None:
            os.kill(pid, signal.SIGKILL)
        sys.exit(f"{name}: a handled signal: status {status}, {took:.2f} s")
    print(f"{name}: interrupted {took * 1000:.0f} ms after a signal", flush=True)


def path(name):
    return os.path.join(MOUNT, name)


def open_(name, flags=os.O_RDWR | os.O_CREAT):
    return os.open(path(name), flags, 0o644)


def direct_read(name):
    def work():
        fd = os.open(path(name), os.O_RDONLY | os.O_DIRECT)
        os.preadv(fd, [mmap.mmap(-1, 1 << 16)], 0)

    return work


def cold(name, size=8 << 20):
    """A file whose bytes are in the store only."""
    fd = open_(name)
    os.write(fd, os.urandom(1 << 16) * (size >> 16))
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def fill(fd):
    data = b"y" * (1 << 20)
    while True:
        os.write(fd, data)


def content():
    fd = open_("after")
    os.write(fd, b"good")
    os.fsync(fd)
    assert os.pread(fd, 9, 0) == b"good"
    os.close(fd)
    os.unlink(path("after"))


def store():
    for name in ("a", "b", "c", "d"):
        cold(name)
    before = open(path("a"), "rb").read(1 << 16)
    stop()
    killed("direct read", direct_read("b"))
    killed("buffered read", lambda: open(path("c"), "rb").read(1 << 16))
    interrupted("direct read", direct_read("d"), PATIENCE)
    fd = open_("full")
    os.write(fd, b"begun")
    killed("fsync", lambda: os.fsync(fd))
    killed("truncate after a write", lambda: os.ftruncate(fd, 1))
    killed("write without memory", lambda: fill(fd), settle=3.0)
    interrupted("write without memory", lambda: fill(fd), PATIENCE)
    killed("lseek for data", lambda: os.lseek(fd, 0, os.SEEK_DATA))
    killed("syncing", lambda: os.fsync(fd))
    go()
    os.fsync(fd)
    os.close(fd)
    assert open(path("a"), "rb").read(1 << 16) == before
    for name in ("a", "b", "c", "d"):
        assert len(open(path(name), "rb").read()) == 8 << 20, name
    content()


def locks():
    fd = open_("locked")
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.lockf(fd, fcntl.LOCK_EX, 10, 0)

    def whole():
        fcntl.flock(open_("locked"), fcntl.LOCK_EX)

    def ranges():
        fcntl.lockf(open_("locked"), fcntl.LOCK_EX, 1, 5)

    def apart():
        other = open_("locked")
        fcntl.lockf(other, fcntl.LOCK_EX, 5, 20)
        os.close(other)

    killed("flock", whole)
    killed("lockf", ranges)
    interrupted("flock", whole, 0.3)
    interrupted("lockf", ranges, 0.3)
    # Kinds don't meet: neither lock is in the way of the other kind.
    fcntl.lockf(fd, fcntl.LOCK_UN)
    assert ended(child(apart), 5) == 0
    # Nobody who was called away has left a lock behind.
    fcntl.flock(fd, fcntl.LOCK_UN)
    assert ended(child(ranges), 5) == 0
    assert ended(child(whole), 5) == 0
    # A lock of the whole file goes with the last descriptor of its opening.
    holder = open_("locked")
    fcntl.flock(holder, fcntl.LOCK_EX)
    os.close(holder)
    assert ended(child(whole), 5) == 0
    content()


def meta():
    os.mkdir(path("dir"))
    cold("a", 1 << 16)
    fd = open_("a")
    stop()
    killed("create", lambda: open_("new"))
    killed("mkdir", lambda: os.mkdir(path("dir/x")))
    killed("rename", lambda: os.rename(path("a"), path("b")))
    # What a server told is believed for two seconds of its silence.
    time.sleep(2.5)
    killed("stat", lambda: os.stat(path("dir/nothing")))
    killed("readdir", lambda: os.listdir(path("dir")))
    os.write(fd, b"dirty")
    killed("fsync", lambda: os.fsync(fd))

    def leaves_dirty():
        mine = open_("a", os.O_RDWR)
        os.write(mine, b"more")
        time.sleep(100)

    go()
    time.sleep(1)
    pid = child(leaves_dirty)
    assert ended(pid, 1.0) is None
    stop()
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    if ended(pid, 10) is None or time.monotonic() - begin > GONE:
        go()
        sys.exit("a killed process with unwritten data: not gone in time")
    print(f"a killed process with unwritten data: gone {(time.monotonic() - begin) * 1000:.0f} ms after kill -9")
    go()
    os.close(fd)
    content()


{"store": store, "locks": locks, "meta": meta}[KIND]()

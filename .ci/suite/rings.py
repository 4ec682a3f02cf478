"""Crowds at a mount: `rings.py crowd POINT SERVER N` makes N threads wait for one lock, all on one processor and all at
once, while the server is stopped; then everybody must get it, and others must be served meanwhile. `rings.py held POINT
N` makes N threads wait for a lock that nobody gives back, says so, and tells how their waits end.
"""
import errno
import fcntl
import os
import signal
import sys
import threading
import time

PATIENCE = 60.0
# A thousand threads need no megabytes of stack.
threading.stack_size(256 << 10)


def fail(what):
    print(f"WRONG: {what}", flush=True)
    os._exit(1)


def start(count, work):
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def until(what, done):
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            fail(f"{what}: not after {PATIENCE:.0f} s")
        time.sleep(0.01)


def in_kernel():
    """Threads of this process that wait for the mount, as /proc shows them."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/wchan") as file:
            count += file.read() in ("request_wait_answer", "__fuse_request_send", "__fuse_simple_request")
    return count


def crowd(point, server, count):
    os.sched_setaffinity(0, {0})
    path = os.path.join(point, "crowd")
    holder = os.open(path, os.O_CREAT | os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    files = [os.open(path, os.O_RDWR) for _ in range(count)]
    got, go = [], threading.Event()

    def waiter(number):
        go.wait()
        fcntl.flock(files[number], fcntl.LOCK_EX)
        got.append(number)
        fcntl.flock(files[number], fcntl.LOCK_UN)

    threads = start(count, waiter)
    os.kill(server, signal.SIGSTOP)
    try:
        go.set()
        until("all waiters are in the kernel", lambda: in_kernel() >= count)
    finally:
        os.kill(server, signal.SIGCONT)
    begun = time.monotonic()
    # On the same processor, behind all those who wait.
    for number in range(20):
        with open(os.path.join(point, f"other-{number}"), "wb") as file:
            file.write(b"x" * 70_000)
    if got:
        fail("a lock was given to two")
    print(f"right: others are served {time.monotonic() - begun:.2f} s behind {count} who wait")
    begun = time.monotonic()
    fcntl.flock(holder, fcntl.LOCK_UN)
    for thread in threads:
        thread.join(PATIENCE)
    if sorted(got) != list(range(count)):
        fail(f"{len(got)} of {count} got the lock")
    print(f"right: {count} waiters of one processor got a lock one after the other in {time.monotonic() - begun:.2f} s")


def held(point, count):
    path = os.path.join(point, "held")
    holder = os.open(path, os.O_CREAT | os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    files = [os.open(path, os.O_RDWR) for _ in range(count)]
    ends = []

    def waiter(number):
        try:
            fcntl.flock(files[number], fcntl.LOCK_EX)
            ends.append("granted")
        except OSError as error:
            ends.append(errno.errorcode.get(error.errno, error.errno))

    threads = start(count, waiter)
    until("all waiters are in the kernel", lambda: in_kernel() >= count)
    print("waiting", flush=True)
    for thread in threads:
        thread.join(PATIENCE)
    if len(ends) != count:
        fail(f"{len(ends)} of {count} waits ended")
    print(f"right: {count} waits ended: {', '.join(sorted(set(map(str, ends))))}", flush=True)
    os._exit(0)


if sys.argv[1] == "crowd":
    crowd(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    held(sys.argv[2], int(sys.argv[3]))

"""Plays with locks through our own door. Arguments: FIRST SECOND STEPS; two mounts of a volume, or twice the same one.
With STEPS 0 only what needs no waiting: the second mount may be another client's then.

Both kinds of locks, `flock` and `fcntl`, must mean the same everywhere: each actor is a process of its own (locks.py).
Ends with status 1 at the first surprise.
"""
import os
import signal
import sys
import time

from actors import Actor, right, waiting

first, second, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
# How late a waiter may be, in seconds, on a busy machine; how soon who is killed must be gone.
LATE, GONE = 2.0, 1.0
# What takes, tries and gives back a lock of each kind.
KINDS = {
    "fcntl": ("lock {}", "try {}", "try u"),
    "flock": ("waitflock {}", "flock {}", "flock u"),
}
serial = 0


def name(what):
    global serial
    serial += 1
    return f"{what}-{serial}-{first == second}"


def pair(what):
    """A file and an actor on each mount."""
    path = name(what)
    return Actor(f"{first}/{path}"), Actor(f"{second}/{path}"), path


def end(*actors):
    for actor in actors:
        actor.end()


def gets(actor, begun):
    """The lock that an actor waits for, soon after the moment it became free."""
    got = actor.answer()
    took = time.monotonic() - begun
    if got != "done" or took > LATE:
        raise SystemExit(f"FAILED: a waiter: {got} after {took:.2f} s")


def exclusion(kind, lock, attempt, unlock):
    one, two, _ = pair("exclusive")
    for a, b in ((one, two), (two, one)):
        a.ask(attempt.format("w"), "done")
        b.ask(attempt.format("w"), "EAGAIN")
        b.ask(attempt.format("r"), "EAGAIN")
        a.ask(unlock, "done")
        a.ask(attempt.format("r"), "done")
        b.ask(attempt.format("r"), "done")
        a.ask(attempt.format("w"), "EAGAIN")
        b.ask(unlock, "done")
        a.ask(attempt.format("w"), "done")
        b.ask(attempt.format("r"), "EAGAIN")
        a.ask(unlock, "done")
    end(one, two)
    right(f"{kind}: exclusive, shared, upgrade")


def upgrade_waits(kind, lock, attempt, unlock):
    one, two, _ = pair("upgrade")
    one.ask(attempt.format("r"), "done")
    two.ask(attempt.format("r"), "done")
    waiting(one, lock.format("w"))
    begun = time.monotonic()
    two.ask(unlock, "done")
    gets(one, begun)
    two.ask(attempt.format("r"), "EAGAIN")
    end(one, two)
    right(f"{kind}: an upgrade waits for the other reader")


def closing(kind, lock, attempt, unlock):
    one, two, path = pair("close")
    one.open(f"{first}/{path}", "openread")
    one.ask(attempt.format("w"), "done")
    one.ask("close 1", "done")
    # Locks of fcntl go with any descriptor, those of flock with their own.
    two.ask(attempt.format("w"), "done" if kind == "fcntl" else "EAGAIN")
    two.ask(unlock, "done")
    one.ask(attempt.format("w"), "done")
    waiting(two, lock.format("w"))
    begun = time.monotonic()
    one.ask("close 0", "done")
    gets(two, begun)
    end(one, two)
    right(f"{kind}: what closing a descriptor gives back")


def forking(kind, lock, attempt, unlock):
    one, two, _ = pair("fork")
    one.ask(attempt.format("w"), "done")
    one.say("fork")
    child = int(one.answer())
    waiting(two, lock.format("w"))
    begun = time.monotonic()
    one.end()
    if kind == "flock":
        # The child has the same opening of the file, and with it the lock.
        time.sleep(0.5)
        two.process.send_signal(signal.SIGUSR1)
        if two.answer() != "EINTR":
            raise SystemExit("FAILED: flock: a lock went with one of those who share it")
        waiting(two, lock.format("w"))
        begun = time.monotonic()
    os.kill(child, signal.SIGKILL)
    gets(two, begun)
    end(two)
    right(f"{kind}: what a fork inherits")


def deaths(kind, lock, attempt, unlock):
    one, two, path = pair("death")
    third = Actor(f"{second}/{path}")
    one.ask(attempt.format("w"), "done")
    waiting(two, lock.format("w"))
    two.process.send_signal(signal.SIGUSR1)
    begun = time.monotonic()
    if two.answer() != "EINTR" or time.monotonic() - begun > GONE:
        raise SystemExit(f"FAILED: {kind}: a signal does not end the wait")
    waiting(two, lock.format("w"))
    waiting(third, lock.format("r"))
    begun = time.monotonic()
    two.end()
    took = time.monotonic() - begun
    if took > GONE:
        raise SystemExit(f"FAILED: {kind}: a waiter was gone {took:.2f} s after kill -9")
    begun = time.monotonic()
    one.end()
    gets(third, begun)
    fourth = Actor(f"{first}/{path}")
    fourth.ask(attempt.format("r"), "done")
    fourth.ask(attempt.format("w"), "EAGAIN")
    third.ask(unlock, "done")
    fourth.ask(attempt.format("w"), "done")
    end(third, fourth)
    right(f"{kind}: EINTR, kill -9 of a waiter ({took * 1000:.0f} ms) and of a holder")


def crowd(kind, lock, attempt, unlock):
    one, two, path = pair("crowd")
    one.ask(attempt.format("w"), "done")
    actors = [Actor(f"{place}/{path}") for place in (first, second) * 8]
    for actor in actors:
        actor.say(lock.format("w"))
    time.sleep(0.5)
    begun = time.monotonic()
    one.ask(unlock, "done")
    for actor in actors:
        actor.say(unlock)
    for actor in actors:
        if actor.answer() != "done" or actor.answer() != "done":
            raise SystemExit(f"FAILED: {kind}: a waiter of many")
    right(f"{kind}: {len(actors)} waiters one after the other, {(time.monotonic() - begun) * 1000:.0f} ms")
    end(one, two, *actors)


def deadlock():
    path = name("deadlock")
    one, two = Actor(f"{first}/{path}"), Actor(f"{first}/{path}")
    one.ask("try w 0 1", "done")
    two.ask("try w 1 1", "done")
    waiting(one, "lock w 1 1")
    two.ask("lock w 0 1", "EDEADLK")
    begun = time.monotonic()
    two.ask("try u 1 1", "done")
    gets(one, begun)
    end(one, two)
    right("fcntl: whoever would wait for himself is told so (EDEADLK)")


def apart():
    one, two, _ = pair("apart")
    one.ask("try w", "done")
    two.ask("flock w", "done")
    one.ask("flock w", "EAGAIN")
    two.ask("try w", "EAGAIN")
    end(one, two)
    right("flock and fcntl do not meet")


def counter():
    path = name("counter")
    actors = [Actor(f"{place}/{path}") for place in (first, first, second, second)]
    begun = time.monotonic()
    for actor in actors:
        actor.say(f"count {steps}")
    for actor in actors:
        if actor.answer() != "done":
            raise SystemExit("FAILED: the counter")
    took = time.monotonic() - begun
    with open(f"{first}/{path}", "rb") as file:
        found = int.from_bytes(file.read(8), "little")
    if found != 4 * steps:
        raise SystemExit(f"FAILED: the counter shows {found} and not {4 * steps}")
    right(f"a counter under 4 x {steps} steps; {took:.1f} s, {4 * steps / took:.0f} steps a second")
    end(*actors)


for case in (exclusion, upgrade_waits, closing, forking, deaths, crowd) if steps else (exclusion,):
    for kind, words in KINDS.items():
        case(kind, *words)
apart()
if steps:
    deadlock()
    counter()

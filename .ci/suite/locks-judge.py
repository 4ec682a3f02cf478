"""Plays with locks on two mounts of one volume. Arguments: FIRST SECOND STEPS [the name of the second client].

Each actor is a process of its own (locks.py) on one of the mounts. Ends with status 1 at the first surprise.
"""
import signal
import sys
import time

from actors import Actor, right, waiting

first, second, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = sys.argv[4] if len(sys.argv) > 4 else "zest"
# How late a waiter may be, in milliseconds, on a busy machine.
LATE = 500
serial = 0


def pair(name):
    """A file and an actor on each mount."""
    global serial
    serial += 1
    name = f"{name}-{serial}"
    one = Actor(f"{first}/{name}")
    return one, Actor(f"{second}/{name}"), name


def exclusion():
    for a, b in ((0, 1), (1, 0)):
        one, two, _ = pair("exclusive")
        sides = (one, two)
        sides[a].ask("try w", "done")
        sides[b].ask("try w", "EAGAIN")
        sides[b].ask("try r", "EAGAIN")
        sides[a].ask("try u", "done")
        sides[b].ask("try w", "done")
        sides[a].ask("try w", "EAGAIN")
        one.end(), two.end()
        one, two, _ = pair("shared")
        sides = (one, two)
        sides[a].ask("try r", "done")
        sides[b].ask("try r", "done")
        sides[a].ask("try w", "EAGAIN")
        sides[b].ask("try u", "done")
        sides[a].ask("try w", "done")
        sides[b].ask("try r", "EAGAIN")
        one.end(), two.end()
        one, two, _ = pair("ranges")
        sides = (one, two)
        sides[a].ask("try w 0 10", "done")
        sides[b].ask("try w 10 10", "done")
        sides[b].ask("try w 9 1", "EAGAIN")
        sides[a].ask("try w 0 0", "EAGAIN")
        one.end(), two.end()
    right("exclusive, shared, upgrade and ranges, from both sides")


def closing():
    for a, b in ((0, 1), (1, 0)):
        one, two, name = pair("close")
        sides, places = (one, two), (first, second)
        sides[a].open(f"{places[a]}/{name}", "openread")
        sides[a].ask("try w", "done")
        sides[b].ask("try w", "EAGAIN")
        if client == "zest" or a == 0:
            sides[a].ask("close 1", "done")
            sides[b].ask("try w", "done")
            sides[b].ask("try u", "done")
            sides[a].ask("try w", "done")
        waiting(sides[b], "lock w")
        sides[a].end()
        begun = time.monotonic()
        assert sides[b].answer() == "done"
        assert (time.monotonic() - begun) * 1000 < LATE, "a killed holder's lock stayed"
        one.end(), two.end()
    right("closing another descriptor drops a lock, and so does death")


def waking():
    one, two, _ = pair("wake")
    late = []
    for holder, other in ((one, two), (two, one)) * 5:
        holder.ask("try w", "done")
        waiting(other, "lock w")
        holder.ask("try u", "done")
        given = holder.at
        assert other.answer() == "done"
        late.append((other is two, (other.at - given) * 1000))
        other.ask("try u", "done")
    mine = sorted(time for at_second, time in late if client == "zest" or not at_second)
    assert mine[-1] < LATE, late
    right(f"a waiter is awake {mine[len(mine) // 2]:.1f} ms after the unlock elsewhere (median), {mine[-1]:.1f} at most")
    one.end(), two.end()


def content():
    one, two, _ = pair("content")
    for number in range(20):
        for writer, reader in ((one, two), (two, one)):
            text = f"{'one' if writer is one else 'two'}-{number:03}"
            writer.ask("lock w", "done")
            writer.ask(f"write {text}", "done")
            writer.ask("try u", "done")
            reader.ask("lock r", "done")
            reader.ask("read", text)
            reader.ask("try u", "done")
    right("who gets the lock sees what was written under it")
    one.end(), two.end()


def killing():
    for place in (first, second) if client == "zest" else (first,):
        one, two, name = pair("kill")
        (two if place == first else one).ask("try w", "done")
        for how in (signal.SIGTERM, signal.SIGKILL):
            third = Actor(f"{place}/{name}")
            waiting(third, "lock w")
            begun = time.monotonic()
            third.end(how)
            assert time.monotonic() - begun < 3, "a waiter can't be killed"
        one.end(), two.end()
    right("who waits can be killed")


def crowd():
    one, two, name = pair("crowd")
    one.ask("try w", "done")
    actors = [Actor(f"{place}/{name}") for place in (first, second) * 10]
    for actor in actors:
        actor.say("lock w")
    time.sleep(0.5)
    begun = time.monotonic()
    one.ask("try u", "done")
    for actor in actors:
        actor.say("try u")
    for actor in actors:
        assert actor.answer() == "done" and actor.answer() == "done"
    right(f"{len(actors)} waiters got the lock one after the other in {(time.monotonic() - begun) * 1000:.0f} ms")
    for actor in [one, two] + actors:
        actor.end()


def deadlock():
    for place in (first,) if client != "zest" else (first, second):
        name = f"deadlock-{place == first}"
        one, two = Actor(f"{place}/{name}"), Actor(f"{place}/{name}")
        one.ask("try w 0 1", "done")
        two.ask("try w 1 1", "done")
        waiting(one, "lock w 1 1")
        two.ask("lock w 0 1", "EDEADLK")
        two.ask("try u 1 1", "done")
        assert one.answer() == "done"
        one.end(), two.end()
    right("whoever would wait for himself is told so (EDEADLK)")


def flocks():
    one, two, _ = pair("flock")
    one.ask("flock w", "done")
    two.ask("flock w", "done")
    right("flock stays inside a mount")
    one.end(), two.end()


def counter():
    name = "counter"
    places = [first, first, second, second]
    actors = [Actor(f"{place}/{name}") for place in places]
    begun = time.monotonic()
    for actor in actors:
        actor.say(f"count {steps}")
    for actor in actors:
        assert actor.answer() == "done"
    took = time.monotonic() - begun
    with open(f"{first}/{name}", "rb") as file:
        found = int.from_bytes(file.read(8), "little")
    assert found == 4 * steps, f"{found} and not {4 * steps}"
    right(f"a counter under 4 × {steps} steps is right; {took:.1f} s, {4 * steps / took:.0f} steps a second")
    for actor in actors:
        actor.end()
    return took


exclusion()
closing()
waking()
crowd()
killing()
if client == "zest":
    content()
    deadlock()
    flocks()
    counter()

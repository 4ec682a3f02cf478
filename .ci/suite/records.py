#!/usr/bin/env python3
"""Records of a volume in Redis, in words that two clients must agree on.

`records.py make DIR` does one fixed sequence of operations; `records.py dump PORT DB` prints every key and value but
times, sessions, ids of slices and counters of jobs.
"""
import os
import socket
import sys


class Redis:
    """Just enough of the protocol to read everything."""

    def __init__(self, port, db):
        self.file = socket.create_connection(("127.0.0.1", port)).makefile("rwb")
        self.ask("SELECT", str(db))

    def ask(self, *words):
        words = [word.encode() if isinstance(word, str) else word for word in words]
        self.file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        self.file.flush()
        return self.answer()

    def answer(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            if rest == b"-1":
                return None
            data = self.file.read(int(rest) + 2)
            return data[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest


def attr(value):
    """An attribute record without its times."""
    return value[:11].hex() + " (times) " + value[47:].hex()


def slice_record(value, ids):
    """A slice record whose id is replaced by how many others were met before."""
    number = value[4:12]
    if any(number):
        number = ids.setdefault(number, b"slice %d" % len(ids))
    return value[:4].hex(), number, value[12:].hex()


def dump(port, db):
    redis, ids = Redis(port, db), {}
    for key in sorted(redis.ask("KEYS", "*")):
        name = key.decode()
        if name.startswith(("session", "allSessions", "locked", "lastCleanup", "next", "setting")):
            continue
        kind = redis.ask("TYPE", key)
        if kind == b"string":
            value = redis.ask("GET", key)
            shown = attr(value) if name[0] == "i" else repr(value)
        elif kind == b"hash":
            flat = redis.ask("HGETALL", key)
            shown = sorted((repr(f), repr(v)) for f, v in zip(flat[::2], flat[1::2]))
        elif kind == b"list":
            shown = [slice_record(value, ids) for value in redis.ask("LRANGE", key, "0", "-1")]
        elif kind == b"set":
            shown = sorted(redis.ask("SMEMBERS", key))
        else:
            shown = sorted(redis.ask("ZRANGE", key, "0", "-1"))
        print(name, kind.decode(), shown)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def make(root):
    j = lambda *parts: os.path.join(root, *parts)
    os.makedirs(j("d", "e"))
    write(j("small"), b"abc")
    write(j("blocks"), b"x" * 9_000_000)
    write(j("d", "empty"), b"")
    os.symlink("target", j("link"))
    os.mkfifo(j("fifo"))
    os.mknod(j("null"), 0o020600, os.makedev(1, 3))
    os.link(j("small"), j("d", "second"))
    os.chmod(j("small"), 0o4755)
    os.chown(j("d", "empty"), 12, 34)
    os.setxattr(j("small"), "user.a", b"\0value")
    os.rename(j("d", "empty"), j("moved"))
    os.rename(j("d", "e"), j("e"))
    write(j("gone"), b"gone")
    os.unlink(j("gone"))
    os.unlink(j("d", "second"))
    os.mkdir(j("nothing"))
    os.rmdir(j("nothing"))
    os.truncate(j("blocks"), 5_000_000)
    os.truncate(j("blocks"), 70_000_000)
    write(j("over"), b"1")
    write(j("it"), b"2")
    os.rename(j("it"), j("over"))
    os.utime(j("small"), (1, 2))


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    dump(int(sys.argv[2]), int(sys.argv[3]))

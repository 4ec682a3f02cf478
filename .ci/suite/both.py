#!/usr/bin/env python3
"""Two mounts of one volume under random operations, each checked against a model of the tree, at the other mount.

`both.py ONE TWO SECONDS SEED`: every operation is made through one of the mounts, chosen at random, and its outcome
compared with the model's; what it changed is then looked at through the other one, and the tree as a whole now and
then. A file counts as seen when it was opened anew (close-to-open). Both are to be mounted with kernel times of 0.
Ends with status 1 and the last operations on a difference.
"""
import errno
import os
import random
import sys
import time


class Model:
    """Directories are dicts, files are bytearrays in a box that all their names share."""

    def __init__(self):
        self.root = {}

    def walk(self, path):
        node = self.root
        for part in path:
            if not isinstance(node, dict) or part not in node:
                return None
            node = node[part]
        return node


class File:
    def __init__(self):
        self.data = bytearray()


def outcome(action):
    try:
        action()
        return 0
    except OSError as error:
        return error.errno


class Run:
    def __init__(self, mounts, seed):
        self.mounts, self.rng, self.model, self.log = mounts, random.Random(seed), Model(), []
        self.held = []

    def path(self, side, parts):
        return os.path.join(self.mounts[side], *parts) if parts else self.mounts[side]

    def pick(self):
        """A place that may or may not be there."""
        rng, parts, node = self.rng, [], self.model.root
        while isinstance(node, dict):
            name = rng.choice([f"n{rng.randrange(12)}"] + list(node)) if node else f"n{rng.randrange(12)}"
            parts.append(name)
            node = node.get(name)
            if len(parts) >= 4 or rng.random() < 0.4:
                break
        return parts

    def fail(self, text):
        print("\n".join(self.log[-25:]))
        sys.exit(f"both: {text}")

    def expect(self, what, got, wanted):
        self.log.append(f"{what} -> {errno.errorcode.get(got, got)}")
        if got != wanted:
            self.fail(f"{what}: {errno.errorcode.get(got, 'done')}, expected {errno.errorcode.get(wanted, 'done')}")

    def step(self):
        side, parts = self.rng.randrange(2), self.pick()
        parent, node = self.model.walk(parts[:-1]), self.model.walk(parts)
        path, name = self.path(side, parts), f"[{side}] {'/'.join(parts)}"
        missing = errno.ENOTDIR if isinstance(parent, File) else errno.ENOENT
        what = self.rng.choice(["create", "write", "write", "read", "read", "mkdir", "unlink", "rmdir", "rename",
                                "link", "truncate", "hold"])
        getattr(self, what)(side, parts, parent, node, path, name, missing)

    def create(self, side, parts, parent, node, path, name, missing):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        got = outcome(lambda: os.close(os.open(path, flags, 0o644)))
        wanted = missing if not isinstance(parent, dict) else errno.EEXIST if node is not None else 0
        self.expect(f"create {name}", got, wanted)
        if not wanted:
            parent[parts[-1]] = File()

    def write(self, side, parts, parent, node, path, name, missing):
        if not isinstance(node, File):
            return
        offset, data = self.rng.randrange(0, 200_000), self.rng.randbytes(self.rng.randrange(1, 60_000))

        def action():
            fd = os.open(path, os.O_WRONLY)
            try:
                os.pwrite(fd, data, offset)
            finally:
                os.close(fd)

        self.expect(f"write {name} {offset}+{len(data)}", outcome(action), 0)
        if len(node.data) < offset:
            node.data.extend(bytes(offset - len(node.data)))
        node.data[offset:offset + len(data)] = data
        self.same_content(1 - side, parts, node)

    def same_content(self, side, parts, node):
        with open(self.path(side, parts), "rb") as file:
            found = file.read()
        if found != node.data:
            at = next((i for i, (a, b) in enumerate(zip(found, node.data)) if a != b), min(len(found), len(node.data)))
            self.fail(f"[{side}] {'/'.join(parts)} has {len(found)} bytes, expected {len(node.data)}, differs at {at}")

    def read(self, side, parts, parent, node, path, name, missing):
        if isinstance(node, File):
            self.log.append(f"read {name}")
            self.same_content(side, parts, node)

    def mkdir(self, side, parts, parent, node, path, name, missing):
        wanted = missing if not isinstance(parent, dict) else errno.EEXIST if node is not None else 0
        self.expect(f"mkdir {name}", outcome(lambda: os.mkdir(path)), wanted)
        if not wanted:
            parent[parts[-1]] = {}

    def unlink(self, side, parts, parent, node, path, name, missing):
        if isinstance(node, File):
            self.expect(f"unlink {name}", outcome(lambda: os.unlink(path)), 0)
            del parent[parts[-1]]

    def rmdir(self, side, parts, parent, node, path, name, missing):
        if isinstance(node, dict):
            wanted = errno.ENOTEMPTY if node else 0
            self.expect(f"rmdir {name}", outcome(lambda: os.rmdir(path)), wanted)
            if not wanted:
                del parent[parts[-1]]

    def rename(self, side, parts, parent, node, path, name, missing):
        to = self.pick()
        target_parent, target = self.model.walk(to[:-1]), self.model.walk(to)
        if node is None or not isinstance(target_parent, dict) or to[:len(parts)] == parts or parts[:len(to)] == to:
            return
        if node is target:
            return
        wanted = 0
        if isinstance(node, dict) and isinstance(target, File):
            wanted = errno.ENOTDIR
        elif isinstance(node, File) and isinstance(target, dict):
            wanted = errno.EISDIR
        elif isinstance(target, dict) and target:
            wanted = errno.ENOTEMPTY
        got = outcome(lambda: os.rename(path, self.path(side, to)))
        if got == errno.ESTALE:
            # The kernel knows a directory under the name it had before the other side moved it, and can't correct
            # that in the middle of a rename.
            outcome(lambda: os.lstat(path))
            outcome(lambda: os.lstat(self.path(side, to)))
            got = outcome(lambda: os.rename(path, self.path(side, to)))
        self.expect(f"rename {name} {'/'.join(to)}", got, wanted)
        if not wanted:
            del parent[parts[-1]]
            target_parent[to[-1]] = node

    def link(self, side, parts, parent, node, path, name, missing):
        to = self.pick()
        target_parent, target = self.model.walk(to[:-1]), self.model.walk(to)
        if not isinstance(node, File) or not isinstance(target_parent, dict):
            return
        wanted = errno.EEXIST if target is not None else 0
        self.expect(f"link {name} {'/'.join(to)}", outcome(lambda: os.link(path, self.path(side, to))), wanted)
        if not wanted:
            target_parent[to[-1]] = node

    def truncate(self, side, parts, parent, node, path, name, missing):
        if not isinstance(node, File):
            return
        length = self.rng.randrange(0, 250_000)
        self.expect(f"truncate {name} {length}", outcome(lambda: os.truncate(path, length)), 0)
        node.data = node.data[:length] + bytes(max(0, length - len(node.data)))
        self.same_content(1 - side, parts, node)

    def hold(self, side, parts, parent, node, path, name, missing):
        """A file that is open here goes on being readable when it is removed here."""
        if not isinstance(node, File):
            return
        self.log.append(f"hold {name}")
        fd = os.open(path, os.O_RDONLY)
        try:
            os.unlink(path)
            del parent[parts[-1]]
            found = os.pread(fd, len(node.data) + 1, 0)
            if found != node.data:
                self.fail(f"{name}, open and removed, has {len(found)} bytes, expected {len(node.data)}")
        finally:
            os.close(fd)

    def whole(self):
        for side in range(2):
            self.compare(side, [], self.model.root)

    def compare(self, side, parts, node):
        names = sorted(os.listdir(self.path(side, parts)))
        if names != sorted(node):
            self.fail(f"[{side}] /{'/'.join(parts)} lists {names}, expected {sorted(node)}")
        for name, child in node.items():
            info = os.lstat(self.path(side, parts + [name]))
            if isinstance(child, dict):
                self.compare(side, parts + [name], child)
            elif info.st_size != len(child.data):
                self.fail(f"[{side}] /{'/'.join(parts + [name])} has {info.st_size} bytes, expected {len(child.data)}")
            else:
                self.same_content(side, parts + [name], child)


def main():
    one, two, seconds, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    run, begun, steps = Run([one, two], seed), time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        for _ in range(150):
            run.step()
            steps += 1
            # What one side changed has been told to the other one by then.
            time.sleep(0.003)
        run.whole()
    print(f"both: {steps} operations from both sides in {int(time.monotonic() - begun)} s, no difference")


main()

#!/usr/bin/env python3
"""A tree with everything a volume can hold, and a canonical listing of a tree.

`sample.py make DIR SEED [big]` fills a directory: all types of files, hard links, long and non-UTF-8 names, sparse
files, overwrites, truncates, holes, attributes, and access control lists where the mount has them.
`sample.py change DIR SEED` changes what another client made, and copied: appends, overwrites, renames, removes.
`sample.py list DIR` prints one line for each entry: everything that must be the same for every client. Directories'
times are left out: one of the clients writes them only every 100 ms.
"""
import ctypes
import hashlib
import os
import random
import stat
import sys

ACL = b"\x02\0\0\0" + b"".join(
    tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + who.to_bytes(4, "little")
    for tag, perm, who in [
        (1, 7, 0xFFFFFFFF), (2, 6, 1000), (2, 5, 1001), (4, 5, 0xFFFFFFFF), (8, 4, 2000), (0x10, 7, 0xFFFFFFFF),
        (0x20, 4, 0xFFFFFFFF)])


def noise(rng, length):
    """Bytes of which some repeat, so that compression has something to do."""
    block = rng.randbytes(min(length, 65536))
    return (block * (length // max(len(block), 1) + 1))[:length]


def write(path, data, at=0):
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        while data:
            done = os.pwrite(fd, data, at)
            data, at = data[done:], at + done
    finally:
        os.close(fd)


def holes(path):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_RDWR)
    for offset, size in ((4096, 8192), (100_000, 333), (1 << 20, 1 << 19)):
        if libc.fallocate(fd, 3, ctypes.c_long(offset), ctypes.c_long(size)) != 0:
            raise OSError(ctypes.get_errno(), "fallocate", path)
    os.close(fd)


def acls(root):
    """Access control lists, where the mount has them; tells whether it has."""
    path = os.path.join(root, b"acl")
    try:
        os.mkdir(path)
        os.setxattr(path, b"system.posix_acl_default", ACL)
    except OSError:
        return False
    write(os.path.join(path, b"inherits"), b"x")
    os.mkdir(os.path.join(path, b"sub"))
    os.setxattr(os.path.join(path, b"inherits"), b"system.posix_acl_access", ACL)
    os.chmod(os.path.join(path, b"inherits"), 0o640)
    return True


def make(root, seed, big):
    rng = random.Random(seed)
    j = lambda *parts: os.path.join(root, *parts)
    for size in (0, 1, 4095, 4096, 4097, 65536, 1_000_003):
        write(j(b"size-%d" % size), noise(rng, size))
    if big:
        write(j(b"blocks"), noise(rng, 9_000_001))
        write(j(b"chunks"), b"begin")
        write(j(b"chunks"), noise(rng, 300_000), (64 << 20) - 100_000)
        write(j(b"sparse"), b"end", (300 << 20) + 17)
    os.makedirs(j(b"d", b"e", b"f"))
    os.chmod(j(b"d"), 0o1777)
    os.mkdir(j(b"setgid"))
    os.chown(j(b"setgid"), 12, 34)
    os.chmod(j(b"setgid"), 0o2775)
    write(j(b"setgid", b"inherits"), b"group")
    for name in (b"n" * 255, b"\xff\xfe not utf-8", "ünïcode ☃".encode(), b" blank ", b"new\nline", b"%41", b"-rf"):
        write(j(b"d", name), name)
    for name in range(300):
        write(j(b"d", b"e", b"%04d" % name), b"%d" % name)
    write(j(b"linked"), b"several names")
    os.link(j(b"linked"), j(b"d", b"linked-too"))
    os.link(j(b"linked"), j(b"d", b"e", b"linked-three"))
    os.symlink(b"target", j(b"symlink"))
    os.symlink(b"/" + b"x" * 2000, j(b"long-symlink"))
    os.symlink(b"\xff\xfe", j(b"odd-symlink"))
    os.mkfifo(j(b"fifo"))
    os.mknod(j(b"socket"), stat.S_IFSOCK | 0o644)
    os.mknod(j(b"char"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.mknod(j(b"block"), stat.S_IFBLK | 0o600, os.makedev(7, 0))
    write(j(b"overwritten"), noise(rng, 3_000_000))
    for _ in range(20):
        write(j(b"overwritten"), rng.randbytes(rng.randrange(1, 90_000)), rng.randrange(0, 3_000_000))
    write(j(b"cut"), noise(rng, 2_000_000))
    os.truncate(j(b"cut"), 700_001)
    os.truncate(j(b"cut"), 1_500_000)
    write(j(b"punched"), noise(rng, 2_000_000))
    holes(j(b"punched"))
    write(j(b"modes"), b"")
    os.chown(j(b"modes"), 4242, 4343)
    os.chmod(j(b"modes"), 0o6755)
    os.utime(j(b"modes"), ns=(1_234_567_890_123_456_789, 987_654_321_987_654_321))
    for name, value in ((b"user.empty", b""), (b"user.bytes", bytes(range(256))), (b"user.long", b"v" * 3000)):
        os.setxattr(j(b"modes"), name, value)
    os.setxattr(j(b"d"), b"user.dir", b"1")
    write(j(b"gone"), b"soon")
    os.unlink(j(b"gone"))
    write(j(b"moved"), b"moves")
    os.rename(j(b"moved"), j(b"d", b"e", b"moved"))
    write(j(b"replaced"), b"old")
    write(j(b"replaces"), b"new")
    os.rename(j(b"replaces"), j(b"replaced"))
    os.mkdir(j(b"empty"))
    acls(root)


def change(root, seed):
    rng = random.Random(seed)
    j = lambda *parts: os.path.join(root, *parts)
    with open(j(b"size-4097"), "ab") as file:
        file.write(rng.randbytes(5000))
    write(j(b"overwritten"), rng.randbytes(100_000), 1_234_567)
    os.truncate(j(b"size-1000003"), 500_000)
    os.truncate(j(b"size-65536"), 9_000_000)
    os.rename(j(b"d", b"e", b"0001"), j(b"empty", b"0001"))
    os.rename(j(b"d", b"e", b"0002"), j(b"d", b"e", b"0003"))
    os.unlink(j(b"d", b"linked-too"))
    os.unlink(j(b"d", b"e", b"0004"))
    os.link(j(b"linked"), j(b"empty", b"linked-again"))
    os.removexattr(j(b"modes"), b"user.long")
    os.setxattr(j(b"modes"), b"user.new", b"n")
    os.chmod(j(b"d"), 0o755)
    os.rename(j(b"setgid"), j(b"empty", b"setgid"))
    write(j(b"empty", b"fresh"), rng.randbytes(70_000))
    # Copies share their data with the originals, and neither may see what happens to the other.
    if os.path.exists(j(b"copied")):
        write(j(b"copied"), rng.randbytes(50_000), 700_000)
        os.truncate(j(b"copied"), 2_500_000)
        write(j(b"copy", b"e", b"0010"), b"another")
        write(j(b"d", b"e", b"0011"), b"another")
        os.unlink(j(b"copy", b"e", b"0012"))
        os.unlink(j(b"d", b"e", b"0013"))


def line(root, path):
    info = os.lstat(path)
    parts = [repr(os.path.relpath(path, root)), oct(info.st_mode), info.st_uid, info.st_gid, info.st_nlink]
    if stat.S_ISREG(info.st_mode):
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        parts += [info.st_size, info.st_mtime_ns, digest.hexdigest()]
    elif stat.S_ISLNK(info.st_mode):
        parts += [repr(os.readlink(path)), info.st_mtime_ns]
    elif not stat.S_ISDIR(info.st_mode):
        parts += [info.st_rdev, info.st_mtime_ns]
    if not stat.S_ISLNK(info.st_mode):
        for name in sorted(os.listxattr(path)):
            parts.append(f"{name}={os.getxattr(path, name).hex()}")
        for name in ("system.posix_acl_access", "system.posix_acl_default"):
            try:
                parts.append(f"{name}={os.getxattr(path, name).hex()}")
            except OSError:
                pass
    return " ".join(str(part) for part in parts)


def listing(root):
    lines = []
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            lines.append(line(root, os.path.join(folder, name)))
    return sorted(lines)


def main():
    what, root = sys.argv[1], os.fsencode(sys.argv[2])
    if what == "make":
        make(root, int(sys.argv[3]), "big" in sys.argv[4:])
    elif what == "change":
        change(root, int(sys.argv[3]))
    elif what == "list":
        print("\n".join(listing(root)))
    else:
        sys.exit(f"sample.py knows make, change and list, not {what}")


main()

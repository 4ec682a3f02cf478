#!/usr/bin/env python3
"""What was done to a fresh mount while `session.rec` was recorded, one call after the other:

    zest format V v --trash-days 0 && zest mount --door dev --record session.rec V M & session.py M
"""
import fcntl
import os
import sys
import time

os.chdir(sys.argv[1])


def tried(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except OSError as error:
        return error.errno


os.mkdir("dir", 0o750)
tried(os.mkdir, "dir")
tried(os.rmdir, "nothing")
tried(os.stat, "nothing")
tried(os.mkdir, "x" * 300)
fd = os.open("dir/file", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
os.write(fd, bytes(range(256)) * 40)
os.pwrite(fd, b"far", 70_000)
os.fsync(fd)
os.fdatasync(fd)
os.pread(fd, 5000, 100)
os.lseek(fd, 0, os.SEEK_HOLE)
tried(os.lseek, fd, 1 << 20, os.SEEK_DATA)
os.posix_fallocate(fd, 0, 100_000)
os.ftruncate(fd, 60_000)
fcntl.flock(fd, fcntl.LOCK_EX)
fcntl.lockf(fd, fcntl.LOCK_EX, 10, 5)
other = os.open("dir/copy", os.O_RDWR | os.O_CREAT, 0o600)
os.copy_file_range(fd, other, 20_000, 0, 0)
os.close(other)
os.close(fd)
for name in range(40):
    os.close(os.open(f"dir/entry-{name:03}", os.O_WRONLY | os.O_CREAT, 0o644))
os.listdir("dir")
[entry.stat() for entry in os.scandir("dir")]
tried(os.setxattr, "dir/file", "user.colour", b"red")
tried(os.setxattr, "dir/file", "user.colour", b"blue", os.XATTR_CREATE)
tried(os.getxattr, "dir/file", "user.colour")
tried(os.getxattr, "dir/file", "user.none")
tried(os.getxattr, "dir/file", "system.posix_acl_access")
tried(os.listxattr, "dir/file")
tried(os.removexattr, "dir/file", "user.colour")
os.symlink("file", "dir/link")
os.readlink("dir/link")
os.link("dir/file", "dir/second")
os.rename("dir/second", "moved")
os.rename("moved", "dir/copy")
tried(os.rename, "dir", "dir/copy/under")
os.mkfifo("pipe")
tried(os.mknod, "device", 0o020_600, os.makedev(7, 9))
os.chmod("dir/file", 0o604)
os.chown("dir/file", 1000, 1001)
os.utime("dir/file", ns=(1_000_000_000, 1_234_567_891_000_000_002))
os.truncate("dir/file", 10)
fd = os.open("dir/file", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"new")
os.close(fd)
fd = os.open("dir/file", os.O_RDONLY | getattr(os, "O_DIRECT", 0))
os.close(fd)
fcntl_flags = bytearray(8)
fd = os.open("dir/file", os.O_RDONLY)
tried(fcntl.ioctl, fd, 0x8008_6601, fcntl_flags)
tried(fcntl.ioctl, fd, 0x1234_5678, fcntl_flags)
os.close(fd)
os.statvfs(".")
tried(os.open, ".", os.O_TMPFILE | os.O_RDWR)
fd = os.open("dir", os.O_RDONLY)
os.fsync(fd)
os.close(fd)
fd = os.open("dir/copy", os.O_RDONLY)
os.unlink("dir/copy")
os.fstat(fd)
os.read(fd, 100)
os.close(fd)
for name in os.listdir("dir"):
    os.unlink(os.path.join("dir", name))
os.rmdir("dir")
os.unlink("pipe")
tried(os.unlink, "device")
time.sleep(0.5)

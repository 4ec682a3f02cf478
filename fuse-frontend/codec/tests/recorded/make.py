#!/usr/bin/env python3
"""Does on a mount what makes the kernel send every request it can, each with little content. To record them:

zest mount --door dev --record FILE redis://… MOUNT, then make.py MOUNT, then zest umount MOUNT. Run as root.
"""
import array
import ctypes
import fcntl
import mmap
import os
import signal
import stat
import subprocess
import sys
import time

os.chdir(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)


def refused(work):
    try:
        work()
    except OSError:
        return
    sys.exit("something was not refused")


def names():
    os.mkdir("dir", 0o750)
    os.mknod("dir/pipe", stat.S_IFIFO | 0o600)
    os.mknod("dir/device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.symlink("../somewhere", "dir/link")
    assert os.readlink("dir/link") == "../somewhere"
    open("file", "w").close()
    os.link("file", "dir/other name \xff")
    os.rename("file", "renamed")
    open("exchange", "w").close()
    # RENAME_EXCHANGE and RENAME_NOREPLACE.
    assert libc.renameat2(-100, b"exchange", -100, b"renamed", 2) == 0
    assert libc.renameat2(-100, b"exchange", -100, b"renamed", 1) == -1
    refused(lambda: os.stat("nobody"))
    refused(lambda: os.rmdir("dir"))
    os.listdir("dir")
    for entry in os.scandir("dir"):
        entry.stat(follow_symlinks=False)
    dir_fd = os.open("dir", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(dir_fd)
    libc.syncfs(dir_fd)
    os.close(dir_fd)
    os.unlink("exchange")
    os.mkdir("gone")
    os.rmdir("gone")


def attributes():
    os.chmod("renamed", 0o640)
    os.chown("renamed", 12, 34)
    os.utime("renamed", ns=(1_000_000_007, 2_000_000_009))
    os.utime("renamed")
    os.truncate("renamed", 10)
    os.setxattr("renamed", "user.short", b"value")
    os.setxattr("renamed", "user.empty", b"", os.XATTR_CREATE)
    assert os.getxattr("renamed", "user.short") == b"value"
    os.listxattr("renamed")
    os.removexattr("renamed", "user.empty")
    refused(lambda: os.getxattr("renamed", "user.nobody"))
    os.statvfs(".")
    # The time of birth.
    subprocess.run(["stat", "--format", "%W", "renamed"], check=True, stdout=subprocess.DEVNULL)
    os.access("renamed", os.R_OK)
    fd = os.open("renamed", os.O_RDONLY)
    flags = array.array("l", [0])
    fcntl.ioctl(fd, 0x80086601, flags)
    fcntl.ioctl(fd, 0x40086602, flags)
    refused(lambda: fcntl.ioctl(fd, 0x1234))
    os.close(fd)


def content():
    fd = os.open("content", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, b"some bytes\n")
    os.pwrite(fd, b"more", 5000)
    os.fsync(fd)
    os.fdatasync(fd)
    assert os.pread(fd, 4, 5000) == b"more"
    os.posix_fallocate(fd, 0, 6000)
    # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE.
    libc.fallocate(fd, 3, ctypes.c_long(100), ctypes.c_long(50))
    os.lseek(fd, 0, os.SEEK_DATA)
    os.lseek(fd, 0, os.SEEK_HOLE)
    other = os.open("copy", os.O_RDWR | os.O_CREAT, 0o644)
    os.copy_file_range(fd, other, 20, 0, 3)
    os.ftruncate(other, 5)
    os.close(other)
    os.close(os.open("copy", os.O_WRONLY | os.O_TRUNC))
    mapped = mmap.mmap(fd, 4096)
    mapped[0:4] = b"SOME"
    mapped.flush()
    mapped.close()
    os.close(fd)
    direct = os.open("content", os.O_RDONLY | os.O_DIRECT)
    os.preadv(direct, [mmap.mmap(-1, 4096)], 0)
    os.close(direct)
    fd = os.open("content", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"end")
    os.close(fd)
    # O_TMPFILE: refused, and asked for all the same.
    refused(lambda: os.close(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)))


def somebody():
    """What a user who is not root does to a file with set-user bits."""
    open("bits", "w").close()
    os.chmod("bits", 0o6777)
    pid = os.fork()
    if pid == 0:
        os.setgid(65534)
        os.setuid(65534)
        fd = os.open("bits", os.O_WRONLY)
        os.write(fd, b"x")
        os.ftruncate(fd, 0)
        os.close(fd)
        os._exit(0)
    os.waitpid(pid, 0)


def locks():
    fd = os.open("content", os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX, 10, 5)
    fcntl.flock(fd, fcntl.LOCK_EX)
    pid = os.fork()
    if pid == 0:
        signal.alarm(1)
        other = os.open("content", os.O_RDWR)
        fcntl.fcntl(other, fcntl.F_GETLK, b"\1\0\0\0\0\0\0\0" + bytes(24))
        refused(lambda: fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB))
        # Until the alarm ends this process.
        fcntl.lockf(other, fcntl.LOCK_EX)
        os._exit(1)
    os.waitpid(pid, 0)
    fcntl.flock(fd, fcntl.LOCK_UN)
    fcntl.lockf(fd, fcntl.LOCK_UN)
    os.close(fd)


for part in (names, attributes, content, somebody, locks):
    part()
# The kernel lets go of what it knows.
with open("/proc/sys/vm/drop_caches", "w") as file:
    file.write("2")
time.sleep(0.2)

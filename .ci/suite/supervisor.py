"""Programs on a mount whose serving process is killed under them, again and again. Arguments: MOUNT SUPERVISOR ROUNDS.
What they have open, locked, mapped and listed must go on, no call may fail
but those that say that an unflushed write is lost, and everything must be there within two seconds.
"""
import errno
import fcntl
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import time

mount, supervisor, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# How soon a request is answered after the process was killed, in seconds.
SOON = 2.0
ENTRIES = 4000
BLOCK = 256 << 10


def fail(what):
    print(f"FAILED: {what}", flush=True)
    os._exit(1)


def check(right, what):
    if not right:
        fail(what)


def worker():
    with open(f"/proc/{supervisor}/task/{supervisor}/children") as file:
        children = file.read().split()
    return int(children[0]) if children else None


def kill(twice):
    """Kills the serving process, and `twice` the next one, too, while that begins; comes back with the time a request
    took that nobody had asked before."""
    pid = worker()
    while pid is None:
        time.sleep(0.01)
        pid = worker()
    begun = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    if twice:
        time.sleep(0.002 + random.random() * 0.04)
        next_one = worker()
        if next_one not in (pid, None):
            os.kill(next_one, signal.SIGKILL)
    check(not os.path.exists(f"{mount}/nobody-{begun}"), "a name nobody made")
    took = time.monotonic() - begun
    check(took < SOON, f"a request took {took:.2f} s after the kill")
    check(worker() not in (pid, None), "the one that was killed serves")
    return took


def content(seed):
    return bytes((seed * 131 + n * 7) % 251 for n in range(4096)) * (BLOCK // 4096)


def make(name, seed):
    """A file that is synced, and a descriptor for it."""
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.pwrite(fd, content(seed), 0)
    os.fsync(fd)
    return fd


def drop_pages(fd):
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def other(text):
    """What another process says."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30)
    return done.stdout.strip() + done.stderr.strip()


LOCKER = "import fcntl, os\nfd = os.open({!r}, os.O_RDWR)\n"


class Locks:
    """A file on which both kinds of locks are held, in turns by number, and somebody who waits for one."""

    def __init__(self, serial):
        self.path = f"{mount}/locked-{serial}"
        self.fd = make(self.path, serial)
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 100, 0)
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        waits = LOCKER.format(self.path) + "fcntl.lockf(fd, fcntl.LOCK_EX, 10, 0)\nprint('got it')\n"
        self.waiter = subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE, text=True)
        time.sleep(0.2)
        check(self.waiter.poll() is None, "a lock does not hold")

    def check(self):
        tries = LOCKER.format(self.path)
        for attempt in ("fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 50)", "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)"):
            said = other(f"{tries}try:\n  {attempt}\nexcept BlockingIOError: print('held')")
            check(said == "held", f"{attempt} after the kill: {said or 'got it'}")
        check(self.waiter.poll() is None, "the waiter got a lock that is held")
        fcntl.lockf(self.fd, fcntl.LOCK_UN, 100, 0)
        check(self.waiter.communicate(timeout=10)[0].strip() == "got it", "the waiter gets nothing")
        # Closing gives the other one back.
        os.close(self.fd)
        said = other(f"{tries}fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint('got it')")
        check(said == "got it", f"a lock stays after its file was closed: {said}")
        os.unlink(self.path)


class Names(threading.Thread):
    """Changes names without a pause, with requests under way whenever the process is killed."""

    def __init__(self, serial):
        super().__init__(daemon=True)
        self.here, self.stop, self.done, self.lost = f"{mount}/names-{serial}", False, 0, 0
        os.mkdir(self.here)

    def write(self, path):
        while True:
            fd = os.open(path, os.O_WRONLY)
            try:
                os.pwrite(fd, path.encode(), 0)
                os.fsync(fd)
            except OSError as error:
                check(error.errno == errno.EIO, f"a write to {path}: {error}")
                self.lost += 1
                continue
            finally:
                try:
                    os.close(fd)
                except OSError as error:
                    check(error.errno == errno.EIO, f"closing {path}: {error}")
            return

    def once(self, n):
        one, two, three = (f"{self.here}/{n}{letter}" for letter in "abc")
        os.mkdir(one)
        os.close(os.open(f"{one}/file", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        self.write(f"{one}/file")
        os.link(f"{one}/file", two)
        os.symlink(two, three)
        os.rename(f"{one}/file", f"{one}/moved")
        with open(three, "rb") as file:
            check(file.read() == f"{one}/file".encode(), f"{two} is not what was synced")
        os.setxattr(two, "user.n", b"1", os.XATTR_CREATE)
        os.removexattr(two, "user.n")
        for path in (f"{one}/moved", two, three):
            os.unlink(path)
        os.rmdir(one)

    def run(self):
        try:
            while not self.stop:
                self.once(self.done)
                self.done += 1
        except OSError as error:
            fail(f"{self.here}, {self.done}: {error!r}")

    def end(self):
        self.stop = True
        self.join(60)
        check(not self.is_alive(), "a call of another thread never came back")
        check(os.listdir(self.here) == [], f"names are left: {os.listdir(self.here)}")
        os.rmdir(self.here)


def listing(path):
    """A listing in whose middle the process is killed."""
    with os.scandir(path) as entries:
        seen = [next(entries).name for _ in range(20)]
        yield
        seen += [entry.name for entry in entries]
    check(sorted(seen) == sorted(f"entry-{n}" for n in range(ENTRIES)), "a listing lost or doubled entries")


def one_round(serial, inside, bound):
    synced = make(f"{mount}/synced-{serial}", serial)
    mapped_fd = make(f"{inside}/mapped-{serial}", serial + 1)
    mapped = mmap.mmap(mapped_fd, BLOCK, mmap.MAP_SHARED, mmap.PROT_READ)
    writes_fd = make(f"{inside}/writes-{serial}", serial)
    writes = mmap.mmap(writes_fd, BLOCK, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    gone, goes = make(f"{inside}/gone", serial + 2), make(f"{inside}/goes", serial + 3)
    os.unlink(f"{inside}/gone")
    locks, names = Locks(serial), Names(serial)
    middle = listing(f"{mount}/many")
    next(middle)
    names.start()
    time.sleep(0.3 + (serial % 7) * 0.03)
    unsynced = make(f"{mount}/unsynced-{serial}", serial)
    os.pwrite(unsynced, b"not synced", 10)
    writes[5000:5010] = b"in the map"
    os.rename(f"{mount}/synced-{serial}", f"{mount}/renamed-{serial}")

    took = kill(serial % 3 == 1)

    drop_pages(mapped_fd)
    check(mapped[:] == content(serial + 1), "a map shows something else")
    writes[9000:9010] = b"after that"
    writes.flush()
    os.fsync(writes_fd)
    drop_pages(writes_fd)
    check((writes[5000:5010], writes[9000:9010]) == (b"in the map", b"after that"), "what was written to a map")
    check(os.pread(gone, BLOCK, 0) == content(serial + 2), "a file that was removed while it was open")
    os.unlink("goes")
    for _ in range(2):
        drop_pages(goes)
        check(os.pread(goes, BLOCK, 0) == content(serial + 3), "a file that was removed after the kill")
    os.pwrite(goes, b"goes on", 0)
    os.fsync(goes)
    drop_pages(synced)
    check(os.pread(synced, BLOCK, 0) == content(serial), "what was synced")
    os.pwrite(synced, b"written after", 1000)
    os.fsync(synced)
    check(os.path.exists(f"{mount}/renamed-{serial}"), "a rename that was acknowledged")
    with open(f"{bound}/mapped-{serial}", "rb") as file:
        check(file.read() == content(serial + 1), "through a bind mount")
    check(os.getcwd() == inside and os.path.exists(f"mapped-{serial}"), "the working directory")
    for _ in middle:
        pass
    told = False
    try:
        os.fsync(unsynced)
    except OSError as error:
        check(error.errno == errno.EIO, f"fsync after a lost write: {error}")
        told = True
    drop_pages(unsynced)
    there = os.pread(unsynced, 10, 10) == b"not synced"
    check(told or there, "a write is lost, and fsync said that it was synced")
    check(os.pread(unsynced, 10, 0) == content(serial)[:10], "what was synced before is lost")
    os.pwrite(unsynced, b"once more", 10)
    os.fsync(unsynced)
    locks.check()
    names.end()
    mapped.close()
    writes.close()
    for fd in (synced, mapped_fd, writes_fd, gone, goes, unsynced):
        os.close(fd)
    check(os.stat(f"{mount}/renamed-{serial}").st_size == BLOCK, "the length of a file")
    for path in (f"{mount}/renamed-{serial}", f"{mount}/unsynced-{serial}", f"{inside}/mapped-{serial}", f"{inside}/writes-{serial}"):
        os.unlink(path)
    return took, names.done, names.lost, told


def main():
    inside, bound = f"{mount}/inside", f"{mount}.bound"
    for path in (inside, bound, f"{mount}/many"):
        os.mkdir(path)
    for n in range(ENTRIES):
        os.close(os.open(f"{mount}/many/entry-{n}", os.O_CREAT | os.O_WRONLY))
    subprocess.run(["mount", "--bind", inside, bound], check=True)
    os.chdir(inside)
    times, changed, lost, told = [], 0, 0, 0
    try:
        for serial in range(rounds):
            one = one_round(serial, inside, bound)
            times.append(one[0])
            changed, lost, told = changed + one[1], lost + one[2], told + one[3]
    finally:
        os.chdir("/")
        subprocess.run(["umount", "-l", bound], check=False)
        os.rmdir(bound)
    times.sort()
    print(
        f"right: {rounds} rounds, each third with two kills; answered after {times[len(times) // 2] * 1000:.0f} ms (median), "
        f"{times[-1] * 1000:.0f} ms at most; {changed} rounds of names beside, {lost + told} lost writes told"
    )


main()

"""What one mount shows of changes made through another, while its kernel may believe what it was told for long.

Arguments: SEEN OTHER PORT. SEEN is the mount that is looked at, OTHER the one that changes, PORT its Redis. Ends with
status 1 at the first thing that is not seen in time.
"""
import mmap
import os
import signal
import subprocess
import sys
import time

seen, other, port, server = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
# Far below the time for which the kernel was told to believe, and room for a busy machine.
SOON = 2.0
late = []


def soon(what, look):
    """It must come true soon."""
    begun = time.monotonic()
    while True:
        if look():
            late.append(time.monotonic() - begun)
            return
        if time.monotonic() - begun > SOON:
            raise SystemExit(f"FAILED: {what}: not seen after {SOON} s")
        time.sleep(0.002)


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def exists(path):
    try:
        os.stat(path)
        return True
    except FileNotFoundError:
        return False


def names(round):
    here, there = f"{seen}/names-{round}", f"{other}/names-{round}"
    os.mkdir(there)
    soon("a new directory", lambda: exists(here))
    assert not exists(f"{here}/a")
    put(f"{there}/a", "a")
    soon("a name that did not exist", lambda: exists(f"{here}/a"))
    os.rename(f"{there}/a", f"{there}/b")
    soon("a rename, the new name", lambda: exists(f"{here}/b"))
    soon("a rename, the old name", lambda: not exists(f"{here}/a"))
    os.mkdir(f"{there}/deep")
    put(f"{there}/deep/x", "x")
    soon("a name below", lambda: exists(f"{here}/deep/x"))
    os.rename(f"{there}/deep", f"{there}/moved")
    soon("a directory that went", lambda: not exists(f"{here}/deep/x"))
    soon("a directory that came", lambda: exists(f"{here}/moved/x"))
    os.unlink(f"{there}/b")
    soon("a removal", lambda: not exists(f"{here}/b"))
    sorted(os.listdir(here))
    put(f"{there}/late", "")
    soon("a listing", lambda: "late" in os.listdir(here))


def attributes(round):
    here, there = f"{seen}/attr-{round}", f"{other}/attr-{round}"
    put(here, "1")
    for mode in (0o600, 0o640, 0o644):
        os.chmod(there, mode)
        soon("a mode", lambda: os.stat(here).st_mode & 0o777 == mode)
    os.utime(there, (5, 7))
    soon("a time", lambda: os.stat(here).st_mtime == 7)
    os.truncate(there, 1000)
    soon("a length", lambda: os.stat(here).st_size == 1000)
    os.link(there, there + "-too")
    soon("a count of links", lambda: os.stat(here).st_nlink == 2)


def content(round):
    here, there = f"{seen}/content-{round}", f"{other}/content-{round}"
    put(here, "a" * 8192)
    file = os.open(here, os.O_RDONLY)
    assert os.pread(file, 1, 5000) == b"a"
    shown = mmap.mmap(file, 8192, prot=mmap.PROT_READ)
    assert shown[5000:5001] == b"a"
    for letter in "bcd":
        with open(there, "r+") as changed:
            changed.write(letter * 8192)
        soon("content through an open file", lambda: os.pread(file, 1, 5000) == letter.encode())
        soon("content through a map", lambda: shown[5000:5001] == letter.encode())
    shown.close()
    os.close(file)


def home(round):
    """Who works in a directory does not lose it when others change its parent."""
    os.makedirs(f"{seen}/home-{round}/mine")
    script = "import os,sys\nfor line in sys.stdin: print(os.getcwd(), flush=True)"
    worker = subprocess.Popen(
        [sys.executable, "-c", script], cwd=f"{seen}/home-{round}/mine", text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1,
    )
    for number in range(5):
        put(f"{other}/home-{round}/{number}", "")
        soon("a name beside", lambda: exists(f"{seen}/home-{round}/{number}"))
        worker.stdin.write("\n")
        where = worker.stdout.readline().strip()
        assert where == f"{seen}/home-{round}/mine", where
    worker.stdin.close()
    worker.wait(10)


def silence():
    """What nobody vouches for is not believed: with a server that does not answer nobody is told anything."""
    path = f"{seen}/silence"
    put(path, "")
    os.stat(path)
    os.kill(server, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        while True:
            child = subprocess.Popen(["stat", "-c", "%a", path], stdout=subprocess.DEVNULL)
            try:
                child.wait(1.0)
            except subprocess.TimeoutExpired:
                break
            if time.monotonic() - begun > 6:
                raise SystemExit("FAILED: the kernel believes what it was told while the server is silent")
            time.sleep(0.1)
        silent = time.monotonic() - begun - 1.0
    finally:
        os.kill(server, signal.SIGCONT)
    child.wait(20)
    print(f"right: {silent:.1f} s after the server's last word nothing is believed", flush=True)


def cut():
    """Connections that end, with a change right behind."""
    for number in range(3):
        here, there = f"{seen}/cut-{number}", f"{other}/cut-{number}"
        put(here, "")
        os.stat(here)
        subprocess.run(["redis-cli", "-p", port, "client", "kill", "type", "normal"], stdout=subprocess.DEVNULL, check=True)
        os.chmod(there, 0o600)
        soon("a change behind a lost connection", lambda: os.stat(here).st_mode & 0o777 == 0o600)


def alone():
    """The kernel answers by itself: nobody asks the server."""
    def asked():
        text = subprocess.run(["redis-cli", "-p", port, "info", "commandstats"], capture_output=True, text=True).stdout
        words = [line for line in text.splitlines() if line.startswith("cmdstat_")]
        asks = [line for line in words if line.split(":")[0] in ("cmdstat_get", "cmdstat_mget", "cmdstat_hget", "cmdstat_evalsha")]
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in asks)

    path = f"{seen}/alone"
    put(path, "")
    os.stat(path)
    before, begun = asked(), time.monotonic()
    for _ in range(20):
        for _ in range(1000):
            os.stat(path)
        time.sleep(0.15)
    spent, count = time.monotonic() - begun - 3, asked() - before
    assert count < 100, f"{count} questions for 20,000 answers"
    print(f"right: 20,000 times stat in {spent:.2f} s, over more than a second, with {count} questions", flush=True)


for round in range(3):
    names(round)
    attributes(round)
    content(round)
    home(round)
cut()
alone()
silence()
late.sort()
print(
    f"right: {len(late)} changes were seen, after {late[len(late) // 2] * 1000:.1f} ms (median), "
    f"{late[-1] * 1000:.0f} ms at most",
    flush=True,
)

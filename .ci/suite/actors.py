"""Processes that lock files as they are told, each one a locks.py, for the judges of locks."""
import os
import signal
import subprocess
import sys
import time


class Actor:
    def __init__(self, path):
        here = os.path.dirname(os.path.abspath(__file__))
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(here, "locks.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        self.open(path)

    def open(self, path, how="open"):
        self.ask(f"{how} {path}", "done")

    def say(self, line):
        self.process.stdin.write(line + "\n")

    def answer(self):
        words = self.process.stdout.readline().split()
        if not words:
            raise SystemExit("an actor died")
        self.took, self.at = int(words[1]), float(words[2])
        return words[0]

    def ask(self, line, want):
        self.say(line)
        got = self.answer()
        if got != want:
            raise SystemExit(f"FAILED: {line}: {got} and not {want}")

    def end(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(10)


def waiting(actor, line):
    """Begins what must wait."""
    actor.say(line)
    time.sleep(0.3)


def right(text):
    print(f"right: {text}", flush=True)

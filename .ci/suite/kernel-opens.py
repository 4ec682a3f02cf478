"""Whoever opens a file reads what others wrote and closed before, whatever his kernel believes of its length and time.

Arguments: SEEN OTHER ROUNDS. OTHER changes a file, SEEN has just looked at it and opens it then.
"""
import os
import sys

seen, other, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
here, there = f"{seen}/opened", f"{other}/opened"
right = b""
with open(there, "wb"):
    pass
for number in range(rounds):
    known = os.stat(here).st_size
    with open(here, "rb") as file:
        file.read()
    # In turn it grows, has another content of the same length, and shrinks.
    line = b"%06d\n" % number
    right = (right + line, right[:-7] + line, right + line, right + line, right[: len(right) // 2])[number % 5]
    with open(there, "r+b") as file:
        file.write(right)
        file.truncate(len(right))
    with open(here, "rb") as file:
        found = file.read()
    assert found == right, f"round {number}: {len(found)} bytes {found[-20:]}, not {len(right)} {right[-20:]}; it had been {known}"
print(f"right: {rounds} times what was opened was what was closed")

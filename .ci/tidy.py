#!/usr/bin/env python3
"""House rules a machine can check: who may depend on whom, how a file opens, how long files and functions are,
nothing unfinished, no path of one machine, every link in the papers leads somewhere.

Prints what is wrong, one line each, and ends with status 1 if anything is.
"""
import json
import os
import re
import subprocess
import sys

# Who may use whom. `docs/ARCHITECTURE.md` says why. An edge that is not here does not exist.
BASE = {"zest-types", "zest-world"}
EDGES = {
    "zest-types": set(),
    "zest-world": {"zest-types"},
    "zest-metadata": BASE,
    "zest-data": BASE,
    "zest-cache": BASE | {"zest-data"},
    "zest-uploader": BASE | {"zest-data"},
    "zest-engines": BASE | {"zest-metadata"},
    "zest-vfs": BASE | {"zest-metadata", "zest-data", "zest-cache", "zest-uploader"},
    "zest-upkeep": BASE | {"zest-metadata", "zest-data", "zest-vfs"},
    "zest-host": BASE,
    "zest-codec": {"zest-types"},
}
ALL_DECIDING = {"zest-metadata", "zest-engines", "zest-data", "zest-cache", "zest-uploader", "zest-vfs", "zest-upkeep"}
EDGES["zest"] = BASE | ALL_DECIDING | {"zest-host", "zest-codec"}
EDGES["zest-sim"] = BASE | ALL_DECIDING | {"zest-codec"}
EDGES["zest-scenarios"] = EDGES["zest-sim"] | {"zest-sim"}
EDGES["zest-fuzz"] = EDGES["zest-scenarios"]

# Tests of a crate may also use these.
TEST_EDGES = {"zest-vfs": {"zest-engines"}, "zest-upkeep": {"zest-engines"}}

FILE_LINES, FUNCTION_LINES, SHORT_FILE = 800, 70, 150

problems = []


def wrong(where, what):
    problems.append(f"{where}: {what}")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def tracked(*patterns):
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns)
    return [name for name in listed.split("\0") if name and os.path.exists(name)]


def check_edges():
    for manifest in filter(os.path.exists, ("Cargo.toml", "fuzz/Cargo.toml")):
        metadata = json.loads(run("cargo", "metadata", "--format-version", "1", "--no-deps", "--manifest-path", manifest))
        for package in metadata["packages"]:
            name = package["name"]
            used = [dep for dep in package["dependencies"] if dep["name"].startswith("zest") and dep["name"] != name]
            if name not in EDGES:
                wrong(name, "the table of edges in .ci/tidy.py does not know this crate")
                continue
            for dep in used:
                allowed = EDGES[name] | (TEST_EDGES.get(name, set()) if dep["kind"] == "dev" else set())
                if dep["name"] not in allowed:
                    wrong(name, f"may not depend on {dep['name']}")
            planted = [d for d in package["dependencies"] if "planted" in d["features"] and d["kind"] != "dev"]
            if planted and name not in ("zest-sim", "zest-scenarios"):
                wrong(name, "may not ask for planted bugs")


def check_source(name):
    with open(name, encoding="utf-8") as file:
        lines = file.read().split("\n")
    if not lines[0].startswith("//!"):
        wrong(name, "does not open with a comment that says what it is")
    if len(lines) - 1 > FILE_LINES:
        wrong(name, f"{len(lines) - 1} lines, more than {FILE_LINES}: split it by noun")
    start = None
    for number, line in enumerate(lines, 1):
        # Formatted code: a function ends at the first brace in the column where its head begins.
        head = re.match(r"( *)(?:pub(?:\([a-z ]+\))? )?(?:const |async |unsafe |extern \"C\" )*fn (\w+)", line)
        if head and start is None and not line.rstrip().endswith(";") and not line.rstrip().endswith("}"):
            start = (number, head.group(1), head.group(2))
        elif start and line in (start[1] + "}", start[1] + "};"):
            length = number - start[0] + 1
            if length > FUNCTION_LINES:
                wrong(f"{name}:{start[0]}", f"function {start[2]} has {length} lines, more than {FUNCTION_LINES}")
            start = None
        elif start and line.startswith(start[1]) and line.rstrip().endswith(";") and number == start[0] + 1:
            start = None if "fn " in line else start
        if re.search(r"\b(todo!|unimplemented!|dbg!)\s*\(|#\[ignore", line):
            wrong(f"{name}:{number}", "something unfinished or switched off")
    return len(lines) - 1


def check_texts():
    path = re.compile(r"(^|[^\w/])/(work|farm)/|/root/|/home/\w")
    for name in tracked("*.rs", "*.md", "*.toml", ".ci/*"):
        if name in ("Cargo.lock", ".ci/tidy.py"):
            continue
        with open(name, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if path.search(line):
                    wrong(f"{name}:{number}", "a path of one machine")


def check_links():
    for name in tracked("*.md"):
        with open(name, encoding="utf-8") as file:
            text = file.read()
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not re.match(r"[a-z]+:", link) and not os.path.exists(os.path.join(os.path.dirname(name), link)):
                wrong(name, f"the link {link} leads nowhere")


def check_tests_named_in_papers():
    """Papers name the tests behind their sentences as `test: name`; each must exist."""
    sources = "\n".join(open(name, encoding="utf-8").read() for name in tracked("*.rs"))
    functions = set(re.findall(r"\bfn (\w+)", sources))
    for name in tracked("docs/*.md"):
        with open(name, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                for cell in re.findall(r"test: ((?:`[^`]+`(?:, )?)+)", line):
                    for test in re.findall(r"`([^`]+)`", cell):
                        if test.startswith(".ci/"):
                            known = os.path.exists(test)
                        else:
                            known = test.split("::")[-1] in functions
                        if not known:
                            wrong(f"{name}:{number}", f"names a test that does not exist: {test}")


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
check_edges()
sources = tracked("actors/*.rs", "fuse-frontend/*.rs", "sim/*.rs", "scenarios/*.rs", "fuzz/*.rs")
lengths = [check_source(name) for name in sources]
short = sum(length < SHORT_FILE for length in lengths)
if short * 2 < len(lengths):
    wrong("sources", f"only {short} of {len(lengths)} files have fewer than {SHORT_FILE} lines; half should")
check_texts()
check_links()
check_tests_named_in_papers()
for problem in problems:
    print(problem)
print(f"tidy: {len(sources)} files, {len(problems)} problems")
sys.exit(1 if problems else 0)

#!/usr/bin/env python3
"""Finds the functions whose tracing changes what a program does, by tracing ever smaller halves of all of them.

    scripts/bisect_functions.py -- /usr/bin/lua5.4 work.lua                 # output or status differs from the plain run's
    scripts/bisect_functions.py --check 'cmp out.s good.s' -- cc1 -O2 ...   # fails when this shell command fails after a traced run

Candidates are the functions that `calltap functions` lists of the program and of the libraries that its loader lists (and of
--object PATH, such as what dlopen loads)."""
import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPECIAL, QUOTED = re.compile(r"([*?\[\]\\])"), r"\\\1"  # of globs


def fail(text):
    sys.exit(f"bisect_functions.py: {text}")


def objects_of(program):
    """The program and what its loader maps, each by its path."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    found = [line.split("=>")[-1].split("(")[0].strip() for line in done.stdout.splitlines()]
    return [program, *(path for path in found if path.startswith("/"))]


def functions_of(tool, path):
    """Filters, one for each function that can be traced."""
    done = subprocess.run([tool, "functions", "--json", path], capture_output=True, text=True, check=False)
    if done.returncode:
        return []
    name = SPECIAL.sub(QUOTED, os.path.basename(path))
    rows = [row for row in json.loads(done.stdout)["functions"] if row["traceable"]]
    return list(dict.fromkeys(f"{name}:{SPECIAL.sub(QUOTED, row['symbol'] or row['name'])}" for row in rows))


class Trial:
    """Runs of the command with some functions traced."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.runs = arguments, folder, 0
        self.plain = self.outcome(arguments.command)
        if arguments.check and self.checked():
            fail("the check fails after the plain run, too")

    def outcome(self, command):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said, \
             subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=said, start_new_session=True) as process:
            try:
                status = process.wait(self.arguments.timeout)
            except subprocess.TimeoutExpired:
                status = "still runs"
                os.killpg(process.pid, signal.SIGKILL)
            out.seek(0)
            said.seek(0)
            return status, out.read(), [line for line in said.read().splitlines() if not line.startswith(b"calltap:")]

    def checked(self):
        return subprocess.run(self.arguments.check, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode != 0

    def bad(self, filters):
        """True if the program does something else while these functions are traced."""
        path = os.path.join(self.folder, "filters")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in filters))
        command = [self.arguments.tool, "record", "-q", "-o", os.path.join(self.folder, "trace"), "--allow-no-match",
                   *self.arguments.option, "-l", "@" + path, "--", *self.arguments.command]
        bad = False
        for _ in range(self.arguments.repeat):
            self.runs += 1
            outcome = self.outcome(command)
            bad = self.checked() if self.arguments.check else outcome != self.plain
            if bad:
                break
        print(f"{'differs' if bad else 'the same':9} with {len(filters)} functions", file=sys.stderr, flush=True)
        return bad


def smallest(trial, filters, beside=()):
    """A smallest list of functions that makes the program differ, traced with those beside: one, or several that do so only
    together."""
    if beside and trial.bad(beside):
        return []
    if len(filters) == 1:
        return filters
    half = len(filters) // 2
    left, right = filters[:half], filters[half:]
    if not beside:
        for part in (left, right):
            if trial.bad(part):
                return smallest(trial, part)
    needed = smallest(trial, right, [*beside, *left])
    return [*smallest(trial, left, [*beside, *needed]), *needed]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=os.path.join(ROOT, "build", "src", "cmd", "calltap"), help="default: that of build/")
    parser.add_argument("--check", help="a shell command, run after each run; it fails where the program did wrong")
    parser.add_argument("--object", action="append", default=[], help="a further file with candidates")
    parser.add_argument("--only", metavar="GLOB", default="*", help="filters of this form only, as in 'libc.so.6:*'")
    parser.add_argument("--option", action="append", default=[], help="a further option of record, as in --option=--no-libcalls")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs with each list, for what happens sometimes")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="a run that takes longer differs")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    program = shutil.which(arguments.command[0]) or fail(f"{arguments.command[0]} is not there")
    filters = [line for path in [*objects_of(program), *arguments.object] for line in functions_of(arguments.tool, path)]
    filters = [line for line in filters if fnmatch.fnmatch(line, arguments.only)]
    if not filters:
        fail("there is no function to trace")
    with tempfile.TemporaryDirectory(prefix="bisect-") as folder:
        trial = Trial(arguments, folder)
        if not trial.bad(filters):
            print(f"the same with all {len(filters)} functions")
            return 0
        for line in smallest(trial, filters):
            print(line)
        print(f"{trial.runs} runs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Command-line cases for the verbs that read a trace.

    run.py CALLTAP GEN_TRACE [NAME...]

A case is a file in cases/, named after what it expects:
    $ calltap ARGUMENT...        run in a folder that holds the traces; shell quoting
    status N
    stdout                       then the expected lines, each after two spaces; missing = not looked at
    stderr
"[*]" stands for any text in a line, a line "[...]" for any lines.  The traces are those of traces/, and "small" and
"calls-small" of gen_trace.  The checks that no expected text can say are functions in compared.py, estimates.py,
exports.py, damage.py, limits.py and terminal.py."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

import compared
import consumers
import damage
import estimates
import exports
import limits
import repeated
import terminal
import tracetext

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import wrapped  # noqa: E402  (the path above is what finds it)

TIMEOUT = 60


class Bench:
    """The place where cases run: the tools, and a folder with the traces."""

    def __init__(self, calltap, gen_trace, folder):
        self.calltap, self.gen_trace = (wrapped.program(tool, folder) for tool in (calltap, gen_trace))
        self.folder, self.emulated, self.turn = folder, "MESON_EXE_WRAPPER" in os.environ, 0
        self.environment = {key: value for key, value in os.environ.items()
                            if key not in ("PAGER", "LESS", "NO_COLOR")} | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
        for name in sorted(os.listdir(os.path.join(HERE, "traces"))):
            with open(os.path.join(HERE, "traces", name), encoding="utf-8") as text:
                self.write(name[:-4], tracetext.make(text.read()))
        self.generate("small", "--records", "20000", "--threads", "4", "--functions", "60", "--seed", "7")
        self.generate("calls-small", "--records", "5000", "--threads", "2", "--tracer", "function", "--seed", "7")
        self.write("short", self.read("graph")[:-100])
        self.write("text", b"this is no trace\n" * 10)

    def some(self, items):
        """All of them; of an emulated tool, which takes its time to start, one after the other."""
        self.turn += 1
        return (items[self.turn % len(items)],) if self.emulated else items

    def write(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def generate(self, name, *options):
        subprocess.run([self.gen_trace, os.path.join(self.folder, name), *options], check=True)

    def run(self, *arguments, folder=None):
        return subprocess.run([self.calltap, *arguments], cwd=folder or self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False)


def parse(path):
    case, part = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("  ") and part:
                case[part].append(line[2:])
            elif line.startswith("$ calltap"):
                case["command"] = shlex.split(line)[2:]
            elif line.startswith("status "):
                case["status"] = int(line.split()[1])
            elif line in ("stdout", "stderr"):
                part = line
                case[part] = []
            elif line.strip() and not line.startswith("#"):
                raise ValueError(f"{path}: what is this: {line}")
    return case


def pattern(lines):
    """A regular expression for expected lines."""
    parts = []
    for line in lines:
        if line == "[...]":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            parts.append(".*".join(re.escape(piece) for piece in line.split("[*]")) + r"\n")
    return re.compile("".join(parts))


def run_case(bench, path):
    case = parse(path)
    with tempfile.TemporaryDirectory() as empty:
        folder = empty if os.path.basename(path).startswith("without-a-trace") else None
        result = bench.run(*case["command"], folder=folder)
    problems = []
    if result.returncode != case["status"]:
        problems.append(f"status is {result.returncode}, not {case['status']}")
    for part in ("stdout", "stderr"):
        got = getattr(result, part).decode("utf-8", "backslashreplace")
        if part in case and not pattern(case[part]).fullmatch(got):
            problems.append(f"{part} is not as expected:\n" + got)
    return "\n".join(problems)


def all_checks():
    """(name, function of a bench that returns the problem or nothing)"""
    folder = os.path.join(HERE, "cases")
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        yield name.removesuffix(".case"), lambda bench, path=path: run_case(bench, path)
    for module in (compared, consumers, estimates, exports, damage, limits, repeated, terminal):
        for name, function in sorted(vars(module).items()):
            if name.startswith("check_"):
                yield name[len("check_"):].replace("_", "-"), function


def attempt(function, bench):
    try:
        return function(bench) or ""
    except (AssertionError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(sys.argv[1], sys.argv[2], folder)
        for number, (name, function) in enumerate(all_checks()):
            if bench.emulated and number % 3 and not sys.argv[3:]:
                continue  # an emulated tool takes long to start, and its code is that of this machine's
            if sys.argv[3:] and name not in sys.argv[3:]:
                continue
            if name.startswith("attach-") and os.environ.get("MESON_EXE_WRAPPER"):
                print(f"skip {name}: only this machine's own tool attaches", flush=True)
                continue
            try:
                problem = attempt(function, bench)
            except consumers.Missing as why:
                print(f"skip {name}: {why}", flush=True)
                continue
            passed, failed = passed + (not problem), failed + bool(problem)
            print(("FAIL " if problem else "ok   ") + name + ("\n" + problem if problem else ""), flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()

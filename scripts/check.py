#!/usr/bin/env python3
"""The test command behind ./check: builds, runs every group of tests, prints one line per group and the totals.

Each group is a function that returns a Result.  A group that cannot start at all counts as one failure, so that
nothing passes by not running.
"""
import argparse
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GATES = ("layers", "sizes", "banned", "words", "promises", "headers", "format", "purity", "man", "tidy")
QUICK_GATES = tuple(gate for gate in GATES if gate != "tidy")  # the analyser is the slow one
SHOWN = 40  # lines of a failure's output


class Result:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []  # failed: (name, output); skipped: (name, reason)

    def add(self, name, status, text=""):
        """status: 'pass', 'fail' or 'skip'."""
        if status == "pass":
            self.passed += 1
        else:
            (self.failed if status == "fail" else self.skipped).append((name, text))


def run(command, timeout, **more):
    """(exit status, output) of a command; a timeout is status 124."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout, check=False, **more)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        text = output if isinstance(output, str) else output.decode(errors="replace")
        return 124, f"{text}\nstopped after {timeout} s"


def build(options):
    result = Result()
    steps = []
    if not os.path.exists(os.path.join(options.build, "build.ninja")):
        steps.append(["meson", "setup", options.build, ROOT])
    steps.append(["ninja", "-C", options.build])
    for step in steps:
        status, output = run(step, 600)
        if status:
            result.add(" ".join(step[:2]), "fail", output)
            return result
    result.add("build", "pass")
    return result


def meson_tests(options):
    """Unit tests and command-line cases: all that Meson knows."""
    result = Result()
    log = os.path.join(options.build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    status, output = run(["meson", "test", "-C", options.build, "--no-rebuild"], 600)
    if not os.path.exists(log):
        result.add("meson test", "fail" if status else "skip", output if status else "no tests are defined")
        return result
    with open(log, encoding="utf-8") as file:
        for line in file:
            test = json.loads(line)
            text = (test.get("stdout") or "") + (test.get("stderr") or "")
            known = {"OK": "pass", "EXPECTEDFAIL": "pass", "SKIP": "skip"}
            reason = text.strip().split("\n")[-1] if test["result"] == "SKIP" else f"{test['result']}\n{text}"
            result.add(test["name"], known.get(test["result"], "fail"), reason)
    return result


def end_to_end(options):
    """Real programs under `calltap record`, compared with their plain runs."""
    result = Result()
    status, output = run([sys.executable, "test/e2e/selftest.py"], 60)
    result.add("e2e (self-test)", "fail" if status else "pass", output)
    summary = os.path.join(options.build, "e2e.json")
    if os.path.exists(summary):
        os.unlink(summary)
    command = [sys.executable, "test/e2e/run.py", "--build", options.build, "--summary", summary]
    command += ["--long"] if options.long else ["--quick"] if options.quick else []
    status, output = run(command, 3600 if options.long else 900)
    if not os.path.exists(summary):
        result.add("e2e", "fail", f"exit status {status}\n{output}")
        return result
    with open(summary, encoding="utf-8") as file:
        for case in json.load(file):
            result.add(case["name"], case["status"], case["text"])
    return result


def gates(options):
    """The scripts of test/lint, each fed its own violations first, then run over the tree."""
    result = Result()
    for gate in QUICK_GATES if options.quick else GATES:
        for mode in ("--self-test", None):
            command = [sys.executable, f"test/lint/{gate}.py"] + ([mode] if mode else []) + ["--build", options.build]
            status, output = run(command, 600)
            name = gate + (" (self-test)" if mode else "")
            result.add(name, {0: "pass", 77: "skip"}.get(status, "fail"), output.replace("skipped: ", "").strip())
    return result


def show(title, result, seconds):
    line = f"{title:<12} {result.passed:5} passed, {len(result.failed)} failed"
    line += f", {len(result.skipped)} skipped" if result.skipped else ""
    print(f"{line}   ({seconds:.0f} s)", flush=True)
    for name, reason in result.skipped:
        print(f"    skipped {name}: {reason}")
    for name, text in result.failed:
        lines = text.strip().split("\n")
        print(f"    FAILED {name}")
        for part in lines[:SHOWN]:
            print("        " + part)
        if len(lines) > SHOWN:
            print(f"        ... and {len(lines) - SHOWN} lines more")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(prog="./check", description="Run every test and gate.")
    parser.add_argument("--quick", action="store_true", help="one build per end-to-end program, no analyser")
    parser.add_argument("--long", action="store_true", help="more builds and longer stress")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)

    passed, failed, skipped = 0, 0, 0
    for title, group in (("build", build), ("unit + flow", meson_tests), ("end to end", end_to_end), ("gates", gates)):
        started = time.monotonic()
        result = group(options)
        show(title, result, time.monotonic() - started)
        passed, failed, skipped = passed + result.passed, failed + len(result.failed), skipped + len(result.skipped)
        if title == "build" and result.failed:
            break
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

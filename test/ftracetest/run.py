#!/usr/bin/env python3
"""Runs the kernel's own tests of ftrace, unmodified, on a program in `calltap shell`, and prints a table.

    run.py [--build DIR] [--work DIR] [--json] [FOLDER|CASE...]

The tests are those of Debian's package linux-source-6.1 (tools/testing/selftests/ftrace), which is installed by apt
where it is missing.  The program is test/prog/kernel.c, whose functions have the names that the tests ask for.  The cases
of OWN_SHELL are run once more with the suite's own shell as the program, and that result counts.  What is named is a
folder or a case below test.d; without names, all folders.  Exit status 1: a case failed that is not known to (KNOWN), or
one that is known to passed.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = "linux-source-6.1"
SUITE = "tools/testing/selftests/ftrace"
LINE = re.compile(r"\[\d+\] (\(instance\) +)?(.*?)\t\[(\w+)\]")
# Cases that do not pass, and why.
EVENTS = "it is about events, which are not there yet"
MODULES = "it loads a module of the kernel"
KNOWN = {
    "Basic event tracing check": EVENTS,
    "ftrace - test for function event triggers": EVENTS,
    "ftrace - test for function traceon/off triggers": EVENTS,
}
# Cases that trace the shell which they run in.
OWN_SHELL = {"ftrace - function pid filters": "ftrace/func-filter-pid.tc"}
# The command's shell tells its process, in whose mounts the files are, and waits; the program runs the suite there.
COMMAND = 'cd "$WORK"; echo $$ > pid.new; mv pid.new pid; until [ -e done ]; do sleep 0.1; done'
PROGRAM = """cd "$WORK"
export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$1"
until [ -e pid ]; do sleep 0.1; done
nsenter -m -t $(cat pid) sh -c 'cd "$1"; shift; exec ./ftracetest "$@"' sh "$2" -l "$3" "test.d/$4"
: > done
sleep 1
"""
# Why cases are not supported, where it is not for events.
MISSING = {
    "ftrace - function trace on module": MODULES,
    "Test ftrace direct functions against tracers": MODULES,
    "Test trace_printk from module": MODULES,
}


def installed():
    """The package's archive."""
    path = f"/usr/src/{PACKAGE}.tar.xz"
    if not os.path.exists(path):
        print(f"installing {PACKAGE} (140 MB)", file=sys.stderr)
        subprocess.run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", PACKAGE], check=True, stdout=sys.stderr)
    return path


def unpacked(work):
    """The folder of the tests."""
    folder = os.path.join(work, PACKAGE, SUITE)
    if not os.path.exists(os.path.join(folder, "ftracetest")):
        print("unpacking the tests", file=sys.stderr)
        subprocess.run(["tar", "-C", work, "-xf", installed(), f"{PACKAGE}/{SUITE}"], check=True)
    return folder


def started(work):
    """The program, which runs."""
    path = os.path.join(work, "kernel")
    subprocess.run(["gcc", "-O1", "-g", "-fpatchable-function-entry=5", "-pthread", "-o", path,
                    os.path.join(ROOT, "test", "prog", "kernel.c")], check=True)
    process = subprocess.Popen([path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        sys.exit("the program does not run")
    return process


def results(text):
    """[(name, in an instance, result)] of the suite's output."""
    return [(match[2].strip(), bool(match[1]), match[3]) for match in map(LINE.match, text.splitlines()) if match]


def run(arguments, suite):
    logs = os.path.join(arguments.work, "logs")
    shutil.rmtree(logs, ignore_errors=True)
    process = started(arguments.work)
    try:
        names = [os.path.join("test.d", name) for name in arguments.names]
        command = [os.path.join(arguments.build, "src", "cmd", "calltap"), "shell", "-q", str(process.pid),
                   "sh", "-c", 'cd "$1"; shift; exec ./ftracetest "$@"', "sh", suite, "-l", logs, *names]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False, timeout=arguments.timeout)
        if process.poll() is not None:
            sys.exit(f"the program ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()
    found = results(done.stdout)
    if not found:
        sys.exit(f"the suite has run no case: {done.stdout[-500:]}")
    return found, logs


def run_own(arguments, suite, case):
    """The results of a case that traces its own shell: the suite itself is the program."""
    folder = os.path.join(arguments.work, "own")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    library = os.path.join(folder, "forks_traced.so")
    subprocess.run(["gcc", "-O1", "-fpatchable-function-entry=5", "-fPIC", "-shared", "-o", library, os.path.join(ROOT, "test", "prog", "forks_traced.c"), "-ldl"],
                   check=True)
    command = [os.path.join(arguments.build, "src", "cmd", "calltap"), "shell", "-q", "-c", COMMAND, "--",
               "sh", "-c", PROGRAM, "sh", library, suite, os.path.join(folder, "logs"), case]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, timeout=arguments.timeout, env={**os.environ, "WORK": folder})
    found = results(done.stdout)
    if not found:
        sys.exit(f"the suite has not run {case}: {done.stdout[-500:]}")
    return found


def why(name):
    return KNOWN.get(name) or MISSING.get(name, EVENTS)


def main():
    parser = argparse.ArgumentParser(description="Run the kernel's tests of ftrace on a program.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    parser.add_argument("--work", help="where the tests are unpacked (default: ftracetest/ in the build directory)")
    parser.add_argument("--json", action="store_true", help="print the results for a program")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for all of it (600)")
    parser.add_argument("names", nargs="*", metavar="FOLDER|CASE", help="below test.d (default: all folders)")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    arguments.work = os.path.abspath(arguments.work or os.path.join(arguments.build, "ftracetest"))
    os.makedirs(arguments.work, exist_ok=True)
    suite = unpacked(arguments.work)
    if not arguments.names:
        arguments.names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(suite, "test.d", "*"))
                                 if os.path.basename(path) not in ("template", "selftest") and os.path.isdir(path))
    found, logs = run(arguments, suite)
    for own, case in OWN_SHELL.items():
        if any(name == own for name, _, _ in found):
            found = [result for result in found if result[0] != own] + run_own(arguments, suite, case)
    if arguments.json:
        print(json.dumps([{"case": name, "instance": instance, "result": result, "reason": why(name)}
                          for name, instance, result in found]))
    else:
        for name, instance, result in found:
            reason = "" if result == "PASS" else why(name)
            print(f"{result:<12} {name}{' (in an instance)' if instance else ''}{': ' + reason if reason else ''}")
    bad = [name for name, _, result in found if (result == "FAIL") != (name in KNOWN and result != "UNSUPPORTED")]
    counts = {result: sum(result == other for _, _, other in found) for result in sorted({result for _, _, result in found})}
    print(", ".join(f"{count} {result.lower()}" for result, count in counts.items()), file=sys.stderr)
    for name in bad:
        print(f"not as it is known: {name}; its log is in {logs}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

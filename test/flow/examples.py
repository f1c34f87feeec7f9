#!/usr/bin/env python3
"""The programs of examples/: each does what its file beside it expects, and what it prints is all that is seen of it.

examples.py TOOL EXAMPLE...  Skips (77) where no process can be attached to."""
import os
import subprocess
import sys

EXPECTED = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples")
TIMEOUT = 60
SKIP = 77


class Failure(Exception):
    pass


def run(path):
    name = os.path.basename(path)
    done = subprocess.run([path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIMEOUT, check=False)
    with open(os.path.join(EXPECTED, name + ".expected"), encoding="utf-8") as file:
        expected = file.read()
    if done.returncode or done.stdout != expected or done.stderr:
        raise Failure(f"status {done.returncode}, stdout {done.stdout!r}, stderr {done.stderr!r}")


def expect(found, wanted):
    if found != wanted:
        raise Failure(f"{found!r}, not {wanted!r}")


def load(tool, server, library):
    """A library of handlers comes into a server that runs, sees three requests, and leaves."""
    with subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, bufsize=1) as process:
        try:
            expect(process.stdout.readline(), "ready\n")
            loaded = subprocess.run([tool, "load", str(process.pid), library], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT, check=False)
            expect((loaded.returncode, loaded.stdout), (0, ""))
            expect(process.stderr.readline(), "watch: ready\n")
            for number in range(5):
                process.stdin.write("x" * number + "\n")
                expect(process.stdout.readline(), f"{number + 1} bytes\n")
                if number < 3:
                    expect(process.stderr.readline(), "watch: a request\n")
                if number == 2:
                    expect(process.stderr.readline(), "watch: three are enough\n")
            process.stdin.write("end\n")
            expect(process.stdin.close(), None)
            expect((process.stdout.read(), process.stderr.read()), ("", ""))
            expect(process.wait(TIMEOUT), 0)
        finally:
            process.kill()


def cannot_attach(tool):
    """Why nothing can be attached to here; empty when it can."""
    with subprocess.Popen(["sleep", "60"]) as sleep:
        done = subprocess.run([tool, "attach", "--allow-no-sites", "--duration", "10ms", "-q", "-o", os.devnull,
                               str(sleep.pid)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT, check=False)
        sleep.kill()
    return done.stdout if "cannot be attached to" in done.stdout or "lets only root" in done.stdout else ""


def main():
    tool, *examples = sys.argv[1:]
    reason = cannot_attach(tool)
    if reason:
        print(reason)
        return SKIP
    failed = 0
    server = next(path for path in examples if os.path.basename(path) == "server")
    library = next(path for path in examples if path.endswith(".so"))
    programs = [path for path in examples if path not in (server, library)]
    for name, case in [(os.path.basename(path), lambda path=path: run(path)) for path in programs] + [
            ("load", lambda: load(tool, server, library))]:
        try:
            case()
        except (Failure, subprocess.TimeoutExpired) as wrong:
            failed += 1
            print(f"FAILED {name}: {wrong}")
    print(f"{len(programs) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

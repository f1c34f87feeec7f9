"""`calltap functions`: what it lists of a file and of a process that runs."""
import json
import os
import shutil
import subprocess
import time

from harness import Process, expect, stop

LIBRARY = "libc.so.6:mem*"


def functions(case, *arguments, status=0):
    done = case.run([case.tool, "functions", "--json", *arguments])
    expect(done.status == status, f"functions {arguments}: status {done.status}, {done.stderr[-300:]!r}")
    return json.loads(done.stdout) if not status else done.stderr


def files(case, *arguments):
    """Functions by object, names and addresses."""
    found = {}
    for function in functions(case, *arguments)["functions"]:
        found.setdefault(os.path.realpath(function["object"]), set()).add((function["name"], function["address"]))
    return found


def has_started(running, name):
    """True once the process executes the file: until then it is a copy of this one."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if os.path.basename(os.readlink(f"/proc/{running.pid}/exe")).startswith(name):
            with open(f"/proc/{running.pid}/wchan", encoding="ascii") as file:
                if "nanosleep" in file.read():
                    return True
        time.sleep(0.01)
    return False


def of_process(case):
    """Of a process its program and the libraries that it has mapped are listed, though the program's file has been
    replaced since; a number that is no process is told."""
    case.need_native("programs as distributed")
    program, other = os.path.join(case.folder, "sleeper"), os.path.join(case.folder, "other")
    shutil.copy("/bin/sleep", program)
    shutil.copy("/bin/true", other)
    wanted, wanted_library = files(case, program), files(case, program, LIBRARY)
    running = Process([program, "100"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        expect(has_started(running, "sleeper"), "sleep does not sleep")
        expect(files(case, str(running.pid)) == wanted, "a running program has other functions than its file")
        expect(files(case, str(running.pid), LIBRARY) == wanted_library, "its library has others")
        os.rename(other, program)
        found = files(case, str(running.pid))
        expect(list(found.values()) == list(wanted.values()), "the file that took its place was read")
    finally:
        stop(running)
    said = functions(case, str(running.pid), status=1)
    expect(f"there is no process {running.pid}" in said, f"of a process that has ended it says {said!r}")


SINGLE = {"functions-of-process": of_process}

"""What a tool that was killed has left in a process, and `calltap detach`, which takes it away."""
import os
import re
import signal
import subprocess
import time

import builds
import live
from endings import finish
from harness import Process, expect, halt, until
from later import Recorded
from loaderless import built
from steer import calltap
from steering import Program, Tool, left_alone, thread_name, threads
from workers import children

AS_FILED = re.compile("all [0-9.]+ [KMG]?i?B of its text are as in its files\n$")
NOT_TRACED = "is not traced by you; `calltap status` lists what is"


def cleared(case, pid):
    """Detach; afterwards the text is that of the files, and the agent has no thread."""
    said = calltap(case, "detach", pid)
    expect(said.startswith("what an earlier calltap had left") and AS_FILED.search(said), f"detach says {said!r}")
    is_clear(pid)


def is_clear(pid):
    different = live.differing(pid)
    expect(not different, f"text differs: {list(different.items())[:5]}")
    until("the agent's thread to end", lambda: "calltap" not in [thread_name(pid, thread) for thread in threads(pid)], 5)


def attached(case):
    """A tool that traces is killed: heads stay led, which `status` tells, and `detach` gives them back."""
    case.need_native("attaching")
    with Program(case, sites=False) as program, left_alone(program):
        expect(NOT_TRACED in calltap(case, "detach", program.pid, status=1), "nothing had been there")
        for options in (("--mode", "block"), ("--mode", "overwrite"), ("-l", "*:*", "--mode", "drop")):
            with Tool(case, program, *options, says=()) as tool:
                tool.records(500)
                os.kill(tool.process.pid, signal.SIGKILL)
                finish(tool.process)
            said = calltap(case, "status", program.pid, status=1)
            expect(re.search(r"[0-9]+ bytes of its text differ from its files.*`calltap detach", said), said)
            cleared(case, program.pid)
            said = calltap(case, "status", program.pid, status=1)
            expect(NOT_TRACED in said, f"status says {said!r}")
        said = calltap(case, "detach", program.pid, status=1)
        expect("no calltap has left anything in it" in said, f"a second detach says {said!r}")


def family(case):
    """Of a killed tool's processes one is named: what was left in the others is taken away, too."""
    case.need_native("attaching")

    class Master(Program):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.start(case, [case.program("master.c", sites=False), "forks", "3"])

    with Master() as program, left_alone(program):
        below = children(program.pid)
        with Tool(case, program, "--children", "-l", "*", "-l", "libc.so*:usleep", "--mode", "drop", says=()) as tool:
            until("all children to be led", lambda: all(live.differing(pid) for pid in below), 30)
            os.kill(tool.process.pid, signal.SIGKILL)
            finish(tool.process)
        expect(len(below) == 3 and all(live.differing(pid) for pid in below), f"children {below} stay led")
        cleared(case, program.pid)
        for child in below:
            is_clear(child)
            said = calltap(case, "detach", child, status=1)
            expect("no calltap has left anything in it" in said, f"a second detach says {said!r}")


def at_any_time(case):
    """Killed between the attach's steps, while it records, and while it ends: the text is the file's afterwards."""
    case.need_native("attaching")
    with Program(case, sites=False) as program, left_alone(program):
        for delay in (0.002, 0.01, 0.02, 0.03, 0.04, 0.06, 0.09):
            with Tool(case, program, "-l", "*:*", "--mode", "drop", "--duration", "40ms", wait=False, says=()) as tool:
                time.sleep(delay)
                os.kill(tool.process.pid, signal.SIGKILL)
                finish(tool.process)
            done = case.run([case.tool, "detach", str(program.pid)])
            # Killed before the agent was in, or once all was given back.
            expect(done.status == 0 or "is not traced by you" in done.stderr, f"detach: {done.status}, {done.stderr!r}")
            is_clear(program.pid)


def recorded(case):
    """The tool of a command that it started itself."""
    case.need_native("attaching")
    with Recorded(case, False, "--mode", "drop") as program:
        program.records()
        os.kill(program.process.pid, signal.SIGKILL)
        program.process.wait()
        try:
            cleared(case, program.pid)
        finally:
            os.kill(program.pid, signal.SIGTERM)


def detached(sites):
    """`detach` of a command that the tool has started itself: it runs on, with the bytes of its file."""
    def test(case):
        case.need_native("attaching")
        with Recorded(case, sites, "--mode", "drop") as program:
            program.records()
            said = calltap(case, "detach", program.pid)
            try:
                expect(said.startswith("the recording has ended\n") and (sites or AS_FILED.search(said)), f"detach says {said!r}")
                status = program.process.wait(timeout=60)
                expect(status == 130, f"the tool's exit status is {status}")
                is_clear(program.pid)
                expect(NOT_TRACED in calltap(case, "status", program.pid, status=1), "it is still traced")
            finally:
                os.kill(program.pid, signal.SIGTERM)  # of a program that is not there this fails
    return test


def has_socket(process):
    try:
        return any(os.readlink(f"/proc/{process.pid}/fd/{fd}").startswith("socket:") for fd in os.listdir(f"/proc/{process.pid}/fd"))
    except FileNotFoundError:
        return False


def asked_and_killed(case, tool, verb, pid):
    """The tool is killed when it has been asked, and has not answered.  Returns the verb's process."""
    halt(tool.process.pid)
    process = Process([case.tool, verb, str(pid)], cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL,
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until(f"{verb} to ask", lambda: has_socket(process))
    os.kill(tool.process.pid, signal.SIGKILL)
    finish(tool.process)
    said = process.communicate(timeout=60)[0]
    return process.returncode, said


def while_asked(case):
    """The tool is killed while `status` waits for its answer: that names `detach`; which does it, whenever it was begun."""
    case.need_native("attaching")
    with Program(case, sites=False) as program, left_alone(program):
        for verb in ("status", "detach"):
            with Tool(case, program, "--mode", "drop", says=()) as tool:
                tool.records(100)
                status, said = asked_and_killed(case, tool, verb, program.pid)
            if verb == "status":
                expect(status == 1 and f"`calltap detach {program.pid}` takes it away" in said, f"status says {status}, {said!r}")
                cleared(case, program.pid)
            else:
                expect(not status and said.startswith("what an earlier calltap had left"), f"detach says {said!r}")
                is_clear(program.pid)


class Executed(Recorded):
    """attachee.c, which a program under record executes."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, case.record_command(["sh", "-c", 'exec "$0"', case.program("attachee.c", sites=False)],
                                             ["--stock", "auto", "--mode", "drop"]))


def stays_usable(kind):
    """A static program that was recorded, or that a recorded one has executed: it can be cleared, and attached to."""
    def test(case):
        with kind(case) as program:
            program.records()
            os.kill(program.process.pid, signal.SIGKILL)
            program.process.wait()
            try:
                said = calltap(case, "status", program.pid, status=1)
                expect(f"`calltap detach {program.pid}` takes it away" in said, f"status says {said!r}")
                cleared(case, program.pid)
                for _ in range(2):
                    with Tool(case, program, says=()) as tool:
                        tool.records(500)
                        tool.detach()
                    is_clear(program.pid)
                case.readable()
            finally:
                os.kill(program.pid, signal.SIGTERM)
    return test


def recorded_static(case):
    return Recorded(case, False, "--mode", "drop")


CASES = {}
SINGLE = {
    "cleared-attached": attached,
    "cleared-static": built(builds.STATIC["static"], attached),
    "cleared-family": family,
    "cleared-at-any-time": at_any_time,
    "cleared-recorded": recorded,
    "cleared-detached": detached(False),
    "cleared-detached-sites": detached(True),
    "cleared-while-asked": while_asked,
    "cleared-recorded-static": built(builds.STATIC["static"], stays_usable(recorded_static)),
    "cleared-recorded-static-pie": built(builds.STATIC["static-pie"], stays_usable(recorded_static)),
    "cleared-recorded-static-musl": built(builds.STATIC["static-musl"], stays_usable(recorded_static)),
    "cleared-executed-static": built(builds.STATIC["static"], stays_usable(Executed)),
    "cleared-executed-static-musl": built(builds.STATIC["static-musl"], stays_usable(Executed)),
}

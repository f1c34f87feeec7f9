"""Children that are forked while their parent is attached to: at the end they are let go of as the parent is."""
import os
import pty
import re
import signal
import subprocess
import time

import live
from harness import Process, expect, until
from steering import Program, Tool, left_alone, mappings

WORKERS = 6  # of test/prog/workers.c, with the children's children
SOON = 0.3  # seconds, in which the children have begun


class Workers(Program):
    """test/prog/workers.c"""

    def __init__(self, case, *arguments):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("workers.c"), *arguments])

    def fork(self, count):
        os.kill(self.pid, signal.SIGUSR1)
        until("the workers", lambda: len(children(self.pid)) == count)
        time.sleep(SOON)
        return children(self.pid)


def children(pid):
    """All that descend from the process, but for a child of vfork(), which has its parent's memory."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
            for child in map(int, file.read().split()):
                found += [child, *children(child)]
    return found


def sleeps_in_vfork(pid):
    with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
        return file.read() == "kernel_clone"


def remains(pid):
    """What an attach has brought into the process, but for the agent itself."""
    return [name for _, _, name in mappings(pid) if "memfd:calltap" in name and "agent" not in name]


def is_clean(pid, storm=False):
    """storm: it may have been forked while the agent had a plan mapped, which stays (doc/design/control.md, "Letting go")."""
    different = live.differing(pid, pages=True)
    expect(not different, f"process {pid}: text is not the files' again: {different}")
    left = [name for name in remains(pid) if not (storm and "calltap-plan" in name)]
    expect(not left, f"process {pid} has {left}")


def released(*options, calls):
    """Workers that make calls are traced; one that has made none has a thread borrowed.  None of them has anything then."""
    def test(case):
        case.need_native("attaching")
        with Workers(case) as program, left_alone(program):
            with Tool(case, program, "--mode", "drop", *options) as tool:
                workers = program.fork(WORKERS)
                if calls:
                    tool.records(1000)
                expect(any(map(remains, workers)), "no worker has anything that could be left")
                tool.detach(signal.SIGTERM)
                said = tool.said()
            expect("keeps" not in said and "differ" not in said, f"it said {said!r}")
            for worker in workers:
                is_clean(worker)
        called = len({thread.process for thread in case.trace().threads.values()})
        expect(called >= (WORKERS if calls else 1), f"calls of {called} processes")
    return test


def held(case):
    """A worker sleeps in vfork(): its thread cannot be looked at.  That is told with the remedy, which works later."""
    case.need_native("attaching")
    with Workers(case, "vforks") as program, left_alone(program):
        with Tool(case, program, "--mode", "drop") as tool:
            workers = program.fork(WORKERS + 2)
            tool.detach(signal.SIGTERM)
            said = tool.said()
        expect("1 forked process that runs on keeps the agent, idle" in said, f"it said {said!r}")
        pid = int(said.split("'calltap detach ")[1].split("'")[0])
        expect(pid in workers, f"process {pid} is none of {workers}")
        for worker in workers:
            expect(not live.differing(worker), f"process {worker}: {live.differing(worker)}")
        expect([worker for worker in workers if remains(worker)], "nothing is left in any worker")

        def taken():
            done = case.run([case.tool, "detach", str(pid)])
            expect(done.status == 0 or "in the kernel" in done.stderr, f"{done.stderr!r}")
            return done.status == 0
        until("the end of vfork()", taken)
        is_clean(pid)


def of_group(group):
    """The processes of that group which have not ended."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                state, _, its_group = file.read().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(entry))
    return found


def storms(case):
    """Children are forked in the midst of the attach, of the recording, and of its end, and by such children."""
    case.need_native("attaching")
    for _ in range(3):
        with Workers(case, "storms") as program:
            with Tool(case, program, "--mode", "drop", "--duration", "300ms") as tool:
                tool.ended()
                said = tool.said()
            late = "(there was no time for it); 'calltap detach PID' tries again:" in said  # on a very busy machine
            expect((late or "keep" not in said) and "differ" not in said, f"it said {said!r}")
            for worker in of_group(program.pid) if late else ():
                case.run([case.tool, "detach", str(worker)])
            for worker in of_group(program.pid):
                is_clean(worker, storm=True)
            program.end()


def all_text(terminal):
    """What was written to a terminal, until nobody has it open any more."""
    text = b""
    try:
        while piece := os.read(terminal, 4096):
            text += piece
    except OSError:
        pass  # that is how a terminal ends
    os.close(terminal)
    return text.decode(errors="replace")


def progress(case):
    """On a terminal the end says how many processes are left."""
    case.need_native("attaching")
    terminal, other_end = pty.openpty()
    with Workers(case) as program, left_alone(program):
        with Tool(case, program, "--mode", "drop", to=other_end) as tool:
            program.fork(WORKERS)
            tool.records(1000)
            tool.detach(signal.SIGTERM)
        said = all_text(terminal)
        expect("processes are left to let go of" in said, f"it said {said!r}")
        expect(said.rindex("left to let go of") < said.rindex("\r\033[K"), f"the line is still there: {said!r}")


def edits(case):
    """While a program has the terminal's line mode off, as an editor has, no progress is written over its screen."""
    terminal, other_end = pty.openpty()
    command = case.record_command(["sh", "-c", "stty -icanon; echo begins; sleep 1.2; echo ends; stty icanon; sleep 1.2"],
                                  ["--allow-no-sites"])
    with subprocess.Popen(command, stdin=other_end, stdout=other_end, stderr=other_end, cwd=case.folder,
                          env=case.environment(False)) as tool:
        os.close(other_end)
        said = all_text(terminal)
    expect(tool.returncode == 0, f"exit status {tool.returncode}: {said!r}")
    within, behind = said.split("begins")[1].split("ends")
    expect("calltap" not in within, f"progress is written over it: {said!r}")
    expect("records, " in behind, f"there is no progress later: {said!r}")


def left_behind(case):
    """A terminal is told that the command has ended, and why the recording goes on."""
    case.need_native("programs as distributed")
    terminal, other_end = pty.openpty()
    script = os.path.join(case.folder, "leaves.sh")
    with open(script, "w", encoding="ascii") as file:
        file.write("(sleep 3; ls) > /dev/null 2>&1 &\necho done\n")
    with Process([case.tool, "record", "-o", case.trace_path, "--", "/bin/sh", script], cwd=case.folder, stdin=other_end, stdout=other_end,
                 stderr=other_end, env=case.environment(False), start_new_session=True) as tool:
        os.close(other_end)
        said = all_text(terminal)
        expect(tool.wait(30) == 0, f"status {tool.returncode}: {said!r}")
    expect("done" in said and said.count("the command has ended; ") == 1 and "traced until the end, too; ^C" in said, f"it said {said!r}")


def lodges(case):
    """A child of vfork() runs in its parent's memory: what is loaded into it would be its parent's."""
    case.need_native("attaching")
    with Workers(case, "vforks") as program, left_alone(program):
        workers = program.fork(WORKERS + 2)
        parent = next(worker for worker in workers if sleeps_in_vfork(worker))
        done = case.run([case.tool, "attach", "--duration", "100ms", str(children(parent)[0])])
        expect(done.status == 2 and f"attach to that, process {parent}," in done.stderr, f"status {done.status}: {done.stderr!r}")
        expect(not remains(parent), f"the parent has {remains(parent)}")


class Recorded(Program):
    """test/prog/workers.c as a compiler leaves it, from its start."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.tool, "record", "-o", case.trace_path, "--", case.program("workers.c", sites=False)])


def given_back(case):
    """`calltap detach` of a recorded process gives functions their bytes back in all processes of the recording."""
    case.need_native("programs as distributed")
    with Recorded(case) as program:
        os.kill(program.pid, signal.SIGUSR1)
        until("the workers", lambda: len(children(program.pid)) == WORKERS)
        time.sleep(SOON)
        all_pids = [program.pid, *children(program.pid)]
        try:
            expect(all(live.differing(pid) for pid in all_pids), "a process has its own text while it is recorded")
            done = case.run([case.tool, "detach", str(program.pid)])
            expect(done.status == 0, f"status {done.status}: {done.stderr!r}")
            for pid in all_pids:
                expect(not live.differing(pid), f"process {pid}: text is not the files' again: {live.differing(pid)}")
        finally:
            os.kill(program.pid, signal.SIGTERM)  # it ends its children


class ShortLived(Program):
    """test/prog/shortlived.c"""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("shortlived.c")])


def short_lived(case):
    """Children that are killed at any moment of their set-up are told by number, and are no failure of the attach."""
    case.need_native("attaching")
    with ShortLived(case) as program:
        with Tool(case, program, "--mode", "drop", "--duration", "300ms") as tool:
            tool.ended()
            said = tool.said()
        expect(re.search(r"^calltap: [0-9]+ forked child(ren)? ended before (it|they) (was|were) set up", said, re.M), f"it said {said!r}")
        expect(not re.search(r"process [0-9]+ ended", said), f"it said {said!r}")
        is_clean(program.pid)
        program.end()


SINGLE = {
    "attach-workers-storms": storms,
    "attach-workers-short-lived": short_lived,
    "end-gives-back": given_back,
    "attach-workers-vfork": lodges,
    "attach-workers": released(calls=True),
    "attach-workers-adaptive": released("--time", "adaptive", calls=True),
    "attach-workers-silent": released("-l", "on_signal", calls=False),
    "attach-workers-held": held,
    "attach-workers-progress": progress,
    "progress-beside-an-editor": edits,
    "end-left-behind": left_behind,
}

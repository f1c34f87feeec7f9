"""An agent that lies to `calltap attach` (test/prog/liar.c): the tool ends in time, with a sentence, and nobody stays stopped."""
import glob
import os
import re
import signal
import subprocess
import time

import builds
from endings import finish
from harness import Process, copied, expect, until
from steer import own_place
from steering import Program, Tool

UNTRACED = "could not be patched"
MOVING = "loads and unloads libraries all the time"
IDLE = "the agent stays in process"
NONSENSE = "sent nonsense on the control socket"
NOTHING = "nothing was recorded"
# manner: (what the tool says, seconds it may take, its exit status)
SHORT = {
    "entry-fails": ("the agent does not start", 5, 2), "entry-exits": ("has ended", 5, 2),
    "greeted-garbage": (NONSENSE, 5, 2), "plan-garbage": (NONSENSE, 5, 2), "plan-short": (NONSENSE, 5, 2),
    "apply-garbage": (UNTRACED, 5, 2), "apply-short": (UNTRACED, 5, 2), "apply-hangup": (UNTRACED, 5, 2),
    "apply-fault": (UNTRACED, 5, 2), "apply-exits": ("has ended", 5, 2), "apply-again": (MOVING, 10, 2),
    "apply-stale": (MOVING, 20, 2), "apply-odd": (UNTRACED, 5, 2), "apply-talks": (UNTRACED, 15, 2),
    "apply-stops": (UNTRACED, 15, 2), "leftovers-regions": ("", 15, 0), "detach-garbage": (NONSENSE, 5, 1),
    "release-talks": (IDLE, 15, 1), "release-garbage": (IDLE, 5, 1), "release-exits": ("", 5, 0),
    "release-odd": (IDLE, 10, 1), "release-stops": (IDLE, 15, 1), "unwinders-garbage": (IDLE, 5, 1),
    "heads-garbage": (IDLE, 5, 1), "unwinders-short": (IDLE, 5, 1), "unwinders-odd": ("", 5, 0), "unwinders-exits": ("", 5, 0),
    "heads-odd": ("", 5, 0), "heads-exits": ("", 5, 0),
}
LASTING = {
    "entry-stops": ("has not come back", 40, 2), "call-never": (NOTHING, 20, 2), "hello-silent": (NOTHING, 20, 2),
    "greeted-silent": ("has said nothing for", 50, 2), "plan-stops": ("has said nothing for", 50, 2),
    "apply-silent": (UNTRACED, 20, 2), "release-silent": (IDLE, 20, 1), "unwinders-silent": (IDLE, 20, 1),
    "heads-silent": (IDLE, 20, 1),
    "detach-silent": ("does not answer", 40, 1), "detach-stops": ("does not answer", 40, 1),
}


def fake_tool(case):
    """A copy of the tool that has a liar for its agent."""
    source = os.path.join(builds.PROGRAMS, "liar.c")
    for folder in ("cmd", "agent"):
        os.mkdir(os.path.join(case.folder, folder))
    tool = copied(case.tool, os.path.join(case.folder, "cmd"))
    library = os.path.join(case.folder, "agent", "libcalltap-agent.so")
    include = os.path.join(os.path.dirname(os.path.dirname(builds.PROGRAMS)), "include")
    done = case.run([*case.cpu.compiler("gcc"), "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-pthread", f"-I{include}", source,
                     "-o", library])
    expect(done.status == 0, done.stderr)
    return tool


class Host(Program):
    """The program that the liar comes into."""

    def __init__(self, case, manner):
        self.start(case, ["env", f"LIAR={manner}", case.program("attachee.c"), "3"])


def threads_held(pid):
    """Threads that somebody traces, or that are stopped as by a tracer."""
    held = []
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        try:
            with open(path, encoding="utf-8") as status:
                text = status.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if re.search(r"^State:\s+t", text, re.M) or not re.search(r"^TracerPid:\s+0$", text, re.M):
            held.append(path)
    return held


def liar(manner, said, seconds, status):
    def test(case):
        case.need_native("attaching")
        tool = fake_tool(case)
        with Host(case, manner) as program:
            began = time.monotonic()
            done = subprocess.run([tool, "attach", "--duration", "300ms", "-o", case.trace_path, str(program.pid)],
                                  env=own_place(case), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, timeout=120, check=False)
            took = time.monotonic() - began
            held = threads_held(program.pid)
            expect(not held, f"threads are held after the tool has ended: {held}")
            expect(said in done.stderr, f"not a word about it: {done.stderr!r}")
            expect(done.returncode == status, f"exit status {done.returncode}, not {status}: {done.stderr!r}")
            expect(took < 2 * seconds, f"the tool took {took:.1f} s")
            if manner.endswith("-exits"):
                expect(finish(program.process) == 7, "the program ended otherwise")
            elif manner.endswith("-stops"):
                os.kill(program.pid, signal.SIGCONT)  # the lying agent stopped its own process
            else:
                program.end()
    return test


def beside_another(case):
    """A tool that ends does not take a process to which another one attaches just now, of the same program, for a child of
    its own that was forked meanwhile."""
    case.need_native("attaching")
    liars = fake_tool(case)
    with Program(case, "3") as first, Tool(case, first, says=()) as tool, Host(case, "entry-silent") as second:
        with Process([liars, "attach", "-o", os.path.join(case.folder, "other"), str(second.pid)], env=own_place(case),
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
            until("the borrowed thread to be in the liar", lambda: "libcalltap-agent" in mapped(second.pid))
            tool.detach()
            expect("forked process" not in tool.said(), f"the first tool said {tool.said()!r}")
            expect(other.poll() is None, "the other tool was disturbed")
            other.kill()
        first.end()


def mapped(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return file.read()


SINGLE = {f"attach-liar-{manner}": liar(manner, *wanted) for manner, wanted in SHORT.items()}
SINGLE["attach-beside-another"] = beside_another
LONG = {f"attach-liar-{manner}": liar(manner, *wanted) for manner, wanted in LASTING.items()}

"""While nothing happens the agent's thread does nothing: a program that sleeps costs what it costs untraced."""
import os
import re
import time

from harness import expect, until
from steering import Program, Tool

SETTLED = 1.5  # seconds: the agent's thread looks around ever more rarely, down to once a second
WATCHED = 2.0  # seconds
# Limits: a thread that turns in a loop exceeds one of them many times, on a busy machine, too.
MAX_TICKS = 0.1 * os.sysconf("SC_CLK_TCK")  # ticks of CPU time
MAX_SWITCHES = 50  # times that it slept: it is due to look around twice


class Sleeper(Program):
    """test/prog/sleeper.c, alone or under record."""

    def __init__(self, case, options=None):
        command = [case.program("sleeper.c")]
        self.start(case, command if options is None else case.record_command(command, options))


def agent_thread(pid):
    """The folder in /proc of the thread that is the agent's; None: there is none."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        place = f"/proc/{pid}/task/{thread}"
        with open(f"{place}/comm", encoding="utf-8") as name:
            if name.read() == "calltap\n":
                return place
    return None


def spent(place):
    """(ticks of CPU time, times that it slept, times that it was made to wait) of a thread, since it began."""
    with open(f"{place}/stat", encoding="utf-8") as stat:
        words = stat.read().rpartition(")")[2].split()
    with open(f"{place}/status", encoding="utf-8") as status:
        text = status.read()
    slept, waited = (int(re.search(rf"^{kind}_ctxt_switches:\s+(\d+)", text, re.M)[1]) for kind in ("voluntary", "nonvoluntary"))
    return int(words[11]) + int(words[12]), slept, waited


def check_idle(pid):
    place = until("a thread of the agent's", lambda: agent_thread(pid))
    time.sleep(SETTLED)
    before = spent(place)
    time.sleep(WATCHED)
    ticks, slept, waited = (now - then for now, then in zip(spent(place), before))
    expect(ticks <= MAX_TICKS and slept <= MAX_SWITCHES and waited <= MAX_SWITCHES,
           f"the agent's thread of a program that sleeps used {ticks} ticks of CPU time in {WATCHED} s; it slept {slept} times, "
           f"and had to wait {waited} times")


def recorded(*options):
    def test(case):
        case.need_native("looking at a thread of the program's")
        with Sleeper(case, options) as program:
            check_idle(program.pid)
            program.end()
    return test


def attached(*options):
    def test(case):
        case.need_native("attaching")
        with Sleeper(case) as program:
            with Tool(case, program, *options) as tool:
                check_idle(program.pid)
                tool.detach()
            program.end()
    return test


def let_go_and_back(case):
    """A second attachment finds the agent mapped, and starts its thread anew."""
    case.need_native("attaching")
    with Sleeper(case) as program:
        for _ in range(2):
            with Tool(case, program) as tool:
                tool.detach()
        with Tool(case, program) as tool:
            check_idle(program.pid)
            tool.detach()
        program.end()


def nothing_to_record(case):
    """A program that calls nothing: that is said, but where no call is asked for."""
    case.need_native("attaching")
    with Sleeper(case) as program:
        for tracer, says in (("function_graph", True), ("nop", False)):
            done = case.run([case.tool, "attach", "-p", tracer, "--duration", "100ms", "-o", case.trace_path, str(program.pid)])
            expect(done.status == 0, f"status {done.status}: {done.stderr!r}")
            expect(("nothing was recorded" in done.stderr) == says, f"{tracer}: it said {done.stderr!r}")
        program.end()


SINGLE = {
    "idle-attached-told": nothing_to_record,
    "idle-recorded": recorded(),
    "idle-recorded-function": recorded("-p", "function"),
    "idle-recorded-overwrite": recorded("--mode", "overwrite"),
    "idle-attached": attached(),
    "idle-attached-nop": attached("-p", "nop"),
    "idle-attached-again": let_go_and_back,
}

"""Many threads at once: each has a buffer at its first call, and the tool tells of calls without a buffer."""
import os
import signal

from harness import expect, until
from instances import Instance
from steering import Program, Tool

CALLS = 20  # calls of each thread of throng.c


class Throng(Program):
    """test/prog/throng.c"""

    def __init__(self, case, threads, later=0, busy=False):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("throng.c"), str(threads), str(later)] + ["busy"] * busy)

    def call(self, number=signal.SIGUSR1):
        """A crowd calls; until all of it have."""
        before = self.printed().count("called")
        os.kill(self.pid, number)
        until("the crowd's calls", lambda: self.printed().count("called") > before)

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        until("the program's end", lambda: "members" in self.printed())


def whole(trace):
    """Threads all of whose calls are there."""
    found = 0
    for thread in trace.threads.values():
        found += sum(count for function, count in thread.calls().items() if trace.name(function) == "step") == CALLS
    return found


def untraced(trace):
    return int(trace.info.get("untraced", "0").split()[0])


def all_there(trace, threads):
    expect(not untraced(trace), f"{untraced(trace)} calls were not recorded")
    expect(whole(trace) == threads, f"all calls of {whole(trace)} threads of {threads}")


def all_at_once(threads, *options, later=0):
    """All threads that there are at the attach call at the same time, then new ones, as many as the reserve is for."""
    def test(case):
        case.need_native("attaching")
        with Throng(case, threads, later) as program:
            with Tool(case, program, *options, lossless=False) as tool:
                program.call()
                if later:
                    program.call(signal.SIGUSR2)
                tool.detach()
            program.end()
        all_there(case.trace(), threads + later)
    return test


def in_an_instance(case):
    """A further instance has buffers for all threads from the start, too."""
    case.need_native("attaching")
    with Throng(case, 200) as program:
        with Tool(case, program, "-l", "main", lossless=False) as tool:
            with Instance(case, program, "second", "-l", "step", "--mode", "drop") as second:
                program.call()
                second.end()
                trace = second.trace()
            tool.detach()
        program.end()
    all_there(trace, 200)


def held_back(process):
    """The kernel may give each session (setsid) as much of the CPUs as the next one: here a tool gets less."""
    try:
        with open(f"/proc/{process.pid}/autogroup", "w", encoding="ascii") as nice:
            nice.write("19")
    except OSError:
        pass  # then all threads are equal, and the crowd's are many


def answers(case):
    """The session answers requests, also a detach, while a crowd fills its buffers faster than they are emptied."""
    case.need_native("attaching")
    with Throng(case, 100, busy=True) as program:
        with Tool(case, program, "-b", "512K", "--mode", "drop", lossless=False) as tool:
            held_back(tool.process)
            program.call()
            for _ in range(3):
                done = case.run([case.tool, "status", str(program.pid)])
                expect(done.status == 0, f"calltap status: {done.stderr!r}")
            tool.detach()
        program.end()
    trace = case.trace()
    expect(any(thread.lost for thread in trace.threads.values()), "nothing was lost: the crowd was not faster")


def counted_in_an_instance(case):
    """A crowd that starts at once, larger than an instance's reserve: each call is recorded or counted."""
    case.need_native("attaching")
    crowd = 600
    with Throng(case, 16, crowd) as program:
        with Tool(case, program, "-l", "main", lossless=False) as tool:
            with Instance(case, program, "second", "-l", "step", "--mode", "drop") as second:
                program.call(signal.SIGUSR2)
                second.end()
                trace = second.trace()
                said = second.said()
            tool.detach()
        program.end()
    recorded = trace.called().get("step", 0)
    lost = sum(thread.lost for thread in trace.threads.values())
    expect(not lost, f"{lost} records were lost: the buffers were to be large enough")
    expect(untraced(trace), f"no call went unrecorded of {crowd} threads: the crowd was to be too large")
    expect(recorded + untraced(trace) == crowd * CALLS,
           f"{recorded} calls were recorded and {untraced(trace)} counted of {crowd * CALLS}")
    expect(f"{untraced(trace)} call" in said and "not recorded" in said, f"the instance's tool said {said!r}")


class Passing(Program):
    """test/prog/passing.c"""

    def __init__(self, case, threads, calls):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("passing.c"), str(threads), str(calls)])

    def buffers(self):
        """Bytes of address space that buffers take."""
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps:
            ranges = [line.split()[0].split("-") for line in maps if "calltap-arena" in line]
        return sum(int(high, 16) - int(low, 16) for low, high in ranges)


def one_after_the_other(mode, threads):
    """Threads come and go faster than the tool takes what they record: the buffers of those that have ended are taken over,
    and do not become more and more.  Each call is recorded or counted."""
    def test(case):
        case.need_native("attaching")
        with Passing(case, threads, 20000) as program:
            with Tool(case, program, "-b", "4M", "--mode", mode, lossless=mode == "block") as tool:
                os.kill(program.pid, signal.SIGUSR1)
                until("all threads", lambda: "called" in program.printed(), 120)
                taken = program.buffers()
                tool.detach()
            called = int(program.printed().split()[-1])
            os.kill(program.pid, signal.SIGTERM)
        expect(taken <= 64 * (4 << 20), f"{taken >> 20} MiB of buffers")
        trace = case.trace()
        recorded, lost = trace.called().get("step", 0), sum(thread.lost for thread in trace.threads.values())
        expect(recorded == called if mode == "block" else recorded <= called <= recorded + lost + untraced(trace),
               f"{recorded} calls of {called} were recorded, {lost} records lost, {untraced(trace)} calls not recorded")
    return test


class Altered(Program):
    """test/prog/altered.c"""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("altered.c")])


def names_what_was_altered(case):
    """A function whose bytes are not the file's is left alone, and named."""
    case.need_native("attaching")
    with Altered(case) as program:
        with Tool(case, program) as tool:
            tool.detach()
            expect("1 function was left alone: its bytes were not what the file says: altered (altered)" in tool.said(),
                   f"it said {tool.said()!r}")


SINGLE = {
    "attach-altered": names_what_was_altered,
    "crowds-answers": answers,
    "crowds-100": all_at_once(100, later=40),
    "crowds-2000": all_at_once(2000),
    "crowds-overwrite": all_at_once(1000, "--mode", "overwrite", "-b", "64K"),
    "crowds-instance": in_an_instance,
    "crowds-instance-counted": counted_in_an_instance,
    "crowds-one-by-one": one_after_the_other("drop", 1000),
    "crowds-one-by-one-block": one_after_the_other("block", 300),
}

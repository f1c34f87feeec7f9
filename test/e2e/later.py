"""Functions that are chosen while a program runs, and that no choice before had: their heads are led in a stop of all
threads.  Stock functions above all; compiled sites that a recording left out come the same way."""
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import time

from endings import finish
from harness import Process, expect, stop, until
from steer import calltap
from steering import Program, Session, Tool, left_alone
from workers import children


def names(case, path=None):
    """Functions that the trace has calls of."""
    rows = json.loads(calltap(case, "report", "-i", path or case.trace_path, "--json"))
    return {row["symbol"] for row in rows["rows"]}


def grows(tool, more=1000):
    tool.records(more)


def attached(case):
    """An attach that knows of one function: another one, all of them, a library's; and the program is as it was."""
    case.need_native("attaching")
    with Program(case, sites=False) as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_1", says=()) as tool:
            grows(tool)
            for words in (["trace=leaf_2"], ["trace=*"], ["trace=leaf_*", "trace+=libc.so*:*"], ["trace=leaf_3"]):
                calltap(case, "set", program.pid, *words)
                grows(tool)
            said = calltap(case, "set", program.pid, "trace=nowhere_*", status=1)
            expect("no function that can be traced matches 'nowhere_*'" in said, said)
            grows(tool)
            tool.detach()
    found = names(case)
    expect({"leaf_1", "leaf_2", "leaf_3"} <= found, f"functions: {sorted(found)}")
    expect(found & {"nanosleep", "clock_nanosleep", "__clock_nanosleep", "poll", "read", "__read", "__poll"},
           f"nothing of libc: {sorted(found)}")


class Told:
    """A program under record that does what it is told by lines, and says its pid in the first of its own."""

    def __init__(self, case, program, *options):
        self.case = case
        with contextlib.ExitStack() as stack:
            self.process = Process(case.record_command([program], options), cwd=case.folder, text=True,
                                   bufsize=1, env=case.environment(False), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
            stack.callback(stop, self.process)
            self.pid = int(self.process.stdout.readline().split()[1])
            self.ending = stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ending.close()


class Unheard(Told):
    """test/prog/unheard.c: a program whose children make no traced call before they are told to."""

    def __init__(self, case, *options):
        self.calls = 0
        super().__init__(case, case.program("unheard.c", flags=["-pthread"]), *options)

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        if command != "end":
            before, self.calls = self.calls, int(self.process.stdout.readline())
            return self.calls - before
        printed, said = self.process.communicate(timeout=60)
        expect(printed == "all was well\n", f"the program printed {printed!r}: {said}")
        expect(self.process.returncode in (0, -signal.SIGKILL), f"exit status {self.process.returncode}: {said}")
        return said

    def set(self, *words):
        calltap(self.case, "set", self.pid, *words)


# How leaf() is off while children are forked, and on after that.
OFF_AND_ON = {
    "tracing": ((), ["tracing=off"], ["tracing=on"]),
    "filter": (("-l", "main"), [], ["trace+=leaf"]),
    "nothing": ((), ["tracer=nop"], ["tracer=function_graph"]),
    "calls": (("-p", "function"), ["notrace=leaf"], ["notrace="]),
    "overwrite": (("--mode", "overwrite"), ["tracing=off"], ["tracing=on"]),
}


def unheard(name):
    """Children that are forked while a function is off have its calls recorded as soon as it is on."""
    def test(case):
        case.need_native("attaching")
        case.need_feature("ptrace")
        options, off, on = OFF_AND_ON[name]
        case.as_it_is = True
        recorded = 0 if "-l" in options else 1
        with Unheard(case, *options) as program:
            for _ in range(3):
                if off:
                    program.set(*off)
                program.tell("fork")
                program.tell("fork")
                program.set(*on)
                recorded += program.tell("call")
                if not off:
                    break
            expect(recorded > 1 and program.calls > 4, f"{program.calls} calls")
            if "overwrite" in options:
                calltap(case, "snapshot", program.pid, "-o", case.trace_path)
            said = program.tell("end")
        called = case.trace().called()
        expect(called.get("leaf") == recorded, f"recorded {called}, made {recorded} while leaf() was on: {said}")
    return test


def unheard_named(case):
    """A child that has made no traced call is not the remains of a killed tool: its parent is named."""
    case.need_native("attaching")
    case.need_feature("ptrace")
    case.as_it_is = True
    with Unheard(case, "-l", "leaf") as program:
        program.tell("fork")
        child = children(program.pid)[0]
        for verb in ("status", "detach"):
            said = calltap(case, verb, child, status=1)
            expect(f"was forked from process {program.pid}, which is traced" in said, f"{verb} says {said!r}")
        program.tell("call")
        said = calltap(case, "status", child)
        expect("tool:" in said, f"status says {said!r}")
        program.tell("end")


def unheard_instance(case):
    """A further instance has the calls of children that the session itself has not heard of."""
    case.need_native("attaching")
    case.need_feature("ptrace")
    path = os.path.join(case.folder, "further")
    with Unheard(case, "-l", "main") as program:
        program.tell("fork")
        with Process([case.tool, "attach", "--instance", "further", "-l", "leaf", "-o", path, str(program.pid)], env=case.environment(False),
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tool:
            until("the instance", lambda: "further" in calltap(case, "status", program.pid))
            until("its children", lambda: "3 processes" in calltap(case, "status", program.pid))
            made = program.tell("call")
            program.tell("end")
            said = tool.communicate(timeout=30)[0]
    rows = {row["symbol"]: row["calls"] for row in json.loads(calltap(case, "report", "-i", path, "--json"))["rows"]}
    expect(rows == {"leaf": made}, f"{rows}, made {made}: {said}")


def unheard_and(number):
    """The tool is stopped, or killed, at some moment while it has children call in: they do what they are told."""
    def test(case):
        case.need_native("attaching")
        case.need_feature("ptrace")
        case.as_it_is = True
        with Unheard(case, "-l", "main") as program:
            # The moment of a kill is another one in each run.
            delays = [0, 0.002, 0.004, 0.008, 0.016, 0.03, 0.06] if number == signal.SIGSTOP else [random.uniform(0, 0.03)]
            for delay in delays:
                program.tell("fork")
                setter = Process([case.tool, "set", str(program.pid), "trace=leaf"], cwd=case.folder, env=case.environment(False),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(delay)
                os.kill(program.process.pid, number)
                expect(program.tell("call") > 0, "no calls")
                if number == signal.SIGSTOP:
                    os.kill(program.process.pid, signal.SIGCONT)
                finish(setter)
            program.tell("call")
            program.tell("end")
    return test


def unheard_told(case):
    """A child that is stopped while a function is switched on has no calls of it recorded: that is told, and no failure."""
    case.need_native("attaching")
    case.need_feature("ptrace")
    case.as_it_is = True
    with Unheard(case, "-l", "main") as program:
        program.tell("fork")
        child = children(program.pid)[0]
        os.kill(child, signal.SIGSTOP)
        try:
            program.set("trace=leaf")
        finally:
            os.kill(child, signal.SIGCONT)
        made = program.tell("call")
        said = program.tell("end")
        expect(program.process.returncode == 0, f"exit status {program.process.returncode}")
    expect(f"1 forked child did not learn of a change of what is recorded, which came after the fork: process {child}" in said, said)
    trace = case.trace()
    expect(trace.called().get("leaf") == made - 1, f"{trace.called()}, made {made}")
    expect(trace.info["unheard"].startswith(f"1 forked child: process {child}"), f"{trace.info}")


class Storm(Told):
    """test/prog/forkstorm.c: it forks without pause while functions are switched on, and says how often each process has
    called them after that."""

    def __init__(self, case, sites, *options):
        self.calls = {}
        super().__init__(case, case.program("forkstorm.c", sites=sites, flags=["-pthread"]), *options)

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        return self.process.stdout.readline().strip()

    def round(self, leaf, *changes):
        """Children are forked while these changes are made; then each process calls the leaf.  The number of processes."""
        self.tell("storm")
        for words in changes:
            calltap(self.case, "set", self.pid, *words)
        self.tell("calm")
        line, count = self.tell(f"call {leaf}"), 0
        while line != "called":
            pid, calls = map(int, line.split())
            self.calls[pid, f"leaf_{leaf}"] = calls
            line, count = self.process.stdout.readline().strip(), count + 1
        return count

    def end(self):
        self.process.stdin.write("end\n")
        printed, said = self.process.communicate(timeout=60)
        expect(printed == "all was well\n", f"the program printed {printed!r}: {said}")
        expect(self.process.returncode == 0, f"exit status {self.process.returncode}: {said}")
        return said


def calls_by_process(case):
    """Calls of leaves in the trace, by process and function."""
    found = collections.Counter()
    for line in map(json.loads, case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout.splitlines()):
        if line["ev"] in ("enter", "call") and line["fn"].startswith("leaf_"):
            found[line["pid"], line["fn"]] += 1
    return found


def storm(*options, changes, calls=8, sites=True):
    """Children that are forked in the midst of a change have all calls recorded that come after the change."""
    def test(case):
        case.need_native("attaching")
        case.need_feature("ptrace")
        case.as_it_is = True
        with Storm(case, sites, "-b", "16K", *options) as program:
            children = sum(program.round(leaf, *changes(f"leaf_{leaf}")) - 1 for leaf in range(calls))
            said = program.end()
        expect(children > 2 * calls, f"only {children} children were forked")
        expect("did not learn" not in said, said)
        found = calls_by_process(case)
        wrong = {key: (found[key], made) for key, made in program.calls.items() if found[key] != made}
        expect(not wrong and found.keys() <= program.calls.keys(),
               f"of {len(program.calls)} processes' calls {len(wrong)} are wrong (pid, function: recorded, made): {wrong}: {said}")
    return test


class Recorded(Program):
    """attachee.c under record, by its stock functions or its sites."""

    def __init__(self, case, sites, *options):  # pylint: disable=super-init-not-called
        stock = [] if sites else ["--stock", "auto"]
        self.start(case, case.record_command([case.program("attachee.c", sites=sites)], [*stock, *options]))

    def __enter__(self):
        super().__enter__()
        self.session = Session(self.case.environment(False), self.pid)
        until("sites", lambda: self.session.status()["sites"])
        return self

    def records(self, more=1000):
        wanted = self.session.status()["records"] + more
        until(f"{more} more records", lambda: self.session.status()["records"] >= wanted)


def recorded(sites):
    """A recording from the start, which left functions out."""
    def test(case):
        case.need_native("attaching")
        with Recorded(case, sites, "-l", "leaf_1", "--mode", "block") as program:
            program.records()
            calltap(case, "set", program.pid, "trace=leaf_*")
            program.records()
            calltap(case, "set", program.pid, "trace=*")
            program.records()
            program.end()
        found = names(case)
        expect({"leaf_1", "leaf_2", "leaf_3"} <= found and len(found) > 8, f"functions: {sorted(found)}")
    return test


def instance(case):
    """A further instance wants functions that the first one left out, and a library that it did not name."""
    case.need_native("attaching")
    other = os.path.join(case.folder, "two.data")
    with Program(case, sites=False) as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_1", says=()) as tool:
            grows(tool)
            done = case.run([case.tool, "attach", "--instance", "two", "-o", other, "-l", "leaf_2", "-l", "libc.so*:*",
                             "--mode", "drop", "--duration", "300ms", str(program.pid)])
            expect(done.status == 0, f"the second instance: {done.status} {done.stderr!r}")
            grows(tool)
            tool.detach()
    found = names(case)
    expect(found == {"leaf_1"}, f"the first instance has {sorted(found)}")
    found = names(case, other)
    expect("leaf_2" in found and "leaf_1" not in found and len(found) > 2, f"the second instance has {sorted(found)}")


def several(case):
    """Two processes of one session."""
    case.need_native("attaching")
    with Program(case, sites=False) as first, Program(case, sites=False) as second:
        with left_alone(second), left_alone(first):
            with Tool(case, first, "-l", "leaf_1", str(second.pid), says=()) as tool:
                grows(tool)
                calltap(case, "set", first.pid, "trace=leaf_*")
                grows(tool)
                calltap(case, "set", first.pid, "trace=*")
                grows(tool)
                tool.detach()
    found = names(case)
    expect({"leaf_1", "leaf_2", "leaf_3"} <= found, f"functions: {sorted(found)}")


def killed(case):
    """The tool is killed while functions are being added: the program runs on, and can be attached to again."""
    case.need_native("attaching")
    with Program(case, sites=False) as program:
        for delay in (0, 0.002, 0.005, 0.01, 0.02):
            with Tool(case, program, "-l", "leaf_1", says=()) as tool:
                setter = Process([case.tool, "set", str(program.pid), "trace=*"], cwd=case.folder,
                                 env=case.environment(False), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
                time.sleep(delay)
                os.kill(tool.process.pid, signal.SIGKILL)
                finish(tool.process)
                finish(setter)
        with Tool(case, program, says=()) as tool:
            grows(tool)
            tool.detach()
        program.end()


CASES = {}
SINGLE = {
    "later-attached": attached,
    "later-recorded": recorded(True),
    "later-recorded-stock": recorded(False),
    "later-instance": instance,
    "later-several": several,
    "later-killed": killed,
    **{f"later-unheard-{name}": unheard(name) for name in OFF_AND_ON},
    "later-forked-named": unheard_named,
    "later-unheard-instance": unheard_instance,
    "later-unheard-told": unheard_told,
    "later-unheard-stopped": unheard_and(signal.SIGSTOP),
    "later-unheard-killed": unheard_and(signal.SIGKILL),
    # Functions that had no stub: plans and a stop of all threads.
    "later-forked-meanwhile": storm("-l", "tick", changes=lambda leaf: ([f"trace+={leaf}"],)),
    # The same by heads and blocks.
    "later-forked-meanwhile-stock": storm("-l", "tick", "--stock", "auto", changes=lambda leaf: ([f"trace+={leaf}"],), calls=4, sites=False),
    # Another batch, and a choice that is taken back and made again.
    "later-forked-meanwhile-twice": storm("-l", "tick", changes=lambda leaf: ([f"trace+={leaf}"], [f"notrace={leaf}"], ["notrace="]), calls=4),
    # Stubs of another kind for functions that have some.
    "later-forked-meanwhile-kinds": storm("-l", "tick", "-l", "leaf_*", changes=lambda leaf: (["max-depth=3"], ["max-depth=", "tracer=function"], ["tracer=function_graph"]), calls=4),
    "later-forked-meanwhile-off-and-on": storm("-l", "tick", "-l", "leaf_*", changes=lambda leaf: (["tracing=off"], ["tracing=on"]), calls=4),
}

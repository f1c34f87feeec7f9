"""trace-cmd as Debian has it, unmodified, in `calltap shell`: what it has recorded is what the program did."""
import collections
import os
import re
import shutil

from harness import Process, Skip, expect, stop, until
from steer import own_place
from tracefs import native
from shells import shell
from watch import start, steps_of, watched

THREADS, TURNS = 3, 400
LINE = re.compile(r" *watched-(\d+) +\[(\d+)\] +(\d+\.\d+): (funcgraph_entry|funcgraph_exit|function): +(.*)")
ENTRY = re.compile(r"(?:[+!#*@$] )? *(?:[\d.]+ us)? *[+!#*@$]? *\| +(\w+)\(\)(;| \{)")
TURNED = TURNS - 1  # the last turn waits
CALLS = {"step": steps_of(THREADS, TURNED), "rare": THREADS * 40, "turn": THREADS * TURNED, "doze": THREADS * TURNED}


def report(case, path, *options):
    done = case.run(["trace-cmd", "report", *options, "-i", path])
    expect(done.status == 0, f"trace-cmd report: {done.status}, {done.stderr[-500:]}")
    return done.stdout.splitlines()


class Turned:
    """A program that has taken all turns but the last one of each thread, and waits."""

    def __init__(self, case):
        if not shutil.which("trace-cmd"):
            raise Skip("trace-cmd is not installed")
        own_place(case)
        self.case, self.waits = case, os.path.join(case.folder, "waits")

    def record(self, tracer, script):
        """Run it with this tracer from its first call on, and the script once all calls are in the buffer."""
        with open(self.waits, "w", encoding="ascii"):
            program = [*watched(self.case, THREADS, TURNS, 500), self.waits]
        count = "awk '/^entries:/ { sum += $2 } END { print sum }' /sys/kernel/tracing/per_cpu/cpu*/stats"
        wait = f"last=0; until [ $last -gt 0 ] && [ $last = $({count}) ]; do last=$({count}); sleep 0.5; done"
        return shell(self.case, "-p", tracer, "-b", "16M", "-c", f"{wait}; {script}; rm {self.waits}", "--", *program)


def counted(lines):
    """{function: calls} of function_graph's lines; that entries and exits fit is seen to."""
    calls, stacks, before = collections.Counter(), collections.defaultdict(list), None
    for line in lines:
        match = LINE.match(line)
        if not match:
            expect("cpus=" in line, f"{line!r}")
            continue
        expect(not before or float(match[3]) >= float(before[3]), f"times go back: from {before and before[0]!r} to {line!r}")
        before = match
        entry = ENTRY.match(match[5])
        if match[4] == "funcgraph_exit":
            expect(stacks[match[1]] and match[5].rstrip().endswith("}"), f"{line!r} in {stacks[match[1]]}")
            stacks[match[1]].pop()
            continue
        expect(entry, f"{line!r}")
        calls[entry[1]] += 1
        if entry[2] == " {":
            stacks[match[1]].append(entry[1])
    return calls, stacks


def extract(case):
    """What the buffer holds: each call, with its name, in the order of time."""
    program = Turned(case)
    path = os.path.join(case.folder, "graph.dat")
    program.record("function_graph", f"trace-cmd extract -o {path} > /dev/null")
    calls, stacks = counted(report(case, path))
    expect({name: calls[name] for name in CALLS} == CALLS, f"{dict(calls)}, not {CALLS}")
    expect(calls["main"] == 1 and calls["work"] == THREADS, f"{dict(calls)}")
    expect(all(set(stack) <= {"main", "work"} for stack in stacks.values()), f"open calls: {dict(stacks)}")
    path = os.path.join(case.folder, "function.dat")
    program.record("function", f"trace-cmd extract -o {path} > /dev/null")
    lines = [LINE.match(line) for line in report(case, path, "-O", "parent")[1:]]
    calls = collections.Counter(line[5].split()[0] for line in lines)
    expect({name: calls[name] for name in CALLS} == CALLS, f"{dict(calls)}, not {CALLS}")
    callers = {(line[5].split()[0], line[5].split()[-1]) for line in lines if "<--" in line[5]}
    expect({("step", "turn"), ("step", "rare"), ("rare", "work"), ("turn", "work")} <= callers, f"{callers}")


RECORD = """trace-cmd record -p {tracer} {options} -o {path} sh -c 'echo begin > /sys/kernel/tracing/trace_marker; sleep 1' > {path}.said 2>&1 ||
{{ cat {path}.said; exit 9; }}"""


def record(case):
    """While the program runs: by splice() and by read(), with filters, and nothing of the rest is lost when it stops."""
    own_place(case)
    if not shutil.which("trace-cmd"):
        raise Skip("trace-cmd is not installed")
    looking = os.path.join(case.folder, "looking")
    with open(looking, "w", encoding="ascii"):
        output, process = start(case, [*watched(case, 2, 0, 300), looking])
    try:
        until("the program", lambda: "running" in open(output, encoding="ascii").read())  # pylint: disable=consider-using-with
        for number, (tracer, options) in enumerate((("function_graph", ""), ("function_graph", "--nosplice"), ("function", ""),
                                                    ("function_graph", "-l step -l turn"))):
            path = os.path.join(case.folder, f"trace{number}.dat")
            shell(case, process.pid, "sh", "-c", RECORD.format(tracer=tracer, options=options, path=path))
            lines = report(case, path)
            marks = [line for line in lines if "print: " in line and line.rstrip().endswith("begin")]
            lines = [line for line in lines if "print: " not in line]
            expect(len(marks) == 1 and len(lines) > 500, f"{tracer} {options}: {len(lines)} lines, {marks}")
            expect(not any("EVENTS DROPPED" in line for line in lines), "events were dropped")
            times = [float(match[3]) for match in map(LINE.match, lines) if match]
            expect(times[-1] - times[0] > 0.9, f"the record is of {times[-1] - times[0]} s")
            if "-l" in options:
                names = {match[1] for match in re.finditer(r"(\w+)\(\)", "\n".join(lines))}
                expect(names == {"step", "turn"}, f"{names}")
        os.unlink(looking)
        expect(process.wait(60) == 0, f"the program ended with {process.returncode}")
    finally:
        stop(process)


def ends(case):
    """The program ends before trace-cmd does: all that it did is in the file."""
    if not shutil.which("trace-cmd"):
        raise Skip("trace-cmd is not installed")
    own_place(case)
    waits, path = os.path.join(case.folder, "waits"), os.path.join(case.folder, "ends.dat")
    with open(waits, "w", encoding="ascii"):
        program = [*watched(case, THREADS, TURNS, 500), waits]
    shell(case, "-l", "step", "-c", RECORD.format(tracer="function_graph", options="", path=path).replace("sleep 1", f"rm {waits}; sleep 2"),
          "--", *program)
    lines = [line for line in report(case, path) if "step" in line]
    # The last turn, which is no tenth one, and what came of the others.
    expect(len(lines) >= THREADS * 5, f"{len(lines)} calls of step()")


SINGLE = {"shell-trace-cmd-ends": native(ends), "shell-trace-cmd-extract": native(extract), "shell-trace-cmd-record": native(record)}

"""per_cpu/ and events/ of `calltap mount`: sub-buffers as the kernel's ring buffer has them, for tools that read these."""
import collections
import errno
import itertools
import os
import re
import select
import struct
import subprocess
import time

from harness import Process, Skip, expect, until
from steer import own_place
from tracefs import CALL_LINE, Tree, mounted, native

PAGE, HEAD = 4096, 16
PADDING, EXTEND, SMALL_MAX = 29, 30, 28
MISSED, MISSED_KNOWN = 1 << 31, 1 << 30
FUNCTION, PRINT, EXIT, ENTRY, DATA, REPEATS = 1, 5, 10, 11, 18, 19
Event = collections.namedtuple("Event", "cpu ns kind tid fields")
LAYOUTS = {FUNCTION: "<QQ", ENTRY: "<Qi", EXIT: "<QiIQQ"}


def cpus(tree):
    return sorted(os.listdir(tree.path("per_cpu")))


def decode(page, cpu):
    """(events, how many are missing before them, None = nobody knows) of a sub-buffer."""
    ns, commit = struct.unpack_from("<QQ", page)
    size, at, events = commit & 0xfffff, HEAD, []
    expect(size <= len(page) - HEAD, f"{size} bytes are used")
    missed = 0
    if commit & MISSED:
        missed = struct.unpack_from("<Q", page, HEAD + size)[0] if commit & MISSED_KNOWN else None
    elif any(page[HEAD + size:]):
        expect(False, "there is something behind the data")
    while at < HEAD + size:
        word, = struct.unpack_from("<I", page, at)
        kind, delta = word & 31, word >> 5
        at += 4
        if kind == EXTEND:
            ns += delta | struct.unpack_from("<I", page, at)[0] << 27
            at += 4
            continue
        expect(kind < PADDING, f"an event of type {kind}")
        ns += delta
        length = kind * 4
        if not kind:
            length = struct.unpack_from("<I", page, at)[0] - 4
            at += 4
            expect(length > SMALL_MAX * 4, f"{length} bytes are too few for a length of their own")
        number, flags, preempt, tid = struct.unpack_from("<HBBi", page, at)
        expect((flags, preempt) == (0, 0), f"flags {flags}, {preempt}")
        if number == PRINT:
            fields = (struct.unpack_from("<Q", page, at + 8)[0], page[at + 16:at + length].split(b"\0")[0].decode())
        elif number == DATA:
            fields = (struct.unpack_from("<I", page, at + 8)[0], page[at + 12:at + length])
        else:
            fields = struct.unpack_from(LAYOUTS[number], page, at + 8)
        events.append(Event(cpu, ns, number, tid, fields))
        at += length
    expect(at == HEAD + size, "the last event reaches over the end")
    return events, missed


def read_pages(fd, bytes_of_page):
    """What is there, by read()."""
    while True:
        try:
            page = os.read(fd, bytes_of_page)
        except BlockingIOError:
            return
        if not page:
            return
        expect(len(page) == bytes_of_page, f"a read gave {len(page)} bytes")
        yield page


def splice_pages(fd, bytes_of_page):
    """What fills pages, by splice(), as trace-cmd takes it."""
    out, into = os.pipe()
    poller, page = select.poll(), b""
    poller.register(fd, select.POLLIN)
    try:
        while poller.poll(0):
            size = os.splice(fd, into, 1 << 16)
            expect(size and size % PAGE == 0, f"splice gave {size} bytes")
            for _ in range(size // PAGE):
                page += os.read(out, PAGE)
                if len(page) == bytes_of_page:
                    yield page
                    page = b""
        try:
            expect(not os.splice(fd, into, 1 << 16), "splice has something that poll does not tell of")
        except BlockingIOError:
            pass
    finally:
        os.close(out)
        os.close(into)


def consume(tree, cpu, spliced, bytes_of_page=PAGE):
    """(all events of a CPU, how many pages were spliced, how many events are missing)."""
    fd = os.open(tree.path(f"per_cpu/{cpu}/trace_pipe_raw"), os.O_RDONLY | os.O_NONBLOCK)
    events, missed, pages = [], 0, 0
    try:
        for way in ([splice_pages] if spliced else []) + [read_pages]:
            for page in way(fd, bytes_of_page):
                more, lost = decode(page, int(cpu[3:]))
                expect(more and lost is not None, "a page without events, or nobody knows how many are missing")
                events += more
                missed += lost
                pages += way is splice_pages
    finally:
        os.close(fd)
    times = [event.ns for event in events]
    expect(times == sorted(times), "times go back")
    return events, pages, missed


def stats(tree, cpu):
    return {key: float(value) for key, value in
            (line.split(": ") for line in tree.read(f"per_cpu/{cpu}/stats").splitlines())}


def record(tree, tracer, count):
    """Have calls in the buffer, and no more that come."""
    tree.write("current_tracer", tracer + "\n")
    until("calls", lambda: sum(stats(tree, cpu)["entries"] for cpu in cpus(tree)) > count)
    tree.write("tracing_on", "0\n")
    last = None
    while last != (last := tree.read("trace")):  # open calls are recorded to their end
        pass
    return last


def functions(spliced):
    def test(case):
        """Each event of trace is one of the sub-buffers, and the other way round; what was read is gone."""
        with mounted(case) as (program, tree):
            tree.write("trace_marker", "a short mark\n")
            tree.write("trace_marker", "long " * 100 + "\n")
            tree.write("tracing_on", "0\n")
            marks = [event for cpu in cpus(tree) for event in consume(tree, cpu, spliced)[0]]
            expect([event.fields[1] for event in sorted(marks, key=lambda event: event.ns)] ==
                   ["a short mark\n", "long " * 100 + "\n"], f"{marks}")
            expect(len({event.tid for event in marks}) == 1, f"{marks}")
            tree.write("tracing_on", "1\n")
            lines = [CALL_LINE.match(line) for line in record(tree, "function", 2000).splitlines() if not line.startswith("#")]
            before = {cpu: stats(tree, cpu) for cpu in cpus(tree)}
            found, pages = [], 0
            for cpu in cpus(tree):
                events, more, missed = consume(tree, cpu, spliced)
                expect(not missed, f"{missed} are missing")
                after = stats(tree, cpu)
                expect(before[cpu]["entries"] == len(events) == after["read events"] and not after["entries"] and not after["bytes"],
                       f"{len(events)} events, {before[cpu]}, {after}")
                found += events
                pages += more
            expect(bool(pages) == spliced, f"{pages} pages were spliced")
            shown = sorted((f"{event.ns // 1000000000}.{event.ns // 1000 % 1000000:06}", event.tid, event.cpu) for event in found)
            wanted = sorted((line[4], int(line[2]), int(line[3])) for line in lines)
            expect(shown == wanted, f"{len(shown)} events, {len(wanted)} lines")
            names, by_time = collections.defaultdict(set), collections.defaultdict(list)
            for line in lines:
                by_time[line[4], int(line[2])].append(line[5])
            for event in found:
                called = by_time[f"{event.ns // 1000000000}.{event.ns // 1000 % 1000000:06}", event.tid]
                if len(called) == 1:
                    names[event.fields[0]].add(called[0])
            expect(names and all(len(of) == 1 for of in names.values()), f"an address is of several functions: {names}")
            with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
                code = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps if line.split()[1][2] == "x"]
            for event in found:
                expect(all(any(lo <= address < hi for lo, hi in code) for address in event.fields), f"{event} is no code")
            expect(tree.read("trace").count(" <-") == 0, "what was read is still there")
            copy = os.path.join(case.folder, "copy")
            tree.write("tracing_on", "1\n")
            with Process(["cp", tree.path("per_cpu/cpu0/trace_pipe_raw"), copy]) as copies:  # it waits for more
                until("a copy", lambda: os.path.exists(copy) and os.path.getsize(copy) >= PAGE or tree.write(
                    "trace_marker", "mark " * 100 + "\n"))
                copies.kill()
    return test


def graph(case):
    """Entries and exits of each thread nest, with their functions, depths and times."""
    with mounted(case) as (_, tree):
        tree.write("set_ftrace_filter", "once leaf_* recurse\n")
        record(tree, "function_graph", 3000)
        events = [event for cpu in cpus(tree) for event in consume(tree, cpu, True)[0]]
        open_calls, calls = collections.defaultdict(list), 0
        for event in sorted(events, key=lambda event: event.ns):
            stack = open_calls[event.tid]
            if event.kind == ENTRY:
                stack.append(event)
                expect(event.fields[1] >= len(stack) - 1, f"{event} is at depth {len(stack) - 1}")
                continue
            expect(event.kind == EXIT and event.fields[4] == event.ns, f"{event}")
            if stack:  # else it was open when the tracer began
                entry = stack.pop()
                # The clock is measured ever better meanwhile, so the same time may be told a few ns earlier or later at the exit.
                expect(entry.fields == event.fields[:2] and abs(entry.ns - event.fields[3]) < 100, f"{entry}, {event}")
                calls += 1
        expect(calls > 1000 and not any(open_calls.values()), f"{calls} calls, {open_calls}")


def losses(case):
    """What was overwritten is told in the next sub-buffer, and once."""
    with mounted(case, arguments=("3", "busy")) as (_, tree):
        tree.write("buffer_size_kb", "128\n")
        record(tree, "function", 1000)
        until("an overrun", lambda: any(stats(tree, cpu)["overrun"] for cpu in cpus(tree)))
        for cpu in cpus(tree):
            before = stats(tree, cpu)
            events, _, missed = consume(tree, cpu, True)
            all_lost = before["overrun"] + before["dropped events"]
            expect(before["entries"] == len(events) and (before["overrun"] <= missed <= all_lost or not events),
                   f"{missed} missed, {len(events)} events, {before}")
        tree.write("current_tracer", "nop\n")
        tree.write("current_tracer", "function_graph\n")
        for cpu in cpus(tree):
            expect(stats(tree, cpu)["overrun"] == 0 or stats(tree, cpu)["entries"], "the counts stay")


def refused(error, call, *arguments):
    try:
        os.close(call(*arguments))
    except OSError as found:
        expect(found.errno == error, f"{arguments}: {found}")
    else:
        expect(False, f"{arguments} is not refused")


def text(case):
    """A CPU's trace and trace_pipe are its part of the whole; who reads excludes whom."""
    with mounted(case) as (_, tree):
        with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
            wanted = 1 + int(re.findall(r"\d+", file.read())[-1])
        expect(len(cpus(tree)) == wanted, f"{cpus(tree)} of {wanted}")
        whole = [line for line in record(tree, "function", 500).splitlines() if not line.startswith("#")]
        for cpu in cpus(tree):
            mine = [line for line in whole if f"[{int(cpu[3:]):03}]" in line]
            lines = [line for line in tree.read(f"per_cpu/{cpu}/trace").splitlines() if not line.startswith("#")]
            expect(lines == mine, f"{cpu} has {len(lines)} lines, not {len(mine)}")
        one = os.open(tree.path("per_cpu/cpu0/trace_pipe"), os.O_RDONLY | os.O_NONBLOCK)
        refused(errno.EBUSY, os.open, tree.path("trace_pipe"), os.O_RDONLY)
        refused(errno.EBUSY, os.open, tree.path("per_cpu/cpu0/trace_pipe"), os.O_RDONLY)
        tree.refuses(errno.EBUSY, "current_tracer", "nop\n")
        for cpu in cpus(tree)[1:]:
            os.close(os.open(tree.path(f"per_cpu/{cpu}/trace_pipe"), os.O_RDONLY))
        read = b""
        try:
            while piece := os.read(one, 1 << 16):
                read += piece
        except BlockingIOError:
            pass
        os.close(one)
        expect(read.decode().splitlines() == [line for line in whole if "[000]" in line], "what the pipe of a CPU gave")
        left = [line for line in tree.read("trace").splitlines() if not line.startswith("#")]
        expect(left == [line for line in whole if "[000]" not in line], "what is left of the other CPUs")
        raw = os.open(tree.path("per_cpu/cpu0/trace_pipe_raw"), os.O_RDONLY)
        tree.refuses(errno.EBUSY, "current_tracer", "nop\n")
        os.close(raw)
        last = cpus(tree)[-1]
        tree.write(f"per_cpu/{last}/trace", "\n")
        expect(stats(tree, last)["entries"] == 0, "the CPU's buffer is not empty")
        tree.refuses(errno.EINVAL, "per_cpu/cpu0/snapshot", "1\n")


BURST = 300000  # calls, of which the smallest buffer holds one in a hundred


def bursts(case):
    """Records come in bursts of which each is more than the buffer holds: for a reader nothing of them is overwritten, and
    nothing of what a program does right before its end."""
    for reading in ("trace_pipe", "trace_pipe_raw"):
        own_place(case)
        with Process([case.program("bursts.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program, \
                Tree(case, program, "--keep") as tree:
            tree.write("buffer_size_kb", "128\n")
            tree.write("current_tracer", "function_graph\n")
            paths = [tree.path(reading)] if reading == "trace_pipe" else [tree.path(f"per_cpu/{cpu}/{reading}") for cpu in cpus(tree)]
            readers = [Process(["cat", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for path in paths]
            try:
                def rest():
                    found = [stats(tree, cpu) for cpu in cpus(tree)]
                    return [sum(each[key] for each in found) for key in ("read events", "dropped events", "overrun")]

                for number in range(3):
                    if number:  # the last burst is followed by the end
                        until("all events", lambda: sum(rest()) >= 2 * BURST * number)
                    program.stdin.write(f"{BURST}\n")
                    program.stdin.flush()
                    expect(program.stdout.readline() == f"{BURST}\n", "the program says something else")
                program.stdin.close()
                program.wait(timeout=30)
                until("all events", lambda: sum(rest()) >= 6 * BURST)
                read, dropped, overrun = rest()
                expect(not overrun and read, f"{reading}: {read} were read, {dropped} lost before they came, {overrun} overwritten")
            finally:
                for reader in readers:
                    reader.kill()
                    reader.wait()
            tree.end()


ROUNDS, CALLS = 6, 20000  # of moves.c: longer than a few sub-buffers, and shorter than the tool takes to look
SUB_CALLS = 65536 // 16  # in the largest sub-buffer


def wrong_places(lines, wanted):
    """Where lines of a function, all of its calls in a row, have another CPU than the wanted one."""
    return [at for at, line in enumerate(lines) if f" [{wanted:03}] " not in line]


def moves(rseq):
    def test(case):
        """A thread that moves: all its calls have the right CPU but those within one sub-buffer of a move."""
        first, second = (sorted(os.sched_getaffinity(0)) + [None])[:2]
        if second is None:
            raise Skip("there is one CPU")
        own_place(case)
        environment = dict(os.environ) | ({} if rseq else {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
        with Process([case.program("moves.c"), str(first), str(second)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                     text=True, env=environment) as program, Tree(case, program, "--keep") as tree:
            tree.write("buffer_size_kb", "65536\n")
            tree.write("current_tracer", "function\n")
            program.stdin.write(f"{ROUNDS} {CALLS}\n")
            program.stdin.flush()
            expect(program.stdout.readline() == f"{ROUNDS} {CALLS}\n", "the program is not where it wants to be")
            program.stdin.close()
            program.wait(timeout=30)
            until("all calls", lambda: sum(stats(tree, cpu)["entries"] for cpu in cpus(tree)) >= 2 * ROUNDS * CALLS)
            calls = [line for line in tree.read("trace").splitlines() if ": on_" in line]
            phases = [list(group) for _, group in itertools.groupby(calls, lambda line: ": on_first" in line)]
            expect([len(phase) for phase in phases] == [CALLS] * 2 * ROUNDS, f"{[len(phase) for phase in phases]} calls")
            late = 0  # calls at the end of the phase before that have the wrong CPU
            for number, phase in enumerate(phases):
                wrong = wrong_places(phase, (first, second)[number % 2])
                inner = [at for at in wrong if SUB_CALLS <= at < CALLS - SUB_CALLS]
                expect(not inner, f"{len(inner)} calls of phase {number} have the wrong CPU, {inner[:1]} the first one")
                early = sum(at < SUB_CALLS for at in wrong)
                expect(late + early <= SUB_CALLS, f"{late} and {early} calls around move {number} have the wrong CPU")
                late = len(wrong) - early
            for cpu in (first, second):
                own = [line for line in tree.read(f"per_cpu/cpu{cpu}/trace").splitlines() if ": on_" in line]
                expect(own == [line for line in calls if f" [{cpu:03}] " in line], f"CPU {cpu} has other lines")
            tree.end()
    return test


def forbidden(case):
    """A filter that kills who asks the kernel for the CPU: no probe asks any more, and the program lives, all of it traced."""
    cpu = str(min(os.sched_getaffinity(0)))
    words = f"echo '{ROUNDS} {CALLS}' | GLIBC_TUNABLES=glibc.pthread.rseq=0 {case.program('moves.c')} {cpu} {cpu} forbid"
    done = case.run([case.tool, "record", "-p", "function", "-o", "trace", "--", "sh", "-c", words])
    expect((done.status, done.stdout) == (0, f"{ROUNDS} {CALLS}\n"), f"{done.status}: {done.stdout!r} {done.stderr!r}")
    report = case.run([case.tool, "info", "-i", "trace"]).stdout
    records = sum(int(number) for number in re.findall(r"^Records +(\d+)", report, re.M))
    expect(records >= 2 * ROUNDS * CALLS, report)


def mask(case):
    """tracing_cpumask: events of these CPUs alone."""
    with mounted(case) as (_, tree):
        full = int(tree.read("tracing_cpumask").replace(",", ""), 16)
        expect(full == (1 << len(cpus(tree))) - 1, f"{full:x}")
        for error, word in ((errno.EINVAL, "x"), (errno.EINVAL, "1 2"), (errno.EINVAL, ""), (errno.EOVERFLOW, f"{2 * (full + 1):x}"),
                            (errno.EOVERFLOW, "1," * 400 + "1")):
            tree.refuses(error, "tracing_cpumask", word + "\n")
        seen = set()
        for number in range(len(cpus(tree))):
            tree.write("tracing_cpumask", f"{1 << number:x}\n")
            expect(int(tree.read("tracing_cpumask").replace(",", ""), 16) == 1 << number, tree.read("tracing_cpumask"))
            tree.write("current_tracer", "function\n")
            time.sleep(0.3)
            shown = {int(cpu) for cpu in re.findall(r"\[(\d{3})\]", tree.read("trace"))}
            expect(shown <= {number}, f"events of {shown} with {number} in the mask")
            tree.write("current_tracer", "nop\n")
            seen |= shown
        expect(seen, "there are no events of any CPU")


def events(case):
    """The formats fit the sub-buffers, and are the same each time; nothing can be enabled."""
    with mounted(case) as (_, tree):
        for name, number, size in (("function", FUNCTION, 24), ("funcgraph_entry", ENTRY, 20), ("funcgraph_exit", EXIT, 40),
                                   ("print", PRINT, 16), ("func_repeats", REPEATS, 32)):
            shown = tree.read(f"events/ftrace/{name}/format")
            expect(f"name: {name}\nID: {number}\nformat:\n" in shown and "print fmt: " in shown, shown)
            ends = [int(offset) + int(length) for offset, length in re.findall(r"offset:(\d+);\tsize:(\d+);", shown)]
            expect(max(ends) == size, f"{name} has {max(ends)} bytes")
            expect(tree.read(f"events/ftrace/{name}/id") == f"{number}\n", f"the id of {name}")
        expect("offset:16;\tsize:4080;" in tree.read("events/header_page"), "header_page")
        expect("time_delta  :   27 bits" in tree.read("events/header_event"), "header_event")
        tree.write("events/enable", "0\n")
        tree.refuses(errno.EINVAL, "events/enable", "2\n")
        expect(tree.read("printk_formats") == "", "there are formats of trace_printk()")


SINGLE = {
    "tracefs-raw-read": native(functions(False)),
    "tracefs-raw-splice": native(functions(True)),
    "tracefs-raw-graph": native(graph),
    "tracefs-raw-losses": native(losses),
    "tracefs-bursts": native(bursts),
    "tracefs-per-cpu": native(text),
    "tracefs-cpumask": native(mask),
    "tracefs-events": native(events),
    "tracefs-moves": native(moves(True)),
    "cpu-forbidden": native(forbidden),
    "tracefs-moves-without-rseq": native(moves(False)),
}

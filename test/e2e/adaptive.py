"""`--time adaptive`: calls without times are all there, in order, and were within the bounds that the tool tells; long ones are
found.  The program bounds.c logs the clock around each call.  `run.py --adaptive` runs any other case so."""
import collections
import contextlib
import json
import os
import signal
import struct
import subprocess
import time

import flight
import jumps
import live
import language
import programs
import tools
import tracefile as tf
from instances import Instance
from endings import finish, wait_for
from harness import Process, events_of, expect, stop, until
from steer import calltap, own_place
from steering import Program, Tool, nothing_lost, sockets

FUNCTIONS = ("tiny", "outer", "middle", "handled", "passes", "leaf", "inner")
LOGGED = struct.Struct("<IIQQQQ")
CHOSEN = [option for name in FUNCTIONS for option in ("-l", name)]
AT_ONCE = ["--time-small", "1000000"]  # as many functions as can be are brief from the first call on
HISTORY = ["--mode", "overwrite", "-b", "16M"]  # room for all
ADAPTIVE = ("--time", "adaptive")
SPAN_NS = 200000  # twice the tick
RECORDED_NS = 300  # what a call takes beside what it measures of itself
LONG_NS = 2500000  # logged calls of 3 ms
SLACK_NS = 3000  # what the line through the clock's samples may be off, and a handler's way in and out
# An emulated clock's samples are taken by the program's agent, by system calls and reads that take microseconds there.
EMULATED_SLACK_NS = 20000
EMULATED_SHORT = ["--time-short", "100us"]  # a call takes some microseconds there, with the clock reads that it logs


def logged(path):
    """{(tid, function): [(before, begun, ending, after)]} in the order of the calls."""
    calls = collections.defaultdict(list)
    data = b""
    for name in filter(os.path.exists, (path, f"{path}.child")):
        with open(name, "rb") as file:
            data += file.read()
    for tid, function, *clocks in LOGGED.iter_unpack(data[:len(data) // LOGGED.size * LOGGED.size]):
        calls[tid, FUNCTIONS[function]].append(clocks)
    return calls


def exported(case):
    """The events of the trace, one after the other."""
    path = os.path.join(case.folder, "events")
    done = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", path])
    expect(done.status == 0, f"export: {done.stderr}")
    with open(path, encoding="utf-8") as file:
        yield from events_of(file.readlines())


def told(case):
    """{(tid, function): [[entry ns, its error, exit ns, its error]]} as `export` has them, in the order of the calls."""
    calls, open_calls = collections.defaultdict(list), collections.defaultdict(list)
    for event in exported(case):
        if event["ev"] == "enter":
            call = [event["ns"], event.get("error_ns", 0), None, 0]
            calls[event["tid"], event["fn"]].append(call)
            open_calls[event["tid"]].append((event["fn"], call))
        elif event["ev"] == "leave":
            name, call = open_calls[event["tid"]].pop()
            expect(name == event["fn"], f"{event['fn']} ends in {name}")
            call[2:] = event["ns"], event.get("error_ns", 0)
    return calls


def offset_of(pairs):
    """What is to be added to the trace's times, from the calls whose times are exact: each was within what is logged."""
    low, high = [], []
    for shown, real in pairs:
        if not shown[1]:
            low.append(real[0] - shown[0])
            high.append(real[1] - shown[0])
    expect(len(low) > 100, f"{len(low)} calls with exact times")
    low.sort()
    high.sort()
    # The line through the clock's samples is not that exact: the offset that most agree on.
    return (low[len(low) * 99 // 100] + high[len(high) // 100]) // 2


def slack(case):
    return SLACK_NS if case.cpu.native else EMULATED_SLACK_NS


def check_bounds(case, log, late=False):
    """Each event was where the trace says, with its error; returns how many were estimated.  late: recording began late."""
    shown, real = told(case), logged(log)
    if late:
        real = {key: calls[len(calls) - len(shown[key]):] for key, calls in real.items() if key in shown}
    expect(shown, "no call was recorded: the recording began when the program was over")
    expect(set(shown) == set(real), f"threads and functions {sorted(shown)}, logged {sorted(real)}")
    pairs = []
    for key, calls in real.items():
        expect(len(calls) == len(shown[key]), f"{key}: {len(shown[key])} calls in the trace, {len(calls)} logged")
        pairs += zip(shown[key], calls)
    offset = offset_of(pairs)
    wrong, estimated, off = [], 0, slack(case)
    for (entry, entry_error, leave, leave_error), (before, begun, ending, after) in pairs:
        estimated += (entry_error > 0) + (leave_error > 0)
        if not (before - off - entry_error <= entry + offset <= begun + off + entry_error):
            wrong.append(("entry", entry + offset - before, entry_error, begun - before))
        if leave is not None and not (ending - off - leave_error <= leave + offset <= after + off + leave_error):
            wrong.append(("exit", leave + offset - ending, leave_error, after - ending))
    # A handler, or another thread, may come between the clock that is logged and the call itself: that is logged as longer.
    expect(not wrong, f"{len(wrong)} of {2 * len(pairs)} events out of their bounds, such as {wrong[:8]}")
    return estimated, pairs


def long_calls(case, pairs):
    """Each long call is seen as one, within a tick on either side; and no short one is."""
    real = sum(begun and ending - begun >= LONG_NS for _, (_, begun, ending, _) in pairs)
    expect(real > 3, f"{real} long calls")
    for (entry, entry_error, leave, leave_error), (before, begun, ending, after) in pairs:
        if leave is None:
            continue
        error = abs((leave - entry) - (ending - begun))
        expect(error <= entry_error + leave_error + (begun - before) + (after - ending) + 2 * slack(case),
               f"a call of {ending - begun} ns is shown as {leave - entry} +- {entry_error + leave_error}")


def bounded(signals, *options, small=True):
    def test(case):
        if "overwrite" in options:
            case.need_native("flight recorders that adapt")
        case.as_it_is = True
        log = os.path.join(case.folder, "log")
        done = case.record([case.program("bounds.c", variant="-clocked", flags=["-O2"]), log, "400", "3", str(signals)],
                           [*CHOSEN, "--time", "adaptive", *(AT_ONCE if small else []), *([] if case.cpu.native else EMULATED_SHORT), *options])
        expect(done.status == 0 and "calls" in done.stdout, f"{done.status}: {done.stdout} {done.stderr}")
        trace = case.trace()
        nothing_lost(trace)
        estimated, pairs = check_bounds(case, log)
        expect(trace.brief_tails > 20, f"{trace.brief_tails} tail calls without a time, of {trace.brief} records")
        expect(trace.brief > len(pairs) // 10 and estimated > len(pairs) // 10,
               f"{trace.brief} records without a time, {estimated} events with an error, {len(pairs)} calls")
        long_calls(case, pairs)
        case.readable()
    return test


def stepped(what, functions, steps=300, leaves=0):
    """A handler's calls between any two instructions of a call and its recorders, which see a new tick."""
    def test(case):
        case.as_it_is = True
        log = os.path.join(case.folder, "log")
        tick_us = 100 if case.cpu.native else 5000  # longer than a signal takes to come in, by a debugger there
        chosen = [option for name in functions for option in ("-l", name)]
        done = tools.stepped(case, [case.program("bounds.c", variant="-clocked", flags=["-O2"]), log, what, str(2 * tick_us + 200)],
                             [*chosen, "--time", "adaptive", *AT_ONCE, "--time-short", "1s", "--time-sample", "60000", "--time-tick",
                              f"{tick_us}us"],
                             ["--one-a-round"])
        expect(done.status == 0 and " steps" in done.stdout, f"{done.status}: {done.stdout} {done.stderr}")
        expect(int(done.stdout.split()[0]) > steps, f"only {done.stdout}")
        nothing_lost(case.trace())
        expect(not case.cpu.native or case.trace().leaves >= leaves, f"{case.trace().leaves} leaves")
        check_bounds(case, log)
    return test


def profiled(case):
    """What an earlier trace says of a function holds from its first call on."""
    case.need_native("brief records")
    case.as_it_is = True
    program = case.program("repeats.c", flags=["-O2"])
    earlier = os.path.join(case.folder, "earlier")
    done = case.run([case.tool, "record", "-l", "mixed", "-o", earlier, "--", program, "5000"])
    expect(done.status == 0, done.stderr)
    for options, most, least in (((), 0, 0), (("--time-profile", earlier), 200, 150), (("--time-profile", earlier, "--time-short", "1ns"), 0, 0)):
        done = case.record([program, "100"], ["-l", "mixed", "--time", "adaptive", *options])
        expect(done.status == 0, done.stderr)
        trace = case.trace()
        expect(least <= trace.brief <= most and trace.called() == {"mixed": 100}, f"{options}: {trace.brief} records without a time")
    done = case.record([program, "100"], ["--time-profile", earlier])
    expect(done.status == 1 and "goes with --time adaptive" in done.stderr, f"{done.status}: {done.stderr}")


def refused(case):
    """What cannot be is refused with a sentence, before anything runs."""
    for options, words in ((["-p", "function"], "function_graph"),
                           (["--time", "sometimes"], "exact or adaptive"), (["-t", "1us"], "would have no effect"), (["--max-depth", "3"], "would have no effect"), (["--time-tick", "1s"], "10us to 100ms")):
        done = case.run([case.tool, "record", "--time", "adaptive", *options, "-o", case.trace_path, "--", "true"])
        expect(done.status != 0 and words in done.stderr and done.stderr.count("\n") == 1, f"{options}: {done.status} {done.stderr}")
        expect(not os.path.exists(case.trace_path), "there is a file")


def untimed(case, flight, name, *options):
    """Of the records of a snapshot, the part that has no time; -1: there are hardly any."""
    outcome = flight.snapshot(name, *options)
    expect(outcome.status == 0, f"status {outcome.status}: {outcome.stderr}")
    trace = case.trace()
    case.readable()
    records = sum(trace.called().values())
    return trace.brief / 2 / records if records > 100 else -1


def becomes(case, recorder, name, least, most, *options):
    """Wait for a snapshot of which that part has no times: on a busy machine the tool sees few calls, a ring is full late, and
    the program may have hardly run in the time that is asked for."""
    until = time.monotonic() + 30
    part = untimed(case, recorder, name, *options)
    while not least <= part <= most:
        expect(time.monotonic() < until, f"{name}: {part} of the calls have no times")
        time.sleep(0.5)
        part = untimed(case, recorder, name, *options)


def flies(case):
    """A flight recorder: what becomes short loses its times, what becomes long gets them back, and without the tool all have them."""
    case.need_native("brief records")
    case.as_it_is = True
    program = case.program("eases.c", flags=["-O2"])
    with flight.Flight(case, ["--time", "adaptive", "--time-small", "1"], command=[program]) as recorder:
        becomes(case, recorder, "short", 0.8, 1, "--history", "100ms")
        os.kill(recorder.pid, signal.SIGUSR1)
        becomes(case, recorder, "long", 0, 0.1, "--history", "100ms")
        os.kill(recorder.pid, signal.SIGUSR1)
        becomes(case, recorder, "short-again", 0.8, 1, "--history", "100ms")
        recorder.kill_tool()
        expect(untimed(case, recorder, "at-once") >= 0, "hardly any call is left")
        becomes(case, recorder, "alone", 0, 0)  # nobody moves the tick
        os.kill(recorder.pid, signal.SIGUSR2)
        wait_for(recorder.output, "done well")


def beside_others(case):
    """A further instance has all times, whatever the first one leaves out."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program:
        with Tool(case, program, "--time", "adaptive", *AT_ONCE) as tool:
            tool.records(1000)
            with Instance(case, program, "look", "-l", "leaf_1") as instance:
                instance.records(1000)
                instance.end("verb")
            tool.records(1000)
            tool.detach()
        program.end()
    trace = case.trace()
    expect(trace.brief > 1000, f"{trace.brief} records without a time")
    case.readable()
    trace = instance.trace()
    expect(set(trace.called()) == {"leaf_1"} and not trace.brief, f"{trace.called()}, {trace.brief} without a time")


@contextlib.contextmanager
def further(case, *arguments):
    """An adaptive instance beside an exact recording of bounds.c, which waits for it: (the process, the log, the instance).  It is
    at its end behind the with, and its trace is the case's."""
    case.need_native("attaching")
    case.as_it_is = True
    own_place(case)
    log, first = os.path.join(case.folder, "log"), os.path.join(case.folder, "first")
    command = [case.program("bounds.c", variant="-clocked", flags=["-O2"]), log, *arguments]
    with open(os.path.join(case.folder, "output"), "wb") as output:
        tool = Process([case.tool, "record", "-o", first, *CHOSEN, "--", *command], cwd=case.folder, env=case.environment(False),
                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def child():
        """The program, once a session has it; the tool has children before."""
        with open(f"/proc/{tool.pid}/task/{tool.pid}/children", encoding="ascii") as file:
            pids = file.read().split()
        return next((int(pid) for pid in pids if sockets(case.environment(False), pid)), 0)
    try:
        program = collections.namedtuple("Program", "pid")(until("the program", child))
        with Instance(case, program, "look", *CHOSEN, *ADAPTIVE, "--time-short", "100us", "-b", "16M") as instance:
            yield program.pid, log, instance
            instance.end(how=None, seconds=60)
        expect(finish(tool, 60) == 0, "the program failed")
    finally:
        stop(tool)
    case.trace_path = instance.path
    nothing_lost(case.trace())


def bounded_further(case):
    """The bounds hold for a further instance as for the first, with handlers that come in anywhere."""
    with further(case, "500", "3", "150", "waits") as (pid, log, _):
        os.kill(pid, signal.SIGUSR1)  # before, the threads make a part of their calls
    estimated, pairs = check_bounds(case, log, late=True)
    expect(estimated > len(pairs) // 10, f"{estimated} events with an error, {len(pairs)} calls")
    case.readable()


def stepped_further(case):
    """As stepped(), of the records that C makes for a further instance."""
    with further(case, "steps", "400", "waits") as (pid, log, instance):
        instance.records(3000)  # its functions are known to be short by then
        os.kill(pid, signal.SIGUSR1)
    with open(os.path.join(case.folder, "output"), encoding="utf-8") as file:
        said = file.read()
    steps = int(said.split(" steps")[0].split()[-1])
    expect(steps > 500, f"only {said}")
    check_bounds(case, log, late=True)
    expect(case.trace().brief > steps // 3, f"{case.trace().brief} records without a time, {steps} steps")


def attached_times(first, *others):
    """Instances with choices of their own at once: each trace is whole, and says for itself which calls have no times."""
    def test(case):
        case.need_native("attaching")
        own_place(case)
        with Program(case, "1") as program:
            with Tool(case, program, "-l", "leaf_*", *first) as tool, contextlib.ExitStack() as stack:
                instances = [stack.enter_context(Instance(case, program, name, *chosen, *options))
                             for name, chosen, options in others]
                for instance in instances:
                    instance.records(30000)
                ended = [instances.pop()]
                ended[0].end("verb")
                for instance in instances:
                    instance.records(5000)
                if len(instances) > 1:
                    ended.append(instances.pop())
                    ended[1].end(signal.SIGINT)
                tool.records(1000)
                tool.detach()
                for instance in instances:
                    instance.end(how=None, seconds=60)
            program.end()
        nothing_lost(case.trace())
        case.readable()
        expect((case.trace().brief > 0) == ("adaptive" in first), f"the first one: {case.trace().brief} records without a time")
        for instance, (name, _, options) in zip((*instances, *reversed(ended)), others):
            trace = instance.trace()
            records = 2 * sum(trace.called().values())
            expect(instance.name == name and records > 20000, f"{instance.name}: {trace.called()}")
            live.check_frames(trace)
            if "adaptive" in options:
                expect(trace.brief > 1000, f"{name}: {trace.brief} of {records} records without a time")
            else:
                expect(not trace.brief, f"{name}: {trace.brief} records without a time")
            case.trace_path = instance.path
            case.readable()
    return test


def switched(case):
    """`calltap set` makes an adaptive recording exact and adaptive again; the trace says of each call what it is."""
    case.need_native("brief records")
    case.as_it_is = True
    own_place(case)
    with Program(case) as program:
        with Tool(case, program, "--time", "adaptive", *AT_ONCE) as tool:
            tool.records(1000)
            expect("time=adaptive\ntime-short=1us\ntime-sample=256\n" in calltap(case, "set", program.pid), "settings")
            text = calltap(case, "set", program.pid, "max-depth=3", status=1)
            expect("would have no effect" in text, text)
            calltap(case, "mark", program.pid, "one")
            calltap(case, "set", program.pid, "time=exact")
            calltap(case, "mark", program.pid, "two")
            tool.records(5000)
            calltap(case, "mark", program.pid, "three")
            text = calltap(case, "set", program.pid, "tracer=function", status=1)
            expect("keeps the tracer" in text, text)
            calltap(case, "set", program.pid, "time=adaptive", "time-sample=1000")
            calltap(case, "mark", program.pid, "four")
            tool.records(5000)
            tool.detach()
        program.end()
    nothing_lost(case.trace())
    case.readable()
    path = os.path.join(case.folder, "switched")
    done = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", path])
    expect(done.status == 0, f"export: {done.stderr}")
    with open(path, encoding="utf-8") as file:
        events = list(events_of(file.readlines()))
    marks = {event["text"]: event["ns"] for event in events if event["ev"] == "mark"}
    entries = [event for event in events if event["ev"] == "enter"]

    def estimated(low, high):
        between = [event.get("error_ns", 0) > 0 for event in entries if low < event["ns"] < high]
        expect(len(between) > 500, f"{len(between)} calls")
        return sum(between) / len(between)
    parts = estimated(0, marks["one"]), estimated(marks["two"] + 1000000, marks["three"]), estimated(marks["four"] + 1000000, 1 << 62)
    expect(parts[0] > 0.5 and parts[1] == 0 and parts[2] > 0.2, f"parts of the calls without times: {parts}")


def switched_late(case):
    """What began with --time exact stays so, and says why."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program:
        with Tool(case, program) as tool:
            expect("time=exact\ntime-short=\ntime-sample=\n" in calltap(case, "set", program.pid), "settings")
            for word in ("time=adaptive", "time-short=2us"):
                text = calltap(case, "set", program.pid, word, status=1)
                expect("began with --time exact" in text, text)
            tool.records(1000)
            tool.detach()
        program.end()
    expect(not case.trace().brief, "records without a time")


def wakeups(pid):
    """How often the process's threads have slept."""
    count = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as file:
            count += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return count


def rests(case):
    """While the program sleeps, the tick stands still; it goes on with the program's calls, which lose their times again."""
    case.need_native("brief records")
    case.as_it_is = True
    command = [case.tool, "record", "-o", case.trace_path, "-b", "64M", "--time", "adaptive", *AT_ONCE, "-l", "burst", "--", case.program("bursts.c")]

    def burst(count):
        tool.stdin.write(f"{count}\n")
        tool.stdin.flush()
        expect(tool.stdout.readline() == f"{count}\n", "no answer")

    with Process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tool:
        burst(1000)
        time.sleep(0.5)
        before = wakeups(tool.pid)
        time.sleep(1)
        count = wakeups(tool.pid) - before
        expect(count < 1000, f"the tool woke up {count} times in a second in which nothing was called")
        for _ in range(10):
            burst(100000)
        tool.stdin.close()
        expect(tool.wait(60) == 0, "the tool failed")
    trace = case.trace()
    calls = trace.called()["burst"]
    expect(calls == 1001000, f"{calls} calls")
    expect(trace.brief > calls, f"{trace.brief} records without a time of {calls} calls")
    case.readable()


def adapted(test):
    """A case of others, with as few times as can be."""
    def adaptive(case):
        case.adaptive = True
        test(case)
    return adaptive


def counted(text):
    """{function: its calls} as leaves.c prints them."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] != "sum" and int(pair[1])}


def edges(case):
    """{(caller, function): calls}, as `calltap graph` has them."""
    done = case.run([case.tool, "graph", "--json", "--min-percent", "0", "-i", case.trace_path, "*"])
    expect(done.status == 0, f"graph: {done.stderr}")
    callers, found = json.loads(done.stdout)["callers"], collections.Counter()
    names = {node["id"]: node["function"] for node in callers}
    for node in callers:
        if node["depth"] == 1:
            found[node["function"], names[node["parent"]]] += node["calls"]
    return found


def order(trace):
    """Each thread's records, without their times."""
    return sorted([(kind, trace.name(value)) for kind, value, _ in thread.events() if kind in (tf.ENTRY, tf.EXIT, tf.TAIL)]
                  for thread in trace.threads.values())


def leaves(what, *rounds, same_order=False, inner=None):
    """Functions that call nothing, without frames of their own: each call is there, in its place, and a long one is seen."""
    def test(case):
        case.as_it_is = True
        program = [case.program("leaves.c", flags=["-O2", *tools.TABLES]), what, *rounds]
        names = [option for name in ("plain", "spin", "tail", "around", "after", "run", "from_handler") for option in ("-l", name)]
        records = []
        for options in (["--time", "adaptive", *AT_ONCE, "--time-short", "1s"], ["--time", "exact"]):
            outcome = case.same_as_plain(program, [*names, *options], log=False)
            trace = case.trace()
            if what != "ends":  # the child's trace begins in the midst of calls
                nothing_lost(trace)
            called = dict(trace.called())
            called.pop("run", None)
            expect(called == counted(outcome.stdout), f"{options}: {called}, {outcome.stdout}")
            found = edges(case)
            for (caller, function), calls in (inner or {}).items():
                expect(found[caller, function] == calls, f"{options}: {function} by {caller}: {found}")
            records.append(order(trace))
            if options[1] == "adaptive":
                expect(not case.cpu.native or trace.leaves > 50 or what == "ends", f"{trace.leaves} leaves")
                case.readable()
            if options[1] == "adaptive" and what == "calls":
                spins = [event["dur"] for event in exported(case) if event["ev"] == "leave" and event["fn"] == "spin"]
                expect(spins and all(ns > 1000000 for ns in spins), f"spin took {spins}")
        expect(not same_order or records[0] == records[1], "the order is another one")
    return test


class Leaves(Program):
    """Two threads that run leaves, most of the time."""

    def __init__(self, case):
        self.start(case, [case.program("leaves.c", flags=["-O2"]), "loops"])


def leaves_attached(case):
    """All that the agent has goes, with threads in leaves, which return to their stubs: the tool waits for these."""
    case.need_native("attaching")
    own_place(case)
    with Leaves(case) as program:
        for _ in range(8):
            with Tool(case, program, *ADAPTIVE, *AT_ONCE, "--time-short", "1s", "-b", "64K") as tool:
                tool.records(3000)
                tool.detach()
            nothing_lost(case.trace())
            expect(case.trace().leaves > 1000, f"{case.trace().leaves} leaves")
        os.kill(program.pid, signal.SIGTERM)
        expect(finish(program.process) == 0 and program.printed() == f"ready {program.pid}\ndone\n", f"it printed {program.printed()!r}")


def phases(case):
    """What single calls take is told rightly of a function that is brief in one phase and has all its times in the next."""
    case.need_native("clocks that are read in a few nanoseconds")
    case.as_it_is = True
    done = case.record([case.program("phases.c", flags=["-O2"]), "20", "20000", "300", "500", "20000"], ["-l", "phased", *ADAPTIVE, "--mode", "block"])
    expect(done.status == 0, f"{done.status}: {done.stdout} {done.stderr}")
    calls, _, p50, _, p99, longest = (int(word) for word in done.stdout.split())
    (row,) = json.loads(case.run([case.tool, "report", "--json", "-i", case.trace_path]).stdout)["rows"]
    expect(row["calls"] == calls and row["exact_calls"] < calls * 0.9, f"{row}, of {calls} calls")
    for key, true in (("p50", p50), ("p99", p99), ("max", longest)):
        told, error = row[f"{key}_ns"], row.get(f"{key}_error_ns", 0)
        # A call takes some time outside of what it measures itself, and once a long one: another program's turn.
        # Histograms are good to a 64th.
        least, most = true * 31 / 32, true * 33 / 32 + RECORDED_NS
        expect((told - error <= most or key == "max") and told + error >= least, f"{key} is {true} ns, and told to be {told} +- {error}: {row}")


OTHERS = {name: test for module in (programs, language, jumps) for name, test in
          {**getattr(module, "CASES", {}), **getattr(module, "SINGLE", {})}.items()}

SINGLE = {
    "adaptive-bounds": bounded(0),
    "adaptive-bounds-signals": bounded(150),
    "adaptive-bounds-all-brief": bounded(200, "--time-short", "1s", "--time-sample", "7"),
    "adaptive-bounds-learned": bounded(0, small=False),
    "adaptive-stepped": stepped("steps", FUNCTIONS),
    "adaptive-stepped-tails": stepped("tails", FUNCTIONS),
    "adaptive-stepped-leaves": stepped("leaves", FUNCTIONS, steps=200, leaves=50),
    "adaptive-bounds-flight": bounded(150, *HISTORY),
    "adaptive-bounds-flight-learned": bounded(0, *HISTORY, small=False),
    "adaptive-flight": flies,
    "adaptive-profiled": profiled,
    "adaptive-refused": refused,
    "adaptive-rests": rests,
    "adaptive-beside-others": beside_others,
    "adaptive-bounds-instance": bounded_further,
    "adaptive-stepped-instance": stepped_further,
    "adaptive-instances": attached_times((), ("exact", ("-l", "leaf_1", "-l", "leaf_2"), ()), ("short", ("-l", "leaf_2", "-l", "tail"), (*ADAPTIVE, "--time-short", "1ms", "-b", "64K")),
                                         ("shorter", ("-l", "leaf_2", "-l", "recurse"), (*ADAPTIVE, "--time-short", "1ms", "-b", "64K"))),
    "adaptive-instances-all": attached_times(ADAPTIVE, ("one", ("-l", "leaf_1", "-l", "tail", "-l", "once"), (*ADAPTIVE, "--time-short", "1ms", "-b", "64K")), ("two", ("-l", "tail", "-l", "leaf_2"), (*ADAPTIVE, "--time-short", "1ms", "-b", "64K"))),
    "adaptive-leaves": leaves("calls", "2000", same_order=True),
    "adaptive-leaves-signals": leaves("signals", "100", inner={("spin", "from_handler"): 100, ("run", "after"): 100}),
    "adaptive-leaves-jumps": leaves("jumps", "100", inner={("spin", "from_handler"): 50, ("run", "after"): 100, ("run", "spin"): 100}),
    "adaptive-leaves-ends": leaves("ends"),
    "adaptive-leaves-attached": leaves_attached,
    "adaptive-phases": phases,
    "adaptive-switched": switched,
    "adaptive-switched-late": switched_late,
    **{f"adaptive-{name}": adapted(OTHERS[name]) for name in OTHERS},
}
# What may meet a recorder in the midst of its work; the rest is the same on all CPUs.
EVERYWHERE = ("calls", "signals", "jumps", "threads", "tails", "exceptions", "longjumps", "routines", "storms", "storms-jump", "interrupts",
              "handlers")
ALIKE = {f"adaptive-{name}": None for name in OTHERS if name not in EVERYWHERE}

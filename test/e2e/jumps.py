"""Control that does not return the way it came: longjmp, contexts, coroutines, other stacks, signals."""
import json

import tracefile as tf
import truth
from harness import expect

RING = 512  # KiB: room for all records of jumploop.c, so that nothing depends on how fast the tool is


def shape(source, *arguments, flags=(), variant="", **how):
    """Equal output and end, and the true graph, in the file and as the project's own reader shows it."""
    def test(case):
        case.same_as_plain([case.program(source, variant=variant, flags=flags), *arguments])
        trace = case.trace()
        case.compare(trace, **how)
        if not how:
            same_depths(case, trace)
    return test


def same_depths(case, trace):
    """Each call is as deep on its stack in `calltap export` as the records say, tail calls as deep as their callers;
    and own times are of one stack at a time: they add up to no more than the time from first to last."""
    done = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path])
    expect(done.status == 0, f"calltap export fails: {done.stderr.strip()[-400:]}")
    shown, tails, here, times, own = {}, {}, {}, {}, {}
    for event in map(json.loads, done.stdout.splitlines()):
        if event["ev"] == "head":
            continue
        key = event["pid"], event["tid"]
        times.setdefault(key, []).append(event["ns"])
        own[key] = own.get(key, 0) + event.get("self", 0)
        if event["ev"] == "stack":
            here[key] = event["address"]
        if event["ev"] == "enter":
            depth, marks = event["depth"], tails.setdefault((key, here.get(key)), [])
            marks[depth:] = [event.get("tail", False)]
            shown.setdefault(key, []).append(depth - sum(marks))
    for key, total in own.items():
        span = max(times[key]) - min(times[key])
        expect(total <= span + len(times[key]), f"own times of thread {key[1]} add up to {total} ns of {span}")
    for thread in trace.ordered_threads():
        key, deep = (trace.pid(thread), thread.tid), [-1]
        for mark, _, caller in truth.recorded_alone(trace, thread).events:
            if mark == ">":
                deep.append(deep[caller] + 1)
        expect(shown.get(key, []) == deep[1:],
               f"calltap export shows other depths for thread {thread.tid} than the records say")


def nests(trace):
    """In every thread exits belong to the innermost frame of their stack, and all frames of its own stack are left."""
    for thread in trace.threads.values():
        chains = truth.recorded_alone(trace, thread)
        left = [trace.name(function) for function, _, _ in chains.frames]
        expect(not left, f"frames of thread {thread.tid} were left open: {left[-5:]}")


def overflow_anywhere(case):
    """The stack ends at any instruction, of ours too."""
    case.same_as_plain([case.program("altstacks.c"), "anywhere"], log=False)
    called = case.trace().called()
    expect(called.get("jumping") == 4 and called["endless"] > 1000, f"recorded {called}")


def edges(case):
    """A stack that ends where our slow path begins: the program's handler still runs."""
    outcome = case.same_as_plain([case.program("edges.c")], log=False)
    calls = case.trace().called().get("on_overflow")
    expect(outcome.stdout == f"{calls} overflows of {calls} handled\n", f"{calls} handler calls in the trace")


def jump_loop(case):
    """Jumps cost no memory, and leave as many records the last time as the first."""
    command, options = [case.program("jumploop.c"), "2000"], ["-b", f"{RING}k"]
    if case.cpu.native:
        outcome = case.same_as_plain(command, options, log=False, stderr=False)
        faults = next(int(line.split()[1]) for line in outcome.stderr.splitlines() if line.startswith("faults"))
        expect(faults <= RING // 4 + 1, f"{faults} pages were touched, {RING // 4 + 1} of them by the ring")
    else:  # the memory is the emulator's
        outcome = case.record(command, options, log=False)
        expect(outcome.status == 0, f"exit status {outcome.status}: {outcome.stderr[-300:]}")
    trace, rounds = case.trace(), []
    for thread in trace.threads.values():
        for kind, value, _ in thread.events():
            if kind == tf.ENTRY and trace.name(value) == "round_of":
                rounds.append(0)
            elif rounds and kind != tf.TIME:
                rounds[-1] += 1
    expect(len(rounds) == 2000, f"{len(rounds)} rounds of 2000 in the trace")
    expect(rounds[20:25] == rounds[-10:-5], f"records of a round: {rounds[20:25]} first, {rounds[-10:-5]} last")


def many_routines(variant, flags, count, size):
    def test(case):
        program = case.program("manyroutines.c", variant=variant, flags=flags)
        case.same_as_plain([program, str(count), str(size)], log=False)
        called = case.trace().called()
        expect(called.get("descend") == 6 * count and called.get("leaf") == 12 * count,
               f"{called.get('descend')} calls of descend, {called.get('leaf')} of leaf, not 6 and 12 times {count}")
    return test


def storm(*arguments):
    """Every handler call is in the trace, wherever it came in, and what it interrupted is whole."""
    def test(case):
        outcome = case.same_as_plain([case.program("storms.c"), *arguments], log=False, stderr=False)
        words = next(line.split() for line in outcome.stderr.splitlines() if line.startswith("handled"))
        handled, jumps = int(words[1]), int(words[3])
        trace = case.trace()
        called = trace.called()
        # A handler that was interrupted by one that jumps out does not come to count itself.
        counted, entered = called.get("count", 0), called.get("on_timer", 0) + called.get("on_other", 0)
        expect(handled <= counted <= entered <= handled + jumps,
               f"{handled} handler calls, {jumps} jumps out; {entered} handler calls in the trace, {counted} to count")
        expect((jumps > 0) == ("jump" in arguments[-1]), f"{jumps} jumps")
        nests(trace)
    return test


def no_interrupts(case):
    outcome = case.same_as_plain([case.program("interrupts.c")], ["-b", "64k"], log=False)
    expect(outcome.stdout == "interrupted 0\n", f"system calls ended with EINTR: {outcome.stdout}")
    leaves = case.trace().called().get("leaf", 0)
    expect(leaves >= 4000, f"only {leaves} calls were traced meanwhile")


def generators(case):
    flags = ["-std=gnu++20"] + ["-fcoroutines"] * (case.build[0] == "gcc")
    case.same_as_plain([case.program("generators.cc", flags=flags)])
    trace = case.trace()
    case.compare(trace)
    missing = {"count_to", "twice", "failing"} - set(trace.called())
    expect(not missing, f"of the coroutines themselves {missing} are not in the trace")


def split_stack(case):
    """Each piece of the stack is shown as a stack; every call is in the trace."""
    case.need_flags("-fsplit-stack")
    case.same_as_plain([case.program("splitstack.c", flags=["-fsplit-stack"])], log=False)
    trace = case.trace()
    called = trace.called()
    expect(called == {"main": 1, "run": 1, "descend": 180, "leaf": 180}, f"recorded {called}")
    ends = sum(kind == tf.EXIT for thread in trace.threads.values() for kind, _, _ in thread.events())
    expect(ends == sum(called.values()), f"{ends} returns of {sum(called.values())} calls")


BY_HAND = {"flags": ["-DBY_HAND"], "variant": "-by-hand"}
BY_JUMPS = {"flags": ["-DBY_JUMPS"], "variant": "-by-jumps"}

CASES = {
    "longjumps": shape("longjumps.c"),
    "longjumps-checked": shape("longjumps.c", flags=["-O2", "-D_FORTIFY_SOURCE=2"], variant="-checked"),
    "jump-loop": jump_loop,
    "routines": shape("routines.c"),
    "routines-by-hand": shape("routines.c", **BY_HAND),
    "routines-by-jumps": shape("routines.c", **BY_JUMPS),
    "handover": shape("handover.c", only_order=True),
    "handover-by-hand": shape("handover.c", only_order=True, **BY_HAND),
    "handover-by-jumps": shape("handover.c", only_order=True, **BY_JUMPS),
    "many-routines": many_routines("", (), 500, 16),
    "many-routines-by-hand": many_routines("-by-hand", ["-DBY_HAND"], 500, 64),
    "sigroutine": shape("sigroutine.c"),
    "churn": shape("churn.c"),
    "ownstacks": shape("ownstacks.c"),
    "altstacks": shape("altstacks.c"),
    "altstacks-overflow": shape("altstacks.c", "overflow"),
    "altstacks-end": shape("altstacks.c", "end"),
    "overflow-anywhere": overflow_anywhere,
    "generators": generators,
    "first-handler": shape("firsthandler.c"),
    "handlers": shape("handlers.c"),
    "storms": storm("2", "80", "4000"),
    "storms-jump": storm("2", "80", "4000", "jump"),
    "storms-alternate": storm("2", "80", "4000", "alternate"),
    "storms-switch": storm("2", "80", "200", "alternate switch"),
    "interrupts": no_interrupts,
}
SINGLE = {
    "edges": edges,
    "split-stack": split_stack,
    "thousands-of-routines": many_routines("", (), 5000, 16),
    "thousands-of-routines-by-hand": many_routines("-by-hand", ["-DBY_HAND"], 3000, 64),
}
LONG = {
    "storms-long": storm("8", "1000", "2000"),
    "storms-switch-long": storm("8", "1000", "2000", "switch"),
    "storms-alternate-long": storm("8", "1000", "2000", "alternate switch"),
    "storms-jump-long": storm("8", "1000", "2000", "jump"),
}

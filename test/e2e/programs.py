"""Every program of test/prog in every build: the same output, the same end, and the true graph."""
import json

from harness import expect

DEPTH = 100000
DEEP = 9  # calls of down() within each other in nests.c


def shapes(source):
    def test(case):
        case.same_as_plain([case.program(source)])
        trace = case.trace()
        case.compare(trace)
        case.readable()
    return test


def executing(shape):
    def test(case):
        case.executing()
        shape(case)
    return test


def threads(case):
    case.same_as_plain([case.program("threads.c"), "200"])
    trace = case.trace()
    case.compare(trace)
    names = {thread.name for thread in trace.threads.values()}
    expect("worker-17" in names and "worker-199" in names, f"thread names are missing: {sorted(names)[:5]}")
    expect(len(trace.threads) == 201, f"{len(trace.threads)} threads in the trace, not 201")


def crowd(case):
    case.same_as_plain([case.program("crowd.c"), "1500", "500"], log=False)
    trace = case.trace()
    called = trace.called()
    expect(called.get("member") == 1500 and called.get("step") == 30000,
           f"{called.get('member')} of 1500 members and {called.get('step')} of 30000 steps are in the trace")
    expect(len(trace.threads) == 1501, f"{len(trace.threads)} threads in the trace, not 1501")


def descriptors(case):
    case.same_as_plain([case.program("descriptors.c")], log=False)
    called = case.trace().called()
    expect(called.get("opened") == 2 and called.get("listed") == 1, f"recorded {called}")


def loads(case):
    case.same_as_plain([case.program("loads.c"), case.program("library.c")])
    case.compare(case.trace())


def tails(case):
    """The function that tail-called is the caller, in each way of reading; self times add up to main's total."""
    case.same_as_plain([case.program("tails.c")])
    case.compare(case.trace(), only_entries=True)

    def read(*arguments):
        return case.run([case.tool, *arguments, "-i", case.trace_path]).stdout

    graph = json.loads(read("graph", "--json", "--min-percent", "0", "*"))
    calls = {}
    names = {node["id"]: node["function"] for node in graph["callers"]}
    for node in graph["callers"]:
        # Start-up code, which has no names, is traced in stock builds where it has an unwind table.
        if node["depth"] == 1 and "+0x" not in node["function"]:
            calls[node["function"], names[node["parent"]]] = node["calls"]
    wanted = {("by_pointer", "first"): 1, ("by_pointer", "last"): 1, ("even", "odd"): 6, ("first", "last"): 2,
              ("main", "by_pointer"): 2, ("main", "even"): 1, ("main", "first"): 1, ("main", "odd"): 1,
              ("odd", "even"): 6}
    expect(calls == wanted, f"the callers are {calls}, not {wanted}")
    rows = {row["function"]: row for row in json.loads(read("report", "--json"))["rows"]}
    own, whole = sum(rows[name]["self_ns"] for name in rows if "+0x" not in name), rows["main"]["total_ns"]
    expect(abs(own - whole) < 100, f"own times add up to {own} ns of main's {whole}")
    paths = {line.rsplit(" ", 1)[0] for line in read("export", "--format", "folded", "--weight", "calls").splitlines()}
    expect("main;by_pointer;first;last" in paths, f"the paths are {sorted(paths)}")


def finds(case):
    """dlsym(RTLD_NEXT) by a tail call finds what it finds without us; the other functions are traced all the same."""
    case.same_as_plain([case.program("finds.c")], log=False)
    called = set(case.trace().called())
    expect({"main", "show", "other"} <= called, f"recorded {sorted(called)}, main, show or other is missing")


def vforks(case):
    """The very first call is in a vfork child, which may not take a buffer; all others are recorded."""
    case.need_feature("vfork")
    outcome = case.same_as_plain([case.program("vforks.c")], ("-l", "step", "--no-exec"), log=False, stderr=False)
    called = case.trace().called()
    expect(called == {"step": 79}, f"recorded {called}, not 79 of 80 steps")
    expect("vfork()" in outcome.stderr and "-l main" in outcome.stderr and "(-b)" not in outcome.stderr, f"stderr says {outcome.stderr!r}")
    outcome = case.same_as_plain([case.program("vforks.c")], ("-l", "step", "-l", "main", "--no-exec"), log=False, stderr=False)
    expect(case.trace().called() == {"step": 80, "main": 1}, f"the remedy is none: {case.trace().called()}")
    expect("not recorded" not in outcome.stderr, f"stderr says {outcome.stderr!r}")


def storm(case):
    outcome = case.same_as_plain([case.program("signals.c"), "storm"], log=False, stderr=False)
    ticks = next(int(line.split()[1]) for line in outcome.stderr.splitlines() if line.startswith("ticks"))
    called = case.trace().called()
    # A handler may still run after the count was read and before the timer is off.
    expect(ticks <= called.get("tick", 0) <= ticks + 2, f"{ticks} handler calls, {called.get('tick', 0)} in the trace")


def entered(case):
    """A function that a handler enters without a call: what lies where a return address would is the program's."""
    case.same_as_plain([case.program("entered.c")], log=False)
    called = case.trace().called()
    expect(called.get("victim") == 100 and called.get("sum") == 100, f"recorded {called}")


def begins(case):
    """The function that a program begins in has no return address, but the number of arguments in its place."""
    case.need_native("the number lies on the stack of x86-64")
    program = case.program("begins.c", flags=["-nostartfiles", "-Wl,-e,begin"])
    outcome = case.same_as_plain([program, "one", "two"], log=False)
    expect(outcome.status == 6, f"exit status {outcome.status}, not twice three")
    called = case.trace().called()
    expect(called.get("twice") == 1 and "begin" not in called, f"recorded {called}")


def nests(case):
    """However much is lost, no call is told of in one that it was not in, or as longer than it was."""
    for more in ((), ("--time", "adaptive", "--time-small", "100000")):
        done = case.record([case.program("nests.c"), "30" if case.cpu.native else "3"], ["--mode", "drop", "-b", "8K", *more], log=False)
        longest = {name: int(ns) for name, ns in map(str.split, done.stdout.splitlines())}
        done = case.run([case.tool, "export", "--format", "folded", "--weight", "calls", "-i", case.trace_path, "-o", "-"])
        paths = [line.rsplit(" ", 1)[0].split(";") for line in done.stdout.splitlines()]
        lost = sum(thread.lost for thread in case.trace().threads.values())
        expect(lost > 100 and paths, f"{lost} records were lost, {len(paths)} paths")
        events = [json.loads(line) for line in case.run([case.tool, "export", "--format", "json", "-i", case.trace_path]).stdout.splitlines()]
        told = sum(event["records"] for event in events if event.get("ev") == "lost")
        expect(told == lost, f"events tell of {told} lost records, and {lost} were lost")
        callers = {("main", "both"), ("both", "outer"), ("both", "thrown"), ("both", "down"), ("down", "down"), ("down", "leaf"), ("member", "outer"), ("outer", "middle"), ("other", "middle"), ("middle", "leaf"),
                   ("thrown", "jumps"), ("thrown", "leaf"), ("jumps", "leaf")}
        for path in paths:
            # A call of which the entry is lost has no name: what it calls is in the innermost one that is known.
            for index, (caller, called) in enumerate(zip(path, path[1:])):
                expect((caller, called) in callers or is_skipped(caller, called, callers), f"{caller} calls {called} in {path[:index + 3]}")
            expect(path.count("down") <= DEEP, f"{path.count('down')} calls of down() within each other, not {DEEP}")
        done = case.run([case.tool, "report", "--json", "-i", case.trace_path])
        told = {row["function"]: row["max_ns"] for row in json.loads(done.stdout)["rows"] if row["function"] in longest and row["calls"]}
        expect(all(told[name] <= longest[name] * 1.02 + 2000 for name in told), f"(ns) told of {told}, the program's clock says {longest}")


def quits(case):
    """The calls that a thread leaves open at its end do not last until the process' end."""
    done = case.record([case.program("quits.c")], log=False)
    report = case.run([case.tool, "report", "--json", "-i", case.trace_path])
    rows = {row["function"]: row for row in json.loads(report.stdout)["rows"]}
    total, room = rows["member"]["total_ns"], int(done.stdout)
    expect(rows["member"]["unfinished"] == 40 and total < room, f"{rows['member']}; the program took {room} ns for all of them")


def is_skipped(caller, called, callers):
    """There is a way from the caller to the called function over others."""
    return any(one == caller and other != one and (other == called or is_skipped(other, called, callers)) for one, other in callers)


def recurse(case):
    case.same_as_plain([case.program("recurse.c"), str(DEPTH)], log=False)
    trace = case.trace()
    called = trace.called()
    expect(called.get("down") == DEPTH + 1, f"{called.get('down')} calls of down, not {DEPTH + 1}")
    depth = deepest = 0
    for thread in trace.threads.values():
        for kind, _, _ in thread.events():
            depth += (kind == 1) - (kind == 2)
            deepest = max(deepest, depth)
    expect(depth == 0 and deepest == DEPTH + 2, f"deepest frame {deepest}, left open {depth}")


CASES = {
    "calls": shapes("calls.c"),
    "classes": shapes("classes.cc"),
    "forks": executing(shapes("forks.c")),
    "signals": shapes("signals.c"),
    "jumps": shapes("jumps.c"),
    "threads": threads,
    "crowd": crowd,
    "descriptors": descriptors,
    "loads": loads,
    "tails": tails,
    "finds": finds,
    "storm": storm,
    "vforks": vforks,
    "recurse": recurse,
}
SINGLE = {"entered": entered, "begins": begins, "nests": nests, "quits": quits}

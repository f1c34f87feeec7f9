"""Handlers of a program's own (libcalltap.so): programs that link it and hold what their handlers saw against what they
did (test/prog/handled*), and programs that know nothing of it (test/prog/handling.c is preloaded).  handled.py has what
may happen to the tool meanwhile."""
import os
import re
import signal
import time

import live
from harness import Skip, expect, until
from steering import Program, clean, look

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LARGE = 1 << 20  # bytes of a trace


def library_folder(case):
    """The build's folder of libcalltap.so for the CPU."""
    folder = case.built("src", "lib", *([] if case.cpu.native else [case.cpu.name]))
    if not os.path.exists(os.path.join(folder, "libcalltap.so")):
        raise Skip("libcalltap.so is not built")
    return folder


def linking(case):
    """Flags for what links the library of the build."""
    folder = library_folder(case)
    return ["-I" + os.path.join(ROOT, "include"), "-L" + folder, "-lcalltap", f"-Wl,-rpath,{folder}"]


def program(case, source, flags=(), variant=""):
    return case.program(source, flags=[*flags, *linking(case)], variant=variant)


def with_handlers(case, **more):
    """The environment in which the programs open sessions."""
    return {**case.environment(False), "HANDLED_TOOL": case.tool, **more}


def run_handled(case, command, **more):
    """The command's outcome with handlers; what it runs in is its own again after that."""
    kept, changed = case.environment, with_handlers(case, **more)
    case.environment = lambda log=True: dict(changed)
    try:
        return case.run(command)
    finally:
        case.environment = kept


def in_session(case, command):
    """The command as one that may open a session.  No tool can come into an emulated program: it joins a recording."""
    return command if case.cpu.native else case.record_command(command, ["--mode", "drop", "-b", "8M"])


def same(case, command, status=0, **more):
    """Equal output and end with handlers and without."""
    kept = case.environment
    case.environment = lambda log=True: {**kept(log), **more}
    plain = case.run(command)
    case.environment = kept
    handled = run_handled(case, in_session(case, command), **more)
    expect(plain.status == status, f"{command}: {plain.status} plain: {plain.stdout[-300:]!r} {plain.stderr[-300:]!r}")
    expect("wrong: " not in handled.stdout, f"{command[1:]}: {handled.stdout[-500:]}")
    case.same_outcome(plain, handled)
    no_tool_is_left(case)


def serving(case):
    """Pids of tools of this build that serve a program."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if b"serve" in words[1:2] and os.readlink(f"/proc/{pid}/exe") == os.path.realpath(case.tool):
                found.append((int(pid), int(words[2])))
        except (OSError, IndexError, ValueError):
            continue
    return found


def is_served(case, pid):
    """The process, or a child of it: other cases have tools of their own."""
    for _, served in serving(case):
        try:
            with open(f"/proc/{served}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if pid in (served, parent):
            return True
    return False


def no_tool_is_left(case):
    """The tools end with the programs that they serve.  One that does not is ended here, or each later case would find it."""
    def left():
        return [tool for tool, pid in serving(case) if not os.path.exists(f"/proc/{pid}")]

    try:
        until("tools that have nobody to serve to end", lambda: not left(), 10)
    finally:
        for tool in left():
            os.kill(tool, signal.SIGKILL)


def cases_of(source, names, flags=(), prefix="", status=None):
    """{name of the test: test} of a program's cases."""
    def test_of(name):
        def test(case):
            same(case, [program(case, source, flags), name], (status or {}).get(name, 0))
        return test
    return {f"handlers-{prefix}{name}": test_of(name) for name in names}


def in_every_build(case):
    """Cases that depend on the compiler: values, counts, exceptions."""
    same(case, [program(case, "handled.c"), "one-thread"])
    same(case, [program(case, "handled_values.c"), "values"])
    same(case, [program(case, "handled_filters.c"), "chosen"])
    same(case, [program(case, "handled_throws.cc"), "throws"])


def later(case):
    """A library that is loaded after the handlers were registered."""
    same(case, [program(case, "handled_children.c"), "later"], HANDLED_LIBRARY=case.program("library.c"))


# ---- programs that know nothing of it ----


def handling(case):
    """The library of handlers that change all that they may."""
    return program(case, "handling.c", ["-fPIC", "-no-pie", "-shared"], ".so")


def under(source, *arguments, status=0, flags=(), stderr=True):
    """A program of test/prog with handlers on each of its functions: the same output, the same end."""
    def test(case):
        counts, library = os.path.join(case.folder, "counts"), handling(case)
        command = [case.program(source, variant="-under", flags=[*flags, "-Wl,--wrap=main", "-rdynamic", library]), *arguments]
        plain = case.run(command)
        expect(plain.status == status, f"{command}: {plain.status} plain: {plain.stderr[-300:]!r}")
        handled = run_handled(case, in_session(case, command), HANDLED_COUNTS=counts)
        case.same_outcome(plain, handled, stderr)
        if status == 0:
            with open(counts, encoding="utf-8") as file:
                entries, exits = map(int, file.read().split()[:2])
            expect(entries and exits <= entries, f"{entries} entries, {exits} exits")
        no_tool_is_left(case)
    return test


def recorded(source, name, *options):
    """A program's case while it is recorded: the same, and a trace that holds together."""
    def test(case):
        command = [program(case, source), name]
        plain = case.run(command)
        handled = run_handled(case, case.record_command(command, ["-b", "8M", *options]))
        expect("wrong: " not in handled.stdout, f"{command[1:]}: {handled.stdout[-500:]}")
        case.same_outcome(plain, handled)
        if os.path.getsize(case.trace_path) > LARGE:  # these readers are slow
            done = case.run([case.tool, "report", "-i", case.trace_path])
            expect(done.status == 0 and done.stdout, f"calltap report: {done.stderr!r}")
            return
        trace = case.trace()
        if not any(thread.lost for thread in trace.threads.values()):
            live.check_frames(trace)
        case.readable()
    return test


def loaded(case):
    """`calltap load`: a library of handlers comes into a program that runs, which notices nothing; bad ones are told."""
    case.need_native("attaching")
    library, counts = handling(case), os.path.join(case.folder, "counts")
    kept, changed = case.environment, with_handlers(case, HANDLED_BUSY="1", HANDLED_COUNTS=counts)
    case.environment = lambda log=True: dict(changed)
    with Program(case, "4", "busy") as target:
        case.environment = kept
        bad = os.path.join(case.folder, "bad.so")
        with open(bad, "w", encoding="utf-8") as file:
            file.write("no library\n")
        for path in ("/nowhere/library.so", bad, case.folder):
            before = look(target)
            done = case.run([case.tool, "load", str(target.pid), path])
            expect(done.status and re.fullmatch(r"calltap: .+\n", done.stderr), f"{path}: {done.status} {done.stderr!r}")
            clean(target, before)
        for _ in range(2):  # once more does nothing
            done = case.run([case.tool, "load", str(target.pid), library])
            expect(done.status == 0, f"calltap load: {done.status} {done.stderr!r}")
        with open(f"/proc/{target.pid}/maps", encoding="utf-8") as maps:
            expect(library in maps.read(), "the library is not there")
        time.sleep(3)
        target.end()
    with open(counts, encoding="utf-8") as file:
        entries, _, _, registered, opened = map(int, file.read().split())
    expect(entries and registered and opened, f"{opened} sessions, {registered} registered, {entries} entries")
    no_tool_is_left(case)


def stress(*options):
    """test/stress/handlers.py."""
    def test(case):
        case.need_native("attaching")
        library_folder(case)
        case.stress("handlers.py", *options, timeout=20000)
    return test


UNDER = {
    "calls": under("calls.c"), "registers": under("registers.c"), "values": under("values.c"),
    "conventions": under("conventions.c"), "tails": under("tails.c"), "frames": under("frames.c"),
    "longjumps": under("longjumps.c"), "jumps": under("jumps.c"), "nested": under("nested.c"),
    "classes": under("classes.cc", status=1), "exceptions": under("exceptions.cc"), "routines": under("routines.c"),
    "altstacks": under("altstacks.c"), "layout": under("layout.c"), "generators": under("generators.cc", flags=["-std=gnu++20"]),
    "edges": under("edges.c"), "ownstacks": under("ownstacks.c"), "handover": under("handover.c"),
    "interposed": under("interposed.c"), "forks": under("forks.c"), "signals": under("signals.c"),
}

RECORDED = {
    "counts": ("handled.c", "one-thread"), "threads": ("handled.c", "eight-threads"), "guard": ("handled.c", "guard"),
    "data": ("handled.c", "data"), "jumping": ("handled.c", "jumping"), "filters": ("handled_filters.c", "changed"),
    "limited": ("handled.c", "one-thread", "--max-depth", "2"), "short": ("handled.c", "one-thread", "-t", "10us"),
    "tree": ("handled.c", "one-thread", "-g", "recurse"), "no-tree": ("handled.c", "one-thread", "--no-graph", "recurse"),
    "values": ("handled_values.c", "values"),
    "throws": ("handled_throws.cc", "throws"), "out": ("handled_throws.cc", "out-of-handlers"),
    "faults": ("handled_faults.c", "at-exit"), "at-once": ("handled_faults.c", "at-once"),
    "churn": ("handled_threads.c", "churn-short", "--mode", "drop"), "storm": ("handled_threads.c", "storm", "--mode", "drop"),
    "coroutines": ("handled_threads.c", "coroutines"), "forks": ("handled_children.c", "forks"),
    "forks-within": ("handled_children.c", "forks-within"),
    "trigger": ("handled.c", "one-thread", "--stack-when", "main > 100s"),
    "data-trigger": ("handled.c", "data", "--stack-when", "* > 100s"),
}

# Cases that work neither under an emulator nor in a recording that the program joins.
NATIVE = {
    "handlers-churn": "so many threads are soon over", "handlers-churn-vectors": "so many threads are soon over",
    "handlers-child-opens": "a page is wiped in a forked child", "handlers-strangers": "a program chooses who its orphans go to",
    "handlers-fault-own-before": "a session begins after the program has set its handlers",
    "handlers-recorded-trigger": "there are triggers", "handlers-recorded-data-trigger": "there are triggers",
}


def native(name, test):
    def only(case):
        case.need_native(NATIVE[name])
        test(case)
    return only if name in NATIVE else test


# Some campaigns with programs that are prepared, some with stock ones; the long run has all of both.
STRESSED = ("throws", "threads", "forks", "stock-stacks", "stock-crowd", "stock-mixture")
CASES = {"handlers": in_every_build}
SINGLE = {
    **cases_of("handled.c", ("eight-threads", "eight-threads-vectors", "several", "in-order", "refusing", "data", "guard",
                             "jumping")),
    **cases_of("handled_filters.c", ("changed", "refused", "everything"), prefix="filter-"),
    **cases_of("handled_values.c", ("general",), prefix="values-"),
    **cases_of("handled_threads.c", ("churn", "churn-vectors", "churn-of-many", "waits", "waits-beside", "within", "ends-within",
                                     "two-sessions", "storm", "storm-vectors", "jumped-over", "coroutines")),
    **cases_of("handled_children.c", ("forks", "forks-within", "ends-in-fork", "child-opens", "stale", "strangers")),
    **cases_of("handled_throws.cc", ("ends", "in-handlers", "out-of-handlers"), prefix="throws-"),
    **cases_of("handled_faults.c", ("at-entry", "at-exit", "reals", "at-once", "own-before", "own-after", "put-back",
                                    "ignored", "dies", "dies-of-sent", "other-stacks"), prefix="fault-",
               status={"dies": 128 + signal.SIGSEGV, "dies-of-sent": 128 + signal.SIGFPE}),
    **{f"handlers-on-{name}": test for name, test in UNDER.items()},
    "handlers-later": later,
    "handlers-loaded": loaded,
    **{f"handlers-recorded-{name}": recorded(*what) for name, what in RECORDED.items()},
    "handlers-stress": stress("--rounds", "1", *(f"--only={name}" for name in STRESSED)),
}
SINGLE = {name: native(name, test) for name, test in SINGLE.items()}
ALIKE = dict.fromkeys((
    "handlers-several", "handlers-in-order", "handlers-refusing", "handlers-filter-changed", "handlers-filter-refused",
    "handlers-churn-of-many", "handlers-waits-beside", "handlers-two-sessions", "handlers-recorded-threads",
    "handlers-recorded-guard", "handlers-recorded-data", "handlers-recorded-filters", "handlers-recorded-limited",
    "handlers-recorded-short", "handlers-recorded-no-tree", "handlers-recorded-throws", "handlers-recorded-at-once",
    "handlers-recorded-churn"))
LONG = {
    "handlers-stress-long": stress("--long"),
}

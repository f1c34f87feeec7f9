"""Calls into shared libraries, recorded at the program's PLT, against what the program says that it has called."""
import json
import os

import tracefile as tf
from harness import Skip, expect

LAYOUTS = {
    "lazy": "-fPIE -pie -Wl,-z,lazy -fcf-protection=none",
    "now": "-fPIE -pie -Wl,-z,now -fcf-protection=none",
    "landing-pads": "-fPIE -pie -Wl,-z,lazy -fcf-protection=full -Wl,-z,ibtplt",
    "fixed": "-fno-pie -no-pie -Wl,-z,lazy",
    "fixed-now": "-fno-pie -no-pie -Wl,-z,now",
    "lld": "-fPIE -pie -fuse-ld=lld",
    "lld-lazy": "-fPIE -pie -fuse-ld=lld -Wl,-z,lazy",
    "lld-landing-pads": "-fPIE -pie -fuse-ld=lld -Wl,-z,force-ibt -fcf-protection=full",
    "gold": "-fPIE -pie -fuse-ld=gold",
}
FLAGS = ["-fno-builtin", "-fno-lto", "-O2", "-lm", "-ldl"]
# What no stub may stand before.
NEVER = {"setjmp", "_setjmp", "__sigsetjmp", "longjmp", "vfork", "dlsym", "getcontext", "makecontext", "swapcontext",
         "__libc_start_main"}


def program(case, layout="lazy", also=""):
    case.need_native("calls at PLTs are found for x86-64")
    if case.cpu.name != "x86_64":
        raise Skip("calls at PLTs are found for x86-64")
    flags = LAYOUTS[layout].split() + also.split()
    case.need_flags(*flags)
    return case.program("libcalls.c", sites=False, variant=f"-{layout}{also.replace(' ', '')}", flags=flags + FLAGS)


def counted(outcome):
    """{name: calls} as the program has printed them."""
    words = [line.split() for line in outcome.stdout.splitlines()]
    names = [pair[0] for pair in words if len(pair) == 2]
    start = names.index("malloc")
    return {pair[0]: int(pair[1]) for pair in [pair for pair in words if len(pair) == 2][start:]}


def listed(case, path):
    """{name: traceable} of the entries that are listed."""
    done = case.run([case.tool, "functions", "--json", path])
    return {function["name"]: function["traceable"] for function in json.loads(done.stdout)["functions"]
            if function["site"] == "libcall"}


def layout_case(layout):
    def test(case):
        path = program(case, layout)
        outcome = case.same_as_plain([path], log=False)
        called, told = case.trace().called(), counted(outcome)
        expect(len(told) == 16, f"the program counts {sorted(told)}")
        for name, count in told.items():
            # What the end of a thread or of the program leaves open is recorded all the same.
            expect(called.get(name) == count, f"{name}: recorded {called.get(name)}, called {count}")
        entries = listed(case, path)
        expect(set(told) <= {name for name in entries if entries[name]}, f"not listed: {set(told) - set(entries)}")
        for name in NEVER:
            expect(not called.get(name) and not entries.get(name), f"{name} is traced")
        case.readable()
    return test


def tail_call(case):
    """What a function jumps to nests in it."""
    path = program(case)
    case.same_as_plain([path], ["-l", "by_tail", "-l", "strlen"], log=False)
    called = case.trace().called()
    expect(called == {"by_tail": 5, "strlen": 5}, f"recorded {called}")
    case.same_as_plain([path], ["-g", "by_tail"], log=False)
    called = case.trace().called()
    expect(called == {"by_tail": 5, "strlen": 5}, f"in the tree: {called}")


def filters(case):
    path = program(case)
    for options, wanted in (
            (["-l", "malloc"], {"malloc"}),
            (["-l", "str*"], {"strlen", "strtod", "strcmp"}),
            (["-l", os.path.basename(path) + ":pthread_*"], {"pthread_create", "pthread_join", "pthread_exit"}),
            (["-l", "malloc", "-l", "main", "--no-libcalls", "--allow-no-match"], {"main"}),
            (["--stock", "never", "--libcalls", "-l", "ldiv", "-l", "main", "--allow-no-match"], {"ldiv"}),
            (["--min-size", "1000000", "-l", "malloc", "-l", "main"], {"malloc"})):
        case.same_as_plain([path], options, log=False)
        found = set(case.trace().called())
        expect(found == wanted, f"{' '.join(options)}: recorded {sorted(found)}, wanted {sorted(wanted)}")


def other_tracers(case):
    path = program(case)
    outcome = case.same_as_plain([path], ["-p", "function"], log=False)
    called = case.trace().called()
    expect(called.get("malloc") == counted(outcome)["malloc"], f"function: {called.get('malloc')} calls of malloc")
    case.same_as_plain([path], ["-t", "1s"], log=False)
    expect("malloc" not in case.trace().called(), "short calls of malloc are recorded")


def without_plt(case):
    """Its calls go by pointers: there is no entry, and nothing goes wrong."""
    path = program(case, "now", "-fno-plt")
    case.same_as_plain([path], log=False)
    expect("snprintf" not in case.trace().called(), "a call without a PLT is recorded")


def prepared(case):
    """A program with compiled sites is traced by these alone, unless one asks for more."""
    program(case)
    path = case.program("libcalls.c", variant="-prepared", flags=LAYOUTS["lazy"].split() + FLAGS)
    case.same_as_plain([path], log=False)
    called = case.trace().called()
    expect("malloc" not in called and "main" in called, f"recorded {sorted(called)}")
    outcome = case.same_as_plain([path], ["--libcalls"], log=False)
    called = case.trace().called()
    expect(called.get("malloc") == counted(outcome)["malloc"] and "main" in called, f"recorded {sorted(called)}")


def exceptions(case):
    """Exceptions are thrown by a library's function, and pass through others."""
    program(case)
    path = case.program("exceptions.cc", sites=False, variant="-libcalls", flags=["-fPIE", "-pie"])
    case.same_as_plain([path], log=False)
    trace = case.trace()
    expect(trace.called().get("__cxa_throw"), "no throw is recorded")
    for thread in trace.threads.values():
        depth = 0
        for kind, value, _ in thread.events():
            depth += (kind == tf.ENTRY) - (kind == tf.EXIT) - (value if kind == tf.UNWIND else 0)
        expect(depth == 0, f"{depth} frames of thread {thread.tid} were left open")


AS_IT_IS = True  # see harness.py
SINGLE = {f"libcalls/{layout}": layout_case(layout) for layout in LAYOUTS}
SINGLE.update({
    "libcalls/tail-call": tail_call,
    "libcalls/filters": filters,
    "libcalls/other-tracers": other_tracers,
    "libcalls/without-plt": without_plt,
    "libcalls/prepared": prepared,
    "libcalls/exceptions": exceptions,
})

"""Programs built with -pg: gmon.out of a traced run holds each caller of each function as often as that of a plain run."""
import os
import re
import signal
import struct
import subprocess
import time

import jumps
import language
import programs
import tools
from endings import finish, wait_for
from harness import Process, Skip, expect, stop
from steer import own_place

FUNCTIONS = {"main", "once", "leaf", "many", "recursive", "last", "jumping", "compare", "sorted", "leaving", "jumped", "handler",
             "variable"}
BUILDS = {
    "gcc-O2": ("gcc", ["-O2", "-pie", "-fPIE"]),  # call *mcount@GOTPCREL(%rip)
    "gcc-O0-nopie": ("gcc", ["-O0", "-no-pie", "-fno-pie"]),  # call mcount
    "gcc-O3-cet": ("gcc", ["-O3", "-pie", "-fPIE", "-fcf-protection=full", "-Wl,-z,now"]),
    "gcc-sites": ("gcc", ["-O2", "-pie", "-fPIE", "-fpatchable-function-entry=5"]),
    "clang-O2": ("clang", ["-O2", "-pie", "-fPIE"]),  # call mcount@plt
    "clang-O0-nopie": ("clang", ["-O0", "-no-pie", "-fno-pie"]),
}
SHAPES = {"calls", "tails", "threads", "signals", "exceptions", "cancel", "values", "longjumps", "routines", "altstacks",
          "generators", "storms-jump", "steps"}
HISTOGRAM, ARC = b"\0", b"\1"


def built(case, build, *more):
    case.need_native("-pg")
    compiler, flags = BUILDS[build]
    tools.need(compiler, "gprof")
    source = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prog", "profiled.c")
    path = os.path.join(case.folder, "profiled")
    done = subprocess.run([compiler, "-pg", "-g", "-w", "-D_GNU_SOURCE", *flags, "-o", path, source, *more], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Skip(f"{compiler} -pg: {done.stdout.strip()[-200:]}")
    return path


def take_arcs(case):
    """{(caller, function): calls} of gmon.out, which goes; addresses from the text's start on."""
    path = os.path.join(case.folder, "gmon.out")
    with open(path, "rb") as file:
        data = file.read()
    os.rename(path, path + ".last")
    expect(data[:4] == b"gmon", "gmon.out has another format")
    at, low, arcs = 20, 0, {}
    while at < len(data):
        tag, at = data[at:at + 1], at + 1
        if tag == HISTOGRAM:
            low, _, count = struct.unpack_from("<QQI", data, at)
            at += 8 + 8 + 4 + 4 + 16 + 2 * count
        else:
            expect(tag == ARC, f"gmon.out has a record {tag!r}")
            caller, own, calls = struct.unpack_from("<QQI", data, at)
            arcs[caller - low, own - low] = calls
            at += 20
    return arcs


def call_graph(case, program):
    """What gprof makes of it, but for times, numbers, and the order that these give."""
    text = case.run(["gprof", "-b", "-q", program, os.path.join(case.folder, "gmon.out.last")]).stdout
    text = re.sub(r"\d+\.\d+|\[\d+\]", "", text.split("Index by function name")[0].split("called", 1)[-1])
    return sorted(" ".join(line.split()) for line in text.splitlines())


def same_arcs(case, plain, where):
    traced = take_arcs(case)
    expect(len(plain) >= 15, f"only {len(plain)} arcs without the tracer")
    expect(traced == plain, f"{where}: missing {[arc for arc in plain if arc not in traced][:5]}, new "
                            f"{[arc for arc in traced if arc not in plain][:5]}, other counts "
                            f"{[(arc, plain[arc], traced[arc]) for arc in plain if traced.get(arc, 0) not in (0, plain[arc])][:5]}")


def recorded(build):
    def test(case):
        program = built(case, build)
        outcome = case.run([program])
        plain = take_arcs(case)
        graph = call_graph(case, program)
        expect(any("recursive" in line for line in graph), f"gprof prints {graph[:10]}")
        for options in ([], ["-l", "*:*"], ["--max-depth", "2"], ["-l", "leaf"], ["-g", "sorted"], ["-p", "function"]):
            case.same_outcome(outcome, case.record([program], options, log=False))
            same_arcs(case, plain, options)
            expect(call_graph(case, program) == graph, f"{options}: gprof prints another graph")
            called = case.trace().called()
            expect(options or FUNCTIONS <= set(called), f"not in the trace: {FUNCTIONS - set(called)}")
            mcounts = [name for name in called if name.strip("_") in ("mcount", "fentry")]
            expect(not mcounts, f"{options}: {mcounts} are in the trace")
    return test


OWN_LIBRARY = """
long counted;
__asm__(".text\\n.globl mcount\\n.type mcount, @function\\nmcount: mov counted@GOTPCREL(%rip), %r11\\n"
        "lock incq (%r11)\\nret\\n.size mcount, . - mcount\\n");
int printf(const char *format, ...);
__attribute__((destructor)) static void tell(void) { printf("%ld\\n", counted); }
"""


def own_library(case):
    """A library's mcount of another kind is called as often as untraced, and with all that it came with."""
    case.need_native("-pg")
    library = os.path.join(case.folder, "libown.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", library], input=OWN_LIBRARY, text=True, check=True)
    program = built(case, "gcc-O2", library, f"-Wl,-rpath,{case.folder}")
    outcome = case.run([program])
    expect(int(outcome.stdout.split()[-1]) > 5000, f"it prints {outcome.stdout!r}")
    for options in ([], ["-l", "*:*"]):
        case.same_outcome(outcome, case.record([program], options, log=False))
        expect(FUNCTIONS <= set(case.trace().called()), f"recorded {case.trace().called()}")


def in_build(test, build):
    """Another module's case, with its program built with -pg; what it would profile is nobody's business there."""
    def with_mcount(case):
        case.need_native("-pg")
        case.built_by(build)
        test(case)
    return with_mcount


class Waiting:
    """The program, which makes its rounds and then waits for its end."""

    def __init__(self, case, program, rounds):
        self.path = os.path.join(case.folder, "output")
        with open(self.path, "wb") as output:
            self.process = Process([program, str(rounds), "wait"], cwd=case.folder, env=case.environment(False),
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        wait_for(self.path, "ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)

    def ended(self):
        os.kill(self.process.pid, signal.SIGUSR1)
        status = finish(self.process)
        with open(self.path, encoding="utf-8") as file:
            return status, file.read()


def attached(build, end):
    """Attached to twice while it runs, with its frames open, and left again in one way or another."""
    def test(case):
        program = built(case, build)
        own_place(case)
        rounds = 60000
        with Waiting(case, program, rounds) as waiting:
            outcome = waiting.ended()
        plain = take_arcs(case)
        with Waiting(case, program, rounds) as waiting:
            for number in range(2):
                if os.path.exists(case.trace_path):
                    os.unlink(case.trace_path)
                end(case, waiting.process.pid)
                calls = sum(case.trace(complete=False).called().values())
                expect(calls > 1000, f"attached {number}: {calls} calls")
            expect(waiting.ended() == outcome, f"it ended otherwise than plain, {outcome}")
        same_arcs(case, plain, "attached")
    return test


def detached(case, pid):
    done = case.run([case.tool, "attach", "-o", case.trace_path, "--duration", "150ms", str(pid)])
    expect(done.status == 0, f"attach: status {done.status}, {done.stderr[-300:]!r}")


def killed(case, pid):
    tool = Process([case.tool, "attach", "-o", case.trace_path, str(pid)], cwd=case.folder, env=case.environment(False),
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + 20
        while not os.path.exists(case.trace_path) or os.path.getsize(case.trace_path) < 100000:
            expect(time.monotonic() < end and tool.poll() is None, "nothing is recorded")
            time.sleep(0.01)
    finally:
        stop(tool)
    time.sleep(0.1)


AS_IT_IS = True  # see harness.py
SINGLE = {
    **{f"mcount-{build}": recorded(build) for build in BUILDS},
    **{f"mcount-attach-{build}": attached(build, detached) for build in ("gcc-O2", "clang-O0-nopie")},
    "mcount-own-library": own_library,
    **{f"mcount-{name}": in_build(test, ("gcc", "stock", "-O2", "pg")) for name, test in {
        **programs.CASES, **jumps.CASES, **language.CASES, **tools.CASES}.items() if name in SHAPES},
    **{f"mcount-clang-{name}": in_build(test, ("clang", "stock", "-O0", "pg")) for name, test in {
        **programs.CASES, **jumps.CASES, **language.CASES}.items() if name in SHAPES},
    "mcount-attach-killed": attached("gcc-O2", killed),
}

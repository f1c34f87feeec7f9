"""A traced program under other tools: debuggers, profilers, unwinders, sanitizers."""
import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

import builds
from endings import finish, start, wait_for
from harness import Failure, Process, Skip, alone, expect, stop
from steering import Program, Tool

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = ("leaf", "middle", "outer", "main")  # the functions of callers.c, innermost first
TURNS = "20"
TABLES = ["-fasynchronous-unwind-tables"]  # not every CPU's compilers write them by themselves
NAMES = ["-rdynamic", *TABLES]
STUB_KINDS = {
    "gated": ["--max-depth", "50"],
    "cut": ["--max-depth", "2"],
    "threshold": ["-t", "1ns"],
    "root": ["-g", "middle"],
    "notree": ["--no-graph", "middle"],
    "call": ["-p", "function"],
    "full": ["-b", "64k", "--mode", "overwrite"],
}


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")


def need_library(case, name):
    if not case.cpu.library(name):
        raise Skip(f"{name} is not installed")


def exceptions(library):
    """C++ exceptions through traced frames by another unwinder than libgcc's."""
    def test(case):
        need_library(case, library)
        flags = ["-Wl,--no-as-needed", f"-l:{library}"]
        case.same_as_plain([case.program("exceptions.cc", variant=library, flags=flags)])
        case.compare(case.trace())
    return test


STEPPED_S = 600  # a debugger's steps of an emulated program, beside other tests; half a minute alone, ten times that on a busy machine


@contextlib.contextmanager
def stepper(case, stepping=()):
    """The emulator's command for a program that a debugger sends signals to, and which has come to its end behind it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, os.path.join(HERE, "stepper.py"), case.cpu.name, port, *stepping]
    with Process(command, stderr=subprocess.PIPE, text=True) as debugger:
        try:
            yield [case.cpu.emulator(), "-g", port]
            said = debugger.communicate(timeout=20)[1]
        finally:
            debugger.kill()
    expect(debugger.returncode == 0, f"the debugger says {said!r}")


def stepped(case, command, options=None, stepping=()):
    """The outcome of steps.c, plain or (with options) recorded: the CPU itself sends its signals, or a debugger does."""
    if case.cpu.native:
        return case.run(command) if options is None else case.record(command, options, log=False)
    with stepper(case, stepping) as emulated:
        return case.run([*emulated, *command] if options is None else
                        case.record_command(command, ["--emulator", shlex.join(emulated), *options]), timeout=STEPPED_S)


BEGAN = time.time()  # what a file says that is older is not of this run


def plain_steps(case, command):
    """How many instructions the program itself has: what stepping through it untraced has counted, the same in each case."""
    path = command[0] + ".plain-steps"
    with alone(path):
        if not os.path.exists(path) or os.path.getmtime(path) < max(BEGAN, os.path.getmtime(command[0])):
            outcome = stepped(case, command)
            if not case.cpu.native and outcome.stdout.endswith(" wrong\n") and outcome.status == 1:
                raise Skip(f"the compiler's own unwind tables leave out a function's end: {outcome.stdout.split()[-2]} "
                           "callers are missing untraced")
            with open(path, "w", encoding="ascii") as file:
                file.write(str(counted_steps(command, outcome)))
        with open(path, encoding="ascii") as file:
            return int(file.read())


def counted_steps(command, outcome):
    expect(outcome.status == 0 and ", 0 wrong" in outcome.stdout, f"callers are missing: {outcome.stdout}{outcome.stderr}")
    with open(command[1], encoding="ascii") as file:
        return int(file.read())


def every_instruction(options=(), library=None):
    """The stack is walked between any two instructions, in stubs and recorders too."""
    def test(case):
        if library:
            need_library(case, library)
        flags = [*TABLES, *([f"-l:{library}"] if library else [])]
        command = [case.program("steps.c", variant=library or "", flags=flags), os.path.join(case.folder, "count")]
        plain = plain_steps(case, command)
        traced = counted_steps(command, stepped(case, command, options))
        # A call limit leaves only few calls to record.
        expect(traced > plain + 20, f"{traced} instructions traced, {plain} plain: nothing was looked at")
    return test


def backtrace(case):
    """backtrace() gives what it gives untraced: no stub, and as many frames as there is room for."""
    program = case.program("callers.c", variant="-names", flags=NAMES)
    outcome = case.same_as_plain([program, "names"], log=False)
    expect("dive+" in outcome.stdout, f"no names in {outcome.stdout[:200]!r}")
    expect(case.trace().called().get("dive", 0) > 800, "dive() was not traced")


class Debugged:
    """callers.c, recorded and running on while a debugger looks at it."""

    def __init__(self, case, *arguments):
        need("gdb")
        case.need_feature("ptrace")
        self.case, self.program = case, case.program("callers.c", variant="-names", flags=NAMES)
        self.arguments = [TURNS, *arguments]
        self.output, self.process = start(case, case.record_command([self.program, "hold", *self.arguments]))
        self.pid = int(wait_for(self.output, "running").split()[1])

    def gdb(self, *commands):
        """Attach gdb and run these commands; returns its output."""
        return gdb(self.case, ["-p", str(self.pid)], *commands)

    def ends_well(self):
        """The program goes on to its end, and prints what it prints untraced."""
        with contextlib.suppress(ProcessLookupError):  # the program was told before, and has ended
            os.kill(self.pid, signal.SIGUSR2)
        status = finish(self.process)
        with open(self.output, encoding="utf-8") as file:
            last = file.read().splitlines()
        plain = self.case.run([self.program, "wait", *self.arguments]).stdout.splitlines()[-1]
        expect(status == 0 and plain in last, f"status {status}, output {last}, plain {plain!r}")
        called = self.case.trace().called()
        expect(called.get("outer", 0) >= int(TURNS), f"recorded {called}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)


def gdb(case, arguments, *commands):
    settings = ("set confirm off", "set pagination off", "set width 0")
    executes = [part for command in (*settings, *commands) for part in ("-ex", command)]
    return case.run(["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", *arguments, *executes]).stdout


def frames(text):
    """The program's functions in the backtraces of a text, innermost first; a list for each backtrace."""
    found, following = [], None
    for line in text.splitlines():
        match = re.match(r"#(\d+) +(?:0x[0-9a-f]+ in )?(\S+) \(", line)
        if match and match[1] == "0":
            found.append([])
            following = 0
        # A line out of turn is that of `up`, or of a frame that was selected.
        if match and int(match[1]) == following:
            following += 1
            found[-1] += [match[2]] if match[2] in OWN else []
    return found


def expect_frames(text, *wanted):
    found = frames(text)
    expect(found == [list(names) for names in wanted],
           f"backtraces {found}, wanted {wanted}; gdb printed {text[-1500:]}")


def gdb_attach(case):
    """Backtraces through stubs; breakpoints at functions and at their first instruction; finish; detach."""
    with Debugged(case) as program:
        text = program.gdb('break leaf if $_caller_is("middle", 1)', "continue", "bt", "finish", "bt", "delete",
                           "break *middle", "continue", "bt", "delete",
                           "break leaf", "continue", "up", "up", "bt", "delete")
        expect_frames(text, OWN, OWN[1:], OWN[1:], frames(text)[3])
        expect("calltap_stub" in text, f"the stubs have no name: {text[-600:]}")
        expect_frames(program.gdb("break outer", "continue", "bt"), OWN[2:])  # attached a second time
        program.ends_well()


def line_of(text):
    """callers.c:LINE of the first line with the text."""
    with open(os.path.join(builds.PROGRAMS, "callers.c"), encoding="utf-8") as file:
        return f"callers.c:{next(number for number, line in enumerate(file, 1) if text in line)}"


def gdb_steps(case):
    """Step into a traced function and out of it; end a frame early; walk the stack at each instruction on the way."""
    in_middle, in_leaf = line_of("leaf(x) + leaf(x + 1)"), line_of("usleep(1000)")
    with Debugged(case) as program:
        text = program.gdb(f"break {in_middle}", "continue", "delete", "step", "bt",  # at leaf's first instruction
                           f"advance {in_leaf}", "bt", "finish", "bt", "finish", "bt",  # by way of its stub
                           f"tbreak {in_leaf}", "continue", "return x * 3 + 1", "bt", "next", "bt")
        middle, leaf = OWN[1:], OWN
        found = frames(text)
        expect_frames(text, leaf, leaf, middle, middle, middle, found[-1])
        expect(found[-1][-1] == "main" and "Value returned is" in text, f"no way out of the functions: {text[-1500:]}")
        text = program.gdb("break outer", "continue", "delete", f"source {os.path.join(HERE, 'gdb_walk.py')}")
        match = re.search(r"(\d+) instructions, (\d+) wrong", text)
        expect(match and int(match[1]) > 150 and match[2] == "0", f"stepping by instructions: {text[-1500:]}")
        program.ends_well()


def gdb_dlopen(case):
    """Stubs that come while the debugger is attached; its breakpoint does not cost the program its SIGTRAP handler."""
    with Debugged(case, case.program("library.c")) as program:
        text = program.gdb("handle SIGUSR2 nostop noprint pass", "break getenv",
                           f"shell kill -USR2 {program.pid}", "continue", "bt")  # in the library's constructor
        wanted = r"#0 .*getenv.*\n(#.*\n)*#.* library_opened \(.*\n#.* calltap_stub \(\)\n#.* call_init"
        expect(re.search(wanted, text) and frames(text) == [["main"]], f"backtrace out of the library: {text[:2500]}")
        program.ends_well()


FINISHES = {name: (f"break within_{name}", "continue", "up", "finish", "delete", "continue") for name in ("thrower", "leaver")}
FINISHED = "caught 6, cleaned 8, left"


def finishes(where):
    """gdb's `finish` in a frame that ends by an exception, or with its thread: the breakpoint lies in the stub, and the
    unwinder comes by."""
    def test(case):
        need("gdb")
        case.need_feature("ptrace")
        program = case.program("finished.cc")
        commands = ("set startup-with-shell off", "start", *FINISHES[where])
        plain = gdb(case, [program], *commands)
        expect(FINISHED in plain and "exited normally" in plain, f"untraced: {plain[-800:]}")
        arguments = [part for command in ("set confirm off", *commands) for part in ("-ex", command)]
        text = case.record(["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", *arguments, program],
                           ["--allow-no-sites"]).stdout
        expect(FINISHED in text and "exited normally" in text, f"traced: {text[-1500:]}")
        called = case.trace().called()
        expect(called.get("thrower") == 3 and called.get("leaver") == 1, f"recorded {called}")
    return test


class Finished(Program):
    """test/prog/finished.cc, until it is told to go on."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("finished.cc"), "wait"])


def finishes_attached(where):
    """gdb finishes frames of a program to which gdb and calltap came later."""
    def test(case):
        need("gdb")
        case.need_native("attaching")
        with Finished(case) as program, Tool(case, program):
            first, *others = FINISHES[where]
            text = gdb(case, ["-p", str(program.pid)], first, "handle SIGUSR1 nostop noprint pass",
                       f"shell kill -USR1 {program.pid}", *others)
            finish(program.process)
            expect(FINISHED in program.printed(), f"{program.printed()!r}; {text[-1500:]}")
    return test


def last_backtrace(case, *arguments):
    return frames(gdb(case, arguments, "bt"))[-1:]


def gdb_core(case):
    """A core file that gdb made of the running program shows the callers."""
    with Debugged(case) as program:
        core = os.path.join(case.folder, "made")
        program.gdb(f"tbreak {line_of('usleep(1000)')}", "continue", f"generate-core-file {core}")
        found = last_backtrace(case, program.program, core)
        expect(found and found[0] in (list(OWN), [OWN[0], *OWN[2:]]), f"backtrace of gdb's core file: {found}")
        program.ends_well()


def kernel_core(case):
    """A core file that the kernel wrote shows the callers."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        if not re.fullmatch(r"[\w.%-]+\n", file.read()):
            raise Skip("the kernel writes core files elsewhere (core_pattern)")
    need("gdb")
    case.need_feature("ptrace")
    program = case.program("callers.c", variant="-names", flags=NAMES)
    command = case.record_command([program, "crash"])
    outcome = case.run(["sh", "-c", 'ulimit -c unlimited && exec "$@"', "sh", *command])
    expect(outcome.status == 128 + signal.SIGABRT, f"status {outcome.status}: {outcome.stderr}")
    cores = [name for name in os.listdir(case.folder) if name.startswith("core")]
    if not cores:
        raise Skip("the kernel wrote no core file here")
    found = last_backtrace(case, program, os.path.join(case.folder, cores[0]))
    expect(found == [list(OWN)], f"backtrace of the kernel's core file: {found}")



def sanitized(*flags, compiler="gcc"):
    """A sanitizer that goes together with the tracer: the same output, and the calls are all there."""
    def test(case):
        need(compiler)
        case.build = (compiler, *case.build[1:])
        plain = case.program("calls.c")
        case.need_flags(*flags)
        program = case.program("calls.c", variant="-".join(("", compiler, *flags)).replace("=", "-"), flags=flags)
        outcome = case.run([program])
        if outcome.status:
            raise Skip(f"untraced, it ends with {outcome.status}: {outcome.stderr.strip()[:200]}")
        case.same_as_plain([plain], log=False)
        calls = case.trace().called()
        case.same_as_plain([program], log=False)
        sanitized_calls = case.trace().called()
        expect(calls.items() <= sanitized_calls.items(), f"recorded {sanitized_calls}, without the sanitizer {calls}")
    return test


def refused(sentence, *flags, compiler="gcc"):
    """A sanitizer's build that cannot be traced: record says so in one sentence, and does not run the program."""
    def test(case):
        need(compiler)
        case.build = (compiler, *case.build[1:])
        case.need_flags(*flags)
        program = case.program("calls.c", variant="-".join(("", compiler, *flags)).replace("=", "-"), flags=flags)
        outcome = case.record([program], log=False)
        expect(outcome.status == 2 and not outcome.stdout and sentence in outcome.stderr and
               outcome.stderr.count("\n") == 1, f"status {outcome.status}: {outcome.stdout}{outcome.stderr}")
    return test


def valgrind(case):
    """Under valgrind the agent does nothing, and the tool says so."""
    need("valgrind")
    case.need_native("valgrind runs programs")
    program = case.program("callers.c", variant="-names", flags=NAMES)
    command = [program, "wait", "3"]
    plain = case.run(["valgrind", "-q", *command])
    outcome = case.record(["sh", shutil.which("valgrind"), "-q", *command], ["--allow-no-sites"], log=False)
    expect(outcome.status == 0 and outcome.stdout.splitlines()[-1] == plain.stdout.splitlines()[-1],
           f"status {outcome.status}: {outcome.stdout}{outcome.stderr}")
    expect("runs under valgrind" in outcome.stderr, f"the tool says nothing: {outcome.stderr}")


def perf(case):
    """perf by frame pointers names the true callers, with a map of the stubs."""
    need("perf")
    case.need_native("perf samples programs")
    program = case.program("callers.c", variant="-pointers", flags=["-fno-omit-frame-pointer", *NAMES])
    sample = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "500", "--call-graph", "fp", "-o", "samples"]
    outcome = case.run([*sample, "--", *case.record_command([program, "burn", "600"], ["--perf-map"])])
    if "perf_event_paranoid" in outcome.stderr or "No permission" in outcome.stderr:
        raise Skip("perf may not be used here")
    expect(outcome.status == 0, f"status {outcome.status}: {outcome.stderr}")
    pid = outcome.stdout.split()[1]
    try:
        script = case.run(["perf", "script", "-i", "samples", "--pid", pid, "-F", "comm,ip,sym"]).stdout
        chains = [[line.split(maxsplit=1)[1] for line in block.splitlines()[1:] if len(line.split()) > 1]
                  for block in script.split("\n\n")]
        wanted = [["leaf", *(f"{name} [calltap]" for name in names)] for names in (OWN, [OWN[0], *OWN[2:]])]
        whole = [any(chain[:len(names)] == names for names in wanted) for chain in chains if chain[:1] == ["leaf"]]
        expect(len(whole) > 5 and sum(whole) > 0.8 * len(whole),
               f"{sum(whole)} of {len(whole)} samples show all callers: {script[:800]}")
        mode = os.stat(f"/tmp/perf-{pid}.map").st_mode
        expect(mode & 0o777 == 0o600, f"mode of the map {mode:o}")
    finally:
        if os.path.exists(f"/tmp/perf-{pid}.map"):
            os.unlink(f"/tmp/perf-{pid}.map")


def perf_map_link(case):
    """A link that lies where the map would be is not followed."""
    program = case.program("callers.c", variant="-names", flags=NAMES)
    victim = os.path.join(case.folder, "victim")
    script = f"ln -s {shlex.quote(victim)} /tmp/perf-$$.map && echo $$ || exit"
    outcome = case.run(case.under(script, [program, "wait", "3"], ["--perf-map"])[1])
    link = f"/tmp/perf-{outcome.stdout.split()[0]}.map"
    try:
        expect(os.path.islink(link) and not os.path.exists(victim), "the map was written through a link")
        expect(outcome.status == 0 and link in outcome.stderr, f"status {outcome.status}: {outcome.stderr}")
        expect(case.trace().called().get("leaf") == 9, f"recorded {case.trace().called()}")
    finally:
        os.unlink(link)


def perf_map_there(case):
    """A map that is older than the process is another's, whose number has come again; a younger one may be a JIT's."""
    program = case.program("callers.c", variant="-names", flags=NAMES)
    for old, made in ((True, "touch -d '1 hour ago' /tmp/perf-$$.map"), (False, "true")):
        script = f"echo 1000 10 theirs > /tmp/perf-$$.map && {made} && echo $$ || exit"
        outcome = case.run(case.under(script, [program, "wait", "3"], ["--perf-map"])[1])
        path = f"/tmp/perf-{outcome.stdout.split()[0]}.map"
        with open(path, encoding="ascii") as file:
            text = file.read()
        os.unlink(path)
        expect(outcome.status == 0 and (path in outcome.stderr) != old, f"status {outcome.status}: {outcome.stderr}")
        expect(("theirs" in text, "[calltap]" in text) == (not old, old), text)
        expect(case.trace().called().get("leaf") == 9, f"recorded {case.trace().called()}")


def perf_map_exec(case):
    """Forked children get maps of their own, and what one of them executes in its place a new one."""
    case.executing()
    outcome = case.same_as_plain([case.program("forks.c")], ["--perf-map"], log=False)
    trace = case.trace()
    path_of = "/tmp/perf-{}.map".format
    try:
        expect("/tmp/perf-" not in outcome.stderr, outcome.stderr)
        for path in {path_of(trace.pid(thread)) for thread in trace.threads.values()}:
            with open(path, encoding="utf-8") as file:
                addresses = [line.split()[0] for line in file]
            expect(len(addresses) == len(set(addresses)) > 0, f"{path} names a stub twice, or none: {addresses}")
    finally:
        for path in {path_of(process[0]) for process in trace.processes.values()}:
            if os.path.exists(path):
                os.unlink(path)


def tracer_inside(tool, *options):
    """strace or ltrace follow record and its program, which is recorded as ever."""
    def test(case):
        need(tool)
        program = case.program("callers.c", variant="-names", flags=NAMES)
        command = [program, "wait", "3"]
        outcome = case.run([tool, *options, "-o", "log", *case.record_command(command)])
        plain = case.run([tool, *options, "-o", "log", *case.plain_command(command)])
        expect(outcome.status == 0 and outcome.stdout.splitlines()[-1] == plain.stdout.splitlines()[-1],
               f"status {outcome.status}: {outcome.stdout}{outcome.stderr}")
        expect(case.trace().called().get("leaf") == 9, f"recorded {case.trace().called()}")
    return test


STEPPING_COUNT = 120  # calls in a row; a call takes about a millisecond


def steps_itself(*options):
    """A program whose trap flag is set gets a SIGTRAP behind each instruction of ours, too: never while signals are blocked."""
    def test(case):
        case.need_native("a program can set a trap flag")
        done = case.record([case.program("stepping.c", flags=["-O2", "-pthread"]), str(STEPPING_COUNT)], options, log=False)
        expect(done.status == 0, f"status {done.status}: {done.stderr}")
        made = sum(int(line.split()[1]) for line in done.stdout.splitlines())
        called = case.trace().called()
        expect(called["leaf"] == 4 * STEPPING_COUNT and sum(called.values()) == made > 4 * STEPPING_COUNT, f"{made} calls, recorded {called}")
    return test


def gdb_stepi(case):
    """A debugger's steps through a thread's first record, with signals blocked, leave no trap flag to the program."""
    case.need_native("the debugger's step is a trap flag")
    case.need_feature("ptrace")
    need("gdb")
    commands = ("set confirm off", "set startup-with-shell off", "break *main", "run", "stepi 9000", "info registers rip", "continue", "continue")
    arguments = [part for command in commands for part in ("-ex", command)]
    text = case.record(["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", *arguments, "--args", case.program("repeats.c"), "1000"],
                       ["--allow-no-sites"]).stdout
    # Whether gdb says how the program has ended depends on which of its threads ends last.
    expect("3403524192" in text and "SIGTRAP" not in text, text[-1500:])
    expect(case.trace().called() == {"mixed": 1000}, f"recorded {case.trace().called()}")


CASES = {
    "steps": every_instruction(),
    "backtrace": backtrace,
}
ALIKE = dict.fromkeys(("steps_root", "steps_notree", "steps_full"))  # other rows lead to the same stubs
SINGLE = {
    **{f"steps_{name}": every_instruction(options) for name, options in STUB_KINDS.items()},
    "steps_libunwind": every_instruction(library="libunwind.so.8"),
    "exceptions_libunwind": exceptions("libunwind.so.8"),
    "exceptions_llvm": exceptions("libunwind.so.1"),
    "gdb_attach": gdb_attach,
    "gdb_steps": gdb_steps,
    "gdb_stepi": gdb_stepi,
    "stepping": steps_itself("-b", "8K"),
    "stepping_overwrite": steps_itself("-b", "1M", "--mode", "overwrite"),
    "stepping_values": steps_itself("-A", "leaf"),
    "stepping_calls": steps_itself("-p", "function"),
    "stepping_adaptive": steps_itself("--time", "adaptive", "--time-short", "1s"),
    **{f"gdb_finish_{where}": finishes(where) for where in FINISHES},
    **{f"gdb_finish_{where}_attached": finishes_attached(where) for where in FINISHES},
    "gdb_dlopen": gdb_dlopen,
    "gdb_core": gdb_core,
    "kernel_core": kernel_core,
    "asan_static": sanitized("-fsanitize=address", "-static-libasan"),
    "asan_clang": sanitized("-fsanitize=address", compiler="clang"),
    "ubsan": sanitized("-fsanitize=undefined"),
    "ubsan_clang": sanitized("-fsanitize=undefined", compiler="clang"),
    "lsan": sanitized("-fsanitize=leak"),
    "asan_shared": refused("-static-libasan", "-fsanitize=address"),
    "tsan": refused("ThreadSanitizer", "-fsanitize=thread"),
    "tsan_clang": refused("ThreadSanitizer", "-fsanitize=thread", compiler="clang"),
    "msan_clang": refused("MemorySanitizer", "-fsanitize=memory", compiler="clang"),
    "perf": perf,
    "perf_map_link": perf_map_link,
    "perf_map_there": perf_map_there,
    "perf_map_exec": perf_map_exec,
    "valgrind": valgrind,
    "strace": tracer_inside("strace", "-f"),
}
LONG = {
    "ltrace": tracer_inside("ltrace", "-f", "-S"),
}

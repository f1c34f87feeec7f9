"""C++, C and calling conventions: exceptions, cancellation, tail calls, odd signatures, what runs around main."""
import copy
import json
import os
import shutil
import subprocess

import builds
import tracefile as tf
from harness import Failure, Skip, expect


def balanced(trace, deepest=None, more=False):
    """Every frame that was entered was left, in every thread; none was deeper than `deepest`, unless there may be `more`: an
    unwinder in the program itself, whose own functions are recorded where no compiler has prepared any."""
    for thread in trace.threads.values():
        depth = most = 0
        for kind, value, _ in thread.events():
            depth += (kind == tf.ENTRY) - (kind == tf.EXIT) - (value if kind == tf.UNWIND else 0)
            most = max(most, depth)
        expect(depth == 0, f"{depth} frames of thread {thread.tid} were left open")
        expect(deepest is None or more or most <= deepest, f"thread {thread.tid} was {most} frames deep, not {deepest}")


def same(case, command, status=0, stderr=True, **how):
    """The program runs and ends as it does plain, with this status, and its graph is the true one."""
    shutil.rmtree(case.truth)  # a case may run several programs
    os.mkdir(case.truth)
    outcome = case.same_as_plain(command, stderr=stderr)
    expect(outcome.status == status, f"{command} ends with {outcome.status}, not {status}: {outcome.stderr[-300:]}")
    trace = case.trace()
    case.compare(trace, **how)
    return trace


def whole(case, command, deepest=None, **how):
    """And each of its frames ends."""
    balanced(same(case, command, **how), deepest, more="stock" in case.build)


def shape(source, *arguments, flags=(), **how):
    """A program with nothing to vary."""
    def test(case):
        whole(case, [case.program(source, flags=flags), *arguments], **how)
    return test


def has_fentry(case):
    return not case.build[1][0].isdigit()


# The unwinder and the language's run-time library: gcc's inside the program, and LLVM's.  The packages for compiling
# against LLVM's library cannot be installed beside those of another unwinder, so only its run-time part is used.
STATIC = ("-static-libstdc++", "-static-libgcc")
LLVM = ("-DCORE", "-nostdlib++", "-l:libc++.so.1", "-l:libc++abi.so.1", "-l:libunwind.so.1")


def exceptions(case):
    whole(case, [case.program("exceptions.cc")], deepest=16)
    if case.build[3] != "bti":  # the packages' static libraries have no landing pads
        whole(case, [case.program("exceptions.cc", variant="-static", flags=STATIC)], deepest=16)
    if case.build[0] == "clang" and case.cpu.library("libc++.so.1"):
        whole(case, [case.program("exceptions.cc", variant="-llvm", flags=LLVM)], deepest=16)


def terminate(case):
    program = case.program("terminate.cc")
    for how, status in {"uncaught": 134, "noexcept": 134, "twice": 134, "thread": 134, "exit": 5, "handler": 6}.items():
        same(case, [program, how], status)


def faulting(case):
    program = case.program("faulting.cc", flags=["-fnon-call-exceptions" if case.build[0] == "gcc" else "-DBY_CALL"])
    whole(case, [program])
    whole(case, [program, "stack"])


def cancel(case):
    """With clean-up by unwinding, as C++ does it, and by a jump, where the log does not learn of frames' ends."""
    whole(case, [case.program("cancel.c", flags=["-fexceptions"])])
    whole(case, [case.program("cancel.c", variant="-jumps")], only_entries=True)


def cancel_anywhere(threads):
    """The unwinder starts at any instruction, those of stubs and recorders too.  Clean-up is by a jump: by unwinding a
    plain program loses some that way."""
    def test(case):
        outcome = case.same_as_plain([case.program("cancel.c", variant="-jumps"), str(threads)], ["-b", "64K"])
        expect(outcome.stdout == f"{threads} cancelled, {threads} cleaned up\n", outcome.stdout)
        case.compare(case.trace(), known={"main", "anywhere", "handle", "destroy"})
    return test


def destroyed(case):
    whole(case, [case.program("destroyed.cc")])
    # Not with a static libgcc: pthread_cancel loads the shared one, and plain programs end by SIGABRT.
    whole(case, [case.program("destroyed.cc", variant="-libstdcxx", flags=["-static-libstdc++"])])


def resolver_flags(case):
    """clang's call of __fentry__ goes by a PLT entry, which is not ready when a resolver runs."""
    return ["-DLEFT_ALONE"] if case.build[:2] == ("clang", "fentry") else []


def plugin(case):
    """The program, and the object that it loads, whose symbols have versions."""
    flags = ["-DPLUGIN", "-fPIC", "-shared", "-Wl,--default-symver", *resolver_flags(case)]
    other = copy.copy(case)
    if case.build[1] == "nop-mcount":  # not with position-independent code
        other.build = (case.build[0], "mcount-loc", *case.build[2:])
    try:
        loaded = other.program("plugin.cc", variant="-loaded", flags=flags)
    except Failure as failure:
        if "STT_GNU_IFUNC symbol" not in str(failure):
            raise
        raise Skip("this compiler calls a shared object's ifunc in a way that its linker refuses") from failure
    whole(case, [case.program("plugin.cc", flags=["-rdynamic"]), loaded])


def conventions(case):
    if case.build[0] == "clang":
        # The log has no ends of calls in tail position.
        whole(case, [case.program("conventions.c")], only_entries=True)
        return
    whole(case, [case.program("conventions.c", flags=["-fipa-ra"])])
    alone = ["-DLEFT_ALONE"] if has_fentry(case) else []
    whole(case, [case.program("nested.c", flags=["-Wl,-z,execstack", *alone])])


def registers(options):
    def test(case):
        outcome = case.same_as_plain([case.program("registers.c")], options, log=False)
        expect(outcome.status == 0, outcome.stdout[-500:])
        called = case.trace().called().get("probed")
        expect(called == 3000, f"{called} of 3000 calls are in the trace")
    return test


def ifunc(case):
    program = case.program("ifunc.c", flags=resolver_flags(case))
    whole(case, [program])
    listed = case.run([case.tool, "functions", "--json", program]).stdout
    expect("resolve_add" in listed, f"the resolver goes by another name than its own: {listed[-500:]}")


def lifetime(case):
    """With a library linked in: its constructor comes first and its destructor last."""
    library = case.program("library.c")
    flags = ["-Wl,--no-as-needed", library, "-Xlinker", "-rpath", "-Xlinker", os.path.dirname(library)]
    program = case.program("lifetime.c", flags=flags)
    for how in ("return", "exit", "quick_exit", "_exit"):
        trace = same(case, [program, how], status=3)
        expect(trace.called().get("preinit") == 1, "the function in .preinit_array is missing")
    same(case, [program, "thread"])


def ends_of(thread):
    """The thread's records as the export names them: (event, depth, how it ended).  A frame has a name for each
    function that tail-called the next; they end with it, but for a loop, which goes on from its first round."""
    events, frames = [], []

    def depth():
        return sum(map(len, frames))

    def end(how, keep=0):
        while len(frames[-1]) > keep:
            frames[-1].pop()
            events.append(("leave", depth(), how))
            how = "tail" if how == "returned" else how

    for kind, value, _ in thread.events():
        if kind in (tf.EXIT, tf.UNWIND):
            for _ in range(value if kind == tf.UNWIND else 1):
                end("unwound" if kind == tf.UNWIND else "returned")
                frames.pop()
        if kind == tf.TAIL:
            end("tail", frames[-1].index(frames[-1][-1]) + 1)
        elif kind == tf.ENTRY:
            frames.append([])
        if kind in (tf.ENTRY, tf.TAIL):
            events.append(("enter", depth(), None))
            frames[-1].append(value)
    return events


def unwound_export(case):
    """The project's own reader ends the same frames at the same places, and says of which it was an unwinding."""
    trace = same(case, [case.program("exceptions.cc"), "threads"])
    done, found = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path]), {}
    for event in map(json.loads, done.stdout.splitlines()):
        if event["ev"] in ("enter", "leave"):
            found.setdefault(event["tid"], []).append((event["ev"], event["depth"], event.get("end")))
    wanted = {thread.tid: ends_of(thread) for thread in trace.threads.values()}
    expect(any(end == "unwound" for events in wanted.values() for _, _, end in events), "nothing was unwound")
    for tid, events in wanted.items():
        have = found.get(tid, [])
        at = next((i for i, pair in enumerate(zip(events, have)) if pair[0] != pair[1]), min(len(events), len(have)))
        expect(events == have, f"thread {tid}, event {at}: the file says {events[at:at + 3]}, export {have[at:at + 3]}")


def interposed(case):
    trace = same(case, [case.program("interposed.c", flags=["-fno-builtin", "-rdynamic"]), case.program("library.c")])
    called = trace.called()
    missing = {"malloc", "calloc", "free", "realloc", "memset", "strlen", "getenv"} - set(called)
    expect(not missing, f"calls of {sorted(missing)} are missing")
    balanced(trace)


# Options that change how functions are entered or left.
ENTERED = {
    "x86_64": {
        "gcc": ("-mfunction-return=thunk", "-mindirect-branch=thunk", "-fsplit-stack", "-mcmodel=large",
                "-fzero-call-used-regs=all", "-fstack-protector-all"),
        "clang": ("-mretpoline", "-fsanitize=safe-stack", "-mspeculative-load-hardening", "-mcmodel=large"),
    },
    "riscv64": {
        "gcc": ("-msave-restore", "-mno-relax", "-mcmodel=medany", "-fstack-protector-all", "-fno-omit-frame-pointer"),
        "clang": ("-msave-restore", "-mno-relax", "-fstack-protector-all", "-fno-omit-frame-pointer"),
    },
    "aarch64": {
        "gcc": ("-mbranch-protection=pac-ret+leaf+b-key", "-mharden-sls=all", "-mtrack-speculation", "-mno-outline-atomics",
                "-fzero-call-used-regs=all", "-fstack-protector-all", "-mcmodel=tiny"),
        "clang": ("-mbranch-protection=pac-ret+leaf+b-key", "-mharden-sls=all", "-mspeculative-load-hardening",
                  "-fstack-protector-all", "-mcmodel=tiny"),
    },
}


def entered(compiler):
    def test(case):
        case.build = (compiler, *case.build[1:])
        for option in ENTERED[case.cpu.name][compiler]:
            whole(case, [case.program("calls.c", variant=f"-{compiler}{option}", flags=[option])])
    return test


# Each leaves out other calls, and hides frames that exceptions and tail calls pass through.
PARTS = (["-p", "function"], ["--max-depth", "3"], ["-g", "go_down", "-g", "dive", "-g", "outer"], ["-t", "20us"],
         ["--no-graph", "note", "--no-graph", "handle"], ["--max-depth", "2", "--no-graph", "again"],
         ["-l", "fail", "-l", "*make", "-l", "handle*", "-l", "add*", "-l", "*_b"], ["-n", "go_down", "-n", "dive"],
         ["--mode", "drop", "-b", "8K"], ["--mode", "overwrite", "-b", "8K"])


def in_part(source, flags=()):
    """Whatever part of it is traced, the program does the same."""
    def test(case):
        for options in PARTS:
            options = ["--allow-no-match", "--allow-no-sites", *options]
            case.same_as_plain([case.program(source, flags=flags)], options, log=False)
    return test


def compile_rust(case, source, level):
    """Path of the program.  Needs a compiler that can be asked for sites; Rust's own library has none."""
    program = os.path.join(case.folder, "program")
    command = ["rustc", "-g", "-Z", "patchable-function-entry=5", "-C", f"opt-level={level}", "-o", program,
               os.path.join(builds.PROGRAMS, source)]
    case.need_native("Rust programs are built")
    environment = dict(case.environment(log=False), RUSTC_BOOTSTRAP="1")  # the option is not a stable one
    try:
        built = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError as missing:
        raise Skip("rustc is not installed") from missing
    if "unknown unstable option" in built.stdout or "unknown debugging option" in built.stdout:
        raise Skip("this rustc knows no -Z patchable-function-entry; 1.81 does")
    expect(built.returncode == 0, f"cannot build {source}: {built.stdout[-600:]}")
    return program


def panics(level):
    def test(case):
        program = compile_rust(case, "panics.rs", level)
        whole(case, [program])
        same(case, [program, "twice"], status=134, stderr=False)  # stderr names addresses
    return test


def personality(case):
    """A personality routine that asks for the CFA is told the one that it is told untraced."""
    done = case.same_as_plain([case.program("personality.c", flags=["-fexceptions", "-lgcc_s"])])
    expect(done.status == 0 and " 0 wrong" in done.stdout, f"{done.status}: {done.stdout} {done.stderr}")
    called = case.trace().called()
    expect(called.get("throws") == 2000 and called.get("throws_within") == 6000, f"called {called}")


def walks(case):
    """_Unwind_Backtrace() shows the frames that it shows untraced."""
    program = [case.program("walks.c", flags=["-fexceptions", "-lgcc_s"])]
    done = case.same_as_plain(program)
    expect(done.status == 0 and done.stdout.count("frames") >= 4, f"{done.status}: {done.stdout} {done.stderr}")
    expect(case.trace().called().get("walk", 0) >= 4, f"called {case.trace().called()}")


CASES = {
    "exceptions": exceptions,
    "personality": personality,
    "walks": walks,
    "exceptions-threads": shape("exceptions.cc", "threads"),
    "terminate": terminate,
    "faulting": faulting,
    "cancel": cancel,
    "destroyed": destroyed,
    "reused": shape("reused.c", flags=["-fexceptions"]),
    "siblings": shape("siblings.cc", only_entries=True),
    "plugin": plugin,
    "values": shape("values.c", flags=["-lm"]),
    "conventions": conventions,
    "frames": shape("frames.c"),
    "registers": registers([]),
    "ifunc": ifunc,
    "interposed": interposed,
    "lifetime": lifetime,
    "layout": shape("layout.c"),
}
SINGLE = {
    "registers-function": registers(["-p", "function"]),
    "registers-depth": registers(["--max-depth", "2"]),
    "registers-tree": registers(["-g", "main"]),
    "registers-full": registers(["-b", "8K", "-t", "1ns"]),
    "unwound-export": unwound_export,
    "cancel-anywhere": cancel_anywhere(100),
    "in-part-exceptions": in_part("exceptions.cc"),
    "in-part-cancel": in_part("cancel.c", flags=["-fexceptions"]),
    "in-part-siblings": in_part("siblings.cc"),
    "in-part-nested": in_part("nested.c", flags=["-Wl,-z,execstack"]),
    "in-part-frames": in_part("frames.c"),
    "entered-gcc": entered("gcc"),
    "entered-clang": entered("clang"),
    "panics-O0": panics(0),
    "panics-O2": panics(2),
}

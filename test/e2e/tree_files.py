"""Files of `calltap mount`'s tree about bytes among the events, the buffer, the function profiler, and the process itself."""
import contextlib
import errno
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import time

from harness import Process, Skip, expect, halted, stop, until
from steer import calltap, own_place
from steering import Program, left_alone
from tracefs import Tree, mounted, native
from tracefs_options import of_kernel
from tracefs_raw import DATA, consume, cpus, record, stats

# Reads a file 4 times, with a signal each 2 ms, and prints the errors and whether there was anything.
INTERRUPTED = """import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
block, errors, read = ctypes.create_string_buffer(65536), [], 0
for i in range(4):
    file = os.open(sys.argv[1], os.O_RDONLY)
    while (count := libc.read(file, block, 65536)) > 0:
        read += count
    if count < 0:
        errors.append(os.strerror(ctypes.get_errno()))
    os.close(file)
signal.setitimer(signal.ITIMER_REAL, 0)
print(errors, read > 0)
"""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def data(case):
    """trace_marker_raw: the kernel's text of the bytes, as an event and as a comment; in sub-buffers they are as written."""
    with mounted(case) as (_, tree):
        def write(number, rest):
            fd = os.open(tree.path("trace_marker_raw"), os.O_WRONLY)
            try:
                os.write(fd, struct.pack("<I", number) + rest)
            finally:
                os.close(fd)

        for size in (3, 3073):
            tree.refuses(errno.EINVAL, "trace_marker_raw", "x" * size)
        write(1, b"abcde")
        write(0x2a, b"")
        write(7, b"\0\xff\n")
        # As Linux 6.18 prints them: with the bytes that fill up the last word.
        shown = ["# 1 buf: 61 62 63 64 65 00 00 00", "# 2a buf:", "# 7 buf: 00 ff 0a 00"]
        found = [line.split(": ", 1)[1] for line in tree.read("trace").splitlines() if not line.startswith("#")]
        expect(found == shown, f"{found}")
        tree.write("current_tracer", "function_graph\n")
        write(1, b"abcde")
        write(3, b"x" * 3000)
        until("comments", lambda: f"/* {shown[0]} */" in tree.read("trace") and "/* # 3 buf: 78 78" in tree.read("trace"))
        tree.write("options/markers", "0\n")
        tree.refuses(errno.EINVAL, "trace_marker_raw", "1234")
        tree.write("options/markers", "1\n")
        tree.write("tracing_on", "0\n")
        tree.refuses(errno.EBADF, "trace_marker_raw", "1234")
        raw = [event.fields for cpu in cpus(tree) for event in consume(tree, cpu, False)[0] if event.kind == DATA]
        expect(sorted(raw) == [(1, b"abcde\0\0\0"), (3, b"x" * 3000)], f"{raw}")


def percent(case):
    """buffer_percent: poll() of trace_pipe_raw tells of what is there when so much of the buffer is full."""
    with mounted(case) as (_, tree):
        expect(tree.read("buffer_percent") == "0\n", tree.read("buffer_percent"))
        tree.refuses(errno.EINVAL, "buffer_percent", "101\n")
        tree.write("buffer_percent", "90\n")
        tree.write("current_tracer", "function\n")
        until("a page", lambda: any(float(re.search(r"bytes: (\d+)", tree.read(f"per_cpu/{cpu}/stats"))[1]) > 8192
                                    for cpu in cpus(tree)))
        tree.write("tracing_on", "0\n")
        fds = [os.open(tree.path(f"per_cpu/{cpu}/trace_pipe_raw"), os.O_RDONLY | os.O_NONBLOCK) for cpu in cpus(tree)]
        poller = select.poll()
        for fd in fds:
            poller.register(fd, select.POLLIN)
        expect(not poller.poll(300), "a reader is told of a buffer that is nearly empty")
        tree.write("buffer_percent", "0\n")
        until("a reader that is told", lambda: poller.poll(100))
        for fd in fds:
            os.close(fd)


def freed(case):
    """free_buffer: the end of the one who holds it empties the buffer, and with disable_on_free ends tracing."""
    with mounted(case) as (_, tree):
        tree.write("trace_marker", "kept\n")
        fd = os.open(tree.path("free_buffer"), os.O_WRONLY)
        other = os.dup(fd)
        os.close(fd)
        expect("kept" in tree.read("trace"), "one of two descriptors has emptied the buffer")
        os.close(other)
        until("an empty buffer", lambda: "kept" not in tree.read("trace"))
        expect(tree.read("tracing_on") == "1\n", "tracing has ended")
        tree.write("options/disable_on_free", "1\n")
        tree.write("free_buffer", "\n")
        until("tracing to end", lambda: tree.read("tracing_on") == "0\n")


def sizes(case):
    """Files that a kernel needs and a program does not: they answer as the kernel's."""
    with mounted(case) as (_, tree):
        expect(tree.read("saved_cmdlines_size") == "128\n", tree.read("saved_cmdlines_size"))
        for wrong in ("0\n", "x\n", "99999999\n"):
            tree.refuses(errno.EINVAL, "saved_cmdlines_size", wrong)
        tree.write("saved_cmdlines_size", "1024\n")
        expect(tree.read("saved_cmdlines_size") == "1024\n", "the number is another one")
        found = re.fullmatch(r"(\d+) pages:(\d+) groups: (\d+)\n", tree.read("dyn_ftrace_total_info"))
        count = len(tree.read("available_filter_functions").splitlines())
        expect(found and int(found[1]) == count and found[2] == found[3], f"{found}, {count} functions")


def listing(case):
    """Each file of the kernel of this machine is there, or the table of files says why not."""
    names = of_kernel(case, "list")
    if not names:
        raise Skip("the kernel's tracefs may not be mounted here")
    with open(os.path.join(ROOT, "doc", "tracefs.md"), encoding="utf-8") as file:
        told = set(re.findall(r"[\w-]+", file.read()))
    with mounted(case) as (_, tree):
        os.mkdir(tree.path("instances/calltap-options"))
        missing = [name for name in names if not os.path.exists(tree.path(name)) and os.path.basename(name) not in told]
        for name in set(names) & {"available_filter_functions_addrs", "buffer_subbuf_size_kb", "touched_functions"}:
            expect(os.stat(tree.path(name)).st_mode & 0o777 == names[name], f"the mode of {name}")
    expect(not missing, f"neither there nor told of: {missing}")


def pages(case):
    """buffer_subbuf_size_kb: sub-buffers of another size hold the same events, by read() and by splice()."""
    with mounted(case) as (_, tree):
        expect(tree.read("buffer_subbuf_size_kb") == "4\n", tree.read("buffer_subbuf_size_kb"))
        for wrong in ("0\n", "513\n", "x\n"):
            tree.refuses(errno.EINVAL, "buffer_subbuf_size_kb", wrong)
        for spliced, kb, wanted in ((False, 13, 16), (True, 64, 64), (False, 512, 512), (True, 1, 4)):
            tree.write("tracing_on", "1\n")
            tree.write("buffer_subbuf_size_kb", f"{kb}\n")
            expect(tree.read("buffer_subbuf_size_kb") == f"{wanted}\n", tree.read("buffer_subbuf_size_kb"))
            expect(f"size:{wanted * 1024 - 16};" in tree.read("events/header_page"), tree.read("events/header_page"))
            record(tree, "function", 3 * wanted * 1024 // 28)
            count = sum(stats(tree, cpu)["entries"] for cpu in cpus(tree))
            found = [consume(tree, cpu, spliced, wanted * 1024) for cpu in cpus(tree)]
            expect(sum(len(events) for events, _, _ in found) == count, f"{count} events, not {[len(events) for events, _, _ in found]}")
            expect(bool(sum(whole for _, whole, _ in found)) == spliced, "no page was spliced")
            tree.write("current_tracer", "nop\n")


def listed(case):
    """touched_functions and available_filter_functions_addrs: lines of available_filter_functions; tracing_max_latency."""
    with mounted(case) as (_, tree):
        names = tree.read("available_filter_functions").splitlines()
        rows = [line.split(" ", 1) for line in tree.read("available_filter_functions_addrs").splitlines()]
        expect([name for _, name in rows] == names and all(re.fullmatch("[0-9a-f]+", address) for address, _ in rows), f"{rows[:3]}")
        where = {(name, int(address, 16)) for address, _, name in (line.split()[:3] for line in tree.read("kallsyms").splitlines())}
        expect({(name, int(address, 16)) for address, name in rows if name in ("leaf_1", "once", "main")} <= where, "another address in kallsyms")
        expect(tree.read("touched_functions") == "" == tree.read("enabled_functions"), tree.read("touched_functions"))
        tree.write("set_ftrace_filter", "leaf_1\n")
        tree.write("current_tracer", "function_graph\n")
        expect(tree.read("touched_functions") == "leaf_1 (1)           \n" == tree.read("enabled_functions"), tree.read("touched_functions"))
        tree.write("set_ftrace_filter", "leaf_2 once\n")
        expect(tree.read("touched_functions") == "leaf_1 (0)           \nleaf_2 (1)           \nonce (1)           \n", tree.read("touched_functions"))
        until("calls", lambda: tree.read("tracing_max_latency") != "0\n")
        tree.write("set_ftrace_filter", "leaf_3\n")
        longest = int(tree.read("tracing_max_latency"))
        tree.refuses(errno.EINVAL, "tracing_max_latency", "x\n")
        tree.write("tracing_max_latency", f"{longest + 3600000000}\n")
        until("calls", lambda: "leaf_3();" in tree.read("trace"))
        expect(tree.read("tracing_max_latency") == f"{longest + 3600000000}\n", "a shorter call has changed it")
        tree.write("tracing_on", "0\n")
        tree.write("current_tracer", "nop\n")
        expect(tree.read("touched_functions").count(" (0)") == 4, tree.read("touched_functions"))


STAT = re.compile(r"  (\S+) +(\d+)    ([\d.]+) us +([\d.]+) us +([\d.]+) us *")


def profile(tree, losses=False):
    """{function: [calls, us, average, variance]} of all CPUs; a function may be on several.  losses: some may be told."""
    found = {}
    for name in os.listdir(tree.path("trace_stat")):
        lines = tree.read(f"trace_stat/{name}").splitlines()
        expect(lines[0].split() == ["Function", "Hit", "Time", "Avg", "s^2"], f"{lines[:2]}")
        times = []
        for line in lines[2:]:
            if losses and line.startswith("# "):
                continue
            fields = STAT.fullmatch(line)
            expect(fields, f"{line!r}")
            calls, *rest = int(fields[2]), *map(float, fields.groups()[2:])
            times.append(rest[0])
            kept = found.setdefault(fields[1], [0, 0.0])
            kept[0] += calls
            kept[1] += rest[0]
        expect(times == sorted(times, reverse=True), "the most time is not first")
    return found


def profiler(case):
    """The function profiler counts each call of what set_ftrace_filter names, whatever the tracer is; a new start forgets."""
    with mounted(case) as (program, tree):
        expect(tree.read("function_profile_enabled") == "0\n" and not profile(tree), "the profiler is on")
        tree.write("set_ftrace_filter", "once leaf_*\n")
        tree.write("function_profile_enabled", "1\n")
        expect(tree.read("function_profile_enabled") == "1\n", "the profiler is off")
        until("calls", lambda: profile(tree).get("once", [0])[0] > 100)
        before = profile(tree)
        expect(set(before) == {"once", "leaf_1", "leaf_2", "leaf_3"}, f"{before}")
        tree.write("set_ftrace_filter", "leaf_1\n")
        time.sleep(0.3)  # a call of `once` may be open
        middle = profile(tree)
        until("calls of leaf_1", lambda: profile(tree)["leaf_1"][0] > middle["leaf_1"][0] + 100)
        after = profile(tree)
        expect(after["once"] == middle["once"], f"`once` is counted still: {middle['once']}, {after['once']}")
        tree.write("function_profile_enabled", "0\n")
        expect(tree.read("function_profile_enabled") == "0\n", "the profiler is on")
        last = profile(tree)
        time.sleep(0.2)
        expect(profile(tree) == last and last["leaf_1"][0] >= after["leaf_1"][0], "counts change, or have gone")
        tree.write("set_ftrace_filter", "\n")
        tree.write("function_profile_enabled", "1\n")
        until("a new start", lambda: profile(tree).get("once"))
        again = profile(tree)
        expect(again["leaf_1"][0] < last["leaf_1"][0] + 1000, f"{again}")
        # With graph-time, which is the default, callees are in a caller's time; without, only its own is.
        whole = again["once"][1] / again["once"][0]
        tree.write("options/graph-time", "0\n")
        own = profile(tree)["once"]
        expect(own[1] / own[0] < whole, f"{own}, whole {whole}")
        tree.refuses(errno.EINVAL, "function_profile_enabled", "x\n")


COUNTED = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
sys.stdin.readline()
for _ in range(20000):
    library.library_answer(14)
print("counted", flush=True)
sys.stdin.readline()
"""


def profiler_counts(case):
    """Each call is counted, once: of a program that makes 20,000, by a tree that takes the program in."""
    own_place(case)
    library = case.program("library.c")
    with Process(["/usr/bin/python3", "-c", COUNTED, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        until("the library", lambda: library in open(f"/proc/{program.pid}/maps", encoding="utf-8").read())
        with Tree(case, None, "--keep", "-l", f"{os.path.basename(library)}:*") as tree:
            tree.write("attach", f"{program.pid}\n")
            tree.write("function_profile_enabled", "1\n")
            program.stdin.write("go\n")
            program.stdin.flush()
            expect(program.stdout.readline() == "counted\n", "the program says something else")
            found = profile(tree)
            expect(found["library_answer"][0] == 20000, f"{found}")
            program.stdin.write("end\n")
            program.stdin.flush()
            program.wait(timeout=30)
            after = profile(tree)
            expect(after["library_answer"] == found["library_answer"], f"the end of the program changes the counts: {found}, {after}")
            tree.end()


LOSES = 3000000  # calls, of which the buffers do not hold half


def profiler_losses(case):
    """What a stopped tool loses is told at once, though the program makes no call afterwards: each call is counted, or told."""
    own_place(case)
    with Process([case.program("bursts.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program, \
            Tree(case, program, "--keep") as tree:
        tree.write("set_ftrace_filter", "burst\n")
        tree.write("function_profile_enabled", "1\n")
        tree.write("current_tracer", "function\n")
        for stopped in (False, True):
            before = profile(tree).get("burst", [0])[0]
            calls = LOSES if stopped else LOSES // 100
            with halted(tree.process.pid) if stopped else contextlib.nullcontext():
                program.stdin.write(f"{calls}\n")
                program.stdin.flush()
                expect(program.stdout.readline() == f"{calls}\n", "the program says something else")
            counted = profile(tree, losses=stopped)["burst"][0] - before
            told = re.findall(r"^# lost on all CPUs: (\d+), calls or ends of calls$", tree.read("trace_stat/function0"), re.M)
            expect(counted + int(told[0] if told else 0) in range(calls, calls + 1000) and (told if stopped else not told),
                   f"{counted} of {calls} calls were counted, and told: {told}")
        until("all calls in stats", lambda: sum(stats(tree, cpu)[key] for cpu in cpus(tree)
                                                for key in ("entries", "overrun", "dropped events")) == LOSES + LOSES // 100)
        program.stdin.close()
        program.wait(timeout=30)
        tree.end()


BACKLOG = 3000000  # calls, for which the tool takes some seconds


def backlog(case):
    """Who writes 0 to tracing_on and then reads trace gets all that was recorded before; other files answer meanwhile."""
    own_place(case)
    with Process([case.program("bursts.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program, \
            Tree(case, program, "--keep") as tree:
        tree.write("buffer_size_kb", str(256 << 10))
        tree.write("set_ftrace_filter", "burst\n")
        tree.write("current_tracer", "function\n")
        with halted(tree.process.pid):
            program.stdin.write(f"{BACKLOG}\n")
            program.stdin.flush()
            expect(program.stdout.readline() == f"{BACKLOG}\n", "the program says something else")
        tree.write("tracing_on", "0\n")
        answers, started = 0, time.monotonic()
        with Process(["head", "-3", tree.path("trace")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as reader:
            while reader.poll() is None and time.monotonic() - started < 60:
                expect(tree.read("tracing_on") == "0\n", "it is on")
                answers += 1
            head = reader.communicate(timeout=1)[0]
        took = time.monotonic() - started
        written = int(re.search(r"entries-written: \d+/(\d+) ", head)[1])
        dropped = sum(stats(tree, cpu)["dropped events"] for cpu in cpus(tree))
        expect(written + dropped == BACKLOG, f"{written} of {BACKLOG} calls were there after {took:.1f} s, {dropped} lost")
        expect(answers > 5 * took, f"{answers} reads of another file in {took:.1f} s")
        program.stdin.close()
        program.wait(timeout=30)
        tree.end()


def waits_for_a_process(case):
    """A tree without a process has the files of a kernel that traces nothing; one PID gives it a process, and one only."""
    own_place(case)
    with Program(case, "1") as program, left_alone(program), Tree(case, None) as tree:
        expect([tree.read(name) for name in ("attach", "current_tracer", "tracing_on", "trace")][:3] == ["", "nop\n", "1\n"],
               "the files of an empty tree")
        for name, text in (("current_tracer", "function\n"), ("function_profile_enabled", "1\n"), ("stack_tracer_enabled", "1\n")):
            tree.refuses(errno.ENODEV, name, text)
        expect("write its PID to the file attach" in tree.read("error_log"), tree.read("error_log"))
        for pid, error in (("x\n", errno.EINVAL), ("0\n", errno.ESRCH), ("4194305\n", errno.ESRCH),
                           (f"{os.getpid()}\n", errno.EDEADLK)):
            tree.refuses(error, "attach", pid)
        tree.write("attach", f"{program.pid}\n")
        expect(tree.read("attach") == f"{program.pid}\n", tree.read("attach"))
        tree.refuses(errno.EBUSY, "attach", f"{program.pid}\n")
        tree.write("current_tracer", "function_graph\n")
        until("calls", lambda: "leaf_1();" in tree.read("trace"))
        tree.end()
    # What another session traces already becomes a further instance of it; a program that cannot be traced is an error.
    with Program(case, "1") as program, left_alone(program), Tree(case, None) as tree:
        with subprocess.Popen(["sleep", "1000"]) as ended:
            ended.kill()
        tree.refuses(errno.ESRCH, "attach", f"{ended.pid}\n")
        with traced_by_another() as pid:
            tree.refuses(errno.EBUSY, "attach", f"{pid}\n")
        with recorded(case, program):
            tree.write("attach", f"{program.pid}\n")
            tree.write("current_tracer", "function\n")
            until("calls", lambda: re.search(r": leaf_1 <-\w+$", tree.read("trace"), re.M))
        tree.end(how=None)


@contextlib.contextmanager
def traced_by_another():
    """A process that cannot be attached to, for another tracer has it."""
    strace = shutil.which("strace")
    if not strace:
        raise Skip("strace is not installed")
    with subprocess.Popen([strace, "-o", "/dev/null", "sleep", "1000"]) as tracer:
        try:
            def program():
                found = subprocess.run(["pgrep", "-x", "-P", str(tracer.pid), "sleep"], stdout=subprocess.PIPE, text=True, check=False)
                return found.stdout.split()

            yield int(until("its program", program)[0])
        finally:
            for pid in program():
                os.kill(int(pid), signal.SIGKILL)
            tracer.kill()


@contextlib.contextmanager
def recorded(case, program):
    """A recording by `calltap attach`."""
    tool = Process([case.tool, "attach", "-o", os.path.join(case.folder, "other"), "-p", "nop", str(program.pid)],
                   env=case.environment(False), stderr=subprocess.PIPE, text=True)
    try:
        until("the other session", lambda: tool.poll() is not None or
              "tracer=nop" in subprocess.run([case.tool, "set", str(program.pid)], env=case.environment(False),
                                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout)
        yield
        tool.send_signal(signal.SIGINT)
        tool.wait(timeout=30)
    finally:
        stop(tool)


def tables(tree):
    """[(thread, [(depth, size, function)])] of stack_trace, innermost first."""
    found = []
    for part in tree.read("stack_trace").split("\n\n"):
        lines = part.splitlines()
        rows = [re.fullmatch(r" *(\d+)\) +(\d+) +(\d+)   (\S+)", line) for line in lines[3:]]
        expect(lines[0].startswith("# ") and lines[1] == f"        Depth    Size   Location    ({len(rows)} entries)" and all(rows),
               f"{part}")
        expect([int(row[1]) for row in rows] == list(range(len(rows))), f"{part}")
        found.append((lines[0][2:], [(int(row[2]), int(row[3]), row[4]) for row in rows]))
    return found


def stack_tracer(case):
    """The deepest stack is that which the program measures itself, frame by frame; a new start and filters are the kernel's."""
    own_place(case)
    with Process([case.program("deep.c"), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        expect(program.stdout.readline() == "ready\n", "the program is not ready")

        def descend(depth):
            """[address of a local variable of each call, outermost first]"""
            program.stdin.write(f"{depth}\n")
            program.stdin.flush()
            return [int(word, 16) for word in program.stdout.readline().split()]

        with Tree(case, program, "--keep") as tree:
            expect("Stack tracer disabled" in tree.read("stack_trace") and tree.read("stack_max_size") == "0\n", "it is on")
            tree.write("stack_tracer_enabled", "1\n")
            expect(tree.read("stack_tracer_enabled") == "1\n", "it is off")
            for depth in (10, 100, 40):
                places = descend(depth)
                (_, rows), = tables(tree)
                wanted = max(depth, 100) if depth != 10 else 10
                deep = [row for row in rows if row[2] == "descend"]
                expect(len(deep) == wanted and rows[0][2] == "descend", f"{len(deep)} calls, not {wanted}: {rows[:3]}")
                if depth == wanted:
                    sizes = {before - after for before, after in zip(places, places[1:])}
                    expect({size for _, size, _ in deep[1:]} == sizes, f"{deep[:3]}, not {sizes}")
                    expect(deep[0][1] == 0, f"the innermost frame is of a known size: {deep[:3]}")
                wide = [size for _, size, name in rows if name == "wide"]
                expect(len(wide) == 1 and 10000 <= wide[0] < 10200, f"{rows[-4:]}")
                depths = [depth for depth, _, _ in rows]
                expect(all(depth - size == outer for (depth, size, _), outer in zip(rows, depths[1:] + [0])), f"{rows}")
                expect(tree.read("stack_max_size") == f"{depths[0]}\n", f"{tree.read('stack_max_size')}, {depths[0]}")
            tree.write("stack_max_size", "0\n")
            descend(20)
            expect(sum(row[2] == "descend" for row in tables(tree)[0][1]) == 20, "the deepest stack of before is still there")
            tree.write("stack_trace_filter", "shallow\n")
            expect(tree.read("stack_trace_filter") == "shallow\n", tree.read("stack_trace_filter"))
            tree.write("stack_max_size", "0\n")
            descend(30)
            expect([row[2] for row in tables(tree)[0][1]] == ["shallow"], f"{tables(tree)}")
            tree.write("stack_trace_filter", "\n")
            tree.write("stack_tracer_enabled", "0\n")
            expect([row[2] for row in tables(tree)[0][1]] == ["shallow"], "what was found is gone")
            descend(50)
            expect([row[2] for row in tables(tree)[0][1]] == ["shallow"], "it goes on")
            tree.write("stack_tracer_enabled", "1\n")
            descend(5)
            descend(-30)  # in a thread of its own
            names = [name for name, _ in tables(tree)]
            expect(len(names) == 2 and len(set(names)) == 2, f"{names}")
            program.stdin.close()
            program.wait(timeout=30)
            expect(len(tables(tree)) == 2, "the end of the program takes it away")
            tree.end()


IDLE_PERL = "while (1) { select undef, undef, undef, .02; $x += sin($_) for 1 .. 20 }"


def several_trees(case):
    """A process has as many trees as are wanted; the last word about its text is of all that was patched, also later on."""
    own_place(case)
    with Process(["perl", "-e", IDLE_PERL], start_new_session=True) as program, contextlib.ExitStack() as stack, Tree(case, program) as first:
        stack.callback(stop, program)
        others = []
        try:
            for name in ("second", "third"):
                place = os.path.join(case.folder, name)
                os.makedirs(place)
                others.append(Process([case.tool, "mount", place, str(program.pid)], env=case.environment(False),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
                until("the tree", lambda place=place: others[-1].poll() is not None or os.path.exists(place + "/README"))
                expect(others[-1].poll() is None, f"{name}: the tool has ended")
                with open(place + "/current_tracer", "w", encoding="utf-8") as file:
                    file.write("function\n")

                def text(place=place):
                    with open(place + "/trace", encoding="utf-8") as file:
                        return file.read()

                until("calls", lambda text=text: ": Perl_pp_sin <-" in text() or ": sin <-" in text())
            expect(first.read("current_tracer") == "nop\n", "the first tree records, too")
            said = calltap(case, "detach", program.pid)
            found = re.search(r"its text is what its files say \((\d+) bytes of text compared, 0 differ\)", said)
            expect(found and int(found[1]) > 0 and "2 further instances ended with it" in said, said)
            for other in others:
                expect(other.wait(timeout=30) == 0, f"{other.stderr.read()}")
        finally:
            for other in others:
                stop(other)
        first.end(how=None)


def executed(case):
    """A process that executes another program ends its tree: readers get the rest, and the end of the file."""
    own_place(case)
    with Process(["bash", "-c", "read line; for i in {1..200}; do :; done; exec sleep 1000"], stdin=subprocess.PIPE,
                 start_new_session=True) as program, \
            contextlib.ExitStack() as stack, Tree(case, program) as tree:
        stack.callback(stop, program)
        tree.write("set_ftrace_filter", "execute_command_internal\n")
        tree.write("current_tracer", "function\n")
        with subprocess.Popen(["cat", tree.path("trace_pipe")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
            program.stdin.write(b"go\n")
            program.stdin.flush()
            read, said = reader.communicate(timeout=30)
        expect(reader.returncode == 0 and not said, f"cat: {reader.returncode}, {said}")
        expect(read.count(": execute_command_internal <-") >= 200, f"{read.count('execute')} calls were read")
        tree.end(how=None)


def dumped(case):
    """The command dump prints what the buffer holds where the tool's messages go, once, and ends tracing."""
    with mounted(case) as (_, tree):
        tree.write("set_ftrace_filter", "leaf_*\n")
        tree.write("current_tracer", "function\n")
        until("calls", lambda: tree.read("trace").count("leaf_3") > 5)
        tree.write("set_ftrace_filter", "once:dump once:cpudump:7\n", append=True)
        until("the texts", lambda: tree.said().count("---\n") == 4)
        expect(tree.read("tracing_on") == "0\n", "tracing goes on")
        expect(re.search(r"once:dump:count=0\nonce:cpudump:count=0\n$", tree.read("set_ftrace_filter")), tree.read("set_ftrace_filter"))
        shown = tree.said().split("---------------------------------\n")[1]
        missing = set(shown.splitlines()) - set(tree.read("trace").splitlines())
        expect(shown.count(": leaf_3 <-") > 5 and not missing, f"{sorted(missing)[:5]} are not in the trace")


def beside_a_recording(case):
    """`--mount`: the files are a further instance of the recording, which does not change by it, and go with it."""
    own_place(case)
    place = os.path.join(case.folder, "-tree")
    os.makedirs(place)
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("FUSE is not allowed here: /dev/fuse")
    with Program(case, "1") as program, left_alone(program):
        tool = Process([case.tool, "attach", "--mount", "-tree", "-l", "once", "-o", case.trace_path, str(program.pid)], cwd=case.folder,
                       env=case.environment(False), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            until("the tree", lambda: tool.poll() is not None or os.path.exists(place + "/README"))
            expect(tool.poll() is None, f"the tool has ended: {tool.stderr.read() if tool.poll() is not None else ''!r}")
            with open(place + "/current_tracer", "w", encoding="utf-8") as file:
                file.write("function\n")

            def text():
                with open(place + "/trace", encoding="utf-8") as file:
                    return file.read()

            until("calls", lambda: ": leaf_1 <-" in text())
            tool.send_signal(signal.SIGINT)
            expect(tool.wait(timeout=30) == 0, f"{tool.stderr.read()!r}")
        finally:
            stop(tool)
        until("the mount to go", lambda: place not in open("/proc/self/mounts", encoding="utf-8").read())
    called = case.trace().called()
    expect(set(called) == {"once"}, f"the recording has {called}")


def interrupted(case):
    """A reader of `trace` that has signals all the time sees no error: the kernel's does not wait, and so is not interrupted."""
    with mounted(case, arguments=("1", "busy")) as (_, tree):
        tree.write("current_tracer", "function_graph\n")
        done = subprocess.run([sys.executable, "-c", INTERRUPTED, tree.path("trace")], stdout=subprocess.PIPE, timeout=100, check=True)
        expect(done.stdout == b"[] True\n", f"errors, and whether anything was read: {done.stdout}")


SINGLE = {
    "tracefs-interrupted": interrupted,
    "tracefs-dump": dumped,
    "tracefs-several": native(several_trees),
    "tracefs-executed": native(executed),
    "tracefs-beside": beside_a_recording,
    "tracefs-stacks": stack_tracer,
    "tracefs-backlog": backlog,
    "tracefs-data": data,
    "tracefs-percent": percent,
    "tracefs-freed": freed,
    "tracefs-sizes": sizes,
    "tracefs-listing": listing,
    "tracefs-pages": native(pages),
    "tracefs-listed": native(listed),
    "tracefs-profiler": profiler,
    "tracefs-profiler-counts": profiler_counts,
    "tracefs-profiler-losses": native(profiler_losses),
    "tracefs-attach": waits_for_a_process,
}
SINGLE = {name: native(test) for name, test in SINGLE.items()}

"""What the files of `calltap mount` take, how fast their readers are, and what a call costs that they trace."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

import beside
import sources
from attaching import LIMIT, Target, poll
from measure import BenchError, Row

HERE = os.path.dirname(os.path.abspath(__file__))
FUNCTIONS = 100000
TIMES = 20  # each file is used so often, at least
GOAL_FILE_MS, GOAL_LIST_MS, GOAL_LINES, GOAL_EVENTS = 5, 100, 0.5, 1.0
SECONDS = 3  # of trace-cmd record
PACES = (250, 500, 1000, 1500)  # calls in each ms, of two events each
MEMORY = "/dev/shm"  # where trace-cmd writes: the disk is not to be what is measured


@contextlib.contextmanager
def mounted(tool, pid):
    """The tree of a process, in a folder."""
    folder = os.path.join(sources.scratch(), "tree")
    os.makedirs(folder, exist_ok=True)
    server = subprocess.Popen([tool, "mount", folder, str(pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
    try:
        poll(lambda: os.path.ismount(folder) or server.poll() is not None, "mounted")
        if server.poll() is not None:
            raise BenchError(f"calltap mount failed: {server.stderr.read().decode(errors='replace').strip()[-300:]}")
        yield folder
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(LIMIT)
        server.stderr.close()


def write(folder, name, text):
    """As `echo text > name` does it."""
    descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def read(folder, name):
    with open(os.path.join(folder, name), "rb", buffering=1 << 20) as file:
        return file.read()


def smallest_ms(deed, count):
    best = 1e18
    for _ in range(max(count, TIMES)):
        started = time.perf_counter()
        deed()
        best = min(best, time.perf_counter() - started)
    return best * 1e3


def there_and_back(folder, name, there, back):
    def deed():
        write(folder, name, there)
        write(folder, name, back)
    return deed


def files(tools, count):
    """Each time is of open, read or write, and close."""
    program = sources.many_functions(FUNCTIONS, os.path.join(HERE, "attached.c"))
    target = Target(program, 1, 0)
    rows = []
    try:
        with mounted(tools.calltap, target.process.pid) as folder:
            deeds = {
                "tracing_on, read": (lambda: read(folder, "tracing_on"), 1, GOAL_FILE_MS),
                "max_graph_depth, written": (lambda: write(folder, "max_graph_depth", "9"), 1, GOAL_FILE_MS),
                "trace_marker, written": (lambda: write(folder, "trace_marker", "a mark"), 1, GOAL_FILE_MS),
                "available_filter_functions": (lambda: read(folder, "available_filter_functions"), 1, GOAL_LIST_MS),
                "set_ftrace_filter, a glob": (there_and_back(folder, "set_ftrace_filter", "function_12*", "function_99*"), 2, GOAL_FILE_MS),
                "set_ftrace_filter, read": (lambda: read(folder, "set_ftrace_filter"), 1, GOAL_FILE_MS),
                "current_tracer, written": (there_and_back(folder, "current_tracer", "function_graph", "nop"), 2, GOAL_FILE_MS),
            }
            for name, (deed, steps, limit) in deeds.items():
                value = smallest_ms(deed, count) / steps
                rows.append(Row(name, value, "ms", goal=(value, limit, "ms")))
    finally:
        target.close()
    return rows


def lines_a_second(folder, name, target):
    """Of a reader of what was recorded, in millions."""
    write(folder, "tracing_on", "1")
    for _ in range(10):
        target.measure()
    write(folder, "tracing_on", "0")
    text, last = read(folder, "trace"), b""
    while text != last:  # until all has been taken in
        text, last = read(folder, "trace"), text
    best = 0
    for _ in range(3 if name == "trace" else 1):  # trace_pipe consumes them
        started, lines = time.perf_counter(), 0
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while part := file.read(1 << 16):
                lines += part.count(b"\n")
        best = max(best, lines / (time.perf_counter() - started))
    return best / 1e6


def texts(tools):
    """What the text of the tracers takes."""
    rows = []
    target = beside.Target(beside.build())
    try:
        with mounted(tools.calltap, target.process.pid) as folder:
            write(folder, "buffer_size_kb", "65536")
            write(folder, "set_ftrace_filter", "mine theirs shared")
            for tracer in ("function_graph", "function"):
                for name in ("trace", "trace_pipe"):
                    write(folder, "current_tracer", "nop")
                    write(folder, "current_tracer", tracer)
                    value = lines_a_second(folder, name, target)
                    rows.append(Row(f"{name}, {tracer}", value, "million lines/s", goal=(-value, -GOAL_LINES, "at least half a million")))
    finally:
        target.close()
    return rows


def calls(tools, count):
    """What a call costs by the file that wants it."""
    rows = []
    target = beside.Target(beside.build())
    states = {"untraced": (), "function": (("current_tracer", "function", "nop"),),
              "function_graph": (("current_tracer", "function_graph", "nop"),),
              "function_profile_enabled": (("function_profile_enabled", "1", "0"),),
              "stack_tracer_enabled": (("stack_tracer_enabled", "1", "0"),)}
    best = {name: 1e18 for name in states}
    clock = 1e18
    try:
        with mounted(tools.calltap, target.process.pid) as folder:
            for _ in range(max(count, 3)):
                for name, switches in states.items():
                    for file, on, _ in switches:
                        write(folder, file, on)
                    for _ in range(10):
                        figures = target.measure()
                        best[name] = min(best[name], figures["mine"])
                        clock = min(clock, figures["clock2"])
                    for file, _, off in switches:
                        write(folder, file, off)
    finally:
        target.close()
    for name, value in best.items():
        rows.append(Row(f"a call, {name}", value, "ns", value / clock, "two clock reads"))
    return rows


def paced():
    output = os.path.join(sources.CACHE, "bin", "paced")
    os.makedirs(os.path.dirname(output), exist_ok=True)
    sources.run(["gcc", "-O2", "-w", "-fpatchable-function-entry=5", "-o", output + ".new", os.path.join(HERE, "paced.c")],
                what="compiling bench/paced.c")
    os.rename(output + ".new", output)
    return output


def recorded(tools, program, pace):
    """(events a second, whether some were lost) of trace-cmd record on the program, which makes so many calls in each ms."""
    path = os.path.join(MEMORY, f"calltap-bench-{os.getpid()}.dat")
    process = subprocess.Popen([program, str(pace)], stdin=subprocess.DEVNULL)
    try:
        sources.run([tools.calltap, "shell", str(process.pid), "--", "trace-cmd", "record", "-q", "-p", "function_graph",
                     "-l", "leaf", "-o", path, "sleep", str(SECONDS)], what="trace-cmd record")
        said = subprocess.run(["trace-cmd", "report", "-i", path, "--stat"], capture_output=True, text=True, check=True).stdout
        words = subprocess.run(f"trace-cmd report -i {path} | grep -o -e 'leaf()' -e 'EVENTS DROPPED' | sort | uniq -c", shell=True,
                               capture_output=True, text=True, check=True).stdout.split()
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    lost = "DROPPED" in words or any(map(int, re.findall(r"^\s*(?:overrun|dropped events): (\d+)", said, re.M)))
    return 2 * int(words[words.index("leaf()") - 1]) / SECONDS, lost


def streams(tools):
    """trace-cmd by trace_pipe_raw: the fastest pace at which nothing is lost."""
    if not shutil.which("trace-cmd"):
        raise BenchError("trace-cmd is not installed")
    program, rows, best = paced(), [], 0
    for pace in PACES:
        events, lost = recorded(tools, program, pace)
        rows.append(Row(f"trace-cmd, {2 * pace / 1e3:g} million events/s", events / 1e6, "million events/s", note="some were lost" if lost else "none lost"))
        if not lost:
            best = max(best, min(events, 2000 * pace) / 1e6)
    rows.append(Row("  without loss", best, "million events/s", goal=(-best, -GOAL_EVENTS, "at least a million")))
    return rows


def tree(tools, count):
    if not tools.calltap:
        raise BenchError("calltap mount is not built")
    folder = sources.scratch()
    shutil.rmtree(folder, ignore_errors=True)
    rows, errors = [], {}
    for name, part in {"files": lambda: files(tools, count), "texts": lambda: texts(tools), "calls": lambda: calls(tools, count),
                       "streams": lambda: streams(tools)}.items():
        try:
            rows += part()
        except (BenchError, OSError, subprocess.SubprocessError, sources.SourceError) as error:
            errors[name] = str(error)
    shutil.rmtree(folder, ignore_errors=True)
    return rows, errors

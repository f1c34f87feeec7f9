"""The flight recorder (--mode overwrite): snapshots while it goes on, and what is left when the program or the tool is
killed: in the file, in core files, in the program's memory, in the files of --buffer-dir."""
import contextlib
import glob
import json
import os
import re
import resource
import shutil
import signal
import struct
import time

import tracefile
from endings import finish, start, wait_for
from environment import copies
from harness import Skip, expect, stop

# Room for 30 ms of test/prog/spin.c: a snapshot that takes as long, on a busy machine, still has some of it.
OVERWRITE = ["--mode", "overwrite", "-b", "512K"]
MEMORY = "/dev/shm"


def need(tool):
    if not shutil.which(tool):
        raise Skip(f"there is no {tool} here")


class Flight:
    """A program that calls all the time, recorded in overwrite mode."""

    def __init__(self, case, options=(), milliseconds=20000, command=None):
        self.case = case
        command = command or [case.program("spin.c"), str(milliseconds)]
        self.output, self.tool = start(case, case.record_command(command, [*OVERWRITE, *options]))
        self.pid = None

    def __enter__(self):
        self.pid = int(wait_for(self.output, "running").split()[1])
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        stop(self.tool)
        if self.pid:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def snapshot(self, path, *options):
        """A snapshot, as the trace of the case from now on."""
        self.case.trace_path = os.path.join(self.case.folder, path)
        return self.case.run([self.case.tool, "snapshot", "-o", self.case.trace_path, *options, str(self.pid)])

    def kill_tool(self):
        self.tool.kill()
        self.tool.wait()


def info(case, key):
    for line in case.run([case.tool, "info", "-i", case.trace_path]).stdout.splitlines():
        if line.startswith(key):
            return line[len(key):].strip()
    return None


def good(case, calls=1000):
    """The trace is whole, and has as many calls of the innermost function."""
    expect(info(case, "Damage") == "none", f"damage: {info(case, 'Damage')}")
    called = case.trace().called()
    expect(called.get("step", 0) >= calls, f"only {called} in {case.trace_path}")
    case.readable()


def last_call(case):
    """The time of the newest record, in ticks."""
    with open(case.trace_path, "rb") as file:
        content = file.read()
    at, newest = tracefile.HEAD.size, 0
    while at < len(content):
        _, kind, _, _, stored, _ = tracefile.CHUNK.unpack_from(content, at)
        at += tracefile.CHUNK.size
        if kind == tracefile.DATA:
            newest = max(newest, struct.unpack_from("<Q", content, at + 16)[0])
        at += (stored + 7) // 8 * 8
    return newest


def snapshots(case):
    """Any number of them while the program runs, each whole and younger than the one before; then the end as ever."""
    before = 0
    with Flight(case, milliseconds=100000) as flight:
        told = json.loads(case.run([case.tool, "status", "--json", str(flight.pid)]).stdout)[0]
        expect(told["records"] > 1000 and told["records_per_s"], f"the recorder says of itself {told}")
        for number in range(4):
            outcome = flight.snapshot(f"snapshot-{number}")
            expect(outcome.status == 0, f"status {outcome.status}: {outcome.stderr}")
            good(case)
            expect(last_call(case) > before, "a snapshot is no younger than the one before")
            before = last_call(case)
        os.kill(flight.pid, signal.SIGUSR2)
        status = finish(flight.tool)
        expect(status == 0, f"exit status {status}")
    case.trace_path = os.path.join(case.folder, "trace")
    good(case)
    expect(last_call(case) > before, "the file at the end is no younger than the last snapshot")


def history(case):
    """Only what is younger."""
    with Flight(case, ["-b", "4M"]) as flight:
        expect(flight.snapshot("all").status == 0, "no snapshot")
        good(case)
        many = case.trace().called()["step"]
        expect(flight.snapshot("some", "--history", "100ms").status == 0, "no snapshot")
        good(case)
        few = case.trace().called()["step"]
    expect(few * 2 < many, f"{few} calls in the last 100 ms, {many} in all")


def refused(case):
    """A session that does not overwrite has all in its file."""
    output, process = start(case, case.record_command([case.program("spin.c"), "20000"]))
    try:
        pid = wait_for(output, "running").split()[1]
        time.sleep(0.3)
        outcome = case.run([case.tool, "snapshot", "-o", os.path.join(case.folder, "none"), pid])
        expect(outcome.status and "--mode overwrite" in outcome.stderr, f"{outcome.status}: {outcome.stderr}")
    finally:
        stop(process)


def ends(*arguments):
    """However the program ends: the newest of what it did is in the file."""
    def test(case):
        case.same_as_plain([case.program("ends.c"), *arguments], ["--mode", "overwrite"])
        case.compare(case.trace(), prefix=True)
        case.readable()
    return test


def killed(case):
    """kill -9 of the program."""
    with Flight(case) as flight:
        os.kill(flight.pid, signal.SIGKILL)
        status = finish(flight.tool)
    expect(status in (-9, 137), f"exit status {status}, not that of a kill")
    good(case)


def recover(case, *source):
    """The trace out of what was left."""
    case.trace_path = os.path.join(case.folder, "recovered")
    outcome = case.run([case.tool, "replay", "--no-pager", *source, "-o", case.trace_path])
    expect(outcome.status == 0 and "step" in outcome.stdout, f"status {outcome.status}: {outcome.stderr}")
    good(case)


def dump(case, flight):
    need("gcore")
    case.need_feature("ptrace")
    outcome = case.run(["gcore", "-o", os.path.join(case.folder, "dump"), str(flight.pid)])
    path = os.path.join(case.folder, f"dump.{flight.pid}")
    expect(os.path.exists(path), f"gcore wrote nothing: {outcome.stderr[-300:]}")
    return path


def core(case):
    """A core file that gdb wrote has the trace, with the tool and without."""
    case.need_native("gdb reads programs")
    with Flight(case) as flight:
        recover(case, "--core", dump(case, flight))
        with_tool = last_call(case)
        flight.kill_tool()
        time.sleep(0.5)
        recover(case, "--core", dump(case, flight))
        expect(last_call(case) > with_tool, "nothing was recorded after the tool was killed")


@contextlib.contextmanager
def core_files(case):
    """The kernel writes core files of what is started here; the list of them is filled at the end."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        if not re.fullmatch(r"[\w.%-]+\n", file.read()):
            raise Skip("the kernel writes core files elsewhere (core_pattern)")
    case.need_native("the kernel dumps its own programs")
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    cores = []
    try:
        yield cores
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    cores += glob.glob(os.path.join(case.folder, "core*"))
    if not cores:
        raise Skip("the kernel wrote no core file here")


def kernel_core(case):
    """A core file that the kernel wrote has the trace, without a tool."""
    with core_files(case) as cores, Flight(case) as flight:
        flight.kill_tool()
        time.sleep(0.3)
        os.kill(flight.pid, signal.SIGABRT)
        time.sleep(1)
    recover(case, "--core", cores[0])


def core_at_once(case):
    """The same of a program that dies as soon as it has begun."""
    for _ in range(5):
        with core_files(case) as cores:
            case.record([case.program("callers.c"), "crash"], ["--mode", "overwrite"], log=False)
        outcome = case.run([case.tool, "replay", "--no-pager", "--core", cores[0]])
        expect(outcome.status == 0 and "leaf" in outcome.stdout, f"status {outcome.status}: {outcome.stderr}")
        os.unlink(cores[0])


def tool_killed(case):
    """kill -9 of the tool: the recorder goes on, its memory can be read, and the program ends as ever."""
    with Flight(case, milliseconds=100000) as flight:
        expect(flight.snapshot("before").status == 0, "no snapshot")
        before = last_call(case)
        flight.kill_tool()
        time.sleep(1)
        for number in range(2):
            outcome = flight.snapshot(f"after-{number}")
            expect(outcome.status == 0, f"status {outcome.status}: {outcome.stderr}")
            good(case)
            expect(last_call(case) > before, "nothing was recorded since")
            before = last_call(case)
        os.kill(flight.pid, signal.SIGUSR2)
        wait_for(flight.output, "done well")


def native(test, what):
    """The test, where programs are not emulated."""
    def with_check(case):
        case.need_native(what)
        test(case)
    return with_check


def attached(case):
    """A killed tool's attach leaves the trace; the next attach clears up, and the one after has a whole trace."""
    case.need_native("attaching")
    output, process = start(case, [case.program("spin.c"), "20000"])
    tool = None
    try:
        wait_for(output, "running")
        _, tool = start(case, [case.tool, "attach", *OVERWRITE, "-o", case.trace_path, str(process.pid)])
        time.sleep(1)
        if tool.poll():
            raise Skip("nothing can be attached to here")
        tool.kill()
        tool.wait()
        time.sleep(0.3)
        case.trace_path = os.path.join(case.folder, "left")
        outcome = case.run([case.tool, "snapshot", "-o", case.trace_path, str(process.pid)])
        expect(outcome.status == 0 and info(case, "recovered"), f"status {outcome.status}: {outcome.stderr}")
        good(case)
        case.trace_path = os.path.join(case.folder, "again")
        outcome = case.run([case.tool, "attach", *OVERWRITE, "--duration", "500ms", "-o", case.trace_path,
                            str(process.pid)])
        expect(outcome.status == 0, f"status {outcome.status}: {outcome.stderr}")
        good(case)
        with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
            left = re.findall(r"/memfd:calltap\S*", maps.read())
        expect(not left, f"still mapped: {left}")
    finally:
        stop(process)
        if tool:
            stop(tool)


def told(text):
    """The program's own lines; how many ticks a storm had (signals.c) is at least what it waits for, and may be more."""
    return sorted(line for line in text.splitlines() if not line.startswith(("calltap", "ticks")))


def orphans(case):
    """kill -9 of the tool at any time: threads, children, libraries, jumps, exceptions and signals go on as ever."""
    lines = [[case.program("threads.c"), "3000"], [case.program("jumps.c"), "60000"], [case.program("exceptions.cc")],
             ["sh", "-c", 'for i in 1 2 3 4 5 6 7 8 9 10; do "$1"; done', "sh", case.program("forks.c")],
             [case.program("signals.c"), "storm"], [case.program("processes.c"), "threads"],
             [case.program("reloads.c"), "loop", *copies(case, 3)]]
    for delay in (0.05, 0.12, 0.25):
        for line in lines:
            command = ["sh", "-c", 'echo begun; "$@"; echo "status $?"', "sh", *line]
            plain = case.run(command)
            output, process = start(case, case.record_command(command, [*OVERWRITE, "--allow-no-sites"]))
            try:
                wait_for(output, "begun")
                time.sleep(delay)
                process.kill()
                process.wait()
                wait_for(output, "status")
                with open(output, encoding="utf-8") as file:
                    printed = told(file.read())
            finally:
                stop(process)
            expect(printed == told(plain.stdout + plain.stderr),
                   f"{line} after {delay} s: {printed[-5:]}, plain: {(plain.stdout + plain.stderr)[-300:]!r}")


def nothing_left(case):
    """A program that was not recorded with a flight recorder: a sentence says so."""
    path = os.path.join(case.folder, "core")
    shutil.copy(case.program("spin.c"), path)
    outcome = case.run([case.tool, "replay", "--core", path])
    expect(outcome.status == 1 and "not a core file" in outcome.stderr, f"{outcome.status}: {outcome.stderr}")
    need("gcore")
    case.need_native("gdb reads programs")
    case.need_feature("ptrace")
    output, process = start(case, [case.program("spin.c"), "20000"])
    try:
        wait_for(output, "running")
        case.run(["gcore", "-o", path, str(process.pid)])
        outcome = case.run([case.tool, "replay", "--core", f"{path}.{process.pid}"])
        expect(outcome.status == 1 and "--mode overwrite" in outcome.stderr, f"{outcome.status}: {outcome.stderr}")
    finally:
        stop(process)


def need_memory():
    if not os.path.isdir(MEMORY):
        raise Skip(f"there is no {MEMORY} here")


def folders(pid):
    return glob.glob(os.path.join(MEMORY, f"calltap-{pid}-*"))


def buffers(case):
    """kill -9 of both: the buffers have names, and their trace is whole."""
    need_memory()
    left = []
    try:
        with Flight(case, ["--buffer-dir", MEMORY]) as flight:
            left = folders(flight.tool.pid)
            expect(len(left) == 1 and os.stat(left[0]).st_mode & 0o777 == 0o700, f"folders: {left}")
            for name in os.listdir(left[0]):
                about = os.stat(os.path.join(left[0], name))
                expect(about.st_mode & 0o777 == 0o600 and about.st_blocks * 512 >= about.st_size,
                       f"{name}: mode {about.st_mode:o}, {about.st_blocks} blocks for {about.st_size} bytes")
            flight.kill_tool()
            outcome = flight.snapshot("living")
            expect(outcome.status == 0, f"snapshot of the living program: {outcome.stderr}")
            good(case)
            os.kill(flight.pid, signal.SIGKILL)
        recover(case, "--buffers", left[0])
    finally:
        for folder in left:
            shutil.rmtree(folder)


def buffers_go(case):
    """After an end as ever they are gone: all is in the file."""
    need_memory()
    output, process = start(case, case.record_command([case.program("spin.c"), "500"],
                                                      [*OVERWRITE, "--buffer-dir", MEMORY]))
    wait_for(output, "done well")
    expect(finish(process) == 0, "exit status")
    expect(not folders(process.pid), f"left: {folders(process.pid)}")
    good(case)


def buffers_refused(case):
    """Only memory will do, and only where it is needed."""
    program = case.program("spin.c")
    for options, sentence in (([*OVERWRITE, "--buffer-dir", "/proc"], "tmpfs"),
                              ([*OVERWRITE, "--buffer-dir", "/nonexistent"], "No such file"),
                              (["--buffer-dir", MEMORY], "--mode overwrite")):
        outcome = case.record([program, "100"], options, log=False)
        expect(outcome.status == 1 and sentence in outcome.stderr and not outcome.stdout,
               f"{options}: status {outcome.status}: {outcome.stdout}{outcome.stderr}")


def forked(case):
    """The calls that a child has open from its parent begin with the child: what was before the fork is counted once."""
    outcome = case.record([case.program("late.c"), "forks"], [*OVERWRITE, "-b", "16M"], log=False)
    expect(outcome.status == 0 and outcome.stdout == "done well\n", f"{outcome.status}: {outcome.stdout!r} {outcome.stderr!r}")
    text = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout
    entries = {}
    for line in map(json.loads, text.splitlines()):
        if line["ev"] == "enter" and line["fn"] in ("hold", "mark"):
            entries.setdefault(line["fn"], []).append((line["ns"], line["pid"]))
    (marked, parent), = entries["mark"]
    expect(len(entries["hold"]) == 6, f"hold() was entered {entries['hold']}")
    for ns, pid in entries["hold"]:
        expect((pid == parent) == (ns < marked), f"process {pid} (parent {parent}) entered hold() at {ns} ns, mark() was at {marked}")


def ended(case):
    """The calls that a thread has left open end with the thread, and not with the recording."""
    case.need_native("asking which threads live")
    outcome = case.record([case.program("late.c"), "threads"], [*OVERWRITE, "-b", "1M"], log=False)
    expect(outcome.status == 0 and outcome.stdout == "done well\n", f"{outcome.status}: {outcome.stdout!r} {outcome.stderr!r}")
    text = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout
    lines = [line for line in map(json.loads, text.splitlines()) if line.get("fn") in ("body", "mark")]
    marked, = (line["ns"] for line in lines if line["ev"] == "enter" and line["fn"] == "mark")
    ends_of = [line["ns"] for line in lines if line["ev"] == "leave" and line["fn"] == "body"]
    expect(len(ends_of) == 20 and max(ends_of) < marked, f"body() has ended at {ends_of}, mark() was at {marked}")


SINGLE = {
    "flight-forked": forked,
    "flight-ended": ended,
    "flight-snapshots": snapshots,
    "flight-history": history,
    "flight-refused": refused,
    "flight-segv": ends("segv", "16"),
    "flight-abort": ends("abort"),
    "flight-threads": native(ends("each_thread", "11"), "the last thread's exit() gives the status"),
    "flight-killed": killed,
    "flight-core": core,
    "flight-kernel_core": kernel_core,
    "flight-kernel_core-at-once": core_at_once,
    "flight-tool-killed": tool_killed,
    "flight-attached": attached,
    "flight-orphans": orphans,
    "flight-nothing-left": nothing_left,
    "flight-buffers": buffers,
    "flight-buffers-go": buffers_go,
    "flight-buffers-refused": buffers_refused,
}

"""The tree of `calltap mount`: each file's meaning, errors and text, as the kernel's; and that nothing ever hangs."""
import contextlib
import errno
import os
import re
import select
import signal
import subprocess
import threading
import time

import live
from endings import finish
from harness import Process, Skip, expect, stop, until
from steer import calltap, own_place
from steering import Program, Tool, left_alone

# Headers as Linux 6.18 prints them, but for the number of CPUs and of events.
HEADER = """# tracer: {tracer}
#
# entries-in-buffer/entries-written: N/N   #P:N
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"""
HEADER_TGID = """# tracer: {tracer}
#
# entries-in-buffer/entries-written: N/N   #P:N
#
#                                          _-----=> irqs-off/BH-disabled
#                                         / _----=> need-resched
#                                        | / _---=> hardirq/softirq
#                                        || / _--=> preempt-depth
#                                        ||| / _-=> migrate-disable
#                                        |||| /     delay
#           TASK-PID       TGID    CPU#  |||||  TIMESTAMP  FUNCTION
#              | |           |       |   |||||     |         |
"""
HEADER_NOIRQ = """# tracer: {tracer}
#
# entries-in-buffer/entries-written: N/N   #P:N
#
#           TASK-PID     CPU#     TIMESTAMP  FUNCTION
#              | |         |         |         |
"""
# As Documentation/trace/ftrace.rst has it.
GRAPH_HEADER = """# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
"""
GRAPH_LINE = re.compile(r" \d+\) (?:[ +!#*@$] [\d.]{5,8} us {1,4}| {14})\|  ((?:  )*)(\w+\(\);|\w+\(\) \{|\}(?: /\* \w+ \*/)?|/\* .* \*/)$")
CALL_LINE = re.compile(r" {0,16}([\w<>.-]{1,16})-(\d+) {1,7}\[(\d{3})\] \.\.\.\.\. {1,5}(\d+\.\d{6}): (\w+) <-(\w+|0x[0-9a-f]+|0)$")
LOST_LINE = re.compile(r"CPU:\d+ \[LOST \d+ EVENTS\]")
ALL, NONE = "#### all functions enabled ####\n", "#### no functions disabled ####\n"


class Tree:
    """`calltap mount` of a program, a command, or neither, until it is told to end."""

    def __init__(self, case, program, *options, command=None):
        if not os.path.exists("/dev/fuse") or not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise Skip("FUSE is not allowed here: /dev/fuse")
        self.case, self.program = case, program
        self.place = os.path.join(case.folder, "tree")
        os.makedirs(self.place, exist_ok=True)
        self.output = os.path.join(case.folder, "mount.output")
        target = ["--", *command] if command else [str(program.pid)] if program else []
        with open(self.output, "wb") as file:
            self.process = Process([case.tool, "mount", *options, self.place, *target], cwd=case.folder,
                                   env=case.environment(False), stdin=subprocess.DEVNULL, stdout=file,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            until("the tree", lambda: self.alive() and os.path.exists(self.path("README")) and self.read("current_tracer"))
        except BaseException:
            self.__exit__()
            raise

    def alive(self):
        if self.process.poll() is None:
            return True
        said = self.said()
        if "built without FUSE" in said or "cannot mount" in said:
            raise Skip(said.strip())
        expect(False, f"calltap mount ended with {self.process.returncode}: {said!r}")
        return False

    def said(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def path(self, name):
        return os.path.join(self.place, name)

    def read(self, name):
        with open(self.path(name), "rb", buffering=0) as file:
            pieces = []
            while piece := file.read(1 << 16):
                pieces.append(piece)
        return b"".join(pieces).decode(errors="replace")

    def write(self, name, text, append=False):
        """As `echo TEXT > NAME` does, or `>>`."""
        fd = os.open(self.path(name), os.O_WRONLY | (os.O_APPEND if append else os.O_TRUNC))
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def refuses(self, error, name, text, append=False):
        try:
            self.write(name, text, append)
        except OSError as found:
            expect(found.errno == error, f"{text!r} to {name}: {found}, not {errno.errorcode[error]}")
        else:
            expect(False, f"{name} has taken {text!r}")

    def is_mounted(self):
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            return any(line.split()[1] == self.place for line in mounts)

    def unmount(self):
        """A file that was closed is in use for a moment more."""
        until("umount", lambda: subprocess.run(["fusermount3", "-u", self.place], stderr=subprocess.DEVNULL, check=False)
              .returncode == 0)

    def gone(self):
        until("the mount to go", lambda: not self.is_mounted())

    def end(self, how=signal.SIGTERM, status=0):
        if how:
            os.kill(self.process.pid, how)
        ended = finish(self.process)
        self.gone()
        expect(status is None or ended == status, f"calltap mount ended with {ended}: {self.said()!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)
        if self.is_mounted():
            subprocess.run(["umount", "-l", self.place], check=False)


@contextlib.contextmanager
def mounted(case, *options, arguments=("1",)):
    """A program and its tree; afterwards the program is as it was."""
    own_place(case)
    with Program(case, *arguments) as program, left_alone(program), Tree(case, program, *options) as tree:
        yield program, tree
        tree.end()


def settings(case, program, *options):
    """{key: [values]} of `calltap set`."""
    found = {}
    for line in calltap(case, "set", program.pid, *options).splitlines():
        key, value = line.split("=", 1)
        found.setdefault(key.rstrip("+"), []).append(value)
    return {key: [value for value in values if value] for key, values in found.items()}


def controls(case):
    """Each simple file: what it takes and refuses, and that `calltap set` and the file are the same."""
    with mounted(case) as (program, tree):
        expect(tree.read("available_tracers") == "function_graph function nop\n", tree.read("available_tracers"))
        expect(tree.read("current_tracer") == "nop\n", "the tracer at first")
        buffers = len(os.listdir(tree.path("per_cpu")))  # as many as the kernel has, until a thread has recorded something
        expect(int(tree.read("buffer_total_size_kb")) == buffers * int(tree.read("buffer_size_kb")), "the sum of buffers at first")
        for tracer in ("function", "function_graph", "nop"):
            tree.write("current_tracer", tracer + "\n")
            expect(settings(case, program)["tracer"] == [tracer], f"set shows {settings(case, program)}")
            expect(tree.read("current_tracer") == tracer + "\n", "the file shows another tracer")
        calltap(case, "set", program.pid, "tracer=function_graph", "max-depth=3", "threshold=20us", "tracing=off")
        expect([tree.read(name) for name in ("current_tracer", "max_graph_depth", "tracing_thresh", "tracing_on")] ==
               ["function_graph\n", "3\n", "20\n", "0\n"], "what set has changed is not in the files")
        tree.write("tracing_on", "1")
        tree.write("max_graph_depth", "5\n")
        tree.write("tracing_thresh", "0\n")
        found = settings(case, program)
        expect((found["tracing"], found["max-depth"], found["threshold"]) == (["on"], ["5"], []), f"set shows {found}")
        # The kernel keeps limits whatever the tracer is.
        tree.write("current_tracer", "function\n")
        expect(settings(case, program)["max-depth"] == [] and tree.read("max_graph_depth") == "5\n", "the depth is gone")
        tree.write("max_graph_depth", "7\n")
        tree.write("current_tracer", "function_graph\n")
        expect(settings(case, program)["max-depth"] == ["7"], "the depth did not come back")
        tree.write("buffer_size_kb", "1024\n")
        expect(settings(case, program)["buffer"] == ["1M"] and tree.read("buffer_size_kb") == "1024\n", "the buffer")
        threads = len(os.listdir(f"/proc/{program.pid}/task"))  # a thread has a buffer once it has recorded
        total = int(tree.read("buffer_total_size_kb"))
        expect(total % 1024 == 0 and 1 <= total // 1024 <= threads, f"the sum of the buffers is {total}")
        named = {int(line.split()[0]) for line in tree.read("saved_cmdlines").splitlines()}
        expect(named >= {int(tid) for tid in os.listdir(f"/proc/{program.pid}/task")}, f"threads with names: {named}")
        tree.refuses(errno.EINVAL, "buffer_size_kb", "0\n")
        tree.refuses(errno.EINVAL, "current_tracer", "no_such\n")
        for name in ("tracing_on", "max_graph_depth", "tracing_thresh", "buffer_size_kb", "options/print-parent"):
            tree.refuses(errno.EINVAL, name, "1x\n")
        tree.refuses(errno.EINVAL, "options/print-parent", "2\n")
        tree.refuses(errno.EINVAL, "available_tracers", "nop\n")
        tree.refuses(errno.EINVAL, "trace_options", "no_such\n")
        tree.refuses(errno.EINVAL, "trace_clock", "no_such\n")
        expect(tree.read("trace_clock") == "[mono] local global\n", "the clock")
        tree.write("trace_clock", "local\n")
        expect(tree.read("trace_clock") == "mono [local] global\n", "another clock")
        try:
            tree.read("trace_marker")
        except OSError as error:
            expect(error.errno == errno.EINVAL, f"reading trace_marker: {error}")
        else:
            expect(False, "trace_marker can be read")
        for make in (lambda: open(tree.path("new"), "w", encoding="utf-8"), lambda: open(tree.path("new"), encoding="utf-8")):
            try:
                make().close()
            except OSError as error:
                expect(error.errno in (errno.EACCES, errno.ENOENT), f"a file that is not there: {error}")
            else:
                expect(False, "a file was made")
        tree.write("trace_options", "noprint-parent\n")
        expect(tree.read("options/print-parent") == "0\n" and "noprint-parent\n" in tree.read("trace_options"), "an option")
        tree.write("options/print-parent", "1\n")
        expect("\nnoprint-parent\n" not in "\n" + tree.read("trace_options"), "an option stays off")
        tree.write("set_ftrace_pid", "12\n")
        tree.write("set_ftrace_pid", "13 14\n", append=True)
        expect(tree.read("set_ftrace_pid") == "12\n13\n14\n", "set_ftrace_pid")
        tree.refuses(errno.EINVAL, "set_ftrace_pid", "15 x\n")
        tree.write("set_ftrace_pid", "12\n")
        tree.refuses(errno.EINVAL, "set_ftrace_pid", "15 x\n", append=True)
        expect(tree.read("set_ftrace_pid") == "12\n", "a part of what was refused is there")
        tree.write("set_ftrace_pid", "\n")
        expect(tree.read("set_ftrace_pid") == "no pid\n", "set_ftrace_pid is not empty")
        tree.write("error_log", "\n")
        tree.refuses(errno.EINVAL, "current_tracer", "no_such\n")
        expect(re.fullmatch(r"\[ *\d+\.\d{6}\] current_tracer: error: .*\n  Command: no_such\n {11}\^\n", tree.read("error_log")),
               f"error_log: {tree.read('error_log')!r}")
        tree.write("tracing_on", "0")


def body_of(text, header):
    """The lines behind the header, which is the kernel's but for numbers."""
    head = re.sub(r"written: \d+/\d+   #P:\d+", "written: N/N   #P:N", "".join(text.splitlines(keepends=True)[:header.count("\n")]))
    expect(head == header, f"the header is {head!r}, not {header!r}")
    return text.splitlines()[header.count("\n"):]


def tracer_changes(case):
    """A call that is open while the tracer is changed is the tracer's before, and no line of the next one's."""
    with mounted(case) as (_, tree):
        tree.write("set_ftrace_filter", "wait_once\n")  # some milliseconds, again and again
        for _ in range(6):
            tree.write("current_tracer", "function_graph\n")
            until("calls", lambda: "wait_once" in tree.read("trace"))
            tree.write("current_tracer", "nop\n")
            time.sleep(0.15)
            left = [line for line in tree.read("trace").splitlines() if not line.startswith("#")]
            expect(left == [], f"calls of the tracer before: {left}")


OPEN_CALL, WHOLE_CALL = re.compile(r"( \d+\)) {15}(\|  .*) \{"), re.compile(r"( \d+\)).{15}(\|  .*);")


def expect_kept(first, second):
    """
    The second reading of function_graph's lines has those of the first one.  A call that was the last of its thread, and open,
    may have ended in between: then the same line shows it whole, as its end is the thread's next event.
    """
    lines, later = first.splitlines(), second.splitlines()
    for number, line in enumerate(lines):
        found = later[number] if number < len(later) else None
        if line == found:
            continue
        begun, whole = OPEN_CALL.fullmatch(line), WHOLE_CALL.fullmatch(found or "")
        ended = begun and whole and begun.groups() == whole.groups()
        expect(ended and not any(after.startswith(begun[1]) for after in lines[number + 1:]),
               f"reading has consumed something: line {number} of {len(lines)} was {line!r} and is {found!r} of {len(later)}")


def graph_text(case):
    """Lines as function_graph prints them; braces that fit, and each function within its caller."""
    with mounted(case) as (_, tree):
        tree.write("set_ftrace_filter", "once leaf_* recurse\n")
        tree.write("current_tracer", "function_graph\n")
        until("calls", lambda: tree.read("trace").count("once() {") > 5)
        tree.write("trace_marker", "a comment\n")
        with open(tree.path("trace_marker"), "wb", buffering=0) as file:
            expect(file.write(b"y" * 3000) == 1024, "a mark is longer than its writer is told")
        text = tree.read("trace")
        expect_kept(text, tree.read("trace"))
        lines, stacks, seen = body_of(text, GRAPH_HEADER), {}, set()
        for number, line in enumerate(lines):
            match = GRAPH_LINE.match(line)
            expect(match, f"a line is {line!r}")
            depth, words, thread = len(match[1]) // 2, match[2], line.split(")")[0]
            if words.startswith("/*"):
                continue
            stack = stacks.setdefault(thread, [None] * depth)  # calls that were open
            if words.startswith("}"):
                stacks[thread] = stack[:depth]
                continue
            expect(depth == len(stack) or not stack or None in stack,
                   f"at depth {depth}, not {len(stack)}: " + "\n".join(lines[max(number - 12, 0):number + 3]))
            name = words.split("(")[0]
            seen.add((name, stack[-1] if stack else None))
            if words.endswith("{"):
                stacks[thread] = stack[:depth] + [name]
        expect({("leaf_1", "once"), ("leaf_2", "once"), ("leaf_3", "once"), ("recurse", "once"), ("recurse", "recurse")} <= seen,
               f"callers: {seen}")
        expect(any(line.endswith("/* a comment */") for line in lines), "the mark is not there")
        tree.write("options/funcgraph-tail", "1\n")
        expect("} /* once */" in tree.read("trace"), "funcgraph-tail changes nothing")
        tree.write("options/funcgraph-proc", "1\n")
        tree.write("options/funcgraph-abstime", "1\n")
        text = tree.read("trace").splitlines()
        expect(text[2] == "#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS" and
               text[3] == "#      |          |     |    |           |   |                     |   |   |   |", f"{text[2:4]}")
        expect(re.match(r" *\d+\.\d{6} \|   \d+\)  *\w+-\d+ * \| [ +!#*@$] ", text[10]), f"{text[10]!r}")
        tree.write("tracing_on", "0\n")
        tree.write("trace", "\n", append=True)
        expect(len(tree.read("trace").splitlines()) > 4, "appending has cleared the buffer")
        tree.write("trace", "\n")
        expect(len(tree.read("trace").splitlines()) == 4, "the buffer is not empty")


def ended_between(case):
    """A call that ends between two readings of trace is one line, which the second reading shows whole."""
    with mounted(case) as (_, tree):
        tree.write("set_ftrace_filter", "wait_once\n")  # some milliseconds, again and again
        tree.write("current_tracer", "function_graph\n")
        until("calls", lambda: tree.read("trace").count("wait_once()") > 2)

        def pair():
            first = tree.read("trace")
            time.sleep(0.2)
            second = tree.read("trace")
            expect_kept(first, second)
            return first != second[:len(first)]
        until("a call that was open in between", pair)


def real_marks():
    """{options: what the kernel of this machine prints for a mark}; {} where it may not be asked."""
    place, found = "/sys/kernel/tracing/instances/calltap-test", {}
    try:
        os.mkdir(place)
    except OSError:
        return {}
    try:
        for irq in "01":
            for tgid in "01":
                for name, text in (("options/irq-info", irq), ("options/record-tgid", tgid), ("trace", "\n"), ("trace_marker", "mark\n")):
                    with open(os.path.join(place, name), "w", encoding="utf-8") as file:
                        file.write(text)
                with open(os.path.join(place, "trace"), encoding="utf-8") as file:
                    found[irq, tgid] = file.read()
    except OSError:
        return {}
    finally:
        os.rmdir(place)
    return found


def alike(text):
    """A text without what differs from run to run: names, ids, numbers, flags; widths stay."""
    text = re.sub(r"written: \d+/\d+   #P:\d+", "written: N/N   #P:N", text)
    text = re.sub(r"( +)\S{1,15}-(\d+)", lambda match: "_" * (len(match[0]) - len(match[2]) - 1) + "-" + "9" * len(match[2]), text)
    text = re.sub(r"\((?: *\d+|-+)\)", lambda match: "(" + "-" * (len(match[0]) - 2) + ")", text)
    text = re.sub(r"\[\d{3}\]", "[000]", text)
    text = re.sub(r"(\[000\] )[.\w]{5} ", r"\1..... ", text)
    return re.sub(r" +\d+\.(\d{6}):", r" 1.\1:".replace(r"\1", "000000"), text)


def symbols(tree):
    """Functions and callers with the options sym-offset and sym-addr."""
    where = {name: int(address, 16) for address, _, name in
             (line.split()[:3] for line in tree.read("kallsyms").splitlines()) if name in ("leaf_1", "once")}
    tree.write("options/sym-offset", "1\n")
    lines = re.findall(r": leaf_1\+0x0/0x[0-9a-f]+ <-once\+0x([0-9a-f]+)/0x([0-9a-f]+)$", tree.read("trace"), re.M)
    expect(lines and all(0 < int(offset, 16) <= int(size, 16) for offset, size in lines), f"sym-offset: {lines[:3]}")
    tree.write("options/sym-offset", "0\n")
    tree.write("options/sym-addr", "1\n")
    found = set(re.findall(r": leaf_1 <([0-9a-f]{16})> <-once <([0-9a-f]{16})>$", tree.read("trace"), re.M))
    offsets = {int(offset, 16) for offset, _ in lines}
    expect(found and all(int(own, 16) == where["leaf_1"] and int(caller, 16) - where["once"] in offsets for own, caller in found),
           f"sym-addr: {found}, {where}")
    tree.write("options/sym-addr", "0\n")
    expect(": leaf_1 <-once\n" in tree.read("trace"), "the options stay on")


def function_text(case):
    """Lines as the tracer function prints them, with the callers; headers and marks as this machine's kernel has them."""
    with mounted(case) as (program, tree):
        began = time.monotonic()
        expect(body_of(tree.read("trace"), HEADER.format(tracer="nop")) == [], "there is something at first")
        tree.write("current_tracer", "function\n")
        until("calls", lambda: tree.read("trace").count(" <-") > 30)
        lines, before, pairs = body_of(tree.read("trace"), HEADER.format(tracer="function")), 0.0, set()
        for line in lines:
            match = CALL_LINE.match(line)
            expect(match, f"a line is {line!r}")
            expect(os.path.exists(f"/proc/{program.pid}/task/{match[2]}"), f"no thread: {line!r}")
            expect(float(match[4]) >= before, f"times go back: {line!r}")
            before = float(match[4])
            pairs.add((match[5], match[6]))
        expect({("leaf_1", "once"), ("recurse", "once"), ("once", "work")} <= pairs, f"callers: {pairs}")
        expect(began <= before <= time.monotonic(), f"{before} is no time of CLOCK_MONOTONIC from {began} on")
        tree.write("trace_options", "noprint-parent\n")
        expect(" <-" not in tree.read("trace"), "print-parent changes nothing")
        tree.write("trace_options", "print-parent\n")
        symbols(tree)
        tree.write("current_tracer", "nop\n")
        for (irq, tgid), header in (("1", "0"), HEADER), (("1", "1"), HEADER_TGID), (("0", "0"), HEADER_NOIRQ):
            tree.write("options/irq-info", irq)
            tree.write("options/record-tgid", tgid)
            expect(body_of(tree.read("trace"), header.format(tracer="nop")) == [], "changing the tracer empties the buffer")
        for (irq, tgid), wanted in real_marks().items():
            tree.write("options/irq-info", irq)
            tree.write("options/record-tgid", tgid)
            tree.write("trace", "\n")
            tree.write("trace_marker", "mark\n")
            found = tree.read("trace")
            expect(alike(found) == alike(wanted), f"{found!r}, and the kernel's {wanted!r}")
        tree.write("options/markers", "0\n")
        tree.refuses(errno.EINVAL, "trace_marker", "x\n")
        tree.write("options/markers", "1\n")
        tree.write("tracing_on", "0\n")
        tree.refuses(errno.EBADF, "trace_marker", "x\n")
        # Events of these threads alone.
        tree.write("tracing_on", "1\n")
        tree.write("trace", "\n")
        tree.write("set_ftrace_pid", f"{os.getpid()}\n")
        tree.write("current_tracer", "function\n")
        time.sleep(0.3)
        tree.write("trace_marker", "mine\n")
        expect([line for line in tree.read("trace").splitlines() if line[0] != "#" and "mine" not in line] == [],
               "events of other threads are there")


def pipe(case):
    """One consuming reader: it waits, or not, can be polled, and what it read is gone."""
    with mounted(case) as (_, tree):
        fd = os.open(tree.path("trace_pipe"), os.O_RDONLY | os.O_NONBLOCK)
        for name in ("trace_pipe",):
            try:
                os.close(os.open(tree.path(name), os.O_RDONLY))
            except OSError as error:
                expect(error.errno == errno.EBUSY, f"a second reader: {error}")
            else:
                expect(False, "there are two readers")
        try:
            os.read(fd, 10)
        except BlockingIOError:
            pass
        else:
            expect(False, "there is something to read")
        try:
            os.lseek(fd, 0, os.SEEK_SET)
        except OSError as error:
            expect(error.errno == errno.ESPIPE, f"lseek: {error}")
        tree.refuses(errno.EBUSY, "current_tracer", "function\n")
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        expect(poller.poll(100) == [], "poll says that there is something")
        threading.Timer(0.2, tree.write, ("trace_marker", "wake up\n")).start()
        expect([event & select.POLLIN for _, event in poller.poll(20000)] == [select.POLLIN], "poll did not wake up")
        expect(os.read(fd, 4096).decode().endswith(": tracing_mark_write: wake up\n"), "the mark")
        os.close(fd)
        tree.write("current_tracer", "function\n")
        with open(tree.path("trace_pipe"), "rb", buffering=0) as file:
            text = b""
            while text.count(b"\n") < 200:
                text += file.read(1 << 12)
            tree.write("tracing_on", "0\n")
            while piece := file.read(1 << 16):  # the rest, then the end
                text += piece
        lines = text.decode().splitlines()
        expect(not text.startswith(b"#") and all(CALL_LINE.match(line) for line in lines), f"{lines[:3]}")
        expect(tree.read("trace").count(" <-") == 0, "what was read is still there")


def instances(case):
    """mkdir and rmdir: a tracer, filters and a buffer of their own."""
    with mounted(case) as (program, tree):
        os.mkdir(tree.path("instances/one"))
        try:
            os.mkdir(tree.path("instances/one"))
        except FileExistsError:
            pass
        else:
            expect(False, "there are two of one name")
        expect(os.listdir(tree.path("instances")) == ["one"], "it is not listed")
        tree.write("instances/one/set_ftrace_filter", "leaf_1\n")
        tree.write("instances/one/current_tracer", "function\n")
        tree.write("set_ftrace_filter", "recurse\n")
        tree.write("current_tracer", "function_graph\n")
        until("calls of both", lambda: "recurse()" in tree.read("trace") and "leaf_1 <-" in tree.read("instances/one/trace"))
        names = {CALL_LINE.match(line)[5] for line in body_of(tree.read("instances/one/trace"), HEADER.format(tracer="function"))}
        expect(names == {"leaf_1"}, f"the instance has {names}")
        expect("leaf_1" not in tree.read("trace"), "the top level has the instance's calls")
        expect(settings(case, program, "--instance", "one")["trace"] == ["leaf_1"], "set knows another instance")
        tree.write("instances/one/buffer_size_kb", "512\n")
        expect(tree.read("instances/one/buffer_size_kb") == "512\n", "its buffer")
        expect(tree.read("instances/one/set_ftrace_filter").split(" ")[0].strip() == "leaf_1", "its filter is gone")
        tree.write("instances/one/current_tracer", "function_graph\n")
        tree.write("instances/one/max_graph_depth", "2\n")
        expect(settings(case, program, "--instance", "one")["max-depth"] == ["2"], "its depth")
        with open(tree.path("instances/one/trace"), encoding="utf-8"):
            try:
                os.rmdir(tree.path("instances/one"))
            except OSError as error:
                expect(error.errno == errno.EBUSY, f"rmdir: {error}")
            else:
                expect(False, "a directory went that is in use")
        os.rmdir(tree.path("instances/one"))
        expect(os.listdir(tree.path("instances")) == [], "it is still listed")
        for make in (lambda: os.mkdir(tree.path("other")), lambda: os.rmdir(tree.path("options"))):
            try:
                make()
            except OSError as error:
                expect(error.errno == errno.EPERM, f"outside of instances: {error}")
            else:
                expect(False, "a directory outside of instances changed")


def snapshot(case):
    """What the buffer holds can be put aside, and the buffer goes on with what was aside."""
    with mounted(case) as (_, tree):
        expect("# * Snapshot is freed *\n" in tree.read("snapshot"), tree.read("snapshot"))
        tree.write("trace_marker", "the first\n")
        tree.write("snapshot", "1\n")
        tree.write("trace_marker", "the second\n")
        expect("the first" in tree.read("snapshot") and "the second" not in tree.read("snapshot"), tree.read("snapshot"))
        expect("the second" in tree.read("trace") and "the first" not in tree.read("trace"), tree.read("trace"))
        body_of(tree.read("snapshot"), HEADER.format(tracer="nop"))
        tree.write("snapshot", "1\n")
        expect("the second" in tree.read("snapshot") and "the first" in tree.read("trace"), "they were not exchanged")
        tree.write("snapshot", "2\n")
        expect("# * Snapshot is allocated *\n" in tree.read("snapshot"), tree.read("snapshot"))
        tree.write("snapshot", "0\n")
        expect("# * Snapshot is freed *\n" in tree.read("snapshot"), tree.read("snapshot"))
        tree.refuses(errno.EINVAL, "snapshot", "x\n")
        tree.write("trace", "\n")
        tree.write("current_tracer", "function_graph\n")
        until("calls", lambda: "once()" in tree.read("trace"))
        tree.write("snapshot", "1\n")
        lines = body_of(tree.read("snapshot"), GRAPH_HEADER)
        expect(len(lines) > 10 and all(GRAPH_LINE.match(line) for line in lines), f"{lines[:3]}")


def reader_of(tree, name="trace_pipe"):
    return Process(["cat", tree.path(name)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def has_open(process, path):
    """True once the process has the file open."""
    try:
        return any(os.readlink(f"/proc/{process.pid}/fd/{number}") == path for number in os.listdir(f"/proc/{process.pid}/fd"))
    except OSError:
        return False


def restored(program):
    """When the tool was killed, the agent puts the text back: some time after the tool has gone, as a thread of the program."""
    until("the text to be the files'", lambda: not live.differing(program.pid))


def killed_server(case):
    """The tool is killed while somebody reads: the mount goes, the reader ends, the program's text is its files'."""
    own_place(case)
    with Program(case, "2") as program, left_alone(program), Tree(case, program) as tree:
        tree.write("current_tracer", "function_graph\n")
        until("calls", lambda: "once()" in tree.read("trace"))
        tree.write("tracing_on", "0\n")
        reader = reader_of(tree)
        try:
            until("the reader", lambda: has_open(reader, tree.path("trace_pipe")))
            os.kill(tree.process.pid, signal.SIGKILL)
            finish(tree.process)
            finish(reader)
            tree.gone()
            restored(program)
        finally:
            stop(reader)


def killed_reader(case):
    """A reader that waits can be killed, and another one can come."""
    with mounted(case) as (_, tree):
        for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            reader = reader_of(tree)
            try:
                until("the reader", lambda: has_open(reader, tree.path("trace_pipe")))
                os.kill(reader.pid, how)
                expect(finish(reader) == -how, "the reader has ended otherwise")
            finally:
                stop(reader)
        for tracer in ("function", "nop") * 20:  # what is closed is closed at once
            os.close(os.open(tree.path("trace_pipe"), os.O_RDONLY))
            tree.write("current_tracer", f"{tracer}\n")


def ended_target(case):
    """The program ends, or is killed: readers get the rest and the end, settings stay to be read, then the tree goes."""
    own_place(case)
    for how in (signal.SIGTERM, signal.SIGKILL):
        with Program(case, "1") as program, Tree(case, program) as tree:
            tree.write("current_tracer", "function\n")
            until("calls", lambda: " <-" in tree.read("trace"))
            with open(tree.path("trace_pipe"), "rb", buffering=0) as file:
                os.kill(program.pid, how)
                text = b""
                while piece := file.read(1 << 16):  # nobody has waited for the process yet: it is a zombie at the end
                    text += piece
                time.sleep(0.3)
                finish(program.process)
                expect(text.count(b" <-") > 10, f"the rest is {text[-200:]!r}")
                until("the end to be known", lambda: ended(tree))
                expect(tree.read("current_tracer") == "function\n", "the settings are gone")
                tree.write("trace_options", "print-parent\n")
                keeps = open(tree.path("README"), encoding="utf-8")  # pylint: disable=consider-using-with  # the tree stays
            with keeps:
                # A child that another case starts meanwhile has the pipe open, too, until it executes its program.
                until("the pipe to be closed", lambda: not is_busy(tree))
                for name, text in ("current_tracer", "function_graph\n"), ("set_ftrace_filter", "once\n"), ("buffer_size_kb", "4096\n"):
                    tree.refuses(errno.ENODEV, name, text)
                # What only takes away is taken: tools put everything back at their end.
                for name, text in ("tracing_on", "0\n"), ("current_tracer", "nop\n"), ("set_ftrace_filter", "\n"):
                    tree.write(name, text)
                expect((tree.read("tracing_on"), tree.read("current_tracer")) == ("0\n", "nop\n"), "what was taken away is shown")
            tree.end(how=None)
    with Program(case, "1") as program, Tree(case, program, "--keep") as tree:
        program.end()
        time.sleep(0.5)
        expect(tree.alive() and tree.read("trace").startswith("# tracer: nop\n"), "--keep does not keep it")
        tree.unmount()
        tree.end(how=None)


def is_busy(tree):
    try:
        tree.write("current_tracer", "function_graph\n")
    except OSError as error:
        return error.errno == errno.EBUSY
    return False


def ended(tree):
    try:
        tree.write("max_graph_depth", "3\n")  # the tree's own while the tracer is another one
        tree.write("buffer_size_kb", "4096\n")
    except OSError as error:
        expect(error.errno == errno.ENODEV, f"buffer_size_kb: {error}")
        return True
    return False


def unmounted(case):
    """umount, ^C, `calltap detach`: the program is let go of."""
    own_place(case)
    with Program(case, "1") as program, left_alone(program):
        for how in ("umount", "detach", signal.SIGINT):
            with Tree(case, program) as tree:
                tree.write("current_tracer", "function_graph\n")
                until("calls", lambda: "once()" in tree.read("trace"))
                if how == "umount":
                    tree.unmount()
                elif how == "detach":
                    calltap(case, "detach", program.pid)
                tree.end(how=how if isinstance(how, int) else None)


def beside(case):
    """Of a process that is recorded already the tree is a further instance."""
    own_place(case)
    with Program(case, "1") as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_1") as tool:
            with Tree(case, program) as tree:
                tree.write("set_ftrace_filter", "recurse\n")
                tree.write("current_tracer", "function_graph\n")
                until("calls", lambda: "recurse()" in tree.read("trace"))
                expect("leaf_1" not in tree.read("trace"), "the recording's calls are in the tree")
                expect(settings(case, program, "--instance", "tracefs")["trace"] == ["recurse"], "the instance")
                tree.end()
            tool.records(100)
            tool.detach()
    called = {name for name, count in case.trace().called().items() if count}
    expect(called == {"leaf_1"}, f"the recording has {called}")


def own_tree(case):
    """A program that uses its own tree: it is answered, and ends as it does."""
    own_place(case)
    words = "while ! read -r < tree/current_tracer; do :; done; echo function_graph > tree/current_tracer && " \
            "echo a mark > tree/trace_marker && grep -q 'a mark' tree/trace && exit 7"
    with Tree(case, None, "--keep", command=["bash", "-c", words]) as tree:
        until("the end", lambda: ended(tree))
        expect("/* a mark */" in tree.read("trace"), f"the trace is {tree.read('trace')[:300]!r}; {tree.said()!r}")
        tree.end(how=signal.SIGTERM, status=7)


def busy(case):
    """A program that is faster than the tool: readers get on, losses stand in the text, control files are answered."""
    with mounted(case, arguments=("3", "busy")) as (_, tree):
        tree.write("buffer_size_kb", "64\n")
        tree.write("current_tracer", "function_graph\n")
        until("calls", lambda: "once()" in tree.read("trace"))
        for _ in range(3):
            with open(os.path.join(case.folder, "copy"), "wb") as file:
                reader = Process(["cat", tree.path("trace")], stdin=subprocess.DEVNULL, stdout=file)
                expect(finish(reader) == 0, "a reader of trace failed")
            with open(os.path.join(case.folder, "copy"), encoding="utf-8") as file:
                lines = body_of(file.read(), GRAPH_HEADER)
            # What it shows is what the buffer held at one moment, though that is overwritten meanwhile.
            strange = [line for line in lines if not GRAPH_LINE.match(line) and not LOST_LINE.fullmatch(line)]
            expect(len(lines) > 2000 and not strange, f"{len(lines)} lines, {strange[:3]}")
            expect(tree.read("tracing_on") == "1\n", "tracing_on")
        with open(tree.path("trace_pipe"), "rb", buffering=0) as file:
            text = b""
            while text.count(b"\n") < 20000:
                text += file.read(1 << 16)
        lines = text.decode().splitlines()[:-1]
        losses = [line for line in lines if LOST_LINE.fullmatch(line)]
        strange = [line for line in lines if not GRAPH_LINE.match(line) and line not in losses]
        expect(losses and not strange, f"{losses[:3]}, {strange[:3]}")
        tree.write("tracing_on", "0\n")


def stock(case):
    """A program that nobody prepared: functions are patched when they are chosen, and calls into libraries are there."""
    own_place(case)
    with Program(case, "1", sites=False) as program, left_alone(program), Tree(case, program) as tree:
        available = tree.read("available_filter_functions").splitlines()
        expect({"once", "leaf_1", "usleep"} <= set(available), f"available: {available}")
        tree.write("set_ftrace_filter", "once usleep\n")
        tree.write("current_tracer", "function_graph\n")
        until("calls", lambda: {"once()", "usleep()"} <= set(re.findall(r"\w+\(\)", tree.read("trace"))))
        tree.write("set_ftrace_filter", "leaf_*\n")
        tree.write("trace", "\n")
        until("other calls", lambda: "leaf_1()" in tree.read("trace"))
        lines = body_of(tree.read("trace"), GRAPH_HEADER)
        expect(lines and all(GRAPH_LINE.match(line) for line in lines), f"{lines[:3]}")
        # A library that the program shares with others is known once it is asked for, behind those that were there.
        tree.write("current_tracer", "nop\n")
        calltap(case, "set", program.pid, "trace=libc.so*:usleep")
        now = tree.read("available_filter_functions").splitlines()
        expect(now[:len(available)] == available and "usleep [libc.so.6]" in now[len(available):], f"{now[len(available):][:3]}")
        expect(tree.read("set_ftrace_filter") == "usleep [libc.so.6]\n", tree.read("set_ftrace_filter"))
        tree.write("set_ftrace_filter", f"{now.index('usleep [libc.so.6]') + 1}\n")
        expect(tree.read("set_ftrace_filter") == "usleep [libc.so.6]\n", tree.read("set_ftrace_filter"))
        tree.write("set_ftrace_filter", "usleep:mod:libc.so*\n")
        expect(tree.read("set_ftrace_filter") == "usleep [libc.so.6]\n", tree.read("set_ftrace_filter"))
        tree.write("current_tracer", "function_graph\n")
        until("calls of the library", lambda: "usleep [libc.so.6]()" in tree.read("trace"))
        tree.end()


def others(case):
    """Another user, root's rights away, cannot look in; what a user may do with a file is its mode."""
    if os.geteuid():
        raise Skip("only root can become another user")
    with mounted(case) as (_, tree):
        for name in ("README", "trace", "instances"):
            done = subprocess.run(["python3", "-c", "import os, sys; os.setgid(65534); os.setuid(65534)\n"
                                   "try: os.stat(sys.argv[1]); print('seen')\nexcept PermissionError: print('refused')",
                                   tree.path(name)], cwd="/", stdout=subprocess.PIPE, text=True, check=True)
            expect(done.stdout == "refused\n", f"{name} is {done.stdout!r}")
        modes = {name: os.stat(tree.path(name)).st_mode & 0o777 for name in ("README", "trace", "trace_marker", "options")}
        expect(modes == {"README": 0o440, "trace": 0o640, "trace_marker": 0o220, "options": 0o750}, f"{modes}")
        tree.write("current_tracer", "function\n")


def children(case):
    """Threads and forked children are in the trace by their own ids and names."""
    own_place(case)
    with Tree(case, None, "--tracer", "function", "--keep", command=[case.program("forks.c")]) as tree:
        until("the end", lambda: ended(tree))
        lines = body_of(tree.read("trace"), HEADER.format(tracer="function"))
        tids = {CALL_LINE.match(line)[2] for line in lines if CALL_LINE.match(line)}
        expect(len(tids) > 1, f"threads: {tids}")
        names = dict(line.split(" ", 1) for line in tree.read("saved_cmdlines").splitlines())
        expect(tids <= set(names), f"names: {names}")
        tree.end(how=signal.SIGTERM, status=None)


def command(case):
    """A command that is started with its tree: it can be traced from the first call, and its status is the tool's."""
    own_place(case)
    with Tree(case, None, "--tracer", "function_graph", command=[case.program("attachee.c"), "1"]) as tree:
        until("calls", lambda: "once()" in tree.read("trace"))
        expect("main()" in tree.read("trace"), "the first call is not there")
        pid = int(re.search(r"ready (\d+)", tree.said())[1])
        os.kill(pid, signal.SIGTERM)
        tree.end(how=None, status=42)


def signals(case):
    """A command's signals are as they are untraced: SIGPIPE ends it."""
    own_place(case)
    script = ["sh", "-c", "grep -E 'Sig(Ign|Cgt|Blk)' /proc/self/status; sleep 1"]
    with Tree(case, None, "--stock", "never", "--allow-no-sites", command=script) as tree:
        finish(tree.process)
        expect(tree.said() == case.run(script).stdout, f"the command found {tree.said()!r}")


def native(test):
    def of_this_cpu(case):
        case.need_native("attaching")
        test(case)
    return of_this_cpu


def folder_in_use(case):
    """What is in a folder is not hidden by a tree: on /etc it would be hidden from the whole system."""
    case.need_native("a mount")
    place = os.path.join(case.folder, "full")
    os.makedirs(os.path.join(place, "something"))
    done = case.run([case.tool, "mount", place])
    if "built without FUSE" in done.stderr:
        raise Skip("this calltap was built without FUSE")
    expect(done.status == 1 and "make a new folder" in done.stderr, f"{done.status}: {done.stderr!r}")
    expect(os.listdir(place) == ["something"], "it is hidden")


SINGLE = {
    "tracefs-folder-in-use": folder_in_use,
    "tracefs-controls": controls,
    "tracefs-graph": graph_text,
    "tracefs-graph-ended": ended_between,
    "tracefs-tracer-changes": tracer_changes,
    "tracefs-function": function_text,
    "tracefs-pipe": pipe,
    "tracefs-instances": instances,
    "tracefs-snapshot": snapshot,
    "tracefs-server-killed": killed_server,
    "tracefs-reader-killed": killed_reader,
    "tracefs-target-ends": ended_target,
    "tracefs-unmounted": unmounted,
    "tracefs-beside": beside,
    "tracefs-command": command,
    "tracefs-signals": signals,
    "tracefs-own-tree": own_tree,
    "tracefs-busy": busy,
    "tracefs-others": others,
    "tracefs-stock": stock,
    "tracefs-children": children,
}
SINGLE = {name: native(test) for name, test in SINGLE.items()}

"""The end of a tree whose tool is far behind its program: it takes what somebody reads, all instances together."""
import contextlib
import os
import re
import signal
import subprocess
import threading
import time

from harness import Process, expect, halted, stop, until
from steer import own_place
from steering import Program, left_alone
from tracefs import Tree, native

INSTANCES = 6
BEHIND = 6 << 20  # bytes of an instance's records: more than its reader queues
CPU_S = 4.0  # for all of the tool's work; to take in six instances' records costs several times that
CALLS = 1000000
BUFFER_KB = 256 << 10
LOST = re.compile(r"CPU:\d+ \[LOST (\d+) EVENTS\]")


class Further(Tree):
    """A tree of a process that another tool traces."""

    def __init__(self, case, program, name):
        self.name = name
        super().__init__(case, program)

    @property
    def place(self):
        return os.path.join(self.case.folder, self.name)

    @place.setter
    def place(self, _):
        os.makedirs(self.place, exist_ok=True)


def waiting(pid):
    """Bytes of the records that each instance of the tool's has in memory."""
    sizes = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            path = f"/proc/{pid}/fd/{fd}"
            if "memfd:calltap-instance" in os.readlink(path):
                about = os.stat(path)
                sizes.append((about.st_ino, about.st_blocks * 512))
    return list(dict(sizes).values())


def cpu_s(pid):
    """CPU time of a process, which may have ended."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def unread(case):
    """The program ends while seven instances have records that nobody reads: no time is spent on them."""
    own_place(case)
    with Program(case, "2", "busy") as program, Tree(case, program), Further(case, program, "further") as tree:
        tree.write("current_tracer", "function_graph\n")
        for i in range(INSTANCES):
            os.mkdir(tree.path(f"instances/i{i}"))
            tree.write(f"instances/i{i}/current_tracer", "function_graph\n")
        with halted(tree.process.pid):
            until("records", lambda: sum(size > BEHIND for size in waiting(tree.process.pid)) > INSTANCES, seconds=60)
            os.kill(program.pid, signal.SIGKILL)
        until("the tool's end", lambda: os.waitid(os.P_PID, tree.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG), seconds=60)
        took = cpu_s(tree.process.pid)
        case.said.append(f"{took:.2f} s of CPU")
        expect(tree.process.wait() == 0, tree.said())
        tree.gone()
        expect(took < CPU_S, f"the tool took {took:.1f} s of CPU, for records that nobody reads")


def slow_reader(case):
    """The tool is told to end while somebody reads more slowly than records have come: that is not waited for long."""
    own_place(case)
    with Program(case, "1", "busy") as program, left_alone(program), Tree(case, program) as tree:
        tree.write("current_tracer", "function_graph\n")
        errors, done = [], threading.Event()

        def read():
            try:
                with open(tree.path("trace_pipe"), "rb", buffering=0) as file:
                    while file.read(100) and not done.wait(0.1):
                        pass
            except OSError as error:
                errors.append(error)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            time.sleep(2)
            tree.end()
        finally:
            done.set()
            reader.join(20)
        expect(errors, "the reader was not told that there was more")
        expect("some readers had not got all records" in tree.said(), f"the tool said {tree.said()!r}")


def read_to_the_end(case):
    """The program is killed while its tool is behind: who reads gets each call, or is told that it is lost."""
    own_place(case)
    with Process([case.program("bursts.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program, \
            contextlib.ExitStack() as stack, Tree(case, program) as tree:
        stack.callback(stop, program)
        os.mkdir(tree.path("instances/a"))
        for place in "", "instances/a/":
            tree.write(place + "buffer_size_kb", str(BUFFER_KB))
            tree.write(place + "set_ftrace_filter", "burst\n")
            tree.write(place + "current_tracer", "function\n")
        readers = [Process(["cat", tree.path(place + "trace_pipe")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
                   for place in ("", "instances/a/")]
        for reader in readers:
            stack.callback(stop, reader)
        time.sleep(0.3)
        with halted(tree.process.pid):
            program.stdin.write(f"{CALLS}\n")
            program.stdin.flush()
            expect(program.stdout.readline() == f"{CALLS}\n", "the program says something else")
            os.kill(program.pid, signal.SIGKILL)
        results = [None, None]

        def take(i):
            text = readers[i].stdout.read()
            results[i] = text.count(": burst <-"), sum(map(int, LOST.findall(text)))

        threads = [threading.Thread(target=take, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        program.wait(timeout=30)
        for thread in threads:
            thread.join(120)
        case.said.append(f"calls and losses: {results}")
        expect(all(result and sum(result) == CALLS and result[0] > CALLS / 2 for result in results), f"calls and losses of {CALLS}: {results}")
        expect([reader.wait(timeout=20) for reader in readers] == [0, 0], "a reader was told of an error")
        tree.end(how=None)


SINGLE = {
    "tracefs-ends-unread": native(unread),
    "tracefs-ends-slow-reader": native(slow_reader),
    "tracefs-ends-read": native(read_to_the_end),
}

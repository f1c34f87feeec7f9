"""Readers and writers of all of a tree's files at random, beside a busy program with threads and children, while readers,
the tool or the program are killed: whatever happens nothing hangs, the mount goes, and the program is as it was."""
import contextlib
import errno
import os
import random
import signal
import subprocess
import threading
import time

import live
from endings import finish
from harness import Process, expect, stop, until
from steer import own_place
from steering import Program, left_alone
from tracefs import Tree, native, restored

WORDS = ("0\n", "1\n", "7\n", "-1\n", "x\n", "\n", "nop\n", "function\n", "function_graph\n", "leaf_*\n", "!leaf_1\n", "once\n",
         "recurse", "*:mod:*\n", ":mod:\n", "2 3\n", "[", "\\", "*\n", "!\n", "64\n", "noprint-parent\n", "funcgraph-proc\n",
         "\0\xff\n", "a" * 600 + "\n", "f:traceon:3\n", "leaf_1:traceoff:3\n", "leaf_*:stacktrace\n", "!leaf_*:stacktrace\n", "*:traceon:1\n", "once:snapshot\n",
         "@/etc/passwd\n", "/(/\n", "12 13\n")
PLACES = ("", "", "instances/a/", "instances/b/", "per_cpu/cpu0/", "instances/a/per_cpu/cpu0/", "events/ftrace/print/")
ERRORS = (errno.EINVAL, errno.EBUSY, errno.EACCES, errno.EAGAIN, errno.ENODEV, errno.ENOENT, errno.EEXIST, errno.EPERM,
          errno.EBADF, errno.ENOTCONN, errno.ECONNABORTED, errno.E2BIG, errno.ENOMEM, errno.EINTR, errno.EIO, errno.EOVERFLOW,
          errno.ESRCH)  # the program was killed
PATIENCE = 60  # seconds for a call that does not hang
READER_S = 0.5  # how long a reader lives


class Meddler(threading.Thread):
    """Does to the tree what comes to mind."""

    def __init__(self, tree, seed, until_s, attaches):
        super().__init__(daemon=True)
        self.tree, self.seed, self.until_s = tree, seed, until_s
        self.attaches = attaches  # not where the program is killed: then the tree would take another process, of the system's
        self.dice = random.Random(seed)
        self.done, self.failure = 0, None

    def run(self):
        self.out, self.into = os.pipe()
        try:
            while time.monotonic() < self.until_s and os.listdir(self.tree.place):
                try:
                    self.step()
                except OSError as error:
                    if error.errno not in ERRORS and not isinstance(error, (IsADirectoryError, NotADirectoryError)):
                        raise
                self.done += 1
        except (IndexError, FileNotFoundError):
            pass  # the tool was killed between two looks
        except OSError as error:
            if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO):
                self.failure = f"seed {self.seed}: {error!r}"
        except BaseException as error:  # pylint: disable=broad-except  # told by who waits
            self.failure = f"seed {self.seed}: {error!r}"
        finally:
            os.close(self.out)
            os.close(self.into)

    def step(self):
        tree, dice = self.tree, self.dice
        place, kind = dice.choice(PLACES), dice.randrange(10)
        if kind == 0:
            os.mkdir(tree.path(place or "instances/a"))
        elif kind == 1:
            os.rmdir(tree.path(place or "instances/b"))
        elif kind == 2:
            names = os.listdir(tree.path(place + "options"))
            tree.write(place + "options/" + dice.choice(names), dice.choice(WORDS))
        else:
            name = place + dice.choice(os.listdir(tree.path(place or ".")))
            if name == "attach" and not self.attaches:
                return
            if kind < 6 and not name.endswith("/trace_pipe"):
                tree.write(name, dice.choice(WORDS), append=dice.randrange(2))
            else:
                self.read(name)

    def read(self, name):
        dice = self.dice
        fd = os.open(self.tree.path(name), os.O_RDONLY | os.O_NONBLOCK)
        try:
            for _ in range(dice.randrange(1, 20)):
                if name.endswith("_raw") and dice.randrange(2):
                    if os.splice(fd, self.into, 1 << 16):
                        os.read(self.out, 1 << 16)
                else:
                    os.read(fd, dice.choice((1, 100, 4096, 1 << 17)))
        finally:
            os.close(fd)


def kill_readers(tree, until_s, dice):
    """Readers that wait for more are killed, one after the other."""
    killed = 0
    while time.monotonic() < until_s:
        name = dice.choice(("trace_pipe", "per_cpu/cpu0/trace_pipe", "per_cpu/cpu0/trace_pipe_raw", "trace"))
        reader = Process(["cat", tree.path(name)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(min(READER_S * dice.random(), max(0, until_s - time.monotonic())))
            reader.send_signal(signal.SIGKILL)
            reader.wait(PATIENCE)
            killed += 1
        finally:
            stop(reader)
    return killed


def one(case, end, seconds, meddlers, arguments, seed):
    """A tree, until the end: "term" and "kill" are the tool's signal, "target" is a kill of the program."""
    with contextlib.ExitStack() as stack:
        program = stack.enter_context(Program(case, *arguments))
        if end != "target":
            stack.enter_context(left_alone(program))
        tree = stack.enter_context(Tree(case, program))
        until_s = time.monotonic() + seconds
        workers = [Meddler(tree, seed + i, until_s, end != "target") for i in range(meddlers)]
        for worker in workers:
            worker.start()
        killed = kill_readers(tree, until_s - (0 if end == "term" else seconds / 2), random.Random(seed))
        if end == "kill":
            os.kill(tree.process.pid, signal.SIGKILL)
        elif end == "target":
            os.kill(program.pid, signal.SIGKILL)
        for worker in workers:
            worker.join(seconds + PATIENCE)
            expect(not worker.is_alive(), "a reader or writer hangs")
        failures = [worker.failure for worker in workers if worker.failure]
        expect(not failures, f"{failures}; {tree.said()!r}")
        if end == "term":
            tree.alive()
            tree.write("trace_options", "print-parent\n")
            tree.end()
        elif end == "target" and tree.process.poll() is None:
            tree.process.terminate()
        finish(tree.process)
        tree.gone()
        if end == "kill":
            # What `*:mod:*` has chosen of libraries was not prepared: it stays led until `calltap detach`.
            until("the program's own text", lambda: not any(name == "attachee" for name, _ in live.differing(program.pid)))
            case.run([case.tool, "detach", str(program.pid)])
        if end != "target":
            restored(program)
        return sum(worker.done for worker in workers), killed


def storm(seconds, ends, meddlers=5, arguments=("3", "forks")):
    def test(case):
        seed, done, killed = random.randrange(1 << 30), 0, 0
        case.said.append(f"seeds from {seed} on")
        own_place(case)
        for end in ends:
            some, some_killed = one(case, end, seconds, meddlers, arguments, seed)
            done, killed, seed = done + some, killed + some_killed, seed + meddlers
        expect(done > len(ends) * meddlers, f"{done} steps were made")
        case.said.append(f"{done} steps, {killed} readers killed")
    return test


SINGLE = {"tracefs-storm": native(storm(4, ("kill", "term", "target", "kill")))}
LONG = {
    "tracefs-long-storm": native(storm(60, ("term", "kill", "target", "term", "kill"))),
    "tracefs-hour-storm": native(storm(300, ("term", "kill", "target") * 4, meddlers=20)),  # by its name alone
}

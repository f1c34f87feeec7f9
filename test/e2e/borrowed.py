"""The thread that is borrowed for an attach: it is found where all threads wait, and holds no lock that dlopen takes."""
import contextlib
import os
import signal
import sys
import time

import cleared
import live
from attach import at_the_same_moment, attach_for
from endings import finish
from harness import Skip, expect, halted, until
from steering import Program, Tool, left_alone, threads

SOON = 0.2  # seconds, in which all threads of the program are at what they do


class Borrowed(Program):
    """test/prog/borrowed.c"""

    def __init__(self, case, kind, sites=True):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("borrowed.c", sites=sites), kind])


ODD = r"""
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline, noclone, used)) void runs(void) { for (;;) usleep(1000); }
int main(void)
{
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	__asm__ volatile("push $-1\n\tjmp runs");
	return 0;
}
"""


class Odd(Program):
    """The outermost frame returns to the address -1: whoever walks the stack finds a word that is no address of code."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        source, program = os.path.join(case.folder, "odd.c"), os.path.join(case.folder, "odd")
        with open(source, "w", encoding="ascii") as file:
            file.write(ODD)
        done = case.run(["gcc", "-O2", "-o", program, source])
        expect(not done.status, done.stderr)
        self.start(case, [program])


class Dispatches(Program):
    """test/prog/dispatches.c"""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("dispatches.c")])


def waits(case):
    """All threads wait by a futex, as those of an idle pool do: each kind of wait goes on as if nothing had been."""
    case.need_native("attaching")
    with Borrowed(case, "waits") as program, left_alone(program):
        time.sleep(SOON)
        for _ in range(6):
            before = len(threads(program.pid))
            with Tool(case, program) as tool:
                os.kill(program.pid, signal.SIGUSR1)
                until("1000 records", lambda: tool.session.status()["records"] >= 1000)  # pylint: disable=cell-var-from-loop
                tool.detach()
            expect(len(threads(program.pid)) == before, f"{before} threads before, {len(threads(program.pid))} now")
    called = case.trace().called()
    expect(called.get("call", 0) >= 1000, f"{called}")


def churns(case):
    """Threads begin and end all the time.  Who joins one holds the lock of the stacks for a moment, which dlopen takes: a thread
    that is borrowed there waits for itself, and with it the program."""
    case.need_native("attaching")
    with Borrowed(case, "churns") as program:
        failed = 0
        for _ in range(24):
            done = attach_for(case, program, 0.03)
            expect(done.status in (0, 2), f"status {done.status}: {done.stderr!r}")
            expect(done.status == 0 or "no thread that could load" in done.stderr, f"{done.stderr!r}")
            failed += done.status != 0
        expect(failed <= 12, f"{failed} of 24 attaches found no thread")
        program.end()


def scans(case):
    """The one thread is in strlen() nearly all the time: what has no name there is no allocator."""
    case.need_native("attaching")
    with Borrowed(case, "scans") as program, left_alone(program):
        for _ in range(8):
            done = attach_for(case, program, 0.2)
            expect(done.status == 0, f"status {done.status}: {done.stderr!r}")
    expect(case.trace().called().get("call", 0) >= 1, "no call is in the trace")


def raises(case):
    """The one thread faults most of the time, and its handler looks where: a stop may come between the fault and the handler."""
    case.need_native("attaching")
    with Borrowed(case, "raises") as program, left_alone(program):
        for _ in range(12):
            done = attach_for(case, program, 0.05, "-l", "call")
            expect(done.status == 0, f"status {done.status}: {done.stderr!r} {program.printed()!r}")
    expect(case.trace().called().get("call", 0) >= 1, "no call is in the trace")


def dispatched(case):
    """Each system call of the thread may be a signal to its program: it gets none of ours, and the loss is told."""
    case.need_native("a program that answers system calls")
    program = case.program("dispatches.c")
    plain = case.run([program, "2000"])
    if plain.status == 77:
        raise Skip("the kernel has no syscall user dispatch")
    expect(plain.status == 42, f"{plain.status}: {plain.stdout}")
    for options in ([], ["--time", "adaptive"], ["-p", "function"], ["-l", "*:*"], ["-b", "8K", "--mode", "drop"]):
        done = case.record([program, "2000"], options, log=False)
        case.same_outcome(plain, done)
        expect("user dispatch of system calls" in done.stderr, f"{options}: it says {done.stderr!r}")
        least = 100 if "drop" in options else 1000  # what a busy machine drops is told
        expect(case.trace(complete=False).called().get("call", 0) >= least, f"{options}: {case.trace(complete=False).called()}")


def dispatched_attached(case):
    """Attach refuses such a program, and leaves it alone."""
    case.need_native("attaching")
    with Dispatches(case) as program, left_alone(program):
        for _ in range(4):
            done = attach_for(case, program, 0.05)
            expect(done.status == 2 and "syscall user dispatch" in done.stderr, f"status {done.status}: {done.stderr!r}")


class Shuts(Program):
    """test/prog/shutstacks.c"""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("shutstacks.c")])


def shut_stacks(case):
    """Frames that are open on stacks which the program has closed, or mapped anew without rights, are let go of, too."""
    case.need_native("attaching")
    with Shuts(case) as program, left_alone(program):
        for _ in range(3):
            with Tool(case, program, "-l", "descend", "--mode", "drop") as tool:
                for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
                    os.kill(program.pid, number)
                    time.sleep(SOON)
                tool.detach()
                expect("the agent stays" not in tool.said(), f"it said {tool.said()!r}")
            os.kill(program.pid, signal.SIGUSR2)
    expect(case.trace().called().get("descend", 0) == 6 * 13, f"{case.trace().called()}")


FREEZERS = {  # of each version: folders, the file, and what is written to it
    1: (("/sys/fs/cgroup/freezer",), "freezer.state", "FROZEN", "THAWED"),
    2: (("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), "cgroup.freeze", "1", "0"),
}


def write_to(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(text)


def frozen(version):
    folders, name, on, off = FREEZERS[version]

    @contextlib.contextmanager
    def freeze(pid):
        for folder in folders:
            group = os.path.join(folder, f"of-calltap-{pid}")
            with contextlib.suppress(OSError):
                os.mkdir(group)
            if os.path.exists(os.path.join(group, name)):
                break
        else:
            raise Skip("no cgroup can be frozen here")
        try:
            write_to(group, "cgroup.procs", str(pid))
        except OSError as error:
            os.rmdir(group)
            raise Skip(f"no process can be moved to another cgroup here: {error}") from error
        try:
            write_to(group, name, on)
            yield
        finally:
            write_to(group, name, off)
            write_to(folder, "cgroup.procs", str(pid))
            until("the cgroup's end", lambda: removed(group))
    return freeze


def held_at_the_end(hold, words):
    """A process that cannot answer keeps nobody waiting: the cause is told, a second signal is enough, and `detach` clears it."""
    def test(case):
        case.need_native("attaching")
        with Borrowed(case, "waits", sites=False) as program, left_alone(program):
            for signals in (1, 2):
                with Tool(case, program, "--mode", "drop") as tool:
                    with hold(program.pid):
                        began = time.monotonic()
                        for number in range(signals):
                            time.sleep(1.5 * number)  # the cause is looked for some times in a second
                            tool.process.send_signal(signal.SIGINT)
                        status = finish(tool.process)
                        took = time.monotonic() - began
                        expect(status == 1 and words in tool.said(), f"status {status}: {tool.said()!r}")
                        expect(f"`calltap detach {program.pid}`" in tool.said(), f"it said {tool.said()!r}")
                        print(f"{words}: it took {took:.1f} s with {signals} signals", file=sys.stderr)
                        done = attach_for(case, program, 0.1)
                        expect(done.status == 2 and words in done.stderr, f"status {done.status}: {done.stderr!r}")
                cleared.cleared(case, program.pid)
    return test


@contextlib.contextmanager
def memory_group(pid, more):
    """A cgroup of the process' own, which may take so many bytes more than it has."""
    for folder, limit, used in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
                                ("/sys/fs/cgroup", "memory.max", "memory.current")):
        group = os.path.join(folder, f"of-calltap-{pid}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            if not os.path.exists(os.path.join(group, limit)):
                continue
            with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))
            with open(os.path.join(group, used), encoding="ascii") as file:
                now = int(file.read())
            with open(os.path.join(group, limit), "w", encoding="ascii") as file:
                file.write(str(now + more))
            yield
            with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))
            return
        finally:
            until("the cgroup's end", lambda: removed(group))  # pylint: disable=cell-var-from-loop
    raise Skip("no memory cgroup can be made here")


def removed(group):
    try:
        os.rmdir(group)
    except OSError:
        return False
    return True


def little_memory(case):
    """A container's limit of memory is for its program: buffers and patched pages take a part, or it is told; nobody is killed."""
    case.need_native("attaching")
    with Program(case, "6", "busy") as program, left_alone(program):
        with memory_group(program.pid, 8 << 20):
            for functions in 2 * ("*:*", "*"):
                done = attach_for(case, program, 0.4, "-l", functions)
                expect(done.status in (0, 1) and "smaller buffers than asked for" in done.stderr, f"status {done.status}: {done.stderr!r}")
                expect(functions == "*" or "choose fewer functions" not in done.stderr, f"{done.stderr!r}")
            expect(sum(case.trace(complete=False).called().values()) > 1000, f"{case.trace(complete=False).called()}")


def drops(case):
    """A daemon that has dropped its rights may not open its own mem file: it has its text written all the same, and given back."""
    case.need_native("attaching")
    if os.geteuid():
        raise Skip("only root can drop its rights")
    with Borrowed(case, "drops") as program:
        for _ in range(4):
            done = attach_for(case, program, 0.2)
            expect(done.status == 0, f"status {done.status}: {done.stderr!r}")
            expect(case.trace().called().get("call", 0) > 100, f"{case.trace().called()}")
            expect(not live.differing(program.pid), f"text is not the files' again: {live.differing(program.pid)}")
        with Tool(case, program, "-l", "libc.so*:*", "--mode", "drop", says=()) as tool:  # none of these has a site
            tool.records(500)
            os.kill(tool.process.pid, signal.SIGKILL)
            finish(tool.process)
        cleared.cleared(case, program.pid)
        program.end()
    for sites in (True, False):  # of a flight recorder, whose functions stay led when its tool dies
        with Borrowed(case, "drops", sites=sites) as program:
            with Tool(case, program, "-l", "call", "--mode", "overwrite", says=()) as tool:
                time.sleep(SOON)
                os.kill(tool.process.pid, signal.SIGKILL)
                finish(tool.process)
            expect(live.differing(program.pid), "nothing was led")
            cleared.cleared(case, program.pid)
            program.end()


def unshares(case):
    """The agent's thread steps aside for a call that fails where there are two threads, and another comes back: that one
    leaves the recording as it is, answers while all others are stopped at the end, and has the mem file, too."""
    case.need_native("attaching")
    if os.geteuid():
        raise Skip("only root can drop its rights")
    if case.run(["unshare", "-U", "true"]).status:
        raise Skip("there are no user namespaces here")
    with Borrowed(case, "unshares") as program, left_alone(program):
        before = os.readlink(f"/proc/{program.pid}/ns/user")
        with Tool(case, program, "--mode", "drop") as tool:
            tool.records(1000)
            os.kill(program.pid, signal.SIGUSR1)
            until("the namespace", lambda: os.readlink(f"/proc/{program.pid}/ns/user") != before)
            tool.records(1000)
            tool.detach(signal.SIGTERM)
            expect("the agent stays" not in tool.said(), f"it said {tool.said()!r}")


def odd(case):
    """It cannot be followed to where it began, and that is said."""
    case.need_native("attaching")
    with Odd(case) as program:
        done = case.run([case.tool, "attach", "--duration", "100ms", "-o", case.trace_path, str(program.pid)])
        expect(done.status == 2 and "cannot be followed" in done.stderr, f"status {done.status}: {done.stderr!r}")
        os.kill(program.pid, 0)


SINGLE = {
    "attach-odd-return": odd,
    "attach-unshares": unshares,
    "attach-dropped-rights": drops,
    "attach-shut-stacks": shut_stacks,
    "attach-ends-stopped": held_at_the_end(halted, "is stopped"),
    "attach-ends-frozen": held_at_the_end(frozen(2), "is frozen by its cgroup"),
    "attach-ends-frozen-v1": held_at_the_end(frozen(1), "is frozen by its cgroup"),
    "attach-in-strlen": scans,
    "attach-same-moment-churns": at_the_same_moment(lambda case: Borrowed(case, "churns"), contextlib.nullcontext),
    "attach-raises": raises,
    "attach-dispatched": dispatched_attached,
    "attach-little-memory": little_memory,
    "dispatched": dispatched,
    "attach-all-wait": waits,
    "attach-threads-churn": churns,
}

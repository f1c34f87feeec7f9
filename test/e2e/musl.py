"""Programs that link musl: cases of other modules that say what is special to a libc, with programs by musl-gcc, and what
is special to musl."""
import os
import shutil
import signal

import attach
import builds
import flight
import idle
import instances
import jumps
import profiling
import programs
import steer
import watch
from endings import wait_for
from harness import Skip, expect, settled
from steering import Program, Tool, clean, look


def by_musl(test):
    def run(case):
        case.need_native("programs that link musl")
        if not shutil.which("musl-gcc"):
            raise Skip("musl-gcc is not installed (musl-tools)")
        case.built_by(builds.MUSL)
        test(case)
    return run


def old_loader(case):
    """A musl loader before 1.1.22, as far as the tool can see: without membarrier().  Flags to link a program to it."""
    with open("/lib/ld-musl-x86_64.so.1", "rb") as file:
        loader = file.read()
    expect(loader.count(b"\0membarrier\0") == 1, "musl's loader has changed, and with it this test must")
    path = os.path.join(case.folder, "ld-musl-old.so.1")
    with open(path, "wb") as file:
        file.write(loader.replace(b"\0membarrier\0", b"\0membarrieX\0"))
    os.chmod(path, 0o755)
    settled(path)
    return [f"-Wl,--dynamic-linker={path}"]


def record_old(case):
    """The program runs as ever, and is not traced; a sentence says why."""
    program = case.program("calls.c", variant="-old", flags=old_loader(case))
    plain, traced = case.run([program]), case.record([program])
    expect((traced.status, traced.stdout) == (plain.status, plain.stdout), f"{traced.status}: {traced.stderr.strip()}")
    expect("older than 1.1.22" in traced.stderr, f"no reason is given: {traced.stderr.strip()}")


def attach_old(case):
    """Attach to a program whose musl is too old: refused, with the version."""
    class Old(Program):
        def __init__(self, flags):  # pylint: disable=super-init-not-called
            self.start(case, [case.program("attachee.c", variant="-old", flags=flags)])
    with Old(old_loader(case)) as program:
        outcome = case.run([case.tool, "attach", str(program.pid)])
        expect(outcome.status == 2 and "older than 1.1.22" in outcome.stderr, f"status {outcome.status}: {outcome.stderr}")
        program.end()


def called_with(case, *options):
    """Functions of attachee.c that are called with these options, and how deep: {(name, depth)}."""
    with Program(case) as program:
        before = look(program)
        with Tool(case, program, *options) as tool:
            tool.records(2000)
            tool.detach()
        clean(program, before)
        program.end()
    nodes = case.graph()

    def path(node):
        above = nodes.get(node["parent"])
        return (path(above) if above and above["calls"] else ()) + (node["function"],)
    return {path(node) for node in nodes.values() if node["calls"]}


def levels(path):
    """Frames of a path: a function that was reached by a tail call has its caller's."""
    return len(path) - (path[-2:] == ("tail", "last"))


def gates(case):
    """Filters by call graph, and a limit of depth: where stubs cannot test the thread's gate, their recorders do."""
    trees = called_with(case, "-g", "recurse")
    expect({path[0] for path in trees} == {"recurse"} and ("recurse", "leaf_1") in trees, f"-g recurse: {trees}")
    rest = called_with(case, "--no-graph", "recurse")
    expect(("once", "leaf_1") in rest and not any("recurse" in path for path in rest), f"--no-graph recurse: {rest}")
    flat = called_with(case, "--max-depth", "2")
    expect(("once", "leaf_1") in flat and max(map(levels, flat)) == 2, f"--max-depth 2: {flat}")
    both = called_with(case, "-g", "once", "--no-graph", "recurse", "--max-depth", "3")
    expect(("once", "jump", "leave") in both and max(map(len, both)) == 3 and {path[0] for path in both} == {"once"} and
           not any("recurse" in path for path in both), f"all three: {both}")


class Waiting(Program):
    """test/prog/waiting.c: all threads wait for a lock, none for an event."""

    def __init__(self, case, count):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("waiting.c"), case.program("library.c"), str(count)])

    def load(self, times):
        os.kill(self.pid, signal.SIGUSR1)
        wait_for(self.output, f"loaded {times}")

    def printed(self):
        return "".join(line for line in super().printed().splitlines(True) if not line.startswith("loaded"))


def all_wait(case):
    """No thread waits for an event: that it holds no lock is seen by its stack.  Threads and libraries that come later
    are traced, and those that came between two attachments."""
    with Waiting(case, 3) as program:
        for times in range(1, 6, 2):
            before = look(program)
            with Tool(case, program, "--allow-no-match", wait=False) as tool:
                tool.wait()
                program.load(times)
                tool.detach()
            called = set(case.trace().called())
            expect({"load", "leave", "library_answer", "helper"} <= called, f"attachment {times}: {called}")
            expect(times > 1 or "library_opened" in called, "the constructor of a later library is not traced")
            clean(program, before)
            program.load(times + 1)
        program.end()


def hidden(case):
    """A handler has interrupted the allocator and waits for events: its thread is left alone until it goes on, and where
    there is no other, the tool says so."""
    with attach.Other(case, "hiding.c") as program:
        before = look(program)
        for _ in range(2):
            outcome = case.run([case.tool, "attach", "--duration", "100ms", "-o", case.trace_path, str(program.pid)])
            expect(outcome.status == 0 or "try again" in outcome.stderr, f"status {outcome.status}: {outcome.stderr}")
            clean(program, before)
        program.end()


RECORDED = {name: programs.CASES[name] for name in ("calls", "forks", "signals", "jumps", "threads", "descriptors", "loads",
                                                    "tails", "storm", "vforks", "recurse")}
RECORDED |= {name: jumps.CASES[name] for name in ("longjumps", "sigroutine", "altstacks", "altstacks-end", "first-handler")}
RECORDED |= {name: profiling.SINGLE[name] for name in ("profile_threads", "profile_forks", "profile_handlers")}
ATTACHED = {name: test for module, names in (
    (attach, ("attach", "attach-interrupted", "attach-program-ends", "attach-program-killed", "attach-tool-killed",
              "attach-tool-killed-early", "attach-tool-stopped", "attach-many-threads", "attach-preloaded", "attach-again", "attach-twice")),
    (steer, ("steer-set-attached", "steer-off-and-on", "steer-takes-effect", "steer-snapshot", "steer-detach",
             "steer-stopped")),
    (flight, ("flight-attached",)),
    (watch, ("watch-top-attached-screen", "watch-top-crash", "watch-live-reader-gone")),
    (instances, ("instances-again", "instances-killed")),
    (idle, ("idle-attached-again",)),
) for name, test in {**getattr(module, "CASES", {}), **module.SINGLE}.items() if name in names}
SINGLE = {
    **{f"musl-{name}": by_musl(test) for name, test in (RECORDED | ATTACHED).items()},
    "musl-old": by_musl(record_old),
    "musl-attach-old": by_musl(attach_old),
    "musl-attach-many-times": by_musl(attach.many_times(12)),
    "musl-attach-gates": by_musl(gates),
    "musl-attach-all-wait": by_musl(all_wait),
    "musl-attach-hidden": by_musl(hidden),
    "musl-attach-changes-ids": by_musl(attach.changes_ids),
}

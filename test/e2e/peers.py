"""Debuggers and the kernel's probes beside a traced program that nobody has prepared."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time

import live
import tools
from endings import finish, start, wait_for
from harness import Skip, copied, expect, until
from mcount import in_build
from steering import Program, Tool, left_alone

STOCK = {"gcc": ("gcc", "stock", "-O2", "pie"), "gcc-O0": ("gcc", "stock", "-O0", "nopie")}
# clang's programs are left out: gdb puts breakpoints where clang says that prologues end, which may be within a jump.
GDB = {"gcc": ("gdb_attach", "gdb_dlopen", "gdb_finish_thrower", "gdb_finish_leaver_attached"),
       "gcc-O0": ("gdb_attach", "gdb_steps")}
OWN = {"outer", "middle", "leaf"}
HEAD_MAX = 20  # bytes of a function from its start, more than of any head


def walked(case):
    """gdb steps by instructions from a head through stubs and blocks, and sees all callers at each."""
    with tools.Debugged(case) as program:
        text = program.gdb("break *outer", "continue", "delete", f"source {os.path.join(tools.HERE, 'gdb_walk.py')}")
        match = re.search(r"(\d+) instructions, (\d+) wrong", text)
        expect(match and int(match[1]) > 150 and match[2] == "0", f"stepping by instructions: {text[-1500:]}")
        expect("calltap_block" in program.gdb("break *leaf", "continue", "stepi", "bt"), "no block was stepped into")
        program.ends_well()


class Running(tools.Debugged):
    """callers.c, untraced at first: attachee.c does not bear a debugger, which interrupts system calls."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        tools.need("gdb")
        case.need_native("attaching")
        self.case, self.program, self.arguments = case, case.program("callers.c", variant="-names", flags=tools.NAMES), [tools.TURNS]
        self.output, self.process = start(case, [self.program, "hold", *self.arguments])
        self.pid = int(wait_for(self.output, "running").split()[1])

    def ends_well(self):
        different = live.differing(self.pid)
        expect(not different, f"text differs from its file: {list(different.items())[:5]}")
        os.kill(self.pid, signal.SIGUSR2)
        status = finish(self.process)
        with open(self.output, encoding="utf-8") as file:
            printed = file.read().splitlines()
        plain = self.case.run([self.program, "wait", *self.arguments]).stdout.splitlines()[-1]
        expect(status == 0 and printed[-1] == plain, f"status {status}, it printed {printed}, plain {plain!r}")


def held(case):
    """gdb holds the program when calltap has to leave it: the tool gives up, the program goes on, and the next attach cleans
    up."""
    with Running(case) as program:
        with Tool(case, program) as tool:
            tool.records(20)
            told = program.gdb("break *leaf", "continue", f"shell {case.tool} detach {program.pid}; echo detach ended with $?",
                               "delete", "break middle", "continue", "bt 2", "delete", "detach")
            expect("detach ended with 1" in told and "middle" in told.split("detach ended")[1], f"gdb said {told[-1500:]}")
            finish(tool.process)
            expect("does not answer" in tool.said(), f"it said {tool.said()!r}")
        with Tool(case, program) as tool:
            tool.records(20)
            tool.detach()
        expect(OWN <= set(case.trace().called()), f"recorded {case.trace().called()}")
        program.ends_well()


def holds(case):
    """A program that gdb holds is not attached to, and its breakpoint at a function that would be led lives on."""
    with Running(case) as program:
        told = program.gdb("break leaf", "continue",
                           f"shell {case.tool} attach --duration 100ms {program.pid}; echo attach ended with $?", "continue", "bt 1",
                           "delete", "detach")
        expect(re.search(r"attach ended with [12]\n", told) and "leaf" in told.split("attach ended")[1], f"gdb said {told[-1500:]}")
        program.ends_well()


class Code:
    """A function of a program's: file offsets of its instructions."""

    def __init__(self, program, function):
        listed = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-F", program], stdout=subprocess.PIPE, text=True, check=True)
        found = re.search(rf"^([0-9a-f]+) <{function}> \(File Offset: 0x([0-9a-f]+)\):\n((?: .*\n)+)", listed.stdout, re.M)
        expect(found, f"objdump does not show {function}")
        self.start, start = int(found[2], 16), int(found[1], 16)
        self.offsets = [self.start + int(line.split(":")[0], 16) - start for line in found[3].splitlines()]

    def inside(self):
        """The first instruction behind all that a head may take."""
        return next(at for at in self.offsets if at >= self.start + HEAD_MAX)


class Copy(Program):
    """attachee.c in a file of the case's own: probes are in all processes that run a file."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.path = copied(case.program("attachee.c"), case.folder)
        self.start(case, [self.path])


class Kernel:
    """The kernel's uprobes, by tracefs, as `perf probe` makes them."""

    def __init__(self, case):
        case.need_native("uprobes")
        tools.need("objdump", "mount")
        self.place = tempfile.mkdtemp(prefix="tracefs", dir=case.folder)
        done = subprocess.run(["mount", "-t", "tracefs", "none", self.place], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode or not os.access(os.path.join(self.place, "uprobe_events"), os.W_OK):
            subprocess.run(["umount", self.place], stderr=subprocess.DEVNULL, check=False)
            raise Skip(f"no uprobes here: {done.stderr.strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.place], check=True)

    def write(self, name, text):
        file = os.open(os.path.join(self.place, name), os.O_WRONLY | os.O_APPEND)  # O_TRUNC would remove others' probes
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    @contextlib.contextmanager
    def probe(self, program, offset):
        """A probe at an instruction, until the block's end."""
        name = f"{os.path.basename(self.place)}/at{offset:x}"
        self.write("uprobe_events", f"p:{name} {program}:{offset:#x}\n")
        try:
            self.write(f"events/{name}/enable", "1")
            yield lambda: self.hits(program, name)
        finally:
            self.write(f"events/{name}/enable", "0")
            self.write("uprobe_events", f"-:{name}\n")

    def hits(self, program, name):
        with open(os.path.join(self.place, "uprobe_profile"), encoding="ascii") as file:
            return sum(int(line.split()[2]) for line in file if line.split()[0] == program and line.split()[1] == name.split("/")[1])


def more_hits(hits):
    before = hits()
    until("hits of the probe", lambda: hits() > before)


def probed_before(removed_meanwhile):
    """A probe at a function's first byte: that function alone is left alone, and the probe lives on, or goes meanwhile."""
    def test(case):
        with Kernel(case) as kernel, Copy(case) as program, left_alone(program):
            path = program.path
            with contextlib.ExitStack() as probes:
                hits = probes.enter_context(kernel.probe(path, Code(path, "leaf_1").start))
                more_hits(hits)
                with Tool(case, program) as tool:
                    tool.records(1000)
                    more_hits(hits)
                    if removed_meanwhile:
                        probes.close()
                    tool.records(1000)
                    tool.detach()
                if not removed_meanwhile:
                    more_hits(hits)
            called = case.trace().called()
            expect("leaf_1" not in called and {"once", "leaf_2", "leaf_3"} <= set(called), f"recorded {called}")
    return test


def probed_meanwhile(case):
    """A probe behind a traced function's head comes, lives through the detach, and goes."""
    with Kernel(case) as kernel, Copy(case) as program, left_alone(program):
        path = program.path
        code = Code(path, "recurse")
        with Tool(case, program) as tool:
            tool.records(1000)
            with kernel.probe(path, code.inside()) as hits:
                more_hits(hits)
                tool.records(1000)
                tool.detach()
                more_hits(hits)
                different = live.differing(program.pid)
                expect(set(different.values()) == {0xCC} and len(different) == 1, f"text differs: {different}")
        called = case.trace().called()
        expect(called.get("recurse", 0) > 100, f"recorded {called}")


class Waits(Program):
    """borrowed.c in a file of the case's own, which calls its function at SIGUSR1 alone."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.path = copied(case.program("borrowed.c"), case.folder)
        self.start(case, [self.path, "waits"])


def probed_between(removed_first):
    """A probe at the first byte of a traced function that nobody calls meanwhile: it has gone when the tool leaves, or goes later
    on.  The function is the file's again, and may be called."""
    def test(case):
        with Kernel(case) as kernel, Waits(case) as program, left_alone(program):
            start = Code(program.path, "call").start
            with Tool(case, program) as tool:
                with kernel.probe(program.path, start):
                    expect(len(live.differing(program.pid)) > 1, "nothing is led, or there is no probe")
                    if not removed_first:
                        tool.detach()
                        different = live.differing(program.pid)
                        expect(set(different.values()) == {0xCC} and len(different) == 1, f"text differs: {different}")
                if removed_first:
                    tool.detach()
                expect("the agent stays" not in tool.said(), f"it said {tool.said()!r}")
            expect(not live.differing(program.pid), f"text differs: {live.differing(program.pid)}")
            os.kill(program.pid, signal.SIGUSR1)
            time.sleep(0.2)
    return test


ALONE = {"gdb-walk": walked, "gdb-held": held, "gdb-holds": holds,
         "uprobe-before": probed_before(False), "uprobe-removed": probed_before(True), "uprobe-meanwhile": probed_meanwhile,
         "uprobe-between": probed_between(True), "uprobe-goes-later": probed_between(False)}
SINGLE = {
    **{f"peers-{name}-{build}": in_build(tools.SINGLE[name], STOCK[build]) for build, names in GDB.items() for name in names},
    **{f"peers-{name}": in_build(test, STOCK["gcc"]) for name, test in ALONE.items()},
}

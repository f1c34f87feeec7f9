"""Functions traced and untraced while the program runs, and the text that is left behind: the file's, byte for byte."""
import os
import re
import signal
import struct
import time

import tracefile as tf
from endings import finish, start, wait_for
from harness import Skip, expect, stop, until

RUN_MS = "20000"  # milliseconds, of programs that the test ends earlier
# A site's length, and the breakpoint that a debugger writes.
SITES = {"x86_64": (5, b"\xcc"), "riscv64": (8, b"\x02\x90"), "aarch64": (4, b"\0\0\x20\xd4")}
READABLE_MS = 20000  # the text of longer traces is too much to keep

VDSO = "[vdso]"  # as the kernel names the mapping


def run_switched(case, command, unloads, timeout=60):
    """Run the command while random sets of its functions go on and off; what it printed."""
    driver = case.built("test", "stress", "live")
    agent = case.built("src", "agent", "libcalltap-agent.so")
    expect(os.path.exists(driver), f"{driver} is not built")
    outcome = case.run([driver, agent, case.trace_path, "yes" if unloads else "no", *command], timeout=timeout)
    expect(outcome.status == 0, f"status {outcome.status}: {outcome.stdout[-300:]} {outcome.stderr[-300:]}")
    return "".join(line for line in outcome.stdout.splitlines(keepends=True) if " requests, " not in line)


def forks(case):
    """Processes come and go meanwhile: a child has the text of its parent at the fork, and is told what is off now."""
    case.executing()
    command = [case.program("forks.c")]
    for _ in range(5):
        printed = run_switched(case, command, False)
        expect(printed == case.run(command).stdout, f"the program printed {printed!r}")
        case.readable()


def switched_for(milliseconds, *how):
    """Random sets of functions go on and off while threads, signal handlers and jumps run through them."""
    def test(case):
        command = [case.program("live.c"), str(milliseconds), case.program("library.c"), *how]
        printed = run_switched(case, command, "reload" in how, 60 + milliseconds / 1000)
        expect("done well" in printed, f"the program printed {printed!r}")
        check_frames(case.trace())
        if milliseconds <= READABLE_MS:
            case.readable()
    return test


def check_frames(trace):
    """Each exit is the innermost open frame's: a frame that is open when its function is switched off ends as ever."""
    for thread in trace.ordered_threads():
        stacks, stack, landing = {}, [], False
        for kind, value, extra in thread.events():
            if kind == tf.STACK:
                stack = stacks.setdefault(extra, [])
            elif kind == tf.ENTRY:
                stack.append(~value if extra else value)  # a leaf, which no UNWIND counts
            elif kind == tf.TAIL:
                expect(stack, f"a tail call of {trace.name(value)} from no frame")
                stack[-1] = value
            elif kind == tf.EXIT:
                inner = max(stack[-1], ~stack[-1]) if stack else None
                expect(inner == value, f"exit of {trace.name(value)} while {trace.name(inner) if stack else 'nothing'} is open")
                stack.pop()
            elif kind == tf.LANDING:
                landing = True
            elif kind == tf.UNWIND:
                expect(value <= len(stack), f"{value} frames unwound of {len(stack)}")
                for _ in range(value):
                    while stack and stack[-1] < 0:
                        stack.pop()
                    stack.pop()
                while landing and stack and stack[-1] < 0:
                    stack.pop()
                landing = False


def executable(path):
    """[(offset, size)] of a file's executable segments."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\2":
            return []
        start, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(start)
        table = file.read(size * count)
    segments = [struct.unpack_from("<IIQQQQ", table, at) for at in range(0, size * count, size)]
    return [(offset, length) for kind, flags, offset, _, _, length in segments if kind == 1 and flags & 1]


def text_of(pid, pages=False):
    """[(start, bytes in memory, bytes in the file, path)] of the mapped text of files; pages: with the rest of each last
    page, where a borrowed thread's code lies.  An emulated program's text is not executable, but all that reads of it is
    the program's."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-[x-]p ([0-9a-f]+) \S+ [1-9]\d*\s+(/.*)", line)
            if not match or match[4].endswith("(deleted)"):
                continue
            low, high, start = (int(match[i], 16) for i in (1, 2, 3))
            for offset, size in executable(match[4]):
                end = -(-(offset + size) // 4096) * 4096 if pages else offset + size
                first, last = max(start, offset), min(start + high - low, end)
                if first >= last:
                    continue
                memory.seek(low + first - start)
                content = memory.read(last - first)
                with open(match[4], "rb") as file:
                    file.seek(first)
                    found.append((low + first - start, content, file.read(last - first), match[4]))
    expect(found, "the program has no text")
    theirs, ours = vdso_of(pid), vdso_of("self")
    if len(theirs) == len(ours) and ours:
        found.append((0, theirs, ours, VDSO))
    return found


def vdso_of(pid):
    """What the kernel maps into each process, alike for all, and what a borrowed thread's code may have lain in."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            if line.rstrip().endswith(VDSO):
                low, high = (int(part, 16) for part in line.split()[0].split("-"))
                memory.seek(low)
                return memory.read(high - low)
    return b""


def differing(pid, pages=False):
    """{(object, offset in its text): byte in memory}"""
    return {(os.path.basename(path), at): content[at] for low, content, wanted, path in text_of(pid, pages)
            if content != wanted for at in range(len(wanted)) if content[at] != wanted[at]}


def led_heads(pid):
    """Bytes of a static program's text that are jumps to the agent which a borrowed thread has mapped: as `differing`."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        lines = maps.read().splitlines()
    agent = [[int(part, 16) for part in line.split()[0].split("-")] for line in lines if "/memfd:libcalltap-agent" in line]
    program, found = os.readlink(f"/proc/{pid}/exe"), {}
    for low, content, wanted, path in text_of(pid) if agent and not any("ld-" in line for line in lines) else ():
        for at in range(len(wanted) - 4) if path == program and content != wanted else ():
            if content[at] == 0xe9 and content[at:at + 5] != wanted[at:at + 5]:
                to = low + at + 5 + int.from_bytes(content[at + 1:at + 5], "little", signed=True)
                if any(first <= to < last for first, last in agent):
                    found |= {(os.path.basename(path), at + i): content[at + i] for i in range(5)}
    return found


def wait_restored(pid, left=(), seconds=20, led=False):
    """Until nothing but `left` differs from the files; led: nor the heads of a static program that lead to the agent, which
    a tool that was killed cannot have given back, nor the place of its borrowed thread's code."""
    end = time.monotonic() + seconds
    while True:
        different = differing(pid)
        if led:
            heads = led_heads(pid)
            different = {place: byte for place, byte in different.items() if place not in heads and place[0] != VDSO}
        if set(different) == set(left):
            return different
        expect(time.monotonic() < end, f"{len(different)} bytes still differ from the file after {seconds} s: "
                                       f"{list(different.items())[:5]}")
        time.sleep(0.02)


class Running:
    """live.c with the library, under record, in a process group of its own."""

    def __init__(self, case, options=(), more=()):
        command = [case.program("live.c"), RUN_MS, case.program("library.c"), *more]
        self.output, self.tool = start(case, case.record_command(command, options))

    def __enter__(self):
        try:
            words = wait_for(self.output, "running").split()
            self.pid, self.never = int(words[1]), int(words[3], 16)
            objects = {name for name, _ in differing(self.pid)}
            expect({"live", "library.so"} <= {re.sub(r"-plain$", "", name) for name in objects},
                   f"text that is traced differs from its file in {objects} only")
        except BaseException:
            stop(self.tool)
            raise
        return self

    def __exit__(self, *_):
        stop(self.tool)


def killed(case):
    """kill -9 of the tool: the agent alone restores all text, under running threads, and the program goes on.  Heads, which
    lead to blocks, stay led: no jump of theirs can be taken out while threads run.  The next attach does that, on this
    machine's own CPU."""
    with Running(case) as running:
        running.tool.kill()
        running.tool.wait()
        if "stock" in case.build and case.cpu.native:
            done = case.run([case.tool, "attach", "--duration", "100ms", "-o", "next", str(running.pid)])
            expect(done.status == 0, f"the next attach: {done.stderr!r}")
        if "stock" not in case.build or case.cpu.native:
            wait_restored(running.pid)
        os.kill(running.pid, signal.SIGTERM)
        wait_for(running.output, "done well")


def led_and_killed(case):
    """The same of functions that lead to other stubs than at first, and have led to still others before."""
    with Running(case) as running:
        for words in (["tracer=function"], ["tracer=function_graph", "max-depth=3"], ["max-depth="],
                      ["graph=work"], ["graph=", "tracer=function"]):
            done = case.run([case.tool, "set", str(running.pid), *words])
            expect(done.status == 0, f"{words}: {done.stderr!r}")
            time.sleep(0.2)
        running.tool.kill()
        running.tool.wait()
        wait_restored(running.pid)
        os.kill(running.pid, signal.SIGTERM)
        wait_for(running.output, "done well")
    kinds = {kind for thread in case.trace(complete=False).threads.values() for kind, _, _ in thread.events()}
    expect({tf.ENTRY, tf.CALL} <= kinds, f"records of kinds {kinds}: functions lead to their first stubs still")


def is_pending(pid, number):
    """True while a signal waits for the process: a second one of that number would become one with it."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search(r"ShdPnd:\s*(\w+)", status.read())[1], 16) >> (number - 1) & 1


def interrupted_twice(case):
    """^C twice: the tool ends, and all text is restored before it does."""
    with Running(case) as running:
        os.kill(running.tool.pid, signal.SIGINT)  # to the tool alone; the program would end
        until("the tool to take the first signal", lambda: not is_pending(running.tool.pid, signal.SIGINT))
        os.kill(running.tool.pid, signal.SIGINT)
        finish(running.tool)
        wait_restored(running.pid, seconds=0)
        with open(running.output, encoding="utf-8") as output:
            expect("not the file's" not in output.read(), "the tool says that text is left over")
        os.kill(running.pid, signal.SIGKILL)


def locked(case):
    """Locked memory keeps its copies of pages; their bytes are the file's all the same."""
    with Running(case, more=("lock",)) as running:
        running.tool.kill()
        wait_restored(running.pid)
        os.kill(running.pid, signal.SIGKILL)


def breakpoints(case):
    """A debugger's breakpoint on a site, or beside one, is there when the tool has gone; all else is restored."""
    with Running(case) as running:
        low, content, wanted = next(found[:3] for found in text_of(running.pid) if os.path.basename(found[3]) == "live")
        code, breakpoint_ = SITES[case.cpu.name]
        function = running.never - low
        site = next(at for at in range(function, function + 16) if content[at] != wanted[at])
        site -= (low + site) % 4 if case.cpu.name != "x86_64" else 0  # the first byte of the jump may be the file's
        places = (site, site + code + 1 if case.cpu.name == "x86_64" else site + code)
        with open(f"/proc/{running.pid}/mem", "r+b", buffering=0) as memory:
            for place in places:
                memory.seek(low + place)
                memory.write(breakpoint_)
        running.tool.kill()
        may_differ = {("live", at) for at in range(site, site + code)}
        may_differ |= {("live", place + i) for place in places for i in range(len(breakpoint_))}
        end = time.monotonic() + 60
        different = differing(running.pid)
        while not set(different) <= may_differ:
            expect(time.monotonic() < end, f"more differs from the file than the breakpoints: {different}")
            different = differing(running.pid)
        content = next(found[1] for found in text_of(running.pid) if os.path.basename(found[3]) == "live")
        for place in places:
            expect(content[place:place + len(breakpoint_)] == breakpoint_, f"the breakpoint at {place:#x} is gone")
        os.kill(running.pid, signal.SIGKILL)


def after_stepping_aside(case):
    """kill -9 of the tool when the agent's thread had to step aside before: it restores the text all the same."""
    case.need_native("namespaces")
    output, process = start(case, case.record_command([case.program("alone.c")]))
    try:
        pid = int(wait_for(output, "alone").split()[1])
        if not pid:
            raise Skip("no user namespaces here")
        end = time.monotonic() + 10
        while len(os.listdir(f"/proc/{pid}/task")) < 2:
            expect(time.monotonic() < end, "the agent's thread has not come back")
            time.sleep(0.01)
        expect(differing(pid), "no site is patched")
        time.sleep(0.2)  # until it is greeted
        process.kill()
        process.wait()
        wait_restored(pid)
        wait_for(output, "done well")
    finally:
        stop(process)


SINGLE = {
    "text-after-stepping-aside": after_stepping_aside,
    "text-after-the-tool": interrupted_twice,
    "text-of-led-functions": led_and_killed,
    "text-of-locked-memory": locked,
    "text-with-breakpoints": breakpoints,
    "live-reload": switched_for(800, "reload"),
    "live-forks": forks,
}
CASES = {"live": switched_for(150), "text-restored": killed}
LONG = {"live-long": switched_for(120000)}

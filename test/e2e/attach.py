"""Attaching to programs that run, and leaving them as they were."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import live
import tracefile as tf
from endings import finish, wait_for
from harness import Process, Skip, expect, halt, state_of, stop, until
from steer import own_place
from steering import Program, Tool, clean, left_alone, listing, look, mappings, memory_kb, nothing_lost

TRIES = 60
LATEST = 0.06  # seconds from the tool's start to the end of the process
COMINGS = 20  # attaches
ALL_THE_TIME = r"calltap: process \d+ loads and unloads libraries all the time, .*; it runs on untraced, try again\n"
STOPS, STOP = 8, 0.7  # seconds of the tool's stop, longer than a borrowed thread waits for the tool
ENDED = r"calltap: (process {0} has ended|there is no process {0}; .*|process {0} \(.*\) has ended and only waits for its parent)\n"
WORK = {"once", "leaf_1", "leaf_2", "leaf_3", "recurse", "last"}  # functions of attachee.c that run all the time
WARM = 3  # attachments after which nothing more may grow
GROWTH_KB = 512
RINGS, RING_KB = 4, 256
# Heads of rings; and of each thread, the initial one among them, an open sub-buffer, which is an eighth of the ring, and one
# more, where the thread had lost its CPU on the way to opening it.
LEFT_KB = 72 + 2 * (RINGS + 1) * RING_KB // 8


def attached(case):
    """Attach, record, detach: the program has noticed nothing, the trace is whole, nothing is left behind."""
    case.need_native("attaching")
    with Program(case) as program, left_alone(program):
        with Tool(case, program) as tool:
            tool.records(1000)
            tool.detach()
    trace = case.trace()
    missing = WORK - set(trace.called())
    expect(not missing, f"no call of {missing} in the trace: {trace.called()}")
    nothing_lost(trace)
    says_it_ended(trace, "still running")
    case.readable()


def says_it_ended(trace, how):
    """Whoever attaches is told no status: it is the parent's to know."""
    expect(trace.info.get("exit") == how, f"the trace says that it {trace.info.get('exit')!r}, not {how!r}")


def ended_by(how):
    """The ways in which an attachment ends."""
    def test(case):
        case.need_native("attaching")
        with Program(case) as program, left_alone(program):
            with Tool(case, program) as tool:
                tool.records(100)
                tool.detach(how)
        case.readable()
    return test


def for_a_time(case):
    case.need_native("attaching")
    with Program(case) as program, left_alone(program):
        with Tool(case, program, "--duration", "500ms") as tool:
            tool.ended()
    told = json.loads(case.run([case.tool, "info", "--json", "-i", case.trace_path]).stdout)
    recorded = int(told["info"]["recorded_ns"])
    expect(500000000 <= recorded < told["duration_ns"], f"recorded for {recorded} ns of {told['duration_ns']}")
    case.readable()


def program_gone(end):
    """The program ends while it is attached to: as ever, and so does the tool."""
    def test(case):
        case.need_native("attaching")
        with Program(case) as program:
            with Tool(case, program) as tool:
                tool.records(100)
                end(program)
                tool.ended()
        says_it_ended(case.trace(), "ended")
        case.readable()
    return test


def called_by_link(case):
    """A program that was executed by a link is named so, or as its file is."""
    case.need_native("attaching")
    link = os.path.join(case.folder, "linked")
    os.symlink(case.program("attachee.c"), link)

    class Linked(Program):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.start(case, [link, "2", "busy"])

    with Linked() as program:
        for name in ("linked", "attachee*"):
            done = case.run([case.tool, "attach", "--duration", "200ms", "-o", case.trace_path, "-l", f"{name}:*", str(program.pid)])
            expect(done.status == 0, f"{name}: {done.status}: {done.stderr}")
            expect(case.trace().called(), f"{name}: nothing was recorded")


def executes(case):
    """A process executes another program: the recording ends and says so, and the new program runs untraced."""
    case.need_native("attaching")

    class Executes(Program):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.start(case, [case.program("executes.c"), "sleep", "60"])

    for says, sentence in ((("-v",), "the process has executed another program"), ((), "has executed another program, which runs untraced")):
        with Executes() as program:
            with Tool(case, program, says=says) as tool:
                tool.records(20)
                os.kill(program.pid, signal.SIGUSR1)
                tool.ended()
                expect(sentence in tool.said(), f"it said {tool.said()!r}")
            until("the other program", lambda: look_at(program.pid, "comm") == "sleep")
    says_it_ended(case.trace(), "executed another program")
    case.readable()


def look_at(pid, what):
    with open(f"/proc/{pid}/{what}", encoding="utf-8") as file:
        return file.read().strip()


def tool_killed(case):
    """kill -9 of the tool: the next one comes in at once, or the text is restored without any; the program goes on."""
    case.need_native("attaching")
    with Program(case) as program, left_alone(program) as before:
        for number in range(6):
            with Tool(case, program) as tool:
                tool.records(100)
                tool.process.kill()
                tool.process.wait()
            if number % 2:
                continue
            live.wait_restored(program.pid, led=True)
            until("the agent's thread to end", lambda: look(program)["threads"] == before["threads"])
        with Tool(case, program) as tool:
            tool.records(100)
            tool.detach()


def tool_killed_memory(case):
    """kill -9 of the tool: the rings' memory does not stay in the program, but for what a thread may be writing to."""
    case.need_native("attaching")
    with Program(case, str(RINGS), "busy") as program, left_alone(program) as before:
        shared = memory_kb(program.pid, "RssShmem")
        for _ in range(2):
            with Tool(case, program, "--mode", "drop", "-b", f"{RING_KB}K") as tool:
                until("rings that are used", lambda: tool.alive() and
                      memory_kb(program.pid, "RssShmem") >= shared + RINGS * RING_KB * 3 // 4)
                tool.process.kill()
                tool.process.wait()
            live.wait_restored(program.pid, led=True)
            until("the agent's thread to end", lambda: look(program)["threads"] == before["threads"])
            now = memory_kb(program.pid, "RssShmem")
            expect(now <= shared + LEFT_KB, f"{now} KiB of shared memory, {shared} before the first attach")
        with Tool(case, program) as tool:
            tool.records(100)
            tool.detach()


def tool_killed_forbidden(case):
    """A filter of the program's forbids to give memory back, by its end: it stays, and the program lives."""
    case.need_native("attaching")
    case.need_feature("seccomp")

    class Forbids(Program):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.start(case, [case.program("forbids.c")])

    with Forbids() as program, left_alone(program) as before:
        with Tool(case, program, "--mode", "drop", "-b", f"{RING_KB}K") as tool:
            os.kill(program.pid, signal.SIGUSR1)
            until("the filter", lambda: re.search(r"Seccomp:\s+2", look_at(program.pid, "status")))
            until("a ring that is used", lambda: tool.alive() and memory_kb(program.pid, "RssShmem") >= RING_KB)
            tool.process.kill()
            tool.process.wait()
        live.wait_restored(program.pid, led=True)
        until("the agent's thread to end", lambda: look(program)["threads"] == before["threads"])
        expect(memory_kb(program.pid, "RssShmem") >= RING_KB, "the ring's memory was given back under the filter")


def killed_at_any_time(kill):
    """kill -9 of the tool while it comes in: nothing happens to the program, and the next one gets in."""
    def test(case):
        case.need_native("attaching")
        with Program(case) as program, left_alone(program) as before:
            for number in range(30):
                with Tool(case, program, wait=False) as tool:
                    time.sleep(number * 0.01)
                    kill(tool.process.pid, signal.SIGKILL)
                    tool.process.wait()
                live.wait_restored(program.pid, led=True)
            until("the agent's thread to end", lambda: look(program)["threads"] == before["threads"])
            with Tool(case, program) as tool:
                tool.records(100)
                tool.detach()
    return test


def tool_stopped_at_any_time(case):
    """SIGSTOP to the tool while it comes in: the thread that it has borrowed goes on soon; the tool tries again."""
    case.need_native("attaching")
    odd = random.Random(12)
    with Program(case, "1") as program, left_alone(program):
        for _ in range(STOPS):
            with Tool(case, program, wait=False) as tool:
                time.sleep(odd.uniform(0, LATEST))
                os.kill(tool.process.pid, signal.SIGSTOP)
                time.sleep(STOP)
                os.kill(tool.process.pid, signal.SIGCONT)
                tool.wait()
                tool.detach()


def many_times(count, busy=True):
    """Attach and detach again and again, under threads that run all the time: nothing grows."""
    def test(case):
        case.need_native("attaching")
        with Program(case, "4", *(["busy"] if busy else [])) as program:
            before, settled, small = look(program), None, 0
            for number in range(count):
                with Tool(case, program, "--mode", "drop", "-b", "64K") as tool:
                    if number <= WARM:
                        tool.records(50000)  # of all threads, so that all memory beside their stacks is there
                    tool.detach("socket")
                clean(program, before)
                if number == WARM:
                    settled, small = mappings(program.pid), memory_kb(program.pid)
            now, large = mappings(program.pid), memory_kb(program.pid)
            more = [entry for entry in now if now.count(entry) > settled.count(entry)]
            expect(len(now) <= len(settled), f"{len(now) - len(settled)} mappings more than after {WARM}: {more}")
            expect(large <= small + GROWTH_KB, f"{large} KiB of memory, {small} after {WARM} attachments")
            program.end()
    return test


def at_once_again(case):
    """An attach right behind another one's end, while threads that run all the time leave the agent's hardly a turn."""
    case.need_native("attaching")
    with Program(case, "7", "busy") as program, left_alone(program):
        for number in range(12):
            done = attach_for(case, program, 0.005)
            expect(done.status == 0, f"attach {number}: status {done.status}: {done.stderr!r}")


def at_the_same_moment(begin, around=left_alone):
    """Tools attach at once to what begin(case) starts: one begins, the others join it, and none leaves anything in the text."""
    def test(case):
        case.need_native("attaching")
        own_place(case)
        with begin(case) as program, around(program):
            for number in range(4):
                verbs = [["attach", "-l", "leaf_*", "-l", "call", "--allow-no-match", "--duration", f"{seconds}s", "-o", f"{case.trace_path}.{seconds}"]
                         for seconds in (0.5, 0.3)]
                verbs.append(["top", "--json", "-b", "1"])
                tools = [Process([case.tool, *verb, str(program.pid)], cwd=case.folder, env=case.environment(False),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for verb in verbs]
                said = [tool.communicate(timeout=60) for tool in tools]
                for tool, text in zip(tools, said):
                    expect(not tool.returncode, f"round {number}: status {tool.returncode}: {text}")
                until("the text to be the file's", lambda: not live.differing(program.pid), 5)
    return test


def busy_and_lossless(case):
    """Threads that wait for room when the tool detaches get it: no record is lost."""
    case.need_native("attaching")
    losses = []
    with Program(case, "4", "busy") as program:
        for _ in range(4):
            with Tool(case, program, "-b", "64K") as tool:
                tool.records(50000)
                tool.detach()
            losses.append(sum(thread.lost for thread in case.trace().threads.values()))
        program.end()
    # A thread that the tool has kept waiting for a second drops its record: that happens on a busy machine.
    expect(losses.count(0) >= 3, f"records were lost: {losses}")


def waiting_and_whole(case):
    """The clock's high half moves on, every second or two, while threads wait for room: their buffers have no holes then."""
    case.need_native("attaching")
    with Program(case, "8", "busy") as program:
        with Tool(case, program, "-b", "16K") as tool:
            time.sleep(4)
            tool.detach()
        program.end()
    told = json.loads(case.run([case.tool, "info", "--json", "-i", case.trace_path]).stdout)
    expect(told["wait_ns"], "no thread has waited")
    expect("holes" not in told["info"], f"there are holes: {told['info'].get('holes')}")


def open_frames(case):
    """Frames that were open at the attach are left alone, and return by themselves long after the detach."""
    case.need_native("attaching")
    with Program(case, "1") as program:
        with Tool(case, program) as tool:
            tool.records(100)
            tool.detach()
        program.end()
    done = case.run([case.tool, "replay", "--all-levels", "-i", case.trace_path])
    expect(done.status == 0, done.stderr)
    trace = case.trace()
    entries = sum(trace.name(value) == "hold" for thread in trace.threads.values()
                  for kind, value, _ in thread.events() if kind == tf.ENTRY)
    expect(not entries, f"{entries} entries of a function that was entered before")
    expect("hold" in done.stdout, "the frames that were open at the attach are not shown")


def threads_of_namespace(case):
    """A thread in a PID namespace is one thread in the trace: with the id that the program has for it."""
    case.need_native("attaching")
    if os.geteuid():
        raise Skip("only root can make a pid namespace")
    program = Program.__new__(Program)
    program.start(case, ["unshare", "--pid", "--fork", "--mount-proc", case.program("attachee.c"), "1"])
    with program:
        with open(f"/proc/{program.process.pid}/task/{program.process.pid}/children", encoding="ascii") as file:
            outer = int(file.read().split()[0])
        inner = set()
        for tid in os.listdir(f"/proc/{outer}/task"):
            with open(f"/proc/{outer}/task/{tid}/status", encoding="ascii") as file:
                inner.add(int(next(line for line in file if line.startswith("NSpid:")).split()[-1]))
        program.pid = outer
        with Tool(case, program) as tool:
            tool.records(2000)
            tool.detach()
    done = case.run([case.tool, "info", "--json", "-i", case.trace_path])
    ids = [thread["tid"] for thread in json.loads(done.stdout)["threads"]]
    expect(len(ids) == len(set(ids)) and inner & set(ids) and not set(ids) & {outer} and max(ids) < outer,
           f"the threads {sorted(inner)} of process {outer} are {sorted(ids)} in the trace")


MAGIC, ROOM = 0x1D6B0E5C0A7AB10C, 2048  # ERRAND_MAGIC; more than the code takes


def slack_of(program):
    """Behind a library's code, where the code of a thread that loads the agent would lie."""
    with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
        lines = [line.split() for line in maps if "r-xp" in line and line.split()[-1].startswith("/")]
    for place, _, offset, _, _, path in lines:
        base, top = (int(word, 16) for word in place.split("-"))
        done = subprocess.run(["readelf", "-lW", path], stdout=subprocess.PIPE, text=True, check=True)
        for found in re.findall(r"LOAD +0x(\w+) 0x\w+ 0x\w+ 0x\w+ 0x(\w+) R E", done.stdout):
            start, size = (int(word, 16) for word in found)
            end = (base + start - int(offset, 16) + size + 15) & ~15
            if base < end <= top - ROOM:
                return end
    raise Skip("no library has room behind its code")


def litter(case):
    """A tool that was killed has left its code, and a word on a stack leads there at the attach. It does not any more when
    the process is let go of, so the text is made clean then."""
    case.need_native("attaching")
    with Program(case, "1") as program:
        place = slack_of(program)
        with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
            stack = next(int(line.split()[0].split("-")[1], 16) for line in maps if line.rstrip().endswith("[stack]"))
        with open(f"/proc/{program.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(stack - 8)
            own = memory.read(8)
            for late in (0, 0.3):  # seconds after which the word changes
                os.pwrite(memory.fileno(), MAGIC.to_bytes(8, "little"), place)
                os.pwrite(memory.fileno(), (place + 16).to_bytes(8, "little"), stack - 8)
                with Tool(case, program) as tool:
                    tool.records(100)
                    expect(os.pread(memory.fileno(), 8, place) == MAGIC.to_bytes(8, "little"), "what is in use was cleaned")
                    timer = threading.Timer(late, os.pwrite, (memory.fileno(), own, stack - 8))
                    timer.start()
                    if not late:
                        timer.join()
                    tool.detach()
                    timer.join()
                    expect(os.pread(memory.fileno(), 8, place) == bytes(8), "what is in use no more was not cleaned")
        expect(not live.differing(program.pid), "the text is not that of the files")
        program.end()


NO_PTRACE = """
import ctypes, os, struct, sys
# ptrace, process_vm_readv: EPERM
rules = ((0x20, 0, 0, 0), (0x15, 1, 0, 101), (0x15, 0, 1, 310), (6, 0, 0, 0x00050001), (6, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(77)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def yama(case):
    """Yama forbids tracing other processes of the same user: the message names the setting, with the remedy.
    The setting is a made-up one, and a filter says what the kernel would."""
    case.need_native("attaching")
    if os.geteuid():
        raise Skip("a made-up setting takes root")
    for scope, words in (("1", "use sudo"), ("2", "use sudo"), ("3", "start the program under 'calltap record'")):
        made_up = (f"mount -t tmpfs -o mode=755 none /proc/sys/kernel && mkdir /proc/sys/kernel/yama || exit 77\n"
                   f"echo {scope} >/proc/sys/kernel/yama/ptrace_scope\nexec \"$@\"")
        attach = ('cd /; sleep 100 & until grep -q sleep /proc/$!/comm; do :; done; '
                  '"$@" $!; status=$?; kill $!; exit $status')
        done = case.run(["unshare", "-m", "sh", "-c", made_up, "sh", sys.executable, "-c", NO_PTRACE, "setpriv", "--reuid",
                         "65534", "--clear-groups", "sh", "-c", attach, "sh", case.tool, "attach", "--allow-no-sites", "-o",
                         "/dev/null"])
        if done.status in (77, 126, 127):
            raise Skip(f"the setting cannot be made up here: {done.stderr!r}")
        expect(done.status == 2, f"exit status {done.status}: {done.stderr!r}")
        expect(f"ptrace_scope is {scope}" in done.stderr and words in done.stderr, done.stderr)


class Rising(Program):
    """test/prog/rises.c"""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("rises.c")])


LEVELS = ("loop", "work", "step", "leaf")  # functions of rises.c, each called by the one before it


def frames_that_end(case):
    """Calls that were open at the attach are over when their caller calls the next one: nothing is shown inside them any
    more. It costs some records where a thread is seen farther up its stack than before, and none after that."""
    case.need_native("attaching")
    for turn in range(3):
        with Rising(case) as program:
            with Tool(case, program) as tool:
                tool.records(40 + turn)
                tool.detach()
            program.end()
        done = case.run([case.tool, "replay", "--all-levels", "-i", case.trace_path])
        indents = {}
        for thread, depth, name in re.findall(r"(?m)^.*-([0-9]+)\).*?\|  ( *)(\w+)\(\)(?: \{|;)", done.stdout):
            indents.setdefault((thread, name), set()).add(len(depth))
        for thread in {thread for thread, _ in indents}:
            found = [indents.get((thread, name)) for name in LEVELS]
            expect(all(found) and all(len(depths) == 1 for depths in found), f"{LEVELS} at {found}: {done.stdout[:3000]}")
            steps = [max(depths) for depths in found]
            expect(steps == list(range(steps[0], steps[0] + 8, 2)), f"{LEVELS} are indented by {steps}: {done.stdout[:3000]}")
        for thread in case.trace().threads.values():
            rises = sum(kind == tf.RISE for kind, _, _ in thread.events())
            expect(0 < rises <= len(LEVELS), f"{rises} times higher up the stack")


def no_sites(case):
    """A program without traceable functions: a message, status 2, and the program is left alone."""
    case.need_native("attaching")
    with Program(case, sites=False) as program, left_alone(program):
        done = case.run([case.tool, "attach", "--stock", "never", "-o", case.trace_path, str(program.pid)])
        expect(done.status == 2, f"exit status {done.status}: {done.stderr!r}")
        expect(done.stderr.startswith("calltap: ") and not done.stdout, f"not one sentence: {done.stderr!r}")
        expect(not os.path.exists(case.trace_path), "there is a trace file")


def refused(case, pid, *words, status=2, prefix=()):
    """A refused attach: one sentence that says why, and no trace file."""
    done = case.run([*prefix, case.tool, "attach", "-o", case.trace_path, str(pid)])
    expect(done.status == status, f"exit status {done.status}, not {status}: {done.stderr!r}")
    expect(done.stderr.startswith("calltap: ") and done.stderr.count("\n") == 1, f"not one sentence: {done.stderr!r}")
    for word in words:
        expect(word in done.stderr, f"nothing of '{word}': {done.stderr!r}")
    expect(not os.path.exists(case.trace_path), "there is a trace file")


def no_process(case):
    case.need_native("attaching")
    child = Process(["true"])
    child.wait()
    refused(case, child.pid, str(child.pid))


def zombie(case):
    case.need_native("attaching")
    child = Process(["true"])
    try:
        until("the child to end", lambda: open(f"/proc/{child.pid}/stat", encoding="utf-8").read().split()[2] == "Z")
        refused(case, child.pid, str(child.pid))
    finally:
        child.wait()


def stopped(case):
    """A stopped process stays stopped, whatever the tool says."""
    case.need_native("attaching")
    with Program(case) as program:
        halt(program.pid)
        refused(case, program.pid, str(program.pid))
        expect(state_of(program.pid) == "T", f"the program's state is {state_of(program.pid)}")
        # No SIGCONT here: the stop alone interrupts sigtimedwait, and the program rightly complains.


def under_a_debugger(case):
    case.need_native("attaching")
    with Program(case) as program:
        try:
            debugger = Process(["gdb", "-q", "-nx", "-p", str(program.pid)], stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except FileNotFoundError as error:
            raise Skip("gdb is not installed") from error
        try:
            until("gdb to stop it", lambda: state_of(program.pid) == "t")
            refused(case, program.pid, str(debugger.pid))
        finally:
            debugger.kill()
            debugger.wait()
        # gdb's stop interrupts sigtimedwait, which the program is right to complain of.


class Patient(Program):
    """test/prog/throng.c, whose threads wait and take no notice of a stop."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("throng.c"), "3"])


def debugger_killed(case):
    """gdb has its breakpoint in the agent, where it is told of stubs: one that was killed has left it there."""
    case.need_native("attaching")
    said = os.path.join(case.folder, "gdb.output")
    with Patient(case) as program:
        before = look(program)
        with Tool(case, program, "--mode", "drop") as tool:
            with open(said, "wb") as file:
                try:
                    debugger = Process(["gdb", "-q", "-nx", "-p", str(program.pid), "-batch", "-iex",
                                        "set debuginfod enabled off", "-ex", "echo going on\\n", "-ex", "continue"], stdin=subprocess.DEVNULL,
                                       stdout=file, stderr=subprocess.STDOUT)
                except FileNotFoundError as error:
                    raise Skip("gdb is not installed") from error
            try:
                wait_for(said, "going on")
                until("the program to go on", lambda: state_of(program.pid) != "t")
            finally:
                debugger.kill()
                debugger.wait()
            tool.detach()
        until("the agent's thread to end", lambda: listing(program.pid, "task") == before["threads"], 5)
        os.kill(program.pid, signal.SIGTERM)
        expect(finish(program.process) == 0, f"the program ended with {program.process.returncode}")


def twice(case):
    """A second tool that does not find the first one's session, or it would be an instance of that (instances.py), is
    refused while the first one traces, and the first goes on."""
    case.need_native("attaching")
    elsewhere = {**case.environment(False), "XDG_RUNTIME_DIR": case.folder}
    with Program(case) as program:
        with Tool(case, program, environment=elsewhere) as tool:
            kept = case.trace_path
            case.trace_path += ".second"
            refused(case, program.pid, "calltap detach")
            case.trace_path = kept
            tool.records(100)
            tool.detach("socket")
        program.end()
    case.readable()


def preloaded(case):
    """A library that stands in front of __libc_start_main is not taken for libc."""
    case.need_native("attaching")
    library = case.program("startmain.c", sites=False, variant="-preloaded", flags=["-fPIC", "-no-pie", "-shared", "-ldl"])
    with Preloaded(case, library) as program, left_alone(program):
        with Tool(case, program) as tool:
            tool.records(100)
            tool.detach()
    case.readable()


class Preloaded(Program):
    def __init__(self, case, library):
        self.start(case, ["env", f"LD_PRELOAD={library}", case.program("attachee.c")])


def wrong_filter(case):
    """A filter that matches nothing: told before anything is done to the program."""
    case.need_native("attaching")
    with Program(case) as program, left_alone(program):
        done = case.run([case.tool, "attach", "-l", "laef_1", "-o", case.trace_path, str(program.pid)])
        expect(done.status == 2 and "leaf_1" in done.stderr, f"status {done.status}: {done.stderr!r}")
        expect("--allow-no-match attaches" in done.stderr, f"what would help: {done.stderr!r}")


def wrong_option(case):
    """Errors in the options or the file, not in the process: status 1."""
    case.need_native("attaching")
    missing = os.path.join(case.folder, "missing", "trace")
    with Program(case) as program, left_alone(program):
        for options, word in ((["-o", missing], missing), (["--snapshot-when", "leaf_1 > 1s"], "--mode overwrite"),
                              (["--mode", "overwrite", "--buffer-dir", missing], missing)):
            done = case.run([case.tool, "attach", *options, str(program.pid)])
            expect(done.status == 1 and word in done.stderr, f"{options}: status {done.status}, {done.stderr!r}")
            expect(done.stderr.count("\n") == 1, f"not one sentence: {done.stderr!r}")


def by_default(case):
    """A process that was not started for us never waits for the tool, unless it is told to."""
    case.need_native("attaching")
    with Program(case) as program, Tool(case, program, lossless=False) as tool:
        done = case.run([case.tool, "set", str(program.pid)])
        expect("mode=drop" in done.stdout, f"status {done.status}: {done.stdout!r} {done.stderr!r}")
        tool.detach()
        program.end()


def recorded_again(case):
    """Each attachment has a trace of its own, with its own settings."""
    case.need_native("attaching")
    with Program(case) as program:
        before = look(program)
        for option, wanted, other in (("leaf_1", "leaf_1", "leaf_2"), ("leaf_2", "leaf_2", "leaf_1")):
            with Tool(case, program, "-l", option) as tool:
                tool.records(100)
                tool.detach()
            called = case.trace().called()
            expect(wanted in called and other not in called, f"-l {option}: {called}")
            clean(program, before)
        program.end()


def many_threads(case):
    case.need_native("attaching")
    with Program(case, "64") as program, left_alone(program):
        with Tool(case, program, "-b", "64K") as tool:
            tool.records(10000)
            tool.detach()
    recorded = sum(bool(thread.chunks) for thread in case.trace().threads.values())
    expect(recorded >= 65, f"records of {recorded} threads only")


def attaches(*options):
    """test/stress/attaches.py: programs that do all they can to their stacks, threads and text."""
    def test(case):
        case.need_native("attaching")
        case.stress("attaches.py", *options, timeout=20000)
    return test


def asleep(case):
    """Threads that sleep in a system call which is among the first instructions of its function: none of these functions is left
    out at the attach, and none keeps the agent at the end, however long they sleep."""
    case.need_native("attaching")
    with Other(case, "asleep.c", "waits", "naps", "polls", sites=False) as program, left_alone(program):
        for _ in range(4):
            done = attach_for(case, program, 0.3)
            expect(done.status == 0 and "not traced" not in done.stderr and "agent stays" not in done.stderr,
                   f"status {done.status}: {done.stderr!r}")
            called = case.trace().called()
            missing = {f"call_{place}" for place in (0, 1, 2, 3, 4, 6)} - set(called)
            expect(not missing, f"no call of {missing}: {called}")


class Other(Program):
    """A program other than attachee.c that is started, attached to and ended like it."""

    def __init__(self, case, source, *arguments, sites=True, variant="", flags=()):  # pylint: disable=super-init-not-called
        self.start(case, [case.program(source, sites, variant, flags), *arguments])


def changes_ids(case):
    """The thread that loads the agent goes on answering setuid() and its like of others, which hold what it needs."""
    case.need_native("attaching")
    for _ in range(5):
        with Other(case, "changesids.c") as program:
            before = look(program)
            with Tool(case, program, "--mode", "drop") as tool:
                tool.records(100)
                tool.detach()
            clean(program, before)
            program.end()


def main_ends(case):
    """The initial thread ends, and the process runs on: its text is looked at, and the agent goes, as ever."""
    case.need_native("attaching")
    with Other(case, "mainends.c") as program:
        before = listing(program.pid, "task")
        other = int(before[-1])
        with Tool(case, program, "--mode", "drop") as tool:
            tool.records(100)
            os.kill(program.pid, signal.SIGUSR1)
            until("the initial thread's end", lambda: re.search(r"State:\s+Z", look_at(program.pid, "status")))
            tool.records(1000)
            tool.detach()
        expect(mappings(other), "the other thread shows no memory")
        different = live.differing(other)
        expect(not different, f"text differs from its file: {list(different.items())[:5]}")
        until("the agent's thread to end", lambda: listing(program.pid, "task") == before, 5)
        program.end()


def main_ends_early(case):
    """The initial thread ends while the agent comes: the process is traced and let go all the same, or left alone."""
    case.need_native("attaching")
    done = []
    for _ in range(10):
        with Other(case, "mainends.c", "early") as program:
            done.append(attach_for(case, program, 0.1))
            expect(done[-1].status in (0, 2) and "agent stays" not in done[-1].stderr,
                   f"status {done[-1].status}: {done[-1].stderr!r}")
            program.end()
    expect(any(not one.status for one in done), f"not attached to once: {done[-1].stderr!r}")


def address_of(program, path, symbol):
    """The address of a function of the program's own file."""
    table = subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    offset = int(re.search(rf"(?m)^([0-9a-f]+) [tT] {symbol}$", table)[1], 16)
    with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
        return offset + min(int(line.split("-")[0], 16) for line in maps if path in line)


def place_of(program, address):
    """(offset in the file that is mapped there, its name)"""
    with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            span, _, offset, _, _, *path = line.split()
            low, high = (int(part, 16) for part in span.split("-"))
            if low <= address < high:
                return int(offset, 16) + address - low, os.path.basename(path[0])
    return None


def breakpoint_of_others(case):
    """A debugger's breakpoint over a site: the debugger will put the site's byte back, so the stubs stay until then."""
    case.need_native("attaching")
    with Program(case) as program:
        before = look(program)
        with Tool(case, program, "--mode", "drop") as tool, open(f"/proc/{program.pid}/mem", "r+b", buffering=0) as memory:
            tool.records(100)
            site = address_of(program, case.program("attachee.c"), "hold")  # open since before the attach
            memory.seek(site)
            byte = memory.read(1)
            expect(byte != b"\x90", "the function has no jump to a stub")
            memory.seek(site)
            memory.write(b"\xcc")
            tool.session.close()
            os.kill(tool.process.pid, signal.SIGTERM)
            expect(finish(tool.process) == 1, f"the tool ended with {tool.process.returncode}: {tool.said()!r}")
            expect("not all functions could be given their own bytes back" in tool.said(), f"it said {tool.said()!r}")
            said = re.search(r"differs? from its files \(the first at offset 0x([0-9a-f]+) of (\S+)\)", tool.said())
            expect(said and (int(said[1], 16), said[2]) == place_of(program, site), f"it said {tool.said()!r}")
            done = attach_for(case, program, 0.1)
            expect(done.status == 2 and "own bytes back" in done.stderr, f"status {done.status}: {done.stderr!r}")
            memory.seek(site)
            memory.write(byte)
        done = attach_for(case, program, 0.1)
        expect(not done.status, f"status {done.status}: {done.stderr!r}")
        clean(program, before)
        program.end()


def low_stack(variant="", *flags):
    """A thread whose stack is the lowest of many in one mapping does not keep the agent."""
    def test(case):
        case.need_native("attaching")
        with Other(case, "lowstack.c", variant=variant, flags=flags) as program:
            before = look(program)
            for _ in range(5):
                done = attach_for(case, program, 0.05)
                expect(not done.status, f"status {done.status}: {done.stderr!r}")
            expect(case.trace().called().get("leaf", 0) > 100, f"{case.trace().called()}")
            clean(program, before)
            program.end()
    return test


def attach_for(case, program, seconds, *options):
    return case.run([case.tool, "attach", "--mode", "drop", "--duration", f"{seconds}s", "-o", case.trace_path, *options,
                     str(program.pid)])


def personality(case):
    """A personality routine that asks for the CFA, as LuaJIT's does, is told the one that it is told untraced."""
    case.need_native("attaching")
    with Process([case.program("personality.c", flags=["-fexceptions", "-lgcc_s"]), "300000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                 text=True, start_new_session=True) as program:
        time.sleep(0.1)
        done = attach_for(case, program, 0.3)
        said = program.communicate(timeout=60)[0]
    expect(done.status == 0 and said == "300000 caught, 0 wrong\n", f"status {done.status}: {done.stderr!r}; the program said {said!r}")
    expect(case.trace().called().get("throws", 0) > 100, f"called {case.trace().called()}")


def cut_short(case):
    """A system call that waits with a part of its data moved, and does not end: the tool waits a while, and says that the
    call has returned a part."""
    case.need_native("attaching")
    program = Process([case.program("attached_transfers.c"), "write"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                      text=True, start_new_session=True)
    try:
        expect(program.stdout.readline() == "ready\n", "the program does not start")
        done = attach_for(case, program, 0.1)
        expect(done.status == 0, f"status {done.status}: {done.stderr!r}")
        found = re.search(r"^calltap: (\d) system calls? returned with a part of the data moved \(write, .*\): "
                          r"(it was|they were) interrupted when threads were stopped$", done.stderr, re.M)
        # On a busy machine the thread is stopped again before it has gone on, and is seen at the same call's end.
        expect(found and int(found[1]) >= 1, f"it said {done.stderr!r}")
        program.stdin.write("x")
        program.stdin.flush()
        said = program.stdout.readline()
        expect(said.startswith("part "), f"the call is told to be cut short, and was {said!r}")
    finally:
        stop(program)


class Beginning(Program):
    """A program at its beginning: its loader waits for an object to preload, from a pipe, before it maps libc."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.pipe = os.path.join(case.folder, "preloaded")
        os.mkfifo(self.pipe)
        # The output is a file, so that an early reader meets no end.
        self.start(case, ["env", f"LD_PRELOAD={self.pipe}", case.program("attachee.c")])

    def begun(self):
        """The loader waits."""
        with open(f"/proc/{self.process.pid}/comm", encoding="ascii") as comm, \
                open(f"/proc/{self.process.pid}/wchan", encoding="ascii") as where:
            return comm.read() == "attachee\n" and where.read() == "wait_for_partner"

    def go_on(self):
        with open(self.pipe, "wb"):
            pass

    def printed(self):
        return "".join(line for line in super().printed().splitlines(True) if not line.startswith("ERROR: ld.so"))


def just_begun(case):
    """A process that has no libc yet is waited for."""
    case.need_native("attaching")
    program = Beginning(case)
    try:
        until("the loader to wait", program.begun)
        tool = Process([case.tool, "attach", "--duration", "300ms", "-o", case.trace_path, str(program.process.pid)],
                       cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            time.sleep(0.1)
            program.go_on()
            said = tool.communicate(timeout=60)[1]
        finally:
            stop(tool)
        expect(tool.returncode == 0, f"status {tool.returncode}: {said!r}")
        with program:
            program.end()
        expect("leaf_1" in case.trace().called(), "nothing was recorded")
    finally:
        stop(program.process)


class Comings(Program):
    """test/prog/comings.c, with two libraries of each of two sizes."""

    def __init__(self, case, threads):  # pylint: disable=super-init-not-called
        paths = [os.path.join(case.folder, f"lib{number}.so") for number in range(4)]
        for number, path in enumerate(paths):
            flags = ["-falign-functions=256"] if number % 2 else []
            shutil.copy(case.program("library.c", variant="-wide" if flags else "", flags=flags), path)
        self.start(case, [case.program("comings.c"), str(threads), *paths])


def beside_comings(case):
    """Libraries come and go at every attach: they are followed, and nothing is said that is not so."""
    case.need_native("attaching")
    with Comings(case, 3) as program:
        before, followed, given_up = look(program), 0, 0
        for number in range(COMINGS):
            done = attach_for(case, program, 0.04 * (1 + number % 3))
            # On a busy machine it may be in the middle of loading at each stop, or none may come in so short a time.
            if done.status == 2 and re.fullmatch(ALL_THE_TIME, done.stderr):
                given_up += 1
                continue
            idle = done.stderr.startswith("calltap: nothing was recorded") and not case.trace().called()  # it got no CPU meanwhile
            expect(not done.status and (idle or not done.stderr), f"attach {number}: status {done.status}: {done.stderr!r}")
            followed += "library_answer" in case.trace().called()
        expect(given_up <= COMINGS // 4, f"{given_up} of {COMINGS} attaches were given up")
        expect(followed > COMINGS // 4, f"only {followed} of {COMINGS} traces have a library that came")
        until("the agent's thread to end", lambda: look(program)["threads"] == before["threads"])
        halt(program.pid)
        different = live.differing(program.pid)
        expect(not different, f"text differs from its file: {list(different.items())[:5]}")
        os.kill(program.pid, signal.SIGCONT)
        program.end()


def ends_meanwhile(case):
    """Whenever the process ends during an attach: it was traced until then, or its end is the reason that is told."""
    case.need_native("attaching")
    odd = random.Random(7)
    wrong, early = [], 0
    for number in range(TRIES):
        with Program(case) as program:
            tool = Process([case.tool, "attach", "-o", case.trace_path, str(program.pid)], cwd=case.folder,
                           env=case.environment(False), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, start_new_session=True)
            try:
                time.sleep(odd.uniform(0, LATEST))
                os.kill(program.pid, signal.SIGKILL if number % 2 else signal.SIGTERM)
                said = tool.communicate(timeout=60)[1]
            finally:
                stop(tool)
        early += tool.returncode != 0
        if tool.returncode and not re.fullmatch(ENDED.format(program.pid), said):
            wrong.append((tool.returncode, said))
    expect(not wrong, f"{len(wrong)} of {TRIES} told another reason: {wrong[:5]}")
    expect(early, "no process ended before it was traced")


CASES = {"attach": attached}
SINGLE = {
    "attach-interrupted": ended_by(signal.SIGINT),
    "attach-terminated": ended_by(signal.SIGTERM),
    "attach-hung-up": ended_by(signal.SIGHUP),
    "attach-duration": for_a_time,
    "attach-program-ends": program_gone(Program.end),
    "attach-program-killed": program_gone(lambda program: os.kill(program.pid, signal.SIGKILL)),
    "attach-program-executes": executes,
    "attach-called-by-link": called_by_link,
    "attach-tool-killed": tool_killed,
    "attach-tool-killed-memory": tool_killed_memory,
    "attach-tool-killed-forbidden": tool_killed_forbidden,
    "attach-tool-killed-early": killed_at_any_time(os.kill),
    "attach-tool-killed-with-its-group": killed_at_any_time(os.killpg),
    "attach-personality": personality,
    "attach-comings": beside_comings,
    "attach-tool-stopped": tool_stopped_at_any_time,
    "attach-many-times": many_times(20),
    "attach-at-once-again": at_once_again,
    "attach-busy-lossless": busy_and_lossless,
    "attach-busy-holes": waiting_and_whole,
    "attach-same-moment": at_the_same_moment(lambda case: Program(case, "2")),
    "attach-open-frames": open_frames,
    "attach-namespace-threads": threads_of_namespace,
    "attach-no-sites": no_sites,
    "attach-no-process": no_process,
    "attach-zombie": zombie,
    "attach-ends-meanwhile": ends_meanwhile,
    "attach-just-begun": just_begun,
    "attach-stopped": stopped,
    "attach-debugged": under_a_debugger,
    "attach-debugger-killed": debugger_killed,
    "attach-twice": twice,
    "attach-wrong-filter": wrong_filter,
    "attach-frames-that-end": frames_that_end,
    "attach-wrong-option": wrong_option,
    "attach-litter": litter,
    "attach-yama": yama,
    "attach-preloaded": preloaded,
    "attach-by-default": by_default,
    "attach-again": recorded_again,
    "attach-many-threads": many_threads,
    "attach-changes-ids": changes_ids,
    "attach-cut-short": cut_short,
    "attach-asleep": asleep,
    "attach-main-ends": main_ends,
    "attach-main-ends-early": main_ends_early,
    "attach-breakpoint-of-others": breakpoint_of_others,
    "attach-low-stack": low_stack(),
    "attach-low-stack-by-hand": low_stack("-by-hand", "-DBY_HAND"),
    **{f"attach-stress-{name}": attaches("--rounds", "4", "--only", name)
       for name in ("throws", "stacks", "signals", "threads", "loads", "forks", "confines")},
    **{f"attach-stress-{name}": attaches("--rounds", "3", "--only", name)
       for name in ("struck", "struck-alternate", "struck-nested", "struck-deep", "struck-stacks", "struck-long")},
    **{f"attach-stress-{name}": attaches("--rounds", "3", "--only", name)
       for name in ("asleep", "asleep-signals", "python3", "stock-throws", "stock-signals", "stock-struck", "stock-struck-deep")},
}
LONG = {"attach-10000-times": many_times(10000), "attach-stress-long": attaches("--long")}

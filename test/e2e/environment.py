"""Surroundings of a program: forks, sandboxes, closed descriptors, tight limits, many threads and libraries."""
import collections
import os
import re
import shlex
import shutil
import signal
import sys

import tracefile
from endings import finish, start, wait_for
from harness import Skip, expect, stop, until
from steering import Program, Tool
from typed import compiled


def processes(shape):
    """A way to make processes: each of them is followed, and its graph is true."""
    def test(case):
        case.executing()
        if shape == "clones":
            case.need_feature("wipe-on-fork")
        case.same_as_plain([case.program("processes.c"), shape])
        case.compare(case.trace())
        case.readable()
    return test


def tracer(case):
    """A program that traces a child that it has forked sees no thread that the child has not made."""
    case.need_native("tracing by ptrace()")
    case.same_as_plain([case.program("tracer.c")])
    case.compare(case.trace())
    case.readable()


def shared_memory(case):
    """Two tasks on one thread block: no harm is done; whose call is whose cannot be told."""
    case.same_as_plain([case.program("processes.c"), "shared"], log=False)
    expect(case.trace().called().get("work", 0) > 0, "nothing was recorded")
    case.readable()


def surroundings(how):
    """The program takes something away from itself and goes on."""
    def test(case):
        case.same_as_plain([case.program("surroundings.c"), how])
        case.compare(case.trace())
        case.readable()
    return test


STEPS = 40000  # calls that test/prog/sandboxes.c makes in its sandbox
DEEP = 3001


def sandbox(way, what, options=()):
    """The program shuts itself in: it works on as ever, all of its calls are recorded, and what cannot be is said."""
    def test(case):
        case.need_feature("seccomp")
        outcome = case.same_as_plain([case.program("sandboxes.c"), way, what], options, log=False)
        trace = case.trace()
        called = trace.called()
        expect(called.get("step", 0) >= STEPS and called.get("deep") == DEEP,
               f"{called.get('step')} steps and {called.get('deep')} frames of deep() are in the trace, "
               f"{STEPS} and {DEEP} were called; {outcome.stderr}")
        told = bool(re.search("shut (itself|themselves) in", outcome.stderr))
        expect(told == (what != "allow"), f"stderr says {outcome.stderr!r}")
        expect(("sandbox" in trace.info) == told, f"info has {sorted(trace.info)}")
        case.readable()
    return test


SHUT_IN = r'''#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
__attribute__((noinline)) int leaf(int n) { __asm__ volatile(""); return n * 2; }
static void *run(void *number) { for (int i = 0; i < 50; i++) leaf(i); return number; }
int main(void)
{
	struct sock_filter filter[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
		{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_madvise}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
	struct sock_fprog program = {4, filter};
	pthread_t thread;
	leaf(1);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) || pthread_create(&thread, NULL, run, NULL))
		return 9;
	pthread_join(thread, NULL);
	return 4;
}
'''


def remedy_in_sandbox(case):
    """A thread that begins in a sandbox is not recorded, and the message says what helps; that does."""
    case.need_feature("seccomp")
    program = compiled(case, "shut", SHUT_IN, "cc", "-O0", "-fpatchable-function-entry=16,14", "-pthread")
    outcome = case.record([program], ("-l", "leaf"), log=False)
    expect(outcome.status == 4 and "50 calls were not recorded" in outcome.stderr, f"{outcome.status} {outcome.stderr}")
    expect("-p function" in outcome.stderr and "(-b)" not in outcome.stderr, f"stderr says {outcome.stderr!r}")
    outcome = case.record([program], ("-l", "leaf", "-p", "function"), log=False)
    expect(outcome.status == 4 and case.trace().called() == {"leaf": 51}, f"{case.trace().called()} {outcome.stderr}")


def left_in_sandbox(case):
    """The recording ends while the program stands still in its sandbox and answers nobody: what it did is in the trace."""
    case.need_feature("seccomp")
    output, process = start(case, case.record_command([case.program("sandboxes.c"), "prctl", "allow", "stop"]))
    try:
        wait_for(output, "shut in")
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
            program = children.read().strip()
        wait_for(f"/proc/{program}/status", "State:\tT")
        for number in (signal.SIGINT, signal.SIGQUIT):  # to the tool alone; two of a kind may become one
            os.kill(process.pid, number)
        status = finish(process)
    finally:
        stop(process)
    expect(status == 130, f"exit status {status}")
    called = case.trace().called()
    expect(called.get("step", 0) >= STEPS and called.get("deep") == DEEP, f"the trace has {called}")


def killed_in_sandbox(case):
    """Its filter ends the program for what the agent does when its tool has died, or lets go: the agent's thread is gone before."""
    case.need_feature("seccomp")
    for number in (signal.SIGKILL, signal.SIGINT):
        output, process = start(case, case.record_command([case.program("shut.c")], ["--mode", "drop"]))
        try:
            pid = int(wait_for(output, "ready").split()[1])
            os.kill(process.pid, number)
            if number == signal.SIGINT:
                os.kill(process.pid, signal.SIGQUIT)  # that one ends the recording, and not the program
            finish(process)
            # It is nobody's child now: it says by itself how it ends.
            with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                expect(name.read() == "shut\n", "the program is another one")
            os.kill(pid, signal.SIGTERM)
            wait_for(output, "all was well")
        finally:
            stop(process)


class Sleeps(Program):
    """test/prog/sleeps.c"""

    def __init__(self, case, times):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("sleeps.c"), str(times)])


def sleeps_in_a_sandbox(case):
    """A program that shuts itself into a sandbox while it is traced, and sleeps there: a detach is not its end."""
    case.need_native("attaching")
    case.need_feature("seccomp")
    for _ in range(4):
        with Sleeps(case, 100) as program:
            with Tool(case, program, "-l", "step") as tool:
                os.kill(program.pid, signal.SIGUSR1)
                until("the sandbox", lambda: "shut" in program.printed())
                tool.records(10)
                tool.detach()
            status = finish(program.process)
            expect(status == 5 and "all was well" in program.printed(), f"status {status}: {program.printed()!r}")


def children_in_sandboxes(case):
    """The agent of a child that cannot reach its tool undoes what it can, before a filter forbids it that by death."""
    case.need_native("namespaces of the program's own")
    program = case.program("shut.c")
    plain = case.run([program, "children", "30"])
    if plain.status == 77:
        raise Skip("there are no user namespaces, or filters, here")
    for options in ([], ["-p", "nop"], ["-l", "*:*"]):
        case.same_outcome(plain, case.record([program, "children", "30"], options, log=False))


def executed(case):
    """A program executed in a sandbox runs without the agent, which the sandbox might not stand, and that is said."""
    case.need_feature("seccomp")
    outcome = case.same_as_plain([case.program("sandboxes.c"), "executes"], log=False)
    trace = case.trace()
    expect(trace.called().get("main") == 1 and "step" not in trace.called(), f"the trace has {trace.called()}")
    expect("executed where the agent stays out" in outcome.stderr and "executed" in trace.info, f"nothing is said: {outcome.stderr!r}")
    case.readable()


def strict(case):
    """Strict mode takes the CPU's clock away, too: recording ends before, with what was recorded; the program goes on."""
    case.need_feature("seccomp-strict")
    outcome = case.same_as_plain([case.program("sandboxes.c"), "strict"], log=False)
    trace = case.trace()
    expect(trace.called().get("main") == 1 and "step" not in trace.called(), f"the trace has {trace.called()}")
    expect("may not read the clock" in outcome.stderr and "stopped" in trace.info, f"nothing is said: {outcome.stderr!r}")
    expect("recorded up to there only" in outcome.stderr, f"who recorded is not told: {outcome.stderr!r}")
    read = case.run([case.tool, "report", "-i", case.trace_path])
    expect("recorded up to there only" in read.stderr, f"who reads is not told: {read.stderr!r}")
    case.readable()


def by_number(case):
    """syscall() leaves its caller's stack alone, and calls that only ask what seccomp has end nothing; one that takes the
    clock away ends the recording, and not the program."""
    case.same_as_plain([case.program("syscalls.c")])
    case.compare(case.trace())
    case.readable()
    case.need_feature("clock-off")
    outcome = case.same_as_plain([case.program("syscalls.c"), "clock-off"], log=False)
    expect(outcome.status == 0 and case.trace().called().get("try_call") == 9, f"{outcome.status}: {outcome.stderr[-300:]}")


LIBRARIES = 200


def copies(case, count):
    """Copies of a library, each a file of its own."""
    paths = [os.path.join(case.folder, f"lib{number}.so") for number in range(count)]
    for path in paths:
        shutil.copy(case.program("library.c"), path)
    return paths


def reloads(what, count):
    def test(case):
        case.same_as_plain([case.program("reloads.c"), what, *copies(case, count)])
        case.compare(case.trace())
        case.readable()
    return test


def many_libraries(case):
    """200 libraries, each of them traced; the trace says which function is of which."""
    case.same_as_plain([case.program("reloads.c"), "many", *copies(case, LIBRARIES)], log=False)
    trace = case.trace()
    owners = {trace.objects[trace.function_object[function]] for thread in trace.threads.values()
              for kind, function, _ in thread.events() if trace.name(function) == "library_answer"}
    expect(len(owners) == LIBRARIES, f"library_answer of {len(owners)} libraries is in the trace, not of {LIBRARIES}")
    called = trace.called()
    expect(called.get("helper") == 3 * LIBRARIES, f"{called.get('helper')} calls of helper, not {3 * LIBRARIES}")
    case.readable()


def places(case):
    """A library back at its old place, at another one, and another library at its old place."""
    command, wanted = [case.program("reloads.c"), "places", *copies(case, 2)], ["again: same place", "blocked: elsewhere",
                                                                                "other: same place"]
    plain = case.run(command).stderr.splitlines()
    if plain != wanted:
        raise Skip(f"libraries do not come back to their place here: {plain}")
    outcome = case.same_as_plain(command, stderr=False)
    case.compare(case.trace())
    told = [line for line in outcome.stderr.splitlines() if not line.startswith("calltap")]
    expect(told == wanted, f"the program says {told}")
    case.readable()


def callers_of_gone(case):
    """Callers are named after the library that lay at their addresses when they called, not after the last one there."""
    names = ("helper", "library_opened", "library_closed")
    renamed = [f"-D{name}=other_{name}" for name in names]
    first, other = (os.path.join(case.folder, name) for name in ("first.so", "other.so"))
    shutil.copy(case.program("library.c", variant="-calls", flags=["-fno-optimize-sibling-calls"]), first)
    shutil.copy(case.program("library.c", variant="-other", flags=["-fno-optimize-sibling-calls", *renamed]), other)
    command = [case.program("reloads.c"), "places", first, other]
    if "other: same place" not in case.run(command).stderr:
        raise Skip("the other library does not come to the first one's place here")
    case.same_as_plain(command, ["-p", "function"], log=False, stderr=False)
    calls = re.findall(r": ((?:other_)?)helper <-(\S+)", case.run([case.tool, "replay", "-i", case.trace_path]).stdout)
    wanted = [(of, caller) for of in ("", "", "", "other_", "", "other_")
              for caller in (of + names[1], "library_answer", of + names[2])]
    expect(calls == wanted, f"replay has the callers {calls}")


def name_spaces(case):
    """dlmopen: what is in another name space runs untraced, and that is said."""
    outcome = case.same_as_plain([case.program("reloads.c"), "spaces", *copies(case, 1)], log=False)
    trace = case.trace()
    expect(trace.called().get("library_answer") == 1, f"recorded {trace.called()}")
    expect("dlmopen" in trace.info, f"info has {sorted(trace.info)}; {outcome.stderr}")


WORK = {"before": 4, "here": 201, "thread": 8, "child": 10}  # calls of work() in test/prog/surroundings.c


def without_log(how, missing=""):
    """A program that cannot log its calls: they are counted.  A child that cannot reach the tool is not traced, and the
    tool says so; after unshare(CLONE_NEWPID) the kernel makes no thread."""
    def test(case):
        command = [case.program("surroundings.c"), how]
        plain = case.run(command)
        if not case.cpu.native and "Invalid argument" in plain.stdout:
            raise Skip("it is refused to an emulator, which has threads of its own")
        outcome = case.same_as_plain(command, log=False)
        trace = case.trace()
        wanted, reached = sum(WORK.values()) - WORK.get(missing, 0), missing != "child"
        called = trace.called().get("work")
        expect(called == wanted, f"{called} calls of work() in the trace, not {wanted}; {outcome.stderr}")
        expect(("could not reach" in outcome.stderr) != reached, f"stderr says {outcome.stderr!r}")
        expect(("unreached" in trace.info) != reached, f"info has {sorted(trace.info)}")
        case.readable()
    return test


def name_space_of_ids(case):
    """A program that has been given process ids of its own: its threads come and go, and none is taken for another."""
    if os.geteuid():
        raise Skip("only root can make a pid namespace")
    members = 2000
    case.same_under(":", [case.program("crowd.c"), str(members), "50"], start="exec unshare --pid --fork")
    trace = case.trace()
    kinds = collections.Counter((trace.name(function), kind) for thread in trace.threads.values()
                                for kind, function, _ in thread.events())
    counts = {name: (kinds[name, tracefile.ENTRY], kinds[name, tracefile.EXIT]) for name in ("main", "member", "step")}
    expect(counts == {"main": (1, 1), "member": (members, members), "step": (20 * members, 20 * members)},
           f"the trace has (entries, exits) {counts}")


def no_clock(case):
    """A program that gives up the CPU's clock would die of a probe that reads it: recording ends before, and that is said."""
    case.need_feature("clock-off")
    outcome = case.same_as_plain([case.program("surroundings.c"), "no-clock"], log=False)
    trace = case.trace()
    expect(trace.called().get("work") == WORK["before"], f"the trace has {trace.called()}")
    expect("stopped" in trace.info and "recorded up to there only" in outcome.stderr, f"nothing is said: {outcome.stderr!r}")
    case.readable()


SUM = sum(WORK.values())


def on_own_cpu(test):
    """A test that takes minutes under an emulator; the long run has it there."""
    def native(case):
        case.need_native("so many threads in time")
        test(case)
    return native


def crowd(case):
    """10,000 threads, 1000 at a time."""
    # The usual stacks of so many threads are more than the room beside them on a CPU with a small address space.
    case.same_under("ulimit -s 1024 || exit 77", [case.program("crowd.c"), "10000", "1000"], ["-b", "16k"])
    trace = case.trace()
    called = trace.called()
    expect((called.get("member"), called.get("step")) == (10000, 200000), f"the trace has {called}")
    expect(len(trace.threads) == 10001, f"{len(trace.threads)} threads in the trace, not 10001")


def recurse(case):
    """A million frames, on a stack that has room for them."""
    frames = 1000000
    command = [case.program("recurse.c"), str(frames)]
    size = "unlimited" if case.cpu.native else 1 << 21  # KiB; an emulator allocates as much
    plain, traced = (case.run(["sh", "-c", f"ulimit -s {size} || exit 77; exec " + shlex.join(line)])
                     for line in (case.plain_command(command), case.record_command(command)))
    if plain.status == 77:
        raise Skip("the limit of the stack cannot be lifted here")
    expect((traced.status, traced.stdout) == (plain.status, plain.stdout), f"{traced.status}: {traced.stderr[-300:]}")
    depth = deepest = 0
    for thread in case.trace().threads.values():
        for kind, _, _ in thread.events():
            depth += (kind == 1) - (kind == 2)
            deepest = max(deepest, depth)
    expect((depth, deepest) == (0, frames + 2), f"deepest frame {deepest}, left open {depth}")


MORE_KIB = 2048  # that a process may use at the end, beyond those after a tenth of the rounds


def cycles(what, rounds, per_round):
    """A program that does one thing over and over: its mappings and memory do not grow, nor does the tool's memory, but
    for the bytes that a round leaves in its tables."""
    def test(case):
        command = case.record_command([case.program("cycles.c"), what, str(rounds), case.program("library.c")], ["-b", "64k"])
        peak = "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); " \
               "print('tool', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(done.returncode)"
        sizes = []
        for count in (rounds // 10, rounds):
            command[command.index(what) + 1] = str(count)
            outcome = case.run([sys.executable, "-c", peak, *command], timeout=300)
            expect(outcome.status == 0, f"exit status {outcome.status}: {outcome.stderr[-300:]}")
            sizes.append(int(next(line.split()[1] for line in outcome.stderr.splitlines() if line.startswith("tool"))))
        states = [line.split() for line in outcome.stderr.splitlines() if line.startswith("state")]
        (mappings, memory), (mappings_end, memory_end) = ((int(words[1]), int(words[3])) for words in states)
        expect(mappings_end <= mappings + 4, f"{mappings} mappings after a tenth, {mappings_end} at the end")
        expect(memory_end <= memory + MORE_KIB, f"{memory} KiB after a tenth, {memory_end} KiB at the end")
        grown = (sizes[1] - sizes[0]) * 1024
        expect(grown <= MORE_KIB * 1024 + rounds * per_round, f"the tool grew by {grown} bytes over {rounds} rounds")
        called = case.trace().called().get("step", 0)
        expect(called == rounds * (1 if what == "loads" else 2), f"{called} steps in the trace of {rounds} rounds")
    return test


def limited(limit, emulated=None):
    """The program starts under a tight limit that a shell sets.  An emulator may need more."""
    def test(case):
        outcome = case.same_under(f"ulimit {limit if case.cpu.native else emulated or limit} || exit 77", [case.program("surroundings.c"), "nothing"], status=5)
        called = case.trace().called().get("work")
        expect(called == SUM, f"{called} calls of work() in the trace, not {SUM}; {outcome.stderr}")
    return test


def small_stack(case):
    """The limit of the stack is the program's, as it was; the tool itself reads debug information on a stack of its own."""
    program = compiled(case, "lines", "int main(void) { return 7; }\n" + "".join(f"int f{n}(int x)\n{{\n\treturn x + {n};\n}}\n" for n in range(3000)),
                       "cc", "-O0", "-g", "-fpatchable-function-entry=5")
    for command, status in (([program], 7), (["sh", "-c", "ulimit -s; exit 9"], 9)):
        outcomes = [case.run(["sh", "-c", 'ulimit -s 100 || exit 77; exec "$@"', "sh", *line])
                    for line in (command, case.record_command(command, ["--allow-no-sites"]))]
        expect(outcomes[0].status == status, f"untraced {outcomes[0].status}")
        expect((outcomes[1].status, outcomes[1].stdout) == (status, outcomes[0].stdout), f"{outcomes[1].status}: {outcomes[1].stderr[-300:]}")
    done = case.run(["sh", "-c", 'ulimit -s 100; exec "$@"', "sh", *case.record_command([program])])
    expect(done.status == 7 and case.trace().called().get("main") == 1, f"{done.status} {done.stderr}")


def no_room(case):
    """Address space for the program alone: it runs untraced, or some of it does, and that is said."""
    for limit in (24000, 50000):
        plain, traced = case.under(f"ulimit -v {limit}", [case.program("surroundings.c"), "nothing"])
        outcome = case.run(plain)
        if outcome.status != 5:
            raise Skip(f"it does not run so: {outcome.stderr.strip()[-200:]}")
        outcome = case.same_outcome(outcome, case.run(traced))
        expect("is not traced" in outcome.stderr or (limit > 30000 and "smaller buffers" in outcome.stderr),
               f"stderr says {outcome.stderr!r}")


def small_files_of_the_tool(case):
    """Files of the tool are limited, and with them memory that it shares: buffers are smaller then, and the program has its limit."""
    for command, status in (([case.program("crowd.c"), "300", "300", "64"], 0), (["sh", "-c", "ulimit -f; exit 9"], 9)):
        outcomes = [case.run(["sh", "-c", 'ulimit -f 10000 || exit 77; exec "$@"', "sh", *line])
                    for line in (command, case.record_command(command, ["--allow-no-sites"]))]
        expect((outcomes[1].status, outcomes[1].stdout) == (status, outcomes[0].stdout), f"{outcomes[1].status}: {outcomes[1].stderr[-300:]}")
        if not status:
            called = case.trace().called()
            expect(called.get("member") == 300, f"the trace has {called}; {outcomes[1].stderr}")


def crowd_under_limits(case):
    """As many threads as without: all buffers together take a part, however many threads come, and so do planes."""
    program = case.program("crowd.c")
    for limit in ("v 200000", "v 1000000", "d 200000"):
        plain, traced = case.under(f"ulimit -{limit} || exit 77", [program, "1000", "1000", "64"])
        case.same_outcome(case.run(plain), case.run(traced))
        called = case.trace().called()
        expect(called.get("member", 0) >= 10, f"{limit}: the trace has {called}")


def little_room(case):
    """Address space for a program with four threads, and somewhat more: buffers take but a part of that."""
    plain, traced = case.under("ulimit -v 80000 || exit 77", [case.program("crowd.c"), "4", "4", "8192"])
    case.same_outcome(case.run(plain), case.run(traced))
    called = case.trace().called()
    expect(called.get("member"), f"the trace has {called}")


def changed(script, how="nothing", start="exec"):
    """Tool and program run where a script, as root in a mount name space of its own, has changed the system.  $FOLDER is
    the case's folder; the trace goes to $FOLDER/out."""
    def test(case):
        if os.geteuid():
            raise Skip("only root can change the system around a program")
        out = os.path.join(case.folder, "out")
        os.mkdir(out)
        case.trace_path = os.path.join(out, "trace")
        head = f"export FOLDER={shlex.quote(case.folder)}\n{script}\n"
        plain, traced = (case.run(["unshare", "-m", "sh", "-ec", head + shlex.join(line)])
                         for line in case.under(":", [case.program("surroundings.c"), how], start=start))
        if plain.status != 5:
            raise Skip(f"the system cannot be changed so: {plain.stderr.strip()[-200:]}")
        expect((traced.status, traced.stdout) == (plain.status, plain.stdout),
               f"traced {traced.status} {traced.stdout[-300:]!r} {traced.stderr[-300:]!r}, plain {plain.stdout[-300:]!r}")
        called = case.trace().called().get("work")
        expect(called == SUM, f"{called} calls of work() in the trace, not {SUM}; {traced.stderr}")
    return test


def without_proc(case):
    """Without /proc from the start nothing can be traced: that is said, and the program is not run."""
    if os.geteuid():
        raise Skip("only root can unmount /proc")
    command = shlex.join(case.record_command([case.program("surroundings.c"), "nothing"]))
    outcome = case.run(["unshare", "-m", "sh", "-c", f"umount -l /proc || exit 77; exec {command}"])
    if outcome.status == 77:
        raise Skip("/proc cannot be unmounted here")
    expect((outcome.status, outcome.stdout) == (1, ""), f"{outcome.status}: {outcome.stdout!r}")
    expect("/proc is not mounted" in outcome.stderr, f"stderr says {outcome.stderr!r}")


CGROUP = """[ -d /sys/fs/cgroup/memory ] || exit 1
mkdir -p /sys/fs/cgroup/memory/calltap-$$
trap 'echo $$ > /sys/fs/cgroup/memory/tasks; rmdir /sys/fs/cgroup/memory/calltap-*' EXIT
echo $((24 << 20)) > /sys/fs/cgroup/memory/calltap-$$/memory.limit_in_bytes
echo $$ > /sys/fs/cgroup/memory/calltap-$$/tasks"""

CHANGED = {
    "full-shm": "mount -t tmpfs -o size=4k none /dev/shm; cat /dev/zero > /dev/shm/full 2>/dev/null || true",
    "no-shm": "mount -t tmpfs -o ro,size=4k none /dev/shm",
    "hidepid": "mount -t proc -o hidepid=2 none /proc",
    "read-only-root": "mount --bind $FOLDER/out $FOLDER/out; mount -o remount,ro,bind /",
    "memory-group": CGROUP,
}


def setns_at_once(case):
    """Several threads send our control thread away at the same time."""
    case.same_as_plain([case.program("setnsatonce.c")], log=False)
    called = case.trace().called()
    expect(called.get("go") == 800, f"{called.get('go')} of 800 calls are in the trace")


def rooted(case):
    """Children whose only thread ends by itself, in a root without /proc: nobody keeps them."""
    if os.geteuid():
        raise Skip("only root can change its root")
    case.need_feature("wipe-on-fork")
    case.same_as_plain([case.program("processes.c"), "rooted"], log=False)
    called = case.trace().called()
    expect(called.get("work") == 10 and called.get("cloned") == 2, f"recorded {called}")


TAKEN = ("nothing", "closefrom", "close_range", "dup2", "removed", "dumpable", "no-new-privileges", "death-signal",
         "subreaper", "unshare-files", "unshare-user", "unshare-mount", "unshare-vm", "as", "stack", "locked", "processes",
         "lock-all", "call-unshare-user", "call-setns", "call-lock-all")

CASES = {
    "process-threads": processes("threads"),
    "process-clones": processes("clones"),
    "libraries-loop": reloads("loop", 3),
}
def short_of_memory(kind, limits, *options):
    """Under limits of many sizes the program has as much memory as without, and prints and ends alike."""
    def test(case):
        program = case.program("crowd.c")
        for limit in limits:
            plain, traced = case.under(f"ulimit -{kind} {limit} || exit 77", [program, "40", "4", "2048"], options)
            case.same_outcome(case.run(plain), case.run(traced))
    return test


SINGLE = {
    # An emulator says what it has to say on the first three, which therefore are none of the agent's.
    "sandbox-new-thread": remedy_in_sandbox,
    "limited-s100-of-the-tool": on_own_cpu(small_stack),
    "limited-f10000-of-the-tool": on_own_cpu(small_files_of_the_tool),
    "limited-n5": limited("-n 5", "-n 8"),
    **{f"limited{limit.replace(' ', '')}": limited(limit) for limit in ("-s 128", "-v 120000", "-l 0", "-f 0", "-c 0")},
    **{f"changed-{name}": changed(script) for name, script in CHANGED.items()},
    "no-proc": without_proc,
    "setns-at-once": setns_at_once,
    "no-room": no_room,
    "little-room": on_own_cpu(little_room),
    "short-of-addresses": on_own_cpu(short_of_memory("v", (16000, 24000, 40000, 60000, 90000, 140000, 250000))),
    "short-of-addresses-adaptive": on_own_cpu(short_of_memory("v", (16000, 24000, 40000, 60000, 140000), "--time", "adaptive", "--time-small", "100000")),
    "short-of-addresses-values": on_own_cpu(short_of_memory("v", (24000, 60000, 105000, 150000, 170000, 250000, 700000), "-A", "step:n=arg1")),
    "short-of-room-for-threads": on_own_cpu(crowd_under_limits),
    "short-of-data": on_own_cpu(short_of_memory("d", (2000, 20000, 60000, 150000), "-A", "step:n=arg1")),
    "changed-no-proc": changed("true", how="no-proc"),
    "changed-umount": changed("mkdir -p $FOLDER/mounted; export MOUNTED=$FOLDER/mounted; mount -t tmpfs none $MOUNTED",
                              how="umount", start="cd $MOUNTED && exec"),
    "crowd-10000": on_own_cpu(crowd),
    "recurse-million": recurse,
    "libraries-many": many_libraries,
    "libraries-places": places,
    "libraries-callers": callers_of_gone,
    "libraries-spaces": name_spaces,
    "sandbox-strict": strict,
    "without-clock": no_clock,
    "syscall-by-number": by_number,
    "sandbox-executed": executed,
    "sandbox-left": left_in_sandbox,
    "sandbox-tool-killed": killed_in_sandbox,
    "sandbox-children": children_in_sandboxes,
    "sandbox-sleeps": sleeps_in_a_sandbox,
    "sandbox-late": sandbox("prctl", "kill", ("-l", "step", "-l", "deep")),
    **{f"sandbox-{way}-{what}": sandbox(way, what)
       for way in ("prctl", "raw", "tsync") for what in ("kill", "errno", "generous", "allow")},
    **{f"without-{how}": surroundings(how) for how in TAKEN},
    **{f"without-{how}": without_log(how) for how in ("chroot", "nobody", "file-size")},
    "without-unshare-pid": without_log("unshare-pid", "thread"),
    **{f"without-{how}": without_log(how, "child") for how in ("unshare-net", "unshare-user-net", "files-0", "files-3")},
    "process-spawns": processes("spawns"),
    "process-sister": processes("sister"),
    "process-orphan": processes("orphan"),
    "process-daemon": processes("daemon"),
    "process-tracer": tracer,
    "process-shared-memory": shared_memory,
    "process-rooted": rooted,
    "process-ids": name_space_of_ids,
}
LONG = {
    "crowd-10000-anywhere": crowd,
    "cycles-forks": cycles("forks", 10000, 2048),
    "cycles-loads": cycles("loads", 2000, 256),
    "cycles-threads": cycles("threads", 20000, 256),
}

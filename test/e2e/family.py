"""Processes beside those that are recorded: they are not in the trace, and that is told."""
import os
import re
import shutil

from harness import Skip, expect
from steering import Program


class Master(Program):
    """test/prog/master.c"""

    def __init__(self, case, count):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("master.c"), "forks", str(count)])


def attach_for(case, program, *options):
    done = case.run([case.tool, "attach", "--duration", "700ms", "-o", case.trace_path, *options, str(program.pid)])
    expect(done.status == 0, f"status {done.status}: {done.stderr!r}")
    return done.stderr


def children(case):
    """A master that sleeps: who works is named."""
    case.need_native("attaching")
    with Master(case, 2) as program:
        said = attach_for(case, program)
        found = re.fullmatch(rf"calltap: process {program.pid} has 2 children that run master as well: attach to those "
                             r"\(calltap attach (\d+)\)\n", said)
        expect(found, f"it said {said!r}")
        with open(f"/proc/{found[1]}/stat", encoding="utf-8") as file:
            expect(int(file.read().rpartition(")")[2].split()[1]) == program.pid, f"{found[1]} is no child")
        program.end()


def one_child(case):
    case.need_native("attaching")
    with Master(case, 1) as program:
        said = attach_for(case, program)
        expect(f"process {program.pid} has 1 child that runs master as well: attach to that" in said, f"it said {said!r}")
        program.end()


def no_children(case):
    """Nobody else does its work, or it does it itself: there is nothing to say."""
    case.need_native("attaching")
    with Master(case, 0) as program:
        said = attach_for(case, program)
        expect("nothing was recorded" in said and "child" not in said, f"it said {said!r}")
        program.end()
    with Program(case) as program:
        said = attach_for(case, program)
        expect("children" not in said and "child" not in said, f"it said {said!r}")
        program.end()


def spawned(case):
    """Started with an environment of their own that the agent leaves alone, the children are not followed: told in the
    end."""
    case.need_native("looking at what a program executes")
    outcome = case.record([case.program("master.c"), "spawns", "3"], log=False)
    expect(outcome.status == 42, f"status {outcome.status}: {outcome.stderr!r}")
    expect(re.search(r"calltap: 3 processes \(master, \d+, \.\.\.\) are not in the trace, for they were started without the "
                     r"environment", outcome.stderr), f"it said {outcome.stderr!r}")


def itself(case):
    """The command goes on as a program without the environment."""
    case.need_native("looking at what a program executes")
    outcome = case.record(["env", "-i", "LD_BIND_NOW=1", case.program("master.c"), "works"], ["--allow-no-sites"], log=False)
    expect(re.search(r"calltap: 1 process \(master, \d+\) is not in the trace", outcome.stderr), f"it said {outcome.stderr!r}")


def handed_on(case):
    """With the program's environment they are in the trace, and there is nothing to say."""
    case.need_native("looking at what a program executes")
    outcome = case.record([case.program("master.c"), "hands", "3"], log=False)
    expect(outcome.status == 42 and "not in the trace" not in outcome.stderr, f"{outcome.status}: {outcome.stderr!r}")
    expect(len(case.trace().processes) == 4, f"processes: {case.trace().processes}")


def own_root(case, *programs):
    """A folder with these programs of the system's, and their libraries, which nothing else can be seen from."""
    root = os.path.join(case.folder, "root")
    for program in programs:
        for path in [program, *re.findall(r"(/\S+) \(0x", case.run(["ldd", program]).stdout)]:
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
    return root


def elsewhere(case):
    """Programs that are executed in another root, where the agent's file is not: they run as ever, and that is told."""
    case.need_native("programs as distributed")
    if os.geteuid():
        raise Skip("only root can change the root")
    root = own_root(case, "/bin/sh", "/bin/echo")
    command = ["chroot", root, "/bin/sh", "-c", "/bin/echo one; /bin/echo two; exit 7"]
    plain = case.run(command)
    expect(plain.status == 7 and plain.stdout == "one\ntwo\n", f"plain: {plain.status} {plain.stdout!r} {plain.stderr!r}")
    library = case.program("library.c")
    for before in ([], ["env", f"LD_PRELOAD={library}"]):  # which the new root has neither
        wanted = case.run([*before, *command])
        outcome = case.record([*before, *command], ["--allow-no-sites"], log=False)
        case.same_outcome(wanted, outcome)
        expect("programs where the agent's file cannot be seen" in outcome.stderr or before, f"it said {outcome.stderr!r}")


NARROW = """
	.globl	_start
_start:	movl	$1, %eax
	movl	$7, %ebx
	int	$0x80
"""


def narrow(case):
    """A 32-bit program: untraced, and told."""
    case.need_native("a program of this CPU's other kind")
    if case.cpu.name != "x86_64":
        raise Skip("this CPU's assembler makes 64-bit programs alone")
    source, program = os.path.join(case.folder, "narrow.s"), os.path.join(case.folder, "narrow")
    with open(source, "w", encoding="ascii") as file:
        file.write(NARROW)
    for command in (["as", "--32", "-o", program + ".o", source], ["ld", "-m", "elf_i386", "-o", program, program + ".o"]):
        done = case.run(command)
        expect(done.status == 0, f"{command}: {done.stderr}")
    command = ["sh", "-c", '"$0"; echo $?; env "$0"; echo $?', program]
    plain = case.run(command)
    if plain.stdout != "7\n7\n":
        raise Skip("the kernel runs no 32-bit programs")
    outcome = case.record(command, ["--allow-no-sites"], log=False)
    case.same_outcome(plain, outcome)
    expect("2 processes executed 32-bit programs" in outcome.stderr, f"it said {outcome.stderr!r}")


def missed(case):
    """Programs whose agent cannot reach the tool, or whose loader leaves it out: those that run for a moment are told."""
    case.need_native("looking at what a program executes")
    if os.geteuid() or case.run(["unshare", "-n", "true"]).status:
        raise Skip("only root can make a network namespace")
    outcome = case.record(["sh", "-c", "unshare -n sleep 2; exit 7"], ["--allow-no-sites"], log=False)
    expect(outcome.status == 7 and re.search(r"1 process \(sleep, \d+\) is not in the trace: .* another network namespace", outcome.stderr),
           f"{outcome.status}: {outcome.stderr!r}")
    outcome = case.record(["sh", "-c", "sleep 2; exit 7"], ["--allow-no-sites"], log=False)
    expect(outcome.status == 7 and "not in the trace" not in outcome.stderr, f"{outcome.status}: {outcome.stderr!r}")


def other_net(case):
    """Programs that are executed in another network namespace, however short: told; and in another root besides they run as ever."""
    case.need_native("programs as distributed")
    if os.geteuid() or case.run(["unshare", "-n", "true"]).status:
        raise Skip("only root can make a network namespace")
    root = own_root(case, "/bin/sh", "/bin/echo")
    for command in (["unshare", "-n", "/bin/echo", "one"], ["unshare", "-n", "chroot", root, "/bin/echo", "one"],
                    ["unshare", "-n", "sh", "-c", f"(exec chroot {root} /bin/echo one); exit 7"]):
        outcome = case.record(command, ["--allow-no-sites"], log=False)
        case.same_outcome(case.run(command), outcome)
        expect("in another network namespace" in outcome.stderr, f"{command}: it said {outcome.stderr!r}")


def ends_by_itself(case):
    """A child out of reach of the tool ends by the system call exit() of its only thread: with its own status."""
    program = case.program("lastexit.c")
    for where in ("here", "files", "net"):
        plain = case.run([program, where])
        if plain.status == 77 or (where == "net" and not case.cpu.native):
            continue  # only root can make a network namespace, and an emulator asks for none
        for options in (["--stock", "never"], ["-l", "*:*", "-p", "function"]):
            case.same_outcome(plain, case.record([program, where], ["--mode", "drop", *options], log=False), stderr=False)


def again(case):
    """A daemon, which the command has left, executes itself anew: it is recorded to its end."""
    case.need_native("looking at what a program executes")
    done = os.path.join(case.folder, "done")
    outcome = case.record([case.program("again.c"), done], log=False)
    expect(outcome.status == 0 and os.path.exists(done), f"{outcome.status}: {outcome.stderr!r}, it has ended: {os.path.exists(done)}")
    expect(case.trace().called().get("call_anew") == 1000, f"recorded {case.trace().called()}")


def tasks(case):
    """Who counts its threads by the links of a folder of /proc counts its own."""
    program = case.program("tasks.c")
    plain = case.run([program])
    for options in ([], ["-p", "nop"]):
        case.same_outcome(plain, case.record([program], options, log=False))


CASES = {}
SINGLE = {
    "family-elsewhere": elsewhere,
    "family-narrow": narrow,
    "family-missed": missed,
    "family-other-net": other_net,
    "family-left-alone-ends": ends_by_itself,
    "family-again": again,
    "family-tasks": tasks,
    "family-attached-children": children,
    "family-attached-child": one_child,
    "family-attached-alone": no_children,
    "family-spawned": spawned,
    "family-executes": itself,
    "family-handed-on": handed_on,
}

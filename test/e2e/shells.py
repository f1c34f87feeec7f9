"""`calltap shell`: /sys/kernel/tracing is the program's there and nowhere else, in the hands of unmodified tools; shells on
a terminal keep their jobs; and whoever is killed, nothing hangs, nothing stays mounted, and the program is as it was."""
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import completing
from endings import finish
from harness import Process, Skip, copied, expect, stop, until
from hostile import NOBODY, ROOT, readable_copies
from steer import calltap, own_place
from steering import Program, left_alone
from tracefs import native, restored

PLACE = "/sys/kernel/tracing"
TEXT_OF_REFUSAL = re.compile("cannot open /dev/fuse|there is no /sys/kernel/tracing|cannot mount|forbids user namespaces|"
                             "cannot make a user namespace|built without FUSE")


def mounts():
    """What is mounted for this process where a shell would mount something."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return sorted(line.split(" - ")[1] + line.split()[4] for line in file if re.match("/(sys|proc|dev)", line.split()[4]))


def refused(said):
    if TEXT_OF_REFUSAL.search(said):
        raise Skip(said.strip())


def shell(case, *words, status=0, prefix=()):
    """Run `calltap shell`, which must end with this status; returns what it has printed."""
    done = case.run([*prefix, case.tool, "shell", *map(str, words)])
    refused(done.stderr)
    expect(done.status == status, f"calltap shell {words}: exit status {done.status}: {done.stdout[-500:]!r} {done.stderr!r}")
    return done.stdout if not status else done.stdout + done.stderr


@contextlib.contextmanager
def of_program(case):
    """A program; it, and the mounts of this process, are afterwards as they were."""
    own_place(case)
    before = mounts()
    with Program(case, "1") as program, left_alone(program):
        yield program
    expect(mounts() == before, f"mounts have changed: {set(mounts()) ^ set(before)}")


GRAPH = """cd /sys/kernel/tracing
echo once > set_graph_function
echo function_graph > current_tracer
until grep -q 'once()' trace; do sleep 0.02; done
grep '^once$' available_filter_functions
echo nop > current_tracer
"""


def command(case):
    """A command uses the files at their place; its status is the tool's; the kernel's own files stay as they are."""
    with of_program(case) as program:
        found = shell(case, program.pid, "sh", "-ec", GRAPH)
        expect(found == "once\n", f"the functions are not the program's: {found!r}")
        told = shell(case, program.pid, "sh", "-c", "id -u; cat /proc/sys/kernel/ftrace_enabled; echo 0 > /proc/sys/kernel/ftrace_enabled; "
                     "cat /proc/sys/kernel/ftrace_enabled; grep ' tracefs ' /proc/mounts | cut -d' ' -f2 | head -1")
        expect(told == f"0\n1\n0\n{PLACE}\n" or not os.path.exists("/proc/sys/kernel/ftrace_enabled"), told)
        if os.path.exists("/proc/sys/kernel/ftrace_enabled"):
            with open("/proc/sys/kernel/ftrace_enabled", encoding="ascii") as file:
                expect(file.read() == "1\n", "the kernel's own setting was changed")
        for how, status in (("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM), ("kill -KILL $$", 128 + signal.SIGKILL)):
            shell(case, program.pid, "sh", "-c", how, status=status)
            shell(case, "--command", how, program.pid, status=status)
        shell(case, program.pid, "--", "test", "-f", f"{PLACE}/trace_pipe")
        expect("cannot run" in shell(case, program.pid, "no-such-program", status=127), "what cannot be run")
        shell(case, program.pid, case.folder, status=126)
        expect("options come before the PID" in shell(case, program.pid, "-p", "function", status=1), "an option behind the PID")
        expect("two commands" in shell(case, "-c", "true", program.pid, "true", status=1), "two commands")
        shell(case, status=1)
        for _ in range(5):  # whichever of the two processes ends first
            expect("there is no process" in shell(case, 4194304, "true", status=2), "no such process")
        expect("no such file" in shell(case, "-c", "echo run", "--", "./no-such-program", status=1), "a program that is not there")
        expect(shell(case, "--allow-no-sites", "-c", f"grep -q . {PLACE}/README && echo there", "--", "true") == "there\n", "a program that has ended")


def started(case):
    """A program that is started for the shell has neither its input nor its signals, and ends with it."""
    own_place(case)
    before = mounts()
    script = f"until grep -q 'once()' {PLACE}/trace; do sleep 0.02; done; cat {PLACE}/saved_cmdlines; cat; exit 3"
    with open(os.path.join(case.folder, "input"), "w+", encoding="ascii") as file:
        file.write("what is there to read\n")
        file.seek(0)
        with Process([case.tool, "shell", "-p", "function_graph", "-c", script, "--", case.program("attachee.c"), "1"],
                     cwd=case.folder, env=case.environment(False), stdin=file, stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE, waited_for=True) as process:
            out, err = process.communicate(timeout=60)
    refused(err.decode())
    out = out.decode()
    expect(process.returncode == 3 and "what is there to read\n" in out, f"{process.returncode}: {out!r} {err!r}")
    pid = int(re.search(r"ready (\d+)", out)[1])
    expect(f"{pid} attachee\n" in out, "the tree is of another program")
    expect(not os.path.exists(f"/proc/{pid}"), "the program runs on")
    expect(mounts() == before, "a mount stays")


class Open:
    """`calltap shell` with a command that waits, and the processes that belong to it."""

    def __init__(self, case, program, script):
        self.case = case
        self.told = os.path.join(case.folder, "told")
        with open(self.told, "wb") as file:
            self.process = Process([case.tool, "shell", str(program.pid), "sh", "-c", f"echo at $$; {script}"], cwd=case.folder,
                                   env=case.environment(False), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            self.inner = int(until("the command", lambda: re.search(r"at (\d+)", self.said()) or self.ended())[1])
        except BaseException:
            stop(self.process)
            raise
        self.server = next(pid for pid in self.children() if pid != self.inner)

    def ended(self):
        if self.process.poll() is not None:
            refused(self.said())
            expect(False, f"calltap shell ended with {self.process.returncode}: {self.said()!r}")

    def said(self):
        with open(self.told, encoding="utf-8", errors="replace") as file:
            return file.read()

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return list(map(int, file.read().split()))

    def look(self, *words):
        """Run a command among the mounts of the shell."""
        return self.case.run(["nsenter", "-t", str(self.inner), "-m", *words])


def gone(pid):
    """The process has ended, whether somebody has taken note of it or not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(") ")[2][0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def killed(case):
    """Each of the three processes is killed while a reader waits: the others end or go on, and nobody waits for ever."""
    with of_program(case) as program:
        reader = f"cat {PLACE}/trace_pipe; echo read $?; sleep 60 & wait $!; echo slept"
        opened = Open(case, program, reader)
        os.kill(opened.server, signal.SIGKILL)
        until("the reader's end", lambda: "read 1" in opened.said())
        until("the front to tell of it", lambda: "nothing is there any more" in opened.said())
        restored(program)
        done = opened.look("ls", PLACE)
        expect(done.status and "not connected" in done.stderr, f"the tree without its server: {done.stdout!r} {done.stderr!r}")
        os.kill(opened.process.pid, signal.SIGTERM)  # which is for the shell
        expect(finish(opened.process) == 128 + signal.SIGTERM, f"status {opened.process.returncode}")

        opened = Open(case, program, reader)
        os.kill(opened.inner, signal.SIGKILL)
        expect(finish(opened.process) == 128 + signal.SIGKILL, f"status {opened.process.returncode}")
        expect(gone(opened.server), "the server goes on")
        restored(program)

        opened = Open(case, program, reader)
        os.kill(opened.process.pid, signal.SIGKILL)
        finish(opened.process)
        until("the server's end", lambda: gone(opened.server))
        until("the shell's end", lambda: gone(opened.inner))
        restored(program)


def storm(rounds):
    """Any of the processes is killed, or asked to end, at any time, also before there is a shell: all end, and the program
    is as it was.  The files are in use meanwhile."""
    def test(case):
        busy = (f"cd {PLACE} || exit; (cat trace_pipe > /dev/null & while echo function_graph > current_tracer && "
                "echo function > current_tracer; do :; done) 2> /dev/null; cat trace | wc -c")
        with of_program(case) as program:
            shell(case, program.pid, "true")
            for seed in range(rounds):
                chance = random.Random(seed)
                front = Process([case.tool, "shell", str(program.pid), "sh", "-c", busy], cwd=case.folder,
                                env=case.environment(False), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, start_new_session=True)
                time.sleep(chance.random() * chance.choice((0.02, 0.1, 0.3)))
                with open(f"/proc/{front.pid}/task/{front.pid}/children", encoding="ascii") as file:
                    children = list(map(int, file.read().split()))
                how = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
                victims = [front.pid, *children] if how == signal.SIGKILL else [front.pid]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(victims), how)
                finish(front)
                for child in children:
                    until(f"the end of process {child}, seed {seed}", lambda pid=child: gone(pid))
            restored(program)
    return test


def target_ends(case):
    """The program ends while the shell runs: what was recorded can be read, and changing anything fails."""
    own_place(case)
    script = (f"cd {PLACE}; echo function_graph > current_tracer; until grep -q 'once()' trace; do sleep 0.02; done; echo at work; "
              "while echo 5 > max_graph_depth; do sleep 0.05; done 2> /dev/null; grep -c 'once()' trace > /dev/null && echo is there; "
              "cat trace_pipe > /dev/null && echo end of pipe; { echo 6 > max_graph_depth; } 2> /dev/null || echo refused; exit 9")
    with Program(case, "1") as program:
        opened = Open(case, program, script)
        until("work", lambda: "at work" in opened.said())
        program.end()
        expect(finish(opened.process) == 9, f"status {opened.process.returncode}: {opened.said()!r}")
        said = opened.said()
        expect("is there\nend of pipe\nrefused\n" in said, said)


def nested(case):
    """A shell in a shell, of the same program: a further instance of its session, over the first tree, and gone after it."""
    with of_program(case) as program:
        told = shell(case, program.pid, "sh", "-ec",
                     f"echo function_graph > {PLACE}/current_tracer; {case.tool} shell {program.pid} sh -c "
                     f"'cat {PLACE}/current_tracer; echo function > {PLACE}/current_tracer'; cat {PLACE}/current_tracer")
        expect(told == "nop\nfunction_graph\n", told)


def terminal(case):
    """An interactive shell has the terminal: ^C and ^Z are for its jobs, `suspend` gives the terminal back until fg, and a
    shell that is killed leaves it to the one outside."""
    own_place(case)
    with Program(case, "1") as program:
        outer = completing.Shell(case, "bash", "--norc", "--noprofile", "-i")
        try:
            outer.type(f"export XDG_RUNTIME_DIR={case.folder} SHELL=/bin/bash\rPS1='outer> '\r")
            outer.wait_for("\nouter> ")
            outer.type(f"SHELL=/bin/sh PS1='inner> ' calltap shell {program.pid} bash --norc --noprofile -i\r")
            said = outer.wait_for("inner> ")
            refused(said)
            outer.type(f"cat {PLACE}/current_tr*\r")
            expect("nop\r\n" in outer.wait_for("inner> "), "the tree is not there")
            outer.type(f"cat {PLACE}/trace_pipe; echo ended by $?\r")
            outer.wait_for("ended by $?")
            time.sleep(0.2)  # until the reader waits; earlier, ^C ends it as well
            outer.type("\x03")
            outer.wait_for("inner> ")
            outer.type("sleep 77\r")
            time.sleep(0.2)
            outer.type("\x1a")
            outer.wait_for("Stopped")
            outer.wait_for("inner> ")
            outer.type("kill %1; wait; suspend -f\r")
            outer.wait_for("outer> ")
            outer.type("jobs; fg\r")
            outer.wait_for("calltap shell")
            outer.type(f"\recho on > {PLACE}/trace_marker; grep -o ' on$' {PLACE}/trace\r")
            outer.wait_for("\n on\r\n")
            outer.type("kill -9 $$\r")
            outer.wait_for("outer> ")
            outer.type("echo status $?; stty -a | grep -o ' icanon'\r")
            outer.wait_for("status 137\r\n")
            outer.wait_for(" icanon\r\n")
            # A command is in the front's own group: the terminal's signals come to both.
            outer.type(f"calltap shell {program.pid} sh -c 'echo at-work; while sleep 0.1; do echo tick; done'\r")
            outer.wait_for("\nat-work")
            outer.type("\x1a")
            outer.wait_for("Stopped")
            outer.wait_for("outer> ")
            outer.type("fg; echo status $?\r")
            outer.wait_for("calltap shell")
            outer.wait_for("\ntick")
            outer.type("\x03")
            outer.wait_for("status 130\r\n")
            outer.type(f"calltap shell {program.pid}\r")
            expect(f"is that of PID {program.pid} (attachee)" in outer.wait_for("leave it"), "nothing tells where the tree is")
            program.end()
            outer.wait_for("(attachee) has ended")
            outer.type("exit 5\r")
            outer.wait_for("outer> ")
            outer.type("echo status $?\r")
            outer.wait_for("status 5\r\n")
        finally:
            outer.end()


# As another user, who may open /dev/fuse: in mounts of the case's own.
AS_USER = """set -e
mount --make-rprivate /
mount -t tmpfs -o mode=0755 none /mnt
mknod -m 0666 /mnt/fuse c 10 229
mount --bind /mnt/fuse /dev/fuse
{more}
exec setpriv --reuid={user} --regid={user} --clear-groups sh -c "$1"
"""


def as_user(case, script, more=""):
    """Run a script, in which $TOOL is the tool and $PROGRAM a program, as another user."""
    if os.geteuid() or case.run(["setpriv", "--version"]).status or case.run(["unshare", "-m", "true"]).status:
        raise Skip("needs root, setpriv and unshare, to be another user")
    with readable_copies(case.tool, case.agent()) as folder:
        tool = os.path.join(folder, os.path.relpath(case.tool, ROOT))
        program = copied(case.program("attachee.c"), folder)
        for path in (tool, program):
            os.chmod(path, 0o755)
        before = mounts()
        done = case.run(["unshare", "-m", "env", "-u", "XDG_RUNTIME_DIR", f"TOOL={tool}", f"PROGRAM={program}", "sh", "-c",
                         AS_USER.format(user=NOBODY, more=more), "sh", "cd /; " + script])
        expect(mounts() == before, "a mount stays")
    return done


SYSCTLS = """cd /proc/sys/kernel; ls; echo --
cat ostype threads-max; wc -l < random/boot_id; echo --
tree=/sys/kernel/tracing/stack_tracer_enabled
cat stack_tracer_enabled; echo 1 > stack_tracer_enabled; cat stack_tracer_enabled $tree; echo 0 > $tree; cat stack_tracer_enabled; echo --
(echo 1 > no_such_sysctl) 2> /dev/null || echo refused
unshare -u sh -c "(echo $TOLD > hostname) 2> /dev/null; cat hostname"
"""


def check_sysctls(told, hostname):
    """The kernel's settings are there, with one more where it has no stack tracer; they are the kernel's own."""
    names = os.listdir("/proc/sys/kernel")
    values = "".join(open(f"/proc/sys/kernel/{name}", encoding="ascii").read() for name in ("ostype", "threads-max"))
    listed, read, stacks, others_told = told.split("--\n")
    expect(set(listed.split()) == {*names, "stack_tracer_enabled"}, f"listed: {set(listed.split()) ^ set(names)}")
    expect(read == values + "1\n", f"{read!r} is not {values!r}")
    expect(stacks == "0\n1\n1\n0\n", f"stack_tracer_enabled: {stacks!r}")
    expect(others_told == f"refused\n{hostname}\n", others_told)


def sysctls(case):
    """sysctl kernel.stack_tracer_enabled is the tree's file, also where the kernel has none; the other settings stay what they are."""
    if case.run(["unshare", "-u", "true"]).status:
        raise Skip("needs root, to see that a setting is the kernel's")
    with of_program(case) as program:
        check_sysctls(shell(case, program.pid, "env", "TOLD=calltap-test", "sh", "-c", SYSCTLS), "calltap-test")


def user_sysctls(case):
    """As a user who is root in a user namespace alone, and may change nothing of the kernel's."""
    done = as_user(case, f"$PROGRAM 1 > /dev/null & TOLD=calltap-test $TOOL shell $! sh -c '{SYSCTLS}'; kill $!; wait $!")
    refused(done.stderr)
    check_sysctls(done.stdout, os.uname().nodename)


USER = """$PROGRAM 1 > /dev/null &
$TOOL shell $! sh -c '
id -u; grep -m1 " tracefs " /proc/mounts | cut -d" " -f2
cd /sys/kernel/tracing
echo once > set_graph_function; echo function_graph > current_tracer
until grep -q "once()" trace; do sleep 0.02; done
echo 0 > /proc/sys/kernel/ftrace_enabled; cat /proc/sys/kernel/ftrace_enabled
'"$TOOL"' set '$!' | grep ^tracer=
exit 6'
echo status $?
kill $!; wait $!; echo ended $?
"""


def user(case):
    """A user who is nobody else's root: in a user namespace, where tools find root."""
    if not os.path.exists("/proc/sys/kernel/ftrace_enabled"):
        raise Skip("this kernel has no ftrace_enabled")
    for more in ("", f"while umount -l {PLACE} 2> /dev/null; do :; done"):  # where the system has a tracefs, and where not
        done = as_user(case, USER, more)
        refused(done.stderr)
        expect(done.stdout == f"0\n{PLACE}\n0\ntracer=function_graph\nstatus 6\nended 42\n", f"{more}: {done.stdout!r} {done.stderr!r}")


def others(case):
    """Nobody else gets at the tree of a user's shell, not by its process either: root neither, as with all of FUSE."""
    script = "$PROGRAM 1 > /dev/null & $TOOL shell $! sh -c 'cat /sys/kernel/tracing/current_tracer; echo $$ > $PIPE/at; read x < $PIPE/go'; kill $!; wait"
    with tempfile.TemporaryDirectory() as pipe:
        os.chmod(pipe, 0o755)
        for name in ("at", "go"):
            os.mkfifo(os.path.join(pipe, name))
            os.chmod(os.path.join(pipe, name), 0o666)
        look = ("import os, subprocess, sys; place = sys.argv[1]; at = open(place + '/at').read().strip(); "
                "tree = os.path.join('/proc', at, 'root', 'sys/kernel/tracing'); paths = [tree + '/current_tracer', tree]; "
                "seen = [subprocess.run([*who, 'cat' if 'tracer' in path else 'ls', path], capture_output=True, text=True).returncode "
                "for path in paths for who in ([], ['setpriv', '--reuid=12345', '--regid=12345', '--clear-groups'])]; "
                "print(seen); open(place + '/go', 'w').write('x')")
        with Process([sys.executable, "-c", look, pipe], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as looker:
            try:
                done = as_user(case, script.replace("$PIPE", pipe))
                refused(done.stderr)
                seen = looker.communicate(timeout=30)[0]
            finally:
                looker.kill()  # it waits for a shell that may not have come
                stop(looker)
    expect(done.stdout == "nop\n", f"{done.stdout!r} {done.stderr!r}")
    codes = re.fullmatch(r"\[(\d+), (\d+), (\d+), (\d+)\]\n", seen)
    expect(codes and all(map(int, codes.groups())), f"others see the tree: {seen!r}")


def forbidden(case):
    """Where there are no user namespaces, the message names the setting."""
    done = as_user(case, "$PROGRAM 1 > /dev/null & $TOOL shell $! true; echo status $?; kill $!; wait $!; echo ended $?",
                   "exec unshare -r sh -c 'echo 0 > /proc/sys/user/max_user_namespaces || exit 77; exec setpriv --bounding-set=-all --inh-caps=-all sh -c \"$1\"' "
                   "sh \"$1\"")
    if done.status == 77 or "unshare" in done.stderr:
        raise Skip(f"no user namespaces to take away: {done.stderr}")
    expect(done.stdout == "status 1\nended 42\n" and "sysctl user.max_user_namespaces=" in done.stderr, f"{done.stdout!r} {done.stderr!r}")


def kernel_tools(case):
    """trace-cmd, as it is: it finds the directory by itself."""
    if not shutil.which("trace-cmd"):
        raise Skip("trace-cmd is not installed")
    with of_program(case) as program:
        expect("function_graph" in shell(case, program.pid, "trace-cmd", "list", "-t").split(), "trace-cmd list -t")
        functions = shell(case, program.pid, "trace-cmd", "list", "-f").splitlines()
        expect("once" in functions and "leaf_1" in functions, f"trace-cmd list -f: {functions[:20]}")
        shown = shell(case, "-p", "function_graph", "-l", "leaf_*", "-c", f"until grep -q leaf_ {PLACE}/trace; do sleep 0.02; done; "
                      f"trace-cmd stop; trace-cmd show", program.pid)
        expect(re.search(r"\| +leaf_1\(\);", shown), f"trace-cmd show: {shown[:500]}")
        for tracer, line in (("function", r"function: +leaf_\d <-- (\w+)"), ("function_graph", r"funcgraph_entry: .*\|  +(\w+)\(\)")):
            report = shell(case, program.pid, "sh", "-ec", f"trace-cmd record -q -p {tracer} -o {tracer}.dat sleep 0.3 > record.out 2>&1; "
                           f"trace-cmd report -i {tracer}.dat -O parent")
            names = set(re.findall(line, report))
            expect(len(names) > 1 and not [name for name in names if name[0].isdigit() or name == "unknown"],
                   f"trace-cmd record -p {tracer}: {names}, {report[:1000]}")


def known_symbols(path):
    """{address: [(name, size)]} of a program's functions."""
    symbols = {}
    for line in subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tT":
            symbols.setdefault(int(words[0], 16), []).append((words[3], int(words[1], 16)))
    return symbols


def addresses(case):
    """/proc/kallsyms: each function at its address in the process; the greatest address that is not above another one is the
    function that this lies in, or the object, or nobody knows.  A reader finds the text unchanged when it reads it again."""
    with of_program(case) as program:
        with open("/proc/kallsyms", encoding="ascii") as file:
            first = file.readline()
        told = shell(case, program.pid, "sh", "-c", f"cat /proc/kallsyms; echo again; cat {PLACE}/kallsyms")
        before, _, after = told.partition("again\n")
        expect(before == after, "the file has changed")
        with open("/proc/kallsyms", encoding="ascii") as file:
            expect(file.readline() == first, "the kernel's own symbols are covered outside")
        listed = [(int(line.split()[0], 16), line.split()[2]) for line in before.splitlines()]
        expect(listed == sorted(listed) and len({address for address, _ in listed}) == len(listed), "the addresses are not in order")
        with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
            base = min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith("/attachee"))
        known, found = known_symbols(case.program("attachee.c")), 0
        for address, name in listed:
            for symbol, size in known.get(address - base, []):
                if symbol != name:
                    continue
                found += 1
                for inside in (address, address + size - 1):
                    below = max(entry for entry in listed if entry[0] <= inside)
                    expect(below == (address, name), f"{name} does not hold its own {inside - address}: {below}")
                behind = max(entry for entry in listed if entry[0] <= address + size)
                expect(behind[1] == "attachee" or any(behind[1] == other for other, _ in known.get(behind[0] - base, [])),
                       f"behind {name} is {behind}")
        expect(found > 15 and listed[-1][1] == "tracing_mark_write" and ("unknown" in (name for _, name in listed)), f"{found} of {listed}")


def as_untraced(case):
    """What a program that is started for a shell does with signals is what it does untraced."""
    own_place(case)
    script = ["sh", "-c", "grep -E 'Sig(Ign|Cgt|Blk)' /proc/self/status"]
    done = case.run([case.tool, "shell", "--stock", "never", "--allow-no-sites", "-c", "sleep 0.5", "--", *script])
    refused(done.stderr)
    expect(done.stdout == case.run(script).stdout, f"{done.stdout!r} {done.stderr!r}")


SINGLE = {
    "shell-command": command,
    "shell-program": started,
    "shell-killed": killed,
    "shell-target-ends": target_ends,
    "shell-nested": nested,
    "shell-terminal": terminal,
    "shell-user": user,
    "shell-sysctls": sysctls,
    "shell-user-sysctls": user_sysctls,
    "shell-others": others,
    "shell-forbidden": forbidden,
    "shell-kernel-tools": kernel_tools,
    "shell-signals": as_untraced,
    "shell-addresses": addresses,
    "shell-storm": storm(30),
}
SINGLE = {name: native(test) for name, test in SINGLE.items()}
LONG = {"shell-long-storm": native(storm(500))}

"""Programs that are executed with an emptied environment: they see nothing of the agent, and are in the trace."""
import os
import shutil
import time

from endings import wait_for
from harness import Process, Skip, copied, expect, settled, stop
from musl import by_musl

AS_IT_IS = True  # what is executed by system programs, too
IN_PATH = ("execvp", "posix_spawnp")
WAYS = ("execve", "null", "few", "execle", "execvpe", "execv", "execl", "execlp", *IN_PATH, "posix_spawn", "vfork", "handler")
TIMES = 3  # that test/prog/emptied.c executes a program


def same(case, command, options=()):
    """What the program prints is what it prints untraced.  Returns the number of calls of shown()."""
    outcome = case.same_as_plain(command, ["--stock", "never", "--allow-no-sites", *options], log=False)
    return case.trace().called().get("shown", 0), outcome


def executed(way):
    """Each way to execute: all children are in the trace."""
    def test(case):
        case.need_native("programs with an emptied environment")
        program = case.program("emptied.c")
        # What is looked for lies in the working directory, which is the second folder of its PATH.
        if way in IN_PATH:
            os.symlink(program, os.path.join(case.folder, os.path.basename(program)))
        shown, outcome = same(case, [program, way])
        expect(shown == 3 * TIMES and "not in the trace" not in outcome.stderr, f"{shown} calls; {outcome.stderr}")
        case.readable()
    return test


def left(way, program=None):
    """Left alone: it runs as untraced, and nothing of it is in the trace."""
    def test(case):
        case.need_native("programs with an emptied environment")
        command = [case.program("emptied.c"), way]
        if program:
            command.append(program(case))
        shown, outcome = same(case, command)
        expect(not shown, f"{shown} calls; {outcome.stderr}")
    return test


def others(user):
    def made(case):
        """A copy with another user's rights."""
        if os.geteuid():
            raise Skip("only root can make a file another user's")
        path = os.path.join(case.folder, "others")
        copied(case.program("emptied.c"), path)
        os.chown(path, user, user)
        os.chmod(path, 0o6755)
        return path
    return made


def sanitized(case):
    """AddressSanitizer's shared runtime would end a program where another library comes first."""
    case.need_flags("-fsanitize=address")
    if case.build[0] != "gcc":
        raise Skip("of gcc, whose runtime is a shared library")
    return case.program("emptied.c", variant="-asan", flags=["-fsanitize=address"])


def greedy(case):
    """ThreadSanitizer's runtime in the program itself wants the tracer's addresses; such programs are left alone."""
    if not shutil.which("clang"):
        raise Skip("clang is not installed")
    case.built_by(("clang", *case.build[1:]))
    case.need_flags("-fsanitize=thread")
    return case.program("emptied.c", variant="-tsan", flags=["-fsanitize=thread"])


def script(case):
    path = os.path.join(case.folder, "script")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!{case.program('emptied.c')} shows\n")
    os.chmod(path, 0o755)
    return settled(path)


def by_script(case):
    """A script's interpreter is what is executed."""
    case.need_native("programs with an emptied environment")
    shown, _ = same(case, [case.program("emptied.c"), "execve", script(case)])
    expect(shown == 3 * TIMES, f"{shown} calls")


def deep(case):
    """An emptied environment all the way: each program's variables are put back by the one before."""
    case.need_native("programs with an emptied environment")
    program = case.program("emptied.c")
    inner = f"env -i A=1 sh -c 'env -i {program} execve; exec env -i {program} itself'"
    shown, outcome = same(case, ["env", "-i", "B=2", "sh", "-c", f"env; {inner}; env"])
    expect(shown == 3 * TIMES + 3 and "not in the trace" not in outcome.stderr, f"{shown} calls; {outcome.stderr}")


def interpreters(case):
    """What python3 and perl start so."""
    case.need_native("programs with an emptied environment")
    program = case.program("emptied.c")
    python = f"import subprocess as s; [print(s.run(['{program}', 'shows'], env={{}}, close_fds=c).returncode) for c in (0, 1)]"
    perl = f"$| = 1; %ENV = (); print system('{program}', 'shows')"
    commands = [command for command in (["python3", "-c", python], ["perl", "-e", perl], ["bash", "-c", f"exec -c {program} shows"])
                if shutil.which(command[0])]
    for command in commands:
        shown, outcome = same(case, command)
        expect(shown and "not in the trace" not in outcome.stderr, f"{command[0]}: {shown} calls; {outcome.stderr}")


def fails(case):
    """What cannot be executed leaves the program as it is, with the same errors."""
    case.need_native("programs with an emptied environment")
    text = os.path.join(case.folder, "text")
    with open(text, "w", encoding="ascii") as file:
        file.write("no program\n")
    settled(text)
    for mode in (0o644, 0o755):
        os.chmod(text, mode)
        same(case, [case.program("emptied.c"), "fails", text])


def daemon(case):
    """Forked from such a program, a child's first traced call may come when all others have ended: it is waited for."""
    case.need_native("programs with an emptied environment")
    outcome = case.record(["env", "-i", case.program("emptied.c"), "daemon"], ["--stock", "never", "--allow-no-sites"], log=False)
    shown = case.trace().called().get("shown", 0)
    expect(not outcome.status and shown == 3, f"status {outcome.status}, {shown} calls; {outcome.stderr}")


def tool_killed(case):
    """The tool is killed while programs are executed so: they go on as untraced."""
    case.need_native("programs with an emptied environment")
    program = case.program("emptied.c")
    done = os.path.join(case.folder, "done")
    line = f'i=0; while [ $i -lt 60 ]; do env -i {program} shows || i=$((i+1)); done; echo all > {done}'
    plain = case.run(["sh", "-c", line])
    os.unlink(done)
    output = os.path.join(case.folder, "output")
    for after in (0.02, 0.1, 0.2, 0.3):
        with open(output, "wb") as file:
            tool = Process(case.record_command(["sh", "-c", line], ["--stock", "never", "--allow-no-sites"]), cwd=case.folder,
                           env=case.environment(False), stdout=file, stderr=file, start_new_session=True)
        try:
            time.sleep(after)
            tool.kill()
            tool.wait()
            until = time.monotonic() + 20
            if os.path.getsize(output):  # the shell was started
                while not os.path.exists(done) and time.monotonic() < until:
                    time.sleep(0.01)
                wait_for(done, "all")
                with open(output, encoding="utf-8") as file:
                    expect(file.read() == plain.stdout, "what they print is another thing")
        finally:
            stop(tool)
        if os.path.exists(done):
            os.unlink(done)


CASES = {}
SINGLE = {f"emptied-{way}": executed(way) for way in WAYS}
SINGLE |= {f"emptied-musl-{way}": by_musl(executed(way)) for way in WAYS}
SINGLE |= {
    "emptied-many": left("many"),
    "emptied-longest": left("longest"),
    "emptied-sandbox": left("sandbox"),
    "emptied-set-uid": left("execve", others(65534)),
    "emptied-asan": left("execve", sanitized),
    "emptied-tsan": left("execve", greedy),
    "emptied-script": by_script,
    "emptied-deep": deep,
    "emptied-interpreters": interpreters,
    "emptied-fails": fails,
    "emptied-daemon": daemon,
    "emptied-tool-killed": tool_killed,
}

"""Static programs that a traced program executes: they are in the trace from their start, and do what they do untraced."""
import contextlib
import os
import random
import re
import signal
import subprocess
import time

import builds
from emptied import IN_PATH, TIMES, same
from endings import wait_for
from harness import Process, expect, stop

AS_IT_IS = True  # what is executed by system programs, too
WAYS = ("execve", "null", "execle", "execvpe", "execv", "execl", "execlp", "vfork", "handler", "posix_spawn")
MAKERS = {"static": ("-static", "-fno-pie", "-no-pie"), "static-pie": ("-static-pie", "-fPIE"), "static-musl": ("-static",)}


def executed(case, libc, source="emptied.c"):
    """Path of the static program."""
    case.need_native("static programs")
    build = case.build
    if libc == "static-musl":
        case.built_by(builds.STATIC["static-musl"])
        path = case.program(source)
        case.built_by(build)
        return path
    case.need_flags(MAKERS[libc][0])
    return case.program(source, variant="-" + libc, flags=MAKERS[libc])


def in_each_way(libc):
    def test(case):
        program = executed(case, libc)
        for way in WAYS:
            shown, outcome = same(case, [case.program("emptied.c"), way, program])
            expect(shown == 3 * TIMES and "not in the trace" not in outcome.stderr, f"{way}: {shown} calls; {outcome.stderr}")
    return test


def found_in_path(libc):
    """posix_spawnp() finds the program in the second folder of its PATH."""
    def test(case):
        program = executed(case, libc)
        os.symlink(program, os.path.join(case.folder, os.path.basename(program)))
        shown, outcome = same(case, [case.program("emptied.c"), "posix_spawnp", program])
        expect(shown == 3 * TIMES and "not in the trace" not in outcome.stderr, f"{shown} calls; {outcome.stderr}")
    return test


def moves(here, there, count):
    """A name that an action has looked for in another folder: what runs counts, not what has that name here."""
    def test(case):
        programs = {"static": executed(case, "static"), "dynamic": case.program("emptied.c")}
        folder = os.path.join(case.folder, "there")
        os.mkdir(folder)
        os.symlink(programs[here], os.path.join(case.folder, "program"))
        os.symlink(programs[there], os.path.join(folder, "program"))
        shown, outcome = same(case, executing(case, "spawn-moves", os.path.join(folder, "program")))
        expect(shown == 3 * count, f"{shown} calls; {outcome.stderr}")
    return test


def executing(case, way, program, by="dynamic"):
    """test/prog/executes_static.c, built so, executes the program in that way."""
    linked = by == "dynamic"
    return [case.program("executes_static.c", variant="" if linked else "-" + by,
                         flags=["-pthread"] if linked else ["-pthread", *MAKERS[by]]), way, program, "shows"]


def told(text):
    """How many programs the tool names that were executed and are not in the trace."""
    match = re.search(r"calltap: (\d+) static programs? w", text)
    return int(match.group(1)) if match else 0


def does(way, count, libc="static", by="dynamic"):
    """The same becomes of all, and so often the program is in the trace."""
    def test(case):
        command = executing(case, way, executed(case, libc), by)
        plain = case.run(command)
        for _ in range(3):
            traced = case.record(command, ["--stock", "never", "--allow-no-sites"], log=False)
            if "did not answer" not in traced.stderr and "gave up before" not in traced.stderr:
                break  # else this machine has kept the tool from its CPUs for half a second, which it tells
        lines = [sorted(outcome.stdout.splitlines()) for outcome in (plain, traced)]
        expect(plain.status == traced.status and lines[1] == lines[0], f"{lines[1]}, plain {lines[0]}")
        shown = case.trace().called().get("shown", 0)
        expect(shown == 3 * count, f"{shown} calls; {traced.stderr}")
        case.readable()
    return test


def fails(way, by="dynamic"):
    """What cannot be executed: the tool has taken hold of the process, and lets go of it; the error is the same."""
    def test(case):
        program = os.path.join(case.folder, "busy")
        with open(executed(case, "static"), "rb") as file:
            data = file.read()
        with open(program, "wb") as file:
            file.write(data)
            file.flush()
            os.chmod(program, 0o755)
            began = time.monotonic()
            outcome = case.same_as_plain(executing(case, way, program, by), ["--stock", "never", "--allow-no-sites"], log=False)
            expect(outcome.stdout.count("Text file busy") == 3, outcome.stdout)
            expect(time.monotonic() - began < 10, "it was held for long")
    return test


def under_signals(case):
    """Handlers make children, too: one of these may be taken for the spawned one, which runs untraced then."""
    shown, outcome = same(case, executing(case, "spawn-signals", executed(case, "static")))
    expect(shown and not shown % 3, f"{shown} calls; {outcome.stderr}")


def stripped(case):
    """Refused, and told; it runs as ever."""
    program = os.path.join(case.folder, "stripped")
    done = case.run(["strip", "-o", program, executed(case, "static")])
    expect(not done.status, done.stderr)
    shown, outcome = same(case, [case.program("emptied.c"), "execv", program])
    expect(not shown and "static programs were executed, and are not in the trace" in outcome.stderr, outcome.stderr)


def by_static(libc):
    """A static program executes another one, or itself, in each way: glibc's functions all come to its execve()."""
    def test(case):
        program = executed(case, libc)
        # What is looked for lies in the working directory, which is the second folder of its PATH.
        os.symlink(program, os.path.join(case.folder, os.path.basename(program)))
        for way in (*WAYS, *IN_PATH):
            shown, outcome = same(case, [program, way])
            expect(shown == 3 * TIMES and "not in the trace" not in outcome.stderr, f"{way}: {shown} calls; {outcome.stderr}")
    return test


def by_static_musl(case):
    """There is no room on the stack of its posix_spawn() for the agent: what musl's execve() executes runs untraced."""
    for way in ("execve", "posix_spawn"):
        shown, outcome = same(case, [executed(case, "static-musl"), way])
        expect(not shown, f"{way}: {shown} calls; {outcome.stderr}")


def tool_killed(libc, way="many", by="dynamic"):
    """The tool is killed while programs are executed: all of them run, and to their ends."""
    def test(case):
        command = executing(case, way, executed(case, libc), by)
        plain = case.run(command)
        wanted = sorted(plain.stdout.splitlines())
        command = ["sh", "-c", '"$@"; echo ended', "sh", *command]
        began = time.monotonic()
        case.record(command, ["--stock", "never", "--allow-no-sites"], log=False)
        lasts = time.monotonic() - began
        output = os.path.join(case.folder, "output")
        met = 0
        for _ in range(25):
            with open(output, "wb") as file:
                tool = Process(case.record_command(command, ["--stock", "never", "--allow-no-sites"]), cwd=case.folder,
                               env=case.environment(False), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL,
                               start_new_session=True)
            try:
                time.sleep(lasts * random.uniform(0.2, 1))
                tool.kill()
                tool.wait()
                if os.path.getsize(output):
                    wait_for(output, "ended")
                    with open(output, encoding="utf-8") as file:
                        lines = sorted(file.read().splitlines())
                    expect(lines == sorted([*wanted, "ended"]), f"{lines}, plain {wanted}")
                    met += 1
            finally:
                stop(tool)
        expect(met, "no moment of the programs' starts was met")
    return test


def tool_stopped(way, count):
    """The tool stops for a while, at any moment: all programs run to their ends, and each that is not traced is told."""
    def test(case):
        command = executing(case, way, executed(case, "static"))
        wanted = sorted(case.run(command).stdout.splitlines())
        began = time.monotonic()
        case.record(command, ["--stock", "never", "--allow-no-sites"], log=False)
        lasts = time.monotonic() - began
        missed = rounds = 0
        while rounds < 8 or (not missed and rounds < 40):
            rounds += 1
            with contextlib.ExitStack() as stack:
                tool = Process(case.record_command(command, ["--stock", "never", "--allow-no-sites"]), cwd=case.folder,
                               env=case.environment(False), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
                stack.callback(stop, tool)
                time.sleep(lasts * random.uniform(0.2, 1))
                tool.send_signal(signal.SIGSTOP)
                time.sleep(random.uniform(0.5, 1.5))
                tool.send_signal(signal.SIGCONT)
                output, errors = tool.communicate(timeout=60)
            expect(not tool.returncode and sorted(output.splitlines()) == wanted, f"{tool.returncode}, {output}, plain {wanted}")
            shown = case.trace().called().get("shown", 0) // 3
            # A tool that stops within its very answer does not know whether the program has it.
            expect("could not reach" in errors or shown + told(errors) - count in (0, 1), f"{shown} of {count} traced; {errors}")
            missed += told(errors)
        expect(missed, "the tool was never missed")
    return test


CASES = {}
SINGLE = {f"executed-{libc}": in_each_way(libc) for libc in MAKERS}
SINGLE |= {
    "executed-spawned": does("spawns", 7),
    "executed-spawned-musl": does("spawns", 7, "static-musl"),
    "executed-spawned-path": found_in_path("static"),
    "executed-spawned-moves": moves("static", "static", 1),
    "executed-spawned-moves-away": moves("static", "dynamic", 0),
    "executed-spawned-many": does("spawn-many", 4),
    "executed-spawned-stops": does("spawn-stops", 12),
    "executed-spawned-signals": under_signals,
    "executed-spawned-fails": fails("spawn-fails"),
    "executed-spawned-tool-stopped": tool_stopped("spawn-many", 4),
    "executed-spawned-each-tool-stopped": tool_stopped("spawns", 7),
    "executed-spawned-tool-killed": tool_killed("static", "spawn-many"),
    "executed-spawned-musl-tool-killed": tool_killed("static-musl", "spawn-many"),
    "executed-static-many": does("many", 4),
    "executed-static-musl-many": does("many", 4, "static-musl"),
    "executed-static-stops": does("stops", 12),
    "executed-static-thread": does("thread", 0),
    "executed-static-traces": does("traces", 0),
    "executed-static-fails": fails("fails"),
    "executed-static-stripped": stripped,
    "executed-static-tool-killed": tool_killed("static"),
    "executed-by-static": by_static("static"),
    "executed-by-static-pie": by_static("static-pie"),
    "executed-by-static-musl": by_static_musl,
    "executed-by-static-many": does("many", 4, by="static"),
    "executed-by-static-stops": does("stops", 12, by="static"),
    "executed-by-static-thread": does("thread", 0, by="static"),
    "executed-by-static-fails": fails("fails", "static"),
    "executed-by-static-spawns": does("spawns", 7, by="static"),
    "executed-by-static-spawns-many": does("spawn-many", 4, by="static"),
    "executed-by-static-spawns-signals": does("spawn-signals", 12, by="static"),
    "executed-by-static-spawns-fails": fails("spawn-fails", "static"),
    "executed-by-static-tool-killed": tool_killed("static", "many", "static"),
    "executed-by-static-spawns-tool-killed": tool_killed("static-pie", "spawn-many", "static"),
    "executed-static-musl-tool-killed": tool_killed("static-musl"),
}

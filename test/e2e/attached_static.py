"""Attaching to static programs: cases of other modules with static programs of both libcs, and what is special to these."""
import os
import signal
import subprocess
import time

import attach
import builds
import struck
from endings import wait_for
from harness import Process, expect, stop, until
from loaderless import built
from steering import Program, Tool, left_alone, listing, look, nothing_lost, thread_name

AGAIN = 20  # attaches of one program
WALKED = 6  # attaches of each kind; by the second one some thread had been in the way


def stripped(case):
    """Without symbols the functions that must be watched are not known: refused, with the reason, and nothing happens to it."""
    class Stripped(Program):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.start(case, [case.program("attachee.c", variant="-stripped", flags=["-s"])])
    with Stripped() as program, left_alone(program):
        attach.refused(case, program.pid, "linked statically and stripped")


def without_libc(case):
    """A program without a C library: refused, and it runs on."""
    source, path = os.path.join(case.folder, "bare.c"), os.path.join(case.folder, "bare")
    with open(source, "w", encoding="ascii") as file:
        file.write("void _start(void) { for (;;) __asm__ volatile(\"syscall\" : : \"a\"(34) : \"rcx\", \"r11\"); }\n")
    done = case.run(["gcc", "-O2", "-nostdlib", "-static", "-fno-stack-protector", "-fpatchable-function-entry=5", "-o", path,
                     source])
    expect(not done.status, done.stderr)
    process = Process([path], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until("the program to run", lambda: os.readlink(f"/proc/{process.pid}/exe") == path)
        done = case.run([case.tool, "attach", str(process.pid)])
        expect(done.status == 2 and done.stderr, f"status {done.status}: {done.stderr}")
        expect(process.poll() is None, "the program has ended")
    finally:
        stop(process)


def library(case):
    """There is no loader that would load a library into it."""
    with Program(case) as program, left_alone(program):
        done = case.run([case.tool, "load", str(program.pid), "/lib/x86_64-linux-gnu/libm.so.6"])
        expect(done.status == 1 and "linked statically" in done.stderr, f"status {done.status}: {done.stderr}")


def recorded(case):
    """A program that was recorded has the agent of its start, which attaches call again; and it is well to its end."""
    command = [case.program("attachee.c")]
    path = os.path.join(case.folder, "recorded")
    with open(path, "wb") as output:
        tool = Process(case.record_command(command), cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL,
                       stdout=output, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        pid = int(wait_for(path, "ready").split()[1])
        os.kill(tool.pid, signal.SIGKILL)
        tool.wait()
        until("the agent's thread to end", lambda: all(thread_name(pid, tid) != "calltap" for tid in listing(pid, "task")))
        for _ in range(AGAIN):
            done = case.run([case.tool, "attach", "--mode", "drop", "--duration", "0.1s", "-o", case.trace_path, str(pid)])
            expect(done.status == 0 and case.trace().called(), f"status {done.status}: {done.stderr}")
        os.kill(pid, signal.SIGTERM)
        until("the program to end", lambda: not os.path.exists(f"/proc/{pid}/stat") or
              open(f"/proc/{pid}/stat", encoding="utf-8").read().split()[2] == "Z")
        with open(path, encoding="utf-8") as output:
            expect("all was well" in output.read(), "the program was not well")
    finally:
        stop(tool)


def everything(case):
    """All functions of the program, libc's among them, again and again."""
    with Program(case, "3") as program, left_alone(program):
        for _ in range(AGAIN):
            with Tool(case, program, "--stock", "always") as tool:
                tool.records(2000)
                tool.detach()
    nothing_lost(case.trace())


def killed_everywhere(case):
    """kill -9 of the tool, and of its tracer with it, at random moments, all of libc being traced; the next one gets in."""
    with Program(case, "3") as program, left_alone(program) as before:
        for number in range(AGAIN):
            with Tool(case, program, "--stock", "always", wait=False) as tool:
                time.sleep(0.02 + number * 0.017)
                os.kill(tool.process.pid, signal.SIGKILL)
                tool.process.wait()
        until("the agent's thread to end", lambda: look(program)["threads"] == before["threads"])
        with Tool(case, program, "--stock", "always") as tool:
            tool.records(1000)
            tool.detach()


def walks(case):
    """A thread is in libc's backtrace(), which the agent's has called, when a session is let go of: none asks the agent for
    tables any more, and the program gets its frames all the same. With nothing of the thread's calls traced, and with all."""
    with struck.Struck(case, "walks", "walks") as program, left_alone(program):
        for _ in range(WALKED):
            for options in (("-l", "leaf"), ("--stock", "always")):
                done = attach.attach_for(case, program, 0.03, *options)
                expect(not done.status, f"status {done.status}: {done.stderr!r}")


CHOSEN = ("attach", "attach-interrupted", "attach-terminated", "attach-program-ends", "attach-program-killed",
          "attach-program-executes", "attach-tool-killed", "attach-tool-killed-early", "attach-tool-killed-with-its-group",
          "attach-tool-stopped", "attach-many-times",
          "attach-busy-lossless", "attach-busy-holes", "attach-same-moment", "attach-open-frames", "attach-ends-meanwhile",
          "attach-twice", "attach-frames-that-end", "attach-many-threads", "attach-changes-ids",
          "attach-long-handler", "attach-long-handler-alternate", "attach-main-ends",
          "attach-namespace-threads", "attach-cut-short", "attach-asleep")
CASES_OF_ATTACH = {**attach.CASES, **attach.SINGLE, **struck.SINGLE}
# Stacks are followed to open frames, and musl has no unwind tables; programs in C++.
WITHOUT_MUSL = ("attach-open-frames", "attach-frames-that-end", "attach-long-handler", "attach-long-handler-alternate")
WAYS = {"static": CHOSEN, "static-musl": CHOSEN,
        "static-pie": ("attach", "attach-tool-killed-early", "attach-many-times", "attach-breakpoint-of-others"),
        "static-stock": ("attach", "attach-many-times", "attach-busy-lossless"), "static-musl-stock": ("attach", "attach-many-times")}
SINGLE = {f"attach-{way}{name[len('attach'):]}": built(builds.STATIC[way], CASES_OF_ATTACH[name])
          for way, names in WAYS.items() for name in names
          if way != "static-musl" or name not in WITHOUT_MUSL}
for way in ("static", "static-musl"):
    SINGLE |= {
        f"attach-{way}-stripped": built(builds.STATIC[way], stripped),
        f"attach-{way}-load": built(builds.STATIC[way], library),
        f"attach-{way}-recorded": built(builds.STATIC[way], recorded),
        f"attach-{way}-everything": built(builds.STATIC[way], everything),
        f"attach-{way}-killed-everywhere": built(builds.STATIC[way], killed_everywhere),
    }
for way in ("static", "static-pie", "static-stock"):
    SINGLE[f"attach-{way}-walks"] = built(builds.STATIC[way], walks)
SINGLE["attach-static-without-libc"] = built(builds.STATIC["static"], without_libc)

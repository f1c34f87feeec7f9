"""Programs without a loader: cases of other modules with static programs of both libcs, and what is special to these."""
import json
import os
import random
import shutil
import subprocess
import time

import builds
import endings
import environment
import jumps
import language
import options
import programs
from harness import Process, Skip, expect, stop


def built(build, test):
    """The case with programs of that build, which the C library must allow."""
    def run(case):
        case.need_native("static programs")
        if build[0] == "musl" and not shutil.which("musl-gcc"):
            raise Skip("musl-gcc is not installed (musl-tools)")
        case.built_by(build)
        case.need_flags("-static")
        test(case)
    return run


def killed(case):
    """The tool is killed at random moments of the program's start: the program has run as a whole, or not at all."""
    command = [case.program("calls.c")]
    plain = case.run(command)
    path = os.path.join(case.folder, "output")
    whole = nothing = 0
    began = time.monotonic()
    case.record(command, log=False)
    lasts = time.monotonic() - began
    for _ in range(60):
        with open(path, "wb") as output:
            tool = Process(case.record_command(command), cwd=case.folder, env=case.environment(False),
                           stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            time.sleep(random.random() * 1.2 * lasts)
            tool.kill()
            tool.wait()
            until = time.monotonic() + 20
            while processes_of(command[0]):
                expect(time.monotonic() < until, "the program stands still")
                time.sleep(0.01)
        finally:
            stop(tool)
        with open(path, encoding="utf-8") as output:
            printed = output.read()
        expect(printed in ("", plain.stdout), f"it printed {printed!r}, plain {plain.stdout!r}")
        whole += printed != ""
        nothing += printed == ""
    expect(whole and nothing, f"{whole} programs ran, {nothing} did not: no moment of the start was met")


def processes_of(program):
    """The processes that run this program."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.samefile(f"/proc/{pid}/exe", program):
                found.append(pid)
        except OSError:
            pass
    return found


def stripped(case):
    """Without symbols the functions that must be watched are not known: refused, with the reason."""
    program = case.program("calls.c", variant="-stripped", flags=["-s"])
    done = case.record([program])
    expect(done.status == 2 and "linked statically and stripped" in done.stderr and not done.stdout,
           f"status {done.status}: {done.stderr}")
    plain = case.run([program])
    done = case.record([program], ["--allow-no-sites"])
    expect((done.status, done.stdout) == (plain.status, plain.stdout), f"status {done.status}: {done.stderr}")


def moving(case):
    """Code that moves its stacks, as Go's: refused, with the reason."""
    program = case.program("calls.c", variant="-moving")
    moved = os.path.join(case.folder, "moving")
    empty = os.path.join(case.folder, "empty")
    with open(empty, "w", encoding="ascii") as file:
        file.write("go")
    done = case.run(["objcopy", "--add-section", f".gopclntab={empty}", program, moved])
    expect(not done.status, done.stderr)
    done = case.record([moved])
    expect(done.status == 2 and "moves its stacks" in done.stderr and not done.stdout, f"status {done.status}: {done.stderr}")


BARE = r"""
static long call(long number, long a, long b, long c)
{
	__asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return number;
}

__attribute__((noipa)) static void waits(void)
{
	long time[2] = {3, 0};

	for (long left = WAITS; left; left--)
		call(35, (long)time, 0, 0); /* nanosleep */
}

__attribute__((force_align_arg_pointer)) void _start(void)
{
	waits();
	call(1, 1, (long)"bare\\n", 5);
	call(60, 3, 0, 0);
}
"""


def bare(waits):
    """Without a C library: it runs as ever, untraced, which is told, also if it makes no call for a while."""
    def run(case):
        program, source = os.path.join(case.folder, "bare"), os.path.join(case.folder, "bare.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(BARE.replace("WAITS", str(waits)).replace("\\\\", "\\"))
        done = case.run(["gcc", "-O2", "-nostdlib", "-static", "-fno-stack-protector", "-o", program, source])
        expect(not done.status, done.stderr)
        plain = case.run([program])
        traced = case.run([case.tool, "record", "-o", case.trace_path, "--", program])
        expect((traced.status, traced.stdout) == (plain.status, plain.stdout) == (3, "bare\n"), f"{traced.status}: {traced.stderr}")
        expect("nothing was recorded" in traced.stderr if not waits else "was not recorded" in traced.stderr, traced.stderr)
    return run


FAULTS = r"""
.globl _start
.type _start, @function
_start:	mov $13, %eax
	mov $8, %edi		/* rt_sigaction(SIGFPE) */
	lea action(%rip), %rsi
	xor %edx, %edx
	mov $8, %r10d
	syscall
	xor %edx, %edx
	xor %ecx, %ecx
	mov $1, %eax
	div %ecx
handler: mov $60, %eax
	mov $7, %edi
	syscall
back:	mov $15, %eax
	syscall
.type could_be_traced, @function
could_be_traced: .cfi_startproc
	mov $1, %eax
	add $2, %eax
	imul %eax, %eax
	ret
	.cfi_endproc
.size could_be_traced, . - could_be_traced
	.data
action:	.quad handler, 0x04000004, back, 0
"""


def faulting(case):
    """Without a C library, and with a handler for a fault that its first instructions have."""
    program, source = os.path.join(case.folder, "faults"), os.path.join(case.folder, "faults.S")
    with open(source, "w", encoding="ascii") as file:
        file.write(FAULTS)
    done = case.run(["gcc", "-nostdlib", "-static", "-o", program, source])
    expect(not done.status, done.stderr)
    traced = case.run([case.tool, "record", "-o", case.trace_path, "--", program], timeout=30)
    expect(traced.status == 7 and "it faults before its C library has begun" in traced.stderr, f"{traced.status}: {traced.stderr}")


def executed(case):
    """What a static program executes runs as ever: other static programs untraced, those with a loader traced."""
    case.same_as_plain([case.program("forks.c")], log=False)
    called = case.trace().called()
    expect(called.get("fork_and_exec"), f"the program itself is not traced: {called}")


def everything(source, *arguments):
    """All functions of the program are traced, libc's among them: it does the same, in each way to record."""
    def run(case):
        command = [case.program(source), *arguments]
        plain = case.run(command)
        for options in ([], ["--no-graph", "*i*"], ["-g", "*a*"], ["-p", "function"], ["--max-depth", "4"],
                        ["--mode", "overwrite"], ["-t", "1us"]):
            done = case.run([case.tool, "record", "-o", case.trace_path, "-b", "1M", "--stock", "always", "--allow-no-match",
                             *options, "--", *command])
            case.same_outcome(plain, done, stderr=False)
            told = case.run([case.tool, "report", "--json", "-i", case.trace_path])
            expect(not told.status, told.stderr)
            calls = sum(row["calls"] for row in json.loads(told.stdout)["rows"])
            expect(calls > 20 or options[:1] in (["-g"], ["--no-graph"]), f"{options}: {calls} calls")
    return run


BACKTRACE = r"""
#include <execinfo.h>
#include <stdio.h>
__attribute__((noipa)) int inner(void) { void *frames[64]; return backtrace(frames, 64); }
__attribute__((noipa)) int outer(void) { return inner() + 1; }
int main(void) { printf("%d frames\n", outer()); return 0; }
"""


def backtraces(case):
    """backtrace() goes through the agent's function of that name, whose code no loader knows."""
    source, program = os.path.join(case.folder, "backtrace.c"), os.path.join(case.folder, "backtraces")
    with open(source, "w", encoding="ascii") as file:
        file.write(BACKTRACE)
    for kind in ("-static", "-static-pie"):
        done = case.run(["gcc", "-O2", kind, "-o", program, source])
        expect(not done.status, done.stderr)
        plain, traced = case.run([program]), case.record([program], ["--stock", "always"])
        expect((traced.status, traced.stdout) == (plain.status, plain.stdout), f"{traced.stdout!r}, plain {plain.stdout!r}")


def without_ptrace(case):
    """Where nobody may trace, as under strace, which does, the program does not begin, and a sentence says why."""
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    done = case.run(["strace", "-f", "-o", "/dev/null", *case.record_command([case.program("calls.c")])])
    expect(done.status and "cannot hold a program at its start" in done.stderr and not done.stdout,
           f"status {done.status}, {done.stdout!r}, {done.stderr!r}")


COMMON = {name: programs.CASES[name] for name in ("calls", "signals", "jumps", "threads", "crowd", "descriptors",
                                                  "tails", "storm", "vforks", "recurse")}
COMMON |= {name: jumps.CASES[name] for name in ("longjumps", "sigroutine", "altstacks", "altstacks-end", "first-handler")}
COMMON |= {name: endings.SINGLE[name] for name in ("end-return", "end-abort", "end-segv", "end-thread_exit", "program-killed",
                                                   "early-kills")}
COMMON |= {name: environment.SINGLE[name] for name in ("sandbox-prctl-kill", "sandbox-raw-kill", "sandbox-tsync-kill",
                                                       "sandbox-prctl-errno")}
COMMON |= {name: environment.CASES[name] for name in ("process-clones",)}
COMMON |= {name: options.SINGLE[name] for name in ("filter-tree", "filter-no-tree", "max-depth", "tracer-function", "mode-overwrite")}
GLIBC = {name: programs.CASES[name] for name in ("classes",)}
GLIBC |= {name: language.CASES[name] for name in ("exceptions", "exceptions-threads", "terminate", "cancel", "destroyed", "reused",
                                                  "siblings", "frames", "registers", "ifunc")}
GLIBC |= {name: language.SINGLE[name] for name in ("registers-function", "registers-depth", "registers-tree", "registers-full",
                                                   "cancel-anywhere", "in-part-exceptions", "in-part-cancel")}
GLIBC |= {name: jumps.CASES[name] for name in ("routines", "handover", "interrupts", "churn", "storms", "storms-jump",
                                               "storms-alternate")}
GLIBC |= {name: options.SINGLE[name] for name in ("filter-trees-exceptions",)}
PIE = ("calls", "threads", "signals", "exceptions-threads", "cancel", "registers-tree", "sandbox-prctl-kill")
STOCK = {"calls.c": (), "threads.c": ("40",), "signals.c": (), "longjumps.c": (), "forks.c": (), "vforks.c": ()}
STOCK_GLIBC = STOCK | {"exceptions.cc": (), "cancel.c": (), "routines.c": (), "classes.cc": ()}
CHOSEN = {"static": COMMON | GLIBC, "static-musl": COMMON, "static-pie": {name: (COMMON | GLIBC)[name] for name in PIE},
          "static-stock": {source: everything(source, *arguments) for source, arguments in STOCK_GLIBC.items()},
          "static-musl-stock": {source: everything(source, *arguments) for source, arguments in STOCK.items()}}
SINGLE = {f"{way}-{name.split('.')[0]}": built(builds.STATIC[way], test) for way, tests in CHOSEN.items()
          for name, test in tests.items()}
SINGLE |= {
    "static-tool-killed": built(builds.STATIC["static"], killed),
    "static-musl-tool-killed": built(builds.STATIC["static-musl"], killed),
    "static-stripped": built(builds.STATIC["static"], stripped),
    "static-moving": built(builds.STATIC["static"], moving),
    "static-bare": built(builds.STATIC["static"], bare(0)),
    "static-bare-waits": built(builds.STATIC["static"], bare(1)),
    "static-faulting": built(builds.STATIC["static"], faulting),
    "static-backtraces": built(builds.STATIC["static"], backtraces),
    "static-executed": built(builds.STATIC["static"], executed),
    "static-without-ptrace": built(builds.STATIC["static"], without_ptrace),
}

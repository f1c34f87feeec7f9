#!/usr/bin/env python3
"""Hurts the tool, or the program, at a random moment of a recording, over and over.

    kills.py [--runs N] [--seed S] [--jobs N] [--long] [--build DIR] [--work DIR] [--only BLOW]

Each run draws a kind of program, the options of `record`, a moment (a third of them in the first milliseconds, before
HELLO or while plans are made; a third about the end, while the tool finishes), and a blow: kill -9 of either side,
SIGSTOP of the tool, SIGTERM, SIGINT once and twice, a disk or a file size that runs out.  Afterwards the program must
have printed and returned what it does without us (unless it was killed itself), nothing may hang or be left behind,
and what there is of the trace must be readable, and say so when it is cut.  A failure prints the run's seed X, and
`--runs 1 --seed X` repeats it, as far as time lets it.  test/e2e/hostile.py runs this, short; --long is for thousands.
"""
import argparse
import concurrent.futures
import ctypes
import os
import platform
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
import cpus  # pylint: disable=wrong-import-position  # they lie in another folder
import builds  # pylint: disable=wrong-import-position  # they lie in another folder
import tracefile  # pylint: disable=wrong-import-position
from harness import Failure, expect  # pylint: disable=wrong-import-position

MARK = "CALLTAP_KILLS"  # in the environment of all that a run starts: how what is left behind is found
AMOUNTS = {"threads": 60000, "tree": 60000, "loads": 150, "signals": 8000, "short": 10}
BLOWS = ("none", "kill tool", "kill tool", "kill program", "kill program", "stop tool", "end tool", "interrupt",
         "interrupt twice", "file size", "disk")
MODES = ("block", "drop", "overwrite")
STUBS = ((), (), ("--max-depth", "3"), ("-t", "1us"), ("-g", "work"), ("--no-graph", "work"), ("-p", "function"),
         ("-l", "leaf"), ("-b", "8K"), ("--no-fork",))
HEAD_SIZE = 64  # bytes of a trace file's head: less is no trace yet
PATIENCE = 240  # seconds; a run takes less than one, but machines are slow and crowded
PR_SET_CHILD_SUBREAPER = 36


def program_command(folder, kind):
    command = [os.path.join(folder, "endures"), kind, str(AMOUNTS[kind])]
    return command + ([os.path.join(folder, "library.so")] if kind == "loads" else [])


def build_programs(cpu, folder):
    for source, name in (("endures.c", "endures"), ("library.c", "library.so")):
        builds.compile_program(cpu, builds.WAYS[cpu.name].first, source, os.path.join(folder, name))


class Run:
    """A recording and the blow to it."""

    def __init__(self, seed, arguments, plain):
        chance = random.Random(seed)
        self.seed, self.tool, self.programs = seed, arguments.tool, arguments.work
        self.folder = os.path.join(arguments.work, f"run-{seed}")
        self.kind = chance.choice(tuple(AMOUNTS))
        self.plain_status, self.plain_output, usual = plain[self.kind]
        self.blow = chance.choice([arguments.only] if arguments.only else BLOWS)
        self.options = ["--mode", chance.choice(MODES), *chance.choice(STUBS)]
        if not {"overwrite", "function", "--max-depth", "-t"} & set(self.options) and chance.random() < 0.3:
            self.options += ["--time", "adaptive", "--time-small", chance.choice(("64", "100000"))]
        self.delay = chance.choice((chance.uniform(0, 0.012), usual * chance.random(),
                                    usual * chance.uniform(0.8, 1.1)))
        self.pause = chance.choice((0.02, 0.2, 1.5, 10)) if arguments.long else chance.choice((0.02, 0.2))
        self.bytes = chance.randrange(4096, 1 << 20)
        if self.blow == "disk" and os.geteuid():
            self.blow = "file size"  # a disk of its own takes root
        self.trace = os.path.join(self.folder, "trace")
        self.statuses = {}
        self.program = None

    def describe(self):
        return (f"seed {self.seed}: {self.kind}, {' '.join(self.options)}, {self.blow} after {self.delay * 1000:.1f} ms"
                f"{f', {self.pause} s' if 'stop' in self.blow else ''}")

    def command(self):
        command = [self.tool, "record", "-q", *self.options, "-o", self.trace, "--",
                   *program_command(self.programs, self.kind)]
        if self.blow == "file size":
            return ["prlimit", f"--fsize={self.bytes}", *command]
        if self.blow == "disk":
            disk = os.path.join(self.folder, "disk")
            os.mkdir(disk)
            command[command.index("-o") + 1] = os.path.join(disk, "trace")
            script = (f"mount -t tmpfs -o size={self.bytes} none {shlex.quote(disk)} || exit 77\n"
                      f"{shlex.join(command)}\nstatus=$?\n"
                      f"cp {shlex.quote(disk)}/trace {shlex.quote(self.trace)}\nexit $status\n")
            return ["unshare", "-m", "sh", "-c", script]
        return command

    def start(self):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CALLTAP")}
        environment[MARK] = str(self.seed)
        with open(os.path.join(self.folder, "output"), "wb") as output, \
                open(os.path.join(self.folder, "errors"), "wb") as errors:
            process = subprocess.Popen(self.command(), env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=errors, start_new_session=True, cwd=self.folder)
        process.returncode = 0  # the statuses of all are collected by reap(), not by Popen
        return process.pid

    def text(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def reap(self):
        """Collect those that have ended; we are the parent of orphans.  False when there is none left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return True
                self.statuses[pid] = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False

    def program_of(self, tool):
        """The program's number, once it is one; the tool has other children before."""
        try:
            with open(f"/proc/{tool}/task/{tool}/children", encoding="ascii") as file:
                children = [int(child) for child in file.read().split()]
            return next((child for child in children if os.readlink(f"/proc/{child}/exe").endswith("/endures")), None)
        except OSError:
            return None

    def strike(self, tool):
        """The blow; nothing when both had ended before it."""
        time.sleep(self.delay)
        if self.blow == "kill program":
            while not self.program and self.reap():
                self.program = self.program_of(tool)
            if self.program:
                self.kill(self.program, signal.SIGKILL)
            return
        self.program = self.program_of(tool)
        wanted = {"kill tool": (signal.SIGKILL,), "stop tool": (signal.SIGSTOP,), "end tool": (signal.SIGTERM,),
                  "interrupt": (signal.SIGINT,), "interrupt twice": (signal.SIGINT, signal.SIGINT)}
        for number in wanted.get(self.blow, ()):
            self.kill(tool, number)
            time.sleep(0.001)
        if self.blow == "stop tool":
            time.sleep(self.pause)
            self.kill(tool, signal.SIGCONT)

    def kill(self, pid, number):
        self.reap()
        if pid not in self.statuses:  # not ended and reaped: the number is still its own
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def wait_for_all(self):
        end = time.monotonic() + PATIENCE
        pause = 0.001
        while self.reap():
            expect(time.monotonic() < end, f"still running: {left_behind(self.seed)}")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def check_program(self, tool):
        status, output = self.statuses[tool], self.text("output")
        whole = output == self.plain_output
        if self.blow == "kill program":
            expect(status == -9 and output in ("", self.plain_output) or whole and status == self.plain_status,
                   f"status {status}, output {output!r}")
        elif self.blow == "end tool":
            # Passed on to the program, or come before the tool had begun, or too late.
            expect(status == -15 and output in ("", self.plain_output) or whole and status == self.plain_status,
                   f"status {status}, output {output!r}")
        elif self.blow in ("kill tool", "interrupt", "interrupt twice"):
            alone = [end for pid, end in self.statuses.items() if pid == self.program]
            expect(whole or not output and not alone, f"output {output!r}, program's status {alone}")
            expect(all(end == self.plain_status for end in alone), f"the program ended with {alone}")
            expect(status in (-9, -2, 130, self.plain_status), f"the tool's status is {status}")
            expect(status != self.plain_status or whole, f"status {status}, output {output!r}")
        else:
            expect(status == self.plain_status or self.never_began(status), f"the status is {status}")
            expect(whole or self.never_began(status), f"output {output!r}")

    def never_began(self, status):
        """No room even for the trace's first lines, or for a file of shared memory: refused before the program ran."""
        said = self.text("errors")
        return self.blow in ("disk", "file size") and status == 1 and ("cannot write" in said or "no memory for --time" in said)

    def check_trace(self):
        if not os.path.exists(self.trace):
            expect(self.blow not in ("none", "kill program", "stop tool"), "no trace")
            return
        size = os.path.getsize(self.trace)
        for verb in ("info", "replay", "report"):
            done = subprocess.run([self.tool, verb, "-i", self.trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=PATIENCE, check=False)
            if size < HEAD_SIZE:
                expect(done.returncode > 0 and done.stderr, f"{verb} of {size} bytes: {done.returncode}, {done.stderr}")
                continue
            refused = done.returncode and "counts only" in done.stderr
            expect(done.returncode == 0 or refused, f"calltap {verb}: {done.returncode}, {done.stderr[-300:]}")
            said, whole = "cut short" in done.stderr, self.has_end()
            expect(refused or said != whole, f"calltap {verb}, whole: {whole}, says {done.stderr!r}")

    def has_end(self):
        """True if the last whole chunk of the trace is its END."""
        with open(self.trace, "rb") as file:
            data = file.read()
        at, last = tracefile.HEAD.unpack_from(data)[2], None
        while at + tracefile.CHUNK.size <= len(data):
            _, last, _, _, stored, _ = tracefile.CHUNK.unpack_from(data, at)
            at += tracefile.CHUNK.size + (stored + 7 & ~7)
        return last == tracefile.END and at == len(data)

    def go(self):
        """None, or what went wrong."""
        os.makedirs(self.folder)
        try:
            tool = self.start()
            self.strike(tool)
            self.wait_for_all()
            left = left_behind(self.seed)
            expect(not left, f"left behind: {left}")
            self.check_program(tool)
            self.check_trace()
        except (Failure, subprocess.TimeoutExpired, OSError) as problem:
            for pid in left_behind(self.seed):
                self.kill(pid, signal.SIGKILL)
            return f"{self.describe()}: {problem}; stderr: {self.text('errors')[-400:]!r}; kept in {self.folder}"
        shutil.rmtree(self.folder)
        return None


def left_behind(seed):
    """The processes of a run, by the mark in their environment."""
    found, mark = [], f"{MARK}={seed}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return found


def become_reaper():
    """Orphans of this process' tree become its own children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def one_run(seed, arguments, plain):
    return Run(seed, arguments, plain).go()


def plain_runs(arguments):
    """{kind: (status, output, seconds that it takes under record)}"""
    plain, record = {}, [arguments.tool, "record", "-q", "-o", os.path.join(arguments.work, "usual"), "--"]
    for kind in AMOUNTS:
        command = program_command(arguments.work, kind)
        plainly = [*filter(None, [cpus.CPUS[arguments.cpu].emulator()]), *command]
        done = subprocess.run(plainly, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        began = time.monotonic()
        subprocess.run(record + command, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=False)
        plain[kind] = done.returncode, done.stdout, time.monotonic() - began
    return plain


def parse():
    parser = argparse.ArgumentParser(description="Kill, stop and starve recordings at random moments.")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument("--long", action="store_true", help="stop the tool for up to 10 s, too")
    parser.add_argument("--only", choices=sorted(set(BLOWS)), help="this blow in every run")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    parser.add_argument("--cpu", choices=sorted(cpus.CPUS), default=platform.machine(), help="the programs' CPU")
    parser.add_argument("--work", help="folder for what the runs need and leave (default: in the build directory)")
    arguments = parser.parse_args()
    arguments.tool = os.path.join(os.path.abspath(arguments.build), "src", "cmd", "calltap")
    arguments.work = os.path.join(os.path.abspath(arguments.work or arguments.build), f"kills-{os.getpid()}")
    return arguments


def main():
    arguments = parse()
    os.makedirs(arguments.work)
    build_programs(cpus.CPUS[arguments.cpu], arguments.work)
    plain, failed = plain_runs(arguments), 0
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, initializer=become_reaper) as pool:
        for problem in pool.map(one_run, seeds, [arguments] * len(seeds), [plain] * len(seeds)):
            if problem:
                failed += 1
                print("FAILED " + problem, flush=True)
    print(f"kills: {arguments.runs - failed} of {arguments.runs} runs survived, from seed {arguments.seed}")
    if not failed:
        shutil.rmtree(arguments.work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The common part of the end-to-end cases: a case's folder, building, running plain and under record, failing well."""
import collections
import contextlib
import copy
import fcntl
import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib

import builds
import emulation
import tracefile
import truth

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 180  # seconds for one command: an emulator on a busy machine may take one for 10,000 threads
JSON_LINES = 10000  # lines of an export that are parsed at once: one by one takes twice as long


CURRENT = threading.local()  # .processes: what the thread's case has started
PATIENCE = 30  # seconds to wait for what another process does
SHOWN = 8  # processes that a failure tells of


class Failure(Exception):
    """The test failed; the text says how."""


class Skip(Exception):
    """The test cannot run here; the text says why."""


def settled(path):
    """A file that a test has written, once it can be executed.  A child that another case starts meanwhile has the file
    open for writing as well, until it executes its own program; the kernel gives a read lease when nobody has."""
    end = time.monotonic() + PATIENCE
    with open(path, "rb") as file:
        while True:
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                return path
            except BlockingIOError:
                expect(time.monotonic() < end, f"{path} stays open for writing")
                time.sleep(0.001)


def copied(program, place):
    """A copy of a program, in a folder or by another name."""
    return settled(shutil.copy(program, place))


@contextlib.contextmanager
def alone(path):
    """No other case is in here with the same path meanwhile; other cases are other processes."""
    with open(os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.lock"), "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # by name: a child that has not executed its program yet has the file open, too


def events_of(lines):
    """The events of `calltap export --format json`, one in each line."""
    for at in range(0, len(lines), JSON_LINES):
        some = lines[at:at + JSON_LINES]
        events = json.loads(f"[{','.join(some)}]")
        expect(len(events) == len(some), "a line of calltap export is not one event")
        yield from events


class Process(subprocess.Popen):
    """A process that a case starts; how it ended is the first that a failure tells."""

    stopped = False  # the process still ran when the test gave it up

    def __init__(self, command, waited_for=False, **more):
        self.command, self.waited_for = command, waited_for
        super().__init__(command, **more)
        getattr(CURRENT, "processes", []).append(self)

    def ending(self):
        words = [os.path.basename(word) if word.startswith("/") else word for word in map(str, self.command)]
        name = f"{shlex.join(words)[:120]} ({self.pid})"
        status = self.poll()
        if self.stopped or status is None:
            return f"{name}: still ran"
        return f"{name}: {ended(status)}"


def ended(status):
    """A status of subprocess in words."""
    try:
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    except ValueError:
        return f"ended by signal {-status}"


def endings_of(processes):
    """The ends of a case's processes, a line each: processes beside the case, the last one that it waited for, and
    those that a signal ended."""
    waited = [process for process in processes if process.waited_for]
    told = [process for process in processes
            if process in waited[-1:] or not process.waited_for or not process.stopped and (process.poll() or 0) < 0]
    return "".join(process.ending() + "\n" for process in told[-SHOWN:])


class Outcome:
    """The end of a command: its output, and its status as a shell would give it."""

    def __init__(self, status, stdout, stderr):
        self.status = 128 - status if status < 0 else status
        self.stdout, self.stderr = stdout, stderr


def expect(condition, text):
    if not condition:
        raise Failure(text)


def until(what, test, seconds=PATIENCE):
    """Wait until the test returns something true, which is returned."""
    end = time.monotonic() + seconds
    while True:
        found = test()
        if found:
            return found
        if time.monotonic() > end:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(0.01)


class Case:
    """A run of a test, with its own folder below `work`, which is deleted when the test passes."""

    def __init__(self, name, tool, work, cpu, build):
        self.name, self.tool, self.cpu = name, tool, cpu
        self.prefix = []  # in front of each command
        self.folder = os.path.join(work, name.replace("/", "_"))
        self.work = work
        self.trace_path = os.path.join(self.folder, "trace")
        self.truth = os.path.join(self.folder, "truth")
        self.said = []  # the tool's messages, for a failure's report
        self.read = None, None  # the trace that was read last: which state of the file, and what was in it
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.truth)
        self.built_by(build)

    def built_by(self, build):
        """Programs are built so from here on."""
        self.as_it_is = False  # functions that no compiler has prepared are recorded in every build
        self.adaptive = False  # --time adaptive where that can be
        self.build, self.programs = build, os.path.join(self.work, "programs", builds.label(build))
        os.makedirs(self.programs, exist_ok=True)

    def program(self, source, sites=True, variant="", flags=()):
        """Path of the program built from a source of test/prog; built once per build and flags, then kept.  With flags
        for the compiler and linker it has a name of its own by the variant, or else lies in a folder of its own."""
        base = source.rsplit(".", 1)[0] + variant + ("" if sites else "-plain")
        folder = self.programs
        if flags and not variant:
            folder = os.path.join(folder, f"{zlib.crc32(' '.join(flags).encode()):08x}")
            os.makedirs(folder, exist_ok=True)
        output = os.path.join(folder, base + (".so" if source == "library.c" else ""))
        headers = glob.glob(os.path.join(builds.PROGRAMS, "**", "*.h"), recursive=True)
        newest = max(map(os.path.getmtime, (os.path.join(builds.PROGRAMS, source), builds.__file__, *headers)))
        # A program that is replaced while another case runs it is not the one that the tool reads.
        with alone(output):
            self.build_program(source, output, newest, sites, flags)
        return output

    def build_program(self, source, output, newest, sites, flags):
        if not os.path.exists(output) or os.path.getmtime(output) < newest:
            temporary = f"{output}.{os.getpid()}.{id(self)}"
            try:
                builds.compile_program(self.cpu, self.build, source, temporary, sites, flags)
            except builds.BuildError as error:
                raise Failure(f"cannot build {source}: {error}") from error
            os.rename(temporary, output)

    def need_flags(self, *flags):
        """Skip where the compiler does not know the flags for this CPU, or has not the libraries for them."""
        command = [*self.cpu.compiler(self.build[0]), *flags, "-x", "c", "-o", "/dev/null", "-"]
        done = subprocess.run(command, input="int main(void) { return 0; }\n", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise Skip(f"{' '.join(flags)}: {done.stdout.strip().splitlines()[-1]}")

    def need_feature(self, name):
        """Skip where this machine, or the emulator, lacks what test/prog/features.c calls so."""
        for line in self.run([self.program("features.c", sites=False)]).stdout.splitlines():
            feature, reason = line.split(maxsplit=1)
            if feature == name:
                raise Skip(f"there is no {name} here: {reason}")

    def executing(self):
        """The programs execute others of their CPU: the kernel starts the emulator for them, in this case alone."""
        if self.cpu.native:
            return
        self.prefix = emulation.known_to_the_kernel(self.cpu)
        outcome = self.run([self.program("features.c", sites=False)])
        if outcome.status:
            self.prefix = []
            raise Skip(f"the kernel does not start the emulator for what a program executes: {outcome.stderr.strip()}")

    def need_native(self, what):
        if not self.cpu.native:
            raise Skip(f"{what} on this machine's own CPU only")

    def under(self, script, command, options=(), start="exec"):
        """(plain, traced): the command, and its recording, started by a shell after the script.  An emulated program is,
        with its emulator."""
        if not self.cpu.emulates(command[0]):
            shell = ["sh", "-c", f'{script}\n{start} "$@"', "sh", *command]
            return shell, self.record_command(shell, ["--allow-no-sites", *options])
        path = os.path.join(self.folder, "emulator")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n{script}\n{start} {self.cpu.emulator()} "$@"\n')
        os.chmod(path, 0o755)
        return [settled(path), *command], self.record_command(command, ["--emulator", path, *options])

    def environment(self, log=True):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CALLTAP")}
        environment["LC_ALL"] = "C"
        environment.update(self.cpu.environment)
        if log:
            environment["CALLTAP_TRUTH"] = self.truth
        return environment

    def plain_command(self, command):
        """The command, emulated where it must be."""
        return [self.cpu.emulator(), *command] if self.cpu.emulates(command[0]) else command

    def preloading(self, agent, command):
        """(command, environment): the command with an agent in it, by hand."""
        environment = self.environment(False)
        if self.cpu.native:
            return command, {**environment, "LD_PRELOAD": agent}
        return [self.cpu.emulator(), "-E", f"LD_PRELOAD={agent}", *command], environment

    def built(self, *path):
        """A file of the build that the tool is of."""
        return os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(self.tool)))), *path)

    def agent(self):
        """The agent that the tool under test loads into programs of the CPU."""
        return self.built("src", "agent", *([] if self.cpu.native else [self.cpu.name]), "libcalltap-agent.so")

    def run(self, command, log=False, timeout=TIMEOUT):
        command = [*self.prefix, *self.plain_command(command)]
        with Process(command, waited_for=True, cwd=self.folder, env=self.environment(log), stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired as late:
                process.stopped = True
                process.kill()
                raise Failure(f"{' '.join(command)} still runs after {timeout} s; it printed {late.stdout!r}") from late
        return Outcome(process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))

    def stress(self, script, *options, timeout):
        """A script of test/stress, in the case's folder."""
        path = os.path.join(os.path.dirname(HERE), "stress", script)
        done = self.run([sys.executable, path, "--build", self.built(), "--work", self.folder, *options], timeout=timeout)
        expect(not done.status, f"{script} {shlex.join(options)}: {done.stdout[-3000:]} {done.stderr[-1000:]}")

    def choice(self):
        """Options that leave out what other builds have no site for."""
        if "stock" in self.build:  # what a program's log is written by (truth.h)
            return ["-n", "truth_*", "-n", "routine_*", "--no-libcalls", "--allow-no-match"]
        # Shells, interpreters and tools that take part are none of the case's business.
        return [] if self.as_it_is else ["--stock", "never"]

    def clock(self, options):
        """With --adaptive: as many calls as can be have no times, from the first one on, where the options allow that."""
        if not self.adaptive or {"-p", "--tracer", "overwrite", "--time", "-t", "--threshold", "--max-depth"} & set(options):
            return []
        return ["--time", "adaptive", "--time-small", "1000000", "--time-sample", "3"]

    def record_command(self, command, options=()):
        return [self.tool, "record", "-o", self.trace_path, *self.choice(), *self.clock(options), *options, "--", *command]

    def record(self, command, options=(), log=True):
        return self.run(self.record_command(command, options), log)

    def same_as_plain(self, command, options=(), log=True, stderr=True):
        """Run plain and traced; both must print the same and end the same.  Returns the traced outcome."""
        return self.same_outcome(self.run(command), self.record(command, options, log), stderr)

    def same_under(self, script, command, options=(), start="exec", status=None):
        """Compare runs plain and under commands that a shell starts; the case is skipped where the shell refuses the
        script.  An emulator may not stand the program's actions: then it ends with this status."""
        plain, traced = self.under(script, command, options, start)
        outcome = self.run(plain)
        if outcome.status == 77:
            raise Skip(f"refused here: {script}")
        if not self.cpu.native and status not in (None, outcome.status):
            raise Skip(f"{script}: {outcome.stderr.strip()}")
        return self.same_outcome(outcome, self.run(traced))

    def same_outcome(self, plain, traced, stderr=True):
        own = [line for line in traced.stderr.splitlines() if not line.startswith("calltap")]
        self.said = [line for line in traced.stderr.splitlines() if line.startswith("calltap")]
        expect(traced.status == plain.status,
               f"exit status {traced.status}, plain {plain.status}; stderr: {traced.stderr.strip()[-600:]}")
        expect(traced.stdout == plain.stdout, f"stdout differs: traced {traced.stdout[-300:]!r}, plain {plain.stdout[-300:]!r}")
        expect(not stderr or own == plain.stderr.splitlines(), f"stderr differs: traced {own!r}, plain {plain.stderr!r}")
        return traced

    def trace(self, complete=True):
        expect(os.path.exists(self.trace_path), "record wrote no trace file")
        state = os.stat(self.trace_path)
        state = state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        if self.read[0] != state:
            self.read = state, tracefile.Trace(self.trace_path)
        trace = copy.copy(self.read[1])
        expect(trace.end or not complete, "the trace has no END chunk")
        return trace

    def compare(self, trace, **how):
        compared = truth.compare(trace, self.truth, **how)
        expect(compared > 0, "the program logged nothing to compare with")
        return compared

    def readable(self):
        """The project's own readers must accept the file."""
        for command in (["info", "--json"], ["replay"], ["report", "--json"], ["graph", "--json"]):
            done = self.run([self.tool, command[0], "-i", self.trace_path, *command[1:]])
            expect(done.status == 0, f"calltap {command[0]} fails: {done.stderr.strip()[-400:]}")
            expect(done.stdout.strip(), f"calltap {command[0]} prints nothing")
            if "--json" in command:
                json.loads(done.stdout)
        self.same_calls()

    def graph(self):
        """The nodes of `calltap graph`, by their ids."""
        done = self.run([self.tool, "graph", "--json", "--min-percent", "0", "-i", self.trace_path])
        expect(done.status == 0, f"calltap graph fails: {done.stderr.strip()[-400:]}")
        return {node["id"]: node for node in json.loads(done.stdout)["nodes"]}

    def same_calls(self):
        """The project's reader and the one of these tests see the same number of calls of each thread."""
        done = self.run([self.tool, "export", "--format", "json", "-i", self.trace_path])
        expect(done.status == 0, f"calltap export fails: {done.stderr.strip()[-400:]}")
        exported, counted, hidden = collections.Counter(), {}, False
        exported.update((event["pid"], event["tid"]) for event in events_of(done.stdout.splitlines())
                        if event["ev"] in ("enter", "call"))
        trace = self.trace(complete=False)
        for thread in trace.threads.values():
            key = trace.pid(thread), thread.tid
            verdicts = thread.verdicts()
            calls = sum(thread.calls().values()) - sum(verdicts)
            hidden |= verdicts[1] > 0
            if calls:
                counted[key] = counted.get(key, 0) + calls
        said = f"calltap export shows {dict(exported)} calls by thread, the file holds {counted}"
        expect(dict(exported) == counted or hidden, said)
        # What the calls that are not shown have called is not shown either.
        expect(all(calls <= counted.get(key, 0) for key, calls in exported.items()), said)

    def clean(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def stop(process):
    """End a process group that a case started."""
    process.stopped = process.stopped or process.poll() is None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def state_of(pid, tid=None):
    """The kernel's letter for what a process does, or a thread of it."""
    with open(f"/proc/{pid}/task/{tid or pid}/stat", encoding="utf-8", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def halt(pid):
    """SIGSTOP, and until each of its threads has stopped.  kill() returns before: the signal wakes one thread, which
    stops the others when it gets a CPU, and meanwhile they answer."""
    def has_stopped():
        try:
            return all(state_of(pid, tid) in "TtZX" for tid in os.listdir(f"/proc/{pid}/task"))
        except (FileNotFoundError, ProcessLookupError):
            return False  # a thread has ended since it was listed

    os.kill(pid, signal.SIGSTOP)
    until(f"process {pid} to stop", has_stopped)


@contextlib.contextmanager
def halted(pid):
    halt(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)

"""The common part of attaches.py and handlers.py: programs that do all they can to their own stacks, threads and text,
campaigns of many rounds on one such program each, and the loop over the chosen campaigns.

A campaign is one program and many rounds; each script has rounds of its own. The programs are test/prog/attacked.cc
(exceptions, jumps, coroutines, signal storms, threads, libraries, children, deep recursion, long calls, 500 threads),
test/prog/struck.cc (signals' handlers that sleep, nest, change stacks, jump, in the middle of traced calls), and for
functions that no compiler has prepared test/prog/asleep.c (threads asleep in system calls that are moved to blocks) and
python3 as distributed. Campaigns `stock-...` have the first two's programs in builds without room for a jump, campaigns
`static-...` in static ones.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
import builds  # pylint: disable=wrong-import-position  # they lie in another folder
import cpus  # pylint: disable=wrong-import-position
import steering  # pylint: disable=wrong-import-position
from harness import Failure, expect  # pylint: disable=wrong-import-position

STATUS = 42  # kinds of attacked.cc
PATIENCE = 240  # seconds
GROWTH_MAPS = 64  # the agent's address space beside stacks that were not used before
# Kinds that run together in one program.
CAMPAIGNS = {
    "throws": ("throws", "library", "jumps", "tails"),
    "stacks": ("coroutines", "trees", "passes", "jumps"),
    "signals": ("signals", "signals"),
    "threads": ("threads", "threads", "throws"),
    "loads": ("loads", "library", "trees"),
    "forks": ("forks", "forks", "trees"),
    "deep": ("recurses", "recurses", "waits", "waits"),
    "crowd": ("crowd",),
    "unshares": ("unshares", "trees"),
    "confines": ("confines", "trees"),
    "mixture": ("throws", "coroutines", "signals", "threads", "loads", "forks", "recurses", "waits"),
}
# The same with struck.cc.
STRUCK = {
    "struck": ("sleeps", "unseen", "sinks", "profiled", "walks", "raw"),
    "struck-alternate": ("alternate", "deep-alternate", "throws-alternate", "jumps-alternate"),
    "struck-nested": ("nests", "nests-alternate", "alternate-nests", "contexts"),
    "struck-deep": ("deep", "jumps", "throws", "vforks"),
    "struck-stacks": ("preempts", "gives", "hands"),
    "struck-long": ("stays", "stays-alternate", "sleeps"),
}
ASLEEP = {
    "asleep": ("reads", "naps", "polls"),
    "asleep-signals": ("reads", "naps", "polls", "signals"),
}
DISTRIBUTED = {"python3": ()}
# Those of a build in which nothing is prepared.
STOCK = {f"stock-{name}": kinds for name, kinds in {**CAMPAIGNS, **STRUCK}.items()}
# Without what takes a loader; and without forks beside threads that throw: libgcc in a static program has a lock then that
# a child may find taken for ever, traced or not.
STATIC = {f"static-{name}": tuple(kind for kind in kinds if kind not in ("library", "loads"))
          for name, kinds in {**CAMPAIGNS, **STRUCK}.items() if name not in ("loads", "confines", "forks", "mixture")}
ONCE = ("confines", "stock-confines")  # a process that cannot be attached to again afterwards
BUILDS = (("gcc", "5", "-O2", "pie"), ("clang", "5", "-O2", "pie"), ("gcc", "5", "-O0", "nopie"),
          ("gcc", "fentry", "-O2", "pie"), ("gcc", "16,8", "-O2", "cet"))
STOCK_BUILDS = (("gcc", "stock", "-O2", "pie"), ("clang", "stock", "-O2", "pie"), ("gcc", "stock", "-O2", "cet"),
                ("gcc", "stock", "-O0", "nopie"))
STATIC_BUILDS = (("gcc", "5", "-O2", "static"), ("gcc", "stock", "-O2", "static"), ("gcc", "16,8", "-O2", "static-pie"),
                 ("gcc", "stock", "-O2", "static-pie"))
# Threads that compute and throw, with a signal every ms.
PYTHON = """
import hashlib, os, signal, sys, threading, time
ended = threading.Event()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.signal(signal.SIGTERM, lambda *_: ended.set())
known = hashlib.sha256(b"x" * 3000).hexdigest()
rounds = [0] * 4
def work(n):
    while not ended.is_set():
        assert hashlib.sha256(b"x" * 3000).hexdigest() == known
        try:
            raise ValueError(n)
        except ValueError as error:
            assert error.args == (n,)
        rounds[n] += 1
        time.sleep(0.0001)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
print("ready", os.getpid(), flush=True)
while not ended.is_set():
    time.sleep(0.01)
signal.setitimer(signal.ITIMER_REAL, 0)
for thread in threads:
    thread.join()
print("all was well" if all(rounds) else rounds)
sys.exit(42)
"""


def command_of(arguments, campaign, build):
    """The campaign's program with the arguments that come before the kinds."""
    if campaign in DISTRIBUTED:
        return ["/usr/bin/python3", "-I", os.path.join(arguments.work, "programs", "busy.py")]
    if campaign in ASLEEP:
        names = ["asleep"]
    else:
        names = ["struck"] if campaign.removeprefix("stock-").removeprefix("static-") in STRUCK else ["attacked", "library"]
    return [os.path.join(arguments.work, "programs", f"{name}-{builds.label(build)}") for name in names]


def build_program(arguments, campaign, build):
    cpu = cpus.CPUS["x86_64"]
    os.makedirs(os.path.join(arguments.work, "programs"), exist_ok=True)
    program, *library = command_of(arguments, campaign, build)
    if campaign in DISTRIBUTED:
        with open(library[-1], "w", encoding="utf-8") as file:
            file.write(PYTHON)
    if os.path.exists(program):
        return
    source = "asleep.c" if campaign in ASLEEP else "attacked.cc" if library else "struck.cc"
    builds.compile_program(cpu, build, source, program)
    plain = (*build[:3], "cet" if build[3] == "cet" else "pie")
    if library:
        builds.compile_program(cpu, plain, source, library[0],
                               flags=["-DATTACKED_LIBRARY", "-fPIC", "-no-pie", "-shared"])


class Victim:
    """A program of a campaign, with its output in a file."""

    def __init__(self, command, folder, environment=None):
        os.makedirs(folder, exist_ok=True)
        self.output = os.path.join(folder, "output")
        with open(self.output, "wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, cwd=folder,
                                            stderr=subprocess.STDOUT, start_new_session=True,
                                            env={**os.environ, **(environment or {})})
        self.pid = self.process.pid
        end = time.monotonic() + PATIENCE
        while "ready" not in self.printed():
            expect(time.monotonic() < end and self.process.poll() is None, "the program does not start")
            time.sleep(0.01)

    def printed(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return "".join(line for line in file if not line.startswith("calltap:"))

    def well(self):
        status = self.process.poll()
        expect(status is None, f"the program ended with {status}: {self.printed()!r}")

    def size(self):
        maps = steering.mappings(self.pid)
        return steering.memory_kb(self.pid), len(maps), len(os.listdir(f"/proc/{self.pid}/fd"))

    def end(self):
        self.well()
        os.kill(self.pid, signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"the program does not end; it printed {self.printed()!r}") from late
        expect(status == STATUS and self.printed() == f"ready {self.pid}\nall was well\n",
               f"the program ended with {status}: {self.printed()!r}")

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()


class Campaign:
    """A program and many rounds on it."""

    def __init__(self, arguments, name, kinds, build):
        self.arguments, self.name, self.kinds, self.build = arguments, name, kinds, build
        self.folder = os.path.join(arguments.work, f"{name}-{builds.label(build)}")
        self.chance = random.Random(f"{arguments.seed} {name}")
        self.number, self.what, self.victim = 0, "", None
        self.command = [*command_of(arguments, name, build), *kinds]

    def rounds(self):
        """Start the program as `victim` and go through them; `number` and `what` say where it is."""
        raise NotImplementedError

    def stop(self):
        self.victim.stop()

    def tell(self, what):
        self.what = what
        if self.arguments.verbose:
            print(f"{self.name} {self.number}: {what}", flush=True)

    def go(self):
        """None, or what went wrong."""
        problem = None
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.rounds()
        except (Failure, OSError, subprocess.TimeoutExpired, AssertionError) as error:
            problem = (f"{self.name}, {builds.label(self.build)}, seed {self.arguments.seed}, round {self.number} "
                       f"({self.what}): {error}; kept in {self.folder}")
        finally:
            if self.victim and not (problem and self.arguments.keep):
                self.stop()
        if not problem:
            shutil.rmtree(self.folder)
        return problem


def begin(script, description, campaigns, rounds, long_rounds, switches=None):
    """The arguments of a script's run, with `tool` and a folder of its own, `work`, which is there. switches: the script's
    own, with their help."""
    parser = argparse.ArgumentParser(description=description)
    for name, text in (switches or {}).items():
        parser.add_argument(name, action="store_true", help=text)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds with each program (default: {rounds})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=sorted(campaigns), help="these campaigns alone")
    parser.add_argument("--long", action="store_true", help=f"{long_rounds} rounds, each campaign with each build")
    parser.add_argument("--verbose", action="store_true", help="print what is done")
    parser.add_argument("--keep", action="store_true", help="let a program live that failed")
    parser.add_argument("--way", type=int, help="the number of the build")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    parser.add_argument("--work", help="folder for what the runs need and leave (default: in the build directory)")
    arguments = parser.parse_args()
    arguments.script, arguments.build = script, os.path.abspath(arguments.build)
    arguments.tool = os.path.join(arguments.build, "src", "cmd", "calltap")
    arguments.work = os.path.join(os.path.abspath(arguments.work or arguments.build), f"{script}-{os.getpid()}")
    if arguments.long:
        arguments.rounds = max(arguments.rounds, long_rounds)
    os.makedirs(arguments.work)
    return arguments


def plan_of(arguments, campaigns):
    """[(name, kinds, build)] of the campaigns that were asked for."""
    plan = []
    for number, (name, kinds) in enumerate(campaigns.items()):
        if not arguments.only or name in arguments.only:
            way = number if arguments.way is None else arguments.way
            own = STOCK_BUILDS if name in {**STOCK, **ASLEEP} else STATIC_BUILDS if name in STATIC else BUILDS
            ways = own if arguments.long and name not in DISTRIBUTED else [own[way % len(own)]]
            plan += [(name, kinds, build) for build in ways]
    return plan


def fight(arguments, campaigns, kind):
    """Build the programs and go through the campaigns, each of that kind; the script's exit status."""
    failed, plan = 0, plan_of(arguments, campaigns)
    for name, _, build in plan:
        build_program(arguments, name, build)
    for name, kinds, build in plan:
        began = time.monotonic()
        problem = kind(arguments, name, kinds, build).go()
        if arguments.verbose:
            print(f"{name} {builds.label(build)}: {time.monotonic() - began:.1f} s", flush=True)
        if problem:
            failed += 1
            print("FAILED " + problem, flush=True)
    print(f"{arguments.script}: {len(plan) - failed} of {len(plan)} programs survived {arguments.rounds} rounds each, "
          f"seed {arguments.seed}")
    if not failed:
        shutil.rmtree(arguments.work)
    return 1 if failed else 0

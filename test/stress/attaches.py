#!/usr/bin/env python3
"""Attaches to programs that do all they can to their own stacks, threads and text, and leaves them, over and over.

    attaches.py [--rounds N] [--seed S] [--only KIND] [--long] [--build DIR] [--work DIR]

A campaign is one program (test/prog/attacked.cc: exceptions, jumps, coroutines, signal storms, threads, libraries,
children, deep recursion, long calls, 500 threads) and many rounds.  Each round draws a session (tracers, filters, modes,
`calltap top`, triggers), a moment, and an end: by its duration, `calltap detach`, SIGTERM, kill -9; or `calltap set`
with random settings before that.  Afterwards the program must have found each of its results right and end with its own
status, its text must be the files' (looked at here, and said by `attach -v`), and nothing may have grown beyond the
first rounds: memory, mappings, descriptors, threads.  Programs that take rights from themselves while they are traced
can be attached to once only and have a campaign of their own, with a program for each round.
A failure prints what --seed and --only repeat it, as far as time lets it.  test/e2e/attach.py runs this, short.
"""
import argparse
import os
import random
import re
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
import live  # pylint: disable=wrong-import-position
import steering  # pylint: disable=wrong-import-position

STATUS = 42  # of attacked.cc
PATIENCE = 60  # seconds
WARM = 10  # rounds after which nothing may grow any more
GROWTH_KB = 6000  # of memory, in all further rounds: malloc's own, and stacks that were used more deeply
DIFFER = re.compile("([0-9]+) bytes of the process' text differ")
SLACK = 2048  # bytes: the code of a thread that loads the agent (NATIVE_CODE_MAX)
ERRAND = 6  # seconds: a thread that loads the agent is back by then, whatever has become of the tool
GROWTH_MAPS = 64  # the agent's address space beside stacks that were not used before
# What runs together in one program.
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
ONCE = ("confines",)  # a process that cannot be attached to again afterwards: each round has one of its own
BUILDS = (("gcc", "5", "-O2", "pie"), ("clang", "5", "-O2", "pie"), ("gcc", "5", "-O0", "nopie"),
          ("gcc", "fentry", "-O2", "pie"), ("gcc", "16,8", "-O2", "cet"))
SESSIONS = ((), (), ("-p", "function"), ("-t", "2us"), ("--max-depth", "4"), ("-g", "nested"), ("--no-graph", "nested"),
            ("-l", "leaf"), ("-l", "*deep*"), ("--no-fork",), ("--mode", "overwrite"), ("--mode", "drop"),
            ("-p", "nop"))
TRIGGERS = (("--stack-when", "deep > 1ms"), ("--stack-when", "leaf"), ("--run-when", "nested > 1us => true"),
            ("--mode", "overwrite", "--snapshot-when", "thrown_deep > 1us"))
SETTINGS = ("tracing=off", "tracing=on", "tracer=function graph= no-graph= max-depth= threshold=", "tracer=function_graph",
            "max-depth=3", "max-depth=", "threshold=1us", "threshold=", "graph=nested", "graph=deep", "graph=", "no-graph=nested",
            "no-graph=", "trace=leaf", "trace+=nested", "trace=", "notrace=leaf", "notrace=")
EARLY = re.compile("nothing was recorded|was not recorded")  # told to end before it had begun
ENDS = ("duration", "duration", "kill", "kill", "detach", "terminate")


class Broken(Exception):
    """The round failed; the text says how."""


def expect(condition, text):
    if not condition:
        raise Broken(text)


class Victim:
    """A program of a campaign, with its output in a file."""

    def __init__(self, arguments, folder, build, kinds):
        os.makedirs(folder, exist_ok=True)
        self.output = os.path.join(folder, "output")
        program, library = (os.path.join(arguments.work, f"{name}-{builds.label(build)}") for name in ("attacked", "library"))
        with open(self.output, "wb") as file:
            self.process = subprocess.Popen([program, library, *kinds], stdin=subprocess.DEVNULL, stdout=file, cwd=folder,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        self.pid, self.killed, self.kills = self.process.pid, 0, []
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

    def waiting(self):
        """Threads that may wait in the slack for a tool that was killed, which was to load the agent: one for each."""
        return sum(time.monotonic() < killed + ERRAND for killed in self.kills)

    def size(self):
        maps = steering.mappings(self.pid)
        return steering.memory_kb(self.pid), len(maps), len(os.listdir(f"/proc/{self.pid}/fd"))

    def agents(self):
        """Threads that the agent has left."""
        found = []
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{thread}/comm", encoding="utf-8") as name:
                    found += [thread] * (name.read() == "calltap\n")
            except OSError:
                pass
        return found

    def end(self):
        self.well()
        os.kill(self.pid, signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise Broken(f"the program does not end; it printed {self.printed()!r}") from late
        expect(status == STATUS and self.printed() == f"ready {self.pid}\nall was well\n",
               f"the program ended with {status}: {self.printed()!r}")

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()


class Round:
    """One session on a victim, from its attach to its end."""

    def __init__(self, arguments, victim, chance, folder):
        self.tool, self.victim, self.chance, self.folder = arguments.tool, victim, chance, folder
        self.end = chance.choice(ENDS)
        self.ms = chance.choice((chance.uniform(0, 60), chance.uniform(20, 300)))
        profile = chance.random() < 0.15
        if profile:
            self.end = chance.choice(("kill", "terminate", "detach"))
            options = ["top", "--batch", "0", "--allow-no-match"]
        elif chance.random() < 0.15:
            options = ["attach", "-o", os.path.join(folder, "trace"), "--allow-no-match", *chance.choice(TRIGGERS)]
        else:
            options = ["attach", "-o", os.path.join(folder, "trace"), "--allow-no-match", *chance.choice(SESSIONS)]
        if not profile:
            options += ["-b", chance.choice(("64K", "1M"))]
        if self.end == "duration":
            options += ["--duration", f"{max(1, int(self.ms))}ms"]
        self.sets = not profile and chance.random() < 0.4
        self.command = [self.tool, *options, str(victim.pid)]

    def keeps(self):
        """A flight recorder goes on without its tool."""
        return self.end == "kill" and "overwrite" in self.command

    def describe(self):
        return f"{' '.join(self.command[1:])}, {'set, ' * self.sets}{self.end} after {self.ms:.1f} ms"

    def run(self, *words):
        return subprocess.run([self.tool, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=PATIENCE, check=False)

    def steer(self):
        for _ in range(self.chance.randrange(1, 6)):
            words = self.chance.choice(SETTINGS).split()
            done = self.run("set", str(self.victim.pid), *words)
            expect(done.returncode in (0, 1), f"set {words}: {done.returncode}, {done.stdout}")
            time.sleep(self.chance.choice((0, 0, 0.01)))

    def go(self):
        """The tool's status and what it said."""
        said = os.path.join(self.folder, "said")
        with open(said, "wb") as file:
            tool = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                    cwd=self.folder, start_new_session=True)
        try:
            if self.end != "duration":
                time.sleep(self.ms / 1000)
            if self.sets:
                self.steer()
            if self.end == "kill":
                tool.kill()
                self.victim.killed = time.monotonic()
                self.victim.kills.append(self.victim.killed)
            elif self.end == "terminate":
                tool.terminate()
            elif self.end == "detach":
                while tool.poll() is None and self.run("detach", str(self.victim.pid)).returncode:
                    time.sleep(0.02)
            status = tool.wait(PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise Broken(f"{late}; the tool said {read(said)[-600:]!r}") from late
        finally:
            if tool.poll() is None:
                tool.kill()
                tool.wait()
        return status, read(said)

    def go_when_free(self):
        """The agent of a tool that was killed takes a moment to give the text back."""
        for _ in range(100):
            status, said = self.go()
            if "is being traced by another" not in said and "it is traced already" not in said:
                break
            time.sleep(0.05)
        return status, said

    def check(self, status, said):
        self.victim.well()
        if self.end == "kill" and status == -9:
            return
        if self.end == "kill":
            expect(status == 0, f"the tool ended with {status}: {said[-600:]!r}")
        elif self.end != "duration" and (status == -15 or EARLY.search(said)):
            expect(status in (0, 1, 2, -15), f"the tool ended with {status}: {said[-600:]!r}")
        else:
            expect(status == 0, f"the tool ended with {status}: {said[-600:]!r}")
        if self.end != "kill" and not EARLY.search(said):
            expect("could not be" not in said, f"the tool said {said[-600:]!r}")
            differ = DIFFER.search(said)
            expect("differ" not in said or differ, f"the tool said {said[-600:]!r}")
            expect(not differ or int(differ[1]) <= self.victim.waiting() * SLACK, f"the tool said {said[-600:]!r}")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def same_text(victim):
    """After a while the text is that of the files, and the agent has no thread."""
    end = time.monotonic() + 10
    while True:
        victim.well()
        try:
            different, threads = live.differing(victim.pid), victim.agents()
        except OSError:  # a library that went while it was read
            continue
        if not different and not threads:
            return
        expect(time.monotonic() < end, f"text differs: {list(different.items())[:5]}; threads of the agent: {threads}")
        time.sleep(0.02)


def same_agents(victim):
    """After a while the agent of a tool that was killed has no thread any more."""
    end = time.monotonic() + 10
    while victim.agents():
        expect(time.monotonic() < end, "the agent's thread stays")
        time.sleep(0.02)


def checked_session(arguments, victim, folder):
    """One more session, which nothing hurts: it clears up what killed ones have left, and says so."""
    same_agents(victim)
    time.sleep(max(0, victim.killed + ERRAND - time.monotonic()))
    done = subprocess.run([arguments.tool, "attach", "-v", "--mode", "drop", "-b", "64K", "--duration", "50ms", "-o",
                           os.path.join(folder, "trace"), str(victim.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=PATIENCE, check=False)
    victim.well()
    expect(done.returncode == 0, f"the last attach: {done.returncode}, {done.stdout[-800:]!r}")
    expect("of its text are as in its files" in done.stdout, f"the last attach: {done.stdout[-800:]!r}")
    same_text(victim)
    return done.stdout


def campaign(arguments, name, kinds, build):
    """None, or what went wrong."""
    folder = os.path.join(arguments.work, f"{name}-{builds.label(build)}")
    shutil.rmtree(folder, ignore_errors=True)
    chance = random.Random(f"{arguments.seed} {name}")
    number, what, victim, settled, kept = 0, "", None, None, False
    try:
        victim = Victim(arguments, folder, build, kinds)
        for number in range(arguments.rounds):
            if number == WARM and name not in ONCE:
                checked_session(arguments, victim, folder)
                settled = victim.size()
            if number and name in ONCE:
                victim.end()
                victim = Victim(arguments, folder, build, kinds)
            turn = Round(arguments, victim, chance, folder)
            what = turn.describe()
            if arguments.verbose:
                print(f"{name} {number}: {what}", flush=True)
            if name in ONCE:
                turn.go()
                continue
            status, said = turn.go_when_free()
            turn.check(status, said)
            kept = turn.keeps() or (kept and (turn.end != "duration" or status != 0))
            if chance.random() < 0.3 and not kept:
                same_text(victim)
        what = "at the end"
        if name not in ONCE:
            checked_session(arguments, victim, folder)
            grown(victim, settled)
        victim.end()
    except (Broken, OSError, subprocess.TimeoutExpired, AssertionError) as problem:
        return f"{name}, {builds.label(build)}, seed {arguments.seed}, round {number} ({what}): {problem}; kept in {folder}"
    finally:
        if victim and not (arguments.keep and sys.exc_info()[0]):
            victim.stop()
    shutil.rmtree(folder)
    return None


def grown(victim, settled):
    if not settled:
        return
    memory, maps, descriptors = victim.size()
    for _ in range(20):  # some programs breathe
        now = victim.size()
        memory, maps, descriptors = min(memory, now[0]), min(maps, now[1]), min(descriptors, now[2])
        time.sleep(0.02)
    expect(memory <= settled[0] + GROWTH_KB, f"{memory} KiB of memory, {settled[0]} after {WARM} rounds")
    expect(maps <= settled[1] + GROWTH_MAPS, f"{maps} mappings, {settled[1]} after {WARM} rounds")
    expect(descriptors <= settled[2] + 1, f"{descriptors} descriptors, {settled[2]} after {WARM} rounds")


def parse():
    parser = argparse.ArgumentParser(description="Attach to busy programs and leave them, at random moments.")
    parser.add_argument("--rounds", type=int, default=12, help="sessions on each program (default: 12)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=sorted(CAMPAIGNS), help="these campaigns alone")
    parser.add_argument("--long", action="store_true", help="200 rounds, each campaign with each build")
    parser.add_argument("--verbose", action="store_true", help="print each round")
    parser.add_argument("--keep", action="store_true", help="let a program live that failed")
    parser.add_argument("--way", type=int, help="the number of the build")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    parser.add_argument("--work", help="folder for what the runs need and leave (default: in the build directory)")
    arguments = parser.parse_args()
    arguments.tool = os.path.join(os.path.abspath(arguments.build), "src", "cmd", "calltap")
    arguments.work = os.path.join(os.path.abspath(arguments.work or arguments.build), f"attaches-{os.getpid()}")
    return arguments


def build_programs(arguments, build):
    cpu = cpus.CPUS["x86_64"]
    source = "attacked.cc"
    program, library = (os.path.join(arguments.work, f"{name}-{builds.label(build)}") for name in ("attacked", "library"))
    builds.compile_program(cpu, build, source, program)
    plain = (*build[:3], "cet" if build[3] == "cet" else "pie")
    builds.compile_program(cpu, plain, source, library, flags=["-DATTACKED_LIBRARY", "-fPIC", "-no-pie", "-shared"])


def plan_of(arguments, campaigns):
    """[(name, kinds, build)] of the campaigns that were asked for."""
    plan = []
    for number, (name, kinds) in enumerate(campaigns.items()):
        if not arguments.only or name in arguments.only:
            way = getattr(arguments, "way", None)
            ways = BUILDS if arguments.long else [BUILDS[(number if way is None else way) % len(BUILDS)]]
            plan += [(name, kinds, build) for build in ways]
    return plan


def fought(arguments, plan, fight):
    """Build the programs and go through the plan; how many failed.  fight() returns None, or what went wrong."""
    failed = 0
    for build in {build for _, _, build in plan}:
        build_programs(arguments, build)
    for name, kinds, build in plan:
        began = time.monotonic()
        problem = fight(arguments, name, kinds, build)
        if arguments.verbose:
            print(f"{name} {builds.label(build)}: {time.monotonic() - began:.1f} s", flush=True)
        if problem:
            failed += 1
            print("FAILED " + problem, flush=True)
    return failed


def main():
    arguments = parse()
    os.makedirs(arguments.work)
    if arguments.long:
        arguments.rounds = max(arguments.rounds, 200)
    plan = plan_of(arguments, CAMPAIGNS)
    failed = fought(arguments, plan, campaign)
    print(f"attaches: {len(plan) - failed} of {len(plan)} programs survived {arguments.rounds} sessions each, seed {arguments.seed}")
    if not failed:
        shutil.rmtree(arguments.work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

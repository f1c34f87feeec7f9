#!/usr/bin/env python3
"""Programs that do all they can to their own stacks, with handlers that come and go at random, fault and change all
registers, while the tool is killed, stopped or told to detach, and the program is recorded or attached to.

    handlers.py [--rounds N] [--seed S] [--only KIND] [--long] [--build DIR] [--work DIR]

The programs are those of attaches.py; test/prog/handling.c is preloaded, whose thread opens sessions, registers handlers
and unregisters them.  After each round the program must have found each of its results right; at the end its text is the
files', nothing may have grown, and it ends with its own status.  A failure prints what --seed and --only repeat it, as
far as time lets it.  test/e2e/handlers.py runs this, short.
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
sys.path[:0] = [HERE, os.path.join(ROOT, "test", "e2e")]
import attaches  # pylint: disable=wrong-import-position  # it lies in this folder, which a test may not run in
import builds  # pylint: disable=wrong-import-position
import cpus  # pylint: disable=wrong-import-position
from attaches import Broken, expect  # pylint: disable=wrong-import-position

CAMPAIGNS = {name: kinds for name, kinds in attaches.CAMPAIGNS.items() if name not in attaches.ONCE}
ACTS = ("kill", "kill", "kill", "stop", "detach", "attach", "set", "wait", "wait")
SETTINGS = ("tracing=off", "tracing=on", "trace=leaf", "trace=", "notrace=leaf", "notrace=", "tracer=function_graph",
            "tracer=nop")
GROWTH_KB = 12000
IDLE_S = 15  # an agent whose tool was killed has let go by then


class Victim(attaches.Victim):
    """A program of a campaign, with the library of handlers."""

    def __init__(self, arguments, folder, build, kinds, seed):
        environment = {"LD_PRELOAD": library_of(arguments), "HANDLED_TOOL": arguments.tool, "HANDLED_BUSY": str(seed)}
        kept = dict(os.environ)
        os.environ.update(environment)
        try:
            super().__init__(arguments, folder, build, kinds)
        finally:
            os.environ.clear()
            os.environ.update(kept)

    def tools(self):
        """Pids of the tools that serve it."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[1:3] == [b"serve", str(self.pid).encode()]:
                found.append(int(pid))
        return found


def library_of(arguments):
    return os.path.join(arguments.work, "handling.so")


def signal_tools(victim, number):
    for tool in victim.tools():
        try:
            os.kill(tool, number)
        except ProcessLookupError:
            pass


def act(arguments, victim, chance, what, folder):
    """One thing that happens to the program's session."""
    run = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False,
           "timeout": attaches.PATIENCE, "cwd": folder}
    if what == "kill":
        signal_tools(victim, signal.SIGKILL)
    elif what == "stop":
        signal_tools(victim, signal.SIGSTOP)
        time.sleep(chance.uniform(0, 0.3))
        signal_tools(victim, signal.SIGCONT)
    elif what == "detach":
        subprocess.run([arguments.tool, "detach", str(victim.pid)], **run)
    elif what == "set":
        subprocess.run([arguments.tool, "set", str(victim.pid), chance.choice(SETTINGS)], **run)
    elif what == "attach":
        subprocess.run([arguments.tool, "attach", "-o", os.path.join(folder, "trace"), "--mode", "drop", "-b", "64K",
                        "--duration", f"{chance.randrange(10, 400)}ms", str(victim.pid)], **run)


def campaign(arguments, name, kinds, build):
    """None, or what went wrong."""
    folder = os.path.join(arguments.work, f"{name}-{builds.label(build)}")
    shutil.rmtree(folder, ignore_errors=True)
    chance = random.Random(f"{arguments.seed} {name}")
    number, what, victim, settled = 0, "", None, None
    try:
        victim = Victim(arguments, folder, build, kinds, chance.randrange(1 << 30))
        for number in range(arguments.rounds):
            for _ in range(10):
                what = chance.choice(ACTS)
                if arguments.verbose:
                    print(f"{name} {number}: {what}", flush=True)
                act(arguments, victim, chance, what, folder)
                time.sleep(chance.choice((0, 0.01, 0.05, 0.2)))
                victim.well()
            if number == arguments.rounds // 3:
                settled = victim.size()
        what = "at the end"
        victim.well()
        if arguments.rounds >= 30:
            grown(victim, settled)
        end(victim)
    except (Broken, OSError, subprocess.TimeoutExpired, AssertionError) as problem:
        return f"{name}, {builds.label(build)}, seed {arguments.seed}, round {number} ({what}): {problem}; kept in {folder}"
    finally:
        if victim and not arguments.keep:
            signal_tools(victim, signal.SIGCONT)
            victim.stop()
    shutil.rmtree(folder)
    return None


def grown(victim, settled):
    """The agent of the last session may be there yet, or not."""
    smallest = victim.size()
    for _ in range(200):
        smallest = tuple(map(min, smallest, victim.size()))
        time.sleep(0.02)
    expect(smallest[0] <= settled[0] + GROWTH_KB, f"{smallest[0]} KiB of memory, {settled[0]} after a third")
    expect(smallest[1] <= settled[1] + attaches.GROWTH_MAPS, f"{smallest[1]} mappings, {settled[1]} after a third")
    expect(smallest[2] <= settled[2] + 4, f"{smallest[2]} descriptors, {settled[2]} after a third")


def end(victim):
    """It ends as it does untraced, and so do the tools."""
    victim.end()
    until = time.monotonic() + IDLE_S
    while victim.tools():
        expect(time.monotonic() < until, "the tool does not end with the program")
        time.sleep(0.02)


def parse():
    parser = argparse.ArgumentParser(description="Handlers in busy programs, and all that may happen to their tool.")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of ten acts with each program (default: 6)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=sorted(CAMPAIGNS), help="these campaigns alone")
    parser.add_argument("--long", action="store_true", help="100 rounds, each campaign with each build")
    parser.add_argument("--verbose", action="store_true", help="print each act")
    parser.add_argument("--keep", action="store_true", help="let a program live that failed")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    parser.add_argument("--work", help="folder for what the runs need and leave (default: in the build directory)")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    arguments.tool = os.path.join(arguments.build, "src", "cmd", "calltap")
    arguments.work = os.path.join(os.path.abspath(arguments.work or arguments.build), f"handlers-{os.getpid()}")
    return arguments


def build_library(arguments):
    folder = os.path.join(arguments.build, "src", "lib")
    flags = ["-fPIC", "-no-pie", "-shared", "-I" + os.path.join(ROOT, "include"), "-L" + folder, "-lcalltap",
             f"-Wl,-rpath,{folder}"]
    builds.compile_program(cpus.CPUS["x86_64"], ("gcc", "5", "-O2", "pie"), "handling.c", library_of(arguments), False, flags)


def main():
    arguments = parse()
    os.makedirs(arguments.work)
    if arguments.long:
        arguments.rounds = max(arguments.rounds, 100)
    plan = attaches.plan_of(arguments, CAMPAIGNS)
    build_library(arguments)
    failed = attaches.fought(arguments, plan, campaign)
    print(f"handlers: {len(plan) - failed} of {len(plan)} programs survived {arguments.rounds} rounds each, seed {arguments.seed}")
    if not failed:
        shutil.rmtree(arguments.work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

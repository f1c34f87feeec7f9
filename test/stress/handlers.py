#!/usr/bin/env python3
"""Programs that do all they can to their own stacks, with handlers that come and go at random, fault and change all
registers, while the tool is killed, stopped or told to detach, and the program is recorded or attached to.

    handlers.py [--rounds N] [--seed S] [--only KIND] [--long] [--build DIR] [--work DIR]

The programs are those of campaigns.py; test/prog/handling.c is preloaded, whose thread opens sessions, registers handlers
and unregisters them.  After each round the program must have found each of its results right; at the end its text is the
files', nothing may have grown, and it ends with its own status.  A failure prints what --seed and --only repeat it, as
far as time lets it.  test/e2e/handlers.py runs this, short.
"""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import campaigns  # pylint: disable=wrong-import-position  # it lies in this folder, which a test may not run in
import builds  # pylint: disable=wrong-import-position  # campaigns knows where
import cpus  # pylint: disable=wrong-import-position
from harness import expect  # pylint: disable=wrong-import-position

CAMPAIGNS = {name: kinds for name, kinds in {**campaigns.CAMPAIGNS, **campaigns.STOCK}.items()
             if name not in campaigns.ONCE and not name.startswith("stock-struck")}
ACTS = ("kill", "kill", "kill", "stop", "detach", "attach", "set", "wait", "wait")
SETTINGS = ("tracing=off", "tracing=on", "trace=leaf", "trace=", "notrace=leaf", "notrace=", "tracer=function_graph",
            "tracer=nop")
CHOICES = ((), (), ("-l", "*:*"), ("-l", "libc.so*:*", "-l", "handling.so:*"))  # the handlers and what they call, too
GROWTH_KB = 12000
IDLE_S = 15  # an agent whose tool was killed has let go by then


class Victim(campaigns.Victim):
    """A program of a campaign, with the library of handlers."""

    def __init__(self, arguments, command, folder, seed):
        super().__init__(command, folder, {"LD_PRELOAD": library_of(arguments), "HANDLED_TOOL": arguments.tool,
                                           "HANDLED_BUSY": str(seed)})

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
    """Do one thing to the program's session."""
    run = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False,
           "timeout": campaigns.PATIENCE, "cwd": folder}
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
                        "--duration", f"{chance.randrange(10, 400)}ms", *chance.choice(CHOICES), str(victim.pid)], **run)


class Handled(campaigns.Campaign):
    """Ten acts a round on one program."""

    def rounds(self):
        settled, rounds = None, self.arguments.rounds
        self.victim = Victim(self.arguments, self.command, self.folder, self.chance.randrange(1 << 30))
        for self.number in range(rounds):
            for _ in range(10):
                self.tell(self.chance.choice(ACTS))
                act(self.arguments, self.victim, self.chance, self.what, self.folder)
                time.sleep(self.chance.choice((0, 0.01, 0.05, 0.2)))
                self.victim.well()
            if self.number == rounds // 3:
                settled = self.victim.size()
        self.what = "at the end"
        self.victim.well()
        if rounds >= 30:
            grown(self.victim, settled)
        end(self.victim)

    def stop(self):
        signal_tools(self.victim, signal.SIGCONT)
        super().stop()


def grown(victim, settled):
    """The agent of the last session may be there yet, or not."""
    smallest = victim.size()
    for _ in range(200):
        smallest = tuple(map(min, smallest, victim.size()))
        time.sleep(0.02)
    expect(smallest[0] <= settled[0] + GROWTH_KB, f"{smallest[0]} KiB of memory, {settled[0]} after a third")
    expect(smallest[1] <= settled[1] + campaigns.GROWTH_MAPS, f"{smallest[1]} mappings, {settled[1]} after a third")
    expect(smallest[2] <= settled[2] + 4, f"{smallest[2]} descriptors, {settled[2]} after a third")


def end(victim):
    """End the program: it ends as it does untraced, and its tools end, too."""
    victim.end()
    until = time.monotonic() + IDLE_S
    while victim.tools():
        expect(time.monotonic() < until, "the tool does not end with the program")
        time.sleep(0.02)


def build_library(arguments):
    folder = os.path.join(arguments.build, "src", "lib")
    flags = ["-fPIC", "-no-pie", "-shared", "-I" + os.path.join(campaigns.ROOT, "include"), "-L" + folder, "-lcalltap",
             f"-Wl,-rpath,{folder}"]
    builds.compile_program(cpus.CPUS["x86_64"], ("gcc", "5", "-O2", "pie"), "handling.c", library_of(arguments), False, flags)


def main():
    arguments = campaigns.begin("handlers", "Handlers in busy programs, and all that may happen to their tool.", CAMPAIGNS,
                                6, 100)
    build_library(arguments)
    return campaigns.fight(arguments, CAMPAIGNS, Handled)


if __name__ == "__main__":
    sys.exit(main())

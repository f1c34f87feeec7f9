#!/usr/bin/env python3
"""Attaches to programs that do all they can to their own stacks, threads and text, and leaves them, over and over.

    attaches.py [--rounds N] [--seed S] [--only KIND] [--clean] [--long] [--build DIR] [--work DIR]

The programs are those of campaigns.py.  Each round draws a session (tracers, filters, modes, `calltap top`, triggers),
a moment, and an end: by its duration, `calltap detach`, SIGTERM, kill -9; or `calltap set` with random settings before
that.  What a killed tool has left is taken away by `calltap detach`, or by the next session.  Afterwards the program
must have found each of its results right and end with its own status, its text must be the files' (looked at here, and said by `attach -v`), and nothing may have grown beyond the
first rounds: memory, mappings, descriptors, threads.  Programs that take rights from themselves while they are traced
can be attached to once only and have a campaign of their own, with a program for each round.
With --clean the tool is never killed. A failure prints what --seed and --only repeat it, as far as time lets it.
test/e2e/attach.py runs this, short.
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import campaigns  # pylint: disable=wrong-import-position  # it lies in this folder, which a test may not run in
import live  # pylint: disable=wrong-import-position  # campaigns knows where
from campaigns import ONCE, PATIENCE  # pylint: disable=wrong-import-position
from harness import Failure, expect  # pylint: disable=wrong-import-position

CAMPAIGNS = {**campaigns.CAMPAIGNS, **campaigns.STRUCK, **campaigns.STOCK, **campaigns.ASLEEP, **campaigns.DISTRIBUTED,
             **campaigns.STATIC}
WARM = 10  # rounds after which nothing may grow any more
GROWTH_KB = 6000  # of memory in all further rounds: malloc's own, and stacks that were used more deeply
DIFFER = re.compile("([0-9]+) bytes? of the process' text differ")
SLACK = 2048  # bytes: the code of a thread that loads the agent (NATIVE_CODE_MAX)
ERRAND = 6  # seconds: a thread that loads the agent is back by then, whatever has become of the tool
SESSIONS = ((), ("--mode", "block"), ("-p", "function"), ("-t", "2us"), ("--max-depth", "4"), ("-g", "nested"), ("--no-graph", "nested"),
            ("-l", "leaf"), ("-l", "*deep*"), ("--no-fork",), ("--mode", "overwrite"), ("--mode", "drop"),
            ("-p", "nop"), ("--time", "adaptive"), ("--time", "adaptive", "--time-small", "100000", "--mode", "block"))
# Of a program that has not the functions of attacked.cc.
ALL_SESSIONS = ((), ("-l", "*:*"), ("-l", "libc.so*:*"), ("-l", "libcrypto*:*"), ("-p", "function"), ("-t", "2us"), ("--max-depth", "4"),
                ("--mode", "overwrite"), ("--mode", "drop"), ("-p", "nop"), ("--time", "adaptive", "--time-small", "100000"))
TRIGGERS = (("--stack-when", "deep > 1ms"), ("--stack-when", "leaf"), ("--run-when", "nested > 1us => true"),
            ("--mode", "overwrite", "--snapshot-when", "thrown_deep > 1us"))
SETTINGS = ("tracing=off", "tracing=on", "tracer=function graph= no-graph= max-depth= threshold=", "tracer=function_graph",
            "max-depth=3", "max-depth=", "threshold=1us", "threshold=", "graph=nested", "graph=deep", "graph=", "no-graph=nested",
            "no-graph=", "trace=leaf", "trace+=nested", "trace=", "notrace=leaf", "notrace=")
# Choices that take functions in that no choice before had, in libraries too: threads are stopped again for them.
STOCK_SETTINGS = ("trace=libc.so*:*", "trace=libc.so*:nanosleep,*:read", "trace=*:*", "trace=", "trace=*a*", "trace=*e*",
                  "trace+=libm.so*:*", "tracing=off", "tracing=on", "notrace=*o*", "notrace=", "threshold=1us", "threshold=")
# The agent stays, for the next session, when for 5 s some thread sleeps in vfork() or is in a handler that it has to leave:
# on a busy machine that may be so.
STAYS = re.compile("(the agent stays in process|still has what an earlier session left).*(sleeps in the kernel|in a signal handler)")
STAYS_MAX = 10  # of so many sessions, one may leave the agent in the process
LAST_MAX = 3  # further sessions, where the last one leaves it
CLEARED = "what an earlier calltap had left"
DIFFER_NOW = re.compile("([0-9]+) bytes? of its text differs?")
# Nothing was left, the agent had not come yet, or it has to stay.
CLEARS_NOT = re.compile("is not traced by you(; `calltap status`|, and no calltap has left)|still has what an earlier session left.*(sleeps in the kernel|in a signal handler)")
EARLY = re.compile("nothing was recorded|was not recorded")  # told to end before it had begun
ENDS = ("duration", "duration", "kill", "kill", "detach", "terminate")
CLEAN_ENDS = ("duration", "duration", "detach", "terminate")


class Victim(campaigns.Victim):
    """A program of a campaign, and what tools that were killed have left in it."""

    def __init__(self, name, *arguments):
        super().__init__(*arguments)
        self.name = name  # of the campaign
        self.is_stock = name in {**campaigns.STOCK, **campaigns.ASLEEP, **campaigns.DISTRIBUTED, **campaigns.STATIC}
        self.killed, self.kills, self.stays = 0, [], 0

    def waiting(self):
        """Threads that may wait in the slack for a tool that was killed, which was to load the agent: one for each."""
        return sum(time.monotonic() < killed + ERRAND for killed in self.kills)

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


class Round:
    """A session on a victim, from its attach to its end."""

    def __init__(self, arguments, victim, chance, folder):
        self.tool, self.victim, self.chance, self.folder = arguments.tool, victim, chance, folder
        self.end = chance.choice(CLEAN_ENDS if arguments.clean else ENDS)
        self.ms = chance.choice((chance.uniform(0, 60), chance.uniform(20, 300)))
        foreign = victim.name in {**campaigns.ASLEEP, **campaigns.DISTRIBUTED}
        profile = chance.random() < 0.15
        if profile:
            self.end = chance.choice(("terminate", "detach") if arguments.clean else ("kill", "terminate", "detach"))
            options = ["top", "--batch", "0", "--allow-no-match"]
        elif foreign:
            options = ["attach", "-o", os.path.join(folder, "trace"), "--allow-no-match", *chance.choice(ALL_SESSIONS)]
        elif chance.random() < 0.15:
            options = ["attach", "-o", os.path.join(folder, "trace"), "--allow-no-match", *chance.choice(TRIGGERS)]
        else:
            options = ["attach", "-o", os.path.join(folder, "trace"), "--allow-no-match", *chance.choice(SESSIONS)]
        if not profile:
            options += ["-b", chance.choice(("64K", "1M"))]
        if self.end == "duration":
            options += ["--duration", f"{max(1, int(self.ms))}ms"]
        self.sets = not profile and chance.random() < 0.4
        self.settings = STOCK_SETTINGS if foreign else (*SETTINGS, *STOCK_SETTINGS) if victim.is_stock else SETTINGS
        self.command = [self.tool, *options, str(victim.pid)]

    def keeps(self):
        """A flight recorder goes on without its tool, and heads stay led: the text differs until the next session."""
        return self.end == "kill" and ("overwrite" in self.command or self.victim.is_stock)

    def describe(self):
        return f"{' '.join(self.command[1:])}, {'set, ' * self.sets}{self.end} after {self.ms:.1f} ms"

    def run(self, *words):
        return subprocess.run([self.tool, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=PATIENCE, check=False)

    def steer(self):
        for _ in range(self.chance.randrange(1, 6)):
            words = self.chance.choice(self.settings).split()
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
                # One that comes before the session does may take away what a killed tool had left instead.
                while tool.poll() is None and (done := self.run("detach", str(self.victim.pid))) and (
                        done.returncode or CLEARED in done.stdout):
                    time.sleep(0.02)
            status = tool.wait(PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{late}; the tool said {read(said)[-600:]!r}") from late
        finally:
            if tool.poll() is None:
                tool.kill()
                tool.wait()
        return status, read(said)

    def clear(self):
        """Take away what killed tools have left; true: all text is as in the files, as far as the tool saw."""
        done = self.run("detach", str(self.victim.pid))
        self.victim.well()
        differ = DIFFER_NOW.search(done.stdout)
        if done.returncode == 0 and not differ:
            expect("text are as in its files" in done.stdout, f"detach: {done.stdout!r}")
            return True
        expect(CLEARS_NOT.search(done.stdout) or (differ and int(differ[1]) <= self.victim.waiting() * SLACK),
               f"detach: {done.returncode}, {done.stdout!r}")
        return False

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
        elif status in (1, 2) and STAYS.search(said):
            self.victim.stays += 1
            return
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


def last_session(arguments, victim, folder):
    done = subprocess.run([arguments.tool, "attach", "-v", "--mode", "drop", "-b", "64K", "--duration", "50ms", "-o",
                           os.path.join(folder, "trace"), str(victim.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=PATIENCE, check=False)
    victim.well()
    return done


def checked_session(arguments, victim, folder):
    """A last session, which nothing hurts: it clears up after killed ones, and says so.  One whose agent has to stay asks for
    another session."""
    same_agents(victim)
    time.sleep(max(0, victim.killed + ERRAND - time.monotonic()))
    done = last_session(arguments, victim, folder)
    for _ in range(LAST_MAX):
        if done.returncode in (1, 2) and STAYS.search(done.stdout):
            done = last_session(arguments, victim, folder)
    expect(done.returncode == 0, f"the last attach: {done.returncode}, {done.stdout[-800:]!r}")
    expect("of text in what was patched are as in their files" in done.stdout, f"the last attach: {done.stdout[-800:]!r}")
    same_text(victim)
    return done.stdout


class Attached(campaigns.Campaign):
    """Sessions on one program, or, where it can be attached to once only, on as many as there are rounds."""

    def rounds(self):
        settled, kept = None, False
        self.victim = self.another()
        for self.number in range(self.arguments.rounds):
            if self.number == WARM and self.name not in ONCE:
                checked_session(self.arguments, self.victim, self.folder)
                settled = self.victim.size()
            if self.number and self.name in ONCE:
                self.victim.end()
                self.victim = self.another()
            turn = Round(self.arguments, self.victim, self.chance, self.folder)
            self.tell(turn.describe())
            if self.name in ONCE:
                turn.go()
                continue
            status, said = turn.go_when_free()
            turn.check(status, said)
            kept = turn.keeps() or (kept and (turn.end != "duration" or status != 0))
            expect(self.victim.stays <= 1 + self.number / STAYS_MAX, f"{self.victim.stays} of {self.number + 1} sessions left "
                   "the agent")
            if turn.end == "kill" and self.chance.random() < 0.5:
                kept = not turn.clear()
            if self.chance.random() < 0.3 and not kept and not STAYS.search(said):
                same_text(self.victim)
        self.what = "at the end"
        if self.name not in ONCE:
            checked_session(self.arguments, self.victim, self.folder)
            grown(self.victim, settled)
        self.victim.end()

    def another(self):
        return Victim(self.name, self.command, self.folder)


def grown(victim, settled):
    if not settled:
        return
    memory, maps, descriptors = victim.size()
    for _ in range(20):  # some programs breathe
        now = victim.size()
        memory, maps, descriptors = min(memory, now[0]), min(maps, now[1]), min(descriptors, now[2])
        time.sleep(0.02)
    expect(memory <= settled[0] + GROWTH_KB, f"{memory} KiB of memory, {settled[0]} after {WARM} rounds")
    expect(maps <= settled[1] + campaigns.GROWTH_MAPS, f"{maps} mappings, {settled[1]} after {WARM} rounds")
    expect(descriptors <= settled[2] + 1, f"{descriptors} descriptors, {settled[2]} after {WARM} rounds")


def main():
    arguments = campaigns.begin("attaches", "Attach to busy programs and leave them, at random moments.", CAMPAIGNS,
                                12, 200, {"--clean": "never kill the tool"})
    return campaigns.fight(arguments, CAMPAIGNS, Attached)


if __name__ == "__main__":
    sys.exit(main())

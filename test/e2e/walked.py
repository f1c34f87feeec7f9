"""`calltap tui` on a terminal (tmux): its views and figures, its keys, hostile names, sizes, and how it ends."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys

from harness import expect, until
from watch import Terminal, sees, watched

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "flow"))
import tracetext  # pylint: disable=wrong-import-position

HOSTILE = ["\x1b[2J\x1b]0;owned\x07name", "tab\tand\nline", "\u202eturned", "\udcff\udcfebroken\udc80", "\u65e5\u672c\u8a9e" * 30,
           "e\u0301\u0301\u0301combined", "x" * 10240, "<\u9b5a>" + "(" * 5000, "plain"]
NODE = re.compile(r"(?:ns|us|ms|s) +(\d+) +[-+]? *(\w+)")  # calls and name in a line of a tree
TIME = re.compile(r"[\d.]+ (?:ns|us|ms|s)\b")


def recorded(case, turns=200):
    """A trace of test/prog/watched.c."""
    outcome = case.record(watched(case, 2, turns, 100), log=False)
    expect(outcome.status == 0, f"record: {outcome.stderr}")


class Walk(Terminal):
    """A terminal with `calltap tui` in it."""

    def __init__(self, case, columns=100, rows=24, options=()):
        super().__init__(case, columns, rows)
        self.sees("ready:")
        self.was = self.state()
        self.start(options)

    def start(self, options=(), before=""):
        command = shlex.join([self.case.tool, "tui", *options, "-i", self.case.trace_path])
        self.tmux("send-keys", "-l", f"clear; {before}{command}; echo status $?")
        self.type("Enter")
        self.sees("h help|reading")

    def ends(self, pattern="^status 0$"):
        self.sees(pattern)
        expect(self.state() == self.was, f"the terminal was {self.was} and is {self.state()}")

    def lines(self):
        return self.screen().splitlines()[3:-1]


def figures(case, *arguments):
    outcome = case.run([case.tool, *arguments, "-i", case.trace_path, "--json"])
    expect(outcome.status == 0, outcome.stderr)
    return json.loads(outcome.stdout)


def printed(case, *arguments):
    """{function: the line that `report` prints for it}."""
    outcome = case.run([case.tool, *arguments, "-i", case.trace_path])
    return {line.split()[-1]: line for line in outcome.stdout.splitlines() if line.strip()}


def has_rows(walk, names, what):
    """The terminal may show the first lines of a screen before the last ones."""
    until(f"the rows {what}, {names}", lambda: [line.split()[-1] for line in walk.lines() if line.strip()] == names)


def table_is_the_report(case):
    """The table has the figures of `report`, in each order; and the filter and the search find their rows."""
    recorded(case)
    lines = printed(case, "report")
    with Walk(case, 140, 24) as walk:
        walk.type("f")
        walk.sees("functions, by Total")
        rows = {line.split()[-1]: line for line in walk.lines() if line.strip()}
        expect(set(rows) == {"step", "turn", "rare", "doze", "work", "main"}, f"{rows}")
        for name, row in rows.items():
            expect(TIME.findall(row) == TIME.findall(lines[name]), f"{row} is not {lines[name]}")
            expect(row.split()[0] == lines[name].split()[0], f"{row} is not {lines[name]}")
        for column in ("self", "min", "avg", "p50", "p99", "max", "name", "calls"):
            want = [row["function"] for row in figures(case, "report", "--sort", column)["rows"]]
            walk.type("s")
            title = "Function" if column == "name" else column if column[0] == "p" else column.capitalize()
            walk.sees(f"functions, by {title}\\b")
            has_rows(walk, want, f"by {column}")
        walk.type("R")
        walk.sees("least first")
        has_rows(walk, want[::-1], "the other way around")
        walk.type("&", "do", "Enter")
        walk.sees("1 of 6 functions matching do")
        walk.type("Escape")
        walk.sees("6 of 6 functions")
        walk.type("q")
        walk.ends()


def tree_is_the_graph(case):
    """The unfolded tree has the lines of `graph`, and around a function are its callers and callees."""
    recorded(case)
    whole = figures(case, "graph", "--min-percent", "0")["nodes"]
    around = figures(case, "graph", "--min-percent", "0", "step")
    with Walk(case, 120, 40) as walk:
        walk.sees(" [-+] main")
        walk.type("G", "*", "Home", "*")
        want = [(node["function"], str(node["calls"])) for node in whole]

        def shown():
            return [NODE.search(line).group(2, 1) for line in walk.lines() if line.strip()]
        sees(shown, lambda lines: lines == want, f"the tree {want}")
        walk.type("/", "rare", "Enter")
        walk.type("a")
        walk.sees("around rare")
        walk.type("Escape", "/", "step", "Enter", "a")
        walk.sees("around step")
        walk.type("Home", "Down", "*", "End", "*")
        text = walk.sees("WHAT IT CALLS")
        calls = [(node["function"], str(node["calls"])) for node in around["callers"]]

        def callers():
            lines = walk.lines()
            end = next(i for i, line in enumerate(lines) if "WHAT IT CALLS" in line)
            return [NODE.search(line).group(2, 1) for line in lines[1:end]]
        sees(callers, lambda lines: lines == calls, f"callers {calls} on\n{text}")
        walk.type("Escape", "Escape")
        walk.sees("all calls, merged")
        walk.type("q")
        walk.ends()


def calls_themselves(case):
    """A function's calls in order and slowest first, what happened in one, the next one; and the source lines."""
    recorded(case)
    row = next(row for row in figures(case, "report")["rows"] if row["function"] == "turn")
    with Walk(case, 120, 24) as walk:
        walk.type("f", "/", "turn", "Enter", "c")
        text = walk.sees("400 calls in order of time, of turn")
        starts = [float(line.split()[0]) for line in walk.lines() if line.strip()]
        expect(starts == sorted(starts) and len(starts) == 20, f"starts are {starts}")
        walk.type("s")
        text = walk.sees("400 calls, slowest first, of turn")
        longest = TIME.findall(walk.lines()[0])[0]
        expect(longest in printed(case, "report")["turn"], f"the slowest takes {longest}, report has {row}\n{text}")
        walk.type("s", "Enter")
        text = walk.sees("call 1 of 400")
        names = [line.split()[-1] for line in walk.lines() if line.strip()]
        expect(names[0] in ("main", "work") and "turn" in names, f"{names}")
        expect(names.count("step") in (5, 6), f"{names}")
        walk.type("]")
        walk.sees("call 2 of 400")
        walk.type("[", "[")
        walk.sees("no further call")
        walk.type("Escape")
        walk.sees("400 calls in order")
        walk.type("l")
        text = walk.sees("turn: .*watched.c|does not tell")
        if "watched.c" in text:
            line = walk.lines()[2]
            expect(line.split()[0] == "400", f"beside the entry stand its calls:\n{text}")
        walk.type("q")
        walk.ends()


def sizes(case):
    """A terminal that gets narrow, small and wide; the help page; the mouse."""
    recorded(case)
    with Walk(case, 80, 24) as walk:
        walk.type("f")
        walk.sees("functions, by Total")
        for columns, rows in ((40, 10), (20, 5), (10, 2), (200, 50), (80, 24)):
            walk.tmux("resize-window", "-x", str(columns), "-y", str(rows))
            if columns >= 40:
                walk.sees("Total.*Function")
                expect(all(len(line) <= columns for line in walk.screen().splitlines()), walk.screen())
        walk.type("h")
        help_page = walk.sees("any key: back")
        expect(all(len(line) <= 80 for line in help_page.splitlines()) and "search" in help_page, help_page)
        walk.type("x")
        walk.sees("h help")  # the heading is that of the help page, too
        name = walk.lines()[2].split()[-1]
        kind = walk.tmux("show-options", "-gv", "default-terminal").strip()
        old = "kmous=\\E[M" in subprocess.run(["infocmp", "-1", kind], capture_output=True, text=True, check=True).stdout
        sequence = b"\x1b[M &&\x1b[M#&&" if old else b"\x1b[<0;6;6M\x1b[<0;6;6m"  # pressed and released in the sixth row
        mouse = ["send-keys", "-H", *(f"{byte:02x}" for byte in sequence)]
        walk.tmux(*mouse)
        walk.type("a")
        walk.sees(f"around {name}")
        walk.type("Escape", "Home")
        walk.sees("functions, by Total")
        walk.tmux(*mouse, *mouse[2:])  # at once: the second one is on the bar, as Enter
        walk.sees(f"around {name}")
        walk.type("q")
        walk.ends()


def hostile_names(case):
    """Names that would disturb the screen."""
    text = tracetext.Text("process 0 100 /usr/bin/demo 0\nthread 0 0 100 demo\nend 0")
    for number, name in enumerate(HOSTILE):
        text.functions.append((number, name, "/dev/zero:3"))
        text.event(0, 1000 + number * 100, "entry", [number])
        text.event(0, 1050 + number * 100, "exit", [number])
    with open(case.trace_path, "wb") as file:
        file.write(text.file())
    with Walk(case, 80, 24) as walk:
        title = walk.tmux("display-message", "-p", "#{pane_title}")
        for view in ("t", "f", "a", "c", "l"):
            walk.type(view, "Home", "Down")
            if view in "tf":
                screen = walk.sees("plain")
                for shown in ("?[2J", "tab?and?line", "?turned", "??broken?", "\u65e5\u672c", "e???combined", "xxx", "\u9b5a"):
                    expect(shown in screen, f"{shown!r} is not in\n{screen}")
            screen = walk.screen()
            expect(screen.splitlines()[0].startswith("calltap tui: trace"), f"the first line is gone in {view}:\n{screen}")
            expect("owned" not in walk.tmux("display-message", "-p", "#{pane_title}"), f"the title was {title}")
            expect("help" in screen.splitlines()[23], f"the last line is gone in {view}:\n{screen}")
        walk.type("q")
        walk.ends()


def colors(case):
    """Colours unless something forbids them."""
    recorded(case)
    with Walk(case) as walk:
        walk.type("q")
        walk.ends()
        for options, before, wanted in (((), "", True), ((), "NO_COLOR=1 ", False), (("--color", "never"), "", False),
                                        (("--color", "always"), "NO_COLOR=1 ", True)):
            walk.start(options, before)
            walk.type("End")
            walk.sees("main")
            shown = walk.tmux("capture-pane", "-p", "-e")
            colored = bool(re.search(r"\x1b\[[\d;]*3[136]", shown))
            expect(colored == wanted, f"colours with {options} {before}: {shown!r}")
            walk.type("q")
            walk.ends()


def refused(case):
    """No terminal, or one that has no screen: a sentence that names what to use instead."""
    recorded(case, 5)
    outcome = case.run([case.tool, "tui", "-i", case.trace_path])
    expect(outcome.status == 1 and "report" in outcome.stderr and "graph" in outcome.stderr, f"{outcome}")
    expect(len(outcome.stderr.splitlines()) == 1 and not outcome.stdout, f"{outcome}")
    with Terminal(case) as terminal:
        terminal.sees("ready:")
        before = terminal.state()
        for verb, instead in ((["tui", "-i", case.trace_path], "calltap graph"), (["top", "--", "true"], "--batch")):
            for name in ("dumb", "no-such-terminal"):
                mark = f"{verb[0]} on {name}"  # what is on the screen from the command before is not taken for this one's
                terminal.tmux("send-keys", "-l", f"clear; TERM={name} {shlex.join([case.tool, *verb])}; echo {mark}: status $?")
                terminal.type("Enter")
                text = terminal.sees(f"^{mark}: status [12]$")
                expect(instead in " ".join(text.split()), f"TERM={name}:\n{text}")
                expect(terminal.state() == before, f"the terminal was {before} and is {terminal.state()}")
        terminal.tmux("send-keys", "-l", f"clear; {shlex.join([case.tool, 'tui', '-i', '/dev/null'])}; echo no trace: status $?")
        terminal.type("Enter")
        terminal.sees("^no trace: status 1$")
        expect(terminal.state() == before, "the terminal after a file that is no trace")


def ended(number, status):
    """The terminal is given back when a signal ends the tool, and the status tells which."""
    def test(case):
        recorded(case, 5)
        with Walk(case) as walk:
            walk.sees("main")
            os.kill(walk.tool(), number)
            if number == signal.SIGINT:  # the shell takes it for its own, and leaves the rest of the line out
                sees(walk.state, lambda state: state[1] == walk.was[1], "the terminal's state from before")
                walk.sees("^ready: *$")  # else what is typed stands before the prompt
                walk.type("echo status $?", "Enter")
            walk.ends(rf"^status {status}$")
    return test


def interrupted(case):
    recorded(case, 5)
    with Walk(case) as walk:
        walk.sees("main")
        walk.type("C-c")
        walk.ends()


def suspended(case):
    """^Z and SIGTSTP give the terminal back until the shell goes on with the tool; also after SIGSTOP it draws anew."""
    recorded(case, 5)
    with Walk(case) as walk:
        walk.sees("main")
        walk.type("f")
        walk.sees("functions, by Total")
        pid = walk.tool()
        for stop in (lambda: walk.type("C-z"), lambda: os.kill(pid, signal.SIGTSTP)):
            stop()
            sees(lambda: open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[0],
                 lambda state: state == "T", "a stopped tool")
            sees(lambda: walk.state()[1], lambda state: state == walk.was[1], "the terminal's state from before")
            walk.type("Enter")
            sees(lambda: walk.screen().rstrip().splitlines()[-1], lambda line: line.startswith("ready:"), "the shell")
            walk.type("clear;fg", "Enter")
            walk.sees("functions, by Total")
        os.kill(pid, signal.SIGSTOP)
        walk.sees("ready: *$|topped")
        walk.type("C-j", "stty sane; clear; fg", "C-j")  # the tool could not give the terminal back
        walk.sees("functions, by Total")
        walk.type("Down", "a")
        walk.sees("around")
        walk.type("q")
        walk.sees("ready: *$")
        expect(walk.state()[1] == walk.was[1], f"the terminal was {walk.was} and is {walk.state()}")


def top_suspended(case):
    """`top` shares the room: ^Z, and on again, while the program runs."""
    with Terminal(case) as terminal:
        terminal.sees("ready:")
        before = terminal.state()
        terminal.run([case.tool, "top", "-i", "100ms", "--", *watched(case, 1, 100000)], "; echo status $?")
        terminal.sees(r"\d .* step")
        terminal.type("C-z")
        sees(lambda: terminal.state()[1], lambda state: state == before[1], "the terminal's state from before")
        terminal.type("clear;fg", "Enter")
        terminal.sees(r"\d .* step")
        terminal.type("&", "do", "Enter")
        terminal.sees("1 of . functions matching do")
        terminal.type("q")
        terminal.sees("ready: *$")
        sees(lambda: terminal.state()[1], lambda state: state == before[1], "the terminal's state from before")


def values_of_calls(case):
    """What a call was made with, and its result, stand behind the calls of what happened in it."""
    outcome = case.record(watched(case, 1, 5, 100), ["-A", "step:x=arg1:u32", "-R", "step:ret:x32"], log=False)
    expect(outcome.status == 0, f"record: {outcome.stderr}")
    outcome = case.run([case.tool, "replay", "-i", case.trace_path, "-f", "step"])
    first = re.search(r"step\((x=\d+)\) = (\w+);", outcome.stdout)
    expect(first, f"no values in {outcome.stdout}")
    with Walk(case) as walk:
        walk.type("f", "/", "turn", "Enter", "c", "Enter")
        walk.sees(rf"step\({first.group(1)}\) = {first.group(2)}")
        walk.type("q")
        walk.ends()


def odd_traces(case):
    """A trace without durations, one of a deep recursion, and one that is cut short."""
    made = tracetext.Text("process 0 100 /usr/bin/demo 0\nthread 0 0 100 demo\nfunction 0 once\nend 0")
    for time in range(3):
        made.event(0, 1000 + time, "call", [0, 0x400000])
    with open(case.trace_path, "wb") as file:
        file.write(made.file())
    with Walk(case, 80, 24) as walk:
        walk.sees("^ +3 +- .* once")
        walk.type("c")
        walk.sees("no single calls")
        walk.type("t")
        walk.sees("f shows the table")
        walk.type("q")
        walk.ends()
        made = tracetext.Text("process 0 100 /usr/bin/demo 0\nthread 0 0 100 demo\nfunction 0 down\nend 0")
        for time in range(2000):
            made.event(0, 1000 + time, "entry" if time < 1000 else "exit", [0])
        with open(case.trace_path, "wb") as file:
            file.write(made.file())
        walk.start()
        walk.type("*", "End")
        walk.sees(r"999: down")
        walk.type("a")
        walk.sees("around down")
        walk.type("c", "s", "Enter")
        walk.sees("call 1 of 1000")
        walk.type("End")
        walk.sees(r"999: down")
        walk.type("q")
        walk.ends()
        with open(case.trace_path, "r+b") as file:
            file.truncate(os.path.getsize(case.trace_path) - 60)
        walk.start()
        walk.sees("down")
        walk.sees("^calltap tui: .*CUT SHORT")
        walk.type("q")
        walk.sees("calltap: .*trace: ")
        walk.ends()


def hung_up(case):
    """A terminal that goes away ends the tool."""
    recorded(case, 5)
    with Walk(case) as walk:
        walk.sees("main")
        pid = walk.tool()
        walk.tmux("kill-server")
        sees(lambda: os.path.exists(f"/proc/{pid}"), lambda there: not there, "the tool's end")


SINGLE = {
    "walk-values-of-calls": values_of_calls,
    "walk-odd-traces": odd_traces,
    "walk-hung-up": hung_up,
    "walk-table-is-the-report": table_is_the_report,
    "walk-tree-is-the-graph": tree_is_the_graph,
    "walk-calls-themselves": calls_themselves,
    "walk-sizes": sizes,
    "walk-hostile-names": hostile_names,
    "walk-colors": colors,
    "walk-refused": refused,
    "walk-interrupt-key": interrupted,
    "walk-sigint": ended(signal.SIGINT, 130),
    "walk-sigterm": ended(signal.SIGTERM, 143),
    "walk-sighup": ended(signal.SIGHUP, 129),
    "walk-crash": ended(signal.SIGSEGV, 139),
    "walk-suspended": suspended,
    "walk-top-suspended": top_suspended,
}

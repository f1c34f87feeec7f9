"""Watching a program while it runs: `calltap top` and `calltap live`, on a terminal (tmux) and in a pipe."""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

from crowds import Throng
from endings import start, wait_for
from harness import Failure, Process, Skip, expect, stop

STEPS = 5  # of a turn, see test/prog/watched.c
PAUSE_MS = 2


def watched(case, threads, turns, pause_us=PAUSE_MS * 1000):
    case.need_native("watching")
    return [case.program("watched.c"), str(threads), str(turns), str(pause_us)]


@contextlib.contextmanager
def running(case, threads):
    """The number of a process that takes turns as long as it is looked at, and then ends well."""
    looking = os.path.join(case.folder, "looking")
    with open(looking, "w", encoding="ascii"):
        output, process = start(case, [*watched(case, threads, 0), looking])
    try:
        yield wait_for(output, "running").split()[1]
        os.unlink(looking)
        wait_for(output, "done well", 60)
        expect(process.wait(20) == 0, f"the program ended with {process.returncode}")
    finally:
        stop(process)


def steps_of(threads, turns):
    """The number of calls of step()."""
    return threads * (turns * STEPS + (turns + 9) // 10)


def sees(read, condition, what, seconds=20):
    """The first result of `read` for which the condition holds."""
    end = time.monotonic() + seconds
    while True:
        got = read()
        if condition(got):
            return got
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {seconds} s:\n{got}")
        time.sleep(0.05)


class Terminal:
    """A terminal with a shell in it."""

    def __init__(self, case, columns=120, rows=20):
        if not shutil.which("tmux"):
            raise Skip("tmux is not installed")
        self.socket = os.path.join(case.folder, "tmux")
        self.case = case
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "env PS1=ready: sh")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", "-S", self.socket, *arguments], cwd=self.case.folder, capture_output=True,
                              env=self.case.environment(False) | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}, check=False,
                              timeout=20)
        expect(done.returncode == 0, f"tmux {arguments}: {done.stderr!r}")
        return done.stdout.decode(errors="replace")

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def run(self, command, then=""):
        self.tmux("send-keys", "-l", f"{shlex.join(command)}{then}")
        self.type("Enter")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def sees(self, pattern, seconds=20):
        return sees(self.screen, lambda text: re.search(pattern, text, re.M), f"/{pattern}/ on the screen", seconds)

    def tool(self):
        """The process id of the command that runs: the one child of the shell."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()

        def children():
            with open(f"/proc/{shell}/task/{shell}/children", encoding="utf-8") as file:
                return file.read().split()
        return int(sees(children, len, "the tool's process")[0])

    def state(self):
        """A terminal's state that a program may leave changed: settings, alternate screen, cursor, wrapping, mouse, keys."""
        path = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        with open(path, "rb") as terminal:
            settings = subprocess.run(["stty", "-g"], stdin=terminal, capture_output=True, check=True).stdout
        return settings, self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag} #{mouse_any_flag} #{keypad_cursor_flag}").strip()


def rows_of(screen):
    """The functions of a table on the screen, from the top down."""
    lines = screen.splitlines()
    head = next((i for i, line in enumerate(lines) if "Calls/s" in line), None)
    expect(head is not None, f"there is no table:\n{screen}")
    at = max(lines[head].find("Function"), lines[head].find("Caller"))
    return [line[at:].split()[0] for line in lines[head + 1:-1] if line[at:].strip()]


def top_until_the_end(case):
    """All calls are in the last table, and the program's status is that of `top`."""
    outcome = case.run([case.tool, "top", "--json", "-i", "100ms", "--sort", "calls", "--", *watched(case, 3, 400)])
    expect(outcome.status == 0, f"status {outcome.status}: {outcome.stderr}")
    readings = [json.loads(line) for line in outcome.stdout.splitlines()]
    expect(len(readings) > 2 and readings[-1]["ended"], f"{len(readings)} readings, the last: {readings[-1]}")
    rows = {row["function"]: row for row in readings[-1]["rows"]}
    want = {"step": steps_of(3, 400), "turn": 1200, "rare": 120, "doze": 1200, "work": 3, "main": 1}
    got = {name: row["calls"] for name, row in rows.items()}
    expect(got == want, f"{got} calls, not {want}")
    counts = [row["calls"] for row in readings[-1]["rows"]]
    expect(counts == sorted(counts, reverse=True), f"not sorted: {counts}")
    for name, row in rows.items():
        expect(row["self_ns"] <= row["total_ns"] <= readings[-1]["elapsed_ns"] * 4, f"{name}: {row}")
        expect(row["p50_ns"] <= row["p99_ns"] <= row["max_ns"] <= row["total_ns"], f"{name}: {row}")
    expect(rows["doze"]["p50_ns"] >= PAUSE_MS * 875_000, f"a pause is {rows['doze']}")
    for before, after in zip(readings, readings[1:]):
        earlier = {row["function"]: row["calls"] for row in before["rows"]}
        later = {row["function"]: row["calls"] for row in after["rows"]}
        expect(all(later[name] >= calls for name, calls in earlier.items()), f"{earlier} became {later}")


def top_keeps_status(case):
    case.need_native("watching")
    program = case.program("ends.c")
    outcome = case.run([case.tool, "top", "--batch", "0", "--", program, "exit", "33"])
    expect(outcome.status == 33, f"status {outcome.status}, not the program's 33: {outcome.stderr}")


def top_rates(case):
    """Calls a second are those of the interval, on a process that ran already; it goes on as if nothing had been."""
    with running(case, 2) as pid:
        outcome = case.run([case.tool, "top", "--json", "--batch", "3", "-i", "500ms", pid])
        expect(outcome.status == 0, f"status {outcome.status}: {outcome.stderr}")
        readings = [json.loads(line) for line in outcome.stdout.splitlines()]
        expect(len(readings) == 3, f"{len(readings)} readings")
        calls = [{row["function"]: row["calls"] for row in reading["rows"]} for reading in readings]
        rates = {row["function"]: row["calls_per_s"] for row in readings[2]["rows"]}
        seen = (calls[2]["step"] - calls[1]["step"]) / readings[2]["interval_s"]
        expect(calls[1]["step"] > calls[0]["step"], f"the counts do not grow: {calls}")
        expect(abs(rates["step"] - seen) < seen / 4, f"{rates['step']} calls a second shown, {seen} counted")
        expect(readings[2]["threads"] == 2 and readings[2]["processes"] == 1, str(readings[2])[:300])


def top_program_output(case):
    """The program's output is not in the table, and in a file if that was asked for."""
    program = watched(case, 1, 20)
    path = os.path.join(case.folder, "printed")
    outcome = case.run([case.tool, "top", "--once", "--", *program])
    expect("running" not in outcome.stdout and "turn" in outcome.stdout, f"printed {outcome.stdout!r}")
    outcome = case.run([case.tool, "top", "--once", "--program-output", path, "--", *program])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    expect(text.startswith("running ") and text.endswith("done well\n"), f"the file has {text!r}")
    expect("done well" not in outcome.stdout, f"printed {outcome.stdout!r}")


def top_filters(case):
    """-l chooses what is traced, -f and --rows what is shown of it."""
    outcome = case.run([case.tool, "top", "--once", "-l", "step", "-l", "turn", "--", *watched(case, 1, 20)])
    expect("step" in outcome.stdout and "doze" not in outcome.stdout, outcome.stdout)
    outcome = case.run([case.tool, "top", "--once", "-f", "d*", "--", *watched(case, 1, 20)])
    expect("doze" in outcome.stdout and "step" not in outcome.stdout, outcome.stdout)
    outcome = case.run([case.tool, "top", "--once", "-r", "2", "--", *watched(case, 1, 20)])
    expect("(4 more)" in outcome.stdout, outcome.stdout)


def top_screen(case):
    """The table on a terminal, with every key; afterwards the terminal is as it was."""
    with Terminal(case) as terminal:
        terminal.sees("ready:")
        before = terminal.state()
        terminal.run([case.tool, "top", "-i", "200ms", "--", *watched(case, 2, 100000)], "; echo status $?")
        screen = terminal.sees(r"\d .* step")
        expect("watched" in screen.splitlines()[0] and "by Self" in screen, f"the heading is\n{screen}")
        expect(terminal.state()[1].startswith("1 0"), f"the alternate screen is not in use: {terminal.state()}")
        expect(set(rows_of(screen)) >= {"step", "turn", "doze", "work", "main"}, f"{rows_of(screen)} of\n{screen}")
        terminal.type("<", "<")
        expect(terminal.sees("by Calls,|by Calls$").count("Calls/s") == 1, "the order")
        expect(rows_of(terminal.screen())[0] == "step", f"step is called most:\n{terminal.screen()}")
        terminal.type("/", "do")
        terminal.sees("1 of . functions matching do")
        terminal.type("Enter", "Escape")
        terminal.sees("^. of . functions, by Calls")
        terminal.type("Home", "Enter")
        callers = terminal.sees(r"^ .* \d.*  turn ")
        expect("callers of step" in callers, callers)
        expect({"turn", "rare"} >= set(rows_of(callers)), f"callers of step are {rows_of(callers)}")
        terminal.type("BSpace")
        terminal.sees("functions, by Calls")
        terminal.type("h")
        terminal.sees("any key: back")
        terminal.type("p")  # ends the help, and nothing else
        terminal.type("p")
        paused = terminal.sees("PAUSED")
        time.sleep(0.6)
        table = "\n".join(paused.splitlines()[3:])
        expect(table == "\n".join(terminal.screen().splitlines()[3:]), "a paused table moves")
        terminal.type("p", "r")
        sees(lambda: [line for line in terminal.screen().splitlines() if re.search(r" turn( |$)", line)],
             lambda lines: lines and int(lines[0].split()[1]) < 1500, "small counts after a reset")
        terminal.tmux("resize-window", "-x", "60", "-y", "9")
        narrow = sees(terminal.screen, lambda text: len(text.splitlines()[2].split()) == 4, "a narrow table")
        expect(all(len(line) <= 60 for line in narrow.splitlines()), narrow)
        expect(len(rows_of(narrow)) <= 5, narrow)
        terminal.type("q")
        terminal.sees("^status 0$")
        expect(terminal.state() == before, f"the terminal was {before} and is {terminal.state()}")


def top_ended(how, pattern, outlives=False):
    """The terminal is given back however it ends, and the program ends, too, unless it outlives the tool."""
    def test(case):
        output = os.path.join(case.folder, "printed")
        with Terminal(case) as terminal:
            terminal.sees("ready:")
            before = terminal.state()
            terminal.run([case.tool, "top", "-i", "100ms", "--program-output", output, "--",
                          *watched(case, 2, 100000)], "; echo status $?")
            terminal.sees(r"\d .* step")
            pid = int(wait_for(output, "running").split()[1])
            tool = int(re.search(r"^PPid:\s+(\d+)", open(f"/proc/{pid}/status", encoding="utf-8").read(), re.M).group(1))
            try:
                how(terminal, tool, pid)
                terminal.sees(pattern)
                if outlives:
                    time.sleep(0.5)
                    expect(os.path.exists(f"/proc/{pid}"), "the program ended with the tool")
                else:
                    sees(lambda: os.path.exists(f"/proc/{pid}"), lambda there: not there, "the program's end")
            finally:
                if os.path.exists(f"/proc/{pid}"):
                    os.kill(pid, signal.SIGKILL)
            expect(terminal.state() == before, f"the terminal was {before} and is {terminal.state()}")
    return test


def by_signal(number):
    return lambda terminal, tool, pid: os.kill(tool, number)


def by_target(terminal, _tool, pid):
    os.kill(pid, signal.SIGKILL)
    terminal.sees("has ended")
    terminal.type("q")


def by_key(terminal, _tool, _pid):
    terminal.type("C-c")


def top_attached_screen(case):
    """A table of a process that ran already, which goes on to its end."""
    with running(case, 2) as pid, Terminal(case) as terminal:
        terminal.sees("ready:")
        before = terminal.state()
        terminal.run([case.tool, "top", "-i", "200ms", pid], "; echo status $?")
        screen = terminal.sees(r"\d .* step")
        expect(f"PID {pid} (watched)" in screen.splitlines()[0], screen)
        terminal.type("q")
        terminal.sees("^status 0$")
        expect(terminal.state() == before, f"the terminal was {before} and is {terminal.state()}")


def live_screen(case):
    """Lines come, stand still when one walks back, are filtered and searched, and all are there at the end."""
    with Terminal(case, 100, 20) as terminal:
        terminal.sees("ready:")
        before = terminal.state()
        looking = os.path.join(case.folder, "looking")  # the program does not end while it is looked at
        with open(looking, "w", encoding="ascii"):
            program = [*watched(case, 2, 600), looking]
        terminal.run([case.tool, "live", "--screen", "--", *program], "; echo status $?")
        terminal.sees(r"\| +step\(\);")
        expect("running" not in terminal.screen(), "the program writes onto the screen")
        terminal.type("Up", "Up")
        terminal.sees("HELD")
        time.sleep(0.3)  # a picture is whole after its heading
        held = terminal.screen()
        time.sleep(0.6)
        expect(held.splitlines()[2:] == terminal.screen().splitlines()[2:], "held lines move")
        terminal.type("/", "rare", "Enter")
        sees(terminal.screen, lambda text: "rare()" in text and "HELD" in text, "a line with rare()")
        terminal.type("&", "rare", "Enter")
        terminal.sees("only rare .*more as it comes")

        def shown(text):
            return [line for line in text.splitlines()[2:-1] if line.strip()]
        sees(terminal.screen, lambda text: shown(text) and all("rare" in line for line in shown(text)), "only lines with rare()")
        terminal.tmux("resize-window", "-x", "40", "-y", "7")
        narrow = sees(terminal.screen, lambda text: all(len(line) <= 40 for line in text.splitlines()), "a narrow screen")
        expect(len(shown(narrow)) <= 4, narrow)
        terminal.tmux("resize-window", "-x", "100", "-y", "20")
        terminal.type("Escape")
        os.unlink(looking)
        last = terminal.sees(r"s, ended .*\n.*no more will come", 60)
        shown = int(re.search(r"line \d+ of (\d+)", last)[1])
        steps, turns, rares = steps_of(2, 600), 2 * 600, 2 * 60
        # A line for each call of step() and doze(), two for each other one, but that some are shown with their end.
        expect(steps + turns < shown <= 20000, f"{shown} lines for {steps} calls of step(), {turns} of turn(), {rares} of rare()")
        terminal.type("&", "step()", "Enter")
        terminal.sees(f"line {steps} of {steps}, no more")
        terminal.type("q")
        terminal.sees("^status 0$")
        terminal.run(["clear"])
        terminal.run([case.tool, "live", "--screen", "--", *watched(case, 1, 5)], "; echo status $?")
        terminal.sees("has ended; q quits")  # until a key is pressed
        terminal.type("q")
        terminal.sees("^status 0$")
        expect(terminal.state() == before, f"the terminal was {before} and is {terminal.state()}")


def live_screen_attached(case):
    """The screen of a process that ran already, ended by ^C and by signals: it goes on, and the terminal is as it was."""
    with running(case, 2) as pid, Terminal(case) as terminal:
        terminal.sees("ready:")
        before = terminal.state()
        for end in (lambda tool: terminal.type("C-c"), lambda tool: os.kill(tool, signal.SIGTERM), lambda tool: os.kill(tool, signal.SIGHUP)):
            terminal.run([case.tool, "live", "--screen", pid], "; echo status $?")
            terminal.sees(f"PID {pid}.* lines")
            terminal.sees(r"\| +step\(\);")
            end(terminal.tool())
            terminal.sees("^status 0$")
            expect(terminal.state() == before, f"the terminal was {before} and is {terminal.state()}")
            terminal.run(["clear"])
            sees(terminal.screen, lambda text: "status" not in text, "an empty screen")


def live_screen_refused(case):
    """Without a terminal, or with a file, there is a sentence that says what to do."""
    program = watched(case, 1, 1)
    for options, said in ((["--screen"], "needs a terminal"), (["--screen", "-o", "file"], "leave out -o"),
                          (["--program-output", "file"], "goes with --screen")):
        outcome = case.run([case.tool, "live", *options, "--", *program])
        expect(outcome.status == 1 and said in outcome.stderr and not outcome.stdout, f"{options}: {outcome.status} {outcome.stderr}")


ENTERED = re.compile(r"\|\s+(\w+)\(\)(?:;| \{)")


def entered(text):
    """{function: how often a line shows its entry}."""
    counts = {}
    for name in ENTERED.findall(text):
        counts[name] = counts.get(name, 0) + 1
    return counts


def shows_everything(case, *options):
    """What `live` prints: every call once, in the order of time."""
    outcome = case.run([case.tool, "live", "--mode", "block", "--abstime", *options, "--", *watched(case, 4, 2000, 100)])
    expect(outcome.status == 0 and not outcome.stderr, f"status {outcome.status}: {outcome.stderr}")
    want = {"step": steps_of(4, 2000), "turn": 8000, "rare": 800, "doze": 8000, "work": 4, "main": 1}
    expect(entered(outcome.stdout) == want, f"{entered(outcome.stdout)} are shown, not {want}")
    times = [float(time) for time in re.findall(r"^ +(\d+\.\d+) \|", outcome.stdout, re.M)]
    expect(times == sorted(times), "times step back")
    return outcome.stdout


def live_everything(case):
    text = shows_everything(case)
    expect("running" in text and "done well" in text, "the program's own output is not there")


def live_adaptive(case):
    """Calls without times are shown, too, and their durations are marked."""
    text = shows_everything(case, "--time", "adaptive", "--time-small", "1000000")
    marked, steps = len(re.findall(r"~[\d.]+ us +\| +step\(\);", text)), steps_of(4, 2000)
    expect(steps / 2 < marked < steps, f"{marked} of {steps} calls of step() are estimates")


def live_whole_lines(case):
    """The program's output stands between the lines, also where both wait for a slow reader of the same pipe."""
    with Process([case.tool, "live", "--mode", "block", "--", *watched(case, 4, 2000, 100)], stdout=subprocess.PIPE,
                 cwd=case.folder, env=case.environment(False)) as tool:
        text = b""
        while True:
            part = os.read(tool.stdout.fileno(), 4096)
            if not part:
                break
            text += part
            time.sleep(0.0005)
    expect(tool.returncode == 0, f"status {tool.returncode}")
    expect(b"\ndone well\n" in text, f"it is not on a line of its own: {[line for line in text.splitlines() if b'done' in line]}")


def live_as_replay(case):
    """The text is that of a replay, but for times and ids."""
    def plain(text):
        text = re.sub(r"[$@*#!+ ] +[\d.]+ us +\|", " |", text)
        return [" ".join(line.split()) for line in re.sub(r"-\d+\)", ")", text).splitlines() if "running" not in line]

    program = watched(case, 1, 300, 0)
    shown = case.run([case.tool, "live", "--", *program])
    case.record(program, log=False)
    replayed = case.run([case.tool, "replay", "-i", case.trace_path])
    got, want = (plain(outcome.stdout) for outcome in (shown, replayed))
    expect([line for line in got if line != "done well"] == want, f"{got[:30]} is not {want[:30]}")


def live_soon(case):
    """Events are shown within moments: calls that end, and calls that are open."""
    path = os.path.join(case.folder, "text")
    open(path, "wb").close()
    output, process = start(case, [case.tool, "live", "-o", path, "--", *watched(case, 1, 3, 5_000_000)])
    try:
        wait_for(output, "running")
        wait_for(path, "doze() {", 2)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        expect(entered(text) == {"main": 1, "work": 1, "turn": 1, "step": 6, "rare": 1, "doze": 1}, f"shown: {text}")
    finally:
        stop(process)


def live_attached(case):
    """A process that ran already: SIGINT lets go of it, and it goes on."""
    path = os.path.join(case.folder, "text")
    open(path, "wb").close()
    with running(case, 2) as pid:
        tool = Process([case.tool, "live", "--all-levels", "-o", path, pid], stderr=subprocess.PIPE, cwd=case.folder,
                       env=case.environment(False))
        try:
            wait_for(path, "rare()")
            tool.send_signal(signal.SIGINT)
            said = tool.communicate(timeout=20)[1].decode()
        finally:
            tool.kill()
        expect(tool.returncode == 0 and not said, f"status {tool.returncode}: {said}")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        expect("work() { /* entered before the trace */" in text, f"what was open is not shown: {text[:1500]}")
        expect(not re.search(r"nanosleep.*\n.* turn\(\)", text), "a call is shown inside of a system call")


def live_filters(case):
    """The options of replay: only a function, only long calls, only outer levels."""
    program = watched(case, 1, 50)
    text = case.run([case.tool, "live", "-f", "ra*", "--", *program]).stdout
    expect(entered(text) == {"rare": 5}, text[:1000])
    text = case.run([case.tool, "live", "--depth", "2", "--", *program]).stdout
    expect(entered(text) == {"main": 1, "work": 1}, text[:1000])
    text = case.run([case.tool, "live", "--min", "1ms", "--", *program]).stdout
    expect(text.count("} /* doze */") == 50 and "turn" not in text, text[:1000])
    text = case.run([case.tool, "live", "-p", "function", "-l", "turn", "-l", "work", "--", *program]).stdout
    expect(len(re.findall(r": turn <-work", text)) == 50, text[:1000])


def live_slow_reader(case):
    """A slow reader holds up neither the program nor the memory of the tool."""
    program = watched(case, 4, 600, 1000)
    started = time.monotonic()
    case.run(program)
    plain = time.monotonic() - started
    started = time.monotonic()
    output, process = start(case, program)
    tool = None
    try:
        pid = wait_for(output, "running").split()[1]
        tool = Process([case.tool, "live", pid], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       cwd=case.folder, env=case.environment(False))
        wait_for(output, "done well", 30)
        took = time.monotonic() - started
        with open(f"/proc/{tool.pid}/status", encoding="utf-8") as status:
            memory = int(re.search(r"^VmRSS:\s+(\d+)", status.read(), re.M).group(1))
        text = tool.communicate(timeout=30)[0].decode()
    finally:
        if tool:
            tool.kill()
        stop(process)
    expect(took < plain * 2 + 3, f"the program took {took:.1f} s, plain {plain:.1f}")
    expect(memory < 200_000, f"the tool has {memory} KiB")
    expect(entered(text).get("step", 0) > 100, "nothing was shown")


def live_ends_in_time(case):
    """Calls that come faster than they can be shown do not keep it from ending when it shall; what is left out is told."""
    case.need_native("attaching")
    with Throng(case, 4, busy=True) as program:
        program.call()
        outcome = case.run([case.tool, "live", "-a", "--duration", "1s", "-o", "/dev/null", str(program.pid)], timeout=60)
        program.end()
    expect(outcome.status == 0 and re.fullmatch(r"(calltap: .+\n)*calltap: \d+ records came faster than they could be shown and were "
                                                r"left out\n", outcome.stderr), f"status {outcome.status}: {outcome.stderr}")


def live_reader_gone(case):
    """`calltap live | head`: it ends quietly, and the program goes on."""
    with running(case, 1) as pid:
        outcome = case.run(["sh", "-c", f"{shlex.quote(case.tool)} live {pid} | head -20"])
        expect(not outcome.stderr and len(outcome.stdout.splitlines()) == 20, f"{outcome.stdout} {outcome.stderr}")


SINGLE = {
    "watch-top-until-the-end": top_until_the_end,
    "watch-top-keeps-status": top_keeps_status,
    "watch-top-rates": top_rates,
    "watch-top-program-output": top_program_output,
    "watch-top-filters": top_filters,
    "watch-top-screen": top_screen,
    "watch-top-attached-screen": top_attached_screen,
    "watch-top-sigint": top_ended(by_signal(signal.SIGINT), "^status 0$"),
    "watch-top-sigterm": top_ended(by_signal(signal.SIGTERM), "^status 0$"),
    "watch-top-sighup": top_ended(by_signal(signal.SIGHUP), "^status 0$"),
    "watch-top-crash": top_ended(by_signal(signal.SIGSEGV), "^status 139$", outlives=True),
    "watch-top-target-killed": top_ended(by_target, "^status 137$"),
    "watch-top-interrupt-key": top_ended(by_key, "^status 0$"),
    "watch-live-everything": live_everything,
    "watch-live-adaptive": live_adaptive,
    "watch-live-screen": live_screen,
    "watch-live-screen-attached": live_screen_attached,
    "watch-live-screen-refused": live_screen_refused,
    "watch-live-whole-lines": live_whole_lines,
    "watch-live-as-replay": live_as_replay,
    "watch-live-soon": live_soon,
    "watch-live-attached": live_attached,
    "watch-live-filters": live_filters,
    "watch-live-slow-reader": live_slow_reader,
    "watch-live-ends-in-time": live_ends_in_time,
    "watch-live-reader-gone": live_reader_gone,
}

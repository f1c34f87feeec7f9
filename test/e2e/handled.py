"""Handlers of a program that does what it is told (test/prog/handled_told.c), and what may happen to the tool meanwhile: it
is killed, stopped, missing, or at work on the same program for somebody else."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import live
from endings import finish
from handlers import is_served, library_folder, linking, no_tool_is_left, program, serving, with_handlers
from harness import Failure, Process, Skip, expect, halted, until
from steering import STATUS, Program, Tool, clean, descriptors, listing, look, mappings

TURNS = 2000
GENERAL = 1  # CALLTAP_HANDLER_GENERAL_REGS


class Told(Program):
    """test/prog/handled_told.c."""

    def __init__(self, case, threads=4, prefix=(), path=None, **more):  # pylint: disable=super-init-not-called
        case.need_native("attaching")
        self.case = case
        self.error = os.path.join(case.folder, "told.error")
        with open(self.error, "wb") as error:
            self.process = Process([*prefix, path or program(case, "handled_told.c"), str(threads)], cwd=case.folder,
                                   env=with_handlers(case, **more), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=error, text=True, start_new_session=True)
        self.truth = {}

    def __enter__(self):
        self.pid = int(self.line().split()[1])
        return self

    def line(self):
        line = self.process.stdout.readline()
        while line.startswith("calltap:"):
            line = self.process.stdout.readline()
        if not line:
            with open(self.error, encoding="utf-8", errors="replace") as file:
                raise Failure(f"the program has ended with {self.process.wait(5)}: {file.read()[-500:]}")
        expect(not line.startswith("wrong"), line)
        return line

    def ask(self, *words):
        """Give the program an order; returns its answer, which may be an error."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.line().strip()

    def do(self, *words):
        answer = self.ask(*words)
        expect(answer.startswith("ok"), f"{words}: {answer}")
        return answer

    def numbers(self, *words):
        found = self.do(*words).split()[1:]
        return dict(zip(found[::2], map(int, found[1::2])))

    def exact(self, slots, turns=TURNS):
        """Run so many turns: each of these handlers ({slot: function}) is called for each call."""
        truth = self.numbers("run", turns)
        for slot, function in slots.items():
            found = self.numbers("counts", slot)
            wanted = {"entries": truth[function], "exits": truth[function], "missed": 0, "fault": 0}
            expect(found == wanted, f"handlers {slot} of {function}: {found}, not {wanted}")

    def end(self):
        expect(self.ask("end") == "all was well", "not all was well")
        status = finish(self.process)
        expect(status == STATUS, f"the program's exit status is {status}, untraced {STATUS}")
        no_tool_is_left(self.case)

    def tool(self):
        """The pid of the tool that serves it."""
        return until("a tool that serves", lambda: [tool for tool, pid in serving(self.case) if pid == self.pid])[0]


def kill(pid):
    """kill -9, and until it is gone."""
    os.kill(pid, signal.SIGKILL)
    until("the tool to end", lambda: not os.path.exists(f"/proc/{pid}") or stat_of(pid)[0] == "Z")


def stat_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return ["gone"]


def left_alone(told, before):
    clean(told, before)
    expect(told.do("wait") == "ok -1 10", "wait() of the program finds a child")


def leaves_nothing(case):
    """Sessions one after the other: text, threads, descriptors and mappings are as before, and nothing grows."""
    with Told(case) as told:
        told.exact({})
        before, settled = look(told), None
        for number in range(12):
            told.do("open")
            told.do("on", 0, "leaf", GENERAL)
            told.do("on", 1, "*")
            told.exact({0: "leaf"})
            told.do("close")
            left_alone(told, before)
            told.exact({})
            if number == 3:
                settled = mappings(told.pid)
        now = mappings(told.pid)
        more = [entry for entry in now if now.count(entry) > settled.count(entry)]
        expect(len(now) <= len(settled), f"mappings that were not there after 4 sessions: {more}")
        told.end()


def tool_killed(case):
    """kill -9 of the tool under handlers that run: calls go on, handlers do not, a new session does."""
    with Told(case) as told:
        before = look(told)
        for busy in (False, True, True):
            told.do("open")
            told.do("on", 0, "outer", GENERAL)
            told.do("on", 1, "leaf")
            told.exact({0: "outer"})
            if busy:
                told.do("busy")
            kill(told.tool())
            answer = told.ask("on", 2, "leaf")
            expect(re.match(r"error -(107|104) \S", answer), f"register after the tool's end: {answer}")
            answer = told.ask("off", 1)
            expect(answer.startswith("error -107") or answer == "ok", f"unregister after the tool's end: {answer}")
            if busy:
                told.do("idle")
            live.wait_restored(told.pid)
            told.do("counts", 0)
            told.do("run", TURNS)
            found = told.numbers("counts", 0)
            expect(not found["entries"] and not found["exits"], f"handlers run without the tool: {found}")
            told.do("close")
            left_alone(told, before)
        told.do("open")
        told.do("on", 0, "outer")
        told.exact({0: "outer"})
        told.do("close")
        told.end()


def tools_of(case, told):
    """The tools that serve the program; none: they came and went between two looks, or a killed one's traces were left."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        tools = [tool for tool, pid in serving(case) if pid == told.pid]
        if tools:
            return tools
    return []


def tool_killed_at_any_time(rounds):
    """kill -9 of the tool at moments that go through all of open, register, run and close."""
    def test(case):
        with Told(case) as told:
            before = look(told)
            told.do("busy")
            killed = 0
            for number in range(rounds):
                told.process.stdin.write("open\non 0 outer 1\non 1 leaf\noff 0\non 0 leaf 1\noff 1\non 1 * 0\nclose\n")
                told.process.stdin.flush()
                tools = tools_of(case, told)
                time.sleep(number * 0.4 / rounds)
                for tool in tools:
                    try:
                        os.kill(tool, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                answers = [told.line().strip() for _ in range(8)]
                killed += bool(tools)
                for answer in answers:
                    expect(re.match(r"ok$|error -\d+ \S|error -107", answer), f"round {number}: {answers}")
                if number % 10 == 0:
                    live.wait_restored(told.pid)
            expect(killed > rounds / 2, f"{killed} tools were met")
            told.do("idle")
            live.wait_restored(told.pid)
            answer = until("a session after all that", lambda: told.ask("open") == "ok", 20)
            expect(answer, "no session after all that")
            told.do("on", 0, "outer")
            told.exact({0: "outer"})
            told.do("close")
            left_alone(told, before)
            told.end()
    return test


def no_tool(case):
    """Without the tool's binary: one sentence, and nothing else happens."""
    lonely = os.path.join(case.folder, "lib")
    folder = library_folder(case)
    os.makedirs(lonely)
    for name in os.listdir(folder):
        if re.fullmatch(r"libcalltap\.so[.\d]*", name):
            shutil.copy(os.path.join(folder, name), lonely, follow_symlinks=True)
    with Told(case, HANDLED_TOOL="/nowhere/calltap") as told:
        before = look(told)
        answer = told.ask("open")
        expect(answer.startswith("error -2 ") and "/nowhere/calltap" in answer, answer)
        left_alone(told, before)
        told.end()
    with Told(case, HANDLED_TOOL="/bin/false") as told:
        before = look(told)
        answer = told.ask("open")
        expect(re.match(r"error -\d+ \S.* \S", answer), answer)
        left_alone(told, before)
        told.end()
    environment = with_handlers(case, LD_LIBRARY_PATH=lonely, PATH="/nowhere")
    del environment["HANDLED_TOOL"]
    with Told(case, prefix=["env", "-u", "HANDLED_TOOL", "PATH=/nowhere", f"LD_LIBRARY_PATH={lonely}"]) as told:
        maps = open(f"/proc/{told.pid}/maps", encoding="utf-8").read()
        if lonely in maps:  # else the program's own path to the library comes first
            answer = told.ask("open")
            expect(answer.startswith("error -2 ") and "PATH" in answer, answer)
        told.end()


# ---- beside a recording ----


def beside_record(*options):
    """Handlers in a program that is recorded: both have every call, before, while and after they are registered."""
    def test(case):
        told = Told.__new__(Told)
        told.case, told.error = case, os.path.join(case.folder, "told.error")
        command = case.record_command([program(case, "handled_told.c"), "4"], ["-b", "8M", *options])
        with open(told.error, "wb") as error:
            told.process = Process(command, cwd=case.folder, env=with_handlers(case), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=error, text=True, start_new_session=True)
        total = 0
        with told:
            told.do("run", TURNS)
            told.do("open")
            expect(not is_served(case, told.process.pid), "a tool was started, though the program is being recorded")
            told.do("on", 0, "leaf", GENERAL)
            told.do("on", 1, "outer")
            for _ in range(3):
                told.exact({0: "leaf", 1: "outer"})
            told.do("off", 0)
            told.exact({1: "outer"})
            told.do("on", 0, "leaf")
            told.exact({0: "leaf", 1: "outer"})
            told.do("close")
            told.exact({})
            total = 7 * TURNS * 4
            told.end()
        trace = case.trace()
        lost = sum(thread.lost for thread in trace.threads.values())
        called = trace.called()
        expect(not lost, f"{lost} records were lost")
        wanted = {"leaf": total * 2, "outer": total}
        found = {name: called.get(name, 0) for name in wanted}
        expect(found == wanted, f"recorded {found}, called {wanted}")
        if "function" in options:
            check_callers(case)
        else:
            live.check_frames(trace)
            case.readable()
    return test


def check_callers(case):
    """A call has the same caller whether it had handlers or not."""
    shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    found = set(re.findall(r": (\w+) <-(\S+)", shown))
    expect(("leaf", "outer") in found and len(found) == len({name for name, _ in found}), f"callers are {found}")


def beside_attach(case):
    """A session that is opened under `calltap attach` is its."""
    with Told(case) as told:
        # In this mode the trace, which is read at the end, does not grow while the threads are busy.
        with Tool(case, told, "--mode", "overwrite", "-b", "256K") as tool:
            told.do("open")
            expect(not is_served(case, told.pid), "a tool was started, though the program is being traced")
            told.do("on", 0, "leaf", GENERAL)
            told.exact({0: "leaf"})
            told.do("busy")
            for words in ("tracing=off", "tracing=on", "trace=outer", "trace=", "tracer=nop", "tracer=function", "tracer=function_graph",
                          "max-depth=1", "max-depth=", "threshold=1us", "threshold=", "graph=outer", "graph="):
                tool.session.set(words)
            told.do("idle")
            told.do("counts", 0)
            told.exact({0: "leaf"})
            tool.session.set("trace=outer")
            told.exact({0: "leaf"})
            tool.session.set("tracing=off")
            told.exact({0: "leaf"})
            tool.session.set("tracing=on", "trace=")
            status = json.loads(case.run([case.tool, "status", "--json"]).stdout)
            expect(any(row["pid"] == told.pid for row in status), f"{status}")
            tool.detach()
        told.do("counts", 0)
        told.do("run", TURNS)
        found = told.numbers("counts", 0)
        expect(not found["entries"], f"handlers run after detach: {found}")
        answer = told.ask("on", 1, "leaf")
        expect(answer.startswith("error -107"), f"register after detach: {answer}")
        told.do("close")
        told.do("open")
        told.do("on", 0, "leaf")
        told.exact({0: "leaf"})
        told.do("close")
        told.end()
    case.readable()


def verbs(case):
    """The verbs beside a session of handlers: status shows it, set changes nothing of it, detach ends it."""
    with Told(case) as told:
        before = look(told)
        told.do("open")
        told.do("on", 0, "outer", GENERAL)
        rows = json.loads(case.run([case.tool, "status", "--json"]).stdout)
        expect([row for row in rows if row["pid"] == told.pid and row["tracer"] == "nop"], f"{rows}")
        for words in (["tracing=off"], ["tracing=on"], ["trace=leaf"], ["trace="], ["notrace=outer"], ["notrace="]):
            done = case.run([case.tool, "set", str(told.pid), *words])
            expect(done.status in (0, 1), f"set {words}: {done.status} {done.stderr!r}")
            told.exact({0: "outer"})
        done = case.run([case.tool, "attach", "-o", case.trace_path, "--duration", "100ms", str(told.pid)])
        expect(done.status == 0, f"attach beside it, an instance of the session: {done.status} {done.stderr!r}")
        told.exact({0: "outer"})
        told.do("busy")
        done = case.run([case.tool, "detach", str(told.pid)])
        expect(done.status == 0, f"detach: {done.stderr!r}")
        told.do("idle")
        told.do("counts", 0)
        told.do("run", TURNS)
        found = told.numbers("counts", 0)
        expect(not found["entries"], f"handlers run after detach: {found}")
        told.do("close")
        left_alone(told, before)
        told.end()


def two_programs(case):
    with Told(case) as one, Told(case) as two:
        for told in (one, two):
            told.do("open")
            told.do("on", 0, "leaf", GENERAL)
        one.exact({0: "leaf"})
        two.do("busy")
        kill(one.tool())
        two.do("idle")
        two.do("counts", 0)
        two.exact({0: "leaf"})
        one.do("run", TURNS)
        one.do("close")
        two.do("close")
        one.end()
        two.end()


def another_user(case):
    """A program of another user, as root would start it: the tool runs as that user, too."""
    if os.geteuid():
        raise Skip("only root can start programs of other users")
    other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    for path in (program(case, "handled_told.c"), library_folder(case), case.tool):
        if case.run([*other, "test", "-r", path]).status:
            raise Skip(f"another user cannot read {path}")
    with Told(case, prefix=other) as told:
        told.do("open")
        with open(f"/proc/{told.tool()}/status", encoding="utf-8") as status:
            expect("Uid:\t65534\t65534" in status.read(), "the tool is another user's")
        told.do("on", 0, "leaf", GENERAL)
        told.exact({0: "leaf"})
        told.do("close")
        told.end()


def refused_ptrace(case):
    """The tool may not trace: one sentence, and the program goes on."""
    drop = ["setpriv", "--no-new-privs", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
    if case.run([*drop, "true"]).status:
        raise Skip("setpriv cannot take capabilities away here")
    with Told(case, prefix=["sh", "-c", 'ulimit -n 20; exec "$@"', "sh"]) as told:
        answer = told.ask("open")
        expect(answer == "ok" or re.match(r"error -\d+ \S.* \S", answer), answer)
        told.do("run", 10)
        told.end()
    script = os.path.join(case.folder, "undumpable.so")
    source = os.path.join(case.folder, "undumpable.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <sys/prctl.h>\n__attribute__((constructor)) static void f(void) "
                   "{ prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }\n")
    done = case.run(["gcc", "-shared", "-fPIC", "-o", script, source])
    expect(done.status == 0, done.stderr)
    # Root's capability would let the tool in all the same.
    with Told(case, prefix=[] if os.geteuid() else drop, LD_PRELOAD=script) as told:
        answer = told.ask("open")
        expect(re.match(r"error -\d+ \S.* \S", answer), f"a process that is not dumpable: {answer}")
        told.do("run", 10)
        told.end()


def program_ends(case):
    """The program ends, or is killed, with its session open: the tool ends."""
    with Told(case) as told:
        told.do("open")
        told.do("on", 0, "leaf")
        told.do("busy")
        tool = told.tool()
        os.kill(told.pid, signal.SIGKILL)
        until("the tool to end", lambda: stat_of(tool)[0] in ("gone", "Z"), 10)
    with Told(case) as told:
        told.do("open")
        told.do("on", 0, "leaf")
        tool = told.tool()
        told.end()
        until("the tool to end", lambda: stat_of(tool)[0] in ("gone", "Z"), 10)


def children(case):
    """A forked child of a program with handlers."""
    with Told(case) as told:
        told.do("open")
        told.do("on", 0, "leaf", GENERAL)
        for _ in range(5):
            found = told.numbers("fork")
            expect(found == {"entries": 20, "exits": 20}, f"in the child: {found}")
            told.do("counts", 0)
            told.exact({0: "leaf"})
        told.do("close")
        told.end()


def many_descriptors(case):
    """The tool is started from a process with few descriptors left, or with many."""
    for limit in (12, 40, 200):
        with Told(case, prefix=["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"]) as told:
            before = look(told)
            answer = told.ask("open")
            expect(answer == "ok" or re.match(r"error -\d+ \S.* \S", answer), f"with {limit} descriptors: {answer}")
            if answer == "ok":
                told.do("on", 0, "leaf")
                told.exact({0: "leaf"})
                told.do("close")
            left_alone(told, before)
            told.end()


def tool_inherits_nothing(case):
    """The tool has no descriptor, signal or directory of the program's."""
    with Told(case) as told:
        told.do("open")
        tool = told.tool()
        foreign = {name for name in descriptors(tool).values()} & {name for name in descriptors(told.pid).values()}
        foreign -= {"/dev/null"}
        expect(not foreign, f"the tool has the program's {foreign}")
        expect(os.readlink(f"/proc/{tool}/cwd") == "/", "the tool is in the program's directory")
        expect(os.getsid(tool) != os.getsid(told.pid), "the tool is in the program's session")
        told.do("close")
        told.end()


def tool_stopped(case):
    """A tool that does not answer is given up after the time limit; the program's calls go on, and so does all later."""
    with Told(case, HANDLED_TIMEOUT="500") as told:
        told.do("open")
        told.do("on", 0, "leaf", GENERAL)
        tool = told.tool()
        for _ in range(3):
            with halted(tool):
                told.exact({0: "leaf"})
                for words in (("on", 1, "outer", GENERAL), ("filter", 0, "outer"), ("off", 0)):
                    answer = told.ask(*words)
                    expect(answer.startswith("error -110"), f"{words} with a stopped tool: {answer}")
                told.do("run", TURNS)
                found = told.numbers("counts", 0)
                expect(not found["entries"], f"handlers run after unregister: {found}")
            until("unregister to be done", lambda: told.ask("off", 0) == "ok", 10)
            told.do("on", 1, "outer", GENERAL)
            told.do("on", 0, "leaf", GENERAL)
            told.exact({0: "leaf", 1: "outer"})
            told.do("off", 1)
        told.do("close")
        told.end()


def executes(case):
    """A program that executes another with its session open: nothing of it is left."""
    with Told(case) as told:
        before = look(told)
        told.do("open")
        told.do("on", 0, "leaf")
        told.exact({0: "leaf"})
        tool = told.tool()
        told.process.stdin.write("exec\n")
        told.process.stdin.flush()
        expect(told.line().split() == ["ready", str(told.pid)], "it has not executed itself")
        until("the tool to end", lambda: stat_of(tool)[0] in ("gone", "Z"), 10)
        before["threads"] = listing(told.pid, "task")
        left_alone(told, before)
        told.do("run", 10)
        told.do("open")
        told.do("on", 0, "leaf")
        told.exact({0: "leaf"})
        told.do("close")
        told.end()


def without_sites(case):
    """A program that no compiler has prepared: its functions have handlers as they are, and it is left as it was."""
    case.need_native("attaching")
    path = case.program("handled_told.c", sites=False, flags=linking(case))
    with Told(case, path=path) as told:
        told.exact({})
        before = look(told)
        for _ in range(3):
            told.do("open")
            told.do("on", 0, "leaf", GENERAL)
            told.do("on", 1, "*")
            answer = told.ask("on", 2, "no_such_function")
            expect(re.match(r"error -2 no function that can be traced matches", answer), answer)
            told.exact({0: "leaf"})
            told.do("close")
            left_alone(told, before)
            told.exact({})
        told.end()


SINGLE = {
    "handlers-leave-nothing": leaves_nothing,
    "handlers-tool-killed": tool_killed,
    "handlers-tool-killed-at-any-time": tool_killed_at_any_time(30),
    "handlers-no-tool": no_tool,
    "handlers-beside-record": beside_record(),
    "handlers-beside-function": beside_record("-p", "function"),
    "handlers-beside-attach": beside_attach,
    "handlers-verbs": verbs,
    "handlers-two-programs": two_programs,
    "handlers-another-user": another_user,
    "handlers-refused": refused_ptrace,
    "handlers-program-ends": program_ends,
    "handlers-children": children,
    "handlers-few-descriptors": many_descriptors,
    "handlers-tool-inherits-nothing": tool_inherits_nothing,
    "handlers-tool-stopped": tool_stopped,
    "handlers-executes": executes,
    "handlers-without-sites": without_sites,
}
LONG = {"handlers-tool-killed-1000-times": tool_killed_at_any_time(1000)}

"""Attaching to several processes at once: one session, one trace file, and each of them as it was afterwards."""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import attach
import live
import steer
from endings import finish
from harness import Process, copied, expect, halted, stop, until
from steering import Program, Session, Tool, clean, left_alone, look, nothing_lost, sockets, threads

KILLS, LATEST = 25, 0.25  # seconds from the tool's start, in which it attaches to all
TURNS = 200
BY_ATTACH = 3  # how a process began, in the file


class Breeds(Program):
    """test/prog/breeds.c"""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("breeds.c")])


class Named(Program):
    """attachee.c under another name."""

    def __init__(self, case, name):  # pylint: disable=super-init-not-called
        path = os.path.join(case.folder, name)
        copied(case.program("attachee.c"), path)
        self.start(case, [path])


@contextlib.contextmanager
def running(*programs):
    """They run, and are as they were when all is over."""
    with contextlib.ExitStack() as stack:
        for program in programs:
            stack.enter_context(program)
            stack.enter_context(left_alone(program))
        yield programs


class All(Tool):
    """`calltap attach` to all these, that one last by whose PID the session is found; wait: until all are traced; given:
    those whose PIDs are given, beside the last one's."""

    def __init__(self, case, programs, *options, wait=True, given=None):
        self.programs = programs
        pids = [str(program.pid) for program in (programs[:-1] if given is None else given)]
        super().__init__(case, programs[-1], *options, *pids, wait=wait)

    def wait(self):
        super().wait()
        until("all to be traced", lambda: self.alive() and self.pids() == {program.pid for program in self.programs})

    def worked(self):
        """Until each has gone to sleep so often that it has made traced calls: attachee.c calls whenever it wakes."""
        before = [sleeps(program.pid) for program in self.programs]
        for program, then in zip(self.programs, before):
            until(f"work of process {program.pid}", lambda: self.alive() and sleeps(program.pid) >= then + TURNS)

    def pids(self):
        status = self.session.status()
        return set(map(int, str(status["pids"]).split())) or {status["pid"]}

    def ended(self):
        super().ended()
        for program in self.programs:
            expect(not sockets(self.environment, program.pid), f"the session has a socket of process {program.pid} still")


def sleeps(pid):
    """How often the process' threads have gone to sleep."""
    count = 0
    for thread in threads(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as status:
                count += int(re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)", status.read())[1])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return count


def attach_to(case, *words):
    # Those without sites are to be left out.
    return case.run([case.tool, "attach", "--stock", "never", "-o", case.trace_path, *map(str, words)])


def all_in(case, programs):
    """The trace: all of them and nobody else, each with its work."""
    trace = case.trace()
    found = {pid: start for pid, _, start, _, _ in trace.processes.values()}
    expect(found == {program.pid: BY_ATTACH for program in programs}, f"processes in the trace: {found}")
    for program in programs:
        threads = [thread for thread in trace.threads.values() if trace.pid(thread) == program.pid]
        expect(any(True for thread in threads for _ in thread.events()), f"no record of process {program.pid}")
    nothing_lost(trace)
    return trace


def copies(case):
    """One program three times, with threads, waits and signals: each view and export has all of them."""
    case.need_native("attaching")
    with running(Program(case), Program(case, "2"), Program(case, "4")) as programs:
        with All(case, programs) as tool:
            tool.worked()
            tool.detach()
    trace = all_in(case, programs)
    attach.says_it_ended(trace, "still running")
    case.readable()
    pids = {str(program.pid) for program in programs}
    for form in ("perfetto", "chrome", "json"):
        done = case.run([case.tool, "export", "--format", form, "-i", case.trace_path, "-o", f"{case.trace_path}.{form}"])
        expect(done.status == 0, f"export to {form}: {done.stderr!r}")
    with open(f"{case.trace_path}.json", encoding="utf-8") as file:
        found = {str(json.loads(line).get("pid", "")) for line in file}
    expect(pids <= found, f"processes in the export: {found}")
    done = case.run([case.tool, "info", "--json", "-i", case.trace_path])
    expect({str(process["pid"]) for process in json.loads(done.stdout)["processes"]} == pids, f"info: {done.stdout[:2000]}")


def programs_differ(case):
    """Different programs; one without sites, one stopped, one that has ended: these are told, and the others are traced."""
    case.need_native("attaching")
    breeds, plain, still = Breeds(case), Program(case, sites=False), Breeds(case)
    with running(Program(case), breeds, plain, still) as (program, *_), Named(case, "gone") as gone:
        gone.end()
        with halted(still.pid):
            done = attach_to(case, "--duration", "300ms", gone.pid, plain.pid, breeds.pid, still.pid, program.pid)
        expect(done.status == 0, f"exit status {done.status}: {done.stderr!r}")
        told = re.findall(r"(?m)^calltap: process (\d+) is not traced: (.*)$", done.stderr)
        expect([int(pid) for pid, _ in told] == [gone.pid, plain.pid, still.pid], f"it said {done.stderr!r}")
        expect("no function that can be traced" in told[1][1] and "stopped" in told[2][1], f"it said {done.stderr!r}")
    trace = case.trace()
    expect({row[0] for row in trace.processes.values()} == {breeds.pid, program.pid}, f"processes: {trace.processes}")


def filters(case):
    """A filter has to match in one of them; a process that has nothing of what is wanted is left out."""
    case.need_native("attaching")
    with running(Program(case), Breeds(case)) as (program, breeds):
        done = attach_to(case, "--duration", "200ms", "-l", "leaf_1", breeds.pid, program.pid)
        expect(done.status == 0, f"exit status {done.status}: {done.stderr!r}")
        expect(done.stderr.startswith(f"calltap: process {breeds.pid} is not traced: the filters leave no function"),
               f"it said {done.stderr!r}")
        expect(set(case.trace().called()) == {"leaf_1"}, f"calls of {case.trace().called()}")
        os.unlink(case.trace_path)
        with All(case, [program, breeds], "-l", "leaf_1", "-l", "childs_work") as tool:
            os.kill(breeds.pid, signal.SIGUSR1)
            tool.records(100)
            until("a child", lambda: breeds_children(case, breeds))
            tool.detach()
        expect(set(case.trace().called()) == {"leaf_1", "childs_work"}, f"calls of {case.trace().called()}")
        os.unlink(case.trace_path)
        done = attach_to(case, "-l", "leaf_1", "-l", "no_such_function", breeds.pid, program.pid)
        expect(done.status == 2 and done.stderr.startswith("calltap: no function that can be traced matches 'no_such_func"),
               f"status {done.status}: {done.stderr!r}")
        expect(not os.path.exists(case.trace_path), "there is a trace file")


def none(case):
    """Nobody can be attached to: each is told, status 2, no trace file."""
    case.need_native("attaching")
    with running(Program(case, sites=False), Program(case, sites=False)) as (one, other):
        done = attach_to(case, one.pid, other.pid)
    expect(done.status == 2, f"exit status {done.status}: {done.stderr!r}")
    lines = done.stderr.splitlines()
    expect(len(lines) == 3 and f"process {one.pid} is not traced" in lines[0] and f"process {other.pid} is" in lines[1] and
           lines[2] == "calltap: none of these processes could be attached to", f"it said {done.stderr!r}")
    expect(not os.path.exists(case.trace_path), "there is a trace file")


def ends_early(case):
    """One ends, and its number finds nothing any more; the others go on, until the last has ended."""
    case.need_native("attaching")
    with Program(case) as first, Program(case) as second, Program(case) as third:
        with All(case, [first, second, third]) as tool:
            tool.worked()
            first.end()
            until("its socket to go", lambda: not sockets(tool.environment, first.pid))
            tool.records(300)
            expect(tool.pids() == {second.pid, third.pid}, f"processes of the session: {tool.pids()}")
            expect(tool.session.status()["pid"] == second.pid, f"the session is of {tool.session.status()['pid']}")
            os.kill(second.pid, signal.SIGKILL)
            finish(second.process)
            until("its socket to go", lambda: not sockets(tool.environment, second.pid))
            tool.records(300)
            third.end()
            tool.ended()
    attach.says_it_ended(all_in(case, [first, second, third]), "ended")
    case.readable()


def executes(case):
    """One executes another program, which runs untraced: told, and the others go on."""
    case.need_native("attaching")

    class Executes(Program):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.start(case, [case.program("executes.c"), "sleep", "60"])

    with running(Program(case)) as (program,), Executes() as other:
        with All(case, [other, program]) as tool:
            os.kill(other.pid, signal.SIGUSR1)
            until("its socket to go", lambda: not sockets(tool.environment, other.pid))
            tool.records(300)
            tool.detach()
            expect(f"process {other.pid}: " in tool.said() and "has executed another program" in tool.said(),
                   f"it said {tool.said()!r}")
    attach.says_it_ended(case.trace(), "1 still running, 1 executed another program")


def forks(case):
    """Children that one of them forks while it is traced are followed."""
    case.need_native("attaching")
    with running(Program(case), Breeds(case)) as (program, breeds):
        with All(case, [program, breeds], "--allow-no-match") as tool:
            for number in range(1, 4):
                os.kill(breeds.pid, signal.SIGUSR1)
                until("a child", lambda: breeds_children(case, breeds) >= number)
            tool.records(100)
            tool.detach()
    trace = case.trace()
    expect(breeds_children(case, breeds) == 3, f"processes: {trace.processes}")
    called = trace.called()
    expect(called.get("breed") == 3 and called.get("childs_work") in (3, 3 * 7), f"calls: {called}")  # it may be a loop
    case.readable()


def breeds_children(case, breeds):
    rows = case.trace(complete=False).processes
    parents = [index for index, row in rows.items() if row[0] == breeds.pid]
    return sum(row[1] in parents for row in rows.values())


def steered(case):
    """Each of the PIDs leads to the session, and what is set holds for all of them."""
    case.need_native("attaching")
    with running(Program(case), Program(case), Program(case)) as programs:
        with All(case, programs) as tool:
            tool.worked()
            for program in programs:
                done = case.run([case.tool, "status", "--json", str(program.pid)])
                status = json.loads(done.stdout)[0]
                expect(sorted(status["pids"]) == sorted(other.pid for other in programs), f"status: {status}")
                expect(status["tool"] == tool.process.pid, f"status: {status}")
            everyone = json.loads(case.run([case.tool, "status", "--json"]).stdout)
            expect(len([row for row in everyone if row["tool"] == tool.process.pid]) == 1, f"status: {everyone}")
            done = case.run([case.tool, "set", str(programs[1].pid), "trace=leaf_2"])
            expect(done.status == 0, f"set: {done.stderr!r}")
            sites, on = (tool.session.status()[key] for key in ("sites", "sites_on"))
            expect(on == 3 and sites > on, f"{on} of {sites} sites are on, not one in each process")
            done = case.run([case.tool, "mark", str(programs[0].pid), "only leaf_2 from here"])
            expect(done.status == 0, f"mark: {done.stderr!r}")
            tool.records(300)
            done = case.run([case.tool, "detach", str(programs[0].pid)])
            expect(done.status == 0 and re.match(r"detached from 3 processes: the text of each is what its files say "
                                                 r"\(\d+ bytes of text compared, 0 differ\)", done.stdout),
                   f"detach: {done.stdout!r} {done.stderr!r}")
            tool.ended()
    all_in(case, programs)


def flight_recorder(case):
    """A snapshot, asked for by the second PID, has the records of all."""
    case.need_native("attaching")
    with running(Program(case), Program(case)) as programs:
        with All(case, programs, "--mode", "overwrite", "-b", "64K") as tool:
            tool.records(300)
            done = case.run([case.tool, "snapshot", str(programs[0].pid), "-o", f"{case.trace_path}.now"])
            expect(done.status == 0, f"snapshot: {done.stderr!r}")
            tool.detach()
        done = case.run([case.tool, "export", "--format", "json", "-i", f"{case.trace_path}.now", "-o", "-"])
        found = {json.loads(line).get("pid") for line in done.stdout.splitlines()}
        expect({program.pid for program in programs} <= found, f"processes in the snapshot: {found}")


def again(case):
    """Named twice it is attached to once; what is traced by another is left out."""
    case.need_native("attaching")
    with running(Program(case), Program(case)) as (first, second):
        with All(case, [second, first], str(first.pid)) as tool:
            tool.worked()
            with Named(case, "third") as third, left_alone(third):
                other = attach_to(case, "-o", f"{case.trace_path}.other", "--duration", "200ms", first.pid, third.pid)
                expect(other.status == 0 and other.stderr == f"calltap: process {first.pid} is left out: it is traced "
                       f"already; `calltap attach {first.pid}` alone gives it a further instance\n",
                       f"status {other.status}: {other.stderr!r}")
            other = attach_to(case, "-o", f"{case.trace_path}.other", first.pid, second.pid)
            expect(other.status == 2 and other.stderr.endswith("none of these processes could be attached to\n"),
                   f"status {other.status}: {other.stderr!r}")
            # Alone it has an instance, of the session that it shares.
            other = attach_to(case, "-o", f"{case.trace_path}.other", "--duration", "200ms", first.pid)
            expect(other.status == 0, f"status {other.status}: {other.stderr!r}")
            tool.detach()
    all_in(case, [first, second])


def named(case):
    """By name, and nobody else; a name that nobody has is an error."""
    case.need_native("attaching")
    unique = f"nm{os.getpid() % 100000}"
    with running(Named(case, f"{unique}-one"), Named(case, f"{unique}-two"), Program(case)) as (one, two, _):
        with All(case, [one, two], "--name", f"{unique}-*", given=[]) as tool:
            tool.worked()
            tool.detach()
        all_in(case, [one, two])
        os.unlink(case.trace_path)
        done = attach_to(case, "--name", f"{unique}-three")
        expect(done.status == 2 and re.fullmatch(rf"calltap: no process (of yours )?is called '{unique}-three'\n", done.stderr),
               f"status {done.status}: {done.stderr!r}")
        done = attach_to(case, "--name")
        expect(done.status == 1, f"status {done.status}: {done.stderr!r}")


def with_children(case):
    """Workers that were forked before are traced with their master: nothing is left to be told of them."""
    case.need_native("attaching")

    class Master(Program):
        def __init__(self):  # pylint: disable=super-init-not-called
            self.start(case, [case.program("master.c"), "forks", "3"])

    with Master() as program, left_alone(program):
        done = attach_to(case, "--mode", "block", "--duration", "500ms", "--children", program.pid)
        expect(done.status == 0 and not done.stderr, f"status {done.status}: {done.stderr!r}")
    rows = case.trace().processes
    master = next(index for index, row in rows.items() if row[0] == program.pid)
    expect(sorted(row[1] == master for row in rows.values()) == [False, True, True, True], f"processes: {rows}")
    expect(case.trace().called().get("turn", 0) > 0, f"calls: {case.trace().called()}")


def set_meanwhile(case):
    """Settings are changed while the tool comes into eight processes, beside a program that is traced already and loads and
    unloads a library all the time: each change is made or refused as a whole, and in the end the last one holds for all."""
    case.need_native("attaching")
    with steer.Loading(case) as loading, running(*(Program(case, "1") for _ in range(8))) as programs:
        with All(case, [loading, *programs], wait=False) as tool:
            tool.session = Session(tool.environment, loading.pid, tool.process)
            answers = []

            def changed():
                answers.append(tool.session.ask("set", "max-depth=" + str(len(answers) % 2 + 2)))
                return tool.alive() and tool.pids() == {loading.pid} | {program.pid for program in programs}
            until("all to be traced", changed, 60)
            expect(all(code == 0 or "the attach is not complete yet" in text for code, text in answers), f"answers: {answers}")
            tool.session.set("trace=leaf_1")
            on = tool.session.status()["sites_on"]
            expect(on == len(programs), f"{on} sites are on")
            tool.records(1000)
            tool.detach()
        loading.end()
    trace = case.trace()
    expect(len(trace.processes) == len(programs) + 1, f"processes: {trace.processes}")
    case.readable()


def tool_killed(case):
    """kill -9 of the tool at any time while it comes into four: none of them notices, and the next tool gets in."""
    case.need_native("attaching")
    odd = random.Random(5)
    with running(Program(case), Program(case, "2"), Program(case, "1"), Program(case, "2")) as programs:
        before = [look(program) for program in programs]
        for _ in range(KILLS):
            with All(case, programs, wait=False) as tool:
                time.sleep(odd.uniform(0, LATEST))
                tool.process.kill()
                tool.process.wait()
            for program in programs:
                live.wait_restored(program.pid)
        for program, then in zip(programs, before):
            until("the agent's thread to end", lambda: look(program)["threads"] == then["threads"])
        with All(case, programs) as tool:
            tool.worked()
            tool.detach()
    all_in(case, programs)


def interrupted(case):
    """^C at any time while it comes into four: those that are traced are let go of, and the others are left alone."""
    case.need_native("attaching")
    odd = random.Random(6)
    with running(Program(case), Program(case, "2"), Program(case, "1"), Program(case, "2")) as programs:
        before = [look(program) for program in programs]
        for _ in range(KILLS):
            with All(case, programs, wait=False) as tool:
                time.sleep(odd.uniform(0.02, LATEST))
                tool.process.send_signal(signal.SIGINT)
                status = finish(tool.process)
                # Before its handler is there the signal ends it; nobody was attached to by then, or one at least was.
                expect(status in (0, 2, -signal.SIGINT), f"status {status}: {tool.said()!r}")
            for program, then in zip(programs, before):
                clean(program, then)
                expect(not sockets(case.environment(False), program.pid), "the session's socket is still there")


def crowd(case):
    """Twenty of them."""
    case.need_native("attaching")
    with running(*(Program(case, "1") for _ in range(20))) as programs:
        with All(case, programs, "-b", "64K") as tool:
            tool.worked()
            tool.detach()
    all_in(case, programs)


def in_the_table(case):
    """The table of sessions has a line for all of them, and the details of any of them name the others."""
    case.need_native("attaching")
    with running(Program(case), Program(case)) as programs:
        with All(case, programs) as tool:
            done = case.run([case.tool, "status"])
            rows = [line for line in done.stdout.splitlines() if f" {tool.process.pid} " in line]
            expect(len(rows) == 1 and " attachee +1 " in rows[0], f"status: {done.stdout!r}")
            done = case.run([case.tool, "status", str(programs[0].pid)])
            expect(re.search(rf"(?m)^attached to:  ({programs[0].pid} {programs[1].pid}|{programs[1].pid} {programs[0].pid})$",
                             done.stdout), f"status: {done.stdout!r}")
            session = Session(case.environment(False), programs[0].pid)
            expect(session.status()["processes"] == 2, f"status: {session.status()}")
            session.close()
            tool.detach()


def watched(case):
    """`calltap top` and `live` of several: the one counts the calls of all, the other shows them all; one that has nothing to
    trace is told."""
    case.need_native("attaching")
    with running(Program(case), Breeds(case), Program(case, sites=False)) as (program, breeds, plain):
        os.kill(breeds.pid, signal.SIGUSR1)
        words = [str(program.pid), str(plain.pid), str(breeds.pid)]
        done = case.run([case.tool, "top", "--stock", "never", "--json", "--batch", "2", "-i", "200ms", *words])
        expect(done.status == 0 and done.stderr.startswith(f"calltap: process {plain.pid} is not traced: "),
               f"top: status {done.status}: {done.stderr!r}")
        expect("leaf_1" in done.stdout and f"PID {program.pid} (attachee) and 2 more" in done.stdout, f"top: {done.stdout!r}")
        with Shown(case, [program, breeds]) as shown:
            until("the first program's calls", lambda: shown.has(program, "leaf_1"))
            session = Session(case.environment(False), program.pid)
            until("the second program's attach", lambda: session.status()["processes"] == 2)
            session.close()
            os.kill(breeds.pid, signal.SIGUSR1)
            until("the second program's calls", lambda: shown.has(breeds, "breed"))
            shown.process.send_signal(signal.SIGINT)
            expect(finish(shown.process) == 0, f"live: {shown.said()!r}")


class Shown:
    """`calltap live` of all these."""

    def __init__(self, case, programs):
        self.output, self.errors = (os.path.join(case.folder, name) for name in ("live.output", "live.errors"))
        with open(self.output, "wb") as output, open(self.errors, "wb") as errors:
            self.process = Process([case.tool, "live", "--proc", *(str(program.pid) for program in programs)],
                                   cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=errors, start_new_session=True)

    def has(self, program, function):
        """A call of the function in that process is shown."""
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return any(f"{program.pid}" in line and f"{function}()" in line for line in file)

    def said(self):
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            return file.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)


CASES = {}
SINGLE = {
    "attach-several-copies": copies,
    "attach-several-programs": programs_differ,
    "attach-several-filters": filters,
    "attach-several-none": none,
    "attach-several-ends-early": ends_early,
    "attach-several-executes": executes,
    "attach-several-forks": forks,
    "attach-several-steered": steered,
    "attach-several-flight-recorder": flight_recorder,
    "attach-several-again": again,
    "attach-several-named": named,
    "attach-several-children": with_children,
    "attach-several-set-meanwhile": set_meanwhile,
    "attach-several-tool-killed": tool_killed,
    "attach-several-interrupted": interrupted,
    "attach-several-crowd": crowd,
    "attach-several-watched": watched,
    "attach-several-status": in_the_table,
}

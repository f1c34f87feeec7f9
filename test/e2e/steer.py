"""Changing a recording while it runs, from another process: status, set, snapshot, detach."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import tracefile as tf
from endings import finish, wait_for
from harness import Process, Skip, expect, halted, stop, until
from steering import Program, Session, Tool, clean, connect, folder_of, left_alone, look, nothing_lost, sockets

# The agent's hook in the loader is all that was patched.
LOADER_ALONE = "^calltap: detached, its threads were stopped for [0-9.]+ ms; all [0-9.]+ KiB of text in what was patched are as in their files$"
SETTINGS = ["tracing", "tracer", "mode", "buffer", "max-depth", "threshold", "time", "time-short", "time-sample", "trace", "notrace", "graph", "no-graph",
            "args", "result", "if", "only-if", "auto-args", "registers"]


def own_place(case):
    """A folder of sockets of the case's own; the environment for its commands."""
    environment = case.environment(False)
    environment["XDG_RUNTIME_DIR"] = case.folder
    case.environment = lambda log=True: dict(environment)
    return environment


class Recorded(Program):
    """attachee.c under record."""

    def __init__(self, case, *options):  # pylint: disable=super-init-not-called
        self.start(case, case.record_command([case.program("attachee.c")], options))

    def __enter__(self):
        super().__enter__()
        self.session = Session(self.case.environment(False), self.pid)
        until("sites", lambda: self.session.status()["sites"])
        return self


def calltap(case, *words, status=0):
    """Run a verb, which must end with this status; returns its output."""
    done = case.run([case.tool, *map(str, words)])
    expect(done.status == status, f"calltap {words}: exit status {done.status}: {done.stderr!r}")
    return done.stdout if status == 0 else done.stderr


def nothing_traced(case):
    """A folder in which no other sessions are found."""
    own_place(case)
    hide = "".join(f"[ ! -d {place} ] || mount -t tmpfs -o mode=0700 none {place} || exit 77\n"
                   for place in (f"/tmp/calltap-{os.geteuid()}", f"/run/user/{os.geteuid()}/calltap"))
    alone = ["unshare", "-m", "sh", "-c", hide + 'exec "$@"', "sh"]
    done = case.run([*alone, case.tool, "status"])
    if done.status in (1, 77, 126, 127) and not done.stdout:
        raise Skip(f"a file system of its own cannot be mounted here: {done.stderr.strip()}")
    expect(done.stdout == "no process is traced by you\n", f"status says {done.stdout!r}")
    done = case.run([*alone, case.tool, "status", "--json"])
    expect(json.loads(done.stdout) == [], f"status --json says {done.stdout!r}")
    for verb in ("status", "set", "snapshot", "detach"):
        said = calltap(case, verb, os.getpid(), status=1)
        expect(said == f"calltap: process {os.getpid()} is not traced by you; `calltap status` lists what is\n", said)


def status(case):
    """Two sessions in the table, each with what it is about; and one at length."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as first, Tool(case, first) as tool:
        case.trace_path += ".second"
        with Recorded(case, "-p", "function", "--mode", "drop") as second:
            tool.records(100)
            rows = {row["pid"]: row for row in json.loads(calltap(case, "status", "--json"))}
            expect({first.pid, second.pid} <= set(rows), f"sessions of {set(rows)} only")
            row = rows[first.pid]
            expect(row["tool"] == tool.process.pid and row["attached"] and row["tracing"], f"{row}")
            expect(row["tracer"] == "function_graph" and row["mode"] == "block", f"{row}")
            expect(row["threads"] >= 5 and row["sites"] >= 15 and row["sites_on"] == row["sites"], f"{row}")
            expect(row["records"] > 100 and row["records_per_s"] > 100 and not row["lost"], f"{row}")
            expect(abs(row["began_ns"] / 1e9 - time.time()) < 60, f"{row}")
            row = rows[second.pid]
            expect(row["tracer"] == "function" and row["mode"] == "drop" and not row["attached"], f"{row}")
            table = [line.split()[:2] for line in calltap(case, "status").splitlines()]
            expect(all([str(program.pid), "attachee"] in table for program in (first, second)), f"{table}")
            expect("function_graph" in calltap(case, "status", first.pid), "nothing of its tracer")
            second.end()
        tool.detach()
        first.end()


def settings_of(case, pid):
    """{key: value or list of filters} by the verb, in text and in JSON."""
    lines = calltap(case, "set", pid).splitlines()
    shown = json.loads(calltap(case, "set", pid, "--json"))
    keys = [line.partition("=")[0] for line in lines if not line.partition("=")[0].endswith("+")]
    expect(keys == SETTINGS and list(shown) == SETTINGS, f"settings are {lines} and {shown}")
    for line in lines:
        key, _, value = line.partition("=")
        of_json = shown[key.rstrip("+")]
        expect(value in of_json if value else of_json in ([], ""), f"{line} in text, {of_json} in JSON")
    return shown


def check_settings(case, pid, session):
    """Each setting is set and read back while the program runs."""
    expect(settings_of(case, pid)["tracing"] == "on", "it is not tracing")
    for word, key, wanted in (
            ("tracing=off", "tracing", "off"), ("tracing=on", "tracing", "on"),
            ("tracer=function", "tracer", "function"), ("tracer=nop", "tracer", "nop"),
            ("tracer=function_graph", "tracer", "function_graph"),
            ("max-depth=3", "max-depth", "3"), ("max-depth=", "max-depth", ""),
            ("threshold=1500ns", "threshold", "1500ns"), ("threshold=2ms", "threshold", "2ms"),
            ("threshold=0", "threshold", ""),
            ("trace=leaf_1", "trace", ["leaf_1"]), ("trace+=leaf_2", "trace", ["leaf_1", "leaf_2"]),
            ("trace=", "trace", []), ("notrace=leaf_*", "notrace", ["leaf_*"]), ("notrace=", "notrace", []),
            ("graph=recurse", "graph", ["recurse"]), ("graph=", "graph", []),
            ("no-graph=recurse", "no-graph", ["recurse"]), ("no-graph=", "no-graph", [])):
        expect(calltap(case, "set", pid, word) == "", f"set {word} prints something")
        expect(settings_of(case, pid)[key] == wanted, f"after {word}: {settings_of(case, pid)[key]!r}")
    before = session.status()["records"]
    until("more records", lambda: session.status()["records"] > before + 1000)


def set_attached(case):
    case.need_native("attaching")
    with Program(case) as program, left_alone(program):
        with Tool(case, program) as tool:
            check_settings(case, program.pid, tool.session)
            tool.detach()
    nothing_lost(case.trace())
    case.readable()


def set_recorded(case):
    with Recorded(case) as program:
        check_settings(case, program.pid, program.session)
        program.end()
    nothing_lost(case.trace())
    case.readable()


OPEN = {"main", "work", "hold", "hold_on", "wait_always", "wait_once", "wait_for_stop"}  # for as long as it runs


LOOKS = 4


def rate(session):
    """Records per second, of what is taken out of the buffers."""
    before, began = session.status()["records"], time.monotonic()
    time.sleep(0.3)
    return (session.status()["records"] - before) / (time.monotonic() - began)


def busy_rate(session):
    """The greatest rate while calls are recorded.  On a busy machine the tool may take next to nothing during one look, and
    more than that later, while it is off."""
    rates = []
    until("records at a rate", lambda: rates.append(rate(session)) or (len(rates) >= LOOKS and max(rates) > 1000))
    return max(rates)


def quiet(session, busy):
    """Until what was in the buffers has been taken out, and next to nothing is recorded.  What still is: where a longjmp
    lands, while there are open frames that were recorded."""
    until("next to no records while it is off", lambda: rate(session) < busy / 8)


def off_and_on(case):
    """Off, nothing is recorded; on again, it is."""
    with Recorded(case, "-b", "64K") as program:
        session = program.session
        for _ in range(3):
            busy = busy_rate(session)
            session.set("tracing=off")
            expect(not session.status()["sites_on"], "sites are on")
            quiet(session, busy)
            code, text = session.ask("set", "trace=no_such_function")
            expect(code and "matches 'no_such_function'" in text, f"a filter that matches nothing while nothing is recorded: {text!r}")
            session.set("tracing=on")
            expect(session.status()["sites_on"] == session.status()["sites"], "sites are off")
            before = session.status()["records"]
            until("more records", lambda: session.status()["records"] > before + 5000)
        program.end()
    nothing_lost(case.trace())


def called_after(case, *words):
    """{kinds of records}, {functions} of the last part of a recording, after these words."""
    with Recorded(case, "-b", "64K") as program:
        session = program.session
        until("records", lambda: session.status()["records"] > 1000)
        busy = busy_rate(session)
        session.set("tracing=off")
        quiet(session, busy)
        session.set(*words, "tracing=on")
        mark = session.status()["records"]
        until("more records", lambda: session.status()["records"] > mark + 2000)
        time.sleep(0.5)
        program.end()
    trace = case.trace()
    nothing_lost(trace)
    kinds, names = set(), set()
    for thread in trace.threads.values():
        events = [(kind, trace.name(value)) for kind, value, _ in thread.events() if kind in (tf.ENTRY, tf.EXIT, tf.CALL)]
        for kind, name in events[-50:] if len(events) > 1000 else []:
            if name not in OPEN:
                kinds.add(kind)
                names.add(name)
    expect(names, "the trace has no records")
    return kinds, names


def takes_effect(case):
    """What is set is what is recorded from then on."""
    kinds, _ = called_after(case, "tracer=function")
    expect(kinds == {tf.CALL}, f"tracer=function: records of kinds {kinds}")
    _, names = called_after(case, "trace=leaf_1", "trace+=leaf_2")
    expect(names <= {"leaf_1", "leaf_2"} and names, f"trace=leaf_1 trace+=leaf_2: {names}")
    _, names = called_after(case, "notrace=leaf_*")
    expect("once" in names and not {"leaf_1", "leaf_2", "leaf_3"} & names, f"notrace=leaf_*: {names}")
    _, names = called_after(case, "max-depth=1")
    expect(names == {"once"}, f"max-depth=1, below what was open: {names}")
    _, names = called_after(case, "graph=recurse")
    expect("recurse" in names and names <= {"recurse", "leaf_1"}, f"graph=recurse: {names}")


def wrong_settings(case):
    """Wrong settings: one sentence and a caret each, and no change."""
    with Recorded(case) as program:
        before = calltap(case, "set", program.pid)
        for words, sentence, caret in (
                (["threshold=10xs"], "threshold '10xs' is not valid", "          ^"),
                (["tracing=off", "max-depth=none"], "depth 'none' is not valid", "          ^"),
                (["trace=[a"], 'filter "[a"', None),
                (["colour=red"], "'colour' is no setting", "^"),
                (["tracing"], "'tracing' is no setting", "       ^"),
                (["trace=no_such_function"], "no_such_function", None),
                (["tracer=function", "max-depth=2"], "need the tracer function_graph", None),
                (["trace=@nowhere"], "nowhere", None),
                (["mode=drop"], "mode", None),
                (["buffer=1"], "buffer size '1' is not valid", "       ^")):
            said = calltap(case, "set", program.pid, *words, status=1).splitlines()
            expect(said[0].startswith("calltap: ") and sentence in said[0], f"{words}: {said}")
            expect(caret is None or said[1:] == ["  " + words[-1], "  " + caret], f"{words}: {said}")
            expect(calltap(case, "set", program.pid) == before, f"{words} changed something")
        with open(os.path.join(case.folder, "list"), "w", encoding="utf-8") as file:
            file.write("leaf_1\nleaf_2\n")
        calltap(case, "set", program.pid, "trace=@list")
        expect(settings_of(case, program.pid)["trace"] == ["leaf_1", "leaf_2"], "a list of filters is not taken")
        program.end()
    case.readable()


class Resized(Recorded):
    """Threads that count what they call."""

    def __init__(self, case, *options):  # pylint: disable=super-init-not-called
        self.start(case, case.record_command([case.program("resized.c")], options))

    def end(self):
        """End the program; returns each thread's number of calls of each function."""
        os.kill(self.pid, signal.SIGTERM)
        status = finish(self.process)
        with open(self.output, encoding="utf-8") as file:
            expect(status == 0, f"exit status {status}: {file.read()}")
        return [int(line.split()[1]) for line in self.printed().splitlines() if line.startswith("turns")]


def in_turn(trace, thread):
    """The number of calls of the three functions, which the program calls in turn."""
    names = [trace.name(value) for kind, value, _ in thread.events() if kind == tf.ENTRY]
    names = [name for name in names if name in ("first", "second", "third")]
    expect(names == ["first", "second", "third"] * (len(names) // 3), "calls are missing, twice or out of order")
    return len(names) // 3


def arenas_of(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return sum("calltap-arena" in line for line in maps)


def buffers(case):
    """Buffers up and down while threads write to them: every call is in the trace, in order, in one row a thread."""
    with Resized(case, "-b", "8K") as program:
        session = program.session
        for turn in range(50):
            size = ("64K", "16K", "1M", "8K")[turn % 4]
            session.set(f"buffer={size}")
            expect(session.table("settings")["buffer"] == size, f"it is not {size}")
            time.sleep(0.03)
        expect(session.status()["threads"] == 5, f"threads: {session.status()['threads']}")
        expect(arenas_of(program.pid) <= 8, f"{arenas_of(program.pid)} arenas for four sizes")
        turns = program.end()
    trace = case.trace()
    nothing_lost(trace)
    found = [in_turn(trace, thread) for thread in trace.threads.values()]
    expect(sorted(found) == sorted([0, *turns]), f"the trace has {found}, the threads called {turns}")
    case.readable()


def buffer_sizes(case):
    """Sizes are rounded and shown; too many are refused, and what was there goes on."""
    with Resized(case, "-b", "64K") as program:  # sub-buffers of 8 KiB
        session = program.session
        session.set("buffer=20K")
        expect(session.table("settings")["buffer"] == "16K", "it is not rounded down")
        session.set("buffer=8K", "threshold=0")
        expect(session.table("settings")["buffer"] == "16K", "it is not two sub-buffers at least")
        code, text = session.ask("set", "buffer=1M", "trace=no_such_function")
        expect(code and session.table("settings")["buffer"] == "16K", f"{code}: {text}")
        answers = [session.ask("set", f"buffer={24 + 8 * i}K") for i in range(40)]
        failed = [text for code, text in answers if code]
        expect(failed and len(failed) < 25 and "too many sizes" in failed[0], f"{answers}")
        session.set("buffer=64K")
        turns = program.end()
    trace = case.trace()
    nothing_lost(trace)
    expect(sorted(in_turn(trace, thread) for thread in trace.threads.values()) == sorted([0, *turns]), "calls are missing")
    case.trace_path += ".second"
    with Recorded(case, "--mode", "overwrite", "-b", "64K") as program:
        code, text = program.session.ask("set", "buffer=1M")
        expect(code and "history" in text, f"{code}: {text}")
        program.end()


def snapshots(case):
    """Each is a whole trace, while the recording goes on."""
    with Recorded(case, "--mode", "overwrite", "-b", "64K") as program:
        time.sleep(0.5)
        for number in range(3):
            path = os.path.join(case.folder, f"snapshot-{number}")
            calltap(case, "snapshot", program.pid, "-o", path)
            expect(os.stat(path).st_mode & 0o777 == 0o600, "others may read the snapshot")
            taken = tf.Trace(path)
            expect(taken.end, "the snapshot has no END chunk")
            expect("once" in taken.called(), f"the snapshot has {taken.called()}")
            expect(calltap(case, "replay", "-i", path), "replay prints nothing")
        calltap(case, "snapshot", program.pid, "--history", "1ms", "--reason", "short")
        short = tf.Trace(os.path.join(case.folder, "calltap.data.snapshot"))
        expect(sum(short.called().values()) < sum(taken.called().values()), "a history of 1 ms is as long as all")
        said = calltap(case, "snapshot", program.pid, "-o", os.path.join(case.folder, "no", "file"), status=1)
        expect("cannot write" in said, said)
        device = os.path.join(case.folder, "device")
        os.symlink("/dev/null", device)
        said = calltap(case, "snapshot", program.pid, "-o", device, status=1)
        expect("written to a file" in said and os.path.islink(device), f"a device was replaced by a snapshot: {said}")
        left = [name for name in os.listdir(case.folder) if name.startswith("snapshot-") and len(name) > 10]
        expect(not left, f"files that are left over: {left}")
        program.end()
    case.readable()


def no_snapshot(case):
    """A recording that does not overwrite has nothing to show: a message, and no file."""
    with Recorded(case) as program:
        path = os.path.join(case.folder, "snapshot")
        said = calltap(case, "snapshot", program.pid, "-o", path, status=1)
        expect("overwrite" in said, said)
        expect(not [name for name in os.listdir(case.folder) if name.startswith("snapshot")], "there is a file")
        program.end()


def detached(case):
    """`calltap detach` says what became of the process; a second one that there is nothing to do."""
    case.need_native("attaching")
    with Program(case) as program:
        before = look(program)
        with Tool(case, program) as tool:
            tool.records(100)
            said = calltap(case, "detach", program.pid)
            tool.ended()
        expect(said.strip(), "calltap detach says nothing")
        clean(program, before)
        calltap(case, "detach", program.pid, status=1)
        program.end()


def nothing_was_patched(case):
    """Where no function was patched, what is said of the text is of the loader alone."""
    case.need_native("attaching")
    program = Process(["sleep", "60"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        until("the program's start", lambda: os.readlink(f"/proc/{program.pid}/exe").endswith("sleep"))
        done = case.run([case.tool, "attach", "-v", "--duration", "0.1s", "--tracer", "nop", "-o", case.trace_path, str(program.pid)])
        expect(done.status == 0 and re.search(LOADER_ALONE, done.stderr, re.M), f"it said {done.stderr!r}")
    finally:
        stop(program)


def rude_neighbours(case):
    """Clients that say nothing, nonsense or half, read nothing, or are many, hold up neither program nor others."""
    environment = own_place(case)
    with Recorded(case) as program:
        name, = sockets(environment, program.pid)
        rude = [connect(folder_of(environment), name) for _ in range(6)]
        for text in (b"\0", b"set\n", b"=\n=\n", b"set\n=x\n", b"x" * 60000, b"status\n" * 9, os.urandom(500)):
            try:
                rude[0].send(text)
            except OSError:
                rude[0] = connect(folder_of(environment), name)
        rude[1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        for _ in range(5):
            rude[1].send(b"settings\n")
        rude[2].send(b"sta")
        before = program.session.status()["records"]
        failures = []

        def toggle():
            try:
                other = Session(environment, program.pid)
                for number in range(50):
                    other.set(("tracing=off", "tracing=on")[number % 2])
                other.close()
            except Exception as error:  # pylint: disable=broad-except  # shown below
                failures.append(error)
        togglers = [threading.Thread(target=toggle) for _ in range(2)]
        for thread in togglers:
            thread.start()
        for thread in togglers:
            thread.join()
        expect(not failures, f"{failures}")
        session = Session(environment, program.pid)
        session.set("tracing=on")
        until("more records", lambda: session.status()["records"] > before + 1000)
        for client in rude:
            client.close()
        program.end()
    nothing_lost(case.trace())
    case.readable()


def tool_stopped(case):
    """A tool that is stopped does not answer: told, with the remedy, also by what would wait long for an answer."""
    environment = own_place(case)
    with Recorded(case, "--mode", "drop") as program:
        with halted(program.process.pid):
            asked = [case.run([case.tool, *words]) for words in (["status"], ["detach", str(program.pid)])]
        remedy = f"is stopped; `kill -CONT {program.process.pid}` lets it go on"
        expect(all(done.status == 1 and remedy in done.stderr for done in asked), f"{[(done.status, done.stderr) for done in asked]}")
        # Nor does it do later what was given up.
        until("the tool to answer", lambda: case.run([case.tool, "status", str(program.pid)]).status == 0)
        expect(program.process.poll() is None, "the recording has ended")
        program.end()
    expect(not sockets(environment, program.pid), "the socket is still there")


def followed(case):
    """A recording is found by each process that it follows, also when the command itself has ended."""
    case.need_native("calltap status")
    environment = own_place(case)
    spin = case.program("spin.c")
    with Process([case.tool, "record", "-q", "--allow-no-sites", "-o", case.trace_path, "--", "sh", "-c", f"{spin} 200000 & {spin} 200000 & echo $! $$"],
                 env=environment, cwd=case.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as tool:
        numbers = []
        while len(numbers) != 2:
            numbers = [int(word) for word in tool.stdout.readline().split() if word.isdigit()]
        child, shell = numbers
        until("the command to end", lambda: not os.path.exists(f"/proc/{shell}"))

        def asked(*words):
            return case.run([case.tool, *words])
        until("its child to be followed", lambda: asked("status", str(child)).status == 0)
        said = asked("status", str(child)).stdout
        expect(f"tool:         process {tool.pid}," in said, f"status of the child says {said!r}")
        listed = asked("status", "--json").stdout
        expect('"pid":0' not in listed.replace(" ", ""), f"status says {listed!r}")
        said = asked("set", str(child), "tracing=off")
        expect(said.status == 0, f"set: {said.stderr!r}")
        done = asked("detach", str(child))
        expect(done.status == 0, f"detach: {done.stderr!r}")
        tool.wait(30)
    expect(not sockets(environment, child), "the socket is still there")


class Loading(Program):
    """A thread that opens a library, calls it and closes it, over and over: it comes back to where it was."""

    def __init__(self, case):  # pylint: disable=super-init-not-called
        library = case.program("attacked.cc", variant="-library",
                               flags=["-DATTACKED_LIBRARY", "-fPIC", "-no-pie", "-shared"])
        self.start(case, [case.program("attacked.cc"), library, "loads"])


def library_comes_back(case):
    """A library gets other stubs, goes, and comes back to them: they are the ones that it is patched with then."""
    case.need_native("attaching")
    with Loading(case) as program:
        with Tool(case, program, "--mode", "block") as tool:
            for depth in ("3", "", "5", "") * 3:
                tool.session.set(f"max-depth={depth}")
                tool.records(5000)
            tool.detach()
            expect("not patched" not in tool.said(), tool.said())
        program.end()
    trace = case.trace()
    names = {trace.name(value) for thread in trace.threads.values() for kind, value, _ in thread.events() if kind == tf.ENTRY}
    expect("library_work" in names, f"nothing of the library was recorded: {sorted(names)}")


def left_over_socket(case):
    """The tool was killed: its socket goes with the next look."""
    environment = own_place(case)
    with Recorded(case) as program:
        program.process.kill()
        finish(program.process)
        expect(sockets(environment, program.pid), "the socket is gone by itself: the test shows nothing")
        calltap(case, "status", program.pid, status=1)
        expect(not sockets(environment, program.pid), "the socket is still there")
        os.kill(program.pid, signal.SIGTERM)
        wait_for(program.output, "all was well")
        stop(program.process)


SINGLE = {
    "steer-nothing": nothing_traced,
    "steer-status": status,
    "steer-set-attached": set_attached,
    "steer-set-recorded": set_recorded,
    "steer-off-and-on": off_and_on,
    "steer-takes-effect": takes_effect,
    "steer-wrong": wrong_settings,
    "steer-buffers": buffers,
    "steer-buffer-sizes": buffer_sizes,
    "steer-snapshot": snapshots,
    "steer-no-snapshot": no_snapshot,
    "steer-detach": detached,
    "steer-nothing-patched": nothing_was_patched,
    "steer-rude": rude_neighbours,
    "steer-stopped": tool_stopped,
    "steer-followed": followed,
    "steer-left-over": left_over_socket,
    "steer-library-comes-back": library_comes_back,
}

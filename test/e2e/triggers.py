"""Triggers of record and attach: each condition holds when it should and not otherwise, and what is done then."""
import json
import os
import re
import signal
import subprocess

import tracefile as tf
from endings import finish
from harness import Process, expect, until
from steer import own_place
from steering import Program, Tool

STATUS = 7  # exit status of triggered.cc
NO_GAP = ["--trigger-gap", "0"]


def noting(condition, file, more=""):
    """The option that writes a line for each time."""
    return ["--run-when", f"{condition} => echo $CALLTAP_FUNCTION $CALLTAP_DURATION_NS {more} >> {file}"]


def touching(condition, file):
    return ["--run-when", f"{condition} => touch {file}"]


class Triggered(Program):
    """triggered.cc, which waits for its turn."""

    def __init__(self, case, *words):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("triggered.cc"), "wait", *words])

    def go(self):
        os.kill(self.pid, signal.SIGUSR1)

    def end(self):
        status = finish(self.process, 60)
        expect(self.printed() == f"ready {self.pid}\nall was well\n", f"the program printed {self.printed()!r}")
        expect(status == STATUS, f"the program's exit status is {status}, untraced {STATUS}")


def recorded(case, options, words):
    """The tool's messages about the program under record."""
    case.need_native("triggers work")
    done = case.record([case.program("triggered.cc"), *words], options, log=False)
    expect(done.status == STATUS, f"exit status {done.status}: {done.stderr[-600:]}")
    expect(done.stdout == "ready 0\nall was well\n", f"the program printed {done.stdout!r}")
    return done.stderr


def attached(case, options, words):
    """The tool's messages about the program under attach."""
    case.need_native("attaching")
    with Triggered(case, *words) as program:
        with Tool(case, program, *options) as tool:
            program.go()
            program.end()
            tool.ended()
            return tool.said()


def further(case, options, words):
    """The messages of a further instance of the program, beside a recording with other functions and triggers."""
    case.need_native("attaching")
    own_place(case)
    own = noting("quick", "own") + noting("slow > 1ms", "own") + noting("middle left", "own")
    with Triggered(case, *words) as program:
        with Tool(case, program, "-l", "tick", *NO_GAP, *own, says=("-q",)) as first:
            os.rename(first.output, os.path.join(case.folder, "first.output"))
            os.rename(case.trace_path, case.trace_path + ".first")
            with Tool(case, program, *options, wait=False) as tool:
                until("the instance", lambda: tool.alive() and first.session.status()["instances"])
                program.go()
                program.end()
                tool.ended()
                first.ended()
                expect(tf.Trace(case.trace_path + ".first").called().keys() <= {"tick", "quick", "slow", "middle"},
                       "the first instance has recorded functions of the other one's")
                return tool.said()


def all_three(test):
    """The test by record, by attach, and in a further instance."""
    def with_record(case):
        test(case, recorded)

    def with_attach(case):
        test(case, attached)

    def with_further(case):
        test(case, further)
    name = test.__name__.replace("_", "-")
    return {f"trigger-{name}-record": with_record, f"trigger-{name}-attach": with_attach,
            f"trigger-{name}-instance": with_further}


def lines(case, file):
    try:
        with open(os.path.join(case.folder, file), encoding="utf-8") as notes:
            return [line.split() for line in notes]
    except FileNotFoundError:
        return []


def conditions(case, run):
    """Conditions that do not depend on time hold exactly as often as they should."""
    options = NO_GAP + noting("quick", "entered") + noting("quick left", "left") + noting("risky threw", "threw")
    options += noting("step 10 in 1000s", "often") + noting("step 36 in 1000s", "too-often")
    options += noting("middle threw", "never") + noting("late", "never") + noting("passes left", "passed")
    run(case, options, ["quick:6", "throw:5", "burst:35", "middle:9", "passes:8"])
    found = {file: len(lines(case, file)) for file in ("entered", "left", "threw", "often", "too-often", "never", "passed")}
    wanted = {"entered": 6, "left": 6, "threw": 5, "often": 1, "too-often": 0, "never": 0, "passed": 8}
    expect(found == wanted, f"actions: {found}, wanted {wanted}")


def durations(case, run):
    """Each long call, and none that is shorter, whatever the machine does meanwhile."""
    options = NO_GAP + noting("slow > 20ms", "long") + noting("slow > 60ms", "longer") + noting("slow > 1000s", "never")
    run(case, options, ["slow:0", "slow:30", "slow:70", "slow:0", "slow:30"])
    for file, least, limit in (("long", 3, 20), ("longer", 1, 60)):
        found = [int(line[1]) for line in lines(case, file)]
        expect(least <= len(found) <= 5, f"{file}: {len(found)} actions for {least} such calls of 5")
        expect(all(ns >= limit * 1000000 for ns in found), f"{file}: {found} ns")
    expect(not lines(case, "never"), f"never: {lines(case, 'never')}")


def rate(case, run):
    """At most one action in the gap, of each trigger; at most so many in all."""
    run(case, ["--trigger-gap", "1000s", *noting("quick", "one"), *noting("middle", "other")], ["quick:20", "middle:20"])
    found = [len(lines(case, file)) for file in ("one", "other")]
    expect(found == [1, 1], f"{found} actions, wanted one of each")
    run(case, [*NO_GAP, "--trigger-max", "3", *noting("quick", "three")], ["quick:20"])
    expect(len(lines(case, "three")) == 3, f"{lines(case, 'three')}")


def start_and_stop(case, run):
    """All records lie between start and stop: when the program goes on, all sites have been switched."""
    options = [*NO_GAP, "--start-when", "quick", *touching("quick", "started"),
               "--stop-when", "middle", *touching("middle", "stopped")]
    run(case, options, ["early:50", "quick", "until:started", "burst:9", "middle", "until:stopped", "late:50"])
    called = case.trace().called()
    expect(called.get("step") == 9 and called.get("quick") == 1 and called.get("middle") == 1, f"recorded: {called}")
    expect(not {"early", "late"} & set(called), f"recorded: {called}")
    case.readable()


STOPPED = ["quick:3", "until:stopped", "quick:50", "middle:7"]


def let_go_on(case, said):
    """When the recording has stopped, the program goes on."""
    until("the stop", lambda: "stopped recording" in said())
    with open(os.path.join(case.folder, "stopped"), "wb"):
        pass


def stopped_itself(case):
    called = case.trace().called()
    expect(1 <= called.get("quick", 0) <= 3 and called.get("middle") == 7, f"recorded: {called}")


def stops_itself(case):
    """The function that has stopped the recording is recorded no more; another one, which a trigger waits for, is."""
    case.need_native("triggers work")
    said = os.path.join(case.folder, "said")
    command = case.record_command([case.program("triggered.cc"), *STOPPED],
                                  ["-v", *NO_GAP, "--stop-when", "quick", *noting("middle", "seen")])
    with open(said, "wb") as file, Process(command, cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=file) as tool:
        let_go_on(case, lambda: open(said, encoding="utf-8").read())
        expect(tool.wait(60) == STATUS, f"status {tool.returncode}")
    stopped_itself(case)


def stops_an_instance(case):
    """The same in a further instance, beside a recording that goes on."""
    case.need_native("attaching")
    own_place(case)
    with Triggered(case, *STOPPED) as program:
        with Tool(case, program, "-l", "quick", says=("-q",)) as first:
            os.rename(first.output, os.path.join(case.folder, "first.output"))
            os.rename(case.trace_path, case.trace_path + ".first")
            with Tool(case, program, *NO_GAP, "--stop-when", "quick", *noting("middle", "seen"), wait=False, says=("-v",)) as tool:
                until("the instance", lambda: tool.alive() and first.session.status()["instances"])
                program.go()
                let_go_on(case, tool.said)
                program.end()
                tool.ended()
                first.ended()
    stopped_itself(case)
    expect(tf.Trace(case.trace_path + ".first").called().get("quick") == 53, "the first recording lacks calls")


def stacks(case, run):
    """The callers of a function, all of them traced, while it is open."""
    said = run(case, ["--stack-when", "deep", *touching("deep", "seen")], ["deep:seen"])
    stack = said[said.index("deep was entered in thread"):]
    found = re.findall(r"^  #\d+ +([a-z_]+)", stack, re.M)
    if "(a call that is just being recorded)" not in stack:  # the line stands for a call of deep(), or another one
        expect("deep" in found, f"no stack of deep(): {said!r}")
    wanted = [name for name in found if name in ("deep", "inner", "outer", "main", "tick", "probe_graph_entry")]
    expect([name for name in wanted if name not in ("deep", "tick")] == ["inner", "outer", "main"],
           f"the stack of deep(): {found}")
    expect(said.count("deep was entered") == 1, f"more than one stack: {said!r}")


def threads_of(trace, name):
    """The threads that have called the function."""
    return {thread.tid for thread in trace.threads.values()
            for kind, function, _ in thread.events() if kind == tf.ENTRY and trace.name(function) == name}


def snapshot(case, run):
    """A trigger's snapshot has the records before it, of all threads, and those of the time after, no later ones."""
    options = ["--mode", "overwrite", "--snapshot-when", "slow > 20ms", "--after", "200ms", "-q"]
    run(case, options, ["early:5", "slow:30", "until:trace.1", "late:5"])
    expect(not os.path.exists(case.trace_path + ".2"), "there is a second snapshot")
    case.trace_path += ".1"
    trace = case.trace()
    called = trace.called()
    expect(called.get("early") == 5 and called.get("slow") == 1, f"in the snapshot: {called}")
    expect(called.get("tick", 0) >= 2 and called.get("other", 0) >= 2, f"in the snapshot: {called}")
    expect("late" not in called, f"in the snapshot: {called}")
    expect(len(threads_of(trace, "other") | threads_of(trace, "slow")) == 2, "one thread only")
    expect(re.fullmatch(r"slow took \d+\.\d+ ms in thread \d+", trace.info["reason"]), f"{trace.info}")
    case.readable()


def history(case, run):
    """A snapshot has no record older than asked for."""
    options = ["--mode", "overwrite", "--snapshot-when", "slow > 20ms", "--history", "300ms", "-b", "64K"]
    run(case, options, ["early:20", "pause:1000", "burst:3", "slow:30", "until:trace.1"])
    case.trace_path += ".1"
    called = case.trace().called()
    expect(called.get("slow") == 1 and called.get("step") == 3 and "early" not in called, f"in the snapshot: {called}")


# Room for a third of a second of a program that waits, and not for the calls in burst().
OVERRUN = ["--mode", "overwrite", "-b", "512K", "--snapshot-when", "burst > 5ms"]


def fired(case, reason):
    """The call that the snapshot was taken for is there once, with its times, in all views, and within main() where that
    was recorded; what else is of its function, as exported."""
    said = re.fullmatch(r"burst.* took (\d+\.\d+) ms in thread (\d+)", reason)
    least, tid = float(said[1]) * 1e6, int(said[2])
    replay = case.run([case.tool, "replay", "-i", case.trace_path, "--min", "5ms"]).stdout
    found = re.findall(r"([\d.]+) us \|  (?:  )?} /\* burst", replay)
    expect(len(found) == 1, f"replay --min finds {len(found)} calls: {replay[-800:]!r}")
    expect(least - 2e3 <= float(found[0]) * 1e3 < least + 1e9, f"{found[0]} us for {reason!r}")
    expect(re.search(rf"^# history of \S*{tid} goes back ", replay, re.M), f"no word on the history: {replay[:800]!r}")
    rows = json.loads(case.run([case.tool, "report", "-i", case.trace_path, "--json"]).stdout)["rows"]
    row = [row for row in rows if row["function"].startswith("burst")]
    expect(len(row) == 1 and row[0]["calls"] == 1 and row[0]["max_ns"] >= least - 2e3, f"report: {row}")
    lines = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path]).stdout.splitlines()
    known = json.loads(case.run([case.tool, "info", "-i", case.trace_path, "--json"]).stdout)["threads"]
    history = [thread["history_ns"] for thread in known if thread["tid"] == tid]
    expect(history and 0 < history[0] < 1e12, f"info: {known}")
    events = [event for event in map(json.loads, lines) if event.get("tid") == tid and "fn" in event]
    outer = [event["depth"] for event in events if event["fn"].startswith("main") and event["ev"] == "enter"]
    found = [event for event in events if event["fn"].startswith("burst")]
    if case.name.endswith("record"):
        expect(outer == [0] and all(event["depth"] == 1 for event in found), f"{found} within main() at {outer}")
    return found


def overrun(case, run):
    """A call that is so long that its beginning is overwritten is in its snapshot all the same."""
    run(case, OVERRUN, ["burst:300000", "until:trace.1"])
    paths = [case.trace_path, case.trace_path + ".1"]
    case.trace_path = paths[1]
    reason = case.trace().info["reason"]
    for case.trace_path in paths:  # the recording itself, too, for what is known is known
        events = fired(case, reason)
        expect([event["ev"] for event in events] == ["enter", "leave"], f"{case.trace_path}: {events}")
        case.readable()


def overrun_after(case, run):
    """A call whose records were all overwritten, for the snapshot comes some time after it (--after)."""
    run(case, [*OVERRUN, "--after", "100ms"], ["burst:300000", "early:100000", "until:trace.1"])
    case.trace_path += ".1"
    events = fired(case, case.trace().info["reason"])
    expect([event["ev"] for event in events] == ["enter", "leave"], f"{case.trace_path}: {events}")
    case.readable()


def filtered(case):
    """A further instance's triggers see calls that its filters leave out; one for a function that is not there is no
    matter with --allow-no-match, also when tracing is switched."""
    options = [*NO_GAP, "--allow-no-match", "-g", "burst", *noting("quick", "entered"), *noting("quick left", "left")]
    options += [*noting("nobody", "never"), "--stop-when", "middle", *touching("middle", "stopped")]
    said = further(case, options, ["quick:6", "middle", "until:stopped", "burst:9"])
    found = {file: len(lines(case, file)) for file in ("entered", "left", "never")}
    expect(found == {"entered": 6, "left": 6, "never": 0}, f"actions: {found}")
    expect("matches" not in said, f"{said!r}")


def told_by_attach(case):
    """Standard error is attach's own: what was done stands there without -v, too, but for -q."""
    case.need_native("attaching")
    for says in ((), ("-q",)):
        with Triggered(case, "slow:30", "until:trace.1") as program:
            with Tool(case, program, "--mode", "overwrite", "--snapshot-when", "slow > 20ms", says=says) as tool:
                program.go()
                program.end()
                tool.ended()
                wanted = "" if says else r"calltap: slow took .* ms in thread \d+: snapshot .*trace\.1, \d+ records?\n"
                expect(re.fullmatch(wanted, tool.said()), f"with {says}: {tool.said()!r}")
        os.unlink(case.trace_path + ".1")


def at_the_end(case, run):
    """The program ends right after it, or before the time for it has come: the tool does not wait for that."""
    said = run(case, ["--mode", "overwrite", "--snapshot-when", "slow > 20ms", "--after", "1000s", *noting("late", "in"),
                      *noting("late left", "out")], ["early:5", "slow:30", "late"])
    found = [len(lines(case, file)) for file in ("in", "out")]
    expect(found == [1, 1], f"the last call was seen {found} times")
    if not os.path.exists(case.trace_path + ".1"):
        expect("the program has ended since" in said, f"no snapshot: {said!r}")
    called = case.trace().called()
    expect(called.get("early") == 5 and called.get("late") == 1, f"in the trace: {called}")
    case.readable()


def commands(case, run):
    """A trigger's command: its environment; it does not get the program's input, nor write into its output."""
    command = "sh -c 'cat; echo calltap: printed; env | grep ^CALLTAP_ | sort > environment; exit 3'"
    said = run(case, ["--run-when", f"slow > 20ms => {command}"], ["slow:30"])
    expect("calltap: printed" in said, f"the command printed nothing: {said!r}")
    with open(os.path.join(case.folder, "environment"), encoding="utf-8") as file:
        found = dict(line.rstrip("\n").split("=", 1) for line in file)
    expect(set(found) == {"CALLTAP_TRIGGER", "CALLTAP_FUNCTION", "CALLTAP_PID", "CALLTAP_TID", "CALLTAP_DURATION_NS"},
           f"the command's environment: {found}")
    expect(found["CALLTAP_FUNCTION"] == "slow" and int(found["CALLTAP_DURATION_NS"]) >= 20000000, f"{found}")
    expect(re.fullmatch(rf"slow took \d+\.\d+ ms in thread {found['CALLTAP_TID']}", found["CALLTAP_TRIGGER"]), f"{found}")
    trace = case.trace()
    pids = {row[0] for row in trace.processes.values()}
    expect(int(found["CALLTAP_PID"]) in pids and int(found["CALLTAP_TID"]) in {t.tid for t in trace.threads.values()},
           f"{found}, of processes {pids}")


def lasting_command(case):
    """A command that goes on does not keep the tool from ending with the program."""
    said = recorded(case, ["--run-when", "quick => exec > /dev/null 2>&1; sleep 1000 & echo $! > sleeper; wait"], ["quick"])
    with open(os.path.join(case.folder, "sleeper"), encoding="utf-8") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    expect("runs on" in said, f"{said!r}")


def same_program(case):
    """Output, status and standard error are as untraced."""
    case.need_native("triggers work")
    command = [case.program("triggered.cc"), "quick:50", "throw:20", "burst:1000", "slow:25"]
    options = ["--stack-when", "nobody*", "--allow-no-match", "--start-when", "quick", "--stop-when", "burst left"]
    options += ["--trigger-gap", "1ms", "--run-when", "risky threw => echo calltap: a command"]
    options += ["--run-when", "step 100 in 1s => true", "--run-when", "slow > 1ms => true"]
    case.same_as_plain(command, options, log=False)
    case.readable()


def refused(case):
    """With a message and nothing run."""
    program = case.program("triggered.cc")
    for options, said in ((["--stack-when", "nobody > 1ms"], "no function that can be traced matches 'nobody'"),
                          (["--snapshot-when", "slow > 1ms"], "a snapshot is of a flight recorder: add --mode overwrite"),
                          (["-p", "function", "--stack-when", "slow > 1ms"], "triggers need the tracer function_graph")):
        done = case.record([program, "early"], options, log=False)
        expect(done.status in (1, 2) and said in done.stderr and not done.stdout,
               f"{options}: status {done.status}: {done.stderr!r}")


CASES = {
    "trigger-program": same_program,
}
SINGLE = {
    **all_three(conditions),
    **all_three(durations),
    **all_three(rate),
    **all_three(start_and_stop),
    **all_three(stacks),
    **all_three(snapshot),
    **all_three(history),
    **all_three(at_the_end),
    **all_three(overrun),
    **all_three(overrun_after),
    **all_three(commands),
    "trigger-stops-itself": stops_itself,
    "trigger-stops-an-instance": stops_an_instance,
    "trigger-filtered-instance": filtered,
    "trigger-told-by-attach": told_by_attach,
    "trigger-lasting-command": lasting_command,
    "trigger-refused": refused,
}

"""Capabilities beside each other: triggers, the profile, handlers and instances on the same functions."""
import contextlib
import json
import os
import re
import signal
import subprocess

import handlers
import live
import profiling
import triggers
import watch
from endings import finish
from harness import Process, expect, stop, until
from instances import Instance, called, rows
from steer import calltap, own_place
from steering import Program, Tool, left_alone, nothing_lost


def with_instances(case, options, words):
    """A way to run what has triggers (triggers.py): attached, and with two instances that want all functions, too."""
    case.need_native("attaching")
    own_place(case)
    with triggers.Triggered(case, *words) as program:
        with Tool(case, program, *options) as tool, contextlib.ExitStack() as stack:
            for name, more in (("all", []), ("calls", ["-p", "function"])):
                stack.enter_context(Instance(case, program, name, *more, "--allow-no-match"))
            program.go()
            program.end()
            tool.ended()
            said = tool.said()
    return said


def triggered(test):
    def with_test(case):
        test(case, with_instances)
    return with_test


def instances_beside_top(case):
    """`calltap top` counts while two instances record the same functions, and others: both have what they have alone."""
    case.need_native("attaching")
    own_place(case)
    readings = os.path.join(case.folder, "readings")
    with Program(case, "2") as program, left_alone(program):
        with open(readings, "wb") as file:
            top = Process([case.tool, "top", "--batch", "0", "-r", "0", "-i", "200ms", "--json", "--notrace", "leaf_3", str(program.pid)],
                          cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL, stdout=file,
                          stderr=subprocess.STDOUT, start_new_session=True)
        try:
            until("a reading", lambda: os.path.getsize(readings))
            with Instance(case, program, "one", "-l", "leaf_3", "-l", "recurse", "-l", "tail") as one, \
                 Instance(case, program, "two", "-g", "jump") as two:
                one.records(3000)
                two.records(1000)
                expect(set(rows(case, program)) == {"0", "one", "two"}, f"{rows(case, program)}")
                one.end()
                two.end()
            os.kill(top.pid, signal.SIGINT)
            expect(top.wait(20) == 0, f"top ended with {top.returncode}")
        finally:
            stop(top)
    for instance, functions in ((one, {"leaf_3", "recurse", "tail"}), (two, {"jump", "leave"})):
        trace = instance.trace()
        nothing_lost(trace)
        live.check_frames(trace)
        expect(called(trace) == functions, f"{instance.name}: called {called(trace)}")
    with open(readings, encoding="utf-8") as file:
        last = json.loads(file.read().splitlines()[-1])
    calls = profiling.calls_of(last["rows"])
    expect("leaf_3" not in calls and last["calls_beyond"] == last["calls_vanished"] == 0, f"{calls}")
    # Each round calls these as often; a round that is not over at the end may lack one.
    expect(calls["leaf_2"] > 100 and all(abs(calls[name] - calls["leaf_2"]) < 16 for name in ("tail", "jump", "once")), f"{calls}")
    counted = {row["function"]: row for row in last["rows"]}
    expect(all(row["self_ns"] <= row["total_ns"] or name == "recurse" for name, row in counted.items()), f"{counted}")


def handlers_beside_top(source, status=0):
    """The profile counts each call of a program that has a handler on each function, and the handlers see each."""
    def test(case):
        counts, library = os.path.join(case.folder, "counts"), handlers.handling(case)
        command = [case.program(source, variant="-under", flags=["-Wl,--wrap=main", "-rdynamic", library])]
        plain = case.run(command)
        expect(plain.status == status, f"{command}: {plain.status} plain: {plain.stderr[-300:]!r}")
        _, wanted = profiling.recorded(case, command)
        kept, changed = case.environment, handlers.with_handlers(case, HANDLED_COUNTS=counts)
        case.environment = lambda log=True: dict(changed)
        printed, last = profiling.profiled(case, command)
        case.environment = kept
        expect(plain.stdout in printed, f"it prints {printed[-300:]!r}, plain {plain.stdout[-300:]!r}")
        calls = profiling.calls_of(last["rows"])
        differ = {name: (calls.get(name, 0), wanted.get(name, 0)) for name in {*calls, *wanted} - profiling.TIMED
                  if calls.get(name, 0) != wanted.get(name, 0)}
        missing = sum(right - left for left, right in differ.values())
        expect(all(left <= right for left, right in differ.values()) and missing == last["calls_vanished"],
               f"(counted, recorded) differ: {differ}; {last['calls_vanished']} are known to have vanished")
        with open(counts, encoding="utf-8") as file:
            entries = int(file.read().split()[0])
        expect(entries, "no handler was called")
    return test


class Watcher:
    """`calltap top` or `live` of a process that is recorded already."""

    def __init__(self, case, program, verb, *options):
        self.verb = verb
        with open(os.path.join(case.folder, verb + ".text"), "wb") as text, \
             open(os.path.join(case.folder, verb + ".said"), "wb") as said:
            self.paths = text.name, said.name
            self.process = Process([case.tool, verb, *options, str(program.pid)], cwd=case.folder,
                                   env=case.environment(False), stdin=subprocess.DEVNULL, stdout=text, stderr=said,
                                   start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)

    def ended(self, status=0):
        """What it printed, on standard output and on standard error."""
        printed = []
        ended = finish(self.process)
        for path in self.paths:
            with open(path, encoding="utf-8", errors="replace") as file:
                printed.append(file.read())
        expect(ended == status, f"{self.verb} ended with {ended}: {printed[1]!r}")
        return printed


WATCHED = ("burst:2000", "throw:20", "early:7", "slow:3", "quick:50", "pause:200")
CALLS = {"burst": 1, "step": 2000, "risky": 40, "early": 7, "slow": 1, "quick": 50}


@contextlib.contextmanager
def watching(case, program, more=(), tops=()):
    """`top` and `live` beside the recording, once each of them has records."""
    with Watcher(case, program, "top", "--batch", "0", "-i", "200ms", "--json", "-r", "0", *tops) as top, \
         Watcher(case, program, "live", *more) as shown:
        def record():
            found = rows(case, program)
            return len(found) == 3 and all(row["records"] for name, row in found.items() if name != "0")

        until("records of both", record)
        yield top, shown


def watched(case):
    """`calltap top` and `live` of a process that is recorded have every call, up to the session's end, and a recording of other
    functions is what it is alone."""
    case.need_native("attaching")
    own_place(case)
    with triggers.Triggered(case, *WATCHED) as program, Tool(case, program, "-l", "step", "-l", "risky") as tool, \
         watching(case, program) as (top, shown):
        program.go()
        program.end()
        tool.ended()
        (readings, top_said), (text, live_said) = top.ended(), shown.ended()
    expect(not top_said and not live_said, f"{top_said!r} {live_said!r}")
    trace = case.trace()
    nothing_lost(trace)
    expect(called(trace) == {"step", "risky"} and trace.called()["step"] == CALLS["step"], f"{trace.called()}")
    last = json.loads(readings.splitlines()[-1])
    counted = profiling.calls_of(last["rows"])
    expect(last["ended"] and not last["records_lost"], f"{last}")
    expect({name: counted.get(name) for name in CALLS} == CALLS, f"top counted {counted}")
    times = {profiling.plain_name(row["function"]): row for row in last["rows"]}
    expect(times["slow"]["max_ns"] >= 3_000_000 and times["burst"]["self_ns"] <= times["burst"]["total_ns"], f"{times}")
    entries = watch.entered(re.sub(r"(\w+)\([a-z ]*\)", r"\1()", text))
    expect({name: entries.get(name) for name in CALLS} == CALLS, f"live shows {entries}")


def watched_and_left(case):
    """^C of `top` and of `live` ends them alone: the recording goes on, and so does the program, whose text is restored."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_*") as tool:
            with watching(case, program, ("-l", "recurse"), ("-g", "jump")) as (top, shown):
                until("a reading", lambda: os.path.getsize(top.paths[0]))
                for watcher in (top, shown):
                    os.kill(watcher.process.pid, signal.SIGINT)
                (readings, top_said), (text, live_said) = top.ended(), shown.ended()
            expect(not top_said and not live_said, f"{top_said!r} {live_said!r}")
            expect(set(rows(case, program)) == {"0"}, f"{rows(case, program)}")
            tool.records(1000)
            tool.detach()
    expect(set(watch.entered(text)) == {"recurse"}, text[:500])
    counted = profiling.calls_of(json.loads(readings.splitlines()[-1])["rows"])
    expect(set(counted) == {"jump", "leave"}, f"top counted {counted}")
    trace = case.trace()
    nothing_lost(trace)
    expect(called(trace) >= {"leaf_1", "leaf_2", "leaf_3"} and not called(trace) & {"jump", "leave"}, f"{called(trace)}")


def watched_and_killed(case):
    """The recording's tool is killed: `top` and `live` say so, and end."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "1") as program:
        with Tool(case, program, "-l", "leaf_*") as tool, watching(case, program) as (top, shown):
            tool.process.kill()
            for watcher in (top, shown):
                said = watcher.ended(1)[1]
                expect("ended without a word" in said, f"{watcher.verb}: {said!r}")
        live.wait_restored(program.pid)
        program.end()


def watched_options(case):
    """What is the first instance's alone is refused by a sentence; a filter that matches nothing, too."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "1") as program, Tool(case, program, "-l", "leaf_1"):
        for verb in ("top", "live"):
            for options, status, sentence in ((["--no-fork"], 1, "--no-fork is for the first instance alone"),
                                              (["-l", "nothing_is_called_so"], 2, "matches 'nothing_is_called_so'")):
                done = case.run([case.tool, verb, *options, str(program.pid)])
                expect(done.status == status and sentence in done.stderr, f"{verb} {options}: {done.status} {done.stderr!r}")
        expect(set(rows(case, program)) == {"0"}, f"{rows(case, program)}")


def top_steered(case):
    """`calltap status` and `set` of a process that `top` counts; two more of `top` beside it, the second under limits of its own."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "1") as program, left_alone(program):
        with Watcher(case, program, "top", "--batch", "0", "-i", "100ms", "--json", "-r", "0", "-l", "recurse", "-l", "leaf_1") as first:
            until("a reading", lambda: os.path.getsize(first.paths[0]))
            expect(rows(case, program)["0"]["mode"] == "profile", f"{rows(case, program)}")
            settings = calltap(case, "set", program.pid)
            expect("mode=profile" in settings and "tracer=profile" in settings, f"settings are {settings!r}")
            done = case.run([case.tool, "set", str(program.pid), "mode=profile"])
            expect(done.status == 1 and "it is block, drop or overwrite" in done.stderr, f"{done.status} {done.stderr!r}")
            calltap(case, "set", program.pid, "notrace=leaf_1")
            found = []
            for options in ([], ["--max-depth", "1"]):
                done = case.run([case.tool, "top", "--once", "-i", "500ms", "--json", "-l", "recurse", "-l", "leaf_1", *options,
                                 str(program.pid)])
                expect(done.status == 0 and not done.stderr, f"{options}: {done.status} {done.stderr!r}")
                found.append({row["function"]: row for row in json.loads(done.stdout)["rows"]})
            expect(set(found[0]) == set(found[1]) == {"recurse", "leaf_1"}, f"{found}")
            expect(found[0]["recurse"]["self_ns"] < found[0]["recurse"]["total_ns"], f"{found}")
            expect(found[1]["recurse"]["self_ns"] == found[1]["recurse"]["total_ns"], f"{found}")
            os.kill(first.process.pid, signal.SIGINT)
            readings = [profiling.calls_of(json.loads(line)["rows"]) for line in first.ended()[0].splitlines()]
    expect(readings[-1]["recurse"] > readings[0].get("recurse", 0), f"{readings[0]} became {readings[-1]}")


def top_of_several(case):
    """Of two processes the one that is recorded already is left out, which is told."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "1") as program, Program(case, "1") as other:
        with Tool(case, program, "-l", "leaf_1"):
            done = case.run([case.tool, "top", "--once", "-i", "200ms", str(program.pid), str(other.pid)])
            expect(done.status == 0 and f"process {program.pid} is left out" in done.stderr, f"{done.status} {done.stderr!r}")
            expect(f"# PID {other.pid} (attachee):" in done.stdout, done.stdout)
            expect(set(rows(case, program)) == {"0"}, f"{rows(case, program)}")
        program.end()
        other.end()


def watched_on_a_terminal(case):
    """The table beside a recording, on a terminal: callers, a reset, and the end of the recording."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, watch.Terminal(case) as terminal:
        with Tool(case, program, "-l", "leaf_1") as tool:
            terminal.sees("ready:")
            before = terminal.state()
            terminal.run([case.tool, "top", "-i", "200ms", "-s", "calls", str(program.pid)], "; echo status $?")
            screen = terminal.sees(r"\d .* recurse")
            expect("from records" in screen.splitlines()[0], screen)
            terminal.type("/", "last", "Enter")
            terminal.sees("1 of .. functions matching last")
            terminal.type("Home", "Enter")
            terminal.sees(r"callers of last(.|\n)* \d.*  tail ")
            terminal.type("BSpace", "r")
            terminal.sees("functions, by Calls")
            tool.detach()
            terminal.sees("has ended")
            terminal.type("q")
            terminal.sees("^status 0$")
            expect(terminal.state() == before, f"the terminal was {before} and is {terminal.state()}")
        program.end()


SINGLE = {
    "beside-watched": watched,
    "beside-watched-and-killed": watched_and_killed,
    "beside-watched-and-left": watched_and_left,
    "beside-watched-on-a-terminal": watched_on_a_terminal,
    "beside-watched-options": watched_options,
    "beside-top-of-several": top_of_several,
    "beside-top-steered": top_steered,
    "beside-triggers-conditions": triggered(triggers.conditions),
    "beside-triggers-durations": triggered(triggers.durations),
    "beside-triggers-start-and-stop": triggered(triggers.start_and_stop),
    "beside-triggers-stacks": triggered(triggers.stacks),
    "beside-top-instances": instances_beside_top,
    **{f"beside-top-handlers-{source.split('.')[0]}": handlers_beside_top(source)
       for source in ("calls.c", "tails.c", "exceptions.cc", "longjumps.c", "signals.c")},
}

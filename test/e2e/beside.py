"""Capabilities beside each other: triggers, the profile, handlers and instances on the same functions."""
import contextlib
import json
import os
import signal
import subprocess

import handlers
import live
import profiling
import triggers
from harness import Process, expect, stop
from instances import Instance, called, rows
from steer import own_place
from steering import Program, Tool, left_alone, nothing_lost, until


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


SINGLE = {
    "beside-triggers-conditions": triggered(triggers.conditions),
    "beside-triggers-durations": triggered(triggers.durations),
    "beside-triggers-start-and-stop": triggered(triggers.start_and_stop),
    "beside-triggers-stacks": triggered(triggers.stacks),
    "beside-top-instances": instances_beside_top,
    **{f"beside-top-handlers-{source.split('.')[0]}": handlers_beside_top(source)
       for source in ("calls.c", "tails.c", "exceptions.cc", "longjumps.c", "signals.c")},
}

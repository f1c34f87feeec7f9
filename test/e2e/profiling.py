"""Tracer profile: calls are summed up in the target, and shown by `calltap top`."""
import json
import os
import re
import shlex
import subprocess

import tools
from harness import TIMEOUT, Process, expect

INTERVAL = "50ms"  # between two readings


def profiled(case, command, options=(), before=(), timeout=TIMEOUT):
    """(what the program printed, the last reading) of the command under `calltap top`.  before: what starts that."""
    printed = os.path.join(case.folder, "printed")
    outcome = case.run([*before, case.tool, "top", *case.choice(), "--batch", "0", "-r", "0", "-i", INTERVAL, "--json",
                        "--program-output", printed, *options, "--", *command], timeout=timeout)
    expect(outcome.status == 0, f"calltap top ends with {outcome.status}: {outcome.stderr[-400:]}")
    last = json.loads(outcome.stdout.splitlines()[-1])
    expect(last["ended"], "the last reading is not of the end")
    with open(printed, encoding="utf-8", errors="replace") as file:
        return file.read(), last


def plain_name(name):
    return re.sub(r"\(.*", "", name).split("::")[-1]


def calls_of(rows):
    calls = {}
    for row in rows:
        name = plain_name(row["function"])
        calls[name] = calls.get(name, 0) + row["calls"]
    return {name: count for name, count in calls.items() if count}


def recorded(case, command, options=()):
    """Calls by name as function_graph has them, by the project's own report."""
    outcome = case.record(command, ["--mode", "block", *options], log=False)
    done = case.run([case.tool, "report", "--json", "-i", case.trace_path])
    expect(done.status == 0, f"calltap report ends with {done.status}: {done.stderr[-400:]}")
    rows = json.loads(done.stdout)
    rows = rows if isinstance(rows, list) else next(value for value in rows.values() if isinstance(value, list))
    return outcome, calls_of([{"function": row.get("function", row.get("name")), **row} for row in rows])


TIMED = {"tick"}  # a timer's handler in handlers.c, whose calls depend on the run's speed


ADAPTIVE = ("--time", "adaptive")


def counted(source, *arguments, options=(), shared=False, how=()):
    """The program prints the same, and each function's calls are those that function_graph sees."""
    def test(case):
        if shared:
            case.need_native("vfork's child shares its parent's memory")
        command = [case.program(source), *arguments]
        plain = case.run(command)
        _, wanted = recorded(case, command, options)
        printed, last = profiled(case, command, [*options, *how])
        expect(printed == plain.stdout + plain.stderr or printed == plain.stdout,
               f"it prints {printed[-300:]!r}, plain {plain.stdout[-300:]!r}")
        calls, lost = calls_of(last["rows"]), last["calls_vanished"]
        expect(last["calls_beyond"] == 0, "calls found no place in the table")
        differ = {name: (calls.get(name, 0), wanted.get(name, 0)) for name in {*calls, *wanted} - TIMED
                  if calls.get(name, 0) != wanted.get(name, 0)}
        missing = sum(right - left for left, right in differ.values())
        expect(all(left <= right for left, right in differ.values()) and missing == lost,
               f"(counted, recorded) differ: {differ}; {lost} are known to have vanished")
    return test


def stepped(case, command, options=(), stepping=()):
    """As profiled(), of a program of steps.h: the CPU itself sends its signals, or a debugger does."""
    if case.cpu.native:
        return profiled(case, command, options)
    pid = os.path.join(case.folder, "pid")
    with tools.stepper(case, [*stepping, "--stop", pid]) as emulated:
        path = os.path.join(case.folder, os.path.basename(emulated[0]))  # what the tool looks for
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho $PPID > {shlex.quote(pid)}\nexec {shlex.join(emulated)} "$@"\n')
        os.chmod(path, 0o755)
        return profiled(case, command, options, ["env", f"PATH={case.folder}:{os.environ['PATH']}"], tools.STEPPED_S)


def every_instruction(*options, native=True):
    """The stack is walked between any two instructions of stubs and recorders."""
    def test(case):
        if native:
            case.need_native("stubs of this kind are stepped")
        count = os.path.join(case.folder, "count")
        command = [case.program("steps.c", flags=tools.TABLES), count]
        plain = tools.plain_steps(case, command)
        printed = stepped(case, command, options)[0]
        expect(", 0 wrong" in printed, f"callers are missing: {printed}")
        with open(count, encoding="ascii") as file:
            traced = int(file.read())
        expect(traced > plain + 20, f"{traced} instructions profiled, {plain} plain: nothing was looked at")
    return test


def interrupted(*options):
    """A handler's calls of the same functions come in between any two instructions: all calls are counted, each once."""
    def test(case):
        command = [case.program("summed.c", flags=["-O2"])]
        names = [option for name in ("outer", "leaf", "again") for option in ("-l", name)]
        printed, last = stepped(case, command, [*names, *options], ["--one-a-round"])
        wanted = {name: int(count) for name, count in map(str.split, printed.splitlines())}
        expect(wanted.pop("handler") > 300, f"it prints {printed}")
        expect(calls_of(last["rows"]) == wanted and not last["calls_vanished"],
               f"counted {calls_of(last['rows'])}, {last['calls_vanished']} vanished; it made {wanted}")
    return test


ERRORS = 3  # errors that a sum may be off: as many times 1.96 standard deviations
SLACK = 0.02  # of a sum: what the recorders take, and what lies between them and the program's own clock


def estimated(case):
    """Totals and own times are as far from what the program's own clock has as their errors tell; a long call is seen."""
    command = [case.program("sampled.c"), "1000"]
    printed, last = profiled(case, command, ADAPTIVE)
    known = {name: (int(calls), int(ns)) for name, calls, ns in map(str.split, printed.splitlines())}
    rows = {plain_name(row["function"]): row for row in last["rows"]}
    expect(set(known) <= set(rows), f"{set(known) - set(rows)} are missing")
    for name, (calls, ns) in known.items():
        row = rows[name]
        expect(row["calls"] == calls, f"{name}: {row['calls']} calls, {calls} by the program")
        if name == "often":
            continue
        room = ERRORS * row["total_error_ns"] + SLACK * ns
        expect(abs(row["total_ns"] - ns) <= room, f"{name}: {row['total_ns']} ns, {ns} by the program's clock, {room} are too many")
    own = known["both"][1] - known["third"][1] - known["rest"][1]
    room = ERRORS * rows["both"]["self_error_ns"] + SLACK * known["both"][1]
    expect(abs(rows["both"]["self_ns"] - own) <= room, f"both: {rows['both']['self_ns']} ns of its own, {own} by the program's clock")
    longest, room = rows["once"]["max_ns"], rows["once"]["max_error_ns"]
    expect(abs(longest - known["once"][1]) <= room + SLACK * longest, f"a call of 5 ms is told as one of {longest} ns, +- {room}")
    expect(last["estimated"], "the times are not told to be estimates")


def attached(case):
    """A program that runs is counted from some call on; what it does afterwards is not changed."""
    case.need_native("an emulated program is not attached to")
    command = [case.program("sampled.c"), "4000"]
    with Process(command, stdout=subprocess.PIPE, text=True) as child:
        done = case.run([case.tool, "top", *case.choice(), "--batch", "2", "-i", "300ms", "-r", "0", "--json", *ADAPTIVE, str(child.pid)])
        expect(done.status == 0, f"calltap top ends with {done.status}: {done.stderr[-400:]}")
        printed = child.communicate()[0]
    expect(child.returncode == 0, f"the program ends with {child.returncode}")
    known = {name: int(calls) for name, calls, _ in map(str.split, printed.splitlines())}
    rows = {plain_name(row["function"]): row for row in json.loads(done.stdout.splitlines()[-1])["rows"]}
    expect({"both", "often"} <= set(rows), f"only {rows} of a program that printed {printed!r}, by {done.stdout!r} and {done.stderr!r}")
    expect(0 < rows["both"]["calls"] <= known["both"], f"{rows['both']['calls']} of {known['both']} calls are counted")
    expect(abs(rows["often"]["calls"] - 20 * rows["both"]["calls"]) <= 40, f"{rows['often']['calls']} calls within {rows['both']['calls']}")


SINGLE = {
    "profile_exceptions": counted("exceptions.cc"),
    "profile_tails": counted("tails.c"),
    "profile_jumps": counted("jumps.c"),
    "profile_threads": counted("threads.c"),
    "profile_routines": counted("routines.c"),
    "profile_registers": counted("registers.c"),
    "profile_cancel": counted("cancel.c"),
    "profile_altstacks": counted("altstacks.c"),
    "profile_handlers": counted("handlers.c"),
    "profile_siblings": counted("siblings.cc"),
    "profile_forks": counted("forks.c"),
    "profile_vforks": counted("vforks.c", shared=True),
    "profile_many": counted("manyroutines.c"),
    "profile_longjumps": counted("longjumps.c"),
    "profile_depth": counted("recurse.c", options=["--max-depth", "3"]),
    "profile_steps": every_instruction(native=False),
    "profile_steps_gated": every_instruction("--max-depth", "50"),
    "profile_steps_root": every_instruction("-g", "middle"),
    "profile_steps_notree": every_instruction("--no-graph", "middle"),
    "profile_interrupted": interrupted(),
}
# The same programs with estimated times: calls are counted as exactly.
SINGLE |= {
    "profile_adaptive_exceptions": counted("exceptions.cc", how=ADAPTIVE),
    "profile_adaptive_tails": counted("tails.c", how=ADAPTIVE),
    "profile_adaptive_jumps": counted("jumps.c", how=ADAPTIVE),
    "profile_adaptive_threads": counted("threads.c", how=ADAPTIVE),
    "profile_adaptive_routines": counted("routines.c", how=ADAPTIVE),
    "profile_adaptive_registers": counted("registers.c", how=ADAPTIVE),
    "profile_adaptive_cancel": counted("cancel.c", how=ADAPTIVE),
    "profile_adaptive_altstacks": counted("altstacks.c", how=ADAPTIVE),
    "profile_adaptive_handlers": counted("handlers.c", how=ADAPTIVE),
    "profile_adaptive_siblings": counted("siblings.cc", how=ADAPTIVE),
    "profile_adaptive_forks": counted("forks.c", how=ADAPTIVE),
    "profile_adaptive_vforks": counted("vforks.c", shared=True, how=ADAPTIVE),
    "profile_adaptive_many": counted("manyroutines.c", how=ADAPTIVE),
    "profile_adaptive_longjumps": counted("longjumps.c", how=ADAPTIVE),
    "profile_adaptive_depth": counted("recurse.c", options=["--max-depth", "3"], how=ADAPTIVE),
    "profile_adaptive_estimates": estimated,
    "profile_adaptive_attached": attached,
    # Most of it is C: of an emulated CPU's own recorders profile_steps and profile_adaptive_interrupted see all.
    "profile_adaptive_steps": every_instruction(*ADAPTIVE),
    "profile_adaptive_steps_gated": every_instruction(*ADAPTIVE, "--max-depth", "50"),
    "profile_adaptive_steps_root": every_instruction(*ADAPTIVE, "-g", "middle"),
    "profile_adaptive_steps_notree": every_instruction(*ADAPTIVE, "--no-graph", "middle"),
    # As long a tick as can be: nearly all recorders that are interrupted find the one that the thread has seen.
    "profile_adaptive_interrupted": interrupted(*ADAPTIVE, "--time-tick", "100ms"),
}

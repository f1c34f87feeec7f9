"""Calls that were open where a flight recorder's history begins: its records against the program's own word."""
import json
import re
import subprocess

from harness import expect

SLACK_NS = 3_000_000  # between the trace's clock and the program's
TOLD_MAX = 64
KEPT = 60000  # rounds that overwrite a ring of 64 KiB many times


def told_by_program(output):
    """[(function, ns before it was called, ns within it)], the outermost first."""
    return [(name, int(before), int(inside))
            for name, before, inside in re.findall(r"^open (\w+) (\d+) (\d+)$", output, re.M)]


def events_of(case):
    done = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path])
    expect(done.status == 0, f"calltap export fails: {done.stderr.strip()[-400:]}")
    head, *events = map(json.loads, done.stdout.splitlines())
    return head, events


def opened(way, whole=True):
    """The calls of the deep stack are at the beginning of the trace, with the times of their entries; those that end
    within the trace end there, and no end is without its call."""
    def test(case):
        command = [case.program("opened.cc"), way, str(KEPT)]
        done = subprocess.run(case.record_command(command, ["-q", "--mode", "overwrite", "-b", "64K"]), cwd=case.folder,
                              env=case.environment(False), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        expect(done.returncode == 0 and "closing" in done.stdout, f"{done.returncode}: {done.stdout[-500:]}")
        program = told_by_program(done.stdout)
        head, events = events_of(case)
        lost = [number for number, event in enumerate(events) if event["ev"] == "lost"]
        names = [name for name, _, _ in program]
        # A history that begins on a signal stack tells of none of these calls: then no loss is marked behind them, either.
        outermost = [event for event in events if event["ev"] == "enter" and event["fn"].split("(")[0] == names[0]]
        expect(lost or not (whole or outermost), "nothing was overwritten")
        entered = [event for event in events[:lost[0]] if event["ev"] == "enter"] if lost else []
        found = [event["fn"].split("(")[0] for event in entered if event["fn"].split("(")[0] in names]
        kept = names[-len(found):] if found else []
        expect(found == kept and (found or not whole), f"at the beginning are {found} of {names}")
        if whole:
            expect(len(entered) <= TOLD_MAX and len(found) >= min(len(names), TOLD_MAX - 8), f"only {len(found)} of {names}")
        times = [event["ns"] + head["start_mono_ns"] for event in entered if event["fn"].split("(")[0] in names]
        for (name, before, inside), time in zip(program[-len(found):], times):
            expect(before - SLACK_NS <= time <= inside + SLACK_NS, f"{name} was entered at {before} to {inside}, not {time}")
        if whole:
            left = [event["fn"].split("(")[0] for event in events if event["ev"] == "leave" and
                    event["end"] == "returned" and event["fn"].split("(")[0] in names]
            expect(left[:len(found)] == found[::-1], f"left are {left}, in this order, of {found}")
        case.readable()
    return test


CASES = {
    "flight-open-calls": opened("calls"),
    "flight-open-throws": opened("throws"),
    "flight-open-jumps": opened("jumps"),
    "flight-open-signals": opened("signals"),
    "flight-open-altstack": opened("altstack", whole=False),
    "flight-open-contexts": opened("contexts", whole=False),
    "flight-open-recursion": opened("recursion"),
}

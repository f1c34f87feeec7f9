"""KernelShark as Debian has it, unmodified, on what trace-cmd has recorded in `calltap shell`: its library has the rows that
`trace-cmd report` has."""
import collections
import ctypes
import os
import re
import shutil
import sys

from endings import start
from harness import Skip, expect, stop, until
from kshark_rows import LIBRARY
from shells import shell
from steer import own_place
from tracecmd import RECORD, report
from tracefs import native
from watch import watched

LINE = re.compile(r" *(.+)-(\d+) +\[(\d+)\] +(\d+)\.(\d{9}): (\w+): +(.*)")
ROWS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kshark_rows.py")

Row = collections.namedtuple("Row", "ns cpu tid task event text")


def need():
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Skip(f"KernelShark's library is not installed (Debian: kernelshark): {error}") from error
    if not shutil.which("trace-cmd"):
        raise Skip("trace-cmd is not installed")


def reported(case, path, *options):
    """The rows of `trace-cmd report`."""
    rows = []
    for line in report(case, path, "-t", *options):
        match = LINE.match(line)
        expect(match or "cpus=" in line, f"{line!r}")
        if match:
            rows.append(Row(int(match[4] + match[5]), int(match[3]), int(match[2]), match[1], match[6], match[7].strip()))
    return rows


def shown(case, path):
    """The rows of KernelShark."""
    done = case.run([sys.executable, ROWS, path])
    expect(not done.status, f"KernelShark's library: {done.status}, {done.stderr[-500:]}")
    rows = []
    for line in done.stdout.split("\n")[:-1]:
        ns, cpu, tid, task, event, text = line.split("\t", 5)
        rows.append(Row(int(ns), int(cpu), int(tid), task, event.removeprefix("ftrace/"), text.strip()))
    return rows


def recorded(case, tracer):
    """What trace-cmd has recorded within a second of a program that runs."""
    looking, path = os.path.join(case.folder, "looking"), os.path.join(case.folder, f"{tracer}.dat")
    with open(looking, "w", encoding="ascii"):
        output, process = start(case, [*watched(case, 3, 0, 1000), looking])
    try:
        until("the program", lambda: "running" in open(output, encoding="ascii").read())  # pylint: disable=consider-using-with
        shell(case, process.pid, "sh", "-c", RECORD.format(tracer=tracer, options="", path=path))
        os.unlink(looking)
        expect(process.wait(60) == 0, f"the program ended with {process.returncode}")
    finally:
        stop(process)
    return path


def begun(row):
    """The row without what tells how its call has ended."""
    return row if row.event != "funcgraph_entry" else row._replace(text=row.text.rpartition("|")[2].rstrip(" ;{"))


def same(case, path):
    """KernelShark's rows are those of `trace-cmd report`."""
    rows = shown(case, path)
    expect([row.ns for row in rows] == sorted(row.ns for row in rows), "KernelShark's rows are not in the order of time")
    raw = reported(case, path, "-R")  # as they are in the file: the text of a call without traced calls has its end, too
    wanted, got = (collections.Counter(row[:5] for row in some) for some in (raw, rows))
    expect(len(rows) > 500 and got == wanted, f"{len(rows)} rows, {len(raw)} of trace-cmd; {list(((got - wanted) + (wanted - got)).items())[:5]}")
    # A function that ends by calling another one ends with it: two rows may differ in their text alone.
    others = collections.Counter(reported(case, path, "-O", "parent")) - collections.Counter(rows)
    # Each reader decides by the next record that it sees of the CPU whether a call is shown whole, "name();", or as "name() {".
    expect(sum(others.values()) <= len(rows) / 100, f"texts that KernelShark does not have: {list(others.items())[:3]}")
    others = collections.Counter(map(begun, others.elements())) - collections.Counter(map(begun, rows))
    expect(not others, f"calls that KernelShark does not have: {list(others.items())[:3]}")
    return rows


def library(case):
    """Each row, of both tracers: when, where, who, what."""
    need()
    own_place(case)
    for tracer, events in (("function_graph", {"funcgraph_entry", "funcgraph_exit", "print"}), ("function", {"function", "print"})):
        rows = same(case, recorded(case, tracer))
        expect({row.event for row in rows} == events, f"{tracer}: {({row.event for row in rows})}")
        expect({"step", "turn"} <= set(re.findall(r"\w+", " ".join(row.text for row in rows))), f"{tracer}: {rows[:5]}")
        tasks = {row.task for row in rows if row.event != "print"}
        expect(tasks == {"watched"}, f"{tracer}: tasks {tasks}")


SINGLE = {"shell-kernelshark-library": native(library)}

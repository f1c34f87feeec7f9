"""What attaching to a process costs it, and how long it takes."""
import os
import re
import shutil
import signal
import subprocess
import time

import sources
from measure import BenchError, Row, median

HERE = os.path.dirname(os.path.abspath(__file__))
THREADS = (1, 100, 1000)
SITES = (10, 1000, 100000)
# Of the threads, at most: more would wait for each other, and the figures would be of how the kernel shares CPUs out.
BUSY = 2 * (os.cpu_count() or 1)
LIMIT = 60  # seconds that anything may take
GOAL_MS, GOAL_THREADS, GOAL_SITES = 5, 100, 1000
# What the tool says at the end, in ms.
SAID = {"attach stop": r"stopped for ([\d.]+) ms at the attach", "one away": r"away for ([\d.]+) ms",
        "detach stop": r"detached, its threads were stopped for ([\d.]+) ms",
        "longest stop": r"longest stop of all its threads took ([\d.]+) ms"}
STALL_THREADS, STALL_SITES, STALL_ROUNDS = 4, 1000, 10
LOOPS = 3 * (os.cpu_count() or 1)  # processes that never sleep
TIMED = ("to traced", "to gone")


def poll(until, what):
    """Seconds until it is so."""
    started = time.monotonic()
    while not until():
        if time.monotonic() - started > LIMIT:
            raise BenchError(f"not {what} within {LIMIT} s")
        time.sleep(0.0005)
    return time.monotonic() - started


class Target:
    """The program, running; its text can be looked at."""

    def __init__(self, program, threads, busy):
        self.process = subprocess.Popen([program, str(threads), str(busy)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.address = int(self.process.stdout.readline(), 16)
        self.memory = os.open(f"/proc/{self.process.pid}/mem", os.O_RDONLY)
        self.original = self.entry()

    def entry(self):
        return os.pread(self.memory, 5, self.address)

    def close(self):
        os.close(self.memory)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def attach_once(tool, target, folder):
    """{what: ms} of one attach and detach."""
    started = time.monotonic()
    with open(os.path.join(folder, "said"), "w+b") as said:
        # In this mode a busy thread is not held up by the disk.
        tracer = subprocess.Popen([tool, "attach", "-v", "--mode", "overwrite", "-o", os.path.join(folder, "trace"),
                                   str(target.process.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        try:
            poll(lambda: target.entry() != target.original or tracer.poll() is not None, "traced")
            traced = time.monotonic() - started
            time.sleep(0.1)
            started = time.monotonic()
            tracer.send_signal(signal.SIGINT)
            poll(lambda: tracer.poll() is not None, "gone")
            gone = time.monotonic() - started
        finally:
            tracer.kill()
            tracer.wait()
        said.seek(0)
        text = said.read().decode(errors="replace")
    found = {name: re.search(pattern, text) for name, pattern in SAID.items()}
    if tracer.returncode or not found["attach stop"] or not found["detach stop"] or target.entry() != target.original:
        raise BenchError(f"calltap attach failed: {text.strip()[-300:]}")
    figures = {name: float(match.group(1)) for name, match in found.items() if match}
    return {**figures, "to traced": traced * 1e3, "to gone": gone * 1e3}


def attach(tools, count):
    """(h) Times are of several rounds on one process, which is as it was after each."""
    if not tools.calltap:
        raise BenchError("calltap attach is not built")
    folder = sources.scratch()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    rows, errors = [], {}
    for sites in SITES:
        program = sources.many_functions(sites, os.path.join(HERE, "attached.c"))
        for threads in THREADS:
            for busy in (0, min((threads + 1) // 2, BUSY)):
                name = f"{threads} threads, {busy} busy, {sites} sites"
                target = Target(program, threads, busy)
                try:
                    rounds = [attach_once(tools.calltap, target, folder) for _ in range(max(count, 5))]
                    rows.append(row_of(name, rounds, threads, sites))
                except BenchError as error:
                    errors[name] = str(error)
                finally:
                    target.close()
    shutil.rmtree(folder, ignore_errors=True)
    return rows, errors


def stalls(tools, count):
    """(h) Beside busy processes, where a thread gets a CPU after some ms only; with an older build in turns with this one."""
    if not tools.calltap:
        raise BenchError("calltap attach is not built")
    folder = sources.scratch()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    program = sources.many_functions(STALL_SITES, os.path.join(HERE, "attached.c"))
    builds = [("", tools.calltap)] + ([(", before", tools.before)] if tools.before else [])
    rows, errors = [], {}
    for loops in (0, LOOPS):
        others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
        worst = {label: [] for label, _ in builds}
        try:
            for _ in range(max(count, STALL_ROUNDS)):
                for label, tool in builds:
                    target = Target(program, STALL_THREADS, STALL_THREADS)  # an agent serves its own version of the tool
                    try:
                        said = attach_once(tool, target, folder)
                    finally:
                        target.close()
                    # An older build says how long the stops took in all, which are two.
                    worst[label].append(said.get("longest stop", max(said["attach stop"], said["detach stop"])))
            for label, values in worst.items():
                rows.append(Row(f"{STALL_THREADS} threads beside {loops} processes{label}", median(values), "ms",
                                columns={"longest stop, ms": f"{median(values):.1f} / {max(values):.1f}"}))
        except BenchError as error:
            errors[f"{loops} processes"] = str(error)
        finally:
            for other in others:
                other.kill()
                other.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return rows, errors


def row_of(name, rounds, threads, sites):
    """Smallest and median of each."""
    least = min(item["attach stop"] for item in rounds)
    goal = (least, GOAL_MS, "ms") if threads <= GOAL_THREADS and sites <= GOAL_SITES else None
    columns = {}
    for key in (*SAID, *TIMED):
        values = [item[key] for item in rounds if key in item]
        if values:
            columns[key + ", ms"] = f"{min(values):.1f} / {median(values):.1f}"
    return Row(name, least, "ms", goal=goal, columns=columns)

"""Running commands for the benchmarks: interleaved rounds, minima, peak memory."""
import os
import shutil
import statistics
import subprocess
import time


class BenchError(Exception):
    """A benchmark cannot run; the text says why."""


class Row:
    """A figure of the table.  goal: (measured figure, limit, text); columns: {heading: text} instead of figure and unit."""

    def __init__(self, name, value, unit, ratio=None, of="", goal=None, note="", columns=None):
        self.name, self.value, self.unit, self.ratio, self.of = name, value, unit, ratio, of
        self.goal, self.note, self.columns = goal, note, columns


class Run:
    """What one run of a command took and said."""

    def __init__(self, seconds, status, stdout, stderr, rss_kib, cpu_seconds=0):
        self.seconds, self.status, self.stdout, self.stderr, self.rss_kib = seconds, status, stdout, stderr, rss_kib
        self.cpu_seconds = cpu_seconds  # of all its processes


def run(command, environment=None, cwd=None, check=True, output=".stdout"):
    """Run to the end.  Give output="/dev/null" for a command that prints a lot: the kernel counts this process's memory
    into the peak of those that it starts later."""
    with open(os.path.join(cwd or ".", output), "w+b") as out, open(os.path.join(cwd or ".", ".stderr"), "w+b") as err:
        started = time.monotonic()
        process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        result = Run(seconds, process.returncode, said(out), said(err), usage.ru_maxrss,
                     usage.ru_utime + usage.ru_stime)
    if check and result.status:
        raise BenchError(f"{' '.join(command)}: exit status {result.status}: {result.stderr.strip()[-300:]}")
    return result


def said(file):
    if not file.seekable():
        return ""
    file.seek(0)
    return file.read().decode(errors="replace")


class Variant:
    """One way to run a program: a command, its environment, and what to do around it."""

    def __init__(self, name, command, environment=None, before=None, after=None):
        self.name, self.command, self.environment = name, command, environment
        self.before, self.after = before, after


def rounds(variants, count, folder):
    """{name: [Run]} of each variant, run in turn in each round, so that a slow moment hits all of them.  A variant that
    fails is left out of the result, with its error in the second result."""
    results, errors = {}, {}
    for _ in range(count):
        for variant in variants:
            if variant.name in errors:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            try:
                if variant.before:
                    variant.before()
                results.setdefault(variant.name, []).append(run(variant.command, variant.environment, folder))
            except (BenchError, OSError) as error:
                errors[variant.name] = str(error)
                results.pop(variant.name, None)
            finally:
                if variant.after:
                    variant.after()
    shutil.rmtree(folder, ignore_errors=True)
    return results, errors


def smallest(runs):
    return min(item.seconds for item in runs)


def median(values):
    return statistics.median(values)

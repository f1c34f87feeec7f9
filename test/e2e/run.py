#!/usr/bin/env python3
"""The end-to-end tests: real programs under `calltap record`.

    run.py [--build DIR] [--cpu CPU] [--quick|--long] [--keep] [NAME...]     a NAME is a case, or a glob of cases
    run.py --list

A case is called group/build, for example threads/gcc-fentry-O2-nopie.  A case that fails prints how to run it alone
and keeps its folder.  ./check runs these tests; the exit status is 1 when one failed.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import mmap
import multiprocessing
import os
import platform
import resource
import shlex
import shutil
import signal
import sys
import time
import traceback

import adaptive
import attach
import attached_static
import beside
import borrowed
import by_value
import callers
import builds
import choosing
import constants
import changed
import cleared
import counts
import cpus
import crowds
import emptied
import executed_static
import exported
import emulators
import endings
import environment
import family
import faults
import flight
import handled
import handlers
import hostile
import idle
import instances
import instrumented
import jumps
import kernel_text
import kernelshark
import language
import later
import listed
import liars
import libcalls
import live
import loaderless
import locked
import marks
import mcount
import musl
import opened
import page
import paths
import options
import peers
import profiling
import programs
import prototypes
import ranging
import reader
import refusals
import replaced
import revalued
import serving
import shells
import shown
import several
import spans
import steer
import stock
import struck
import tools
import tracecmd
import tracefs
import tracefs_details
import tracefs_options
import tracefs_raw
import tracefs_ends
import tracefs_storm
import tree_files
import tree_forked
import tree_filters
import triggers
import trust
import classes
import comparing
import completing
import reading
import runtimes
import rust_values
import typed
import undone
import unfinished
import values
import walked
import watch
import workers
from harness import CURRENT, Case, Failure, Skip, endings_of
from tracefile import BadTrace

# Each may have CASES (run in every build), SINGLE (in one), LONG (in one, only with --long): {name: test}.
# ALIKE are those of SINGLE that try code which is the same for all CPUs: emulated programs run them only with --long.
MODULES = (programs, language, jumps, environment, tools, live, options, refusals, endings, hostile, faults, undone,
           emulators, attach, borrowed, locked, workers, struck, unfinished, several, steer, later, cleared, trust, flight, opened, profiling, watch, walked, triggers, liars, libcalls,
           serving, idle, handlers, handled, marks, instances, beside, crowds, musl, replaced, family, stock, listed, mcount,
           peers, instrumented, loaderless, attached_static, emptied, executed_static, values, typed, classes, rust_values, runtimes, choosing, constants, revalued, reader, prototypes, by_value, callers, counts, spans, paths, page, ranging, changed, comparing, adaptive,
           exported, reading, completing, shells, shown, tracefs, tracefs_details, tracefs_options, kernel_text, tracefs_raw, tracefs_ends, tracefs_storm, tracecmd, kernelshark, tree_files, tree_forked, tree_filters)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def gather(kind):
    """The modules' cases of one kind."""
    return {name: test for module in MODULES for name, test in getattr(module, kind, {}).items()}


def all_cases(arguments):
    """[(name, test, build)] of the chosen set."""
    ways = builds.WAYS[arguments.cpu]
    cases = []
    for number, (name, test) in enumerate(gather("CASES").items()):
        chosen = [ways.first] if arguments.quick else ways.every() if arguments.long else ways.turn(number)
        cases += [(f"{name}/{builds.label(build)}", test, build) for build in chosen]
    single = {**gather("SINGLE"), **(gather("LONG") if arguments.long else {})}
    if arguments.cpu != platform.machine() and not arguments.long:
        single = {name: test for name, test in single.items() if name not in gather("ALIKE")}
    cases += [(name, test, ways.first) for name, test in single.items()]
    wanted = arguments.names or ["*"]
    return [case for case in cases if any(fnmatch.fnmatch(case[0], pattern) for pattern in wanted)]


def cpu_seconds():
    """What this process and the children that it has waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def run_case(name, test, build, tool, arguments):
    """{'name', 'status', 'text', 'seconds', 'cpu'} of one case."""
    cpu = cpus.CPUS[arguments.cpu]
    case = Case(name, tool, arguments.work or os.path.join(arguments.build, "e2e" if cpu.native else f"e2e-{cpu.name}"), cpu, build)
    status, text, began, used = "pass", "", time.monotonic(), cpu_seconds()
    CURRENT.processes = []
    try:
        compiler = cpu.compiler(build[0])[0]
        if not shutil.which(compiler):
            raise Skip(f"{compiler} is not installed")
        case.as_it_is = getattr(sys.modules[test.__module__], "AS_IT_IS", False)
        case.adaptive = arguments.adaptive
        test(case)
    except Skip as reason:
        status, text = "skip", str(reason)
    except (Failure, BadTrace) as failure:
        status, text = "fail", str(failure)
    except Exception:  # pylint: disable=broad-except  # a broken test is a failed test
        status, text = "fail", traceback.format_exc()
    if status == "fail":
        text = endings_of(CURRENT.processes) + text
        here = os.path.relpath(os.path.abspath(__file__), ROOT)
        again = ["python3", here, "--keep"] + ([] if arguments.default_build else ["--build", arguments.build])
        again += (["--long"] if arguments.long else []) + (["--adaptive"] if arguments.adaptive else [])
        again += [] if cpu.native else ["--cpu", cpu.name]
        text += "".join(f"\n    {line}" for line in case.said) + f"\n    run it alone: {shlex.join(again + [name])}"
    elif not arguments.keep:
        case.clean()
    return {"name": name, "status": status, "text": text, "seconds": round(time.monotonic() - began, 1),
            "cpu": round(cpu_seconds() - used, 2)}


RUN = {}  # for the processes that run cases: tests are functions, which cannot be sent to them


def run_numbered(number):
    """run_case() of one of all cases."""
    return run_case(*RUN["cases"][number], *RUN["more"])


def faults_are_slow():
    """Does a page fault take microseconds?  So it is on some virtual machines, where to start a program takes ten times as
    long as elsewhere: there cases need the CPUs and mostly do not wait."""
    pages = 4096
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        began = time.monotonic()
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1
        return time.monotonic() - began > pages * 3e-6


def jobs_at_once():
    """Three cases for each CPU, as cases mostly wait; half as many where they do not."""
    cpus_here = os.cpu_count() or 2
    return cpus_here + cpus_here // 2 if faults_are_slow() else 3 * cpus_here


def find_tool(build):
    """The built command; None when there is none."""
    for candidate in (os.path.join(build, "src", "cmd", "calltap"), os.path.join(build, "calltap")):
        if os.path.exists(candidate):
            return candidate
    return None


def main():
    # Who starts the tests may block signals (perf does), and what is blocked here would be in all that is started.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # A shell's background jobs ignore these two, and so would the tools that are started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description="Run the end-to-end tests.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    parser.add_argument("--cpu", choices=sorted(cpus.CPUS), default=platform.machine(),
                        help="the programs' CPU; another one than this machine's is emulated")
    parser.add_argument("--quick", action="store_true", help="one build of each program")
    parser.add_argument("--long", action="store_true", help="every possible build")
    parser.add_argument("--adaptive", action="store_true", help="record with --time adaptive where that can be")
    parser.add_argument("--keep", action="store_true", help="keep the folders of cases that passed")
    parser.add_argument("--work", type=os.path.abspath, help="folder of the cases and their programs (default: in the build)")
    parser.add_argument("--jobs", type=int, help="cases at a time (default: three for each CPU; half as many on a slow machine)")
    parser.add_argument("--summary", help="write the results to this file as JSON")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    arguments.default_build = arguments.build == os.path.join(ROOT, "build")
    cases = all_cases(arguments)
    if arguments.list:
        print("\n".join(name for name, _, _ in cases))
        return 0
    if not cases:
        print("no case has that name; --list shows them")
        return 2
    missing = cpus.CPUS[arguments.cpu].missing()
    if missing:
        print(f"nothing can be run: {missing}")
        return 77
    tool = find_tool(arguments.build)
    if not tool:
        print(f"there is no calltap in {arguments.build}; build it first")
        return 2

    started = time.monotonic()
    # Processes, not threads: what one case computes does not stop the others, and each has its own children alone.
    RUN.update(cases=cases, more=(tool, arguments))
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs or jobs_at_once(), multiprocessing.get_context("fork")) as pool:
        results = []
        for result in pool.map(run_numbered, range(len(cases))):
            results.append(result)
            if result["status"] != "pass":
                print(f"{result['status'].upper()} {result['name']}: {result['text']}", flush=True)
    if arguments.summary:
        with open(arguments.summary, "w", encoding="utf-8") as file:
            json.dump(results, file)
    counts = {status: sum(result["status"] == status for result in results) for status in ("pass", "fail", "skip")}
    print(f"end to end: {counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped "
          f"({time.monotonic() - started:.0f} s)")
    return 1 if counts["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())

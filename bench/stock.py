"""Programs as they are distributed, which nobody prepared: what a function costs, the start, and the stop at an attach."""
import json
import os
import re
import shutil
import subprocess
import time

import sources
from measure import BenchError, Row, Variant, median, rounds, smallest

PYTHON = "/usr/bin/python3"
LOADS = [PYTHON, "-c", "import ssl"]  # libpython, libc, libcrypto
RUNS = "import ssl, sys, time; print('runs', flush=True); [sum(range(1000)) for _ in iter(int, 1)]"
GOAL_CALL, GOAL_OFF, GOAL_START, GOAL_STOP = 1.0, 1.0, 80, 15
# Turns the site off while the program runs: the smallest of its rounds is one after that.
SWITCHING = '''"$1" record -q --mode overwrite --no-libcalls -l leaf -o trace -- "$2" 10000000 & sleep 0.3
"$1" set $(pgrep -n -P $!) "$3" >said; wait $!'''


def leaf_figures(output):
    return {line.split()[0]: float(line.split()[1]) for line in output.splitlines() if " " in line}


def leaf(tools, count):
    """(i) One call of a tiny function that no compiler prepared, beside a prepared one and clock reads of the same run."""
    if not tools.calltap:
        raise BenchError("calltap record is not built")
    few, many = ["1000000"], ["10000000"]
    stock = ("--mode", "overwrite", "--no-libcalls", "--stock", "always")
    program = sources.build("leaf", "plain")
    variants = [tools.plain("leaf", many, "plain", "plain"), tools.plain("leaf", many, "sites", "nop, untraced"),
                tools.record("leaf", few, "prepared"),
                tools.record("leaf", few, "stock", (*stock, "-l", "leaf"), "plain"),
                tools.record("leaf", few, "prepared, tracer function", ("--mode", "overwrite", "-p", "function")),
                tools.record("leaf", few, "stock, tracer function", (*stock, "-l", "leaf", "-p", "function"), "plain"),
                Variant("led, switched off", ["sh", "-c", SWITCHING, "sh", tools.calltap, program, "notrace=leaf"]),
                Variant("led, tracing=off", ["sh", "-c", SWITCHING, "sh", tools.calltap, program, "tracing=off"]),
                tools.record("leaf", many, "not chosen", (*stock, "-l", "root"), "plain")]
    results, errors = rounds(variants, count, sources.scratch())
    best = {name: {key: min(leaf_figures(item.stdout)[key] for item in runs) for key in ("leaf", "clock1", "clock2")}
            for name, runs in results.items()}
    base = best["plain"]
    rows = [Row("one clock read", base["clock1"], "ns"), Row("two clock reads", base["clock2"], "ns")]
    for name, figures in best.items():
        over = figures["leaf"] - base["leaf"]
        goal = {"led, switched off": (over, GOAL_OFF, "ns over the plain function"),
                "not chosen": (over, 0.1, "ns over the plain function")}.get(name)
        if name.startswith("stock") and name.replace("stock", "prepared") in best:
            goal = (figures["leaf"] - best[name.replace("stock", "prepared")]["leaf"], GOAL_CALL, "ns over prepared")
        middle = median([leaf_figures(item.stdout)["leaf"] for item in results[name]])
        rows.append(Row(name, figures["leaf"], "ns a call", figures["leaf"] / figures["clock2"], "two clock reads", goal,
                        f"median {middle:.2f}"))
    return rows, errors


def tools_to_measure(tools):
    """The tool, and an older one beside it in the same rounds (--before)."""
    return [("", tools.calltap)] + ([(", before", tools.before)] if tools.before else [])


def start(tools, count):
    """(j) What the start of a program with large libraries costs, once what was found in them is known and before."""
    if not tools.calltap:
        raise BenchError("calltap record is not built")
    options = {"default": [], "libcrypto": ["-l", "libcrypto*:*", "--allow-no-match"], "everything": ["-l", "*:*"],
               "everything, few records": ["-l", "*:*", "--start-when", "Py_FinalizeEx entered"]}
    variants = [Variant("plain", LOADS)]
    for name, option in options.items():
        for age, tool in tools_to_measure(tools):
            kept = os.path.join(sources.CACHE, f"kept{age.replace(', ', '-')}")
            if name == "default":
                shutil.rmtree(kept, ignore_errors=True)
                os.makedirs(kept)
            command = [tool, "record", "-q", "-o", "trace", *option, "--", *LOADS]
            # Below the folder that each run empties.
            variants.append(Variant(f"{name}, nothing known{age}", command, {"XDG_CACHE_HOME": "/proc/none"}))
            variants.append(Variant(f"{name}{age}", command, {"XDG_CACHE_HOME": kept}))
    results, errors = rounds(variants, max(count, 7), sources.scratch())
    base, rows = smallest(results["plain"]) * 1e3, []
    least_cpu = min(item.cpu_seconds for item in results["plain"]) * 1e3
    for name, runs in results.items():
        least, cpu = smallest(runs) * 1e3, [item.cpu_seconds * 1e3 - least_cpu for item in runs]
        goal = (least - base, GOAL_START, "ms over the plain run") if name == "everything, few records" else None
        columns = {"ms": f"{least:.0f}", "over plain": f"{least - base:.0f}", "CPU time over": f"{min(cpu):.0f}",
                   "its median": f"{median(cpu):.0f}", "median": f"{median([item.seconds * 1e3 for item in runs]):.0f}"}
        rows.append(Row(name, least, "ms", goal=goal, columns=columns))
    return rows, errors


def attach_once(tool, options, folder):
    target = subprocess.Popen([PYTHON, "-c", RUNS], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        target.stdout.readline()
        time.sleep(0.1)
        done = subprocess.run([tool, "attach", "-v", "--mode", "overwrite", "--duration", "500ms", *options, "-o",
                               os.path.join(folder, "trace"), str(target.pid)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        alive = target.poll() is None
    finally:
        target.kill()
        target.wait()
        target.stdout.close()
    found = {"attach": re.search(r"stopped for ([\d.]+) ms at the attach", done.stdout),
             "longest": re.search(r"longest stop of all its threads took ([\d.]+) ms", done.stdout),
             "detach": re.search(r"detached, its threads were stopped for ([\d.]+) ms", done.stdout)}
    if done.returncode or not alive or not found["attach"]:
        raise BenchError(f"calltap attach failed: {done.stdout.strip()[-300:]}")
    info = subprocess.run([tool, "info", "--json", "-i", os.path.join(folder, "trace")], stdout=subprocess.PIPE, check=True)
    patched = float(json.loads(info.stdout)["info"].get("patched", 0))
    return {"functions": patched, **{name: float(match.group(1)) for name, match in found.items() if match}}


def attach(tools, count):
    """(k) How long a running python3 is stopped."""
    if not tools.calltap:
        raise BenchError("calltap attach is not built")
    folder = sources.scratch()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    said, errors = {}, {}
    for _ in range(max(count, 5)):
        for choice, options in (("its own", []), ("everything", ["-l", "*:*"])):
            for age, tool in tools_to_measure(tools):
                try:
                    said.setdefault(choice + age, []).append(attach_once(tool, options, folder))
                except BenchError as error:
                    errors[choice + age] = str(error)
    shutil.rmtree(folder, ignore_errors=True)
    rows = []
    for name, runs in said.items():
        columns = {key: f"{min(values):.1f} / {median(values):.1f}" for key in ("attach", "longest", "detach", "functions")
                   if (values := [item[key] for item in runs if key in item])}
        if runs:
            least = min(item["attach"] for item in runs)
            rows.append(Row(name, least, "ms", goal=(least, GOAL_STOP, "ms"), columns=columns))
    return rows, errors

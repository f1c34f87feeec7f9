"""The benchmarks.  Each returns rows (name, value, unit, beside) with the figure it is to be held against in words; none
of them fails on a figure: tests are elsewhere, this is to look at."""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import time

import adapting
import attaching
import beside
import handling
import programs
import sources
import stock
import stock_peers
import tree
import valuing
from measure import BenchError, Row, Variant, median, rounds, run, smallest

HERE = os.path.dirname(os.path.abspath(__file__))
SQLITE = ["--size", "30", ":memory:"]
SQLITE_FILE = ["--size", "30", "speedtest.db"]
LUA = [os.path.join(HERE, "work.lua"), "12"]


def leaf_figures(output):
    return {line.split()[0]: float(line.split()[1]) for line in output.splitlines() if " " in line}


def leaf(tools, count):
    """(a) One call of a tiny function, in ns; the clock reads are measured in the same process."""
    few, many = ["1000000"], ["10000000"]
    variants = [tools.plain("leaf", many, "plain", "plain"), tools.plain("leaf", many, "sites", "nop, untraced"),
                tools.record("leaf", few, "function_graph"),
                tools.record("leaf", few, "function_graph, to a file", ("--mode", "block")),
                tools.record("leaf", few, "function", ("--mode", "overwrite", "-p", "function")),
                tools.top("leaf", few),
                tools.record("leaf", few, "with a trigger", ("--mode", "overwrite", "--run-when", "leaf > 3600s => true")),
                tools.record("leaf", many, "filtered out", ("--mode", "overwrite", "-n", "leaf")),
                tools.record("leaf", many, "outside -g root", ("--mode", "overwrite", "-g", "root")),
                tools.uftrace("leaf", few), tools.uftrace_patched("leaf", few), tools.lttng("leaf", few),
                tools.xray("leaf", few)]
    results, errors = rounds([variant for variant in variants if variant], count, sources.scratch())
    best = {name: {key: min(leaf_figures(item.stdout)[key] for item in runs) for key in ("leaf", "clock1", "clock2")}
            for name, runs in results.items()}
    rows, base = [], best["plain"]
    rows.append(Row("one clock read", base["clock1"], "ns"))
    rows.append(Row("two clock reads", base["clock2"], "ns"))
    nop = best["nop, untraced"]["leaf"]
    for name, figures in best.items():
        own, two, one = figures["leaf"], figures["clock2"], figures["clock1"]
        goal = {"function_graph": (own / two, 1.25, "of two clock reads"),
                "function": (own / one, 1.25, "of one clock read"),
                "profile": (own / two, 1.15, "of two clock reads"),
                "filtered out": (own - nop, 0.3, "ns over the nop"),
                "outside -g root": (own - nop, 3.0, "ns over the nop")}.get(name)
        rows.append(Row(name, own, "ns a call", own / two, "two clock reads", goal))
    if "function_graph" in best and "function_graph, to a file" in best:
        ratio = best["function_graph"]["leaf"] / best["function_graph, to a file"]["leaf"]
        rows.append(Row("  flight recorder / to a file", ratio, "x"))
    if "function_graph" in best and "profile" in best:
        rows.append(Row("  profile / function_graph", best["profile"]["leaf"] / best["function_graph"]["leaf"], "x"))
    if "function_graph" in best and "with a trigger" in best:
        over = best["with a trigger"]["leaf"] - best["function_graph"]["leaf"]
        rows.append(Row("  a trigger's check", over, "ns", goal=(over, 1.0, "ns over function_graph")))
    if "function_graph" in best and "uftrace" in best:
        ratio = best["uftrace"]["leaf"] / best["function_graph"]["leaf"]
        rows.append(Row("uftrace / function_graph", ratio, "x", goal=(-ratio, -4, "at least 4")))
        over = (best["uftrace"]["leaf"] - nop) / (best["function_graph"]["leaf"] - nop)
        rows.append(Row("  the same without the loop", over, "x", note="what each adds to the untraced nop"))
    return rows, errors


def emulated(tools, count):
    """(g) The same on the other CPUs, whose programs are emulated: figures of the emulator more than of the CPU."""
    rows, errors = [], {}
    for cpu in sources.EMULATED:
        few = ["200000"]
        try:
            variants = [tools.emulated("leaf", few, "plain", cpu, "plain"),
                        tools.emulated("leaf", few, "sites", cpu, "nop, untraced"),
                        tools.record("leaf", few, "function_graph", flavour=f"sites, {cpu}"),
                        tools.record("leaf", few, "function", ("--mode", "overwrite", "-p", "function"), f"sites, {cpu}")]
        except sources.SourceError as error:
            errors[cpu] = str(error)
            continue
        results, failed = rounds([variant for variant in variants if variant], count, sources.scratch())
        errors.update({f"{cpu}: {name}": text for name, text in failed.items()})
        best = {name: {key: min(leaf_figures(item.stdout)[key] for item in runs) for key in ("leaf", "clock2")}
                for name, runs in results.items()}
        if "nop, untraced" not in best:
            continue
        untraced = best["nop, untraced"]
        rows.append(Row(f"{cpu}: two clock reads", untraced["clock2"], "ns", untraced["clock2"] / untraced["leaf"], "untraced"))
        for name, figures in best.items():
            rows.append(Row(f"{cpu}: {name}", figures["leaf"], "ns a call", figures["leaf"] / untraced["leaf"], "untraced",
                            note=f"{figures['leaf'] / untraced['clock2']:.2f} x two clock reads"))
    return rows, errors


def whole(program, arguments, limit):
    """(b) A whole program against its plain run."""
    def measure(tools, count):
        variants = [tools.plain(program, arguments, "plain", "plain"),
                    tools.plain(program, arguments, "sites", "nops, untraced"),
                    tools.record(program, arguments, "calltap"),
                    tools.record(program, arguments, "calltap to a file", ("--mode", "block")),
                    tools.uftrace(program, arguments), tools.lttng(program, arguments),
                    tools.plain(program, arguments, "clang", "plain (clang)"), tools.xray(program, arguments)]
        results, errors = rounds([variant for variant in variants if variant], count, sources.scratch())
        rows = []
        for name, runs in results.items():
            against = "plain (clang)" if name == "XRay" and "plain (clang)" in results else "plain"
            ratio = smallest(runs) / smallest(results[against])
            goal = (ratio, limit, "x the plain run") if name == "calltap" else None
            rows.append(Row(name, smallest(runs), "s", ratio, against, goal,
                            f"median {median([item.seconds for item in runs]):.3f} s"))
        return rows, errors
    return measure


def start(tools, count):
    """(c) What starting under trace costs: hello world, and 100,000 functions to patch."""
    if not tools.calltap:
        raise BenchError("calltap record is not built")
    variants = [tools.plain("hello", [], "sites", "plain"), tools.record("hello", [], "traced", ())]
    results, errors = rounds(variants, 20, sources.scratch())
    if errors:
        raise BenchError(next(iter(errors.values())))
    middle = {name: median([item.seconds * 1e3 for item in runs]) for name, runs in results.items()}
    extra = middle["traced"] - middle["plain"]
    rows = [Row("hello, plain", middle["plain"], "ms"),
            Row("hello, traced", middle["traced"], "ms", goal=(extra, 15, "ms over the plain run"))]
    program = sources.many_functions(100000, os.path.join(HERE, "functions.c"))
    variants = [Variant("plain", [program]), Variant("traced", [tools.calltap, "record", "-o", "trace", "--", program])]
    results, errors = rounds(variants, max(count, 3), sources.scratch())
    if errors:
        raise BenchError(next(iter(errors.values())))
    extra = (smallest(results["traced"]) - smallest(results["plain"])) * 1e3
    rows.append(Row("100,000 functions, traced", smallest(results["traced"]) * 1e3, "ms",
                    note=f"{extra:.0f} ms over plain: reading symbols, patching, writing the tables"))
    rows += patch_time([tools.calltap, "record", "-o", "trace", "--", program], tools)
    return rows, {}


def patch_time(command, tools):
    """What the recorder notes in the file about patching, as a row; none when it notes nothing."""
    os.makedirs(sources.scratch(), exist_ok=True)
    run(command, cwd=sources.scratch())
    known = json.loads(run([tools.calltap, "info", "-i", "trace", "--json"], cwd=sources.scratch()).stdout)
    shutil.rmtree(sources.scratch(), ignore_errors=True)
    noted = known["info"]
    if "patch_ticks" not in noted:
        return []
    spent = int(noted["patch_ticks"]) / known["clock_mhz"] / 1e3
    return [Row("  of which patching", spent, "ms", goal=(spent, 300, "ms"), note=f"{noted.get('patched')} functions")]


def memory(tools, _count):
    """(d) What the agent adds to the program's memory, by its mappings."""
    if not tools.calltap:
        raise BenchError("calltap record is not built")
    folder = sources.scratch()
    os.makedirs(folder, exist_ok=True)
    program = sources.build("lua", "sites")
    command = [program, "-e", "io.write('ready\\n') io.flush() local t = os.clock() while os.clock() - t < 2 do end"]
    maps = {}
    for name, full in (("plain", command), ("traced", [tools.calltap, "record", "-o", "trace", "--mode", "overwrite", "--",
                                                       *command])):
        process = subprocess.Popen(full, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        process.stdout.readline()
        time.sleep(0.3)
        maps[name] = resident(program)
        process.stdout.read()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
    named = {key: value for key, value in maps["traced"].items() if "calltap" in key}
    rows = [Row(key, value, "KiB resident") for key, value in sorted(named.items())]
    shared = sum(value for key, value in named.items() if "memfd" in key)
    added = sum(maps["traced"].values()) - sum(maps["plain"].values()) - shared
    rows.append(Row("added besides buffers", added, "KiB resident", goal=(added, 2048, "KiB (stubs included)")))
    return rows, {}


def resident(program):
    """{mapping: KiB resident} of the process that runs the program."""
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            if os.readlink(folder + "/exe") == program:
                with open(folder + "/smaps", encoding="utf-8") as file:
                    return sum_smaps(file)
        except OSError:
            continue
    raise BenchError("the program is not running")


def sum_smaps(lines):
    found, name = {}, ""
    for line in lines:
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            name = line.split(None, 5)[5].strip() if len(line.split(None, 5)) > 5 else "anonymous"
        elif line.startswith("Rss:"):
            found[name] = found.get(name, 0) + int(line.split()[1])
    return found


def trace_totals(path):
    """(records, file size) from the END chunk, the chunks before it skipped by their heads."""
    with open(path, "rb") as file:
        head = file.read(64)
        at = struct.unpack_from("<I", head, 12)[0]
        while True:
            file.seek(at)
            chunk = file.read(32)
            if len(chunk) < 32:
                raise BenchError("the trace has no END chunk")
            _, kind, _, _, stored, _ = struct.unpack("<IIIIQQ", chunk)
            if kind == 10:
                return struct.unpack("<Q", file.read(8))[0], os.path.getsize(path)
            at += 32 + (stored + 7 & ~7)


def size(tools, _count):
    """(e) Bytes a call in the file, on a real program."""
    if not tools.calltap:
        raise BenchError("calltap record is not built")
    rows = []
    for program, arguments in (("sqlite", ["--size", "5", ":memory:"]), ("lua", LUA[:1] + ["1"])):
        os.makedirs(sources.scratch(), exist_ok=True)
        path = os.path.join(sources.scratch(), "trace")
        run([tools.calltap, "record", "-o", path, "--mode", "block", "--", sources.build(program, "sites"), *arguments],
            cwd=sources.scratch())
        records, file_bytes = trace_totals(path)
        each = file_bytes / max(records / 2, 1)
        rows.append(Row(f"{program}: file", each, "bytes a call", goal=(each, 6, "bytes"),
                        note=f"{records} records, {file_bytes / 1e6:.1f} MB"))
    shutil.rmtree(sources.scratch(), ignore_errors=True)
    return rows, {}


def readers(tools, _count):
    """(f) Speed and memory of the readers on a large trace: of SQLite, recorded in block mode."""
    if not tools.calltap:
        raise BenchError("calltap record is not built")
    os.makedirs(sources.scratch(), exist_ok=True)
    path = os.path.join(sources.scratch(), "trace")
    made = os.environ.get("CALLTAP_BENCH_TRACE")
    if made:
        path = made
    else:
        run([tools.calltap, "record", "-o", path, "--mode", "block", "--", sources.build("sqlite", "sites"), "--size", "10",
             ":memory:"], cwd=sources.scratch())
    records, _ = trace_totals(path)
    rows = []
    for verb in (["replay"], ["report"], ["graph"], ["export", "--format", "perfetto", "-o", "/dev/null"],
                 ["export", "--format", "folded", "-o", "/dev/null"]):
        done = run([tools.calltap, verb[0], "-i", path, *verb[1:]], cwd=sources.scratch(), output="/dev/null")
        speed = records / done.seconds / 1e6
        rows.append(Row(" ".join(verb[:3]), speed, "million records/s", goal=(-speed, -5, "at least 5"),
                        note=f"{records} records, {done.seconds:.1f} s"))
        rows.append(Row("  its peak memory", done.rss_kib / 1024, "MiB", goal=(done.rss_kib / 1024, 1024, "MiB"),
                        note="(no less than this script's own)"))
    shutil.rmtree(sources.scratch(), ignore_errors=True)
    return rows, {}


SUITES = {
    "leaf": (leaf, "a tiny function in a tight loop"),
    "sqlite": (whole("sqlite", SQLITE, 3.0), "SQLite's speedtest1, in memory"),
    "sqlite-file": (whole("sqlite", SQLITE_FILE, 3.0), "SQLite's speedtest1, on a file (its usual way)"),
    "lua": (whole("lua", LUA, 6.8), "a Lua interpreter, without coroutines"),
    "start": (start, "starting under trace"),
    "attach": (attaching.attach, "attaching to a program that runs, and leaving it: smallest / median"),
    "stalls": (attaching.stalls, "how long all threads are stopped at most at a time, attaching and detaching: median / worst"),
    "handlers": (handling.handlers, "handlers of a program's own, in a tight loop around a tiny function"),
    "values": (valuing.values, "a tiny function in a tight loop, whose arguments and results are told"),
    "counts": (valuing.counts, "a tiny function in a tight loop, counted by a value"),
    "adaptive": (adapting.adaptive, "calls without times (--time adaptive) beside calls with times"),
    "accuracy": (adapting.accuracy, "what is told of calls without times, beside what is told of calls with times"),
    "instances": (beside.instances, "a tiny function in a tight loop, recorded by a session, a further instance of it, or both"),
    "stock": (stock.leaf, "a tiny function in a tight loop, which nobody prepared"),
    "stock-start": (stock.start, "starting a program with large libraries, which nobody prepared"),
    "stock-attach": (stock.attach, "attaching to python3, which nobody prepared: ms, smallest / median"),
    "stock-peers": (stock_peers.peers, "python3, sqlite3 and redis-server as Debian ships them, under each tool"),
    "programs": (programs.programs, "compiled eBPF programs"),
    "tree": (tree.tree, "the files of calltap mount, on a program with 100,000 functions; their readers; calls that they trace"),
    "memory": (memory, "memory of the agent"),
    "size": (size, "bytes a call"),
    "readers": (readers, "reading a trace"),
    "emulated": (emulated, "a tiny function in a tight loop, on CPUs that are emulated"),
}


def as_json(rows):
    return json.loads(json.dumps([vars(row) for row in rows]))

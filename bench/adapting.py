"""`--time adaptive`: what calls cost without times, and how right what is told of them is."""
import collections
import json
import os
import shutil

import sources
from measure import BenchError, Row, Variant, median, rounds, run, smallest

HERE = os.path.dirname(os.path.abspath(__file__))
ADAPTIVE = ("--time", "adaptive")
# (program, arguments, flavours plain and with sites, goal in times of the plain run)
PROGRAMS = (("sqlite", ["--size", "30", ":memory:"], "plain", "sites", 2.0), ("sqlite", ["--size", "30", "speedtest.db"], "plain", "sites", 1.7),
            ("lua", [os.path.join(HERE, "work.lua"), "12"], "plain", "sites", 3.0),
            ("leveldb", ["folder", "2", "20000"], "clang", "clang, sites", None), ("json", ["100"], "plain", "sites", None))
ACCURATE = (("sqlite", ["--size", "1", ":memory:"], "sites"), ("lua", [os.path.join(HERE, "work.lua"), "1"], "sites"),
            ("leveldb", ["folder", "1", "3000"], "clang, sites"), ("json", ["10"], "sites"))
NEAR = 0.05  # of a function's total: two exact runs that are no farther apart tell the same
LONG_NS = 200000
SAMPLES = 8000  # of the plain program, at the least


def record(tools, name, command, options):
    return Variant(name, [tools.calltap, "record", "-o", "trace", *options, "--", *command])


def leaf_rows(tools, count):
    program = sources.build("leaf", "sites")
    few, many = ["1000000"], ["10000000"]
    variants = [tools.plain("leaf", many, "plain", "plain"), record(tools, "exact", [program, *few], ("--mode", "drop")),
                record(tools, "adaptive", [program, *many], ("--mode", "drop", *ADAPTIVE))]
    results, errors = rounds(variants, count, sources.scratch())
    best = {name: min(float(line.split()[1]) for item in runs for line in item.stdout.splitlines() if line.startswith("leaf "))
            for name, runs in results.items()}
    rows = [Row("leaf, plain", best["plain"], "ns a call")]
    for name, goal in (("exact", None), ("adaptive", 6)):
        over = best[name] - best["plain"]
        rows.append(Row(f"leaf, {name}", best[name], "ns a call", goal=(over, goal, "ns over the plain loop") if goal else None,
                        note="" if goal else f"{over:.1f} ns over the plain loop"))
    return rows, errors


def adaptive(tools, count):
    """(o) Programs with times of all calls, and of some, to a file and with what does not fit left out."""
    if not tools.calltap:
        raise BenchError("calltap is not built")
    rows, errors = leaf_rows(tools, count)
    for program, arguments, plain, sites, goal in PROGRAMS:
        command = [sources.build(program, sites), *arguments]
        name = f"{program}{', on a file' if 'speedtest.db' in arguments else ''}"
        variants = [Variant("plain", [sources.build(program, plain), *arguments])]
        for mode in ("drop", "block"):
            variants += [record(tools, f"{how}, {mode}", command, ("--mode", mode, "--time", how)) for how in ("exact", "adaptive")]
        results, failed = rounds(variants, count, sources.scratch())
        errors.update({f"{name}: {variant}": text for variant, text in failed.items()})
        for variant, runs in results.items():
            ratio = smallest(runs) / smallest(results["plain"])
            rows.append(Row(f"{name}, {variant}", smallest(runs), "s", ratio, "plain",
                            (ratio, goal, "x the plain run") if goal and variant == "adaptive, drop" else None,
                            f"median {median([item.seconds for item in runs]):.3f} s"))
    return rows, errors


def traced(tools, command, options, name):
    """(report's rows by function, [(function, depth)] in order by thread, durations of long calls by function, info)."""
    folder = sources.scratch()
    path = os.path.join(folder, name)
    run([tools.calltap, "record", "-o", path, "--mode", "block", *options, "--", *command], cwd=folder)
    report = json.loads(run([tools.calltap, "report", "--json", "--limit", "0", "-i", path], cwd=folder).stdout)
    info = json.loads(run([tools.calltap, "info", "--json", "-i", path], cwd=folder).stdout)
    run([tools.calltap, "export", "--format", "json", "-i", path, "-o", path + ".json"], cwd=folder)
    order, long_calls = collections.defaultdict(list), collections.Counter()
    with open(path + ".json", encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            if event["ev"] == "enter":
                order[event["tid"] - event["pid"]].append((event["fn"], event["depth"]))
            elif event["ev"] == "leave" and event.get("dur", 0) >= LONG_NS:
                long_calls[event["fn"]] += 1
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    return {row["function"]: row for row in report["rows"]}, order, long_calls, info


def sampled(command):
    """Two times samples of the program that nobody traces, by symbol."""
    folder, halves = sources.scratch(), (collections.Counter(), collections.Counter())
    path = os.path.join(folder, "samples")
    while sum(halves[1].values()) < SAMPLES / 2:
        for samples in halves:
            run(["perf", "record", "-q", "-F", "20000", "-e", "cpu-clock:u", "-o", path, "--", *command], cwd=folder)
            told = run(["perf", "report", "-i", path, "--no-demangle", "--sort", "symbol", "-n", "-q", "--stdio"], cwd=folder).stdout
            for line in told.splitlines():
                words = line.split()  # part, samples, [.], symbol
                if len(words) >= 4 and words[2] == "[.]":
                    samples[words[3]] += int(words[1])
    return halves


def elsewhere(one, other):
    """What part of the time is told of other functions, among those that both have."""
    both = one.keys() & other.keys()
    wholes = [sum(times[name] for name in both) for times in (one, other)]
    return sum(abs(one[name] / wholes[0] - other[name] / wholes[1]) for name in both) / 2


def beside_samples(command, named):
    """Rows: how much of the time is at another function than samples of the plain program say."""
    halves = sampled(command)
    rows = [Row("  samples, once more: time of other functions", 100 * elsewhere(*halves), "% of all", note=f"{sum(sum(half.values()) for half in halves)} samples")]
    for name, reported in named:
        selves = {row["symbol"]: row["self_ns"] for row in reported.values()}
        rows.append(Row(f"  {name}: time of other functions than samples say", 100 * elsewhere(selves, halves[0] + halves[1]), "% of all"))
    return rows


def accuracy(tools, _count):
    """(p) The same program with all times and with some: calls, their order, and each function's part of the time, also
    beside what samples of the program say that nobody traces."""
    if not tools.calltap:
        raise BenchError("calltap is not built")
    rows = []
    os.makedirs(sources.scratch(), exist_ok=True)
    for program, arguments, flavour in ACCURATE:
        command = [sources.build(program, flavour), *arguments]
        exact, order, long_calls, _ = traced(tools, command, (), "exact")
        again, _, long_again, _ = traced(tools, command, (), "again")
        some, order_some, long_some, info = traced(tools, command, ADAPTIVE, "some")
        calls = sum(row["calls"] for row in exact.values())
        same = sum(exact.get(name, {}).get("calls") == row["calls"] for name, row in some.items())
        rows.append(Row(f"{program}: functions with as many calls", same, f"of {len(exact)}", note=f"{calls} calls"))
        rows.append(Row("  threads with the same order", sum(order[key] == order_some.get(key) for key in order), f"of {len(order)}"))
        rows.append(Row("  records without a time", 100 * info["untimed"] / info["records"], "%"))
        for name, other in (("exact, once more", again), ("adaptive", some)):
            off = shares_off(exact, other)
            rows.append(Row(f"  {name}: part of the self time, off by", 100 * max(off), "% of it at most",
                            note=f"median {100 * median(off):.1f} %, {len(off)} functions with 1 % or more"))
        rows.append(totals_row(exact, again, some))
        if shutil.which("perf"):
            rows += beside_samples(command, (("exact", exact), ("adaptive", some)))
        for name, other in (("exact, once more", long_again), ("adaptive", long_some)):
            both = sum((long_calls & other).values())
            rows.append(Row(f"  {name}: calls of 200 us or more", sum(other.values()), f"({both} as in the first run)",
                            note=f"{sum(long_calls.values())} in the first run"))
    return rows, {}


def totals_row(exact, again, some):
    """How near the totals of `some` are, as parts of the longest one, of functions with 1 % or more of which two exact runs tell the same."""
    def part(rows, name):
        return rows[name]["total_ns"] / max(row["total_ns"] for row in rows.values()) if name in rows else 0
    sure = [name for name in exact if part(exact, name) >= 0.01 and abs(part(again, name) / part(exact, name) - 1) <= NEAR]
    off = {name: part(some, name) / part(exact, name) - 1 for name in sure}
    near = sum(abs(value) <= NEAR for value in off.values())
    worst = sorted(off, key=lambda name: -abs(off[name]))[:5]
    return Row("  adaptive: totals within 5 %", near, f"of {len(off)}", note=", ".join(f"{name} {100 * off[name]:+.1f} %" for name in worst))


def shares_off(exact, other):
    """How far each function's part of all self time is off, relative to it, of those with 1 % or more."""
    whole, whole_other = (sum(row["self_ns"] for row in rows.values()) for rows in (exact, other))
    return [abs(other[name]["self_ns"] / whole_other / (row["self_ns"] / whole) - 1) for name, row in exact.items()
            if row["self_ns"] >= whole / 100 and name in other]

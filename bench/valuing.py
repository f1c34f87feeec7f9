"""What values of a call cost: two arguments in registers, a filter that says no, texts of twenty bytes in four places."""
import re
import shlex
import shutil

import sources
from measure import BenchError, Row, Variant, median, rounds

BATCHES = ["6000"]
# What is asked for, and the rows of the table: (name, of which function, the goal in ns beside "recorded", what it is of).
ASKED = {
    "two arguments": ["-A", "numbers:a=arg1:s32 b=arg2:s64"],
    "the result": ["-R", "numbers:ret:s32"],
    "a filter that says no": ["-A", "numbers:a=arg1:s32", "--if", "numbers: a == 123456789"],
    "a filter that says yes": ["-A", "numbers:a=arg1:s32", "--if", "numbers: a != 123456789"],
    "typed": ["-A", "doubles", "-A", "near_pair", "-A", "far_pair"],
    "texts": ["-A", "stacked:arg1:string", "-A", "placed:arg1:string", "-A", "fixed:arg1:string", "-A", "fresh:arg1:string"],
}
ROWS = (("two arguments", "numbers", 12), ("the result", "numbers", None), ("a filter that says no", "numbers", None),
        ("a filter that says yes", "numbers", None), ("two doubles, by -a", "doubles", None), ("a structure on the stack", "near_pair", None),
        ("a structure elsewhere", "far_pair", None), ("a text on the stack", "stacked", 30), ("a text in the data", "placed", 30),
        ("a text among constants", "fixed", 30), ("a text on a new page", "fresh", 250))


# What calls are counted by: (name, `count`'s text, more options, bpftrace's probe and statement; None = there is none).
COUNTED = (("all together", "numbers", (), "uprobe @ = count()"), ("a number, 250 different ones", "numbers:arg2:s64", (), "uprobe @[arg1] = count()"),
           ("--hist log2", "numbers:arg2:s64", ("--hist", "log2"), "uprobe @ = hist(arg1)"), ("--hist linear", "numbers:arg2:s64", ("--hist", "linear:0:25:10"), "uprobe @ = lhist(arg1, 0, 250, 25)"),
           ("--sum of all", "numbers", ("--sum", "arg2:s64"), "uprobe @ = stats(arg1)"), ("--sum, 250 numbers", "numbers:arg2:s64", ("--sum", "arg2:s64"), "uprobe @[arg1] = stats(arg1)"),
           ("by the result", "numbers:ret:u8", (), "uretprobe @[retval & 255] = count()"), ("--sum of the result, 250 keys", "numbers:arg2:s64", ("--sum", "ret:s32"), None),
           ("--hist log2 of the result", "numbers:ret:s32", ("--hist", "log2"), "uretprobe @ = hist(retval)"),
           ("--keep newest, 250 numbers", "numbers:arg2:s64", ("--keep", "newest"), None), ("each another one, $time", "numbers:$time", (), None),
           ("--keep newest, each another one", "numbers:$time", ("--keep", "newest"), None),
           ("$tid", "numbers:$tid", (), "uprobe @[tid] = count()"), ("$comm", "numbers:$comm", (), "uprobe @[comm] = count()"), ("$stack", "numbers:$stack", (), "uprobe @[ustack] = count()"),
           ("a text among constants", "fixed:arg1:string", (), "uprobe @[str(arg0)] = count()"), ("a filter that says no", "numbers", ("--if", "numbers: arg2:s64 < 0"), None))


# From a call with a number to another one with it.
SPAN = ("begun:arg1:s64", "ended:arg1:s64")
BPFTRACE_SPAN = "uprobe:{0}:begun {{ @from[arg0] = nsecs; }} uprobe:{0}:ended /@from[arg0]/ {{ @ = hist(nsecs - @from[arg0]); delete(@from[arg0]); }}"


def figures(run):
    """What valued.c says; the tool's own table has other lines."""
    pairs = re.findall(r"^(\w+) ([0-9.]+)$", run.stdout, re.M)
    return {name: float(text) for name, text in pairs}


def uftrace(program):
    """Its grammar for the same values."""
    return Variant("uftrace", ["uftrace", "record", "--no-libcall", "-A", "numbers@arg1/i32,arg2/i64", "-A", "stacked@arg1/s", "-A", "placed@arg1/s", "-A", "fixed@arg1/s",
                               "-A", "fresh@arg1/s", "-d", "data", program, *BATCHES])


def bpftrace(name, program, function, statement):
    probe, what = statement.split(" ", 1)
    return Variant(f"bpftrace, {name}", ["bpftrace", "-e", f"{probe}:{program}:{function} {{ {what}; }}", "-c", shlex.join([program, "400"])])


def counts(tools, count):
    """(n) One call of a tiny function that is counted in the program, by nothing or by a value."""
    if not tools.calltap:
        raise BenchError("calltap is not built")
    program = sources.build("valued", "sites")
    variants = [tools.plain("valued", BATCHES, "sites", "plain")]
    for name, text, options, statement in COUNTED:
        variants.append(Variant(name, [tools.calltap, "count", *options, text, "--", program, *BATCHES]))
        if statement and shutil.which("bpftrace"):
            variants.append(bpftrace(name, program, text.split(":")[0], statement))
    variants.append(Variant("--until, both calls", [tools.calltap, "count", SPAN[0], "--until", SPAN[1], "--", program, *BATCHES]))
    if shutil.which("bpftrace"):
        variants.append(Variant("bpftrace, --until, both calls", ["bpftrace", "-e", BPFTRACE_SPAN.format(program), "-c", shlex.join([program, "400"])]))
    results, errors = rounds(variants, count, sources.scratch())
    found = {name: [figures(run) for run in runs] for name, runs in results.items()}
    if "plain" not in found:
        raise BenchError(errors.get("plain", "nothing was measured"))
    clock2 = min(item["clock2"] for runs in found.values() for item in runs)
    rows = [Row("two clock reads", clock2, "ns")]
    measured = [(name, text.split(":")[0]) for name, text, _, _ in COUNTED] + [("--until, both calls", "spans")]
    for prefix in ("", "bpftrace, "):
        for name, figure in measured:
            runs = [item[figure] for item in found.get(prefix + name, ())]
            if runs:
                rows.append(Row(prefix + name, min(runs), "ns a call", min(runs) / clock2, "two clock reads", None, f"median {median(runs):.2f}"))
    return rows, errors


def values(tools, count):
    """(m) One call of a tiny function whose values are told; the clock reads are measured in the same process."""
    if not tools.calltap:
        raise BenchError("calltap is not built")
    few = ("--mode", "overwrite", "-l", "numbers", "-l", "doubles", "-l", "*_pair", "-l", "stacked", "-l", "placed", "-l", "fixed", "-l", "fresh")
    variants = [tools.plain("valued", BATCHES, "sites", "plain"), tools.record("valued", BATCHES, "recorded", few)]
    variants += [tools.record("valued", BATCHES, name, (*few, *asked)) for name, asked in ASKED.items()]
    if shutil.which("uftrace"):
        variants.append(uftrace(sources.build("valued", "mcount")))
    results, errors = rounds(variants, count, sources.scratch())
    found = {name: [figures(run) for run in runs] for name, runs in results.items()}
    if "recorded" not in found:
        raise BenchError(errors.get("recorded", "nothing was measured"))

    def best(name, function):
        return min(item[function] for item in found[name])
    clock2 = min(item["clock2"] for runs in found.values() for item in runs)
    rows = [Row("two clock reads", clock2, "ns"), Row("no values", best("recorded", "numbers"), "ns a call", best("recorded", "numbers") / clock2, "two clock reads")]
    for name, function, limit in ROWS:
        of = "texts" if name.startswith("a text") else "typed" if function.endswith(("doubles", "pair")) else name
        if of not in found:
            continue
        own, plain = best(of, function), best("recorded", function)
        goal = (own - plain, limit, "ns beside a call without") if limit else None
        note = f"median {median([item[function] for item in found[of]]):.2f}" + ("" if limit else f", {own - plain:+.1f} ns beside a call without")
        rows.append(Row(name, own, "ns a call", own / clock2, "two clock reads", goal, note))
    for function in ("numbers", "stacked", "placed", "fixed", "fresh") if "uftrace" in found else ():
        rows.append(Row(f"uftrace -A: {function}", best("uftrace", function), "ns a call", best("uftrace", function) / clock2, "two clock reads"))
    return rows, errors

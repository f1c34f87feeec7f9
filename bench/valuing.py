"""What values of a call cost: two arguments in registers, a filter that says no, texts of twenty bytes in four places."""
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


def figures(run):
    return {words[0]: float(words[1]) for words in map(str.split, run.stdout.splitlines()) if len(words) == 2}


def uftrace(program):
    """Its grammar for the same values."""
    return Variant("uftrace", ["uftrace", "record", "--no-libcall", "-A", "numbers@arg1/i32,arg2/i64", "-A", "stacked@arg1/s", "-A", "placed@arg1/s", "-A", "fixed@arg1/s",
                               "-A", "fresh@arg1/s", "-d", "data", program, *BATCHES])


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

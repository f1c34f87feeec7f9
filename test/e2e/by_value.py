"""`calltap report --by 'FUNCTION(ARGUMENT)'`: a row for each value, with the calls that the program says."""
import collections
import json

from harness import expect

NAMES = {"0": "SMALL", "5": "LARGE", "77": "ODD"}


def rows(case, *arguments):
    done = case.run([case.tool, "report", "--json", "--limit", "0", *arguments, "-i", case.trace_path])
    expect(done.status == 0, done.stderr)
    return json.loads(done.stdout)["rows"]


def sorted_out(case):
    case.as_it_is = True
    program = case.program("valued.c", variant="-debug", flags=["-g", "-O1"])
    done = case.record([program], ["-a", "-l", "weigh", "-l", "descend"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    said = [line.split() for line in done.stdout.splitlines()]
    for function, argument in (("weigh", "kind"), ("descend", "depth")):
        for by, place in ((f"{function}({argument})", 1), (f"{function}:=", 2)):
            wanted = collections.Counter(NAMES.get(words[1], words[1]) if (function, place) == ("weigh", 1) else words[place]
                                         for words in said if words[0] == function)
            got = {row["value"]: row["calls"] for row in rows(case, "--by", by)}
            expect(got == dict(wanted), f"--by {by}: {got}, not {dict(wanted)}")
    whole = next(row for row in rows(case) if row["function"] == "weigh")
    for by in ("weigh(kind)", "weigh:="):
        parts = rows(case, "--by", by)
        for column in ("calls", "total_ns", "self_ns"):
            expect(sum(row[column] for row in parts) == whole[column], f"--by {by}: the {column} of all rows are not the function's")
        expect(max(row["max_ns"] for row in parts) == whole["max_ns"], f"--by {by}: another longest call")
    # Calls of a depth lie within those of greater ones, and the first of a depth has all others of it within.
    parts = {int(row["value"]): row for row in rows(case, "--by", "descend(depth)")}
    totals = [parts[depth]["total_ns"] for depth in range(7)]
    expect(totals == sorted(totals), f"totals by depth: {totals}")
    longest = [parts[depth]["max_ns"] for depth in range(7)]
    expect(totals == longest, f"a call within one of its own depth counts twice: {totals}, the longest {longest}")
    refused(case)
    case.readable()


def refused(case):
    for by, word in (("weigh(kin)", "no call of 'weigh' tells 'kin'"), ("weigh(a(b))(kin)", "matches 'weigh(a(b))'"),
                     ("(kind)", "names no function"), ("weigh(", "is no value for --by")):
        done = case.run([case.tool, "report", "--by", by, "-i", case.trace_path])
        expect(done.status != 0 and word in done.stderr, f"--by {by}: {done.status} {done.stderr}")
    done = case.run([case.tool, "report", "--by", "weigh(kind)", "-f", "weigh", "-i", case.trace_path])
    expect(done.status != 0 and "leave -f out" in done.stderr, done.stderr)


def losses(case):
    """What is missing in the counts is said, as in every report."""
    done = case.record([case.program("tells.c"), "busy", "80"], ["--mode", "drop", "-b", "8K", "-l", "twice", "-A", "twice:n=arg1:s32"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    lost = [json.loads(case.run([case.tool, "report", "--json", *by, "-i", case.trace_path]).stdout)["lost"] for by in ([], ["--by", "twice(n)"])]
    expect(lost[0] and lost[0] == lost[1], f"{lost} records lost, without and with --by")
    said = case.run([case.tool, "report", "--by", "twice(n)", "--limit", "1", "-i", case.trace_path]).stdout
    expect(f"records lost: {lost[0]}" in said, said)


SINGLE = {"by-value": sorted_out, "by-value-losses": losses}

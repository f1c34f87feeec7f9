"""`calltap diff` and `calltap slow` on a program that says what it did: the cause is found, and the sums are the report's."""
import json
import os
import re
import shlex

from harness import expect

FUNCTIONS = ["-l", "main", "-l", "compared_*"]


def answer(case, verb, *arguments):
    done = case.run([case.tool, verb, "--json", *arguments])
    expect(done.status == 0, f"calltap {verb} {shlex.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def same_sums(case, compared, side, *chosen):
    report = {row["function"]: row for row in answer(case, "report", *chosen)["rows"]}
    for row in compared["rows"]:
        expect((row["function"] in report) == bool(row[side]), f"{row['function']} is in one of diff and report only")
        for key in ("calls", "unfinished", "total_ns", "self_ns", "p50_ns", "p99_ns"):
            expect(not row[side] or row[side][key] == report[row["function"]][key],
                   f"{key} of {row['function']}: {row[side]}, report: {report.get(row['function'])}")


def recorded(case, name, command, options):
    case.trace_path = os.path.join(case.folder, name)
    done = case.record(command, [*FUNCTIONS, *options], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    return case.trace_path, done.stdout


def causes(case):
    case.as_it_is = True
    program = case.program("compared.c", variant="-debug", flags=["-g", "-O1"])
    before, _ = recorded(case, "before", [program, "2000", "100", "0", "0"], ["-a"])
    after, said = recorded(case, "after", [program, "2000", "1000", "250", "1"], ["-a"])
    expect("8 missed, depth 10" in said, said)
    compared = answer(case, "diff", before, after)
    rows = {row["function"]: row for row in compared["rows"]}
    expect(rows["compared_parse"]["verdict"] == "slower", f"ten times the loop: {rows['compared_parse']}")
    expect(rows["compared_wait"]["verdict"] == rows["compared_pack"]["verdict"] == "new", rows["compared_wait"])
    expect(rows["compared_wait"]["b"]["calls"] == 8 and rows["compared_find"]["calls_change"] == 8, rows["compared_find"])
    expect(rows["compared_wait"]["self_change_ns"] >= 8 * 3e6, rows["compared_wait"])
    same_sums(case, compared, "a", "-i", before)
    same_sums(case, compared, "b", "-i", after)
    found(case, after)
    case.readable()


def found(case, trace):
    """Each look-up that waits takes 3 ms; which others do on a busy machine is the machine's business."""
    slow = answer(case, "slow", "compared_lookup", "--over", "2ms", "--min-percent", "0", "-i", trace)
    expect(slow["slow"]["calls"] + slow["others"]["calls"] == 2000, slow["slow"])
    waits = [node for node in slow["tree"] if node["function"] == "compared_wait"]
    expect(len(waits) == 1 and (waits[0]["a"]["calls"], waits[0]["b"]["calls"]) == (0, 8), waits)
    finds = next(node for node in slow["tree"] if node["function"] == "compared_find")
    expect(finds["a"]["calls"] + finds["b"]["calls"] == 2008 and finds["b"]["calls"] == slow["slow"]["calls"] + 8, finds)
    values = {value["value"]: value for value in slow["values"]}
    expect('kind="missing"' in values, values)
    expect((values['kind="missing"']["slow_calls"], values['kind="missing"']["other_calls"]) == (8, 0), values)
    expect(re.match(r'key=\d+, kind="', slow["slowest"]["arguments"]), slow["slowest"])
    screen = case.run([case.tool, "slow", "compared_request", "-i", trace])
    lines = screen.stdout.splitlines()
    expect(screen.status == 0 and len(lines) <= 23 and any(line.endswith("compared_wait") for line in lines), screen.stdout)
    commands = [line.split(" replay ")[1] for line in lines if line.startswith("  calltap replay ")]
    expect(commands, screen.stdout)
    for command in commands:
        shown = case.run([case.tool, "replay", *shlex.split(command)]).stdout
        whole = len(re.findall(r"compared_request\(.*\{", shown)) == 1 and not re.search("compared_.*open", shown)
        expect(whole, f"{command}: {shown}")


def processes(case):
    """Two processes of one trace: one is chosen for each side."""
    case.need_native("a shell that runs two programs")
    case.as_it_is = True
    program = case.program("compared.c")
    command = f"{shlex.quote(program)} 100 100 0 0; {shlex.quote(program)} 300 1000 0 0"
    trace, _ = recorded(case, "both", ["/bin/sh", "-c", command + "; :"], ["--allow-no-match"])
    pids = [row["pid"] for row in answer(case, "info", "-i", trace)["processes"] if os.path.basename(row["exe"]) == os.path.basename(program)]
    expect(len(pids) == 2, f"the trace has {len(pids)} processes of the program")
    compared = answer(case, "diff", trace, "--pid", str(pids[0]), trace, "--pid", str(pids[1]))
    rows = {row["function"]: row for row in compared["rows"]}
    expect((rows["compared_parse"]["a"]["calls"], rows["compared_parse"]["b"]["calls"]) == (100, 300), rows["compared_parse"])
    expect(rows["compared_descend"]["b"]["calls"] == 10, rows["compared_descend"])
    for side, pid in zip("ab", pids):
        same_sums(case, compared, side, "-i", trace, "--pid", str(pid))
    each = answer(case, "diff", "--per", "compared_request", trace, "--pid", str(pids[0]), trace, "--pid", str(pids[1]))
    rows = {row["function"]: row for row in each["rows"]}
    expect(abs(rows["compared_parse"]["calls_change"]) < 1e-9 and rows["compared_parse"]["verdict"] == "slower", rows["compared_parse"])


def repeated(case):
    """Five runs of each side, in turn: what takes twenty times as long is told, and numbers of calls that are alike are."""
    case.as_it_is = True
    program = case.program("compared.c")
    named = []
    for number in range(5):
        for option, rounds in (("--before", "100"), ("--after", "2000")):
            trace, _ = recorded(case, f"run{option}{number}", [program, "100", rounds, "0", "0"], [])
            named += [option, trace]
    compared = answer(case, "diff", *named)
    rows = {row["function"]: row for row in compared["rows"]}
    expect(rows["compared_parse"]["verdict"] == "slower", rows["compared_parse"])
    for row in compared["rows"]:
        expect(row["verdict"] not in ("more", "fewer", "new", "gone") and row["calls_change"] == 0, row)
    expect(compared["a"]["traces"] == 5 and rows["compared_parse"]["a"]["calls"] == 500, compared["a"])
    case.readable()


SINGLE = {"comparing-causes": causes, "comparing-repeated": repeated, "comparing-processes": processes}

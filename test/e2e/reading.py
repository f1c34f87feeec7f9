"""Filters of the reading verbs: a trace that is read without some functions is the trace that would have been recorded without
them, and what the verbs sum up of it agrees with a model of its own."""
import collections
import json
import os
import sys

import page
from harness import expect

# (source, flags, options): what is left out, or chosen.
CHOICES = {
    "calls.c": ([], [["-n", "leaf*"], ["-l", "main", "-l", "*e*"], ["--no-graph", "*a*"]]),
    "tails.c": ([], [["-n", "last"], ["-n", "odd"], ["-l", "even", "-l", "main"], ["-g", "by_pointer"], ["-n", "first", "-n", "main"]]),
    "exceptions.cc": ([], [["-n", "go_down*"], ["-l", "catch*", "-l", "main"], ["-g", "callbacks*", "-n", "*less*"], ["--no-graph", "over_bridge*"]]),
    "longjumps.c": ([], [["-n", "dive"], ["-n", "leaf", "-n", "jump"], ["-g", "main", "-n", "by_*"]]),
}


def events(case, trace, *options):
    path = os.path.join(case.folder, "events")
    done = case.run([case.tool, "export", "--format", "json", "-i", trace, "-o", path, *options])
    expect(done.status == 0, f"export {options}: {done.stderr}")
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def shape(all_events):
    """Threads' calls in order, without times."""
    threads = collections.defaultdict(list)
    for event in all_events:
        if event["ev"] in ("enter", "leave"):
            threads[event["tid"]].append((event["ev"], event["fn"], event["depth"], event.get("tail"), event.get("end")))
    return sorted(threads.values())


def as_recorded(source):
    def test(case):
        flags, choices = CHOICES[source]
        case.as_it_is = True
        program = case.program(source, flags=flags)
        whole = os.path.join(case.folder, "whole")
        case.trace_path = whole
        done = case.record([program])
        expect(done.status == 0, done.stderr)
        for number, options in enumerate(choices):
            case.trace_path = os.path.join(case.folder, f"part{number}")
            done = case.record([program], options + ["--allow-no-match"])
            expect(done.status == 0, f"{options}: {done.stderr}")
            recorded, read = shape(events(case, case.trace_path)), shape(events(case, whole, *options))
            expect(recorded == read, f"{source} {options}: recorded {first_difference(recorded, read)}")
            if recorded:
                same_sums(case, whole, options)
    return test


def first_difference(left, right):
    for one, other in zip(left, right):
        for at, (mine, its) in enumerate(zip(one, other)):
            if mine != its:
                return f"{one[max(0, at - 3):at + 2]}, read {other[max(0, at - 3):at + 2]}"
        if len(one) != len(other):
            return f"{len(one)} events, read {len(other)}: {one[len(other):][:3]} {other[len(one):][:3]}"
    return f"{len(left)} threads, read {len(right)}"


def hidden_time(all_events, shown):
    """{function: [calls, self ns]} of a model: calls that are not in `shown` give their own time to their caller."""
    stacks, sums = collections.defaultdict(list), collections.defaultdict(lambda: [0, 0])
    for event in all_events:
        stack = stacks[event.get("tid")]
        if event["ev"] == "enter":
            stack.append([event["fn"], 0])
        elif event["ev"] == "leave":
            name, handed = stack.pop()
            expect(name == event["fn"], f"{name} {event}")
            own = event["self"] + handed
            if name in shown:
                sums[name][0] += event["end"] in ("returned", "unwound", "tail")
                sums[name][1] += own
            elif stack:
                stack[-1][1] += own
    return {name: tuple(of) for name, of in sums.items()}


def same_sums(case, trace, options):
    """Self times of report, tree, page and export are the same ones, and the roots' time is all there is."""
    done = case.run([case.tool, "report", "--json", "-i", trace, *options])
    expect(done.status == 0, f"report {options}: {done.stderr}")
    rows = {row["function"]: row for row in json.loads(done.stdout)["rows"]}
    own = collections.Counter()
    for event in events(case, trace, *options):
        if event["ev"] == "leave":
            own[event["fn"]] += event.get("self", 0)
    done = case.run([case.tool, "export", "--format", "folded", "-i", trace, *options])
    expect(done.status == 0, f"folded {options}: {done.stderr}")
    folded = collections.Counter()
    for line in done.stdout.splitlines():
        path, _, ns = line.rpartition(" ")
        folded[path.rpartition(";")[2]] += int(ns)
    for name, row in rows.items():
        rounding = row["calls"] + row["unfinished"]  # each call is rounded to a nanosecond by itself
        expect(abs(own[name] - row["self_ns"]) <= rounding, f"{options}: {name} has {own[name]} ns of its own, report: {row}")
    expect(sum(folded.values()) == sum(row["self_ns"] for row in rows.values()), f"{options}: folded {folded}, report {rows}")


def exactly(case):
    moved(case, ["--time", "exact"])
    slow = case.run([case.tool, "slow", "compared_request", "--json", "--min-percent", "0", "-n", "compared_parse", "-i", case.trace_path])
    shown = {node["function"] for node in json.loads(slow.stdout)["tree"]}
    expect("compared_lookup" in shown and "compared_parse" not in shown, shown)
    shown = page.page_of(case, "page.html", "-g", "compared_request", "--thread", "*")
    expect(shown.head["filter"]["options"] == ["--graph compared_request", "--thread *"], shown.head["filter"])
    page.check_table(shown, page.report_of(case, "-g", "compared_request")["rows"])


def estimated(case):
    moved(case, ["--time", "adaptive", "--time-small", "1000000", "--time-sample", "3"])


def moved(case, clock):
    """A removed function's time is its caller's own, to the nanosecond of each call."""
    case.as_it_is = True
    program = case.program("compared.c", variant="-debug", flags=["-g", "-O1"])
    done = case.record([program, "200", "100", "0", "1"], ["-l", "main", "-l", "compared_*", *clock], log=False)
    expect(done.status == 0, done.stderr)
    whole = events(case, case.trace_path)
    names = {event["fn"] for event in whole if event["ev"] == "enter"}
    for left_out in (["compared_find"], ["compared_parse", "compared_lookup"], ["main"], ["compared_request"]):
        expect(names > set(left_out), f"the program has not {left_out}: {names}")
        options = [word for name in left_out for word in ("--notrace", name)]
        done = case.run([case.tool, "report", "--json", "-i", case.trace_path, *options])
        expect(done.status == 0, done.stderr)
        rows = {row["function"]: row for row in json.loads(done.stdout)["rows"]}
        model = hidden_time(whole, names - set(left_out))
        expect(set(rows) == set(model), f"{left_out}: {set(rows)} are shown")
        calls = sum(event["ev"] == "leave" for event in whole)
        for name, (count, own) in model.items():
            expect(rows[name]["calls"] == count and abs(rows[name]["self_ns"] - own) <= calls, f"{left_out}: {name} {rows[name]}, not {own}")
        same_sums(case, case.trace_path, options)
    compared = case.run([case.tool, "diff", "--json", case.trace_path, "-l", "*", case.trace_path, "-n", "compared_find"])
    rows = {row["function"]: row for row in json.loads(compared.stdout)["rows"]}
    expect(rows["compared_find"]["b"] is None and rows["compared_lookup"]["self_change_ns"] > 0, rows["compared_lookup"])


def refused(case):
    case.as_it_is = True
    done = case.record([case.program("compared.c"), "20", "100", "0", "0"], ["-l", "compared_*"], log=False)
    expect(done.status == 0, done.stderr)
    for verb in ("report", "replay", "graph", "html"):
        for options, part in ((["-l", "compared_fimd"], "like it: 'compared_find'"), (["-g", "nobody*"], "no function of the trace matches"),
                              (["-n", "*"], "leave no function"), (["-l", "["], '"[" without'), (["--thread", "nobody"], "no thread of the trace")):
            done = case.run([case.tool, verb, "-i", case.trace_path, *options])
            expect(done.status == 1 and part in done.stderr, f"{verb} {options}: {done.status} {done.stderr}")
    done = case.run([case.tool, "diff", case.trace_path, case.trace_path, "-l", "compared_fimd"])
    expect(done.status == 1 and "like it: 'compared_find'" in done.stderr, done.stderr)
    case.trace_path += ".calls"
    done = case.record([case.program("compared.c"), "20", "100", "0", "0"], ["-p", "function", "-l", "compared_*"], log=False)
    expect(done.status == 0, done.stderr)
    done = case.run([case.tool, "report", "-i", case.trace_path, "-g", "compared_find"])
    expect(done.status == 1 and "does not record" in done.stderr, done.stderr)
    done = case.run([case.tool, "report", "--json", "-i", case.trace_path, "-l", "compared_find"])
    rows = json.loads(done.stdout)["rows"]
    expect([row["function"] for row in rows] == ["compared_find"], rows)


def columns(case):
    """Each column alone and all together say what the export says of the same calls."""
    case.as_it_is = True
    done = case.record([case.program("compared.c"), "30", "100", "0", "0"], ["-l", "main", "-l", "compared_*", "--time", "exact"], log=False)
    expect(done.status == 0, done.stderr)

    def replay(*options, status=0):
        done = case.run([case.tool, "replay", "-i", case.trace_path, *options])
        expect(done.status == status, f"{options}: {done.status} {done.stderr}")
        return done.stdout if status == 0 else done.stderr

    def lines(*options):
        return [line for line in replay(*options).splitlines() if not line.startswith("#")]

    names = [line.split()[0] for line in replay("--column", "help").splitlines() if line.startswith("  ")]
    expect({"time", "thread", "duration", "self", "object"} <= set(names), names)
    bare = lines("--column", "none")
    expect(bare[0] == "main() {" and bare[-1] == "}", bare[:3])
    for name in names:
        expect([line[-len(plain):] for line, plain in zip(lines("--column", name), bare)] == bare, f"{name} is no column before the calls")
    expect(replay("--column", "thread,duration") == replay() and replay("--column", "time,thread,process,duration") == replay("--abstime", "--proc"),
           "the usual columns are others when they are named")
    whole = events(case, case.trace_path)
    leaves = [event for event in whole if event["ev"] == "leave"]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines("--column", "+self,depth,object,tid,pid,delta,time")]
    ended = [row for row in rows if row[0].endswith("us")]
    expect(len(ended) == len(leaves), f"{len(ended)} ends of calls, exported are {len(leaves)}")
    for row, event in zip(ended, leaves):
        expect(abs(float(row[1].split()[-2]) * 1000 - event["self"]) <= event["self"] / 1000 + 1, f"{row} {event}")
        expect([int(row[2]), int(row[4]), int(row[5])] == [event["depth"], event["tid"], event["pid"]], f"{row} {event}")
    expect({row[3] for row in rows if not row[-1].startswith("}")} == {os.path.basename(case.program("compared.c"))}, rows[0])
    for text, part in (("x", "no column"), ("time,time", "twice"), ("", "no column"), ("time,", "no column"), ("time,none", "no column")):
        expect(part in replay("--column", text, status=1), f"--column {text}")
    expect("in place of" in replay("--column", "time", "--proc", status=1), "both ways at a time")


EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "scripts")
MODULE = os.path.join(os.path.dirname(os.path.dirname(EXAMPLES)), "python")
# What the module says, as the JSON export says it.
SAME = '''
import json, sys
import calltap
for event in calltap.open(sys.argv[1], **json.loads(sys.argv[2])).events():
    line = {"ev": event.kind, "tid": event.thread.tid, "pid": event.thread.pid, "fn": event.name, "depth": event.depth}
    if event.kind == "call":
        line.update(ev="leave", dur=event.duration_ns, self=event.self_ns, end=event.end, tail=event.is_tail)
        if event.is_timed:
            line["from"] = event.start_ns
    elif event.kind == "enter":
        line.update(ns=event.start_ns, tail=event.is_tail)
    else:
        line.update(ns=event.start_ns, text=event.text)
    print(json.dumps(line))
'''


def python(case, *words, status=0):
    done = case.run(["env", f"PYTHONPATH={MODULE}", "PYTHONDONTWRITEBYTECODE=1", f"CALLTAP={os.path.abspath(case.tool)}", sys.executable, *words])
    expect(done.status == status, f"{words[:2]}: {done.status} {done.stderr[-2000:]}")
    return done


def scripts(case):
    case.as_it_is = True
    case.need_native("Python")
    done = case.record([case.program("compared.c", variant="-debug", flags=["-g", "-O1"]), "50", "100", "20", "1"],
                       ["-l", "main", "-l", "compared_*", "-a", "--time", "exact"], log=False)
    expect(done.status == 0, done.stderr)
    for options, words in (({}, []), ({"notrace": ["compared_find", "compared_parse"], "min": "1us"},
                                      ["-n", "compared_find", "-n", "compared_parse", "--min", "1us"])):
        module = [json.loads(line) for line in python(case, "-c", SAME, case.trace_path, json.dumps(options)).stdout.splitlines()]
        exported = [event for event in events(case, case.trace_path, *words) if event["ev"] in ("enter", "leave")]
        module = [event for event in module if event["ev"] in ("enter", "leave")]
        expect(len(module) == len(exported) > 10, f"{len(module)} events, exported {len(exported)}")
        opened = collections.defaultdict(list)
        for mine, its in zip(module, exported):
            keys = ("ev", "tid", "pid", "fn", "depth", *(("ns",) if its["ev"] == "enter" else ("dur", "self", "end")))
            expect([mine.get(key) for key in keys] == [its.get(key) for key in keys] and mine["tail"] == its.get("tail", False), f"{mine}, not {its}")
            if its["ev"] == "enter":
                opened[its["tid"]].append(its["ns"])
            elif not words:
                expect(mine["from"] == opened[its["tid"]].pop(), f"{mine} began at another time")
    slowest = python(case, os.path.join(EXAMPLES, "slowest.py"), case.trace_path, "compared_lookup", "3").stdout.splitlines()
    leaves = sorted((event["dur"] for event in exported_leaves(case, "compared_lookup")), reverse=True)[:3]
    expect([round(float(line.split()[0]) * 1000) for line in slowest] == leaves and all("key=" in line for line in slowest), slowest)
    waiting = python(case, os.path.join(EXAMPLES, "waiting.py"), case.trace_path).stdout
    deep = max(event["depth"] for event in events(case, case.trace_path) if event["ev"] == "enter") + 1
    expect(f": {deep} deep," in waiting, waiting)
    sums = python(case, "-c", "import calltap, sys\nt = calltap.open(sys.argv[1])\nc = [c for c in t.calls() if c.arguments]\n"
                  "print(len(c), c[0].caller.name, t.info['processes'][0]['pid'] == c[0].thread.pid)", case.trace_path).stdout
    expect(sums.split()[0] != "0" and sums.split()[1].startswith("compared_") and sums.split()[2] == "True", sums)
    for words, part in ((("-c", "import calltap\nlist(calltap.open('no such').calls())"), "there is no trace"),
                        (("-c", "import calltap\nlist(calltap.open('events', trace='nobody').calls())"), "is not a Calltap trace"),
                        (("-c", "import calltap, sys\nlist(calltap.open(sys.argv[1], trace='nobody').calls())", case.trace_path), "matches 'nobody'")):
        done = python(case, *words, status=1)
        expect("calltap.Error" in done.stderr and part in done.stderr, f"{words}: {done.stderr}")
    with open(case.trace_path, "rb") as whole, open(os.path.join(case.folder, "cut"), "wb") as cut:
        cut.write(whole.read()[:-200])
    warned = python(case, "-c", "import calltap\nprint(len(list(calltap.open('cut').calls())) > 0)")
    expect(warned.status == 0 and warned.stdout == "True\n" and "the trace was cut short" in warned.stderr, f"{warned.stdout} {warned.stderr}")
    early = python(case, "-c", "import calltap, sys\nfor call in calltap.open(sys.argv[1]).calls():\n    break\nprint(call.name)", case.trace_path)
    expect(early.stdout.startswith("compared_") and not early.stderr, early.stderr)


def exported_leaves(case, name):
    return [event for event in events(case, case.trace_path) if event["ev"] == "leave" and event["fn"] == name]


CASES = {f"reading-{source.partition('.')[0]}": as_recorded(source) for source in CHOICES}
SINGLE = {"reading-moved": exactly, "reading-moved-estimates": estimated, "reading-refused": refused, "reading-columns": columns, "reading-scripts": scripts}
ALIKE = dict.fromkeys(SINGLE)

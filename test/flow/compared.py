"""`calltap diff` and `calltap slow` on traces whose every duration is known: what is claimed, what is not, and that all
sums are those of `calltap report` to the nanosecond."""
import itertools
import json
import math
import random
import shlex

import tracetext

HEAD = "info tracer function_graph\nprocess 0 100 /usr/bin/demo\nthread 0 0 100 demo\n"
NAMES = ["serve", "parse", "look_up", "wait", "answer", *(f"helper_{i}" for i in range(20))]


def trace(bench, name, requests, ids=None, tail="end 0\n", head=HEAD):
    """Write a trace of requests: nested (function, own time, [callees]); ids: the functions' numbers."""
    ids = ids or {function: number for number, function in enumerate(NAMES)}
    lines, now = [], 1000

    def call(function, own, callees):
        nonlocal now
        lines.append(f"0 {now} entry {ids[function]}")
        for callee in callees:
            call(*callee)
        now += own
        lines.append(f"0 {now} exit {ids[function]}")

    for request in requests:
        call(*request)
        now += 50
    functions = "".join(f"function {number} {function}\n" for function, number in ids.items())
    bench.write(name, tracetext.make(head + functions + "\n".join(lines) + "\n" + tail))


def requests(count, seed, parse=200, slow_every=0, pack=False):
    chance = random.Random(seed)

    def around(middle):
        return round(middle * chance.lognormvariate(0, 0.2))

    for number in range(count):
        found = [("wait", around(1_000_000), [])] if slow_every and number % slow_every == slow_every - 1 else []
        below = [("parse", around(parse), []), ("look_up", around(100), found), ("answer", around(80), [("helper_1", 7, [])] if pack else [])]
        below += [(f"helper_{i}", around(30 + 10 * i), []) for i in range(2, 20)]
        yield ("serve", around(100), below)


def diff(bench, *arguments):
    done = bench.run("diff", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_name(answer):
    return {row["function"]: row for row in answer["rows"]}


def same_as_report(bench, answer, side, *arguments):
    report = json.loads(bench.run("report", "--json", *arguments).stdout)
    wanted = {}
    for row in report["rows"]:
        sums = wanted.setdefault(row["function"], dict.fromkeys(("calls", "unfinished", "total_ns", "self_ns"), 0))
        for key in sums:
            sums[key] += row.get(key, 0)
    got = {row["function"]: {key: row[side].get(key, 0) for key in ("calls", "unfinished", "total_ns", "self_ns")}
           for row in answer["rows"] if row[side]}
    assert got == wanted, f"{arguments}: {got}\nreport: {wanted}"


def check_diff_claims_what_differs_and_nothing_else(bench):
    trace(bench, "run-a", requests(2000, 1))
    reversed_ids = {function: number for number, function in enumerate(reversed(NAMES))}
    trace(bench, "run-b", requests(2000, 2, parse=260, slow_every=100, pack=True), reversed_ids)
    answer = diff(bench, "run-a", "run-b")
    rows = by_name(answer)
    claimed = {name for name, row in rows.items() if row["verdict"] in ("slower", "faster", "tail+", "tail-")}
    assert rows["parse"]["verdict"] == "slower", rows["parse"]
    assert rows["look_up"]["verdict"] == "tail+", rows["look_up"]
    assert rows["wait"]["verdict"] == rows["helper_1"]["verdict"] == "new", rows["wait"]
    assert claimed <= {"parse", "look_up", "serve", "answer"}, claimed
    assert rows["parse"]["q"] <= 0.05 and 0.6 < rows["parse"]["b_longer"] < 1, rows["parse"]
    assert answer["rows"][0]["function"] == "wait", "the greatest change of self time does not come first"
    back = by_name(diff(bench, "run-b", "run-a"))
    assert back["parse"]["verdict"] == "faster" and back["look_up"]["verdict"] == "tail-" and back["wait"]["verdict"] == "gone", back
    for name, row in rows.items():
        assert math.isclose(row["self_change_ns"], -back[name]["self_change_ns"]), name
    same_as_report(bench, answer, "a", "-i", "run-a")
    same_as_report(bench, answer, "b", "-i", "run-b")


def check_diff_claims_nothing_of_runs_alike(bench):
    """Eight pairs of runs with the same distributions: a claim among these is chance, and there are hardly any."""
    claims = 0
    for seed in range(8):
        trace(bench, "like-a", requests(300, 10 + seed))
        trace(bench, "like-b", requests(300, 50 + seed))
        answer = diff(bench, "like-a", "like-b")
        assert answer["tests"] == 22, answer["tests"]
        claims += answer["claims"]
    assert claims <= 1, f"{claims} false claims in 8 comparisons"


def check_diff_takes_a_burst_for_one_event(bench):
    """Fifty slow calls in a row are the machine's; as many all over the run are the program's."""
    def calls(seed, slow):
        chance = random.Random(seed)
        return [("parse", 50_000 + number % 97 if slow(number) else round(100 * chance.lognormvariate(0, 0.2)), []) for number in range(5000)]

    trace(bench, "quiet", calls(1, lambda number: False))
    trace(bench, "burst", calls(2, lambda number: 3000 <= number < 3030))
    trace(bench, "often", calls(3, lambda number: number % 166 == 100))
    assert by_name(diff(bench, "quiet", "burst"))["parse"]["verdict"] == "-"
    assert by_name(diff(bench, "quiet", "often"))["parse"]["verdict"] == "tail+"


def rare(count, seed, usual=200, slow_every=0, slow=0):
    """Calls of which each so-many-th takes longer."""
    chance = random.Random(seed)
    for number in range(count):
        yield ("parse", round(usual * chance.lognormvariate(0, 0.2)) + (slow if slow_every and number % slow_every == 0 else 0), [])


def check_diff_finds_what_is_slow_in_one_call_of_three_hundred(bench):
    """Neither p99 nor the median has moved; the mean has moved by little, or the other way."""
    for count, usual, every, slow in bench.some([(12000, 200, 300, 2000), (12000, 188, 300, 3000), (30000, 200, 300, 2000), (20000, 197, 800, 2000)]):
        trace(bench, "before", rare(count, 1))
        trace(bench, "after", rare(count, 2, usual, every, slow))
        row = by_name(diff(bench, "before", "after"))["parse"]
        assert row["verdict"] == "tail+", f"{(count, usual, every, slow)}: {row}"
        assert abs(row["a"]["p99_ns"] / row["b"]["p99_ns"] - 1) < 0.1, row
        assert by_name(diff(bench, "after", "before"))["parse"]["verdict"] == "tail-"


def check_diff_claims_nothing_of_rare_calls_that_are_alike(bench):
    marks, pairs = 0, 60
    for seed in range(2 * pairs):
        trace(bench, f"alike{seed}", rare(3000, seed + 10, slow_every=300, slow=3000))
    for at in range(pairs):
        marks += by_name(diff(bench, f"alike{2 * at}", f"alike{2 * at + 1}"))["parse"]["verdict"] not in ("same", "-")
    assert marks <= 3, f"{marks} of {pairs} pairs of runs alike are said to differ"


def check_diff_claims_nothing_against_the_mean(bench):
    """Nearly all calls take two percent longer, and three very long ones are gone: neither slower nor faster."""
    for name, middle, slow in (("median-a", 412, 1_000_000), ("median-b", 420, 420)):
        trace(bench, name, [("parse", slow if number % 700 == 350 else middle + number % 5, []) for number in range(2000)])
    row = by_name(diff(bench, "median-a", "median-b"))["parse"]
    assert row["b_longer"] > 0.9 and row["p"] < 1e-6 and row["verdict"] == "-", row


def rank_p(a, b):
    """The exact test by trying all ways to divide the values."""
    values = sorted(a + b)
    rank = {value: values.index(value) + (values.count(value) + 1) / 2 for value in values}
    expected, got = len(b) * (len(values) + 1) / 2, sum(rank[value] for value in b)
    sums = [sum(rank[value] for value in chosen) for chosen in itertools.combinations(values, len(b))]
    return sum(abs(each - expected) >= abs(got - expected) - 1e-9 for each in sums) / len(sums)


def check_diff_gives_the_exact_p_of_few_calls(bench):
    for a, b in (([10, 12, 15, 20], [13, 18, 22, 25, 31, 40]), ([5, 5, 7, 9, 9], [5, 9, 9, 11]), ([1, 2, 3], [30, 40, 50])):
        trace(bench, "few-a", [("parse", ns, []) for ns in a])
        trace(bench, "few-b", [("parse", ns, []) for ns in b])
        row = by_name(diff(bench, "few-a", "few-b"))["parse"]
        wanted = min(1, 4 * rank_p(a, b))
        assert math.isclose(row["p"], wanted, rel_tol=1e-9), f"{a} {b}: {row['p']}, not {wanted}"
        share = sum((y > x) + (y == x) / 2 for x in a for y in b) / len(a) / len(b)
        assert math.isclose(row["b_longer"], share), row


def check_diff_divides_by_requests(bench):
    trace(bench, "per-a", requests(200, 1))
    trace(bench, "per-b", requests(600, 2))
    rows = by_name(diff(bench, "per-a", "per-b"))
    assert rows["parse"]["verdict"] == "more" and rows["parse"]["calls_change"] == 400, rows["parse"]
    answer = diff(bench, "per-a", "per-b", "--per", "serve")
    assert answer["a"]["per"] == 200 and answer["b"]["per"] == 600, answer["a"]
    row = by_name(answer)["parse"]
    assert row["verdict"] == "-" and abs(row["calls_change"]) < 1e-9, row
    assert math.isclose(row["self_change_ns"], row["b"]["self_ns"] / 600 - row["a"]["self_ns"] / 200), row
    done = bench.run("diff", "per-a", "per-b", "--per", "nothing")
    assert done.returncode == 1 and b"no finished call of 'nothing' is in per-a" in done.stderr, done.stderr


def check_diff_compares_parts_of_a_trace(bench):
    lines = requests(100, 1)
    trace(bench, "parts", lines)
    report = json.loads(bench.run("report", "--json", "-i", "parts").stdout)
    whole = {row["function"]: row["calls"] for row in report["rows"]}
    answer = diff(bench, "parts", "--time", "..100us", "parts", "--time", "100us..")
    rows = by_name(answer)
    for name in ("serve", "parse"):
        counts = [rows[name][side]["calls"] for side in ("a", "b")]
        assert sum(counts) == whole[name] and all(counts), f"{name}: {counts}"
    same_as_report(bench, answer, "a", "-i", "parts", "--time", "..100us")
    same_as_report(bench, answer, "b", "-i", "parts", "--time", "100us..")
    both = diff(bench, "--time", "..100us", "parts", "parts")
    assert both["a"]["calls"] == both["b"]["calls"] == answer["a"]["calls"], "an option before the names is not of both"
    behind = diff(bench, "parts", "parts", "--time", "..100us")
    assert behind == both, "options behind both names are not of both"
    several = diff(bench, "--before", "parts", "--before", "parts", "--after", "parts", "-f", "parse")
    assert [row["function"] for row in several["rows"]] == ["parse"], several["rows"]


def check_parts_add_up_to_the_whole(bench):
    """Cut anywhere, the parts of a trace have all of its calls, and all of their time, once."""
    def rows(name, part):
        done = bench.run("report", "--json", "--limit", "0", "-i", name, "--time", part)
        assert done.returncode == 0, f"{name}, {part}: {done.stderr}"
        return {row["function"]: row for row in json.loads(done.stdout)["rows"]}
    for name in bench.some(["graph", "tails", "switch", "small"]):
        whole = rows(name, "0..")
        assert whole
        end = json.loads(bench.run("info", "--json", "-i", name).stdout)["duration_ns"]
        for at in (end // 7, end // 2, end - end // 5):
            parts = [rows(name, f"..{at - 1}ns"), rows(name, f"{at}ns..")]
            for function, row in whole.items():
                found = [part[function] for part in parts if function in part]
                assert sum(one["calls"] for one in found) == row["calls"], f"{name}, {at}: calls of {function}: {found}, {row}"
                spent = sum(one["self_ns"] for one in found)
                assert abs(spent - row["self_ns"]) <= 2 + row["calls"] // 2, f"{name}, {at}: self of {function}: {spent}, {row}"


def check_diff_agrees_with_report_on_hard_traces(bench):
    """Recursion, tail calls, losses, several threads, other stacks, frames from before the trace."""
    for name in bench.some(["graph", "tails", "switch", "attached", "ids", "names", "overwritten", "risen", "small", "verdicts"]):
        answer = diff(bench, name, "graph")
        same_as_report(bench, answer, "a", "-i", name)
        for arguments in ([], ["--tree"]):
            done = bench.run("diff", name, "graph", *arguments)
            assert done.returncode == 0, f"{name}: {done.stderr}"
            assert b"\033" not in done.stdout.replace(b"\033[", b""), f"{name}: a name's control characters come through"


def check_diff_tree_sums_are_the_graphs(bench):
    trace(bench, "tree-a", requests(300, 1))
    trace(bench, "tree-b", requests(300, 2, slow_every=50, parse=400))
    nodes = diff(bench, "tree-a", "tree-b", "--tree", "--min-percent", "0")["tree"]
    for side, name in (("a", "tree-a"), ("b", "tree-b")):
        graph = json.loads(bench.run("graph", "--json", "--min-percent", "0", "-i", name).stdout)["nodes"]
        assert sorted((n["function"], n["calls"], n["total_ns"], n["self_ns"]) for n in graph) == sorted(
            (n["function"], n[side]["calls"], n[side]["total_ns"], n[side]["self_ns"]) for n in nodes if n[side]["calls"]), name
    shown = diff(bench, "tree-a", "tree-b", "--tree")["tree"]
    assert {node["function"] for node in shown} == {"serve", "look_up", "wait", "parse"}, "what did not change is not folded"
    text = bench.run("diff", "tree-a", "tree-b", "--tree").stdout.decode().splitlines()
    assert [line.split()[-1] for line in text[1:5]] == ["serve", "look_up", "wait", "parse"], text


def slow(bench, *arguments):
    done = bench.run("slow", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_slow_finds_what_is_slow(bench):
    trace(bench, "slowly", requests(2000, 3, slow_every=100))
    answer = slow(bench, "serve", "-i", "slowly")
    assert answer["slow"]["calls"] == 20 and answer["others"]["calls"] == 1980, answer["slow"]
    report = by_name(json.loads(bench.run("report", "--json", "-i", "slowly").stdout))
    assert answer["slow"]["total_ns"] + answer["others"]["total_ns"] == report["serve"]["total_ns"]
    nodes = {node["function"]: node for node in answer["tree"]}
    assert nodes["wait"]["a"]["calls"] == 0 and nodes["wait"]["b"]["calls"] == 20, nodes["wait"]
    assert nodes["wait"]["b"]["total_ns"] == report["wait"]["total_ns"]
    assert set(nodes) == {"serve", "look_up", "wait"}, nodes
    assert math.isclose(nodes["wait"]["total_change_ns"], report["wait"]["total_ns"] / 20)
    # Each call counts once, whatever is shown: all nodes' sums are the report's.
    every = slow(bench, "serve", "-i", "slowly", "--min-percent", "0")["tree"]
    for name, row in report.items():
        sums = [sum(node[side][key] for node in every if node["function"] == name for side in ("a", "b")) for key in ("calls", "total_ns", "self_ns")]
        assert sums == [row["calls"], row["total_ns"], row["self_ns"]], f"{name}: {sums}, report: {row}"
    over = slow(bench, "look_up", "--over", "500us", "-i", "slowly")
    assert over["slow"]["calls"] == 20 and over["slow_from_ns"] == 500001, over["slow"]
    example = over["slowest"]
    assert example["duration_ns"] == report["look_up"]["max_ns"], example


def check_slow_names_the_command_that_shows_a_call(bench):
    trace(bench, "slowly", requests(500, 3, slow_every=100))
    lines = bench.run("slow", "serve", "-i", "slowly").stdout.decode().splitlines()
    commands = [line for line in lines if line.startswith("  calltap replay ")]
    assert len(commands) == 2, lines
    for command in commands:
        shown = bench.run(*shlex.split(command)[1:]).stdout.decode()
        assert shown.count("serve() {") == 1 and shown.count("wait()") == 1 and "/*" not in shown, f"{command}: {shown}"


def check_slow_fits_a_screen(bench):
    """A deep chain of callers, many callees: 23 lines, and the culprit is among them."""
    names = [f"level_{i}" for i in range(40)] + ["culprit"] + [f"side_{i}" for i in range(60)]

    def chain(level, slow_one):
        if level == 40:
            return ("culprit", 1_000_000 if slow_one else 100, [])
        return (f"level_{level}", 10, [chain(level + 1, slow_one)] + ([(f"side_{i}", 20000 if slow_one else 10, []) for i in range(60)] if level == 39 else []))

    ids = {name: number for number, name in enumerate(names)}
    trace(bench, "deep", [chain(0, number % 100 == 99) for number in range(1000)], ids)
    done = bench.run("slow", "level_0", "-i", "deep")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0 and len(lines) <= 23, f"{len(lines)} lines: {done.stdout.decode()}"
    assert any(line.endswith(" culprit") for line in lines), done.stdout.decode()
    assert "..37.. level_39" in done.stdout.decode() or "..38.. level_39" in done.stdout.decode(), done.stdout.decode()


def check_slow_counts_recursion_once(bench):
    nested = [("serve", 10, [("serve", 2000 if number % 50 == 49 else 20, [("parse", 5, [])])]) for number in range(100)]
    trace(bench, "nested", nested)
    answer = slow(bench, "serve", "-i", "nested", "--over", "1us", "--min-percent", "0")
    assert (answer["slow"]["calls"], answer["others"]["calls"]) == (2, 98), answer
    assert answer["slow"]["total_ns"] == 2 * 2015, answer["slow"]
    assert [(node["depth"], node["function"]) for node in answer["tree"]] == [(0, "serve"), (1, "serve"), (2, "parse")], answer["tree"]


def check_slow_tells_unfinished_calls_and_losses(bench):
    trace(bench, "open", requests(50, 1), tail="0 900000000 entry 0\n0 900000100 lost 7\n0 900000200 entry 1\nend 0\n")
    done = bench.run("slow", "serve", "-i", "open")
    assert b"left out: 1 unfinished call; 7 lost records" in done.stdout, done.stdout.decode()
    answer = slow(bench, "serve", "-i", "open")
    assert answer["slow"]["calls"] + answer["others"]["calls"] == 50 and answer["unfinished"] == 1 and answer["lost"] == 7, answer


def refuse(bench, said, *arguments):
    done = bench.run(*arguments)
    text = done.stderr.decode()
    assert done.returncode == 1 and not done.stdout and said in text and text.count("\n") == 1, f"{arguments}: {done.returncode} {text}"


def check_diff_and_slow_refuse_with_a_remedy(bench):
    trace(bench, "steady", [("serve", 500, []) for _ in range(200)])
    bench.write("no-calls", tracetext.make(HEAD + "function 0 serve\n0 100 stack 0 0x7000000\nend 0\n"))
    refuse(bench, "like it: 'serve'", "slow", "srve", "-i", "steady")
    refuse(bench, "like it: 'look_up'", "slow", "look", "-i", "steady")
    refuse(bench, "'calltap report' lists their names", "slow", "qqqqqqqqqqq", "-i", "steady")
    refuse(bench, "all take about as long", "slow", "serve", "-i", "steady")
    refuse(bench, "took longer than 1.000 ms: the longest took 500 ns", "slow", "serve", "--over", "1ms", "-i", "steady")
    refuse(bench, "the shortest took 500 ns, so give more", "slow", "serve", "--over", "1ns", "-i", "steady")
    refuse(bench, "no call of 'parse' has ended", "slow", "parse", "-i", "steady")
    refuse(bench, "no function is named", "slow", "-i", "steady")
    refuse(bench, "no call of 'main' has ended in the trace, or none that was asked for, with a duration", "slow", "main", "-i", "calls")
    refuse(bench, "no call is in no-calls", "diff", "steady", "no-calls")
    refuse(bench, "calls has no calls with a duration, so there is no tree", "diff", "--tree", "steady", "calls")
    refuse(bench, "name it twice", "diff", "steady")
    refuse(bench, "none is named", "diff")
    refuse(bench, "one word too many: two traces are compared", "diff", "steady", "steady", "steady")
    refuse(bench, "'p50' is no column", "diff", "steady", "steady", "--sort", "p50")
    refuse(bench, "'x' is no value for --pid", "diff", "steady", "steady", "--pid", "x")


def check_diff_of_the_function_tracer_counts(bench):
    answer = diff(bench, "calls", "graph")
    rows = by_name(answer)
    assert not answer["a"]["timed"] and answer["tests"] == 0 and rows["parse"]["a"]["calls"] == 2, rows["parse"]
    said = bench.run("diff", "calls", "graph").stdout.decode()
    assert "only numbers of calls are compared" in said and "Avg" not in said, said

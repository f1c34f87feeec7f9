"""`calltap diff` with several traces a side, on made-up traces whose truth is known: how often equal sides are said to
differ, whether a planted change is found, and that the sums are those of all traces."""
import json
import random
from collections import Counter

import compared

RUNS = 3
EQUAL = 12  # comparisons of sides that are equal


def run_of(bench, name, seed, parse=1.0, count=150, spread=0.15):
    """A run on a machine that others use, too: everything is faster or slower by a factor of the run's own."""
    chance = random.Random(seed)
    pace = chance.lognormvariate(0, spread)

    def slowed(call):
        function, own, callees = call
        return (function, max(1, round(own * pace * (parse if function == "parse" else 1))), [slowed(callee) for callee in callees])

    compared.trace(bench, name, (slowed(request) for request in compared.requests(count, 1000 + seed)))
    return name


def named(before, after):
    return [word for option, names in (("--before", before), ("--after", after)) for name in names for word in (option, name)]


def claims(answer):
    return {row["function"]: row["verdict"] for row in answer["rows"] if row["verdict"] in ("slower", "faster", "tail+", "tail-")}


def check_diff_of_several_traces_claims_little_of_equal_sides(bench):
    """The runs differ by 15 %: pairs of single runs are said to differ, and rightly so; sides of three runs are not."""
    single = several = 0
    for seed in range(EQUAL):
        runs = [run_of(bench, f"equal-{i}", 100 * seed + i) for i in range(2 * RUNS)]
        single += bool(claims(compared.diff(bench, runs[0], runs[RUNS])))
        several += bool(claims(compared.diff(bench, *named(runs[:RUNS], runs[RUNS:]))))
    assert several <= 2, f"of {EQUAL} comparisons of equal sides {several} claim a difference"
    assert single >= EQUAL / 2, f"of {EQUAL} pairs only {single} differ: the runs do not tell anything about the test"


def check_diff_of_several_traces_finds_a_planted_change(bench):
    before = [run_of(bench, f"planted-a{i}", i, spread=0.03) for i in range(RUNS)]
    after = [run_of(bench, f"planted-b{i}", 50 + i, spread=0.03, parse=1.8) for i in range(RUNS)]
    answer = compared.diff(bench, *named(before, after))
    found = claims(answer)
    assert found.pop("parse", None) == "slower" and set(found) <= {"serve"}, found
    found = claims(compared.diff(bench, *named(after, before)))
    assert found.pop("parse", None) == "faster" and set(found) <= {"serve"}, found
    said = bench.run("diff", *named(before[:2], after[:2])).stdout.decode()
    assert "2 traces in A, 2 in B" in said and "three or more traces a side" in said, said
    said = bench.run("diff", *named(before, after)).stdout.decode()
    assert "3 traces in A, 3 in B" in said and "three or more traces a side" not in said, said


def check_diff_of_several_traces_has_the_sums_of_all(bench):
    """Changes are of one trace in the mean, so that sides with different numbers of traces can be compared."""
    before = [run_of(bench, f"sums-a{i}", i, count=50) for i in range(2)]
    after = [run_of(bench, f"sums-b{i}", 50 + i, count=50) for i in range(3)]
    answer = compared.diff(bench, *named(before, after))
    for side, names in (("a", before), ("b", after)):
        wanted = {}
        for name in names:
            for row in json.loads(bench.run("report", "--json", "-i", name).stdout)["rows"]:
                wanted.setdefault(row["function"], Counter()).update({key: row[key] for key in ("calls", "total_ns", "self_ns")})
        got = {row["function"]: {key: row[side][key] for key in ("calls", "total_ns", "self_ns")} for row in answer["rows"]}
        assert got == {name: dict(sums) for name, sums in wanted.items()}, f"{side}: {got}\nreports: {wanted}"
        assert answer[side]["traces"] == answer[side]["per"] == len(names), answer[side]
    for row in answer["rows"]:
        assert row["calls_change"] == 0 and row["verdict"] not in ("more", "fewer"), row
        assert abs(row["self_change_ns"] - (row["b"]["self_ns"] / 3 - row["a"]["self_ns"] / 2)) < 0.01, row
    chosen = compared.diff(bench, "--before", before[0], "--time", "..0.000010", "--before", before[1], "--after", after[0])
    rows = compared.by_name(chosen)
    assert 50 <= rows["serve"]["a"]["calls"] < 60, "an option behind a name is not of that trace alone"


def paths_of(nodes):
    """{path: node} of a tree in JSON."""
    paths, found = {None: ()}, {}
    for node in nodes:
        paths[node["id"]] = (*paths[node["parent"]], node["function"])
        found[paths[node["id"]]] = node
    return found


def tree_of(bench, before, after, *arguments):
    return compared.diff(bench, "--tree", *arguments, *named(before, after))


def check_diff_tree_of_several_traces_has_the_means(bench):
    """Of each path: sums of a side, the total of each run, and the change of the means; a run may be without the path."""
    before = [run_of(bench, f"means-a{i}", i, count=50) for i in range(2)]
    after = [run_of(bench, f"means-b{i}", 50 + i, count=50) for i in range(2)]
    compared.trace(bench, "means-b2", [("wait", 5000, [("parse", 300, [])]), ("serve", 700, [("parse", 90, [])])])
    after.append("means-b2")
    nodes = paths_of(tree_of(bench, before, after, "--min-percent", "0")["tree"])
    every = {}
    for side, names in (("a", before), ("b", after)):
        for at, name in enumerate(names):
            graph = paths_of(json.loads(bench.run("graph", "--json", "--min-percent", "0", "-i", name).stdout)["nodes"])
            for path, node in graph.items():
                sums = every.setdefault(path, {"a": Counter(), "b": Counter(), "a_runs": [0, 0], "b_runs": [0, 0, 0]})
                sums[side].update({key: node[key] for key in ("calls", "total_ns", "self_ns")})
                sums[side + "_runs"][at] = node["total_ns"]
    assert set(nodes) == set(every) and ("wait", "parse") in nodes, f"paths: {set(nodes) ^ set(every)}"
    for path, sums in every.items():
        for side in "ab":
            got = {key: nodes[path][side][key] for key in ("calls", "total_ns", "self_ns")}
            assert got == {key: sums[side][key] for key in got}, f"{path}, {side}: {got}, the graphs {sums[side]}"
            assert nodes[path][side + "_runs_ns"] == sums[side + "_runs"], f"{path}: {nodes[path]}, the graphs {sums}"
        mean = sums["b"]["total_ns"] / 3 - sums["a"]["total_ns"] / 2
        assert abs(nodes[path]["total_change_ns"] - mean) < 0.01, f"{path}: {nodes[path]['total_change_ns']}, not {mean}"
    assert not nodes["wait", "parse"]["differs"], "what one run of three did is more than chance"
    text = bench.run("diff", "--tree", "--min-percent", "0", "--per", "serve", *named(before, after)).stdout.decode()
    assert "per call of 'serve': 100 in A, 101 in B" in text and " q " in text.splitlines()[0], text


def check_diff_tree_of_several_traces_marks_what_changed(bench):
    """A path that takes longer in each run is marked with its callers, others are not; equal sides have hardly a mark."""
    before = [run_of(bench, f"marks-a{i}", i, spread=0.03) for i in range(RUNS)]
    after = [run_of(bench, f"marks-b{i}", 50 + i, spread=0.03, parse=3) for i in range(RUNS)]
    nodes = paths_of(tree_of(bench, before, after, "--min-percent", "0")["tree"])
    marked = {path for path, node in nodes.items() if node["differs"]}
    assert ("serve", "parse") in marked <= {("serve", "parse"), ("serve",)}, f"marked: {marked}"
    assert all(node["q"] <= 0.05 for path, node in nodes.items() if path in marked), nodes
    lines = bench.run("diff", "--tree", *named(before, after)).stdout.decode().splitlines()
    line = next(line for line in lines if line.endswith("parse"))
    assert " * " in line and any(line.startswith("* the path's total differs") for line in lines), lines
    assert compared.diff(bench, "--tree", before[0], after[0])["tree"][0].keys().isdisjoint(("q", "differs")), "one run a side says how runs differ"
    equal = 0
    for seed in range(EQUAL):
        runs = [run_of(bench, f"marks-{i}", 7000 + 100 * seed + i) for i in range(2 * RUNS)]
        equal += any(node["differs"] for node in tree_of(bench, runs[:RUNS], runs[RUNS:])["tree"])
    assert equal <= 2, f"of {EQUAL} trees of equal sides {equal} have marks"


def check_diff_of_several_traces_tests_numbers_of_calls(bench):
    """Numbers that differ from run to run anyhow are no news; those that never do, and then do, are."""
    def calls(name, polls, parses):
        compared.trace(bench, name, [("wait", 500, []) for _ in range(polls)] + [("parse", 500, []) for _ in range(parses)])
        return name

    before = [calls(f"calls-a{i}", polls, 100) for i, polls in enumerate((80, 140, 100))]
    after = [calls(f"calls-b{i}", polls, 110) for i, polls in enumerate((120, 90, 150))]
    rows = compared.by_name(compared.diff(bench, *named(before, after)))
    assert rows["wait"]["verdict"] == "-" and rows["wait"]["calls_q"] > 0.05, rows["wait"]
    assert rows["parse"]["verdict"] == "more" and rows["parse"]["calls_q"] <= 0.05, rows["parse"]
    rows = compared.by_name(compared.diff(bench, "--per", "parse", *named(before, after)))
    assert rows["parse"]["verdict"] == "-" and abs(rows["parse"]["calls_change"]) < 1e-9, rows["parse"]
    assert compared.by_name(compared.diff(bench, before[0], after[0]))["wait"]["verdict"] == "more"


def check_diff_of_several_traces_refuses_with_a_remedy(bench):
    compared.trace(bench, "one", [("serve", 500, []) for _ in range(20)])
    compared.refuse(bench, "named without --before or --after", "diff", "one", "--after", "one")
    compared.refuse(bench, "one word too many", "diff", "--before", "one", "one")
    compared.refuse(bench, "no trace is named by --after", "diff", "--before", "one", "--before", "one")
    compared.refuse(bench, "no trace is named by --before", "diff", "--after", "one")
    compared.refuse(bench, "64 traces at most", "diff", *named(["one"] * 64, ["one"]))
    same = bench.run("diff", "--json", "--before", "one", "--after", "one")
    assert same.returncode == 0 and same.stdout == bench.run("diff", "--json", "one", "one").stdout, same.stderr
    tree = bench.run("diff", "--tree", "--before", "one", "--after", "one")
    assert tree.returncode == 0, tree.stderr

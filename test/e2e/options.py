"""Options of record and their effects, tried on one build: filters, limits, modes, tracers, and errors."""
import json
import os

from harness import expect

CALLS = {"main", "fib", "sum", "swap", "fill", "halve", "many", "twice", "slow", "outer", "leaf", "before", "after", "at_exit"}


def chosen(source, options, wanted, arguments=()):
    """The functions in the trace are exactly those wanted."""
    def test(case):
        case.same_as_plain([case.program(source), *arguments], options, log=False)
        found = set(case.trace().called())
        expect(found == set(wanted), f"{' '.join(options)}: recorded {sorted(found)}, wanted {sorted(wanted)}")
    return test


def list_file(case):
    with open(os.path.join(case.folder, "list"), "w", encoding="utf-8") as file:
        file.write("# two functions\nfib\n\nlea*\n")
    chosen("calls.c", ["-l", "@list"], {"fib", "leaf"})(case)


def object_filter(case):
    chosen("calls.c", ["-l", os.path.basename(case.program("calls.c")) + ":fib"], {"fib"})(case)


def depth_max(case):
    case.same_as_plain([case.program("calls.c")], ["--max-depth", "2"], log=False)
    trace = case.trace()
    depth = deepest = 0
    for thread in trace.threads.values():
        for kind, _, _ in thread.events():
            depth += (kind == 1) - (kind == 2)
            deepest = max(deepest, depth)
    expect(deepest == 2, f"deepest frame {deepest}, not 2")
    called = trace.called()
    # twice() is called by main, the fib() calls below it are cut off; those of main stay without their recursion.
    expect("twice" in called and called.get("fib") == 1, f"calls within depth 2: {called}")


def threshold(case):
    case.same_as_plain([case.program("calls.c"), "x"], ["-t", "100ms"], log=False)
    found = set(case.trace().called())
    expect({"main", "outer", "slow"} <= found, f"the slow calls are missing: {sorted(found)}")
    expect(not found & {"fib", "leaf", "many"}, f"short calls were recorded: {sorted(found)}")


def threshold_tails(case):
    """Calls that one frame makes, each in place of a return, are left out together."""
    case.same_as_plain([case.program("tails.c")], ["-t", "10s"], log=False)
    found = case.trace().called()
    expect(not found, f"short calls were recorded: {found}")


def function_tracer(case):
    case.same_as_plain([case.program("calls.c")], ["-p", "function"], log=False)
    trace = case.trace()
    kinds = {kind for thread in trace.threads.values() for kind, _, _ in thread.events()}
    expect(kinds <= {3, 8} and 3 in kinds, f"record kinds {sorted(kinds)}, only CALL was wanted")
    called = trace.called()
    expect(called.get("fib") == 41 + 9 + 5 + 9, f"fib called {called.get('fib')} times")
    replay = case.run([case.tool, "replay", "-i", case.trace_path])
    expect(replay.status == 0 and "<-main" in replay.stdout.replace(" ", ""), f"no caller is shown: {replay.stdout[-300:]!r}")


def nop_tracer(case):
    case.same_as_plain([case.program("calls.c")], ["-p", "nop"], log=False)
    expect(not case.trace().called(), "the nop tracer recorded calls")


def mode(name):
    loops = 5000
    dives = loops * 3  # dive() runs 1, 2, 3, 4 and 5 deep in turn

    def test(case):
        case.same_as_plain([case.program("jumps.c"), str(loops)], ["--mode", name, "-b", "64k"], log=False)
        trace = case.trace()
        entered, lost = trace.called().get("dive", 0), sum(thread.lost for thread in trace.threads.values())
        if name == "block":
            expect(entered == dives and lost == 0, f"{entered} of {dives} calls recorded, {lost} records lost")
        else:
            expect(0 < entered <= dives, f"{entered} of {dives} calls recorded")
        if name == "drop":
            expect(entered == dives or lost, "calls are missing and no loss is reported")
            told = json.loads(case.run([case.tool, "report", "--json", "-i", case.trace_path]).stdout)["lost"]
            expect(told == lost, f"report tells of {told} lost records, the threads have lost {lost}")
        if name == "overwrite":
            expect(entered < dives, "all calls were kept in a buffer that is too small for them")
        case.readable()
    return test


def no_match(case):
    outcome = case.record([case.program("calls.c")], ["-l", "fibb"], log=False)
    expect(outcome.status == 2, f"exit status {outcome.status}, not 2")
    expect(outcome.stdout == "", "the program ran")
    expect("fibb" in outcome.stderr and "fib" in outcome.stderr.replace("fibb", ""), f"no near miss: {outcome.stderr!r}")
    expect(not os.path.exists(case.trace_path), "a trace file was left behind")


def no_sites(case):
    outcome = case.record([case.program("calls.c", sites=False)], log=False)
    expect(outcome.status == 2, f"exit status {outcome.status}, not 2")
    expect(outcome.stdout == "", "the program ran")
    expect("-fpatchable-function-entry" in outcome.stderr, f"no flag is named: {outcome.stderr!r}")


def usage(arguments, word):
    def test(case):
        outcome = case.run([case.tool, "record", "-o", case.trace_path, *arguments(case)])
        expect(outcome.status not in (0, 139, 134), f"exit status {outcome.status}")
        expect(outcome.stdout == "", f"stdout: {outcome.stdout!r}")
        lines = outcome.stderr.strip().splitlines()
        expect(lines and word in outcome.stderr, f"no clear sentence with {word!r}: {outcome.stderr!r}")
        expect(not os.path.exists(case.trace_path), "a trace file was left behind")
    return test


def whole_tree(case):
    """-g: everything below outer, and nothing else; the trees stay whole."""
    case.same_as_plain([case.program("calls.c")], ["-g", "outer"], log=False)
    called = case.trace().called()
    expect(called == {"outer": 1, "slow": 1, "fib": 9}, f"-g outer recorded {called}")


def without_tree(case):
    case.same_as_plain([case.program("calls.c")], ["--no-graph", "outer"], log=False)
    called = case.trace().called()
    expect("outer" not in called and "slow" not in called, f"--no-graph outer recorded {called}")
    expect(called.get("fib") == 41 + 5 + 9, f"fib called {called.get('fib')} times, not 55")


def tree_without_tree(case):
    """--no-graph wins where -g names the function, too; what is left are the other trees."""
    case.same_as_plain([case.program("calls.c")], ["-g", "*", "--no-graph", "outer"], log=False)
    called = case.trace().called()
    expect("main" in called and "outer" not in called and "slow" not in called, f"-g '*' --no-graph outer recorded {called}")
    expect(called.get("fib") == 41 + 5 + 9, f"fib called {called.get('fib')} times, not 55")


def no_tree_outside(case):
    """--no-graph hides the trees that would begin below it, too, until it is left, by whatever way."""
    case.same_as_plain([case.program("calls.c")], ["-g", "fib", "--no-graph", "outer"], log=False)
    expect(case.trace().called() == {"fib": 41 + 5 + 9}, f"-g fib --no-graph outer recorded {case.trace().called()}")
    case.same_as_plain([case.program("jumps.c")], ["-g", "handler", "--no-graph", "dive"], log=False)
    expect(case.trace().called() == {"handler": 50}, f"-g handler --no-graph dive recorded {case.trace().called()}")
    case.same_as_plain([case.program("jumps.c")], ["-g", "handler", "--no-graph", "raiser"], log=False)
    expect(case.trace().called() == {}, f"-g handler --no-graph raiser recorded {case.trace().called()}")


def outermost(case):
    """Functions that no recorded call has called."""
    nodes = case.graph()
    return {node["function"] for node in nodes.values()
            if node["calls"] and not nodes.get(node["parent"], {"calls": 0})["calls"]}


def outside(nodes, function):
    """{function: calls}, without what that function has called, or has jumped to, at any depth."""
    def is_in(node):
        return node and (node["function"] == function or is_in(nodes.get(node["parent"])))
    found = {}
    for node in nodes.values():
        if node["calls"] and not is_in(node):
            found[node["function"]] = found.get(node["function"], 0) + node["calls"]
    return found


def no_trees(source):
    """--no-graph of each function of the program leaves out what the function leads to, by calls and by jumps, and no more."""
    def test(case):
        case.same_as_plain([case.program(source)], log=False)
        nodes = case.graph()
        functions = {node["function"] for node in nodes.values() if node["calls"]}
        expect(len(functions) > 5, f"the program called {sorted(functions)} alone")
        # A ring of jumps is shown as one of its turns.
        for function in sorted(name for name in functions if name != "main" and not name.startswith("ring")):
            case.same_as_plain([case.program(source)], ["--no-graph", function], log=False)
            got, wanted = outside(case.graph(), None), outside(nodes, function)
            expect(got == wanted, f"--no-graph {function} recorded {got}, not {wanted}")
    return test


def tail_depth(case):
    """A call in place of a return is one more level of what is shown."""
    for most in range(1, 5):
        case.same_as_plain([case.program("tails.c")], ["--max-depth", str(most)], log=False)
        nodes = case.graph()

        def depth(node):
            return node and 1 + (depth(nodes.get(node["parent"])) or 0)
        deepest = max(depth(node) for node in nodes.values())
        expect(deepest <= most + 1, f"--max-depth {most} shows {deepest} levels and the thread's")


def trees_end(source, *roots):
    """A tree is over when its root is left: by a return, a jump, an exception, or after a tail call."""
    def test(case):
        for root in roots:
            case.same_as_plain([case.program(source)], ["-g", root], log=False)
            got = {name.split("(")[0] for name in outermost(case)}
            expect(got == {root.rstrip("*")}, f"-g {root}: trees begin with {sorted(got)}")
    return test


def children(case):
    case.executing()
    case.same_as_plain([case.program("forks.c")], log=False)
    processes = case.trace().processes
    expect(len(processes) >= 5, f"{len(processes)} process images in the trace, 5 or more were run")
    expect({1, 2} <= {start for _, _, start, _, _ in processes.values()}, "no fork or no exec was noted")


SINGLE = {
    "filter-name": chosen("calls.c", ["-l", "fib"], {"fib"}),
    "filter-glob": chosen("calls.c", ["-l", "f*"], {"fib", "fill"}),
    "filter-two": chosen("calls.c", ["-l", "swap", "-l", "halve"], {"swap", "halve"}),
    "filter-regex": chosen("calls.c", ["-l", "/^(s[uw]|le)/"], {"sum", "swap", "leaf"}),
    "filter-not": chosen("calls.c", ["-n", "fib", "-n", "l*"], CALLS - {"fib", "leaf"}),
    "filter-both": chosen("calls.c", ["-l", "f*", "-n", "fib"], {"fill"}),
    "filter-object": object_filter,
    "filter-file": list_file,
    "filter-mangled": chosen("classes.cc", ["-l", "_ZNK6Square4areaEv"], {"area"}),
    "filter-demangled": chosen("classes.cc", ["-l", "deep::*"], {"thrower", "middle", "release"}),
    "filter-tree": whole_tree,
    "filter-no-tree": without_tree,
    "filter-tree-no-tree": tree_without_tree,
    "filter-no-tree-outside": no_tree_outside,
    "filter-trees-jumps": trees_end("jumps.c", "handler", "dive", "raiser", "catch_dive"),
    "filter-trees-longjumps": trees_end("longjumps.c", "builtin_dive", "jumping_handler", "jump", "leaf"),
    "filter-trees-exceptions": trees_end("exceptions.cc", "fail*", "go_down*", "less*", "again*", "wrap*", "kept*"),
    "filter-no-trees-tails": no_trees("tails.c"),
    "filter-no-trees-siblings": no_trees("siblings.cc"),
    "max-depth-tails": tail_depth,
    "filter-trees-tails": trees_end("siblings.cc", "to_fails*", "handled*", "ring_a*", "past*"),
    "max-depth": depth_max,
    "threshold": threshold,
    "threshold-tails": threshold_tails,
    "tracer-function": function_tracer,
    "tracer-nop": nop_tracer,
    "mode-block": mode("block"),
    "mode-drop": mode("drop"),
    "mode-overwrite": mode("overwrite"),
    "children": children,
    "error-no-match": no_match,
    "error-no-sites": no_sites,
    "error-regex": usage(lambda case: ["-l", "/(/", "--", case.program("calls.c")], "("),
    "error-tracer": usage(lambda case: ["-p", "flow", "--", case.program("calls.c")], "flow"),
    "error-mode": usage(lambda case: ["--mode", "maybe", "--", case.program("calls.c")], "maybe"),
    "error-size": usage(lambda case: ["-b", "many", "--", case.program("calls.c")], "many"),
    "error-option": usage(lambda case: ["--no-such-option", "--", case.program("calls.c")], "no-such-option"),
    "error-no-command": usage(lambda case: [], "command"),
    "error-no-program": usage(lambda case: ["--", "./there-is-none"], "there-is-none"),
    "error-no-folder": usage(lambda case: ["-o", "none/trace", "--", case.program("calls.c")], "none/trace"),
}

"""Options of `calltap mount` by which function_graph shows what calls are made with, and give: as Linux 6.18 prints it."""
import contextlib
import errno
import os
import re
import subprocess

from harness import expect, until
from steering import Program, Tool, left_alone
from tracefs import Tree, body_of, native, own_place
from tracefs import GRAPH_HEADER

# A line of function_graph: indentation, what is called, what is behind it.
LINE = re.compile(r" \d+\) (?:[ +!#*@$] [\d.]{5,8} us {1,4}| {14})\|  ((?:  )*)(\w+)(\(.*\))(;| \{)( /\* .+ \*/)?$")
LEAVE = re.compile(r" \d+\) [ +!#*@$] [\d.]{5,8} us {1,4}\|  ((?:  )*)\}( /\* .+ \*/)?$")
# What kernels have printed, from 6.13 on (retaddr) and 6.15 on (args).
KERNEL = """ 5)               |  mutex_unlock() { /* <-rb_simple_write+0xda/0x150 */
 5)   0.188 us    |    local_clock(); /* <-lock_release+0x2ad/0x440 ret=0x3bf2a3cf90e */
 5)   0.123 us    |        preempt_count_add(); /* <-_raw_spin_lock_irqsave+0x23/0x90 ret=0x0 */
""".splitlines()
RESULTS = {"give_error": "-2", "give_long": "-22", "give_short": "-7", "give_word": "0xb8", "give_null": "0x0",
           "give_half": "2.75", "give_colour": "0x7", "give_point": "{x=3, y=-4}", "give_sum": "0x24", "give_outer": "0xa"}
NUMBERS = {"0xffffec78", "0xc"}  # of give_number, -5000 and 12
ARGUMENTS = {"give_error": "", "give_long": "number=-22", "give_short": "number=-7", "give_word": "word=0xfffffff0, byte=0xc8",
             "give_nothing": "letter=-5, truth=0x1", "give_half": "number=5.0, more=0.25", "give_colour": "colour=7 [GREEN]",
             "give_point": "point={x=3, y=-4}", "give_sum": "a=1, b=2, c=3, d=4, e=5, f=6, ...", "give_outer": "number=12"}


@contextlib.contextmanager
def shown(case, flags=("-g",), strip=False):
    """gives.c, which has called everything again and again, and its tree."""
    own_place(case)
    path = case.program("gives.c", flags=["-O2", *flags])
    if strip:
        stripped = os.path.join(case.folder, "stripped")
        subprocess.run(["strip", "--strip-debug", "-o", stripped, path], check=True)
        path = stripped
    program = Program.__new__(Program)
    program.start(case, [path])
    with program, left_alone(program), Tree(case, program) as tree:
        tree.write("set_ftrace_filter", "give_*\n")
        yield tree
        tree.end()


def body(tree):
    return body_of(tree.read("trace"), GRAPH_HEADER)


def calls(tree):
    """[(function, arguments, comment)] of the lines of `trace`, each of which has the kernel's form; also of ends."""
    found = []
    for line in body(tree):
        match, left = LINE.match(line), LEAVE.match(line)
        expect(match or left, f"no kernel prints {line!r}")
        if match:
            found.append((match[2], match[3][1:-1], (match[5] or "")[4:-3]))
        elif left[2]:
            words = left[2][4:-3].split(" ", 1)
            found.append((words[0], None, words[1] if len(words) > 1 else ""))
    return found


def record(tree, *options, tracer=True):
    """Some calls of everything with these options."""
    for option in options:
        tree.write("options/" + option, "1\n")
    if tracer:
        tree.write("current_tracer", "function_graph\n")
    tree.write("tracing_on", "1\n")
    until("calls", lambda: tree.read("trace").count("give_outer") > 6)
    tree.write("tracing_on", "0\n")
    return calls(tree)


def results_of(found):
    """{function: the texts behind ret=, "" = none}"""
    results = {}
    for name, arguments, comment in found:
        if name != "give_outer" or arguments is None:
            results.setdefault(name, set()).add(comment.split("ret=")[1] if "ret=" in comment else "")
    return results


def check_results(found, wanted):
    results = results_of(found)
    expect(results.pop("give_number") == NUMBERS, f"{results}")
    expect(results.pop("give_nothing") == {""}, "a function without a result has one")
    texts = results.pop("give_text")
    expect(len(texts) == 1 and re.fullmatch("0x[0-9a-f]{9,12}", *texts), f"{texts}")
    expect(results == {name: {text} for name, text in wanted.items()}, f"{results}")


def retval(case):
    """funcgraph-retval, set before the tracer: results by their types; an error number alone is in base 10."""
    expect(all(LINE.match(line) for line in KERNEL), "the pattern is not the kernel's")
    with shown(case) as tree:
        check_results(record(tree, "funcgraph-retval"), RESULTS)
        lines = body(tree)
        expect(any(re.search(r"\|  give_error\(\); /\* ret=-2 \*/$", line) for line in lines), f"{lines[:20]}")
        expect(any(re.search(r"\|  \} /\* give_outer ret=0xa \*/$", line) for line in lines), f"{lines[:20]}")
        tree.write("options/funcgraph-retval-hex", "1\n")
        check_results(calls(tree), RESULTS | {"give_error": "0xfffffffe", "give_long": "0xffffffffffffffea", "give_short": "0xfffffff9"})
        tree.write("options/funcgraph-retval-hex", "0\n")
        tree.write("options/funcgraph-retval", "0\n")
        expect(set().union(*results_of(calls(tree)).values()) == {""}, "results without the option")
        expect("} /*" not in tree.read("trace") and "calltap" not in tree.read("error_log"), tree.read("error_log"))


def switched(case):
    """The options while the program runs: calls from then on have values, or none; another tracer keeps the option."""
    with shown(case) as tree:
        record(tree)
        tree.write("trace", "\n")
        check_results(record(tree, "funcgraph-retval", tracer=False), RESULTS)
        tree.write("options/funcgraph-retval", "0\n")
        tree.write("trace", "\n")
        found = record(tree, tracer=False)
        tree.write("options/funcgraph-retval-hex", "1\n")  # which records nothing
        expect(set().union(*results_of(found).values()) == {""}, f"{found[:20]}")
        tree.write("options/funcgraph-retval-hex", "0\n")
        tree.write("trace_options", "funcgraph-retval\n")
        expect(set().union(*results_of(calls(tree)).values()) == {""}, "results of calls before")
        tree.write("current_tracer", "function\n")
        tree.write("tracing_on", "1\n")
        until("calls", lambda: "give_outer <-" in tree.read("trace"))
        tree.write("current_tracer", "nop\n")
        expect(tree.read("options/funcgraph-retval") == "1\n", "the option has gone")
        check_results(record(tree), RESULTS)
        for _ in range(20):
            for option in ("funcgraph-args", "funcgraph-retval", "funcgraph-retaddr"):
                tree.write("options/" + option, "0\n")
                tree.write("tracing_on", "1\n")
                tree.write("options/" + option, "1\n")
        tree.write("trace", "\n")
        check_results(record(tree, tracer=False), RESULTS)
        expect(tree.read("error_log") == "", tree.read("error_log"))


def arguments(case):
    """funcgraph-args: names and numbers by their types; also of calls that have called others."""
    with shown(case) as tree:
        found = record(tree, "funcgraph-args")
        given = {}
        for name, text, _ in found:
            if text is not None:
                given.setdefault(name, set()).add(text)
        expect(given.pop("give_number") == {"number=-5000", "number=12"}, f"{given}")
        expect(re.fullmatch("text=0x[0-9a-f]{9,12}", *given.pop("give_text")), f"{given}")
        expect(re.fullmatch("point=0x[0-9a-f]{9,12}", *given.pop("give_null")), f"{given}")
        expect(given == {name: {text} for name, text in ARGUMENTS.items()}, f"{given}")
        expect(any(re.search(r"\|  give_outer\(number=12\) \{$", line) for line in body(tree)), f"{body(tree)[:20]}")
        tree.write("trace", "\n")
        found = record(tree, "funcgraph-retval", tracer=False)
        check_results(found, RESULTS)
        text = {(name, text, comment) for name, text, comment in found if name == "give_text"}
        (_, given, comment), = text
        expect(int(given.split("=")[1], 16) + 1 == int(comment.split("=")[1], 16), f"{text}")
        tree.write("options/funcgraph-args", "0\n")
        tree.write("trace", "\n")
        expect(not any(text for _, text, _ in record(tree, tracer=False)), "arguments without the option")


def callers(case):
    """funcgraph-retaddr: where a call returns to, alone and with the others."""
    with shown(case) as tree:
        found = record(tree, "funcgraph-retaddr")
        sizes = {name: comment for name, text, comment in found if text is not None}
        expect(all(re.fullmatch(r"<-\w+\+0x[0-9a-f]+/0x[0-9a-f]+", comment) for comment in sizes.values()), f"{sizes}")
        expect(all(comment.startswith("<-give_outer+") for name, text, comment in found
                   if name == "give_error" and comment in {c for n, _, c in found if n == "give_number"}), f"{sizes}")
        expect({comment.split("+")[0] for name, _, comment in found if name == "give_error"} >= {"<-give_outer"}, f"{found[:30]}")
        expect(any(re.search(r"\|  give_outer\(\) \{ /\* <-\w+\+0x\w+/0x\w+ \*/$", line) for line in body(tree)), f"{body(tree)[:20]}")
        tree.write("options/sym-addr", "1\n")
        match = re.search(r"give_outer\(\) \{ /\* <-\w+\+0x\w+/0x\w+ <[0-9a-f]{16}> \*/", tree.read("trace"))
        expect(match, "sym-addr changes nothing")
        tree.write("options/sym-addr", "0\n")
        tree.write("trace", "\n")
        found = record(tree, "funcgraph-retval", "funcgraph-args", tracer=False)
        check_results(found, RESULTS)
        expect(any(re.search(r"\|  give_long\(number=-22\); /\* <-\w+\+0x\w+/0x\w+ ret=-22 \*/$", line) for line in body(tree)), f"{body(tree)[:20]}")
        tree.write("options/funcgraph-retaddr", "0\n")
        expect("<-" not in tree.read("trace"), "callers without the option")


def consumed(case):
    """Who consumes events gets no call without its values, whichever way the call took, and as soon as it would else."""
    with shown(case) as tree:
        tree.write("set_graph_function", "give_outer\ngive_point\n")
        for option in ("funcgraph-args", "funcgraph-retval", "funcgraph-retaddr"):
            tree.write("options/" + option, "1\n")
        tree.write("current_tracer", "function_graph\n")
        lines = []
        with open(tree.path("trace_pipe"), "rb", buffering=0) as file:
            until("lines", lambda: lines.extend(file.read(1 << 16).decode().splitlines()) or len(lines) > 2000)
        for line in lines:
            call = LINE.match(line)
            expect(call or LEAVE.match(line), f"no kernel prints {line!r}")
            if call and not re.fullmatch(r"\(\w+=.*\)|\(\)", call[3]) or call and (call[3] == "()") != (call[2] == "give_error"):
                expect(False, f"arguments are missing: {line!r}")
            expect(not call or " <-" in line, f"the caller is missing: {line!r}")
            expect("ret=" in line or line.endswith(("} ", "*/")) and " { /* <-" in line, f"the result is missing: {line!r}")


def of_function(case):
    """func-args: arguments of the tracer function's calls, in `trace` and trace_pipe, whenever the option is set."""
    wanted = ARGUMENTS | {"give_number": "number=-5000|number=12"}
    line = re.compile(r": (\w+)(\(.*\))? <-(\w+)$")
    with shown(case) as tree:
        tree.write("options/func-args", "1\n")
        tree.write("current_tracer", "function\n")
        with open(tree.path("trace_pipe"), "rb", buffering=0) as file:
            lines = []
            until("lines", lambda: lines.extend(file.read(1 << 16).decode().splitlines()) or len(lines) > 1000)
        until("calls", lambda: tree.read("trace").count("give_outer") > 6)
        tree.write("tracing_on", "0\n")
        lines += [text for text in tree.read("trace").splitlines() if not text.startswith("#")]
        found = {}
        for text in lines:
            call = line.search(text)
            expect(call and call[2], f"no arguments: {text!r}")
            found.setdefault(call[1], set()).add(call[2][1:-1])
        expect(found.pop("give_text") != {""} and found.pop("give_null") != {""}, f"{found}")
        expect(found == {name: set(text.split("|")) for name, text in wanted.items()}, f"{found}")
        expect(any(text.endswith(": give_error() <-give_outer") for text in lines), f"{lines[:9]}")
        expect(tree.read("current_tracer") == "function\n", "another tracer")
        tree.write("options/func-args", "0\n")
        tree.write("trace", "\n")
        tree.write("tracing_on", "1\n")
        until("calls", lambda: tree.read("trace").count("give_outer <-") > 6)
        expect("(" not in tree.read("trace").split("FUNCTION\n")[1].replace("( ", ""), "arguments without the option")
        tree.write("options/func-args", "1\n")
        until("arguments", lambda: "give_outer(number=12) <-" in tree.read("trace"))
        for other in ("func-no-repeats", "func_stack_trace", "userstacktrace"):
            tree.refuses(errno.EINVAL, "options/" + other, "1\n")
            expect(tree.read("options/" + other) == "0\n", "it is on")
        tree.write("current_tracer", "function_graph\n")
        expect(not any(text for _, text, _ in record(tree)), "arguments of the other tracer")
        tree.write("current_tracer", "nop\n")


def untyped(case):
    """Without debug information results are the register as it is, calls have no arguments, and callers are known."""
    with shown(case, strip=True) as tree:
        found = record(tree, "funcgraph-retval", "funcgraph-args", "funcgraph-retaddr")
        results = results_of(found)
        expect(results["give_error"] == {"-2"} and results["give_long"] == {"-22"} and results["give_sum"] == {"0x24"}, f"{results}")
        expect(results["give_null"] == {"0x0"} and results["give_number"] == NUMBERS, f"{results}")
        expect(all(re.fullmatch("0x[0-9a-f]+|-[0-9]+", text) for text in results["give_nothing"]), f"{results}")  # whatever the register has
        expect(results["give_point"] == {"0xfffffffc00000003"}, f"{results}")
        expect(not any(text for _, text, _ in found), "arguments without types")
        expect(all("<-" in comment for _, text, comment in found if text is not None), f"{found[:20]}")
        tree.write("options/func-args", "1\n")
        tree.write("current_tracer", "function\n")
        tree.write("tracing_on", "1\n")
        until("calls", lambda: tree.read("trace").count("give_sum() <-") > 6)
        expect(tree.read("error_log") == "", tree.read("error_log"))


def refused(case):
    """What other instances have not, and limits that do not go with values, are errors with a sentence."""
    with shown(case) as tree:
        os.mkdir(tree.path("instances/one"))
        for option in ("funcgraph-retval", "funcgraph-args", "funcgraph-retaddr", "func-args"):
            tree.refuses(errno.EINVAL, "instances/one/options/" + option, "1\n")
            expect(tree.read("instances/one/options/" + option) == "0\n", "it is on")
        expect("first instance alone" in tree.read("error_log"), tree.read("error_log"))
        tree.write("instances/one/options/funcgraph-retval-hex", "1\n")
        until("the instance to be free", lambda: not gone(tree.path("instances/one")))
        tree.write("tracing_thresh", "5\n")
        tree.write("current_tracer", "function_graph\n")
        tree.refuses(errno.EINVAL, "options/funcgraph-retval", "1\n")
        expect(tree.read("options/funcgraph-retval") == "0\n", "it is on")
        error = tree.read("error_log").rpartition("] funcgraph-retval: error: ")[2]
        expect("leave tracing_thresh out" in error and "threshold" not in error and "  Command: 1\n" in error, error)
        tree.write("tracing_thresh", "0\n")
        tree.write("options/funcgraph-retval", "1\n")
        tree.refuses(errno.EINVAL, "tracing_thresh", "5\n")
        expect(tree.read("tracing_thresh") == "0\n", "there is a threshold")


def late(case):
    """Options of a tree without a process are gone when it becomes a further instance of another tool's session."""
    own_place(case)
    program = Program.__new__(Program)
    program.start(case, [case.program("gives.c", flags=["-O2", "-g"])])
    with program, left_alone(program), Tool(case, program, "-l", "give_sum") as tool:
        with Tree(case, None) as tree:
            tree.write("options/funcgraph-retval", "1\n")
            tree.write("options/func-args", "1\n")
            expect(tree.read("options/funcgraph-retval") == "1\n", "it is off")
            tree.write("attach", f"{program.pid}\n")
            expect(tree.read("options/funcgraph-retval") == tree.read("options/func-args") == "0\n", "they are on")
            tree.write("set_ftrace_filter", "give_*\n")
            found = record(tree)
            expect(not any("ret=" in comment or text for _, text, comment in found), f"{found[:20]}")
            tree.refuses(errno.EINVAL, "options/funcgraph-retval", "1\n")
            tree.end()
        tool.records(10)
        tool.detach()


def gone(path):
    try:
        os.rmdir(path)
    except OSError as error:
        return error.errno
    return 0


SINGLE = {
    "tracefs-retval": retval,
    "tracefs-details-switched": switched,
    "tracefs-args": arguments,
    "tracefs-retaddr": callers,
    "tracefs-func-args": of_function,
    "tracefs-details-consumed": consumed,
    "tracefs-details-untyped": untyped,
    "tracefs-details-late": late,
    "tracefs-details-refused": refused,
}
SINGLE = {name: native(test) for name, test in SINGLE.items()}

"""The text of the tree's `trace` is laid out as the kernel's, which test/kernel/text.py has taken from a kernel in a virtual machine."""
import os
import re

from harness import expect, until
from tracefs import mounted, native

KERNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../kernel/kernel-text.txt")
# Lines of events whose fields stand at fixed places: the places of these letters.
MARKS = {"function": r"[\[\]:]", "function_graph": r"\|"}
# Those that have none, by option: the line.
WHOLE = {"raw": r"\d+ \d+ \d+ [0-9a-f]+ [0-9a-f]+", "hex": r"[0-9a-f]{8} [0-9a-f]{8} [0-9a-f]{16} [0-9a-f]{16} [0-9a-f]{16} ", "nocontext-info": r"\w+ <-\w+",
         "nofuncgraph-duration": r" \d\) +(\w+\(\)[;{]|\w+\(\) \{|\})"}
REPEATED = r"|\d+ \d+ \d+ \d+ \d+ \d+ \d+"  # in raw, with func-no-repeats
TEXTS = {"func-no-repeats": r" \(repeats: \d+, last_ts: *\d+\.\d{6}\)$", "funcgraph-overrun": r"^ \(Overruns: 0\)$", "sym-offset": r": \w+\+0x0/0x[0-9a-f]+ <-\w+\+0x[0-9a-f]+(/0x[0-9a-f]+)?$", "sym-addr": r": \w+ <[0-9a-f]{16}> <-\w+ <[0-9a-f]{16}>$", "noprint-parent": r": \w+$",
         "record-tgid": r" \((-{7}| *\d+)\) \[", "latency-format": r"us[ +!#*@$]: \w+ <-\w+$|ms\): \w+ <-\w+$|\d\)  [.\d]{5} \| |\|  [.\d]{5} \| ", "funcgraph-tail": r"\} /\* \w+ \*/$", "funcgraph-abstime": r"^ *\d+\.\d{6} \|  ", "verbose": r"\w+ <-\w+$"}


def sections():
    """[tracer, options, lines] of the kernel's text, in its order."""
    with open(KERNEL, encoding="utf-8") as file:
        for part in file.read().replace("$\n", "\n").split("@@@ ")[1:]:
            head, *lines = part.splitlines()
            yield head.split()[0], head.split()[1:], lines


def header(lines):
    """The lines in front of the first event, without numbers and what a kernel is called."""
    text = [re.sub(r"\d+", "9", re.sub(r" on \S+$", " on KERNEL", re.sub(r"M:\w+", "M:x", line))) for line in lines
            if line.startswith("#") and not re.match(r"# +[\d.]+ us", line)]  # a long call has a # in front, too
    expect(text and text[0].startswith("# tracer: "), text)
    return text


def events(lines):
    """Lines of events; those of stacks, and what tells that a CPU has another task, are none."""
    return [line for line in lines if line and not line.startswith(("#", " => ", " ---")) and " => " not in line.replace("     =>     ", " => ")]


def places(line, letters):
    return tuple((found.start(), found[0]) for found in list(re.finditer(letters, line))[:3])


def check_events(name, tracer, options, kernel, ours):
    whole = next((WHOLE[option] for option in options if option in WHOLE), None)
    expect(kernel and ours, f"{name}: there are no events: {kernel} {ours}")
    if whole and "func-no-repeats" in options:
        whole += REPEATED
    if whole:
        for lines in (kernel, ours):
            strange = [line for line in lines if not re.fullmatch(whole, line)]
            expect(not strange, f"{name}: {strange[:3]}")
        return
    letters = MARKS[tracer]
    if tracer == "function" and "latency-format" in options:  # the time has as many digits as it needs
        letters = r"\[" if "verbose" in options else r"\.{5}"
    wanted, got = ({places(line, MARKS["function"] if line.endswith("<stack trace>") else letters) for line in lines
                    if not line.startswith(" (Overruns: ")} for lines in (kernel, ours))
    expect(got <= wanted, f"{name}: columns {got - wanted}, not {wanted}:\n" + "\n".join(kernel[:3] + ours[:3]))
    for option in options:
        for lines in (kernel, ours) if option in TEXTS else ():
            expect(any(re.search(TEXTS[option], line) for line in lines), f"{name}: no line has {TEXTS[option]}: {lines[:4]}")


def stacks(lines):
    """The lines below each `<stack trace>`."""
    found, inside = [], False
    for line in lines:
        if line.endswith("<stack trace>"):
            found.append([])
            inside = True
        elif inside and line.startswith(" => "):
            found[-1].append(line)
        else:
            inside = False
    return found


def set_options(tree, options, back):
    for option in options:
        name = option.removeprefix("no")
        tree.write(f"options/{name}", f"{int((name == option) != back)}\n")


def record(tree, tracer, stacked, merged):
    tree.write("current_tracer", "nop\n")
    if tracer == "function":
        tree.write("options/func_stack_trace", f"{int(stacked)}\n")
        tree.write("options/func-no-repeats", f"{int(merged)}\n")
    elif stacked:
        tree.write("set_ftrace_filter", "*:stacktrace\n", append=True)
    tree.write("tracing_on", "1\n")
    tree.write("current_tracer", f"{tracer}\n")
    until("calls", lambda: tree.read("trace").count("\n") > 300 and (not stacked or "=>" in tree.read("trace")))
    tree.write("tracing_on", "0\n")


def text(case):
    """Each tracer, with each option: header and columns are the kernel's, and each text is in its form."""
    with mounted(case) as (_, tree):
        before = None
        for tracer, options, kernel in sections():
            name, merged = " ".join([tracer, *options]), "func-no-repeats" in options
            stacked = any(line.endswith("<stack trace>") for line in kernel)
            if (tracer, stacked, merged) != before:
                record(tree, tracer, stacked, merged)
                before = tracer, stacked, merged
            set_options(tree, options, False)
            ours = tree.read("trace").splitlines()[:300]
            set_options(tree, options, True)
            expect(header(ours) == header(kernel), f"{name}: header\n" + "\n".join(header(ours)) + "\nnot\n" + "\n".join(header(kernel)))
            check_events(name, tracer, options, events(kernel), events(ours))
            for lines in (kernel, ours):
                expect(not stacked or any(len(stack) > 1 for stack in stacks(lines)), f"{name}: no stack is whole: {lines[:30]}")
        tree.write("options/func_stack_trace", "0\n")


SINGLE = {"tracefs-kernel-text": native(text)}

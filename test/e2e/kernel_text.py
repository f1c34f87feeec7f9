"""The text of the tree's `trace` is laid out as the kernel's, which test/kernel/text.py has taken from kernels in a virtual machine."""
import os
import re

from harness import expect, until
from tracefs import mounted, native
from tracefs_details import shown

KERNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../kernel")
# Lines of events whose fields stand at fixed places: the places of these letters.
MARKS = {"function": r"[\[\]:]", "function_graph": r"\|"}
# Those that have none, by option: the line.
WHOLE = {"raw": r"\d+ \d+ \d+ [0-9a-f]+ [0-9a-f]+", "hex": r"[0-9a-f]{8} [0-9a-f]{8} [0-9a-f]{16} [0-9a-f]{16} [0-9a-f]{16} ", "nocontext-info": r"\w+ <-\w+",
         "nofuncgraph-duration": r" \d\) +(\w+\(\)[;{]|\w+\(\) \{|\})"}
FLAGS = r"(?<=\d)[.dDbB][.nNpPlLB][.hHsSzZ][.\da-f]{2}(?= )"  # behind the CPU, in latency-format
REPEATED = r"|\d+ \d+ \d+ \d+ \d+ \d+ \d+"  # in raw, with func-no-repeats
TEXTS = {"func-no-repeats": r" \(repeats: \d+, last_ts: *\d+\.\d{6}\)$", "funcgraph-overrun": r"^ \(Overruns: 0\)$", "sym-offset": r": \w+\+0x0/0x[0-9a-f]+ <-\w+\+0x[0-9a-f]+(/0x[0-9a-f]+)?$", "sym-addr": r": \w+ <[0-9a-f]{16}> <-\w+ <[0-9a-f]{16}>$", "noprint-parent": r": \w+$",
         "record-tgid": r" \((-{7}| *\d+)\) \[", "latency-format": r"us[ +!#*@$]: \w+ <-\w+$|ms\): \w+ <-\w+$|\d\)  [.\d]{5} \| |\|  [.\d]{5} \| ", "funcgraph-tail": r"\} /\* \w+ \*/$", "funcgraph-abstime": r"^ *\d+\.\d{6} \|  ", "verbose": r"\w+ <-\w+$"}


def sections(name):
    """[tracer, options, lines] of the kernel's text, in its order."""
    with open(os.path.join(KERNEL, name), encoding="utf-8") as file:
        for part in file.read().replace("$\n", "\n").split("@@@ ")[1:]:
            head, *lines = part.splitlines()
            if head.split()[0] in MARKS:
                yield head.split()[0], head.split()[1:], lines


def header(lines):
    """The lines in front of the first event, without numbers and what a kernel is called."""
    text = [re.sub(r"\d+", "9", re.sub(r" on \S+$", " on KERNEL", re.sub(r"M:[\w()]+", "M:x", line))) for line in lines
            if line.startswith("#") and not re.match(r"# +[\d.]+ us", line)]  # a long call has a # in front, too
    expect(text and text[0].startswith("# tracer: "), text)
    return text


def events(lines):
    """Lines of events; those of stacks, and what tells that a CPU has another task, are none."""
    return [line for line in lines if line and not line.startswith(("#", " => ", " ---")) and " => " not in line.replace("     =>     ", " => ")]


def places(line, letters):
    return tuple((found.start(), found[0]) for found in list(re.finditer(letters, line))[:3])


def check_columns(name, tracer, options, kernel, ours):
    letters = MARKS[tracer]
    if tracer == "function" and "latency-format" in options:  # the time has as many digits as it needs
        letters = r"\[" if "verbose" in options else r"\.{5}"
        kernel = [re.sub(FLAGS, ".....", line) for line in kernel]
    kernel, ours = ([re.sub(r" \[[A-Za-z]\w*\](?=[,)])", "", line) for line in lines] for lines in (kernel, ours))  # no enumerators' names
    wanted, got = ({places(line, MARKS["function"] if line.endswith("<stack trace>") else letters) for line in lines
                    if not line.startswith(" (Overruns: ")} for lines in (kernel, ours))
    expect(got <= wanted, f"{name}: columns {got - wanted}, not {wanted}:\n" + "\n".join(kernel[:3] + ours[:3]))


def check_whole(name, whole, kernel, ours):
    for lines in (kernel, ours):
        strange = [line for line in lines if not re.fullmatch(whole, line)]
        expect(not strange, f"{name}: {strange[:3]}")


def check_events(name, tracer, options, kernel, ours):
    whole = next((WHOLE[option] for option in options if option in WHOLE), None)
    expect(kernel and ours, f"{name}: there are no events: {kernel} {ours}")
    if whole:
        check_whole(name, whole + REPEATED * ("func-no-repeats" in options), kernel, ours)
        return
    check_columns(name, tracer, options, kernel, ours)
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
        for tracer, options, kernel in sections("kernel-text.txt"):
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


# Options that are about what is recorded, not about how it is shown.
RECORDED = ("func-args", "funcgraph-args", "funcgraph-retval", "funcgraph-retaddr")
# Functions with values of which the kernel shows something else, by intention (doc/tracefs.md): floating-point numbers, structures.
OTHERWISE = r"\bgive_(half|point)\b"
ARGUMENT = r"\w+=(0x[0-9a-f]+|-?\d+( \[\w+\])?)"
ARGUMENTS = rf"\({ARGUMENT}(, {ARGUMENT})*(, \.\.\.)?\)"
FORMS = ((ARGUMENTS, "(ARGUMENTS)"), (r"\+0x[0-9a-f]+/0x[0-9a-f]+", "+OFFSET"), (r" <[0-9a-f]{16}>", " <ADDRESS>"), (r" ret=0x[0-9a-f]+(?= )", " ret=HEX"),
         (r" ret=-\d+(?= )", " ret=-ERROR"), (r"^\w+(?=[( +]|$)", "NAME"), (r"<-\w+", "<-NAME"), (r"(?<=/\* )\w+(?= )", "NAME"))


def form(line, tracer, options):
    """What is behind the columns, without names and numbers."""
    if "nocontext-info" in options:
        text = line.lstrip()
    elif tracer == "function":
        text = line.split(": ", 1)[1]
    else:
        text = re.sub(r"^ *\d+\) ", "", line.rsplit("|  ", 1)[-1]).lstrip()
    for pattern, told in FORMS:
        text = re.sub(pattern, told, text)
    return text


def check_forms(name, tracer, options, kernel, ours):
    """Each of our lines is in a form that the kernel's lines have, and with values of calls there are such ones."""
    wanted, got = ({form(line, tracer, options) for line in lines if not re.search(OTHERWISE, line)} for lines in (kernel, ours))
    expect(got <= wanted, f"{name}: forms\n" + "\n".join(sorted(got - wanted)) + "\nare none of\n" + "\n".join(sorted(wanted)))
    for option, mark in (("args", "(ARGUMENTS)"), ("retval", " ret=HEX"), ("retaddr", "/* <-NAME+OFFSET")):
        if any(chosen.endswith("-" + option) for chosen in options):
            expect(all(any(mark in text for text in texts) for texts in (wanted, got)), f"{name}: no line has {mark}: {wanted} {got}")
    if options == ["funcgraph-args"]:  # the longest text: there are arguments of each kind
        for kind in (r"=0x[0-9a-f]+[,)]", r"=\d+[,)]", r"=\d+ \[[A-Z_]+\][,)]", r", \.\.\.\)", r"\w\(\)"):
            for lines in (kernel, ours):
                expect(any(re.search(kind, line) for line in lines), f"{name}: nothing is like {kind}")


def values(case):
    """The options that show values of calls, with others: header, columns and the form of each line are the kernel's."""
    with shown(case) as tree:
        before = None
        for tracer, options, kernel in sections("kernel-values.txt"):
            name, kept = " ".join([tracer, *options]), [option for option in options if option in RECORDED]
            more = [option for option in options if option not in RECORDED]
            if (tracer, kept) != before:
                tree.write("current_tracer", "nop\n")
                set_options(tree, before[1] if before else [], True)
                set_options(tree, kept, False)
                record(tree, tracer, False, False)
                before = tracer, kept
            set_options(tree, more, False)
            ours = tree.read("trace").splitlines()[:300]
            set_options(tree, more, True)
            expect(header(ours) == header(kernel), f"{name}: header\n" + "\n".join(header(ours)) + "\nnot\n" + "\n".join(header(kernel)))
            kernel, ours = events(kernel), events(ours)
            expect(kernel and ours, f"{name}: there are no events: {kernel} {ours}")
            if "raw" in more or "hex" in more:
                check_whole(name, WHOLE[more[0]], kernel, ours)
                continue
            if "nocontext-info" not in more:  # which has no columns
                check_columns(name, tracer, options, kernel, ours)
            check_forms(name, tracer, options, kernel, ours)


SINGLE = {"tracefs-kernel-text": native(text), "tracefs-kernel-values": native(values)}

"""The filters of `calltap mount`'s tree: grammar, libraries, commands, as the kernel's (tracefs.py has the other files)."""
import errno
import os
import re
import sys
import time

from harness import expect, until
from steer import calltap, own_place
from steering import Program, left_alone
from tracefs import ALL, NONE, Tree, body_of, mounted, native, settings


def filters(case):
    """The kernel's grammar: globs, numbers, `!`, `:mod:`, O_TRUNC and append, and when an error is told."""
    with mounted(case) as (program, tree):
        lines = tree.read("available_filter_functions").splitlines()
        names = [line.split(" ")[0] for line in lines]
        expect(len(names) > 10 and {"leaf_1", "leaf_2", "recurse", "once"} <= set(names), f"available: {names}")
        expect(lines == tree.read("available_filter_functions").splitlines(), "the order has changed")
        expect([tree.read(name) for name in ("set_ftrace_filter", "set_ftrace_notrace", "set_graph_function", "set_graph_notrace")]
               == [ALL, NONE, ALL, NONE], "the texts of the empty lists")

        def shows(wanted, file="set_ftrace_filter"):
            found = tree.read(file)
            in_order = [line for line in lines if line.split(" ")[0] in wanted]
            expect(found.splitlines() == in_order, f"{file} shows {found!r}, not {in_order}")

        tree.write("set_ftrace_filter", "leaf_*\n")
        shows({"leaf_1", "leaf_2", "leaf_3"})
        expect(settings(case, program)["trace"] == ["leaf_*"], f"{settings(case, program)}")
        tree.write("set_ftrace_filter", "rec?rse\tonce\n", append=True)
        shows({"leaf_1", "leaf_2", "leaf_3", "recurse", "once"})
        tree.write("set_ftrace_filter", "!leaf_[12]\n", append=True)
        shows({"leaf_3", "recurse", "once"})
        tree.write("set_ftrace_filter", "!once\n", append=True)
        shows({"leaf_3", "recurse"})
        number = names.index("leaf_2") + 1
        tree.write("set_ftrace_filter", f"{number}\n")
        shows({"leaf_2"})
        for text in ("0\n", "99999\n", "1x\n", "no_such\n", "!no_such\n", "leaf_1:no_such\n", "!*:mod:no_such\n", "*:mod:[\n", "leaf_[\n"):
            tree.refuses(errno.EINVAL, "set_ftrace_filter", text, append=True)
        shows({"leaf_2"})
        # A token that no blank follows is looked at when the file is closed, where nobody is told of its error.
        tree.write("error_log", "\n")
        tree.write("set_ftrace_filter", "no_such", append=True)
        expect("Command: no_such\n" in tree.read("error_log"), "the error is not in error_log")
        tree.write("set_ftrace_filter", "leaf_1", append=True)
        shows({"leaf_1", "leaf_2"})
        # Several writes are one list; nothing is changed before the file is closed.
        fd = os.open(tree.path("set_ftrace_filter"), os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"rec")
        os.write(fd, b"urse ta")
        shows({"leaf_1", "leaf_2"})
        os.write(fd, b"il\n")
        os.close(fd)
        shows({"recurse", "tail"})
        # With O_TRUNC the list is empty, whatever comes of the token.
        tree.refuses(errno.EINVAL, "set_ftrace_filter", "no_such\n")
        expect(tree.read("set_ftrace_filter") == ALL, "the list is not empty")
        tree.write("set_ftrace_notrace", "leaf_*\n")
        shows({"leaf_1", "leaf_2", "leaf_3"}, "set_ftrace_notrace")
        calltap(case, "set", program.pid, "notrace=", "trace=tail", "trace+=recurse")
        shows({"tail", "recurse"})
        expect(tree.read("set_ftrace_notrace") == NONE, "notrace is not empty")
        tree.write("set_graph_function", "once\n")  # with the tracer nop, which has no trees
        shows({"once"}, "set_graph_function")
        tree.refuses(errno.EINVAL, "set_graph_function", f"{number}\n", append=True)
        tree.write("current_tracer", "function_graph\n")
        shows({"once"}, "set_graph_function")
        expect(settings(case, program)["graph"] == ["once"], f"{settings(case, program)}")
        recorded = {line.split(" ")[0] for line in tree.read("enabled_functions").splitlines()}
        expect(recorded == {"once", "tail", "recurse"}, f"enabled: {recorded}")
        tree.write("set_graph_function", "\n")
        tree.write("set_graph_notrace", "leaf_3\n")
        expect(settings(case, program)["no-graph"] == ["leaf_3"], f"{settings(case, program)}")
        tree.write("current_tracer", "nop\n")
        shows({"leaf_3"}, "set_graph_notrace")


def command_words(case):
    """Commands of set_ftrace_filter: what is taken and refused, and how they are listed and taken away."""
    file = "set_ftrace_filter"
    with mounted(case) as (program, tree):
        tree.write("tracing_on", "0\n")
        tree.write(file, "leaf_[12]:traceoff:0x3 once:stacktrace\n")
        listed = "leaf_1:traceoff:count=3\nleaf_2:traceoff:count=3\nonce:stacktrace:unlimited\n"
        expect(tree.read(file) == ALL + listed, tree.read(file))
        tree.write(file, "recurse\n")  # they stay, whatever becomes of the filters; and what is there keeps its count
        tree.write(file, "leaf_1:traceoff:7 leaf_1:traceoff\n", append=True)
        listed += "leaf_1:traceoff:unlimited\n"
        expect(tree.read(file) == "recurse\n" + listed, tree.read(file))
        for text in ("leaf_1:traceoff:x\n", "leaf_1:traceoff:-1\n", "leaf_1:no_such\n", "no_such:traceoff\n", "!leaf_3:traceoff\n",
                     "!once:stacktrace:0\n", "!leaf_2:traceoff\n", "leaf_1:mod\n", ":traceoff\n", "[:traceoff\n"):
            tree.refuses(errno.EINVAL, file, text, append=True)
        for other in ("set_ftrace_notrace", "set_graph_function", "set_graph_notrace"):
            tree.refuses(errno.EINVAL, other, "leaf_1:traceoff\n", append=True)
        expect(tree.read(file) == "recurse\n" + listed, tree.read(file))
        os.mkdir(tree.path("instances/a"))
        tree.write("instances/a/" + file, "leaf_3:snapshot:2\n")
        expect(tree.read("instances/a/" + file) == ALL + "leaf_3:snapshot:count=2\n", tree.read("instances/a/" + file))
        expect("instance:     a.commands\n" in calltap(case, "status", program.pid), "the instance of the commands")
        os.rmdir(tree.path("instances/a"))
        tree.write(file, "!leaf_1:traceoff !once:stacktrace\n", append=True)
        expect(tree.read(file) == "recurse\nleaf_1:traceoff:count=3\nleaf_2:traceoff:count=3\n", tree.read(file))
        tree.write(file, "!*:traceoff:0\n", append=True)
        expect(tree.read(file) == "recurse\n", tree.read(file))
        expect("commands" not in calltap(case, "status", program.pid), "there are instances without commands")


def command_deeds(case):
    """What commands do: in the text they take effect at the call, whatever the tracer and the filters are."""
    file = "set_ftrace_filter"

    def lines():
        return [line.split("|  ")[1] for line in tree.read("trace").splitlines() if "|  " in line]

    with mounted(case) as (_, tree):
        tree.write(file, "once leaf_*\n")
        tree.write("current_tracer", "function_graph\n")
        tree.write("tracing_on", "0\n")
        tree.write(file, "leaf_2:traceoff:3\n", append=True)
        for left in (2, 1, 0):
            tree.write("trace", "\n")
            tree.write("tracing_on", "1\n")
            until("the end", lambda: tree.read("tracing_on") == "0\n")
            expect(f"leaf_2:traceoff:count={left}\n" in tree.read(file), tree.read(file))
            # The call of leaf_2 lies between this instance's record of it and its neighbours.
            expect(lines()[-1].strip() in ("leaf_1();", "leaf_2() {"), f"the last lines are {lines()[-4:]}")
            # A call that was on its way when tracing ended, and not farther when it began again, ends in front of that.
            shown = "\n".join(lines()).rpartition("} /* once */")[2]
            expect(shown.count("leaf_2") <= 1 and "leaf_3" not in shown, f"{lines()}")
        tree.write("trace", "\n")
        tree.write("tracing_on", "1\n")
        until("calls", lambda: tree.read("trace").count("leaf_3") > 5)
        expect(tree.read("tracing_on") == "1\n", "a count of 0 has stopped it")
        tree.write("tracing_on", "0\n")
        tree.write("trace", "\n")
        tree.write(file, "recurse:traceon:1\n", append=True)  # of a function that is not recorded
        until("calls", lambda: tree.read("trace").count("leaf_3") > 5)
        expect("recurse:traceon:count=0\n" in tree.read(file), tree.read(file))
        tree.write(file, "leaf_3:stacktrace:2\n", append=True)
        stack = ": <stack trace>\n => leaf_3\n => once\n"
        until("stacks", lambda: tree.read("trace").count(stack) == 2)
        expect("leaf_3:stacktrace:count=0\n" in tree.read(file), tree.read(file))
        tree.write("current_tracer", "nop\n")
        expect(body_of(tree.read("snapshot"), "# tracer: nop\n#\n")[1] == "# * Snapshot is freed *", "there is a snapshot")
        tree.write(file, "leaf_3:stacktrace:5 !leaf_3:stacktrace:0 leaf_3:stacktrace:1\n", append=True)
        until("a stack", lambda: re.search(r": <stack trace>\n => leaf_3\n => once\n", tree.read("trace")))
        tree.write("trace_marker", "before\n")
        tree.write(file, "tail:snapshot:1\n", append=True)
        until("the snapshot", lambda: "before" in tree.read("snapshot"))
        expect("before" not in tree.read("trace") and "tail:snapshot:count=0\n" in tree.read(file), "the snapshot has changed nothing")


def modules(case):
    """`:mod:` of a library that nothing has named so far, of the tree's own and in an instance."""
    own_place(case)
    with Program(case, "1", sites=False) as program, left_alone(program), Tree(case, program) as tree:
        for place in ("instances/a/", ""):
            if place:
                os.mkdir(tree.path(place))
            expect(place == "" or "[libc.so.6]" not in tree.read("available_filter_functions"), "the library is known already")
            tree.refuses(errno.EINVAL, place + "set_ftrace_filter", "no_such:mod:libc.so.6\n")
            tree.write(place + "set_ftrace_filter", "!*:mod:libc.so.6\n")
            expect(tree.read(place + "set_ftrace_filter") == ALL, "what was not there is taken away")
            tree.write(place + "set_ftrace_filter", ":mod:libc.so.6\n")
            found = tree.read(place + "set_ftrace_filter").splitlines()
            expect(len(found) > 500 and all(line.endswith(" [libc.so.6]") for line in found), f"{len(found)}: {found[:3]}")
            tree.write(place + "set_ftrace_filter", "usleep:mod:libc.*\n")
            expect(tree.read(place + "set_ftrace_filter") == "usleep [libc.so.6]\n", tree.read(place + "set_ftrace_filter"))
            tree.write(place + "current_tracer", "function_graph\n")
            until("calls of the library", lambda place=place: "usleep [libc.so.6]()" in tree.read(place + "trace"))
            tree.write(place + "set_ftrace_filter", "!usleep:mod:libc.so.6\n", append=True)
            expect(tree.read(place + "set_ftrace_filter") == ALL, "the filter is still there")
            tree.write(place + "current_tracer", "nop\n")
        tree.end()


LOADER = """
import ctypes, os, sys, time
print("ready", os.getpid(), flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
library = ctypes.CDLL(sys.argv[1])
while True:
    library.library_answer(14)
    time.sleep(0.01)
"""


def waiting_modules(case):
    """A filter of a library that is not loaded waits for it, and is listed; nobody is refused for it later."""
    own_place(case)
    library, sign = case.program("library.c", sites=False), os.path.join(case.folder, "load")
    name = os.path.basename(library)
    with Tree(case, None, command=[sys.executable, "-c", LOADER, library, sign]) as tree:
        tree.write("set_ftrace_filter", f"*_answer:mod:{name} *:mod:no_such.so no_such:mod:no_such.so\n")
        shown = f"*_answer:mod:{name}\n*:mod:no_such.so\nno_such:mod:no_such.so\n"
        expect(tree.read("set_ftrace_filter") == shown, tree.read("set_ftrace_filter"))
        tree.write("current_tracer", "function_graph\n")
        until("the program", lambda: "ready " in tree.said())
        pid = int(re.search(r"ready (\d+)", tree.said())[1])
        calltap(case, "set", pid, "max-depth=5")  # what waits is no error of other settings, and no licence for other filters
        expect("matches 'typo:x'" in calltap(case, "set", pid, "trace+=typo:x", status=1), "a filter that matches nothing")
        tree.write("set_ftrace_filter", "!no_such:mod:no_such.so\n", append=True)
        tree.refuses(errno.EINVAL, "set_ftrace_filter", "!no_such:mod:no_such.so\n", append=True)
        expect(tree.read("set_ftrace_filter") == shown[:shown.index("no_such:")], tree.read("set_ftrace_filter"))
        with open(sign, "wb"):
            pass
        until("calls of the library", lambda: f"library_answer [{name}]()" in tree.read("trace"))
        expect(tree.read("set_ftrace_filter") == f"library_answer [{name}]\n*:mod:no_such.so\n", tree.read("set_ftrace_filter"))
        tree.write("set_ftrace_filter", f"!library_answer:mod:{name}\n", append=True)
        expect(tree.read("set_ftrace_filter") == "*:mod:no_such.so\n", tree.read("set_ftrace_filter"))
        tree.write("set_ftrace_filter", "!*:mod:no_such.so\n", append=True)
        expect(tree.read("set_ftrace_filter") == ALL, tree.read("set_ftrace_filter"))
        tree.end(status=None)


def threads(case):
    """Threads whose events are kept or left out, and whose processes they are."""
    def tids():
        return set(re.findall(r"^ *attachee-(\d+) .* <-work$", tree.read("trace"), re.M))

    with mounted(case, arguments=("3",)) as (program, tree):
        expect(tree.read("timestamp_mode") == "[delta] absolute\n", "timestamp_mode")
        expect(tree.read("set_ftrace_notrace_pid") == tree.read("set_ftrace_pid") == "no pid\n", "there are threads at first")
        tree.write("set_ftrace_filter", "once\n")
        tree.write("current_tracer", "function\n")
        until("three threads", lambda: len(tids()) == 3)
        found = sorted(tids())
        known = dict(line.split() for line in tree.read("saved_tgids").splitlines())
        expect(all(known.get(tid) == str(program.pid) for tid in found), f"{known}")
        for file, written, left in (("set_ftrace_notrace_pid", found[0], set(found[1:])),
                                    ("set_ftrace_pid", found[0] + " " + found[1], {found[1]})):
            tree.write(file, written + "\n")
            expect(tree.read(file).split() == written.split(), tree.read(file))
            until("only those", lambda left=left: tree.write("trace", "\n") or time.sleep(0.2) or tids() == left)
        tree.write("set_ftrace_pid", "\n")
        tree.refuses(errno.EINVAL, "set_ftrace_notrace_pid", "1x\n", append=True)
        tree.write("set_ftrace_notrace_pid", found[1] + "\n", append=True)
        until("the third one", lambda: tree.write("trace", "\n") or time.sleep(0.2) or tids() == {found[2]})
        tree.write("set_ftrace_notrace_pid", "\n")
        until("all", lambda: tids() == set(found))


SINGLE = {
    "tracefs-threads": threads,
    "tracefs-filters": filters,
    "tracefs-modules": modules,
    "tracefs-waiting-modules": waiting_modules,
    "tracefs-command-words": command_words,
    "tracefs-command-deeds": command_deeds,
}
SINGLE = {name: native(test) for name, test in SINGLE.items()}

"""Options of the tree of `calltap mount`: each changes the text as the kernel's does, column by column."""
import errno
import json
import os
import re
import select
import subprocess
import sys
import time

from harness import expect, until
from tracefs import CALL_LINE, HEADER, body_of, mounted, native

# What is written before a mark and eight bytes of data, with which options.
SETS = ["", "raw", "hex", "bin", "verbose", "latency-format", "latency-format verbose", "latency-format raw", "printk-msg-only",
        "sym-addr", "nocontext-info", "nocontext-info raw", "nocontext-info hex", "nocontext-info bin",
        "nocontext-info latency-format", "raw hex", "raw hex bin", "verbose noirq-info", "bin printk-msg-only"]
MARKS = [("trace_marker", b"a mark\n"), ("trace_marker_raw", b"\x2a\0\0\0abcdefgh")]


def put(place, name, data):
    with open(os.path.join(place, name), "wb", buffering=0) as file:
        file.write(data)


def texts_of(place):
    """{options: text of `trace`} of a tree: the kernel's, or a program's."""
    found = {}
    for options in SETS:
        for option in options.split():
            put(place, "trace_options", option.encode())
        put(place, "trace", b"\n")
        for name, data in MARKS:
            put(place, name, data)
        with open(os.path.join(place, "trace"), "rb", buffering=0) as file:
            found[options] = file.read(1 << 16).decode("latin-1")
        for option in options.split():
            put(place, "trace_options", (option[2:] if option.startswith("no") else "no" + option).encode())
    return found


def ask_kernel():
    """Prints the same of the kernel of this machine, from an instance of its own."""
    place = os.path.join(sys.argv[1], "instances", "calltap-options")
    os.mkdir(place)
    try:
        print(json.dumps(list_files(sys.argv[1]) if sys.argv[2] == "list" else texts_of(place)))
    finally:
        os.rmdir(place)


def list_files(place):
    """{file: its mode} of the top, an instance, a CPU and the folders beside them."""
    folders = ("", "instances/calltap-options", "per_cpu/cpu0", "options", "events/ftrace", "events/ftrace/function")
    return {os.path.join(folder, name): os.stat(os.path.join(place, folder, name)).st_mode & 0o777
            for folder in folders for name in os.listdir(os.path.join(place, folder))}


def of_kernel(case, what):
    """{} where it may not be asked: its tracefs is mounted for this alone."""
    place = os.path.join(case.folder, "kernel")
    os.makedirs(place, exist_ok=True)
    script = 'mount -t tracefs nodev "$1" && exec "$2" "$3" "$1" "$4"'
    asked = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", place, sys.executable, os.path.abspath(__file__), what],
                           capture_output=True, text=True, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    return json.loads(asked.stdout) if asked.returncode == 0 else {}


def alike(text, options):
    """A text without what differs: names, ids, times, addresses, what the kernel knows of itself.  Widths stay."""
    text = re.sub(r"written: \d+/\d+   #P:\d+", "written: N/N   #P:N", text)
    text = re.sub(r"v1\.1\.5 on \S+", "v1.1.5 on R", text)
    text = re.sub(r"\(M:\S+ VP:0, KP:0, SP:0 HP:0 #P:\d+\)", "(M:m VP:0, KP:0, SP:0 HP:0 #P:N)", text)
    text = re.sub(r"f{8}[0-9a-f]{8}", "ADDRESS", text)
    text = text.replace("type: 19\n", "type: 18\n")  # raw_data, since Linux 6.13
    if "bin" in options:  # pid, cpu and time
        size = 0 if "nocontext-info" in options else 16
        return re.sub(r"(?s).{%d}(type: \d+\n)" % size, r"{%d}\1" % size, text)
    text = re.sub(r"^[0-9a-f]{8} [0-9a-f]{8} [0-9a-f]{16} ", "PID CPU TIME ", text, flags=re.M)
    text = re.sub(r"^\d+ \d \d{10,} ", "PID CPU TIME ", text, flags=re.M)
    text = re.sub(r"^ +(\S{1,16}) +\d+ +\d 0 0000000\d (\d{8}) \[[0-9a-f]{8,}\] \d+\.\d{3}ms \(\+\d+\.\d{3}ms\): ", r"TASK \2: ", text, flags=re.M)
    text = re.sub(r"^ {0,8}\S{1,8}-\d+ {1,7} {2,}\d\S{5} {1,5}\d+us[ +!#*@$]: ", "TASK: ", text, flags=re.M)
    text = re.sub(r"^ {0,16}\S{1,16}-\d+ {1,7}\[\d{3}\] [.\w]{5} {1,5}\d+\.\d{6}: ", "LONG TASK: ", text, flags=re.M)
    return re.sub(r"^ {0,16}\S{1,16}-\d+ {1,7}\[\d{3}\]  {1,5}\d+\.\d{6}: ", "BARE TASK: ", text, flags=re.M)


# What Linux 6.18 prints, where it cannot be asked: what follows the header of each.
LATENCY = """# tracer: nop
#
# nop latency trace v1.1.5 on R
# --------------------------------------------------------------------
# latency: 0 us, #2/2, CPU#0 | (M:m VP:0, KP:0, SP:0 HP:0 #P:N)
#    -----------------
#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)
#    -----------------
#
"""
COLUMNS = r"""#                    _------=> CPU#           ~
#                   / _-----=> irqs-off/BH-disabled
#                  | / _----=> need-resched   ~
#                  || / _---=> hardirq/softirq~
#                  ||| / _--=> preempt-depth  ~
#                  |||| / _-=> migrate-disable~
#                  ||||| /     delay          ~
#  cmd     pid     |||||| time  |   caller    ~
#     \   /        ||||||  \    |    /      ~
""".replace("~", " ")
BYTES = "# 2a buf: 61 62 63 64 65 66 67 68\n"
PLAIN, NONE = HEADER.format(tracer="nop"), "# tracer: nop\n#\n"
EXPECTED = {
    "": PLAIN + "LONG TASK: tracing_mark_write: a mark\nLONG TASK: " + BYTES,
    "raw": PLAIN + "PID CPU TIME # ADDRESS a mark\nPID CPU TIME " + BYTES,
    "hex": PLAIN + "PID CPU TIME type: 5\n\nPID CPU TIME type: 18\n\n",
    "bin": PLAIN + "{16}type: 5\n{16}type: 18\n",
    "verbose": NONE + "LONG TASK: tracing_mark_write: a mark\nLONG TASK: " + BYTES,
    "latency-format": LATENCY + COLUMNS + "TASK: tracing_mark_write: a mark\nTASK: " + BYTES,
    "latency-format verbose": LATENCY + "TASK 00000000: tracing_mark_write: a mark\nTASK 00000001: " + BYTES,
    "nocontext-info raw": NONE + "# ADDRESS a mark\n" + BYTES,
    "nocontext-info bin": NONE + "{0}type: 5\n{0}type: 18\n",
}


def formats(case):
    """raw, hex, bin, verbose and latency-format, alone and together, of marks: as the kernel of this machine prints them."""
    kernel = of_kernel(case, "texts")
    with mounted(case) as (_, tree):
        found = texts_of(tree.place)
    for options in SETS:
        text = alike(found[options], options)
        if options in EXPECTED:
            expect(text == EXPECTED[options], f"{options!r}: {text!r}, not {EXPECTED[options]!r}")
        if options in kernel:
            wanted = alike(kernel[options], options)
            expect(text == wanted, f"{options!r}: {text!r}, and the kernel's {wanted!r}")


def calls(case):
    """The same of calls; and what function_graph prints with latency-format."""
    with mounted(case) as (program, tree):
        places = {name: int(address, 16) for address, _, name in (line.split()[:3] for line in tree.read("kallsyms").splitlines())}
        tree.write("set_ftrace_filter", "leaf_1\n")
        tree.write("current_tracer", "function\n")
        until("calls", lambda: tree.read("trace").count("leaf_1") > 5)
        tree.write("tracing_on", "0\n")
        plain = [CALL_LINE.match(line) for line in body_of(tree.read("trace"), HEADER.format(tracer="function"))]
        leaf = places["leaf_1"]
        tree.write("options/raw", "1\n")
        lines = [line.split() for line in body_of(tree.read("trace"), HEADER.format(tracer="function"))]
        expect([(line[0], int(line[2]) // 1000) for line in lines] == [(line[2], round(float(line[4]) * 1e6)) for line in plain], f"{lines[:3]}")
        expect(all(int(line[3], 16) == leaf and abs(int(line[4], 16) - leaf) < 65536 for line in lines), f"{lines[:3]}, {leaf:x}")
        tree.write("options/hex", "1\n")
        shown = body_of(tree.read("trace"), HEADER.format(tracer="function"))
        expect(shown == ["%08x %08x %016x %016x %016x " % (int(pid), int(cpu), int(ns), int(to, 16), int(caller, 16))
                         for pid, cpu, ns, to, caller in lines], f"{shown[:3]}")
        tree.write("options/bin", "1\n")
        with open(tree.path("trace"), "rb", buffering=0) as file:
            binary = b"".join(iter(lambda: file.read(1 << 16), b"")).split(b"|||||     |         |\n")[1]
        expect(binary == b"".join(int(word, base).to_bytes(size, "little") for line in lines
                                  for word, base, size in zip(line, (10, 10, 10, 16, 16), (4, 4, 8, 8, 8))), f"{binary[:64]!r}")
        for option in ("raw", "hex", "bin"):
            tree.write("options/" + option, "0\n")
        tree.write("options/latency-format", "1\n")
        text = tree.read("trace")
        lines = re.findall(r"^ *(\w{1,8})-(\d+) {1,7} {2,}(\d)\.{5} {1,5}(\d+)us([ +!#*@$]): leaf_1 <-\w+$", text, re.M)
        expect(text.startswith("# tracer: function\n#\n# function latency trace v1.1.5 on ") and len(lines) == len(plain), text[:2000])
        times = [int(line[3]) for line in lines]
        expect(times == sorted(times) and lines[-1][4] == " ", f"{lines}")
        for before, after, line in zip(times, times[1:], lines):
            # The mark is made of the difference in nanoseconds, cut to whole microseconds.
            expect((line[4] == " ") == (after - before < 11) or abs(after - before - 10) <= 1, f"{line}, {after - before} us")
        tree.write("tracing_on", "1\n")
        with open(tree.path("trace_pipe"), "rb", buffering=0) as file:
            first = file.read(1 << 16).decode().splitlines()[0]
        expect(re.match(r" *\w{1,8}-\d+ +\d\.{5} +\d+us[ +!#*@$]: leaf_1 <-\w+$", first), f"{first!r}")
        tree.write("current_tracer", "function_graph\n")
        expect(tree.read("trace").startswith("# tracer: function_graph\n#\n"), "the header")
        until("calls", lambda: tree.read("trace").count("leaf_1();") > 5)
        lines = tree.read("trace").splitlines()
        expect(lines[9:16] == ["#      _-----=> irqs-off        ", "#     / _----=> need-resched    ", "#    | / _---=> hardirq/softirq ",
                               "#    || / _--=> preempt-depth   ", "#    ||| /                      ",
                               "# CPU||||     DURATION                  FUNCTION CALLS", "# |  ||||      |   |                     |   |   |   |"], f"{lines[:18]}")
        expect(all(re.match(r" +\d+\)  \.\.\.\.\. \| [ +!#*@$] [\d.]{5,8} us +\|  leaf_1\(\);$", line) for line in lines[16:20]), f"{lines[16:20]}")


def pauses(case):
    """pause-on-trace: nothing is kept while somebody reads `trace`; the program goes on, and so does recording."""
    with mounted(case) as (_, tree):
        tree.write("set_ftrace_filter", "leaf_1\n")
        tree.write("current_tracer", "function\n")
        tree.write("options/pause-on-trace", "1\n")
        spans = []
        for _ in range(3):
            until("calls", lambda: tree.read("trace").count("leaf_1") > 5)
            first = os.open(tree.path("trace"), os.O_RDONLY)
            second = os.open(tree.path("per_cpu/cpu0/trace"), os.O_RDONLY)
            began = time.monotonic()
            expect(tree.read("tracing_on") == "1\n", "tracing_on has changed")
            tree.refuses(errno.EBADF, "trace_marker", "x\n")
            os.close(first)
            time.sleep(0.2)
            spans.append((began, time.monotonic()))
            os.close(second)
            until("recording", lambda: takes_marks(tree))
        with open(tree.path("trace"), "ab", buffering=0):  # no reader
            tree.write("trace_marker", "written\n")
        tree.write("tracing_on", "0\n")
        times = [float(line[4]) for line in map(CALL_LINE.match, tree.read("trace").splitlines()) if line]
        for began, ended in spans:
            expect(not any(began < at < ended for at in times), f"something was kept between {began} and {ended}")
            expect(any(at < began for at in times) and any(at > ended for at in times), "too little is kept")


def takes_marks(tree):
    """The close of a reader comes a moment later than its close()."""
    try:
        tree.write("trace_marker", "y\n")
    except OSError:
        return False
    return True


def small(case):
    """block: poll() of the pipes never waits.  record-cmd: no names without it.  Which options are listed when."""
    with mounted(case) as (_, tree):
        fd = os.open(tree.path("trace_pipe"), os.O_RDONLY | os.O_NONBLOCK)
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        expect(poller.poll(100) == [], "poll says that there is something")
        tree.write("trace_options", "block\n")
        expect([event & select.POLLIN for _, event in poller.poll(100)] == [select.POLLIN], "poll waits with block")
        os.close(fd)
        tree.write("trace_options", "noblock\n")
        tree.write("options/record-cmd", "0\n")
        tree.write("trace_marker", "unnamed\n")
        expect(re.search(r" <\.\.\.>-\d+ .*: unnamed\n", tree.read("trace")), tree.read("trace"))
        tree.write("options/record-cmd", "1\n")
        tree.write("trace_marker", "named\n")
        expect("<...>" not in tree.read("trace"), "there are no names")
        listed = {tracer: options_of(tree, tracer) for tracer in ("nop", "function", "function_graph")}
        everything = {name: "1" for name in os.listdir(tree.path("options"))}
        common = set(listed["nop"])
        expect(all(set(names) >= common for names in listed.values()) and "raw" in common, f"{listed}")
        expect(set().union(*listed.values()) == set(everything), f"{set(everything)} in options/")
        expect({name for name in listed["function_graph"] if name not in common} == {name for name in everything if name.startswith("funcgraph-")} | {"graph-time"},
               f"{listed['function_graph']}")


def options_of(tree, tracer):
    """The names that trace_options lists, and that options/ says the same."""
    tree.write("current_tracer", tracer + "\n")
    names = []
    for line in tree.read("trace_options").splitlines():
        name = line if os.path.exists(tree.path("options/" + line)) else line.removeprefix("no")
        names.append(name)
        expect(tree.read("options/" + name) == ("1\n" if name == line else "0\n"), f"{line}, and {name} is {tree.read('options/' + name)!r}")
    return names


STACK = re.compile(r"^.*: (\w+) <-(\S+)\n(.*): <stack trace>\n((?: => .*\n)+)", re.M)
USER_STACK = re.compile(r"^.*: (\w+) <-\S+\n.*: <user stack trace>\n((?: => .*\n)+)", re.M)


def stacks(case):
    """func_stack_trace: below each call the functions that its thread has open; userstacktrace: by their files."""
    with mounted(case) as (program, tree):
        tree.write("set_ftrace_filter", "leaf_1 leaf_3 recurse\n")
        tree.write("current_tracer", "function\n")
        tree.write("options/func_stack_trace", "1\n")
        for place in ("instances/other/",):
            os.mkdir(tree.path(place))
            tree.write(place + "options/func_stack_trace", "1\n")
            tree.write(place + "set_ftrace_filter", "leaf_2\n")
            tree.write(place + "current_tracer", "function\n")
            until("stacks", lambda place=place: len(STACK.findall(tree.read(place + "trace"))) > 20)
        tree.write("trace", "\n")
        until("stacks", lambda: len(STACK.findall(tree.read("trace"))) > 200 and len(STACK.findall(tree.read("instances/other/trace"))) > 20)
        tree.write("tracing_on", "0\n")
        text, deepest = tree.read("trace"), 0
        found = STACK.findall(text)
        expect(len(found) == text.count(" <-") == text.count(": <stack trace>"), "a call has no stack, or a stack no call")
        for name, caller, context, rest in found:
            lines = [line[4:] for line in rest.splitlines()]
            expect(lines[:2] == [name, caller], f"{name} <-{caller}: {lines}")
            expect(CALL_LINE.match(f"{context}: x <-y"), f"{context!r}")
            deepest = max(deepest, lines.count("recurse"))
            if name != "recurse" and caller == "once":
                expect(lines[2:] in (["work"], []), f"{name}: {lines}")  # [] where work() was left out by the compiler
            if name == "recurse":
                expect(lines[lines.count("recurse")] == "once", f"{lines}")
        expect(deepest > 1, "no stack is that of a recursion")
        tree.write("options/sym-offset", "1\n")
        expect(re.search(r" => leaf_1\+0x0/0x[0-9a-f]+\n => once\+0x[0-9a-f]+/0x[0-9a-f]+\n", tree.read("trace")), "no offsets")
        tree.write("options/sym-offset", "0\n")
        tree.write("options/func_stack_trace", "0\n")
        tree.write("options/userstacktrace", "1\n")
        tree.write("trace", "\n")
        tree.write("tracing_on", "1\n")
        until("stacks", lambda: len(USER_STACK.findall(tree.read("trace"))) > 20)
        tree.write("tracing_on", "0\n")
        numbers = USER_STACK.findall(tree.read("trace"))
        tree.write("options/sym-userobj", "1\n")
        names = USER_STACK.findall(tree.read("trace"))
        maps = [line.split() for line in open(f"/proc/{program.pid}/maps", encoding="utf-8")]
        expect(len(numbers) == len(names) and "<stack trace>" not in tree.read("trace"), "stacks of the other option")
        for (_, plain), (_, named) in zip(numbers, names):
            plain, named = plain.splitlines(), named.splitlines()
            expect(2 <= len(plain) == len(named) <= 8, f"{plain}, {named}")
            for line, shown in zip(plain, named):
                address = int(re.fullmatch(r" =>  <([0-9a-f]{16})>", line)[1], 16)
                low, path = next((int(words[0].split("-")[0], 16), words[5]) for words in maps
                                 if int(words[0].split("-")[0], 16) <= address < int(words[0].split("-")[1], 16))
                expect(shown == f" => {path}[+0x{address - low:x}]", f"{line}, {shown}")
        tree.write("current_tracer", "nop\n")


SINGLE = {
    "tracefs-func-stacks": stacks,
    "tracefs-formats": formats,
    "tracefs-format-of-calls": calls,
    "tracefs-pause": pauses,
    "tracefs-options": small,
}
SINGLE = {name: native(test) for name, test in SINGLE.items()}

if __name__ == "__main__":
    ask_kernel()

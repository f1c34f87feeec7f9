"""Values of calls: what --args and --result show is what the program has, and the program is none the worse for it."""
import json
import os
import random
import re
import signal
import time

from endings import finish, start, wait_for
from harness import Process, Skip, events_of, expect, stop, until

SHOWN = ["-A", "numbers:a=arg1:s32 b=arg2:u8 c=arg3:x64 d=arg4:u32", "-R", "numbers:ret:s32",
         "-A", "many arg6:u64 arg7:u64 h=arg8:s32 i=arg9:string", "-R", "many:$retval:u64",
         "-A", "text:s=arg1:string[40] first=+0(arg1):u8", "-R", "text:ret:string[15]",
         "-A", "thing number=+0($arg1):s32 name=+0(+8(arg1)):string within=+16(arg1):string", "-R", "thing:ret:s32"]
TWICE = ["-A", "twice:n=arg1:s32 s=arg2:string", "-R", "twice:ret:s32"]
EVERYWHERE = ["-A", "*:arg1 arg2:s32 text=arg3:string[20] +8(arg4):u16 arg8:u8", "-R", "*:ret text=ret:string[10]"]


def need(case):
    """Types tell where values lie on x86-64 only."""
    case.need_native("types")
    if os.uname().machine != "x86_64":
        raise Skip("types tell where values lie on x86-64 only")


def as_fetched(case, line):
    """What a line of the program's becomes where an emulator has no call to copy memory: texts of the heap are faults."""
    if case.cpu.native or not re.search('"on the heap"|"x{15,}"', line):
        return line
    return re.sub("first=[0-9]+", "first=(fault)", re.sub(r'"on the heap"|"x+"\.\.\.', "(fault)", line))


def shown(case):
    """Each call as its program says; 40 bytes of the text that is longer, and of control characters what C would write."""
    done = case.record([case.program("tells.c")], SHOWN, log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    calls = re.findall(r"\|  +(.*);$", replay, re.M)
    wanted = [as_fetched(case, line) for line in done.stdout.splitlines()]
    found = [call for call in calls if "=" in call]
    expect(len(found) == len(wanted), f"{len(found)} calls with values, not {len(wanted)}: {replay}")
    for mine, its in zip(found, wanted):
        expect(mine == its, f"shown {mine!r}, not {its!r}")
    by_end = case.run([case.tool, "replay", "--min", "1ns", "-i", case.trace_path]).stdout
    expect("} = 199 /* numbers(a=-1, b=200, c=0xffffffffffffffff, d=4294967295) */" in by_end, by_end)
    lines = [json.loads(line) for line in case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout.splitlines()]
    expect(sum(line["ev"] in ("arguments", "result") for line in lines) == 2 * len(wanted), "the JSON has other values")
    exported(case, wanted)
    case.readable()


def exported(case, wanted):
    """Each call's slice has its values as its arguments."""
    text = case.run([case.tool, "export", "--format", "chrome", "-i", case.trace_path, "-o", "-"]).stdout
    slices = sorted((event for event in json.loads(text)["traceEvents"] if "arguments" in event.get("args", ())), key=lambda event: event["ts"])
    said = [f"{event['name']}({event['args']['arguments']}) = {event['args']['result']}" for event in slices]
    expect(said == wanted, f"{said} in chrome's format, not {wanted}")
    path = os.path.join(case.folder, "perfetto")
    case.run([case.tool, "export", "--format", "perfetto", "-i", case.trace_path, "-o", path])
    with open(path, "rb") as file:
        data = file.read()
    for line in wanted[:2]:
        arguments = line[line.index("(") + 1:line.rindex(")")].encode()
        # An annotation: a name, and a text, each with its size in front; not the text of an instant.
        expect(b"arguments" + b"2" + bytes([len(arguments)]) + arguments in data, f"{arguments} is not in perfetto's format")


def values_of(case):
    """(arguments, result) of each call of twice() that has both, by thread; checks that each is within its call."""
    text = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"], timeout=120).stdout
    pairs, stacks = [], {}
    for line in events_of(text.splitlines()):
        stack = stacks.setdefault(line.get("tid"), [])
        if line["ev"] in ("enter", "open"):  # open: before the trace, of which a flight recorder's has lost the beginning
            stack.append([line["fn"], None])
        elif line["ev"] == "lost":  # what ends from here on may be a later call of the function
            stack[:] = [[function, None] for function, _ in stack]
        elif line["ev"] == "leave" and stack:
            stack.pop()
        elif line["ev"] == "arguments":
            expect(stack and stack[-1][0] == line["fn"] == "twice" and not stack[-1][1], f"{line} is not in its call: {stack}")
            stack[-1][1] = line["text"]
        elif line["ev"] == "result" and stack and stack[-1][1]:
            pairs.append((stack[-1][1], line["text"]))
    return pairs


def check_pairs(pairs, native=True):
    """Of an emulated program's texts only those are read that surely are there."""
    expect(pairs, "no call has values")
    for arguments, result in pairs:
        match = re.fullmatch(r'n=(-?\d+), s=(?:"(on the heap|turn \d+|tick|child)"|\(fault\))', arguments)
        expect(match and (match.group(2) or not native), f"the arguments are {arguments!r}")
        number = int(match.group(1))
        expect(int(result) == 2 * number, f"twice({number}) = {result}")
        expect(not match.group(2) or match.group(2) in ("on the heap", "tick", "child") or match.group(2) == f"turn {number}", f"{arguments!r}")


def busy(*options):
    """Threads, signals and forked children: each call has its own values."""
    def test(case):
        done = case.record([case.program("tells.c"), "busy", "80"], [*options, *TWICE], log=False)
        expect(done.status == 0 and done.stdout.endswith("all right\n"), f"{done.status}: {done.stdout} {done.stderr}")
        pairs = values_of(case)
        check_pairs(pairs, case.cpu.native)
        expect(any('"tick"' in arguments for arguments, _ in pairs), "no call of a signal's handler has values")
        expect(sum('"child"' in arguments for arguments, _ in pairs) == 5, "not each child has its values")
        case.readable()
    return test


PICKED = ["-A", "picked:n=arg1:s32 s=arg2:string number=+0(arg3):s32 name=+0(+8(arg3)):string"]
FAULT = "(fault)"
CONDITIONS = {
    "n == 3": lambda n, s, number, name: n == 3,
    "n < 0 && (n & 1) || n > 40": lambda n, s, number, name: n < 0 and n & 1 or n > 40,
    "!(n % 4) && s != \"apple\"": lambda n, s, number, name: n % 4 == 0 and s not in ("apple", FAULT),
    "s ~ \"*o*\"": lambda n, s, number, name: "o" in s and s != FAULT,
    "n > 0 || s == \"\"": lambda n, s, number, name: n > 0 or s == "",
    "number > 5 || name == \"lib.so\"": lambda n, s, number, name: name != FAULT and (number > 5 or name == "lib.so"),
    "arg1:u8 > 200": lambda n, s, number, name: (n & 255) > 200,
    "1": lambda n, s, number, name: True,
    "0": lambda n, s, number, name: False,
}


def chosen(*flags, conditions=CONDITIONS):
    """Of the calls that the program says it makes, those are recorded that the condition is true of, and of callees so."""
    def test(case):
        program = case.program("tells.c")
        for option in ("--if", "--only-if"):
            for condition, check in conditions.items():
                done = case.record([program, "chosen"], [*flags, *PICKED, option, f"picked: {condition}"], log=False)
                expect(done.status == 0, f"{option} {condition}: {done.status}: {done.stderr}")
                rows = [re.fullmatch(r"(-?\d+) (.*)\|(-?\d+) (.*)", line).groups() for line in done.stdout.splitlines()]
                rows = [(int(n), s, int(number), name) for n, s, number, name in rows]
                wanted = [row[0] for row in rows if check(*row)]
                replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
                found = [int(n) for n in re.findall(r"picked\(n=(-?\d+), ", replay)]
                expect(found == wanted, f"{option} {condition}: {found}, not {wanted}")
                inner = wanted if option == "--only-if" else rows
                expect(replay.count("within()") == len(inner), f"{option} {condition}: {replay.count('within()')} callees, not {len(inner)}")
                case.readable()
    return test


def chosen_busy(option):
    """Threads, signals and children, of whose calls every second one is left out."""
    def test(case):
        text = ' && s ~ "t*"' if case.cpu.native else ""  # of an emulated thread's stack a page is read
        done = case.record([case.program("tells.c"), "busy", "80"], [*TWICE, option, "twice: n & 1" + text], log=False)
        expect(done.status == 0 and done.stdout.endswith("all right\n"), f"{done.status}: {done.stdout} {done.stderr}")
        pairs = values_of(case)
        check_pairs(pairs, case.cpu.native)
        for arguments, _ in pairs:
            expect(re.match(r'n=-?\d*[13579], s="t' if text else r"n=-?\d*[13579],", arguments), f"{arguments} was recorded")
        case.readable()
    return test


def chosen_everywhere(source, option):
    """Calls of all functions are chosen by a number that is there by chance: the program prints and ends as ever."""
    def test(case):
        case.same_as_plain([case.program(source)], [option, "*: arg1 & 1 || arg2:string ~ \"*a*\"", "-A", "*:arg1"])
        case.readable()
    return test


def chosen_trees(case):
    """-g with --if: the trees of those calls alone."""
    done = case.record([case.program("tells.c"), "chosen"], ["-g", "picked", "--if", "picked: arg1:s32 > 45"], log=False)
    expect(done.status == 0, done.stderr)
    replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(replay.count("picked()") == replay.count("within()") == 4 or replay.count("picked() {") == 4 and replay.count("within()") == 4, replay)
    expect("main" not in replay, replay)


def wild(case):
    """Addresses that lead nowhere, or to pages that come and go, harm nobody, also where all signals are blocked."""
    case.same_as_plain([case.program("tells.c"), "wild"],
                       ["-A", "pointer:p=arg1 text=arg1:string[100] n=+0(arg1):u64 deep=+0(+0(arg1)):u32 far=-1(arg1):u8"], log=False)
    text = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(text.count("text=(fault), n=(fault), deep=(fault)") > 1000, "addresses that lead nowhere were read")
    expect('text="eee"(fault), n=(fault)' in text or not case.cpu.native, "the end of a page is not told from the text's")


def everywhere(source, *arguments, how=None, flags=(), variant=""):
    """Values of all functions: the program prints and ends as ever, and the trace has the true calls."""
    def test(case):
        if source == "forks.c":
            case.executing()
        case.same_as_plain([case.program(source, flags=flags, variant=variant), *arguments], EVERYWHERE)
        case.compare(case.trace(), **(how or {}))
        case.readable()
    return test


def losses(case):
    """Where the buffer is full, as nobody empties it for a while, values are lost with their call's entry."""
    output, process = start(case, case.record_command([case.program("tells.c"), "busy", "120"], ["--mode", "drop", "-b", "64K", *TWICE]))
    try:
        wait_for(output, "running")
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        process.send_signal(signal.SIGCONT)
        status = finish(process, 60)
    finally:
        stop(process)
    with open(output, encoding="utf-8") as file:
        said = file.read()
    expect(status == 0 and "all right\n" in said, f"{status}: {said}")
    expect("lost" in said, f"nothing was lost: {said}")
    check_pairs(values_of(case), case.cpu.native)


def end_well(output, process):
    """The program, told to end, has found all its own results right."""
    process.send_signal(signal.SIGTERM)
    status = finish(process, 40)
    with open(output, encoding="utf-8") as file:
        said = file.read()
    expect(status == 0 and said.endswith("all right\n"), f"exit status {status}: {said}")


def attached(case):
    """Attach with values to a program that runs, twice, and let go."""
    case.need_native("attaching")
    output, process = start(case, [case.program("tells.c"), "busy", "60000"])
    try:
        pid = int(wait_for(output, "running").split()[1])
        with Process([case.tool, "attach", "-q", "-o", os.path.join(case.folder, "first"), str(pid)], cwd=case.folder,
                     env=case.environment(False)) as first:
            until("a first recording", lambda: case.run([case.tool, "status", str(pid)]).status == 0)
            done = case.run([case.tool, "attach", "-o", case.trace_path, *TWICE, str(pid)])
            expect(done.status and "for the first instance alone" in done.stderr, f"{done.status}: {done.stderr}")
            first.send_signal(signal.SIGINT)
            first.wait(20)
        for _ in range(2):
            done = case.run([case.tool, "attach", "-v", "-o", case.trace_path, "--duration", "40ms", *TWICE, str(pid)])
            expect(done.status == 0 and process.poll() is None, f"attach: {done.status} {done.stderr}")
        end_well(output, process)
        check_pairs(values_of(case))
    finally:
        stop(process)


def left_by_set(case):
    """A function that `set` takes out keeps its condition and its values until its last call is recorded."""
    case.need_native("attaching")
    output, process = start(case, [case.program("tells.c"), "busy", "60000"])
    try:
        pid = wait_for(output, "running").split()[1]
        with Process([case.tool, "attach", "-q", "-o", case.trace_path, *TWICE, "--if", "twice: n % 64 == 7", pid], cwd=case.folder,
                     env=case.environment(False)) as recorder:
            until("a recording", lambda: case.run([case.tool, "status", pid]).status == 0)
            for words in (["trace=work"], ["trace=twice"], ["trace=work"]):
                time.sleep(0.02)
                case.run([case.tool, "set", pid, *words])
            recorder.send_signal(signal.SIGINT)
            recorder.wait(20)
        text = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"], timeout=120).stdout
        lines = list(events_of(text.splitlines()))
        told = [int(re.match(r"n=(-?\d+)", line["text"])[1]) for line in lines if line["ev"] == "arguments"]
        entered = sum(line["ev"] == "enter" and line["fn"] == "twice" for line in lines)
        losses_told = sum(line["ev"] == "lost" for line in lines)  # each may begin with a call's values
        expect(told and 0 <= entered - len(told) <= losses_told and all(number % 64 == 7 for number in told),
               f"{entered} calls, {len(told)} have values, {[number for number in told if number % 64 != 7][:9]} are others")
        end_well(output, process)
    finally:
        stop(process)


def killed(case):
    """kill -9 of the tool at random moments, while values are fetched: the program goes on."""
    case.need_native("attaching")
    output, process = start(case, [case.program("tells.c"), "busy", "60000"])
    rng = random.Random(case.folder)
    try:
        pid = int(wait_for(output, "running").split()[1])
        for _ in range(8):
            tool = Process([case.tool, "attach", "-q", "-o", case.trace_path, *TWICE, str(pid)], cwd=case.folder,
                           env=case.environment(False), start_new_session=True)
            time.sleep(rng.uniform(0.02, 0.5))
            os.kill(tool.pid, signal.SIGKILL)
            tool.wait(20)
            expect(process.poll() is None, f"the program has ended: {process.returncode}")
        end_well(output, process)
    finally:
        stop(process)


def sandboxed(way, what):
    """A program that shuts itself in is not killed for what is read: constants are texts still, strings of other memory are
    faults from then on."""
    def test(case):
        case.need_feature("seccomp")
        case.same_as_plain([case.program("sandboxes.c"), way, what], ["-A", "tell:what=arg1:string n=arg2:s64", "-A", "step:arg1"],
                           log=False)
        text = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        expect('tell(what="steps", n=40000)' in text, "no values are shown: " + text[-2000:])
    return test


def refused(case):
    """What cannot be is said before anything runs."""
    program = case.program("tells.c")
    for options, why in ((["-A", "twice:"], "a value is arg1"), (["-A", "nobody:arg1"], "no function that is recorded matches 'nobody'"),
                         (["-R", "twice:arg1"], "--args"), (["-A", "twice:arg1", "-p", "function"], "function_graph"),
                         (["-A", "twice:arg1", "-t", "1us"], "--threshold"), (["--if", "twice: n == 3 +"], "a value or a number is missing"), (["--if", "twice: nothing == 3"], "debug information"),
                         (["--if", "twice: $ret == 3"], "type of this result"), (["--if", "twice: ret:u8 == arg1:u64 && arg2:u64 > ret:u64 - 1"], "keeps 64 bits"), (["--only-if", "nobody: arg1"], "matches 'nobody'"),
                         (["--if", "twice: arg1", "--only-if", "twice: arg2"], "two conditions"),
                         (["--if", "twice: 1", "-p", "function"], "function_graph"),
                         (["-A", "twice:%d0" if case.cpu.name == "x86_64" else "twice:%xmm0"], "has no such register")):
        done = case.run([case.tool, "record", "-o", case.trace_path, *options, "--", program])
        expect(done.status == 125 or done.status in (1, 2), f"{options}: exit status {done.status}")
        expect(why in done.stderr and "numbers(" not in done.stdout, f"{options}: {done.stderr}")


def stock(case):
    """A program that nobody prepared: each string and number of its calls into libc is as the program prints it."""
    case.need_native("/usr/bin/ls")
    done = case.run([case.tool, "record", "-o", case.trace_path, "-A", "malloc:size=arg1:u64", "-R", "malloc:ret",
                     "-A", "str*:arg1:string arg2:string", "-A", "mem*:arg1 arg2 arg3:u64", "--", "ls", "-lR", "/usr/share/common-licenses"])
    plain = case.run(["ls", "-lR", "/usr/share/common-licenses"])
    expect((done.status, done.stdout) == (plain.status, plain.stdout), f"{done.status}: {done.stderr}")
    text = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(re.search(r"malloc\(size=\d+\) = 0x[0-9a-f]+", text), "malloc() has no values")
    expect('"GPL-3"' in text or 'GPL-3' in text, "no string has a file's name")


SINGLE = {
    "values-shown": shown,
    "values-busy": busy(),
    "values-wait-for-room": busy("-b", "8K"),
    "values-in-a-flight-recorder": busy("--mode", "overwrite", "-b", "16M"),
    "values-chosen": chosen(),
    "values-chosen-in-a-flight-recorder": chosen("--mode", "overwrite", conditions=dict(list(CONDITIONS.items())[3:4])),
    "values-chosen-busy": chosen_busy("--if"),
    "values-chosen-busy-hiding": chosen_busy("--only-if"),
    "values-chosen-trees": chosen_trees,
    "values-wild": wild,
    "values-attached": attached,
    "values-losses": losses,
    "values-left-by-set": left_by_set,
    "values-tool-killed": killed,
    "values-sandbox-errno": sandboxed("prctl", "errno"),
    "values-sandbox-kill": sandboxed("prctl", "kill"),
    "values-sandbox-all-threads": sandboxed("tsync", "kill"),
    "values-refused": refused,
    "values-stock": stock,
    **{f"values-everywhere-{source.split('.')[0]}": everywhere(source)
       for source in ("calls.c", "classes.cc", "exceptions.cc", "forks.c", "jumps.c", "longjumps.c", "nested.c", "ownstacks.c", "routines.c",
                      "signals.c", "altstacks.c", "layout.c")},
    **{f"values-chosen-everywhere-{source.split('.')[0]}": chosen_everywhere(source, option)
       for source, option in (("exceptions.cc", "--only-if"), ("jumps.c", "--only-if"), ("longjumps.c", "--if"), ("ownstacks.c", "--only-if"),
                              ("signals.c", "--only-if"), ("tails.c", "--if"))},
    "values-everywhere-tails": everywhere("tails.c", how={"only_entries": True}),
}

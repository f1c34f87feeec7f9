"""Marks: what a program (test/prog/marks.c, by calltap_mark()) writes into the trace."""
import json
import os
import subprocess
import time

import tracefile as tf
from handlers import linking
from harness import Process, Skip, expect, stop

THREADS, ROUNDS = 3, 200
LONGEST = b"x" * 254  # a character that does not fit is left out as a whole
MAIN = [b"before all", b"in a handler", LONGEST, b"esc \033[2J \"quote\" \\ \xff", b"", b"after all"]
WORKERS = sorted([b"thread %d round %d" % (thread, number) for number in range(ROUNDS)] for thread in range(THREADS))


def program(case):
    case.need_native("libcalltap.so")
    return case.program("marks.c", flags=linking(case))


def complete(case):
    """Each thread has its marks, all of them and in order."""
    marks = [marks for marks in (thread.marks() for thread in case.trace().threads.values()) if marks]
    expect(MAIN in marks, f"the first thread's marks are not there: {[some[:3] for some in marks]}")
    marks.remove(MAIN)
    expect(sorted(marks) == WORKERS, f"the threads' marks: {[(len(some), some[:2], some[-1:]) for some in marks]}")


def export(case, form):
    done = case.run([case.tool, "export", "--format", form, "-i", case.trace_path, "-o", "-"])
    expect(done.status == 0, f"export to {form}: {done.stderr}")
    return done.stdout


def shown(case):
    """By every view and export, and each within its call."""
    lines = [json.loads(line) for line in export(case, "json").splitlines()]
    open_calls, within = {}, []
    for line in lines:
        if line["ev"] == "enter":
            open_calls.setdefault(line["tid"], []).append(line["fn"])
        elif line["ev"] == "leave":
            open_calls[line["tid"]].pop()
        elif line["ev"] == "mark":
            within.append((line["text"], (open_calls.get(line["tid"]) or [None])[-1]))
    expect(len(within) == len(MAIN) + THREADS * ROUNDS, f"{len(within)} marks in the JSON")
    expect(("in a handler", "on_signal") in within, "the handler's mark is not in its call")
    expect(("after all", "main") in within, "the last mark is not in main")
    expect(all(function == "inner" for text, function in within if text.startswith("thread")), "a mark is not in its call")
    replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(replay.count("/* thread ") == THREADS * ROUNDS, "the replay lacks marks")
    expect("/* esc ?[2J \"quote\" \\ ? */" in replay and "\033" not in replay, "control characters got through")
    chrome = [event for event in json.loads(export(case, "chrome"))["traceEvents"] if event.get("cat") == "mark"]
    expect(len(chrome) == len(within) and chrome[0]["ph"] == "i", f"{len(chrome)} marks in the Chrome trace")
    expect("before all" in export(case, "perfetto"), "perfetto has no mark")
    expect("round" not in export(case, "folded"), "folded stacks have marks")
    some = json.loads(case.run([case.tool, "info", "--json", "-i", case.trace_path]).stdout)
    expect(some["events"] == len(within), f"info counts {some['events']} events")
    report = json.loads(case.run([case.tool, "report", "--json", "-i", case.trace_path]).stdout)
    called = {row["function"]: row["calls"] for row in report["rows"]}
    expect(called["inner"] == THREADS * ROUNDS, f"the report has {called}")


def recorded(*options):
    def test(case):
        command = [program(case)]
        case.same_as_plain(command, options, log=False)
        complete(case)
        if not options:
            case.readable()
            shown(case)
    return test


def attached(case):
    """A program that runs has its library's word led to the agent, and back when the tool lets go."""
    process = Process([program(case), "wait"], cwd=case.folder, env=case.environment(False), stdin=subprocess.PIPE,
                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    tool = Process([case.tool, "attach", "-o", case.trace_path, str(process.pid)], cwd=case.folder,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                   start_new_session=True)
    try:
        begun = time.monotonic()
        while case.run([case.tool, "status", str(process.pid)]).status:
            expect(time.monotonic() - begun < 20, "it is not attached to")
            if tool.poll() is not None:
                raise Skip(f"cannot attach here: {tool.stderr.read()}")
        time.sleep(0.3)
        printed, _ = process.communicate("go\n", timeout=60)
        expect(process.returncode == 0 and printed == "marked\n", f"the program: {process.returncode} {printed!r}")
        tool.wait(timeout=60)
    finally:
        stop(process)
        stop(tool)
    complete(case)


def let_go(case):
    """After a detach marks have no effect, and do no harm."""
    process = Process([program(case), "wait"], cwd=case.folder, env=case.environment(False), stdin=subprocess.PIPE,
                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        for _ in range(2):
            done = case.run([case.tool, "attach", "--duration", "200ms", "-o", case.trace_path, str(process.pid)])
            if done.status:
                raise Skip(f"cannot attach here: {done.stderr}")
        printed, _ = process.communicate("go\n", timeout=60)
        expect(process.returncode == 0 and printed == "marked\n", f"the program: {process.returncode} {printed!r}")
    finally:
        stop(process)
    expect(not any(thread.marks() for thread in case.trace().threads.values()), "marks came after the end")


TEXTS = [b"before the test", b"", b"a=b+=c \xc3\xa4", LONGEST]


def child(tool):
    """The program that the tool runs, as a word; helpers of the tool come before it."""
    found = []
    for task in os.listdir(f"/proc/{tool.pid}/task"):
        with open(f"/proc/{tool.pid}/task/{task}/children", encoding="ascii") as children:
            found += children.read().split()
    return found[-1] if found else str(tool.pid)


def by_the_tool(case):
    """`calltap mark` while the program waits and is recorded; its own marks come after."""
    process = Process(case.record_command([program(case), "wait"]), cwd=case.folder, env=case.environment(False),
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        for data in (*TEXTS[:3], LONGEST + b"\xc3\xa4"):
            begun = time.monotonic()
            while (done := case.run([case.tool, "mark", child(process), data.decode()])).status:
                expect(time.monotonic() - begun < 20, f"no mark was written: {done.stderr}")
        done = case.run([case.tool, "mark", child(process), "two\nlines"])
        expect(done.status == 1 and "one line" in done.stderr, f"a mark of two lines: {done.status} {done.stderr}")
        printed, said = process.communicate("go\n", timeout=60)
        expect((process.returncode, printed) == (0, "marked\n"), f"the program: {process.returncode} {printed!r} {said!r}")
    finally:
        stop(process)
    threads = case.trace().threads.values()
    found = [(thread.tid, thread.name, thread.marks()) for thread in threads if thread.marks() and not thread.tid]
    expect(found == [(0, "calltap mark", TEXTS)], f"the tool's marks: {found}")
    expect(MAIN in [thread.marks() for thread in threads], "the program's marks are not there")
    lines = [json.loads(line) for line in export(case, "json").splitlines()]
    marks = [line["text"] for line in lines if line["ev"] == "mark"]
    expect(marks.index("before the test") < marks.index("before all"), "the tool's mark does not come first")
    replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect("/* before the test */" in replay, "the replay lacks the tool's mark")


def kept(case):
    """A flight recorder keeps the tool's marks: each snapshot has them, and the file at the end; --history leaves out
    the old ones."""
    process = Process(case.record_command([program(case), "wait"], ("--mode", "overwrite")), cwd=case.folder,
                      env=case.environment(False), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                      stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    taken = []
    try:
        begun = time.monotonic()
        while case.run([case.tool, "mark", child(process), "first"]).status:
            expect(time.monotonic() - begun < 20, "no mark is taken")
        for number, options in enumerate(((), (), ("--history", "3s"))):
            path = os.path.join(case.folder, f"snapshot{number}")
            done = case.run([case.tool, "snapshot", child(process), "-o", path, *options])
            expect(done.status == 0, f"snapshot: {done.stderr}")
            taken.append(path)
            if number == 0:
                expect(case.run([case.tool, "mark", child(process), "second\tone"]).status == 0, "the second mark")
            elif number == 1:
                time.sleep(3.2)  # the third mark and the snapshot have 3 s, on whatever machine
                expect(case.run([case.tool, "mark", child(process), "third"]).status == 0, "the third mark")
        process.communicate("go\n", timeout=60)
    finally:
        stop(process)
    for path, wanted in zip((*taken, case.trace_path),
                            ([b"first"], [b"first", b"second\tone"], [b"third"], [b"first", b"second\tone", b"third"])):
        found = [(thread.name, thread.marks()) for thread in tf.Trace(path).threads.values() if not thread.tid]
        expect(found == [("calltap mark", wanted)], f"{path} has {found}, not {wanted}")
    case.readable()


def untraced(case):
    done = case.run([program(case)])
    expect((done.status, done.stdout) == (0, "marked\n"), f"untraced: {done.status} {done.stderr}")


SINGLE = {
    "marks-are-in-every-view": recorded(),
    "marks-of-the-function-tracer": recorded("-p", "function"),
    "marks-without-a-traced-function": recorded("-p", "nop"),
    "marks-in-a-flight-recorder": recorded("--mode", "overwrite"),
    "marks-wait-for-room": recorded("-b", "8K"),
    "marks-of-a-program-that-is-attached-to": attached,
    "marks-after-a-detach": let_go,
    "marks-of-an-untraced-program": untraced,
    "marks-by-the-tool": by_the_tool,
    "marks-by-the-tool-in-a-flight-recorder": kept,
}

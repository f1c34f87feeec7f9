"""Further instances of a session: `calltap attach` to a process that is traced already."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import flight
import live
import tracefile as tf
from endings import finish
from harness import Process, expect, stop
from steer import calltap, own_place
from steering import (PATIENCE, Program, Session, Tool, clean, descriptors, folder_of, left_alone, look, mappings,
                      mode_of, nothing_lost, until)


class Instance:
    """`calltap attach` to what is traced already, until it is told to end."""

    def __init__(self, case, program, name, *options, wait=True):
        self.case, self.program, self.name = case, program, name
        self.path = os.path.join(case.folder, name + ".data")
        self.output = os.path.join(case.folder, name + ".output")
        command = [case.tool, "attach", "-v", "--instance", name, *mode_of(options), "-o", self.path, *options,
                   str(program.pid)]
        with open(self.output, "wb") as file:
            self.process = Process(command, cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL,
                                   stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        if wait:
            until(f"instance {name}", lambda: self.alive() and self.status())

    def said(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def alive(self):
        expect(self.process.poll() is None, f"instance {self.name} ended with {self.process.returncode}: {self.said()}")
        return True

    def status(self):
        return rows(self.case, self.program).get(self.name)

    def records(self, more=1000):
        wanted = self.status()["records"] + more
        until(f"{more} more records of {self.name}", lambda: self.alive() and self.status()["records"] >= wanted)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)

    def end(self, how="verb", status=0, seconds=20):
        if how == "verb":
            calltap(self.case, "detach", self.program.pid, "--instance", self.name)
        elif how:
            os.kill(self.process.pid, how)
        ended = finish(self.process, seconds)
        expect(ended == status, f"instance {self.name} ended with {ended}: {self.said()!r}")

    def trace(self, complete=True):
        trace = tf.Trace(self.path)
        expect(trace.end or not complete, f"the trace of {self.name} has no END chunk")
        return trace


def rows(case, program):
    """{name: row} of `calltap status`."""
    return {row["instance"]: row for row in json.loads(calltap(case, "status", program.pid, "--json"))}


def called(trace):
    return {name for name, count in trace.called().items() if count}


def whole(trace, functions):
    """Exactly these functions, nothing lost, and each exit is the innermost open frame's."""
    nothing_lost(trace)
    expect(called(trace) == functions, f"called {called(trace)}, not {functions}")


def readable(case, instance):
    case.trace_path = instance.path
    case.readable()


def own_functions(case):
    """Each records exactly what it was asked for, also where both were; the first one's trace is what it is alone."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "1") as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_*") as tool:
            with Instance(case, program, "one", "-l", "recurse", "-l", "tail", "-l", "leaf_1") as one, \
                 Instance(case, program, "two", "-l", "leave", "-l", "jump", "-l", "recurse", "--mode", "drop") as two:
                one.records(5000)
                two.records(5000)
                found = rows(case, program)
                expect(set(found) == {"0", "one", "two"}, f"status shows {found}")
                expect(found["two"]["mode"] == "drop" and found["one"]["sites_on"] == 3, f"{found}")
                one.end("verb")
                before_records = two.status()["records"]
                until("more records of the other", lambda: two.status()["records"] > before_records + 5000)
                expect(set(rows(case, program)) == {"0", "two"}, "it is still shown")
                two.end(signal.SIGINT)
            tool.records(5000)
            tool.detach()
    whole(one.trace(), {"recurse", "tail", "leaf_1"})
    trace = two.trace()
    live.check_frames(trace)
    expect(called(trace) == {"leave", "jump", "recurse"}, f"two: {called(trace)}")
    first = case.trace()
    live.check_frames(first)
    expect(called(first) >= {"leaf_1", "leaf_2", "leaf_3"} and "recurse" not in called(first), f"{called(first)}")
    case.readable()
    readable(case, one)


def history_stays(case):
    """A flight recorder's history is not washed out by a detailed look; each has its snapshots."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program:
        with Tool(case, program, "-l", "wait_once", "--mode", "overwrite", "-b", "64K", "--instance", "flight") as tool:
            tool.records(0)
            time.sleep(1)
            with Instance(case, program, "look", "--mode", "overwrite", "-b", "64K") as instance:
                time.sleep(1)
                until("what is called all the time",
                      lambda: instance.alive() and set(rows(case, program)) == {"flight", "look"})
                case.trace_path = os.path.join(case.folder, "flight.snapshot")
                calltap(case, "snapshot", program.pid, "--instance", "flight", "-o", case.trace_path)
                flight = case.trace()
                case.trace_path = os.path.join(case.folder, "look.snapshot")
                calltap(case, "snapshot", program.pid, "--instance", "look", "-o", case.trace_path)
                detail = case.trace()
                case.readable()
                instance.end(signal.SIGTERM)
            tool.detach()
        program.end()
    expect(called(flight) == {"wait_once"}, f"the flight recorder has {called(flight)}")
    expect(flight.called()["wait_once"] > 30, f"its history is {flight.called()}")
    expect({"leaf_1", "recurse", "once"} <= called(detail), f"the look has {called(detail)}")
    expect({"leaf_1", "recurse", "once"} <= called(instance.trace()), "the look's own file lacks what it had at its end")


def settings(case):
    """An instance's filters change while it records; what it cannot have is refused, and so is what there is already."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, Tool(case, program, "-l", "leaf_1") as tool:
        with Instance(case, program, "look", "-l", "recurse") as instance:
            instance.records()
            calltap(case, "set", program.pid, "--instance", "look", "trace=leaf_2")
            expect("trace=leaf_2" in calltap(case, "set", program.pid, "--instance", "look"), "set is not shown")
            expect("trace=leaf_1" in calltap(case, "set", program.pid), "the first one's was changed")
            instance.records()
            calltap(case, "set", program.pid, "--instance", "look", "tracing=off")
            expect(rows(case, program)["look"]["sites_on"] == 0, "it is off and has sites")
            calltap(case, "set", program.pid, "--instance", "look", "tracing=on")
            instance.records()
            for word, said in (("graph=nothing_like_it", "matches"), ("tracer=function", "start"),
                               ("mode=drop", "start"), ("trace=nothing_like_it", "matches"), ("max-depth=x", "not valid")):
                text = calltap(case, "set", program.pid, "--instance", "look", word, status=1)
                expect(said in text, f"{word}: {text!r}")
            expect("trace=leaf_2" in calltap(case, "set", program.pid, "--instance", "look"), "a refused filter stays")
            instance.records()
            for options, said in ((["--instance", "look"], "already"), (["-p", "function", "-g", "once"], "function_graph"),
                                  (["-p", "nop", "--max-depth", "2"], "function_graph"),
                                  (["-p", "function", "--max-depth", "2"], "function_graph"),
                                  (["-l", "nothing_like_it"], "matches"), (["--instance", "a b"], "no name"),
                                  (["--perf-map"], "first instance alone"),
                                  (["--time", "adaptive", "--time-small", "3"], "first instance alone"), (["--time", "adaptive", "-g", "once"], "would have no effect"), (["--no-fork"], "first instance alone"),
                                  (["--mode", "drop", "--buffer-dir", "/dev/shm"], "--mode overwrite"),
                                  (["--mode", "overwrite", "--buffer-dir", "/proc"], "tmpfs"),
                                  (["--mode", "drop", "--snapshot-when", "once entered"], "add --mode overwrite"),
                                  (["--stack-when", "nothing_like_it"], "matches"),
                                  (["-p", "function", "--stack-when", "once"], "function_graph"),
                                  (["-o", instance.path], "'look' writes to that file"),
                                  ([f"-lleaf_{number}" for number in range(600)], "500 filters")):
                done = case.run([case.tool, "attach", "-o", os.path.join(case.folder, "no.data"), *options, str(program.pid)])
                expect(done.status and said in done.stderr, f"{options}: {done.status} {done.stderr!r}")
                expect(not os.path.exists(os.path.join(case.folder, "no.data")), f"{options}: a file is left")
            text = calltap(case, "detach", program.pid, "--instance", "nobody", status=1)
            expect("no instance" in text, text)
            instance.end()
        tool.detach()
        program.end()
    trace = instance.trace()
    whole(trace, {"recurse", "leaf_2"})


def depths(trace):
    """The depths of frames, by thread and record."""
    for thread in trace.threads.values():
        depth = 0
        for kind, value, _ in thread.events():
            depth += {tf.ENTRY: 1, tf.EXIT: -1, tf.UNWIND: -value}.get(kind, 0)
            yield depth


def limits(case):
    """An instance has a depth and a threshold of its own, from the start and by `calltap set`; the others do not have them."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, Tool(case, program, "-l", "recurse") as tool:
        with Instance(case, program, "low", "-l", "recurse", "-l", "once", "--max-depth", "3") as low, \
             Instance(case, program, "slow", "-l", "wait_once", "-l", "leaf_*", "-t", "10ms") as slow:
            low.records()
            expect("max-depth=3" in calltap(case, "set", program.pid, "--instance", "low"), "the depth is not shown")
            expect("threshold=10ms" in calltap(case, "set", program.pid, "--instance", "slow"), "the threshold is not shown")
            expect("threshold=\n" in calltap(case, "set", program.pid), "it became the first one's")
            calltap(case, "set", program.pid, "--instance", "low", "max-depth=5")
            low.records()
            calltap(case, "set", program.pid, "--instance", "slow", "threshold=")
            slow.records(2000)
            slow.end()
            low.end()
        with Instance(case, program, "slow", "-l", "wait_once", "-l", "leaf_*", "-t", "10ms") as slow:
            time.sleep(1.5)
            slow.end()
        tool.records(1000)
        tool.detach()
        program.end()
    expect(max(depths(low.trace())) == 5, f"low is {max(depths(low.trace()))} deep")
    found = slow.trace().called()
    expect(found["wait_once"] >= 10 and sum(found.values()) < 3 * found["wait_once"], f"beside what is slow: {found}")
    expect(max(depths(case.trace())) > 10, "the first one is limited, too")
    live.check_frames(case.trace())


class Pruner:
    """What -g and --no-graph leave of a thread's records, by names: the definition, on records of all functions."""

    def __init__(self, roots, hidden):
        self.roots, self.hidden = roots, hidden
        self.frames = []  # [function, is it recorded, is it a tree's root, does it hide what it calls]

    def is_in_tree(self, function, frames):
        return not self.roots or function in self.roots or any(frame[2] for frame in frames)

    def enter(self, function):
        outer = self.frames
        if any(frame[3] for frame in outer):
            self.frames.append([function, False, False, False])
        elif function in self.hidden:
            self.frames.append([function, False, False, True])
        elif self.is_in_tree(function, outer):
            self.frames.append([function, True, function in self.roots, False])
            yield f"+{function}"
        else:
            self.frames.append([function, False, False, False])

    def tail(self, function):
        frame, outer = self.frames[-1], self.frames[:-1]
        if any(each[3] for each in self.frames):
            return
        if function in self.hidden:
            if frame[1]:
                yield f"-{frame[0]}"
            frame[1], frame[3] = False, True
        elif self.is_in_tree(function, self.frames):
            yield f"{'=' if frame[1] else '+'}{function}"
            frame[1] = True
            frame[2] |= function in self.roots and not any(each[2] for each in outer)
        frame[0] = function

    def leave(self):
        frame = self.frames.pop()
        if frame[1]:
            yield f"-{frame[0]}"

    def unwind(self, count):
        gone = sum(frame[1] for frame in self.frames[len(self.frames) - count:])
        del self.frames[len(self.frames) - count:]
        if gone:
            yield f"!{gone}"


def pruned(trace, thread, roots, hidden):
    """The thread's records as -g and --no-graph would have left them, as words; from frames that were open before on."""
    pruner = Pruner(roots, hidden)
    for kind, value, _ in thread.events():
        if kind == tf.ENTRY:
            yield from pruner.enter(trace.name(value))
        elif kind == tf.TAIL:
            yield from pruner.tail(trace.name(value))
        elif kind == tf.EXIT and pruner.frames:
            yield from pruner.leave()
        elif kind == tf.UNWIND and pruner.frames:
            yield from pruner.unwind(value)


def trees(case):
    """-g and --no-graph of an instance's own: its records are those of the session's without what the filters leave out."""
    case.need_native("attaching")
    own_place(case)
    kinds = {"below": (["recurse"], []), "tailed": (["tail"], []), "without": ([], ["recurse"]), "no-tail": ([], ["tail", "jump"]),
             "both": (["once"], ["jump", "leaf_2"]), "landed": (["jump"], []), "jumped-to": (["last"], []), "not-last": ([], ["last"])}
    with Program(case, "2") as program, left_alone(program), contextlib.ExitStack() as stack:
        tool = stack.enter_context(Tool(case, program, "-b", "1M"))
        tool.records(1000)
        found = {}
        for name, (roots, hidden) in kinds.items():
            options = [word for root in roots for word in ("-g", root)] + [word for one in hidden for word in ("--no-graph", one)]
            found[name] = stack.enter_context(Instance(case, program, name, "-b", "1M", *options, wait=False))
        until("records of all", lambda: all(each.alive() for each in found.values()) and
              sum(row["records"] >= 2000 for row in rows(case, program).values()) > len(found))
        for instance in found.values():
            instance.end()
        tool.records(1000)
        tool.detach()
    full = case.trace()
    live.check_frames(full)
    for name, instance in found.items():
        roots, hidden = kinds[name]
        trace = instance.trace()
        nothing_lost(trace)
        readable(case, instance)
        compared = 0
        for thread in trace.threads.values():
            wanted = [each for each in full.threads.values() if each.tid == thread.tid]
            expect(len(wanted) == 1, f"{name}: thread {thread.tid} is {len(wanted)} times in the session's trace")
            # What was open when the instance began is not known to it, and at its end functions are switched off while
            # others' calls are open: the first calls and the last are left out.
            words = list(pruned(trace, thread, [], []))[200:-200]
            text = " ".join(words) + " "
            whole_text = " ".join(pruned(full, wanted[0], roots, hidden)) + " "
            expect(text in whole_text, f"{name}: thread {thread.tid} has records that are not what the filters leave: {text[:400]}")
            compared += len(words)
        expect(compared > 1000, f"{name}: {compared} records were compared")


def trees_change(case):
    """-g and --no-graph of an instance are set, changed and taken away while it records."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_1") as tool:
            with Instance(case, program, "look", "-l", "leaf_2") as instance:
                for words in (["trace=", "graph=recurse"], ["graph=tail"], ["graph=", "no-graph=once"], ["no-graph=recurse", "no-graph=jump"],
                              ["no-graph=", "graph=once", "max-depth=2"], ["graph=", "max-depth=", "trace=leaf_3"]):
                    calltap(case, "set", program.pid, "--instance", "look", *words)
                    instance.records(500)
                instance.end()
            tool.records(1000)
            tool.detach()
    live.check_frames(case.trace())
    expect(called(instance.trace()) >= {"leaf_1", "leaf_2", "leaf_3", "recurse", "tail", "last", "once", "wait_once"},
           f"{called(instance.trace())}")


def nothing_but_marks(case):
    """The tracer nop in an instance: no function leads to the dispatcher for it, and it has the marks."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, left_alone(program), Tool(case, program, "-l", "leaf_1") as tool:
        with Instance(case, program, "marks", "-p", "nop", "-l", "leaf_*") as instance:
            expect(instance.status()["sites_on"] == 0, f"it wants functions: {instance.status()}")
            calltap(case, "mark", program.pid, "--instance", "marks", "here")
            tool.records(1000)
            instance.end()
        tool.detach()
    trace = instance.trace()
    expect([thread.marks() for thread in trace.threads.values()] == [[b"here"]] and not called(trace), "it has other records")


def calls(case):
    """The tracer function in an instance: calls with their callers, and no exits."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, Tool(case, program, "-l", "leaf_1") as tool:
        with Instance(case, program, "look", "-p", "function", "-l", "recurse", "-l", "leaf_1") as instance:
            instance.records()
            instance.end()
        tool.records(1000)
        tool.detach()
        program.end()
    trace = instance.trace()
    kinds = {kind for thread in trace.threads.values() for kind, _, _ in thread.events()}
    expect(tf.CALL in kinds and not kinds & {tf.ENTRY, tf.EXIT}, f"records of kinds {kinds}")
    names = {trace.name(value) for thread in trace.threads.values() for kind, value, _ in thread.events() if kind == tf.CALL}
    expect(names == {"recurse", "leaf_1"}, f"{names}")
    live.check_frames(case.trace())


def beside_calls(case):
    """Beside a session whose tracer is `function`: both have what they want of the same functions, and the session may
    change its tracer meanwhile."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, left_alone(program):
        with Tool(case, program, "-p", "function", "-l", "leaf_*", "-l", "recurse") as tool:
            with Instance(case, program, "look", "-l", "recurse", "-l", "leaf_1", "-l", "tail") as instance:
                for tracer in ("function", "function_graph", "function", "nop", "function"):
                    tool.session.set(f"tracer={tracer}")
                    instance.records(300)
                instance.end()
            tool.records(1000)
            tool.detach()
    whole(instance.trace(), {"recurse", "leaf_1", "tail"})
    trace = case.trace()
    found = {tf.CALL: set(), tf.ENTRY: set()}
    for thread in trace.threads.values():
        for kind, value, _ in thread.events():
            if kind in found:
                found[kind].add(trace.name(value))
    wanted = {"recurse", "leaf_1", "leaf_2", "leaf_3"}
    expect(found == {tf.CALL: wanted, tf.ENTRY: wanted}, f"{found}")


def killed_client(case):
    """The client that began an instance is killed: the instance ends, its trace is whole, and the session goes on."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_1") as tool:
            for turn in range(5):
                with Instance(case, program, f"look{turn}", "-l", "recurse", "-l", "hold") as instance:
                    instance.records()
                    instance.process.kill()
                    instance.process.wait()
                    until("its end", lambda: set(rows(case, program)) == {"0"})
                whole(instance.trace(), {"recurse"})
            tool.records(1000)
            tool.detach()
    live.check_frames(case.trace())


def owner_ends(case):
    """The session ends by its verb, or is killed: the instance's command ends, and the program goes on."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program:
        with Tool(case, program, "-l", "leaf_1") as tool, Instance(case, program, "look", "-l", "recurse") as instance:
            instance.records()
            text = calltap(case, "detach", program.pid)
            expect("1 further instance ended" in text, text)
            tool.ended()
            instance.end(None)
        whole(instance.trace(), {"recurse"})
        with Tool(case, program, "-l", "leaf_1") as tool, Instance(case, program, "look", "-l", "recurse") as instance:
            instance.records()
            tool.process.kill()
            finish(tool.process)
            instance.end(None, status=1)
            expect("killed" in instance.said(), instance.said())
        expect(called(instance.trace(complete=False)) == {"recurse"}, "what was written is not to be read")
        program.end()


def target_ends(case):
    """The program ends, or is killed: what the instance had until then is in its trace."""
    case.need_native("attaching")
    own_place(case)
    for mode, way in (("block", signal.SIGTERM), ("drop", signal.SIGKILL), ("overwrite", signal.SIGKILL)):
        with Program(case, "2") as program:
            with Tool(case, program, "-l", "leaf_1") as tool, \
                 Instance(case, program, "look", "-l", "recurse", "-l", "leaf_2", "--mode", mode) as instance:
                time.sleep(0.5)
                os.kill(program.pid, way)
                tool.ended()
                instance.end(None)
        expect(called(instance.trace()) == {"recurse", "leaf_2"}, f"{mode}: {called(instance.trace())}")


def duration(case):
    """An instance ends by its duration, and the first one goes on."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, Tool(case, program, "-l", "leaf_1") as tool:
        began = time.monotonic()
        with Instance(case, program, "look", "-l", "recurse", "--duration", "700ms", wait=False) as instance:
            instance.end(None)
        expect(0.6 < time.monotonic() - began < PATIENCE, "not its time")
        tool.records(1000)
        tool.detach()
        program.end()
    whole(instance.trace(), {"recurse"})


def kept(case):
    """A flight recorder whose tool is killed goes on, also with what an instance wanted besides; the next attach clears up."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "1") as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_1", "-l", "leaf_2", "--mode", "overwrite") as tool, \
             Instance(case, program, "look", "-l", "leaf_1", "--mode", "overwrite") as instance:
            time.sleep(0.5)
            tool.process.kill()
            finish(tool.process)
            instance.end(None, status=1)
        counts = []
        for turn in range(2):
            case.trace_path = os.path.join(case.folder, f"left.{turn}")
            calltap(case, "snapshot", program.pid, "-o", case.trace_path)
            counts.append(case.trace().called())
            time.sleep(0.3)
        expect(all(counts[0][name] < counts[1][name] for name in ("leaf_1", "leaf_2")), f"recorded: {counts}")
        case.trace_path = os.path.join(case.folder, "again.data")
        with Tool(case, program, "-l", "leaf_2") as tool:
            with Instance(case, program, "other", "-l", "leaf_1") as instance:
                instance.records()
                instance.end()
            tool.detach()
        whole(instance.trace(), {"leaf_1"})


def one_after_another(case):
    """Two at a time, many times: rings and places are used again, and nothing of one gets into the next one's trace."""
    case.need_native("attaching")
    own_place(case)
    with Program(case, "2") as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_*") as tool:
            for turn in range(12):
                with Instance(case, program, f"one{turn}", "-l", "recurse", "-l", "leaf_1", "--duration", "60ms",
                              wait=False) as one, \
                     Instance(case, program, f"two{turn}", "-l", "leave", "-l", "once", "-l", "jump", "--duration", "50ms",
                              wait=False) as two:
                    one.end(None)
                    two.end(None)
                for instance, functions in ((one, {"recurse", "leaf_1"}), (two, {"leave", "once", "jump"})):
                    nothing_lost(instance.trace())
                    expect(instance.trace().lines, f"{instance.name}: there are no source lines")
                    expect(called(instance.trace()) <= functions, f"turn {turn}: {called(instance.trace())}")
            expect(set(rows(case, program)) == {"0"}, "one is still there")
            tool.detach()
    live.check_frames(case.trace())


SIXTEEN = (("recurse",), ("leaf_1",), ("leaf_2",), ("leaf_3",), ("once",), ("leave", "jump"), ("tail",))


def as_many_as_there_are(case):
    """Fifteen beside the session's own, some with the same functions: each has exactly its own, and a further one is
    refused; when one has ended there is room again."""
    case.need_native("attaching")
    own_place(case)

    def all_record(names, more):
        wanted = {name: row["records"] + more for name, row in rows(case, program).items()} if more else {}

        def done():
            now = rows(case, program)
            return set(now) == {"0", *names} and all(row["records"] > wanted.get(name, 100) for name, row in now.items())
        until(f"records of {len(names)} instances", done)

    with Program(case, "2") as program, left_alone(program):
        with Tool(case, program, "-l", "leaf_*") as tool, contextlib.ExitStack() as stack:
            found = {}
            for number in range(15):
                functions = SIXTEEN[number % len(SIXTEEN)]
                words = [word for name in functions for word in ("-l", name)]
                found[f"i{number}"] = stack.enter_context(Instance(case, program, f"i{number}", *words, wait=False))
            all_record(set(found), 0)
            refused = short(case, program, "more", "trace=leaf_1")
            expect("16 instances" in refused, f"one more was told {refused!r}")
            found["i7"].end()
            expect(not short(case, program, "more", "trace=leaf_1"), "there is no room for another one")
            all_record(set(found) - {"i7"}, 100)
            for name in set(found) - {"i7"}:
                found[name].end()
            tool.detach()
    for number, instance in enumerate(found.values()):
        whole(instance.trace(), set(SIXTEEN[number % len(SIXTEEN)]))
    first = case.trace()
    live.check_frames(first)
    expect(called(first) >= {"leaf_1", "leaf_2", "leaf_3"} and "recurse" not in called(first), f"{called(first)}")


def usage(pid):
    """Measures of a process that must not grow: mappings and their bytes, memory, descriptors."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as rollup:
        resident = int(re.search(r"Rss:\s+(\d+)", rollup.read())[1])
    found = mappings(pid)
    return {"mappings": len(found), "megabytes": sum(size for size, _, _ in found) >> 20, "resident": resident >> 10,
            "descriptors": len(descriptors(pid))}


def short(case, program, name, *words):
    """An instance from its begin to its end, asked for by the socket, as a command does; "", or why it was refused."""
    asker, other = (Session(case.environment(False), program.pid) for _ in range(2))
    with open(os.path.join(case.folder, "short.data"), "wb") as file:
        code, refused = asker.ask("instance", f"name={name}", "buffer=64K", *words, fd=file.fileno())
    if code == 0:
        time.sleep(0.01)
        end, text = other.ask("detach", f"instance={name}")
        expect(end == 0, f"{name} could not end: {text}")
    other.close()
    asker.close()
    return refused if code else ""


def no_growth(case):
    """Beside a flight recorder 200 of them begin and end: target and tool have no more of anything than after the first,
    and the detach takes no longer."""
    case.need_native("attaching")
    own_place(case)
    used = []
    with Program(case, "2") as program:
        before = look(program)
        with Tool(case, program, "-l", "leaf_*", "--mode", "overwrite", "-b", "64K") as tool:
            for turn in range(200):
                text = short(case, program, f"short{turn}", "trace=recurse", f"trace=leaf_{turn % 3 + 1}",
                             f"mode={('drop', 'overwrite')[turn // 3 % 2]}")
                expect(not text, f"turn {turn}: {text}")
                if turn == 199:
                    until("the tool to close what its askers have closed",
                          lambda: len(descriptors(tool.process.pid)) <= used[0][1]["descriptors"] + 1)
                if turn in (20, 199):
                    used.append((usage(program.pid), usage(tool.process.pid)))
            tool.detach()
        clean(program, before)
        program.end()
    for whose, first, last in (("target", used[0][0], used[1][0]), ("tool", used[0][1], used[1][1])):
        for what, margin in (("mappings", 2), ("megabytes", 8), ("resident", 2), ("descriptors", 1)):
            expect(last[what] <= first[what] + margin, f"{what} of the {whose}: {first} after 20, {last} after 200")


class Interrupted(Program):
    """test/prog/interrupted.c"""

    def __init__(self, case, *arguments):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("interrupted.c"), *arguments])


def late_writers(case):
    """Threads that are interrupted in the middle of a record when its instance ends, and end it long after: the memory is
    there still, and goes later; the next one's trace has none of it."""
    case.need_native("attaching")
    own_place(case)
    with Interrupted(case) as program:
        before, used = look(program), []
        with Tool(case, program, "-l", "interrupt", "--mode", "overwrite", "-b", "64K") as tool:
            for turn in range(300):
                if turn >= 60 and max(used) > min(used):  # a busy machine needs more turns to interrupt a record
                    break
                wanted = ("leaf", "middle")[turn % 2]
                text = short(case, program, f"short{turn}", f"trace={wanted}", "mode=overwrite")
                expect(not text, f"turn {turn}: {text}")
                trace = tf.Trace(os.path.join(case.folder, "short.data"))
                expect(called(trace) <= {wanted}, f"turn {turn}: {called(trace)}")
                used.append(usage(program.pid)["mappings"])
            tool.detach()
        clean(program, before)
        program.end()
    expect(max(used) > min(used), "nobody was ever interrupted in a record")
    expect(max(used) < min(used) + 30, f"mappings: {used}")


def left_by_jump(case):
    """Threads that leave a record's middle by a jump are never seen outside: what cannot be given back is bounded, and
    that is said; a detach gives it back."""
    case.need_native("attaching")
    own_place(case)
    with Interrupted(case, "jumps") as program:
        before, told, first, most = look(program), "", 0, 0
        for _ in range(2):
            with Tool(case, program, "-l", "interrupt", "--mode", "overwrite", "-b", "64K") as tool:
                for turn in range(90):
                    told = told or short(case, program, f"short{turn}", "trace=leaf", "mode=overwrite")
                    if not turn:  # all threads have called by now, and their stacks have their planes
                        first = usage(program.pid)["mappings"]
                most = usage(program.pid)["mappings"]
                tool.detach()
            expect("given back" in told, f"it was told {told!r}")
            expect(first + 50 < most < first + 80, f"mappings: {first}, {most}")
            told = ""
        clean(program, before)
        program.end()


def of_the_dead(case):
    """A session that takes nobody in and ends: its tool was killed, or detaches just now.  It is none."""
    case.need_native("attaching")
    environment = own_place(case)
    with Program(case, "2") as program:
        before = look(program)
        folder = folder_of(environment)
        os.makedirs(folder, mode=0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
            dead.bind(os.path.join(folder, f"{program.pid}-{'0' * 16}"))
            dead.listen()
            with Tool(case, program, "--stack-when", "recurse > 1000s", wait=False) as tool:
                time.sleep(0.3)
                expect(tool.process.poll() is None, f"it does not wait for an answer: {tool.said()}")
                dead.close()
                with contextlib.suppress(FileNotFoundError):  # the tool may have removed what nobody listens on
                    os.unlink(os.path.join(folder, f"{program.pid}-{'0' * 16}"))
                tool.wait()
                tool.records(100)
                tool.detach()
        clean(program, before)
        program.end()


class Shut(Program):
    """test/prog/shut.c under record: its filter kills it for a call that instances take."""

    def __init__(self, case, *options):  # pylint: disable=super-init-not-called
        self.start(case, case.record_command([case.program("shut.c")], options))


def in_a_sandbox(case):
    """A program whose filter would kill it for what the agent does for an instance has none, and lives."""
    case.need_native("instances")
    own_place(case)
    with Shut(case, "-l", "leaf") as program:
        session = Session(case.environment(False), program.pid)
        until("records", lambda: session.status()["records"] > 10000)
        for turn in range(2):
            text = short(case, program, f"short{turn}", "trace=leaf")
            expect("sandbox" in text, f"turn {turn}: {text!r}")
        wanted = session.status()["records"] + 10000
        until("more records", lambda: session.status()["records"] > wanted)
        session.close()
        program.end()
    live.check_frames(case.trace())


class Recorded(Program):
    """test/prog/attachee.c under record."""

    def __init__(self, case, *options):  # pylint: disable=super-init-not-called
        self.start(case, case.record_command([case.program("attachee.c"), "1"], options))


def beside_record(case):
    """Beside `calltap record`, of an emulated program, too: each has its functions and limits, and a clock."""
    own_place(case)
    with Recorded(case, "-l", "recurse", "-l", "tail", "-l", "leaf_*", "-l", "leave", "--mode", "drop") as program:
        with Instance(case, program, "one", "-l", "tail", "-l", "leaf_1", "--mode", "drop") as one, \
             Instance(case, program, "two", "-l", "recurse", "--max-depth", "1", "-t", "1ns", "--mode", "drop") as two:
            one.records(5000)
            two.records(100)
            expect(set(rows(case, program)) == {"0", "one", "two"}, f"status shows {rows(case, program)}")
            one.end("verb")
            two.end(signal.SIGINT)
            expect(set(rows(case, program)) == {"0"}, "one is still shown")
        program.end()
    for instance, functions in ((one, {"tail", "leaf_1"}), (two, {"recurse"})):
        trace = instance.trace()
        live.check_frames(trace)
        expect(called(trace) == functions, f"{instance.name}: called {called(trace)}")
        info = json.loads(case.run([case.tool, "info", "--json", "-i", instance.path]).stdout)
        expect(0 < info["duration_ns"] < 120e9 and info["clock_mhz"] > 1, f"{instance.name}: {info}")
        readable(case, instance)
    live.check_frames(case.trace())


def named_buffers(case):
    """A further flight recorder whose buffers are files: they go with it, and are its trace after kill -9 of all."""
    case.need_native("attaching")
    flight.need_memory()
    own_place(case)
    options = ("--mode", "overwrite", "-b", "64K", "--buffer-dir", flight.MEMORY, "-l", "recurse")
    left = []
    try:
        with Program(case, "2") as program, Tool(case, program, "-l", "leaf_1") as tool:
            with Instance(case, program, "look", *options) as instance:
                left = flight.folders(program.pid)
                expect(len(left) == 1, f"folders: {left}")
                instance.records()
                instance.end()
                expect(not flight.folders(program.pid), "the buffers are left")
                expect(called(instance.trace()) == {"recurse"}, f"called: {called(instance.trace())}")
            with Instance(case, program, "again", *options) as instance:
                instance.records()
                left = flight.folders(program.pid)
                for process in (tool.process.pid, program.pid):
                    os.kill(process, signal.SIGKILL)
                path = os.path.join(case.folder, "recovered")
                done = case.run([case.tool, "replay", "--no-pager", "--buffers", left[0], "-o", path])
                expect(done.status == 0, f"status {done.status}: {done.stderr}")
                expect(called(tf.Trace(path)) == {"recurse"}, f"called: {called(tf.Trace(path))}")
    finally:
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)


SINGLE = {
    "instances-buffers": named_buffers,
    "instances-beside-record": beside_record,
    "instances-sandbox": in_a_sandbox,
    "instances-growth": no_growth,
    "instances-late": late_writers,
    "instances-jumps": left_by_jump,
    "instances-of-the-dead": of_the_dead,
    "instances-kept": kept,
    "instances-again": one_after_another,
    "instances-sixteen": as_many_as_there_are,
    "instances-functions": own_functions,
    "instances-history": history_stays,
    "instances-settings": settings,
    "instances-calls": calls,
    "instances-nop": nothing_but_marks,
    "instances-trees": trees,
    "instances-trees-change": trees_change,
    "instances-beside-calls": beside_calls,
    "instances-limits": limits,
    "instances-killed": killed_client,
    "instances-owner": owner_ends,
    "instances-target": target_ends,
    "instances-duration": duration,
}

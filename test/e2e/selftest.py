#!/usr/bin/env python3
"""Proves that the end-to-end tests can fail: a trace that agrees with the program's log must pass the comparison, and
each way of disagreeing with it must not.  A case that fails must tell first how what it started ended.  ./check runs this
before the tests themselves."""
import argparse
import os
import platform
import struct
import sys
import tempfile

import builds
import run
import tracefile as tf
import truth
from harness import Process, expect, stop

NAMES = {1: "main", 2: "fib", 3: "_ZN4deep5Guard7releaseEv", 4: "helper.constprop.0", 5: "_ZSt4moveIiEvT_"}
LOG = ["> main", "> fib", "> release", "< release", "> helper", "! fib", "< fib", "< main"]
TRUE = [(tf.ENTRY, 1), (tf.ENTRY, 2), (tf.ENTRY, 3), (tf.ENTRY, 5), (tf.EXIT, 5), (tf.EXIT, 3), (tf.ENTRY, 4),
        (tf.UNWIND, 1), (tf.EXIT, 2), (tf.EXIT, 1)]
# Two coroutines of 4 KiB side by side; the first pauses in release(), is given up, and its memory goes to a third.
STACKS_LOG = ["> main 9000", "= 1000 2000", "= 2000 3000", "> fib 1f00", "> release 1e00", "> fib 2f00",
              "> helper 9000", "< helper 9000", "< fib 2f00", "= 1000 2000", "> helper 1f00", "< helper 1f00",
              "< main 9000"]
ONE, TWO, OWN = ((tf.STACK, 0, address) for address in (0x1FFF, 0x2FFF, 0x9FFF))
STACKS_TRUE = [(tf.ENTRY, 1), ONE, (tf.ENTRY, 2), (tf.ENTRY, 3), TWO, (tf.ENTRY, 2), OWN, (tf.ENTRY, 4), (tf.EXIT, 4),
               TWO, (tf.EXIT, 2), ONE, (tf.UNWIND, 2), (tf.ENTRY, 4), (tf.EXIT, 4), OWN, (tf.EXIT, 1)]
UNSTACKED = [event for event in STACKS_TRUE if event[0] != tf.STACK]


def chunk(kind, payload):
    covered = payload[:tf.DATA_HEAD] if kind == tf.DATA else payload
    check = tf.check_sum(tf.CHUNK.pack(tf.CHUNK_MAGIC, kind, 0, 0, len(payload), len(payload)), covered)
    head = tf.CHUNK.pack(tf.CHUNK_MAGIC, kind, 0, check, len(payload), len(payload))
    return head + payload + b"\0" * (-len(payload) % 8)


def write_trace(path, events, number=0):
    strings = b"".join(name.encode() + b"\0" for name in NAMES.values())
    offsets, at = {}, 0
    for function, name in NAMES.items():
        offsets[function], at = at, at + len(name) + 1
    table = b"".join(struct.pack("<IIQII", function, 0, 0, 0, offsets[function]) for function in NAMES)
    heads = b"".join(struct.pack("<I", kind << 28 | value) for kind, value, *_ in events)
    extras = b"".join(struct.pack("<Q", event[2]) for event in events if len(event) > 2)
    times = b"\2" * len(events)  # one tick apart
    streams = heads + times + extras
    data = struct.pack("<IIQQIIQII", 0, len(events), 0, len(events), len(times), len(extras), number, tf.check_sum(streams),
                       0) + streams
    with open(path, "wb") as file:
        file.write(tf.HEAD.pack(b"CALLTAP\n", 1, 64, 0, 62))
        file.write(chunk(tf.PROCESS, struct.pack("<IIIIQQ", 0, 10, 0xFFFFFFFF, 0, 0, 0) + b"/x\0"))
        file.write(chunk(tf.FUNCTIONS, struct.pack("<II", len(NAMES), len(strings)) + table + strings))
        file.write(chunk(tf.THREAD, struct.pack("<IIII16sQQQQ", 0, 0, 11, 0, b"t", 0, 0, 0, 0)))
        file.write(chunk(tf.DATA, data))


def verdict(folder, events, log, number=0, **how):
    """None when the trace agrees with the log, else what is wrong."""
    path, logs = os.path.join(folder, "trace"), os.path.join(folder, "logs")
    os.makedirs(logs, exist_ok=True)
    write_trace(path, events, number)
    with open(os.path.join(logs, "10.11"), "w", encoding="utf-8") as file:
        file.write("\n".join(log) + "\n")
    try:
        truth.compare(tf.Trace(path), logs, **how)
    except tf.BadTrace as bad:
        return str(bad)
    return None


def without(events, index):
    return events[:index] + events[index + 1:]


# A case's actions before it fails: the start of its report.
def dies(case):
    """The program dies of a signal, and then 20 commands follow."""
    Process(["sh", "-c", "kill -SEGV $$"]).wait()
    for _ in range(20):
        case.run(["true"])


def ends_with_status(case):
    case.run(["sh", "-c", "exit 7"])


def runs_on(_):
    stop(Process(["sleep", "60"], start_new_session=True))


REPORTS = {dies: ("kill -SEGV", "ended by SIGSEGV"), ends_with_status: ("exit 7", "exit status 7"),
           runs_on: ("sleep 60", "still ran")}


def reports(folder):
    """Errors in the reports of cases that fail: the ends of their processes must come first."""
    arguments = argparse.Namespace(build=folder, work=None, cpu=platform.machine(), keep=False, long=False, adaptive=False, default_build=True)
    wrong = []
    for test, (command, ending) in REPORTS.items():
        def fails(case, test=test):
            test(case)
            expect(False, "the text")
        done = run.run_case(f"self-test-{test.__name__}", fails, builds.WAYS[arguments.cpu].first, "/none", arguments)
        first, *rest = done["text"].splitlines()
        if done["status"] != "fail" or command not in first or not first.endswith(ending) or "the text" not in rest:
            wrong.append(f"the report of '{test.__name__}' is {done!r}")
    return wrong


def main():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        good = {"true": (TRUE, LOG, {}), "one event ahead": (TRUE, LOG[:-1], {"prefix": True}),
                "entries only": (TRUE[:3] + TRUE[6:7], LOG, {"only_entries": True}),
                "stacks": (STACKS_TRUE, STACKS_LOG, {}),
                "order only": (UNSTACKED, STACKS_LOG, {"only_order": True})}
        bad = {"call missing": (TRUE[:2] + TRUE[6:], LOG, {}), "exit missing": (TRUE[:-1], LOG, {}),
               "call twice": (TRUE[:2] + TRUE[2:6] + TRUE[2:], LOG, {}), "wrong nesting": (TRUE[:2] + [TRUE[-1]], LOG, {}),
               "unwind missing": (TRUE[:7] + TRUE[8:], LOG, {}), "records lost": (TRUE + [(tf.LOST, 0, 3)], LOG, {}),
               "far ahead": (TRUE, LOG[:3], {"prefix": True}), "behind": (TRUE[:3], LOG[:5], {"prefix": True}),
               "stack not left": (without(STACKS_TRUE, 4), STACKS_LOG, {}),
               "stack not entered": (without(STACKS_TRUE, 9), STACKS_LOG, {}),
               "given up unnoticed": (without(STACKS_TRUE, 12), STACKS_LOG, {}),
               "not back": (without(STACKS_TRUE, 6), STACKS_LOG, {}),
               "order wrong": (STACKS_TRUE[:2] + STACKS_TRUE[3:], STACKS_LOG, {"only_order": True}),
               "empty": ([], LOG, {}), "chunk missing": (TRUE, LOG, {"number": 1})}
        for label, (events, log, how) in good.items():
            problem = verdict(folder, events, log, **how)
            if problem:
                wrong.append(f"'{label}' should pass: {problem}")
        for label, (events, log, how) in bad.items():
            if not verdict(folder, events, log, **how):
                wrong.append(f"'{label}' should fail")
        wrong += reports(folder)
    print("\n".join(wrong) if wrong else f"{len(good) + len(bad)} comparisons judged right, {len(REPORTS)} failures told")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

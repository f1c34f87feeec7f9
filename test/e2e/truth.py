"""Compares what was recorded with what the program itself logged (test/prog/truth.h), frame by frame."""
import os

import tracefile as tf


def read_truth(folder):
    """{(pid, tid): lines} of the logs in a folder."""
    logs = {}
    for name in os.listdir(folder):
        pid, tid = name.split(".")
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            logs[int(pid), int(tid)] = file.read().splitlines()
    return logs


def expected(lines):
    """The log as entries '>name' and exits '<name>', with the frames that a longjmp ended closed where it landed."""
    sequence, stack = [], []
    for line in lines:
        mark, name = line.split(" ", 1)
        if mark == ">":
            stack.append(name)
        elif mark == "<" and stack:
            stack.pop()
        while mark == "!" and stack and stack[-1] != name:
            sequence.append("<" + stack.pop())
        if mark != "!":
            sequence.append(mark + name)
    return sequence


def recorded(trace, thread, known):
    """The thread's records in the same form, without the functions that are not in `known`.  Raises BadTrace when
    entries and exits do not nest."""
    sequence, stack = [], []

    def note(mark, function):
        if trace.name(function) in known:
            sequence.append(mark + trace.name(function))

    for kind, value, extra in thread.events():
        if kind == tf.ENTRY:
            stack.append(value)
            note(">", value)
        elif kind == tf.TAIL:
            if stack:
                note("<", stack.pop())
            stack.append(value)
            note(">", value)
        elif kind == tf.EXIT:
            # A fork's child returns from frames that its parent entered: then there is nothing to compare with.
            if stack and stack[-1] != value:
                raise tf.BadTrace(f"exit of {trace.name(value)} while {trace.name(stack[-1])} is innermost")
            if stack:
                stack.pop()
            note("<", value)
        elif kind == tf.UNWIND:
            for _ in range(min(value, len(stack))):
                note("<", stack.pop())
        elif kind == tf.LOST:
            raise tf.BadTrace(f"{extra} records were lost")
    return sequence


def entries(sequence):
    return [item for item in sequence if item[0] == ">"]


def difference(wanted, found, prefix):
    """What is wrong, or None.  With prefix, the program may have been killed between an event and its log."""
    if wanted == found or prefix and found[:len(wanted)] == wanted and len(found) - len(wanted) <= 2:
        return None
    at = next((i for i, pair in enumerate(zip(wanted, found)) if pair[0] != pair[1]), min(len(wanted), len(found)))
    return (f"event {at} of {len(wanted)} differs ({len(found)} recorded): the program says "
            f"{' '.join(wanted[max(at - 3, 0):at + 3])}, the trace {' '.join(found[max(at - 3, 0):at + 3])}")


def compare(trace, folder, only_entries=False, prefix=False, known=None):
    """Raises BadTrace at the first difference.  Returns the number of events compared."""
    logs = {key: expected(lines) for key, lines in read_truth(folder).items()}
    known = known or {item[1:] for log in logs.values() for item in log}
    found = {}
    for thread in trace.ordered_threads():
        found.setdefault((trace.pid(thread), thread.tid), []).extend(recorded(trace, thread, known))
    for key in sorted(set(logs) | {key for key, sequence in found.items() if sequence}):
        wanted, have = logs.get(key, []), found.get(key, [])
        if only_entries:
            wanted, have = entries(wanted), entries(have)
        problem = difference(wanted, have, prefix)
        if problem:
            raise tf.BadTrace(f"pid {key[0]} tid {key[1]}: {problem}")
    return sum(map(len, logs.values()))

"""Compares what was recorded with what the program itself logged (test/prog/truth.h), frame by frame.

Both sides become the same kind of list: (">", name, the entry that it was called from) and ("<", name, the entry that
it ends), entries numbered from 1 in each thread, 0 for none.  Frames lie in chains: one for each stack that the program
told of, and one for all else of a thread.
"""
import bisect
import os

import tracefile as tf

PAGE = 4096


class Chains:
    """The open frames of one thread while its events go by."""

    def __init__(self, stacks):
        self.stacks = sorted(stacks)  # [(low, high)] of those told of
        self.given_up = {}  # by the last byte's address, which names it in the trace: those whose memory is another's
        self.stack, self.frames, self.left = None, [], {}  # the stack in use, its chain, the chains of the others
        self.events, self.entered = [], 0

    def tell(self, low, high):
        """From now on this memory is one stack, and what it overlaps is none."""
        gone = [stack for stack in self.stacks if stack[0] < high and low < stack[1] and stack != (low, high)]
        self.stacks = sorted({*self.stacks, (low, high)}.difference(gone))
        self.given_up.update((stack[1] - 1, stack) for stack in gone)
        self.left.pop(self.given_up.pop(high - 1, ()), None)
        self.run_on(low)

    def run_on(self, address):
        """Go on with the stack that holds the address."""
        at = bisect.bisect_right(self.stacks, (address, 1 << 64)) - 1
        # The trace names a stack by its last byte, or by that of its last page, in which it may end.
        high = self.stacks[at][1] if at >= 0 else 0
        stack = self.stacks[at] if address < high or address == (high | PAGE - 1) else None
        stack = self.given_up.get(address, stack)
        if stack != self.stack:
            self.left[self.stack] = self.frames
            self.frames, self.stack = self.left.pop(stack, []), stack

    def enter(self, function, name, leaf=False):
        """A frame is opened; one without a name is not part of the comparison."""
        caller = next((entry for _, _, entry, _ in reversed(self.frames) if entry), 0)
        self.entered += bool(name)
        self.frames.append((function, name, self.entered if name else 0, leaf))
        if name:
            self.events.append((">", name, caller))

    def end(self, name=None, without=()):
        """The innermost frame ends, if any: in a fork's child its parent entered it, and only the name is known."""
        _, opened, entry, _ = self.frames.pop() if self.frames else (None, None, 0, False)
        if (name or opened) and (not entry or entry not in without):
            self.events.append(("<", name or opened, entry))

    def abandoned(self, low, high):
        """The entries that are open on stacks in this memory."""
        chains = {**self.left, self.stack: self.frames}
        return {entry for stack, frames in chains.items() if stack and stack[0] < high and low < stack[1]
                for _, _, entry, _ in frames}


def read_truth(folder):
    """{(pid, tid): lines, split} of the logs in a folder."""
    logs = {}
    for name in os.listdir(folder):
        pid, tid = name.split(".")
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            logs[int(pid), int(tid)] = [line.split() for line in file]
    return logs


class Told:
    """The events of a log, with the frames that a longjmp ended closed where it landed."""

    def __init__(self, lines=()):
        self.stacks = []  # (number of events before, low, high)
        self.abandoned = set()  # entries left open on a stack told of: when their end is noticed is not defined
        chains = Chains(())
        for mark, name, *address in lines:
            if mark == "=":
                memory = int(name, 16), int(address[0], 16)
                self.stacks.append((len(chains.events), *memory))
                self.abandoned |= chains.abandoned(*memory)
                chains.tell(*memory)
                chains.frames.clear()
                continue
            chains.run_on(int(address[0], 16) if address else 0)
            if mark == ">":
                chains.enter(name, name)
            elif mark == "<":
                chains.end(name)
            while mark == "!" and chains.frames and chains.frames[-1][0] != name:
                chains.end()
        self.events = chains.events
        self.abandoned |= chains.abandoned(0, 1 << 64)


def unwound(frames, count, landing):
    """The number of frames that an UNWIND ends, leaves and all, when a LANDING before it may have named the function that
    stays."""
    counted = [at for at in reversed(range(len(frames))) if not frames[at][3]]  # from the innermost outwards
    if landing is not None:
        for number in (count, count + 1, count - 1):
            if 0 <= number < len(counted) and frames[counted[number]][0] == landing:
                return len(frames) - 1 - counted[number]
    ends = len(frames) - counted[min(count, len(counted)) - 1] if counted and count else 0
    while landing is not None and ends < len(frames) and frames[-1 - ends][3]:
        ends += 1
    return ends


def recorded(trace, thread, chains, told, known, nested):
    """Adds the thread's records to chains, without the functions that are not in `known`.  Raises BadTrace when
    entries and exits do not nest, unless `nested` is False."""
    stacks, landing = list(told.stacks), None
    for kind, value, extra in thread.events():
        while stacks and stacks[0][0] <= len(chains.events):
            here = chains.stack[0] if chains.stack else 0
            chains.tell(*stacks.pop(0)[1:])
            chains.run_on(here)
        name = trace.name(value) if kind in (tf.ENTRY, tf.EXIT, tf.TAIL) else None
        name = name if name in known else None
        if kind == tf.TAIL:
            chains.end()
        if kind in (tf.ENTRY, tf.TAIL):
            chains.enter(value, name, bool(extra))
        elif kind == tf.EXIT:
            if nested and chains.frames and chains.frames[-1][0] != value:
                raise tf.BadTrace(f"exit of {trace.name(value)} while {trace.name(chains.frames[-1][0])} is innermost")
            chains.end(name)
        elif kind == tf.LANDING:
            landing = value
        elif kind == tf.UNWIND:
            for _ in range(unwound(chains.frames, value, landing)):
                chains.end(without=told.abandoned)
            landing = None
        elif kind == tf.STACK:
            chains.run_on(extra)
        elif kind == tf.LOST:
            raise tf.BadTrace(f"{extra} records were lost")


def recorded_alone(trace, thread):
    """The thread's chains by the trace's word alone: a stack is what STACK records call the same."""
    chains = Chains({(extra, extra + 1) for kind, _, extra in thread.events() if kind == tf.STACK})
    recorded(trace, thread, chains, Told(), {trace.name(function) for function in trace.symbols}, True)
    return chains


def bare(events, only_entries):
    """The parts to compare when callers are not compared."""
    return [(mark, name, 0) for mark, name, _ in events if mark == ">" or not only_entries]


def difference(wanted, found, prefix):
    """The first difference, or None.  With prefix, the program may have been killed between an event and its log."""
    if wanted == found or prefix and found[:len(wanted)] == wanted and len(found) - len(wanted) <= 2:
        return None
    at = next((i for i, pair in enumerate(zip(wanted, found)) if pair[0] != pair[1]), min(len(wanted), len(found)))
    said, have = (" ".join(f"{mark}{name}/{entry}" for mark, name, entry in events[max(at - 3, 0):at + 3])
                  for events in (wanted, found))
    return f"event {at} of {len(wanted)} differs ({len(found)} recorded): the program says {said}, the trace {have}"


def compare(trace, folder, only_entries=False, only_order=False, prefix=False, known=None):
    """Raises BadTrace at the first difference.  Returns the number of events compared.  only_order: not which frame
    called which, for frames that are entered by one thread and left by another."""
    logs = {key: Told(lines) for key, lines in read_truth(folder).items()}
    known = known or {name for told in logs.values() for _, name, _ in told.events}
    found = {}
    for thread in trace.ordered_threads():
        key = trace.pid(thread), thread.tid
        others = {(low, high) for (pid, tid), told in logs.items() if pid == key[0] and tid != key[1]
                  for _, low, high in told.stacks}
        chains = found.setdefault(key, Chains(others))
        recorded(trace, thread, chains, logs.get(key, Told()), known, not only_order)
    for key in sorted(set(logs) | {key for key, chains in found.items() if chains.events}):
        wanted, have = logs.get(key, Told()).events, found[key].events if key in found else []
        if only_entries or only_order:
            wanted, have = bare(wanted, only_entries), bare(have, only_entries)
        problem = difference(wanted, have, prefix)
        if problem:
            raise tf.BadTrace(f"pid {key[0]} tid {key[1]}: {problem}")
    return sum(len(told.events) for told in logs.values())

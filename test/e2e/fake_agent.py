#!/usr/bin/env python3
"""A hostile agent: runs under `calltap record`, starts a real program, and talks nonsense to the tool meanwhile.

    fake_agent.py MANNER PROGRAM [ARGUMENTS]

Ends as the program does; says "fake: ..." on stderr, with status 99, when the tool gave it what it must not have.
"""
import mmap
import os
import random
import struct
import sys
import time

import wire

SEED = 20261120


def fail(text):
    print(f"fake: {text}", file=sys.stderr)
    os._exit(99)


def greeted(flags=0):
    """A connection up to SETUP, with the descriptors that came along."""
    connection, key = wire.connect(os.environ["CALLTAP_SESSION"])
    wire.send(connection, wire.hello(key, flags))
    data, descriptors = wire.receive(connection)
    if wire.kind_of(data) != wire.SETUP or len(descriptors) not in (2, 3):
        fail(f"no SETUP: {data!r}")
    return connection, descriptors[:2]


def ended(connection):
    """The tool closes the connection; what it had sent before is read first."""
    while True:
        data, descriptors = wire.receive(connection)
        for descriptor in descriptors:
            os.close(descriptor)
        if not data:
            return
        if wire.kind_of(data) == wire.SETUP:
            fail("a SETUP although the HELLO was wrong")


def fresh():
    return wire.connect(os.environ["CALLTAP_SESSION"])


def garbage(chance):
    for size in (0, 1, 4, 7, 8, 9, 48, 56, 57, 500, 4608, 4609, 9000):
        connection, _ = fresh()
        wire.send(connection, chance.randbytes(size))
        ended(connection)
    for size in (8, 0, 1, 7, 16, 48, 4608, 9000):
        connection, _ = greeted()
        wire.send(connection, chance.randbytes(size))
        ended(connection)


def hellos(_):
    connection, key = fresh()
    right = wire.hello(key)
    for wrong in (wire.hello(key ^ 1), wire.hello(0), right[:-1], right + b"\0", right[:20],
                  wire.hello(key, version=99),
                  wire.message(wire.HELLO, right[8:], size=12), wire.message(wire.HELLO, right[8:], size=1 << 31)):
        other, _ = fresh()
        wire.send(other, wrong)
        data, _ = wire.receive(other)
        if data:
            fail(f"a wrong HELLO was answered: {wrong!r}")
    sent = 0
    while sent < 10000 and wire.send(connection, right):
        sent += 1
    ended_late = time.monotonic() + 5
    while wire.send(connection, right):
        if time.monotonic() > ended_late:
            fail("ten thousand HELLOs are taken")


def kinds(_):
    for kind in (0, 6, 8, 31, 32, 33, 34, 35, 36, 37, 38, 255, 1 << 31, (1 << 32) - 1):
        connection, _ = greeted()
        wire.send(connection, wire.message(kind, b"\0" * 48))
        ended(connection)


def clocks(_):
    """Answers that nobody asked for, of other sizes and of impossible times."""
    for data in (wire.clock_told(0, 0), wire.clock_told((1 << 64) - 1, time.monotonic_ns()),
                 wire.message(wire.CLOCK_TOLD, b""), wire.message(wire.CLOCK_TOLD, bytes(4000))):
        connection, _ = greeted()
        wire.send(connection, data)
        ended(connection)


def foreigners(_):
    """Programs for CPUs of any sort: let go of, and not to be talked to any more."""
    for machine in (0, 99, 1 << 31, (1 << 32) - 1):
        connection, key = fresh()
        wire.send(connection, wire.hello(key, machine=machine))
        data, _ = wire.receive(connection)
        dormant, = struct.unpack_from("<I", data, 40)
        if wire.kind_of(data) != wire.SETUP or not dormant:
            fail(f"a program for machine {machine} is answered with {data!r}")
        wire.send(connection, wire.object_(0, 0))
        ended(connection)
    connection, key = fresh()
    wire.send(connection, wire.hello(key, exe=b"/" * 4500))
    ended(connection)


def counts(_):
    """Reports and answers that do not add up."""
    everything = (wire.message(wire.SWITCH_DONE, bytes(16)), wire.message(wire.SWITCH_DONE, b"\xff" * 16),
                  wire.plan_done(0), wire.plan_done(1 << 63, patched=(1 << 32) - 1), wire.message(wire.PLAN_DONE, b""),
                  wire.object_(1, 2, b"no end"), wire.object_(1, 2, b""),
                  wire.message(wire.OBJECTS_END, b"\xff" * 4096),
                  wire.message(wire.FAULT, b"\xff" * 8))
    for data in everything:
        connection, _ = greeted()
        wire.send(connection, data)
        ended(connection)
    connection, _ = greeted()
    wire.send(connection, wire.message(wire.DETACHED, b"\xff" * 8))
    connection.close()
    connection, _ = greeted()
    for number in range(10000):
        if not wire.send(connection, wire.object_(number << 12, number << 12, b"/nowhere\0")):
            return
    fail("ten thousand objects are taken")


def lies(chance):
    """The program mapped as a file and reported as an object; plans that are not carried out, untrue answers."""
    program = os.environ.get("FAKE_PROGRAM", sys.argv[2])  # argv may begin with its emulator
    with open(program, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        at = next(int(line.split("-")[0], 16) for line in maps if os.path.realpath(program) in line)
    plans = 0
    for lie in range(3):
        connection, _ = greeted()
        for _ in range(40):
            wire.send(connection, wire.object_(chance.getrandbits(47), at, b"/nowhere\0"))
        wire.send(connection, wire.message(wire.OBJECTS_END, b"\xff" * 136))
        data, descriptors = wire.receive(connection)
        while wire.kind_of(data) == wire.PLAN:
            plans += 1
            number, = struct.unpack_from("<Q", data, 8)
            try:
                os.ftruncate(descriptors.pop(), 0)
                fail("a plan's memory can be shrunk")
            except PermissionError:
                pass
            answer = wire.plan_done(number, region=chance.getrandbits(64), patched=(1 << 32) - 1 if lie == 1 else 0)
            if not wire.send(connection, answer):
                break
            data, descriptors = wire.receive(connection)
        connection.close()
    mapped.close()
    if plans < 80:
        fail(f"only {plans} plans were sent")


def forked_plans(chance):
    """Children that claim to have plans: too many, not all, none that there is; a PLANS that nobody waits for."""
    for promised, said in ((1, wire.had_plans([])), (1, wire.had_plans([(0, 0, 0, 0)] * 2)), (1, wire.had_plans([(0, 0, 0, 0)], count=2)),
                           ((1 << 32) - 1, None), (2, wire.message(wire.HAD_PLANS, b"")), (0, wire.had_plans([(0, 0, 0, 0)])),
                           (1, wire.message(wire.GO))):
        connection, key = fresh()
        wire.send(connection, wire.hello(key, wire.FORKED, plans=promised))
        if said:
            wire.send(connection, said)
        while wire.receive(connection)[0]:
            if promised:
                fail(f"a child that promised {promised} plans and said {said!r} is answered")
    for _ in range(20):
        connection, key = fresh()
        wire.send(connection, wire.hello(key, wire.FORKED, plans=128))
        wire.send(connection, wire.had_plans([tuple(chance.getrandbits(bits) for bits in (chance.choice((2, 8, 64)), 64, 64, 32))
                                              for _ in range(128)]))
        if wire.kind_of(wire.receive(connection)[0]) != wire.SETUP:
            fail("no SETUP after all plans")
        connection.close()


def descriptors(_):
    """Descriptors that nobody asked for."""
    connection, key = fresh()
    wire.send(connection, wire.hello(key), [0, 1, 2] * 20)
    data, _ = wire.receive(connection)
    if wire.kind_of(data) != wire.SETUP:
        fail("a HELLO with descriptors is refused")
    for _ in range(200):
        wire.send(connection, wire.message(wire.OBJECTS_END, b"\0" * 136), [0, 1, 2] * 20)
        wire.receive(connection)


def scribble(chance):
    """Rubbish in all that is shared; and it must not be possible to pull memory from under the tool."""
    connection, shared = greeted()
    for descriptor in shared:
        for size in (0, 1, 1 << 40):
            try:
                os.ftruncate(descriptor, size)
                fail("shared memory can be resized")
            except PermissionError:
                pass
    arena = wire.mapped(shared[1])
    rings, stride = struct.unpack_from("<IQ", arena, 4)
    for round_ in range(60):
        for index in range(rings):
            at = wire.PAGE + index * stride
            # Claimed by us or by nonsense, and any number of sub-buffers opened; then heads and records.
            struct.pack_into("<I", arena, wire.STATE_OFFSET + 4 * index,
                             chance.choice((0, 1 + os.getpid(), chance.getrandbits(32))))
            struct.pack_into("<4Q", arena, at + 64, chance.choice((round_, 1 << 63, chance.getrandbits(64))),
                             chance.getrandbits(64), chance.getrandbits(64), chance.getrandbits(64))
            struct.pack_into("<6Q", arena, at + wire.PAGE, chance.choice((1, round_, chance.getrandbits(64))),
                             *(chance.getrandbits(64) for _ in range(5)))
            arena[at + wire.PAGE + 48:at + wire.PAGE + 2048] = chance.randbytes(2000)
        arena[:64] = chance.randbytes(64)
        if round_ % 10 == 0:
            time.sleep(0.02)
    for index in range(rings):
        at = wire.PAGE + index * stride
        arena[at:at + 192] = chance.randbytes(192)
    board = wire.mapped(shared[0])
    board[:64] = chance.randbytes(64)
    time.sleep(0.1)
    connection.close()


def deaf(_):
    """Asks and asks, and reads nothing."""
    connection, _ = greeted()
    for _ in range(3000):
        if not wire.send(connection, wire.message(wire.OBJECTS_END, b"\0" * 136)):
            return
    fail("three thousand questions without reading an answer")


def crowd(_):
    """Many connections at a time, most of which say nothing."""
    held = []
    for number in range(300):
        connection, key = fresh()
        if number % 3 == 0:
            wire.send(connection, wire.hello(key))
        held.append(connection)
    time.sleep(0.2)


def lingering(_):
    """A process that goes on, holding a connection on which it says nothing."""
    connection, _ = fresh()
    if os.fork() == 0:
        os.setsid()
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        connection.settimeout(30)
        os._exit(0 if not wire.receive(connection)[0] else 1)


MANNERS = {function.__name__: function for function in
           (garbage, hellos, kinds, clocks, foreigners, counts, lies, forked_plans, descriptors, scribble, deaf, crowd, lingering)}


def main():
    child = os.fork()
    if child == 0:
        os.execv(sys.argv[2], sys.argv[2:])
    MANNERS[sys.argv[1]](random.Random(SEED))
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())

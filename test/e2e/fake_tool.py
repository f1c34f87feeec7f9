"""A hostile tool: listens, starts a program with the agent in it, and does to the agent what a right tool never would.

Each manner is a function of a Tool. run() carries one out; what the program prints and how it ends must be as without
us, and it must not take long.
"""
import os
import secrets
import socket
import struct
import subprocess
import time

import wire
from harness import Failure, Process, expect

PATIENCE = 10  # seconds: the agent's own bounds are 1 s, but for a tool that says nothing at all


class Tool:
    """The listening end, the program, and its agent's connection once it is there."""

    def __init__(self, case, agent, command):
        # Not as a session's: come_as_stranger() connects to each of those that it finds.
        self.name, self.key = "calltap-test-" + secrets.token_hex(16), secrets.randbits(64)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(b"\0" + self.name.encode())
        self.listener.listen(8)
        self.listener.settimeout(PATIENCE)
        command, environment = case.preloading(agent, command)
        environment["CALLTAP_SESSION"] = f"{self.name}:{self.key:016x}"
        self.process = Process(command, cwd=case.folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.connection, self.objects, self.kept = None, [], []

    def accept(self):
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(PATIENCE)

    def greet(self):
        self.accept()
        data, _ = wire.receive(self.connection)
        expect(wire.kind_of(data) == wire.HELLO, f"the agent says {data!r} instead of HELLO")
        expect(struct.unpack_from("<Q", data, wire.KEY_OFFSET)[0] == self.key,
               f"the HELLO does not have the session's key {self.key:#x}: {data.hex()}")

    def send(self, data, descriptors=()):
        return wire.send(self.connection, data, descriptors)

    def own(self, descriptor):
        self.kept.append(descriptor)
        return descriptor

    def board(self):
        return self.own(wire.memory(wire.PAGE, struct.pack("<I", wire.BOARD_MAGIC)))

    def arena(self, **wrong):
        return self.own(wire.memory(wire.PAGE + 2 * wire.STRIDE, wire.arena_bytes(**wrong)))

    def setup(self):
        """A right SETUP, and the objects that the agent reports then."""
        self.greet()
        self.send(wire.setup(wire.PAGE + 2 * wire.STRIDE), [self.board(), self.arena()])
        self.report()

    def report(self):
        data, _ = wire.receive(self.connection)
        while wire.kind_of(data) == wire.OBJECT:
            base, dynamic = struct.unpack_from("<QQ", data, 8)
            self.objects.append((base, dynamic, data[32:].split(b"\0")[0].decode()))
            data, _ = wire.receive(self.connection)
        expect(wire.kind_of(data) == wire.OBJECTS_END, f"the agent's report ends with {data!r}")

    def plan(self, low, high, sites, count=None, stub_bytes=4096, region=0, descriptor=None):
        """The answer to a plan; None when the agent has ended the connection."""
        if descriptor is None:
            seals = wire.SEAL_SHRINK | wire.SEAL_GROW | wire.SEAL_WRITE | wire.SEAL_SEAL
            descriptor = self.own(wire.memory(max(len(sites), 1), sites, seals))
        if count is None:
            count = len(sites) // len(wire.site(0, 0, b""))
        self.send(wire.plan(0, low, high, stub_bytes, count, region), [descriptor])
        data, _ = wire.receive(self.connection)
        return wire.read_plan_done(data) if wire.kind_of(data) == wire.PLAN_DONE else None

    def gone(self):
        """The agent ends the connection; what it had sent before is read first."""
        try:
            while wire.receive(self.connection)[0]:
                pass
        except TimeoutError:
            raise Failure("the agent does not end the connection") from None

    def finish(self, plain):
        try:
            stdout, stderr = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"the program still runs after {PATIENCE} s") from None
        finally:
            self.close()
        status = self.process.returncode
        expect(status in (plain.status, 128 - plain.status), f"the program ends with {status}, plain {plain.status}")
        expect(stdout.decode() == plain.stdout, f"the program prints {stdout[-200:]!r}")
        expect(stderr.decode() == plain.stderr, f"the program complains: {stderr[-200:]!r}")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for thing in (self.process.stdout, self.process.stderr, self.listener, self.connection):
            if thing:
                thing.close()
        for descriptor in self.kept:
            os.close(descriptor)


def run(case, agent, command, manner, plain):
    tool = Tool(case, agent, command)
    try:
        manner(tool)
    except Failure as failure:
        tool.close()
        raise Failure(f"{manner.__name__}: {failure}") from failure
    if tool.connection and manner.__name__ not in STAYING:
        tool.connection.close()
    try:
        tool.finish(plain)
    except Failure as failure:
        raise Failure(f"{manner.__name__}: {failure}") from failure


def refuses_connection(tool):
    tool.listener.close()


def closes_at_once(tool):
    tool.accept()


def closes_after_hello(tool):
    tool.greet()


def says_garbage(tool):
    tool.greet()
    tool.send(os.urandom(300))
    tool.gone()


def says_too_much(tool):
    tool.greet()
    tool.send(wire.message(wire.SETUP, bytes(8000)))
    tool.gone()


def says_nothing_in_a_packet(tool):
    tool.greet()
    tool.send(b"")
    tool.gone()


def says_half_a_setup(tool):
    tool.greet()
    tool.send(wire.setup(1)[:20], [tool.board(), tool.arena()])
    tool.gone()


def sends_go_without_setup(tool):
    tool.greet()
    tool.send(wire.message(wire.GO))
    tool.gone()


def wants_nothing(tool):
    tool.greet()
    tool.send(wire.setup(0, dormant=1))
    tool.gone()


def forgets_descriptors(tool):
    tool.greet()
    tool.send(wire.setup(wire.PAGE + 2 * wire.STRIDE))
    tool.gone()


def sends_pipes(tool):
    tool.greet()
    tool.send(wire.setup(wire.PAGE + 2 * wire.STRIDE), [tool.own(end) for end in os.pipe()])
    tool.gone()


def sends_memory_that_may_shrink(tool):
    tool.greet()
    size = wire.PAGE + 2 * wire.STRIDE
    arena = tool.own(wire.memory(size, wire.arena_bytes(), seals=0))
    tool.send(wire.setup(size), [tool.board(), arena])
    os.ftruncate(arena, 0)
    tool.gone()


def sends_a_short_board(tool):
    tool.greet()
    tool.send(wire.setup(wire.PAGE + 2 * wire.STRIDE), [tool.own(wire.memory(0)), tool.arena()])
    tool.gone()


def promises_more_than_it_sends(tool):
    tool.greet()
    tool.send(wire.setup(1 << 30), [tool.board(), tool.arena()])
    tool.gone()


def arena_like(**wrong):
    def sends_a_wrong_arena(tool):
        tool.greet()
        tool.send(wire.setup(wire.PAGE + 2 * wire.STRIDE), [tool.board(), tool.arena(**wrong)])
        tool.gone()
    return sends_a_wrong_arena


def sets_up_twice(tool):
    tool.setup()
    tool.send(wire.setup(wire.PAGE + 2 * wire.STRIDE), [tool.board(), tool.arena()])
    tool.gone()


def detaches_before_the_plan(tool):
    tool.setup()
    tool.send(wire.message(wire.DETACH))
    tool.gone()


def closes_in_the_report(tool):
    tool.greet()
    tool.send(wire.setup(wire.PAGE + 2 * wire.STRIDE), [tool.board(), tool.arena()])
    wire.receive(tool.connection)


def asks_again_and_again(tool):
    """RESCAN while nobody is held: the agent may not walk the link map, and ends the conversation."""
    tool.setup()
    tool.send(wire.message(wire.GO))
    for _ in range(50):
        tool.send(wire.message(wire.RESCAN))


def asks_for_the_time(tool):
    """Before SETUP and after: each question has one answer, and time does not go back."""
    tool.greet()
    last = (0, 0)
    for number in range(20):
        if number == 10:
            tool.send(wire.setup(wire.PAGE + 2 * wire.STRIDE), [tool.board(), tool.arena()])
            tool.report()
        tool.send(wire.message(wire.CLOCK))
        data, _ = wire.receive(tool.connection)
        expect(wire.kind_of(data) == wire.CLOCK_TOLD and len(data) == 24, f"asked for the time, the agent says {data!r}")
        told = struct.unpack_from("<QQ", data, 8)
        expect(told[0] > last[0] and last[1] < told[1] <= time.monotonic_ns(), f"the time is {told} after {last}")
        last = told
    tool.send(wire.message(wire.GO))


def asks_for_the_time_at_length(tool):
    tool.setup()
    tool.send(wire.message(wire.CLOCK, bytes(8)))
    tool.gone()


def reads_nothing(tool):
    """The agent's answers pile up; it must not wait for us longer than it says."""
    tool.setup()
    for _ in range(400):
        if not tool.send(wire.message(wire.RESCAN)):
            break
    time.sleep(0.2)


def goes_on_without_end(tool):
    tool.setup()
    for _ in range(200):
        tool.send(wire.message(wire.GO))
    for _ in range(50):
        tool.send(wire.arena_message(wire.PAGE + 2 * wire.STRIDE), [tool.arena()])


def sends_a_wrong_extra_arena(tool):
    tool.setup()
    for size, descriptor in ((1 << 40, tool.arena()), (0, tool.arena()), (wire.PAGE, tool.board()),
                             ((1 << 64) - 1, tool.arena())):
        tool.send(wire.arena_message(size), [descriptor])
        data, _ = wire.receive(tool.connection)
        expect(wire.kind_of(data) == wire.FAULT, f"the agent takes an arena of {size} bytes and says {data!r}")
    tool.send(wire.message(wire.GO))


def switches_what_is_not_there(tool):
    tool.setup()
    for number in (0, 1, (1 << 64) - 1):
        tool.send(wire.switch(number, 1, range(100)))
        data, _ = wire.receive(tool.connection)
        expect(wire.kind_of(data) == wire.SWITCH_DONE and struct.unpack_from("<II", data, 16) == (0, 100),
               f"100 sites of no plan are switched; the agent says {data!r}")
    tool.send(wire.switch(0, 1, range(3), count=(1 << 32) - 1))
    tool.gone()


def scribbles(tool):
    """All counters of the shared memory change under the running program."""
    tool.setup()
    arena = wire.mapped(tool.kept[1])
    tool.send(wire.message(wire.GO))
    for number in range(40):
        for index in range(2):
            at = wire.PAGE + index * wire.STRIDE
            struct.pack_into("<QII", arena, at + 128, int.from_bytes(os.urandom(8), "little"), number, number)
            struct.pack_into("<I", arena, wire.STATE_OFFSET + 4 * index, number)
        time.sleep(0.002)


STAYING = {"reads_nothing", "scribbles", "goes_on_without_end"}
ORDERS = (refuses_connection, closes_at_once, closes_after_hello, says_garbage, says_too_much, says_nothing_in_a_packet,
          says_half_a_setup, sends_go_without_setup, wants_nothing, forgets_descriptors, sends_pipes,
          sends_memory_that_may_shrink, sends_a_short_board, promises_more_than_it_sends, sets_up_twice,
          detaches_before_the_plan, closes_in_the_report, asks_again_and_again, asks_for_the_time, asks_for_the_time_at_length, reads_nothing, goes_on_without_end,
          sends_a_wrong_extra_arena, switches_what_is_not_there, scribbles)
ARENAS = tuple(arena_like(**wrong) for wrong in (
    {"magic": 0}, {"rings": 0}, {"rings": 3}, {"rings": 256}, {"rings": (1 << 32) - 1}, {"stride": 0},
    {"stride": wire.PAGE + 8}, {"stride": (1 << 64) - wire.PAGE}, {"stride": 1 << 63}, {"sub_size": 0},
    {"sub_size": 48}, {"sub_size": 5000}, {"sub_size": 1 << 31},
    {"sub_count": 0}, {"sub_count": 1}, {"sub_count": (1 << 32) - 1}))

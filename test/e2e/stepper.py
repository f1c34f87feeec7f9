#!/usr/bin/env python3
"""A debugger that sends an emulated program a SIGTRAP between any two instructions (test/prog/steps.c).

    stepper.py CPU PORT [--one-a-round [--stop FILE]]

--one-a-round: the program comes to the steps again and again (test/prog/bounds.c).  The first time they are only looked
at, then each time one signal comes, in front of the next one of their instructions; and none when all have had theirs.
--stop: FILE has the tool's process id; the tool is stopped the first time, and so is the tick (calltap/abi/times.h), which
would be another one after some of the instructions.

Speaks the remote protocol of GDB with the emulator's stub. The program's own breakpoints say what to do: one begins the
steps, each run of its handler ends with one, and one that comes in a step ends them.  Ends when the program has ended.
"""
import contextlib
import os
import signal
import socket
import sys
import time

PC = 32  # the register's number, on RISC-V and AArch64
LENGTH = 4  # bytes of a breakpoint instruction
PATIENCE = 50  # seconds
TRAPPED, EXITED = "T05", "W"
# A store of the second kind succeeds if nothing came between it and a load of the first; (mask, value) of each.
EXCLUSIVE = {
    "aarch64": ((0x3FFF7C00, 0x085F7C00), (0x3FE07C00, 0x08007C00)),  # ldxr and kin, stxr
    "riscv64": ((0xF800607F, 0x1000202F), (0xF800607F, 0x1800202F)),  # lr, sc
}


class Stub:
    def __init__(self, port):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
                break
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rwb")

    def ask(self, text):
        """The answer to a packet."""
        self.stream.write(f"${text}#{sum(text.encode()) & 255:02x}".encode())
        self.stream.flush()
        while self.stream.read(1) not in (b"$", b""):  # acknowledgements
            pass
        answer = b""
        while (byte := self.stream.read(1)) not in (b"#", b""):
            answer += byte
        self.stream.read(2)
        self.stream.write(b"+")
        self.stream.flush()
        return answer.decode()

    def pc(self):
        return int.from_bytes(bytes.fromhex(self.ask(f"p{PC:x}")), "little")

    def word(self, address):
        return int.from_bytes(bytes.fromhex(self.ask(f"m{address:x},4")), "little")

    def run_to(self, address):
        """Run to an address; returns how the program stopped, there or before."""
        self.ask(f"Z0,{address:x},{LENGTH:x}")
        answer = self.ask("c")
        if stops(answer):
            self.ask(f"z0,{address:x},{LENGTH:x}")
        return answer

    def skip(self):
        """On behind the breakpoint."""
        self.ask(f"P{PC:x}={(self.pc() + LENGTH).to_bytes(8, 'little').hex()}")


def stops(answer):
    """True if a trap has stopped the program; other ends are no concern of the stepper."""
    return answer.startswith(TRAPPED)


def length_of(cpu, word):
    """Bytes of the instruction that begins with the word."""
    return 2 if cpu == "riscv64" and word & 3 != 3 else 4


def behind_exclusive(stub, cpu, at, word):
    """Where a loop goes on that begins there with a load-exclusive, the word: behind its store and the branch back.
    Or None."""
    (load_mask, load), (store_mask, store) = EXCLUSIVE[cpu]
    if word & load_mask != load:
        return None
    while word & store_mask != store:
        at += length_of(cpu, word)
        word = stub.word(at)
    at += length_of(cpu, word)
    word = stub.word(at)
    return at + length_of(cpu, word)


def step_through(stub, cpu, end):
    """From the breakpoint instruction that begins the steps to the one that ends them.  How the program stops then."""
    stub.skip()
    tried = set()
    while True:
        at = stub.pc()
        word = stub.word(at)
        if word == end:
            stub.skip()
            return stub.ask("c")
        # Between two steps something always comes: such a loop is stepped into once, and run to its end the next time.
        behind = behind_exclusive(stub, cpu, at, word)
        if behind and at in tried:
            tried.remove(at)
            answer = stub.run_to(behind)
        else:
            tried.add(at)
            # The signal, which the program's handler takes, up to the breakpoint at the handler's end; and back.
            answer = stub.ask("C05")
            if stops(answer):
                stub.skip()
                answer = stub.run_to(at)
            if stops(answer):
                answer = stub.ask("s")
        if not stops(answer):
            return answer


@contextlib.contextmanager
def stopped(path):
    """The process whose id is in the file stands still; None: there is none."""
    if not path:
        yield
        return
    with open(path, encoding="ascii") as file:
        pid = int(file.read())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def look_through(stub, cpu, end):
    """The addresses of the instructions up to the breakpoint instruction that ends the steps, and how the program stops
    there."""
    path, answer = [], TRAPPED
    while stops(answer) and stub.word(at := stub.pc()) != end:
        path.append(at)
        behind = behind_exclusive(stub, cpu, at, stub.word(at))
        while behind and (at := at + length_of(cpu, stub.word(at))) < behind:
            path.append(at)
        answer = stub.run_to(behind) if behind else stub.ask("s")
    return path, answer


def one_a_round(stub, cpu, end, path, tool):
    """One round, from the breakpoint instruction that begins the steps; path: the addresses that are to come, the next
    one last; tool: as --stop.  (how the program stops then, path)"""
    stub.skip()
    if path is None:
        with stopped(tool):
            path, answer = look_through(stub, cpu, end)
        path = path[:0:-1]  # the next one is the last of these; the first has the breakpoint right before it
        stub.skip()
        return stub.ask("C05"), path
    target = path.pop() if path else None
    answer = stub.run_to(target) if target else stub.ask("c")
    if target and stops(answer) and stub.pc() == target:
        answer = stub.ask("C05")
    elif target:  # this time the program has gone another way
        stub.ask(f"z0,{target:x},{LENGTH:x}")
        stub.skip()
        return stub.ask("C05"), path
    if stops(answer):
        stub.skip()
        answer = stub.ask("c")
    return answer, path


def session(cpu, port, rounds, tool):
    """(how the program ended, whether it was stepped)"""
    stub, stepped, path = Stub(port), False, None
    stub.ask("qXfer:features:read:target.xml:0,ffb")  # before it, the stub knows no single registers
    stub.ask("?")
    answer = stub.ask("c")
    while stops(answer):
        stepped = True
        if rounds:
            answer, path = one_a_round(stub, cpu, stub.word(stub.pc()), path, tool)
        else:
            answer = step_through(stub, cpu, stub.word(stub.pc()))
    if not answer.startswith(EXITED):
        stub.ask("C" + answer[1:3])  # the handler's end is the signal's
    return answer, stepped


def main():
    cpu, port = sys.argv[1], int(sys.argv[2])
    tool = sys.argv[sys.argv.index("--stop") + 1] if "--stop" in sys.argv else None
    answer, stepped, end = EXITED, False, time.monotonic() + PATIENCE
    while not stepped and answer.startswith(EXITED) and time.monotonic() < end:  # the tool tries the emulator first
        try:
            answer, stepped = session(cpu, port, "--one-a-round" in sys.argv, tool)
        except ConnectionError:  # that one, at its end
            time.sleep(0.05)
    return 0 if stepped and answer.startswith(EXITED) else f"the program ended otherwise: {answer}"


if __name__ == "__main__":
    sys.exit(main())

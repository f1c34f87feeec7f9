"""Either side dies, stops or talks nonsense, at random moments; and the neighbours' users at the door."""
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import fake_agent
import fake_tool
import wire
from endings import finish, start, stop, wait_for
from harness import Process, Skip, expect, settled

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HEAD = 256  # bytes of a region's pointer table (ARCH_REGION_HEAD)
NOBODY = 65534


def real_calls_only(case):
    """The trace without the threads of the hostile process, whose buffers hold what it likes."""
    trace = case.trace()
    real = {index for index, process in trace.processes.items() if "python" not in os.path.basename(process[4])}
    trace.threads = {index: thread for index, thread in trace.threads.items() if thread.process in real}
    return trace


NONSENSE = "sent nonsense on the control socket"
TOLD = {"garbage": NONSENSE, "hellos": "speaks version 99", "kinds": NONSENSE, "clocks": NONSENSE,
        "foreigners": "programs for another CPU", "counts": NONSENSE, "lies": NONSENSE}


def hostile_agent(manner):
    """A process of the session that breaks the protocol in every way of one manner, beside a program that does not."""
    def test(case):
        program = [case.program("threads.c"), "20"]
        plain = case.run(program)
        fake = [sys.executable, os.path.join(HERE, "fake_agent.py"), manner]
        if case.cpu.native:
            traced = case.record([*fake, *program], ("--allow-no-sites",))
        else:
            start = f"FAKE_MACHINE={case.cpu.machine} FAKE_PROGRAM={shlex.quote(program[0])} exec {shlex.join(fake)}"
            traced = case.run(case.under(":", program, start=start)[1], log=True)
        expect(traced.status == plain.status, f"exit status {traced.status}; stderr: {traced.stderr.strip()[-600:]}")
        expect(traced.stdout == plain.stdout, f"the program prints {traced.stdout[-300:]!r}")
        expect("fake:" not in traced.stderr, traced.stderr)
        case.compare(real_calls_only(case))
        expect(TOLD.get(manner, "") in traced.stderr, f"not a word about it: {traced.stderr!r}")
        if manner != "scribble":
            case.readable()
    return test


def hostile_tool(manners):
    """A tool that breaks the protocol: the program does not notice."""
    def test(case):
        command = [case.program("calls.c")]
        plain = case.run(command)
        for manner in manners:
            fake_tool.run(case, case.agent(), command, manner, plain)
    return test


def address_of(case, program, function):
    """A function's address in the file."""
    names = case.run(["nm", program]).stdout
    found = re.search(rf"^([0-9a-f]+) [tT] {function}$", names, re.M)
    expect(found, f"{program} has no function {function}")
    return int(found.group(1), 16)


def site_in(cpu, address, code):
    """(offset, length) of the site in a function's first bytes."""
    if cpu.name == "aarch64":
        return code.index(bytes.fromhex("1f2003d5")), 4  # nop
    return (-address % 4, 8) if cpu.name == "riscv64" else (0, 5)


def hostile_plans(case):
    """Plans of which every part in turn is wrong; and a right one, by which the others are known to be so close."""
    program = case.program("calls.c")
    plain, address = case.run([program]), address_of(case, program, "main")

    def planning(name, right=False, **wrong):
        def plans(tool):
            tool.setup()
            base, dynamic, _ = tool.objects[0]
            with open(f"/proc/{tool.process.pid}/mem", "rb") as memory:
                memory.seek(base + address)
                offset, length = site_in(case.cpu, base + address, memory.read(32))
                memory.seek(base + address + offset)
                old = memory.read(length)
            chosen = {"address": base + address + offset, "stub_off": HEAD + 64, "old": old, "length": length, "body_off": length}
            chosen.update((key, value) for key, value in wrong.items() if key in SITE_KEYS)
            how = {key: value for key, value in wrong.items() if key not in SITE_KEYS}
            low = how.pop("low", base & -wire.PAGE)
            answer = tool.plan(low, how.pop("high", dynamic + wire.PAGE), wire.site(**chosen), **how)
            if right:
                expect(answer and answer["patched"] == 1, f"a right plan is answered by {answer}")
                tool.send(wire.switch(0, 0, (1, 2, (1 << 32) - 1, 0)))
                data, _ = wire.receive(tool.connection)
                expect(wire.kind_of(data) == wire.SWITCH_DONE and data[16:] == b"\1\0\0\0\3\0\0\0",
                       f"one of four sites is there; the agent says {data!r}")
            else:
                expect(not answer or not answer["patched"], f"{name}: the plan was carried out: {answer}")
            if answer:
                tool.send(wire.message(wire.GO))
        plans.__name__ = name
        return plans

    loose = []

    def unsealed(size):
        loose.append(wire.memory(size, b"\0" * size, seals=0))
        return loose[-1]

    manners = [planning("right", right=True)]
    manners += [planning(f"address {value:#x}", address=value)
                for value in (0, 1, wire.PAGE, (1 << 47) - wire.PAGE, 1 << 63, (1 << 64) - 1)]
    manners += [planning("unmapped address, object everywhere", address=4096, low=0, high=1 << 46),
                planning("kernel address, object everywhere", address=(1 << 64) - 4096, low=0, high=(1 << 64) - 1),
                planning("object upside down", low=1 << 40, high=1 << 20), planning("no object", low=0, high=0)]
    manners += [planning(f"stub at {value:#x}", stub_off=value) for value in (0, 8, 4096 + HEAD, 1 << 20, (1 << 32) - 1)]
    manners += [planning(f"length {value}", length=value) for value in (0, 1, 16, 200)]
    manners += [planning("short, trampoline outside", length=2, tramp_off=-128, low=0, high=1 << 47, address=4096),
                planning("body before its site", body_off=0),
                planning("other bytes", old=b"\x11\x22\x33\x44\x55"),
                planning("region of somebody else", region=4096), planning("region in the kernel", region=1 << 63),
                planning("too many stubs", stub_bytes=1 << 40), planning("stubs without end", stub_bytes=(1 << 64) - 1),
                planning("more sites than there are", count=1000), planning("very many more", count=(1 << 32) - 1),
                planning("memory that may shrink", descriptor=unsealed(4096)),
                planning("no memory", descriptor=os.open("/dev/null", os.O_RDWR))]
    try:
        for manner in manners:
            fake_tool.run(case, case.agent(), [program], manner, plain)
    finally:
        for descriptor in loose:
            os.close(descriptor)


SITE_KEYS = {"address", "stub_off", "old", "length", "body_off", "tramp_off", "flags", "function"}


def silent_tool(case):
    """A tool that takes the connection and never answers: the program starts after the agent's bound, 20 s."""
    command = [case.program("calls.c")]

    def never_answers(tool):
        tool.greet()
        expect(tool.process.wait(40) is not None, "the program waits for ever")
    fake_tool.run(case, case.agent(), command, never_answers, case.run(command))


def tool_under_tool(case):
    """record under record: a program belongs to the inner one; both traces are whole."""
    program = [case.program("threads.c"), "20"]
    plain = case.run(program)
    outer = os.path.join(case.folder, "outer")
    inner = case.record_command(program)
    traced = case.run([case.tool, "record", "--allow-no-sites", "-o", outer, "--", *inner], log=True)
    expect((traced.status, traced.stdout) == (plain.status, plain.stdout), f"it prints {traced.stdout[-300:]!r}")
    case.compare(case.trace())
    case.readable()
    done = case.run([case.tool, "info", "-i", outer])
    expect(done.status == 0, f"the outer trace cannot be read: {done.stderr}")


def session_names():
    with open("/proc/net/unix", encoding="utf-8") as file:
        return set(re.findall(r"@(calltap-[0-9a-f]{32})$", file.read(), re.M))


STRANGER = """
import sys; sys.path.insert(0, {here!r})
import wire
connection, key = wire.connect({session!r})
wire.send(connection, wire.hello(key))
print("answer", wire.kind_of(wire.receive(connection)[0]))
"""


def as_nobody(case, script):
    if os.geteuid() or case.run(["setpriv", "--version"]).status:
        raise Skip("needs root and setpriv, to be another user")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-c", script]


@contextlib.contextmanager
def readable_copies(*paths):
    """A folder that every user can read, with copies of files of the tree at the places that they have in it."""
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            place = os.path.join(folder, os.path.relpath(path, ROOT))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            shutil.copyfile(path, place)
        for inner, _, names in os.walk(folder):  # whatever this user's umask is
            os.chmod(inner, 0o755)
            for name in names:
                os.chmod(os.path.join(inner, name), 0o644)
                settled(os.path.join(inner, name))
        yield folder


def stranger_at_the_tool(case):
    """A process of another user finds the name among the sockets: it is shown out, and the trace is whole."""
    with readable_copies(wire.__file__, wire.HEADER) as folder:
        come_as_stranger(case, os.path.join(folder, os.path.relpath(HERE, ROOT)))


def come_as_stranger(case, scripts):
    before = session_names()
    output, process = start(case, case.record_command([case.program("spin.c"), "600"]))
    try:
        wait_for(output, "running")
        names = session_names() - before
        expect(names, "no session in /proc/net/unix")
        for name in names:  # others' sessions may have begun meanwhile: they are as closed
            for key in ("0" * 16, "f" * 16):
                script = STRANGER.format(here=scripts, session=f"{name}:{key}")
                done = case.run(as_nobody(case, script))
                expect(done.stdout == "answer None\n" or "refused" in done.stderr.lower(),
                       f"the tool answers a stranger: {done.stdout} {done.stderr}")
        status = finish(process)
    finally:
        stop(process)
    expect(status == 0, f"exit status {status}")
    expect(case.trace().called().get("step", 0) > 1000, "the trace is empty")


def stranger_as_tool(case):
    """A process of another user listens where the tool should be: the agent says not a word to it."""
    name = "calltap-test-" + os.urandom(16).hex()  # not as a session's: see come_as_stranger()
    script = ("import socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
              f"s.bind(b'\\0{name}'); s.listen(); print('listening', flush=True)\n"
              "c, _ = s.accept()\ntry:\n    print('heard', len(c.recv(4096)), flush=True)\n"
              "except ConnectionError:\n    print('heard 0')\n")
    command = [case.program("calls.c")]
    plain = case.run(command)
    with Process(as_nobody(case, script), stdout=subprocess.PIPE, text=True) as listener:
        try:
            expect(listener.stdout.readline() == "listening\n", "the stranger cannot listen")
            command, environment = case.preloading(case.agent(), command)
            environment["CALLTAP_SESSION"] = f"{name}:{0:016x}"
            began = time.monotonic()
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=30, check=False)
            heard = listener.stdout.readline()
        finally:
            listener.kill()
    expect((done.returncode, done.stdout) == (plain.status, plain.stdout), f"the program prints {done.stdout[-200:]!r}")
    expect(heard == "heard 0\n", f"the agent talks to a stranger: {heard}")
    expect(time.monotonic() - began < 15, "the program waited for a stranger")


def dispositions(case):
    """The command has ignored and blocked what it has without us, though the tool takes some signals in its own way."""
    look = ["grep", "-E", "^Sig(Ign|Blk|Cgt)", "/proc/self/status"]
    for ignored in ("INT QUIT TERM PIPE XFSZ", "HUP", "''"):
        shell = f"trap '' {ignored}; exec \"$@\"" if ignored != "''" else "exec \"$@\""
        plain = case.run(["sh", "-c", shell, "sh", *look])
        traced = case.run(["sh", "-c", shell, "sh", *case.record_command(look, ("--allow-no-sites",))])
        expect(traced.stdout == plain.stdout, f"ignoring {ignored}: traced {traced.stdout!r}, plain {plain.stdout!r}")


def kills(*options):
    """test/stress/kills.py: either side killed, stopped, or out of disk, at random moments."""
    def test(case):
        case.stress("kills.py", "--cpu", case.cpu.name, *options, timeout=3000)
    return test


CASES = {}
SINGLE = {
    **{f"hostile-agent-{manner}": hostile_agent(manner) for manner in fake_agent.MANNERS},
    "hostile-tool-order": hostile_tool(fake_tool.ORDERS),
    "hostile-tool-arenas": hostile_tool(fake_tool.ARENAS),
    "hostile-plans": hostile_plans,
    "tool-under-tool": tool_under_tool,
    "stranger-at-the-tool": stranger_at_the_tool,
    "stranger-as-tool": stranger_as_tool,
    "dispositions": dispositions,
    "kills": kills("--runs", "24"),
}
LONG = {
    "silent-tool": silent_tool,
    "kills-long": kills("--runs", "3000", "--long"),
}

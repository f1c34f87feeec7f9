"""The control socket's messages (include/calltap/abi/control.h), for tests that play one of its ends."""
import array
import fcntl
import mmap
import os
import re
import socket
import struct
import sys
import time

PAGE = 4096
HELLO, OBJECT, OBJECTS_END, PLAN_DONE, FAULT, SWITCH_DONE, DETACHED, CLOCK_TOLD = range(1, 9)
HAD_PLANS = 17
SETUP, PLAN, GO, RESCAN, ARENA, DETACH, SWITCH, CLOCK = range(32, 40)
FORKED = 1
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include", "calltap", "abi", "control.h")
with open(HEADER, encoding="utf-8") as control_h:
    VERSION = int(re.search(r"#define CALLTAP_ABI_VERSION (\d+)u", control_h.read())[1])
MACHINE = int(os.environ.get("FAKE_MACHINE") or {"x86_64": 62, "aarch64": 183, "riscv64": 243}[os.uname().machine])
EXE = sys.executable.encode() + b"\0"
KEY_OFFSET = 72  # of struct calltap_msg_hello
ARENA_MAGIC, RING_MAGIC, BOARD_MAGIC = 0x4152544C, 0x4752544C, 0x4442544C
SUB_SIZE, SUB_COUNT = PAGE, 4
STRIDE = PAGE + SUB_SIZE * SUB_COUNT
STATE_OFFSET = 64  # of struct calltap_arena
F_ADD_SEALS, SEAL_SEAL, SEAL_SHRINK, SEAL_GROW, SEAL_WRITE = 1033, 1, 2, 4, 8


def message(kind, body=b"", size=None):
    return struct.pack("<II", kind, 8 + len(body) if size is None else size) + body


def hello(key, flags=0, version=VERSION, machine=MACHINE, exe=EXE, plans=0):
    return message(HELLO, struct.pack("<8I5Q2I", version, flags, os.getpid(), os.getpid(), os.getppid(), PAGE, machine, 64,
                                      1, time.monotonic_ns(), 0, os.getpid(), key, 0, plans) + exe)


def had_plans(plans, count=None):
    """PLANS of a forked child: (plan, region, blocks, flags) each."""
    body = b"".join(struct.pack("<3Q2I", *plan, 0) for plan in plans)
    return message(HAD_PLANS, struct.pack("<II", len(plans) if count is None else count, 0) + body)


def clock_told(ticks, monotonic_ns):
    return message(CLOCK_TOLD, struct.pack("<QQ", ticks, monotonic_ns))


def object_(base, dynamic, path=b"\0"):
    return message(OBJECT, struct.pack("<QQQ", base, dynamic, 1) + path)


def setup(arena_size, mode=0, dormant=0):
    return message(SETUP, struct.pack("<IIQIIQIIII", mode, 0, 0, 0, 100, arena_size, dormant, 0, 0, 0))


def plan(number, low, high, stub_bytes, count, region=0):
    return message(PLAN, struct.pack("<6QIIQ4I", number, low, high, stub_bytes, region, 0, count, 0, 0, 0, 0, 0, 0))


def site(address, stub_off, old, length=5, body_off=5, tramp_off=0, flags=0, function=0):
    return struct.pack("<QIIHBBi16s", address, function, stub_off, flags, length, body_off, tramp_off, old)


def switch(number, on, sites, count=None):
    count = len(sites) if count is None else count
    return message(SWITCH, struct.pack(f"<QII{len(sites)}I", number, on, count, *sites))


def plan_done(number, region=0, patched=0, failed=0):
    return message(PLAN_DONE, struct.pack("<QQIIIiQ", number, region, patched, failed, 0, 0, 0))


def read_plan_done(data):
    """{'patched', 'failed', 'error'} of a PLAN_DONE."""
    _, _, patched, failed, _, error, _ = struct.unpack("<QQIIIiQ", data[8:])
    return {"patched": patched, "failed": failed, "error": error}


def memory(size, content=b"", seals=SEAL_SHRINK | SEAL_GROW | SEAL_SEAL):
    """A memfd as the tool makes them; seals=0 for one that can be shrunk."""
    descriptor = os.memfd_create("calltap-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    os.pwrite(descriptor, content, 0)
    if seals:
        fcntl.fcntl(descriptor, F_ADD_SEALS, seals)
    return descriptor


def arena_message(size, place=0):
    """The session's own rings, or those of a further instance."""
    return message(ARENA, struct.pack("<QII", size, place, 0))


def arena_bytes(rings=2, stride=STRIDE, sub_size=SUB_SIZE, sub_count=SUB_COUNT, magic=ARENA_MAGIC):
    content = bytearray(PAGE + 2 * STRIDE)
    struct.pack_into("<IIQ", content, 0, magic, rings, stride)
    for index in range(2):
        struct.pack_into("<IIIII", content, PAGE + index * STRIDE, RING_MAGIC, index, sub_size, sub_count, 1)
    return bytes(content)


def send(connection, data, descriptors=()):
    """False when the peer has gone."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        connection.sendmsg([data], rights)
    except (ConnectionError, BrokenPipeError, TimeoutError):
        return False
    return True


def receive(connection):
    """(data, descriptors); no data when the peer has gone."""
    try:
        data, rights, _, _ = connection.recvmsg(8192, socket.CMSG_SPACE(16))
    except ConnectionError:
        return b"", []
    descriptors = array.array("i")
    for _, _, packed in rights:
        descriptors.frombytes(packed[:len(packed) // 4 * 4])
    return data, list(descriptors)


def kind_of(data):
    return struct.unpack_from("<I", data)[0] if len(data) >= 8 else None


def connect(session):
    """The connection and the key of a CALLTAP_SESSION."""
    name, key = session.split(":")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(10)
    connection.connect(b"\0" + name.encode())
    return connection, int(key, 16)


def mapped(descriptor):
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size)

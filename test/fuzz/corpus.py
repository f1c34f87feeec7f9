#!/usr/bin/env python3
"""Makes the seed corpus of the fuzzers, corpus/*: python3 test/fuzz/corpus.py

Files named crash-... were found by a fuzzer and stay as they are; the others are made again.  The ELF files come out
of this machine's compilers, so they differ from one machine to the next; what is in the tree is what was reviewed."""
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "corpus")
FLOW = os.path.join(os.path.dirname(HERE), "flow")
sys.path.insert(0, FLOW)
import tracetext  # noqa: E402

PAGE = 4096
CONTROL = os.path.join(os.path.dirname(os.path.dirname(HERE)), "include", "calltap", "abi", "control.h")
with open(CONTROL, encoding="utf-8") as control_h:
    ABI_VERSION = int(re.search(r"#define CALLTAP_ABI_VERSION (\d+)u", control_h.read())[1])
ARENA_MAGIC, RING_MAGIC = 0x4152544C, 0x4752544C


def write(fuzzer, name, data):
    folder = os.path.join(CORPUS, fuzzer)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


# Traces: those of the command-line cases, and one with every table.

EVERYTHING = """info clock_hz 1000000000
info tracer function_graph
process 0 100 /bin/prog
process 1 101 /bin/child
thread 0 0 100 main
thread 1 1 101 child 7
function 0 main main.c:3
function 1 _ZN3foo3barEi foo.cc:9
function 2 _RNvC6_123foo3bar
0 100 entry 0
0 110 entry 1
0 120 wait 0 5
0 130 tail 2
0 140 stack 0 0x7000
0 150 entry 1
0 155 lost 0 3
0 160 unwind 1
0 170 exit 2
0 180 call 1 0x400010
0 190 exit 0
1 120 exit 2
1 130 entry 2
end 0
"""


# Values of calls: (name, offset, size, flags, more), of a type of events each.
SIGNED, TEXT_FLAG, PLACED, HEX, ARGUMENT, RESULT, ID, FAULTS, BOOL, CHAR, ENUM, MISSING, FLOAT, GROUP, CUT, ADDRESS = (
    1 << i for i in range(16))
CALL = [("function", 0, 4, ID), ("faults", 4, 4, FAULTS), ("set", 8, 1, BOOL), ("letter", 9, 1, CHAR | SIGNED),
        ("kind", 10, 2, ENUM | SIGNED, "ONE=1,TWO=2,MINUS=ffff"), ("mode", 12, 4, ENUM, "READ=1,WRITE=2,MAKE=40"),
        ("path", 16, 4, TEXT_FLAG | PLACED), ("ratio", 20, 4, FLOAT), ("at", 24, 8, HEX | ADDRESS),
        ("box", 32, 8, GROUP | HEX | CUT), ("box.x", 40, 4, SIGNED), ("box.in.low", 44, 4, 3 << 20 | 5 << 26),
        ("box.in.tag", 48, 6, TEXT_FLAG | CUT), ("box.in.more.deep", 54, 2, SIGNED | 1 << 20 | 63 << 26),
        ("gone", 504, 0, TEXT_FLAG | MISSING, "dropped"), ("d", 56, 8, FLOAT), ("empty", 504, 0, GROUP | TEXT_FLAG | MISSING, "struct")]
RETURN = [("function", 0, 4, ID), ("faults", 4, 4, FAULTS), ("ret", 8, 8, SIGNED)]


def value_formats():
    rows = [(kind, name, role, row) for kind, name, role, fields in
            ((16, "arguments", ARGUMENT, CALL), (17, "result", RESULT, RETURN)) for row in fields]
    offsets, table = tracetext.strings([text for _, name, _, row in rows
                                        for text in (name, row[0], "int", row[4] if len(row) > 4 else "")])
    return struct.pack("<II", len(rows), len(table)) + b"".join(
        struct.pack("<8I", kind, *offsets[4 * i:4 * i + 3], *row[1:3], row[3] | role, offsets[4 * i + 3])
        for i, (kind, _, role, row) in enumerate(rows)) + table


def with_values():
    text = tracetext.Text("\n".join(EVERYTHING.splitlines()[:8]))
    for call, faults in enumerate((0, 0xFFF, 1 << 7, 1 << 8)):
        time = 100 + 100 * call
        text.event(0, time, "entry", [0])
        fixed = struct.pack("<IIBbhIHHfQQiI6sHd", 0, faults, 1, 65, -1, 0x43, 64, 5 | call << 13, 0.1, call, 4096 * call, -3,
                            0xA8, b"abcdef", 0xFFFF, 1e300)
        text.note(0, time, 16, fixed + b"a\"\n\xffe")
        text.note(0, time + 50, 17, struct.pack("<IIq", 0, faults >> 7 & 1, -call))
        text.event(0, time + 50, "exit", [0])
    text.note(0, 900, 16, fixed[:20])
    made = text.file()
    return made[:64] + tracetext.chunk(tracetext.FORMATS, value_formats()) + made[64:]


def traces():
    for name in sorted(os.listdir(os.path.join(FLOW, "traces"))):
        with open(os.path.join(FLOW, "traces", name), encoding="utf-8") as text:
            write("trace", name[:-4], tracetext.make(text.read()))
    everything = tracetext.make(EVERYTHING)
    forged = tracetext.Text(EVERYTHING)
    forged.ticks = [(0xFFFFFFFFFFFFFFFF, [(9, 3), (0, 0xFFFFFFFFFFFFFFFF)]), (1, [(150, 160), (120, 155)])]
    forged.events[0] += [(14, 1, None, []), (15, 0xFFFFFFF, None, [])] * 20
    write("trace", "forged-ticks", forged.file())
    write("trace", "everything", everything)
    marks = tracetext.formats(False)
    write("trace", "forged-formats", everything + tracetext.chunk(tracetext.FORMATS, marks[:28] + b"\xff" * 8 + marks[36:]))
    write("trace", "values", with_values())
    write("trace", "bad-check", everything[:63] + b"\1" + everything[64:-3] + bytes([everything[-3] ^ 1]) + everything[-2:])
    write("trace", "cut-short", everything[:-50])
    forged = struct.pack("<IIQQQ4xI", 0, 0xFFFFFFFF, 2**64 - 1, 2**64 - 1, 2**64 - 1, 0)
    write("trace", "forged-map", everything + tracetext.chunk(tracetext.MAP, forged + bytes(40 - len(forged))))


# Messages (include/calltap/abi/control.h).

HELLO, OBJECT, OBJECTS_END, PLAN_DONE, FAULT, CLOCK_TOLD = 1, 2, 3, 4, 5, 8
HAD_PLANS = 17
SETUP, PLAN, GO, RESCAN, ARENA, DETACH, SWITCH, CLOCK = 32, 33, 34, 35, 36, 37, 38, 39


def message(kind, body=b""):
    return struct.pack("<II", kind, 8 + len(body)) + body


def hello(flags=0, version=ABI_VERSION, key=0, machine=62, exe=b"/bin/true\0", plans=0):
    return message(HELLO, struct.pack("<8I5Q2I", version, flags, 100, 100, 1, PAGE, machine, 64, 12345, 1, 0,
                                      0x1122334455667788, key, 0, plans) + exe)


def had_plans(*plans):
    return message(HAD_PLANS, struct.pack("<II", len(plans), 0) + b"".join(struct.pack("<3Q2I", *plan, 0) for plan in plans))


def clock_told(ticks, ns):
    return message(CLOCK_TOLD, struct.pack("<QQ", ticks, ns))


def object_at(base, dynamic, path=b""):
    return message(OBJECT, struct.pack("<QQQ", base, dynamic, 1) + path + b"\0")


def objects_end(flags=0):
    return message(OBJECTS_END, struct.pack("<II", flags, 5) + bytes(8 * 16))


def plan_done(plan, error=0):
    return message(PLAN_DONE, struct.pack("<QQIIIiQ", plan, 0x70000000, 3, 1, 2, error, 99))


# Steps of fuzz_host.c: PACKET, SCRIBBLE, DRAIN, END, CONNECT, SWITCH.

def say(packet):
    return struct.pack("<BH", 0, len(packet)) + packet


def scribble(arena, offset, data):
    return struct.pack("<BBHH", 1, arena, offset // 8, len(data)) + data


DRAIN, END, CONNECT = b"\2", b"\3", b"\4"


def switch(index):
    return bytes([5, index])


def record(kind, ident, time):
    return struct.pack("<Q", kind << 60 | ident << 32 | time)


def ring(index, opened, owner=1, tid=7, lost=0):
    """A writer's words of ring `index` in an arena of rings of 4 sub-buffers of 4 KiB."""
    return scribble(0, PAGE + index * 5 * PAGE + 64,
                    struct.pack("<QQQQIIII16s", opened, lost, 0, 5, owner, tid, 0, 0, b"worker"))


def sub(index, number, records, owner=1, before=0):
    """before: what the ring's owners before this one have lost and waited."""
    at = PAGE + index * 5 * PAGE + PAGE + number % 4 * PAGE
    return scribble(0, at, struct.pack("<QQQII16sQQ", number + 1, 1000, 0, owner, 7, b"worker", before, before) + b"".join(records))


def host():
    records = [record(1, 3, 1001), record(3, 4, 1002), struct.pack("<Q", 0x401000), record(2, 3, 1003),
               record(4, 0, 5), struct.pack("<Q", 2**33), record(7, 0, 6), struct.pack("<Q", 12), record(15, 1, 1)]
    greeting = say(hello())
    planned = greeting + say(object_at(0, 1)) + say(object_at(77, 5, b"/lib/x.so")) + say(objects_end()) + say(plan_done(0))
    filled = sub(0, 0, records) + sub(0, 1, records[:1]) + ring(0, 2)
    write("host", "greeting", b"\0" + greeting + DRAIN + END)
    write("host", "planned", b"\0" + planned + DRAIN + END)
    write("host", "reported-twice", b"\0" + planned + say(objects_end(1)) + say(object_at(0, 1)) + say(objects_end()) +
          say(plan_done(0, -12)) + END)
    write("host", "filled-ring", b"\0" + planned + filled + DRAIN + END)
    write("host", "taken-over", b"\0" + planned + sub(0, 0, records) + sub(0, 1, records, 2, 9) + sub(0, 2, records, 3, 2**63) +
          ring(0, 3, owner=4, lost=20) + DRAIN + END)
    write("host", "overwrite", b"\2" + greeting + sub(0, 5, records) + ring(0, 7) + END)
    write("host", "claimed-by-the-dead", b"\0" + greeting + filled + scribble(0, 64 + 4 * 3, struct.pack("<I", 999999)) +
          scribble(0, 64 + 4 * 0, struct.pack("<I", 4000000)) + DRAIN + DRAIN)
    write("host", "starved", b"\0" + greeting + say(objects_end()) + scribble(0, 16, struct.pack("<IIII", 1, 1, 1, 0)) +
          scribble(0, 64, struct.pack("<16I", *range(2, 18))) + DRAIN + DRAIN)
    write("host", "fork", b"\1" + planned + CONNECT + say(hello(flags=1)) + filled + switch(0) + END + switch(1) + DRAIN)
    write("host", "fork-with-plans", b"\1" + planned + CONNECT + say(hello(flags=1, plans=2)) + say(had_plans((0, 0x70000000, 0, 0))) +
          say(had_plans((1, 0x71000000, 0x72000000, 3))) + filled + say(plan_done(0)) + DRAIN + END)
    write("host", "exec", b"\0" + greeting + END + CONNECT + say(hello()) + say(hello()))
    write("host", "wrong-version", b"\0" + say(hello(version=1)))
    write("host", "wrong-machine", b"\0" + say(hello(machine=243)) + END)
    write("host", "no-end-of-the-path", b"\0" + say(hello(exe=b"/bin/true")))
    write("host", "clock", b"\0" + greeting + say(clock_told(2**64 - 1, 5)) + DRAIN + say(clock_told(0, 2**64 - 1)) + END)
    for name, told in (("clock-emulated", [clock_told(2000, 2**40), clock_told(3000, 1)]), ("clock-of-others", [])):
        write("host", name, b"\x80" + greeting + b"".join(map(say, told)) + say(object_at(0, 1)) + say(objects_end()) +
              CONNECT + say(hello(flags=1)) + filled + DRAIN + END)
    write("host", "wrong-key", b"\0" + say(hello(key=1)))
    write("host", "fault", b"\0" + greeting + say(message(FAULT, struct.pack("<i124s", -12, b"cannot \x1b[2J go on"))))
    write("host", "plan-done-unasked", b"\0" + greeting + say(plan_done(0)))
    write("host", "not-greeted", b"\0" + say(objects_end()))
    write("host", "half-message", b"\0" + greeting + say(object_at(1, 2)[:9]) + say(b"\4"))
    write("host", "counters-of-ones", b"\0" + greeting + ring(0, 2**64 - 1) + ring(1, 2**63, lost=2**64 - 1) + DRAIN + END)


# Core files with a flight recorder in them (include/calltap/abi/tables.h, ring.h).

TABLES_TEXT = """info tracer function_graph
process 0 100 /bin/prog
function 0 main main.c:3
function 1 step main.c:9
"""
SESSION = 0x1234567890ABCDEF


def tables(session=SESSION, content=None):
    content = tracetext.make(TABLES_TEXT) if content is None else content
    clocks = struct.pack("<6Q", 1000, 1000, 5, 9000, 9000, 5)
    return struct.pack("<8sIIQQQ", b"CTTABLE\n", 1, 128, session, len(content), 2) + clocks + bytes(40) + content


def recorder(session=SESSION, rings=1, opened=3, sub_count=2, records=()):
    """An arena whose rings hold the last sub-buffers of those that were opened."""
    stride = (1 + sub_count) * PAGE
    out = struct.pack("<IIQIIIIQIIQ", ARENA_MAGIC, rings, stride, 1, 0, 0, 0, 0, 0, 0, session).ljust(PAGE, b"\0")
    for index in range(rings):
        out += (struct.pack("<5I44x", RING_MAGIC, index, PAGE, sub_count, 2) +
                struct.pack("<QQQQIIII16s", opened, 0, 0, 5, 1, 7, 0, 0, b"worker")).ljust(PAGE, b"\0")
        subs = [b""] * sub_count
        for number in range(max(0, opened - sub_count), opened):
            head = struct.pack("<QQQII16sQQ", number + 1, 1000 * (number & 0xFFFF), 0, 1, 7, b"worker", 0, 0)
            subs[number % sub_count] = head + b"".join(records)
        out += b"".join(sub.ljust(PAGE, b"\0") for sub in subs)
    return out


def core(*segments, size=None):
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56,
                                                              len(segments), 0, 0, 0)
    at = 64 + 56 * len(segments)
    table, content = b"", b""
    for address, data in segments:
        table += struct.pack("<IIQQQQQQ", 1, 4, at + len(content), address, 0, len(data), len(data), PAGE)
        content += data
    return (head + table + content)[:size]


def cores():
    records = [record(1, 0, 1001), record(1, 1, 1002), record(3, 1, 1003), struct.pack("<Q", 0x401000), record(2, 1, 1004),
               record(4, 0, 5), struct.pack("<Q", 2**33), record(7, 0, 6), struct.pack("<Q", 12), record(2, 0, 9)]
    rings = recorder(records=records)
    whole = core((0x10000, tables()), (0x20000, rings))
    write("core", "whole", whole)
    write("core", "cut-short", whole[:-PAGE - 100])
    write("core", "in-parts", core((0x10000, tables()), (0x20000, rings[:PAGE]), (0x20000 + PAGE, rings[PAGE:])))
    write("core", "over-each-other", core((0x10000, tables()), (0x20000, rings), (0x20000 + PAGE, rings)))
    write("core", "other-session", core((0x10000, tables()), (0x20000, recorder(session=1, records=records))))
    write("core", "two-sessions", core((0x10000, tables(1)), (0x11000, tables()), (0x20000, rings)))
    write("core", "forged-counters", core((0x10000, tables()), (0x20000, recorder(opened=2, sub_count=2)[:PAGE] +
          recorder(opened=2**64 - 1, sub_count=2, records=records)[PAGE:2 * PAGE] + bytes(2 * PAGE))))
    write("core", "damaged-tables", core((0x10000, tables().replace(b"main.c", b"main.h", 1)), (0x20000, rings)))
    write("core", "no-tables", core((0x20000, rings)))


# Packets of fuzz_agent.c.

TEXT, UNSEALED = 0x10000000, 0x80


def packet(data, *memory, flags=0):
    out = struct.pack("<BH", flags, len(data)) + data + bytes([len(memory)])
    for pages, step, first, second in memory:
        out += struct.pack("<BBHH", pages, step, len(first), len(second)) + first + second
    return out


def arena(rings=2, sub_count=2, mode=1):
    stride = (1 + sub_count) * PAGE
    head = struct.pack("<IIQ", ARENA_MAGIC, rings, stride)
    return 1 + rings * (1 + sub_count), 1 + sub_count, head, struct.pack("<IIIII", RING_MAGIC, 0, PAGE, sub_count, mode)


BOARD = (1, 0, struct.pack("<I", 0x4442544C), b"")


def setup(memory, **more):
    words = {"mode": 1, "depth": 0, "threshold": 0, "tree": 0, "wait": 10, "dormant": 0, **more}
    body = struct.pack("<IIQIIQIIII", words["mode"], words["depth"], words["threshold"], words["tree"], words["wait"],
                       memory[0] % UNSEALED * PAGE, words["dormant"], 0, 0, 0)
    return packet(message(SETUP, body), BOARD, memory)


def site(address, ident, stub, flags=0, length=5, tramp=0):
    nops = b"\x90" * (length + (5 if tramp else 0))
    return struct.pack("<QIIHBBi16s", address, ident, stub, flags, length, 5, tramp, nops)


def switch_sites(ident, on, *places):
    return packet(message(SWITCH, struct.pack(f"<QII{len(places)}I", ident, on, len(places), *places)))


def plan(ident, sites, region=0, **more):
    body = struct.pack("<6QIIQ4I", ident, TEXT, TEXT + 0x10000, 3900, region, 0, len(sites), 0, 0, 0, 0, 0, 0)
    return packet(message(PLAN, body), (1, 0, b"".join(sites), b""), **more)


def plan_with_blocks(at, starts, heads, code=bytes(64), size=None):
    """A plan whose sites, heads and blocks share a memory of two pages."""
    sites = [site(at + start, 40 + i, 0x148 + 0x100 * i) for i, start in enumerate(starts)]
    places = b"".join(struct.pack("<QIIHBBi16s", PAGE + 16 * i, 40 + i, starts[i], 2048, length, length, 0, b"\x90" * 15)
                      for i, length in enumerate(heads))
    body = struct.pack("<6QIIQ4I", 3, TEXT, TEXT + 0x10000, 3900, 0, 0, len(sites), 0, at, size or len(code), len(sites), 32, 32)
    rest = places + bytes(-len(places) % 16) + code
    return packet(message(PLAN, body), (2, 1, b"".join(sites), rest))


def agent():
    sites = [site(PAGE + 16 * i, i, 64 + 48 * i, flags=i % 8 * 4) for i in range(1, 8)]
    short = [site(PAGE + 0x405, 9, 0x200, length=2, tramp=-5)]
    go, rescan, detach = packet(message(GO)), packet(message(RESCAN)), packet(message(DETACH, bytes(8)))
    begin = setup(arena())
    write("agent", "dormant", setup(arena(), dormant=1))
    write("agent", "planned", begin + plan(0, sites) + go + detach)
    write("agent", "late", begin + packet(message(GO), flags=4) + plan(0, sites) + rescan)
    write("agent", "switched", begin + plan(0, sites) + go + switch_sites(0, 0, 0, 1, 99) + switch_sites(0, 1, 0, 1) +
          switch_sites(7, 0, 2**32 - 1) + detach)
    write("agent", "hostile-sites", begin + plan(0, [site(2**63, 1, 0x148), site(2**47, 2, 0x248), site(0, 3, 2**32 - 1)]))
    write("agent", "planned-twice", begin + plan(0, sites) + plan(1, short) + go + plan(0, sites, region=0x5FFFF000))
    write("agent", "recording", begin + go + packet(message(GO), flags=2) + packet(message(GO), flags=3))
    write("agent", "overwrite", setup(arena(mode=2), mode=2) + go + packet(message(GO), flags=2))
    write("agent", "more-rings", begin + packet(message(ARENA, struct.pack("<QII", arena(4)[0] * PAGE, 0, 0)), arena(4)) +
          packet(message(ARENA, struct.pack("<QII", 8 * PAGE, 0, 0))) + go)
    write("agent", "rescan", begin + rescan + go + rescan)
    blocks = 0x10000000
    write("agent", "blocks", begin + plan_with_blocks(blocks, (16, 32), (5, 6)) + go + detach)
    write("agent", "hostile-blocks", begin + plan_with_blocks(blocks + 1, (16,), (5,)) + plan_with_blocks(blocks, (8,), (5,)) +
          plan_with_blocks(blocks, (16,), (200,)) + plan_with_blocks(blocks, (16,), (5,), size=2**32 - 1) +
          plan_with_blocks(2**63, (16,), (5,)))
    write("agent", "unknown", begin + packet(message(99)))
    clock = packet(message(CLOCK))
    write("agent", "clock", clock + clock + begin + clock + go + packet(message(CLOCK, bytes(8))))
    write("agent", "half-message", begin + packet(message(PLAN)[:6]))
    write("agent", "long-message", begin + packet(message(GO, bytes(900))))
    write("agent", "plan-without-memory", begin + packet(message(PLAN, bytes(56))))
    write("agent", "too-many-descriptors", begin + packet(message(GO), BOARD, BOARD, BOARD))
    write("agent", "short-memory", setup(arena())[:-6 - len(arena()[2]) - len(arena()[3])] + struct.pack("<BBHH", 1, 0, 0, 0) + go)
    write("agent", "unsealed-memory", setup((arena()[0] | UNSEALED, *arena()[1:])) + go)


# ELF files: small, without libc, one way of instrumentation each.

SOURCE_C = """__attribute__((noinline)) int work(int x) { __asm__ volatile(""); return x * 3 + 1; }
static __attribute__((noinline)) int hidden(int x) { __asm__ volatile(""); return work(x) + 1; }
int setjmp(int x) { return x; }
int (*pointer)(int) = hidden;
void __fentry__(void) {}
void _start(void) { pointer(1); }
"""
SOURCE_CC = """namespace space { template <class T> struct Thing { T method(T x) const; };
template <> int Thing<int>::method(int x) const { return x + 1; } }
extern "C" void _start() { space::Thing<int> thing; thing.method(1); }
"""
SOURCE_DL = SOURCE_C + """void *dlsym(void *object, const char *name);
void *find(const char *name) { return dlsym(0, name); }
"""
# Landing pads of riscv64 (Zicfilp: lpad is auipc to the zero register), without and with no-ops before the function.
SOURCE_LPAD = """.macro function name, before
 .type \\name, @function
 .p2align 2
1: .rept \\before
 nop
 .endr
\\name: .4byte 0x17
2: .rept 2
 nop
 .endr
 ret
 .size \\name, . - \\name
 .pushsection __patchable_function_entries, "awo", @progbits, \\name
 .ifeq \\before
 .quad 2b
 .else
 .quad 1b
 .endif
 .popsection
.endm
.option norvc
function work, 0
function hidden, 3
.globl _start
_start: ret
"""
SOURCE_VECTORS = """typedef int vector __attribute__((vector_size(16)));
__attribute__((noinline, aarch64_vector_pcs)) vector work(vector x) { return x + x; }
__attribute__((noinline)) vector hidden(vector x) { return x - work(x); }
"""
SOURCES = {"c": SOURCE_C, "vectors.c": SOURCE_VECTORS, "cc": SOURCE_CC, "dl.c": SOURCE_DL, "s": SOURCE_LPAD}
PATCHABLE, FENTRY = ["-fpatchable-function-entry=5"], ["-pg", "-mfentry"]
RISCV64, AARCH64, BTI = "riscv64-linux-gnu-", "aarch64-linux-gnu-", "-mbranch-protection=standard"
ELFS = {
    "patchable.so": ("gcc", "c", [*PATCHABLE, "-shared", "-fPIC", "-g"]),
    "patchable-before": ("gcc", "c", ["-fpatchable-function-entry=16,14", "-fno-pie", "-no-pie", "-fcf-protection"]),
    "patchable-clang": ("clang", "c", [*PATCHABLE, "-fPIE", "-pie", "-gdwarf-5"]),
    "patchable-gz": ("gcc", "c", [*PATCHABLE, "-shared", "-fPIC", "-g", "-gz"]),
    "patchable-stripped": ("gcc", "c", [*PATCHABLE, "-shared", "-fPIC", "-s"]),
    "fentry-table": ("gcc", "c", [*FENTRY, "-mrecord-mcount", "-fno-pie", "-no-pie"]),
    "fentry-pie": ("gcc", "c", [*FENTRY, "-fPIE", "-pie"]),
    "nop-mcount": ("gcc", "c", [*FENTRY, "-mnop-mcount", "-fno-pie", "-no-pie", "-g", "-gdwarf-4"]),
    "plain": ("gcc", "c", ["-shared", "-fPIC"]),
    "names": ("g++", "cc", [*PATCHABLE, "-shared", "-fPIC"]),
    "relocatable": ("gcc", "c", [*PATCHABLE, "-c"]),
    "riscv64.so": (RISCV64 + "gcc", "dl.c", [*PATCHABLE, "-O2", "-shared", "-fPIC"]),
    "riscv64-unaligned": (RISCV64 + "gcc", "c", ["-fpatchable-function-entry=4", "-fno-pie", "-no-pie"]),
    "riscv64-clang": ("clang", "c", ["--target=riscv64-linux-gnu", "-march=rv64g", "-fpatchable-function-entry=4,2",
                                     "-fPIE", "-pie"]),
    "riscv64-lpad": (RISCV64 + "gcc", "s", ["-fPIE", "-pie"]),
    "aarch64.so": (AARCH64 + "gcc", "dl.c", ["-fpatchable-function-entry=3,1", BTI, "-O2", "-shared", "-fPIC"]),
    "aarch64-vectors.so": (AARCH64 + "gcc", "vectors.c", ["-fpatchable-function-entry=1", "-shared", "-fPIC"]),
    "aarch64-stripped": (AARCH64 + "gcc", "c", ["-fpatchable-function-entry=2", "-fPIE", "-pie", "-s"]),
    "aarch64-clang": ("clang", "c", ["--target=aarch64-linux-gnu", "-fpatchable-function-entry=1", "-fPIE", "-pie",
                                     "-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"]),
    "aarch64-mcount.so": (AARCH64 + "gcc", "c", ["-pg", "-shared", "-fPIC"]),
}


def elfs():
    common = ["-O1", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-Wl,-z,noseparate-code",
              "-Wl,-z,max-page-size=4096", "-Wl,-z,norelro", "-Wl,--build-id"]
    with tempfile.TemporaryDirectory() as folder:
        for name, (compiler, language, flags) in ELFS.items():
            source, output = os.path.join(folder, "seed." + language), os.path.join(folder, name)
            with open(source, "w", encoding="utf-8") as file:
                file.write(SOURCES[language])
            links = [flag for flag in common if "-c" not in flags or not flag.startswith("-Wl")]
            subprocess.run([compiler, f"-ffile-prefix-map={folder}=.", *links, *flags, "-o", output, "seed." + language],
                           check=True, cwd=folder)
            with open(output, "rb") as file:
                write("elf", name, file.read())


TEXTS = {
    "glob": "main*", "object": "libfoo.so.1:foo?[a-c]", "path": "/usr/lib/*.so:*", "regex": "/^foo(bar|baz)$/",
    "method": "ns::Class::method", "escaped": "operator\\*", "open-bracket": "[a-", "open-regex": "/abc",
    "list": "@main\n# comment\n\n  foo*  \n[bad\n@other", "duration": "1.5ms", "range": "0.5..10us", "open-range": "..2s",
    "number": "18446744073709551616", "stars": "a*a*a*a*a*a*a*a*b", "negated": "[!]a-z]x", "column": "p99",
    "bytes": "\xff\x80*", "colon": ":", "bad-regex": "/a\\{1/",
}


def texts():
    for name, text in TEXTS.items():
        write("text", name, text.encode("latin-1"))


# The control socket's text (fuzz_remote.c): requests begin with \1, answers with \0.

REQUESTS = {
    "verbs": "status\n\xffsettings\n\xffdetach\n\xffdance\n",
    "set": "set\ntracing=off\ntracer=function\nmax-depth=\nthreshold=10us\nbuffer=96K\nmode=drop\n\xffsettings\n",
    "filters": "set\ntrace=a*\ntrace+=lib:b\nnotrace=/c/\ngraph=d\nno-graph=[e\n\xffset\ntrace=\n\xffsettings\n",
    "wrong": "set\n=\n\xffset\nmax-depth+=3\n\xffset\ncolour=red\n\xffset\ntracer=function\nmax-depth=2\n",
    "catch": "catch\ntid=7\n\xffcatch\ntid=0\n\xffcatch\ntid=2147483648\n\xffcatch\ntid=1x\n\xffcatch\n",
    "snapshot": "snapshot\nhistory_ns=12345678901234567890123\nreason=why not\n",
}
ANSWERS = {
    "status": "0 -1 55\nprogram=/bin/a\npid=4711\nrecords=18446744073709551615\n=\n",
    "error": "-22 4 19\nthat is bad\nbad=word",
    "parts": "0 -1 300\n" + "x" * 300,
    "too-long": "0 -1 99999999999999999999\n",
}


def remote():
    for name, text in REQUESTS.items():
        write("remote", name, b"\1" + text.encode("latin-1"))
    for name, text in ANSWERS.items():
        write("remote", "answer-" + name, b"\0" + text.encode("latin-1"))


# Machine code: the vectors of the relocators, moved a short way and a long one (fuzz_isa.c).

VECTORS = os.path.join(os.path.dirname(HERE), "unit", "arch", "relocate.vectors")


def isa():
    with open(VECTORS, encoding="utf-8") as file:
        lines = [line.split("|") for line in file if not line.startswith("#")]
    for number, cpu in enumerate(("x86_64", "riscv64", "aarch64")):
        code = b"".join(bytes.fromhex(fields[1]) for fields in lines if fields[0].startswith(cpu + " "))
        for name, to, scratch in (("near", 0x500000, 0), ("far", 0x7F0000000000, 6), ("none", 0x7F0000000000, 31)):
            place = b"".join(struct.pack("<4H", *(address >> shift & 0xFFFF for shift in (48, 32, 16, 0)))
                             for address in (0x401000, to))
            write("isa", f"{cpu}-{name}", bytes([number, scratch]) + place + code)


# Stock functions: code, and entries that say where its frames are (fuzz_blocks.c).

HEADS = (  # of functions: length of the head, code, call frame instructions
    (8, "554889e54883ec10c3", "410e10 8602 43 0d06 48 c6 0c0708"),
    (9, "4883ec08e8f7ffffff4883c408c3", "44 0e10 45 0e20"),
    (6, "534889fbffd65bc3", "41 0e10 8302 45 0a 0e08 0b"),
    (7, "488b051000000090c3", "030700 0f03770806"),
    (9, "85ff7410e8d7ffffffc3", "0201 0e08 040200 0000 2e10"),
    (5, "c366669090909090", ""),
    (7, "488d05f0ffffffc3", "41 1603017f 47 070 3"),
)


def entry(start, code):
    rest = struct.pack("<I", start) + code
    rest += bytes(-len(rest) % 4)
    return struct.pack("<I", len(rest)) + rest


def blocks():
    code, frames = b"", entry(0, b"\1zR\0\1\x78\x10\1\x1b\x0c\7\x08\x90\1")
    for number, (_, text, rows) in enumerate(HEADS):
        code += bytes.fromhex(text).ljust(16, b"\xcc")
        place = 0x2000 + 16 * number - (0x8000 + len(frames) + 8)
        rows = bytes.fromhex(rows.replace(" ", ""))
        frames += entry(len(frames) + 4, struct.pack("<iIB", place, 16, 0) + rows)
    lengths = bytes(length for length, _, _ in HEADS)
    write("blocks", "frames", struct.pack("<H", len(code)) + code + lengths + frames + bytes(4))
    write("blocks", "no-frames", struct.pack("<H", len(code)) + code + lengths)
    write("blocks", "no-code", struct.pack("<H", 0) + frames)


# Debug information: sections of ELF files (fuzz_types.c).

SECTIONS = (".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_loclists", ".debug_rnglists", ".debug_loc",
            ".debug_ranges", ".debug_addr", ".debug_str_offsets", ".dynsym", ".dynstr", ".debug_info")
TYPES_C = """enum color { RED, GREEN = 200, BLUE = -1 };
typedef unsigned short port;
typedef const port *ports;
struct inner { short x; char tag[6]; float f; };
struct outer { struct inner at; union { double d; long l; }; unsigned low : 3, high : 9; struct outer *next; int list[3][2]; };
struct two { double d; int i; };
struct chars { char text[200]; };
int f(signed char a, port b, const char *c, enum color d, struct two e, struct outer *g, struct chars h, double i, _Bool j)
{ return a + b + *c + d + e.i + g->low + h.text[1] + (int)i + j; }
struct two pair(ports list, int (*call)(int), void *any, long double x) { return (struct two){*list + x, call(any != 0)}; }
struct inner inner(volatile struct outer *of, __int128 wide, float _Complex z) { return of->at; }
static __attribute__((noinline)) int part(struct outer *o, int unused) { return o->list[1][1]; }
int whole(struct outer *o) { return part(o, 3) + part(o->next, 4); }
"""
TYPES_CC = """namespace ns { template <class T> struct Box { T value; const char *name; ~Box(); };
struct Base { int id; virtual ~Base(); }; struct Derived : Base { bool set; Box<long> *box; static int count; };
enum class Kind : unsigned char { A, B = 7 };
int method(Derived &d, Kind k, Box<int> by, Derived &&e, decltype(nullptr), const char *const &t) { return d.id + (int)k + by.value + e.set + *t; }
struct Plain { int a, b; Plain(int x) : a(x), b(x) {} int sum() const; };
int Plain::sum() const { auto more = [this](int y) { return a + b + y; }; return more(a) * more(b); } }
"""
TYPES = {
    "gcc-0": ("gcc", TYPES_C, "c", ["-O0"]), "gcc-2": ("gcc", TYPES_C, "c", ["-O2"]),
    "gcc-dwarf3": ("gcc", TYPES_C, "c", ["-O1", "-gdwarf-3", "-gstrict-dwarf"]),
    "gcc-sections": ("gcc", TYPES_C, "c", ["-O2", "-gdwarf-4", "-fdebug-types-section"]),
    "clang-2": ("clang", TYPES_C, "c", ["-O2", "-gdwarf-5"]),
    "g++-1": ("g++", TYPES_CC, "cc", ["-O1"]), "clang++-0": ("clang++", TYPES_CC, "cc", ["-O0", "-gdwarf-5"]),
}


def sections_of(data):
    """The contents of an ELF file's sections, by name."""
    place, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<3H", data, 58)
    heads = [struct.unpack_from("<IIQQQQ", data, place + i * size) for i in range(count)]
    texts = data[heads[names][4]:][:heads[names][5]]
    return {texts[name:texts.index(b"\0", name)].decode(): data[at:at + length] for name, _, _, _, at, length in heads}


def debug_sections(parts):
    contents = [parts.get(name, b"") for name in SECTIONS]
    return struct.pack("<11H", *map(len, contents[:-1])) + b"".join(contents)


def types():
    with tempfile.TemporaryDirectory() as folder:
        for name, (compiler, text, language, flags) in TYPES.items():
            source, output = os.path.join(folder, "seed." + language), os.path.join(folder, name)
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            subprocess.run([compiler, f"-ffile-prefix-map={folder}=.", "-g", *flags, "-w", "-nostdlib", "-shared", "-fPIC",
                            "-o", output, "seed." + language], check=True, cwd=folder)
            with open(output, "rb") as file:
                write("types", name, debug_sections(sections_of(file.read())))


# Hostile ones, as DWARF 4: (tag, children, attributes and forms).
ABBREVIATIONS = (
    (0x11, 1, (0x13, 0x0B, 0x25, 0x08)), (0x2E, 1, (0x11, 0x01)), (5, 0, (0x49, 0x13)), (0x16, 0, (0x49, 0x13)),
    (1, 1, (0x49, 0x13)), (0x21, 0, (0x2F, 0x0B)), (0x17, 1, (0x0B, 0x0B)), (0x0D, 0, (0x49, 0x13)), (0x39, 1, ()),
    (0x0F, 0, (0x49, 0x13)), (0x24, 0, (0x0B, 0x0B, 0x3E, 0x0B)), (1, 1, (0x49, 0x13, 0x0B, 0x06)))
UNIT, FUNCTION, PARAMETER, TYPEDEF, ARRAY, RANGE, UNION, MEMBER, NAMESPACE, POINTER, BASE, SIZED = range(1, 13)


def hostile(*rows, language=12):
    """rows: bytes, and {name} where one begins, or (name,) where a reference to it is to be."""
    abbreviations = b"".join(bytes([number, tag, children, *pairs, 0, 0])
                             for number, (tag, children, pairs) in enumerate(ABBREVIATIONS, 1)) + b"\0"
    rows = (bytes([UNIT, language]) + b"GNU C\0", *rows, b"\0")
    places, at = {}, 11
    for row in rows:
        if isinstance(row, set):
            places.update(dict.fromkeys(row, at))
        at += len(row) if isinstance(row, bytes) else 4 * isinstance(row, tuple)
    body = struct.pack("<HIB", 4, 0, 8) + b"".join(
        struct.pack("<I", places[row[0]]) if isinstance(row, tuple) else row for row in rows if not isinstance(row, set))
    return debug_sections({".debug_abbrev": abbreviations, ".debug_info": struct.pack("<I", len(body)) + body})


def function_of(*types):
    """A function whose parameters have these types."""
    parameters = [part for name in types for part in (bytes([PARAMETER]), (name,))]
    return bytes([FUNCTION]) + struct.pack("<Q", 0x1000), *parameters, b"\0"


def hostile_types():
    circle = ({"t"}, bytes([TYPEDEF]), ("t",))
    write("types", "circle", hostile(*function_of("t", "p", "a", "s", "b"), *circle, {"p"}, bytes([POINTER]), ("p",),
                                     {"a"}, bytes([ARRAY]), ("t",), bytes([RANGE, 3, 0]),
                                     {"s"}, bytes([ARRAY]), ("s",), bytes([RANGE, 3, 0]),
                                     {"b"}, bytes([UNION, 8, MEMBER]), ("b",), bytes([MEMBER]), ("a",), b"\0"))
    ways = [part for i in range(24) for part in
            ({f"u{i}"}, bytes([UNION, 16]), *[bytes([MEMBER]), (f"u{i + 1}",)] * 8, b"\0")]
    write("types", "many-ways", hostile(*function_of("u0"), *ways, {"u24"}, bytes([BASE, 8, 5])))
    arrays = [part for i in range(12) for part in
              ({f"a{i}"}, bytes([SIZED]), (f"a{i + 1}",), struct.pack("<I", 16 << 2 * (12 - i)), b"\0")]
    write("types", "many-elements", hostile(*function_of("a0"), *arrays, {"a12"}, bytes([BASE, 16, 5])))
    write("types", "deep", hostile(*function_of("i"), bytes([NAMESPACE]) * 8000, {"i"}, bytes([BASE, 4, 5]), bytes(8000),
                                   language=4))


# Values and conditions (fuzz_values.c).

VALUES = {
    "numbers": "f a=arg1:s64 b=arg2:u8 c=arg3:x16 d=arg4:u32 seventh=arg7:s32\nf: a > 3 && b != 7 || !(c & 0x10) && d < -1",
    "arithmetic": "f a=arg1:s64 b=arg2:u64\nf: a * 3 - b / 2 % 5 << 2 >= ~a ^ (b >> 1 | 7)",
    "memory": "f:deep=+8(-16(+0(arg2))):s32 far=+1000000(arg1)\nf: deep == 5 && +4(+0(arg3)):u8 > 'a'",
    "texts": "f path=arg1:string more=+0(arg2):string[200] third=arg3:ustring[1]\nf: path == \"/etc/\\\"x\" && more ~ \"*.c?\\*\"",
    "vectors": "f %xmm0 x=%xmm7:f32 y=%xmm3:f64 p=+8(arg1):f64\nf: arg1 == 1",
    "result": "f ret retval:s32 m=+8($retval):string v=ret:f64\n<",
    "callers": "f $tid arg1 $comm $pid $time\nf: $tid == 4711 && $comm ~ \"w*\" || $time % 8 == $pid",
    "later": "t\nt: node->next.left == 3 && name == \"x\" || mode ~ \"a*\"",
    "method": "ns::A::m(int):arg1:u64 arg2\nns::A::m(int): arg2:s16 <= arg1 == !arg3",
    "brackets": "f arg1\nf: " + "(" * 12 + "arg1" + ")" * 12 + "".join(f" && (arg{i}:u8 || arg{i + 1} == {i})" for i in range(1, 7)),
    "sums": "f key=arg1:u64 name=arg2:string amount=+8(arg3):s16\nf: key > 3", "sums-at-return": "f tid=$tid key=ret:u8 amount=+0(ret):s64\n<",
    "wrong": "f:arg1:s65\nf: arg1 = 3", "unsigned": "f a=arg1:u64\nf: a < 0",
}


def values():
    for name, text in VALUES.items():
        write("values", name, text.encode())


# Programs (fuzz_bpf.c): (code, destination, source, offset, constant).

def program(*rows):
    return b"".join(struct.pack("<BBhi", code, source << 4 | to, offset, number) for code, to, source, offset, number in rows)


EXIT, NOTHING, KEY = (0x95, 0, 0, 0, 0), (0xB7, 0, 0, 0, 0), (0x7A, 10, 0, -8, 2)


def look_up(number):
    return (KEY, (0xBF, 2, 10, 0, 0), (0x07, 2, 0, 0, -8), (0x18, 1, 1, 0, number), (0, 0, 0, 0, 0), (0x85, 0, 0, 0, 1))


def programs():
    alu = [(0xBF, 6, 1, 0, 0), (0x79, 2, 6, 8, 0), (0x79, 3, 6, 16, 0), (0xB7, 0, 0, 0, 3)]
    for width in (4, 7):
        alu += [(width | code | 8, 2, 3, 0, 0) for code in range(0, 0xD0, 0x10) if code != 0x80]
        alu += [(width | code, 0, 0, 0, 5) for code in range(0, 0xD0, 0x10) if code != 0x80]
        alu += [(width | 0x38, 2, 3, 1, 0), (width | 0x98, 3, 2, 1, 0), (width | 0xB8, 3, 2, 8, 0), (width | 0x80, 2, 0, 0, 0)]
    alu += [(0xD4, 2, 0, 0, 16), (0xDC, 2, 0, 0, 32), (0xD7, 2, 0, 0, 64), (0x0F, 0, 2, 0, 0), EXIT]
    write("bpf", "arithmetic", program(*alu))
    jumps, known, forget = [(0x79, 0, 1, 0, 0)], ((0x79, 2, 1, 8, 0), (0x79, 3, 1, 16, 0)), (0xB7, 4, 0, 0, 0)
    for code in (0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xA0, 0xB0, 0xC0, 0xD0):
        for row in ((5 | code | 8, 2, 3, 2, 0), (6 | code, 2, 0, 2, 7)):
            jumps += [*known, forget, row, (0xB7, 4, 0, 0, code), (0x0F, 0, 4, 0, 0), forget]
    write("bpf", "jumps", program(*jumps, (0x05, 0, 0, 0, 0), (0x06, 0, 0, 0, 0), EXIT))
    loads = [(mode | size, to, 1, 8, 0) for mode in (0x61, 0x81) for to, size in ((2, 0), (3, 8), (4, 16), (5, 24))
             if mode | size != 0x99]
    stack = [(0x7B, 10, 2, -8, 0), (0x63, 10, 3, -16, 0), (0x6A, 10, 0, -12, -7), (0x73, 10, 4, -10, 0),
             (0x72, 10, 0, -9, 9), (0x69, 0, 10, -10, 0), (0x79, 5, 10, -16, 0), (0x0F, 0, 5, 0, 0)]
    write("bpf", "memory", program(*loads, *stack, EXIT))
    atomic = [(0x79, 2, 1, 8, 0), (0x79, 0, 1, 16, 0), (0x7B, 10, 0, -8, 0)]
    for size in (0xC3, 0xDB):
        atomic += [(size, 10, 2, -8, code) for code in (0, 0x40, 0x50, 0xA0, 1, 0x41, 0x51, 0xA1, 0xE1, 0xF1)]
    write("bpf", "atomic", program(*atomic, (0x0F, 0, 2, 0, 0), EXIT))
    known = ((0x55, 0, 0, 1, 0), EXIT)
    write("bpf", "map", program(*look_up(0), *known, (0x7A, 0, 0, 40, 5), (0xB7, 2, 0, 0, 3), (0xDB, 0, 2, 8, 1),
                                (0x79, 0, 0, 40, 0), EXIT))
    write("bpf", "map-range", program((0x79, 6, 1, 0, 0), (0x57, 6, 0, 0, 47), *look_up(0), *known,
                                      (0x0F, 0, 6, 0, 0), (0x71, 0, 0, 0, 0), EXIT))
    write("bpf", "map-edge", program((0x79, 6, 1, 0, 0), (0x25, 6, 0, 10, 15), *look_up(1), *known, (0x0F, 0, 6, 0, 0),
                                     (0x72, 0, 0, 0, 1), NOTHING, EXIT))
    # What sum.c puts: raise a number of the value, in 16 tries.
    write("bpf", "map-raise", program((0x79, 6, 1, 8, 0), *look_up(0), *known, (0xBF, 3, 0, 0, 0), (0xB7, 4, 0, 0, 16), (0x79, 1, 3, 16, 0),
                                      (0xBD, 6, 1, 5, 0), (0xBF, 0, 1, 0, 0), (0xDB, 3, 6, 16, 0xF1), (0x1D, 0, 1, 2, 0), (0x07, 4, 0, 0, -1),
                                      (0x55, 4, 0, -7, 0), NOTHING, EXIT))
    write("bpf", "helpers", program((0x79, 6, 1, 0, 0), (0x57, 6, 0, 0, 15), (0xBF, 1, 10, 0, 0), (0x07, 1, 0, 0, -24),
                                    (0xB7, 2, 0, 0, 24), (0x85, 0, 0, 0, 2), (0xBF, 1, 10, 0, 0), (0x07, 1, 0, 0, -16),
                                    (0xBF, 2, 6, 0, 0), (0xBF, 3, 0, 0, 0), (0x85, 0, 0, 0, 3), EXIT))
    write("bpf", "spilled", program((0x7B, 10, 1, -8, 0), (0x79, 6, 10, -8, 0), (0x79, 0, 6, 56, 0), (0x18, 3, 0, 0, -1),
                                    (0, 0, 0, 0, 0x7FFFFFFF), (0x3F, 0, 3, 0, 0), EXIT))
    write("bpf", "refused", program((0xBF, 0, 1, 0, 0), EXIT))


if __name__ == "__main__":
    for part in (traces, cores, host, agent, elfs, texts, remote, isa, blocks, types, hostile_types, programs, values):
        part()
    size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(CORPUS) for name in names)
    print(f"{size} bytes")

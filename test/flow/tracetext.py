"""Makes a trace file (include/calltap/abi/file.h) from a short text, so that a case can say what exactly a verb reads.

One line each, # starts a comment; the clock ticks in nanoseconds and starts at 0:
    info KEY VALUE
    process INDEX PID EXE [START]       START: enum calltap_process_start
    thread INDEX PROCESS TID NAME [LOST]
    function ID SYMBOL [FILE:LINE]
    open PROCESS TID TIME NAME FRAME... frames that were open, innermost first: an id, a symbol, or @ADDRESS;
                                        with ^SLOT where its return address lies
    THREAD TIME EVENT [ID] [EXTRA]      EVENT: entry exit call unwind stack lost wait tail rise
    THREAD - EVENT ID                   entry or exit without a time; not as a thread's first
    ticks SPAN [FROM..TO]...            a bound on the times of those, and late rows
    THREAD TIME mark TEXT               a Python string literal's inside
    THREAD TIME point NUMBER NUMBER     an event of a type with two numbers, the second with a sign
    THREAD TIME verdict ID VERDICT      on the innermost call of that function: enum calltap_verdict
    THREAD TIME unknown                 an event of a type that nothing describes
    end STATUS                          the file is complete"""
import struct

KINDS = {"entry": 1, "exit": 2, "call": 3, "unwind": 5, "stack": 6, "lost": 7, "wait": 8, "tail": 9, "rise": 11}
TWO_WORDS = {"call", "stack", "lost", "wait", "rise"}
EVENT, MARK, VERDICT, POINT, UNKNOWN = 13, 1, 2, 500, 501
FORMATS, TICKS = 13, 14
BRIEF = {1: 14, 2: 15}
INFO, CLOCK, PROCESS, OBJECT, MAP, FUNCTIONS, LINES, THREAD, DATA, END, STACK = range(1, 12)
NONE = 0xFFFFFFFF
BASE = 0x400000  # where the one object lies
STACK_MAP = 0x7000000, 0x8000000  # the mapping that open frames' slots lie in
SECOND = 1_000_000_000


def check(data, state=0x811C9DC5):
    for at in range(0, len(data), 8):
        word = int.from_bytes(data[at:at + 8].ljust(8, b"\0"), "little")
        state = (state ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 32
    return state


def chunk(kind, payload):
    covered = payload[:48] if kind == DATA else payload
    head = struct.pack("<IIIIQQ", 0x4B435443, kind, 0, 0, len(payload), len(payload))
    value = check(covered, check(head)) & 0xFFFFFFFF
    return head[:12] + struct.pack("<I", value) + head[16:] + payload + bytes(-len(payload) % 8)


def zigzag(difference):
    value = (difference << 1) ^ (difference >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def strings(names):
    offsets, table = [], b""
    for name in names:
        offsets.append(len(table))
        table += name.encode("utf-8", "surrogateescape") + b"\0"
    return offsets, table


def event_words(data):
    """The words behind an EVENT's head: seven bytes each."""
    return [int.from_bytes(data[at:at + 7], "little") for at in range(0, len(data), 7)]


def formats(verdicts):
    """The FORMATS chunk: (type, its name, the field, how C declares it, offset, size, flags)."""
    rows = [(MARK, "mark", "text", "char text[]", 0, 0, 2), (POINT, "point", "x", "uint32_t x", 0, 4, 0),
            (POINT, "point", "y", "int16_t y", 4, 2, 1)]
    if verdicts:
        rows += [(VERDICT, "left out", "function", "u32", 0, 4, 64), (VERDICT, "left out", "verdict", "u8", 4, 1, 0)]
    offsets, table = strings([name for row in rows for name in row[1:4]])
    return struct.pack("<II", len(rows), len(table)) + b"".join(
        struct.pack("<8I", row[0], *offsets[3 * i:3 * i + 3], *row[4:], 0) for i, row in enumerate(rows)) + table


class Text:
    def __init__(self, text):
        self.info, self.processes, self.threads, self.functions, self.events, self.status = [], [], [], [], {}, None
        self.stacks, self.verdicts, self.ticks = [], False, []
        for line in text.splitlines():
            words = line.split("#")[0].split()
            if words:
                self.take(words, line)

    def take(self, words, line):
        if words[0] == "info":
            self.info.append((words[1], " ".join(words[2:])))
        elif words[0] == "process":
            self.processes.append((int(words[1]), int(words[2]), words[3], int(words[4]) if len(words) > 4 else 0))
        elif words[0] == "thread":
            lost = int(words[5]) if len(words) > 5 else 0
            self.threads.append((int(words[1]), int(words[2]), int(words[3]), words[4], lost))
        elif words[0] == "function":
            self.functions.append((int(words[1]), words[2], words[3] if len(words) > 3 else None))
        elif words[0] == "open":
            self.stacks.append((int(words[1]), int(words[2]), int(words[3]), words[4], words[5:]))
        elif words[0] == "ticks":
            self.ticks.append((int(words[1]), [tuple(map(int, row.split(".."))) for row in words[2:]]))
        elif words[0] == "end":
            self.status = int(words[1])
        elif words[2] == "mark":
            text = line.split("mark", 1)[1].strip().encode().decode("unicode_escape").encode("latin-1")
            self.note(int(words[0]), int(words[1]), MARK, text)
        elif words[2] == "point":
            self.note(int(words[0]), int(words[1]), POINT, struct.pack("<Ih", int(words[3]), int(words[4])))
        elif words[2] == "verdict":
            self.verdicts = True
            self.note(int(words[0]), int(words[1]), VERDICT, struct.pack("<IB2x", int(words[3]), int(words[4])))
        elif words[2] == "unknown":
            self.note(int(words[0]), int(words[1]), UNKNOWN, b"x" * 100)
        elif words[2] in KINDS:
            time = None if words[1] == "-" else int(words[1])
            self.event(int(words[0]), time, words[2], [int(word, 0) for word in words[3:]])
        else:
            raise ValueError(f"what is this: {line}")

    def event(self, thread, time, kind, numbers):
        extra = [numbers.pop()] if kind in TWO_WORDS else []
        number = KINDS[kind] if time is not None else BRIEF[KINDS[kind]]
        self.events.setdefault(thread, []).append((number, numbers[0] if numbers else 0, time, extra))

    def note(self, thread, time, kind, data):
        words = event_words(data)
        self.events.setdefault(thread, []).append((EVENT, kind << 12 | 1 + len(words), time, words))

    def data(self, thread):
        events = self.events[thread]
        heads = b"".join(struct.pack("<I", kind << 28 | ident) for kind, ident, _, _ in events)
        times, extras, last = b"", b"", events[0][2]
        for _, _, time, extra in events:
            if time is not None:
                times += zigzag(time - last)
                last = time
            extras += struct.pack(f"<{len(extra)}Q", *extra)
        streams = heads + times + extras
        return struct.pack("<IIQQIIQII", thread, len(events), events[0][2], max(event[2] or 0 for event in events),
                           len(times), len(extras), 0, check(streams) & 0xFFFFFFFF, self.notes(thread)) + streams

    def notes(self, thread):
        return sum(kind == EVENT for kind, *_ in self.events[thread])

    @staticmethod
    def stack(process, tid, time, thread, frames):
        rows = []
        for text in frames:
            frame, _, slot = text.partition("^")
            place = int(slot or "0", 0)
            if frame.isdigit():
                rows.append((BASE + 0x1000 + 0x100 * int(frame) + 8, place, int(frame), ""))
            elif frame.startswith("@"):
                rows.append((int(frame[1:], 0), place, NONE, ""))
            else:
                rows.append((BASE + 0xF000, place, NONE, frame))
        offsets, table = strings([thread] + [name for _, _, _, name in rows])
        head = struct.pack("<IIQIIQQ", process, tid, time, len(rows), len(table), *STACK_MAP)
        return head + b"".join(struct.pack("<QQII", address, place, ident, offset)
                               for (address, place, ident, _), offset in zip(rows, offsets[1:])) + table

    def chunks(self):
        yield INFO, "".join(f"{key}={value}\n" for key, value in self.info).encode()
        yield CLOCK, struct.pack("<QQQ", 0, 5 * SECOND, 9 * SECOND) + struct.pack("<QQQ", SECOND, 6 * SECOND, 10 * SECOND)
        for index, pid, exe, start in self.processes:
            yield PROCESS, struct.pack("<IIIIQQ", index, pid, NONE, start, 0, 0) + exe.encode() + b"\0"
        yield OBJECT, struct.pack("<II32s", 0, 4, b"\1\2\3\4") + b"/usr/bin/demo\0"
        for index, *_ in self.processes:
            yield MAP, struct.pack("<IIQQQQ", index, 0, BASE, BASE, BASE + 0x100000, 0)
        offsets, table = strings([symbol for _, symbol, _ in self.functions])
        yield FUNCTIONS, struct.pack("<II", len(offsets), len(table)) + b"".join(
            struct.pack("<IIQII", ident, 0, 0x1000 + 0x100 * ident, 0x100, offset)
            for (ident, _, _), offset in zip(self.functions, offsets)) + table
        lines = [(ident, *source.rsplit(":", 1)) for ident, _, source in self.functions if source]
        offsets, table = strings([file for _, file, _ in lines])
        yield LINES, struct.pack("<II", len(lines), len(table)) + b"".join(
            struct.pack("<III", ident, int(number), offset) for (ident, _, number), offset in zip(lines, offsets)) + table
        yield THREAD, b"".join(struct.pack("<IIII16sQQQQ", index, process, tid, 0, name.encode(), 0, 0, lost, 0)
                               for index, process, tid, name, lost in self.threads)
        for stack in self.stacks:
            yield STACK, self.stack(*stack)
        if any(self.notes(thread) for thread in self.events):
            yield FORMATS, formats(self.verdicts)
        for span, rows in self.ticks:
            yield TICKS, struct.pack("<QII", span, len(rows), 0) + b"".join(struct.pack("<QQ", *row) for row in rows)
        for thread in self.events:
            yield DATA, self.data(thread)
        if self.status is not None:
            last = max(event[2] or 0 for events in self.events.values() for event in events)
            records = sum(len(events) for events in self.events.values())
            yield END, struct.pack("<QQQiI", records, 0, last, self.status, 0)

    def file(self):
        head = struct.pack("<8sIIQI36x", b"CALLTAP\n", 1, 64, 9 * SECOND, 62)
        return head + b"".join(chunk(kind, payload) for kind, payload in self.chunks())


def make(text):
    return Text(text).file()

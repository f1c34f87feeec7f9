"""A second reader of the trace file, written from include/calltap/abi/file.h alone: the end-to-end tests check the
recorder against it, so that a mistake of the project's own reader cannot hide one of the recorder's."""
import collections
import ctypes
import ctypes.util
import re
import struct
import subprocess

HEAD, CHUNK = struct.Struct("<8sIIQI36x"), struct.Struct("<IIIIQQ")
INFO, CLOCK, PROCESS, OBJECT, MAP, FUNCTIONS, LINES, THREAD, DATA, END = range(1, 11)
ENTRY, EXIT, CALL, TIME, UNWIND, STACK, LOST, WAIT, TAIL, LANDING, RISE = range(1, 12)
EVENT, MARK, VERDICT = 13, 1, 2
BRIEF_ENTRY, BRIEF_EXIT = 14, 15
BRIEF_TAIL = 1 << 27  # in the id of a brief entry
BRIEF_LEAF = 1 << 26  # likewise
LEAF = 1 << 32  # beside the head of an entry whose frame no UNWIND counts
TWO_WORDS = {CALL, TIME, STACK, LOST, WAIT, RISE}
CHUNK_MAGIC = 0x4B435443
DATA_HEAD = 48  # bytes of struct calltap_file_data, never compressed
CHECKED_MAX = 1 << 20  # bytes; a longer check takes too long in Python


class BadTrace(Exception):
    """The file is not what the format says."""


def exact_head(head):
    """The head of the record, as it would be with a time."""
    if head < BRIEF_ENTRY << 28:
        return head
    if head >> 28 == BRIEF_ENTRY and head & BRIEF_TAIL:
        return TAIL << 28 | (head & (BRIEF_TAIL - 1))
    if head >> 28 == BRIEF_ENTRY and head & BRIEF_LEAF:
        return LEAF | ENTRY << 28 | (head & (BRIEF_LEAF - 1))
    return head - (13 << 28)


def zstd():
    name = ctypes.util.find_library("zstd") or "libzstd.so.1"
    library = ctypes.CDLL(name)
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return library


def check_sum(*parts):
    """The check of abi/file.h over the parts, each filled up to a multiple of 8 bytes."""
    value = 0x811C9DC5
    for part in parts:
        for (word,) in struct.iter_unpack("<Q", part + b"\0" * (-len(part) % 8)):
            value = (value ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
            value ^= value >> 32
    return value & 0xFFFFFFFF


def text(data, start):
    return data[start:data.index(b"\0", start)].decode(errors="replace")


class Thread:
    def __init__(self, index):
        self.index, self.process, self.tid, self.name = index, None, None, ""
        self.lost = self.start = self.wait_ticks = 0
        self.chunks = []  # (number, heads, extras)

    def ordered_chunks(self):
        """(heads, extras) in order."""
        for number, (expected, heads, extras) in enumerate(self.chunks):
            if expected != number:
                raise BadTrace(f"data chunk {number} of thread {self.tid} is missing")
            yield heads, extras

    def calls(self):
        """{id: number of entries}, far faster than by events()."""
        counts = collections.Counter()
        for heads, _ in self.ordered_chunks():
            for head, count in collections.Counter(heads).items():
                if head >> 28 & 15 in (ENTRY, TAIL, CALL):
                    counts[head & 0x0FFFFFFF] += count
        return counts

    def events(self):
        """(kind, id, extra) in order; extra is None for one-word records, but LEAF of such an ENTRY; of an EVENT the bytes
        behind its head."""
        for heads, extras in self.ordered_chunks():
            words = iter(extras)
            for head in heads:
                kind = head >> 28 & 15
                if kind == EVENT:
                    behind = [next(words) for _ in range((head & 0xFFF) - 1)]
                    if any(word >> 56 for word in behind):
                        raise BadTrace("a word of an event has more than seven bytes")
                    extra = b"".join(word.to_bytes(8, "little")[:7] for word in behind)
                else:
                    extra = next(words) if kind in TWO_WORDS else head & LEAF or None
                yield kind, head & 0x0FFFFFFF, extra

    def verdicts(self):
        """How many calls are not to be shown, [alone, with what they call]."""
        counts = [0, 0]
        for heads, _ in self.ordered_chunks():
            # There are far fewer different heads than records.
            if not any(head >> 28 == EVENT and (head & 0x0FFFFFFF) >> 12 == VERDICT for head in set(heads)):
                continue
            for kind, ident, extra in self.events():
                if kind == EVENT and ident >> 12 == VERDICT:
                    counts[{0: 0, 2: 1}[extra[4]]] += 1
            break
        return counts

    def marks(self):
        """The texts of its marks, in order, as bytes."""
        return [extra.split(b"\0")[0] for kind, ident, extra in self.events() if kind == EVENT and ident >> 12 == MARK]


class Trace:
    def __init__(self, path):
        self.info, self.processes, self.threads, self.symbols, self.objects = {}, {}, {}, {}, {}
        self.end = None
        # records without a time; those among them of tail calls, and of leaves
        self.brief, self.brief_tails, self.leaves = 0, 0, 0
        self.function_object = {}
        self.lines = {}  # by function: (file, line)
        with open(path, "rb") as file:
            self.bytes = file.read()
        if len(self.bytes) < HEAD.size or self.bytes[:8] != b"CALLTAP\n":
            raise BadTrace("no trace file")
        self.names = None
        self.read_chunks(HEAD.unpack_from(self.bytes)[2])

    def read_chunks(self, at):
        library = zstd()
        while at + CHUNK.size <= len(self.bytes):
            magic, kind, flags, check, stored, raw = CHUNK.unpack_from(self.bytes, at)
            payload = self.bytes[at + CHUNK.size:at + CHUNK.size + stored]
            if magic != CHUNK_MAGIC or len(payload) != stored:
                return
            opened = payload[:DATA_HEAD] if kind == DATA else b""
            covered = opened or payload
            if len(covered) < CHECKED_MAX and check_sum(CHUNK.pack(magic, kind, flags, 0, stored, raw), covered) != check:
                raise BadTrace(f"the check sum of the chunk at {at} is wrong")
            payload = payload[len(opened):]
            if flags & 1:
                size = raw - len(opened)
                buffer = ctypes.create_string_buffer(max(size, 1))
                if library.ZSTD_decompress(buffer, size, payload, len(payload)) != size:
                    raise BadTrace(f"the chunk at {at} does not decompress to {size} bytes")
                payload = buffer.raw[:size]
            payload = opened + payload
            self.read_chunk(kind, payload)
            at += CHUNK.size + (stored + 7 & ~7)

    def thread(self, index):
        return self.threads.setdefault(index, Thread(index))

    def read_chunk(self, kind, data):
        if kind == INFO:
            self.info.update(line.split("=", 1) for line in data.decode(errors="replace").splitlines() if "=" in line)
        elif kind == PROCESS:
            index, pid, parent, start, start_ticks, _ = struct.unpack_from("<IIIIQQ", data)
            self.processes[index] = (pid, parent, start, start_ticks, text(data, 32))
        elif kind == OBJECT:
            self.objects[struct.unpack_from("<I", data)[0]] = text(data, 40)
        elif kind == FUNCTIONS:
            count, _ = struct.unpack_from("<II", data)
            for number in range(count):
                function, owner, _, _, name = struct.unpack_from("<IIQII", data, 8 + 24 * number)
                self.symbols[function] = text(data, 8 + 24 * count + name)
                self.function_object[function] = owner
        elif kind == LINES:
            count, _ = struct.unpack_from("<II", data)
            for number in range(count):
                function, line, name = struct.unpack_from("<III", data, 8 + 12 * number)
                self.lines[function] = (text(data, 8 + 12 * count + name), line)
        elif kind == THREAD:
            for offset in range(0, len(data) - 63, 64):
                index, process, tid, _, name, start, _, lost, wait = struct.unpack_from("<IIII16sQQQQ", data, offset)
                thread = self.thread(index)
                thread.process, thread.tid, thread.start, thread.lost, thread.wait_ticks = process, tid, start, lost, wait
                thread.name = name.split(b"\0")[0].decode(errors="replace")
        elif kind == DATA:
            index, count, _, _, times_size, extras_size, number = struct.unpack_from("<IIQQIIQ", data)
            heads = struct.unpack_from(f"<{count}I", data, DATA_HEAD)
            if count and max(heads) >= BRIEF_ENTRY << 28:
                # There are far fewer different heads than records.
                counts = collections.Counter(heads)
                self.brief += sum(times for head, times in counts.items() if head >= BRIEF_ENTRY << 28)
                self.leaves += sum(times for head, times in counts.items() if head >> 28 == BRIEF_ENTRY and head & BRIEF_LEAF)
                self.brief_tails += sum(times for head, times in counts.items() if head >> 28 == BRIEF_ENTRY and head & BRIEF_TAIL)
                exact = {head: exact_head(head) for head in counts}
                heads = [exact[head] for head in heads]
            extras = struct.unpack_from(f"<{extras_size // 8}Q", data, DATA_HEAD + 4 * count + times_size)
            self.thread(index).chunks.append((number, heads, extras))
        elif kind == END:
            self.end = struct.unpack_from("<QQQi", data)

    def name(self, function):
        """The bare name of a function: no namespace, class, template or parameter part, no clone suffix."""
        if self.names is None:
            symbols = list(self.symbols.values())
            done = subprocess.run(["c++filt"], input="\n".join(symbols) + "\n", stdout=subprocess.PIPE, text=True, check=True)
            self.names = dict(zip(self.symbols, map(bare, done.stdout.split("\n"))))
        return self.names.get(function, f"#{function}")

    def ordered_threads(self):
        return sorted(self.threads.values(), key=lambda thread: (thread.start, thread.index))

    def pid(self, thread):
        return self.processes[thread.process][0]

    def called(self):
        """{name: number of entries} over the whole trace."""
        counts = {}
        for thread in self.threads.values():
            for function, count in thread.calls().items():
                name = self.name(function)
                counts[name] = counts.get(name, 0) + count
        return counts


def bare(name):
    name = re.sub(r"\.(\d+|constprop|isra|part|cold|lto_priv|llvm)\b.*|@.*| \[clone.*|\[abi:\w+\]", "", name)
    name = name.replace("(anonymous namespace)", "anonymous")
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    return re.sub(r"\(.*", "", name).split("::")[-1].split(" ")[-1]

"""Values by types: programs with functions of random signatures, whose arguments and results are known; what is recorded
by debug information alone equals them, or is told as not available."""
import json
import os
import random
import re
import shutil
import struct
import subprocess
from fractions import Fraction

from harness import Skip, expect
from values import need

HEAD = """#include <stdbool.h>
#include <stdio.h>
#include <string.h>
enum color { RED, GREEN = 3, BLUE, DARK = -7 };
enum flag { READ = 1, WRITE = 2, CREATE = 0x40, TRUNCATE = 0x200 };
enum __attribute__((packed)) small { NONE, MOST = 200 };
typedef unsigned short port;
typedef const char *text;
struct pair { int a, b; };
struct mixed { double d; int i; };
struct point { float x, y; };
struct space { double x, y, z; };
struct triple { float a, b, c; };
struct tagged { char c; float f; };
struct boxed { struct { double d; } in; };
struct wide { text name; struct { short x; char y; } at; enum color c; float real; char tag[6]; _Bool on; int low : 5; void *p; };
struct floats { float f[4]; };
struct large { long a[5]; };
struct unknown;
struct bits { unsigned a : 3, b : 20; long c : 40; };
union either { long a; float b; };
struct precise { long double l; int i; };
struct boxes { struct pair at[2]; int n; };
struct grid { short m[2][3]; char names[2][6]; struct point p[2]; };
struct deep { struct { struct point p[2]; char c; unsigned low : 3; } in[2]; };
"""
COLORS = {0: "RED", 3: "GREEN", 4: "BLUE", -7: "DARK"}
FLAGS = {1: "READ", 2: "WRITE", 0x40: "CREATE", 0x200: "TRUNCATE"}
TEXTS = ["", "a", "path/to/it", 'say "so"', "back\\slash", "tab\there", "x" * 63, "line\nend"]


def number(low, high):
    """A number, often one at the end of what its type holds."""
    return lambda odd: odd.choice([low, high, 0, 1, odd.randint(low, high), odd.randint(low, high)])


def quoted(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


def char(value):
    if not 0 < value < 127:
        return str(value)
    if value < 32:
        return f"'\\{'abtnvfr'[value - 7]}'" if 7 <= value <= 13 else f"'\\{value:03o}'"
    return f"'\\{chr(value)}'" if chr(value) in "'\\" else f"'{chr(value)}'"


def flags(value):
    names = "|".join(name for bit, name in FLAGS.items() if value & bit)
    rest = value & ~sum(FLAGS)
    return str(value) if not names else names if not rest else f"{names}|0x{rest:x}"


def pointer(value):
    return hex(value) if value else "NULL"


def signed(bits):
    return number(-1 << bits - 1, (1 << bits - 1) - 1), str


def unsigned(bits):
    return number(0, (1 << bits) - 1), str


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def real(code):
    """A float ("f") or a double ("d"), also an odd one, and the shortest decimal number that reads back as it."""
    kept, sure, least = (single, 6, 2.0 ** -126) if code == "f" else (float, 15, 2.0 ** -1022)
    words = {"f": "<I", "d": "<Q"}

    def draw(odd):
        bits = struct.pack(words[code], odd.getrandbits(8 * struct.calcsize(code)))
        plain = [0.0, -0.0, 1.0, -2.5, 0.1, 1e15, 123456789.0, 1e23, 3e-5, 5e-324, 1e-40, float("inf"), float("-inf"), float("nan")]
        value = odd.choice([odd.choice(plain), odd.uniform(-1000, 1000), struct.unpack("<" + code, bits)[0]])
        return float("nan") if value != value else kept(value)

    def show(value):
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        digits = next(n for n in range(1, 18) if kept(float(f"{value:.{n}g}")) == value)
        text = f"{value:.{max(digits, sure if abs(value) >= least else 1)}g}"
        return text if set(text) & set(".e") else text + ".0"
    return draw, show


def draw_long_double(odd):
    """One that each CPU has, of up to 64 bits, as a fraction; what is none is a float."""
    if odd.random() < 0.15:
        return odd.choice([float("inf"), float("-inf"), float("nan"), -0.0])
    top = odd.choice([odd.getrandbits(64), odd.getrandbits(64), odd.getrandbits(12), 0, 1])
    return odd.choice([-1, 1]) * Fraction(top) * Fraction(2) ** odd.choice([0, -10, -63, -70, odd.randint(-900, 900), odd.randint(-16000, 16000)])


def show_long_double(value, bits):
    """The shortest decimal number that reads back as the one of so many bits."""
    if isinstance(value, float) or not value:
        return str(float(value))
    size, power = abs(value), 0
    power = int((size.numerator.bit_length() - size.denominator.bit_length()) * 0.30103) - 1
    while size >= Fraction(10) ** power:
        power += 1
    while size < Fraction(10) ** (power - 1):
        power -= 1
    for count in range(1, 40):
        digits = round(size * Fraction(10) ** (count - power))
        read = digits * Fraction(10) ** (power - count)
        shift = read.numerator.bit_length() - read.denominator.bit_length() - bits
        unit = Fraction(2) ** (shift if read / Fraction(2) ** shift < 2 ** bits else shift + 1)
        if round(read / unit) * unit == size:
            break
    digits = str(digits)
    power += len(digits) - count
    digits, sign = digits.rstrip("0"), "-" if value < 0 else ""
    if not -4 <= power - 1 < max(len(digits), 18 if bits == 64 else 33):
        return f"{sign}{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}e{power - 1:+03d}"
    if power <= 0:
        return f"{sign}0.{'0' * -power}{digits}"
    return f"{sign}{digits.ljust(power, '0')[:power]}.{digits[power:] or '0'}"


def as_double(value):
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def bits_of(kind, value):
    """A number as its type has it in memory."""
    if kind == "long double":
        kind, value = "double", as_double(value)
    if kind in ("float", "double"):
        code = kind[0]
        return struct.unpack({"f": "<I", "d": "<Q"}[code], struct.pack("<" + code, value))[0]
    return value & (1 << 64) - 1


SITES = {"x86_64": "5", "aarch64": "4", "riscv64": "8"}
# C's type: how a value is drawn, how it is shown; None: it is told as not available.
TYPES = {
    "signed char": signed(8), "short": signed(16), "int": signed(32), "long": signed(64), "long long": signed(64),
    "unsigned char": unsigned(8), "port": unsigned(16), "unsigned": unsigned(32), "unsigned long": unsigned(64),
    "_Bool": (number(0, 1), lambda value: ["false", "true"][value]),
    "char": (number(-128, 127), char),
    "enum color": (lambda odd: odd.choice([0, 3, 4, -7, 2, 99]), lambda value: COLORS.get(value, str(value))),
    "enum flag": (lambda odd: odd.choice([0, 1, 3, 0x241, 0x242, 8, 0x48]), flags),
    "enum small": (lambda odd: odd.choice([0, 200, 17]), lambda value: {0: "NONE", 200: "MOST"}.get(value, str(value))),
    "void *": (number(0, (1 << 47) - 1), pointer), "struct unknown *": (number(0, (1 << 47) - 1), pointer),
    "text": (lambda odd: odd.choice(TEXTS), quoted), "char *": (lambda odd: odd.choice(TEXTS), quoted),
    "float": real("f"), "double": real("d"), "long double": (draw_long_double, None), "__int128": None,
}


def field(kind, bits):
    """A number of so many bits, by the kind of all of its type's."""
    low, high = (0, (1 << bits) - 1) if kind.startswith("unsigned") else (-1 << bits - 1, (1 << bits - 1) - 1)
    return number(low, high), TYPES[kind][1]


TYPES["tag"] = lambda odd: odd.choice(["", "ab", "tab\t", "sixsix"]), quoted
TYPES["unsigned:3"], TYPES["unsigned:20"], TYPES["long:40"] = field("unsigned", 3), field("unsigned", 20), field("long", 40)
TYPES["int:5"] = field("int", 5)
# Structures' members; one within another is a tuple itself.
MEMBERS = {
    "struct pair": (("a", "int"), ("b", "int")), "struct mixed": (("d", "double"), ("i", "int")),
    "struct floats": (("f", "float[4]"),), "struct large": (("a", "long[5]"),),
    "struct point": (("x", "float"), ("y", "float")), "struct space": (("x", "double"), ("y", "double"), ("z", "double")),
    "struct triple": (("a", "float"), ("b", "float"), ("c", "float")), "struct tagged": (("c", "char"), ("f", "float")),
    "struct boxed": (("in", (("d", "double"),)),),
    "struct bits": (("a", "unsigned:3"), ("b", "unsigned:20"), ("c", "long:40")),
    "struct wide": (("name", "text"), ("at", (("x", "short"), ("y", "char"))), ("c", "enum color"), ("real", "float"),
                    ("tag", "tag"), ("on", "_Bool"), ("low", "int:5"), ("p", "void *")),
    "struct precise": (("l", "long double"), ("i", "int")),
    "struct boxes": (("at", "struct pair[2]"), ("n", "int")),
    "struct grid": (("m", "short[2][3]"), ("names", "tag[2]"), ("p", "struct point[2]")),
    "struct inner": (("p", "struct point[2]"), ("c", "char"), ("low", "unsigned:3")),
    "struct deep": (("in", "struct inner[2]"),),
}


def array_of(kind):
    """Of an array its elements' kind, and how many there are."""
    match = re.fullmatch(r"([\w ]+)\[(\d+)\](.*)", kind) if isinstance(kind, str) else None
    return match and (match.group(1) + match.group(3), int(match.group(2)))


def members_of(kind):
    return kind if isinstance(kind, tuple) else MEMBERS.get(kind.removesuffix(" *"))


def draw_any(odd, kind):
    if kind == "union either":
        return odd.choice([0, 1, odd.getrandbits(62)])
    if array_of(kind):
        return [draw_any(odd, array_of(kind)[0]) for _ in range(array_of(kind)[1])]
    if not members_of(kind):
        return TYPES[kind][0](odd) if TYPES.get(kind) else None
    if isinstance(kind, str) and kind.endswith("*") and odd.random() < 0.15:
        return 0
    return {name: draw_any(odd, inner) for name, inner in members_of(kind)}


def show_any(kind, value, cpu="x86_64"):
    if kind == "long double":
        return show_long_double(value, 64 if cpu == "x86_64" else 113)
    if kind == "union either":
        return f"{{a={value}, b={TYPES['float'][1](struct.unpack('<f', struct.pack('<I', value & 0xffffffff))[0])}}}"
    if array_of(kind):
        return "{" + ", ".join(show_any(array_of(kind)[0], one, cpu) for one in value) + "}"
    if not members_of(kind):
        return TYPES[kind][1](value)
    return "NULL" if value == 0 else "{" + ", ".join(f"{name}={show_any(inner, value[name], cpu)}" for name, inner in members_of(kind)) + "}"


def initial(kind, value):
    """The value as C's initializer."""
    if kind == "union either":
        return f"{{.a = {value}}}"
    if array_of(kind):
        return "{" + ", ".join(initial(array_of(kind)[0], one) for one in value) + "}"
    if not members_of(kind):
        return literal(kind, value)
    return "{" + ", ".join(f".{name} = {initial(inner, value[name])}" for name, inner in members_of(kind)) + "}"


def parts_of(place, kind, value=None):
    """(C's expression, its kind, its value) of all that is within."""
    if array_of(kind):
        return [part for i in range(array_of(kind)[1]) for part in parts_of(f"{place}[{i}]", array_of(kind)[0], value[i] if value else None)]
    if not members_of(kind):
        return [(place, kind, value)]
    if isinstance(kind, str) and kind.endswith("*"):
        place = f"(*{place})"
    return [part for name, inner in members_of(kind)
            for part in parts_of(f"{place}.{name}", inner, value[name] if isinstance(value, dict) else None)]


NAMED = [kind for kind in MEMBERS if kind != "struct inner"]
AGGREGATES = [*NAMED, *(f"{kind} *" for kind in NAMED), "union either"]
SHOWN = {*(kind for kind, how in TYPES.items() if how), *AGGREGATES}
PLAIN = [*(name for name, how in TYPES.items() if how and ":" not in name and name != "tag"), *AGGREGATES, *AGGREGATES]
OTHERS = [name for name, how in TYPES.items() if not how]


def literal(kind, value):
    if kind in ("text", "char *"):
        return f"({kind})" + quoted(value)
    if kind == "tag":
        return quoted(value)
    if ":" in kind:
        return str(value)
    if kind == "long double" and isinstance(value, Fraction):
        return f"{'-' if value < 0 else ''}0x{abs(value.numerator):x}.p-{value.denominator.bit_length() - 1}L"
    if kind in ("float", "double", "long double"):
        return "__builtin_nan(\"\")" if value != value else str(value).replace("inf", "__builtin_inf()") if value in (
            float("inf"), float("-inf")) else value.hex()
    return f"({kind})0x{value & (1 << 64) - 1:x}ull"


def log_of(place, kind):
    """The statement by which a function says a value that is no structure."""
    if kind in ("text", "char *"):
        return f'printf(" %zu", __builtin_strlen({place}));'
    if kind == "tag":
        return f'printf(" %zu", __builtin_strnlen({place}, sizeof({place})));'.replace("__builtin_strnlen", "strnlen")
    if kind in ("float", "double"):
        word = "unsigned" if kind == "float" else "unsigned long"
        return f'{{ {word} w; __builtin_memcpy(&w, &{place}, sizeof(w)); printf(" %lx", (unsigned long)w); }}'
    if kind == "long double":
        return f'{{ double d = (double){place}; unsigned long w; __builtin_memcpy(&w, &d, sizeof(w)); printf(" %lx", w); }}'
    if kind == "union either":
        return f'printf(" %lx", {place}.a);'
    if TYPES[kind]:
        return f'printf(" %llx", (unsigned long long){place});'
    return f'printf(" %x", *(unsigned char *)&{place});'


class Function:
    def __init__(self, odd, index):
        self.name, self.index = f"function_{index}", index
        self.static = odd.random() < 0.4
        self.kinds = [odd.choice(PLAIN if odd.random() < 0.7 else OTHERS) for _ in range(odd.choice([0, 1, 2, 3, 4, 6, 8, 11]))]
        self.result = odd.choice([*PLAIN, *PLAIN, "void", "long double", "struct large"])
        self.used = [odd.random() < 0.85 for _ in self.kinds]
        self.calls = [self.draw(odd) for _ in range(2)]

    def draw(self, odd):
        return [draw_any(odd, kind) for kind in self.kinds], draw_any(odd, self.result)

    def code(self):
        """The function logs what it uses, then gives what is wanted of it."""
        parameters = ", ".join(f"{kind} a{i}" for i, kind in enumerate(self.kinds)) or "void"
        lines = [f"{'static ' if self.static else ''}__attribute__((noinline)) {self.result} {self.name}({parameters})", "{",
                 f'\tprintf("{self.index}");']
        for i, kind in enumerate(self.kinds):
            if not self.used[i]:
                continue
            if isinstance(kind, str) and kind.endswith("*") and members_of(kind):
                lines.append(f'\tif (!a{i})\n\t\tprintf(" NULL");\n\telse {{')
            lines.extend("\t" + log_of(place, inner) for place, inner, _ in parts_of(f"a{i}", kind))
            if isinstance(kind, str) and kind.endswith("*") and members_of(kind):
                lines.append("\t}")
        lines.append('\tputs("");')
        if self.result != "void":
            lines.append(f"\treturn result_{self.index};")
        return "\n".join([*([f"static {self.result} result_{self.index};"] if self.result != "void" else []), *lines, "}"])

    def call(self, number_of_call, kept="static "):
        """kept: where structures are that addresses lead to; not static: on the stack."""
        values, result = self.calls[number_of_call]
        lines = []
        for i, (kind, value) in enumerate(zip(self.kinds, values)):
            if kind.endswith("*") and members_of(kind):
                if value:
                    lines.append(f"\t\t{kept}{kind.removesuffix(' *')} s{i} = {initial(kind, value)};")
                lines.append(f"\t\t{kept}{kind}volatile v{i} = {f'&s{i}' if value else '0'};")
            elif kind == "text":
                lines.append(f"\t\tstatic text volatile v{i} = {literal(kind, value)};")
            else:
                lines.append(f"\t\tstatic volatile {kind} v{i}{f' = {initial(kind, value)}' if value is not None else ''};")
        if result is not None and self.result.endswith("*") and members_of(self.result):
            if result:
                lines.append(f"\t\t{kept}{self.result.removesuffix(' *')} r = {initial(self.result, result)};")
            lines.append(f"\t\tresult_{self.index} = {'&r' if result else '0'};")
        elif result is not None and (members_of(self.result) or self.result == "union either"):
            lines.append(f"\t\tstatic {self.result} r = {initial(self.result, result)};\n\t\tresult_{self.index} = r;")
        elif result is not None:
            lines.append(f"\t\tresult_{self.index} = {literal(self.result, result)};")
        if not kept:
            lines.append('\t\t__asm__ volatile("" : : : "memory");')  # what nobody is known to read is stored, too
        arguments = ", ".join(f"v{i}" for i in range(len(self.kinds)))
        return "\n".join(["\t{", *lines, f"\t\t{self.name}({arguments});", "\t}"])


def source(functions, kept="static "):
    calls = "\n".join(function.call(turn, kept) for turn in range(2) for function in functions)
    return "\n".join([HEAD, *(function.code() for function in functions), "int main(void)", "{", calls, "\treturn 0;", "}", ""])


def check_log(functions, text):
    """What the functions say themselves of their arguments is what was drawn."""
    lines = iter(text.splitlines())
    for turn in range(2):
        for function in functions:
            words = next(lines).split(" ")
            expect(words.pop(0) == str(function.index), f"the log has another function: {words}")
            for kind, used, value in zip(function.kinds, function.used, function.calls[turn][0]):
                if not used:
                    continue
                if value == 0 and kind.endswith("*") and members_of(kind):
                    expect(words.pop(0) == "NULL", f"{function.name}: the log has an address for NULL")
                    continue
                for _, inner, part in parts_of("", kind, value):
                    word = words.pop(0)
                    wanted = None if part is None else f"{len(part):d}" if isinstance(part, str) else f"{bits_of(inner, part):x}"
                    expect(part is None or word == wanted, f"{function.name}: the log has {word}, drawn was {wanted} ({inner})")


class Tally:
    def __init__(self, cpu="x86_64"):
        self.cpu = cpu
        self.shown, self.missing, self.untyped, self.uncertain = 0, 0, 0, 0

    def compare(self, where, kind, value, text, must=False, crowded=False):
        """A value that can be shown is, or is told as not available; one that cannot is never."""
        told = re.fullmatch(r"\([a-z ]+\)", text)
        expect(kind in SHOWN or told, f"{where}: {kind} is shown as {text}")
        if kind not in SHOWN:
            self.untyped += 1
        elif told:
            expect(not must or crowded and text in ("(struct)", "(union)", "(long double)"), f"{where}: {kind} is not available: {text}")
            self.missing += 1
            self.uncertain += text == "(uncertain)"
        elif crowded and members_of(kind) and value and re.fullmatch(r"0x[0-9a-f]+|&[\w.]+", text):
            self.missing += 1
        else:
            wanted = show_any(kind, value, self.cpu)
            # A record has room for so many members.
            cut = text.endswith(", ...}") and wanted.startswith(text[:-len(", ...}")].rstrip("}"))
            expect(text == wanted or cut, f"{where}: {kind} is shown as {text}, and is {wanted}")
            self.shown += 1


def recorded(case):
    """{function: ([arguments' text], [results' text], names of copies)}, in the order of its calls."""
    text = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout
    values = {}
    for line in map(json.loads, text.splitlines()):
        if line["ev"] in ("arguments", "result"):
            name = line["fn"].split(".")[0]
            mine = values.setdefault(name, ([], [], set()))
            mine[line["ev"] == "result"].append(line["text"])
            mine[2].update({line["fn"]} - {name})
    return values


# Results of which no register is sure to have the address at the return.
LARGE = ("struct precise", "struct wide", "struct large", "struct boxes", "struct grid", "struct deep")
IN_MEMORY = {"x86_64": ("long double",), "aarch64": ("long double", *LARGE), "riscv64": (*LARGE, "struct space")}


def compare(case, functions, unoptimized, tally):
    values = recorded(case)
    for function in functions:
        arguments, results, copies = values.get(function.name, ([], [], set()))
        where = f"{function.name} of {case.trace_path}"
        if function.kinds and (unoptimized or not function.static):
            expect(len(arguments) == 2, f"{where}: {len(arguments)} calls have arguments")
        parts = [part for kind in function.kinds for part in parts_of("", kind)]
        # A record has room for 32 values, members among them, and for 192 bytes of structures.
        crowded = len(parts) + len(function.kinds) > 32 or 8 * sum(3 if part[1] == "long double" else 1 for part in parts) > 192
        pattern = ", ".join(rf"a{i}=(.*)" for i in range(len(function.kinds)))
        for (drawn, result), text in zip(function.calls, arguments):
            match = re.fullmatch(pattern, text)
            expect(match, f"{where}: the arguments are {text}")
            for i, (kind, value) in enumerate(zip(function.kinds, drawn)):
                # Compilers differ in where an __int128 lies on the stack, and so in where all behind it lie.
                lost = "__int128" in function.kinds[:i] and match.group(i + 1) == "(place)"
                # AArch64 has it in a register of which half is seen.
                lost |= kind == "long double" and case.cpu.name == "aarch64"
                tally.compare(f"{where}, a{i}", kind, value, match.group(i + 1), unoptimized and not lost, crowded)
        for (drawn, result), text in zip(function.calls, results):
            gone = function.result in IN_MEMORY[case.cpu.name]
            tally.compare(f"{where}, result", function.result, result, text, not function.static and not copies and not gone)


def compiled(case, name, text, compiler, *flags, ending=".c"):
    """Path of a program built from the text."""
    program = os.path.join(case.folder, name)
    with open(program + ending, "w") as file:
        file.write(text)
    if not case.cpu.native:  # `char` as the tables above have it, and room for a jump
        flags = (*flags, "-fsigned-char", f"-fpatchable-function-entry={SITES[case.cpu.name]}")
        compiler = {"cc": "gcc", "c++": "g++"}.get(compiler, compiler)
    subprocess.run([*case.cpu.compiler(compiler), "-o", program, program + ending, *flags], check=True, timeout=60)
    return program


def replayed(case, program, *options):
    """What replay shows of a recording of the program, which ends well."""
    done = case.record([program], options, log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    return case.run([case.tool, "replay", "-i", case.trace_path]).stdout


def is_beyond(cpu, compiler, level):
    """Clang tells of copies that go by their address only where they are behind a function's first instructions."""
    return not cpu.native and compiler == "clang" and level == "-O0"


def random_signatures(seed, builds, count=40, options=()):
    def test(case):
        case.as_it_is = True
        for compiler, level, more in builds:
            if not shutil.which(case.cpu.compiler(compiler)[0]) or is_beyond(case.cpu, compiler, level):
                continue
            odd = random.Random(f"{seed} {compiler} {level} {more}")
            functions = [Function(odd, i) for i in range(count)]
            # An emulator may have no call to copy memory: then the stack is read, and constants are.
            text = source(functions) if case.cpu.native else source(functions, "")
            program = compiled(case, f"typed-{seed}-{compiler}{level}{len(more)}", text, compiler, level, "-g", "-w", *more)
            done = case.record([program], ["-a", *options], log=False)
            expect(done.status == 0, f"{done.status}: {done.stderr}")
            check_log(functions, done.stdout)
            tally = Tally(case.cpu.name)
            # Of Clang's DWARF before 5 nobody can tell that it has not optimized.
            compare(case, functions, level == "-O0" and (compiler == "gcc" or "-gdwarf-4" not in more), tally)
            all_shown = tally.shown + tally.missing
            # How many functions are static is drawn, too: of Clang's with DWARF 4 nobody can tell anything.
            expect(tally.shown > (all_shown - tally.uncertain) / 2, f"{compiler} {level}: of {all_shown} values {tally.shown} are available")
            if os.environ.get("TYPED_SHARES"):
                print(f"{compiler} {level} {' '.join(more)}: {tally.shown} of {all_shown} values, and {tally.untyped} of other types")
    return test


def debug_file(case):
    """A stripped program whose debug file lies elsewhere tells as much; one without says so before it runs."""
    need(case)
    case.as_it_is = True
    if not shutil.which("objcopy"):
        raise Skip("objcopy is not there")
    odd = random.Random(4711)
    functions = [Function(odd, i) for i in range(12)]
    program = compiled(case, "typed-stripped", source(functions), "cc", "-O1", "-g", "-w", "-fpatchable-function-entry=5", "-Wl,-E")
    subprocess.run(["objcopy", "--only-keep-debug", program, program + ".debug"], check=True, timeout=60)
    subprocess.run(["strip", program], check=True, timeout=60)
    done = case.run([case.tool, "record", "-o", case.trace_path, "-a", "--", program])
    expect(done.status and "debug information" in done.stderr and not done.stdout, f"{done.status}: {done.stderr}")
    subprocess.run(["objcopy", f"--add-gnu-debuglink={program}.debug", program], check=True, timeout=60)
    done = case.record([program], ["-a"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    tally = Tally()
    compare(case, [function for function in functions if not function.static], False, tally)
    expect(tally.shown, "no value is shown")


def split_debug(case):
    """Debug information in files of its own (-gsplit-dwarf) is named as what is not read, also in a condition."""
    need(case)
    case.as_it_is = True
    program = os.path.join(case.folder, "typed-split")
    with open(program + ".c", "w") as file:
        file.write("__attribute__((noinline)) int twice(int n) { return 2 * n; }\nint main(int count, char **words) { return twice(count) == 7; }\n")
    subprocess.run(["cc", "-O1", "-g", "-gsplit-dwarf", "-fpatchable-function-entry=5", "-o", program, program + ".c"], check=True, timeout=60, cwd=case.folder)
    for options in (["-a"], ["-A", "twice"], ["-R", "twice"], ["--if", "twice: n == 1"]):
        done = case.run([case.tool, "record", "-o", case.trace_path, *options, "--", program])
        expect(done.status and re.search(r"-gsplit-dwarf.*\.dwo", done.stderr), f"{options}: {done.status}: {done.stderr}")
        if options[0] != "--if":
            expect("--allow-no-match" in done.stderr, done.stderr)
            case.record([program], [*options, "--allow-no-match", "--no-libcalls"], log=False)


def cpp_names(case):
    """Arguments stand in place of a C++ name's own parameter list, which is not the first of its parentheses."""
    case.as_it_is = True
    program = compiled(case, "typed-names",
                       "struct C { int operator()(int q) { return q + 1; } };\n"
                       "namespace { __attribute__((noinline)) int hidden(int a) { return a * 2; } }\n"
                       "int main() { C c; auto l = [](int k) { return k + 1; }; return c(1) + hidden(4) + l(2) != 13; }\n",
                       "g++", "-O0", "-g", ending=".cc")
    shown = replayed(case, program, "-a", "--no-libcalls")
    for line in (r"C::operator\(\)\(this=0x[0-9a-f]+, q=1\) = 2;", r"\(anonymous namespace\)::hidden\(a=4\) = 8;",
                 r"main::\{lambda\(int\)#1\}::operator\(\)\(.*k=2\) = 3;"):
        expect(re.search(line, shown), f"no {line} in {shown}")


def cpp_by_address(case):
    """A class with a destructor of its own goes by its address, which takes a register in front of the next arguments."""
    case.as_it_is = True
    text = ("struct S { int a; S(int n) : a(n) {} S(const S &s) : a(s.a) {} ~S() { a = 0; } };\n"
            "__attribute__((noinline)) int take(S s, int x, int y) { return s.a + x + y; }\n"
            "__attribute__((noinline)) S give(int x) { return S(x); }\n"
            "int main() { return take(S(3), 4, 5) + give(6).a != 18; }\n")
    for compiler in ("g++", "clang++"):
        if not shutil.which(compiler):
            continue
        program = compiled(case, "typed-by-address", text, compiler, "-O0", "-g", ending=".cc")
        shown = replayed(case, program, "-a", "--no-libcalls")
        for line in (r"take\(s=.*, x=(4|\(place\)), y=(5|\(place\))\)", r"give\(x=(6|\(place\))\)"):
            expect(re.search(line, shown), f"{compiler}: no {line} in {shown}")
        if compiler == "clang++":
            expect("x=4, y=5" in shown and "give(x=6)" in shown, shown)


def cpp_values(case):
    """Classes of C++ by value, by reference and as texts, in the places of each CPU's convention."""
    case.as_it_is = True
    text = ("#include <string>\n#include <string_view>\n"
            "struct S { int a; S(int n) : a(n) {} S(const S &s) : a(s.a) {} ~S() { a = 0; } };\nstruct V { float x, y, z; };\n"
            "__attribute__((noinline)) size_t f(std::string v, const std::string &r, std::string_view w, S s, V p, int n)\n"
            "{ return v.size() + r.size() + w.size() + s.a + n + p.x; }\n"
            "__attribute__((noinline)) std::string give(int n) { return std::string(n, 'x'); }\n"
            "__attribute__((noinline)) V point(int n) { return V{1.5f, 2.5f, (float)n}; }\n"
            "int main() { std::string a(\"one\\0two\", 7), b(\"short\"); return f(a, b, std::string_view(\"constant\", 5), S(3), point(4), 9) + give(3).size() != 33; }\n")
    for level in ("-O0", "-O1"):
        program = compiled(case, "typed-values", text, "g++", "-std=c++17", level, "-g", "-w", ending=".cc")
        shown = replayed(case, program, "-a", "--no-libcalls")
        text_back = '"xxx"' if case.cpu.name == "x86_64" else "(registers)"
        for line in ('f(v="one\\000two", r="short", w="const", s={a=3}, p={x=1.5, y=2.5, z=4.0}, n=9)', "point(n=4) = {x=1.5, y=2.5, z=4.0}",
                     "(n=3)", f"= {text_back}"):
            expect(line in shown, f"{level}: no {line} in {shown}")


WILD = r'''#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
struct node { long number; const char *name; struct node *next; };
__attribute__((noinline)) long see(struct node *n) { return n != 0; }
static char *volatile page;
static volatile int over;
static void *change(void *p)
{
	while (!over) {
		mprotect(page, 4096, PROT_NONE);
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
	}
	return p;
}
int main(void)
{
	char *two = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct node ring = {7, "ring", &ring}, bad = {8, (char *)16, (struct node *)1};
	pthread_t thread;
	page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(two + 4096, 4096, PROT_NONE);
	see(&ring); see(&bad); see(0); see((struct node *)16); see((struct node *)-1l); see((struct node *)(two + 4096 - 8));
	see((struct node *)(two + 4096 - sizeof(struct node)));
	pthread_create(&thread, 0, change, 0);
	for (int i = 0; i < 3000; i++)
		see((struct node *)page);
	over = 1;
	pthread_join(thread, 0);
	return 0;
}
'''


def wild_structures(case):
    """Addresses that lead nowhere, in circles, to the end of memory, and to pages that come and go."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "typed-wild", WILD, "cc", "-O0", "-g", "-pthread")
    case.same_as_plain([program], ["-A", "see"], log=False)
    shown = [re.sub(r"0x[0-9a-f]{6,12}\b", "ADDRESS", text) for text in re.findall(
        r"see\((.*)\)", case.run([case.tool, "replay", "-i", case.trace_path]).stdout)]
    wanted = ['n={number=7, name="ring", next=ADDRESS}', "n={number=8, name=(fault), next=0x1}", "n=NULL", "n=0x10(fault)",
              "n=0xffffffffffffffff(fault)", "n=ADDRESS(fault)", "n={number=0, name=NULL, next=NULL}"]
    expect(shown[:7] == wanted, f"{shown[:7]}")
    expect(set(shown[7:]) <= {"n=ADDRESS(fault)", "n={number=0, name=NULL, next=NULL}"} and len(shown) == 3007, f"{set(shown[7:])}")


CHOSEN = r'''#include <stdio.h>
enum color { RED, GREEN = -3 };
struct inner { long id; const char *name; };
struct request { const char *who; struct inner in; int n; struct request *next; char c; double d; unsigned low : 4; };
__attribute__((noinline)) int handle(struct request *r, int n, unsigned char small, enum color color, const char *s)
{
	printf("%d %d %ld %d %d %d %s %s\n", n, r != 0, r ? r->in.id : 0, r ? r->n : 0, small, color, s ? s : "-", r ? r->in.name : "-");
	return n;
}
__attribute__((noinline)) int other(int n) { return n + printf("%s", ""); }
int main(void)
{
	struct request r[3] = {{"a", {1, "x"}, 3}, {"b", {4711, "yes"}, -4}, {"c", {-3, "you"}, 5}};
	int sum = 0;
	for (int i = 0; i < 12; i++)
		sum += handle(i % 4 < 3 ? &r[i % 4] : 0, i - 5, (unsigned char)(i * 25), i & 1 ? GREEN : RED, i % 5 ? "text" : 0) + other(i);
	return sum == 1000;
}
'''
# EXPR: what it is of the log's numbers.  Of what cannot be read it is false.
TOLD = {
    "n < 0": lambda n, there, number, inner, small, color, s, name: n < 0,
    "r->in.id == 4711 && n > -100": lambda n, there, number, inner, small, color, s, name: there and number == 4711,
    "!(r->n < 0)": lambda n, there, number, inner, small, color, s, name: there and inner >= 0,
    "r == 0 || r->in.id < 0": lambda n, there, number, inner, small, color, s, name: not there or number < 0,
    "small > 200 || color == -3 && n & 1": lambda n, there, number, inner, small, color, s, name: small > 200 or color == -3 and n & 1,
    's == "text" && r->in.name ~ "y*"': lambda n, there, number, inner, small, color, s, name: s == "text" and there and name[0] == "y",
}


def chosen_by_types(case):
    """--if by the names of arguments and of members that they lead to, which debug information tells."""
    case.as_it_is = True
    for level in ("-O0", "-O2"):
        program = compiled(case, "typed-chosen", CHOSEN, "cc", level, "-g")
        for condition, check in TOLD.items():
            for options in ((), ("-a",), ("-A", "handle"), ("-A", "handle:n=arg2:s32 arg1") if condition == "n < 0" else ("-R", "handle")):
                done = case.record([program], [*options, "--no-libcalls", "--if", f"handle: {condition}"], log=False)
                expect(done.status == 0, f"{condition}: {done.status}: {done.stderr}")
                rows = [line.split(" ") for line in done.stdout.splitlines()]
                wanted = [int(row[0]) for row in rows if check(*map(int, row[:6]), *row[6:])]
                shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
                expect(len(re.findall(r"\bhandle\(", shown)) == len(wanted) and len(re.findall(r"\bother\(", shown)) == 12,
                       f"{level} {options} {condition}: {shown}, not {wanted}")
                found = [int(n) for n in re.findall(r"handle\(.*?, n=(-?\d+), small", shown)]
                expect(not found or found == wanted, f"{level} {options} {condition}: {found}, not {wanted}")
    for condition, why in (("nothing == 3", "no value"), ("r->nothing == 3", "request has no member 'nothing'"), ("r->d + 1 > 1", "floating-point"),
                           ("r == 1 ? n : 2", "no '?'"), ("n == 3 4", "operator is missing"), ("s > 3", "a text is compared")):
        done = case.run([case.tool, "record", "-o", case.trace_path, "--if", f"handle: {condition}", "--", program])
        expect(done.status in (1, 2, 125) and why in done.stderr and not done.stdout, f"{condition}: {done.status}: {done.stderr}")
    # Functions of which nobody knows it are left out, and the user is told.
    done = case.record([program], ["--no-libcalls", "--if", "*: small == 25"], log=False)
    shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect("left out" in done.stderr and shown.count("handle(") == 1 and "other(" not in shown, f"{done.stderr} {shown}")


PARTS = r'''struct point { float x, y; };
struct space { double x, y, z; };
struct tagged { char c; float f; };
struct four { float a, b, c, d; };
struct two { long a, b; };
__attribute__((noinline)) int f(int n, struct point p, struct space s, struct tagged t, struct four q, struct two w, struct two last)
{
	return n + (int)(p.x + s.x + t.f + q.a) + (int)(w.a + last.b);
}
__attribute__((noinline)) struct tagged g(int n) { return (struct tagged){(char)n, n * 0.5f}; }
__attribute__((noinline)) struct point h(int n) { return (struct point){n, -n}; }
int main(void)
{
	for (int i = 0; i < 8; i++) {
		f(i, (struct point){i, i + 1}, (struct space){i, i + .5, -i}, (struct tagged){(char)i, i * 2}, (struct four){1, 2, 3, i},
		  (struct two){i, i * 3}, (struct two){-i, i * 5});
		g(i);
		h(i);
	}
	return 0;
}
'''
# CONDITION: the only call that it is true of.
OF_PARTS = {"f: p.y == 3": 2, "f: s.z == -4": 4, "f: t.f == 10 && t.c == 5": 5, "f: q.d == 6": 6, "f: w.b == 21": 7, "f: last.a == -3": 3,
            "f: last.b == 30": 6, "g: ret.f == 1.5": 3, "g: ret.c == 4": 4, "h: ret.y == -2": 2}


def chosen_by_parts(case):
    """--if by members of structures that go by value: in registers of both kinds, on the stack, or by an address."""
    case.as_it_is = True
    program = compiled(case, "typed-parts", PARTS, "cc", "-O0", "-g")
    for condition, number_of_call in OF_PARTS.items():
        shown = replayed(case, program, "-a", "--no-libcalls", "--if", condition)
        expect(re.findall(rf" {condition[0]}\(n=(\d)", shown) == [str(number_of_call)], f"{condition}: {shown}")


LISTS = r"""struct cell { int x, y; };
struct board { short m[2][3]; struct cell at[2]; char names[2][4]; };
__attribute__((noinline)) int f(struct board *b, struct board v, int n) { return n + b->m[1][2] + v.m[0][0]; }
int main(void)
{
	for (int i = 0; i < 6; i++) {
		struct board b = {{{i, 1, 2}, {3, 4, 5 * i}}, {{6, 7}, {8, 9 + i}}, {"one", "two"}};
		f(&b, b, i);
	}
	return 0;
}
"""


def lists_within(case):
    """Arrays of arrays, of structures and of texts: shown, and compared where a path leads."""
    case.as_it_is = True
    program = compiled(case, "typed-lists", LISTS, "cc", "-O0", "-g")
    whole = '{m={{2, 1, 2}, {3, 4, 10}}, at={{x=6, y=7}, {x=8, y=11}}, names={"one", "two"}}'
    shown = replayed(case, program, "-a", "--no-libcalls")
    expect(f"f(b={whole}, v={whole}, n=2) = 14;" in shown, shown)
    for condition, number_of_call in (("b->m[1][2] == 15", 3), ("b->at[1].y == 10", 1), ("b->m[0][0] > 4", 5)):
        shown = replayed(case, program, "-a", "--no-libcalls", "--if", f"f: {condition}")
        expect(re.findall(r" f\(.*n=(\d)\)", shown) == [str(number_of_call)], f"{condition}: {shown}")
    shown = replayed(case, program, "--no-libcalls", "-A", "f: b->m[1][2] y=b->at[1].y")
    expect(re.search(r"f\(b->m\[1\]\[2\]=25, y=14\)", shown) or "=25, y=14)" in shown, shown)
    for path, why in (("b->m[2][0]", "outside of the array"), ("b->m[1]", "name an element"), ("b->m[1][3]", "outside of the array"),
                      ("b->m[1].x", "has no members")):
        done = case.run([case.tool, "record", "-o", case.trace_path, "-A", f"f: {path}", "--", program])
        expect(done.status and why in done.stderr, f"{path}: {done.stderr}")


ENUMERATIONS = """
enum flags { A = 1, B = 2, C = 4, Z = 0x80000000u };
enum __attribute__((packed)) small { P0, P1 = 255 };
enum below { MINUS = -1, ZERO };
struct both { enum flags f; enum small p; };
#define TOLD __attribute__((noinline, noclone))
volatile int sink;
TOLD enum flags f(enum flags x) { sink++; return x; }
TOLD enum small g(enum small x) { sink++; return x; }
TOLD enum below h(enum below x) { sink++; return x; }
TOLD void p(struct both *b) { sink++; }
int main(void)
{
	struct both both = {Z, 254};
	f(A | Z), f(Z), f(C), g(P1), g(254), h(MINUS), h(ZERO), p(&both);
	return 0;
}
"""


def enumerations(case):
    """Enumerations have the sign of what lies under them, shown and compared."""
    need(case)
    case.as_it_is = True
    for compiler in ("gcc", "clang"):
        if not shutil.which(compiler):
            continue
        program = compiled(case, f"typed-enumerations-{compiler}", ENUMERATIONS, compiler, "-O0", "-g", "-w")
        shown = replayed(case, program, "-a", "--no-libcalls")
        for line in ("f(x=A|Z) = A|Z", "f(x=Z) = Z", "g(x=P1) = P1", "g(x=254) = 254", "h(x=MINUS) = MINUS", "p(b={f=Z, p=254})"):
            expect(line in shown, f"no {line} in {shown}")
        for condition, calls in (("f: x == 0x80000000", ["x=Z"]), ("f: x > 5", ["x=A|Z", "x=Z"]), ("g: x == 254", ["x=254"]),
                                 ("f: ret == 0x80000001", ["x=A|Z"]), ("h: x < 0", ["x=MINUS"]), ("p: b->p == 254", ["b={f=Z, p=254}"])):
            shown = replayed(case, program, "-a", "--no-libcalls", "-l", condition[0], "--if", condition)
            expect(re.findall(r" \w\((.*?)\)(?: = |;)", shown) == calls, f"{condition}: {shown}")


def chosen_by_caller(case):
    """Two objects call one function of the C library, whose headers tell its arguments, each under a condition of its own."""
    need(case)
    case.as_it_is = True
    library = compiled(case, "libtwo.so", "#include <stdlib.h>\nlong within(const char *s, int base) { return strtol(s, 0, base) + 1; }\n",
                       "cc", "-O1", "-shared", "-fPIC")
    program = compiled(case, "typed-two",
                       "#include <stdlib.h>\nlong within(const char *s, int base);\nint main(void)\n{\n\tlong sum = 0;\n"
                       "\tfor (int i = 2; i < 12; i++)\n\t\tsum += strtol(\"10\", 0, i) + within(\"10\", i);\n\treturn sum != 140;\n}\n",
                       "cc", "-O1", library, f"-Wl,-rpath,{case.folder}")
    shown = replayed(case, program, "-a", "--if", "typed-two:strtol: base == 3", "--if", "libtwo.so:strtol: base == 5 || base == 7")
    found = re.findall(r"strtol\(.*base=(\d+)\)", shown)
    expect(found == ["3", "5", "7"], f"{found}")


def floats_said(case):
    """Floating-point values that VALUES name, of which some lie on the stack and in memory."""
    case.as_it_is = True
    program = compiled(case, "typed-floats",
                       "struct point { float x; double y; };\n"
                       "__attribute__((noinline)) double many(int n, double a, double b, float c, double d, double e, double f, double g,\n"
                       "    double h, double i, struct point *p) { return n + a + b + c + d + e + f + g + h + i + p->x + p->y; }\n"
                       "int main(void) { struct point p = {0.5f, -1e300}; return many(3, 0.1, 1, 0.1f, 2, 3, 4, 5, 6, 7.25, &p) > 0; }\n",
                       "cc", "-O1")
    # The ninth lies on the stack; RISC-V has it in a register of integers, as its bits.
    vector, ninth, shows, at = {"x86_64": ("xmm", "arg7:f64", "7.25", "arg2"), "aarch64": ("d", "arg9:f64", "7.25", "arg2"),
                                "riscv64": ("fa", "arg2:x64", "0x401d000000000000", "arg3")}[case.cpu.name]
    values = ["-A", f"many:n=arg1:s32 a=%{vector}0 c=%{vector}2:f32 last=%{vector}7:f64 i={ninth} x=+0({at}):f32 y=+8({at}):f64",
              "-R", "many:ret:f64"]
    for options in ((), ("-g", "main"), ("--max-depth", "5")):
        case.same_as_plain([program], [*values, *options], log=False)
        shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        expect(f"many(n=3, a=0.1, c=0.1, last=6.0, i={shows}, x=0.5, y=-1e+300) = -1e+300;" in shown, shown)


FEW = (("gcc", "-O2", ()), ("clang", "-O1", ("-fpatchable-function-entry=5",)))
MANY = [(compiler, level, more) for compiler in ("gcc", "clang") for level in ("-O0", "-O1", "-O2", "-O3", "-Os")
        for more in ((), ("-fpatchable-function-entry=5",), ("-gdwarf-4",))]

SINGLE = {
    "typed-unoptimized": random_signatures(1, (("gcc", "-O0", ()), ("clang", "-O0", ()))),
    "typed-optimized": random_signatures(2, FEW),
    "typed-in-trees": random_signatures(3, (("gcc", "-O1", ()),), options=("-g", "main")),
    "typed-floats-said": floats_said,
    "typed-chosen": chosen_by_types,
    "typed-chosen-by-parts": chosen_by_parts,
    "typed-chosen-by-caller": chosen_by_caller,
    "typed-enumerations": enumerations,
    "typed-lists": lists_within,
    "typed-wild": wild_structures,
    "typed-debug-file": debug_file,
    "typed-split-debug": split_debug,
    "typed-cpp-names": cpp_names,
    "typed-cpp-by-address": cpp_by_address,
    "typed-cpp-values": cpp_values,
}
LONG = {f"typed-many-{seed}": random_signatures(seed, MANY) for seed in range(10, 15)}

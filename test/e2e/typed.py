"""Values by types: programs with functions of random signatures, whose arguments and results are known; what is recorded
by debug information alone equals them, or is told as not available."""
import json
import os
import random
import re
import shutil
import struct
import subprocess

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
struct wide { text name; struct { short x; char y; } at; enum color c; float real; char tag[6]; _Bool on; int low : 5; void *p; };
struct floats { float f[4]; };
struct large { long a[5]; };
struct bits { unsigned a : 3, b : 20; long c : 40; };
union either { long a; float b; };
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


def bits_of(kind, value):
    """A number as its type has it in memory."""
    if kind in ("float", "double"):
        code = kind[0]
        return struct.unpack({"f": "<I", "d": "<Q"}[code], struct.pack("<" + code, value))[0]
    return value & (1 << 64) - 1


# C's type: how a value is drawn, how it is shown; None: it is told as not available.
TYPES = {
    "signed char": signed(8), "short": signed(16), "int": signed(32), "long": signed(64), "long long": signed(64),
    "unsigned char": unsigned(8), "port": unsigned(16), "unsigned": unsigned(32), "unsigned long": unsigned(64),
    "_Bool": (number(0, 1), lambda value: ["false", "true"][value]),
    "char": (number(-128, 127), char),
    "enum color": (lambda odd: odd.choice([0, 3, 4, -7, 2, 99]), lambda value: COLORS.get(value, str(value))),
    "enum flag": (lambda odd: odd.choice([0, 1, 3, 0x241, 0x242, 8, 0x48]), flags),
    "enum small": (lambda odd: odd.choice([0, 200, 17]), lambda value: {0: "NONE", 200: "MOST"}.get(value, str(value))),
    "void *": (number(0, (1 << 47) - 1), pointer), "struct large *": (number(0, (1 << 47) - 1), pointer),
    "text": (lambda odd: odd.choice(TEXTS), quoted), "char *": (lambda odd: odd.choice(TEXTS), quoted),
    "float": real("f"), "double": real("d"), "long double": None, "__int128": None, "struct floats": None, "struct large": None,
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
    "struct bits": (("a", "unsigned:3"), ("b", "unsigned:20"), ("c", "long:40")),
    "struct wide": (("name", "text"), ("at", (("x", "short"), ("y", "char"))), ("c", "enum color"), ("real", "float"),
                    ("tag", "tag"), ("on", "_Bool"), ("low", "int:5"), ("p", "void *")),
}


def members_of(kind):
    return kind if isinstance(kind, tuple) else MEMBERS.get(kind.removesuffix(" *"))


def draw_any(odd, kind):
    if kind == "union either":
        return odd.choice([0, 1, odd.getrandbits(62)])
    if not members_of(kind):
        return TYPES[kind][0](odd) if TYPES.get(kind) else None
    if isinstance(kind, str) and kind.endswith("*") and odd.random() < 0.15:
        return 0
    return {name: draw_any(odd, inner) for name, inner in members_of(kind)}


def show_any(kind, value):
    if kind == "union either":
        return f"{{a={value}, b={TYPES['float'][1](struct.unpack('<f', struct.pack('<I', value & 0xffffffff))[0])}}}"
    if not members_of(kind):
        return TYPES[kind][1](value)
    return "NULL" if value == 0 else "{" + ", ".join(f"{name}={show_any(inner, value[name])}" for name, inner in members_of(kind)) + "}"


def initial(kind, value):
    """The value as C's initializer."""
    if kind == "union either":
        return f"{{.a = {value}}}"
    if not members_of(kind):
        return literal(kind, value)
    return "{" + ", ".join(f".{name} = {initial(inner, value[name])}" for name, inner in members_of(kind)) + "}"


def parts_of(place, kind, value=None):
    """(C's expression, its kind, its value) of all that is within."""
    if not members_of(kind):
        return [(place, kind, value)]
    if isinstance(kind, str) and kind.endswith("*"):
        place = f"(*{place})"
    return [part for name, inner in members_of(kind)
            for part in parts_of(f"{place}.{name}", inner, value[name] if isinstance(value, dict) else None)]


AGGREGATES = [*MEMBERS, *(f"{kind} *" for kind in MEMBERS), "union either"]
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
    if kind in ("float", "double"):
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

    def call(self, number_of_call):
        values, result = self.calls[number_of_call]
        lines = []
        for i, (kind, value) in enumerate(zip(self.kinds, values)):
            if kind.endswith("*") and members_of(kind):
                if value:
                    lines.append(f"\t\tstatic {kind.removesuffix(' *')} s{i} = {initial(kind, value)};")
                lines.append(f"\t\tstatic {kind}volatile v{i} = {f'&s{i}' if value else '0'};")
            elif kind == "text":
                lines.append(f"\t\tstatic text volatile v{i} = {literal(kind, value)};")
            else:
                lines.append(f"\t\tstatic volatile {kind} v{i}{f' = {initial(kind, value)}' if value is not None else ''};")
        if result is not None and self.result.endswith("*") and members_of(self.result):
            if result:
                lines.append(f"\t\tstatic {self.result.removesuffix(' *')} r = {initial(self.result, result)};")
            lines.append(f"\t\tresult_{self.index} = {'&r' if result else '0'};")
        elif result is not None and (members_of(self.result) or self.result == "union either"):
            lines.append(f"\t\tstatic {self.result} r = {initial(self.result, result)};\n\t\tresult_{self.index} = r;")
        elif result is not None:
            lines.append(f"\t\tresult_{self.index} = {literal(self.result, result)};")
        arguments = ", ".join(f"v{i}" for i in range(len(self.kinds)))
        return "\n".join(["\t{", *lines, f"\t\t{self.name}({arguments});", "\t}"])


def source(functions):
    calls = "\n".join(function.call(turn) for turn in range(2) for function in functions)
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
    def __init__(self):
        self.shown, self.missing, self.untyped, self.uncertain = 0, 0, 0, 0

    def compare(self, where, kind, value, text, must=False, crowded=False):
        """A value that can be shown is, or is told as not available; one that cannot is never."""
        told = re.fullmatch(r"\([a-z ]+\)", text)
        expect(kind in SHOWN or told, f"{where}: {kind} is shown as {text}")
        if kind not in SHOWN:
            self.untyped += 1
        elif told:
            expect(not must or crowded and text in ("(struct)", "(union)"), f"{where}: {kind} is not available: {text}")
            self.missing += 1
            self.uncertain += text == "(uncertain)"
        elif crowded and members_of(kind) and value and re.fullmatch("0x[0-9a-f]+", text):
            self.missing += 1
        else:
            wanted = show_any(kind, value)
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


def compare(case, functions, unoptimized, tally):
    values = recorded(case)
    for function in functions:
        arguments, results, copies = values.get(function.name, ([], [], set()))
        where = f"{function.name} of {case.trace_path}"
        if function.kinds and (unoptimized or not function.static):
            expect(len(arguments) == 2, f"{where}: {len(arguments)} calls have arguments")
        parts = [part for kind in function.kinds for part in parts_of("", kind)]
        # A record has room for 32 values, members among them, and for 192 bytes of structures.
        crowded = len(parts) + len(function.kinds) > 32 or 8 * len(parts) > 192
        pattern = ", ".join(rf"a{i}=(.*)" for i in range(len(function.kinds)))
        for (drawn, result), text in zip(function.calls, arguments):
            match = re.fullmatch(pattern, text)
            expect(match, f"{where}: the arguments are {text}")
            for i, (kind, value) in enumerate(zip(function.kinds, drawn)):
                # Compilers differ in where an __int128 lies on the stack, and so in where all behind it lie.
                lost = "__int128" in function.kinds[:i] and match.group(i + 1) == "(place)"
                tally.compare(f"{where}, a{i}", kind, value, match.group(i + 1), unoptimized and not lost, crowded)
        for (drawn, result), text in zip(function.calls, results):
            tally.compare(f"{where}, result", function.result, result, text, not function.static and not copies)


def compiled(case, name, text, compiler, *flags, ending=".c"):
    """Path of a program built from the text."""
    program = os.path.join(case.folder, name)
    with open(program + ending, "w") as file:
        file.write(text)
    subprocess.run([compiler, "-o", program, program + ending, *flags], check=True, timeout=60)
    return program


def replayed(case, program, *options):
    """What replay shows of a recording of the program, which ends well."""
    done = case.record([program], options, log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    return case.run([case.tool, "replay", "-i", case.trace_path]).stdout


def random_signatures(seed, builds, count=40, options=()):
    def test(case):
        need(case)
        case.as_it_is = True
        for compiler, level, more in builds:
            if not shutil.which(compiler):
                continue
            odd = random.Random(f"{seed} {compiler} {level} {more}")
            functions = [Function(odd, i) for i in range(count)]
            program = compiled(case, f"typed-{seed}-{compiler}{level}{len(more)}", source(functions), compiler, level, "-g", "-w", *more)
            done = case.record([program], ["-a", *options], log=False)
            expect(done.status == 0, f"{done.status}: {done.stderr}")
            check_log(functions, done.stdout)
            tally = Tally()
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
    functions = [Function(odd, i) for i in range(6)]
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
    need(case)
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
    need(case)
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
    need(case)
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
    for condition, why in (("nothing == 3", "no value"), ("r->nothing == 3", "no value"), ("r->d > 1", "floating-point"),
                           ("r->low == 1", "fields of bits"), ("n == 3 4", "operator is missing"), ("s > 3", "a text is compared")):
        done = case.run([case.tool, "record", "-o", case.trace_path, "--if", f"handle: {condition}", "--", program])
        expect(done.status in (1, 2, 125) and why in done.stderr and not done.stdout, f"{condition}: {done.status}: {done.stderr}")
    # Functions of which nobody knows it are left out, and the user is told.
    done = case.record([program], ["--no-libcalls", "--if", "*: small == 25"], log=False)
    shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect("left out" in done.stderr and shown.count("handle(") == 1 and "other(" not in shown, f"{done.stderr} {shown}")


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
    need(case)
    case.as_it_is = True
    program = compiled(case, "typed-floats",
                       "struct point { float x; double y; };\n"
                       "__attribute__((noinline)) double many(int n, double a, double b, float c, double d, double e, double f, double g,\n"
                       "    double h, double i, struct point *p) { return n + a + b + c + d + e + f + g + h + i + p->x + p->y; }\n"
                       "int main(void) { struct point p = {0.5f, -1e300}; return many(3, 0.1, 1, 0.1f, 2, 3, 4, 5, 6, 7.25, &p) > 0; }\n",
                       "cc", "-O1")
    values = ["-A", "many:n=arg1:s32 a=%xmm0 c=%xmm2:f32 last=%xmm7:f64 i=arg7:f64 x=+0(arg2):f32 y=+8(arg2):f64", "-R", "many:ret:f64"]
    for options in ((), ("-g", "main"), ("--max-depth", "5")):
        case.same_as_plain([program], [*values, *options], log=False)
        shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        expect("many(n=3, a=0.1, c=0.1, last=6.0, i=7.25, x=0.5, y=-1e+300) = -1e+300;" in shown, shown)


FEW = (("gcc", "-O2", ()), ("clang", "-O1", ("-fpatchable-function-entry=5",)))
MANY = [(compiler, level, more) for compiler in ("gcc", "clang") for level in ("-O0", "-O1", "-O2", "-O3", "-Os")
        for more in ((), ("-fpatchable-function-entry=5",), ("-gdwarf-4",))]

SINGLE = {
    "typed-unoptimized": random_signatures(1, (("gcc", "-O0", ()), ("clang", "-O0", ()))),
    "typed-optimized": random_signatures(2, FEW),
    "typed-in-trees": random_signatures(3, (("gcc", "-O1", ()),), options=("-g", "main")),
    "typed-floats-said": floats_said,
    "typed-chosen": chosen_by_types,
    "typed-chosen-by-caller": chosen_by_caller,
    "typed-wild": wild_structures,
    "typed-debug-file": debug_file,
    "typed-split-debug": split_debug,
    "typed-cpp-names": cpp_names,
    "typed-cpp-by-address": cpp_by_address,
}
LONG = {f"typed-many-{seed}": random_signatures(seed, MANY) for seed in range(10, 15)}

"""Values of C++ classes: programs with functions of random signatures, whose arguments and results are objects of the
library's classes and of others like them; what is recorded equals what was drawn, and what the program says itself."""
import os
import random
import re
import shutil
import subprocess

from harness import Skip, expect
from typed import compiled, recorded, replayed
from values import need

HEAD = r'''#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
enum Color { RED, GREEN = 4, BLUE = -3 };
struct Pair { int a, b, c; };
struct Arrays { short first; int list[3]; double reals[11]; };
struct Mix { double real; Color color; short list[2]; std::optional<int> o; const char *p; };
struct Rows { int n; Pair rows[2]; float grid[2][2]; };
struct Slice { const char *data_; size_t size_; Slice(const char *p = "", size_t n = 0) : data_(p), size_(n) {} };
struct Words { unsigned m_length; const char *m_text; };
class Piece { const char *b_, *e_; public: Piece(const char *p = "", size_t n = 0) : b_(p), e_(p + n) {}
	size_t size() const { return e_ - b_; } const char *data() const { return b_; } };
struct Request { int id; std::string name; std::string_view path; Slice key; };
static void say(const char *p, size_t n) { printf(" %zu:", n); while (n--) printf("%02x", (unsigned char)*p++); }
static void say(const std::string &s) { say(s.data(), s.size()); }
static void say(std::string_view s) { say(s.data(), s.size()); }
static void say(const Slice &s) { say(s.data_, s.size_); }
static void say(const Words &s) { say(s.m_text, s.m_length); }
static void say(const Piece &s) { say(s.data(), s.size()); }
static void say(const Request &r) { say(r.name); say(r.path); say(r.key); }
static void say(int n) { printf(" %d", n); }
static void say(double d) { printf(" %.17g", d); }
static void say(Pair p) { printf(" %d", p.a); }
template<class T> static void say(const std::vector<T> &v) { printf(" %zu:", v.size()); for (const T &one : v) say(one); }
static void say(const Arrays &a) { say(a.first); for (int n : a.list) say(n); for (double d : a.reals) say(d); }
template<class T> static void say(const std::optional<T> &o) { if (o) say(*o); else printf(" none"); }
static void say(const Mix &m) { say(m.real); say(m.color); say(m.list[0]); say(m.list[1]); say(m.o); }
static void say(const Rows &r) { say(r.n); say(r.rows[0]); say(r.rows[1]); for (auto &row : r.grid) for (float real : row) say(real); }
struct Holder { int n; std::optional<int> held; std::optional<double> real; };
static void say(const Holder &h) { say(h.n); say(h.held); say(h.real); }
template<class T> static void say(T *p) { if (p) say(*p); else printf(" NULL"); }
'''
CUT = 64
EACH = 24  # bytes of a text in a list that are taken


def quoted(value):
    names = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    return '"' + "".join(names.get(byte, f"\\{byte:03o}" if byte < 32 or byte == 127 else chr(byte)) for byte in value.encode()) + '"'


def text(value, most=CUT):
    return quoted(value) if len(value) <= most else f"{quoted(value[:most])}...({len(value)} bytes)"


def literal(value):
    return '"' + "".join(f"\\{byte:03o}" for byte in value.encode()) + f'", {len(value)}'


def draw_text(odd):
    size = odd.choice([0, 1, 5, 15, 16, 22, 23, 63, 64, 65, 300, odd.randint(0, 80)])
    # A record has room for 504 bytes.
    if min(size, CUT) + 8 > odd.room:
        size = max(0, odd.room - 8)
    odd.room -= min(size, CUT) + 8
    return "".join(odd.choice('abc xyz"\\\n\t\0') for _ in range(size))


def say_text(value):
    return f"{len(value)}:{value.encode().hex()}"


class Kind:
    """A class: what it is made of in C++, and how its values are drawn, shown, and said by the program."""
    def __init__(self, name, draw, show, initial, said):
        self.name, self.draw, self.show, self.initial, self.said = name, draw, show, initial, said


def texts(name, form="{name}({literal})"):
    return Kind(name, draw_text, text, lambda value: form.format(name=name, literal=literal(value), size=len(value)), say_text)


def draw_request(odd):
    return odd.randint(-9, 9), *(draw_text(odd)[:50] for _ in range(3))


REQUEST = Kind("Request", draw_request, lambda value: "{id=%d, name=%s, path=%s, key=%s}" % (value[0], *map(text, value[1:])),
               lambda value: "Request{%d, std::string(%s), std::string_view(%s), Slice(%s)}" % (value[0], *map(literal, value[1:])),
               lambda value: " ".join(map(say_text, value[1:])))
KINDS = [texts("std::string"), texts("std::string_view"), texts("Slice"), texts("Piece"), texts("Words", "Words{{{size}, (const char *)"
         "std::string_view({literal}).data()}}"), REQUEST]
def lists(element, draw, show, initial, said, most=8, taken=CUT, sizes=(0, 1, 2, 8, 9, 40)):
    """std::vector, of which the first elements are shown."""
    def draw_list(odd):
        odd.room -= taken + 8
        return [draw(odd) for _ in range(odd.choice(sizes) if odd.room > 0 else 0)]

    def show_list(value):
        shown = [show(one) for one in value[:most]]
        return f"{{{len(value)}: {', '.join([*shown, *(['...'] if len(value) > len(shown) else [])])}}}" if value else "{}"
    return Kind(f"std::vector<{element}>", draw_list, show_list, lambda value: f"std::vector<{element}>{{{', '.join(map(initial, value))}}}",
                lambda value: f"{len(value)}:{''.join(' ' + said(one) for one in value)}")


def lists_of_texts(element, initial):
    """std::vector of texts, of which the first four are shown."""
    return lists(element, lambda odd: odd.choice(["", "a", 'q"\0', "x" * EACH, "y" * (EACH + 1), "z" * 400]), lambda value: text(value, EACH),
                 lambda value: initial.format(literal(value)), say_text, most=4, taken=4 * (EACH + 8 + 4), sizes=(0, 1, 2, 4, 5))


def draw_int(odd):
    return odd.randint(-1 << 31, (1 << 31) - 1)


def draw_real(odd):
    return odd.choice([0.0, 0.5, -2.25, 1e100, 1024.0])


def show_real(value):
    return "1e+100" if value == 1e100 else str(value)


def say_real(value):
    return f"{value:.17g}"


COLORS = {0: "RED", 4: "GREEN", -3: "BLUE", 2: "2"}
ARRAYS = Kind("Arrays", lambda odd: (odd.randint(-9, 9), [draw_int(odd) for _ in range(3)], [draw_real(odd) for _ in range(11)]),
              lambda value: "{first=%d, list={%s}, reals={%s, ...}}" % (value[0], ", ".join(map(str, value[1])), ", ".join(map(show_real, value[2][:8]))),
              lambda value: "Arrays{%d, {%s}, {%s}}" % (value[0], ", ".join(map(str, value[1])), ", ".join(map(str, value[2]))),
              lambda value: " ".join([str(value[0]), *map(str, value[1]), *map(say_real, value[2])]))
KINDS += [lists("int", draw_int, str, str, str), lists("double", draw_real, show_real, str, say_real),
          lists("Color", lambda odd: odd.choice([*COLORS]), COLORS.get, lambda value: f"(Color){value}", str),
          lists("Pair", draw_int, lambda value: f"{{a={value}, b=7, c=0}}", lambda value: f"Pair{{{value}, 7, 0}}", str, taken=96),
          lists_of_texts("Slice", "Slice({})"), ARRAYS]
INT = Kind("int", lambda odd: odd.randint(-99, 99), str, str, str)
REAL = Kind("double", draw_real, show_real, str, say_real)
PAIR = Kind("Pair", draw_int, lambda value: f"{{a={value}, b=7, c=-8}}", lambda value: f"Pair{{{value}, 7, -8}}", str)
NOTHING = object()


def optional(kind):
    """std::optional, of which the value is shown, or nullopt.  A value that was there before may be there still."""
    name = f"std::optional<{kind.name}>"
    return Kind(name, lambda odd: kind.draw(odd) if odd.random() < 0.6 else NOTHING, lambda value: "nullopt" if value is NOTHING else kind.show(value),
                lambda value: f"{name}(std::nullopt)" if value is NOTHING else f"{name}({kind.initial(value)})",
                lambda value: "none" if value is NOTHING else kind.said(value))


OPTIONALS = [optional(INT), optional(REAL), optional(PAIR), optional(KINDS[0]), optional(KINDS[1]), optional(KINDS[6]),
             optional(optional(INT)), optional(optional(KINDS[0]))]
HOLDER = Kind("Holder", lambda odd: (odd.randint(0, 9), OPTIONALS[0].draw(odd), OPTIONALS[1].draw(odd)),
              lambda value: "{n=%d, held=%s, real=%s}" % (value[0], OPTIONALS[0].show(value[1]), OPTIONALS[1].show(value[2])),
              lambda value: "Holder{%d, %s, %s}" % (value[0], OPTIONALS[0].initial(value[1]), OPTIONALS[1].initial(value[2])),
              lambda value: f"{value[0]} {OPTIONALS[0].said(value[1])} {OPTIONALS[1].said(value[2])}")
OPTIONALS.append(HOLDER)
MIX = lists("Mix", lambda odd: (draw_real(odd), odd.choice([*COLORS]), odd.randint(-9, 9), odd.randint(-9, 9), OPTIONALS[0].draw(odd)),
            lambda value: "{real=%s, color=%s, list={%d, %d}, o=%s, p=NULL}" % (show_real(value[0]), COLORS[value[1]], *value[2:4], OPTIONALS[0].show(value[4])),
            lambda value: "Mix{%s, (Color)%d, {%d, %d}, %s, nullptr}" % (*value[:4], OPTIONALS[0].initial(value[4])),
            lambda value: "%s %d %d %d %s" % (say_real(value[0]), *value[1:4], OPTIONALS[0].said(value[4])), most=3, taken=96)
ROWS = Kind("Rows", lambda odd: (odd.randint(-9, 9), draw_int(odd), draw_int(odd), [odd.choice([0.5, -2.25, 1024.0]) for _ in range(4)]),
            lambda value: "{n=%d, rows={{a=%d, b=0, c=0}, {a=%d, b=1, c=0}}, grid={{%s, %s}, {%s, %s}}}" % (*value[:3], *map(show_real, value[3])),
            lambda value: "Rows{%d, {{%d, 0, 0}, {%d, 1, 0}}, {{%s, %s}, {%s, %s}}}" % (*value[:3], *(f"{one}f" for one in value[3])),
            lambda value: " ".join([str(value[0]), str(value[1]), str(value[2]), *map(say_real, value[3])]))
TEXT_LISTS = [lists_of_texts("std::string", "std::string({})"), lists_of_texts("std::string_view", "std::string_view({})"), KINDS[-2]]
KINDS += [MIX, ROWS, *TEXT_LISTS[:2]]


class Parameter:
    def __init__(self, odd):
        self.kind = odd.choice([*KINDS, *KINDS, *OPTIONALS, INT])
        self.form = odd.choice(["{}", "{}", "const {} &", "{} *", "const {} *", "{} &&"]) if self.kind is not INT else "{}"

    def draw(self, odd):
        return None if "*" in self.form and odd.random() < 0.2 else self.kind.draw(odd)

    def show(self, value):
        return "NULL" if value is None else self.kind.show(value)

    def said(self, value):
        return "NULL" if value is None else self.kind.said(value)

    def pass_on(self, name):
        return {"*": f"&{name}", "&&": f"std::move({name})"}.get(self.form.split(" ")[-1], name)


class Function:
    def __init__(self, odd, index):
        self.name, self.index = f"function_{index}", index
        self.parameters = [Parameter(odd) for _ in range(odd.choice([1, 2, 3, 4, 5]))]
        # And for 192 bytes of structures.
        for i in [i for i, parameter in enumerate(self.parameters) if parameter.kind in (REQUEST, ARRAYS, ROWS, *OPTIONALS)][2:]:
            self.parameters[i].kind = KINDS[0]
        for i in [i for i, parameter in enumerate(self.parameters) if parameter.kind in TEXT_LISTS][2:]:
            self.parameters[i].kind = KINDS[0]
        self.result = odd.choice([kind for kind in KINDS if kind.name != "Words"] + [INT, *OPTIONALS])
        self.calls = [([*self.draw(odd, self.parameters)], *self.draw(odd, [self.result])) for _ in range(3)]

    @staticmethod
    def draw(odd, kinds):
        odd.room = 280
        return [kind.draw(odd) for kind in kinds]

    def code(self):
        parameters = ", ".join(f"{parameter.form.format(parameter.kind.name)} a{i}" for i, parameter in enumerate(self.parameters))
        says = " ".join(f"say(a{i});" for i in range(len(self.parameters)))
        return (f"static {self.result.name} *result_{self.index};\n"
                f"__attribute__((noinline)) {self.result.name} {self.name}({parameters})\n{{\n\tprintf(\"{self.index}\"); {says} puts(\"\");\n"
                f"\treturn *result_{self.index};\n}}\nstatic decltype(&{self.name}) volatile call_{self.index} = {self.name};")

    def call(self, turn):
        values, result = self.calls[turn]
        lines = [f"\t\t{parameter.kind.name} a{i} = {parameter.kind.initial(value)};"
                 for i, (parameter, value) in enumerate(zip(self.parameters, values)) if value is not None]
        lines.append(f"\t\t{self.result.name} r = {self.result.initial(result)};\n\t\tresult_{self.index} = &r;")
        passed = ", ".join("nullptr" if value is None else parameter.pass_on(f"a{i}")
                           for i, (parameter, value) in enumerate(zip(self.parameters, values)))
        return "\n".join(["\t{", *lines, f"\t\tcall_{self.index}({passed});", "\t}"])

    def said(self, turn):
        return " ".join([str(self.index), *(parameter.said(value) for parameter, value in zip(self.parameters, self.calls[turn][0]))])


def source(functions):
    calls = "\n".join(function.call(turn) for turn in range(3) for function in functions)
    return "\n".join([HEAD, *(function.code() for function in functions), "int main()\n{", calls, "\treturn 0;\n}\n"])


def llvm_library(case):
    """The flags by which Clang uses LLVM's C++ library; None: it is not there."""
    probe = os.path.join(case.folder, "probe.cc")
    with open(probe, "w") as file:
        file.write("#include <string>\nint main(int n, char **words) { return std::string(words[0]).size() == 0; }\n")
    for flags in (("-stdlib=libc++",), ("-nostdinc++", "-isystem", os.environ.get("LIBCXX_HEADERS", "/nonexistent"), "-nostdlib++",
                                        "-l:libc++.so.1", "-l:libc++abi.so.1")):
        if shutil.which("clang++") and not subprocess.run(["clang++", "-std=c++17", probe, "-o", probe + ".out", *flags], stdout=subprocess.DEVNULL,
                                                          stderr=subprocess.DEVNULL, timeout=60).returncode:
            return flags
    return None


def one_build(case, seed, compiler, level, flags=(), count=25):
    odd = random.Random(f"{seed} {compiler} {level} {flags}")
    functions = [Function(odd, i) for i in range(count)]
    program = compiled(case, f"classes-{compiler}{level}{len(flags)}", source(functions), compiler, "-std=c++17", level, "-g", "-w",
                       *flags, ending=".cc")
    done = case.record([program], ["--no-libcalls", "-A", "function_*", "-R", "function_*"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    wanted = [function.said(turn) for turn in range(3) for function in functions]
    expect(done.stdout.splitlines() == wanted, f"the program of {compiler} {level} says otherwise than drawn")
    values, shown, told = recorded(case), 0, 0
    for function in functions:
        its = [values[name] for name in values if re.match(rf"{function.name}\b", name)]
        expect(len(its) == 1 and len(its[0][0]) == 3, f"{function.name}: {its}")
        for turn, (drawn, result) in enumerate(function.calls):
            pairs = [(f"a{i}=", parameter.show(value)) for i, (parameter, value) in enumerate(zip(function.parameters, drawn))]
            left = its[0][0][turn]
            for front, value in pairs:
                expect(left.startswith(front), f"{function.name}: {left!r}, not {front}")
                left = left[len(front):]
                missing = re.match(r"\((dropped|moved|uncertain)\)", left)
                if missing and level != "-O0":
                    told += 1
                    value = missing.group()
                expect(left.startswith(value), f"{compiler} {level} {flags} {function.name} of {case.trace_path}: {left!r}, not {value!r}")
                shown += 1
                left = left[len(value):].removeprefix(", ")
            expect(not left, f"{function.name}: {left!r} is left")
            expect(its[0][1][turn] == function.result.show(result), f"{function.name}: {its[0][1][turn]!r}, not {function.result.show(result)!r}")
    expect(told < shown / 3, f"{compiler} {level}: {told} of {shown} values are not available")


def random_classes(seed, compiler, levels):
    def test(case):
        need(case)
        case.as_it_is = True
        if not shutil.which(compiler):
            raise Skip(f"{compiler} is not there")
        for level in levels:
            one_build(case, seed, compiler, level)
    return test


def random_llvm(case):
    """With LLVM's C++ library, whose strings lie in another way."""
    need(case)
    case.as_it_is = True
    flags = llvm_library(case)
    if not flags:
        raise Skip("LLVM's C++ library is not there")
    for level in ("-O0", "-O2"):
        one_build(case, 3, "clang++", level, flags)


def old_strings(case):
    """std::string as GCC's library had it before version 5: the size lies in front of the text."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "classes-old", "#define _GLIBCXX_USE_CXX11_ABI 0\n#include <string>\n"
                       "__attribute__((noinline)) size_t f(std::string v, const std::string &r, std::string *p) { return v.size() + r.size() + (p ? p->size() : 0); }\n"
                       "__attribute__((noinline)) std::string give(int n) { return std::string(n, 'x'); }\n"
                       "int main() { std::string a(\"one\\0two\", 7), b(200, 'b'), c; return f(a, b, &c) + f(c, a, 0) + give(3).size() != 217; }\n",
                       "g++", "-O0", "-g", ending=".cc")
    shown = replayed(case, program, "--no-libcalls", "-A", "f", "-A", "give", "-R", "give")
    for line in (f'f(v="one\\000two", r="{"b" * 64}"...(200 bytes), p="")', 'f(v="", r="one\\000two", p=NULL)', 'give(n=3)', '= "xxx"'):
        expect(line in shown, f"no {line} in {shown}")


def untold(case):
    """Clang leaves out of its DWARF what goes by a hidden address and is not used, GCC lists for constructors what it does not
    pass: neither moves the others' values."""
    need(case)
    case.as_it_is = True
    text = ("#include <string>\nstruct K { int n; K(int a, int b) : n(a + b) {} virtual ~K() {} };\n"
            "struct L : virtual K { L(int a, const char *s) : K(a, 2) {} };\n"
            "__attribute__((noinline)) int some(int a, std::string unused, int b, const std::string &c) { return a + b; }\n"
            "int main() { L l(3, \"text\"); return some(4, \"unused\", 5, \"used\") + l.n != 14; }\n")
    for compiler in filter(shutil.which, ("g++", "clang++")):
        program = compiled(case, f"classes-untold-{compiler}", text, compiler, "-O0", "-g", ending=".cc")
        shown = replayed(case, program, "-a", "--no-libcalls")
        expect(re.search(r'L::L\(this=0x[0-9a-f]+, a=3, s="text"\)', shown), f"{compiler}: {shown}")
        whole, left = 'some(a=4, unused="unused", b=5, c="used")', "some(a=(place), b=(place), c=(place))"
        expect(whole in shown or compiler == "clang++" and left in shown, f"{compiler}: {shown}")


# Unmade, moved-from and broken objects; what is shown ends in a word, and the program is none the worse for it.
WILD = r'''#include <pthread.h>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <sys/mman.h>
struct Slice { const char *data; size_t size; };
union Either { Slice slice; char bytes[16]; };
struct Holder { union { Slice slice; long number; }; std::string name; };
__attribute__((noinline)) int text(const std::string *s) { return s != nullptr; }
__attribute__((noinline)) int slice(Slice s, const Slice *p) { return s.size != 0; }
__attribute__((noinline)) int held(const Holder *h) { return h != nullptr; }
__attribute__((noinline)) int either(Either e) { return e.bytes[0]; }
static char *volatile page;
static volatile int over;
static void *change(void *p)
{
	while (!over) {
		mprotect(page, 4096, PROT_NONE);
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		((volatile size_t *)page)[512 - 64] = 0;
	}
	return p;
}
static Slice shared = {"abc", 3};
static void *grow(void *p)
{
	while (!over)
		__atomic_store_n(&shared.size, shared.size * 2 + 1, __ATOMIC_RELAXED);
	return p;
}
int main()
{
	char bad[64], *two = (char *)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	std::string s = "moved", t = std::move(s), *gone = new std::string(500, 'g');
	pthread_t threads[2];
	page = (char *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(two + 4096, 4096, PROT_NONE);
	memset(bad, 0xff, sizeof(bad)); memset(two, 'z', 4096);
	text(&s); text(&t); text(nullptr); text((std::string *)16); text((std::string *)-1l); text((std::string *)bad);
	text((std::string *)(two + 4096 - 8)); text((std::string *)(two + 4096 - 32));
	slice(Slice{"x", (size_t)1 << 63}, nullptr); slice(Slice{nullptr, 0}, (Slice *)two); slice(Slice{nullptr, 7}, (Slice *)(two + 4096));
	slice(Slice{two + 4090, 6}, (Slice *)3); slice(Slice{two + 4090, 7}, (Slice *)3); slice(Slice{two, (size_t)1 << 30}, (Slice *)3);
	held((Holder *)bad); held(nullptr); held((Holder *)two);
	either(Either{{"e", 1}});
	gone->~basic_string(); text(gone);
	pthread_create(&threads[0], 0, change, 0); pthread_create(&threads[1], 0, grow, 0);
	for (int i = 0; i < 2000; i++) {
		slice(Slice{page + 4000, 96}, &shared); text((std::string *)(page + 1000)); slice(shared, (Slice *)(page + 4088));
	}
	over = 1;
	pthread_join(threads[0], 0); pthread_join(threads[1], 0);
	puts("done");
	return 0;
}
'''


def wild_texts(case):
    """Texts of which the address, the size, or the object itself is wrong, or changes while it is read."""
    need(case)
    case.as_it_is = True
    z = "z" * 64
    program = compiled(case, "classes-wild", WILD, "g++", "-std=c++17", "-O0", "-g", "-w", "-pthread", ending=".cc")
    case.same_as_plain([program], ["--no-libcalls", "-A", "text", "-A", "slice", "-A", "held", "-A", "either"], log=False)
    shown = re.findall(r" (?:text|slice|held|either)\((.*)\)", case.run([case.tool, "replay", "-i", case.trace_path]).stdout)
    wanted = ['s=""', 's="moved"', "s=NULL", "s=(fault)", "s=(fault)", "s=(fault)", "s=(fault)", "s=(fault)",
              's=(fault), p=NULL', 's="", p=(fault)', "s=(fault), p=(fault)", 's="zzzzzz", p=(fault)', 's="zzzzzz"(fault), p=(fault)',
              f's="{z}"...(1073741824 bytes), p=(fault)']
    expect(shown[:len(wanted)] == wanted, f"{shown[:len(wanted)]}")
    expect(len(shown) == len(wanted) + 5 + 6000, f"{len(shown)} calls have values")
    for line in shown:
        expect(re.fullmatch(r'\w+=(NULL|\(fault\)|".*"(\.\.\.\(\d+ bytes\)|\(fault\))?|\{.*\}|0x\w+\(fault\))(, p=(NULL|\(fault\)|".*"(\.\.\.\(\d+ bytes\)|\(fault\))?))?', line), line)
    lines = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout
    expect(lines.count('"s"') > 6000, "the JSON has no values")


CHOSEN = r'''#include <cstdio>
#include <string>
#include <string_view>
struct Slice { const char *data; unsigned size; };
struct Request { int n; std::string name; Slice key; };
__attribute__((noinline)) int get(const std::string &a, std::string_view v, Slice s, const Request *r)
{
	printf("%s %.*s %.*s %s %.*s\n", a.c_str(), (int)v.size(), v.data(), (int)s.size, s.data, r ? r->name.c_str() : "-", r ? (int)r->key.size : 1, r ? r->key.data : "-");
	return 1;
}
int main()
{
	const char *words[] = {"abc", "abcd", "x", "a-long-text-that-is-not-in-the-object", "yes"};
	for (int i = 0; i < 50; i++) {
		Request r{i, words[(i + 1) % 5], {words[i % 3], 1}};
		get(words[i % 5], std::string_view(words[i / 5 % 5], i % 3 + 1), Slice{words[i / 7 % 5], (unsigned)(i / 7 % 5 == 2 ? 1 : 3)}, i % 4 ? &r : 0);
	}
	return 0;
}
'''
CONDITIONS = {
    'a == "abc"': lambda a, v, s, name, key: a == "abc",
    'a ~ "*not*" || v == "ab"': lambda a, v, s, name, key: "not" in a or v == "ab",
    's == "abc" && r->name != "yes"': lambda a, v, s, name, key: s == "abc" and name not in ("yes", "-"),
    '!(v ~ "a?")': lambda a, v, s, name, key: not re.fullmatch("a.", v),
    'r->key == "a" && (a == "x" || s ~ "y*")': lambda a, v, s, name, key: key == "a" and (a == "x" or s[0] == "y"),
}


def chosen_by_texts(case):
    """--if with texts of classes, of which nothing ends with a NUL."""
    need(case)
    case.as_it_is = True
    for compiler in filter(shutil.which, ("g++", "clang++")):
        program = compiled(case, "classes-chosen", CHOSEN, compiler, "-std=c++17", "-O0", "-g", "-w", ending=".cc")
        for condition, check in CONDITIONS.items():
            for options in ((), ("-A", "get")):
                done = case.record([program], ["--no-libcalls", *options, "--if", f"get: {condition}"], log=False)
                expect(done.status == 0, f"{condition}: {done.status}: {done.stderr}")
                wanted = sum(bool(check(*line.split(" "))) for line in done.stdout.splitlines())
                shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
                expect(0 < wanted < 50 and len(re.findall(r" get\(", shown)) == wanted, f"{compiler} {condition}: {len(re.findall(' get', shown))}, not {wanted}")


OWNERS = r'''#include <cstdio>
#include <memory>
struct Node { int n; std::unique_ptr<Node> next; std::shared_ptr<int> shared; };
__attribute__((noinline)) int use(std::unique_ptr<Node> u, const std::shared_ptr<int> &s, std::shared_ptr<int> v, Node *node, std::unique_ptr<int> *w, int last)
{
	std::printf("u=%p, s=%p, v=%p, node={n=%d, next=%p, shared=%p}, w=%p, last=%d\n", (void *)u.get(), (void *)s.get(), (void *)v.get(), node->n,
		(void *)node->next.get(), (void *)node->shared.get(), (void *)w->get(), last);
	return last;
}
__attribute__((noinline)) std::unique_ptr<int> give(int n) { return n ? std::make_unique<int>(n) : nullptr; }
int main()
{
	std::unique_ptr<int> w = give(3), none = give(0);
	Node node = {7, std::make_unique<Node>(), std::make_shared<int>(4)};
	std::printf("w=%p\n", (void *)w.get());
	use(std::make_unique<Node>(), node.shared, std::make_shared<int>(1), &node, &w, 1);
	use(nullptr, nullptr, nullptr, node.next.get(), &none, 2);
	return 0;
}
'''


def owners(case):
    """std::unique_ptr and std::shared_ptr are shown as the addresses that they have."""
    need(case)
    case.as_it_is = True
    llvm = llvm_library(case)
    for compiler, flags in (("g++", ()), ("clang++", ()), ("clang++", llvm)):
        if flags is None or not shutil.which(compiler):
            continue
        program = compiled(case, "classes-owners", OWNERS, compiler, "-std=c++17", "-O0", "-g", *flags, ending=".cc")
        done = case.record([program], ["--no-libcalls", "-A", "use", "-A", "give", "-R", "give"], log=False)
        expect(done.status == 0, f"{done.status}: {done.stderr}")
        shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        made, *said = done.stdout.replace("(nil)", "NULL").splitlines()
        found = re.findall(r" use\((.*)\)", shown)
        expect(found == said, f"{compiler} {flags}: {found}, not {said}")
        results = [its[1] for name, its in recorded(case).items() if name.startswith("give(")]
        expect(results == [[made.removeprefix("w="), "NULL"]], f"{compiler} {flags}: {results}, not {made}")


POINTERS = r'''#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
namespace inner { int global[4]; struct Table { long a[3]; } table; int twice(int n) { return 2 * n; } }
static int half(int n) { return n / 2; }
struct Ops { int (*one)(int); void *where; inner::Table *table; };
typedef int (*function)(int);
__attribute__((noinline)) int use(function f, void *data, Ops *ops, const void *inside) { return f(3) + ops->one(4); }
__attribute__((noinline)) function give(int n) { return n ? half : inner::twice; }
int main()
{
	Ops ops = {half, &inner::global[1], &inner::table};
	int status, sum = use(inner::twice, inner::global, &ops, (const char *)inner::twice + 2);
	sum += use(give(1), &sum, &ops, 0) + use(give(0), malloc(8), &ops, (void *)16);
	if (!fork())
		_exit(use(half, &inner::table, &ops, (const void *)-1l) != 3);
	wait(&status);
	return sum != 19 || status;
}
'''


def pointers(case):
    """Addresses of functions and of data are shown by name, as long as the program's file is the one that was recorded."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "classes-pointers", POINTERS, "g++", "-O0", "-g", "-Wl,--build-id", ending=".cc")
    shown = re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", replayed(case, program, "--no-libcalls", "-A", "use", "-A", "give", "-R", "give"))
    ops = "ops={one=half, where=&inner::global+0x4, table=&inner::table}"
    for line in (f"use(f=inner::twice, data=&inner::global, {ops}, inside=inner::twice+0x2)", f"use(f=half, data=ADDRESS, {ops}, inside=NULL)",
                 f"use(f=inner::twice, data=ADDRESS, {ops}, inside=0x10)", f"use(f=half, data=&inner::table, {ops}, inside=ADDRESS)",
                 "give(n=1) = half;", "give(n=0) = inner::twice;"):
        expect(line in shown, f"no {line} in {shown}")
    for form in ("json", "chrome"):
        text = case.run([case.tool, "export", "--format", form, "-i", case.trace_path, "-o", "-"]).stdout
        expect("f=inner::twice" in text, f"{form} has no name")
    by_value = case.run([case.tool, "report", "--by", "use(f)", "-i", case.trace_path]).stdout
    expect("use(f=half)" in by_value and "use(f=inner::twice)" in by_value, by_value)
    # Another program of that name has other symbols; what is not traced in it has no name then.
    compiled(case, "classes-pointers", POINTERS.replace("global[4]", "other[5]").replace("::global", "::other"), "g++", "-O0", "-g",
             "-Wl,--build-id", ending=".cc")
    later = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(re.search(r"use\(f=0x[0-9a-f]+, data=0x[0-9a-f]+, ops=\{one=half, where=0x[0-9a-f]+", later), later)


OPTIONAL = r"""#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
struct S { int id; std::optional<int> n; };
__attribute__((noinline)) int use(const std::optional<int> &a, std::optional<std::string> b, const S *s, std::optional<double> d)
{
	printf("%s %s %d %s %g\n", a ? std::to_string(*a).c_str() : "-", b ? b->c_str() : "-", s->id, s->n ? std::to_string(*s->n).c_str() : "-", d ? *d : -1);
	return 0;
}
__attribute__((noinline)) std::optional<long> give(long n) { return n % 3 ? std::optional<long>(n) : std::nullopt; }
__attribute__((noinline)) int broken(const std::optional<int> *o) { return o != nullptr; }
int main()
{
	for (int i = 0; i < 24; i++) {
		S s{i, i % 2 ? std::optional<int>(i) : std::nullopt};
		std::optional<std::string> text("stale text");
		if (i % 4)
			text = "t" + std::to_string(i);
		else
			text.reset();
		use(i % 3 ? std::optional<int>(i - 3) : std::nullopt, text, &s, i % 2 ? std::optional<double>(i) : std::nullopt);
		give(i);
	}
	std::optional<int> odd(77);
	memset(((char *)&odd) + 4, 9, 1);
	return broken(&odd) + broken((std::optional<int> *)16) + broken(nullptr) - 2;
}
"""
OPTIONAL_CONDITIONS = {
    "use: a < 0": lambda a, b, i, n, d: a != "-" and int(a) < 0,
    "use: !a.has_value": lambda a, b, i, n, d: a == "-",
    "use: !(a == 2)": lambda a, b, i, n, d: a not in ("-", "2"),
    'use: b ~ "t1*"': lambda a, b, i, n, d: b.startswith("t1"),
    "use: s->n == 5 || s->n.has_value && s->n.value > 16": lambda a, b, i, n, d: n != "-" and (n == "5" or int(n) > 16),
    "use: d > 4.5": lambda a, b, i, n, d: float(d) > 4.5,
    "use: a + s->id > 14": lambda a, b, i, n, d: a != "-" and int(a) + int(i) > 14,
}


def optionals(case):
    """--if, report --by and JSON with std::optional; broken ones end in a word."""
    need(case)
    case.as_it_is = True
    for compiler in filter(shutil.which, ("g++", "clang++")):
        program = compiled(case, "classes-optional", OPTIONAL, compiler, "-std=c++17", "-O0", "-g", "-w", ending=".cc")
        options = ["--no-libcalls", "-A", "use", "-R", "give", "-A", "broken"]
        for condition, check in OPTIONAL_CONDITIONS.items():
            done = case.record([program], [*options, "--if", condition], log=False)
            expect(done.status == 0, f"{condition}: {done.status}: {done.stderr}")
            wanted = sum(bool(check(*line.split(" "))) for line in done.stdout.splitlines())
            shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
            expect(0 < wanted < 24 and len(re.findall(r" use\(", shown)) == wanted, f"{compiler} {condition}: {len(re.findall(' use', shown))}, not {wanted}")
        for condition, wanted in {"give: ret < 6": 4, "give: ret.has_value": 16, "give: !ret.has_value && n > 3": 6}.items():
            expect(case.record([program], [*options, "-A", "give", "--if", condition], log=False).status == 0, condition)
            shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
            expect(len(re.findall(r" give\(", shown)) == wanted, f"{compiler} {condition}: {shown}")
        expect(case.record([program], options, log=False).status == 0, "all")
        shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        for line in ("broken(o=77)", "broken(o=0x10(fault))", "broken(o=NULL)"):
            expect(line in shown, f"{compiler}: no {line} in {shown}")
        by = case.run([case.tool, "report", "--by", "use(a)", "-i", case.trace_path]).stdout
        expect(re.search(r"^ +8 .* use\(a=nullopt\)$", by, re.M) and re.search(r"^ +1 .* use\(a=-2\)$", by, re.M), f"{compiler}: {by}")
        whole = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout
        expect('"s.n.has_value":false,"s.n.value":null' in whole and '"s.n.has_value":true,"s.n.value":23' in whole, f"{compiler}: {whole[-2000:]}")


SINGLE = {
    "classes-optional": optionals,
    "classes-pointers": pointers,
    "classes-owners": owners,
    "classes-gcc": random_classes(1, "g++", ("-O0", "-O2")),
    "classes-clang": random_classes(2, "clang++", ("-O0", "-O2")),
    "classes-llvm": random_llvm,
    "classes-untold": untold,
    "classes-old": old_strings,
    "classes-wild": wild_texts,
    "classes-chosen": chosen_by_texts,
}
LONG = {f"classes-many-{seed}": random_classes(seed, compiler, ("-O0", "-O1", "-O2", "-O3", "-Os"))
        for seed, compiler in ((10, "g++"), (11, "clang++"))}

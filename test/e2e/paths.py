"""Values some steps away from an argument or a result, as in `-A 'handle: c->command->name'`: what is shown, compared and counted by
is what the program says of itself."""
import json
import os

import builds
from harness import expect
from typed import compiled
from values import need

FIELDS = ("number", "name", "kind", "weight", "flags", "level", "high", "grid", "x", "element", "text")
PATHS = {"name": "c->command->fullname", "kind": "c->command->kind", "weight": "c->command->weight", "high": "c->shapes[1].high",
         "grid": "c->shapes[2].grid[3]", "x": "c->others[1].x", "element": "c->numbers[2]", "text": "c->items[2]->next->text:string"}
# Conditions, and what they are in Python, of the values that the program says; None: memory that cannot be read is in the way.
CONDITIONS = [
    ("c->command->fullname == \"set\"", lambda row: row["name"] == "set"),
    ("c.command.kind == \"reads\" || number == 1", lambda row: row["kind"] == "reads" or (row["kind"] != "-" and row["number"] == 1)),
    ("c->command->level == -5 && c->shapes[1].high >= 0", lambda row: row["level"] == -5 and row["high"] >= 0),
    ("c->command->flags == -1", lambda row: row["kind"] != "-" and row["flags"] == -1),
    ("c->items[2]->next->text:string ~ \"t?o\"", lambda row: row["text"] == "two"),
    ("c->command->weight > 1.5", lambda row: row["weight"] > 1.5),
    ("c->numbers[2] + c->others[1].x * 2 > 220", lambda row: row["element"] + row["x"] * 2 > 220),
    ("c->shapes[2].grid[3] == 2000 || c->others[0].x != 7", lambda row: row["grid"] == 2000),
    ("c->items == NULL", lambda row: row["text"] == "-"),
    ("c->command == NULL && number < 4", lambda row: row["kind"] == "-" and row["number"] < 4),
]
REFUSED = [
    ("c->nothing->x", "client has no member 'nothing'"), ("c->command->level", "a field of bits"), ("c->shapes", "name an element, as in [0]"),
    ("c->shapes[0]", "shape is a structure: name one of its members"), ("c->shapes[3].x", "the index is outside of the array"),
    ("d->x", "it has no argument 'd'"), ("c->items[0]->text->x", "it is the address of anything"), ("number->x", "int is no address"),
    ("c->numbers[0].x", "int has no members"), ("c->command->fullname[0]->x", "char is no address"),
]


def rows_of(output):
    rows = []
    for line in output.splitlines():
        row = dict(zip(FIELDS, line.split()))
        rows.append({name: value if name in ("name", "kind", "text") else float(value) if name == "weight" else int(value)
                     for name, value in row.items()})
    return rows


def told(case, function, event="arguments"):
    """What the trace tells of each call, or of each "result"."""
    done = case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"])
    expect(done.status == 0, done.stderr)
    lines = map(json.loads, done.stdout.splitlines())
    return [line["values"] for line in lines if line["ev"] == event and line["fn"].split("(")[0] == function]


def recorded(case, program, *options):
    done = case.record([program], ["-l", "handle", "-l", "find", *options], log=False)
    expect(done.status == 0, f"{options}: {done.status} {done.stderr}")
    return rows_of(done.stdout)


def program_of(case, compiler, level):
    case.as_it_is = True
    with open(os.path.join(builds.PROGRAMS, "paths.c"), encoding="utf-8") as file:
        return compiled(case, f"paths-{compiler}{level}", file.read(), compiler, level, "-g", f"-I{builds.PROGRAMS}")


def shown(compiler, level):
    def test(case):
        need(case)
        program = program_of(case, compiler, level)
        said = recorded(case, program, "-A", "handle: number " + " ".join(f"{name}={path}" for name, path in PATHS.items()),
                        "-R", "find:x=ret->others[1].x")
        got = told(case, "handle")
        expect(len(got) == len(said) == 6, f"{len(got)} calls of {len(said)}")
        for row, args in zip(said, got):
            for name in ("number", *PATHS):
                value = args[name]
                missing = (row["kind"] == "-" and name in ("name", "kind", "weight")) or (row["text"] == "-" and name == "text")
                expect(value is None if missing else value == row[name], f"{name} of call {row['number']}: {value}, not {row[name]}")
        results = [values["x"] for values in told(case, "find", "result")]
        expect(len(results) == 6 and results[:5] == [row["x"] for row in said[:5]], f"{results}")
        case.readable()
    return test


def compared(compiler, level):
    def test(case):
        need(case)
        program = program_of(case, compiler, level)
        for condition, true in CONDITIONS:
            said = recorded(case, program, "-A", "handle: number", "--if", f"handle: {condition}")
            got = [values["number"] for values in told(case, "handle")]
            wanted = [row["number"] for row in said if true(row)]
            expect(got == wanted and wanted, f"{condition}: {got}, not {wanted}")
        said = recorded(case, program, "-R", "find: x=ret->numbers[2]", "--if", "find: x >= 10 && ret->others[1].x < 104")
        wanted = [row["element"] for row in said if row["element"] >= 10 and row["x"] < 104 and row["text"] != "-"]
        expect([values["x"] for values in told(case, "find", "result")] == wanted and wanted, f"by what the result leads to: not {wanted}")
        said = recorded(case, program, "-A", "handle: number name=c->command->fullname", "--if", "handle: name == \"get\"")
        expect([values["number"] for values in told(case, "handle")] == [0, 3], "by the user's own name")
    return test


def counted(case):
    need(case)
    program = program_of(case, "gcc", "-O1")
    for name in ("name", "high", "kind"):
        done = case.run([case.tool, "count", "--json", f"handle: {PATHS[name]}", "--", program])
        expect(done.status == 0, done.stderr)
        said = [row[name] for row in rows_of("\n".join(done.stdout.splitlines()[:-1]))]
        found = {str(row["values"][PATHS[name]]): row["count"] for row in json.loads(done.stdout.splitlines()[-1])["calls"]}
        wanted = {"None" if value == "-" else str(value): said.count(value) for value in said}
        expect(found == wanted, f"by {name}: {found}, not {wanted}")
    done = case.run([case.tool, "count", "handle: c->command->level", "--", program])
    expect(done.status != 0 and "a field of bits" in done.stderr, f"{done.status} {done.stderr}")


def refused(case):
    need(case)
    program = program_of(case, "gcc", "-O1")
    for path, reason in REFUSED:
        for options in (["-A", f"handle: {path}"], ["--if", f"handle: {path} == 1"]):
            if options[0] == "--if" and path == "c->command->level":
                continue
            done = case.record([program], ["-l", "handle", *options], log=False)
            expect(done.status == 2 and reason in done.stderr and len(done.stderr.splitlines()) <= 4,
                   f"{options}: status {done.status}: {done.stderr}")
            expect(not done.stdout, f"{options}: the program has run")
    done = case.record([program], ["-l", "handle", "-l", "main", "-A", "[hm]a*: number"], log=False)
    expect(done.status == 0 and "calls of some functions are shown without values: it has no argument 'number'" in done.stderr, done.stderr)
    expect([values["number"] for values in told(case, "handle")] == list(range(6)), "those of the other one")


CXX = r"""
#include <cstdio>
#include <memory>
#include <string>
struct base { virtual ~base() {} long id = 7; };
struct owner { std::string name; std::string &again = name; };
struct request : base { std::unique_ptr<owner> by; union { int low; float real; }; std::string key; static int all; };
int request::all;
__attribute__((noinline)) int handle(const request &r, std::unique_ptr<request> &held, int n) { asm volatile(""); return r.low + n + (held ? 1 : 0); }
int main()
{
    for (int n = 0; n < 4; n++) {
        request r;
        auto held = std::make_unique<request>();
        r.by = std::make_unique<owner>();
        r.by->name = "name of " + std::to_string(n) + (n % 2 ? " that is too long to lie in the class itself" : "");
        r.key = "key " + std::to_string(n);
        r.low = 100 + n;
        held->low = -n;
        held->id = 1000 - n;
        printf("%d|%ld|%d|%s|%s|%d|%ld\n", n, r.id, r.low, r.by->name.c_str(), r.key.c_str(), held->low, held->id);
        handle(r, held, n);
    }
}
"""


def classes(compiler, level):
    """Base classes, references, unions without a name, unique_ptr and std::string on the way and at the end."""
    def test(case):
        need(case)
        case.as_it_is = True
        program = compiled(case, f"paths-classes-{compiler}{level}", CXX, compiler, "-std=c++17", level, "-g", ending=".cc")
        done = case.record([program], ["-l", "handle", "-A", "handle: n id=r.id low=r.low name=r.by->name again=r.by->again key=r.key "
                                       "held=held->low hid=held->id"], log=False)
        expect(done.status == 0, f"{done.status} {done.stderr}")
        said = [line.split("|") for line in done.stdout.splitlines()]
        found = told(case, "handle")
        expect(len(found) == len(said) == 4, f"{found}")
        for row, args in zip(said, found):
            wanted = [int(row[0]), int(row[1]), int(row[2]), row[3], row[3], row[4], int(row[5]), int(row[6])]
            expect([args[name] for name in ("n", "id", "low", "name", "again", "key", "held", "hid")] == wanted, f"{args}, not {wanted}")
        done = case.record([program], ["-l", "handle", "-A", "handle: n", "--if", "handle: r.by->name ~ \"*too long*\" && r.key != \"key 1\""],
                           log=False)
        expect(done.status == 0 and [values["n"] for values in told(case, "handle")] == [3], f"{done.stderr}")
    return test


def headers(case):
    """What the C library's headers tell of its own structures."""
    need(case)
    case.as_it_is = True
    text = """
#include <time.h>
int main(void)
{
    for (long n = 1; n < 4; n++) {
        struct timespec t = {0, 1000 * n};
        time_t at = 86400 * 366 * n;
        nanosleep(&t, 0);
        if (gmtime(&at)->tm_year < 70)
            return 1;
    }
}
"""
    program = compiled(case, "paths-headers", text, "gcc", "-O1")
    done = case.record([program], ["-l", "nanosleep", "-A", "nanosleep: n=requested_time->tv_nsec", "-l", "gmtime", "-R", "gmtime:ret->tm_year"], log=False)
    expect(done.status == 0, f"{done.status} {done.stderr}")
    expect([values["n"] for values in told(case, "nanosleep")] == [1000, 2000, 3000], "nanosleep's times")
    expect([values["ret->tm_year"] for values in told(case, "gmtime", "result")] == [71, 72, 73], "gmtime's years")


HIDDEN = r"""
#include <cstdio>
#include <vector>
enum color { RED, GREEN, BLUE };
struct inner { int a; };
struct held { ~held(); inner list[3]; };
held::~held() { asm volatile(""); }
struct deep { inner *in; };
struct __attribute__((packed)) packed { char c; const char *text; short n; char rows[2][4]; };
extern "C" __attribute__((noinline, noclone)) int by_address(held h, int n) { asm volatile(""); return h.list[1].a + n; }
extern "C" __attribute__((noinline, noclone)) int by_list(std::vector<color> &v, int n) { asm volatile(""); return v[0] + n; }
extern "C" __attribute__((noinline, noclone)) int by_letter(char c, deep *d) { asm volatile(""); return c + d->in->a; }
extern "C" __attribute__((noinline, noclone)) int by_packed(packed *p) { asm volatile("" ::: "memory"); return p->n; }
int main()
{
    static const char *const texts[] = {"zero", "one", "two", "three"};
    for (int n = 0; n < 4; n++) {
        packed p = {'c', texts[n], short(n), {{'f', 'u', 'l', 'l'}, "row"}};
        by_packed(&p);
        held h = {{{n}, {10 * n}, {0}}};
        std::vector<color> v{color(n % 3)};
        inner i{n};
        deep d{&i};
        by_address(h, n);
        by_list(v, n);
        by_letter(n % 2 ? '"' : 'x', &d);
    }
}
"""


def hidden(case):
    """A class of which nothing is shown by itself, and a list, lead on to what is in them; a letter may be a quote."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "paths-hidden", HIDDEN, "g++", "-O1", "-g", "-fpatchable-function-entry=16,14", ending=".cc")
    for function, options, name, wanted in (
            ("by_address", ("-A", "by_address: a=h.list[1].a"), "a", [0, 10, 20, 30]),
            ("by_address", ("-A", "by_address: n", "--if", "by_address: h.list[1].a >= 20"), "n", [2, 3]),
            ("by_list", ("-A", "by_list: n", "--if", "by_list: v._M_impl._M_start[0] == GREEN"), "n", [1]),
            ("by_letter", ("-A", "by_letter: a=d->in->a", "--if", "by_letter: c == '\"' && d->in->a < 3"), "a", [1]),
    ):
        done = case.record([program], ["-l", function, *options], log=False)
        expect(done.status == 0, f"{options}: {done.status} {done.stderr}")
        found = [values[name] for values in told(case, function)]
        expect(found == wanted, f"{options}: {found}, not {wanted}")
    done = case.record([program], ["-l", "by_packed", "-A", "by_packed"], log=False)
    expect(done.status == 0, f"{done.status} {done.stderr}")
    found = [values["p.text"] for values in told(case, "by_packed")]
    expect(found == ["zero", "one", "two", "three"], f"{found}")
    rows = [values.get("p.rows") for values in told(case, "by_packed")]
    expect(rows == ['{"full", "row"}'] * 4, f"two rows are two texts: {rows}")


SINGLE = {"paths-hidden": hidden, "paths-counted": counted, "paths-refused": refused, "paths-headers": headers}
for _compiler, _level in (("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O1")):
    SINGLE[f"paths-shown-{_compiler}{_level}"] = shown(_compiler, _level)
    SINGLE[f"paths-compared-{_compiler}{_level}"] = compared(_compiler, _level)
for _compiler, _level in (("g++", "-O0"), ("g++", "-O2"), ("clang++", "-O1")):
    SINGLE[f"paths-classes-{_compiler}{_level}"] = classes(_compiler, _level)

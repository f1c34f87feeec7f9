"""Calls chosen by value: of which kinds of values a condition may be, and by what a call gave; what is recorded is
compared with what the program says of its calls."""
import json
import os
import re

from endings import start, wait_for
from harness import expect, stop
from typed import compiled
from values import TWICE, check_pairs, end_well, need, values_of

KINDS = r'''#include <math.h>
#include <stdio.h>
struct bits { unsigned a : 3, b : 20; long c : 40; int low : 5; };
struct part { long c : 40; int low : 5; };
struct mixed { double d; int i; const char *name; };
struct pair { float x, y; };
struct small { short s; signed char c; unsigned char u; int i; };
struct large { long a; double d; char c; float f; const char *name; unsigned odd : 7; };
struct all { struct bits bits; float f; double d; _Bool on; };
__attribute__((noinline)) double handle(struct mixed m, struct pair p, double d, float f, struct small s, struct part b, struct large l, struct all *all)
{
	printf("%d %u %u %ld %d %a %a %a %a %a %a %d %d %d %d %ld %d %a %d %a %s %u %a %d %s\n", f != f, all->bits.a, all->bits.b, (long)all->bits.c,
	       all->bits.low, all->f, all->d, p.x, p.y, d, f, s.s, s.c, s.u, s.i, (long)b.c, b.low, l.d, l.c, l.f, l.name, l.odd, m.d, m.i, m.name);
	return d;
}
int main(void)
{
	double odd[] = {0.0, -0.0, 0.1, -2.5, 1e300, INFINITY, -INFINITY, NAN, 3, 1e-310};
	for (int i = 0; i < 40; i++) {
		double d = odd[i % 10], e = odd[i * 7 / 4 % 10];
		struct all all = {{i & 7, i * 1001, i * -12345678901l % (1l << 39), i % 32 - 16}, (float)e, d, i & 1};
		struct part b = {i * 98765432101l % (1l << 39), i * 3 % 32 - 16};
		handle((struct mixed){e, i, i % 4 ? "no" : "four"}, (struct pair){(float)d, (float)e}, d, (float)e, (struct small){i * -1000, i * 6 - 100, i * 6, -i}, b,
		       (struct large){i, e, i - 20, (float)d, i % 3 ? "odd" : "third", i * 3 % 128}, &all);
	}
	return 0;
}
'''
NAMES = ("nan a b c low f d x y D F s sc su si bc blow ld lc lf lname odd md mi mname").split()
# EXPR: what it is of the log's numbers.
OF_KINDS = {
    "all->bits.a == 5": lambda v: v.a == 5,
    "all->bits.b > 20000": lambda v: v.b > 20000,
    "all->bits.c < -12345678901": lambda v: v.c < -12345678901,
    "all->bits.low < -3 && all->bits.low >= -16": lambda v: -16 <= v.low < -3,
    "all->f < 0.1": lambda v: v.f < 0.1,
    "all->f <= 0.1 && all->d == 0": lambda v: v.f <= 0.1 and v.d == 0,
    "all->d == 0.1": lambda v: v.d == 0.1,
    "d > 1e299": lambda v: v.D > 1e299,
    "!(d >= 0)": lambda v: not v.D >= 0,
    "d != 3": lambda v: v.D != 3,
    "f": lambda v: v.F != 0,
    "p.x < 0 || p.y > 2.5": lambda v: v.x < 0 or v.y > 2.5,
    "p.y == 3": lambda v: v.y == 3,
    "s.s < -20000": lambda v: v.s < -20000,
    "s.c < 0": lambda v: v.sc < 0,
    "s.u > 200": lambda v: v.su > 200,
    "s.i == -7": lambda v: v.si == -7,
    "b.c > 0 && b.low == 2": lambda v: v.bc > 0 and v.blow == 2,
    "l.c < 0 && l.d > 0": lambda v: v.lc < 0 and v.ld > 0,
    "l.f <= -2.5": lambda v: v.lf <= -2.5,
    "l.name ~ \"t*\"": lambda v: v.lname == "third",
    "l.odd == 100 - 1 || l.odd < 10": lambda v: v.odd == 99 or v.odd < 10,
    "m.name == \"four\" && m.d == m.d": None,
    "m.name == \"four\" && m.i < 20": lambda v: v.mname == "four" and v.mi < 20,
    "m.d < -1": lambda v: v.md < -1,
}


class Row:
    def __init__(self, line):
        for name, word in zip(NAMES, line.split(" ")):
            setattr(self, name, word if name.endswith("name") else float.fromhex(word) if name in ("f", "d", "x", "y", "D", "F", "ld", "lf", "md") else int(word))


def kinds(case):
    """Floating-point numbers, fields of bits, and members of structures that go by value."""
    need(case)
    case.as_it_is = True
    for level in ("-O0", "-O2"):
        program = compiled(case, "kinds", KINDS, "cc", level, "-g", "-Wl,-E")
        for condition, check in OF_KINDS.items():
            command = ["--no-libcalls", "-A", "handle:all=arg1", "--if", f"handle: {condition}"]
            if not check:
                done = case.run([case.tool, "record", "-o", case.trace_path, *command[:1], *command[3:], "--", program])
                expect(done.status == 2 and "compared with a number" in done.stderr, f"{condition}: {done.status}: {done.stderr}")
                continue
            done = case.record([program], ["--no-libcalls", "-a", "--if", f"handle: {condition}"], log=False)
            expect(done.status == 0, f"{condition}: {done.status}: {done.stderr}")
            rows = [Row(line) for line in done.stdout.splitlines()]
            wanted = [int(row.mi) for row in rows if check(row)]
            shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
            found = [int(i) for i in re.findall(r"\bm=\{d=[^,]*, i=(-?\d+),", shown)]
            expect(found == wanted and 0 < len(wanted) < 40, f"{level} {condition}: {found}, not {wanted}: {shown[:500]}")



# step(n, depth) calls leaf() and, down to depth 0, itself; each call says at its end what it was, and what it gave.
TREE = r'''#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define SEEN __attribute__((noinline, noclone))
static unsigned state = 7;
static jmp_buf out;
SEEN int leaf(int n) { __asm__ volatile("" : "+r"(n)); return n % 5 - 2; }
SEEN const char *name(int n) { return n % 3 ? n % 3 == 1 ? "lib.so" : "" : 0; }
SEEN int gone(int n) { if (n % 4 == 0) longjmp(out, 1); return n; }
SEEN int jumps(int n) { return setjmp(out) ? -1 : gone(n); }
SEEN int step(int n, int depth)
{
	int sum = leaf(n), given;
	state = state * 1103515245 + 12345;
	for (unsigned i = 0; depth && i < state % 4; i++)
		sum += step(n + (int)i, depth - 1);
	sum += name(n) != 0;
	given = (sum + n) % 7 - 3;
	printf("%d %d %d\n", n, depth, given);
	return given;
}
int main(int count, char **words)
{
	if (count > 1 && !strcmp(words[1], "jumps")) {
		for (int i = 1; i <= 8; i++)
			printf("%d\n", jumps(i));
		return 0;
	}
	if (count > 1 && !strcmp(words[1], "exit")) {
		leaf(2);
		atexit((void (*)(void))leaf);
		exit(step(1, 1) == 100);
	}
	for (int i = 0; i < (count > 1 ? 3000 : 30); i++)
		step(i, i % 6);
	return fflush(stdout);
}
'''


def replayed_calls(case, first_lost=False):
    """Calls of the trace as (function, depth, what is shown of it), in order of their beginnings."""
    calls, depths = [], []
    for line in map(json.loads, case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout.splitlines()):
        if line["ev"] == "enter":
            depths.append(len(calls))
            calls.append([line["fn"], len(depths), None, None])
        elif line["ev"] == "leave" and depths:
            calls[depths.pop()][3] = line["end"]
        elif line["ev"] in ("arguments", "result"):
            if not depths and first_lost:
                continue  # a flight recorder's first record
            expect(depths and calls[depths[-1]][0] == line["fn"], f"{line} is not in its call")
            calls[depths[-1]][2] = ((calls[depths[-1]][2] or "") + " " + re.sub("0x[0-9a-f]{9,}", "ADDRESS", line["text"])).strip()
    return calls


CONDITIONS = {
    "ret < 0": lambda n, depth, ret: ret < 0,
    "ret == 2 || ret == -3": lambda n, depth, ret: ret in (2, -3),
    "depth > 1 && ret > 0": lambda n, depth, ret: depth > 1 and ret > 0,
    "n < ret || depth == 0": lambda n, depth, ret: n < ret or depth == 0,
    "!(n + ret & 1) && (depth & 1 || ret < 1)": lambda n, depth, ret: not (n + ret) & 1 and (depth & 1 or ret < 1),
    "ret:s32 * 2 == arg2:s32": lambda n, depth, ret: ret * 2 == depth,
    "ret > 100": lambda n, depth, ret: False,
    "ret < 100": lambda n, depth, ret: True,
}


def wanted_of(whole, check, function, hides):
    """Of a whole trace's calls, those that are to be left, at their new depths."""
    left, path = [], []
    for name, depth, shown, _ in whole:
        while path and path[-1][0] >= depth:
            path.pop()
        drop = False
        if name == function:
            n, d, ret = map(int, re.fullmatch(r"n=(-?\d+), depth=(\d+) (-?\d+)", shown).groups())
            drop = not check(n, d, ret)
        inside = any(way == "inside" for _, way in path)
        if not drop and not inside:
            left.append((name, 1 + sum(way == "kept" for _, way in path), shown))
        path.append((depth, "inside" if inside or drop and hides else "out" if drop else "kept"))
    return left


def results(*flags, conditions=CONDITIONS):
    """The calls that are left are those of a whole trace without the others, at their places, with their values."""
    def test(case):
        need(case)
        case.as_it_is = True
        program = compiled(case, "tree", TREE, "cc", "-O1", "-g", "-fno-optimize-sibling-calls")
        done = case.record([program], ["--no-libcalls", "-a", *flags], log=False)
        log = done.stdout
        whole = replayed_calls(case)
        expect(done.status == 0 and len(whole) > 300, f"{done.status}: {done.stderr}")
        for option in ("--if", "--only-if"):
            for condition, check in conditions.items():
                for shown in (("-a",), ()):
                    done = case.record([program], ["--no-libcalls", *flags, *shown, option, f"step: {condition}"], log=False)
                    expect(done.status == 0 and done.stdout == log, f"{option} {condition}: {done.status}: {done.stderr}")
                    wanted = wanted_of(whole, check, "step", option == "--only-if")
                    found = [tuple(call[:3]) for call in replayed_calls(case)]
                    if not shown:
                        wanted = [(*call[:2], None) for call in wanted]
                    expect(found == wanted, f"{option} {condition} {shown}: {len(found)} calls, not {len(wanted)}: "
                           f"{[pair for pair in zip(found, wanted) if pair[0] != pair[1]][:3]}")
                    case.readable()
                    report(case, wanted)
    return test


def report(case, wanted):
    """Other readers have the same calls."""
    text = case.run([case.tool, "report", "-i", case.trace_path]).stdout
    for name in ("step", "leaf", "name"):
        count = sum(call[0] == name for call in wanted)
        columns = [line.split() for line in text.splitlines() if line.split()[-1:] == [name]]
        expect(len(columns) == (count > 0) and (not columns or str(count) in columns[0]), f"report has not {count} calls of {name}: {text}")
    folded = case.run([case.tool, "export", "--format", "folded", "-i", case.trace_path, "-o", "-"]).stdout
    expect(("step" in folded) == any(call[0] == "step" for call in wanted), folded[:300])
    replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(len(re.findall(r"\bstep\(", replay)) == sum(call[0] == "step" for call in wanted), "replay has others")


def small(case):
    """Calls without calls of their own whose results are not asked for take no room, with values and without."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "tree", TREE, "cc", "-O1", "-g", "-fno-optimize-sibling-calls")
    for option in ("--if", "--only-if"):
        for shown in ((), ("-A", "leaf"), ("-A", "leaf:n=arg1:s32 text=+0(arg1):string", "-R", "leaf"), ("-g", "leaf"), ("--max-depth", "3")):
            counts = []
            for condition in ("ret < 100", "ret > 100", "n < -1000 || ret > 100"):
                done = case.record([program], ["--no-libcalls", "-l", "leaf", *shown, option, f"leaf: {condition}"], log=False)
                expect(done.status == 0, done.stderr)
                counts.append(sum(sum(thread.calls().values()) for thread in case.trace().threads.values()))
            expect(counts[0] > 100 and counts[1:] == [0, 0], f"{option} {shown}: {counts}")


def no_result(case):
    """A call that was left without a result is shown, and so is one whose end is not in the trace."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "tree", TREE, "cc", "-O1", "-g", "-fno-optimize-sibling-calls")
    for option in ("--if", "--only-if"):
        done = case.record([program, "jumps"], ["--no-libcalls", "-a", option, "gone: ret > 5"], log=False)
        found = [call[2] for call in replayed_calls(case) if call[0] == "gone"]
        expect(done.status == 0 and found == ["n=4", "n=6 6", "n=7 7", "n=8"], f"{option}: {found} {done.stderr}")
        done = case.record([program, "jumps"], ["--no-libcalls", "-a", option, "jumps: ret > 6"], log=False)
        found = [call[:3] for call in replayed_calls(case) if call[0] in ("gone", "jumps")]
        inner = [["gone", 2, f"n={n}" + (f" {n}" if n % 4 else "")] for n in (1, 2, 3, 4, 5, 6, 8)] if option == "--if" else []
        at = 6 if option == "--if" else 0
        wanted = inner[:at] + [["jumps", 2, "n=7 7"], ["gone", 3, "n=7 7"]] + inner[at:]
        expect(found == wanted, f"{option}: {found}, not {wanted}")
        done = case.record([program, "exit"], ["--no-libcalls", "-a", option, "main: ret == 17"], log=False)
        found = [call for call in replayed_calls(case) if call[0] == "main"]
        expect(done.status == 0 and found and found[0][3] == "open", f"{option}: {found}")


def results_busy(*options, condition="twice: ret & 2 && s ~ \"t*\""):
    """Threads, signals and children, of whose calls many are left out by what they gave."""
    def test(case):
        need(case)
        done = case.record([case.program("tells.c"), "busy", "80"], [*options, *TWICE, "--if", condition], log=False)
        expect(done.status == 0 and done.stdout.endswith("all right\n"), f"{done.status}: {done.stdout} {done.stderr}")
        pairs = values_of(case)
        check_pairs(pairs)
        for arguments, result in pairs:
            expect(int(result) & 2 and re.search(r's="t', arguments), f"{arguments} {result} was recorded")
        case.readable()
    return test


def results_overwritten(option, condition, check):
    """The newest calls of a flight recorder are the last ones of a whole trace, also where verdicts have lost their calls."""
    def test(case):
        need(case)
        case.as_it_is = True
        program = compiled(case, "tree", TREE, "cc", "-O1", "-g", "-fno-optimize-sibling-calls")
        done = case.record([program, "long"], ["--no-libcalls", "-a"], log=False)
        wanted = [call[::2] for call in wanted_of(replayed_calls(case), check, "step", option == "--only-if")]
        for size in ("16K", "24K", "64K"):
            done = case.record([program, "long"], ["--no-libcalls", "-a", "--mode", "overwrite", "-b", size, option, f"step: {condition}"], log=False)
            expect(done.status == 0, done.stderr)
            found = [call for call in replayed_calls(case, first_lost=True)]
            # Of calls that were open where the memory begins, less is known.
            first = max((i for i, call in enumerate(found) if call[2] is None or " " not in call[2] and call[0] != "main"), default=-1) + 1
            found = [(call[0], call[2]) for call in found[first:] if call[0] != "main"]
            expect(first < 20 and 50 < len(found) < len(wanted) / 2 and found == wanted[-len(found):], f"{size}: {first}, {len(found)} calls: {found[:3]}, not {wanted[-len(found):][:3]}")
    return test


def results_everywhere(source, option):
    """All functions are chosen by a number that is there by chance: the program prints and ends as ever."""
    def test(case):
        need(case)
        if source == "forks.c":
            case.executing()
        case.same_as_plain([case.program(source)], [option, "*: ret:s32 & 1 || arg1:u8 > ret:u8", "-A", "*:arg1", "-R", "*:ret"])
        case.readable()
        case.run([case.tool, "report", "-i", case.trace_path])
    return test


def results_attached(case):
    """Attach with a condition on results to a program that runs, more than once."""
    need(case)
    output, process = start(case, [case.program("tells.c"), "busy", "60000"])
    try:
        pid = int(wait_for(output, "running").split()[1])
        for _ in range(3):
            done = case.run([case.tool, "attach", "-o", case.trace_path, "--duration", "50ms", *TWICE, "--if", "twice: ret:s32 & 2", str(pid)])
            expect(done.status == 0 and process.poll() is None, f"attach: {done.status} {done.stderr}")
            pairs = values_of(case)
            expect(pairs and all(int(result) & 2 for _, result in pairs), f"{pairs[:5]}")
        end_well(output, process)
    finally:
        stop(process)


def trees(case):
    """-g with an expression: the trees of these calls, and nothing else, whether arguments or the result choose them."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "tree", TREE, "cc", "-O1", "-g", "-fno-optimize-sibling-calls")
    done = case.record([program], ["--no-libcalls", "-a"], log=False)
    whole = replayed_calls(case)
    for condition, check in (("depth == 5 && n > 10", lambda n, depth, ret: depth == 5 and n > 10),
                             ("depth == 3 && ret < 1", lambda n, depth, ret: depth == 3 and ret < 1)):
        wanted, inside = [], 0
        for name, depth, shown, _ in whole:
            inside = 0 if depth <= inside else inside
            if not inside and name == "step" and check(*map(int, re.findall(r"-?\d+", shown))):
                inside = depth
            # Other calls of step() within are not asked for.
            if inside and (name != "step" or inside == depth):
                wanted.append((name, shown))
        done = case.record([program], ["--no-libcalls", "-a", "-g", f"step: {condition}"], log=False)
        expect(done.status == 0, done.stderr)
        found = [(call[0], call[2]) for call in replayed_calls(case)]
        if "ret" in condition:
            # What a call has called that is not shown goes with it.
            found, wanted = [[call for call in calls if call[0] == "step"] for calls in (found, wanted)]
        expect(found and found == wanted, f"{condition}: {len(found)} calls, not {len(wanted)}: {found[:4]}, {wanted[:4]}")
        case.readable()
    for options, why in ((["--no-graph", "step: depth == 3"], "--only-if 'step: !(...)'"),
                         (["-g", "step: depth +"], "value or a number is missing"), (["-g", "step: depth", "--if", "step: n"], "two conditions")):
        done = case.run([case.tool, "record", "-o", case.trace_path, *options, "--", program])
        expect(done.status in (1, 2) and why in done.stderr, f"{options}: {done.status} {done.stderr}")
    done = case.run([case.tool, "top", "-g", "step: depth == 3", "--", program])
    expect(done.status == 1 and "top counts all" in done.stderr, done.stderr)


ASKED = r'''#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define SEEN __attribute__((noinline, noclone))
struct request { int id; const char *path; double cost; };
SEEN int inner(int n) { __asm__ volatile("nop; nop; nop; nop; nop; nop" : "+r"(n)); return n; }
SEEN int handle(struct request *request, int n)
{
	__asm__ volatile("" : : "r"(request), "r"(n) : "memory"); /* it reads all of it */
	return inner(request->id) % 7 - 3;
}
SEEN int early(int n) { return inner(n); }
SEEN int late(int n) { return inner(n); }
int main(int count, char **words)
{
	for (int i = 0; i < 30; i++) {
		struct request request = {i, i % 10 ? "/plain" : "/special", i / 2.0};
		handle(&request, -i);
	}
	early(1);
	for (int i = 1; i < count; i++) {
		struct request request = {4711 + i, words[i], -1};
		handle(&request, i);
		for (int patience = 0; access(words[i], F_OK) && patience < 3000; patience++)
			usleep(10000);
	}
	late(1);
	puts("all was well");
	return 7;
}
'''
QUESTIONS = {
    "handle: request->id == 5": 1, "handle: request->path ~ \"*spec*\" && n < 0": 2, "handle: ret == 3 || ret > 5": 4, "handle: ret:s32 < -100": 0,
    "handle: request->cost > 13.2": 3, "inner: n > 27": 2, "inner: ret:u8 == 29": 1,
}


def asked(case):
    """Triggers on arguments, on what they lead to, and on results: each call that is meant, and no other."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "asked", ASKED, "cc", "-O1", "-g")
    for more in ((), ("-a",), ("-g", "main"), ("--if", "handle: request->id < 100"), ("-A", "early:arg1", "--only-if", "early: ret == 3")):
        for few in (list(QUESTIONS.items())[:4], list(QUESTIONS.items())[4:]):
            options, files = ["--no-libcalls", "--trigger-gap", "0", *more], []
            for number, (question, _) in enumerate(few):
                files.append(os.path.join(case.folder, f"note-{number}"))
                options += ["--run-when", f"{question} => echo $CALLTAP_FUNCTION >> {files[-1]}"]
            done = case.record([program], options, log=False)
            expect(done.status == 7 and done.stdout == "all was well\n", f"{done.status}: {done.stderr}")
            for (question, times), name in zip(few, files):
                found = []
                if os.path.exists(name):
                    with open(name, encoding="utf-8") as file:
                        found = file.read().split()
                    os.unlink(name)
                expect(found == [question.split(":")[0]] * times, f"{more} {question}: {found}, wanted {times}: {done.stderr}")
            case.readable()


def asked_and_done(case):
    """What triggers on values do: a snapshot, the end of recording, and its beginning."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "asked", ASKED, "cc", "-O1", "-g")
    stop, go = os.path.join(case.folder, "stopped"), os.path.join(case.folder, "gone")
    done = case.record([program, stop, go], ["--no-libcalls", "--stop-when", "handle: request->id == 4712",
                                             "--run-when", f"handle: request->id == 4712 => touch {stop}",
                                             "--run-when", f"handle: request->id == 4713 => touch {go}"], log=False)
    expect(done.status == 7, done.stderr)
    called = case.trace().called()
    expect(called.get("early") == 1 and "late" not in called, f"recorded: {called}")
    os.unlink(stop)
    os.unlink(go)
    done = case.record([program, stop, go], ["--no-libcalls", "--start-when", "handle: ret == 1718 % 7 - 1 && ret == 2",
                                             "--run-when", f"handle: request->id == 4712 => touch {stop}",
                                             "--run-when", f"handle: request->id == 4713 => touch {go}", "-l", "early", "-l", "late"], log=False)
    called = case.trace().called()
    expect(done.status == 7 and called.get("handle"), f"recorded: {called} {done.stderr}")
    shot = case.trace_path + ".1"
    done = case.record([program, shot], ["--no-libcalls", "--mode", "overwrite", "-a", "-q", "--snapshot-when", "handle: request->path ~ \"*trace.1\""], log=False)
    expect(done.status == 7 and os.path.exists(shot), done.stderr)
    case.trace_path = shot
    calls = replayed_calls(case)
    expect("late" not in [call[0] for call in calls] and any("trace.1" in (call[2] or "") for call in calls), f"{calls[-5:]}")
    expect("handle is as in 'handle: request->path" in case.trace().info["reason"], case.trace().info["reason"])
    for options, why in ((["--stop-when", "handle: request->id == ret"], "not about both"), (["--stop-when", "handle: request->nothing"], "request has no member 'nothing'"),
                         (["--stop-when", "nobody: arg1 == 3"], "nobody"), (["--stop-when", "handle: request->id =="], "value or a number is missing"),
                         (["--snapshot-when", "handle: n", "-p", "function"], "function_graph")):
        done = case.run([case.tool, "record", "-o", case.trace_path, *options, "--", program])
        expect(done.status in (1, 2) and why in done.stderr and not done.stdout, f"{options}: {done.status} {done.stderr}")


SINGLE = {
    "choosing-asked": asked,
    "choosing-asked-and-done": asked_and_done,
    "choosing-kinds": kinds,
    "choosing-results": results(),
    "choosing-results-in-a-flight-recorder": results("--mode", "overwrite", conditions=dict(list(CONDITIONS.items())[2:4])),
    "choosing-results-in-trees": results("-g", "main", conditions=dict(list(CONDITIONS.items())[:3])),
    "choosing-results-to-a-depth": results("--max-depth", "7", conditions=dict(list(CONDITIONS.items())[:1])),
    "choosing-results-small": small,
    "choosing-trees": trees,
    "choosing-results-missing": no_result,
    "choosing-results-busy": results_busy(),
    "choosing-results-busy-in-a-small-buffer": results_busy("-b", "8K"),
    "choosing-results-overwritten": results_overwritten("--if", "ret < 0", lambda n, depth, ret: ret < 0),
    "choosing-results-overwritten-hiding": results_overwritten("--only-if", "ret < 2 && depth < 9", lambda n, depth, ret: ret < 2),
    "choosing-results-attached": results_attached,
    **{f"choosing-results-everywhere-{source.split('.')[0]}": results_everywhere(source, option)
       for source, option in (("exceptions.cc", "--only-if"), ("jumps.c", "--only-if"), ("longjumps.c", "--if"), ("ownstacks.c", "--only-if"),
                              ("routines.c", "--only-if"), ("signals.c", "--only-if"), ("tails.c", "--if"), ("forks.c", "--only-if"), ("altstacks.c", "--if"))},
}

"""`calltap count`: the table has the calls that the program says, by each kind of value, and says what it leaves out."""
import collections
import json
import os
import signal
import subprocess

from harness import Process, expect, stop, until
from typed import compiled
from values import need

KINDS = {"0": "ROUND", "5": "FLAT", "-3": "ODD"}
CALLS = 20000


def program(case):
    need(case)
    case.as_it_is = True
    return case.program("counted.c", variant="-debug", flags=["-g", "-O1"])


def count(case, what, command, *options):
    return case.run([case.tool, "count", *options, what, "--", *command])


def counted(case, what, command, *options):
    """What the program has said, by the value's name, and the counts as JSON has them."""
    done = count(case, what, command, "--json", *options)
    expect(done.status == 0, f"count '{what}': {done.status} {done.stderr}")
    expect(not done.stderr, done.stderr)
    lines = done.stdout.splitlines()
    said = collections.defaultdict(dict)
    for name, value, number in (line.split("\t") for line in lines[:-1]):
        said[name][value] = int(number)
    return said, json.loads(lines[-1])


def by_value(said, found, name, shown=lambda value: value):
    expect(found["others"] == 0, found)
    wanted = {shown(value): number for value, number in said.items() if number}
    got = {row["values"][name]: row["count"] for row in found["calls"]}
    expect(got == wanted, f"by {name}: {got}, not {wanted}")
    order = [row["count"] for row in found["calls"]]
    expect(order == sorted(order, reverse=True), f"not sorted: {order}")


def exact(case):
    """Threads, a signal's handler, and forked processes: no call is missing, none is counted twice."""
    command = [program(case), str(CALLS)]
    for what, name, field, shown in (("tell: n", "n", "n", int), ("tell:arg1:s32", "n", "arg1", int), ("tell: kind", "kind", "kind", KINDS.get),
                                     ("tell: name", "name", "name", str), ("tell:text=arg3:string", "name", "text", str),
                                     ("tell: box->weight", "weight", "box->weight", int), ("tell: box->label", "name", "box->label", str)):
        said, found = counted(case, what, command)
        by_value(said[name], found, field, shown)
    said, found = counted(case, "tell", command)
    expect([(row["call"], row["count"]) for row in found["calls"]] == [("tell", sum(said["n"].values()))], f"{found}, not {said['n']}")
    said, found = counted(case, "tell:number=arg1:s32 again=arg1:u8", command)
    expect(all(row["values"]["number"] % 256 == row["values"]["again"] for row in found["calls"]), found)
    expect(sum(row["count"] for row in found["calls"]) == sum(said["n"].values()), found)


def chosen(case):
    """Conditions choose which calls are counted."""
    command = [program(case), "2000"]
    for condition in ("tell: n > 3", "tell: arg1:s32 > 3", "tell: name == \"three\" || n > 3"):
        said, found = counted(case, "tell: n", command, "--if", condition)
        got = {row["values"]["n"]: row["count"] for row in found["calls"]}
        wanted = {int(value): number for value, number in said["n"].items() if int(value) > 3}
        if "three" in condition:
            got = {value: number for value, number in got.items() if value > 3}
        expect(got == wanted, f"--if '{condition}': {got}, not {wanted}")


def bucket(hist, value):
    if hist == "log2":
        low = value and 1 << (abs(value).bit_length() - 1)
        return "(..., 0)" if value < 0 else str(value) if value < 2 else f"[{low}, {2 * low})"
    low, step, number = map(int, hist.split(":")[1:])
    if value < low:
        return f"(..., {low})"
    place = min((value - low) // step, number)
    return f"[{low + place * step}, {'...' if place == number else low + (place + 1) * step})"


def histograms(case):
    command = [program(case), "2000"]
    for what, name in (("tell: n", "n"), ("tell:arg1:s32", "n"), ("tell: kind", "kind"), ("tell: box->weight", "weight")):
        for hist in ("log2", "linear:-10:5:4", "linear:-100:1000:3", "linear:3:1:10"):
            said, found = counted(case, what, command, "--hist", hist)
            wanted = collections.Counter()
            for value, number in said[name].items():
                wanted[bucket(hist, int(value))] += number
            got = {row["values"]: row["count"] for row in found["histogram"] if row["count"]}
            expect(got == {text: number for text, number in wanted.items() if number}, f"{what}, {hist}: {got}, not {wanted}")
    # As many numbers as have no place of their own: buckets need none.
    found = json.loads(count(case, "tell: n", [program(case), "200000", "different"], "--json", "--hist", "log2").stdout)
    expect(found["others"] == 0 and sum(row["count"] for row in found["histogram"]) == 200000, found)


def sums_by(said, found, name, shown=lambda value: value):
    """Each row has the sum, the average, the least and the largest number that the program says."""
    expect(found["others"] == 0, found)
    wanted = {shown(value): number for value, number in said["sum"].items()}
    got = {row["values"][name]: row["sum"] for row in found["calls"]}
    expect(got == wanted, f"sums by {name}: {got}, not {wanted}")
    extremes = {shown(value): (number, said["largest"][value]) for value, number in said["least"].items()}
    for row in found["calls"]:
        # Where a number was not compared, that is said.
        expect(row["not_compared"] or (row["min"], row["max"]) == extremes[row["values"][name]], f"{row}, not {extremes}")
        expect(abs(row["avg"] - row["sum"] / row["count"]) < 0.1 and row["without_number"] == 0, row)
    order = [row["sum"] for row in found["calls"]]
    expect(order == sorted(order, reverse=True), f"not sorted: {order}")


def sums(case):
    """Numbers are added up by key, in threads, handlers and forked processes; by names that types tell and by places."""
    command = [program(case), str(CALLS)]
    for what, number, field, shown in (("weigh: kind", "number", "kind", KINDS.get), ("weigh:k=arg1:s32", "arg2:s64", "k", int),
                                       ("weigh: kind", "arg2:s64", "kind", KINDS.get), ("weigh:k=arg1:s32", "number", "k", int)):
        said, found = counted(case, what, command, "--sum", number)
        sums_by(said, found, field, shown)
        counts = {row["values"][field]: row["count"] for row in found["calls"]}
        expect(counts == {shown(value): number for value, number in said["kind"].items()}, f"{counts}, not {said['kind']}")
    said, found = counted(case, "weigh", command, "--sum", "number")
    row = found["calls"][0]
    expect((row["call"], row["sum"]) == ("weigh", sum(said["sum"].values())) and len(found["calls"]) == 1, found)
    said, found = counted(case, "weigh: $stack", command, "--sum", "number")
    expect(sum(row["sum"] for row in found["calls"]) == sum(map(int, said["sum"].values())) and all(row["stack"] for row in found["calls"]), found)
    said, found = counted(case, "weigh: kind", command, "--sum", "number", "--if", "weigh: kind == FLAT")
    expect([row["sum"] for row in found["calls"]] == [said["sum"]["5"]], found)
    said, found = counted(case, "tell: kind", command, "--sum", "box->weight")
    weights = {"ROUND": -1, "FLAT": 0, "ODD": 1}
    for row in found["calls"]:
        kind = row["values"]["kind"]
        expect(row["min"] == row["max"] == weights[kind] and row["sum"] == weights[kind] * row["count"], row)
    said, found = counted(case, "tell: kind", command, "--sum", "+0(arg1):s32")
    expect(all(row["sum"] is None and row["without_number"] == row["count"] for row in found["calls"]), found)
    lines = count(case, "weigh: kind", command, "--sum", "number").stdout.splitlines()
    head = next(line for line in lines if "CALL" in line)
    expect(head.split() == ["COUNT", "SUM", "AVG", "MIN", "MAX", "CALL"], head)
    for what, number, status, word in (("tell: kind", "name", 1, "numbers are added up, and 'name' is none"), ("tell: kind", "nothing", 2, "has no argument 'nothing'"),
                                       ("tell: kind", "arg1 arg2", 1, "is not one number"), ("tell: kind", "arg1:s33", 1, "arg1:s33"),
                                       ("tell:arg1:s32", "arg3:string", 1, "numbers are added up, and")):
        done = count(case, what, command, "--sum", number)
        expect(done.status == status and word in done.stderr and "COUNT" not in done.stdout, f"--sum '{number}': {done.status} {done.stderr}")
    done = count(case, "tell: n", command, "--sum", "n", "--hist", "log2")
    expect(done.status == 1 and "a histogram has no sums" in done.stderr, f"{done.status} {done.stderr}")


RETURNING = """
#include <setjmp.h>
volatile int sink;
static jmp_buf back;
__attribute__((noinline)) int down(int n)
{
	int below = n ? down(n - 1) : -1;

	sink += below;
	return below + 1;
}
__attribute__((noinline)) int half(int n) { sink += n; return n / 2 - 10; }
__attribute__((noinline)) int tail(int n) { sink += n; return half(n); }
__attribute__((noinline)) int leap(int n)
{
	sink += n;
	if (n % 3 == 0)
		longjmp(back, 1);
	return n * 2;
}
int main(void)
{
	for (volatile int i = 0; i < 90; i++) {
		if (!setjmp(back))
			leap(i);
		down(i % 10);
		tail(i);
	}
	return 0;
}
"""


def returns(case):
    """By results, and sums of results by arguments: threads, handlers, forks, recursion, calls that are left by longjmp, and tail calls."""
    command = [program(case), str(CALLS)]
    said, found = counted(case, "weigh: ret", command, "--hist", "linear:-3000000000:1500000000:4")
    expect(sum(row["count"] for row in found["histogram"]) == sum(said["kind"].values()) and not found["without_number"], f"{found}, not {said['kind']}")
    said, found = counted(case, "weigh:low=ret:u8", command)
    expect(sum(row["count"] for row in found["calls"]) == sum(said["kind"].values()) and not found["others"], f"not {said['kind']}")
    said, found = counted(case, "weigh: kind", command, "--sum", "ret")
    turned = {"sum": {kind: -number for kind, number in said["sum"].items()}, "least": {kind: -number for kind, number in said["largest"].items()},
              "largest": {kind: -number for kind, number in said["least"].items()}}
    sums_by(turned, found, "kind", KINDS.get)
    said, found = counted(case, "weigh: kind", command, "--sum", "ret", "--if", "weigh: kind == ODD")
    expect([row["sum"] for row in found["calls"]] == [-said["sum"]["-3"]], f"{found}, not {said['sum']}")
    returning = [compiled(case, "counts-returning", RETURNING, "gcc", "-O2", "-g")]

    def rows(what, *options):
        return json.loads(count(case, what, returning, "--json", *options).stdout)["calls"]
    wanted = {number: 9 * (10 - number) for number in range(10)}
    expect({row["values"]["ret"]: row["count"] for row in rows("down: ret")} == wanted, rows("down: ret"))
    expect({row["values"]["n"]: (row["count"], row["sum"]) for row in rows("down: n", "--sum", "ret")} == {number: (calls, number * calls) for number, calls in wanted.items()},
           rows("down: n", "--sum", "ret"))
    expect({row["values"]["ret"]: row["count"] for row in rows("leap: ret")} == {2 * number: 1 for number in range(90) if number % 3}, rows("leap: ret"))
    expect({row["values"]["n"]: row["sum"] for row in rows("leap:n=arg1:s32", "--sum", "ret:s32")} == {number: 2 * number for number in range(90) if number % 3}, "leap by n")
    expect({row["values"]["n"]: row["sum"] for row in rows("leap: n", "--sum", "ret", "--if", "leap: n > 40")} == {number: 2 * number for number in range(41, 90) if number % 3}, "chosen")
    late = rows("leap: ret", "--if", "leap: ret > 170")
    expect(sorted(row["values"]["ret"] for row in late) == [172, 176, 178], late)
    both = rows("leap: ret", "--if", "leap: ret > 100 && n < 60")
    expect(sorted(row["values"]["ret"] for row in both) == [2 * number for number in range(51, 60) if number % 3], both)
    expect(sum(row["count"] for row in rows("half: ret")) == 90 and sum(row["sum"] for row in rows("half: ret", "--sum", "ret")) == sum(number // 2 - 10 for number in range(90)), "half")
    # What is tail-called has the result, whatever has called it.
    calls = rows("[ht]a[il][lf]", "--sum", "ret:s32")
    expect(sorted((row["call"], row["count"]) for row in calls) == [("half", 90)], calls)
    for what, options, status, word in (("tell: ret", (), 2, "it has no result"), ("leap: ret", ("--sum", "n"), 1, "arguments are not added up by results"),
                                        ("leap: n", ("--sum", "ret", "--if", "leap: ret > 3"), 1, "count by results")):
        done = count(case, what, [program(case), "1"] if "tell" in what else returning, *options)
        expect(done.status == status and word in done.stderr, f"'{what}' {options}: {done.status} {done.stderr}")


def placed(case):
    """Results by their place, with no types, on each CPU: counted, added up by arguments, in ranges, chosen."""
    case.as_it_is = True
    command = [compiled(case, "counts-placed", RETURNING, "gcc", "-O2")]

    def found(what, *options):
        done = count(case, what, command, "--json", *options)
        expect(done.status == 0 and not done.stderr, f"{what}: {done.status} {done.stderr}")
        return json.loads(done.stdout)

    def rows(what, *options):
        return found(what, *options)["calls"]
    wanted = {number: 9 * (10 - number) for number in range(10)}
    expect({row["values"]["ret"]: row["count"] for row in rows("down:ret:s32")} == wanted, rows("down:ret:s32"))
    got = {row["values"]["n"]: (row["count"], row["sum"], row["min"], row["max"]) for row in rows("down:n=arg1:s32", "--sum", "ret:s32")}
    expect(got == {number: (calls, number * calls, number, number) for number, calls in wanted.items()}, got)
    expect({row["values"]["ret"]: row["count"] for row in rows("leap:ret:s32")} == {2 * number: 1 for number in range(90) if number % 3}, rows("leap:ret:s32"))
    got = {row["values"]["n"]: row["sum"] for row in rows("leap:n=arg1:s32", "--sum", "ret:s32", "--if", "leap: arg1:s32 > 40")}
    expect(got == {number: 2 * number for number in range(41, 90) if number % 3}, got)
    calls = rows("[ht]a[il][lf]", "--sum", "ret:s32")
    expect([(row["call"], row["count"], row["sum"]) for row in calls] == [("half", 90, sum(number // 2 - 10 for number in range(90)))], calls)
    for hist, name in (("log2", "ret"), ("linear:-5:10:3", "ret"), ("log2", "arg1"), ("linear:7:20:2", "arg1")):
        numbers = collections.Counter(bucket(hist, number // 2 - 10 if name == "ret" else number) for number in range(90))
        got = {row["values"]: row["count"] for row in found(f"half:{name}:s32", "--hist", hist)["histogram"] if row["count"]}
        expect(got == numbers, f"{name} {hist}: {got}, not {numbers}")


def full(case):
    """What has no room is counted, and said."""
    command = [program(case), "200000", "different"]
    found = json.loads(count(case, "tell: n", command, "--json").stdout)
    expect(len(found["calls"]) > 60000 and found["others"] > 100000, f"{len(found['calls'])} and {found['others']} others")
    expect(sum(row["count"] for row in found["calls"]) + found["others"] == 200000, "calls are missing")
    last = count(case, "tell: n", command).stdout.splitlines()[-1]
    expect("others, for which there was no room" in last, last)


def newest(case):
    """Where there is no room for all, the newest are kept, and those that come again and again; every call is somewhere."""
    command = [program(case), "200000", "different"]
    found = json.loads(count(case, "tell: n", command, "--json", "--keep", "newest").stdout)
    numbers = {row["values"]["n"]: row["count"] for row in found["calls"]}
    expect(set(range(180000, 200000)) <= set(numbers) and set(numbers.values()) == {1}, f"{len(numbers)} of them, {min(numbers)} to {max(numbers)}")
    expect(len(numbers) + found["others"] == 200000, f"{len(numbers)} and {found['others']} others")
    last = count(case, "tell: n", command, "--keep", "newest").stdout.splitlines()[-1]
    expect("others, which gave way to newer ones" in last, last)
    said, found = counted(case, "tell: n", [program(case), str(CALLS)], "--keep", "newest")
    by_value(said["n"], found, "n", int)
    said, found = counted(case, "weigh:low=ret:u8", [program(case), "2000"], "--keep", "newest")
    expect(sum(row["count"] for row in found["calls"]) == sum(said["kind"].values()), found)
    for what, options, word in (("tell: n", ("--keep", "oldest"), "takes first or newest"), ("tell: $stack", ("--keep", "newest"), "not of stacks"),
                                ("tell: n", ("--keep", "newest", "--hist", "log2"), "not of a histogram"), ("tell: n", ("--keep", "newest", "--sum", "n"), "not of sums")):
        done = count(case, what, [program(case), "1"], *options)
        expect(done.status == 1 and word in done.stderr, f"{options}: {done.status} {done.stderr}")


def attached(case):
    """A process that runs, with a child that calls: counted for a while, twice, and let go as it was."""
    command = [program(case), "0"]
    with Process(command, cwd=case.folder, env=case.environment(False), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                 start_new_session=True) as process:
        try:
            pid = int(process.stdout.readline().split()[1])
            child = until("the child", lambda: open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8").read().split())[0]
            for _ in range(2):
                done = case.run([case.tool, "count", "--json", "--duration", "300ms", "tell: n", child])
                expect(done.status == 0, f"{done.status} {done.stderr}")
                found = {row["values"]["n"]: row["count"] for row in json.loads(done.stdout)["calls"]}
                expect(len(found) == 40 and max(found.values()) - min(found.values()) <= 1, f"each comes once in a row: {found}")
                done = case.run([case.tool, "count", "--json", "--duration", "300ms", "--sum", "ret", "weigh: kind", child])
                expect(done.status == 0, f"{done.status} {done.stderr}")
                rows = {row["values"]["kind"]: row["count"] for row in json.loads(done.stdout)["calls"]}
                expect(set(rows) == set(KINDS.values()) and max(rows.values()) - min(rows.values()) <= 1, f"each comes once in a row: {rows}")
            with Process([case.tool, "attach", "-q", "-o", case.trace_path, child], cwd=case.folder, env=case.environment(False)) as other:
                until("a recording", lambda: case.run([case.tool, "status", child]).status == 0)
                done = case.run([case.tool, "count", "tell: n", child])
                expect(done.status == 1 and "is traced already" in done.stderr, f"{done.status} {done.stderr}")
                other.send_signal(signal.SIGINT)
                other.wait(20)
            process.stopped = True
            process.stdin.close()
            process.wait(20)
        finally:
            os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else stop(process)


BLOCKED = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int take(int fd)
{
	char byte = 0;

	return (int)read(fd, &byte, 1) * 1000 + byte;
}
int main(void)
{
	int got;

	do {
		puts("ready");
		fflush(stdout);
		got = take(0);
		printf("%d\\n", got);
	} while (got);
	return 3;
}
"""


def sites_on(case, pid):
    done = case.run([case.tool, "status", "--json", str(pid)])
    return done.status == 0 and json.loads(done.stdout)[0]["sites_on"]


def let_go(case):
    """A call that waits for its return when the tool lets go of the program returns as ever, and what has returned was counted."""
    need(case)
    case.as_it_is = True
    program_ = compiled(case, "counts-blocked", BLOCKED, "gcc", "-O1", "-g", "-fpatchable-function-entry=16")
    for options, what in (((), "take: ret"), (("--sum", "ret"), "take: fd"), (("--hist", "log2"), "take: ret")):
        with Process([program_], cwd=case.folder, env=case.environment(False), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
            def give(byte):
                process.stdin.write(byte)
                return process.stdout.readline().strip(), process.stdout.readline().strip()
            expect(process.stdout.readline() == b"ready\n", "it does not begin")
            with Process(["env", "--default-signal", case.tool, "count", "--json", *options, what, str(process.pid)], cwd=case.folder,
                         env=case.environment(False), stdout=subprocess.PIPE) as tool:
                until("a site", lambda: sites_on(case, process.pid))
                for byte in (b"A", b"B", b"C"):  # the first call was there before
                    expect(give(byte) == (str(1000 + byte[0]).encode(), b"ready"), "the result is another one")
                tool.send_signal(signal.SIGINT)
                found = json.loads(tool.communicate(timeout=20)[0])
            expect(give(b"D") == (b"1068", b"ready"), "the result is another one, once the tool is gone")
            process.stdin.close()
            expect(process.stdout.readline() == b"0\n" and process.wait(20) == 3, "the program ends another way")
            rows = found.get("calls") or found["histogram"]
            expect(sum(row["count"] for row in rows) == 2, found)
            expect(not options or "sum" not in rows[0] or rows[0]["sum"] == 2133, found)


def killed(case):
    """A tool that is killed leaves nothing behind, and the program goes on."""
    case.as_it_is = True
    before = set(os.listdir("/tmp"))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        with Process([program(case), "0"], cwd=case.folder, env=case.environment(False), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                     start_new_session=True) as process:
            try:
                pid = int(process.stdout.readline().split()[1])
                child = until("the child", lambda: open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8").read().split())[0]
                # nohup has signals ignored, which the tool keeps to.
                with Process(["env", "--default-signal", case.tool, "count", "tell: n", child], cwd=case.folder, env=case.environment(False)) as tool:
                    until("counting", lambda: "libcalltap-agent" in open(f"/proc/{child}/maps", encoding="utf-8").read())
                    until("a session", lambda: case.run([case.tool, "status", child]).status == 0)
                    tool.send_signal(number)
                    tool.wait(20)
                left = {name for name in set(os.listdir("/tmp")) - before if name.startswith("calltap-count")}
                expect(not left, f"signal {number} leaves {left}")
                expect(open(f"/proc/{child}/stat", encoding="utf-8").read().split()[2] in "RS", "the program has ended, too")
                process.stopped = True
                process.stdin.close()
                process.wait(20)
            finally:
                os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else stop(process)


def refused(case):
    command = [program(case), "10"]
    for what, options, status, word in (
            ("tell: nothing", (), 2, "has no argument 'nothing'"), ("tell:ret", (), 2, "it has no result"),
            ("tell: box->nothing", (), 2, "box has no member 'nothing'"), ("tell:arg1:s33", (), 1, "arg1:s33"),
            ("nobody: n", (), 2, "no function that can be traced matches 'nobody'"),
            ("tell:a=arg3:string[100] b=arg3:string[100]", (), 1, "112 bytes at the most"),
            ("tell: name", ("--hist", "log2"), 1, "a histogram is of one number"), ("tell: n", ("--hist", "log3"), 1, "is no histogram"),
            ("tell:arg1 arg2", ("--hist", "log2"), 1, "a histogram is of one number"),
            ("tell: n", ("--if", "tell: ret:s32 == 0"), 1, "nobody knows the result then"),
            ("tell", ("--hist", "log2"), 1, "names no number for the histogram"),
            ("tell: n", ("--hist", "linear:0:0:5"), 1, "is no histogram")):
        done = count(case, what, command, *options)
        expect(done.status == status and word in done.stderr and "COUNT" not in done.stdout, f"'{what}': {done.status} {done.stderr}")
    for words in ([], ["tell"]):
        done = case.run([case.tool, "count", *words])
        expect(done.status == 1 and done.stderr.startswith("calltap: there is no"), done.stderr)


FORKING = """
#include <sys/wait.h>
#include <unistd.h>
volatile int sink;
__attribute__((noinline)) void work(int who) { sink += who; }
int main(void)
{
	for (int i = 0; i < 10; i++) {
		work(1);
		if (!fork()) {
			for (int k = 0; k < 1000; k++)
				work(2);
			_exit(0);
		}
	}
	while (wait(0) > 0)
		work(1);
	return 0;
}
"""


def alone(case):
    """Without its children, the program's own calls alone are counted, whenever the tool lets these go."""
    need(case)
    case.as_it_is = True
    forking = compiled(case, "counts-forking", FORKING, "gcc", "-O1", "-g")
    for options, wanted in ((["--no-fork"], {1: 20}), ([], {1: 20, 2: 10000})):
        for _ in range(3):
            done = count(case, "work: who", [forking], "--json", *options)
            expect(done.status == 0, done.stderr)
            found = {row["values"]["who"]: row["count"] for row in json.loads(done.stdout.splitlines()[-1])["calls"]}
            expect(found == wanted, f"{options}: {found}, not {wanted}")


def hung_up(case):
    """A terminal's SIGHUP, which the program gets, too: its end is told, and not that it runs on."""
    for _ in range(5):
        with Process([case.tool, "count", "tell: n", "--", program(case), "0"], cwd=case.folder, env=case.environment(False), stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
            process.stdout.readline()
            os.killpg(process.pid, signal.SIGHUP)
            said = process.communicate(timeout=60)[1]
            expect(process.returncode == 129 and b"runs on" not in said, f"{process.returncode} {said}")


SINGLE = {"count-hung-up": hung_up, "count": exact, "count-alone": alone, "count-if": chosen, "count-hist": histograms, "count-sums": sums, "count-returns": returns, "count-placed": placed, "count-full": full, "count-newest": newest, "count-attached": attached, "count-refused": refused, "count-killed": killed, "count-let-go": let_go}

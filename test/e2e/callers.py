"""$pid, $tid, $comm, $time and $stack: who calls is who the kernel says, in threads, after renaming, and in forked processes."""
import collections
import json
import re

from harness import expect


def program(case):
    return case.program("who_calls.c")


def command(case):
    """Nobody clears memory in a child that an emulated program forks by itself: libc's forks alone, there."""
    return [program(case)] if case.cpu.native else [program(case), "libc"]


def said(output):
    """[(pid, tid, name, calls)] as the program says."""
    return [(int(pid), int(tid), name, int(calls)) for pid, tid, name, calls in re.findall(r"^(\d+)\t(\d+)\t(.+)\t(\d+)$", output, re.M)]


def counted(case, what, *options):
    done = case.run([case.tool, "count", "--json", *options, what, "--", *command(case)])
    expect(done.status == 0 and not done.stderr, f"count '{what}': {done.status} {done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    expect(found["others"] == 0, found)
    return said(done.stdout), found["calls"]


def tally(rows, key):
    counts = collections.Counter()
    for row in rows:
        if key(*row) is not None:
            counts[key(*row)] += row[3]
    return counts


def by_caller(case):
    case.as_it_is = True
    for what, names, key in (("work: $pid", ["pid"], lambda pid, tid, name, calls: (pid,)),
                             ("work: $tid", ["tid"], lambda pid, tid, name, calls: (tid,)),
                             ("work: $comm", ["comm"], lambda pid, tid, name, calls: (name,)),
                             ("work: $pid who=$comm $tid", ["pid", "who", "tid"], lambda pid, tid, name, calls: (pid, name, tid))):
        rows, found = counted(case, what)
        got = {tuple(row["values"][name] for name in names): row["count"] for row in found}
        wanted = tally(rows, key)
        expect(len(rows) == (41 if case.cpu.native else 33) and got == wanted, f"{what}: {got}, not {wanted} of {len(rows)}")


def chosen(case):
    case.as_it_is = True
    for condition, test in (("$comm ~ \"worker-*\"", lambda pid, tid, name: name.startswith("worker-")),
                            ("$comm == \"worker-3\" || $tid == $pid", lambda pid, tid, name: name == "worker-3" or pid == tid),
                            ("$tid != $pid && $time > 0", lambda pid, tid, name: pid != tid)):
        rows, found = counted(case, "work: $tid", "--if", f"work: {condition}")
        got = {row["values"]["tid"]: row["count"] for row in found}
        wanted = tally(rows, lambda pid, tid, name, calls: tid if test(pid, tid, name) else None)
        expect(got == wanted, f"--if '{condition}': {got}, not {wanted}")


def shown(case):
    """Events have what their threads have, at the call and at the return; a condition may join who calls with a result."""
    done = case.record(command(case), ["-A", "work:$tid $comm $pid number=arg1:s32", "-R", "work:ret:s32 $tid then=$time",
                                         "--if", "work: $comm ~ \"worker-*\" && ret:s32 >= 100"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    calls = re.findall(r"-(\d+)\) .*work\(tid=(\d+), comm=\"worker-(\d)\", pid=(\d+), number=(\d+)\) = (\d+), tid=(\d+), then=(\d+)", replay)
    rows = [row for row in said(done.stdout) if row[2].startswith("worker-")]
    expect(len(calls) == sum(calls - 100 for _, _, _, calls in rows), f"{len(calls)} calls of {rows}: {replay}")
    expect({(int(pid), int(tid), f"worker-{name}") for _, tid, name, pid, *_ in calls} == {row[:3] for row in rows if row[3] > 100}, replay)
    expect(all(thread == tid == then for thread, tid, _, _, _, _, then, _ in calls), replay)
    expect(all(number == result and int(number) >= 100 for *_, number, result, _, _ in calls), replay)
    expect(all(int(time) > 0 for *_, time in calls), replay)


def stacked(case):
    case.as_it_is = True
    return case.program("stacked.c", variant="-framed", flags=["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"])


OWN = ("main", "run", "wide", "inner", "deep", "...")


def by_stack(case):
    """Stacks are the ones that the program has had, from its own main() on; libc's own are left out."""
    done = case.run([case.tool, "count", "--json", "work: $stack", "--", stacked(case)])
    expect(done.status == 0 and not done.stderr, f"{done.status} {done.stderr}")
    found = json.loads(done.stdout)
    got = collections.Counter()
    for row in found["calls"]:
        expect(row["call"] == ";".join([*row["stack"], "work"]) and row["values"] == {}, row)
        got[";".join(name for name in row["stack"] if name in OWN)] += row["count"]
    wanted = collections.Counter({"main": 5, "main;inner": 5 + 1})
    # Emulators have no call that copies memory, so there a thread's stack is known up to its page alone.
    if not case.cpu.native:
        wanted["inner"] += 20
    for start in ("main;run", "run") if case.cpu.native else ("main;run",):
        for number in range(20):
            wanted[start + ";wide" * (number % 4 + 1) + ";inner"] += 1
    far = [name for name in got if name.startswith("...;")]
    expect(len(far) == 1 and set(far[0].split(";")) == {"...", "deep"} and got.pop(far[0]) == 1, f"the deep one: {far}")
    expect(got == wanted and found["others"] == 0, f"{got}, not {wanted}")
    table = case.run([case.tool, "count", "work:$stack number=arg1:s32", "--", stacked(case)]).stdout
    expect(re.search(r"^ +1  (.*;)?main;inner;work\(number=9\)$", table, re.M), table)


def by_lies(case):
    """Frame pointers that lead anywhere do no harm, and the caller is right."""
    done = case.run([case.tool, "count", "--json", "work: $stack", "--", stacked(case), "lies"])
    expect(done.status == 0 and not done.stderr, f"{done.status} {done.stderr}")
    calls = json.loads(done.stdout)["calls"]
    expect(sum(row["count"] for row in calls) == 15 and all(row["stack"][-1] == "lie" for row in calls), calls)


def refused(case):
    case.as_it_is = True
    for arguments, word in ((["count", "--if", "work: $stack == 1", "work", "--"], "not compared"), (["count", "--hist", "log2", "work: $stack", "--"], "of one number"),
                            (["record", "-A", "work:$stack", "--"], "calltap count"), (["count", "work: number nothing $stack", "--"], "no argument 'nothing'"),
                            (["count", "work: $tid:string", "--"], "number is missing")):
        done = case.run([case.tool, *arguments, program(case)])
        expect(done.status in (1, 2) and word in done.stderr and not done.stdout, f"{arguments}: {done.status} {done.stderr}")


SINGLE = {"count-stacks": by_stack, "count-stacks-lies": by_lies, "callers-refused": refused, "count-callers": by_caller, "count-callers-if": chosen, "callers-shown": shown}

"""`calltap set` with values: what calls tell, and which are recorded, changes while the program runs."""
import json
import re
import signal
import time

from endings import finish, start, wait_for
from harness import expect, stop, until
from steer import calltap
from typed import compiled
from values import need

PROGRAM = r'''#include <signal.h>
#include <stdio.h>
#include <unistd.h>
enum mode { SLOW, FAST = 3 };
static volatile sig_atomic_t over;
static void end(int number) { over = number; }
__attribute__((noinline)) int leaf(int n, enum mode mode) { __asm__ volatile("" ::"r"(mode)); return n * 2; }
__attribute__((noinline)) int step(int n, const char *text) { __asm__ volatile("" ::"r"(text)); return leaf(n, n & 1 ? FAST : SLOW) + 1; }
int main(void)
{
	signal(SIGTERM, end);
	printf("ready %d\n", getpid());
	fflush(stdout);
	for (int i = 0; !over; i++) {
		step(i % 10, i & 1 ? "odd" : "even");
		usleep(200);
	}
	puts("all was well");
	return 42;
}
'''
# What is set; what each call is to show from then on, as "arguments result"; whether all of leaf's calls are there.
STAGES = (
    (["-A", "step", "-A", "leaf", "-R", "leaf"], r"step n=\d, text=\"(odd|even)\"|leaf n=\d, mode=(FAST|SLOW) \d+"),
    (["if=leaf: mode == FAST"], r"step n=\d, text=\"(odd|even)\"|leaf n=[13579], mode=FAST \d+"),
    (["--if", "step: n < 3", "args+=main"], r"step n=[012], text=\"(odd|even)\"|leaf n=[13579], mode=FAST \d+"),
    (["if=", "args=leaf:x=arg1:s32", "result="], r"step|leaf x=\d"),
    (["only-if=step: ret > 15"], r"step|leaf x=[89]"),
    (["-a", "only-if="], r"step n=\d, text=\"(odd|even)\" \d+|leaf n=\d, mode=(FAST|SLOW) \d+|leaf x=\d \d+"),
    (["args=", "auto-args=off"], r"step|leaf"),
    (["registers=args", "registers+=result", "-A", "leaf:x=arg1:s32"], r"step n=\d, text=\S+ \d+|leaf x=\d \d+"),
    (["registers=caller", "args="], r"step \$caller=main\+0x[0-9a-f]+|leaf \$caller=step\+0x[0-9a-f]+"),
    (["registers=", "-A", "step:$caller", "--if", "leaf: $caller != 0"], r"step caller=main\+0x[0-9a-f]+|leaf"),
    (["args=", "if="], r"step|leaf"),
)


def stages_of(case):
    """Of each mark's part of the trace, what the calls of step and leaf show."""
    parts, open_calls = [[]], []
    for line in map(json.loads, case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout.splitlines()):
        if line["ev"] == "mark":
            parts.append([])
        elif line["ev"] == "enter":
            open_calls.append([line["fn"], ""])
        elif line["ev"] in ("arguments", "result") and open_calls:
            open_calls[-1][1] += " " + line["text"]
        elif line["ev"] == "leave" and open_calls:
            name, shown = open_calls.pop()
            if name in ("step", "leaf"):
                parts[-1].append(name + shown)
    return parts


def steered(attach):
    """Each stage's calls, but for those that are open at the change, show what was set, and no other."""
    def test(case):
        need(case)
        if attach:
            case.need_native("attaching")
        case.as_it_is = True
        program = compiled(case, "stages", PROGRAM, "cc", "-O0", "-g")
        options = ["--no-libcalls"] if attach else ["--no-libcalls", "-l", "step", "-l", "leaf", "-l", "main"]
        output, process = start(case, [program] if attach else case.record_command([program], options))
        tool = None
        try:
            pid = int(wait_for(output, "ready").split()[1])
            if attach:
                _, tool = start(case, [case.tool, "attach", "-o", case.trace_path, *options, str(pid)])
            def recorded():
                return case.run([case.tool, "status", str(pid), "--json"])
            until("a session", lambda: recorded().status == 0)
            for words, _ in STAGES:
                calltap(case, "set", pid, *words)
                calltap(case, "mark", pid, "a stage")
                before = json.loads(recorded().stdout)[0]["records"]
                until("more records", lambda before=before: json.loads(recorded().stdout)[0]["records"] > before + 200)
                calltap(case, "mark", pid, "the next one")
            for words, why in ((["-A", "nobody"], "no function that is recorded matches 'nobody'"), (["--if", "leaf: nothing == 3"], "no value"),
                               (["if=leaf: arg1 =="], "value or a number is missing"), (["auto-args=perhaps"], "on or off"), (["registers=all"], "it is args, result or caller"),
                               (["-A", "leaf", "threshold=1ms"], "--threshold"), (["-A", "leaf", "tracer=function"], "function_graph")):
                before = calltap(case, "set", pid)
                expect(why in calltap(case, "set", pid, *words, status=1), f"{words}")
                expect(calltap(case, "set", pid) == before, f"{words} has changed something")
            time.sleep(0.1)
            process.send_signal(signal.SIGTERM) if attach else case.run(["kill", str(pid)])
            expect(finish(process) == 42, "the program's end is another one")
            if tool:
                expect(finish(tool) == 0, "the tool's status")
        finally:
            stop(process)
            if tool:
                stop(tool)
        parts = stages_of(case)
        expect(len(parts) == 2 * len(STAGES) + 1, f"{len(parts)} parts")
        for (words, wanted), shown in zip(STAGES, parts[1::2]):
            inner = shown[3:-3]
            wrong = [text for text in inner if not re.fullmatch(wanted, text)]
            expect(len(inner) > 20 and not wrong, f"{words}: {len(inner)} calls, {wrong[:5]} of {len(wrong)}")
            kinds = {re.sub(r"\d+", "N", text) for text in inner}
            expect({text.split()[0] for text in kinds} == {"step", "leaf"}, f"{words}: {kinds}")
        case.readable()
    return test


SINGLE = {
    "revalued-record": steered(False),
    "revalued-attach": steered(True),
}

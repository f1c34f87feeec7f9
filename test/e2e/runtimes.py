"""Runtimes of languages that look for return addresses on the stack, or that throw through frames in assembly."""
import os
import re
import shutil
import signal
import subprocess
import time

from harness import Process, expect, until
from stock import native, need, same, written
from steer import own_place

LUA = r"""
local sum, deep = 0, nil
local function fails(n) if n % 3 == 0 then error({n}) elseif n % 3 == 1 then error("text" .. n) end return n end
deep = function(n) if n == 0 then error("deep") end return deep(n - 1) + 1 end
for i = 1, tonumber(arg[1]) do
	local good, what = pcall(fails, i)
	sum = (sum * 31 + (good and what or type(what) == "table" and what[1] or #what)) % 1000007
	if i % 50 == 0 then sum = sum + select("#", xpcall(deep, debug.traceback, i % 40)) end
	if i % 10 == 0 then
		local thread = coroutine.wrap(function(a) local b = coroutine.yield(a + 1); error("of a coroutine" .. b) end)
		sum = sum + thread(i) + (pcall(thread, 2) and 1 or 0)
	end
	local text = {} for k = 1, 20 do text[k] = string.format("%d %s", k, i) end
	table.sort(text, function(a, b) return a > b end)
	sum = sum + #table.concat(text)
end
print(sum)
"""
OCAML = r"""
let rec make n = if n = 0 then [] else n :: make (n - 1)
let rec fails n = if n = 0 then failwith "deep" else 1 + fails (n - 1)
let () =
  let sum = ref 0 in
  for i = 0 to int_of_string Sys.argv.(1) do
    sum := (!sum * 31 + List.length (make 100) + Hashtbl.hash (string_of_int i)) land 0xffffff;
    (try sum := !sum + fails (i mod 20) with Failure text -> sum := !sum + String.length text);
    if i mod 1000 = 0 then (Gc.compact (); sum := !sum + String.length (Digest.string (string_of_int i)))
  done;
  print_int !sum; print_newline ()
"""
JAVA = r"""
import java.util.*;
public class Work {
	static int deeper(int n) { if (n == 0) throw new IllegalStateException("deep"); return deeper(n - 1) + 1; }
	public static void main(String[] arguments) throws Exception {
		long sum = 0;
		List<String> kept = new ArrayList<>();
		for (int i = 0; i < Integer.parseInt(arguments[0]); i++) {
			kept.add("x" + i);
			if (i % 5000 == 0) { kept.clear(); System.gc(); }
			try { sum += deeper(i % 30); } catch (IllegalStateException e) { sum = sum * 31 + e.getStackTrace().length; }
		}
		Thread[] threads = new Thread[4];
		long[] sums = new long[4];
		for (int t = 0; t < 4; t++) { int n = t; threads[t] = new Thread(() -> { for (int i = 0; i < 100000; i++) sums[n] += new int[i % 50].length; }); threads[t].start(); }
		for (int t = 0; t < 4; t++) { threads[t].join(); sum += sums[t]; }
		System.out.println(sum + " " + kept.size());
	}
}
"""


def while_it_runs(case, command, *options):
    """Attached to three times while it runs, or until it ends, it prints what it prints alone."""
    own_place(case)
    plain, good = case.run(command), 0
    with Process(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=case.folder, start_new_session=True) as program:
        time.sleep(0.2)
        while good < 3 and program.poll() is None:
            done = case.run([case.tool, "attach", "--mode", "drop", "--duration", "100ms", "-o", case.trace_path, *options, str(program.pid)])
            expect(done.status == 0 or "has ended" in done.stderr, f"status {done.status}: {done.stderr!r}")
            good += done.status == 0
        said = program.communicate(timeout=120)[0]
    expect(program.returncode == plain.status and said == plain.stdout + plain.stderr, f"status {program.returncode}: {said!r}, alone {plain.stdout!r}")
    expect(good, "it was over too soon")


def luajit(case):
    """It throws through frames in assembly, whose personality routine asks for the CFA."""
    program = [need("luajit", "/usr/bin/luajit"), written(case, "work.lua", LUA)]
    same(case, [*program, "3000"], calls=1000)
    while_it_runs(case, [*program, "150000"], "-l", "*:*")


def ocaml(case):
    """Its collector looks for the return addresses of compiled OCaml; its functions in C are traced."""
    compiler = need("ocaml", "/usr/bin/ocamlopt")
    source = written(case, "work.ml", OCAML)
    done = case.run([compiler, "-o", "work", source])
    expect(not done.status, done.stderr)
    shutil.copy(os.path.join(case.folder, "work"), os.path.join(case.folder, "bare"))
    expect(not case.run(["strip", "bare"]).status, "strip failed")
    for name in ("work", "bare"):
        program = os.path.join(case.folder, name)
        same(case, [program, "3000"], calls=100)
        while_it_runs(case, [program, "3000000"], "-l", "*:*")
    said = case.run([case.tool, "functions", os.path.join(case.folder, "work")]).stdout
    expect(re.search(r" caml_alloc_shr\n", said) and re.search(r"camlWork__make\w+  \(its language's runtime", said), said[-2000:])


def hotspot(case):
    """It takes the word below a Java frame for a return address into that."""
    java = need("openjdk", *(f"/usr/lib/jvm/java-{number}-openjdk-amd64/bin/java" for number in (17, 21, 25)))
    same(case, [java, "-XX:+UseSerialGC", written(case, "Work.java", JAVA), "20000"], calls=10)


SOURCE = r"""
#define FUNCTION(name) __attribute__((noinline)) int name(int n) { __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop"); return n + 1; }
FUNCTION(plain)
FUNCTION(camlWork__f_12)
FUNCTION(caml_start_program)
FUNCTION(caml_curry2)
FUNCTION(caml_alloc_shr)
FUNCTION(camlp4)
__asm__(".text\n.globl takes_off\n.type takes_off, %function\ntakes_off:\n.cfi_startproc\nmov 8(%rsp), %rax\nadd $5, %rax\n"
	"nop\nret $8\n.cfi_endproc\n.size takes_off, . - takes_off\n");
"""


def listed(case, *flags, more=""):
    """{function: why it is left alone, or ""} of a library."""
    source = written(case, "runtime.c", SOURCE + more)
    done = case.run(["gcc", "-O2", "-shared", "-fPIC", "-o", "runtime.so", source, *flags])
    expect(not done.status, done.stderr)
    said = case.run([case.tool, "functions", os.path.join(case.folder, "runtime.so")]).stdout
    return {name: why or "" for name, why in re.findall(r"(?:stock|-) +(\w+)(?:  \((.*)\))?$", said, re.MULTILINE)}


def names(case):
    """What is left alone is known by names, or by the whole object's, and `functions` says so."""
    alone = "its language's runtime looks for return addresses, or moves them"
    found = listed(case)
    for name, why in (("plain", ""), ("caml_alloc_shr", ""), ("camlp4", ""), ("camlWork__f_12", alone), ("caml_start_program", alone),
                      ("caml_curry2", alone), ("takes_off", "uses its return address or has none")):
        expect(found.get(name) == why, f"{name}: {found.get(name)!r}")
    for flags, more in ((["-Wl,-soname,libjvm.so"], ""), ([], "FUNCTION(MVM_jit_code_enter)"), ([], "FUNCTION(pypy_main_startup)"),
                        ([], '__attribute__((section(".svm_heap"))) int heap = 1;'), ([], "int mono_aot_file_info = 1;")):
        found = listed(case, *flags, more=more)
        expect(found.get("plain") == alone and found.get("caml_alloc_shr") == alone, f"{flags}, {more!r}: {found}")


BARE = r"""
#include <stdio.h>
#include <stdlib.h>
void *kept;
int saves(void), comes_back(int n);
/* The program's entry is a function of another name, and has argc where others have a return address. */
__asm__(".text\n.globl begin_program\n.type begin_program, %function\nbegin_program:\n"
	"xor %ebp, %ebp\nmov %rdx, %r9\npop %rsi\nmov %rsp, %rdx\nand $-16, %rsp\npush %rax\npush %rsp\nxor %r8d, %r8d\n"
	"xor %ecx, %ecx\nlea main(%rip), %rdi\ncall *__libc_start_main@GOTPCREL(%rip)\nhlt\n.size begin_program, . - begin_program\n"
	/* Returns by itself and once more by the other one, which takes its own return address off: a setjmp() of a kind. */
	".globl saves\n.type saves, %function\nsaves:\npop %rax\npush %rax\nmov %rax, kept(%rip)\nmov %rsp, %rcx\nnop\nnop\n"
	"xor %eax, %eax\nret\n.size saves, . - saves\n"
	".globl comes_back\n.type comes_back, %function\ncomes_back:\nmov %edi, %eax\npop %rdx\nmov kept(%rip), %rdx\nnop\nnop\n"
	"push %rdx\nret\n.size comes_back, . - comes_back\n");
__attribute__((noinline)) int plain(int n) { __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop"); return n + 1; }
int main(int argc, char **argv)
{
	volatile int rounds = 0;
	int came = saves();
	printf("%d arguments, %s, came %d, %d\n", argc, argv[1], came, plain(rounds));
	fflush(stdout);
	if (rounds++ < 2)
		comes_back(rounds);
	return 0;
}
"""


def without_tables(case):
    """As Free Pascal's: no unwind table, an entry of another name, functions that take their return address off the stack."""
    source = written(case, "bare.c", BARE)
    done = case.run(["gcc", "-O1", "-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer", "-fcf-protection=none", "-no-pie", "-fno-pie",
                     "-nostartfiles", "-Wl,-e,begin_program", "-o", "bare", source])
    expect(not done.status, done.stderr)
    same(case, [os.path.join(case.folder, "bare"), "one"], calls=3, functions=["plain"])


LISP = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char *volatile top;
static int ends[2];
/* What the collector does: is the caller's address on the stack of the thread that has called libc? */
__attribute__((noinline)) void call_into_lisp(void) { __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop"); }
static __attribute__((noinline, section("lisp"))) void *compiled(void *arg)
{
	char byte;

	top = __builtin_frame_address(0);
	return read(ends[0], &byte, 1) == 1 ? arg : NULL;
}
extern char __start_lisp[], __stop_lisp[];
int main(int argc, char **argv)
{
	pthread_t thread;
	int lost = 0;

	if (pipe(ends) || pthread_create(&thread, NULL, compiled, NULL))
		return 1;
	usleep(300000); /* the thread is in read() then */
	for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 100); i++) {
		int found = 0;

		usleep(3000);
		call_into_lisp();
		for (char *at = top - 1024; at < top; at += 8)
			found |= *(uintptr_t *)at - (uintptr_t)__start_lisp < (uintptr_t)(__stop_lisp - __start_lisp);
		lost += !found;
	}
	if (write(ends[1], "", 1) == 1)
		pthread_join(thread, NULL);
	printf("lost %d times\n", lost);
	return 7;
}
"""


def lisp(case):
    """SBCL's collector moves compiled code but for what a word on some stack may return to: no return address is replaced."""
    own_place(case)
    source, program = written(case, "lisp.c", LISP), os.path.join(case.folder, "lisp")
    done = case.run(["gcc", "-O2", "-rdynamic", "-pthread", "-o", program, source])
    expect(not done.status, done.stderr)
    plain, why = case.run([program]), "a Lisp runtime, whose collector looks for return addresses on stacks"
    expect(plain.status == 7 and plain.stdout == "lost 0 times\n", f"{plain.status}: {plain.stdout!r}")
    refused = case.record([program], ["-l", "*:*"], log=False)
    expect(refused.status == 2 and why in refused.stderr and not refused.stdout, f"{refused.status}: {refused.stderr!r}")
    child = case.record(["sh", "-c", f"{program}; exit $?"], ["-l", "*:*"], log=False)
    expect(child.status == 7 and child.stdout == plain.stdout and why in child.stderr, f"{child.status}: {child.stdout!r} {child.stderr!r}")
    entries = case.record([program], ["-l", "*:*", "-p", "function"], log=False)
    expect(entries.status == 7 and entries.stdout == plain.stdout, f"{entries.status}: {entries.stdout!r} {entries.stderr!r}")
    expect(case.trace().called().get("usleep", 0) > 50, f"{case.trace().called()}")
    attach = [case.tool, "attach", "-o", case.trace_path, "-l", "libc.so*:usleep"]
    with Process([program, "1000"], stdout=subprocess.PIPE, text=True, cwd=case.folder, start_new_session=True) as process:
        time.sleep(0.1)
        done = case.run([*attach, str(process.pid)])
        expect(done.status == 2 and why in done.stderr, f"{done.status}: {done.stderr!r}")
        with Process([*attach, "-p", "function", str(process.pid)], stderr=subprocess.PIPE, cwd=case.folder) as tool:
            until("the session", lambda: not case.run([case.tool, "status", str(process.pid)]).status)
            for command in (["attach", "-o", case.trace_path + "2", "-l", "libc.so*:usleep", str(process.pid)],
                            ["set", str(process.pid), "tracer=function_graph"]):
                done = case.run([case.tool, *command])
                expect(done.status and why in done.stderr, f"{command}: {done.status}, {done.stderr!r}")
            tool.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[0]
    expect(process.returncode == 7 and said == plain.stdout, f"status {process.returncode}: {said!r}")


AS_IT_IS = True  # see harness.py
SINGLE = {f"runtime-{test.__name__}": native(test) for test in (luajit, ocaml, names, without_tables, lisp)}
LONG = {"runtime-hotspot": native(hotspot)}

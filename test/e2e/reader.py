"""What a reader with fresh eyes found: rows that looked alike, messages without a remedy, waits without a word."""
import json
import os
import re
import shutil
import signal
import time

from endings import finish, start, wait_for
from harness import expect, stop
from typed import compiled
from values import need

READS = r'''#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	char text[64];
	int fd = openat(AT_FDCWD, "/dev/zero", O_RDONLY);
	for (int i = 0; i < 5; i++)
		if (read(fd, text, 10) != 10)
			return 1;
	FILE *file = fopen("/dev/zero", "r");
	return fread(text, 1, 20, file) != 20;
}
'''


def told_apart(case):
    """Calls by the PLT, and those of the function in libc, are two rows of one name: each says whose it is."""
    need(case)
    case.need_native("libc's own functions")
    case.as_it_is = True
    program = compiled(case, "reads", READS, "cc", "-O1", "-g")
    done = case.record([program], ["-a", "-l", "read", "-l", "libc.so.6:read"], log=False)
    expect(done.status == 0, done.stderr)
    for options in ((), ("--by", "read(fd)")):
        lines = case.run([case.tool, "report", "-i", case.trace_path, *options]).stdout.splitlines()[1:]
        names = [line.split("  ")[-1].strip() for line in lines if "read" in line]
        first = [name for name in names if "fd=" not in name or "fd=3" in name]
        expect(sorted(name.rpartition(" ")[2] for name in first) == ["[libc.so.6]", "[reads]"], f"{options}: {names}")
        expect(len(set(names)) == len(names), f"{options}: {names}")
    rows = json.loads(case.run([case.tool, "report", "-i", case.trace_path, "--by", "read(fd)", "--json"]).stdout)["rows"]
    expect({os.path.basename(row["object"]) for row in rows} == {"reads", "libc.so.6"}, f"{rows}")


def no_wait(case):
    """A named pipe is refused in place of a wait for somebody who reads it; standard output may be one."""
    path = os.path.join(case.folder, "pipe")
    os.mkfifo(path)
    program = case.program("calls.c")
    done = case.run([case.tool, "record", "-o", path, "--", program], timeout=20)
    expect(done.status != 0 and "named pipe" in done.stderr and not done.stdout, f"{done.status} {done.stderr}")
    done = case.run(["sh", "-c", f"'{case.tool}' record -q -o /dev/stdout -- '{program}' 2> /dev/null | wc -c"])
    expect(int(done.stdout) > 100, done.stdout)


def imported(case):
    """A function that is a library's is named as such, and never proposed to whoever typed its name."""
    need(case)
    case.as_it_is = True
    program = compiled(case, "reads", READS, "cc", "-O1", "-fpatchable-function-entry=16,14")
    done = case.run([case.tool, "record", "-o", case.trace_path, "-l", "openat", "--", program])
    expect(done.status != 0 and "--libcalls" in done.stderr and "near" not in done.stderr, done.stderr)
    done = case.record([program], ["--libcalls", "-l", "openat"], log=False)
    expect(done.status == 0 and case.trace().called() == {"openat": 1}, f"{done.status} {done.stderr}")


def for_a_time(case):
    """`live --duration` ends by itself: a process that ran already goes on."""
    case.need_native("attaching")
    case.as_it_is = True
    output, process = start(case, [case.program("attachee.c")])
    try:
        pid = wait_for(output, "ready").split()[1]
        began = time.monotonic()
        done = case.run([case.tool, "live", "--duration", "300ms", pid])
        expect(done.status == 0 and "leaf_1" in done.stdout, f"{done.status} {done.stderr}")
        expect(time.monotonic() - began >= 0.3 and process.poll() is None, "it did not wait, or the process has ended")
        done = case.run([case.tool, "live", "--duration", "soon", pid])
        expect(done.status != 0 and "duration" in done.stderr, f"{done.status} {done.stderr}")
        process.send_signal(signal.SIGTERM)
        expect(finish(process) == 42, "the program's end")
    finally:
        stop(process)


CALLBACKS = r'''#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
typedef void (*end)(void *);
__attribute__((noinline)) int call(end f, double (*g)(double), const void *p) { __asm__ volatile("" ::"r"(f), "r"(g), "r"(p)); return 0; }
int main(void)
{
	void *late;
	call(free, cbrt, (const char *)free + 4);
	late = dlopen("libz.so.1", RTLD_NOW);
	return call(late ? (end)dlsym(late, "crc32") : free, lgamma, NULL);
}
'''


def into_libraries(case):
    """Functions of libraries in which nothing is traced have names in values, also of one that comes later."""
    need(case)
    case.need_native("the symbols of this machine's libraries")
    case.as_it_is = True
    program = compiled(case, "callbacks", CALLBACKS, "cc", "-O0", "-g", "-lm")
    done = case.record([program], ["--no-libcalls", "-a"], log=False)
    shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    expect(done.status == 0 and re.search(r"call\(f=free, g=cbrt, p=free\+0x4\)", shown), shown)
    expect(re.search(r"call\(f=(crc32|free), g=lgamma, p=NULL\)", shown), shown)
    case.readable()
    # Without values there is nothing that would need it.
    case.record([program], ["--no-libcalls"], log=False)
    expect(not any("libm" in path for path in case.trace().objects.values()), f"{case.trace().objects}")


STATIC = r'''#include <fcntl.h>
#include <unistd.h>
__attribute__((noinline)) int leaf(int n, const char *text) { __asm__ volatile("" ::"r"(text)); return n * 2; }
int main(void) { return leaf(3, "abc") + close(open("/dev/null", O_RDONLY)); }
'''


def static(case):
    """A static program's functions tell what its types do; of those of its C library it is said that nothing tells."""
    need(case)
    case.need_native("static programs")
    case.as_it_is = True
    compilers = ["cc"] + ["musl-gcc"] * bool(shutil.which("musl-gcc"))
    for compiler in compilers:
        program = compiled(case, f"static-{compiler}", STATIC, compiler, "-O0", "-g", "-static")
        done = case.record([program], ["-a", "-l", "main", "-l", "leaf", "-l", "open"], log=False)
        shown = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        expect(done.status == 6 and 'leaf(n=3, text="abc") = 6' in shown and "open()" in shown, f"{done.status} {done.stderr} {shown}")
        done = case.run([case.tool, "record", "-o", case.trace_path, "-l", "open", "-A", "open", "--", program])
        expect(done.status != 0 and "no debug information of 'open'" in done.stderr and "open:arg1" in done.stderr, f"{done.status} {done.stderr}")
        done = case.record([program], ["-l", "open", "-A", "open:path=arg1:string", "--if", "open: arg2:s32 == 0"], log=False)
        expect('open(path="/dev/null")' in case.run([case.tool, "replay", "-i", case.trace_path]).stdout, done.stderr)


SINGLE = {
    "reader-static": static,
    "reader-into-libraries": into_libraries,
    "reader-told-apart": told_apart,
    "reader-no-wait": no_wait,
    "reader-imported": imported,
    "reader-for-a-time": for_a_time,
}

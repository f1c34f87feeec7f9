#!/usr/bin/env python3
"""The verb `functions` as a person uses it: what it lists, what it exits with, what it says when it cannot.

Usage: functions_verb.py CALLTAP SOURCE_DIR SEEDS_DIR, which has objects for every CPU.
"""
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import wrapped  # noqa: E402  (the path above is what finds it)

# The compiler flags that the message names for this machine; whether it has calls of __fentry__.
PATCHABLE = "-fpatchable-function-entry=" + ("1" if platform.machine() == "aarch64" else "5")
FENTRY = platform.machine() == "x86_64"
# What is said of a function without a site of the compiler's: some CPUs' stock functions can be traced.
STOCK = platform.machine() == "x86_64"
START = "stock       _start  (uses its return address or has none)" if STOCK else "_start  (built without a site)"


class Case:
    """Runs the command in a directory of its own and collects what was wrong."""

    def __init__(self, tool, directory):
        self.tool, self.directory, self.failed = os.path.abspath(tool), directory, 0

    def run(self, *arguments):
        environment = dict(os.environ, PATH=self.directory + "/bin:" + os.environ["PATH"], LC_ALL="C")
        return subprocess.run([self.tool, "functions", *arguments], cwd=self.directory, env=environment,
                              capture_output=True, text=True, check=False)

    def expect(self, status, wanted_out, wanted_error, *arguments):
        done = self.run(*arguments)
        wrong = [f"exit status {done.returncode}, not {status}"] if done.returncode != status else []
        wrong += [f"no {text!r} in the output" for text in wanted_out if text not in done.stdout]
        wrong += [f"no {text!r} in the errors" for text in wanted_error if text not in done.stderr]
        if not wanted_error and done.stderr:
            wrong.append(f"unexpected errors: {done.stderr}")
        print("FAIL" if wrong else "ok  ", *arguments)
        for text in wrong:
            print(f"       {text}\n{done.stdout}{done.stderr}")
        self.failed += bool(wrong)


def build(source, output, flags):
    subprocess.run(["gcc", "-w", "-O1", *flags.split(), "-o", output, source], check=True)


def make_programs(sources, directory):
    os.mkdir(os.path.join(directory, "bin"))
    source = os.path.join(sources, "known.c")
    for name, flags in {"bin/known": "-fpatchable-function-entry=5", "short": "-fpatchable-function-entry=1,1",
                        "plain": "", "mcount": "-pg", "static": "-static -fpatchable-function-entry=5",
                        "static-stripped": "-static -s -fpatchable-function-entry=5",
                        "cyg": "-finstrument-functions", "object.o": "-c -fpatchable-function-entry=5",
                        "libknown.so": "-shared -fPIC -fpatchable-function-entry=5"}.items():
        build(source, os.path.join(directory, name), flags)
    with open(os.path.join(directory, "script"), "w", encoding="ascii") as file:
        file.write("#!/bin/sh\ntrue\n")
    os.chmod(os.path.join(directory, "script"), 0o755)
    with open(os.path.join(directory, "list"), "w", encoding="ascii") as file:
        file.write("# some\nglobal_*\nmain\n")


def check_libraries(case):
    """A filter with an object lists functions of the program's libraries; nothing of the program is run for that."""
    if "MESON_EXE_WRAPPER" in os.environ:
        return
    case.expect(0, ["libc.so.6:\n", "  getpid"], [], "known", "libc.so.6:getpid")
    case.expect(0, ["bin/known:\n", "main", "libc.so.6:\n", "getpid"], [], "known", "libc.so.6:getpid", "main")
    case.expect(0, ['"object":"' + case.directory + '/bin/known"', "/libc.so.6\""], [], "--json", "known", "libc.so.6:getpid", "main")
    case.expect(1, [], ['filter "libm*:*" matches no function'], "known", "libm*:*")
    loader = os.path.join(case.directory, "ld-own")
    with open(loader, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\ntouch {case.directory}/was-run\n")
    os.chmod(loader, 0o755)
    build(os.path.join(sys.argv[2], "known.c"), os.path.join(case.directory, "loaded"),
          "-fpatchable-function-entry=5 -Wl,--dynamic-linker=" + loader)
    case.expect(1, [], ["matches no function"], "./loaded", "libc.so.6:getpid")
    wrong = os.path.exists(os.path.join(case.directory, "was-run"))
    print("FAIL" if wrong else "ok  ", "a program's own loader is not run")
    case.failed += wrong


SHARED = """
template<class T> struct Box { T v; __attribute__((noinline)) T get() const { return v; } };
inline __attribute__((noinline)) int shared(int x) { return x * 3; }
"""


def lost_tables(case, compiler, flags):
    """Do two files that share inline functions keep the sites of both?  None: they cannot be linked."""
    for name, text in (("one", "int two(int); int main() { Box<int> b{1}; return shared(b.get()) + two(2); }\n"),
                       ("two", "int two(int x) { Box<int> b{x}; return shared(b.get()); }\nint three() { return 3; }\n")):
        with open(os.path.join(case.directory, name + ".cc"), "w", encoding="ascii") as file:
            file.write(SHARED + text)
    done = subprocess.run([compiler, "-w", "-O0", *flags.split(), "-o", "shared", "one.cc", "two.cc"], cwd=case.directory,
                          stderr=subprocess.DEVNULL, check=False)
    output = case.run("./shared").stdout
    return None if done.returncode else "three()  (built without a site)" in output or "stock       three()" in output


def check_lost_tables(case):
    """Whatever the compiler does: the remedy is told when sites were lost, and only then."""
    note = "g++ before 13 loses the sites"
    lost = lost_tables(case, "g++", "-fpatchable-function-entry=5")
    if lost is not None:
        case.expect(0, [note, "g++ 13 and " + PATCHABLE] if lost else [], [], "./shared")
        wrong = not lost and note in case.run("./shared").stdout
        print("FAIL" if wrong else "ok  ", "sites lost by g++:", lost)
        case.failed += wrong
    for compiler, flags in (("g++", "-pg -mfentry"), ("clang++", "-fpatchable-function-entry=5")):
        if not shutil.which(compiler) or ("-mfentry" in flags and not FENTRY):
            continue
        wrong = lost_tables(case, compiler, flags) is not False or note in case.run("./shared").stdout
        print("FAIL" if wrong else "ok  ", "the remedy", compiler, flags)
        case.failed += wrong


NESTED = """
__attribute__((noinline, noipa)) static int apply(int (*function)(int)) { return function(1); }
__attribute__((noinline)) int outer(int n)
{
	__attribute__((noinline, noipa)) int inner(int k) { return n += k; }
	return apply(inner) + n;
}
int main(int argc, char **argv) { return outer(argc) == 0; }
"""


def check_nested(case):
    """A nested function's call of __fentry__ lies behind a push: that is the reason told, and nobody traces it."""
    with open(os.path.join(case.directory, "nested.c"), "w", encoding="ascii") as file:
        file.write(NESTED)
    source = os.path.join(case.directory, "nested.c")
    for flags in ("", "-fcf-protection", "-O0", "-fno-pie -no-pie", "-fno-pie -no-pie -mnop-mcount"):
        build(source, os.path.join(case.directory, "nested"), "-pg -mfentry " + flags)
        case.expect(0, ["  (its site is not at its entry)\n", "2 functions, 1 traceable; 1 its site is not at"], [],
                    "./nested", "inner*", "outer")
    build(source, os.path.join(case.directory, "nested"), PATCHABLE)
    case.expect(0, ["patchable   inner.", "1 traceable"], [], "./nested", "inner*")


def check_unprepared(case):
    """Programs without a site of the compiler's: their functions as they are, or what to build them with."""
    if STOCK:
        for name in ("./plain", "./mcount"):
            case.expect(0, ["stock       main\n", "stock       swapcontext  (returns twice", START], [], name)
        case.expect(2, ["stock       main  (uses its return address"], ["-finstrument-functions"], "./cyg")
        subprocess.run(["strip", "plain"], cwd=case.directory, check=True)
        case.expect(0, ["stock       plain+0x"], [], "./plain", "plain+0x*")
        return
    case.expect(2, ["0 traceable"], [PATCHABLE, "rustc"], "./plain")
    case.expect(2, [], ["-pg alone"], "./mcount")
    case.expect(2, [], ["-finstrument-functions"], "./cyg")


def check_json(case):
    done = case.run("--json", "known")
    listing = json.loads(done.stdout)
    functions = {f["symbol"]: f for f in listing["functions"]}
    right = (done.returncode == 0 and listing["count"] == len(listing["functions"])
             and listing["traceable"] == sum(f["traceable"] for f in listing["functions"]) == 6
             and listing["not_traceable"]["returns twice or switches stacks"] == 1
             and functions["main"]["site"] == "patchable" and functions["main"]["reason"] is None
             and functions["_start"]["site"] == ("stock" if STOCK else None) and not functions["_start"]["traceable"])
    print("ok  " if right else "FAIL", "--json")
    case.failed += not right


def check_foreign(case, seeds):
    """Files for other CPUs are listed like this one's; only the remedies differ."""
    for cpu, count in (("riscv64", "6 functions, 2"), ("aarch64", "7 functions, 3")):
        case.expect(0, ["patchable   hidden\n", "setjmp  (returns twice", "find  (uses its return address", count],
                    [], os.path.join(seeds, cpu + ".so"))
    unaligned = os.path.join(seeds, "riscv64-unaligned")
    case.expect(0, ["hidden  (too few aligned bytes for a jump)", "2 functions, 1 traceable", "-falign-functions=4"],
                [], unaligned, "hidden", "work")
    case.expect(2, ["work  (uses its return address or has none)"], ["-pg alone", "build it with -fpatchable-function-entry=1 ("],
                os.path.join(seeds, "aarch64-mcount.so"))
    listing = json.loads(case.run("--json", unaligned, "hidden").stdout)
    right = listing["functions"][0]["reason"] == "too few aligned bytes for a jump" and listing["traceable"] == 0
    print("ok  " if right else "FAIL", "--json of another CPU's")
    case.failed += not right


def main():
    with tempfile.TemporaryDirectory() as directory:
        make_programs(sys.argv[2], directory)
        case = Case(wrapped.program(sys.argv[1], directory), directory)
        case.expect(0, ["patchable   static_one\n", "swapcontext  (returns twice", START,
                        "6 traceable; 1 returns twice"], [], "known")
        case.expect(0, ["1 function, 1 traceable\n"], [], "known", "static_on?")
        case.expect(0, ["3 functions, 3 traceable\n"], [], "known", "@list")
        case.expect(0, ["7 functions, 6 traceable"], [], "libknown.so", "/^[a-z]/")
        case.expect(0, ["1 function, "], [], "libknown.so", "libknown*:main")
        case.expect(2, ["too few bytes for a jump"], ["says why of each", PATCHABLE], "./short")
        check_unprepared(case)
        case.expect(0, ["patchable   static_one\n"], [], "./static")
        case.expect(2, [], ["linked statically and stripped"], "./static-stripped")
        case.expect(1, [], ["script; trace its interpreter instead: /bin/sh ./script"], "./script")
        case.expect(1, [], ["link it"], "./object.o")
        case.expect(1, [], ["not an ELF"], "./list")
        case.expect(1, [], ["directory"], ".")
        case.expect(1, [], ["no such program"], "nothere")
        case.expect(1, [], ["did you mean static_one, static_two"], "known", "static_on")
        case.expect(1, [], ["glob[al_one\n      ^"], "known", "glob[al_one")
        case.expect(1, [], ["cannot be read"], "known", "@nolist")
        case.expect(1, [], ["--bogus"], "--bogus", "known")
        case.expect(1, [], ["name the program"])
        case.expect(0, ["--json"], [], "--help")
        check_json(case)
        if FENTRY:
            check_nested(case)
        check_libraries(case)
        check_lost_tables(case)
        check_foreign(case, os.path.abspath(sys.argv[3]))
    return 1 if case.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Gate: what the build made for the target is fit to run there, for each CPU that it made an agent for.

Objects of the rooms ring, probe and arch (run-time part) may call nothing outside themselves (so no helper of the
compiler's, either), use no dynamic TLS and touch no floating-point or vector register; the agent's library needs no
other library, exports only what its version script lists, and leaves undefined only the symbols in agent-symbols.txt
beside this file.  The agent for programs that link musl is to have no static TLS, which musl's loader refuses to what
comes later; one object finds its variable, which is the first of the library's.  The agent for static programs is to have
none either: no loader gives it any.
`--build DIR` names the build directory (default: build)."""
import json
import os
import platform
import re
import shutil
import sys
import tempfile

import lint

PURE = ("ring", "probe", "arch")
TARGET_ROOMS = ("base", "arch", "ring", "probe", "patch", "tracers", "agent")
LINKER_SYMBOLS = {"_GLOBAL_OFFSET_TABLE_", "__ehdr_start", "_DYNAMIC"}
DYNAMIC_TLS = re.compile(r"R_\w+?_(TLS_?GD|TLS_?LD|TLS_?DESC|TLS_DTP|DTP|GOTPC32_TLSDESC)\w*\b")
STATIC_TLS = re.compile(r"R_\w+?_(GOTTPOFF|TPOFF)\w*\b")
MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
# What objdump prints of floating-point and vector registers, and of instructions that touch them without naming one.
VECTOR = {
    "x86_64": re.compile(r"%(?:[xyz]mm\d|mm[0-7]|st\b|k[0-7]\b)|\t(?:fx?save|fx?rstor|xsave|xrstor|fld|fst|emms)\w*\b"),
    "aarch64": re.compile(r"[\t ,{\[](?:[bhsdqvz]\d+|p\d+)\b|\bfp[cs]r\b|\bsmst(?:art|op)\b"),
    "riscv64": re.compile(r"[\t ,(](?:f[tsa]\d+|v\d+)\b|\tvset|\tf[rs](?:csr|rm|flags)|"
                          r"\b(?:fcsr|frm|fflags|vl|vtype|vstart)\b"),
}
NO_OPERAND = re.compile(r"^ *[0-9a-f]+:|\b[0-9a-f]+ <[^>]*>|(?:#|//).*")  # address, target of a branch, comment
SYMBOL_LIST = os.path.join(lint.ROOT, "test", "lint", "agent-symbols.txt")
AGENT = "libcalltap-agent.so"
MUSL = "libcalltap-agent-musl.so"
STATIC = "libcalltap-agent-static.so"
OTHERS = ("-musl", "-static")  # agents beside the one for this CPU's loaders
FINDS_BLOCK = os.path.join("src", "arch", "x86_64", "runtime", "dynamic_tls", "find.S")


def build_dir(root):
    if "--build" in sys.argv:
        return sys.argv[sys.argv.index("--build") + 1]
    return os.path.join(root, "build")


def cpu_of(path):
    with open(path, "rb") as file:
        return MACHINES[int.from_bytes(file.read(20)[18:20], "little")]


def tool(name, cpu):
    """The program of binutils that reads the CPU's files."""
    return name if cpu == platform.machine() else f"{cpu}-linux-gnu-{name}"


def own_objects(root, build, kind=""):
    """{source: object file} of what the build compiled for its own agent, or one of OTHERS, from its compilation
    database."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
            output = os.path.join(entry["directory"], entry.get("output", ""))
            # The same source is built for tests, too: the agent's copy is the one that counts.
            shipped = os.path.relpath(output, build).startswith(os.path.join("src", "agent"))
            shipped = shipped and kind == next((other for other in OTHERS if f"{other}." in output), "")
            if shipped and lint.room(source) in TARGET_ROOMS and os.path.isfile(output):
                found[source] = output
    return found


def foreign_objects(library):
    """The same of an agent for another CPU, whose objects lie beside it, named after folder and source."""
    found = {}
    for name in lint.files(library + ".p", ".o"):
        folder, source = name[:-len(".o")].split("_", 1)
        found[os.path.join("src", "arch" if folder == "runtime" else folder, source)] = os.path.join(library + ".p", name)
    return found


def symbols(path, *options):
    """(kind, name) pairs as nm prints them."""
    for line in lint.run([tool("nm", cpu_of(path)), *options, path]).stdout.splitlines():
        match = re.match(r"^[0-9a-f]* *([A-Za-z]) (\S+)$", line)
        if match:
            yield match.group(1), match.group(2).split("@")[0]


def check_object(source, path, defined, musl=False):
    findings = []
    cpu = cpu_of(path)
    for kind, name in symbols(path):
        if kind in "Uw" and name not in defined and name not in LINKER_SYMBOLS:
            findings.append(f"{source}:1: ({cpu}) calls or reads {name}, which is in no room that may run in a traced "
                            "function")
    relocations = re.split(r"^Relocation section '", lint.run(["readelf", "-rW", path]).stdout, flags=re.M)
    code = "\n".join(section for section in relocations if not section.startswith(".rela.debug"))
    for match in DYNAMIC_TLS.finditer(code):
        if not (musl and source == FINDS_BLOCK and match.group(1) == "TLSGD"):
            findings.append(f"{source}:1: ({cpu}) dynamic TLS ({match.group(0)}); build with -ftls-model=initial-exec")
    for match in STATIC_TLS.finditer(code) if musl else ():
        findings.append(f"{source}:1: ({cpu}) static TLS ({match.group(0)}); go by thread_block.h")
    function = ""
    for line in lint.run([tool("objdump", cpu), "-d", "--no-show-raw-insn", path]).stdout.splitlines():
        if line.endswith(">:"):
            function = line.split("<")[1][:-2]
        elif VECTOR[cpu].search(NO_OPERAND.sub("", line)):
            findings.append(f"{source}:1: ({cpu}) {function} uses a vector or floating-point register: {line.strip()}")
    return findings


def version_script_names(root):
    names = set()
    for path in lint.files(root, ".map", ".ver", ".lds", under="src/agent"):
        text = lint.strip_comments(lint.read(root, path))
        for block in re.findall(r"global:(.*?)(?:local:|\})", text, re.S):
            names |= set(re.findall(r"[A-Za-z_][\w*]*", block))
    return names


def listed_symbols():
    with open(SYMBOL_LIST, encoding="utf-8") as file:
        return {line.split()[0] for line in file if line.strip() and not line.startswith("#")}


def check_library(path, exported, allowed):
    name = os.path.basename(path)
    findings = []
    for match in re.finditer(r"\(NEEDED\).*\[(.*)\]", lint.run(["readelf", "-dW", path]).stdout):
        findings.append(f"{name}:1: needs {match.group(1)}; the agent links nothing")
    for kind, symbol in symbols(path, "-D"):
        if kind in "Uwv":
            if symbol not in allowed:
                findings.append(f"{name}:1: undefined symbol {symbol} is not in test/lint/agent-symbols.txt")
        elif symbol not in exported and kind != "A":
            findings.append(f"{name}:1: exports {symbol}, which its version script does not list")
    return findings


def check_musl(path):
    """What is special to the agent for musl."""
    findings = [f"{os.path.basename(path)}:1: {match.group(0)}, which musl's loader refuses"
                for match in STATIC_TLS.finditer(lint.run(["readelf", "-rW", path]).stdout)]
    variables = re.findall(r": ([0-9a-f]+) .* TLS .* (\S+)$", lint.run(["readelf", "-sW", path]).stdout, re.M)
    if [(int(value, 16), name) for value, name in variables] != [(0, "probe_thread")]:
        findings.append(f"{os.path.basename(path)}:1: its thread-local variables are {variables}, not probe_thread at 0")
    return findings


def check_agent(root, library, built, musl=False):
    """One CPU's agent: its objects and the library."""
    pure = {source: path for source, path in built.items() if lint.room(source) in PURE}
    if not pure:
        return [f"{library}:1: no objects of ring, probe and arch are there"]
    reachable = (path for source, path in built.items() if lint.room(source) in PURE + ("base",))
    defined = {name for path in reachable for kind, name in symbols(path) if kind not in "Uw"}
    findings = []
    for source, path in sorted(pure.items()):
        findings += check_object(source, path, defined, musl)
    findings += check_musl(library) if musl else []
    return findings + check_library(library, version_script_names(root), listed_symbols())


def check(root):
    build = build_dir(root)
    if not shutil.which("objdump"):
        raise lint.Skip("binutils is not installed")
    if not os.path.exists(os.path.join(build, "compile_commands.json")):
        raise lint.Skip("there is no compile_commands.json; build first")
    folder = os.path.join(build, "src", "agent")
    if not os.path.exists(os.path.join(folder, AGENT)):
        return [f"{build}:1: the build holds no {AGENT}"]
    findings = check_agent(root, os.path.join(folder, AGENT), own_objects(root, build))
    for kind, name in zip(OTHERS, (MUSL, STATIC)):
        if os.path.exists(os.path.join(folder, name)):
            findings += check_agent(root, os.path.join(folder, name), own_objects(root, build, kind), musl=True)
        elif cpu_of(os.path.join(folder, AGENT)) == "x86_64":
            findings.append(f"{build}:1: the build holds no {name}")
    for cpu in sorted(MACHINES.values()):
        library = os.path.join(folder, cpu, AGENT)
        if os.path.exists(library):
            findings += check_agent(root, library, foreign_objects(library))
    return findings


# Each must be found, on every CPU: (text, flags).
IMPURE = {
    "libc call": ("void g(char *p);\nvoid g(char *p)\n{\n\t__builtin_puts(p);\n}\n", []),
    "compiler's helper": ("unsigned __int128 g(unsigned __int128 a, unsigned __int128 b);\n"
                          "unsigned __int128 g(unsigned __int128 a, unsigned __int128 b)\n{\n\treturn a / b;\n}\n", []),
    "floating point": ("double g(double a);\ndouble g(double a)\n{\n\treturn a * 2;\n}\n", []),
    "floating point, hidden": ("unsigned g(unsigned n);\nunsigned g(unsigned n)\n{\n\tfloat a;\n\n"
                               "\t__builtin_memcpy(&a, &n, 4);\n\treturn (unsigned)(a * 2);\n}\n", []),
    "dynamic TLS": ("static __thread int t;\nint *g(void);\nint *g(void)\n{\n\treturn &t;\n}\n", ["-fPIC"]),
}
# Likewise, on one.
IMPURE_ON = {
    "x86_64": {"x87": ("long double g(long double a);\nlong double g(long double a)\n{\n\treturn a * a;\n}\n", [])},
    "aarch64": {"outline atomics": ("int g(int *p);\nint g(int *p)\n{\n\treturn __atomic_fetch_add(p, 1, 5);\n}\n",
                                    ["-moutline-atomics"]),
                "status register": ("void g(long v);\nvoid g(long v)\n{\n\t__asm__(\"msr fpsr, %0\" : : \"r\"(v));\n}\n", [])},
    "riscv64": {"atomics of a byte": ("int g(char *p);\nint g(char *p)\n{\n\treturn __atomic_fetch_add(p, 1, 5);\n}\n", []),
                "status register": ("void g(long v);\nvoid g(long v)\n{\n\t__asm__(\"fscsr %0\" : : \"r\"(v));\n}\n", [])},
}
# Long enough that addresses look like registers.
PURE_TEXT = """static __thread int t __attribute__((tls_model("initial-exec")));
extern int f(int *p, long d0) __attribute__((visibility("hidden")));
int g(int a);
int g(int a)
{
	for (int i = 0; i < a; i++)
		t += f(&t, i) + f(&t, i + 1) + f(&t, i + 2) + f(&t, i + 3) + f(&t, i + 4) + f(&t, i + 5);
	return __atomic_load_n(&t, __ATOMIC_ACQUIRE) * 2;
}
"""


class Compiler:
    """Makes objects and libraries of little sources for one CPU."""

    def __init__(self, folder, cpu):
        self.folder, self.program = folder, tool("gcc", cpu)

    def make(self, name, text, *flags):
        source, output = os.path.join(self.folder, "a.c"), os.path.join(self.folder, name)
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        result = lint.run([self.program, "-O1", *flags, "-o", output, source])
        if result.returncode:
            raise RuntimeError(f"the self-test cannot compile: {result.stdout}")
        return output


def self_test_cpu(cpu, folder):
    """(what was tried, findings, whether there must be some)"""
    compiler = Compiler(folder, cpu)
    for label, (text, flags) in {**IMPURE, **IMPURE_ON[cpu]}.items():
        yield label, check_object("a.c", compiler.make("a.o", text, "-c", *flags), {"g"}), True
    yield "pure", check_object("a.c", compiler.make("a.o", PURE_TEXT, "-c", "-fPIC"), {"g", "f"}), False
    text = "int getpid(void);\nint g(void);\nint g(void)\n{\n\treturn getpid();\n}\n"
    alone = compiler.make("a.so", text, "-shared", "-fPIC", "-nostdlib")
    linked = compiler.make("b.so", text, "-shared", "-fPIC", "-Wl,--no-as-needed")
    libc = {name for kind, name in symbols(linked, "-D") if kind in "Uwv"}
    yield "undefined symbol", check_library(alone, {"g"}, set()), True
    yield "exported symbol", check_library(alone, set(), {"getpid"}), True
    yield "needed library", check_library(linked, {"g"}, libc), True
    yield "library that is fit", check_library(alone, {"g"}, {"getpid"}), False


def self_test_musl(folder):
    """The same of what is special to the agent for musl."""
    compiler = Compiler(folder, "x86_64")
    text = PURE_TEXT.replace('extern int f(int *p, long d0) __attribute__((visibility("hidden")));',
                             "static int f(int *p, long d0)\n{\n\treturn (int)(*p + d0);\n}")
    yield "static TLS", check_object("a.c", compiler.make("a.o", text, "-c", "-fPIC"), {"g"}, musl=True), True
    yield "library that musl refuses", check_musl(compiler.make("a.so", text, "-shared", "-fPIC", "-nostdlib")), True
    text = "int f(int a);\nint f(int a)\n{\n\treturn a + 1;\n}\n"
    yield "no TLS", check_object("a.c", compiler.make("a.o", text, "-c", "-fPIC"), {"f"}, musl=True), False
    text = '__thread long probe_thread __attribute__((visibility("hidden"))) = 1;\n' + text
    yield "library that musl takes", check_musl(compiler.make("a.so", text, "-shared", "-fPIC", "-nostdlib")), False


def self_test():
    """On each CPU whose compiler is here, impure objects and libraries must be found, and pure ones pass."""
    wrong = []
    for cpu in sorted(MACHINES.values()):
        if not shutil.which(tool("gcc", cpu)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            tries = [*self_test_cpu(cpu, folder), *(self_test_musl(folder) if cpu == "x86_64" else ())]
            for label, found, bad in tries:
                if bool(found) != bad:
                    wrong.append(f"self-test '{label}' on {cpu}: found {found}")
    return wrong


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        problems = self_test()
        print("\n".join(problems))
        sys.exit(1 if problems else 0)
    lint.main(check, {})

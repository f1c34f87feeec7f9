#!/usr/bin/env python3
"""Gate: what the build made for the target is fit to run there.

Objects of the rooms ring, probe and arch (run-time part) may call nothing outside themselves, use no dynamic TLS and
touch no floating-point or vector register; the agent's library needs no other library, exports only what its version
script lists, and leaves undefined only the symbols in agent-symbols.txt beside this file.
`--build DIR` names the build directory (default: build)."""
import json
import os
import re
import shutil
import sys
import tempfile

import lint

PURE = ("ring", "probe", "arch")
TARGET_ROOMS = ("base", "arch", "ring", "probe", "patch", "tracers", "agent")
LINKER_SYMBOLS = {"_GLOBAL_OFFSET_TABLE_", "__ehdr_start", "_DYNAMIC"}
DYNAMIC_TLS = re.compile(r"R_\w+_(TLSGD|TLSLD\w*|DTP\w+|TLSDESC\w*|GOTPC32_TLSDESC)\b")
# %st(0), %xmm1, %mm0 on x86-64.  fxsave and kin name no register and are caught by their mnemonic.
VECTOR = re.compile(r"%(?:[xyz]mm\d|mm[0-7]|st\b|k[0-7]\b)|\t(?:fx?save|fx?rstor|xsave|xrstor|fld|fst|emms)\w*\b")
SYMBOL_LIST = os.path.join(lint.ROOT, "test", "lint", "agent-symbols.txt")


def build_dir(root):
    if "--build" in sys.argv:
        return sys.argv[sys.argv.index("--build") + 1]
    return os.path.join(root, "build")


def objects(root, build):
    """{source: object file} of what the build compiled for the target, from its compilation database."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
            output = os.path.join(entry["directory"], entry.get("output", ""))
            # The same source is built for tests, too: the agent's copy is the one that counts.
            shipped = os.path.relpath(output, build).startswith(os.path.join("src", "agent"))
            if shipped and lint.room(source) in TARGET_ROOMS and os.path.isfile(output):
                found[source] = output
    return found


def symbols(path, *options):
    """(kind, name) pairs as nm prints them."""
    for line in lint.run(["nm", *options, path]).stdout.splitlines():
        match = re.match(r"^[0-9a-f]* *([A-Za-z]) (\S+)$", line)
        if match:
            yield match.group(1), match.group(2).split("@")[0]


def check_object(source, path, defined):
    findings = []
    for kind, name in symbols(path):
        if kind in "Uw" and name not in defined and name not in LINKER_SYMBOLS:
            findings.append(f"{source}:1: calls or reads {name}, which is in no room that may run in a traced function")
    relocations = re.split(r"^Relocation section '", lint.run(["readelf", "-rW", path]).stdout, flags=re.M)
    code = "\n".join(section for section in relocations if not section.startswith(".rela.debug"))
    for match in DYNAMIC_TLS.finditer(code):
        findings.append(f"{source}:1: dynamic TLS ({match.group(0)}); build with -ftls-model=initial-exec")
    function = ""
    for line in lint.run(["objdump", "-d", "--no-show-raw-insn", path]).stdout.splitlines():
        if line.endswith(">:"):
            function = line.split("<")[1][:-2]
        elif VECTOR.search(line):
            findings.append(f"{source}:1: {function} uses a vector or floating-point register: {line.strip()}")
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


def libraries(build):
    return [os.path.join(build, path) for path in lint.files(build, "libcalltap-agent.so")]


def check(root):
    build = build_dir(root)
    if not shutil.which("objdump"):
        raise lint.Skip("binutils is not installed")
    if not os.path.exists(os.path.join(build, "compile_commands.json")):
        raise lint.Skip("there is no compile_commands.json; build first")
    built = objects(root, build)
    pure = {source: path for source, path in built.items() if lint.room(source) in PURE}
    shipped = libraries(build)
    if not pure or not shipped:
        return [f"{build}:1: the build holds {len(pure)} objects of ring, probe and arch and {len(shipped)} agent libraries"]
    reachable = (path for source, path in built.items() if lint.room(source) in PURE + ("base",))
    defined = {name for path in reachable for kind, name in symbols(path) if kind not in "Uw"}
    findings = []
    for source, path in sorted(pure.items()):
        findings += check_object(source, path, defined)
    for path in shipped:
        findings += check_library(path, version_script_names(root), listed_symbols())
    return findings


def self_test():
    """Each impure object and library must be found; the pure ones must pass."""
    cases = {
        "libc call": ("void g(char *p);\nvoid g(char *p)\n{\n\t__builtin_puts(p);\n}\n", [], True),
        "vector register": ("double g(double a);\ndouble g(double a)\n{\n\treturn a * 2;\n}\n", [], True),
        "x87": ("long double g(long double a);\nlong double g(long double a)\n{\n\treturn a * a;\n}\n", [], True),
        "dynamic TLS": ("static __thread int t;\nint *g(void);\nint *g(void)\n{\n\treturn &t;\n}\n", ["-fPIC"], True),
        "pure": ("int g(int a);\nint g(int a)\n{\n\treturn a * 2;\n}\n", ["-fPIC"], False),
    }
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        def compile_to(name, text, flags):
            source, output = os.path.join(folder, "a.c"), os.path.join(folder, name)
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            result = lint.run(["cc", "-O1", *flags, "-o", output, source])
            return output if result.returncode == 0 else wrong.append(f"self-test cannot compile: {result.stdout}")
        for label, (text, flags, bad) in cases.items():
            found = check_object("a.c", compile_to("a.o", text, ["-c", *flags]), {"g"})
            if bool(found) != bad:
                wrong.append(f"self-test '{label}': found {found}")
        text = "int getpid(void);\nint g(void);\nint g(void)\n{\n\treturn getpid();\n}\n"
        alone = compile_to("a.so", text, ["-shared", "-fPIC", "-nostdlib"])
        linked = compile_to("b.so", text, ["-shared", "-fPIC", "-Wl,--no-as-needed"])
        libc = {name for kind, name in symbols(linked, "-D") if kind in "Uwv"}
        for label, found, bad in (("undefined symbol", check_library(alone, {"g"}, set()), True),
                                  ("exported symbol", check_library(alone, set(), {"getpid"}), True),
                                  ("needed library", check_library(linked, {"g"}, libc), True),
                                  ("library that is fit", check_library(alone, {"g"}, {"getpid"}), False)):
            if bool(found) != bad:
                wrong.append(f"self-test '{label}': found {found}")
    return wrong


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        problems = self_test()
        print("\n".join(problems))
        sys.exit(1 if problems else 0)
    lint.main(check, {})

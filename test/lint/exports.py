#!/usr/bin/env python3
"""Gate: libcalltap.so exports what its version script lists, which is what the public headers declare, needs no library
but libc, and has the name that programs are linked to.  (The agent's exports are purity's.)
`--build DIR` names the build directory (default: build)."""
import glob
import os
import re
import shutil
import sys

import lint

MAP = os.path.join("src", "lib", "libcalltap.map")
NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-linux-riscv64-lp64d.so.1"}
SONAME = "libcalltap.so.0"
DECLARED = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z_][\w \t\n*]*?\b(calltap_\w+)\s*\(", re.M)


def library(root):
    """The built library; None: there is none."""
    build = sys.argv[sys.argv.index("--build") + 1] if "--build" in sys.argv else os.path.join(root, "build")
    if root != lint.ROOT:  # a tree of the self-test: built now
        build = os.path.join(root, "build")
        os.makedirs(os.path.join(build, "src", "lib"))
        made = lint.run(["cc", "-shared", "-fPIC", "-o", os.path.join(build, "src", "lib", SONAME), f"-Wl,-soname,{SONAME}",
                         os.path.join(root, "lib.c")])
        if made.returncode:
            raise lint.Skip(made.stdout)
    found = glob.glob(os.path.join(build, "src", "lib", "libcalltap.so.*.*")) or \
        glob.glob(os.path.join(build, "src", "lib", SONAME))
    return next((path for path in found if os.path.isfile(path)), None)


def listed(root):
    text = lint.strip_comments(lint.read(root, MAP))
    return set(re.findall(r"\b(\w+);", text.split("local:")[0]))


def declared(root):
    """Functions of the public headers that are no inline ones."""
    found = set()
    for path in lint.files(root, ".h", under=os.path.join("include", "calltap")):
        if os.sep + "abi" + os.sep not in path:
            found |= set(DECLARED.findall(lint.strip_directives(lint.strip_comments(lint.read(root, path)))))
    return found


def exported(path):
    """Names, without the version's own."""
    lines = lint.run(["nm", "-D", "--defined-only", path]).stdout.splitlines()
    return {line.split()[2].split("@")[0] for line in lines if len(line.split()) == 3 and line.split()[1] != "A"}


def check_library(path):
    dynamic = lint.run(["readelf", "-d", "-W", path]).stdout
    findings = [f"needs {name}" for name in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic) if name not in NEEDED]
    if re.findall(r"\(SONAME\).*\[(.+)\]", dynamic) != [SONAME]:
        findings.append(f"is not called {SONAME}")
    return findings


def compare(path, ours, theirs, what):
    return [f"{path}:1: {name} {what}" for name in sorted(ours - theirs)]


def check(root):
    if not os.path.exists(os.path.join(root, MAP)):
        return [f"{MAP}:1: there is no such file"]
    names, public = listed(root), declared(root)
    findings = compare(MAP, names, public, "is declared by no public header")
    findings += compare(MAP, public, names, "is declared by a public header, and not listed")
    if not shutil.which("nm") or not shutil.which("readelf"):
        raise lint.Skip("binutils is not installed")
    path = library(root)
    if not path:
        raise lint.Skip("libcalltap.so is not built")
    found = exported(path)
    findings += compare(MAP, found, names, "is exported, and not listed")
    findings += compare(MAP, names, found, "is listed, and not exported")
    return findings + [f"{os.path.basename(path)}:1: {finding}" for finding in check_library(path)]


TREE = {MAP: "V {\n\tglobal:\n\t\tcalltap_a;\n\tlocal:\n\t\t*;\n};\n", "include/calltap/a.h":
        "struct calltap_x;\nint calltap_a(struct calltap_x *x)\n\t__attribute__((warn_unused_result));\n"
        "static inline int calltap_b(void)\n{\n\treturn 1;\n}\n",
        "lib.c": "int calltap_a(void)\n{\n\treturn 0;\n}\n"}
BAD = {
    "not listed": {**TREE, "lib.c": TREE["lib.c"] + "int helper;\n"},
    "not exported": {**TREE, "lib.c": "static int a;\nint *calltap_a_not(void)\n{\n\treturn &a;\n}\n"},
    "not declared": {**TREE, "include/calltap/a.h": "int x;\n"},
    "declared only": {**TREE, "include/calltap/b.h": "int calltap_c(void);\n"},
    "no map": {"lib.c": TREE["lib.c"]},
}
GOOD = {"clean": TREE}

if __name__ == "__main__":
    if "--self-test" in sys.argv and "--build" in sys.argv:
        del sys.argv[sys.argv.index("--build"):sys.argv.index("--build") + 2]
    lint.main(check, BAD, GOOD)

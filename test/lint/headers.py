#!/usr/bin/env python3
"""Gate: each public header compiles alone, as C99 and as C++17; those of the ABI, which only this project
includes, as C11."""
import os
import shutil

import lint

PUBLIC = ((["cc", "-std=c99", "-x", "c"]), (["c++", "-std=c++17", "-x", "c++"]))
ABI = (["cc", "-std=c11", "-x", "c"],)


def check(root):
    findings = []
    if not shutil.which("cc") or not shutil.which("c++"):
        raise lint.Skip("cc or c++ is not installed")
    for path in lint.files(root, ".h", under="include"):
        abi = os.sep + "abi" + os.sep in path
        for compiler in ABI if abi else PUBLIC:
            command = compiler + ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                                  "-I" + os.path.join(root, "include"), "-include", os.path.join(root, path), os.devnull]
            result = lint.run(command)
            if result.returncode:
                first = next((l for l in result.stdout.splitlines() if "error" in l), result.stdout[:200])
                findings.append(f"{path}:1: not valid {compiler[1][5:]}: {first.replace(root + os.sep, '')}")
    return findings


BAD = {
    "needs another header": {"include/calltap/a.h": "uint32_t f(void);\n"},
    "not C++": {"include/calltap/a.h": "struct a {\n\tint class;\n};\n"},
    "not C99": {"include/calltap/a.h": "_Static_assert(1, \"x\");\n"},
    "abi header broken": {"include/calltap/abi/a.h": "struct a {\n"},
}
GOOD = {"clean": {"include/calltap/a.h": "#include <stdint.h>\nuint32_t calltap_f(void);\n"}}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)

#!/usr/bin/env python3
"""Gate: every C file is as clang-format (with the .clang-format of the project) would write it."""
import os
import re
import shutil

import lint

STYLE = os.path.join(lint.ROOT, ".clang-format")


def check(root):
    if not shutil.which("clang-format"):
        raise lint.Skip("clang-format is not installed")
    paths = lint.files(root, ".c", ".h", ".cc")
    if not paths:
        return []
    result = lint.run(["clang-format", "--dry-run", "-Werror", "--style=file:" + STYLE] + paths, cwd=root)
    places = re.findall(r"^(\S+):(\d+):\d+: ", result.stdout, re.M)
    findings = []
    for path in dict.fromkeys(path for path, _ in places):
        lines = [line for where, line in places if where == path]
        findings.append(f"{path}:{lines[0]}: {len(lines)} places are not as clang-format has them; run clang-format -i")
    if result.returncode and not findings:
        findings = ["clang-format:1: " + result.stdout.strip()]
    return findings


BAD = {"spaces": {"src/a.c": "int  f( void )\n{\n  return 1;\n}\n"}}
GOOD = {"clean": {"src/a.c": "int f(void)\n{\n\treturn 1;\n}\n"}}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)

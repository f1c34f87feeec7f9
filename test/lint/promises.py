#!/usr/bin/env python3
"""Gate: each promise of doc/design/transparency.md names a test that exists.

The table's last column holds names in back quotes: files (with a folder or an ending), Meson tests (agent-..., fuzz-...),
options of commands (with a space; not looked at), or cases of test/e2e, where `*` stands for several."""
import fnmatch
import os
import re
import sys

import lint

DOCUMENT = "doc/design/transparency.md"


def cases(root):
    """The names of all cases, without their builds."""
    listed = lint.run([sys.executable, os.path.join(root, "test", "e2e", "run.py"), "--long", "--list"]).stdout
    return {line.split("/")[0] for line in listed.split()}


def meson_tests(root):
    return "\n".join(lint.read(root, path) for path in lint.files(root, "meson.build", under="test"))


def exists(root, name, known, built):
    if "/" in name or name.endswith((".py", ".c")):
        wanted = name if "/" in name else "*/" + name
        return any(fnmatch.fnmatch(path, wanted) for path in lint.files(root, under="test"))
    if re.match(r"(agent|fuzz|host)-", name):
        return f"'{name.split('-', 1)[1]}'" in built or f"'{name}'" in built
    return any(fnmatch.fnmatch(case, name) for case in known)


def check(root):
    if not os.path.exists(os.path.join(root, DOCUMENT)):
        return [f"{DOCUMENT}:1: there is no such file"]
    findings, known, built = [], cases(root), meson_tests(root)
    for number, line in enumerate(lint.read(root, DOCUMENT).split("\n"), 1):
        columns = line.split("|")
        if len(columns) < 5 or columns[1].strip() in ("promise", "---"):
            continue
        names = [name for name in re.findall(r"`([^`]+)`", columns[3]) if " " not in name and not name.startswith("--")]
        if not names and "every case" not in columns[3] and "bench/" not in columns[3]:
            findings.append(f"{DOCUMENT}:{number}: the promise names no test: {columns[1].strip()}")
        for name in names:
            if not exists(root, name, known, built):
                findings.append(f"{DOCUMENT}:{number}: there is no test '{name}'")
    return findings


def tree(row):
    return {DOCUMENT: f"| promise | how | test |\n|---|---|---|\n{row}\n",
            "test/e2e/run.py": "print('longjumps/gcc-O2', 'limited-files')\n",
            "test/unit/agent/meson.build": "foreach name : ['stub']\n", "test/unit/agent/test_stub.c": "int x;\n"}


BAD = {
    "no such case": tree("| a | b | `longjump` |"),
    "no such file": tree("| a | b | `test_stubs.c` |"),
    "no such unit test": tree("| a | b | `agent-bpf` |"),
    "no test at all": tree("| a | b | – |"),
    "no document": {"README.md": "text\n"},
}
GOOD = {"all there": tree("| a | b | `longjumps`, `long*`, `limited-*`, `test_stub.c`, `agent-stub` |")}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)

#!/usr/bin/env python3
"""Gate: what is the same on several CPUs lies in src/arch/generic: less than 10 % of the
lines in the CPUs' directories are another CPU's, too.

Counted are lines of code: no blank lines, no comments.  Lines are compared without their white space, and with the
CPU's own names (rv_, RISCV64, ...) taken for the same; a line is duplicated when it lies in a run of at least 4 lines
that some file of another CPU has, too.  `--table` prints the counts, and how much code the CPUs share."""
import re
import sys

import lint

LIMIT = 10  # percent
RUN = 4
ENDINGS = (".c", ".h", ".S", ".inc")
SHARED = "generic"
OWN_NAME = re.compile(r"\b(?:x86|a64|rv)_|(?:x86_64|aarch64|riscv64)(?=\b|_)", re.I)
PORTABLE = {"the target's portable rooms": ("base", "ring", "probe", "patch", "agent"),
            "the host": ("host", "cmd", "tracers")}


def code_lines(root, path):
    text = lint.strip_comments(lint.read(root, path))
    return [line for line in ("".join(OWN_NAME.sub("cpu_", line).split()) for line in text.split("\n")) if line]


def cpus(root):
    """{directory under src/arch: {path: lines}}"""
    found = {}
    for path in lint.files(root, *ENDINGS, under="src/arch"):
        found.setdefault(path.split("/")[2], {})[path] = code_lines(root, path)
    return found


def runs(files):
    return {tuple(lines[at:at + RUN]) for lines in files.values() for at in range(len(lines) - RUN + 1)}


def duplicated(files, others):
    """{path: how many of its lines lie in runs that others have}"""
    counts = {}
    for path, lines in files.items():
        hit = set()
        for at in range(len(lines) - RUN + 1):
            if tuple(lines[at:at + RUN]) in others:
                hit.update(range(at, at + RUN))
        counts[path] = len(hit)
    return counts


def count(root):
    """{cpu: (lines, {path: duplicated lines})}"""
    found = cpus(root)
    found.pop(SHARED, None)
    seen = {cpu: runs(files) for cpu, files in found.items()}
    result = {}
    for cpu, files in found.items():
        others = set().union(*(seen[other] for other in seen if other != cpu))
        result[cpu] = (sum(map(len, files.values())), duplicated(files, others))
    return result


def check(root):
    counts = count(root)
    total = sum(lines for lines, _ in counts.values())
    doubled = {path: found for _, paths in counts.values() for path, found in paths.items()}
    share = 100 * sum(doubled.values()) / max(total, 1)
    if share < LIMIT:
        return []
    worst = max(doubled, key=doubled.get)
    return [f"{worst}:1: {share:.1f} % of the CPUs' lines are another CPU's, too ({doubled[worst]} of this file's); "
            f"what is the same belongs in src/arch/{SHARED}"]


def table(root):
    counts = count(root)
    total = sum(lines for lines, _ in counts.values())
    for cpu, (lines, doubled) in sorted(counts.items()):
        parts = {}
        for path, found in cpus(root)[cpu].items():
            part = path.split("/")[3]
            parts[part] = parts.get(part, 0) + len(found)
        print(f"{cpu:<30}{lines:6}  ({', '.join(f'{part} {size}' for part, size in sorted(parts.items()))}); "
              f"{sum(doubled.values())} duplicated, {100 * sum(doubled.values()) / lines:.1f} %")
    print(f"{'shared by CPUs (' + SHARED + ')':<30}{sum(map(len, cpus(root).get(SHARED, {}).values())):6}")
    sizes = {}
    for path in lint.files(root, *ENDINGS, under="src"):
        sizes[lint.room(path)] = sizes.get(lint.room(path), 0) + len(code_lines(root, path))
    for label, rooms in PORTABLE.items():
        print(f"{label:<30}{sum(sizes.get(room, 0) for room in rooms):6}")
    doubled = sum(sum(found.values()) for _, found in counts.values())
    print(f"{'duplicated between CPUs':<30}{doubled:6}  of {total}, {100 * doubled / total:.1f} %")


SAME = "int f(int x)\n{\n\tint y = x;\n\n\t/* %s */\n\treturn y +\n\t       1;\n}\n"
OTHER = "".join(f"int %s{number}(int x);\n" for number in range(90))
BAD = {
    "copied": {"src/arch/a/isa/x.c": SAME % "a", "src/arch/b/isa/y.c": SAME % "b"},
    "copied, and renamed": {"src/arch/a/isa/x.c": SAME.replace("f(", "rv_f(") % "a",
                            "src/arch/b/isa/y.c": SAME.replace("f(", "a64_f(") % "b"},
}
GOOD = {
    "shared": {"src/arch/generic/x.c": SAME % "a", "src/arch/a/isa/x.c": "int a;\n", "src/arch/b/isa/y.c": "int a;\n"},
    "short runs": {"src/arch/a/isa/x.c": "int a;\nint b;\nint c;\n",
                   "src/arch/b/isa/y.c": "int a;\nint b;\nint c;\nint d;\n"},
    "a small part": {"src/arch/a/isa/x.c": SAME % "a" + OTHER.replace("%s", "a"),
                     "src/arch/b/isa/y.c": SAME % "b" + OTHER.replace("%s", "b")},
}

if __name__ == "__main__":
    if "--table" in sys.argv:
        table(lint.ROOT)
        sys.exit()
    lint.main(check, BAD, GOOD)

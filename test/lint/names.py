#!/usr/bin/env python3
"""Gate: each name that starts with CALLTAP_ or calltap_ and that a user reads exists.

Users read the string literals of src/ (messages, --help), the comments of the public headers, README.md, CONTRIBUTING.md
and doc/.  A constant exists where the code of a public header has it, or where it is a variable of the environment: one
that src/ sets ("NAME=").  A function, type or symbol exists where a public header or src/ has it, be it as a literal of
its own.  `CALLTAP_SITE_*` stands for several."""
import os
import re

import lint

NAME = re.compile(r"(?<![\w-])(?:CALLTAP|calltap)_\w+\*?")
LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"')
PAGES = (".1", ".3", ".5", ".7")


def code(root, path):
    return lint.strip_comments(lint.read(root, path))


def known_names(root):
    """What exists."""
    found = set()
    for path in lint.files(root, ".h", under="include"):
        found |= set(NAME.findall(code(root, path)))
    for path in lint.files(root, ".c", ".h", ".S", under="src"):
        text = code(root, path)
        found |= set(re.findall(r'"(CALLTAP_\w+)="', text)) | set(re.findall(r'\bgetenv\("(CALLTAP_\w+)"\)', text))
        found |= set(re.findall(r"\bcalltap_\w+", LITERAL.sub("", text))) | set(re.findall(r'"(calltap_\w+)"', text))
    return found


def read_by_users(root):
    """(path, text) of all that users read; line numbers are those of the file."""
    for path in lint.files(root, ".h", under="include"):
        yield path, lint.read(root, path)
    for path in lint.files(root, ".c", ".h", under="src"):
        text = lint.strip_directives(code(root, path))
        yield path, "\n".join(" ".join(LITERAL.findall(line)) for line in text.split("\n"))
    for path in lint.files(root, under="doc") + [name for name in lint.files(root, ".md") if os.sep not in name]:
        text = lint.read(root, path)
        if path.endswith(PAGES):  # the title is in capitals, and roff has escapes
            text = re.sub(r"^\.TH.*$", "", text, flags=re.M)
            text = re.sub(r"\\f[A-Z]|\\f\[\w*\]|\\&", "", text).replace("\\", "")
        yield path, text


def exists(name, known):
    if name.endswith(("*", "_")):
        return any(other.startswith(name.rstrip("*")) for other in known)
    return name in known


def check(root):
    findings, known = [], known_names(root)
    for path, text in read_by_users(root):
        for number, line in enumerate(text.split("\n"), 1):
            findings += [f"{path}:{number}: there is no {name}" for name in NAME.findall(line) if not exists(name, known)]
    return findings


HEADER = {"include/calltap/a.h": "#define CALLTAP_A_ONE 1u\nint calltap_a(void);\n"}
BAD = {
    "message": {**HEADER, "src/host/a.c": 'const char *f = "needs CALLTAP_A_TWO";\n'},
    "message in two parts": {**HEADER, "src/host/a.c": 'const char *f = "needs "\n\t"(CALLTAP_A_TWO)";\n'},
    "message, and a constant of the source": {**HEADER, "src/host/a.c": '#define CALLTAP_B 1\nchar *f = "see CALLTAP_B";\n'},
    "message, and a comment": {**HEADER, "src/host/a.c": '/* CALLTAP_B */ char *f = "see CALLTAP_B";\n'},
    "header's comment": {"include/calltap/a.h": "/* see CALLTAP_B */\n#define CALLTAP_A 1\n"},
    "page": {**HEADER, "doc/man/calltap_a.3": ".TH CALLTAP_A 3\n.SH X\nset \\fBCALLTAP_A_TWO\\fR\n"},
    "page's function": {**HEADER, "doc/man/calltap_a.3": ".SH X\n.BR calltap_b (3)\n"},
    "several that are not there": {**HEADER, "doc/design/a.md": "`CALLTAP_B_*`\n"},
    "variable that nobody sets": {**HEADER, "README.md": "CALLTAP_PID\n", "src/host/a.c": 'char *f = "PID=";\n'},
}
GOOD = {
    "all there": {**HEADER, "src/host/a.c": 'const char *f = "CALLTAP_A_ONE", *g = "CALLTAP_PID=";\n',
                  "README.md": "CALLTAP_PID, CALLTAP_A_*, `calltap_a()`, libcalltap_x, our-calltap_x\n",
                  "doc/man/calltap_a.3": ".TH CALLTAP_A 3\n.SH X\n\\fBCALLTAP_A_ONE\\fR, \\fBcalltap_a\\fR(3)\n"},
    "variable that is read": {**HEADER, "README.md": "CALLTAP_B\n", "src/host/a.c": 'char *f = getenv("CALLTAP_B");\n'},
    "name of the source alone": {**HEADER, "src/cmd/a.c": "const char *f = CALLTAP_VERSION; /* CALLTAP_B */\n"},
}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)

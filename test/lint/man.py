#!/usr/bin/env python3
"""Gate: every verb of the command has a man page, mandoc finds no error in any page, every option that
`calltap VERB --help` shows is described in the page of that verb, every function of the public headers has a page of
section 3, and every program in one compiles.
`--build DIR` names the build directory (default: build)."""
import os
import re
import shutil
import subprocess
import sys

import lint

MAN = os.path.join("doc", "man")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+|-[A-Za-z])(?![\w-])")


def command(root):
    """Path of the built command, None when there is none."""
    build = sys.argv[sys.argv.index("--build") + 1] if "--build" in sys.argv else os.path.join(root, "build")
    for candidate in (os.path.join(build, "src", "cmd", "calltap"), os.path.join(build, "calltap")):
        if os.path.exists(candidate):
            return candidate
    return None


def verbs(tool):
    """The verbs that `calltap --help` lists: lines that are indented and start with a word, then two spaces."""
    text = lint.run([tool, "--help"]).stdout
    return sorted({match.group(1) for match in re.finditer(r"^ +(?:calltap )?([a-z]+)(?: [^a-z\n][^\n]*?)?  +\S", text, re.M)})


def plain(text):
    """A page's text with the escapes of roff removed, so that options read as typed."""
    text = re.sub(r"\\f[A-Z]|\\f\[\w*\]|\\&", "", text).replace("\\-", "-").replace("\\(en", "-")
    return re.sub(r"^\.(Fl|It Fl) (.*)$", lambda m: " ".join("-" + w for w in m.group(2).split()), text, flags=re.M)


def check_verb(root, tool, verb):
    path = os.path.join(MAN, f"calltap-{verb}.1")
    if not os.path.exists(os.path.join(root, path)):
        return [f"{path}:1: there is no man page for the verb '{verb}'"]
    page = set(OPTION.findall(plain(lint.read(root, path))))
    shown = set(OPTION.findall(lint.run([tool, verb, "--help"]).stdout))
    return [f"{path}:1: `calltap {verb} --help` shows {option}, the page does not" for option in sorted(shown - page)]


def functions(root):
    """The functions of the public headers, inline ones, too."""
    found = set()
    for path in lint.files(root, ".h", under=os.path.join("include", "calltap")):
        if os.sep + "abi" + os.sep not in path:
            text = lint.strip_directives(lint.strip_comments(lint.read(root, path)))
            found |= set(re.findall(r"^[A-Za-z_][\w \t*]*?\b(calltap_\w+)\s*\(", text, re.M))
    return sorted(found)


def check_functions(root):
    """Each is a name of some page's, which says more of it than that."""
    names = {}
    for page in lint.files(root, ".3", under=MAN):
        text = plain(lint.read(root, page))
        title = re.search(r"^\.SH NAME\n(.*?) -", text, re.M | re.S)
        for name in re.findall(r"\w+", title.group(1)) if title else ():
            names[name] = (page, text.count(name))
    findings = []
    for name in functions(root):
        page, times = names.get(name, (os.path.join(MAN, name + ".3"), 0))
        if times < 2:
            findings.append(f"{page}:1: no man page " + ("says more of " if times else "is called ") + name)
    return findings


def check_examples(root, page):
    """Each example that is a program, compiled."""
    findings = []
    for number, block in enumerate(re.findall(r"^\.EX\n(.*?)^\.EE$", lint.read(root, page), re.M | re.S), 1):
        code = plain(block).replace("\\e", "\\")
        if "#include" not in code:
            continue
        done = subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-fsyntax-only",
                               "-I" + os.path.join(root, "include"), "-x", "c", "-"], input=code, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            first = next((line for line in done.stdout.splitlines() if "error" in line), done.stdout[:200])
            findings.append(f"{page}:1: example {number} does not compile: {first}")
    return findings


def check(root):
    findings = []
    tool = command(root)
    findings += check_functions(root)
    for page in lint.files(root, ".3", under=MAN):
        findings += check_examples(root, page)
    pages = lint.files(root, ".1", ".3", ".5", ".7", under=MAN)
    if root == lint.ROOT and not tool:
        raise lint.Skip("the command is not built")
    if shutil.which("mandoc"):
        for page in pages:
            for line in lint.run(["mandoc", "-T", "lint", "-W", "error", page], cwd=root).stdout.splitlines():
                findings.append(line.replace("mandoc: ", "").replace("./", ""))
    elif root == lint.ROOT:
        raise lint.Skip("mandoc is not installed")
    listed = verbs(tool) if tool else []
    if tool and not listed:
        findings.append("calltap:1: `calltap --help` lists no verbs")
    for verb in listed:
        findings += check_verb(root, tool, verb)
    return findings


TOOL = """#!/bin/sh
case $1 in
--help) printf 'usage: calltap VERB\\n\\n  record   record a program\\n  info     what is in a trace\\n' ;;
record) printf 'usage: calltap record [-o FILE] [--mode MODE]\\n' ;;
esac
"""
PAGE = '.TH CALLTAP-RECORD 1 2025-01-01 calltap\n.SH NAME\ncalltap\\-record \\- record\n.SH OPTIONS\n.TP\n\\fB\\-o\\fR\nfile\n'
INFO = PAGE.replace("RECORD", "INFO").replace("record", "info")
RECORD = PAGE + ".TP\n\\fB\\-\\-mode\\fR\nmode\n"


def check_executable(root):
    if command(root):
        os.chmod(command(root), 0o755)
    return check(root)


BAD = {
    "no page": {"build/src/cmd/calltap": TOOL, "doc/man/calltap-record.1": RECORD},
    "missing option": {"build/src/cmd/calltap": TOOL, "doc/man/calltap-record.1": PAGE, "doc/man/calltap-info.1": INFO},
    "a function without a page": {"include/calltap/a.h": "int calltap_a(void);\n"},
    "an inline function without a page": {"include/calltap/a.h": "static inline int calltap_a(void)\n{\n}\n"},
    "a page of another function": {"include/calltap/a.h": "int calltap_a(void);\n", "doc/man/calltap_a.3": PAGE},
    "an example that does not compile": {"doc/man/a.3": PAGE + ".EX\n#include <stdio.h>\nint x = y;\n.EE\n"},
    "no verbs": {"build/src/cmd/calltap": "#!/bin/sh\n"},
}
if shutil.which("mandoc"):
    BAD["broken page"] = {"doc/man/calltap-x.1": ".TH X 1 2025-01-01\n.SH NAME\nx \\- y\n.SH TEXT\n.EE\n.RE\n.de\n"}
FUNCTION = """.TH A 3 2025-01-01 calltap
.SH NAME
calltap_a, calltap_b \\- do this
.SH SYNOPSIS
.BI "int calltap_a(int " x );
.br
.BI "int calltap_b(int " x );
.EX
#include <stdio.h>
int x = \\-1;
.EE
"""
GOOD = {"clean": {"include/calltap/a.h": "int calltap_a(void);\nint calltap_b(int\n\tx);\n", "doc/man/a.3": FUNCTION,
                  "build/src/cmd/calltap": TOOL, "doc/man/calltap-record.1": RECORD, "doc/man/calltap-info.1": INFO}}

if __name__ == "__main__":
    if "--self-test" in sys.argv:
        if "--build" in sys.argv:
            del sys.argv[sys.argv.index("--build"):sys.argv.index("--build") + 2]
        lint.main(check_executable, BAD, GOOD)
    lint.main(check, BAD)

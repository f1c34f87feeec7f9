#!/usr/bin/env python3
"""Gate: every verb of the command has a man page, mandoc finds no error in any page, and every option that
`calltap VERB --help` shows is described in the page of that verb.
`--build DIR` names the build directory (default: build)."""
import os
import re
import shutil
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


def check(root):
    findings = []
    tool = command(root)
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
    "no verbs": {"build/src/cmd/calltap": "#!/bin/sh\n"},
}
if shutil.which("mandoc"):
    BAD["broken page"] = {"doc/man/calltap-x.1": ".TH X 1 2025-01-01\n.SH NAME\nx \\- y\n.SH TEXT\n.EE\n.RE\n.de\n"}
GOOD = {"clean": {"build/src/cmd/calltap": TOOL, "doc/man/calltap-record.1": RECORD, "doc/man/calltap-info.1": INFO}}

if __name__ == "__main__":
    if "--self-test" in sys.argv:
        if "--build" in sys.argv:
            del sys.argv[sys.argv.index("--build"):sys.argv.index("--build") + 2]
        lint.main(check_executable, BAD, GOOD)
    lint.main(check, BAD)

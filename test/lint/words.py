#!/usr/bin/env python3
"""Gate: no white space at the end of a line, no path of somebody's machine, text ends with a newline; what a message
counts is a word of counted.h, which knows "1 record" from "2 records"."""
import re

import lint

TEXT = (".c", ".h", ".cc", ".S", ".py", ".sh", ".md", ".build", ".map", ".txt", ".1", ".5", ".7", "check", "demo", "run")
# Spelt in halves so that this file passes its own gate.
PATHS = ["/wo" + "rk/", "/tmp/bui" + "ld-", "/ro" + "ot/", "/ho" + "me/"]

# A number with a plural behind it.
COUNTED = re.compile(r'%(?:z|ll?)?u(?: |" ")(?:C\+\+ |forked |further |traced )?'
                     r"(?:actions|calls|children|events|frames|functions|objects|processes|programs|records|sub-buffers"
                     r"|threads)\b")
PRIU = re.compile(r'" PRIu(?:32|64|PTR|MAX) "')


def check(root):
    findings = []
    for path in lint.files(root, *TEXT):
        text = lint.read(root, path)
        if "\0" in text or path.startswith("test/flow/") and path.endswith(".txt"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                findings.append(f"{path}:{number}: white space at the end of the line")
            for word in PATHS:
                if word in line:
                    findings.append(f"{path}:{number}: a path of a particular machine: {word}")
            if path.startswith("src/") and COUNTED.search(PRIU.sub("u", line)):
                findings.append(f"{path}:{number}: a number with a plural; counted() of host/counted.h chooses the word")
        if text and not text.endswith("\n"):
            findings.append(f"{path}:{text.count(chr(10)) + 1}: no newline at the end of the file")
    return findings


BAD = {
    "trailing space": {"src/a.c": "int x; \n"},
    "trailing tab": {"doc/a.md": "word\t\n"},
    "machine path": {"doc/a.md": "see " + PATHS[0] + "main\n"},
    "plural": {"src/a.c": 'f("%u further instances of %" PRIu64 " records", a, b);\n'},
    "no newline": {"src/a.h": "int x;"},
}
GOOD = {"clean": {"src/a.c": "int x;\n"}, "counted": {"src/a.c": 'f("%u %s", n, counted(n, "call", "calls"));\n'}}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)

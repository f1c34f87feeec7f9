#!/usr/bin/env python3
"""Gate: functions of at most 80 lines and cyclomatic complexity 25, files of at most 1000 lines."""
import lint

FUNCTION_LINES = 80
FILE_LINES = 1000
COMPLEXITY = 25
BRANCHES = {"if", "for", "while", "case", "&&", "||", "?"}
# Exceptions, as "path:function"; each needs a reason beside it.
ALLOWED = set()


def functions(tokens):
    """(name, first line, last line, complexity) of each function body at file level."""
    depth = parens = 0
    name = candidate = None
    start = complexity = 0
    previous = ""
    for line, token in tokens:
        if token == "(":
            if parens == 0 and depth == 0 and candidate is None:
                candidate, start = previous, line
            parens += 1
        elif token == ")":
            parens -= 1
        elif token == "{":
            if depth == 0 and previous.startswith('"'):
                continue  # extern "C" {
            if depth == 0:
                name, complexity = (candidate, 1) if previous == ")" else (None, 0)
            depth += 1
        elif token == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                if name:
                    yield name, start, line, complexity
                name = candidate = None
        elif depth == 0 and parens == 0 and token in (";", "="):
            candidate = None
        elif depth and token in BRANCHES:
            complexity += 1
        previous = token


def check(root):
    findings = []
    for path in lint.files(root, ".c", ".h", ".cc", ".S", ".py"):
        lines = lint.read(root, path).count("\n")
        if lines > FILE_LINES:
            findings.append(f"{path}:{lines}: file has {lines} lines, at most {FILE_LINES} are allowed")
        if not path.endswith((".c", ".h")):
            continue
        for name, first, last, complexity in functions(lint.code_tokens(root, path)):
            if f"{path}:{name}" in ALLOWED:
                continue
            if last - first + 1 > FUNCTION_LINES:
                findings.append(f"{path}:{first}: {name}() has {last - first + 1} lines, "
                                f"at most {FUNCTION_LINES} are allowed")
            if complexity > COMPLEXITY:
                findings.append(f"{path}:{first}: {name}() has cyclomatic complexity {complexity}, "
                                f"at most {COMPLEXITY} is allowed")
    return findings


BAD = {
    "long function": {"src/a.c": "static int f(int x)\n{\n" + "\tx++;\n" * 80 + "\treturn x;\n}\n"},
    "long file": {"src/a.c": "\n" * 1001},
    "branchy function": {"src/a.c": "int f(int x)\n{\n" + "\tif (x && x)\n\t\tx++;\n" * 13 + "\treturn x;\n}\n"},
    "after an initialiser": {"src/a.c": "static const int t[] = {1, 2};\nint g(void) __attribute__((cold))\n{\n" +
                             "\n" * 90 + "}\n"},
}
GOOD = {"small": {"src/a.c": "static const int t[] = {\n" + "\t1,\n" * 200 + "};\nint f(int x)\n{\n\treturn x;\n}\n"}}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)

"""What the gates share: the list of files, a C tokenizer, and the main program.

A gate is a script with a function check(root) that returns findings, each a
string "file:line: what is wrong".  It also carries small trees that violate it
and one that does not: `--self-test` makes sure that the gate finds the former
and passes the latter, so that no gate can rot into one that cannot fail.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED_DIRS = {"build", ".git", ".work", "__pycache__", "node_modules"}
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\d[\w.]*|->|&&|\|\||\n|\S')


class Skip(Exception):
    """The gate cannot run here; the text says why."""


def files(root, *endings, under=None):
    """Paths relative to root of all files with one of the endings, sorted."""
    found = []
    for folder, dirs, names in os.walk(os.path.join(root, under or "")):
        dirs[:] = [d for d in dirs if d not in SKIPPED_DIRS and not d.startswith("build-")]
        for name in names:
            if not endings or name.endswith(endings):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def strip_comments(text):
    """The text without comments; line numbers stay the same."""
    def blank(match):
        return match.group(0) if match.group(0)[0] in "\"'" else "\n" * match.group(0).count("\n") or " "
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def strip_directives(text):
    """The text without preprocessor lines; line numbers stay the same."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M)


def tokens(text):
    """(line, token) pairs of comment-free, directive-free text."""
    line = 1
    for match in TOKEN.finditer(text):
        if match.group(0) == "\n":
            line += 1
        else:
            yield line, match.group(0)


def code_tokens(root, path):
    return list(tokens(strip_directives(strip_comments(read(root, path)))))


def room(path):
    """The room that a file of src/ lies in: 'probe', 'arch', ...; '' for other files."""
    parts = path.split(os.sep)
    return parts[1] if parts[0] == "src" and len(parts) > 2 else ""


def run(command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False, **more)


def self_test(check, bad, good):
    """Feed the gate each tree of `bad` (it must find something) and of `good` (it must not)."""
    wrong = []
    for expect, trees in ((True, bad), (False, good)):
        for label, tree in trees.items():
            with tempfile.TemporaryDirectory() as root:
                for path, text in tree.items():
                    full = os.path.join(root, path)
                    os.makedirs(os.path.dirname(full), exist_ok=True)
                    with open(full, "w", encoding="utf-8") as file:
                        file.write(text)
                found = check(root)
            if bool(found) != expect:
                wrong.append(f"self-test '{label}': " + ("found nothing" if expect else f"found {found}"))
    return wrong


def main(check, bad, good=None):
    """Run the gate over the tree, or its self-test.  Exit status: 0 good, 1 findings, 77 skipped."""
    try:
        if "--self-test" in sys.argv:
            findings = self_test(check, bad, good or {})
        else:
            findings = check(ROOT)
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)

#!/usr/bin/env python3
"""Gate: clang-tidy, with the short list of the project's .clang-tidy, at zero warnings over the sources
that the build compiled.  `--build DIR` names the build directory (default: build); `--only PREFIX` leaves out other
sources, for a build of another CPU, whose own ones no other build compiles.

The analyser follows the paths through a function up to a number of states: an eighth of clang's own number, which takes
a fifth of the time; `--deep` (./check --long) analyses with clang's number.

A source that was clean is not analysed again while it is the same behind the preprocessor, comments included: the names
of such texts, as hashes, are kept in ~/.cache/calltap/tidy, which may be removed at any time."""
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import lint

ROOMS = ("src/host/", "src/cmd/", "src/lib/", "src/agent/", "src/patch/", "src/ring/", "src/probe/", "src/base/", "src/arch/", "src/bpf/",
         "src/tracers/")
GCC_ONLY = re.compile(r" -f(?:(?:no-)?(?:ipa-ra|tree-loop-distribute-patterns|tree-vectorize)|fixed-f\d+)\b")
SHALLOW = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=30000"]
CONFIG = os.path.join(lint.ROOT, ".clang-tidy")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "calltap", "tidy")
PATHS = {"-o", "-MQ", "-MF"}  # options of a compiler that are followed by a file's name


def build_dir(root):
    if "--build" in sys.argv:
        return sys.argv[sys.argv.index("--build") + 1]
    return os.path.join(root, "build")


def only():
    return sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""


def compiled(root, build, folder):
    """{path: entry} of the sources in the rooms that the build knows, each once.  Writes a compilation database for them to
    the folder, with full paths and without the options that only gcc knows."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            full = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            path = os.path.relpath(full, root)
            if path.startswith(ROOMS) and path.startswith(only()) and path.endswith(".c"):
                command = GCC_ONLY.sub("", entry["command"]).replace(" " + entry["file"], " " + full)
                found[path] = {"directory": entry["directory"], "file": full, "command": command}
    with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(list(found.values()), file)
    return found


def depth():
    return [] if "--deep" in sys.argv else [f"--extra-arg={word}" for word in SHALLOW]


def preprocessed(entry):
    """The source's text behind the preprocessor, with comments, for those may speak to the analyser; b"": nobody knows."""
    words = iter(shlex.split(entry["command"]))
    kept = [word for word in words if word not in PATHS or not next(words, None)]
    kept = kept[1:] if os.path.basename(kept[0]) == "ccache" else kept
    done = subprocess.run(["clang", *kept[1:], "-w", "-E", "-CC", "-P"], cwd=entry["directory"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return b"" if done.returncode else done.stdout


def note_of(root, entry, version):
    """The file that is there once such a source was clean; None: nobody knows."""
    text = preprocessed(entry)
    if not text:
        return None
    with open(CONFIG, "rb") as file:
        config = file.read()
    command = entry["command"].replace(root, "").encode()
    parts = (version, config, " ".join(depth()).encode(), command, text.replace(root.encode(), b""))
    return os.path.join(CACHE, hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest())


def tidy_once(root, folder, path, entry, version):
    """tidy(), if such a source was not clean before."""
    note = note_of(root, entry, version) if root == lint.ROOT else None
    if note and os.path.exists(note):
        return []
    findings = tidy(root, folder, path)
    if note and not findings:
        try:
            os.makedirs(CACHE, exist_ok=True)
            with open(note, "wb"):
                pass
        except OSError:
            pass  # then it is analysed again
    return findings


def tidy(root, folder, path):
    command = ["clang-tidy", "--quiet", "--config-file=" + CONFIG, "-p", folder,
               "--extra-arg=-Wno-unknown-warning-option", *depth(), os.path.join(root, path)]
    result = lint.run(command, cwd=root)
    findings = []
    for line in result.stdout.splitlines():
        match = re.match(r"(\S+)(:\d+:\d+: (?:warning|error):.*)", line)
        if match:
            findings.append(os.path.relpath(os.path.normpath(match.group(1)), root) + match.group(2))
    if result.returncode and not findings:
        findings.append(f"{path}:1: clang-tidy failed: {result.stdout.strip()[:300]}")
    return findings


def check(root):
    build = build_dir(root)
    if not shutil.which("clang-tidy"):
        raise lint.Skip("clang-tidy is not installed")
    if not os.path.exists(os.path.join(build, "compile_commands.json")):
        if root == lint.ROOT:
            raise lint.Skip("there is no compile_commands.json; build first")
        make_database(root, build)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        found = compiled(root, build, folder)
        version = lint.run(["clang-tidy", "--version"]).stdout.encode()
        results = list(pool.map(lambda path: tidy_once(root, folder, path, found[path], version), sorted(found)))
    return sorted({finding for result in results for finding in result})


def make_database(root, build):
    """For the self-test: a compilation database of the little tree."""
    os.makedirs(build, exist_ok=True)
    entries = [{"directory": root, "file": path, "command": f"cc -std=gnu11 -c {path}"} for path in lint.files(root, ".c")]
    with open(os.path.join(build, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(entries, file)


BAD = {
    "use after free": {"src/host/a.c": "#include <stdlib.h>\nint f(int *p);\nint f(int *p)\n{\n\tfree(p);\n"
                       "\treturn *p;\n}\n"},
    "null pointer": {"src/host/a.c": "int f(int x);\nint f(int x)\n{\n\tint *p = 0;\n\tif (x)\n\t\t*p = 1;\n"
                       "\treturn x;\n}\n"},
}
GOOD = {"clean": {"src/host/a.c": "int f(int x);\nint f(int x)\n{\n\treturn x + 1;\n}\n"}}

if __name__ == "__main__":
    # The self-test makes its own build directory in its own tree.
    if "--self-test" in sys.argv and "--build" in sys.argv:
        del sys.argv[sys.argv.index("--build"):sys.argv.index("--build") + 2]
    lint.main(check, BAD, GOOD)

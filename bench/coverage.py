#!/usr/bin/env python3
"""How many functions of programs and libraries can be traced as they are: bench/coverage.py [--build DIR] [FILE...]

Without names: what is installed of a list of well-known ones.  Prints one row each: functions, those that can be traced,
their share, and the reasons against the others.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("bash", "python3", "git", "perl", "sqlite3", "gdb", "openssl", "redis-server", "nginx", "lua5.4", "node", "rg", "ls",
            "sshd", "cmake", "ninja")
LIBRARIES = ("libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libcrypto.so.3",
             "libssl.so.3", "libsqlite3.so.0", "libpython3.*.so.1.0", "libz.so.1", "libLLVM-*.so.1", "libclang-*.so.*")


def installed():
    """Files of the lists, each once."""
    found = [path for name in PROGRAMS if (path := shutil.which(name, path="/usr/bin:/usr/sbin:/usr/local/bin"))]
    found += glob.glob("/usr/lib/gcc/*/*/cc1")
    for name in LIBRARIES:
        found += [path for folder in ("/lib/*-linux-gnu/", "/usr/lib/*-linux-gnu/", "/lib64/") for path in
                  glob.glob(folder + name)][:1]
    return list(dict.fromkeys(os.path.realpath(path) for path in found))


def listed(tool, path):
    """(functions, traceable, {reason: count}); None when it cannot be read."""
    done = subprocess.run([tool, "functions", "--json", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode:
        return None
    functions = [item for item in json.loads(done.stdout)["functions"] if item["site"] != "libcall"]
    reasons = {}
    for item in functions:
        if not item["traceable"]:
            reasons[item["reason"]] = reasons.get(item["reason"], 0) + 1
    return len(functions), sum(item["traceable"] for item in functions), reasons


def main():
    parser = argparse.ArgumentParser(prog="bench/coverage.py", description="Print how much of stock files can be traced.")
    parser.add_argument("--build", default=os.path.join(os.path.dirname(HERE), "build"), help="build directory (default: build)")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    tool = os.path.join(options.build, "src", "cmd", "calltap")
    print("| object | functions | traceable | share | not |\n|---|---|---|---|---|")
    for path in options.files or installed():
        row = listed(tool, path)
        if not row:
            print(f"{path}: cannot be read", file=sys.stderr)
            continue
        count, good, reasons = row
        texts = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items(), key=lambda item: -item[1]))
        print(f"| {os.path.basename(path)} | {count} | {good} | {100 * good / max(count, 1):.2f} % | {texts} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Entries of PLTs that `calltap functions` lists, against those that objdump names, for linkers and their options.

Usage: libcalls.py CALLTAP SOURCE
"""
import json
import os
import re
import subprocess
import sys
import tempfile

LAYOUTS = [
    ("gcc", "-Wl,-z,lazy -fcf-protection=none"),
    ("gcc", "-Wl,-z,now -fcf-protection=none"),
    ("gcc", "-Wl,-z,lazy -fcf-protection=full -Wl,-z,ibtplt"),
    ("gcc", "-Wl,-z,now -fcf-protection=full -Wl,-z,ibtplt"),
    ("gcc", "-fno-pie -no-pie -Wl,-z,lazy"),
    ("gcc", "-fno-pie -no-pie -Wl,-z,now"),
    ("gcc", "-fuse-ld=gold"),
    ("gcc", "-s"),
    ("clang", "-fuse-ld=lld"),
    ("clang", "-fuse-ld=lld -Wl,-z,now"),
    ("clang", "-fuse-ld=lld -fno-pie -no-pie"),
    ("clang", "-fuse-ld=lld -Wl,-z,force-ibt -fcf-protection=full"),
]
NEVER = {"setjmp", "_setjmp", "longjmp", "vfork", "dlsym", "getcontext", "makecontext", "swapcontext"}


def named(path):
    """{(address, name)}: what objdump calls NAME@plt.  Entries that only bind, of a table with two parts, are none."""
    text = subprocess.run(["objdump", "-d", "-w", path], capture_output=True, text=True, check=True).stdout
    found = set()
    for block in text.split("\n\n"):
        label = re.search(r"^([0-9a-f]+) <([^>@]+)(?:@[^>]*)?@plt>:\n(.*)", block, re.M | re.S)
        if label and re.search(r"\bjmp +\*", label[3]):
            found.add((int(label[1], 16), label[2]))
    return found


def main():
    tool, source = sys.argv[1:]
    failed = tried = 0
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "program")
        for compiler, flags in LAYOUTS:
            done = subprocess.run([compiler, "-w", "-fno-builtin", "-O1", *flags.split(), source, "-o", path, "-lm"],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                print("skip", compiler, flags)
                continue
            text = subprocess.run([tool, "functions", "--json", path], capture_output=True, text=True, check=True).stdout
            entries = [item for item in json.loads(text)["functions"] if item["site"] == "libcall"]
            listed = {(item["address"], item["name"]) for item in entries}
            wrong = listed ^ named(path)
            bad = {item["name"] for item in entries if item["traceable"] == (item["name"] in NEVER)}
            good = not wrong and not bad and len(listed) > 20
            print("ok  " if good else "FAIL", compiler, flags, len(listed), "entries", *sorted(wrong), *sorted(bad))
            failed += not good
            tried += 1
    return 1 if failed or tried < 6 else 0


sys.exit(main())

#!/usr/bin/env python3
"""Time the reader on a program of 100,000 functions with C++ names: opening it, and deciding on all by three filters.

Usage: scale.py SITE_DUMP.  The bounds are wide: the machine may be busy and the build unoptimised.  Under an emulator
there are none.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import wrapped  # noqa: E402  (the path above is what finds it)

COUNT = 100000
OPEN_MS_MAX = 1500
DECIDE_MS_MAX = 1500


def write_source(path):
    with open(path, "w", encoding="ascii") as file:
        for i in range(COUNT):
            room, method = f"room{i % 97}", f"turn{i}"
            name = f"_ZN{len(room)}{room}6Widget{len(method)}{method}EiPKc"
            file.write(f".text\n.globl {name}\n.type {name},@function\n.p2align 4\n{name}:\n1: nop\nnop\nnop\nnop\nnop\n"
                       f"ret\n.size {name},.-{name}\n"
                       ".section __patchable_function_entries,\"aw\",@progbits\n.quad 1b\n")
        file.write(".text\n.globl main\nmain: ret\n.section .note.GNU-stack,\"\",@progbits\n")


def main():
    with tempfile.TemporaryDirectory() as directory:
        tool = wrapped.program(sys.argv[1], directory)
        source, program = os.path.join(directory, "big.s"), os.path.join(directory, "big")
        write_source(source)
        subprocess.run(["gcc", "-o", program, source], check=True)
        done = subprocess.run([tool, program, "room3::*", "*::turn77777", "/turn1.$/"], capture_output=True, text=True,
                              check=True)
    lines = done.stdout.splitlines()
    print(lines[-1])
    open_ms, decide_ms = map(float, re.findall(r"([\d.]+) ms", lines[-1]))
    wanted = int(lines[-1].split()[1].rstrip(","))
    if len(lines) - 1 != COUNT or wanted != sum(line.endswith("\t1") for line in lines[:-1]):
        print(f"{len(lines) - 1} sites, {wanted} wanted")
        return 1
    expected = sum(1 for i in range(COUNT) if i % 97 == 3 or i == 77777)
    # The regular expression is searched in names with parameters and without, so it finds turn10 to turn19.
    expected += sum(1 for i in range(10, 20) if i % 97 != 3)
    if wanted != expected:
        print(f"{wanted} wanted, not {expected}")
        return 1
    emulated = tool != os.path.abspath(sys.argv[1])
    return not emulated and (open_ms > OPEN_MS_MAX or decide_ms > DECIDE_MS_MAX)


if __name__ == "__main__":
    sys.exit(main())

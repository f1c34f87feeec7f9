#!/usr/bin/env python3
"""Code of the encoders and relocators: binutils' disassembler must read it as intended.

    check_texts.py TEST_ENCODE RELOCATE_VECTORS CPU...

The encoders' vectors come from TEST_ENCODE --print, the relocators' from their file.  A CPU whose objdump is not
installed is left out, and said to be; with none left the test is skipped (exit status 77).
"""
import collections
import re
import sys

import binutils

Text = collections.namedtuple("Text", "cpu address code text")


def plain(cpu, text):
    """objdump's text of an instruction without the comment, one space between the words."""
    return " ".join(re.split(r"\s//" if cpu == "aarch64" else r"\s#", text)[0].split())


def encoders(program):
    for line in binutils.run(program, "--print").splitlines():
        cpu, address, code, text = line.split(maxsplit=3)
        yield Text(cpu, int(address, 16), bytes.fromhex(code), text)


def relocators(path):
    for line in open(path):
        if line.startswith("#"):
            continue
        head, code, text, moved, moved_text = (field.strip() for field in line.split("|"))
        cpu, origin, to, _ = head.split()
        if text != "-":
            yield Text(cpu, int(origin, 16), bytes.fromhex(code), text)
        if moved_text != "-":
            yield Text(cpu, int(to, 16), bytes.fromhex(moved), moved_text)


def differs(vector):
    """The text that objdump has instead; None: equal."""
    said = "; ".join(plain(vector.cpu, text) for _, _, text in
                     binutils.disassemble(vector.cpu, vector.code, vector.address))
    meant, data, _ = vector.text.partition("...")
    same = said.startswith(meant) if data else said == meant
    return None if same else said


def main():
    program, path, *cpus = sys.argv[1:]
    known = [cpu for cpu in cpus if binutils.tool(cpu)]
    for cpu in set(cpus) - set(known):
        print(f"{cpu}: no objdump for it")
    wrong = done = 0
    for vector in [*encoders(program), *relocators(path)]:
        if vector.cpu not in known:
            continue
        done += 1
        said = differs(vector)
        if said is not None:
            wrong += 1
            print(f"{vector.cpu} {vector.code.hex()}: meant {vector.text}, objdump: {said}")
    print(f"{done} texts, {wrong} differ")
    sys.exit(77 if not known else 1 if wrong or not done else 0)


if __name__ == "__main__":
    main()

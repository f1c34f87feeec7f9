#!/usr/bin/env python3
"""The decoders against binutils' disassembler: length, kind and target of random code, or of each
instruction in the C library's .text.

    check_decode.py [--count N] [--seed N] [--libc] ISA_DUMP CPU...

A CPU whose objdump is not installed is left out, and said to be; with none left the test is skipped (exit status 77).
"""
import argparse
import random
import re
import sys
import tempfile

import binutils

SLOT = 32  # a random instruction of x86-64 and the no-ops behind it, which put the disassembler back on its feet
REPORTED = 20  # mismatches that are printed
BASE = 0x400000
LEGACY = bytes([0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3])


def refused_on_purpose(cpu, code, kind, text):
    """Is there a reason, besides ignorance, for the decoder to refuse what objdump knows?"""
    if cpu == "riscv64":
        return code[0] & 0x7F in (0x0B, 0x2B, 0x5B, 0x7B)  # the vendors' opcodes
    if cpu == "aarch64":  # instructions that newer versions of binutils know: FEAT_PAuth_LR, FEAT_CMPBR
        return bool(re.match(r"(?:pac|aut|ret)\w*ppcr?\b|pacm\b|cb[bh]?[a-z]{2}\b", text))
    rest = code.lstrip(LEGACY)
    prefixes = code[:len(code) - len(rest)]
    rex = rest[0] if rest[0] & 0xF0 == 0x40 else 0
    if rest[0] == 0xD5 or (rest[0] == 0x62 and (rest[1] & 7 == 4 or rest[1] & 8 or not rest[2] & 4)):
        return True  # APX, which newer versions of binutils know
    if kind not in ("plain", "memory", "address", "trap") and 0x66 in prefixes and not rex & 8:
        return True  # the CPU's make says what that means
    if (rest[1:] if rex else rest)[0] in b"\xc4\xc5\x62\x8f" and (rex or set(prefixes) & set(b"\x66\xf0\xf2\xf3")):
        return True  # VEX has these prefixes in itself
    return bool(rex and rest[1] in LEGACY + bytes(range(0x40, 0x50))) or "(%eip)" in text


def dump(isa_dump, cpu, code, base, offsets):
    """{offset: (length, kind, target)}, (-errno, None, None) for what is refused."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        output = binutils.run(isa_dump, cpu, file.name, f"{base:x}", input="\n".join(f"{at:x}" for at in offsets))
    told = {}
    for line in output.splitlines():
        at, length, *rest = line.split()
        kind, target = rest if rest else (None, None)
        told[int(at, 16)] = (int(length), kind, None if target in (None, "-") else int(target, 16))
    return told


class Comparison:
    """Counts what was compared, and prints the first mismatches."""

    def __init__(self, cpu, what):
        self.cpu, self.what = cpu, what
        self.same = self.unknown = self.refused = self.wrong = 0

    def add(self, address, ours, code, text):
        length = len(code)
        meant = binutils.meaning(self.cpu, address, text)
        if meant is None:
            self.unknown += 1
            # An unknown instruction may be newer than objdump, but must not be said to have a target.
            if ours[0] > 0 and self.cpu != "x86_64" and ours[1] not in ("plain", "trap"):
                self.mismatch(address, ours, f"unknown: {text}")
        elif ours[0] < 0 and refused_on_purpose(self.cpu, code, meant[0], text):
            self.refused += 1
        elif self.cpu == "x86_64" and 0 < ours[0] < length and code[ours[0] - 1] == 0x9B:  # fwait
            self.refused += 1
        elif ours == (length, *meant):
            self.same += 1
        else:
            self.mismatch(address, ours, f"{length} {meant[0]} {meant[1] or 0:#x}: {text}")

    def mismatch(self, address, ours, theirs):
        self.wrong += 1
        if self.wrong <= REPORTED:
            print(f"{self.cpu} {self.what} at {address:#x}: {ours[0]} {ours[1]} {ours[2] or 0:#x}, objdump: {theirs}")

    def finish(self):
        print(f"{self.cpu} {self.what}: {self.same} the same, {self.wrong} different, {self.refused} refused on "
              f"purpose, {self.unknown} unknown to objdump")
        return self.wrong == 0 and self.same > 0


def random_x86(rng):
    """Random bytes, most often with an opcode at a likely place."""
    legacy = [0x66, 0x67, 0xF2, 0xF3, 0x2E, 0x3E, 0x64, 0x65, 0xF0, 0x26, 0x36]
    code = bytearray()
    shape = rng.randrange(10)
    if shape < 3:
        return rng.randbytes(16)
    while rng.random() < 0.3:
        code.append(rng.choice(legacy))
    if rng.random() < 0.4:
        code.append(0x40 | rng.randrange(16))
    if shape >= 5:
        code += (b"\x0f", b"\x0f\x38", b"\x0f\x3a", b"\x0f", b"\x0f")[shape - 5]
    return bytes(code[:8]) + rng.randbytes(16)


def random_code(cpu, rng, count):
    """(code, offsets)"""
    if cpu == "x86_64":
        code = b"".join(random_x86(rng)[:16] + b"\x90" * (SLOT - 16) for _ in range(count))
        return code, range(0, count * SLOT, SLOT)
    if cpu == "riscv64":  # no-ops behind each, for the longer ones that objdump takes some for
        return b"".join(rng.randbytes(4) + b"\x01\x00" * 10 for _ in range(count)), range(0, count * 24, 24)
    return rng.randbytes(4 * count), range(0, 4 * count, 4)


def check_random(isa_dump, cpu, rng, count):
    code, offsets = random_code(cpu, rng, count)
    ours = dump(isa_dump, cpu, code, BASE, offsets)
    comparison = Comparison(cpu, "random")
    for address, length, text in binutils.disassemble(cpu, code, BASE):
        if address - BASE in ours:
            comparison.add(address, ours[address - BASE], code[address - BASE:address - BASE + length], text)
    return comparison.finish()


def check_library(isa_dump, cpu, path):
    base, code = binutils.text_section(cpu, path)
    said = {}
    for address, length, text in binutils.disassemble_text(cpu, path):  # the same bytes are looked at once
        said.setdefault(code[address - base:address - base + length], (address, text))
    ours = dump(isa_dump, cpu, code, base, [address - base for address, _ in said.values()])
    comparison = Comparison(cpu, path)
    for instruction, (address, text) in said.items():
        comparison.add(address, ours[address - base], instruction, text)
    return comparison.finish()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20000, help="random instructions for each CPU")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--libc", action="store_true", help="the C library's code in place of random code")
    parser.add_argument("isa_dump")
    parser.add_argument("cpus", nargs="+")
    options = parser.parse_args()
    good, done = True, 0
    for cpu in options.cpus:
        libc = binutils.libc(cpu) if options.libc else None
        if not binutils.tool(cpu) or (options.libc and not libc):
            print(f"{cpu}: no objdump for it, or no compiler")
            continue
        done += 1
        if options.libc:
            good &= check_library(options.isa_dump, cpu, libc)
        else:
            good &= check_random(options.isa_dump, cpu, random.Random(options.seed), options.count)
    sys.exit(77 if not done else 0 if good else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The instructions of the C library that depend on their address, moved: by binutils' disassembler the code that a
relocator makes names the same target, and for a call the return address, and no other address outside of itself.

    check_moved.py [--every N] ISA_DUMP CPU...

A CPU whose objdump or compiler is not installed is left out, and said to be; with none left the test is skipped.
"""
import argparse
import re
import sys
import tempfile

import binutils

SLOT = 32  # bytes for one moved instruction
AWAY = 0x10000000  # from the library's code to the slots
SCRATCH = {"x86_64": "none", "riscv64": "31", "aarch64": "17"}
NOP = {"x86_64": b"\x90", "riscv64": b"\x01\x00", "aarch64": b"\x1f\x20\x03\xd5"}
MAKES = re.compile(r"^(?:auipc|adrp?)\s+(\w+),")
ADDS = re.compile(r"^addi?\s+(\w+), ?\1, ?#?(-?(?:0x)?[0-9a-f]+)$")
PUSHES = re.compile(r"^push\s+\$0x([0-9a-f]+)$")
CALLS = ("call", "call-indirect")


def named(cpu, instructions, start, end):
    """The addresses that code of [start, end) names outside of itself: targets, and those made in a register."""
    targets, made = set(), {}
    for address, _, text in instructions:
        target = binutils.meaning(cpu, address, text)[1]
        text = re.split(r"\s#\s", text)[0]
        if match := MAKES.match(text):
            made[match[1]] = target
        elif (match := ADDS.match(text)) and match[1] in made:
            made[match[1]] += int(match[2], 0)
        elif match := PUSHES.match(text):
            targets.add(int(match[1], 16))
        elif target is not None and not start < target <= end:
            targets.add(target)
    return targets | set(made.values())


def without_place(text):
    """An instruction's text without what moving it changes."""
    return re.sub(r"-?0x[0-9a-f]+\(%rip\).*", "(%rip)", text)


def move_all(isa_dump, cpu, base, code, addresses):
    """{address: moved bytes, None where it is refused}, the n-th for the n-th slot."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        wanted = "\n".join(f"{address - base:x} {base + AWAY + n * SLOT:x}" for n, address in enumerate(addresses))
        output = binutils.run(isa_dump, cpu, file.name, f"{base:x}", SCRATCH[cpu], input=wanted)
    moved = (line.split() for line in output.splitlines())
    return {base + int(at, 16): None if made.startswith("-") else bytes.fromhex(made) for at, made in moved}


def slots(cpu, base, moved):
    """objdump's lines of each slot, without the no-ops that fill it up."""
    fill = NOP[cpu] * (SLOT // len(NOP[cpu]))
    code = b"".join((made or b"") + fill[len(made or b""):] for made in moved.values())
    lines = [[] for _ in moved]
    lengths = [len(made or b"") for made in moved.values()]
    for address, length, text in binutils.disassemble(cpu, code, base + AWAY):
        slot, offset = divmod(address - base - AWAY, SLOT)
        if offset < lengths[slot]:
            lines[slot].append((address, length, text))
    return lines


def check(isa_dump, cpu, path, every):
    base, code = binutils.text_section(cpu, path)
    meant = {}
    for address, length, text in binutils.disassemble_text(cpu, path):
        kind, target = binutils.meaning(cpu, address, text) or ("plain", None)
        if target is not None or kind in CALLS:
            meant[address] = (kind, target, address + length, text)
    chosen = list(meant)[::every]
    moved = move_all(isa_dump, cpu, base, code, chosen)
    wrong = refused = 0
    for n, (address, lines) in enumerate(zip(chosen, slots(cpu, base, moved))):
        kind, target, after, text = meant[address]
        start = base + AWAY + n * SLOT
        if moved[address] is None:
            refused += 1
            continue
        want = ({target} if target is not None else set()) | ({after} if kind in CALLS else set())
        got = named(cpu, lines, start, start + len(moved[address]))
        same = kind != "memory" or cpu != "x86_64" or without_place(lines[0][2]) == without_place(text)
        if got != want or not same:
            wrong += 1
            if wrong < 10:
                made = "; ".join(line[2] for line in lines)
                print(f"{cpu} {address:#x} {text}: {made}: names {sorted(map(hex, got))}")
    print(f"{cpu} {path}: {len(chosen) - refused} moved, {refused} refused, {wrong} wrong")
    return wrong == 0 and refused * 100 < len(chosen)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of those instructions, the N-th alone")
    parser.add_argument("isa_dump")
    parser.add_argument("cpus", nargs="+")
    options = parser.parse_args()
    good, done = True, 0
    for cpu in options.cpus:
        libc = binutils.libc(cpu)
        if not binutils.tool(cpu) or not libc:
            print(f"{cpu}: no objdump for it, or no compiler")
            continue
        done += 1
        good &= check(options.isa_dump, cpu, libc, options.every)
    sys.exit(77 if not done else 0 if good else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Which lines of src/ the tests run: builds with counting (test/coverage/runtime.c), runs them, prints a table by room.

    scripts/coverage.py [--tests unit,e2e|all] [--e2e NAME...]
    scripts/coverage.py --tests none --uncovered ROOM       after a run: lines and functions that it did not reach

Counting works in the tool, in the unit tests and in the agent inside its targets, however they end.  Not seen:
assembly (entry.S, forward.S), and what starts where it cannot write to the build directory (another root or user).
A line is what has code; it is covered when a basic block with code of it has run in any program.  Runs add up until
something is built anew.  Needs binutils and llvm-dwarfdump (Debian: llvm)."""
import argparse
import bisect
import collections
import json
import os
import platform
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = re.compile(r"src/((?:host/)?[^/]+)/")
PLAIN = "-fno-inline -fno-schedule-insns2 -fno-crossjumping -fno-reorder-blocks"  # so that lines are told apart
CALLBACK = "__sanitizer_cov_trace_pc"


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="replace", check=True, **more).stdout


def build(folder, places):
    os.makedirs(places, exist_ok=True)
    os.chmod(places, 0o1777)  # targets may run as somebody else
    runtime = os.path.join(folder, "runtime.o")
    run(["cc", "-O2", "-ffreestanding", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector", "-mgeneral-regs-only",
         "-I", os.path.join(ROOT, "src", "arch", platform.machine(), "runtime"),
         f'-DCOVERAGE_FOLDER="{places}"', "-c", os.path.join(ROOT, "test/coverage/runtime.c"), "-o", runtime])
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        run(["meson", "setup", folder, ROOT, "-Doptimization=1", "-Ddebug=true", "-Dwerror=false",
             f"-Dc_args=-fsanitize-coverage=trace-pc {PLAIN}", f"-Dc_link_args={runtime} -Wl,--build-id"])
    subprocess.run(["ninja", "-C", folder], stdout=subprocess.DEVNULL, check=True)


def tests(folder, options):
    """Runs them; how they end is not what is asked here, but is told."""
    chosen = options.tests.split(",")
    failed = []
    if "unit" in chosen or "all" in chosen:
        failed.append(subprocess.run(["meson", "test", "-C", folder, "--no-rebuild", "--timeout-multiplier", "4"],
                                     stdout=subprocess.DEVNULL, check=False).returncode)
    if "e2e" in chosen or "all" in chosen or options.e2e:
        command = [sys.executable, os.path.join(ROOT, "test/e2e/run.py"), "--build", folder]
        command += ["--quick"] if "all" not in chosen else []
        output = subprocess.run([*command, *(options.e2e or [])], stdout=subprocess.PIPE, text=True, check=False)
        failed.append(output.returncode)
        print("\n".join(line for line in output.stdout.splitlines() if re.search(r"FAIL|passed", line)))
    if any(failed):
        print("some tests failed in this build; what they did not get to counts as not run")


def objects(folder):
    """{path: build id} of every program and library of the build."""
    found = {}
    for target in json.loads(run(["meson", "introspect", "--targets", folder])):
        for path in target["filename"]:
            if target["type"] in ("executable", "shared library") and os.path.exists(path):
                note = re.search(r"Build ID: (\w+)", run(["readelf", "-n", path]))
                if note:
                    found[path] = note.group(1)
    return found


JUMP = re.compile(r"\s(j\w+|ret)\b(?:.*?\s([0-9a-f]+) <)?")


class Code:
    """An object's basic blocks: where each begins, and where the call in it that counts it returns to."""

    def __init__(self, path):
        self.functions = {}  # address: name
        self.blocks = []     # (start of the block, place that is counted, address of the function)
        leaders, calls, ends = set(), [], False
        for line in run(["objdump", "-d", "--no-show-raw-insn", path]).splitlines():
            head = re.match(r"([0-9a-f]+) <([^>]+)>:", line)
            at = re.match(r" +([0-9a-f]+):", line)
            if head:
                self.functions[int(head.group(1), 16)] = head.group(2).split(".")[0]
                leaders.add(int(head.group(1), 16))
            if not at:
                continue
            address = int(at.group(1), 16)
            if calls and calls[-1] is None:
                calls[-1] = address
            if ends:
                leaders.add(address)
            jump = JUMP.search(line)
            ends = bool(jump)
            if jump and jump.group(2):
                leaders.add(int(jump.group(2), 16))
            if f"<{CALLBACK}" in line and "call" in line:
                calls.append(None)
        self.entries = sorted(self.functions)
        starts = sorted(leaders)
        for place in calls:
            start = starts[bisect.bisect_right(starts, place - 1) - 1]
            self.blocks.append((start, place, self.function(start)))
        self.starts = [start for start, _, _ in self.blocks]

    def function(self, address):
        """Address of the function that address lies in."""
        return self.entries[max(bisect.bisect_right(self.entries, address) - 1, 0)]

    def place(self, address):
        """The counted place of the block that address lies in; None when its function has none before it."""
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0 or self.blocks[at][2] != self.function(address):
            return None
        return self.blocks[at][1]


def rows(path):
    """(address, file, line) of the line table, end of sequences as line 0."""
    folders, files, table = {}, {}, []
    name = None
    for line in run(["llvm-dwarfdump", "--debug-line", path], stderr=subprocess.DEVNULL).splitlines():
        if line.startswith("debug_line["):
            folders, files = {}, {}
        elif line.startswith("include_directories"):
            number, text = re.match(r'include_directories\[ *(\d+)\] = "(.*)"', line).groups()
            folders[int(number)] = text
        elif line.startswith("           name: "):
            name = line.split('"')[1]
        elif line.startswith("      dir_index: "):
            folder = folders.get(int(line.split()[1]), "")
            files[len(files)] = os.path.normpath(os.path.join(folders.get(0, ""), folder, name))
        elif line.startswith("0x"):
            words = line.split()
            last = "end_sequence" in words
            table.append((int(words[0], 16), files.get(int(words[3])), 0 if last else int(words[1])))
    return sorted(table, key=lambda row: row[0])


def read(path):
    """Bytes of a file; none for an object that never ran."""
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


class Coverage:
    """Lines and functions of the sources, over all objects."""

    def __init__(self):
        self.lines = collections.defaultdict(dict)      # path: {line: has run}
        self.functions = collections.defaultdict(dict)  # path: {name: has run}

    def add(self, path, places):
        code, where = Code(path), {}
        for address, file, line in rows(path):
            source = os.path.relpath(file, ROOT) if file else ""
            place = code.place(address) if line and ROOMS.match(source) else None
            if place is not None:
                where.setdefault(code.function(address), source)
                self.lines[source][line] = self.lines[source].get(line, False) or ran(places, place)
        for entry, source in where.items():
            name, called = code.functions[entry], any(ran(places, at) for _, at, of in code.blocks if of == entry)
            self.functions[source][name] = self.functions[source].get(name, False) or called


def ran(places, place):
    return place < len(places) and places[place] != 0


def room(path):
    return ROOMS.match(path).group(1)


def share(flags):
    flags = list(flags)
    return f"{sum(flags):6} / {len(flags):6}  {100 * sum(flags) / max(len(flags), 1):5.1f} %"


def table(coverage):
    rooms = sorted({room(path) for path in coverage.lines})
    print(f"{'room':<14}{'lines run':>22}{'functions run':>26}")
    for name in [*rooms, "all"]:
        paths = [path for path in coverage.lines if name in (room(path), "all")]
        print(f"{name:<14}{share(hit for path in paths for hit in coverage.lines[path].values())}"
              f"    {share(hit for path in paths for hit in coverage.functions[path].values())}")


def ranges(numbers):
    """1, 2, 3, 7 as "1-3, 7"."""
    out = []
    for number in sorted(numbers):
        if out and out[-1][1] == number - 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return out


def uncovered(coverage, wanted):
    for path in sorted(coverage.lines):
        if room(path) != wanted and path != wanted:
            continue
        missed = [line for line, hit in coverage.lines[path].items() if not hit]
        functions = sorted(name for name, hit in coverage.functions[path].items() if not hit)
        if not missed:
            continue
        print(f"{path}: {len(missed)} of {len(coverage.lines[path])} lines" +
              (f"; never called: {', '.join(functions)}" if functions else ""))
        with open(os.path.join(ROOT, path), encoding="utf-8") as source:
            text = source.read().splitlines()
        for first, last in ranges(missed):
            for line in range(first, last + 1):
                print(f"  {line:5}  {text[line - 1] if line <= len(text) else ''}")


def main():
    parser = argparse.ArgumentParser(description="Which lines of src/ the tests run.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build-coverage"), help="default: build-coverage")
    parser.add_argument("--tests", default="unit,e2e",
                        help="unit, e2e (each program in one build), all, none (only print; default: unit,e2e)")
    parser.add_argument("--e2e", nargs="*", metavar="NAME", help="these end-to-end cases")
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs")
    parser.add_argument("--uncovered", metavar="ROOM", help="print lines that were not run: of a room or a file")
    options = parser.parse_args()
    folder = os.path.abspath(options.build)
    places = os.path.join(folder, "places")
    if options.fresh:
        shutil.rmtree(places, ignore_errors=True)
    if options.tests != "none":
        build(folder, places)
        tests(folder, options)
    coverage = Coverage()
    for path, ident in objects(folder).items():
        coverage.add(path, read(os.path.join(places, ident)))
    table(coverage)
    if options.uncovered:
        uncovered(coverage, options.uncovered)
    return 0


if __name__ == "__main__":
    sys.exit(main())

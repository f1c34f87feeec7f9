#!/usr/bin/env python3
"""Build known programs in every way sites come about, and compare what the reader finds with what is known.

Usage: sites_matrix.py SITE_DUMP SOURCE_DIR.  Called by the unit tests.  A compiler or linker that is not installed is
named and left out; gcc is required.
"""
import collections
import os
import shutil
import struct
import subprocess
import sys
import tempfile

Site = collections.namedtuple("Site", "name kind verdict length body tramp address function wanted")

C_NAMES = {"global_one", "global_loop", "static_one", "static_two", "swapcontext", "discarded", "main"}
NEVER = {"swapcontext": "returns twice or switches stacks"}
OK = "can be traced"
SHORT = "too few bytes for a jump"
NO_ENTRY = "stripped, so its entry is not known"

# compiler, flags, what is expected: kind, verdict, length, body, and the trampoline's place relative to the function
P = "patchable"
F = "fentry"
M = "nop-mcount"
CASES = [
    # gcc: one-byte no-ops
    ("gcc", "-O0 -fpatchable-function-entry=5", (P, OK, 5, 5, None)),
    ("gcc", "-O1 -fpatchable-function-entry=5 -no-pie", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fcf-protection", (P, OK, 5, 5, None)),
    ("gcc", "-O3 -fpatchable-function-entry=16", (P, OK, 5, 16, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -fcf-protection", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -s", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -s -fcf-protection", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -s -fno-asynchronous-unwind-tables", (P, NO_ENTRY, 0, 0, None)),
    ("gcc", "-O2 -fpatchable-function-entry=7,5", (P, OK, 2, 2, -5)),
    ("gcc", "-O2 -fpatchable-function-entry=9,5 -fcf-protection", (P, OK, 2, 4, -5)),
    ("gcc", "-O2 -fpatchable-function-entry=32,28", (P, OK, 2, 4, -5)),
    ("gcc", "-O2 -fpatchable-function-entry=3", (P, SHORT, 0, 3, None)),
    ("gcc", "-O2 -fpatchable-function-entry=6,4", (P, SHORT, 0, 2, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5,5", (P, SHORT, 0, 0, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -flto", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -ffunction-sections -Wl,--gc-sections", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=gold", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=lld", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=lld -Wl,-z,pack-relative-relocs", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=lld -Wl,--pack-dyn-relocs=relr", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -static", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -static-pie", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -shared -fPIC", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -shared -fPIC -s", (P, OK, 5, 5, None)),
    # gcc: calls of __fentry__
    ("gcc", "-O0 -pg -mfentry", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -fno-pie -no-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O2 -pg -mfentry -fcf-protection", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -fcf-protection -fno-pie -no-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O2 -pg -mfentry -mrecord-mcount -Wl,-z,notext", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -mrecord-mcount -fno-pie -no-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O2 -pg -mfentry -mrecord-mcount -s -fno-pie -no-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O3 -pg -mfentry -flto", (F, OK, 5, 6, None)),
    ("gcc", "-O1 -pg -mfentry -static -fno-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O1 -pg -mfentry -static", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -shared -fPIC", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -fuse-ld=lld", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -fuse-ld=gold", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -ffunction-sections -Wl,--gc-sections", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -mnop-mcount -fno-pie -no-pie", (M, OK, 5, 5, None)),
    ("gcc", "-O2 -pg -mfentry -mnop-mcount -mrecord-mcount -fno-pie -no-pie -fcf-protection", (M, OK, 5, 5, None)),
    # clang: long no-ops
    ("clang", "-O0 -fpatchable-function-entry=5", (P, OK, 5, 5, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -fcf-protection", (P, OK, 5, 5, None)),
    ("clang", "-O2 -fpatchable-function-entry=16 -fuse-ld=lld", (P, OK, 5, 16, None)),
    ("clang", "-O2 -fpatchable-function-entry=16,7 -fcf-protection", (P, OK, 5, 9, None)),
    ("clang", "-O2 -fpatchable-function-entry=16,7 -s", (P, OK, 5, 9, None)),
    ("clang", "-O2 -fpatchable-function-entry=24,20 -fuse-ld=lld", (P, OK, 2, 4, -5)),
    ("clang", "-O2 -fpatchable-function-entry=4", (P, SHORT, 0, 4, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -flto=thin -fuse-ld=lld", (P, OK, 5, 5, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -ffunction-sections -Wl,--gc-sections -fuse-ld=lld",
     (P, OK, 5, 5, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -shared -fPIC", (P, OK, 5, 5, None)),
    ("clang", "-O0 -pg -mfentry", (F, OK, 5, 5, None)),
    ("clang", "-O2 -pg -mfentry -fcf-protection", (F, OK, 5, 5, None)),
    ("clang", "-O2 -pg -mfentry -fPIC -shared -fuse-ld=lld", (F, OK, 5, 5, None)),
    # nothing to find
    ("gcc", "-O2", None),
    ("gcc", "-O2 -pg", None),
    ("gcc", "-O2 -finstrument-functions", None),
    ("clang", "-O2 -fxray-instrument", None),
]

CXX_SHORT = {"room::Widget::Widget(int)", "room::Widget::turn(int) const", "int room::twice<int>(int)", "main",
             "room::Widget::operator()(int) const", "(anonymous namespace)::hidden(int)"}


def compile_source(compiler, flags, source, output):
    command = [compiler, "-w", *flags.split(), "-o", output, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stderr


def dump(tool, program, *filters):
    done = subprocess.run([tool, program, *filters], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"site_dump: {done.returncode}: {done.stderr}")
    sites = []
    for line in done.stdout.splitlines()[:-1]:
        name, kind, verdict, length, body, tramp, address, function, wanted = line.split("\t")
        sites.append(Site(name, kind, verdict, int(length), int(body), int(tramp), int(address, 16),
                          int(function, 16), wanted == "1"))
    return sites


def functions_by_nm(program):
    """name -> address, for what is not stripped."""
    done = subprocess.run(["nm", program], capture_output=True, text=True, check=False)
    fields = [line.split() for line in done.stdout.splitlines()]
    return {f[2]: int(f[0], 16) for f in fields if len(f) == 3 and f[1] in "tTwW"}


def expect(wrong, condition, text):
    if not condition:
        wrong.append(text)


def check_site(site, expected, truth, landing_pads, wrong):
    kind, verdict, length, body, tramp = expected
    expect(wrong, site.kind == kind, f"{site.name}: kind {site.kind}")
    expect(wrong, site.verdict == NEVER.get(site.name, verdict), f"{site.name}: verdict {site.verdict}")
    if site.name in NEVER:
        return
    # The loop's alignment may add no-ops that belong to nobody.
    expect(wrong, site.length == length, f"{site.name}: length {site.length}")
    expect(wrong, site.body == body or (site.body > body and site.name == "global_loop"),
           f"{site.name}: body_off {site.body}")
    if site.name in truth:
        off = site.address - truth[site.name]
        expect(wrong, site.function == truth[site.name], f"{site.name}: function {site.function:x}")
        expect(wrong, off == 0 or (landing_pads and off == 4), f"{site.name}: site at +{off}")
        if tramp is not None:
            expect(wrong, site.tramp + off == tramp, f"{site.name}: trampoline at {site.tramp}")
    if tramp is None:
        expect(wrong, site.tramp == 0, f"{site.name}: unexpected trampoline")


def load_segments(image):
    """(address, file offset, size) of each PT_LOAD."""
    table, size, count = struct.unpack_from("<Q", image, 32)[0], *struct.unpack_from("<HH", image, 54)
    segments = []
    for i in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", image, table + i * size)
        if kind == 1:
            segments.append((address, offset, length))
    return segments


def write_jumps(image, sites):
    """Do to the file what the tracer does to the process, with each jump going straight to the body."""
    segments = load_segments(image)

    def write(address, code):
        offset = next(o + address - a for a, o, n in segments if a <= address < a + n)
        image[offset:offset + len(code)] = code

    def jump(source, target):
        return b"\xe9" + struct.pack("<i", target - source - 5)

    for site in sites:
        body = site.address + site.body
        if site.length == 2:
            place = site.address + site.tramp
            write(place, jump(place, body))
            write(site.address, b"\xeb" + struct.pack("<b", site.tramp - 2))
        else:
            write(site.address, jump(site.address, body))


def check_patched(program, sites):
    """The program must do the same when every site is a jump to where its body is said to go on."""
    patched = program + ".patched"
    with open(program, "rb") as file:
        image = bytearray(file.read())
    write_jumps(image, [site for site in sites if site.verdict == OK])
    with open(patched, "wb") as file:
        file.write(image)
    os.chmod(patched, 0o755)
    runs = [subprocess.run([path], capture_output=True, text=True, check=False, timeout=20,
                           cwd=os.path.dirname(program)) for path in (program, patched)]
    if "DT_RELR" in runs[0].stderr:
        return []  # a linker that packs relocations, and a C library that wants to be told of it
    same = (runs[0].returncode, runs[0].stdout) == (runs[1].returncode, runs[1].stdout)
    if runs[0].stdout != "109\n" or not same:
        return [f"patched: {runs[1].returncode} {runs[1].stdout!r}, plain: {runs[0].returncode} {runs[0].stdout!r}"]
    return []


def check_case(tool, program, flags, expected):
    wrong = []
    sites = dump(tool, program)
    truth = functions_by_nm(program)
    if expected is None:
        return [f"unexpected sites: {[s.name for s in sites]}"] if sites else []
    names = [s.name for s in sites]
    expect(wrong, len(set(s.address for s in sites)) == len(sites), "one address twice")
    if "-s" in flags.split():
        # Names are gone, places are not: as many as there are functions.
        expect(wrong, len(sites) == len(C_NAMES), f"{len(sites)} sites")
    else:
        known = {n for n in C_NAMES if n in truth}
        expect(wrong, set(names) == known, f"found {sorted(names)}, want {sorted(known)}")
        expect(wrong, known >= C_NAMES - {"discarded"}, f"the build lacks {sorted(C_NAMES - known)}")
    for site in sites:
        if site.verdict in NEVER.values():
            expect(wrong, site.name in NEVER, f"{site.name}: verdict {site.verdict}")
        check_site(site, expected, truth, "-fcf-protection" in flags, wrong)
    if "-shared" not in flags:
        wrong += check_patched(program, sites)
    return wrong


def check_cxx(tool, source, directory):
    wrong = []
    program = os.path.join(directory, "cxx")
    built, errors = compile_source("g++", "-O1 -fpatchable-function-entry=5", source, program)
    if not built:
        return [f"g++ failed: {errors}"]
    names = {s.name for s in dump(tool, program)}
    expect(wrong, CXX_SHORT <= names, f"lacks {sorted(CXX_SHORT - names)}")
    filters = {
        "room::Widget::turn": 2, "room::Widget::turn(int) const": 1, "_ZNK4room6Widget4turnEi": 1, "*::turn*": 2,
        "room::twice<int>": 1, "/^room::twice/": 1, "/twice<.*>$/": 1, "cxx:*Widget*": 4, "nothere:*": 0,
        "(anonymous namespace)::hidden": 1, "*operator()": None, "main": 1, "mai": 0, "/std::/": 1,
    }
    for text, count in filters.items():
        found = [s.name for s in dump(tool, program, text) if s.wanted]
        expect(wrong, found if count is None else len(found) == count, f"filter {text}: {found}")
    return wrong


def report(label, wrong):
    print(f"{'FAIL' if wrong else 'ok  '} {label}")
    for text in wrong:
        print(f"       {text}")
    return bool(wrong)


def main():
    tool, sources = sys.argv[1], sys.argv[2]
    source = os.path.join(sources, "known.c")
    failed = ran = 0
    with tempfile.TemporaryDirectory() as directory:
        for number, (compiler, flags, expected) in enumerate(CASES):
            label = f"{compiler} {flags}"
            program = os.path.join(directory, f"case{number}")
            if not shutil.which(compiler):
                print(f"skip {label}: no {compiler}")
                continue
            built, errors = compile_source(compiler, flags, source, program)
            if not built:
                print(f"skip {label}: {errors.strip().splitlines()[-1]}")
                failed += compiler == "gcc" and "-fuse-ld" not in flags
                continue
            ran += 1
            failed += report(label, check_case(tool, program, flags, expected))
        failed += report("g++ names and filters", check_cxx(tool, os.path.join(sources, "known.cc"), directory))
    print(f"{ran} builds, {failed} failed")
    return 1 if failed or ran < 30 else 0


if __name__ == "__main__":
    sys.exit(main())

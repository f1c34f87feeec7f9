#!/usr/bin/env python3
"""Build known programs in every way sites come about, and compare what the reader finds with what is known.

Usage: sites_matrix.py SITE_DUMP SOURCE_DIR [CPU...].  Called by the unit tests; the builds are in sites_cases.py.  A
compiler, linker or emulator that is not installed is named and left out; this machine's gcc is required.
"""
import collections
import os
import platform
import struct
import subprocess
import sys
import tempfile

from sites_cases import IF_ALIGNED, IF_NAMED, NO_ENTRY, NOT_ALIGNED, OK, targets

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import wrapped  # noqa: E402  (the path above is what finds it)

Site = collections.namedtuple("Site", "name kind verdict length body tramp address function wanted")

C_NAMES = {"global_one", "global_loop", "static_one", "static_two", "swapcontext", "discarded", "main"}
NEVER = {"swapcontext": "returns twice or switches stacks"}
CXX_SHORT = {"room::Widget::Widget(int)", "room::Widget::turn(int) const", "int room::twice<int>(int)", "main",
             "room::Widget::operator()(int) const", "(anonymous namespace)::hidden(int)"}


def compile_source(compiler, flags, source, output):
    command = [*compiler, "-w", *flags.split(), "-o", output, source]
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


def functions_by_nm(target, program):
    """name -> address, for what is not stripped."""
    nm = target.triplet + "-nm" if target.triplet else "nm"
    done = subprocess.run([nm, program], capture_output=True, text=True, check=False)
    fields = [line.split() for line in done.stdout.splitlines()]
    return {f[2]: int(f[0], 16) for f in fields if len(f) == 3 and f[1] in "tTwW"}


def expect(wrong, condition, text):
    if not condition:
        wrong.append(text)


def verdict_for(site, verdict):
    """Some builds' functions differ in what can be done with them."""
    if verdict == IF_ALIGNED:
        return NOT_ALIGNED if site.function % 4 else OK
    if verdict == IF_NAMED:
        return NO_ENTRY if "+0x" in site.name else OK
    return verdict


def check_place(target, site, expected, truth, landing_pads, wrong):
    function, tramp = truth[site.name], expected[4]
    off = site.address - function
    first = -function % target.align if site.verdict == OK else 0
    expect(wrong, site.function == function, f"{site.name}: function {site.function:x}")
    expect(wrong, off == first or (landing_pads and off == 4), f"{site.name}: site at +{off}")
    if tramp is not None:
        expect(wrong, site.tramp + off == tramp, f"{site.name}: trampoline at {site.tramp}")


def check_site(target, site, expected, truth, landing_pads, wrong):
    kind, verdict, length, body, tramp = expected
    verdict = verdict_for(site, verdict)
    expect(wrong, site.kind == kind, f"{site.name}: kind {site.kind}")
    expect(wrong, site.verdict == NEVER.get(site.name, verdict), f"{site.name}: verdict {site.verdict}")
    if site.name in NEVER:
        return
    if verdict in (NO_ENTRY, NOT_ALIGNED):
        length = body = 0
    expect(wrong, site.length == length, f"{site.name}: length {site.length}")
    # The loop's alignment may add no-ops that belong to nobody, and so may lld, which makes one of `adrp`.
    expect(wrong, site.body == body or (site.body > body and site.name in ("global_loop", "discarded")),
           f"{site.name}: body_off {site.body}")
    if site.name in truth:
        check_place(target, site, expected, truth, landing_pads, wrong)
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


def write_jumps(target, image, sites):
    """Do to the file what the tracer does to the process, with each jump going straight to the body."""
    segments = load_segments(image)
    for site in sites:
        for address, code in target.jumps(site):
            offset = next(o + address - a for a, o, n in segments if a <= address < a + n)
            image[offset:offset + len(code)] = code


def check_patched(target, program, sites):
    """The program must do the same when every site is a jump to where its body is said to go on."""
    patched = program + ".patched"
    runner = target.runner()
    if runner is None:
        return []
    with open(program, "rb") as file:
        image = bytearray(file.read())
    write_jumps(target, image, [site for site in sites if site.verdict == OK])
    with open(patched, "wb") as file:
        file.write(image)
    os.chmod(patched, 0o755)
    runs = [subprocess.run([*runner, path], capture_output=True, text=True, check=False, timeout=20,
                           cwd=os.path.dirname(program)) for path in (program, patched)]
    if "DT_RELR" in runs[0].stderr:
        return []  # a linker that packs relocations, and a C library that wants to be told of it
    same = (runs[0].returncode, runs[0].stdout) == (runs[1].returncode, runs[1].stdout)
    if runs[0].stdout != "109\n" or not same:
        return [f"patched: {runs[1].returncode} {runs[1].stdout!r}, plain: {runs[0].returncode} {runs[0].stdout!r}"]
    return []


def check_case(target, tool, program, flags, expected):
    wrong = []
    sites = dump(tool, program)
    truth = functions_by_nm(target, program)
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
    landing_pads = "-fcf-protection" in flags or "-mbranch-protection" in flags
    for site in sites:
        if site.verdict in NEVER.values():
            expect(wrong, site.name in NEVER, f"{site.name}: verdict {site.verdict}")
        check_site(target, site, expected, truth, landing_pads, wrong)
    if "-shared" not in flags:
        wrong += check_patched(target, program, sites)
    return wrong


def check_cxx(compiler, tool, source, directory):
    wrong = []
    program = os.path.join(directory, "cxx")
    built, errors = compile_source(compiler, "-O1 -fpatchable-function-entry=5", source, program)
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


def check_target(target, tool, sources, directory):
    """The numbers of builds that were checked and that are wrong."""
    failed = ran = 0
    for number, (name, flags, expected) in enumerate(target.cases):
        compiler = target.compiler(name)
        label = f"{target.name} {name} {flags}"
        program = os.path.join(directory, f"case{number}")
        if not compiler:
            print(f"skip {label}: no compiler")
            continue
        built, errors = compile_source(compiler, flags, os.path.join(sources, "known.c"), program)
        if not built:
            print(f"skip {label}: {errors.strip().splitlines()[-1]}")
            # Some linkers are not everywhere, nor is a C library's start of static-pie programs.
            failed += name == "gcc" and "-fuse-ld" not in flags and "rcrt1.o" not in errors
            continue
        ran += 1
        failed += report(label, check_case(target, tool, program, flags, expected))
    compiler = target.compiler("g++")
    if compiler:
        failed += report(f"{target.name} g++ names and filters",
                         check_cxx(compiler, tool, os.path.join(sources, "known.cc"), directory))
    return ran, failed


def main():
    sources, wanted = sys.argv[2], sys.argv[3:]
    native = platform.machine()
    failed = ran = 0
    for target in targets(native):
        if wanted and target.name not in wanted:
            continue
        if target.runner() is None:
            print(f"no qemu-{target.name}: its programs are not run")
        with tempfile.TemporaryDirectory() as directory:
            counts = check_target(target, wrapped.program(sys.argv[1], directory), sources, directory)
        ran += counts[0]
        failed += counts[1] or (counts[0] < 30 and target.name == native)
    print(f"{ran} builds, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())

"""The ways in which the programs of test/prog are built."""
import os
import shlex
import subprocess

PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prog")
SITES = {
    "5": "-fpatchable-function-entry=5",
    "16,8": "-fpatchable-function-entry=16,8",
    "7,5": "-fpatchable-function-entry=7,5",
    "fentry": "-pg -mfentry",
    "mcount-loc": "-pg -mfentry -mrecord-mcount",
    "nop-mcount": "-pg -mfentry -mrecord-mcount -mnop-mcount",
}
EXTRA = {
    "pie": "-fPIE -pie",
    "nopie": "-fno-pie -no-pie",
    "cet": "-fPIE -pie -fcf-protection=full",
    "lto": "-fPIE -pie -flto",
    "gc": "-fPIE -pie -ffunction-sections -Wl,--gc-sections",
}
LEVELS = ("-O0", "-O2")


def possible(compiler, sites, extra):
    """Whether the compilers have the combination at all."""
    if sites == "nop-mcount" and extra != "nopie":
        return False  # gcc refuses it in position-independent code
    if compiler == "clang":
        return sites not in ("mcount-loc", "nop-mcount") and extra != "lto"  # clang's LTO needs another linker
    return True


def every():
    """All combinations, for --long."""
    return [(compiler, sites, level, extra) for compiler in ("gcc", "clang") for sites in SITES
            for level in (*LEVELS, "-O3") for extra in EXTRA if possible(compiler, sites, extra)]


def usual():
    """Each compiler's every way of instrumentation at each level; what else there is to vary goes round."""
    extras, builds = ("pie", "nopie", "cet", "gc"), []
    for compiler in ("gcc", "clang"):
        for sites in SITES:
            for level in LEVELS:
                extra = extras[len(builds) % len(extras)] if sites != "nop-mcount" else "nopie"
                if possible(compiler, sites, extra):
                    builds.append((compiler, sites, level, extra))
    return builds + [("gcc", "5", "-O2", "lto"), ("gcc", "16,8", "-O3", "pie"), ("clang", "16,8", "-O3", "pie")]


# What --quick and the cases of one build use.
FIRST = ("gcc", "5", "-O2", "pie")


def label(build):
    return "-".join(part.strip("-") for part in build)


class BuildError(Exception):
    """The compiler's message."""


def compile_program(build, source, output, sites=True, flags=()):
    """Compile one program of test/prog; a source called library.c becomes a shared library.  flags come after the
    build's own, and after the source."""
    compiler, kind, level, extra = build
    if source == "library.c" and kind == "nop-mcount":
        kind = "mcount-loc"  # a library is position-independent code
    cxx = source.endswith(".cc")
    command = [{"gcc": "g++", "clang": "clang++"}[compiler] if cxx else compiler]
    command += ["-D_GNU_SOURCE", "-g", level, "-std=gnu++17" if cxx else "-std=gnu11", "-w"]
    command += shlex.split(SITES[kind]) if sites else []
    if source == "library.c":
        command += ["-fPIC", "-shared"] + [flag for flag in shlex.split(EXTRA[extra]) if not flag.lower().endswith("pie")]
    else:
        command += shlex.split(EXTRA[extra])
    command += ["-o", output, os.path.join(PROGRAMS, source), "-pthread", *flags]
    if "-pg" in command and extra != "lto":
        # Compiled with -pg but linked without: the calls to __fentry__ are wanted, gmon.out is not.
        link = [part for part in command if part not in ("-pg", "-mfentry", "-mrecord-mcount", "-mnop-mcount")]
        objects = output + ".o"
        shared = [part for part in command if part not in ("-shared", "-pie", "-no-pie")]
        shared[shared.index("-o"):] = ["-c", "-o", objects, os.path.join(PROGRAMS, source), *flags]
        link[link.index(os.path.join(PROGRAMS, source))] = objects
        steps = [shared, link]
    else:
        steps = [command]
    for step in steps:
        done = subprocess.run(step, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if done.returncode:
            raise BuildError(f"{shlex.join(step)}\n{done.stdout}")

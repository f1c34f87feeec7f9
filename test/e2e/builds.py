"""The ways in which the programs of test/prog are built, for each CPU."""
import os
import shlex
import subprocess

PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prog")
START = os.path.join(PROGRAMS, "cpu", "aarch64", "start.S")
LEVELS = ("-O0", "-O2")
MUSL = ("musl", "5", "-O2", "pie")  # by musl-gcc, for the cases of musl.py
# Without a loader, for the cases of loaderless.py.
STATIC = {
    "static": ("gcc", "5", "-O2", "static"),
    "static-stock": ("gcc", "stock", "-O2", "static"),
    "static-pie": ("gcc", "16,8", "-O2", "static-pie"),
    "static-musl": ("musl", "5", "-O2", "static"),
    "static-musl-stock": ("musl", "stock", "-O2", "static"),
}
LOADERLESS = {"static": "-static -fno-pie -no-pie", "static-pie": "-static-pie -fPIE"}
EXTRA = {
    "pie": "-fPIE -pie",
    "nopie": "-fno-pie -no-pie",
    "lto": "-fPIE -pie -flto",
    "gc": "-fPIE -pie -ffunction-sections -Wl,--gc-sections",
}


class Ways:
    """A CPU's ways.  A build is (compiler, way of instrumentation, level, what else)."""

    def __init__(self, sites, extra, first, also, impossible=lambda compiler, sites, extra: False):
        self.sites = sites  # {name: flags}: where the room for a jump is
        self.extra = {**EXTRA, **extra}
        self.first = first  # the build of --quick and of cases that use one build
        self.also = also  # the odd ones of the normal run
        self.always = []  # builds of which each program has all
        self.turns = 2  # number of builds of which a program has one, the next program the next
        self.impossible = impossible

    def possible(self, compiler, sites, extra):
        """True if the compilers have the combination."""
        if compiler == "clang" and extra == "lto":
            return False  # clang's needs another linker
        return not self.impossible(compiler, sites, extra)

    def turn(self, number):
        """Builds of the program of this number, in the normal run: what follows each other in usual() takes turns."""
        builds = self.usual()
        turns = [build for index, build in enumerate(builds) if index % self.turns == (number + index // self.turns) % self.turns]
        return turns + self.always

    def every(self):
        """All combinations, for --long."""
        return [(compiler, sites, level, extra) for compiler in ("gcc", "clang") for sites in self.sites
                for level in (*LEVELS, "-O3") for extra in self.extra if self.possible(compiler, sites, extra)]


def impossible_x86(compiler, sites, extra):
    if extra == "pg" and sites != "stock":
        return True  # mcount beside other sites: mcount.py
    if sites == "nop-mcount" and extra != "nopie":
        return True  # gcc refuses it in position-independent code
    return compiler == "clang" and sites in ("mcount-loc", "nop-mcount")


class WaysX86(Ways):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.always = self.also
        self.turns = 4

    def usual(self):
        """Each compiler's every way of instrumentation, at each level by turns; what else there is to vary goes round."""
        extras, builds = ("pie", "nopie", "cet", "gc"), []
        for compiler in ("gcc", "clang"):
            for sites in self.sites:
                for level in LEVELS if sites != "stock" else ():
                    extra = extras[len(builds) % len(extras)] if sites != "nop-mcount" else "nopie"
                    if self.possible(compiler, sites, extra):
                        builds.append((compiler, sites, level, extra))
        return builds


class WaysEmulated(Ways):
    def usual(self):
        """One build by each compiler, by turns, for emulated programs are slow; --long has them all."""
        return [self.first, *self.also]


WAYS = {
    "x86_64": WaysX86(
        sites={
            "5": "-fpatchable-function-entry=5",
            "16,8": "-fpatchable-function-entry=16,8",
            "7,5": "-fpatchable-function-entry=7,5",
            "fentry": "-pg -mfentry",
            "mcount-loc": "-pg -mfentry -mrecord-mcount",
            "nop-mcount": "-pg -mfentry -mrecord-mcount -mnop-mcount",
            "stock": "",  # no room for a jump: heads are led to blocks
        },
        extra={"cet": "-fPIE -pie -fcf-protection=full", "pg": "-fPIE -pie -pg"},
        first=("gcc", "5", "-O2", "pie"),
        also=[("gcc", "5", "-O2", "lto"), ("gcc", "16,8", "-O3", "pie"), ("clang", "16,8", "-O3", "pie"),
              ("gcc", "stock", "-O2", "pie"), ("clang", "stock", "-O0", "nopie")],
        impossible=impossible_x86,
    ),
    # Five no-ops of two bytes hold the eight bytes of a site at any address, four where functions are aligned.
    "riscv64": WaysEmulated(
        sites={
            "5": "-fpatchable-function-entry=5",
            "4": "-fpatchable-function-entry=4 -falign-functions=4",
            "9,4": "-fpatchable-function-entry=9,4",
            "stock": "",
        },
        extra={
            "rvg": "-fPIE -pie -march=rv64g",  # without the compressed instructions
            "medany": "-fno-pie -no-pie -mcmodel=medany",
            "medlow": "-fno-pie -no-pie -mcmodel=medlow",
        },
        first=("gcc", "5", "-O2", "pie"),
        also=[("clang", "9,4", "-O0", "medany"), ("gcc", "stock", "-O2", "pie")],
    ),
    "aarch64": WaysEmulated(
        sites={
            "1": "-fpatchable-function-entry=1",
            "2": "-fpatchable-function-entry=2",
            "5,3": "-fpatchable-function-entry=5,3",
            "stock": "",
        },
        extra={
            "pac": "-fPIE -pie -mbranch-protection=standard",
            # Libraries of the packages have no landing pads, so that they must not be linked in.
            "bti": f"-fPIE -pie -mbranch-protection=standard -nostartfiles {shlex.quote(START)} -Wl,-z,force-bti",
        },
        first=("gcc", "2", "-O2", "pac"),
        also=[("clang", "1", "-O0", "nopie"), ("gcc", "stock", "-O2", "pac")],
    ),
}


def label(build):
    return "-".join(part.strip("-") for part in build)


class BuildError(Exception):
    """The compiler's message."""


def compile_program(cpu, build, source, output, sites=True, flags=()):
    """Compile one program of test/prog; a source called library.c becomes a shared library.  flags come after the
    build's own, and after the source."""
    compiler, kind, level, extra = build
    ways = WAYS[cpu.name]
    if source == "library.c" and kind == "nop-mcount":
        kind = "mcount-loc"  # a library is position-independent code
    cxx = source.endswith(".cc")
    command = cpu.compiler({"gcc": "g++", "clang": "clang++"}.get(compiler, compiler) if cxx else compiler)
    command += ["-I" + os.path.join(PROGRAMS, "cpu", cpu.name)]
    if compiler == "musl":  # the kernel's headers, behind its own
        command += ["-idirafter", "/usr/include", "-idirafter", f"/usr/include/{cpu.triplet}"]
    command += ["-D_GNU_SOURCE", "-g", level, "-std=gnu++17" if cxx else "-std=gnu11", "-w"]
    command += shlex.split(ways.sites[kind]) if sites else []
    extra_flags = shlex.split({**LOADERLESS, **ways.extra}[extra])
    if source == "library.c":
        command += ["-fPIC", "-shared"] + [flag for flag in extra_flags if flag != START and not flag.lower().endswith(("pie", "static"))]
    else:
        command += extra_flags
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

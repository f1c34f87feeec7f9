"""The real programs: their source, from Debian's source packages, and how each is built in each flavour.

apt fetches and verifies the source (SQLite with its speedtest1, LevelDB, Lua) with a source list of its own, so that
neither the system's lists nor root are needed.  All of it goes to $CALLTAP_CACHE (default: build/cache) and is kept.
"""
import glob
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import debian

CACHE = os.path.abspath(os.environ.get("CALLTAP_CACHE") or os.path.join(ROOT, "build", "cache"))

# How a program is instrumented: (compiler, compile flags, link flags).
FLAVOURS = {
    "plain": ("gcc", "", ""),
    "sites": ("gcc", "-fpatchable-function-entry=5", ""),
    "mcount": ("gcc", "-pg", ""),
    "cyg": ("gcc", "-finstrument-functions", ""),
    "xray": ("clang", "-fxray-instrument -fxray-instruction-threshold=1", "-fxray-instrument"),
    "clang": ("clang", "", ""),
    "clang, sites": ("clang", "-fpatchable-function-entry=5", ""),
    "typed": ("gcc", "-fpatchable-function-entry=5 -g2", ""),  # with debug information that tells types
}
# For another CPU, whose programs an emulator runs.
EMULATED = ("aarch64", "riscv64")
for _cpu in EMULATED:
    FLAVOURS[f"plain, {_cpu}"] = (f"{_cpu}-linux-gnu-gcc", "", "")
    FLAVOURS[f"sites, {_cpu}"] = (f"{_cpu}-linux-gnu-gcc", "-fpatchable-function-entry=5", "")
# gcc 12 ties the whole site table of a C++ file to the file's first function; where that one is dropped as a copy of
# another file's, the table goes with it or the link fails.  Calls to __fentry__ need no table.
FLAVOUR_OF = {("leveldb", "sites"): ("gcc", "-pg -mfentry", ""), ("leveldb", "typed"): ("gcc", "-pg -mfentry -g2", "")}


def scratch():
    return os.path.join(CACHE, "scratch")


class SourceError(Exception):
    """The source cannot be had or built; the text says what to do."""


def run(command, cwd=None, what=None):
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    if done.returncode:
        raise SourceError(f"{what or shlex.join(command)} failed:\n" + "\n".join(done.stdout.splitlines()[-15:]))
    return done.stdout


def mirror():
    """(URI, release) of the Debian archive that this machine uses."""
    with open("/etc/os-release", encoding="utf-8") as file:
        release = re.search(r"^VERSION_CODENAME=(\w+)", file.read(), re.M)
    uri = debian.archive()
    if not uri:
        raise SourceError("the source of the demo's programs comes from Debian, whose archive apt's sources do not name")
    return uri, release.group(1) if release else "bookworm"


def fetch(package):
    """Folder with the unpacked source of a Debian source package."""
    folder = os.path.join(CACHE, package)
    kept = [path for path in glob.glob(os.path.join(folder, "*")) if os.path.isdir(path)]
    if kept:
        return kept[0]
    lists = os.path.join(CACHE, "lists")
    os.makedirs(os.path.join(lists, "partial"), exist_ok=True)
    uri, release = mirror()
    listing = os.path.join(CACHE, "sources.list")
    with open(listing, "w", encoding="utf-8") as file:
        file.write(f"deb-src {uri} {release} main\n")
    options = [f"-oDir::Etc::SourceList={listing}", "-oDir::Etc::SourceParts=/dev/null", f"-oDir::State::Lists={lists}",
               f"-oDir::Cache={CACHE}/apt", "-oAPT::Sandbox::User="]
    partial = folder + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    if not glob.glob(os.path.join(lists, "*Sources*")):
        run(["apt-get", "-q", *options, "update"], what="fetching Debian's list of sources")
    run(["apt-get", "-q", *options, "source", "--download-only", package], cwd=partial,
        what=f"fetching Debian's source of {package}")
    archive = glob.glob(os.path.join(partial, "*.orig.tar.*"))
    run(["tar", "xf", archive[0]], cwd=partial)
    for path in glob.glob(os.path.join(partial, "*.tar.*")) + glob.glob(os.path.join(partial, "*.dsc")):
        os.unlink(path)
    os.rename(partial, folder)
    return fetch(package)


def sqlite_parts():
    """SQLite as its one big file, made by its own build, and its benchmark program."""
    source = fetch("sqlite3")
    made = os.path.join(source, "amalgamation")
    if not os.path.exists(os.path.join(made, "sqlite3.c")):
        shutil.rmtree(made, ignore_errors=True)
        os.makedirs(made)
        run(["../configure", "--disable-tcl", "--disable-shared", "--disable-readline"], cwd=made)
        run(["make", "sqlite3.c"], cwd=made)
    flags = ["-I" + made, "-DSQLITE_OMIT_LOAD_EXTENSION"]  # else as it comes
    return [os.path.join(made, "sqlite3.c"), os.path.join(source, "test", "speedtest1.c")], flags, ["-lm"]


def lua_parts():
    source = os.path.join(fetch("lua5.4"), "src")
    files = [path for path in sorted(glob.glob(os.path.join(source, "*.c"))) if os.path.basename(path) != "luac.c"]
    return files, ["-DLUA_USE_POSIX"], ["-lm"]


def leveldb_parts():
    source = fetch("leveldb")
    files = [path for part in ("db", "table", "util") for path in sorted(glob.glob(os.path.join(source, part, "*.cc")))
             if not re.search(r"_test|testutil|windows|leveldbutil|_helper", path)]
    flags = ["-std=gnu++17", "-I" + source, "-I" + os.path.join(source, "include"), "-DLEVELDB_PLATFORM_POSIX=1",
             "-DHAVE_FDATASYNC=1", "-DHAVE_O_CLOEXEC=1", "-DHAVE_SNAPPY=0", "-DHAVE_CRC32C=0", "-pthread"]
    return files + [os.path.join(HERE, "leveldb_work.cc")], flags, ["-lstdc++", "-lm", "-pthread"]


def redis_parts():
    """redis-server with libc's malloc, and of its bundled libraries what it takes."""
    source = fetch("redis")
    folders = {name: os.path.join(source, name) for name in ("src", "deps/hiredis", "deps/lua/src", "deps/hdr_histogram")}
    with open(os.path.join(folders["src"], "Makefile"), encoding="utf-8") as file:
        objects = re.search(r"^REDIS_SERVER_OBJ=(.*)$", file.read(), re.M)[1].split()
    with open(os.path.join(folders["src"], "release.h"), "w", encoding="utf-8") as file:
        file.write("".join(f'#define REDIS_{name} ""\n' for name in ("GIT_SHA1", "GIT_DIRTY", "BUILD_ID")))
    files = [os.path.join(folders["src"], name.removesuffix(".o") + ".c") for name in objects]
    files += [os.path.join(folders["deps/hiredis"], f"{name}.c") for name in
              ("alloc", "net", "hiredis", "sds", "async", "read", "sockcompat")]
    files += [path for path in sorted(glob.glob(os.path.join(folders["deps/lua/src"], "*.c")))
              if os.path.basename(path) not in ("lua.c", "luac.c", "print.c")]
    files.append(os.path.join(folders["deps/hdr_histogram"], "hdr_histogram.c"))
    flags = ["-I" + folder for folder in folders.values()] + ["-I" + os.path.join(source, "deps", "linenoise")]
    flags += ["-std=gnu11", "-DREDIS_STATIC=", "-DLUA_ANSI", "-DENABLE_CJSON_GLOBAL",
              '-DHDR_MALLOC_INCLUDE="hdr_redis_malloc.h"', "-pthread"]
    return files, flags, ["-lm", "-ldl", "-pthread", "-rdynamic"]


def json_parts():
    source = fetch("cjson")
    return [os.path.join(source, "cJSON.c"), os.path.join(HERE, "json_work.c")], ["-I" + source], ["-lm"]


PROGRAMS = {"sqlite": sqlite_parts, "lua": lua_parts, "leveldb": leveldb_parts, "json": json_parts, "redis": redis_parts,
            "leaf": lambda: ([os.path.join(HERE, "leaf.c")], [], []),
            "valued": lambda: ([os.path.join(HERE, "valued.c")], ["-g"], []),
            "hello": lambda: ([os.path.join(HERE, "hello.c")], [], [])}


def build(program, flavour="sites", level="-O2"):
    """Path of the program in the flavour; built if it is not there yet."""
    output = os.path.join(CACHE, "bin", f"{program}-{flavour.replace(', ', '-')}")
    files, flags, libraries = PROGRAMS[program]()
    if os.path.exists(output) and os.path.getmtime(output) >= max(map(os.path.getmtime, [*files, os.path.join(HERE, "clocks.h")])):
        return output
    compiler, compile_flags, link_flags = FLAVOUR_OF.get((program, flavour), FLAVOURS[flavour])
    if not shutil.which(compiler):
        raise SourceError(f"{compiler} is not installed")
    cpu = compiler.split("-", 1)[0] if compiler.endswith("-linux-gnu-gcc") else platform.machine()
    flags = [*flags, "-I" + os.path.join(ROOT, "src", "arch", cpu, "native")]  # its clock
    folder = output + ".objects"
    os.makedirs(folder, exist_ok=True)
    steps, objects = [], []
    for path in files:
        # Files of two folders may have one name.
        objects.append(os.path.join(folder, "-".join(path.split(os.sep)[-2:]) + ".o"))
        # `-g1` for the source lines that the views show; it changes no code.
        steps.append([compiler, level, "-g1", "-w", *shlex.split(compile_flags), *flags, "-c", "-o", objects[-1], path])
    at_once = os.cpu_count() or 1
    while steps:
        running = [(step, subprocess.Popen(step, stdin=subprocess.DEVNULL)) for step in steps[:at_once]]
        steps = steps[at_once:]
        failed = [step for step, process in running if process.wait()]
        if failed:
            raise SourceError(f"cannot compile: {shlex.join(failed[0])}")
    run([compiler, *shlex.split(link_flags), "-o", output + ".new", *objects, *libraries], what=f"linking {program}")
    os.rename(output + ".new", output)
    return output


def many_functions(count, main):
    """Path of a program with so many functions that have sites, as several sources so that it compiles in bounded time;
    and one more that has none, the source of main()."""
    output = os.path.join(CACHE, "bin", f"{os.path.basename(main).removesuffix('.c')}-{count}")
    if os.path.exists(output) and os.path.getmtime(output) >= os.path.getmtime(main):
        return output
    folder = output + ".objects"
    os.makedirs(folder, exist_ok=True)
    parts = []
    for part in range(10):
        parts.append(os.path.join(folder, f"part{part}.c"))
        with open(parts[-1], "w", encoding="utf-8") as file:
            for number in range(part, count, 10):
                file.write(f"int function_{number}(int x)\n{{\n\treturn x + {number};\n}}\n")
    start = os.path.join(folder, "main.o")
    run(["gcc", "-O1", "-w", "-c", "-o", start, main])
    run(["gcc", "-O1", "-w", "-fpatchable-function-entry=5", "-pthread", "-o", output, *parts, start])
    return output

"""What libc's functions take is known without anybody's debug information."""
import json
import os
import re
import shutil
import subprocess

import builds
from harness import Skip, expect
from typed import SITES
from values import need

OWN = "double hcreate(double x)\n{\n\treturn x + 1;\n}\n"
BUILDS = (["gcc", "-O2"], ["gcc", "-O0", "-Wl,-z,now"], ["clang", "-O1"])


def built(case, compiler):
    """The program, stripped, and with a library that defines a function under the name of one of libc's."""
    program, library = os.path.join(case.folder, "asks"), os.path.join(case.folder, "libown.so")
    with open(library + ".c", "w", encoding="utf-8") as file:
        file.write(OWN)
    sites = [] if case.cpu.native else [f"-fpatchable-function-entry={SITES[case.cpu.name]}"]
    stripped = ["-s"] if case.cpu.name != "riscv64" else []  # of a stripped program for RISC-V the calls of libraries are not found
    first = case.cpu.compiler(compiler[0])
    for command in ([*first, *sites, "-O1", *stripped, "-shared", "-fPIC", "-fno-builtin", "-o", library, library + ".c"],
                    [*first, *compiler[1:], "-fno-builtin", "-U_FORTIFY_SOURCE", *stripped, "-w", "-o", program, os.path.join(builds.PROGRAMS, "asks_libc.c"),
                     library, "-lm", f"-Wl,-rpath,{case.folder}"]):
        subprocess.run(command, check=True, timeout=60)
    return program


def is_among(line, shown):
    """An emulator may have no call to copy memory: then texts that are no constants are faults, and structures elsewhere are."""
    pattern = re.sub(r'"[^"]*"', lambda match: rf"({match.group()}|\(fault\))", re.sub(r"\\\{.*\\\}", r"0x\\w+\\(fault\\)", re.escape(line)))
    return any(re.fullmatch(pattern, other) for other in shown)


def told(compiler):
    def test(case):
        if not shutil.which(case.cpu.compiler(compiler[0])[0]):
            raise Skip(f"{compiler[0]} is not there")
        case.as_it_is = True
        names = "open lseek openat mmap madvise close getenv strdup strtol free socketpair getpid kill clock_gettime access ldexp opendir readdir hcreate".split()
        chosen = [word for name in names for word in ("-l", name)]
        done = case.record([built(case, compiler), "/etc/passwd"], ["-a", *chosen], log=False)
        expect(done.status == 0, f"{done.status}: {done.stderr}")
        replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
        shown = set(re.findall(r"\|\s+(\w+\(.*);", replay))
        wanted = done.stdout.splitlines()
        expect(len(wanted) == 22, f"the program says {wanted}")
        for line in wanted:
            expect(line in shown or not case.cpu.native and is_among(line, shown), f"{line!r} is not shown: {replay}")
    return test


def told_to_programs(case):
    """JSON has each value by its name and in its type."""
    need(case)
    case.as_it_is = True
    done = case.record([built(case, ["gcc", "-O1"]), "/etc/passwd"], ["-a", "-l", "open", "-l", "strtol", "-l", "mmap", "-l", "getenv", "-l", "ldexp"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    lines = [json.loads(line) for line in case.run([case.tool, "export", "--format", "json", "-i", case.trace_path, "-o", "-"]).stdout.splitlines()]
    found = {(line["fn"], line["ev"]): line["values"] for line in lines if "values" in line}
    expect(found["open", "arguments"] == {"file": "/etc/passwd", "oflag": "O_CLOEXEC"}, f"{found}")
    expect(isinstance(found["open", "result"]["ret"], int) and found["strtol", "result"] == {"ret": 63}, f"{found}")
    expect(found["strtol", "arguments"].items() >= {"nptr": "77 and more", "base": 8}.items(), f"{found}")
    expect(found["mmap", "arguments"].items() >= {"addr": "0x0", "len": 4096, "prot": "PROT_READ|PROT_WRITE", "fd": -1}.items(), f"{found}")
    expect(found["getenv", "result"] == {"ret": "a text"}, f"{found}")
    expect(found["ldexp", "arguments"] == {"x": 2.5, "exponent": 3} and found["ldexp", "result"] == {"ret": 20.0}, f"{found}")


def library(case):
    """Within libc, too, whatever it calls the function itself."""
    need(case)
    case.as_it_is = True
    done = case.record(["/bin/cat", "/etc/hostname"], ["-a", "-l", "libc.so.6:open", "-l", "libc.so.6:read"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    replay = case.run([case.tool, "replay", "-i", case.trace_path]).stdout
    opened = re.search(r'open\w*\(file="/etc/hostname", oflag=O_RDONLY\) = (\d+);', replay)
    expect(opened, replay)
    expect(re.search(rf"read\(fd={opened.group(1)}, buf=0x\w+, n?bytes=\d+\) = \d+;", replay), replay)


def live(case):
    """As they happen, and only those that are asked for."""
    need(case)
    case.as_it_is = True
    program = built(case, ["gcc", "-O1"])
    done = case.run([case.tool, "live", "-a", "-l", "open*", "-l", "lseek", "-o", "text", "--", program, "/etc/passwd"])
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    with open(os.path.join(case.folder, "text"), encoding="utf-8") as file:
        shown = re.findall(r"\|\s+(\w+\(.*);", file.read())
    wanted = [line for line in done.stdout.splitlines() if line.startswith(("open", "lseek"))]
    expect(len(wanted) == 4 and shown == wanted, f"{shown}, not {wanted}")
    done = case.run([case.tool, "live", "-A", "lseek:offset=arg2:s64", "--if", "lseek: offset > 2", "-l", "lseek", "-o", "text", "--", program, "/etc/passwd"])
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    with open(os.path.join(case.folder, "text"), encoding="utf-8") as file:
        expect("lseek(" not in file.read(), "a call is shown of which the condition is false")


SINGLE = {f"prototypes-{i}": told(compiler) for i, compiler in enumerate(BUILDS)}
SINGLE |= {"prototypes-library": library, "prototypes-live": live, "prototypes-json": told_to_programs}

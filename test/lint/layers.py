#!/usr/bin/env python3
"""Gate: a room includes only what lies below it (the room table of the architecture), and what may
run inside a traced function or without libc sees no libc header."""
import glob
import os
import re

import lint

# room: the rooms it may include from, besides itself and calltap/abi/.
ROOMS = {
    "base": {"arch"},  # for the CPU's system call instruction alone
    "arch": {"base"},
    "ring": {"base", "arch"},
    "probe": {"base", "arch", "ring"},
    "patch": {"base", "arch"},
    "agent": {"base", "arch", "ring", "probe", "patch"},
    "tracers": {"base"},  # what a stub is to do is decided in the host
    "bpf": {"arch", "include"},  # of arch the instruction sets
    "host": {"base", "arch", "tracers", "bpf", "include"},
    "cmd": {"base", "host", "tracers", "include"},
    "lib": {"host", "include"},  # of the host what its build file says, no more: it lives in a program
}
# Parts of the host, and which of them each may include from, besides itself and what lies in src/host itself.
HOST_PARTS = {
    "trace": set(),
    "stock": set(),
    "elf": {"stock"},
    "remote": set(),
    "attach": {"elf"},
    "types": {"elf"},
    "core": {"trace"},
    "terminal": set(),
    "view": {"trace", "terminal", "elf"},  # of elf the filters
    "tui": {"trace", "view", "terminal"},
    "export": {"trace", "view"},
    "diff": {"trace", "view"},
    "tracefs": {"trace", "remote", "elf"},  # of elf the globs
    "html": {"trace", "view", "export", "diff"},  # of export the texts of calls' values
}
# The rooms of a session use each other: a session has targets, instances and hooks, and each of these knows its session.
SESSION_ROOMS = {"session", "target", "instance", "hook", "brief", "values"}
HOST_PARTS.update({room: SESSION_ROOMS | {"trace", "elf", "stock", "types", "attach", "core", "remote"} for room in SESSION_ROOMS})
# What others may include from the rooms of a session.
SESSION_HEADERS = {"session/record.h", "session/choose.h", "instance/settings.h", "hook/profile.h", "hook/triggers.h",
                   "hook/actor.h", "values/values.h"}
FREESTANDING = {"stdint.h", "stddef.h", "stdbool.h", "stdatomic.h", "limits.h", "stdarg.h", "stdalign.h"}
# Numbers of the kernel's interface come from its own headers, not from libc's.
KERNEL = re.compile(r"^(asm|linux)/")
NUMBERS = re.compile(r"^(asm|linux)/|^sys/syscall\.h$|^errno\.h$")
# Rooms in which a libc header is a mistake, and what they may have besides the freestanding ones.
SYSTEM = {"ring": KERNEL, "probe": KERNEL, "base": NUMBERS}
# Parts of src/arch/<cpu> and src/arch/generic, and which of its own CPU's and of generic's each may include from.
ARCH_PARTS = {"isa": {"isa"}, "runtime": {"runtime", "isa"}, "native": {"native", "isa"}}
# The parts that others than src/arch may use; "native" is what the host knows of the CPU that it runs on itself.
ARCH_FOR = {"host": {"isa", "native"}, "bpf": {"isa"}}
ARCH_FOR_TARGET = {"runtime"}
# What the dispatcher and the handlers have in common: public, and part of the ABI.
CALL = os.path.join("include", "calltap", "call.h")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def resolve(root, path, name):
    """The path in the tree that an include means, None for a header of the system."""
    picked = [os.path.relpath(folder, root) for part in ("runtime", "native")
              for folder in sorted(glob.glob(os.path.join(root, "src/arch/*", part)))]
    for folder in (os.path.dirname(path), "src", "include", *picked):
        candidate = os.path.normpath(os.path.join(folder, name))
        if os.path.exists(os.path.join(root, candidate)):
            return candidate
    return None


def arch_error(path, target, name):
    """The same for a target in src/arch: no CPU uses another's, no part a higher one, and nobody else names a CPU but
    the host's tables."""
    room = lint.room(path)
    cpu, part = target.split(os.sep)[2:4]
    named = os.sep in name  # <arch.h> and its like are the build's choice
    if room == "arch":
        own_cpu, own_part = path.split(os.sep)[2:4]
        if part not in ARCH_PARTS.get(own_part, set()):
            return f"{own_part} of a CPU may not include from {part}"
        if named and cpu not in (own_cpu, "generic"):
            return f"{own_cpu} may not include from {cpu}"
        return None
    allowed = ARCH_FOR.get(room, ARCH_FOR_TARGET)
    if part not in allowed:
        return f"{room} may use only {', '.join(sorted(allowed))} of arch, not {target}"
    if named and cpu != "generic" and part != "isa":
        return f"portable code names no CPU: {name}"
    return None


def host_part(path):
    """'' for a file of src/host itself."""
    parts = path.split(os.sep)[2:-1]
    return parts[0] if parts else ""


def host_error(path, target):
    part, wanted = host_part(path), host_part(target)
    if not wanted or wanted == part or wanted in HOST_PARTS.get(part, set()):
        return None
    return f"host's part '{part}' may not include from '{wanted}'"


def target_error(path, target, source_room, name):
    target_room = lint.room(target)
    if target.startswith(os.path.join("include", "calltap", "abi") + os.sep) or target == CALL:
        return None
    if target.startswith("include" + os.sep):
        target_room = "include"
    if target_room == "host" and source_room == "host":
        return host_error(path, target)
    if host_part(target) in SESSION_ROOMS and target.split(os.sep, 2)[2] not in SESSION_HEADERS:
        return f"{target} is for the rooms of a session alone"
    if target_room == source_room or target_room in ROOMS[source_room]:
        return arch_error(path, target, name) if target_room == "arch" else None
    return f"room '{source_room}' may not include from '{target_room or target}'"


def check_file(root, path):
    findings = []
    source_room = lint.room(path)
    text = lint.strip_comments(lint.read(root, path))
    if source_room not in ROOMS:
        return [f"{path}:1: '{source_room}' is no room of the table in test/lint/layers.py"]
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        target = resolve(root, path, match.group(2))
        if target:
            error = target_error(path, target, source_room, match.group(2))
        elif match.group(1) == '"':
            error = f'"{match.group(2)}" is not in the tree'
        elif source_room in SYSTEM and match.group(2) not in FREESTANDING and not SYSTEM[source_room].search(match.group(2)):
            error = f"room '{source_room}' is freestanding and may not include <{match.group(2)}>"
        else:
            error = None
        if error:
            findings.append(f"{path}:{line}: {error}")
    return findings


def check(root):
    findings = []
    for path in lint.files(root, ".c", ".h", ".S", ".inc", under="src"):
        findings += check_file(root, path)
    for path in lint.files(root, ".h", under="include"):
        for match in INCLUDE.finditer(lint.read(root, path)):
            if match.group(1) == '"' or (resolve(root, path, match.group(2)) or "include").split(os.sep)[0] != "include":
                findings.append(f"{path}:1: a public header may include only <calltap/...> and the system's")
    return findings


HEADER = {"src/host/x.h": "", "src/probe/p.h": "", "src/ring/r.h": "", "src/arch/x86/runtime/poke.h": "",
          "src/arch/x86/isa/isa.h": "", "src/arch/x86/native/native.h": "", "src/arch/arm/runtime/poke.h": "",
          "src/arch/arm/isa/isa.h": "", "src/arch/generic/isa/bits.h": "", "src/arch/generic/runtime/all.h": "",
          "include/calltap/call.h": "", "include/calltap/calltap.h": ""}
BAD = {
    "upward": {**HEADER, "src/ring/a.c": '#include "probe/p.h"\n'},
    "agent uses host": {**HEADER, "src/agent/a.c": '#include "host/x.h"\n'},
    "probe uses the API": {**HEADER, "src/probe/a.c": "#include <calltap/calltap.h>\n"},
    "library uses the agent": {**HEADER, "src/agent/agent.h": "", "src/lib/a.c": "#include <agent/agent.h>\n"},
    "host uses probe": {**HEADER, "src/host/a.c": '#include "probe/p.h"\n'},
    "host uses arch runtime": {**HEADER, "src/host/a.c": '#include "arch/x86/runtime/poke.h"\n'},
    "probe uses isa": {**HEADER, "src/probe/a.c": '#include "arch/x86/isa/isa.h"\n'},
    "probe uses native": {**HEADER, "src/probe/a.c": "#include <native.h>\n"},
    "patch names a CPU": {**HEADER, "src/patch/a.c": '#include "arch/x86/runtime/poke.h"\n'},
    "a CPU uses another's isa": {**HEADER, "src/arch/arm/isa/a.c": '#include "arch/x86/isa/isa.h"\n'},
    "a CPU uses another's runtime": {**HEADER, "src/arch/arm/runtime/a.c": '#include "arch/x86/runtime/poke.h"\n'},
    "generic uses a CPU's": {**HEADER, "src/arch/generic/isa/a.c": '#include "arch/x86/isa/isa.h"\n'},
    "isa uses runtime": {**HEADER, "src/arch/x86/isa/a.c": "#include <poke.h>\n"},
    "native uses runtime": {**HEADER, "src/arch/x86/native/a.c": "#include <poke.h>\n"},
    "unknown part": {**HEADER, "src/arch/x86/misc/a.c": '#include "arch/x86/isa/isa.h"\n'},
    "a view uses the session": {"src/host/session/record.h": "", "src/host/view/a.c": "#include <host/session/record.h>\n"},
    "a command looks into a target": {"src/host/target/target.h": "", "src/cmd/a.c": "#include <host/target/target.h>\n"},
    "what all of the host uses uses a part": {"src/host/elf/e.h": "", "src/host/a.c": '#include "elf/e.h"\n'},
    "an unknown part of the host": {"src/host/elf/e.h": "", "src/host/new/a.c": "#include <host/elf/e.h>\n"},
    "libc header in a probe": {**HEADER, "src/probe/a.c": "#include <stdio.h>\n"},
    "unknown room": {"src/misc/a.c": "\n"},
    "missing file": {"src/base/a.c": '#include "base/none.h"\n'},
    "public includes private": {**HEADER, "include/calltap/x.h": '#include "host/x.h"\n'},
}
GOOD = {"downward": {**HEADER, "src/probe/a.c": '#include <stdint.h>\n#include "ring/r.h"\n#include "p.h"\n#include <poke.h>\n',
                     "src/host/a.c": '#include <stdio.h>\n#include "arch/x86/isa/isa.h"\n#include <native.h>\n',
                     "src/arch/x86/runtime/a.c": '#include <poke.h>\n#include "arch/x86/isa/isa.h"\n'
                                                 '#include "arch/generic/runtime/all.h"\n',
                     "src/arch/generic/runtime/a.c": "#include <poke.h>\n",
                     "src/host/view/a.c": '#include <host/x.h>\n#include "../trace/t.h"\n', "src/host/trace/t.h": "",
                     "src/cmd/a.c": "#include <host/session/record.h>\n", "src/host/session/record.h": "",
                     "src/host/target/a.c": "#include <host/session/record.h>\n",
                     "src/probe/b.c": "#include <calltap/call.h>\n",
                     "src/lib/a.c": '#include <stdio.h>\n#include <calltap/calltap.h>\n#include <host/x.h>\n',
                     "src/arch/x86/native/a.c": '#include <time.h>\n#include "arch/x86/isa/isa.h"\n'}}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)

"""Programs that link musl: the cases of other modules that say what is special to a libc, with programs by musl-gcc."""
import os
import shutil

import builds
import jumps
import programs
from harness import Skip, expect


def by_musl(test):
    def run(case):
        case.need_native("programs that link musl")
        if not shutil.which("musl-gcc"):
            raise Skip("musl-gcc is not installed (musl-tools)")
        case.built_by(builds.MUSL)
        test(case)
    return run


def old_loader(case):
    """A musl loader before 1.1.22, as far as the tool can see: without membarrier().  Flags to link a program to it."""
    with open("/lib/ld-musl-x86_64.so.1", "rb") as file:
        loader = file.read()
    expect(loader.count(b"\0membarrier\0") == 1, "musl's loader has changed, and with it this test must")
    path = os.path.join(case.folder, "ld-musl-old.so.1")
    with open(path, "wb") as file:
        file.write(loader.replace(b"\0membarrier\0", b"\0membarrieX\0"))
    os.chmod(path, 0o755)
    return [f"-Wl,--dynamic-linker={path}"]


def record_old(case):
    """The program runs as ever, and is not traced; a sentence says why."""
    program = case.program("calls.c", variant="-old", flags=old_loader(case))
    plain, traced = case.run([program]), case.record([program])
    expect((traced.status, traced.stdout) == (plain.status, plain.stdout), f"{traced.status}: {traced.stderr.strip()}")
    expect("older than 1.1.22" in traced.stderr, f"no reason is given: {traced.stderr.strip()}")


RECORDED = {name: programs.CASES[name] for name in ("calls", "forks", "signals", "jumps", "threads", "descriptors", "loads",
                                                    "tails", "storm", "vforks", "recurse")}
RECORDED |= {name: jumps.CASES[name] for name in ("longjumps", "sigroutine", "altstacks", "altstacks-end", "first-handler")}
SINGLE = {
    **{f"musl-{name}": by_musl(test) for name, test in RECORDED.items()},
    "musl-old": by_musl(record_old),
}

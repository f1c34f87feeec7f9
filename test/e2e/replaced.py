"""Processes whose program or library is not on disk any more: what is mapped is what is traced, and told of."""
import os
import re
import shutil
import tempfile

import builds
from harness import Skip, copied, expect
from steering import Program, Tool

OWN = {"fill", "step_one", "step_two"}  # functions of replaced.c
LOADED = {"library_answer", "helper"}  # functions of library.c that it calls
NOBODY = 65534
REMEDY = ("was deleted or replaced", "as root")


class Replaced(Program):
    """test/prog/replaced.c: a copy of it, with a copy of its library, in a folder that every user may enter."""

    def __init__(self, case, before=(), sites=True):  # pylint: disable=super-init-not-called
        self.folder = tempfile.mkdtemp(prefix="calltap-replaced-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.program, self.library = (os.path.join(self.folder, name) for name in ("program", "library.so"))
        copied(case.program("replaced.c", sites=sites), self.program)
        shutil.copy(case.program("library.c"), self.library)
        self.start(case, [*before, self.program, self.library])

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        shutil.rmtree(self.folder, ignore_errors=True)


def other(case, path):
    """A new build moves over the file, as a package's upgrade does it."""
    copied(case.program("replaced.c", variant="-other", flags=["-DOTHER"]), path + ".new")
    os.rename(path + ".new", path)


def delete(_, path):
    os.unlink(path)


def line_of(source, name):
    """The line of a function in a source of test/prog."""
    with open(os.path.join(builds.PROGRAMS, source), encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if re.search(rf"TRACED.* {name}\(", line))


def sources_are_right(trace, names):
    """Each function's line is that of the source that was compiled, or one below for its brace."""
    for function, symbol in trace.symbols.items():
        if symbol not in names:
            continue
        source = "library.c" if symbol in LOADED else "replaced.c"
        file, line = trace.lines.get(function, ("", 0))
        right = line_of(source, symbol)
        expect(file.endswith(source) and line in (right, right + 1), f"{symbol} is told to be at {file}:{line}, is at {right}")


def whole(case, program, names=OWN | LOADED):
    """All of it is in the trace, by the names and lines of the files that are mapped."""
    trace = case.trace()
    called = set(trace.called())
    expect(names <= called, f"no call of {names - called}")
    expect(not any(name.startswith("other") for name in trace.symbols.values()), "names of the new file")
    expect(not any("(deleted)" in path for path in trace.objects.values()), f"objects are {trace.objects}")
    expect(not any("(deleted)" in process[4] for process in trace.processes.values()), f"programs are {trace.processes}")
    expect(program in trace.objects.values(), f"objects are {trace.objects}")
    sources_are_right(trace, names)
    case.readable()


def attached(*changes):
    """Something happens to the files, then it is attached to, and let go of."""
    def test(case):
        case.need_native("attaching")
        if os.geteuid():
            raise Skip("to read what has no name takes root")
        with Replaced(case) as program:
            for which, change in changes:
                change(case, getattr(program, which))
            with Tool(case, program) as tool:
                tool.records(400)
                tool.detach()
                said = tool.said()
            expect(re.search(r"all .* of text in what was patched are as in their files", said), f"how it was let go of: {said!r}")
            expect(REMEDY[0] not in said, f"it said {said!r}")
            program.end()
            whole(case, program.program)
    return test


def while_attached(case):
    """The files change during the recording: the source lines are those of the files that were mapped."""
    case.need_native("attaching")
    with Replaced(case) as program:
        with Tool(case, program) as tool:
            tool.records(400)
            other(case, program.program)
            other(case, program.library)
            tool.detach()
        program.end()
        whole(case, program.program)


def filtered(case):
    """The object's name in a filter is the one that the file had."""
    case.need_native("attaching")
    if os.geteuid():
        raise Skip("to read what has no name takes root")
    with Replaced(case) as program:
        delete(case, program.library)
        with Tool(case, program, "-l", "library.so:*") as tool:
            tool.records(100)
            tool.detach()
        program.end()
        expect(set(case.trace().called()) == LOADED, f"called: {case.trace().called()}")


def elsewhere(case):
    """In a mount namespace of its own, on a file system that nobody else sees."""
    case.need_native("attaching")
    if os.geteuid():
        raise Skip("another mount namespace takes root")
    script = 'p=$1 l=$2 d=${1%/*}; mkdir $d/m && mount -t tmpfs none $d/m && cp $p $l $d/m && exec $d/m/program $d/m/library.so'
    if case.run(["unshare", "-m", "true"]).status:
        raise Skip("there are no mount namespaces here")
    with Replaced(case, ["unshare", "-m", "sh", "-c", script, "sh"]) as program:
        inside = f"/proc/{program.pid}/root{program.folder}/m/"
        os.unlink(inside + "library.so")
        other(case, inside + "program")
        with Tool(case, program) as tool:
            tool.records(400)
            tool.detach()
        program.end()
        whole(case, f"{program.folder}/m/program")


def gone_at_once(case):
    """A library is deleted as soon as dlopen() has returned, under record."""
    case.need_native("files that only root may read")
    library = os.path.join(case.folder, "library.so")
    shutil.copy(case.program("library.c"), library)
    program = case.program("replaced.c")
    outcome = case.record([program, library, "gone", "50"], log=False)
    expect(outcome.status == 42, f"status {outcome.status}: {outcome.stderr!r}")
    whole(case, os.path.realpath(program))


def as_nobody(case, program, *options):
    return case.run(["setpriv", "--reuid", str(NOBODY), "--clear-groups", "sh", "-c", 'cd /; exec "$@"', "sh", case.tool, "attach",
                     "--stock", "never", "--duration", "500ms", *options, str(program.pid)])


def without_rights(sites, which):
    """A user who may not look through mappings: the program can be read all the same; a library's loss is told."""
    def test(case):
        case.need_native("attaching")
        if os.geteuid():
            raise Skip("to become another user takes root")
        drop = ["setpriv", "--reuid", str(NOBODY), "--clear-groups"]
        with Replaced(case, drop, sites) as program:
            target = os.path.join(program.folder, "traces")
            os.mkdir(target)
            os.chmod(target, 0o777)
            case.trace_path = os.path.join(target, "trace")
            delete(case, getattr(program, which))
            done = as_nobody(case, program, "-o", case.trace_path)
            if "cannot be read" in done.stderr or done.status in (126, 127):
                raise Skip(f"the build is not open to other users: {done.stderr!r}")
            if which == "program":
                expect(done.status == 0 and not done.stderr, f"status {done.status}: {done.stderr!r}")
                whole(case, program.program)
            else:
                expect(done.status == (0 if sites else 2), f"status {done.status}: {done.stderr!r}")
                expect(all(word in done.stderr for word in (program.library, *REMEDY)) and done.stderr.count("\n") == 1,
                       f"it said {done.stderr!r}")
            if which == "library" and sites:
                expect(set(case.trace().called()) == OWN, f"called: {case.trace().called()}")
            program.end()
    return test


CASES = {}
SINGLE = {
    "replaced-program-deleted": attached(("program", delete)),
    "replaced-program": attached(("program", other)),
    "replaced-library-deleted": attached(("library", delete)),
    "replaced-library": attached(("library", other)),
    "replaced-both": attached(("program", other), ("library", delete)),
    "replaced-while-attached": while_attached,
    "replaced-filter": filtered,
    "replaced-elsewhere": elsewhere,
    "replaced-gone-at-once": gone_at_once,
    "replaced-program-unprivileged": without_rights(True, "program"),
    "replaced-library-unprivileged": without_rights(True, "library"),
    "replaced-nothing-else": without_rights(False, "library"),
}

"""Attempts of the program or the user that are refused, or change nothing: all goes on as before."""
from harness import Skip, expect


def undone(way, refused):
    """The agent makes ready for a sandbox, or steps aside, and comes back."""
    def test(case):
        command = [case.program("undone.c", flags=["-pthread"]), way]
        plain = case.run(command).stdout
        if not refused and "-1, " in plain:
            raise Skip(f"it is refused here: {plain.strip()}")
        traced = case.same_as_plain(command)
        expect(("-1, " in traced.stdout) == refused, f"it was to be {'refused' if refused else 'allowed'}: {traced.stdout!r}")
        trace = case.trace()
        case.compare(trace)
        case.readable()
    return test


def no_loader(case):
    """A program that can be traced but not run, as its loader is not there."""
    program = case.program("calls.c", variant="-no-loader", flags=["-Wl,--dynamic-linker=/nowhere/ld.so"])
    done = case.record([program], log=False)
    expect(done.status == 127, f"exit status {done.status}, a shell's is 127: {done.stderr!r}")
    expect(done.stderr.startswith("calltap: ") and done.stderr.count("\n") == 1, f"one sentence, not {done.stderr!r}")
    expect("/nowhere/ld.so" in done.stderr, f"the loader is not named: {done.stderr!r}")


def shows_help(case):
    done = case.run([case.tool, "record", "--help"])
    expect(done.status == 0 and not done.stderr, f"exit status {done.status}: {done.stderr!r}")
    for word in ("Usage: calltap record", "function_graph", "--threshold", "exit status"):
        expect(word in done.stdout, f"--help does not say {word!r}")


SINGLE = {
    "filter-refused": undone("prctl", True),
    "filter-refused-everywhere": undone("seccomp", True),
    "setns-own-time": undone("setns", False),
    "no-loader": no_loader,
    "record-help": shows_help,
}

"""Commands that record cannot trace: its messages, and that it neither runs them nor leaves a file behind."""
import glob
import os
import shutil
import subprocess

from harness import Skip, expect, settled

E_MACHINE = 18  # offset in an ELF file's head
EM_S390 = 22


def refused(make, status, *wanted, options=()):
    """The command that make(case) gives is refused with this exit status and a message with all the words."""
    def test(case):
        outcome = case.record(make(case), options, log=False)
        words = [word for word in wanted if case.cpu.has_fentry or "-mfentry" not in word]
        expect(outcome.status == status, f"exit status {outcome.status}, not {status}: {outcome.stderr!r}")
        expect(outcome.stdout == "", f"the program ran: {outcome.stdout!r}")
        lines = outcome.stderr.splitlines()
        expect(len(lines) == 1 and lines[0].startswith("calltap: "), f"not one sentence: {outcome.stderr!r}")
        for word in words:
            expect(word in outcome.stderr, f"no {word!r} in {outcome.stderr!r}")
        expect(not os.path.exists(case.trace_path), "a trace file was left behind")
    return test


def place(case, name):
    return os.path.join(case.folder, name)


def compiled(case, name, *flags, text='#include <stdio.h>\nint main(void) { puts("ran"); return 5; }\n'):
    path = place(case, name)
    done = subprocess.run([*case.cpu.compiler("gcc"), "-w", "-O1", "-x", "c", *flags, "-o", path, "-"], input=text, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise Skip(f"gcc {' '.join(flags)}: {done.stdout.strip()[-200:]}")
    return path


def sited(case, name, *flags):
    return compiled(case, name, "-fpatchable-function-entry=5", *flags)


def script(case):
    path = place(case, "script")
    with open(path, "w", encoding="ascii") as file:
        file.write("#! /bin/sh -e\necho ran\n")
    os.chmod(path, 0o755)
    return [settled(path)]


def bare(case):
    """A program without symbols and unwind tables, as Free Pascal makes them."""
    path = compiled(case, "bare", "-s", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
    done = subprocess.run(["objcopy", "-R", ".eh_frame", "-R", ".eh_frame_hdr", path], check=False, stderr=subprocess.DEVNULL)
    if done.returncode:
        raise Skip("there is no objcopy for this CPU's programs")
    return [settled(path)]


def text_file(case):
    path = place(case, "text")
    with open(path, "w", encoding="ascii") as file:
        file.write("echo ran\n")
    os.chmod(path, 0o755)
    return [settled(path)]


def empty_file(case):
    path = place(case, "empty")
    with open(path, "w", encoding="ascii"):
        os.chmod(path, 0o755)
    return [settled(path)]


def cut_file(case):
    path = sited(case, "cut")
    os.truncate(path, 40)
    return [path]


def other_cpu(case):
    path = sited(case, "other-cpu")
    with open(path, "r+b") as file:
        file.seek(E_MACHINE)
        file.write(EM_S390.to_bytes(2, "little"))
    return [settled(path)]


def small_program(case):
    return [compiled(case, "small", *case.cpu.narrow, "-nostdlib", "-static", text="void _start(void) { for (;;); }\n")]


def object_file(case):
    path = sited(case, "object.o", "-c")
    os.chmod(path, 0o755)
    return [path]


def unreadable(case):
    path = sited(case, "unreadable")
    os.chmod(path, 0o311)
    if os.access(path, os.R_OK):
        raise Skip("this user may read everything")
    return [path]


def not_executable(case):
    path = sited(case, "not-executable")
    os.chmod(path, 0o644)
    return [path]


def pipe(case):
    path = place(case, "pipe")
    os.mkfifo(path)
    os.chmod(path, 0o755)
    return [path]


def foreign(case):
    """A set-uid program of another user, which the kernel starts with that user's rights."""
    case.need_native("the kernel gives a program another user's rights")
    path = sited(case, "foreign")
    if os.geteuid():
        raise Skip("only root can make a set-uid program of another user")
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        raise Skip("this file system knows no set-uid")
    os.chown(path, 65534, -1)
    os.chmod(path, 0o4755)
    return [path]


def own_set_uid(case):
    """Set-uid to the user who runs it: nothing is gained, so it is traced like any other."""
    path = sited(case, "own")
    os.chmod(path, 0o4755)
    case.same_as_plain([path], log=False)
    expect(case.trace().called() == {"main": 1}, "main is not in the trace")


def near_miss(case):
    path = compiled(case, "near", "-fpatchable-function-entry=5",
                    text="int reckon_all(int x) { return x; }\nint main(int n, char **v) { return reckon_all(n); }\n")
    return [path]


def runs_all_the_same(make):
    """With --allow-no-sites it runs, and says once that nothing is traced."""
    def test(case):
        command = make(case)
        plain = case.run(command)
        traced = case.record(command, ["--allow-no-sites"], log=False)
        expect((traced.status, traced.stdout) == (plain.status, plain.stdout), f"it ended otherwise: {traced.stderr!r}")
        expect(traced.stderr.count("nothing of it is traced") == 1, f"no warning, or more than one: {traced.stderr!r}")
        expect(not case.trace().called(), "it was traced")
    return test


def no_trace_file(case):
    """A trace file that cannot be written is an error of its own, not the command's."""
    program = sited(case, "program")
    for output in ("none/trace", "."):
        outcome = case.run([case.tool, "record", "-o", output, "--", program])
        expect(outcome.status == 1, f"-o {output}: exit status {outcome.status}, not 1")
        expect(outcome.stdout == "", "the program ran")
        expect(f"{output}: " in outcome.stderr, f"-o {output} is not named: {outcome.stderr!r}")


def mixed(case):
    """The trace is not written to the file that the program prints to."""
    program = sited(case, "program")
    done = case.run(["sh", "-c", f"'{case.tool}' record -q -o /dev/stdout -- '{program}' > '{place(case, 'printed')}'"])
    with open(place(case, "printed"), "rb") as file:
        printed = file.read()
    expect(done.status == 1 and not printed and "in the midst of the trace; name another file with -o" in done.stderr,
           f"status {done.status}: {printed[:40]!r}, {done.stderr!r}")


def loader(case):
    """A program that is started by way of its loader: no filter is spoken of where none was given."""
    case.need_native("running a loader")
    loaders = glob.glob("/lib64/ld-linux-x86-64.so.2") + glob.glob("/lib/ld-linux-*.so.1")
    if not loaders:
        raise Skip("no loader is found")
    program = sited(case, "program")
    refused(lambda _: [loaders[0], program], 2, "unless -l names it", "name that alone", options=["--stock", "auto"])(case)


def full_file(case):
    """A full disk costs the trace, never the program."""
    if not os.path.exists("/dev/full"):
        raise Skip("there is no /dev/full")
    program = sited(case, "program")
    outcome = case.run([case.tool, "record", "-o", "/dev/full", "--", program])
    expect("/dev/full" in outcome.stderr, f"the file is not named: {outcome.stderr!r}")
    expect(outcome.status in (1, 5) and (outcome.stdout == "ran\n") == (outcome.status == 5),
           f"exit status {outcome.status}, printed {outcome.stdout!r}")


def unknown_loader(case):
    """A loader whose hook for debuggers has a shape that the agent does not know: dlopen is not followed, and info says so;
    with the usual loader it says nothing."""
    case.need_native("a loader is changed")
    usual, loader = "/lib64/ld-linux-x86-64.so.2", place(case, "ld.so")
    symbols = subprocess.run(["nm", "-D", usual], text=True, check=False, stdout=subprocess.PIPE).stdout
    at = [int(line.split()[0], 16) for line in symbols.splitlines() if "_dl_debug_state" in line]
    with open(usual, "rb") as file:
        code = bytearray(file.read())
    if not at or code[at[0]] != 0xC3:
        raise Skip("this loader's hook is no plain ret")
    code[at[0]:at[0] + 2] = b"\xf3\xc3"  # rep ret
    with open(loader, "wb") as file:
        file.write(code)
    os.chmod(loader, 0o755)
    settled(loader)
    for flags, missed in ((["-Wl,--dynamic-linker=" + loader], True), ([], False)):
        outcome = case.record([sited(case, "program", *flags)], log=False)
        expect(outcome.status == 5 and outcome.stdout == "ran\n", f"{flags}: {outcome.status}, {outcome.stdout!r}")
        told = case.run([case.tool, "info", "-i", case.trace_path]).stdout
        expect(("not followed" in told) == missed, f"{flags}: info says {told!r}")


def of(name, *flags):
    return lambda case: [sited(case, name, *flags)]


def filters(case):
    """A filter that matches nothing names what is near, and --allow-no-match runs the program all the same."""
    command = near_miss(case)
    refused(lambda _: command, 2, "'reckon_al'", "near: reckon_all", options=["-l", "reckon_al"])(case)
    refused(lambda _: command, 2, "'reckon_all' is a function", "'reckon_all: x'", options=["-l", "reckon_all:x"])(case)
    refused(lambda _: command, 2, "'reckon_all' is a function", "'reckon_all: x'", options=["-l", "reckon_all:  x"])(case)
    refused(lambda _: command, 2, "leave no function", options=["-l", "main", "-n", "*"])(case)
    outcome = case.record(command, ["-l", "reckon_al", "--allow-no-match"], log=False)
    expect(outcome.status == 1 and not outcome.stderr, f"--allow-no-match: {outcome.status}, {outcome.stderr!r}")


SINGLE = {
    "refused-script": refused(script, 2, "script", "trace its interpreter instead: /bin/sh"),
    "refused-text": refused(text_file, 2, "not an ELF program"),
    "refused-empty": refused(empty_file, 2, "not an ELF program"),
    "refused-cut": refused(cut_file, 2, "not an ELF program"),
    "refused-other-cpu": refused(other_cpu, 2, "another CPU", "machine 22", "x86-64"),
    "refused-32-bit": refused(small_program, 2, "32-bit", "-m64"),
    "refused-object-file": refused(object_file, 2, "link it first"),
    "refused-static": refused(of("static", "-static", "-s"), 2, "linked statically", "link it dynamically"),
    "unknown-loader": unknown_loader,
    "refused-asan": refused(lambda case: [sited(case, "asan", "-fsanitize=address")], 2, "-static-libasan"),
    "refused-no-sites": refused(lambda case: [compiled(case, "plain")], 2, "-fpatchable-function-entry=", "-pg -mfentry"),
    "refused-stripped": refused(bare, 2, "is it stripped?", "keep its symbols", "-fpatchable-function-entry="),
    "refused-mcount": refused(lambda case: [compiled(case, "mcount", "-pg")], 2, "-pg alone", "-mfentry"),
    "refused-cyg-profile": refused(lambda case: [compiled(case, "cyg", "-finstrument-functions", "-rdynamic", text=(
        "void __attribute__((no_instrument_function)) __cyg_profile_func_exit(void *f, void *c) {}\n"
        "void __attribute__((no_instrument_function)) __cyg_profile_func_enter(void *f, void *c) {}\n"
        "int main(void) { return 0; }\n"))], 2, "-finstrument-functions", "return address"),
    "refused-set-uid": refused(foreign, 2, "another user's rights", "trace a copy"),
    "refused-missing": refused(lambda case: ["./there-is-none"], 127, "there-is-none", "no such file"),
    "refused-not-in-path": refused(lambda case: ["there-is-none"], 127, "no such program in PATH"),
    "refused-functions-for-a-program": refused(lambda case: ["libc.so.6:usleep"], 127, "no such program in PATH", "-l 'libc.so.6:usleep'"),
    "refused-not-executable": refused(not_executable, 126, "not permitted", "chmod"),
    "refused-unreadable": refused(unreadable, 2, "cannot be read", "chmod"),
    "refused-directory": refused(lambda case: [case.folder], 126, "is a directory"),
    "refused-pipe": refused(pipe, 126, "is a pipe or a device"),
    "refused-filter": filters,
    "own-set-uid": own_set_uid,
    "allowed-static": runs_all_the_same(of("static", "-static", "-s")),
    "allowed-set-uid": runs_all_the_same(foreign),
    "no-trace-file": no_trace_file,
    "mixed-trace-file": mixed,
    "refused-loader": loader,
    "full-trace-file": full_file,
}

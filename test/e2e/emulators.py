"""Emulators and `calltap record`: its choice, its message where there is none, and emulators that do things which it
cannot follow."""
import json
import re

from harness import Skip, expect

CLOCKS = {"x86_64": "tsc", "aarch64": "cntvct_el0", "riscv64": "rdtime"}


def emulated(test):
    def only(case):
        if case.cpu.native:
            raise Skip("programs for this machine's CPU are not emulated")
        test(case)
    only.__doc__ = test.__doc__
    return only


def refused(case, variable, status, *words):
    """Recording with a variable set ends so, says these words, and runs nothing."""
    outcome = case.run(["env", variable, *case.record_command([case.program("calls.c")])])
    expect(outcome.status == status, f"exit status {outcome.status}, not {status}: {outcome.stderr!r}")
    expect(not outcome.stdout, f"something ran: {outcome.stdout!r}")
    for word in words:
        expect(word in outcome.stderr, f"no {word!r} in {outcome.stderr!r}")


@emulated
def none(case):
    refused(case, "PATH=/nowhere", 126, f"qemu-{case.cpu.name}", "apt-get install", "--emulator")


@emulated
def no_libraries(case):
    refused(case, "QEMU_LD_PREFIX=/nowhere", 127, "its loader", "apt-get install", "QEMU_LD_PREFIX")


@emulated
def named(case):
    """--emulator: a command with options, which is the one that runs."""
    program = case.program("calls.c")
    command = f"{case.cpu.emulator()} -s 16777216"
    case.same_as_plain([program], ("--emulator", command))
    case.compare(case.trace())
    case.readable()
    info = json.loads(case.run([case.tool, "info", "--json", "-i", case.trace_path]).stdout)["info"]
    expect(info["emulator"].startswith(command), f"the trace names the emulator {info['emulator']!r}")
    missing = case.record([program], ("--emulator", "no-such-emulator"))
    expect(missing.status == 126 and "no-such-emulator" in missing.stderr, f"{missing.status}: {missing.stderr!r}")


@emulated
def told(case):
    """The trace tells the machine and its clock, and that a read is slow; the program, not its emulator, is named."""
    program = case.program("calls.c")
    case.same_as_plain([program])
    info = json.loads(case.run([case.tool, "info", "--json", "-i", case.trace_path]).stdout)
    expect(info["info"]["machine"] == case.cpu.name, f"machine {info['info']['machine']}")
    expect(info["info"]["clock"] == CLOCKS[case.cpu.name], f"clock {info['info']['clock']}")
    expect(float(info["info"]["clock_read_ns"]) > 0 and info["clock_mhz"] > 1, f"no clock: {info}")
    expect(info["processes"][0]["exe"] == program, f"the program is {info['processes'][0]['exe']}")
    expect({thread["name"] for thread in info["threads"]} == {program.rsplit("/", 1)[1][:15]}, f"{info['threads']}")
    # A time per call is one of this machine's clock: no longer than the whole run, and not nothing.
    expect(0 < info["duration_ns"] < 60e9, f"{info['duration_ns']} ns")


def not_followed(case, option, *words):
    """An emulator with this option runs the program as ever, and it is said why it was not recorded."""
    command = f"{case.cpu.emulator()} {option}"
    traced = case.same_as_plain([case.program("calls.c")], ("--emulator", command))
    for word in words:
        expect(word in traced.stderr, f"no {word!r} in {traced.stderr!r}")


@emulated
def other_pages(case):
    option = "-p 65536"
    shown = case.run([case.cpu.emulator(), *option.split(), "-E", "LD_SHOW_AUXV=1", case.program("calls.c")]).stdout
    if not re.search(r"AT_PAGESZ: +65536", shown):
        raise Skip("this emulator has pages of one size only")
    not_followed(case, option, "memory pages")


@emulated
def other_place(case):
    not_followed(case, "-B 0x10000000", "not recorded", "-B")


@emulated
def signal_descriptors(case):
    """The emulator changes what is read from the numbers of signalfds, in other descriptor tables, too."""
    case.same_as_plain([case.program("signalfds.c")])
    case.compare(case.trace())


SINGLE = {
    "emulator-none": none,
    "emulator-no-libraries": no_libraries,
    "emulator-named": named,
    "emulator-told": told,
    "emulator-other-pages": other_pages,
    "emulator-other-place": other_place,
    "emulator-signalfds": signal_descriptors,
}

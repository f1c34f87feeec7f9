"""Programs whose compiler has put calls of another tool into them: clang's XRay, and -finstrument-functions."""
import os
import re
import signal
import subprocess
import time

from builds import PROGRAMS
from endings import wait_for
from harness import Process, Skip, expect, stop
from steer import own_place
from tools import need

CALLED = {"main", "framed", "recursive", "run"}
HOOKS = ("see", "__cyg_profile_func_enter", "__cyg_profile_func_exit")  # compilers make one of these
LEVELS = ("-O0", "-O2")


def compiled(case, compiler, source, *flags):
    case.need_native("calls that compilers put into programs")
    need(compiler)
    path = os.path.join(case.folder, source.rsplit(".", 1)[0])
    done = subprocess.run([compiler, "-g", "-w", "-D_GNU_SOURCE", *flags, "-o", path, os.path.join(PROGRAMS, source), "-pthread"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Skip(f"{compiler} {' '.join(flags)}: {done.stdout.strip()[-200:]}")
    return path


def sleds(case, level):
    return compiled(case, "clang", "sleds.c", level, "-fxray-instrument", "-fxray-instruction-threshold=1")


def xray(level):
    """XRay's runtime patches its sleds in and out while threads run through them, and the same functions are traced."""
    def test(case):
        program = sleds(case, level)
        plain = case.run([program])
        expect(plain.status == 4 and "0 wrong" in plain.stdout, f"plain: {plain.stdout!r}")
        for options in ([], ["-l", "*:*"]):
            case.same_outcome(plain, case.record([program], ["--mode", "overwrite", "-b", "16M", *options], log=False))
            called = case.trace().called()
            expect(CALLED <= set(called), f"recorded {called}")
            # Those that are counted, after hundreds of changes: recursive() is called 3.5 times a round.
            expect(called["recursive"] >= 3500, f"{options}: {called['recursive']} calls of recursive()")
    return test


def xray_attached(case):
    """Attached to while the runtime patches, with the sleds in and out."""
    program = sleds(case, "-O0")
    plain = case.run([program])
    own_place(case)
    path = os.path.join(case.folder, "output")
    with open(path, "wb") as output:
        process = Process([program, "1000000"], cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL, stdout=output,
                          stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_for(path, "ready")
        for _ in range(4):
            done = case.run([case.tool, "attach", "-o", case.trace_path, "--duration", "60ms", str(process.pid)])
            expect(done.status == 0, f"attach: status {done.status}, {done.stderr[-300:]!r}")
            called = case.trace(complete=False).called()
            expect({"framed", "recursive"} <= set(called), f"recorded {called}")
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGUSR1)
        status = process.wait(30)
    finally:
        stop(process)
    with open(path, encoding="utf-8") as output:
        printed = output.read()
    expect(status == 4 and printed == "ready\n" + plain.stdout.removeprefix("ready\n"), f"status {status}, {printed!r}")


def hooked(compiler, *flags):
    """-finstrument-functions: hooks see the call sites that they see untraced, for functions that hand them one are refused."""
    def test(case):
        program = compiled(case, compiler, "hooked.c", "-finstrument-functions", *flags)
        plain = case.run([program])
        expect(plain.stdout.count("\n") > 1000, f"it prints {plain.stdout[:200]!r}")
        case.same_outcome(plain, case.record([program], ["-l", "*:*"], log=False))
        called = case.trace().called()
        expect(sum(called.get(name, 0) for name in HOOKS) > 500 and "leaf" not in called, f"recorded {called}")
        listed = case.run([case.tool, "functions", program]).stdout
        expect(re.search(r"stock +leaf +\(uses its return address", listed), f"of leaf() it says {listed!r}")
        expect("-finstrument-functions" in listed, "no advice")
    return test


SINGLE = {
    **{f"xray{level}": xray(level) for level in LEVELS},
    "xray-attach": xray_attached,
    **{f"cyg-profile-{compiler}{level}": hooked(compiler, level) for compiler in ("gcc", "clang") for level in LEVELS},
    "cyg-profile-gcc-Os": hooked("gcc", "-Os"),
}
AS_IT_IS = True  # see harness.py

#!/usr/bin/env python3
"""The test command behind ./check: builds, runs every group of tests, prints one line per group and the totals.

For each CPU that is not this machine's there is a group: the whole tool is built for it, its tests run under an
emulator, and this machine's tool records programs of that CPU.

The tests of this machine's tool mostly wait.  What never waits runs beside them, while no test wants the CPU: the gates,
and then the builds for other CPUs.

Each group is a function that returns a Result.  A group that cannot start at all counts as one failure, so that
nothing passes by not running.
"""
import argparse
import concurrent.futures
import json
import os
import platform
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GATES = ("layers", "circles", "sizes", "banned", "words", "names", "promises", "headers", "ports", "format", "purity",
         "exports", "man", "tidy")
QUICK_GATES = tuple(gate for gate in GATES if gate != "tidy")  # the analyser is the slow one
SHOWN = 40  # lines of a failure's output
BRIEF = 300  # characters of its beginning, and as many of its end, in the list of failures
NAMED = 6  # tests that are skipped for one reason and are named
CPUS = [cpu for cpu in ("aarch64", "riscv64") if cpu != platform.machine()]  # those of scripts/cross.py
COMPILERS, KINDS = ("gcc", "clang"), ("plain", "debug", "debugoptimized", "release", "minsize")  # of --builds
HANGS = 3600  # seconds after which a group of tests hangs: three times what the slowest takes on a slow machine
LATE = 2700  # seconds from the start: the check is to end within an hour and a quarter, however slow the machine is
BEGAN = time.monotonic()
SLOW = 3  # a test's limit is for what hangs: machines differ so much
SLOWER = 40  # an emulated test may take so many times as long
# End-to-end cases of another CPU in a quick run.
FEW = ["calls/*", "classes/*", "exceptions/*", "forks/*", "longjumps/*", "signals/*", "threads/*"]


class Result:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []  # failed: (name, output); skipped: (name, reason)

    def add(self, name, status, text=""):
        """status: 'pass', 'fail' or 'skip'."""
        if status == "pass":
            self.passed += 1
        else:
            (self.failed if status == "fail" else self.skipped).append((name, text))


def run(command, timeout, **more):
    """(exit status, output) of a command; a timeout is status 124."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout, check=False, **more)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        text = output if isinstance(output, str) else output.decode(errors="replace")
        return 124, f"{text}\nstopped after {timeout} s"


def warns_only(folder):
    """Whether a build that somebody has set up takes warnings for warnings."""
    status, output = run(["meson", "introspect", folder, "--buildoptions"], 60)
    return status != 0 or not any(option["name"] == "werror" and option["value"] for option in json.loads(output))


def idle():
    """What goes in front of a command that is to run while no test wants the CPU."""
    return ["chrt", "--idle", "0"] if shutil.which("chrt") else ["nice", "-n", "19"]


def run_build(result, folder, *setup, before=(), seconds=600, **more):
    """Build in the folder, set up with these options, warnings as errors; true if that worked.  before: what goes in
    front of each command."""
    steps = []
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        steps.append(["meson", "setup", folder, ROOT, "-Dwerror=true", *setup])
    elif warns_only(folder):
        steps.append(["meson", "configure", folder, "-Dwerror=true"])
    steps.append(["ninja", "-C", folder])
    for step in steps:
        status, output = run([*before, *step], seconds, **more)
        if status:
            result.add(" ".join(step[:2]), "fail", "\n".join(output.split("\n")[-SHOWN:]))  # where it stopped
            return False
    result.add("build", "pass")
    return True


def run_meson_tests(result, folder, *more):
    """All tests that Meson knows in a build."""
    log = os.path.join(folder, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    jobs = (os.cpu_count() or 2) + 1  # some tests mostly wait
    status, output = run(["meson", "test", "-C", folder, "--no-rebuild", "--num-processes", str(jobs), *more], HANGS)
    if not os.path.exists(log):
        result.add("meson test", "fail" if status else "skip", output if status else "no tests are defined")
        return
    with open(log, encoding="utf-8") as file:
        for line in file:
            test = json.loads(line)
            text = (test.get("stdout") or "") + (test.get("stderr") or "")
            known = {"OK": "pass", "EXPECTEDFAIL": "pass", "SKIP": "skip"}
            reason = text.strip().split("\n")[-1] if test["result"] == "SKIP" else f"{test['result']}\n{text}"
            result.add(test["name"], known.get(test["result"], "fail"), reason)


def run_end_to_end(result, options, *more):
    """Cases of test/e2e, with the tool of this machine's build."""
    summary = os.path.join(options.build, "e2e.json")
    if os.path.exists(summary):
        os.unlink(summary)
    command = [sys.executable, "test/e2e/run.py", "--build", options.build, "--summary", summary, *more]
    status, output = run(command, HANGS)
    if status == 77:
        result.add("e2e", "skip", output.strip())
        return
    if not os.path.exists(summary):
        result.add("e2e", "fail", f"exit status {status}\n{output}")
        return
    with open(summary, encoding="utf-8") as file:
        for case in json.load(file):
            result.add(case["name"], case["status"], case["text"])


def build(options):
    result = Result()
    run_build(result, options.build)
    return result


def meson_tests(options):
    """Unit tests and command-line cases."""
    result = Result()
    run_meson_tests(result, options.build, "--timeout-multiplier", str(SLOW))
    return result


def end_to_end(options):
    """Real programs under `calltap record`, compared with their plain runs."""
    result = Result()
    status, output = run([sys.executable, "test/e2e/selftest.py"], 60)
    result.add("e2e (self-test)", "fail" if status else "pass", output)
    run_end_to_end(result, options, *(["--long"] if options.long else ["--quick"] if options.quick else []))
    return result


def whole_tool(options, cpu):
    """(result, folder): the tool itself built for another CPU, its agent and that CPU's sources looked at; no folder where
    that failed."""
    result, folder = Result(), f"{options.build}-{cpu}"
    status, output = run([sys.executable, "scripts/cross.py", cpu], 300)
    if status:
        result.add("build", "skip" if status == 77 else "fail", output.strip())
        return result, None
    if not run_build(result, folder, "--cross-file", output.strip().split("\n")[-1], "-Dforeign_agents=false", before=idle(),
                     seconds=HANGS):
        return result, None
    for gate in (["purity"], ["tidy", "--only", f"src/arch/{cpu}/"]):
        status, output = run([*idle(), sys.executable, f"test/lint/{gate[0]}.py", "--build", folder, *gate[1:]], HANGS)
        result.add(gate[0], {0: "pass", 77: "skip"}.get(status, "fail"), output.strip())
    return result, folder


def another(cpu, tools):
    """The group of another CPU; tools[cpu] is the future of whole_tool()."""
    def group(options):
        result = Result()
        if not options.quick:
            result, folder = tools[cpu].result()
            if folder:
                left_out = [] if options.long else ["alike"] if cpu == CPUS[0] else ["alike", "host"]
                run_meson_tests(result, folder, "--timeout-multiplier", str(SLOWER),
                                *(word for suite in left_out for word in ("--no-suite", suite)))
        late = not options.long and time.monotonic() - BEGAN > LATE
        if late:
            result.add("e2e", "skip", f"this machine is slow: after {LATE} s only {len(FEW)} programs of another CPU are run; "
                       f"test/e2e/run.py --cpu {cpu} runs all")
        more = ["--long"] if options.long else ["--quick", *FEW] if options.quick or late else []
        run_end_to_end(result, options, "--cpu", cpu, *more)
        return result
    return group


def of_kind(compiler, kind):
    """The group of one compiler's build of one type: no warning, and an agent that is fit."""
    def group(options):
        result = Result()
        folder = f"{options.build}-{compiler}-{kind}"
        if not shutil.which(compiler):
            result.add("build", "skip", f"{compiler} is not installed")
        elif run_build(result, folder, f"--buildtype={kind}", env={**os.environ, "CC": compiler}, seconds=3600):
            status, output = run([sys.executable, "test/lint/purity.py", "--build", folder], 600)
            result.add("purity", {0: "pass", 77: "skip"}.get(status, "fail"), output.strip())
        return result
    return group


def gates(options):
    """The scripts of test/lint, each fed its own violations first, then run over the tree: while no test wants the CPU, for
    they run beside the tests, many of which wait."""
    result = Result()
    for gate in QUICK_GATES if options.quick else GATES:
        for mode in ("--self-test", None):
            command = [*idle(), sys.executable, f"test/lint/{gate}.py"] + ([mode] if mode else []) + ["--build", options.build]
            command += ["--deep"] if gate == "tidy" and options.long else []
            status, output = run(command, 3600)
            name = gate + (" (self-test)" if mode else "")
            result.add(name, {0: "pass", 77: "skip"}.get(status, "fail"), output.replace("skipped: ", "").strip())
    return result


def brief(text):
    text = " ".join(text.split())
    return text if len(text) <= 2 * BRIEF else f"{text[:BRIEF]} ... {text[-BRIEF:]}"


def show(title, result, seconds):
    line = f"{title:<12} {result.passed:5} passed, {len(result.failed)} failed"
    line += f", {len(result.skipped)} skipped" if result.skipped else ""
    print(f"{line}   ({seconds:.0f} s)", flush=True)
    reasons = {}
    for name, reason in result.skipped:
        reasons.setdefault(" ".join(reason.split()), []).append(name)
    for reason, names in reasons.items():
        more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
        print(f"    skipped {', '.join(names[:NAMED])}{more}: {reason}")
    for name, text in result.failed:
        lines = text.strip().split("\n")
        print(f"    FAILED {name}")
        for part in lines[:SHOWN]:
            print("        " + part)
        if len(lines) > SHOWN:
            print(f"        ... and {len(lines) - SHOWN} lines more")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(prog="./check", description="Run every test and gate.")
    parser.add_argument("--quick", action="store_true", help="one build per end-to-end program, no analyser, "
                        "of other CPUs but a few programs")
    parser.add_argument("--long", action="store_true", help="more builds, longer stress, the analyser at its full depth")
    parser.add_argument("--load", nargs="?", type=int, const=20, metavar="ROUNDS", help="only the end-to-end cases that attach, "
                        "steer, kill and let go, in copies on a busy machine, so many rounds (20)")
    parser.add_argument("--builds", action="store_true", help="only build with each compiler in each of Meson's build types, "
                        "and look at the agents")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)

    if options.load:
        result = build(options)
        if result.failed:
            show("build", result, 0)
            return 1
        command = [sys.executable, os.path.join(ROOT, "test", "e2e", "load.py"), "--build", options.build, str(options.load)]
        return subprocess.run(command, check=False).returncode
    passed, failed, skipped = 0, 0, 0
    groups = [("build", build), ("unit + flow", meson_tests), ("end to end", end_to_end), ("gates", gates)]
    tools = {}  # those for other CPUs
    groups += [(cpu, another(cpu, tools)) for cpu in CPUS]
    if options.builds:
        groups = [(f"{compiler} {kind}", of_kind(compiler, kind)) for compiler in COMPILERS for kind in KINDS]
    fallen = []  # once more at the end, for those who see the end alone
    beside = {}  # groups that run beside those in front of them
    for title, group in groups:
        started = time.monotonic()
        result = beside[group].result() if group in beside else group(options)
        show(title, result, time.monotonic() - started)
        fallen += [f"{title}: {name}: {brief(text)}" for name, text in result.failed]
        passed, failed, skipped = passed + result.passed, failed + len(result.failed), skipped + len(result.skipped)
        if title == "build" and result.failed:
            break
        if title == "build":
            worker = concurrent.futures.ThreadPoolExecutor(1)
            beside[gates] = worker.submit(gates, options)
            tools.update({cpu: worker.submit(whole_tool, options, cpu) for cpu in CPUS if not options.quick})
    for line in fallen:
        print(f"FAILED {line}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""System calls that fail, one by one: the agent's, in a test build of it, and the tool's, by a preloaded library.

First a run without faults lists the calls that are made; then, for each kind and each n, the n-th one fails, or all
from the n-th on. The program never notices; the trace is the whole one, or the tool says in a sentence what is missing.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from errno import (EACCES, EAGAIN, ECONNREFUSED, ECONNRESET, EINTR, EINVAL, EIO, EMFILE, ENOENT, ENOMEM, ENOSPC, ENOSYS,
                   EPERM)

from harness import Failure, copied, expect

JOBS = 4
SHORT = (1, 2, 3)  # which calls of a kind fail in the short test, and the last one
# The errors of each call. Other calls fail only where a filter forbids them, by EPERM.
SHORTER = 0  # the call does half of its work
ERRORS = {
    "mmap": (ENOMEM,), "munmap": (ENOMEM,), "mprotect": (ENOMEM, EACCES), "membarrier": (ENOSYS,),
    "openat": (EMFILE, ENOENT), "socket": (EMFILE,), "connect": (ECONNREFUSED,), "sendto": (EAGAIN,),
    "recvmsg": (ECONNRESET, ENOMEM), "madvise": (EINVAL,), "clone": (EAGAIN,), "pwrite64": (EIO, SHORTER),
    "pread64": (EIO, SHORTER), "read": (EIO,), "close_range": (ENOSYS,), "close": (EIO,), "futex": (ENOSYS, EINTR),
    "ppoll": (ENOMEM, EINTR), "fcntl": (EINVAL,), "process_vm_readv": (ENOSYS,), "getrandom": (EAGAIN,),
    "lseek": (EINVAL,), "getsockopt": (EINVAL,), "setsockopt": (EINVAL,),
}
NEVER = {"exit", "exit_group", "restart_syscall"}
# Calls that fail under a filter only, which the agent asks about beforehand (sandboxes.c).
NEVER |= {"gettid", "getpid", "getppid", "geteuid", "clock_gettime"}
HOST_ERRORS = {
    "mmap": ENOMEM, "memfd_create": EMFILE, "ftruncate": ENOMEM, "writev": ENOSPC, "socket": EMFILE, "bind": ENOMEM,
    "listen": ENOMEM, "accept4": EMFILE, "recvmsg": ENOMEM, "sendmsg": ENOMEM, "getsockopt": EINVAL, "open": EMFILE,
    "epoll_create1": EMFILE, "epoll_ctl": ENOMEM, "epoll_wait": EINTR, "eventfd": EMFILE, "pipe2": EMFILE,
    "fork": EAGAIN, "fopen": EMFILE, "getrandom": ENOSYS, "pthread_create": EAGAIN,
}


def numbers(cpu):
    """{number: name} of a CPU's system calls, some of which are defined by others or as a sum."""
    def preprocessed(text, *options):
        return subprocess.run([*cpu.compiler("gcc"), "-E", "-P", *options, "-x", "c", "-"], check=True, text=True,
                              input="#include <sys/syscall.h>\n" + text, stdout=subprocess.PIPE).stdout
    names = re.findall(r"#define __NR_(\w+) ", preprocessed("", "-dM"))
    values = re.findall(r'^"(\w+)"\s+([\d +()]+)$', preprocessed("".join(f'"{name}" __NR_{name}\n' for name in names)), re.M)
    return {sum(map(int, re.findall(r"\d+", value))): name for name, value in values}

PATIENCE = 180  # seconds for a run that does not hang, emulated and beside other tests


class Bench:
    """A command under a tool whose agent, or which itself, can be made to fail."""

    def __init__(self, case, command, options=()):
        self.case, self.command, self.options = case, command, options
        self.plain = case.run(command)
        self.tool, self.environment, self.prefix = case.tool, {}, []
        self.calls = None

    def library(self, name):
        return self.case.built("test", "faults", name)

    def fail_in_agent(self):
        """A tool of our own beside which the test build of the agent lies."""
        tree = os.path.join(self.case.folder, "tree")
        for name in ("cmd", "agent"):
            os.makedirs(os.path.join(tree, name))
        self.tool = copied(self.case.tool, os.path.join(tree, "cmd", "calltap"))
        place, cpu = os.path.join(tree, "agent"), self.case.cpu
        if not cpu.native:  # the folder lies beside that of the agent for this machine's CPU
            shutil.copy(self.case.built("src", "agent", "libcalltap-agent.so"), place)
            place = os.path.join(place, cpu.name)
            os.mkdir(place)
        built = os.path.join("" if cpu.native else cpu.name, "libcalltap-agent-faults.so")
        os.symlink(self.library(built), os.path.join(place, "libcalltap-agent.so"))

    def fail_in_tool(self):
        self.environment = {"LD_PRELOAD": self.library("libcalltap-host-faults.so")}

    def record(self, name, fault):
        """(outcome, trace path, log's lines) of a run with this in CALLTAP_FAULTS, behind the log's path."""
        trace, log = (os.path.join(self.case.folder, f"{kind}-{name}") for kind in ("trace", "log"))
        command = [*self.prefix, self.tool, "record", "-o", trace, *self.options, "--", *self.command]
        environment = {**self.case.environment(False), **self.environment, "CALLTAP_FAULTS": f"{log}:{fault}"}
        try:
            done = subprocess.run(command, cwd=self.case.folder, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                  timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"{name}: record still runs after {PATIENCE} s") from None
        lines = []
        if os.path.exists(log):
            with open(log, encoding="ascii") as file:
                lines = file.read().split()
            os.unlink(log)
        return done, trace, lines

    def counts(self, trace):
        """{function: calls} of a trace, and whether it is whole; None when it cannot be read."""
        done = self.case.run([self.case.tool, "report", "--json", "-i", trace])
        if done.status:
            return None
        return dict(re.findall(r'"function":"([^"]+)"[^{}]*"calls":(\d+)', done.stdout.replace(" ", "")))

    def one(self, name, fault, must_run):
        """The error of a run with this fault, or None."""
        done, trace, lines = self.record(name, fault)
        problem = self.judge(done, trace, must_run)
        hit = "hit" in lines
        for path in (trace, trace + ".old"):
            if os.path.exists(path) and not problem:
                os.unlink(path)
        return (f"{name}: {problem}; stderr: {done.stderr.strip()[-300:]!r}" if problem else None), hit

    def judge(self, done, trace, must_run):
        refused = done.returncode in (1, 2) and not done.stdout and not must_run
        if not refused and (done.returncode != self.plain.status or done.stdout != self.plain.stdout):
            return f"status {done.returncode}, plain {self.plain.status}; it prints {done.stdout[-200:]!r}"
        own = [line for line in done.stderr.splitlines() if not line.startswith("calltap: ")]
        if own:
            return "the program or the tool complains otherwise"
        said = bool(done.stderr.strip())
        if refused:
            return None if said and not os.path.exists(trace) else "it was refused without a word, or left a trace"
        if not os.path.exists(trace):
            return "there is no trace"
        found = self.counts(trace)
        if found is None and not said:
            return "the trace cannot be read"
        if found != self.calls and not said:
            return f"not a word about what is missing: {missing(self.calls, found)}"
        return None

    def run_all(self, chosen, must_run):
        """chosen: {name of the run: fault}.  Raises Failure with all that went wrong."""
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            results = list(pool.map(lambda item: self.one(*item, must_run), chosen.items()))
        problems = [problem for problem, _ in results if problem]
        hits = sum(hit for _, hit in results)
        print(f"faults: {len(results)} runs, {hits} calls failed, {len(problems)} problems", file=sys.stderr)
        if problems:
            raise Failure("\n    ".join(problems))
        expect(hits > len(results) // 2, f"only {hits} of {len(results)} faults happened")


def missing(wanted, found):
    return {name: (wanted.get(name), found.get(name)) for name in sorted({*wanted, *found})
            if wanted.get(name) != found.get(name)}


def picks(count, short):
    return sorted({n for n in (*SHORT, count) if n <= count}) if short else range(1, min(count, 200) + 2)


def agent_faults(short, *options):
    def test(case):
        amount = "20" if short else "300"
        bench = Bench(case, [case.program("endures.c"), "everything", amount, case.program("library.c")], options)
        bench.fail_in_agent()
        done, trace, lines = bench.record("none", "-1:0:0")
        expect(done.returncode == bench.plain.status, f"status {done.returncode} without a fault: {done.stderr}")
        bench.calls = bench.counts(trace)
        names, chosen = numbers(case.cpu), {}
        made = [names[int(line)] for line in lines]
        by_name = {name: number for number, name in names.items()}
        expect({"mmap", "sendto", "recvmsg", "clone", "pwrite64", "futex"} <= set(made), f"only {set(made)} are made")
        for name in sorted(set(made) - NEVER):
            for error in ERRORS.get(name, (EPERM,)):
                for nth in (*picks(made.count(name), short), *((-1,) if short else range(-20, 0))):
                    chosen[f"{name}{nth:+}-{error or 'short'}"] = f"{by_name[name]}:{nth}:{error}"
        bench.run_all(chosen, must_run=True)
    return test


class Untold(Bench):
    """What is missing need not be told: children that run untraced may end before anybody looks."""

    def counts(self, trace):
        return {}


def emptied_faults(case):
    """What the agent does in front of exec fails: the program is executed all the same, and sees nothing."""
    case.need_native("programs with an emptied environment")
    asked = {"getuid", "geteuid", "getgid", "getegid", "newfstatat", "faccessat", "openat", "pread64", "close", "fgetxattr",
             "process_vm_readv"}
    bench = Untold(case, [case.program("emptied.c"), "few"], ["--stock", "never"])
    bench.fail_in_agent()
    done, _, lines = bench.record("none", "-1:0:0")
    expect(done.returncode == bench.plain.status, f"status {done.returncode} without a fault: {done.stderr}")
    bench.calls = {}
    names, chosen = numbers(case.cpu), {}
    made = [names[int(line)] for line in lines]
    by_name = {name: number for number, name in names.items()}
    expect(asked <= set(made), f"{asked - set(made)} are not made")
    for name in sorted(asked):
        for error in ERRORS.get(name, (EPERM,)):
            for nth in range(1, min(made.count(name), 40) + 1):
                chosen[f"{name}{nth:+}-{error or 'short'}"] = f"{by_name[name]}:{nth}:{error}"
    bench.run_all(chosen, must_run=True)


def host_faults(short):
    def test(case):
        bench = Bench(case, [case.program("endures.c"), "everything", "20", case.program("library.c")])
        bench.fail_in_tool()
        done, trace, made = bench.record("none", "none:0:0")
        expect(done.returncode == bench.plain.status, f"status {done.returncode} without a fault: {done.stderr}")
        bench.calls = bench.counts(trace)
        expect({"memfd_create", "writev", "accept4", "sendmsg"} <= set(made), f"only {set(made)} are made")
        bench.run_all({f"{name}-{nth}": f"{name}:{nth}:{HOST_ERRORS[name]}" for name in sorted(set(made))
                       for nth in picks(made.count(name), short)}, must_run=False)
    return test


def few_descriptors(case):
    """With hardly any descriptors the tool refuses before the program runs, or says what it could not follow."""
    bench = Bench(case, [case.program("endures.c"), "everything", "20", case.program("library.c")])
    bench.calls = bench.counts(bench.record("none", "")[1])
    problems = []
    for limit in range(6, 30):
        bench.prefix = ["prlimit", f"--nofile={limit}"]
        done, trace, _ = bench.record(f"{limit}-descriptors", "")
        problem = bench.judge(done, trace, must_run=False)
        if problem:
            problems.append(f"{limit} descriptors: {problem}; stderr: {done.stderr.strip()[-300:]!r}")
    expect(not problems, "\n    ".join(problems))


CASES = {}
SINGLE = {
    "faults-agent": agent_faults(True),
    "faults-agent-emptied": emptied_faults,
    "faults-tool": host_faults(True),
    "few-descriptors": few_descriptors,
}
LONG = {
    "faults-agent-all": agent_faults(False),
    "faults-agent-drop-all": agent_faults(False, "--mode", "drop", "-b", "8K"),
    "faults-tool-all": host_faults(False),
}

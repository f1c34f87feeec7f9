"""What a call costs that a session of the tool records, or a further instance of it, or both."""
import os
import shutil
import signal
import subprocess

import sources
from attaching import poll
from measure import BenchError, Row, median

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS = "20000"  # a sample of 2 ms at the most: others on the machine get no turn in some of them
SITE = 5  # bytes
JUMP = 0xE9  # of x86-64, the one CPU that has further instances: the byte that is written last
FUNCTIONS = ("mine", "theirs", "shared")
# Of what the program says when nobody, the session alone, and the instance, too, record: (name, when, of which function).
FIGURES = (("untraced (a nop of 5 bytes)", "nobody", "mine"), ("the session alone", "session", "mine"),
           ("beside an instance of others", "both", "mine"), ("an instance alone", "both", "theirs"),
           ("the session and an instance", "both", "shared"), ("after both have ended", "after", "mine"))


def build():
    output = os.path.join(sources.CACHE, "bin", "beside")
    os.makedirs(os.path.dirname(output), exist_ok=True)
    native = os.path.join(sources.ROOT, "src", "arch", os.uname().machine, "native")
    sources.run(["gcc", "-O2", "-w", "-std=gnu11", "-D_GNU_SOURCE", f"-fpatchable-function-entry={SITE}", "-I" + native,
                 "-o", output + ".new", os.path.join(HERE, "beside.c")], what="compiling bench/beside.c")
    os.rename(output + ".new", output)
    return output


class Target:
    """The program, running; its text can be looked at."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, CALLS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addresses = [int(word, 16) for word in self.process.stdout.readline().split()]
        self.memory = os.open(f"/proc/{self.process.pid}/mem", os.O_RDONLY)

    def sites(self):
        return [os.pread(self.memory, SITE, address) for address in self.addresses]

    def traced(self):
        """The functions whose calls go elsewhere."""
        return {name for name, site in zip(FUNCTIONS, self.sites()) if site[0] == JUMP}

    def measure(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        return dict(zip(words[::2], map(float, words[1::2])))

    def close(self):
        os.close(self.memory)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Recording:
    """`calltap attach` that records these functions until it is ended."""

    def __init__(self, tool, target, name, functions, folder):
        self.said = os.path.join(folder, name + ".said")
        filters = [word for function in functions for word in ("-l", function)]
        with open(self.said, "wb") as said:
            self.process = subprocess.Popen(
                [tool, "attach", "--mode", "overwrite", "--instance", name, *filters, "-o", os.path.join(folder, name),
                 str(target.process.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        try:
            poll(lambda: target.traced() >= functions or self.process.poll() is not None, "traced")
            self.check(self.process.returncode is None)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def check(self, good):
        if not good:
            with open(self.said, encoding="utf-8", errors="replace") as said:
                raise BenchError(f"calltap attach failed: {said.read().strip()[-300:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.check(self.process.wait(60) == 0)
        finally:
            self.process.kill()


def measure_once(tool, target, folder):
    """{when: what the program says}"""
    found = {"nobody": target.measure()}
    with Recording(tool, target, "first", {"mine", "shared"}, folder):
        found["session"] = target.measure()
        with Recording(tool, target, "further", {"theirs", "shared"}, folder):
            found["both"] = target.measure()
    poll(lambda: not target.traced(), "gone")
    found["after"] = target.measure()
    return found


def instances(tools, count):
    """(j) One call of a tiny function, function_graph; all in one process, the clock reads, too."""
    if not tools.calltap or os.uname().machine != "x86_64":
        raise BenchError("there are no further instances here")
    folder = sources.scratch()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    target = Target(build())
    try:
        found = [measure_once(tools.calltap, target, folder) for _ in range(max(count, 3))]
    finally:
        target.close()
        shutil.rmtree(folder, ignore_errors=True)
    clocks = [each["clock2"] for item in found for each in item.values()]
    rows = [Row("two clock reads", min(clocks), "ns", note=f"median {median(clocks):.2f}")]
    for name, when, function in FIGURES:
        values = [item[when][function] for item in found]
        rows.append(Row(name, min(values), "ns a call", min(values) / min(clocks), "two clock reads",
                        note=f"median {median(values):.2f}"))
    return rows, {}

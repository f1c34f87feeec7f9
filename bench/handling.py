"""What handlers of a program's own cost, beside what else calls a function of its own at each call."""
import os
import re
import subprocess

import sources
from measure import BenchError, Row, Variant, median, rounds

HERE = os.path.dirname(os.path.abspath(__file__))
PROBES = "/sys/kernel/tracing"
PROBE = "calltap_bench"
CALLS = "50000"
GOALS = {"entry": 6, "entry+exit": 12}
NAMES = {  # of what the program prints, in order
    "before": "untraced (a nop of 5 bytes)", "open": "session open, no handlers", "entry": "entry handler",
    "entry+exit": "entry + exit handler", "exit": "exit handler", "entry+data+exit": "entry + exit, a word kept",
    "entry,vectors": "entry, vectors saved", "entry+exit,vectors": "entry + exit, vectors saved",
    "four": "four entry + exit handlers", "closed": "session closed",
}


def build(build_folder, name, compiler, flags):
    """The program in a flavour; it links the library of the build where it has one."""
    output = os.path.join(sources.CACHE, "bin", f"handled-{name}")
    os.makedirs(os.path.dirname(output), exist_ok=True)
    native = os.path.join(sources.ROOT, "src", "arch", os.uname().machine, "native")
    command = [compiler, "-O2", "-w", "-std=gnu11", "-D_GNU_SOURCE", "-I" + native, *flags, "-o", output + ".new",
               os.path.join(HERE, "handled.c")]
    if name == "calltap":
        folder = os.path.join(build_folder, "src", "lib")
        command += ["-I" + os.path.join(sources.ROOT, "include"), "-L" + folder, "-lcalltap", f"-Wl,-rpath,{folder}"]
    sources.run(command, what=f"compiling bench/handled.c for {name}")
    os.rename(output + ".new", output)
    return output


def write_probe(text):
    events = os.open(os.path.join(PROBES, "uprobe_events"), os.O_WRONLY | os.O_APPEND)  # it cannot seek, as open() would
    try:
        os.write(events, text.encode() + b"\n")
    finally:
        os.close(events)


class Probes:
    """The kernel's own: an event at the function's entry, and one at its return, written into its buffer."""

    def __init__(self, program, with_return):
        self.program, self.with_return = program, with_return
        listed = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.address = int(re.search(r"^(\w+) T leaf$", listed, re.M)[1], 16)

    def before(self):
        write_probe(f"p:{PROBE}/entry {self.program}:{self.address:#x}")
        if self.with_return:
            write_probe(f"r:{PROBE}/leave {self.program}:{self.address:#x}")
        self.enable("1")

    def enable(self, value):
        with open(os.path.join(PROBES, "events", PROBE, "enable"), "w", encoding="ascii") as file:
            file.write(value)

    def after(self):
        try:
            self.enable("0")
            for name in ["entry"] + ["leave"] * self.with_return:
                write_probe(f"-:{PROBE}/{name}")
            with open(os.path.join(PROBES, "trace"), "w", encoding="ascii"):
                pass  # what was recorded is thrown away
        except OSError:
            pass  # they were never made


def peers(build_folder, few):
    """Variants of those at hand."""
    found, errors = [], {}
    for name, compiler, flags in (("-finstrument-functions", "gcc", ["-DCYG", "-finstrument-functions"]),
                                  ("XRay", "clang", ["-DXRAY", "-fxray-instrument", "-fxray-instruction-threshold=1"])):
        try:
            found.append(Variant(name, [build(build_folder, name.strip("-"), compiler, flags), few]))
        except (sources.SourceError, OSError) as error:
            errors[name] = str(error)
    if os.access(os.path.join(PROBES, "uprobe_events"), os.W_OK):
        program = build(build_folder, "plain", "gcc", [])  # its first byte must not be a nop, which costs less
        for name, with_return in (("uprobe", False), ("uprobe + uretprobe", True)):
            probes = Probes(program, with_return)
            found.append(Variant(name, [program, "2000"], None, probes.before, probes.after))
    else:
        errors["uprobe"] = "the kernel's tracefs cannot be written to"
    return found, errors


def figures(run):
    return {words[0]: float(words[1]) for words in map(str.split, run.stdout.splitlines()) if len(words) == 2}


def handlers(tools, count):
    """(i) One call of a tiny function with handlers; the clock reads are measured in the same process."""
    if not tools.calltap:
        raise BenchError("calltap is not built")
    build_folder = os.path.dirname(os.path.dirname(os.path.dirname(tools.calltap)))
    own = build(build_folder, "calltap", "gcc", ["-DHANDLERS", "-fpatchable-function-entry=5"])
    variants = [Variant("calltap", [own, CALLS], {"BENCH_TOOL": tools.calltap}),
                tools.record("leaf", ["1000000"], "function_graph")]
    more, errors = peers(build_folder, CALLS)
    results, failed = rounds(variants + more, count, sources.scratch())
    errors.update(failed)
    if "calltap" not in results:
        raise BenchError(errors.get("calltap", "nothing was measured"))
    found = {name: [figures(run) for run in runs] for name, runs in results.items()}
    clock2 = min(item["clock2"] for item in found["calltap"])
    base = min(item["before"] for item in found["calltap"])
    rows = [Row("two clock reads", clock2, "ns", note=spread([item["clock2"] for item in found["calltap"]]))]
    for key, name in NAMES.items():
        values = [item[key] for item in found["calltap"]]
        over = min(values) - base
        goal = (over, GOALS[key], "ns over the nop") if key in GOALS else None
        rows.append(Row(name, min(values), "ns a call", min(values) / clock2, "two clock reads", goal, spread(values)))
    for name in ("function_graph", *(variant.name for variant in more)):
        for key in ("leaf", "entry+exit"):
            values = [item[key] for item in found.get(name, []) if key in item]
            if values:
                rows.append(Row(name, min(values), "ns a call", min(values) / clock2, "two clock reads", None, spread(values)))
    return rows, errors


def spread(values):
    return f"median {median(values):.2f}"

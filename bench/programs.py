"""What compiled eBPF programs cost, each beside C that does the same and beside the interpreter."""
import glob
import os

import sources
from measure import BenchError, Row, Variant, rounds

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS = "2000000"
NAMES = {"nothing": "nothing: a call, and a return", "filter": "a filter that says no", "record": "two arguments, a record",
         "compute": "104 steps, 8 divisions"}


def build():
    """The program, made of the sources that it needs."""
    output = os.path.join(sources.CACHE, "bin", "programs")
    os.makedirs(os.path.dirname(output), exist_ok=True)
    files = [os.path.join(HERE, "programs.c"), os.path.join(sources.ROOT, "src", "host", "diag.c"),
             *glob.glob(os.path.join(sources.ROOT, "src", "bpf", "*.c"))]
    sources.run(["gcc", "-O2", "-w", "-std=gnu11", "-D_GNU_SOURCE", f"-DCOMPILE_NATIVE=bpf_compile_{os.uname().machine}",
                 "-I" + os.path.join(sources.ROOT, "src"), "-I" + os.path.join(sources.ROOT, "include"),
                 "-o", output + ".new", *files], what="compiling bench/programs.c")
    os.rename(output + ".new", output)
    return output


def programs(_tools, count):
    """(l) One call of a compiled program, in ns; nothing of what calls it in a target is counted."""
    results, errors = rounds([Variant("programs", [build(), CALLS])], count, sources.scratch())
    if "programs" not in results:
        raise BenchError(errors["programs"])
    found = [dict(line.split() for line in run.stdout.splitlines()) for run in results["programs"]]
    best = {key: min(float(item[key]) for item in found) for key in found[0]}
    rows = []
    for name, text in NAMES.items():
        program, in_c, slow = (best[f"{name}-{how}"] for how in ("program", "c", "interpreted"))
        rows.append(Row(text, program, "ns a call", program / in_c, "C", None, f"interpreted: {slow:.0f} ns"))
    return rows, {}

"""Programs as Debian ships them, under each tool that can look into them: what a call costs, how many functions it reaches,
and whether the program ends as it does alone."""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess

import sources
from measure import BenchError, Row, Variant, rounds

PYTHON = os.path.realpath("/usr/bin/python3")
SQLITE = os.path.realpath("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0")
REDIS = os.path.realpath("/usr/bin/redis-server")  # of several names: what it does follows from the one it is called by
CALLS_PYTHON = "import sys; s, o = str, 1234567\nfor i in range(int(sys.argv[1])): s(o)\nprint('done')"
CALLS_SQLITE = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {}) SELECT sum(abs(x)) > 0 FROM c;")
CALLS_REDIS = "for i = 1, tonumber(ARGV[1]) do redis.call('get', 'key') end return 'done'"
# A server, a client that has it make the calls, and the server's end, which is the status.
SERVED = '''count=$1 script=$2; shift 2
"$@" --port 0 --unixsocket "$PWD/socket" --save "" --logfile "$PWD/log" >served 2>&1 & server=$!
until [ -S socket ]; do kill -0 $server || exit 1; sleep 0.02; done
redis-cli -s socket eval "$script" 0 $count; redis-cli -s socket shutdown nosave; wait $server'''
PATIENCE = 60  # seconds for a run with everything traced
# Calls: of tools within the program, of those in the kernel, of a debugger.  Starts go out by the difference.
QUICK, KERNEL, STOPS = (100000, 3100000), (20000, 220000), (100, 1100)


class Subject:
    """A program, a function that it calls so often as it is told, and the file that has the function."""

    def __init__(self, name, file, function, command, served=False):
        self.name, self.file, self.function, self.command, self.served = name, file, function, command, served

    def run_by(self, count, prefix=(), script=False):
        """The command behind a tool's words, or (script) in a script, as words without blanks."""
        command = self.command(count)
        if script:
            path = os.path.join(sources.CACHE, f"run-{self.name}-{count}")
            os.makedirs(sources.CACHE, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            os.chmod(path, 0o755)
            command = ["/bin/sh", path]
        command = [*prefix, *command]
        return ["sh", "-c", SERVED, "sh", str(count), CALLS_REDIS, *command] if self.served else command


SUBJECTS = (Subject("python3", PYTHON, "PyObject_Str", lambda count: [PYTHON, "-c", CALLS_PYTHON, str(count)]),
            Subject("sqlite3", SQLITE, "sqlite3_value_int64", lambda count: ["sqlite3", ":memory:", CALLS_SQLITE.format(count)]),
            Subject("redis-server", REDIS, "lookupKeyReadOrReply", lambda count: ["/usr/bin/redis-server"], served=True))


def quietly(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)


class Way:
    """A tool: the words in front of the program for one function and for all, and how many calls it is measured with."""

    def __init__(self, name, counts, one, every=None, script=False, before=None, after=None):
        self.name, self.counts, self.one, self.every = name, counts, one, every
        self.script, self.before, self.after = script, before, after
        self.shown = True  # whether the tool has the function's calls, where that is looked at


def look(way, subject, *report):
    way.shown = way.shown and subject.function in quietly(*report).stdout


def calltap(tools, subject):
    library = os.path.basename(subject.file)

    def record(what):
        return [tools.calltap, "record", "-q", "--mode", "overwrite", "-o", "trace", "-l", f"{library}:{what}", "--"]
    way = Way("calltap", QUICK, record(subject.function), record("*"))
    way.after = lambda: look(way, subject, tools.calltap, "report", "-i", os.path.join(sources.scratch(), "trace"))
    return way


def uftrace(subject):
    def record(what):
        return ["uftrace", "record", "--no-libcall", "-P", what, "-d", "data"]
    way = Way("uftrace -P", QUICK, record(subject.function), record("."))
    way.after = lambda: look(way, subject, "uftrace", "report", "--no-pager", "-d", os.path.join(sources.scratch(), "data"))
    return way


def perf(subject):
    """Two probes, which other runs must not have.  It has no event for all functions."""
    points = {subject.function: subject.function, f"{subject.function}_left": f"{subject.function}%return"}

    def begin():
        end()
        for name, point in points.items():
            done = quietly("perf", "probe", "-q", "-x", subject.file, f"bench:{name}={point}")
            if done.returncode:
                raise BenchError(f"perf probe: {done.stdout.strip()[-200:]}")

    def end():
        quietly("perf", "probe", "-q", "-d", "bench:*")

    return Way("perf", KERNEL, ["perf", "record", "-q", "-o", "data", "-e", "bench:*", "--"], None, False, begin, end)


def bpftrace(subject):
    """It takes the program to run as one word, and quotes in it for letters."""
    def words(program):
        return ["sh", "-c", 'program=$1; shift; exec bpftrace -e "$program" -c "$*"', "sh", program]
    where = f"{subject.file}:{subject.function}"
    return Way("bpftrace", KERNEL, words(
        f"uprobe:{where} {{ @began[tid] = nsecs; }} "
        f"uretprobe:{where} /@began[tid]/ {{ @took = hist(nsecs - @began[tid]); delete(@began[tid]); }}"),
               words(f"uprobe:{subject.file}:* {{ @calls = count(); }}"), True)


def gdb(subject):
    def words(name, breaks):
        path = os.path.join(sources.CACHE, f"{name}.gdb")
        os.makedirs(sources.CACHE, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"set breakpoint pending on\n{breaks}\ncommands\nsilent\ncontinue\nend\nrun\nquit $_exitcode\n")
        return ["gdb", "-q", "-batch", "-x", path, "--args"]
    return Way("gdb, entries only", STOPS, words(f"{subject.name}-one", f"break {subject.function}"))


def ways(tools, subject):
    found = [Way("plain", QUICK, []), calltap(tools, subject), uftrace(subject), perf(subject), bpftrace(subject), gdb(subject)]
    return [way for way in found if way.name in ("plain", "calltap") or shutil.which(re.split("[ ,]", way.name)[0])]


def cost(results, way):
    """ns of CPU time for each call, over the plain run."""
    def each(name, counts):
        few, many = (min(item.cpu_seconds for item in results[f"{name} {count}"]) for count in counts)
        return (many - few) / (counts[1] - counts[0]) * 1e9
    return each(way.name, way.counts) - each("plain", QUICK)


def reached(way, said, folder, tools):
    """How many functions the tool has put its hooks on, as far as it says so."""
    if way.name == "calltap":
        info = quietly(tools.calltap, "info", "--json", "-i", os.path.join(folder, "trace"))
        return int(json.loads(info.stdout)["info"].get("patched", 0)) if info.returncode == 0 else 0
    if way.name == "bpftrace":
        attached = re.search(r"Attaching (\d+) probes", said)
        return int(attached.group(1)) if attached else 0
    report = quietly("uftrace", "report", "--no-pager", "-d", os.path.join(folder, "data"))
    return len(re.findall(r"^ .*[num]s ", report.stdout, re.M))  # those that were called


def everything(way, subject, tools):
    """(functions, what came of it) of a run with all functions of the file traced."""
    folder, count = sources.scratch(), KERNEL[0]

    def once(prefix, script=False):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with subprocess.Popen(subject.run_by(count, prefix, script), cwd=folder, text=True, errors="replace",
                              env={**os.environ, "BPFTRACE_MAX_PROBES": "100000"}, start_new_session=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            try:
                return process.communicate(timeout=PATIENCE)[0], process.wait()
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return None
    alone, done = once(()), once(way.every, way.script)
    if not done:
        return 0, f"not in {PATIENCE} s"
    said, status = done
    if subject.served:
        with open(os.path.join(folder, "served"), encoding="utf-8", errors="replace") as file:
            said += file.read()
    functions = reached(way, said, folder, tools)
    shutil.rmtree(folder, ignore_errors=True)
    if status != alone[1]:
        return functions, f"status {status}"
    return functions, "same output" if all(line in said for line in alone[0].splitlines()) else "another output"


def peers(tools, count):
    """(l) Unmodified python3, sqlite3 and redis-server under each tool."""
    if not tools.calltap:
        raise BenchError("calltap record is not built")
    rows, errors = [], {}
    for subject in SUBJECTS:
        if not os.path.exists(subject.file):
            errors[subject.name] = f"there is no {subject.file}"
            continue
        tried = ways(tools, subject)
        variants = [Variant(f"{way.name} {calls}", subject.run_by(calls, way.one, way.script), None, way.before, way.after)
                    for way in tried for calls in way.counts]
        results, failed = rounds(variants, count, sources.scratch())
        for way in tried[1:]:
            functions, outcome = everything(way, subject, tools) if way.every else ("", "cannot be asked for")
            broken = [text for name, text in failed.items() if name.rpartition(" ")[0] == way.name]
            broken += [] if way.shown or broken else ["it ran, and recorded no call"]
            ns = None if broken else cost(results, way)
            columns = {"ns a call": "none" if broken else f"{ns:.0f}", "functions": str(functions), "all of them": outcome}
            rows.append(Row(f"{subject.name}: {way.name}", ns, "ns a call", columns=columns))
            if broken:
                errors[f"{subject.name}: {way.name}"] = broken[0].rpartition(": ")[2]
    return rows, errors

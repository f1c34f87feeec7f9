"""Programs as distributed, which nobody has prepared: each does the same plain, with its own functions traced, and with every
function of every object traced, libc and the loader included."""
import hashlib
import http.server
import json
import lzma
import os
import shutil
import signal
import subprocess
import threading
import time

from endings import start, wait_for
from harness import Process, Skip, expect, stop, until
from steer import own_place
from steering import mappings

EVERYTHING = ["-l", "*:*"]
WAYS = {"own": [], "everything": EVERYTHING}
OBJECT = {"own": 1, "everything": 2}  # objects that the trace has functions of, at the least
BUFFER = ["-b", "1M"]


def need(package, *paths):
    """The first of a program's paths that is there; not what PATH finds, which may be a script."""
    for path in paths:
        if os.access(path, os.X_OK):
            return path
    raise Skip(f"{package} is not installed")


def written(case, name, text):
    path = os.path.join(case.folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def rows(case, by="function"):
    done = case.run([case.tool, "report", "--json", "--by", by, "-i", case.trace_path])
    expect(done.status == 0, f"calltap report fails: {done.stderr[-400:]}")
    return json.loads(done.stdout)


def same(case, command, product=None, functions=(), calls=100, output=True):
    """Plain and traced in each way the same output, status and product; the trace has calls of the functions."""
    plain = case.run(command)
    wanted = product and digest(product)
    for way, options in WAYS.items():
        if product:
            os.unlink(product)
        traced = case.record(command, [*BUFFER, *options], log=False)
        case.same_outcome(plain, traced)
        expect(not product or digest(product) == wanted, f"{way}: {product} differs")
        report = rows(case)
        expect(report["lost"] == 0, f"{way}: {report['lost']} records were lost")
        called = {row["function"]: row["calls"] for row in report["rows"]}
        expect(sum(called.values()) >= calls, f"{way}: {sum(called.values())} calls")
        missing = [name for name in functions if name not in called]
        expect(not missing, f"{way}: {missing} are not in the trace")
        objects = {row["object"] for row in report["rows"]}
        expect(len(objects) >= OBJECT[way], f"{way}: only {objects}")
    expect(plain.stdout or not output, "the program prints nothing")
    return plain


PYTHON = r"""
import asyncio, ctypes, hashlib, os, queue, signal, ssl, subprocess, sys, threading
numbers = queue.Queue()
threads = [threading.Thread(target=lambda n=n: numbers.put(sum(i * n for i in range(1000)))) for n in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(sorted(numbers.get() for _ in threads))
async def twice(n):
    await asyncio.sleep(0.001)
    return 2 * n
async def main():
    print(sum(await asyncio.gather(*map(twice, range(40)))))
    child = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=subprocess.PIPE)
    print(await child.communicate())
asyncio.run(main())
libc, six = ctypes.CDLL("libc.so.6"), (ctypes.c_int * 6)(5, 3, 9, 1, 7, 2)
POINTER = ctypes.POINTER(ctypes.c_int)
libc.qsort(six, 6, 4, ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER)(lambda a, b: a[0] - b[0]))
print(list(six))
tls, received, sent = ssl.create_default_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
try:
    tls.wrap_bio(received, sent, server_hostname="a.b").do_handshake()
except ssl.SSLWantReadError:
    print(len(sent.read()) > 100)
signal.signal(signal.SIGPROF, lambda *_: None)
signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
text = b"x"
for _ in range(20000):
    text = hashlib.md5(text).digest()
signal.setitimer(signal.ITIMER_PROF, 0)
print(text.hex())
for n in range(4):
    child = os.fork()
    if not child:
        os._exit(n + 3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
def deeper(n):
    return deeper(n + 1)
try:
    deeper(0)
except RecursionError as error:
    print(error)
sys.exit(5)
"""


def python(case):
    same(case, [need("python3", "/usr/bin/python3"), "-I", written(case, "work.py", PYTHON)], calls=100000)


PERL = r"""
$| = 1; my $sum = 0;
for (1 .. 300) { eval { die {n => $_} }; $sum += $@->{n} } print "$sum\n";
eval { local $SIG{ALRM} = sub { die "alarm\n" }; require Time::HiRes; Time::HiRes::ualarm(20000); 1 while 1 }; print "got $@";
for my $n (1 .. 5) { my $child = fork; exit $n if !$child; waitpid $child, 0; print $? >> 8, "\n" }
local $SIG{USR1} = sub { print "signal\n" }; kill USR1 => $$;
my %h; $h{$_ % 97}++ for 1 .. 5000; print join(",", map { "$_=$h{$_}" } sort keys %h), "\n";
my $n = () = ("the quick brown fox " x 200) =~ /(\w+)\s(?=b)/g; print "$n\n", `echo child; exit 3`, $? >> 8, "\n";
sub deeper { no warnings; my $n = shift; $n ? 1 + deeper($n - 1) : 0 } print deeper(3000), "\n"; exit 9;
"""


def perl(case):
    same(case, [need("perl", "/usr/bin/perl"), written(case, "work.pl", PERL)], calls=10000)


LUA = r"""
local s = 0
for _ = 1, 30 do for i in coroutine.wrap(function() for i = 1, 100 do coroutine.yield(i) end end) do s = s + i end end
for i = 1, 400 do local ok, e = pcall(function() if i % 2 == 0 then error({i}) end end) if not ok then s = s + e[1] end end
print(s, pcall(string.rep, "x", -1))
local function deeper(n) return 1 + deeper(n + 1) end
print((pcall(deeper, 1)))
local t = {} for i = 1, 3000 do t[i] = (i * 7919) % 10007 end table.sort(t) print(t[1], t[3000])
os.exit(4, true)
"""


def lua(case):
    same(case, [need("lua5.4", "/usr/bin/lua5.4"), written(case, "work.lua", LUA)], functions=["lua_pcallk", "lua_resume"],
         calls=10000)


BASH = r"""
trap 'echo at the end' EXIT
trap 'echo signal' USR1
deeper() { local n=$1; ((n > 0)) && deeper $((n - 1)); }; deeper 200
for i in {1..20}; do text=$( (echo "$i"; exit "$i") ); echo "$text $?"; done
kill -USR1 $$; (trap 'echo at the end of a subshell' EXIT; echo in it)
coproc { read -r line; echo "got $line"; }; echo hello >&"${COPROC[1]}"; read -r -u "${COPROC[0]}" line; echo "$line"
[[ abc123 =~ ([a-z]+)([0-9]+) ]] && echo "${BASH_REMATCH[2]}"
cat <(echo one) <(echo two); printf '%s\n' {1..300} | sort -n -r | head -n 3 | tac
set -e; false; echo not here
"""


def bash(case):
    same(case, [need("bash", "/usr/bin/bash", "/bin/bash"), written(case, "work.sh", BASH)], functions=["execute_command_internal"])


def git(case):
    program = need("git", "/usr/bin/git")
    environment = "export HOME=$PWD GIT_AUTHOR_DATE='@1000000000 +0000' GIT_COMMITTER_DATE='@1000000000 +0000'"
    script = written(case, "work.sh", f"""{environment}
set -e; rm -rf one two; alias git={program}
git init -q -b main one; cd one; git config user.name n; git config user.email e@x
for n in 1 2 3 4 5 6; do seq $((n * 500)) > file; echo $n > f$n; git add .; git commit -q -m "change $n"; done
cd ..; git clone -q --no-local one two 2>&1; cd two; git gc -q; git fsck; git log -p | sha256sum; git blame file | sha256sum
git grep -c 99; git diff --stat HEAD~3; git rev-parse HEAD; git cherry-pick nothing 2>&1; exit 7
""")
    same(case, ["/bin/sh", script], calls=10000)


def sqlite(case):
    sql = """create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000) insert into t select x, hex(x * 7919 % 10007) from c;
create index i on t(b); select count(*), sum(a), max(b) from t where b like '3%'; select printf('%.3f', 2.5); select * from nothing;"""
    same(case, [need("sqlite3", "/usr/bin/sqlite3"), ":memory:", sql])


def openssl(case):
    program = need("openssl", "/usr/bin/openssl")
    script = written(case, "work.sh", f"""alias openssl={program}; echo hello > text
openssl genrsa -out rsa 2048 2> /dev/null; openssl ecparam -genkey -name prime256v1 -noout -out ec; openssl genpkey -algorithm ed25519 -out ed
openssl rsa -in rsa -check -noout
for key in rsa ec; do
openssl pkey -in $key -pubout -out pub; openssl dgst -sha256 -sign $key -out signed text; openssl dgst -sha256 -verify pub -signature signed text
echo other | openssl dgst -sha256 -verify pub -signature signed 2> /dev/null; echo $?
done
openssl pkeyutl -sign -inkey ed -rawin -in text -out signed; openssl pkeyutl -verify -inkey ed -rawin -in text -sigfile signed
openssl enc -aes-256-cbc -pbkdf2 -pass pass:x -in text | openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x
for kind in sha256 sha3-512 blake2b512 sm3; do openssl dgst -$kind {program}; done
openssl speed -seconds 1 -bytes 8192 -evp aes-128-gcm > /dev/null 2>&1; echo $?
""")
    same(case, ["/bin/sh", script], calls=1000)


def compiler(case):
    """cc1 -O2 writes the same assembly."""
    found = shutil.which("gcc") or ""
    path = found and case.run([found, "-print-prog-name=cc1"]).stdout.strip()
    cc1 = need("gcc", path)
    body = "".join(f"int f{n}(int *a, int n) {{ int r = {n}; for (int i = 0; i < n; i++) switch ((a[i] + {n}) % 7) {{ case 0: r += a[i]; "
                   f"break; case 3: r ^= i * {n}; break; default: r = r * 31 + i; }} return r; }}\n" for n in range(12))
    product = os.path.join(case.folder, "out.s")
    same(case, [cc1, "-quiet", "-O2", written(case, "in.c", body), "-o", product], product=product, calls=100000, output=False)


def tools(case):
    """Small programs that execute each other: find, xargs, make, tar, xz, sort."""
    need("make", "/usr/bin/make")
    need("xz-utils", "/usr/bin/xz")
    written(case, "Makefile", "all: $(foreach i,1 2 3 4 5 6 7 8,t$(i))\nt%: ; @echo $@ | sed s/t/u/ > out.$@\n")
    script = written(case, "work.sh", """mkdir -p d; for n in 1 2 3 4 5 6; do seq $((n * 900)) > d/$n; done
find d -type f -exec wc -l {} \\; | sort; seq 20 | xargs -P 4 -n 1 echo | sort -n | sha256sum; make -s -j 3; cat out.* | sort
tar -c --sort=name --mtime=@0 --owner=0 --group=0 --mode=644 d > t; sha256sum t; xz -T2 -c t | xz -dc | cmp - t; gzip -n -9 -c t | sha256sum
timeout 0.1 sleep 9; echo $?; grep -c r-xp /proc/self/maps > /dev/null; echo $?; ls nothing; exit 3
""")
    same(case, ["/bin/sh", script], calls=1000)


NODE = r"""
const { Worker, isMainThread, parentPort } = require("worker_threads");
if (!isMainThread) { let s = 0; for (let i = 0; i < 1e5; i++) s += i % 7; parentPort.postMessage(s); }
else (async () => {
let kept = [], lines = 0;
for (let i = 0; i < 1e5; i++) { kept.push({ i, text: "x" + i }); if (i % 5e4 == 0) kept = []; }
function deeper(n) { if (!n) throw new Error("deep"); return deeper(n - 1) + 1; }
for (let i = 0; i < 300; i++) try { deeper(i % 50); } catch (error) { lines += error.stack.split("\n").length; }
try { (function more() { more(); })(); } catch (error) { console.log(kept.length, lines, error.message); }
require("child_process").execSync("echo child", { stdio: "inherit" });
console.log(require("crypto").createHash("sha256").update("x".repeat(1e5)).digest("hex"), [3, 1, 2].sort((a, b) => a - b));
console.log(await new Promise(done => new Worker(__filename).on("message", done)));
process.exitCode = 6;
})();
"""


def node(case):
    """V8 finds its scripts' frames by return addresses, when it collects and when it throws."""
    same(case, [need("nodejs", "/usr/bin/node"), written(case, "work.js", NODE)], calls=10000)


def killed(case):
    """The tool is killed at several moments: the program goes on and prints what it prints plain."""
    command = [need("python3", "/usr/bin/python3"), "-I", written(case, "work.py", PYTHON)]
    plain = case.run(command)
    # A shell tells the program's status: the tool, whose child it is, is gone by then.
    script = written(case, "run.sh", 'echo began >> said; "$@"; echo "status $?" >> said\n')
    path = os.path.join(case.folder, "output")
    for moment in (0, 0.02, 0.1, 0.3, 0.6):
        said = written(case, "said", "")
        with open(path, "wb") as output:
            tool = Process(case.record_command(["/bin/sh", script, *command], [*BUFFER, *EVERYTHING]), cwd=case.folder,
                           env=case.environment(False), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL,
                           start_new_session=True)
        try:
            wait_for(said, "began")
            time.sleep(moment)
            tool.kill()
            tool.wait()
            status = wait_for(said, "status")
        finally:
            stop(tool)
        expect(status == f"status {plain.status}", f"killed after {moment} s: {status!r}, plain {plain.status}")
        with open(path, encoding="utf-8") as output:
            printed = output.read()
        expect(printed == plain.stdout, f"killed after {moment} s: {printed[-300:]!r}, plain {plain.stdout[-300:]!r}")


BUSY = r"""
import hashlib, signal, sys, threading, time
ended = threading.Event()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.signal(signal.SIGTERM, lambda *_: ended.set())
rounds = [0] * 4
def work(n):
    while not ended.is_set():
        assert hashlib.md5(b"x" * 100).hexdigest() == "REFERENCE"
        try:
            raise ValueError(n)
        except ValueError as error:
            assert error.args == (n,)
        rounds[n] += 1
        time.sleep(0.0001)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
print("ready", flush=True)
while not ended.is_set():
    time.sleep(0.01)
signal.setitimer(signal.ITIMER_REAL, 0)
for thread in threads:
    thread.join()
print("all was well" if all(rounds) else rounds)
sys.exit(42)
""".replace("REFERENCE", hashlib.md5(b"x" * 100).hexdigest())


def attached(case):
    """Attached to again and again: python3 with threads and a timer of 1 kHz goes on, and ends as ever."""
    case.need_native("attaching")
    own_place(case)
    path = os.path.join(case.folder, "output")
    with open(path, "wb") as output:
        program = Process([need("python3", "/usr/bin/python3"), "-I", written(case, "busy.py", BUSY)], cwd=case.folder,
                          env=case.environment(False), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                          start_new_session=True)
    try:
        wait_for(path, "ready")
        for options in [[]] * 4 + [EVERYTHING] * 2:
            done = case.run([case.tool, "attach", "-o", case.trace_path, "--duration", "100ms", *options, str(program.pid)])
            expect(done.status == 0, f"attach {options}: status {done.status}, {done.stderr[-300:]!r}")
            calls = sum(row["calls"] for row in rows(case)["rows"])
            expect(calls > 100, f"{options}: {calls} calls")
        os.kill(program.pid, signal.SIGTERM)
        status = program.wait(30)
    finally:
        stop(program)
    with open(path, encoding="utf-8") as output:
        printed = output.read()
    expect(status == 42 and printed == "ready\nall was well\n", f"status {status}, {printed[-300:]!r}")


NAMED = r"""
#include <stdio.h>
__attribute__((noinline)) static int hidden(int n)
{
	return n * 3 + (getchar() == 'x');
}
__attribute__((noinline)) static int deeper(int n)
{
	return n ? deeper(n - 1) + hidden(n) : 0;
}
int main(void)
{
	int sum = 0, last;

	do {
		last = getchar();
		sum += deeper(5);
		printf("%d\n", sum);
		fflush(stdout);
	} while (last == '\n');
	return 7;
}
"""


def named(case):
    """A stripped program's functions have the names and lines of its debug file, and names of packed symbols: recorded,
    attached to, chosen by those names."""
    for tool in ("gcc", "objcopy", "strip"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")
    full, program = os.path.join(case.folder, "full"), os.path.join(case.folder, "program")
    debug, mini = program + ".debug", os.path.join(case.folder, "mini")
    source = written(case, "named.c", NAMED)
    ways = {"debug link": [["objcopy", "--only-keep-debug", full, debug], ["objcopy", "--add-gnu-debuglink=" + debug, program]],
            "packed": [["objcopy", "-S", "--keep-symbol=hidden", "--keep-symbol=deeper", "--keep-symbol=main", full, mini],
                       ["objcopy", "--remove-section=.gnu_debuglink", program]]}
    subprocess.run(["gcc", "-g", "-O2", "-fno-optimize-sibling-calls", "-fno-ipa-cp", "-o", full, source], check=True)
    for way, commands in ways.items():
        subprocess.run(["strip", "-o", program, full], check=True)
        for command in commands:
            subprocess.run(command, check=True)
        if way == "packed":
            with open(mini, "rb") as file:
                data = lzma.compress(file.read())
            with open(mini, "wb") as file:
                file.write(data)
            subprocess.run(["objcopy", "--add-section", ".gnu_debugdata=" + mini, program], check=True)
            os.unlink(debug)
        case.same_outcome(case.run([program]), case.record([program], ["-l", "hidden", "-l", "deeper"], log=False))
        check_named(case, way, {"hidden": 5, "deeper": 6})
        running = Process([program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        tool = Process([case.tool, "attach", "-o", case.trace_path, "-l", "h[i]dden", "--duration", "300ms", str(running.pid)],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            for _ in range(2000):
                if tool.poll() is not None:
                    break
                running.stdin.write(b"\n" * 6)
                running.stdin.flush()
                time.sleep(0.01)
            running.stdin.close()
            expect(tool.poll() == 0, f"{way}: attach ends with {tool.returncode}: {tool.stderr.read()[-300:]}")
            expect(running.wait(10) == 7, f"{way}: the attached program ends with {running.returncode}")
        finally:
            stop(tool)
            stop(running)
        check_named(case, way, {"hidden": None})


def unasked(case):
    """A recording asks no server for a debug file that is missing, though servers are named."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802  (the base class's name)
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    if not shutil.which("objcopy"):
        raise Skip("objcopy is not installed")
    program, debug = os.path.join(case.folder, "program"), os.path.join(case.folder, "program.debug")
    subprocess.run(["gcc", "-g", "-O1", "-o", program, written(case, "named.c", NAMED)], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "-S", "--add-gnu-debuglink=" + debug, program], check=True)
    os.unlink(debug)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = dict(case.environment(False), DEBUGINFOD_URLS=f"http://127.0.0.1:{server.server_address[1]}",
                           DEBUGINFOD_CACHE_PATH=os.path.join(case.folder, "fetched"))
        done = subprocess.run(case.record_command([program]), env=environment, stdin=subprocess.DEVNULL, check=False,
                              capture_output=True, text=True)
        server.shutdown()
    expect(done.returncode == 7, f"status {done.returncode}, {done.stderr[-300:]!r}")
    expect(not asked, f"servers were asked for {asked}")
    expect(sum(row["calls"] for row in rows(case)["rows"]) > 3, "nothing was recorded")


def check_named(case, way, calls):
    """The trace has these functions and their calls (None: some), with source lines if there is a debug file."""
    lines = {"hidden": 3, "deeper": 7}
    found = {row["function"]: row for row in rows(case)["rows"]}
    expect(set(found) == set(calls), f"{way}: {sorted(found)} were recorded")
    for name, count in calls.items():
        row = found[name]
        expect(row["calls"] == count or (count is None and row["calls"]), f"{way}: {row['calls']} calls of {name}")
        place = (os.path.basename(row["file"] or ""), row["line"])
        wanted = ("named.c", lines[name]) if way == "debug link" else ("", 0)
        expect(place[0] == wanted[0] and abs(place[1] - wanted[1]) <= 1, f"{way}: {name} is at {place}")


LIBRARY = "int savectx(int n) { return n * 3; }\nint counted(int n) { return savectx(n) + 1; }\n"
USER = """
#include <stdio.h>
int counted(int n);
int main(void) { int sum = 0, c; while ((c = getchar()) != EOF) sum += counted(c); printf("%d\\n", sum); return 3; }
"""


def filters(case):
    """A library is chosen by the loader's name, by its file's own name behind the link and by its soname; the reason is
    told why a chosen function cannot be traced."""
    if not shutil.which("gcc"):
        raise Skip("gcc is not installed")
    library, link = os.path.join(case.folder, "libcounted.so.1.2"), os.path.join(case.folder, "liblink.so")
    program = os.path.join(case.folder, "user")
    subprocess.run(["gcc", "-O1", "-fno-inline", "-shared", "-fPIC", "-Wl,-soname,libcounted.so.1", "-o", library,
                    written(case, "library.c", LIBRARY)], check=True)
    subprocess.run(["gcc", "-O1", "-o", program, written(case, "user.c", USER), library, "-Wl,-rpath," + case.folder], check=True)
    for name in (link, os.path.join(case.folder, "libcounted.so.1")):
        os.symlink(library, name)
    for pattern in ("libcounted.so.1.2", "libcounted.so.1", "*/libcounted.so.1", "*ounted*1.2"):
        case.same_outcome(case.run([program]), case.record([program], ["-l", pattern + ":counted"], log=False))
    running = Process([program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until("the loader to map the library", lambda: any("libcounted" in file for _, _, file in mappings(running.pid)))
        for pattern, status in (("libcounted.so.1.2", 0), ("libcounted.so.1", 0), ("libcounted.so", 2)):
            done = case.run([case.tool, "attach", "-o", case.trace_path, "-l", pattern + ":counted", "--duration", "20ms",
                             str(running.pid)])
            expect(done.status == status, f"attach by {pattern}: status {done.status}, {done.stderr[-300:]!r}")
    finally:
        stop(running)
    done = case.run(case.record_command([program], ["-l", "libcounted.so.1:savectx"]))
    said = "matches 'libcounted.so.1:savectx': savectx (libcounted.so.1) cannot be traced: returns twice or switches stacks (see"
    expect(done.status == 2 and said in done.stderr, f"status {done.status}, {done.stderr!r}")


def short(case):
    """Functions with less room than a jump, by themselves and with all others.  What is led for their sake alone is in no
    trace."""
    program = case.program("short.c", sites=False, variant="-apart", flags=["-fno-toplevel-reorder"])
    tiny = {f"tiny_{name}_{group}" for name in ("one", "less", "odd", "loop") for group in "abc"}
    done = case.run([case.tool, "functions", "--json", program])
    functions = {item["name"]: item for item in json.loads(done.stdout)["functions"]}
    left = [name for name in tiny if not functions[name]["traceable"]]
    expect(not left, f"cannot be traced: {left}")
    expect(case.cpu.name != "riscv64" or all(functions[f"tiny_{name}"]["size"] < 8 for name in ("one_a", "less_b", "odd_c")),
           "the functions are no short ones")
    for options in ([], ["-l", "tiny_*"], ["-l", "tiny_one_b"], EVERYTHING):
        case.same_as_plain([program], options, log=False)
        called = case.trace().called()
        wanted = {"tiny_one_b"} if "tiny_one_b" in options else tiny
        counts = {name: called.get(name, 0) for name in wanted}
        expect(set(counts.values()) == {50}, f"{options}: not 50 calls of each, but {counts}")
        expect(not options or options == EVERYTHING or set(called) == wanted, f"{options}: also {set(called) - wanted}")
    case.same_as_plain([program], ["-l", "tiny_*", "--tracer", "function"], log=False)


def native(test):
    def with_test(case):
        case.need_native("programs as distributed")
        test(case)
    return with_test


AS_IT_IS = True  # see harness.py
MOVING = """
import greenlet, sys, time
main = greenlet.getcurrent()
def f():
    while True:
        main.switch(1)
print("running", flush=True)
found = [greenlet.greenlet(f) for i in range(5)]
end = time.time() + float(sys.argv[1])
while time.time() < end:
    for one in found:
        one.switch()
print("moved")
"""


def moving_python(case):
    """The command for a Python program whose library copies parts of its stack away and back."""
    case.need_native("a stock Python")
    if not os.path.exists("/usr/bin/python3") or case.run(["/usr/bin/python3", "-c", "import greenlet"]).status:
        raise Skip("python3-greenlet is not installed")
    path = os.path.join(case.folder, "moving.py")
    with open(path, "w", encoding="ascii") as file:
        file.write(MOVING)
    return ["/usr/bin/python3", path]


def moved(*options):
    """A program that moves its stacks is recorded until the library for that comes, which is told, and goes on unharmed."""
    def test(case):
        done = case.run([case.tool, "record", "-o", case.trace_path, *options, "--", *moving_python(case), "0.3"])
        expect((done.status, done.stdout) == (0, "running\nmoved\n"), f"{done.status}: {done.stdout} {done.stderr}")
        told = "copies parts of stacks" in done.stderr
        expect(told == ("function" not in options), f"it says {done.stderr!r}")
        expect(case.trace().called(), "nothing was recorded before")
    return test


RUBY = """
require "continuation"
continuations = []
times = 0
found = [1].map { callcc { |one| continuations << one; 0 } }
times += 1
continuations[0].call(times) if times < 5
puts found
"""


def moved_ruby(case):
    """Ruby's callcc() comes with a library, which is told."""
    case.need_native("a stock Ruby")
    if not os.path.exists("/usr/bin/ruby"):
        raise Skip("ruby is not installed")
    path = os.path.join(case.folder, "moving.rb")
    with open(path, "w", encoding="ascii") as file:
        file.write(RUBY)
    plain = case.run(["/usr/bin/ruby", path])
    done = case.run([case.tool, "record", "-o", case.trace_path, "-l", "libruby*:*", "--", "/usr/bin/ruby", path])
    expect((done.status, done.stdout) == (plain.status, plain.stdout), f"{done.status}: {done.stdout} {done.stderr}")
    expect("copies parts of stacks" in done.stderr, f"it says {done.stderr!r}")
    expect(case.trace().called(), "nothing was recorded before")


def copied(case):
    """Of a program that copies its stack by its own means it is told why it ended; its calls alone do it no harm."""
    program = case.program("copies.c")
    plain = case.run([program])
    expect(plain.status == 3 and plain.stdout.count("\n") == 6, f"{plain.status}: {plain.stdout}")
    case.same_outcome(plain, case.record([program], ["-p", "function"], log=False))
    done = case.record([program], log=False)
    expect(done.status == 128 + signal.SIGSEGV and "caller was not known any more" in done.stderr, f"{done.status}: {done.stderr}")


def moved_attached(case):
    """Attach refuses such a program, and records calls alone."""
    output, process = start(case, [*moving_python(case), "20"])
    try:
        wait_for(output, "running")
        time.sleep(0.2)
        done = case.run([case.tool, "attach", "-o", case.trace_path, "--duration", "300ms", str(process.pid)])
        expect(done.status == 2 and "copies parts of stacks" in done.stderr, f"{done.status}: {done.stderr}")
        done = case.run([case.tool, "attach", "-p", "function", "-o", case.trace_path, "--duration", "300ms", str(process.pid)])
        expect(done.status == 0, f"{done.status}: {done.stderr}")
        expect(process.poll() is None, f"the program has ended: {process.returncode}")
    finally:
        stop(process)


def guile(case):
    """Guile's library copies stacks: its functions are left out where returns are recorded, and those of its user are not."""
    case.need_native("programs as distributed")
    for command in (["gcc", "-O2", "-shared", "-fPIC", "-o", "libguile-0.so",
                     written(case, "lib.c", "int in_guile(int n) { return n * 3 % 7; }\n")],
                    ["gcc", "-O2", "-o", "uses", written(case, "uses.c", "int in_guile(int n);\n"
                                                         "__attribute__((noipa)) int user(int n) { return in_guile(n) + 1; }\n"
                                                         "int main(void) { return user(5) != 2; }\n"),
                     "-L.", "-lguile-0", "-Wl,-rpath,$ORIGIN"]):
        done = case.run(command)
        expect(not done.status, done.stderr)
    uses = os.path.join(case.folder, "uses")
    done = case.record([uses], ["-l", "libguile*:*"], log=False)
    expect(done.status == 2 and "its library copies parts of stacks" in done.stderr, f"{done.status}: {done.stderr}")
    for options, called in ([], {"user", "main"}), (["-p", "function"], {"user", "main", "in_guile"}):
        done = case.record([uses], options, log=False)
        expect(not done.status, f"{done.status}: {done.stderr}")
        expect(set(case.trace().called()) & {"user", "main", "in_guile"} == called, f"{options}: {case.trace().called()}")


def linked(case):
    """A link to a program whose libraries lie beside it, as /usr/bin/java is one: its loader lists them all the same."""
    home = os.path.join(case.folder, "home")
    os.mkdir(home)
    library, main = written(case, "lib.c", "int in_library(int n) { return n * 3 % 7; }\n"), written(
        case, "main.c", "int in_library(int n);\nint main(void) { return in_library(5) != 1; }\n")
    for command in (["gcc", "-O2", "-shared", "-fPIC", "-o", "home/liborigin.so", library],
                    ["gcc", "-O2", "-o", "home/main", main, "-Lhome", "-lorigin", "-Wl,-rpath,$ORIGIN"]):
        done = case.run(command)
        expect(not done.status, done.stderr)
    link = os.path.join(case.folder, "link")
    os.symlink("home/main", link)
    done = case.record([link], ["-l", "liborigin*:*"])
    expect(done.status == 0 and not done.stderr, f"status {done.status}: {done.stderr!r}")
    expect(case.trace().called().get("in_library") == 1, f"{case.trace().called()}")
    said = case.run([case.tool, "functions", link, "liborigin*:*"]).stdout
    expect("in_library" in said, said)


ASKS = r"""
const void *asks(void) { return __builtin_return_address(0); }
"""
ASKED = r"""
#include <stdio.h>
const void *asks(void);
int main(void)
{
	const char *from = asks(), *here = (const char *)main;
	printf("%s\n", from > here && from < here + 200 ? "main" : "somebody else");
	return 0;
}
"""


def asking(case):
    """A function of the program's own library asks who calls it: its call by the PLT is left alone, as it is itself."""
    for command in (["gcc", "-O2", "-shared", "-fPIC", "-o", "libasks.so", written(case, "asks.c", ASKS)],
                    ["gcc", "-O2", "-o", "asked", written(case, "asked.c", ASKED), "-L.", "-lasks", "-Wl,-rpath,$ORIGIN"]):
        done = case.run(command)
        expect(not done.status, done.stderr)
    for options in ([], EVERYTHING):
        done = case.record([os.path.join(case.folder, "asked")], options, log=False)
        expect(done.stdout == "main\n", f"{options}: it was called by {done.stdout!r}")
        called = {row["function"] for row in rows(case)["rows"]}
        expect("main" in called and "asks" not in called, f"{options}: {called}")


RELOADS = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
int main(void)
{
	const void *last = NULL;
	int moved = 0;
	for (int i = 0; i < 4; i++) {
		void *library = dlopen("./libthrows.so", RTLD_NOW);
		int (*run)(int, char **) = (int (*)(int, char **))dlsym(library, "run");
		void *unwinder = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NOLOAD);
		const void *place = dlsym(unwinder, "_Unwind_GetCFA");
		char *arguments[] = {"throws", "20", NULL};
		moved += place != last;
		last = place;
		if (run(2, arguments))
			return 1;
		dlclose(unwinder);
		dlclose(library);
		if (dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NOLOAD))
			return 2;
		for (int k = 0; k < 64; k++) /* where it was is another mapping now */
			mmap(NULL, 64 << 10, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	printf("%d places\n", moved);
	return moved < 2;
}
"""


def reloading(case):
    """A library that throws is unloaded with its unwinder, and comes again, to another place."""
    throws = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prog", "personality.c")
    for command in (["gcc", "-O2", "-D_GNU_SOURCE", "-w", "-Dmain=run", "-fexceptions", "-shared", "-fPIC", "-o", "libthrows.so", throws, "-lgcc_s"],
                    ["gcc", "-O2", "-o", "reloads", written(case, "reloads.c", RELOADS)]):
        done = case.run(command)
        expect(not done.status, done.stderr)
    command = [os.path.join(case.folder, "reloads")]
    plain = case.run(command)
    expect(plain.status == 0 and " 0 wrong" in plain.stdout, f"{plain.status}: {plain.stdout} {plain.stderr}")
    for options in ([], EVERYTHING):
        case.same_outcome(plain, case.record(command, [*BUFFER, *options], log=False))
    expect(calls_of(case, "throws") == 80, f"{calls_of(case, 'throws')} calls")


def calls_of(case, name):
    return sum(row["calls"] for row in rows(case)["rows"] if row["function"] == name)


SINGLE = {
    "stock-reloading": native(reloading),
    "stock-asking": native(asking),
    "stock-linked": native(linked),
    "stock-moves-stacks": moved(),
    "stock-moves-stacks-everything": moved("-l", "*:*"),
    "stock-moves-stacks-functions": moved("-p", "function"),
    "stock-moves-stacks-attached": moved_attached,
    "stock-moves-stacks-ruby": moved_ruby,
    "stock-moves-stacks-guile": guile,
    "stock-moves-stacks-unforeseen": native(copied),
    **{f"stock-{test.__name__}": native(test)
       for test in (python, perl, lua, bash, git, sqlite, openssl, compiler, tools, killed, attached, named, unasked, filters)},
}

SINGLE["stock-short"] = short

LONG = {"stock-node": native(node)}

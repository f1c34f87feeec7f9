#!/usr/bin/env python3
"""The demo behind ./demo: Debian's own bash and ls as they are, then SQLite (C, one thread), LevelDB (C++, several threads), Lua
and Redis (a server) built for tracing; recorded and shown.

Each program's output under trace is compared with its plain run; the demo fails when they differ.
"""
import concurrent.futures
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import sources  # noqa: E402  (the path above is what finds it)

BUILD = os.path.join(ROOT, "build")
OUTPUT = os.path.join(BUILD, "demo")
TOOL = os.path.join(BUILD, "src", "cmd", "calltap")
LINES = 30  # shown of each view
SCRIPT = 'for i in 1 2 3; do echo "$i: $((i * i))"; done; (echo in a subshell); ls / | wc -l'


def say(text):
    print(f"\n== {text}", flush=True)


def fail(text):
    sys.exit(f"demo: {text}")


def build_calltap():
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        run_quietly(["meson", "setup", BUILD, ROOT])
    run_quietly(["ninja", "-C", BUILD])


def fetch_sources():
    for package in ("sqlite3", "leveldb", "lua5.4", "redis"):
        sources.fetch(package)


def build_programs(fetched):
    """SQLite is one large file, so the others are built beside it.  Redis is quickest to build without optimizing."""
    try:
        fetched.result()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            sqlite = pool.submit(sources.build, "sqlite")
            others = [sources.build("leveldb", "typed"), sources.build("lua", "typed"), sources.build("redis", "typed", "-O0")]
            return sqlite.result(), *others
    except sources.SourceError as error:
        fail(str(error))
        return None


def run_quietly(command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode:
        fail(f"{shlex.join(command)} failed:\n{done.stdout[-3000:]}")


def capture(command, folder):
    started = time.monotonic()
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout, time.monotonic() - started


def shown(command):
    """The command as the reader may type it in the project's folder."""
    return shlex.join([os.path.relpath(part, ROOT) if part.startswith(ROOT) else part for part in command])


def record(name, program, arguments, steady, *options):
    """Run plain and traced; `steady` keeps the lines of the output that do not hold times.  Returns the trace's path."""
    trace = os.path.join(OUTPUT, name + ".calltap")
    with tempfile.TemporaryDirectory() as folder:
        status, plain, plain_seconds = capture([program, *arguments], folder)
        command = [TOOL, "record", "-o", trace, *options, "--", program, *arguments]
        print(f"$ {shown(command)}", flush=True)
        traced_status, traced, traced_seconds = capture(command, folder)
    if traced_status != status:
        fail(f"{name} ended with status {traced_status} under trace, {status} without")
    if steady(traced) != steady(plain):
        fail(f"{name} printed something else under trace")
    print(f"The program printed the same {len(steady(plain))} lines and ended with the same status ({status}) as without "
          f"trace; {plain_seconds:.2f} s plain, {traced_seconds:.2f} s recorded with every call in the file.", flush=True)
    return trace


def view(trace, *arguments):
    """The first lines of one of the views."""
    command = [TOOL, arguments[0], "-i", trace, *arguments[1:]]
    print(f"\n$ {shown(command)} | head -{LINES}", flush=True)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as reader:
        for number, line in enumerate(reader.stdout):
            if number == LINES:
                reader.terminate()
                print("...")
                break
            print(line, end="")
    sys.stdout.flush()
    if reader.returncode not in (0, -15, -13):
        fail(f"{shown(command)} failed")


def attach(name, program, arguments):
    """Into a program that runs already, and out again; then its functions as a table.  It must end as if nothing was."""
    trace = os.path.join(OUTPUT, name + ".calltap")
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen([program, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as target:
            time.sleep(0.5)
            pid = str(target.pid)
            visit([TOOL, "attach", "-v", "--duration", "1s", "-o", trace, pid])
            view(trace, "report")
            print()
            visit([TOOL, "top", "--batch", "1", pid])
            if target.poll() is not None:
                fail(f"{name} has ended with status {target.returncode} while it was traced")
            target.terminate()
            status = target.wait()
    if status != -signal.SIGTERM:
        fail(f"{name} ended with status {status} when it was told to end")
    print("The program ran on after each, without a trace of the tracer; the demo has ended it.", flush=True)


def visit(command):
    print(f"$ {shown(command)}", flush=True)
    if subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False).returncode:
        fail(f"{shown(command)} failed")


def perfetto(trace):
    output = trace.replace(".calltap", ".perfetto-trace")
    command = [TOOL, "export", "-i", trace, "--format", "perfetto", "-o", output]
    print(f"\n$ {shown(command)}", flush=True)
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        fail("the export failed")
    return output


def page(trace):
    output = trace.replace(".calltap", ".html")
    command = [TOOL, "html", "-i", trace, "-o", output]
    print(f"\n$ {shown(command)}", flush=True)
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        fail("the page could not be made")
    return output


def served(command, port):
    """Start a Redis server, be its client, and end it: its answers."""
    requests = [("SET", "user:1", "Ada"), ("GET", "user:1"), ("INCR", "visits"), ("GET", "nobody"), ("LPUSH", "jobs", "a"), ("SHUTDOWN", "NOSAVE")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:
        client = connected(port, server)
        answers = b""
        for request in requests:
            client.sendall(f"*{len(request)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in request))
            answers += client.recv(4096)
        client.close()
    return server.returncode, answers


def connected(port, server):
    for _ in range(300):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            if server.poll() is not None:
                fail(f"the Redis server has ended with status {server.returncode}")
            time.sleep(0.1)
    fail("the Redis server does not answer")
    return None


def redis(name, program, *values):
    """A server, with values that are some steps away from its functions' arguments."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    trace = os.path.join(OUTPUT, name + ".calltap")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--loglevel", "warning"]
    chosen = [word for value in values for word in ("-l", value.split(":")[0], "-A", value)]
    recording = [TOOL, "record", "-o", trace, *chosen, "--", *command]
    plain = served(command, port)
    print(f"$ {shown(recording)}", flush=True)
    if served(recording, port) != plain or plain[0]:
        fail("the Redis server has answered something else under trace")
    print(f"The client got the same {len(plain[1])} bytes of answers as without trace.", flush=True)
    view(trace, "replay")
    view(trace, "report", "--by", "processCommand(command)")


def untimed(text):
    """speedtest1's lines without the seconds at their end."""
    return [line.rsplit(None, 1)[0] for line in text.splitlines() if line.strip()]


def main():
    os.makedirs(OUTPUT, exist_ok=True)
    say("Building Calltap")
    fetched = concurrent.futures.ThreadPoolExecutor(1).submit(fetch_sources)
    build_calltap()
    say("The system's own bash, stripped and as it is: its functions, and its calls into libraries")
    trace = record("bash", "/bin/bash", ["-c", SCRIPT], str.splitlines)
    view(trace, "replay")
    view(trace, "report", "--sort", "self")
    say("The same bash once more, with every function of every library: libc and the loader, too")
    record("everything", "/bin/bash", ["-c", SCRIPT], str.splitlines, "-l", "*:*")
    say("What the calls of stock programs were given, and what they gave")
    trace = record("values", "/bin/ls", ["-R", "/etc/apt", "/usr/share/bash-completion"], str.splitlines, "-a", "-l", "opendir", "-l", "readdir",
                   "-l", "malloc", "-l", "setlocale")
    view(trace, "replay", "-f", "[os]*")
    view(trace, "report", "--by", "malloc(size)", "--limit", "5")
    say("A bash that runs already")
    attach("attached-bash", "/bin/bash", ["-c", "while :; do :; done"])

    say("Building SQLite, LevelDB, Lua and Redis from Debian's source, with room for tracing at each function's entry (half a minute)")
    sqlite, leveldb, lua, server = build_programs(fetched)

    say("SQLite's speedtest1: C, built with gcc -fpatchable-function-entry=5")
    trace = record("sqlite", sqlite, ["--size", "1", ":memory:"], untimed)
    view(trace, "info")
    view(trace, "replay")
    view(trace, "report")
    view(trace, "graph")
    exported, pages = [perfetto(trace)], [page(trace)]

    say("Which SQL takes how long: calls by their argument's text")
    functions = ("sqlite3_exec", "sqlite3_prepare_v2")
    trace = record("sql", sqlite, ["--size", "1", ":memory:"], untimed,
                   *(word for name in functions for word in ("-l", name, "-A", f"{name}:sql=arg2:string")))
    view(trace, "replay")
    view(trace, "report", "--by", "sqlite3_exec(sql)", "--limit", "10")

    say("LevelDB with four threads: C++, built with g++ -pg -mfentry -g")
    trace = record("leveldb", leveldb, ["database", "4", "1000"], str.splitlines)
    view(trace, "report", "--by", "thread")
    view(trace, "report")
    exported.append(perfetto(trace))
    pages.append(page(trace))

    say("Which keys LevelDB was asked for, and which of these calls found nothing")
    trace = record("keys", leveldb, ["database", "4", "1000"], str.splitlines, "-a", "-l", "leveldb::DBImpl::Get",
                   "--if", "leveldb::DBImpl::Get: ret.state_ != 0")
    view(trace, "replay", "-f", "leveldb::DBImpl::Get")
    view(trace, "report", "--by", "leveldb::DBImpl::Get(key)", "--limit", "5")

    say("Lua: the chunks that it loads, by their names, and which of them did not compile")
    trace = record("lua", lua, ["-e", "for _, text in ipairs{'return 1', 'retrun 2', 'return 3'} do print(load(text, '=' .. text)) end"],
                   lambda text: [line.split(":")[0] for line in text.splitlines()], "-l", "lua_load", "-l", "luaL_loadbufferx", "-a")
    view(trace, "replay", "-f", "lua*_load*")

    say("Redis: which commands a client sends, as the server has them in its structures, and what it looks up")
    redis("redis", server, "processCommand: command=c->argv[0]->ptr:string key=c->argv[1]->ptr:string", "lookupKey: key=key->ptr:string")

    say("SQLite's speedtest1 again, as a program that runs already: attached to for a second, then watched")
    attach("attached", sqlite, ["--size", "1000", ":memory:"])

    say("Done. To look at the traces, open these pages in a browser: time line, flame graph and table")
    for path in pages:
        print(f"    {os.path.relpath(path, ROOT)}  ({os.path.getsize(path) / 1e6:.1f} MB)")
    print("or open https://ui.perfetto.dev and choose 'Open trace file':")
    for path in exported:
        print(f"    {os.path.relpath(path, ROOT)}  ({os.path.getsize(path) / 1e6:.1f} MB)")
    print("Record any program:")
    print(f"    {os.path.relpath(TOOL, ROOT)} record -- ls -R /usr/share")
    return 0


if __name__ == "__main__":
    sys.exit(main())

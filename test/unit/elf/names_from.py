#!/usr/bin/env python3
"""Where the names of a stripped program come from: debug link, packed symbols, debuginfod's cache and server; and that no
file is taken which is another program's.

Usage: names_from.py CALLTAP
"""
import contextlib
import ctypes
import http.server
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import threading

# `savectx` must not be traced, which its name alone tells; enough code that the analysis is kept.
PROGRAM = """
#include <stdio.h>
__attribute__((noinline)) static int hidden(int n) { return n * 3 + getchar(); }
__attribute__((noinline)) static int savectx(int n) { return hidden(n) + getchar(); }
__attribute__((noinline)) int shown(int n) { return savectx(n) - hidden(n + 1); }
__asm__(".text\\n.globl filler\\nfiller: .fill 200000, 1, 0x90\\nret\\n");
int main(int argc, char **argv) { return shown(argc) & 1; }
"""


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more)


class Case:
    """A program in a folder of its own, what is known of it, and the runs of the tool."""

    def __init__(self, tool, folder):
        self.tool, self.folder, self.failed = os.path.abspath(tool), folder, 0
        self.program, self.full = self.at("program"), self.at("full")
        self.build(self.full, "-Wl,--build-id")
        self.id = self.build_id(self.full)

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def build(self, path, *flags, text=PROGRAM):
        run("gcc", "-g", "-O1", "-rdynamic", *flags, "-o", path, "-x", "c", "-", input=text)

    @staticmethod
    def build_id(path):
        return run("readelf", "-n", path).stdout.split("Build ID: ")[1].split()[0]

    def strip(self, source=None):
        for name in os.listdir(self.folder):
            if name not in ("full", "cache"):
                path = self.at(name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        run("strip", "-o", self.program, source or self.full)

    def listed(self, *options, env=None, fails=False):
        """{name: item} of what the tool lists."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DEBUGINFOD")}
        environment.update({"XDG_CACHE_HOME": self.at("cache"), "HOME": self.folder}, **(env or {}))
        done = subprocess.run([self.tool, "functions", "--json", *options, self.program], env=environment, check=False,
                              capture_output=True, text=True)
        if fails:
            return done
        if done.returncode:
            raise RuntimeError(f"exit status {done.returncode}: {done.stderr}")
        return {item["name"]: item for item in json.loads(done.stdout)["functions"]}

    def expect(self, what, names, wanted):
        """wanted: the private functions have names; public ones have some always, and `savectx` has its verdict."""
        nameless = [name for name in names if name.startswith("program+0x")]
        good = "shown" in names and "main" in names and ("hidden" in names) == wanted and ("savectx" in names) == wanted
        good &= bool(nameless) != wanted or what.startswith("packed")
        good &= not wanted or (names["hidden"]["traceable"] and not names["savectx"]["traceable"])
        print("ok  " if good else "FAIL", what)
        if not good:
            print("    ", sorted(names))
        self.failed += not good

    def expect_text(self, what, text, wanted):
        good = wanted in text
        print("ok  " if good else "FAIL", what)
        if not good:
            print("    ", text)
        self.failed += not good


def debug_links(case):
    for folder in (".", ".debug"):
        case.strip()
        os.makedirs(case.at(folder), exist_ok=True)
        debug = case.at(folder, "program.debug")
        run("objcopy", "--only-keep-debug", case.full, debug)
        run("objcopy", "--add-gnu-debuglink=" + debug, case.program)
        case.expect(f"debug link in {folder}", case.listed(), True)
        kept = debug + ".away"
        os.rename(debug, kept)
        case.expect("the debug file is gone", case.listed(), False)
        os.rename(kept, debug)
        case.expect("the debug file is back", case.listed(), True)
    # A file of another build: its addresses are others, whatever the sum says.
    case.build(case.at("other"), "-Wl,--build-id", text=PROGRAM + "int more(int n) { return n; }\n")
    run("objcopy", "--only-keep-debug", case.at("other"), debug)
    run("objcopy", "--remove-section=.gnu_debuglink", "--add-gnu-debuglink=" + debug, case.program)
    case.expect("the debug file is another's by its build id", case.listed(), False)


def own_name(case):
    """The debug link is the program's own name: the program itself is no debug file."""
    case.strip()
    os.mkdir(case.at(".debug"))
    run("objcopy", "--only-keep-debug", case.full, case.at(".debug", "program"))
    run("objcopy", "--add-gnu-debuglink=" + case.at(".debug", "program"), case.program)
    case.expect("debug link of the program's own name", case.listed(), True)


def sums(case):
    """Without a build id the sum decides."""
    plain, debug = case.at("plain"), case.at("program.debug")
    for change in (False, True):
        case.strip()
        case.build(plain, "-Wl,--build-id=none")
        run("strip", "-o", case.program, plain)
        run("objcopy", "--only-keep-debug", plain, debug)
        run("objcopy", "--add-gnu-debuglink=" + debug, case.program)
        if change:
            with open(debug, "ab") as file:
                file.write(b"\0")
        case.expect("the sum is " + ("wrong" if change else "right"), case.listed(), not change)


def packed(case):
    for damage in ("", "truncated", "flipped", "empty"):
        case.strip()
        run("objcopy", "-S", "--remove-section=.comment", "--keep-symbol=hidden", "--keep-symbol=savectx", case.full,
            case.at("mini"))
        with open(case.at("mini"), "rb") as file:
            mini = file.read()
        data = lzma.compress(mini)
        data = {"": data, "truncated": data[:-40], "flipped": data[:200] + bytes([data[200] ^ 1]) + data[201:],
                "empty": b""}[damage]
        with open(case.at("mini.xz"), "wb") as file:
            file.write(data)
        run("objcopy", "--add-section", ".gnu_debugdata=" + case.at("mini.xz"), case.program)
        case.expect("packed symbols " + damage, case.listed(), not damage)
    # What would take all memory is left alone, whatever it begins with: zeros pack well.
    case.strip()
    packer = lzma.LZMACompressor(preset=0)
    with open(case.at("mini.xz"), "wb") as file:
        file.write(packer.compress(mini))
        for _ in range(20):
            file.write(packer.compress(bytes(16 << 20)))
        file.write(packer.flush())
    run("objcopy", "--add-section", ".gnu_debugdata=" + case.at("mini.xz"), case.program)
    case.expect("packed symbols and much more", case.listed(), False)


def cached(case):
    """What debuginfod has fetched before: only if the user has named servers, and only if it is this program's."""
    folder = case.at("fetched", case.id)
    env = {"DEBUGINFOD_CACHE_PATH": case.at("fetched"), "DEBUGINFOD_URLS": "http://127.0.0.1:9"}
    case.strip()
    os.makedirs(folder)
    case.expect("nothing was fetched", case.listed(env=env), False)
    run("objcopy", "--only-keep-debug", case.full, os.path.join(folder, "debuginfo"))
    case.expect("fetched before", case.listed(env=env), True)
    case.expect("fetched before, but no server is named",
                case.listed(env={"DEBUGINFOD_CACHE_PATH": case.at("fetched")}), False)
    case.build(case.at("other"), "-Wl,--build-id", text=PROGRAM + "int more(int n) { return n; }\n")
    shutil.copy(case.at("other"), os.path.join(folder, "debuginfo"))
    case.expect("another's file was fetched", case.listed(env=env), False)
    with open(os.path.join(folder, "debuginfo"), "wb"):
        pass
    case.expect("a file without bytes was fetched", case.listed(env=env), False)


@contextlib.contextmanager
def server(files):
    """A debuginfod of its own: {path: bytes}."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802  (the base class's name)
            data = files.get(self.path)
            self.send_response(200 if data else 404)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()


def fetching(case):
    case.strip()
    env = {"DEBUGINFOD_CACHE_PATH": case.at("fetched")}
    done = case.listed("--debuginfod", env=env, fails=True)
    case.expect_text("no server is named", f"{done.returncode} {done.stderr}", "1 calltap: DEBUGINFOD_URLS names no server")
    try:
        ctypes.CDLL("libdebuginfod.so.1")
    except OSError:
        done = case.listed("--debuginfod", env={**env, "DEBUGINFOD_URLS": "http://127.0.0.1:9"}, fails=True)
        case.expect_text("the library is missing", done.stderr, "libdebuginfod.so.1 cannot be loaded")
        return
    with open(case.full, "rb") as file:
        files = {f"/buildid/{case.id}/debuginfo": file.read()}
    with server({}) as url:
        case.expect("the server has no such file", case.listed("--debuginfod", env={**env, "DEBUGINFOD_URLS": url}), False)
    shutil.rmtree(case.at("fetched"))
    with server(files) as url:
        case.expect("not fetched unless asked for", case.listed(env={**env, "DEBUGINFOD_URLS": url}), False)
        case.expect("fetched", case.listed("--debuginfod", env={**env, "DEBUGINFOD_URLS": url}), True)
    case.expect("fetched, and the server is gone", case.listed(env={**env, "DEBUGINFOD_URLS": url}), True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        case = Case(sys.argv[1], folder)
        case.strip()
        case.expect("stripped", case.listed(), False)
        debug_links(case)
        own_name(case)
        sums(case)
        packed(case)
        cached(case)
        fetching(case)
    return bool(case.failed)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Attaches to a stock redis-server under load, with all functions of all its libraries, and leaves it, over and over.

    servers.py [--rounds N] [--seed S] [--keep] [--build DIR] [--work DIR]

The server has four threads for its clients. redis-benchmark keeps it busy, and a thousand times a second it gets SIGALRM,
whose handler (redis' watchdog) walks the stack and logs it. Between two rounds a client of the script's own checks what the
server has counted and kept. After each detach the text must be the files', and the agent have no thread; at the end the
server must have ended as it does untraced. With --keep a server that failed lives on, to be looked at. By hand: the package
redis-server is needed.
"""
import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
import live  # pylint: disable=wrong-import-position  # it lies in another folder
from harness import Failure, expect  # pylint: disable=wrong-import-position

PATIENCE = 240  # seconds
SIGNALS_S = 0.001  # between two signals
WATCHDOG_MS = 600000  # never late, so that only the script's signals come
CHOICES = (("-l", "*:*"), ("-l", "*:*"), ("-l", "*:*", "-p", "function"), (), ("-l", "libc.so*:*"))
MODES = ("overwrite", "drop", "block")


class Client:
    """A connection by redis' own protocol."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self.answer()

    def answer(self):
        line = self.file.readline().rstrip(b"\r\n")
        if line[:1] == b"$":
            return self.file.read(int(line[1:]) + 2)[:-2] if line != b"$-1" else None
        expect(line[:1] in (b":", b"+"), f"the server answered {line!r}")
        return int(line[1:]) if line[:1] == b":" else line[1:].decode()


class Server:
    """A redis-server, the load on it, and the signals."""

    def __init__(self, folder):
        self.path, self.log = os.path.join(folder, "socket"), os.path.join(folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", self.path, "--io-threads", "4", "--io-threads-do-reads", "yes",
                 "--save", "", "--daemonize", "no", "--logfile", "/dev/null"], cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True)
        self.pid, self.load = self.process.pid, None
        end = time.monotonic() + PATIENCE
        while not os.path.exists(self.path):
            expect(time.monotonic() < end and self.process.poll() is None, "the server does not start")
            time.sleep(0.02)
        self.client, self.counted, self.ended = Client(self.path), 0, threading.Event()
        self.client.ask("CONFIG", "SET", "watchdog-period", WATCHDOG_MS)
        self.load = subprocess.Popen(["redis-benchmark", "-s", self.path, "-c", "20", "-P", "4", "-q", "-l", "-t",
                                      "set,get,incr,lpush,lrange_100,hset", "-r", "1000"], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.signals = threading.Thread(target=self.signal)
        self.signals.start()

    def signal(self):
        while not self.ended.wait(SIGNALS_S) and self.process.poll() is None:
            os.kill(self.pid, signal.SIGALRM)

    def well(self, number):
        """It answers, and right."""
        expect(self.process.poll() is None, f"the server ended with {self.process.poll()}")
        expect(self.load.poll() is None, f"the load ended with {self.load.poll()}")
        for _ in range(20):
            self.counted += 1
            expect((got := self.client.ask("INCR", "counted")) == self.counted, f"{got} is counted, not {self.counted}")
        value = f"{number} " * 100
        self.client.ask("SET", "kept", value)
        expect((got := self.client.ask("GET", "kept")) == value.encode(), f"{got!r} was kept")
        expect((got := self.client.ask("EVAL", "local n = 0 for i = 1, 100 do n = n + i end return n", 0)) == 5050,
               f"a script returned {got}")

    def same_text(self):
        """The text is the files' at once, and the agent's thread ends."""
        different = live.differing(self.pid)
        expect(not different, f"text differs: {list(different.items())[:20]}")
        end = time.monotonic() + 10
        while b"calltap\n" in self.names():
            expect(time.monotonic() < end, "the agent's thread stays")
            time.sleep(0.01)

    def names(self):
        found = []
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{thread}/comm", "rb") as file:
                    found.append(file.read())
            except OSError:
                pass
        return found

    def quiet(self):
        """No more signals, no more load."""
        self.ended.set()
        self.signals.join()
        if self.load.poll() is None:
            os.killpg(self.load.pid, signal.SIGKILL)
        self.load.wait()

    def end(self):
        self.quiet()
        os.kill(self.pid, signal.SIGTERM)
        expect((status := self.process.wait(PATIENCE)) == 0, f"the server ended with {status}")

    def stop(self):
        self.quiet()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def attach(arguments, chance, server, folder):
    """One session; by its duration or by `calltap detach` it lets go of the server."""
    ms, by_hand = int(chance.uniform(1, 80)), chance.random() < 0.3
    command = [arguments.tool, "attach", "-v", "--mode", chance.choice(MODES), "-b", chance.choice(("64K", "1M")), "-o",
               os.path.join(folder, "trace"), *chance.choice(CHOICES), *(() if by_hand else ("--duration", f"{ms}ms")),
               str(server.pid)]
    said = os.path.join(folder, "said")
    with open(said, "wb") as file:
        tool = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=folder,
                                start_new_session=True)
        try:
            while by_hand and tool.poll() is None:
                time.sleep(ms / 1000)
                subprocess.run([arguments.tool, "detach", str(server.pid)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False)
            status = tool.wait(PATIENCE)
        finally:
            if tool.poll() is None:
                tool.kill()
                tool.wait()
    with open(said, encoding="utf-8", errors="replace") as file:
        text = file.read()
    early = by_hand and ("nothing was recorded" in text or "was not recorded" in text)
    expect(status == 0 or early, f"{' '.join(command[1:])}: {status}, {text[-800:]!r}")
    return " ".join(command[1:])


def main():
    parser = argparse.ArgumentParser(description="Attach to a busy redis-server and leave it.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="let a server live that failed")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    parser.add_argument("--work", help="folder for what the run needs and leaves (default: in the build directory)")
    arguments = parser.parse_args()
    arguments.tool = os.path.join(os.path.abspath(arguments.build), "src", "cmd", "calltap")
    folder = os.path.join(os.path.abspath(arguments.work or arguments.build), f"servers-{os.getpid()}")
    os.makedirs(folder)
    chance, server, number, what, problem = random.Random(arguments.seed), Server(folder), 0, "", None
    try:
        for number in range(arguments.rounds):
            what = attach(arguments, chance, server, folder)
            server.same_text()
            server.well(number)
        server.end()
    except (Failure, OSError, subprocess.TimeoutExpired) as error:
        problem = f"servers, seed {arguments.seed}, round {number} (before: {what}): {error}; kept in {folder}"
    finally:
        if problem and arguments.keep:
            server.quiet()
        else:
            server.stop()
    if problem:
        print(f"FAILED {problem}")
        return 1
    shutil.rmtree(folder)
    print(f"servers: the server survived {arguments.rounds} rounds, seed {arguments.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

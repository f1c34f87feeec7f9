#!/usr/bin/env python3
"""The cases that attach, steer, kill and let go, on a machine that is busy: load.py [--build DIR] [ROUNDS [CASE...]]

Three copies run side by side, each in a folder of its own, beside a busy loop per CPU and a process that sends signals
without an effect of their own to the tools and programs.  A CASE is a glob; without one it is those of CASES.  Each
failure is printed with its round and copy; the last line is "N passed, N failed".  `./check --load` runs this."""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CASES = ["attach-*", "steer-*", "instances-*", "watch-*", "flight-*", "live-*", "idle-attached*", "serve-*", "musl-attach*",
         "musl-instances-*", "musl-steer-*", "trigger-*-attach", "handlers-beside-*", "handlers-recorded-*", "handlers-tool-*"]
COPIES = 3
SIGNALS = (signal.SIGURG, signal.SIGWINCH)  # ignored where nobody asks for them; SIGCONT would wake what a case has stopped
EVERY_S = 0.01
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"  # until this script is gone, however it ends


def descendants(pids):
    """The processes below some."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                children.setdefault(int(stat.read().rpartition(")")[2].split()[1]), []).append(int(name))
        except OSError:
            continue
    found, left = [], list(pids)
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def send_signals(pids, stop):
    while not stop.is_set():
        below = descendants(pids)
        for pid in random.sample(below, min(len(below), 8)):
            try:
                os.kill(pid, random.choice(SIGNALS))
            except OSError:
                pass
        stop.wait(EVERY_S)


def play(options, folder, number):
    """[result of a case] of one round: all copies at once."""
    copies, stop = [], threading.Event()
    for copy in range(COPIES):
        work, summary = os.path.join(folder, str(copy)), os.path.join(folder, f"{copy}.json")
        command = [sys.executable, os.path.join(HERE, "run.py"), "--build", options.build, "--work", work, "--summary", summary,
                   "--jobs", "1", *options.cases]
        copies.append((summary, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)))
    sender = threading.Thread(target=send_signals, args=([process.pid for _, process in copies], stop))
    sender.start()
    results = []
    for copy, (summary, process) in enumerate(copies):
        status = process.wait()
        found = [{"name": "run.py", "status": "fail", "text": f"exit status {status}, and no results"}]
        if os.path.exists(summary):
            with open(summary, encoding="utf-8") as file:
                found = json.load(file)
            os.unlink(summary)
        for result in found:
            if result["status"] == "fail":
                print(f"FAILED {result['name']}, round {number}, copy {copy}: {result['text']}", flush=True)
        results += found
    stop.set()
    sender.join()
    return results


def main():
    parser = argparse.ArgumentParser(description="Run the end-to-end cases that a busy machine may upset.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory (default: build)")
    parser.add_argument("rounds", nargs="?", type=int, default=20)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    options.cases = options.cases or CASES
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 2)]
    passed = failed = 0
    try:
        with tempfile.TemporaryDirectory(dir=options.build, prefix="load.") as folder:
            for number in range(1, options.rounds + 1):
                began = time.monotonic()
                results = play(options, folder, number)
                passed += sum(result["status"] == "pass" for result in results)
                failed += sum(result["status"] == "fail" for result in results)
                print(f"round {number}: {passed} passed, {failed} failed so far ({time.monotonic() - began:.0f} s)", flush=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs a fuzzer under libFuzzer, built with clang and its sanitizers in a directory of its own.

    scripts/fuzz.py                         the names of the fuzzers
    scripts/fuzz.py NAME|all [SECONDS]      run for so long (60), from the corpus in test/fuzz/corpus/NAME

What it finds on the way is kept in BUILD/corpus-NAME; a crash is left in BUILD/NAME-crash-... and ends the run with
status 1.  A crash that was understood goes to test/fuzz/corpus/NAME as crash-WHAT-IT-WAS and is run by every ./check.
Needs clang and its runtime (Debian: clang, libclang-rt-14-dev)."""
import argparse
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.path.join(ROOT, "test", "fuzz", "corpus")
OPTIONS = ["-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dwerror=false",
           "-Dbuildtype=debugoptimized", "-Dc_args=-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined"]
MEMORY_MB = 2048
RUN_S = 25  # one input that takes as long is a finding


def names():
    return sorted(os.listdir(CORPUS))


def build(folder, name):
    """Path of the fuzzer."""
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        subprocess.run(["meson", "setup", folder, ROOT, *OPTIONS], check=True, env={**os.environ, "CC": "clang"},
                       stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, f"test/fuzz/fuzz-{name}"], check=True)
    return os.path.join(folder, "test", "fuzz", f"fuzz-{name}")


def fuzz(folder, name, seconds):
    """Exit status of libFuzzer, which prints its own figures."""
    program = build(folder, name)
    found = os.path.join(folder, f"corpus-{name}")
    os.makedirs(found, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", f"-timeout={RUN_S}", "-max_len=16384",
               "-print_final_stats=1", f"-artifact_prefix={folder}/{name}-", found, os.path.join(CORPUS, name)]
    return subprocess.run(command, cwd=folder, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description="Run a fuzzer with libFuzzer.")
    parser.add_argument("name", nargs="?", choices=[*names(), "all"])
    parser.add_argument("seconds", nargs="?", type=int, default=60)
    parser.add_argument("--build", default=os.path.join(ROOT, "build-fuzz"), help="build directory (default: build-fuzz)")
    options = parser.parse_args()
    if not options.name:
        print("\n".join(names()))
        return 0
    folder = os.path.abspath(options.build)
    failed = [name for name in (names() if options.name == "all" else [options.name])
              if fuzz(folder, name, options.seconds)]
    for name in failed:
        print(f"fuzz-{name} found something: see {folder}/{name}-*")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

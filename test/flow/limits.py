"""A low limit of open files: said, with the remedy, before anything is run or touched."""
import os
import resource
import subprocess

REMEDY = "raise the limit of open files: ulimit -n 256"
LOADED = 4  # the loader opens libraries one after the other, and fails with less: that is not the tool's to tell


def limited(bench, limit, *arguments):
    return subprocess.run([bench.calltap, *arguments], cwd=bench.folder, env=bench.environment, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))


def check_tracing_under_a_low_limit_of_files_names_the_remedy(bench):
    if bench.emulated:
        return  # the emulator has descriptors of its own
    witness = os.path.join(bench.folder, "was-run")
    for verb in (["record", "--", "touch", witness], ["live", "--", "touch", witness], ["top", "--", "touch", witness],
                 ["attach", str(os.getpid())], ["live", str(os.getpid())], ["top", str(os.getpid())]):
        for limit in (LOADED, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 24, 26):
            done = limited(bench, limit, *verb)
            said = done.stderr.decode()
            assert done.returncode == 1, f"{verb} with {limit} files: {done.returncode}, {said}"
            assert said.count("\n") == 1 and said.endswith(REMEDY + "\n"), f"{verb} with {limit} files: {said}"
            assert not os.path.exists(witness), f"{verb} with {limit} files has run the command"


def check_reading_under_a_low_limit_of_files_works_or_names_the_remedy(bench):
    if bench.emulated:
        return
    for verb in (["replay"], ["report"], ["graph"], ["info"], ["export", "--format", "json", "-o", "limited.json"]):
        for limit in (LOADED, 5, 6, 8, 16):
            done = limited(bench, limit, *verb, "-i", "graph")
            said = done.stderr.decode()
            assert done.returncode == 0 or said.endswith(REMEDY + "\n"), f"{verb} with {limit} files: {said}"

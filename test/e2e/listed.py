"""`calltap functions`: what it lists of a file and of a process that runs."""
import json
import os
import shutil
import subprocess
import time

from harness import Process, Skip, copied, expect, stop

LIBRARY = "libc.so.6:mem*"


def functions(case, *arguments, status=0):
    done = case.run([case.tool, "functions", "--json", *arguments])
    expect(done.status == status, f"functions {arguments}: status {done.status}, {done.stderr[-300:]!r}")
    return json.loads(done.stdout) if not status else done.stderr


def files(case, *arguments):
    """Functions by object, names and addresses."""
    found = {}
    for function in functions(case, *arguments)["functions"]:
        found.setdefault(os.path.realpath(function["object"]), set()).add((function["name"], function["address"]))
    return found


def has_started(running, name):
    """True once the process executes the file: until then it is a copy of this one."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if os.path.basename(os.readlink(f"/proc/{running.pid}/exe")).startswith(name):
            with open(f"/proc/{running.pid}/wchan", encoding="ascii") as file:
                if "nanosleep" in file.read():
                    return True
        time.sleep(0.01)
    return False


def of_process(case):
    """Of a process its program and the libraries that it has mapped are listed, though the program's file has been
    replaced since; a number that is no process is told."""
    case.need_native("programs as distributed")
    program, other = os.path.join(case.folder, "sleeper"), os.path.join(case.folder, "other")
    copied("/bin/sleep", program)
    copied("/bin/true", other)
    wanted, wanted_library = files(case, program), files(case, program, LIBRARY)
    running = Process([program, "100"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        expect(has_started(running, "sleeper"), "sleep does not sleep")
        expect(files(case, str(running.pid)) == wanted, "a running program has other functions than its file")
        expect(files(case, str(running.pid), LIBRARY) == wanted_library, "its library has others")
        os.rename(other, program)
        found = files(case, str(running.pid))
        expect(list(found.values()) == list(wanted.values()), "the file that took its place was read")
    finally:
        stop(running)
    said = functions(case, str(running.pid), status=1)
    expect(f"there is no process {running.pid}" in said, f"of a process that has ended it says {said!r}")


# Loads a library that is then deleted.
LOADS = "import ctypes, os, sys, time; ctypes.CDLL(sys.argv[1]); os.unlink(sys.argv[1]); print('ready', flush=True); time.sleep(100)"


def of_libraries(case):
    """A library that a process has loaded later, and that was deleted since, is read as the process has it, which is told;
    where only root may read that, it is told that nothing of it is listed.  Libraries that no filter names are counted."""
    case.need_native("programs as distributed")
    folder = os.path.join(case.folder, "shared")
    os.mkdir(folder, 0o777)
    os.chmod(folder, 0o777)
    library, where = os.path.join(folder, "libplugin.so.1"), os.path.realpath("/lib/x86_64-linux-gnu/libm.so.6")
    if not os.path.exists(where):
        raise Skip("libm is elsewhere here")
    for drop in ([], ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]):
        shutil.copy(where, library)
        os.chmod(library, 0o644)
        if drop and (os.geteuid() or case.run([*drop, case.tool, "--version"]).status):
            raise Skip("another user cannot run the tool here")
        with subprocess.Popen([*drop, "/usr/bin/python3", "-I", "-c", LOADS, library], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, start_new_session=True) as running:
            try:
                if running.stdout.readline() != "ready\n":
                    raise Skip("python3 cannot load it")
                listed = [*drop, case.tool, "functions", "--no-pager"]
                text = case.run([*listed, str(running.pid), "libplugin*:*"])
                data = case.run([*listed, "--json", str(running.pid), "libplugin*:*"])
                plain = case.run([*listed, str(running.pid)])
            finally:
                running.kill()
        expect("libraries are mapped as well" in plain.stdout and "libplugin" not in plain.stdout, plain.stdout[-400:])
        if drop:
            expect(text.status == 1 and "libplugin*:* matches no function" in text.stderr.replace('"', ""), f"{text}")
            expect(f"{library} was deleted or replaced, and only root may read" in text.stderr, f"it says {text.stderr!r}")
            continue
        expect(f"{library} was deleted or replaced; this is" in text.stdout, f"it says {text.stdout[-400:]!r}")
        expect(json.loads(data.stdout)["replaced"] == [library], f"{data.stdout[-400:]!r}")
        found = {function["name"] for function in json.loads(data.stdout)["functions"] if function["object"] == library}
        expect({"cbrt", "lgamma"} <= found, f"of the deleted library: {sorted(found)[:9]}")


def of_named_library(case):
    """A filter without an object is for the functions of the file that was named, also of one that programs share."""
    if not case.cpu.native:
        raise Skip("the system's own library")
    with open("/proc/self/maps", encoding="ascii") as maps:
        libc = next(line.split()[-1] for line in maps if line.rstrip().endswith("/libc.so.6"))
    wanted = {(name, address) for name, address in files(case, libc)[os.path.realpath(libc)] if name.startswith("open")}
    expect(len(wanted) > 3, f"{wanted} of all functions begin with open")
    found = files(case, libc, "open*")
    expect(set(found) == {os.path.realpath(libc)} and found[os.path.realpath(libc)] >= wanted, f"{found}, not {wanted}")


VERSIONED = """
__attribute__((noinline)) int work(int number)
{
	volatile int sum = number;

	while (number--)
		sum += number;
	return sum;
}
int aged(int number) __attribute__((alias("work")));
__asm__(".symver aged,aardvark@V1");
"""


def of_old_version(case):
    """Of the names of one function the one counts that programs are linked with now, with a symbol table and without."""
    path, script = os.path.join(case.folder, "libversioned.so"), os.path.join(case.folder, "versions")
    with open(path + ".c", "w", encoding="ascii") as file:
        file.write(VERSIONED)
    with open(script, "w", encoding="ascii") as file:
        file.write("V1 { global: aardvark; local: *; }; V2 { global: work; } V1;")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", path, path + ".c", f"-Wl,--version-script={script}"], check=True)
    for stripped in (False, True):
        if stripped:
            subprocess.run(["strip", path], check=True)
        names = {function["name"] for function in functions(case, path)["functions"]}
        expect("work" in names and not names & {"aardvark", "aged"}, f"stripped {stripped}: {names}")


SINGLE = {"functions-of-old-version": of_old_version, "functions-of-named-library": of_named_library, "functions-of-process": of_process, "functions-of-libraries": of_libraries}

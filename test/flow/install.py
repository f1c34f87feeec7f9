#!/usr/bin/env python3
"""`meson install`: all is where it belongs, a program is compiled and linked with what pkg-config says, and the library
finds the tool that was installed with it.

install.py BUILD: the build directory."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
# Of each kind one, by the end of its path.
X86_64 = ["calltap/libcalltap-agent-musl.so", "calltap/libcalltap-agent-static.so"]
WANTED = ("bin/calltap", "calltap/libcalltap-agent.so", *X86_64 * (os.uname().machine == "x86_64"),
          "libcalltap.so", "libcalltap.so.0", "include/calltap/calltap.h",
          "include/calltap/call.h", "include/calltap/diag.h", "pkgconfig/calltap.pc", "man1/calltap.1", "man1/calltap-load.1",
          "man3/calltap.3", "man3/calltap_ops_register.3", "man3/calltap_ops_unregister.3", "calltap.py", "completions/calltap.bash", "site-functions/_calltap",
          "vendor_completions.d/calltap.fish")


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
                          **more)
    return done.returncode, done.stdout


def installed(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]


def compile_with(pkg_config, folder, source, program):
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pkg_config), PKG_CONFIG_SYSROOT_DIR=folder)
    status, flags = run(["pkg-config", "--cflags", "--libs", "calltap"], env=environment)
    return (status, flags) if status else run(["cc", "-o", program, source, *flags.split()])


def find_tool(folder, library, program):
    """With no PATH to look along: the library knows by its own place."""
    status, output = run([program], env={"LD_LIBRARY_PATH": os.path.dirname(library), "PATH": ""})
    tool = os.path.realpath(next(path for path in installed(folder) if path.endswith("/bin/calltap")))
    return [] if output.strip() == tool and not status else [f"the tool is {output.strip()!r}, not {tool!r}"]


SOURCE = r"""
#include <calltap/calltap.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What the library would execute; this is asked of it in the place of a session. */
int execve(const char *path, char *const words[], char *const environment[])
{
	(void)words;
	(void)environment;
	_exit(dprintf(3, "-1 %s\n", path) < 0);
}

int main(void)
{
	struct calltap_session *session;
	struct calltap_diag diag;

	if (!calltap_session_open(&session, NULL, &diag))
		return 1;
	puts(diag.text);
	return 0;
}
"""


def main():
    build = sys.argv[1]
    if not shutil.which("meson") or not shutil.which("pkg-config"):
        print("meson or pkg-config is not installed")
        return SKIP
    with open(os.path.join(build, "meson-info", "intro-targets.json"), encoding="utf-8") as file:
        if not all(os.path.exists(name) for target in json.load(file) if target["installed"]
                   for name in target["filename"]):
            print("not everything is built")
            return SKIP
    with tempfile.TemporaryDirectory() as folder:
        status, output = run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"],
                             env=dict(os.environ, DESTDIR=os.path.join(folder, "root")))
        found = installed(folder)
        wrong = [f"{name} is not installed" for name in WANTED if not any(path.endswith("/" + name) for path in found)]
        wrong += [output] if status else []
        program, source = os.path.join(folder, "program"), os.path.join(folder, "program.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        if not wrong:
            pkg_config = next(path for path in found if path.endswith("calltap.pc"))
            status, output = compile_with(pkg_config, os.path.join(folder, "root"), source, program)
            wrong += [output] if status else find_tool(
                folder, next(path for path in found if path.endswith("libcalltap.so.0")), program)
    print("\n".join(wrong) or "all is in place")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What a build for another CPU needs besides the cross compiler: scripts/cross.py CPU prints the path of a Meson cross
file, for `meson setup build-CPU --cross-file "$(scripts/cross.py CPU)"`.

apt fetches and verifies that CPU's libraries from Debian's archive with lists of its own, so that neither root nor a
foreign architecture in the system's dpkg is needed.  They go to $CALLTAP_CACHE (default: build/cache) and are kept.
The tests of such a build run under qemu-CPU, on the libraries that it was linked with.

Exit status 77, with a sentence, where this machine cannot have them.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import debian

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.abspath(os.environ.get("CALLTAP_CACHE") or os.path.join(ROOT, "build", "cache"))
DEBIAN = {"aarch64": "arm64", "riscv64": "riscv64"}  # Debian's names of the CPUs
RELEASE = "trixie"  # the first that has both
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = "libc6-dev libelf-dev libdw-dev libzstd-dev liblzma-dev zlib1g-dev libiberty-dev libcmocka-dev libncurses-dev".split()

# Debian's cross compilers look into the cross libc package first, whatever the sysroot is: hence -isystem, -B and -L.
CROSS_FILE = """[constants]
sysroot = '{sysroot}'
triplet = '{cpu}-linux-gnu'
libraries = sysroot / 'usr/lib' / triplet
headers = sysroot / 'usr/include'

[binaries]
c = triplet + '-gcc'
ar = triplet + '-ar'
strip = triplet + '-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['{emulator}', '-L', sysroot]

[built-in options]
c_args = ['--sysroot=' + sysroot, '-isystem', headers / triplet, '-isystem', headers]
c_link_args = ['--sysroot=' + sysroot, '-B' + libraries, '-L' + libraries]

[properties]
sys_root = sysroot
pkg_config_libdir = [libraries / 'pkgconfig', sysroot / 'usr/share/pkgconfig']

[host_machine]
system = 'linux'
cpu_family = '{cpu}'
cpu = '{cpu}'
endian = 'little'
"""


class CrossError(Exception):
    """There can be no cross build here; the text says why."""


def run(what, command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    if done.returncode:
        raise CrossError(f"{what} failed: " + " ".join(done.stdout.split("\n")[-4:]))


def fetch(architecture, folder):
    """The packages and what they depend on, as files in `folder`."""
    archive = debian.archive()
    if not archive:
        raise CrossError("apt's sources name no archive of Debian's, which has the libraries for other CPUs")
    for name in ("lists/partial", "archives/partial"):
        os.makedirs(os.path.join(folder, name))
    for name, text in (("status", ""), ("sources.list", f"deb [signed-by={KEYS}] {archive} {RELEASE} main\n")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    options = [f"-oAPT::Architecture={architecture}", f"-oAPT::Architectures={architecture}", "-oAPT::Sandbox::User=",
               f"-oDir::Etc::SourceList={folder}/sources.list", "-oDir::Etc::SourceParts=/dev/null",
               f"-oDir::State::Lists={folder}/lists", f"-oDir::State::Status={folder}/status", f"-oDir::Cache={folder}",
               "-oDebug::NoLocking=1", "-oAcquire::Languages=none", "-oAPT::Update::Error-Mode=any"]
    run(f"fetching Debian's list of packages for {architecture}", ["apt-get", "-q", *options, "update"])
    run(f"fetching Debian's packages for {architecture}",
        ["apt-get", "-q", "-y", *options, "--no-install-recommends", "--download-only", "install", *PACKAGES])
    return glob.glob(os.path.join(folder, "archives", "*.deb"))


def unpack(packages, folder):
    """Their files; links that name a place by its full path are turned to lead there inside the folder."""
    os.makedirs(os.path.join(folder, "usr", "lib"))
    os.symlink("usr/lib", os.path.join(folder, "lib"))
    for package in packages:
        run("unpacking " + os.path.basename(package), ["dpkg-deb", "--extract", package, folder])
    for parent, dirs, names in os.walk(folder):
        for path in (os.path.join(parent, name) for name in dirs + names):
            if os.path.islink(path) and os.path.isabs(os.readlink(path)):
                target = folder + os.readlink(path)
                os.unlink(path)
                os.symlink(os.path.relpath(target, parent), path)


def sysroot(cpu):
    """Folder with the CPU's libraries and headers; fetched if it is not there yet, or if it lacks one of the packages."""
    folder = os.path.join(CACHE, "sysroot", cpu)
    if all(glob.glob(os.path.join(folder, "usr/share/doc", name)) for name in PACKAGES):
        return folder
    if not shutil.which("apt-get") or not os.path.exists(KEYS):
        raise CrossError(f"the libraries for {cpu} come from Debian's archive, by apt-get, which is not here")
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as scratch:
        unpacked = os.path.join(scratch, "root")
        unpack(fetch(DEBIAN[cpu], os.path.join(scratch, "apt")), unpacked)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(unpacked, folder)
    return folder


def cross_file(cpu):
    compiler = f"{cpu}-linux-gnu-gcc"
    if not shutil.which(compiler):
        raise CrossError(f"{compiler} is not installed (Debian: gcc-{cpu}-linux-gnu)")
    # Debian 12's other qemu-user aborts the forked children of a program with threads.
    emulator = shutil.which(f"qemu-{cpu}-static") or shutil.which(f"qemu-{cpu}")
    if not emulator:
        raise CrossError(f"qemu-{cpu} is not installed (Debian: qemu-user-static)")
    folder = sysroot(cpu)
    path = folder + ".ini"
    with open(path, "w", encoding="utf-8") as file:
        file.write(CROSS_FILE.format(cpu=cpu, sysroot=folder, emulator=emulator))
    return path


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in DEBIAN:
        sys.exit("usage: cross.py " + "|".join(DEBIAN))
    try:
        print(cross_file(sys.argv[1]))
    except CrossError as error:
        print(f"cross.py: {error}", file=sys.stderr)
        sys.exit(77)


if __name__ == "__main__":
    main()

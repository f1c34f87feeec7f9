#!/usr/bin/env python3
"""Makes the kernel's text for the case tracefs-kernel-text: what a kernel prints in `trace`, by tracer and options.  Each line
ends with a $, as by cat -E.

    text.py [--work FOLDER]                 kernel-text.txt: the kernel of this Debian, text.sh
    text.py [--work FOLDER] --suite SUITE   kernel-values.txt: the kernel of another suite (sid), values.sh

A kernel runs in QEMU, without KVM, with busybox and the script in its first file system.  As root: packages come by apt.  Of
another suite nothing is installed, and the system's own list of suites stays as it is: packages of it are only unpacked.
Debian leaves out FUNCTION_GRAPH_RETVAL and FUNCTION_GRAPH_RETADDR: values.sh has the sets of options for them, of which
it leaves out those that the kernel has not.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["qemu-system-x86", "busybox-static", "cpio"]
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Functions with arguments and results of several kinds; a kernel has most of them.
FUNCTIONS = """vfs_read vfs_write vfs_open vfs_llseek vfs_statx vfs_getattr_nosec path_openat may_open fput fd_install getname_flags
generic_permission set_root do_mmap from_kuid_munged task_work_add rw_verify_area do_notify_parent do_group_exit vma_wants_writenotify
kernel_wait4 prepare_creds lru_add_drain""".split()


def run(command, **more):
    return subprocess.run(command, check=True, **more)


def install(packages):
    run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages], stdout=sys.stderr)


class Suite:
    """A suite of Debian, with lists of packages of its own in the folder; None: that of the system."""

    def __init__(self, work, name):
        self.work, self.environment = work, dict(os.environ)
        if not name:
            return
        own = os.path.join(work, "apt")
        archive = run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"], capture_output=True, text=True).stdout.split()[0]
        for folder in ("lists/partial", "archives/partial"):
            os.makedirs(os.path.join(own, folder), exist_ok=True)
        with open(f"{own}/sources", "w", encoding="utf-8") as file:
            file.write(f"deb [signed-by={KEYS}] {archive} {name} main\n")
        with open(f"{own}/conf", "w", encoding="utf-8") as file:
            file.write(f'Dir::Etc::sourcelist "{own}/sources"; Dir::Etc::sourceparts "-"; Dir::State::lists "{own}/lists"; Dir::Cache "{own}"; '
                       f'Dir::Cache::archives "{own}/archives"; Acquire::Languages "none"; APT::Sandbox::User "root";\n')
        self.environment["APT_CONFIG"] = f"{own}/conf"
        run(["apt-get", "update", "-qq"], env=self.environment, stdout=sys.stderr)

    def depends(self, package):
        return re.findall(r"Depends: (\S+)", run(["apt-cache", "depends", package], env=self.environment, capture_output=True, text=True).stdout)

    def unpacked(self, package):
        """The folder in which the package's files are."""
        folder = f"{self.work}/{package}"
        if not os.path.isdir(folder):
            run(["apt-get", "download", package], cwd=self.work, env=self.environment, stdout=sys.stderr)
            run(["dpkg", "-x", glob.glob(f"{self.work}/{package}_*.deb")[0], folder])
        return folder


def kernel_of(suite):
    """The kernel of linux-image-amd64; since Linux 7 it is in a package that linux-image depends on."""
    package = next(name for name in suite.depends("linux-image-amd64") if name.startswith("linux-image-"))
    package = next((name for name in suite.depends(package) if name.startswith("linux-binary-")), package)
    folder = suite.unpacked(package)
    return (glob.glob(f"{folder}/boot/vmlinuz-*") + glob.glob(f"{folder}/usr/lib/modules/*/vmlinuz"))[0]


def first_files(work, script):
    """An initramfs."""
    root = os.path.join(work, "root")
    for folder in ("bin", "proc", "sys"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    shutil.copy("/bin/busybox", os.path.join(root, "bin"))
    shutil.copy(os.path.join(HERE, "init.sh"), os.path.join(root, "init"))
    os.chmod(os.path.join(root, "init"), 0o755)
    shutil.copy(os.path.join(HERE, script), os.path.join(root, "script"))
    with open(os.path.join(root, "functions"), "w", encoding="utf-8") as file:
        file.write("\n".join(FUNCTIONS) + "\n")
    path = os.path.join(work, "initramfs")
    run(f"find . | cpio -o -H newc > {path}", shell=True, cwd=root, stderr=subprocess.DEVNULL)
    return path


def main():
    parser = argparse.ArgumentParser(description="what a kernel prints, for tracefs-kernel-text")
    parser.add_argument("--work", default="kernel-text.work")
    parser.add_argument("--suite")
    given = parser.parse_args()
    work = os.path.abspath(given.work)
    os.makedirs(work, exist_ok=True)
    install(PACKAGES)
    suite = Suite(work, given.suite)
    said = run(["qemu-system-x86_64", "-m", "512", "-nographic", "-no-reboot", "-kernel", kernel_of(suite),
                "-initrd", first_files(work, "values.sh" if given.suite else "text.sh"),
                "-append", "console=ttyS0 quiet loglevel=3 panic=1 rdinit=/init"], stdin=subprocess.DEVNULL, capture_output=True, timeout=600).stdout.decode()
    text = said.replace("\r", "")
    text = text[text.index("@@@"):text.index("@@@ end")]
    with open(os.path.join(HERE, "kernel-values.txt" if given.suite else "kernel-text.txt"), "w", encoding="utf-8") as file:
        file.write("".join(line + "$\n" for line in text.splitlines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

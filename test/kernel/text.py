#!/usr/bin/env python3
"""Makes kernel-text.txt: what a kernel prints in `trace`, by tracer and options, for the case tracefs-kernel-text.  Each line
ends with a $, as by cat -E.

    text.py [WORK]

Debian's kernel runs in QEMU, without KVM, with busybox and text_init.sh in its first file system.  As root: packages
come by apt.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["qemu-system-x86", "busybox-static", "cpio"]


def unpacked(work):
    """The kernel of linux-image-amd64."""
    depends = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], check=True, capture_output=True, text=True).stdout
    package = re.search(r"Depends: (linux-image-\S+)", depends)[1]
    subprocess.run(["apt-get", "download", package], cwd=work, check=True, stdout=sys.stderr)
    subprocess.run(["dpkg", "-x", glob.glob(f"{work}/{package}_*.deb")[0], f"{work}/kernel"], check=True)
    return glob.glob(f"{work}/kernel/boot/vmlinuz-*")[0]


def first_files(work):
    """An initramfs."""
    root = os.path.join(work, "root")
    for folder in ("bin", "proc", "sys"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    shutil.copy("/bin/busybox", os.path.join(root, "bin"))
    shutil.copy(os.path.join(HERE, "text_init.sh"), os.path.join(root, "init"))
    os.chmod(os.path.join(root, "init"), 0o755)
    path = os.path.join(work, "initramfs")
    subprocess.run(f"find . | cpio -o -H newc > {path}", shell=True, cwd=root, check=True, stderr=subprocess.DEVNULL)
    return path


def main():
    work = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "kernel-text.work")
    os.makedirs(work, exist_ok=True)
    subprocess.run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES], check=True, stdout=sys.stderr)
    said = subprocess.run(["qemu-system-x86_64", "-m", "512", "-nographic", "-no-reboot", "-kernel", unpacked(work), "-initrd", first_files(work),
                           "-append", "console=ttyS0 quiet loglevel=3 panic=1 rdinit=/init"], check=True, capture_output=True, timeout=300).stdout.decode()
    text = said.replace("\r", "")
    text = text[text.index("@@@"):text.index("@@@ end")]
    with open(os.path.join(HERE, "kernel-text.txt"), "w", encoding="utf-8") as file:
        file.write("".join(line + "$\n" for line in text.splitlines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The CPUs that the programs of test/prog are built for, and how a program of each is built and run here.

For a CPU that is not this machine's there are cross compilers, named by its triplet, the libraries of their packages,
and an emulator of user programs; the tool is this machine's always.
"""
import os
import platform
import shutil
import struct

ELF_MACHINE = struct.Struct("<4s14xH")  # the first bytes of an ELF file, and its machine


class Cpu:
    def __init__(self, name, machine, narrow, environment=None):
        self.name, self.machine = name, machine
        self.narrow = narrow  # flags for a program of 32 bits
        self.has_fentry = name == "x86_64"  # gcc's and clang's -pg -mfentry
        self.triplet, self.native = f"{name}-linux-gnu", platform.machine() == name
        self.sysroot = "/" if self.native else f"/usr/{self.triplet}"
        # By these the emulator finds the libraries, and more of the CPU than it has by itself.
        self.environment = {} if self.native else {"QEMU_LD_PREFIX": self.sysroot, **(environment or {})}

    def compiler(self, name):
        """The command that compiles for this CPU: gcc, g++, clang or clang++; or gcc for musl, on this machine's CPU."""
        if self.native:
            return ["musl-gcc" if name == "musl" else name]
        if name.startswith("clang"):
            return [name, f"--target={self.triplet}", "--gcc-toolchain=/usr"]
        return [f"{self.triplet}-{name}"]

    def library(self, name):
        """Path of a shared library for this CPU, or None."""
        below = (f"lib/{self.triplet}", f"usr/lib/{self.triplet}", "usr/lib64", "lib", "usr/lib")
        return next((path for folder in below if os.path.exists(path := os.path.join(self.sysroot, folder, name))), None)

    def emulator(self):
        """Path of the emulator, which `calltap record` finds by the same names; None for this machine's CPU."""
        return None if self.native else shutil.which(f"qemu-{self.name}-static") or shutil.which(f"qemu-{self.name}")

    def missing(self):
        """Why no program can be run here, or None."""
        if not self.native and not self.emulator():
            return f"qemu-{self.name} is not installed (qemu-user)"
        if not os.path.isdir(self.sysroot):
            return f"there are no libraries in {self.sysroot}"
        return None

    def emulates(self, path):
        """True if a file is a program that needs the emulator."""
        try:
            with open(path, "rb") as file:
                return not self.native and ELF_MACHINE.unpack(file.read(ELF_MACHINE.size)) == (b"\x7fELF", self.machine)
        except (OSError, struct.error):
            return False


CPUS = {cpu.name: cpu for cpu in (
    Cpu("x86_64", 62, ["-m32"]),
    Cpu("riscv64", 243, ["-march=rv32gc", "-mabi=ilp32d"]),
    Cpu("aarch64", 183, ["-mabi=ilp32"], {"QEMU_CPU": "max,pauth-impdef=on"}),
)}

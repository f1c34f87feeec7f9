"""The builds of sites_matrix.py for each CPU, and what its reader must find in them."""
import collections
import shutil
import struct

OK = "can be traced"
SHORT = "too few bytes for a jump"
NO_ENTRY = "stripped, so its entry is not known"
NOT_ALIGNED = "too few aligned bytes for a jump"
TOO_FAR = "out of a jump's reach"
IF_ALIGNED = "OK where the function begins at a multiple of 4, else NOT_ALIGNED"
IF_NAMED = "OK where a symbol is left, else NO_ENTRY"

# compiler, flags, what is expected: kind, verdict, length, body, and the trampoline's place relative to the function
P = "patchable"
F = "fentry"
M = "nop-mcount"
X86_64 = [
    # gcc: one-byte no-ops
    ("gcc", "-O0 -fpatchable-function-entry=5", (P, OK, 5, 5, None)),
    ("gcc", "-O1 -fpatchable-function-entry=5 -no-pie", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fcf-protection", (P, OK, 5, 5, None)),
    ("gcc", "-O3 -fpatchable-function-entry=16", (P, OK, 5, 16, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -fcf-protection", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -s", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -s -fcf-protection", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -s -fno-asynchronous-unwind-tables", (P, NO_ENTRY, 0, 0, None)),
    ("gcc", "-O2 -fpatchable-function-entry=7,5", (P, OK, 2, 2, -5)),
    ("gcc", "-O2 -fpatchable-function-entry=9,5 -fcf-protection", (P, OK, 2, 4, -5)),
    ("gcc", "-O2 -fpatchable-function-entry=32,28", (P, OK, 2, 4, -5)),
    ("gcc", "-O2 -fpatchable-function-entry=3", (P, SHORT, 0, 3, None)),
    ("gcc", "-O2 -fpatchable-function-entry=6,4", (P, SHORT, 0, 2, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5,5", (P, SHORT, 0, 0, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -flto", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -ffunction-sections -Wl,--gc-sections", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=gold", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=lld", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=lld -Wl,-z,pack-relative-relocs", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fuse-ld=lld -Wl,--pack-dyn-relocs=relr", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -static", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -static-pie", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -shared -fPIC", (P, OK, 5, 5, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -shared -fPIC -s", (P, OK, 5, 5, None)),
    # gcc: calls of __fentry__
    ("gcc", "-O0 -pg -mfentry", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -fno-pie -no-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O2 -pg -mfentry -fcf-protection", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -fcf-protection -fno-pie -no-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O2 -pg -mfentry -mrecord-mcount -Wl,-z,notext", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -mrecord-mcount -fno-pie -no-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O2 -pg -mfentry -mrecord-mcount -s -fno-pie -no-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O3 -pg -mfentry -flto", (F, OK, 5, 6, None)),
    ("gcc", "-O1 -pg -mfentry -static -fno-pie", (F, OK, 5, 5, None)),
    ("gcc", "-O1 -pg -mfentry -static", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -shared -fPIC", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -fuse-ld=lld", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -fuse-ld=gold", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -ffunction-sections -Wl,--gc-sections", (F, OK, 5, 6, None)),
    ("gcc", "-O2 -pg -mfentry -mnop-mcount -fno-pie -no-pie", (M, OK, 5, 5, None)),
    ("gcc", "-O2 -pg -mfentry -mnop-mcount -mrecord-mcount -fno-pie -no-pie -fcf-protection", (M, OK, 5, 5, None)),
    # clang: long no-ops
    ("clang", "-O0 -fpatchable-function-entry=5", (P, OK, 5, 5, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -fcf-protection", (P, OK, 5, 5, None)),
    ("clang", "-O2 -fpatchable-function-entry=16 -fuse-ld=lld", (P, OK, 5, 16, None)),
    ("clang", "-O2 -fpatchable-function-entry=16,7 -fcf-protection", (P, OK, 5, 9, None)),
    ("clang", "-O2 -fpatchable-function-entry=16,7 -s", (P, OK, 5, 9, None)),
    ("clang", "-O2 -fpatchable-function-entry=24,20 -fuse-ld=lld", (P, OK, 2, 4, -5)),
    ("clang", "-O2 -fpatchable-function-entry=4", (P, SHORT, 0, 4, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -flto=thin -fuse-ld=lld", (P, OK, 5, 5, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -ffunction-sections -Wl,--gc-sections -fuse-ld=lld",
     (P, OK, 5, 5, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -shared -fPIC", (P, OK, 5, 5, None)),
    ("clang", "-O0 -pg -mfentry", (F, OK, 5, 5, None)),
    ("clang", "-O2 -pg -mfentry -fcf-protection", (F, OK, 5, 5, None)),
    ("clang", "-O2 -pg -mfentry -fPIC -shared -fuse-ld=lld", (F, OK, 5, 5, None)),
    # nothing to find
    ("gcc", "-O2", None),
    ("gcc", "-O2 -pg", None),
    ("gcc", "-O2 -finstrument-functions", None),
    ("clang", "-O2 -fxray-instrument", None),
]

RISCV64 = [
    # gcc: no-ops of two bytes
    ("gcc", "-O0 -fpatchable-function-entry=5", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=16", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=4", (P, IF_ALIGNED, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=4 -falign-functions=4", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=3", (P, SHORT, 0, 6, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,4", (P, IF_ALIGNED, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=7,5", (P, SHORT, 0, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5,5", (P, SHORT, 0, 0, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -s", (P, IF_NAMED, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=8,3 -s -fasynchronous-unwind-tables", (P, IF_NAMED, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fno-pie -no-pie -mcmodel=medlow", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fno-pie -no-pie -mcmodel=medany", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -mcmodel=medany", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -mno-relax", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -Wl,--no-relax", (P, OK, 8, 8, None)),
    ("gcc", "-Os -fpatchable-function-entry=5 -msave-restore", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -fno-plt", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -flto", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -ffunction-sections -Wl,--gc-sections", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -static", (P, OK, 8, 8, None)),
    ("gcc", "-Os -fpatchable-function-entry=5 -msave-restore -static-pie", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -shared -fPIC", (P, OK, 8, 8, None)),
    # gcc without the C extension: of four
    ("gcc", "-O0 -fpatchable-function-entry=2 -march=rv64g", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5 -march=rv64g -mno-relax", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5,2 -march=rv64g", (P, OK, 8, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -march=rv64g", (P, SHORT, 0, 4, None)),
    # clang
    ("clang", "-O0 -fpatchable-function-entry=5", (P, OK, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=5", (P, OK, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=4", (P, IF_ALIGNED, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=4 -falign-functions=4", (P, OK, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=8,3", (P, OK, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=8,3 -s -fasynchronous-unwind-tables", (P, OK, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=2 -march=rv64g", (P, OK, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -mno-relax", (P, OK, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -fno-pie -no-pie -mcmodel=medany", (P, OK, 8, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=5 -shared -fPIC", (P, OK, 8, 8, None)),
    # nothing to find
    ("gcc", "-O2", None),
    ("gcc", "-O2 -pg", None),
    ("gcc", "-O2 -finstrument-functions", None),
    ("clang", "-O2 -pg", None),
]

AARCH64 = [
    ("gcc", "-O0 -fpatchable-function-entry=1", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5", (P, OK, 4, 20, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5,3", (P, OK, 4, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=2,2", (P, SHORT, 0, 0, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -falign-functions=4", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -mbranch-protection=standard", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=5,2 -mbranch-protection=standard", (P, OK, 4, 12, None)),
    ("gcc", "-O2 -fpatchable-function-entry=2 -mbranch-protection=pac-ret+leaf+b-key", (P, OK, 4, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=2,1 -mbranch-protection=bti", (P, OK, 4, 4, None)),
    # the unwind table has functions begin behind their no-ops: the last one is taken
    ("gcc", "-O2 -fpatchable-function-entry=2 -s", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=4,2 -s", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=2 -s -fno-asynchronous-unwind-tables -fno-unwind-tables",
     (P, IF_NAMED, 4, 8, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -fno-pie -no-pie", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -fno-pie -no-pie -mcmodel=large", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -mcmodel=tiny", (P, OK, 4, 4, None)),
    # 124 MiB behind the program's start
    ("gcc", "-O2 -fpatchable-function-entry=1 -fno-pie -no-pie -Wl,-Ttext=0x8000000", (P, TOO_FAR, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -fno-plt", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -flto", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -fuse-ld=gold", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -ffunction-sections -Wl,--gc-sections", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -static -moutline-atomics", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -static-pie", (P, OK, 4, 4, None)),
    ("gcc", "-O2 -fpatchable-function-entry=1 -shared -fPIC", (P, OK, 4, 4, None)),
    ("clang", "-O0 -fpatchable-function-entry=1", (P, OK, 4, 4, None)),
    ("clang", "-O2 -fpatchable-function-entry=2", (P, OK, 4, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=5,3", (P, OK, 4, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=5,3 -s", (P, OK, 4, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=1 -falign-functions=4", (P, OK, 4, 4, None)),
    ("clang", "-O2 -fpatchable-function-entry=2 -mbranch-protection=standard", (P, OK, 4, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=3,1 -mbranch-protection=standard -s", (P, OK, 4, 8, None)),
    ("clang", "-O2 -fpatchable-function-entry=1 -fuse-ld=lld", (P, OK, 4, 4, None)),
    ("clang", "-O2 -fpatchable-function-entry=1 -fuse-ld=lld -Wl,--pack-dyn-relocs=relr", (P, OK, 4, 4, None)),
    ("clang", "-O2 -fpatchable-function-entry=1 -fuse-ld=lld -flto=thin", (P, OK, 4, 4, None)),
    ("clang", "-O2 -fpatchable-function-entry=1 -fno-pie -no-pie", (P, OK, 4, 4, None)),
    ("clang", "-O2 -fpatchable-function-entry=1 -shared -fPIC", (P, OK, 4, 4, None)),
    # nothing to find; the CPU's crt1.o begins with a no-op
    ("gcc", "-O2", None),
    ("gcc", "-O2 -mbranch-protection=standard", None),
    ("gcc", "-O2 -pg", None),
    ("gcc", "-O2 -finstrument-functions", None),
    ("clang", "-O2 -pg", None),
    ("clang", "-O2 -fxray-instrument", None),
]


def x86_64_jumps(site):
    """The bytes to write, and where, so that a site leads straight to its body."""
    def jump(source, target):
        return b"\xe9" + struct.pack("<i", target - source - 5)

    body = site.address + site.body
    if site.length != 2:
        return [(site.address, jump(site.address, body))]
    place = site.address + site.tramp
    return [(place, jump(place, body)), (site.address, b"\xeb" + struct.pack("<b", site.tramp - 2))]


def riscv64_jumps(site):
    return [(site.address, struct.pack("<II", 0x297, site.body << 20 | 0x28067))]  # auipc t0, 0; jr body(t0)


def aarch64_jumps(site):
    return [(site.address, struct.pack("<I", 0x14000000 | site.body // 4))]


class Target(collections.namedtuple("Target", "name cases jumps align triplet")):
    """A CPU; with a triplet it is not this machine, and programs for it run under an emulator."""

    def compiler(self, name):
        """The command's first words, None = not installed."""
        if not self.triplet:
            words = [name]
        elif name.startswith("clang"):
            words = [name, "--target=" + self.triplet] if shutil.which(self.triplet + "-gcc") else [""]
        else:
            words = [self.triplet + "-" + name]
        return words if shutil.which(words[0]) else None

    def runner(self):
        """The command that runs the CPU's programs, None = there is none."""
        if not self.triplet:
            return []
        emulator = shutil.which("qemu-" + self.name) or shutil.which(f"qemu-{self.name}-static")
        return [emulator, "-L", "/usr/" + self.triplet] if emulator else None


def targets(native):
    """All of them; native is this machine, by Meson's name."""
    tables = {"x86_64": (X86_64, x86_64_jumps, 1), "riscv64": (RISCV64, riscv64_jumps, 4),
              "aarch64": (AARCH64, aarch64_jumps, 4)}
    return [Target(name, *table, "" if name == native else name + "-linux-gnu") for name, table in tables.items()]

"""A kernel that starts emulated programs, for those that other emulated programs execute."""
import struct

PLACE = "/proc/sys/fs/binfmt_misc"
# The table of formats is the name space's own, and goes with it.
REGISTER = f"""mount -t binfmt_misc none {PLACE} && printf %s "$1" >{PLACE}/register || exit
shift
exec "$@"
"""


def pattern(machine):
    """The bytes that an ELF program of a machine begins with and which of their bits count, for binfmt_misc."""
    head = b"\x7fELF\2\1" + bytes(10) + struct.pack("<HH", 2, machine)
    mask = b"\xff" * 6 + bytes(10) + b"\xfe\xff\xff\xff"  # ET_EXEC or ET_DYN
    return ["".join(f"\\x{byte:02x}" for byte in part) for part in (head, mask)]


def known_to_the_kernel(cpu):
    """The words in front of a command, so that execve() of a program for the CPU starts its emulator.  The emulator must
    be linked statically, for it gets the environment with the libraries to preload into the program."""
    magic, mask = pattern(cpu.machine)
    line = f":calltap-{cpu.name}:M::{magic}:{mask}:{cpu.emulator()}:"
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", REGISTER, "sh", line]

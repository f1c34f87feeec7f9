"""Machine code as binutils' disassembler reads it, in the words of isa_dump: length, kind and target."""
import os
import re
import shutil
import subprocess
import tempfile

MACHINES = {
    "x86_64": ("x86_64-linux-gnu", ["-m", "i386:x86-64"]),
    "riscv64": ("riscv64-linux-gnu", ["-m", "riscv:rv64", "-M", "no-aliases"]),
    "aarch64": ("aarch64-linux-gnu", ["-m", "aarch64"]),
}
ADDRESS = r"(?:0x)?([0-9a-f]+)"
LINE = re.compile(r"^ *([0-9a-f]+):\t([0-9a-f ]+?)(?: *\t(.*))?$")
X86_PREFIX = re.compile(r"^(?:(?:[c-gs]s|data16|addr32|lock|rep[nz]*|bnd|notrack|rex(?:\.[WRXB]+)?|xacquire|xrelease)"
                        r"\s+)+")
X86_TRAPS = re.compile(r"^(?:lret|iret|int|hlt|ud[012]|sysret|sysexit|sysenter|rsm|uiret|lcall|ljmp)")
X86_BRANCHES = re.compile(r"^(?:j[a-z]+|loop[a-z]*|xbegin)$")
RV_EXCLUSIVE = re.compile(r"^(?:lr|sc)\.")
RV_TRAPS = {"ebreak", "c.ebreak", "mret", "sret", "uret", "dret", "wfi", "sfence.vma", "sinval.vma", "sfence.w.inval",
            "sfence.inval.ir", "hfence.gvma", "hfence.vvma", "hinval.gvma", "hinval.vvma", "mnret", "hret",
            "sfence.vm"}
A64_TRAPS = {"brk", "hlt", "hvc", "smc", "udf", "eret", "eretaa", "eretab", "drps", "tcancel", "dcps1", "dcps2",
             "dcps3"}
A64_EXCLUSIVE = re.compile(r"^(?:ldx|ldax|stx|stlx)[rp][bh]?$")


def tool(cpu):
    """The objdump that knows the CPU; None: not installed."""
    name = MACHINES[cpu][0] + "-objdump"
    return shutil.which(name) or (shutil.which("objdump") if cpu == os.uname().machine else None)


def output_of(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def libc(cpu):
    """The C library of the CPU, by its compiler; None: not installed."""
    gcc = shutil.which(MACHINES[cpu][0] + "-gcc")
    if not gcc:
        return None
    path = output_of(gcc, "-print-file-name=libc.so.6").strip()
    return path if os.path.isabs(path) else None


def run(program, *arguments, **options):
    """The output of a program of this build; Meson's wrapper runs a foreign one."""
    return output_of(*os.environ.get("MESON_EXE_WRAPPER", "").split(), program, *arguments, **options)


def lines(cpu, arguments):
    """(address, length, text) for each instruction that objdump prints."""
    for line in output_of(tool(cpu), "-w", *arguments).splitlines():
        match = LINE.match(line)
        if match:
            yield int(match[1], 16), len(match[2].replace(" ", "")) // 2, (match[3] or "").strip()


def disassemble(cpu, code, base=0):
    """lines() of bytes that lie at base."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        yield from lines(cpu, ["-D", "-b", "binary", f"--adjust-vma={base:#x}", *MACHINES[cpu][1], file.name])


def disassemble_text(cpu, path):
    """lines() of a library's .text."""
    yield from lines(cpu, ["-d", "-j", ".text", *MACHINES[cpu][1][2:], path])


def text_section(cpu, path):
    """(address, bytes) of a library's .text."""
    address = int(re.search(r"\.text +\w+ +(\w+)", output_of(tool(cpu), "-h", "-j", ".text", path))[1], 16)
    with tempfile.NamedTemporaryFile() as file:
        output_of(tool(cpu).replace("objdump", "objcopy"), "-O", "binary", "--only-section=.text", path, file.name)
        return address, file.read()


def last_address(text):
    """The address that an operand list ends with, with the symbol that objdump puts behind it left out."""
    match = re.search(ADDRESS + r"(?:\s+<.*>)?$", text)
    return int(match[1], 16) if match else None


def x86_meaning(address, text):
    text = X86_PREFIX.sub("", text)
    if "(bad)" in text or not text or text.startswith(".") or re.match(r"^[c-gs]s$|^rex|^data16$|^addr32$|^lock$|^rep", text):
        return None
    mnemonic, _, operands = text.partition(" ")
    mnemonic = mnemonic.split(",")[0]
    code, _, comment = operands.partition("#")
    code = code.strip()
    memory = re.match(r"\s*" + ADDRESS, comment) if "(%rip)" in code else None
    memory = int(memory[1], 16) if memory else None
    if X86_TRAPS.match(mnemonic):
        return "trap", memory
    if mnemonic.startswith("ret"):
        return "return", None
    for name, kind in (("jmp", "jump"), ("call", "call")):
        if mnemonic.startswith(name):
            return (kind + "-indirect", memory) if code.startswith("*") else (kind, last_address(code))
    if X86_BRANCHES.match(mnemonic):
        return "branch", last_address(code)
    if memory is not None:
        return ("address" if mnemonic.startswith("lea") else "memory"), memory
    return "plain", None


def riscv_meaning(address, text):
    text = text.partition("#")[0].strip()
    mnemonic, _, operands = text.partition("\t")
    first = operands.split(",")[0]
    if not mnemonic or mnemonic[0] in ".0" or mnemonic in ("unimp", "c.unimp"):
        return None
    if mnemonic == "auipc":
        high = int(operands.split(",")[1], 16) << 12
        target = (address + (high - (1 << 32) if high >> 31 else high)) % (1 << 64)
        return ("plain", None) if first == "zero" else ("address", target)
    if mnemonic in ("jal", "c.j"):
        return ("call" if mnemonic == "jal" and first != "zero" else "jump"), last_address(operands)
    if mnemonic in ("beq", "bne", "blt", "bge", "bltu", "bgeu", "c.beqz", "c.bnez"):
        return "branch", last_address(operands)
    if mnemonic in ("jalr", "c.jalr") and not (mnemonic == "jalr" and first == "zero"):
        return "call-indirect", None
    if mnemonic in ("jalr", "c.jr"):
        through = operands.split(",")[-1]
        return ("return" if through in ("ra", "t0", "0(ra)", "0(t0)") else "jump-indirect"), None
    if RV_EXCLUSIVE.match(mnemonic):
        return "exclusive", None
    return ("trap" if mnemonic in RV_TRAPS else "plain"), None


def aarch64_meaning(address, text):
    text = re.split(r"\s+//|\s+;", text)[0].strip()
    mnemonic, _, operands = text.partition("\t")
    if not mnemonic or mnemonic.startswith(".") or "undefined" in text or "NYI" in text:
        return None
    if mnemonic in ("b", "b.al", "b.nv", "bc.al", "bc.nv"):
        return "jump", last_address(operands)
    if mnemonic == "bl":
        return "call", last_address(operands)
    if mnemonic.startswith(("b.", "bc.", "cbz", "cbnz", "tbz", "tbnz")):
        return "branch", last_address(operands)
    if mnemonic in ("adr", "adrp") and not re.search(r"\[", operands):
        return "address", last_address(operands)
    if mnemonic in ("ldr", "ldrsw", "prfm") and "[" not in operands:
        return "memory", last_address(operands)
    for pattern, kind in (("blra|blr", "call-indirect"), ("bra|br", "jump-indirect"), ("ret", "return")):
        if re.match(rf"^(?:{pattern})(?:[ab]z?|aa|ab)?$", mnemonic):
            return kind, None
    if A64_EXCLUSIVE.match(mnemonic):
        return "exclusive", None
    return ("trap" if mnemonic in A64_TRAPS else "plain"), None


MEANING = {"x86_64": x86_meaning, "riscv64": riscv_meaning, "aarch64": aarch64_meaning}


def meaning(cpu, address, text):
    """(kind, target) as isa_dump names them, None for what objdump does not know."""
    return MEANING[cpu](address, text)

"""Damaged traces: every verb reads on, or refuses with one sentence; none crashes."""
import os
import random
import shutil

VERBS = (["replay"], ["report"], ["report", "--json", "--by", "object"], ["graph"], ["graph", "*"], ["info"],
         ["info", "--json"], ["export", "--format", "perfetto"], ["export", "--format", "chrome"], ["html", "-o", "-"],
         ["export", "--format", "folded"], ["export", "--format", "json"], ["diff", "graph"], ["diff", "graph", "--tree", "--json"],
         ["slow", "*"], ["slow", "*", "--json", "--over", "1us"],
         *(["export", "--format", form] for form in ("speedscope", "callgrind", "pprof", "graphviz", "mermaid", "trace.dat")),
         ["export", "--format", "ctf", "-o", "damaged.ctf"])


def run(bench, verb):
    """The verb on the file; what it writes into a folder is gone afterwards."""
    result = bench.run(*verb, "-i", "damaged")
    shutil.rmtree(os.path.join(bench.folder, "damaged.ctf"), ignore_errors=True)
    return result


def survive(bench, data, what):
    bench.write("damaged", data)
    for verb in bench.some(VERBS):
        result = run(bench, verb)
        said = result.stderr.decode("utf-8", "replace")
        where = f"{' '.join(verb)} of {what}: status {result.returncode}: {said}"
        assert result.returncode in (0, 1), where
        assert result.returncode == 0 or said.startswith("calltap: "), where
        assert all(line.startswith("calltap: ") for line in said.splitlines()), where


def check_truncated_traces_are_read_to_the_cut(bench):
    data = bench.read("graph")
    for size in list(range(0, 200, 9)) + list(range(200, len(data), 97)):
        survive(bench, data[:size], f"the first {size} bytes")


def check_a_cut_is_told(bench):
    data = bench.read("small")
    bench.write("damaged", data[:len(data) * 2 // 3])
    for verb in VERBS:
        result = run(bench, verb)
        assert result.returncode == 0 and result.stderr.startswith(b"calltap: "), (verb, result.stderr)
        assert len(result.stdout) > 100 or "ctf" in verb, verb


def check_flipped_bits_do_no_harm(bench):
    chance = random.Random(1)
    for name in ("graph", "calls", "switch", "attached"):
        data = bench.read(name)
        for _ in range(25):
            changed = bytearray(data)
            for _ in range(chance.randint(1, 8)):
                changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            survive(bench, bytes(changed), f"{name} with flipped bits")


def check_flipped_payloads_with_good_checks_do_no_harm(bench):
    """Damage that no check sum catches: the chunk is rewritten with the right one."""
    import struct
    import tracetext
    chance = random.Random(2)
    for name in ("graph", "calls", "switch", "attached"):
        data = bench.read(name)
        for _ in range(25):
            out, at = data[:64], 64
            while at < len(data):
                kind, stored = struct.unpack_from("<I8xQ", data, at + 4)
                payload = bytearray(data[at + 32:at + 32 + stored])
                if chance.random() < 0.3:
                    payload[chance.randrange(len(payload))] = chance.choice((0, 0xFF, chance.randrange(256)))
                if kind == tracetext.DATA:
                    payload[40:44] = struct.pack("<I", tracetext.check(bytes(payload[48:])) & 0xFFFFFFFF)
                out += tracetext.chunk(kind, bytes(payload))
                at += 32 + stored + -stored % 8
            survive(bench, out, f"{name} with forged chunks")

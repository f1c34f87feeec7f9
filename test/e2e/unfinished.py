"""Attaches that are over before they have begun: told to end on the way, and looks that are shorter than the way."""
import json
import signal
import subprocess
import time

from harness import Process, expect
from steering import Program, clean, look, mappings


def mapped_code(pid):
    """Bytes that differ from the file's in whole mappings of code, with what lies behind the segments: by file."""
    found = {}
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            words = line.split(maxsplit=5)
            if "x" not in words[1] or len(words) < 6 or not words[5].startswith("/"):
                continue
            low, high = (int(part, 16) for part in words[0].split("-"))
            with open(words[5].strip(), "rb") as file:
                file.seek(int(words[2], 16))
                wanted = file.read(high - low).ljust(high - low, b"\0")
            memory.seek(low)
            bytes_now = memory.read(high - low)
            if bytes_now != wanted:
                found[words[5].strip()] = sum(one != other for one, other in zip(bytes_now, wanted))
    return found


def ended_early(case):
    """An attach that is told to end at any moment of its beginning leaves the text as it was, and nothing mapped."""
    case.need_native("attaching")
    with Program(case, "4") as program:
        before = look(program)
        for step in range(30):
            tool = Process([case.tool, "attach", "-q", "-l", "*:*", "-o", case.trace_path, str(program.pid)], cwd=case.folder,
                           env=case.environment(False), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, start_new_session=True)
            time.sleep(step * 0.008)
            tool.send_signal(signal.SIGTERM)
            said = tool.communicate(timeout=60)[1]
            expect(not mapped_code(program.pid), f"step {step}: {mapped_code(program.pid)} differ; the tool said {said!r}")
        clean(program, before)
        regions = [item for item in mappings(program.pid) if "x" in item[1] and not item[2]]
        expect(not regions, f"code is left behind: {regions}")
        program.end()


def short_look(case):
    """An interval of `top` begins when the process is traced, however short it is."""
    case.need_native("attaching")
    with Program(case) as program:
        done = case.run([case.tool, "top", "--once", "-i", "50ms", "--json", "-l", "*:*", str(program.pid)])
        expect(done.status == 0 and not done.stderr, f"status {done.status}: {done.stderr!r}")
        expect(any(row["calls"] for row in json.loads(done.stdout)["rows"]), f"no calls: {done.stdout!r}")
        program.end()


SINGLE = {
    "attach-ended-early": ended_early,
    "attach-short-look": short_look,
}

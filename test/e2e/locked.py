"""Programs that lock their memory: they have what they have alone, and no more than that."""
import time

from attach import attach_for
from harness import Skip, expect
from steering import Program, Tool, left_alone

NOW, LATER, WHEN_USED = 1, 2, 4  # mlockall()'s flags
MORE = 24 << 10  # KiB that a traced program may take beyond what it has alone


def locked(case):
    """Under record, as a user who may lock as much as he likes, and as one who may not."""
    case.need_native("locking less than all")  # an emulator does not know mlock2()
    program = case.program("locks.c")
    for flags, limit in ((NOW, 0), (LATER, 0), (NOW | LATER, 0), (NOW | LATER | WHEN_USED, 0), (NOW, 8192), (NOW | LATER, 8192), (NOW, 100),
                         (NOW | LATER, 100)):
        command = [program, str(flags), str(limit)]
        plain = case.run(command)
        if plain.status == 77:
            raise Skip("only root can drop its rights")
        for options in ([], ["-l", "*:*"]):
            case.same_outcome(plain, case.record(command, ["--mode", "drop", *options], log=False), stderr=False)
            if not limit:  # under a limit there may be no memory for a new thread's calls
                expect(case.trace().called().get("call", 0) == 2000, f"{command} {options}: {case.trace().called()}")


class Locked(Program):
    """test/prog/locks.c"""

    def __init__(self, case, flags):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("locks.c"), str(flags), "0", "waits"])

    def resident(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return int(next(line for line in status if line.startswith("VmRSS:")).split()[1])


def attached(case):
    """What an attach maps is not brought into memory before it is used, and goes."""
    case.need_native("attaching")
    for flags in (NOW | LATER, LATER):
        with Locked(case, flags) as program, left_alone(program):
            before = program.resident()
            with Tool(case, program, "--mode", "drop") as tool:
                tool.records(1000)
                now = program.resident()
                expect(now < before + MORE, f"it has {before} KiB alone, {now} traced")
                tool.detach()
            time.sleep(0.1)
            expect(program.resident() < before + MORE / 4, f"it has {before} KiB alone, {program.resident()} afterwards")
            done = attach_for(case, program, 0.1, "-l", "*:*")
            expect(not done.status, f"status {done.status}: {done.stderr!r}")


SINGLE = {"locked": locked, "locked-attached": attached}

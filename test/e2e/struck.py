"""Contexts that are in the way when a tool lets go of a process (doc/design/letting-go.md), made by test/prog/struck.cc."""
import os
import signal
import time

from attach import attach_for
from endings import finish
from harness import expect, until
from steering import Program, Tool, clean, look


class Struck(Program):
    """test/prog/struck.cc"""

    def __init__(self, case, *kinds, variant="", flags=()):  # pylint: disable=super-init-not-called
        self.start(case, [case.program("struck.cc", variant=variant, flags=flags), *kinds])


def long_handler(stack=""):
    """A thread is in a handler for as long as it likes, which has interrupted a traced call: the agent stays, and that is
    told, as long as the thread may go back to it. Then the next attach takes it away."""
    def test(case):
        case.need_native("attaching")
        with Struck(case, f"stays{stack}", f"stays{stack}", f"stays{stack}", f"stays{stack}") as program:
            before = look(program)
            for _ in range(8):
                with Tool(case, program, "--mode", "drop") as tool:
                    tool.records(1000)
                    os.kill(program.pid, signal.SIGUSR1)
                    time.sleep(0.5)
                    tool.session.close()
                    os.kill(tool.process.pid, signal.SIGTERM)
                    status = finish(tool.process)
                if status:
                    break
                # All handlers happen to have interrupted the program's own code: then nothing is in the way, and they go on.
                os.kill(program.pid, signal.SIGUSR2)
                time.sleep(0.5)
                clean(program, before)
                case.said.append("all handlers had interrupted the program's own code")
            expect(status == 1, f"the tool ended with {status}: {tool.said()!r}")
            said = tool.said()
            expect("is in a signal handler that has interrupted a traced call" in said, f"it said {said!r}")
            expect("differ from its files" not in said or "the agent stays, with functions led" in said, f"it said {said!r}")
            done = attach_for(case, program, 0.1)
            expect(done.status == 2 and "is in a signal handler" in done.stderr, f"status {done.status}: {done.stderr!r}")
            os.kill(program.pid, signal.SIGUSR2)
            until("the handlers to end", lambda: not attach_for(case, program, 0.1).status, 20)
            clean(program, before)
            program.end()
    return test


def static_unwinder(case):
    """libgcc's unwinder in the program's own file, where no name tells of it."""
    case.need_native("attaching")
    flags = ["-static-libgcc", "-static-libstdc++", "-s"]
    case.need_flags(*flags)
    with Struck(case, *["throws"] * 4, *["throws-alternate"] * 4, variant="-static-unwinder", flags=flags) as program:
        for _ in range(20):
            done = attach_for(case, program, 0.03)
            expect(not done.status, f"status {done.status}: {done.stderr!r}")
        program.end()


SINGLE = {
    "attach-long-handler": long_handler(),
    "attach-long-handler-alternate": long_handler("-alternate"),
    "attach-static-unwinder": static_unwinder,
}

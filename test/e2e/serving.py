"""`calltap serve`, which a program's libcalltap starts: how it begins, all the ways in which it ends, and what it leaves."""
import os
import signal
import socket
import subprocess
import time

from endings import finish
from harness import PATIENCE, Process, expect, stop, until
from steer import calltap, own_place
from steering import Program, Session, clean, left_alone, listing, look, memory_kb


class Server:
    """The tool, with the descriptor by which it says that it is there, and is told to end."""

    def __init__(self, case, pid, *options):
        self.case, self.pid = case, pid
        self.ours, theirs = socket.socketpair()
        with theirs:
            self.process = Process([case.tool, "serve", str(pid), "--ready-fd", str(theirs.fileno()), *options],
                                   pass_fds=[theirs.fileno()], cwd="/", env=case.environment(False),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        self.ours.settimeout(PATIENCE)
        with self.ours.makefile() as lines:
            self.said = lines.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)
        self.ours.close()

    def ready(self):
        expect(self.said == "ready\n", f"serve said {self.said!r}")
        return self

    def session(self):
        return Session(self.case.environment(False), self.pid)

    def ended(self, status=0):
        found = finish(self.process)
        expect(found == status, f"serve ended with {found}")
        expect(self.ours.recv(1) == b"", "there is more on the descriptor")


def by_shutdown(server):
    server.ours.shutdown(socket.SHUT_WR)


def by_close(server):
    os.close(server.ours.detach())
    server.ours = socket.socketpair()[0]


def by_signal(server):
    server.process.terminate()


def by_verb(server):
    said = calltap(server.case, "detach", server.pid)
    expect("its text is what its files say" in said, said)


def ended_by(how):
    """The program is as it was, and can be served again."""
    def test(case):
        case.need_native("attaching")
        own_place(case)
        with Program(case) as program:
            before = look(program)
            for _ in range(3):
                with Server(case, program.pid) as server:
                    server.ready()
                    how(server)
                    server.ended()
                clean(program, before)
            program.end()
        expect(not os.path.exists(case.trace_path), "there is a trace")
    return test


def program_ends(case):
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program, Server(case, program.pid) as server:
        server.ready()
        program.end()
        server.ended()


def killed(case):
    """The program goes on, its text is restored by its agent, and the next one takes up with that."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program, left_alone(program) as before:
        for _ in range(5):
            with Server(case, program.pid) as server:
                server.ready()
                server.process.kill()
                server.ended(-signal.SIGKILL)
            until("the agent's thread to end", lambda: listing(program.pid, "task") == before["threads"], 5)
            clean(program, before)
        with Server(case, program.pid) as server:
            by_shutdown(server.ready())
            server.ended()


def refused(case):
    """A sentence behind a number, and the number of the exit status."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program:
        with Server(case, program.pid) as first:
            first.ready()
            with Server(case, program.pid) as second:
                expect(second.said.startswith("-16 process "), second.said)
                second.ended(2)
            for words in (["tracer=function_graph"], ["tracer=function"]):
                said = calltap(case, "set", program.pid, *words, status=1)
                expect("serves the handlers of the program itself" in said, said)
            expect(first.process.poll() is None, "the first one has ended")
        program.end()
    with Server(case, program.pid) as server:
        expect(server.said.startswith(f"-3 there is no process {program.pid}"), server.said)
        server.ended(2)
    done = case.run([case.tool, "serve", "nobody"])
    expect(done.status == 1 and "'nobody' is no process id" in done.stderr, done.stderr)
    done = case.run([case.tool, "serve", str(os.getpid()), "--ready-fd", "77"])
    expect(done.status == 1 and "descriptor 77 is not open" in done.stderr, done.stderr)


def shown(case):
    """In `calltap status` it is one that records nothing."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program, Server(case, program.pid) as server:
        server.ready()
        status = server.session().status()
        expect(status["serves"] == 1 and status["handlers"] == 0 and status["attached"] == 1, f"{status}")
        expect(status["sites"] >= 15 and status["sites_on"] == 0, f"{status}")
        expect("handlers:     0, of 0 functions; nothing is recorded" in calltap(case, "status", program.pid), "status")
        time.sleep(0.3)
        expect(server.session().status()["records"] == 0, "there are records")
        program.end()


def only_the_process_asks(case):
    """Addresses in a process are that process's to tell."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program, Server(case, program.pid) as server:
        session = server.ready().session()
        code, text = session.ask("handlers", "table=0x1000", "add=0", "exit=1")
        expect(code == -1 and "only a process that is has handlers" in text, f"{code} {text!r}")
        for words in ([], ["table=0x1000"], ["table=1", "add=0"], ["add=0"], ["table=0x1000", "add=24"],
                      ["table=0x1000", "add=0", "remove=0"], ["table=0x1000", "add=0", "colour=1"],
                      ["table=0x1000", "add=0", "exit=2"], ["table=0x1000", "add=0", "address=1,"],
                      ["table=0x1000", "add=0", "filter=/(/"]):
            code, text = session.ask("handlers", *words)
            expect(code == -22, f"{words}: {code} {text!r}")
        program.end()


def little_is_taken(case):
    """Serving over and over: no memory that grows."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program:
        kept = 0
        for turn in range(12):
            with Server(case, program.pid) as server:
                by_shutdown(server.ready())
                server.ended()
            kept = kept if turn > 3 else memory_kb(program.pid)
        expect(memory_kb(program.pid) < kept + 512, f"{memory_kb(program.pid)} kB, {kept} kB before")
        program.end()


CASES = {}
SINGLE = {
    "serve-shutdown": ended_by(by_shutdown),
    "serve-close": ended_by(by_close),
    "serve-signal": ended_by(by_signal),
    "serve-detach": ended_by(by_verb),
    "serve-program-ends": program_ends,
    "serve-killed": killed,
    "serve-refused": refused,
    "serve-shown": shown,
    "serve-asked": only_the_process_asks,
    "serve-memory": little_is_taken,
}

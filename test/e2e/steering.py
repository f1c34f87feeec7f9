"""Programs that run until they are told to stop, attaching to them, and a client of the session's socket that is written
from src/host/remote/remote.h alone: shared by attach.py, steer.py and trust.py."""
import array
import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

import live
from endings import finish, wait_for
from harness import PATIENCE, Failure, Process, expect, stop, until

STATUS = 42  # functions of attachee.c


class Program:
    """test/prog/attachee.c, which checks what it does until it is told to stop."""

    def __init__(self, case, *arguments, sites=True):
        self.start(case, [case.program("attachee.c", sites=sites), *arguments])

    def start(self, case, command):
        """In a process group of its own, its output to a file of its own."""
        self.case = case
        with tempfile.NamedTemporaryFile(dir=case.folder, prefix="output.", delete=False) as file:
            self.output = file.name
            self.process = Process(command, cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL,
                                   stdout=file, stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self):
        try:
            self.pid = int(wait_for(self.output, "ready").split()[1])
        except BaseException:
            stop(self.process)
            raise
        return self

    def __exit__(self, *_):
        stop(self.process)

    def printed(self):
        """The program's output, without the tool's."""
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return "".join(line for line in file if not line.startswith("calltap:"))

    def end(self):
        """Tell the program to stop: it must end as it does untraced."""
        os.kill(self.pid, signal.SIGTERM)
        status = finish(self.process)
        expect(self.printed() == f"ready {self.pid}\nall was well\n", f"the program printed {self.printed()!r}")
        expect(status == STATUS, f"the program's exit status is {status}, untraced {STATUS}")


def listing(pid, what):
    return sorted(os.listdir(f"/proc/{pid}/{what}"), key=int)


def thread_name(pid, tid):
    """"" of a thread that has ended since it was listed, or ends while its file is read."""
    try:
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as file:
            return file.read().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descriptors(pid):
    """{number: what it is of}"""
    found = {}
    for number in listing(pid, "fd"):
        try:
            found[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
        except FileNotFoundError:
            pass
    return found


def threads(pid):
    return listing(pid, "task")


def mappings(pid):
    """[(size, rights, file)]"""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            words = line.split(maxsplit=5)
            low, high = (int(part, 16) for part in words[0].split("-"))
            found.append((high - low, words[1], words[5].strip() if len(words) > 5 else ""))
    return sorted(found)


def memory_kb(pid, kind="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search(rf"{kind}:\s+(\d+)", status.read())[1])


def folder_of(environment):
    """The folder of this user's sockets."""
    for place in (environment.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
        if place.startswith("/") and os.path.isdir(place) and os.stat(place).st_uid == os.geteuid():
            return os.path.join(place, "calltap")
    return f"/tmp/calltap-{os.geteuid()}"


def sockets(environment, pid):
    """Names of the sockets of a target."""
    try:
        return [name for name in os.listdir(folder_of(environment)) if name.startswith(f"{pid}-")]
    except FileNotFoundError:
        return []


def connect(folder, name, timeout=PATIENCE):
    """A connection to a socket whose path may be longer than an address."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        client.settimeout(timeout)
        client.connect(f"/proc/self/fd/{place}/{name}")
        return client
    except OSError:
        client.close()
        raise
    finally:
        os.close(place)


class Session:
    """A connection to the session of a target."""

    def __init__(self, environment, pid, tool=None):
        def attempt():
            expect(tool is None or tool.poll() is None, "the tool has ended")
            for name in sockets(environment, pid):
                try:
                    return connect(folder_of(environment), name)
                except OSError as error:
                    expect(error.errno in (errno.ECONNREFUSED, errno.ENOENT, errno.EAGAIN), f"{name}: {error}")
            return None
        self.socket = until(f"a session of process {pid}", attempt)

    def ask(self, verb, *words, fd=None):
        """(code, text) of the answer."""
        self.send(verb, *words, fd=fd)
        packet = self.socket.recv(1 << 16)
        expect(packet, "the session ended instead of an answer")
        head, _, text = packet.partition(b"\n")
        code, _, size = map(int, head.split())
        while len(text) < size:
            packet = self.socket.recv(1 << 16)
            expect(packet, f"the answer ends after {len(text)} of {size} bytes")
            text += packet
        return code, text.decode(errors="replace")

    def send(self, verb, *words, fd=None):
        text = "".join(f"{line}\n" for line in (verb, *words)).encode()
        extra = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self.socket.sendmsg([text], extra)

    def table(self, verb):
        code, text = self.ask(verb)
        expect(code == 0, f"{verb}: {text}")
        return dict(line.split("=", 1) for line in text.splitlines())

    def status(self):
        return {key: int(value) if value.isdigit() else value for key, value in self.table("status").items()}

    def set(self, *words):
        code, text = self.ask("set", *words)
        expect(code == 0, f"set {' '.join(words)}: {text}")

    def close(self):
        self.socket.close()


def mode_of(options):
    """Options with which a case sees all records, however busy the machine is, unless it has other ones."""
    return [] if "--mode" in options else ["--mode", "block"]


class Tool:
    """`calltap attach` to a program, until it is told to detach."""

    def __init__(self, case, program, *options, wait=True, environment=None, says=("-v",), lossless=True, to=None):
        """to: a descriptor for what the tool says, which is closed here; None: a file."""
        self.case, self.program = case, program
        self.environment = environment or case.environment(False)
        self.output = os.path.join(case.folder, "attach.output")
        mode = mode_of(options) if lossless else []
        command = [case.tool, "attach", *says, *mode, "-o", case.trace_path, *options, str(program.pid)]
        with open(self.output, "wb") if to is None else os.fdopen(to, "wb") as file:
            self.process = Process(command, cwd=case.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        self.session = None
        if wait:
            self.wait()

    def wait(self):
        """Until sites are written; also until there are records, if it records any."""
        try:
            self.session = Session(self.environment, self.program.pid, self.process)
            until("sites that are patched", lambda: self.alive() and self.session.status()["sites"])
        except BaseException as error:
            stop(self.process)
            raise Failure(f"{error}; calltap attach said {self.said()!r}") from error

    def alive(self):
        expect(self.process.poll() is None, f"calltap attach ended with {self.process.returncode}")
        return True

    def said(self):
        if not os.path.exists(self.output):
            return ""  # it said it to somebody else
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)

    def records(self, more=1):
        """Until there are that many more records than now."""
        wanted = self.session.status()["records"] + more
        until(f"{more} more records", lambda: self.session.status()["records"] >= wanted)

    def detach(self, how="verb"):
        """End the session in one of the ways there are; the tool must end well, and leave nothing."""
        if how == "verb":
            done = self.case.run([self.case.tool, "detach", str(self.program.pid)])
            expect(done.status == 0, f"calltap detach: {done.stderr!r}; calltap attach said {self.said()!r}")
        elif how == "socket":
            code, text = self.session.ask("detach")
            expect(code == 0, f"detach: {text}")
        else:
            os.kill(self.process.pid, how)
        self.ended()

    def ended(self):
        try:
            status = finish(self.process)
        except Failure as late:
            raise Failure(f"{late}; calltap attach said {self.said()!r}") from late
        if self.session:
            self.session.close()
        expect(status == 0, f"calltap attach ended with {status}: {self.said()!r}")
        expect(not sockets(self.environment, self.program.pid), "the session's socket is still there")


def clean(program, before):
    """After a detach: the text is that of the files, and no descriptor and no thread is left over; the agent's last words
    come a moment before its thread has ended."""
    different = live.differing(program.pid)
    expect(not different, f"text differs from its file: {list(different.items())[:5]}")
    until("the agent's thread to end", lambda: threads(program.pid) == before["threads"], 5)
    expect(descriptors(program.pid) == before["descriptors"],
           f"descriptors were {before['descriptors']}, are {descriptors(program.pid)}")


@contextlib.contextmanager
def left_alone(program):
    """Whatever is done to the program meanwhile, it is as it was afterwards, and ends as it does untraced."""
    before = look(program)
    yield before
    clean(program, before)
    program.end()


def nothing_lost(trace):
    lost = sum(thread.lost for thread in trace.threads.values())
    expect(not lost, f"{lost} records were lost")
    live.check_frames(trace)


def look(program):
    return {"descriptors": descriptors(program.pid), "threads": threads(program.pid)}

"""Other users can do nothing to a session."""
import contextlib
import os

from harness import Skip, expect
from hostile import NOBODY, as_nobody, session_names
from steering import Program, Tool, folder_of, left_alone, sockets
from steer import Recorded, calltap, own_place

BUFFER = "memfd:calltap"


def need_root():
    if os.geteuid():
        raise Skip("only root can become another user")


def stranger(case, script):
    """The output of a script that another user runs."""
    done = case.run(as_nobody(case, script))
    expect(done.status == 0, f"the stranger's script fails: {done.stderr}")
    return done.stdout


CONNECT = """
import socket, sys
for path in {paths!r}:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    try:
        s.connect(path)
        s.send(b"set\\ntracing=off\\n")
        print("in" if s.recv(4096) else "out")
    except OSError as error:
        print("out")
"""


def control_socket(case):
    """The session's socket, on which `calltap set` talks to it: not in the folder, nor with the doors wide open."""
    need_root()
    environment = own_place(case)
    with Recorded(case) as program:
        folder = folder_of(environment)
        name, = sockets(environment, program.pid)
        path = os.path.join(folder, name)
        expect(os.stat(folder).st_mode & 0o777 == 0o700, f"the folder's mode is {os.stat(folder).st_mode:o}")
        expect(os.stat(path).st_mode & 0o777 == 0o600, f"the socket's mode is {os.stat(path).st_mode:o}")
        above = folder
        while above != "/":
            above = os.path.dirname(above)
            expect(os.access(above, os.X_OK), above)
        place = os.open(folder, os.O_RDONLY)
        expect(stranger(case, CONNECT.format(paths=[path])) == "out\n", "a stranger came in")
        os.chmod(folder, 0o777)
        os.chmod(path, 0o777)
        expect(stranger(case, CONNECT.format(paths=[path, f"/proc/{os.getpid()}/fd/{place}/{name}"])) == "out\nout\n",
               "a stranger came in by an open door")
        os.close(place)
        expect(program.session.table("settings")["tracing"] == "on", "a stranger has changed it")
        os.chmod(folder, 0o700)
        program.end()
    case.readable()


TALK = """
import socket
for name in {names!r}:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(10)
    try:
        s.connect("\\0" + name)
        print("in" if s.recv(4096) else "out")
    except OSError:
        print("out")
"""


def agents_socket(case):
    """The socket that agents call, of an attached session."""
    need_root()
    case.need_native("attaching")
    before = session_names()
    with Program(case) as program, Tool(case, program) as tool:
        names = sorted(session_names() - before)
        said = stranger(case, TALK.format(names=names)).split()
        expect(said == ["out"] * len(names), f"a stranger was let in at {names}: {said}")
        tool.records(100)
        tool.detach()
        program.end()
    case.readable()


OPEN = """
for path in {paths!r}:
    for mode in ("rb", "r+b"):
        try:
            open(path, mode).close()
            print("in", path)
        except OSError:
            pass
"""


def buffer_maps(pid):
    """The buffers that a process has mapped; other mappings may go meanwhile."""
    for name in os.listdir(f"/proc/{pid}/map_files"):
        with contextlib.suppress(FileNotFoundError):
            if BUFFER in os.readlink(f"/proc/{pid}/map_files/{name}"):
                yield f"/proc/{pid}/map_files/{name}"


def buffers(case):
    """Neither what is recorded nor what is shared can be opened by others."""
    need_root()
    with Recorded(case) as program:
        paths = [case.trace_path]
        for pid in (program.pid, program.process.pid):
            paths += [f"/proc/{pid}/mem", f"/proc/{pid}/maps"]
            paths += [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd")]
            paths += list(buffer_maps(pid))
        expect(any("map_files" in path for path in paths), "no buffers are found: the test shows nothing")
        said = stranger(case, OPEN.format(paths=paths))
        expect(not said, f"a stranger can open {said}")
        program.end()
    case.readable()


def others_process(case):
    """Somebody else's process cannot be attached to: one sentence, and it has noticed nothing."""
    need_root()
    case.need_native("attaching")
    with Program(case) as program, left_alone(program):
        command = [case.tool, "attach", "-o", "/dev/null", str(program.pid)]
        script = f"import os; os.access({case.tool!r}, os.X_OK) or os._exit(77); os.execv({case.tool!r}, {command!r})"
        done = case.run(as_nobody(case, script))
        if done.status == 77:
            raise Skip("other users cannot run this build")
        expect(done.status == 2 and done.stderr.startswith("calltap: "), f"status {done.status}: {done.stderr!r}")
        expect(done.stderr.count("\n") == 1 and str(program.pid) in done.stderr, f"not one sentence: {done.stderr!r}")


def unsafe(make, word):
    """The folder is not what it should be: the recording goes on without a socket there, and clients say why."""
    def test(case):
        environment = own_place(case)
        folder = folder_of(environment)
        make(case, folder)
        before = sorted(os.listdir(folder)) if os.path.isdir(folder) else None
        said = calltap(case, "status", os.getpid(), status=1)
        expect(said.startswith("calltap: ") and word in said, said)
        done = case.record([case.program("calls.c")], ["-v"], log=False)
        expect(done.status == case.run([case.program("calls.c")]).status, f"status {done.status}: {done.stderr!r}")
        expect(word in done.stderr, f"record does not say it: {done.stderr!r}")
        now = sorted(os.listdir(folder)) if os.path.isdir(folder) else None
        expect(now == before, f"there is something in the folder: {now}")
        case.readable()
    return test


def others_folder(_, folder):
    need_root()
    os.mkdir(folder, 0o700)
    os.chown(folder, NOBODY, NOBODY)


def wide_open(_, folder):
    os.mkdir(folder)
    os.chmod(folder, 0o755)


def link(case, folder):
    other = os.path.join(case.folder, "other")
    os.mkdir(other, 0o700)
    os.symlink(other, folder)


def file(_, folder):
    with open(folder, "w", encoding="utf-8") as made:
        made.write("mine\n")


def others_name(case):
    """Names that somebody has made there before are no sessions, and stay."""
    environment = own_place(case)
    folder = folder_of(environment)
    os.mkdir(folder, 0o700)
    names = [f"{os.getpid()}-{'0' * 16}", "notes", f"1-{'f' * 16}"]
    with open(os.path.join(folder, names[0]), "w", encoding="utf-8"):
        pass
    os.mkdir(os.path.join(folder, names[1]))
    os.symlink("/dev/null", os.path.join(folder, names[2]))
    said = calltap(case, "status", os.getpid(), status=1)
    expect("is not traced by you" in said, f"status takes them for sessions: {said}")
    with Recorded(case) as program:
        expect(len(sockets(environment, program.pid)) == 1, "there is no session")
        program.end()
    expect(os.path.exists("/dev/null") and os.path.isdir(os.path.join(folder, names[1])), "they are gone")


SINGLE = {
    "trust-control-socket": control_socket,
    "trust-agents-socket": agents_socket,
    "trust-buffers": buffers,
    "trust-attach": others_process,
    "trust-folder-of-others": unsafe(others_folder, "belongs to another user"),
    "trust-folder-wide-open": unsafe(wide_open, "can be opened by others"),
    "trust-folder-link": unsafe(link, "symbolic link"),
    "trust-folder-file": unsafe(file, "no folder"),
    "trust-names": others_name,
}

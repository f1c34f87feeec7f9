#!/usr/bin/env python3
"""host/attach on living programs: none of them may notice, however often a stand-in of the agent is brought in, threads are
stopped, or the tool is killed.

attach_test.py TOOL AGENT VICTIM... [--case NAME] [--times N] [--musl].  Skips (77) where ptrace is not allowed.
--musl: the victims link musl, and the agent for them lies beside AGENT, whose name it has with "-musl" behind."""
import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SKIP = 77
CASES = {}
NEED_TABLES = {"frames"}  # libc's own, for unwinding; musl has none


def case(function):
    CASES[function.__name__] = function
    return function


class Failure(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


class Setting:
    def __init__(self, tool, agent, victims, times, folder, musl):
        self.tool_path, self.agent, self.times, self.folder, self.musl = tool, agent, times, folder, musl
        self.victims = {os.path.basename(path): path for path in victims}
        self.sessions = 0

    def tool(self, verb, pid, *arguments, prefix=(), timeout=120):
        result = subprocess.run([*prefix, self.tool_path, verb, str(pid), *map(str, arguments)], timeout=timeout,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return result.stdout.strip()

    def session(self):
        self.sessions += 1
        return os.path.join(self.folder, f"called-{self.sessions}")

    def loaded(self, agent):
        """The path of the agent that the program loads."""
        return agent.removesuffix(".so") + "-musl.so" if self.musl else agent

    def inject(self, pid, session=None, agent=None):
        """Run the tool; returns its output. The session's file has the ids of the threads that called the agent."""
        return self.tool("inject", pid, agent or self.agent, session or self.session())


class Victim:
    """A program of test/prog; its end must say "ok"."""

    def __init__(self, setting, name, *arguments, prefix=()):
        self.process = subprocess.Popen([*prefix, setting.victims[name], *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        check(self.process.stdout.readline() == "ready\n", f"{name} does not start")

    def end(self):
        output = self.process.communicate(timeout=60)[0]
        check(self.process.returncode == 0 and output.splitlines()[-1].startswith("ok "),
              f"status {self.process.returncode}, output {output!r}")
        return output

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def wait_for(pid, condition, text):
    """Wait until condition() holds of the process; 30 s at the most."""
    deadline = time.monotonic() + 30
    while not condition():
        check(time.monotonic() < deadline, f"process {pid}: {text}")
        time.sleep(0.005)


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(") ")[2][0]


def calls(session):
    with open(session, encoding="utf-8") as file:
        return file.read().splitlines()


def inject_often(setting, victim, times, pause=0.0):
    session = setting.session()
    for number in range(times):
        said = setting.inject(victim.pid, session)
        check(said.startswith("0 tid"), f"injection {number}: {said}")
        time.sleep(pause)
    found = calls(session)
    check(len(found) == times, f"{times} injections, {len(found)} calls")
    check(all(line.endswith(" 1 1") for line in found), f"thread pointer or stack is not known: {found[-1]}")
    said = setting.tool("text", victim.pid)
    check(said == "0 pages changed", said)


@case
def registers(setting):
    with Victim(setting, "attached_registers") as victim:
        inject_often(setting, victim, setting.times)
        for _ in range(setting.times // 4):
            check(setting.tool("stop", victim.pid, 1).startswith("0 "), "stop")
        victim.end()


@case
def waits(setting):
    with Victim(setting, "attached_waits") as victim:
        inject_often(setting, victim, setting.times // 4, 0.1)
        for _ in range(setting.times // 4):
            check(setting.tool("stop", victim.pid, 1).startswith("0 "), "stop")
            time.sleep(0.1)
        victim.end()


def mappings(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return file.read().splitlines()


@case
def loads(setting):
    """Any library, in the same way: nothing of it is called, and of ours nothing is left, the memory neither."""
    library = setting.loaded(setting.agent)
    for name in ("attached_waits", "attached_busy", "attached_registers"):
        with Victim(setting, name) as victim:
            counts = set()
            for _ in range(setting.times // 10):
                said = setting.tool("load", victim.pid, library)
                check(re.fullmatch(r"0 tid \d+ resident 0 memfd 0", said), said)
                counts.add(sum(not re.search(r"\[|/| [rwx-]{3}p .* 0 +$", line) for line in mappings(victim.pid)))
            check(any(library in line for line in mappings(victim.pid)), "it is not mapped")
            check(max(counts) - min(counts) < 2, f"so many mappings: {counts}")
            said = setting.tool("load", victim.pid, __file__)
            check("does not take" in said and ("Exec format" if setting.musl else "invalid ELF header") in said, said)
            said = setting.tool("load", victim.pid, "/nowhere")
            check("/nowhere cannot be read" in said, said)
            said = setting.tool("text", victim.pid)
            check(said == "0 pages changed", said)
            victim.end()


@case
def waits_alone(setting):
    """Each kind of wait is once the only one, so that the tool borrows that thread."""
    for way in ("epoll_wait", "poll", "ppoll", "nanosleep", "sem_timedwait", "futex", "sigtimedwait", "recv"):
        with Victim(setting, "attached_waits", way) as victim:
            inject_often(setting, victim, 3, 0.1)
            victim.end()


def transferred(setting, victim, *arguments, wait):
    """Run the tool beside one transfer, whose rest comes after 0.1 s, or when the tool has ended. Returns what the call
    returned, and how many calls the tool has cut short."""
    time.sleep(0.1)  # the thread is in its call again
    with subprocess.Popen([setting.tool_path, arguments[0], str(victim.pid), *arguments[1:]],
                          stdout=subprocess.PIPE, text=True) as tool:
        if wait:
            time.sleep(0.1)
        else:
            tool.wait(timeout=30)
        victim.process.stdin.write("x")
        victim.process.stdin.flush()
        got = victim.process.stdout.readline().strip()
        said = tool.communicate(timeout=30)[0]
    check(said.startswith("0 t"), said)
    return got, int(re.search(r"cut short (\d+)", said).group(1))


@case
def transfers(setting):
    """A call that has moved a part of its data is waited for. If the wait is too short for a slow machine, or a call that
    does not end in time, the tool tells that it was cut short. On a busy machine the tool may stop the thread in its next
    call, which the test reads of in the next round: so what was told up to a round is compared with what was cut."""
    for way in ("write", "send", "recv"):
        whole, parts, told, rounds = 0, 0, 0, max(setting.times // 20, 3)

        def check_told():
            check(parts <= told, f"{way}: {parts} calls returned a part, the last of them {got!r}; {told} were told")

        with Victim(setting, "attached_transfers", way) as victim:
            for number in range(20):  # until the tool has come between two calls
                got, cut = transferred(setting, victim, "stop", "1", wait=True)
                whole, parts, told = whole + (got == "whole"), parts + (got != "whole"), told + cut
                check_told()
                if whole and number + 1 >= rounds:
                    break
            for _ in range(20):  # until the tool has not come between two calls
                got, cut = transferred(setting, victim, "inject", setting.agent, setting.session(), wait=False)
                parts, told = parts + (got != "whole"), told + cut
                check_told()
                if got != "whole":
                    break
            check(got.startswith("part "), f"{way}: {got}")
            victim.end()
        check(whole, f"{way}: none of {number + 1} calls was whole")


@case
def busy(setting):
    with Victim(setting, "attached_busy") as victim:
        inject_often(setting, victim, setting.times // 4)
        victim.end()


def busy_with(setting, way):
    for _ in range(max(setting.times // 40, 1)):
        with Victim(setting, "attached_busy", way) as victim:
            inject_often(setting, victim, 2)
            for _ in range(5):
                check(setting.tool("stop", victim.pid, 1).startswith("0 "), "stop")
            victim.end()


for each in ("allocate", "threads", "signals", "fork", "spawn", "vfork", "load"):
    CASES["busy_" + each] = lambda setting, way=each: busy_with(setting, way)


@case
def asleep(setting):
    """A parent in vfork() sleeps uninterruptibly; it counts as stopped, and so does its child."""
    with Victim(setting, "attached_busy", "vfork") as victim:
        seen = 0
        for _ in range(20):
            said = setting.tool("stop", victim.pid, 1)
            found = re.match(r"0 threads (\d+) asleep (\d+)", said)
            check(found, said)
            if found.group(2) == "1":
                seen += 1
                check(int(found.group(1)) >= 3, f"the child is not held: {said}")
        check(seen, "no stop met a vfork")
        victim.end()


@case
def kills(setting):
    # No children: one that ends while only some threads are held may end another's call (doc/design/attach.md).
    for name in (("attached_registers",), ("attached_waits", "childless")):
        with Victim(setting, *name) as victim:
            said = setting.tool("kills", victim.pid, setting.agent, setting.session(), setting.times, timeout=300)
            check(said.splitlines()[-1].startswith("0 "), said)
            inject_often_after_kills(setting, victim)
            victim.end()


def inject_often_after_kills(setting, victim):
    """Threads that wait for a tool that is gone come back by themselves; then the text can be made clean."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        restored = setting.tool("restore", victim.pid)
        check(restored.split()[0].isdigit(), restored)
        if setting.tool("text", victim.pid) == "0 pages changed":
            break
        time.sleep(0.3)
    inject_often(setting, victim, 1)


@case
def breaks(setting):
    """A signal that comes while the thread is borrowed ends its call as it would have."""
    for way, wanted in (("read", "-1 EINTR handled 1"), ("epoll_wait", "-1 EINTR handled 1"),
                        ("epoll_pwait", "-1 EINTR handled 1"), ("ppoll", "-1 EINTR handled 1"),
                        ("poll", "-1 EINTR handled 1"), ("nanosleep", "-1 EINTR handled 1"),
                        ("sigsuspend", "-1 EINTR handled 1"), ("read-restart", "1 - handled 1")):
        with Victim(setting, "attached_breaks", way) as victim:
            wait_for(victim.pid, lambda pid=victim.pid: state(pid) == "S", "does not wait")
            tool = subprocess.Popen([setting.tool_path, "inject", str(victim.pid), setting.agent,
                                     setting.session() + "-slow"], stdout=subprocess.PIPE, text=True)
            time.sleep(0.2)
            os.kill(victim.pid, signal.SIGUSR1)
            said = tool.communicate(timeout=30)[0]
            # The victim may have ended before the tool saw that the thread was back.
            check(said.startswith(("0 tid", "-3 ")), f"{way}: {said}")
            if "restart" in way:
                time.sleep(0.3)
                victim.process.stdin.write("x")
            got = victim.process.communicate(timeout=30)[0].strip()
            check(got == wanted, f"{way}: {got!r} instead of {wanted!r}")


@case
def loader_refuses(setting):
    with Victim(setting, "attached_waits") as victim:
        broken = os.path.join(setting.folder, "broken.so")
        with open(setting.loaded(setting.agent), "rb") as file:
            data = bytearray(file.read())
        if setting.musl:
            data[16] = 1  # e_type: no library; of e_machine its loader takes any
        else:
            data[18] = 3  # e_machine: another CPU's
        with open(setting.loaded(broken), "wb") as file:
            file.write(data)
        said = setting.inject(victim.pid, agent=broken)
        check(said.startswith("-") and "loader of process" in said and "broken" in said, said)
        said = setting.inject(victim.pid, setting.session() + "-refuse")
        check(said.endswith("as it was told"), said)
        inject_often(setting, victim, 2)
        said = setting.inject(victim.pid, agent="/nonexistent.so")
        check(said.startswith("0 tid") and "resident 1" in said, said)
        victim.end()


def child(act):
    """A child that has called act(), and then sleeps. Returns its pid once act() has returned."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        act()
        os.write(write, b"x")
        time.sleep(60)
        os._exit(0)
    os.close(write)
    acted = os.read(read, 1)
    os.close(read)
    check(acted, "the child has ended early")
    return pid


def traced_child():
    """A process that this one traces."""
    return child(lambda: ctypes.CDLL(None).ptrace(0, 0, 0, 0))


def enter_filter():
    """Install a seccomp filter that allows everything."""
    libc = ctypes.CDLL(None)
    allow = ctypes.create_string_buffer(b"\x06\0\0\0\0\0\xff\x7f", 8)

    class Program(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(1, ctypes.addressof(allow))
    libc.prctl(38, 1, 0, 0, 0)
    libc.prctl(22, 2, ctypes.byref(program), 0, 0)


def sandboxed_child():
    return child(enter_filter)


def ended_child():
    """A child that has ended, and that nobody has waited for."""
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


@case
def refusals(setting):
    def refused(pid, *words, prefix=()):
        said = setting.tool("check", pid, prefix=prefix)
        check(said.startswith("-") and all(word in said for word in words), f"{words}: {said}")

    refused(2 ** 22 + 1, "there is no process")
    for make, words in ((traced_child, ("is being traced by process", "end that one")),
                        (sandboxed_child, ("seccomp",)), (ended_child, ("has ended",))):
        pid = make()
        try:
            refused(pid, *words)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    with Victim(setting, "attached_waits") as victim:
        check(setting.tool("check", victim.pid).startswith("0 "), "it can be")
        thread = max(map(int, os.listdir(f"/proc/{victim.pid}/task")))
        refused(thread, f"attach to {victim.pid}")
        if os.geteuid() == 0 and shutil.which("setpriv"):
            copy = os.path.join(setting.folder, "tool")
            shutil.copy(setting.tool_path, copy)
            os.chmod(setting.folder, 0o755)
            said = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all", copy, "check",
                                   str(victim.pid)], stdout=subprocess.PIPE, text=True, check=False).stdout
            check("user 0's" in said, said)
        victim.end()
    with Victim(setting, "attached_busy", "none") as victim:
        os.kill(victim.pid, signal.SIGSTOP)
        wait_for(victim.pid, lambda: state(victim.pid) == "T", "does not stop")
        refused(victim.pid, f"kill -CONT {victim.pid}")
        os.kill(victim.pid, signal.SIGCONT)
        victim.end()
    if os.path.exists("/proc/2/stat") and os.stat("/proc/2").st_uid == 0 and not os.path.exists("/proc/2/exe"):
        refused(2, "kernel")
    if shutil.which("gcc"):
        static = os.path.join(setting.folder, "static")
        source = static + ".c"
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <unistd.h>\nint main(void)\n{\n\tpause();\n}\n")
        if not subprocess.run(["gcc", "-static", "-o", static, source], stderr=subprocess.DEVNULL, check=False).returncode:
            with subprocess.Popen([static]) as process:  # returns once the program is executed
                try:
                    said = setting.tool("check", process.pid)
                finally:
                    process.kill()
                check(said.startswith("0 "), said)  # whether its functions are known is asked later


@case
def beside_another(setting):
    """Tools that stop all threads again and again, and let them go, are in nobody's way, nor anybody in theirs."""
    over, others = threading.Event(), []

    def stop_often():
        while not over.is_set():
            others.append(setting.tool("stop", victim.pid, 100))

    with Victim(setting, "attached_waits", "childless") as victim:  # as in kills()
        other = threading.Thread(target=stop_often)
        other.start()
        try:
            for _ in range(setting.times // 2):
                said = setting.tool("check", victim.pid)
                check(said.startswith("0 "), said)
        finally:
            over.set()
            other.join()
        # On a busy machine, a tool that is always late is told that another one traces the process.
        check(all(said.startswith(("0 threads", f"-{errno.EBUSY} ")) for said in others), others)
        victim.end()


def open_files(pid):
    """What a process has open; it may close some meanwhile."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(f"/proc/{pid}/fd/{fd}")


@case
def namespaces(setting):
    """A victim with another file system, other process ids, another network: a memfd, other tids, a socket in there."""
    if os.geteuid() or subprocess.run(["unshare", "-m", "-n", "-p", "-f", "true"], stderr=subprocess.DEVNULL,
                                      check=False).returncode:
        return "not permitted"
    bare = f"mount -t tmpfs none '{setting.folder}' && mount -t proc none /proc && exec"
    inside, agent, session = (os.path.join(setting.folder, name) for name in ("inside", "agent.so", "called"))
    shutil.copy(setting.victims["attached_waits"], inside)
    shutil.copy(setting.loaded(setting.agent), setting.loaded(agent))
    with open(inside, "rb") as program:
        process = subprocess.Popen(["unshare", "-m", "-n", "-p", "-f", "--propagation", "private", "sh", "-c",
                                    f"{bare} /proc/self/fd/{program.fileno()}"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, pass_fds=[program.fileno()])
        check(process.stdout.readline() == "ready\n", "it does not start")
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
        pid = int(file.read())
    said = setting.tool("inject", pid, agent, session)
    check(said.startswith("0 tid") and "memfd 1" in said, said)
    check(len(calls(f"/proc/{pid}/root{session}")) == 1, "it was not called")
    check(not os.path.exists(session), "it was called in our file system")
    said = setting.tool("inject", pid, agent, session)
    check(said.startswith("0 tid") and "resident 1" in said, said)
    check("memfd" not in "".join(open_files(pid)), "the memfd is still open")
    name = f"calltap-test-{os.getpid()}"
    with subprocess.Popen([setting.tool_path, "socket", str(pid), name], stdout=subprocess.PIPE) as tool:
        listens = tool.stdout.readline()
        with open(f"/proc/{pid}/net/unix", encoding="utf-8") as file:
            theirs = "@" + name in file.read()
        with open("/proc/net/unix", encoding="utf-8") as file:
            ours = "@" + name in file.read()
        tool.kill()
    check(theirs and not ours, f"the socket is in the wrong namespace: {theirs} {ours} {listens}")
    output = process.communicate(timeout=60)[0]
    check(output.startswith("ok "), output)
    return None


@case
def frames(setting):
    with Victim(setting, "attached_waits") as victim:
        wanted = (r"thread \d+ complete:.* epoll_wait do_epoll_wait wait_on ",
                  rf"thread {victim.pid} complete:.* main ")
        said = []

        def unwound():  # once all threads wait
            said[:] = setting.tool("unwind", victim.pid).splitlines()
            return all(any(re.match(pattern, line) for line in said) for pattern in wanted)

        wait_for(victim.pid, unwound, said)
        victim.end()


@case
def many_threads(setting):
    with Victim(setting, "attached_busy", "idle", "1000", "none") as victim:
        for _ in range(3):
            said = setting.tool("scan", victim.pid, 100000)
            # A machine that is busy with other things may need longer than is allowed.
            check(said.startswith(("0 threads 1001", "-110 ")), said)
        print(said)
        inject_often(setting, victim, 2)
        victim.end()


def may_trace(setting):
    with subprocess.Popen(["sleep", "60"]) as process:
        said = setting.tool("check", process.pid)
        process.kill()
    return said.startswith("0 "), said


def option(arguments, name, default):
    if name not in arguments:
        return default
    at = arguments.index(name)
    value = arguments[at + 1]
    del arguments[at:at + 2]
    return value


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--musl"]
    wanted, times = option(arguments, "--case", None), int(option(arguments, "--times", "200"))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(arguments[0], os.path.abspath(arguments[1]), arguments[2:], times, folder, "--musl" in sys.argv)
        allowed, said = may_trace(setting)
        if not allowed:
            print(f"skipped: {said}")
            return SKIP
        for name, function in CASES.items():
            if (wanted and name != wanted) or (setting.musl and name in NEED_TABLES):
                continue
            began = time.monotonic()
            try:
                text = function(setting) or "ok"
            except (Failure, subprocess.TimeoutExpired, OSError) as failure:
                text, failed = f"FAILED: {failure}", failed + 1
            print(f"{name}: {text} ({time.monotonic() - began:.1f} s)", flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

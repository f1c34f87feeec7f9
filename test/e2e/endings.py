"""Ends of a recording: the program's own end in every way, and either side killed while it runs."""
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time

from harness import Failure, Process, Skip, expect, stop, until


def ends(*arguments):
    def test(case):
        case.same_as_plain([case.program("ends.c"), *arguments])
        trace = case.trace()
        case.compare(trace, prefix=True)
        case.readable()
    return test


def each_thread(case):
    """No exit_group(): each thread ends by itself.  An emulator's own exit status is that of its main thread."""
    case.need_native("the last thread's status is the program's")
    ends("each_thread", "11")(case)


def every_status(case):
    """Exit statuses 0 to 255 in steps that hit the odd ones."""
    program = case.program("ends.c")
    for number in (0, 1, 2, 3, 42, 77, 99, 124, 126, 127, 128, 129, 137, 139, 200, 254, 255):
        outcome = case.record([program, "exit", str(number)], log=False)
        expect(outcome.status == number, f"exit status {outcome.status}, the program's own is {number}")


def start(case, command):
    """Start a command in a process group of its own, its output to a file."""
    output = os.path.join(case.folder, "output")
    with open(output, "wb") as file:
        return output, Process(command, cwd=case.folder, env=case.environment(False), stdin=subprocess.DEVNULL,
                               stdout=file, stderr=subprocess.STDOUT, start_new_session=True)


def wait_for(output, word, seconds=20):
    """The line of the output that holds the word, as soon as it is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with open(output, encoding="utf-8", errors="replace") as file:
            for line in file.read().split("\n")[:-1]:
                if word in line:
                    return line
        time.sleep(0.02)
    with open(output, encoding="utf-8", errors="replace") as file:
        raise Failure(f"no '{word}' within {seconds} s; the output is {file.read()[-300:]!r}")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


def finish(process, seconds=20):
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        stop(process)
        raise Failure(f"record still runs {seconds} s after the program's end") from None


def program_killed(case):
    """kill -9 of the program: what was in the buffers is in the file."""
    output, process = start(case, case.record_command([case.program("spin.c"), "20000"]))
    try:
        pid = int(wait_for(output, "running").split()[1])
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        status = finish(process)
    finally:
        stop(process)
    expect(status in (-9, 137), f"exit status {status}, not that of a kill")
    called = case.trace().called()
    expect(called.get("step", 0) > 1000, f"only {called} in the trace")
    case.readable()


def tool_killed(case):
    """kill -9 of the tool: the program goes on to its normal end."""
    for delay in (0.0, 0.1, 0.3):
        output, process = start(case, case.record_command([case.program("spin.c"), "1000"]))
        try:
            wait_for(output, "running")
            time.sleep(delay)
            process.kill()
            process.wait()
            wait_for(output, "done well")
        finally:
            stop(process)
    told = case.run([case.tool, "info", "--json", "-i", case.trace_path])
    expect(json.loads(told.stdout)["duration_ns"] > 0, f"info says {told.stdout[:300]!r}")


def tool_stopped(case):
    """SIGSTOP of the tool: the program waits a bounded time at most, then ends as ever."""
    output, process = start(case, case.record_command([case.program("spin.c"), "1500"]))
    try:
        wait_for(output, "running")
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(output, "done well", 30)
        os.kill(process.pid, signal.SIGCONT)
        status = finish(process)
    finally:
        stop(process)
    expect(status == 0, f"exit status {status}")
    case.readable()


def stopped_executes(case):
    """SIGSTOP of the tool: programs that are executed meanwhile run untraced, and wait for it for a moment alone."""
    case.need_native("as many programs in that time")
    program = case.program("calls.c")
    script = f"echo running; sleep 1; for i in 1 2 3 4 5 6; do {program} > /dev/null; done; echo done well"
    output, process = start(case, case.record_command(["sh", "-c", script], ["--allow-no-sites"]))
    try:
        wait_for(output, "running")
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(output, "done well", 100)  # one alone that waits for an answer waits for 20
        os.kill(process.pid, signal.SIGCONT)
        finish(process)
    finally:
        stop(process)


def interrupted(case):
    """^C: both get SIGINT; the trace is complete."""
    output, process = start(case, case.record_command([case.program("spin.c"), "20000"]))
    try:
        wait_for(output, "running")
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        status = finish(process)
    finally:
        stop(process)
    expect(status in (-2, 130), f"exit status {status}, not that of an interrupt")
    expect(case.trace().called().get("step", 0) > 1000, "the trace is empty")
    case.readable()


def hung_up(case):
    """SIGHUP of the tool alone: the trace is complete, and the program goes on; under nohup nothing ends."""
    output, process = start(case, case.record_command([case.program("spin.c"), "2000"]))
    try:
        wait_for(output, "running")
        time.sleep(0.3)
        process.send_signal(signal.SIGHUP)
        status = finish(process)
        with open(output, encoding="utf-8", errors="replace") as file:
            expect("done well" not in file.read(), "the tool waited for the program's end")
        wait_for(output, "done well")
    finally:
        stop(process)
    expect(status == 130, f"exit status {status}, not that of a program that still runs")
    trace = case.trace()
    expect(trace.called().get("step", 0) > 1000, "the trace is empty")
    case.readable()
    output, process = start(case, ["nohup", *case.record_command([case.program("spin.c"), "500"])])
    try:
        wait_for(output, "running")
        process.send_signal(signal.SIGHUP)
        status = finish(process)
        wait_for(output, "done well")
    finally:
        stop(process)
    expect(status == 0, f"exit status {status} under nohup")


def own_group(case):
    """Signals that the program sends to its process group, which is the tool's: each comes to the program alone, and once.
    SIGUSR1 does not end the tool, whoever sends it."""
    case.need_native("signals to a process group")
    command = [case.program("group.c")]
    told = []
    for verb in (command, case.record_command(command)):
        output, process = start(case, verb)
        try:
            status = finish(process)
        finally:
            stop(process)
        with open(output, encoding="utf-8", errors="replace") as file:
            told.append((status, file.read()))
    expect(told[0] == told[1] and told[0][0] == 7, f"untraced and traced: {told}")
    expect(case.trace().called().get("send_to_group") == 45 + 14, f"calls: {case.trace().called()}")
    output, process = start(case, case.record_command([case.program("spin.c"), "2000"]))
    try:
        wait_for(output, "running")
        process.send_signal(signal.SIGUSR1)
        expect(finish(process) == 0, "somebody else's SIGUSR1 has ended the tool")
        wait_for(output, "done well", 0.1)
    finally:
        stop(process)


def early_kills(case):
    """kill -9 of the program or the tool at many moments, starting before the first instruction."""
    program = case.program("spin.c")
    for number in range(20):
        output, process = start(case, case.record_command([program, "150"]))
        try:
            time.sleep(number * 0.004)
            if number % 2:
                process.kill()
                process.wait()
                if os.path.getsize(output):
                    wait_for(output, "done well")
            else:
                os.kill(process.pid, signal.SIGTERM)
                finish(process)
        finally:
            stop(process)


def full_disk(case):
    """The disk fills up while recording: one sentence, a trace that can be read, and a program that is not hurt."""
    disk = os.path.join(case.folder, "disk")
    os.mkdir(disk)
    plain = case.run([case.program("jumps.c"), "30000"])
    command = shlex.join(case.record_command([case.program("jumps.c"), "30000"]))
    command = command.replace(case.trace_path, os.path.join(disk, "trace"))
    script = (f"mount -t tmpfs -o size=64k none {shlex.quote(disk)} || exit 77\n{command}\nstatus=$?\n"
              f"cp {shlex.quote(disk)}/trace {shlex.quote(case.trace_path)}\nexit $status\n")
    outcome = case.run(["unshare", "-m", "sh", "-c", script])
    if outcome.status in (1, 77, 126, 127) and not os.path.exists(case.trace_path):
        raise Skip(f"a file system of its own cannot be mounted here: {outcome.stderr.strip()[-100:]}")
    expect(outcome.stdout == plain.stdout, f"the program printed {outcome.stdout[-200:]!r}")
    expect("space" in outcome.stderr, f"no message: {outcome.stderr!r}")
    expect(case.trace(complete=False).called(), "nothing of the trace was kept")


def special_file(case):
    """-o names a device: it is written to or refused, but never renamed or replaced."""
    device = os.path.join(case.folder, "null")
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except OSError as error:
        raise Skip(f"no device can be made here: {error.strerror}") from error
    case.trace_path = device
    case.record([case.program("calls.c")], log=False)
    expect(stat.S_ISCHR(os.stat(device).st_mode), "the device was replaced by a file")


def among_forks(case):
    """Recordings of a program that forks all the time: whatever the last children are at when one ends, that is no failure."""
    case.need_native("attaching")
    with Process([case.program("forking.c")], cwd=case.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        pid = program.stdout.readline().split()[1]
        for _ in range(24):
            done = case.run([case.tool, "attach", "--mode", "drop", "--duration", "50ms", "-o", case.trace_path, pid])
            expect(done.status == 0, f"status {done.status}: {done.stderr}")
        said = program.communicate("", timeout=20)[0]
        expect(program.returncode == 0 and said == "unwell 0\n", f"status {program.returncode}: {said!r}")
    case.readable()


def threshold(case):
    """Recording ends while threads make calls, each of which is to be left out: none stays in the trace without its end."""
    case.need_native("attaching")
    with Process([case.program("borrowed.c"), "churns"], cwd=case.folder, stdout=subprocess.PIPE, text=True) as program:
        try:
            pid = program.stdout.readline().split()[1]
            for _ in range(6):
                done = case.run([case.tool, "attach", "-t", "1s", "--mode", "drop", "--duration", "100ms", "-o", case.trace_path, pid])
                expect(done.status == 0, f"status {done.status}: {done.stderr}")
                rows = json.loads(case.run([case.tool, "report", "--json", "--limit", "0", "-i", case.trace_path]).stdout)["rows"]
                left = {row["function"]: row["unfinished"] for row in rows if row["unfinished"] and row["function"] == "call"}
                expect(sum(left.values()) <= 16, f"calls of which no end is in the trace: {left}")
        finally:
            program.terminate()
            stop(program)


def leaves_strangers_alone(case, command):
    """The tool looks into the memory of no process that was there before: the kernel waits, without an end, where one's
    mappings are locked by a thread that waits for a file system, and with it whoever reads them."""
    strace = shutil.which("strace")
    if not strace:
        raise Skip("strace is not installed")
    log = os.path.join(case.folder, "calls")
    done = case.run([strace, "-o", log, "-e", "trace=openat", *command])
    expect(done.status == 0, f"it ends with {done.status}: {done.stderr[-300:]}")
    with open(log, encoding="utf-8", errors="replace") as file:
        opened = {name for pid, name in re.findall(r'"/proc/(\d+)/(\w+)', file.read()) if int(pid) == os.getpid()}
    expect("stat" in opened, "the tool has not looked which processes there are")
    expect(not opened - {"stat", "task"}, f"of the process of this test it has opened {opened}")


def strangers(case):
    leaves_strangers_alone(case, case.record_command([case.program("calls.c")]))


def strangers_at_a_detach(case):
    case.need_native("programs as distributed")
    output, tool = start(case, [case.tool, "record", "-o", case.trace_path, "--", "/bin/sh", "-c", "echo $$ runs; exec sleep 60"])
    pid = wait_for(output, "runs").split()[0]
    try:
        until("the program", lambda: os.readlink(f"/proc/{pid}/exe").endswith("sleep"))
        leaves_strangers_alone(case, [case.tool, "detach", pid])
        finish(tool)
    finally:
        stop(tool)
        os.kill(int(pid), signal.SIGKILL)


def left_processes(number):
    """The program has ended, and a process that it has left is traced on: then the first signal ends the recording."""
    def test(case):
        shell = "sleep 60 & echo $! left"
        output, tool = start(case, case.record_command(["/bin/sh", "-c", shell], ["--allow-no-sites", "-l", "*:*"]))
        left = int(wait_for(output, "left").split()[0])
        try:
            until("the end of the command", lambda: not children_of(tool.pid))
            expect(tool.poll() is None, "the recording has ended with the command")
            os.kill(tool.pid, number)
            expect(finish(tool) == 0, f"status {tool.returncode}")
            os.kill(left, 0)  # runs on
        finally:
            stop(tool)
            os.kill(left, signal.SIGKILL)
    return test


SINGLE = {
    "end-left-term": left_processes(signal.SIGTERM),
    "end-left-interrupt": left_processes(signal.SIGINT),
    "end-strangers": strangers,
    "end-strangers-detach": strangers_at_a_detach,
    "end-among-forks": among_forks,
    "end-threshold": threshold,
    "end-return": ends("return", "5"),
    "end-exit": ends("exit", "3"),
    "end-_exit": ends("_exit", "4"),
    "end-quick_exit": ends("quick_exit", "6"),
    "end-abort": ends("abort"),
    "end-segv": ends("segv", "16"),
    "end-trap": ends("trap"),
    "end-term": ends("raise", str(int(signal.SIGTERM))),
    "end-kill": ends("kill", "9"),
    "end-thread_exit": ends("thread_exit"),
    "end-each_thread": each_thread,
    "end-status": every_status,
    "program-killed": program_killed,
    "tool-killed": tool_killed,
    "tool-stopped-executes": stopped_executes,
    "interrupted": interrupted,
    "hung-up": hung_up,
    "own-group": own_group,
    "early-kills": early_kills,
    "full-disk": full_disk,
    "special-file": special_file,
}
LONG = {"tool-stopped": tool_stopped}

"""Output to a terminal: colour, the pager; and a reader that goes away."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

import tracetext


def on_terminal(bench, *arguments, columns=0, status=0, command=None, **variables):
    """Output of the command on a pseudo terminal of so many columns (0: it does not know); without progress, which a slow
    machine has, if it is not asked for."""
    variables = {"CALLTAP_PROGRESS_DELAY": "100000"} | variables
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))
    process = subprocess.Popen(command or [bench.calltap, *arguments], cwd=bench.folder, env=bench.environment | variables,
                               stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    output = b""
    while select.select([ours], [], [], 20)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(ours)
    assert process.wait(timeout=20) == status, output
    return output.decode()


def check_a_terminal_gets_colours_and_a_pipe_none(bench):
    assert "\033[" in on_terminal(bench, "replay", "-i", "graph", "--no-pager")
    assert b"\033" not in bench.run("replay", "-i", "graph").stdout
    assert b"\033[" in bench.run("replay", "-i", "graph", "--color=always").stdout


def check_no_color_and_never_turn_colours_off(bench):
    assert "\033" not in on_terminal(bench, "report", "-i", "graph", "--no-pager", NO_COLOR="1")
    assert "\033" not in on_terminal(bench, "report", "-i", "graph", "--no-pager", "--color=never")
    assert "\033[" in on_terminal(bench, "report", "-i", "graph", "--no-pager")


def check_the_pager_is_used_on_a_terminal_only(bench):
    assert "main() {" in on_terminal(bench, "replay", "-i", "graph", PAGER="cat")
    assert "PAGED" in on_terminal(bench, "replay", "-i", "graph", PAGER="sed s/main/PAGED/")
    assert "PAGED" not in on_terminal(bench, "replay", "-i", "graph", "--no-pager", PAGER="sed s/main/PAGED/")
    assert "PAGED" not in on_terminal(bench, "info", "--json", "-i", "graph", PAGER="sed s/demo/PAGED/")


def check_calltap_pager_comes_before_pager(bench):
    assert "OURS" in on_terminal(bench, "replay", "-i", "graph", CALLTAP_PAGER="sed s/main/OURS/", PAGER="sed s/main/PAGED/")
    assert "main() {" in on_terminal(bench, "replay", "-i", "graph", CALLTAP_PAGER="", PAGER="sed s/main/PAGED/")


def check_a_pager_that_cannot_be_started_is_told(bench):
    with open(bench.calltap, "rb") as file:
        is_program = file.read(4) == b"\x7fELF"  # and no script that emulates it
    for verb in ("replay", "report", *(["functions"] if is_program else [])):
        source = ["-i", "graph"] if verb != "functions" else [bench.calltap]
        output = on_terminal(bench, verb, *source, status=1, CALLTAP_PAGER="no-such-pager")
        assert "the pager 'no-such-pager' cannot be started" in output, output


def check_a_pager_that_quits_early_ends_quietly(bench):
    output = on_terminal(bench, "replay", "-i", "small", PAGER="head -1")
    assert output.splitlines() == ["# tracer: function_graph"] or output.startswith("\033"), output
    assert "calltap:" not in output


def check_a_reader_that_goes_away_ends_quietly(bench):
    for verb in ("replay", "export --format json", "export --format chrome"):
        result = subprocess.run(["sh", "-c", f"'{bench.calltap}' {verb} -i small | head -c 1 >/dev/null"],
                                cwd=bench.folder, stderr=subprocess.PIPE, check=False, timeout=60)
        assert not result.stderr, result.stderr


def table(bench, columns, *arguments):
    return on_terminal(bench, "report", "-i", "long", "--no-pager", *arguments, columns=columns, NO_COLOR="1").split("\r\n")[:-1]


def check_a_report_is_as_wide_as_the_terminal(bench):
    bench.write("long", tracetext.make("process 0 100 /usr/bin/demo 0\nthread 0 0 100 demo\nfunction 0 main\n"
                                       "function 1 _ZNK3app5CacheISt3mapIilEE4findERKSsm\n0 1000 entry 0\n"
                                       "0 1100 entry 1\n0 1300 exit 1\n0 2000 exit 0\nend 0\n"))
    piped = bench.run("report", "-i", "long").stdout.decode().split("\n")[:-1]
    demangled = piped[2][piped[2].index("app::"):]
    assert demangled.startswith("app::Cache<std::map<int, long") and demangled.endswith(") const"), demangled
    for columns in (0, 76, 80, 100, 120):
        for lines in (table(bench, columns), table(bench, columns, "--sort", "min")):
            assert max(len(line) for line in lines) <= (columns or 80), lines
            assert all(title in lines[0].split() for title in ("Calls", "Total", "Self", "%", "Function")), lines
            assert lines[2].endswith(" const") and " app::" in lines[2], lines
    assert "Min" in table(bench, 80, "--sort", "min")[0] and "Min" not in table(bench, 80)[0]
    assert table(bench, 300) == piped, table(bench, 300)
    assert "app::Cache<...>::find(...) const" in table(bench, 80)[2], table(bench, 80)


def said(bench, *arguments, output="out", **variables):
    """What comes on a terminal that standard error is, while standard output is a file."""
    command = f"'{bench.calltap}' {' '.join(arguments)} >{output}"
    return on_terminal(bench, command=["sh", "-c", command], **variables)


def check_progress_is_told_on_a_terminal_and_taken_away(bench):
    at_once = {"CALLTAP_PROGRESS_DELAY": "0"}
    for verb in (("report",), ("export", "--format", "json"), ("export", "--format", "speedscope"), ("html", "-o", "x.html"), ("diff", "small"), ("slow", "'*'")):
        text = said(bench, *verb, "-i", "small", **at_once)
        assert "\rcalltap: reading: 0 %" in text, (verb, text)
        before, blank, after = text.rpartition("\r" + " " * 60 + "\r")
        assert blank and "%" in before and not re.search("calltap: (reading|comparing|writing)", after), (verb, text)
    assert "%" not in said(bench, "report", "-i", "small"), "progress before its time"
    quiet = subprocess.run([bench.calltap, "report", "-i", "small"], cwd=bench.folder, env=bench.environment | at_once, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, timeout=60)
    assert not quiet.stderr, quiet.stderr


def check_progress_of_estimates_goes_up_once(bench):
    """A report with estimates reads its trace three times: once for times, which has a word of its own."""
    bench.generate("many-brief", "--records", "400000", "--threads", "2", "--functions", "60", "--seed", "7", "--brief", "1000")
    text = said(bench, "report", "-i", "many-brief", CALLTAP_PROGRESS_DELAY="0")
    assert "\rcalltap: reading times: 0 %" in text, text
    parts = [int(part) for part in re.findall(r"calltap: reading: (\d+) %", text)]
    assert parts == sorted(parts) and parts[0] == 0 and 50 in parts, f"{parts}: {text}"
    piped = subprocess.run([bench.calltap, "report", "-i", "many-brief"], cwd=bench.folder, env=bench.environment | {"CALLTAP_PROGRESS_DELAY": "0"},
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, timeout=60)
    assert not piped.stderr, piped.stderr


def check_progress_goes_before_the_text_comes(bench):
    for options in ((), ("--no-pager",)):
        text = on_terminal(bench, "report", "-i", "small", *options, CALLTAP_PROGRESS_DELAY="0", PAGER="sed s/^/P/", NO_COLOR="1")
        shown, _, table = text.partition("\r" + " " * 60 + "\r")
        assert "calltap: reading" in shown and "calltap:" not in table and "Calls" in table, text


def check_less_shifts_long_lines(bench):
    pager = "sh -c 'cat >/dev/null; echo [$LESS]'"
    assert "[FRSX]" in on_terminal(bench, "report", "-i", "graph", PAGER=pager)
    assert "[M]" in on_terminal(bench, "report", "-i", "graph", PAGER=pager, LESS="M")

"""Output to a terminal: colour, the pager; and a reader that goes away."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

import tracetext


def on_terminal(bench, *arguments, columns=0, **variables):
    """Output of the command on a pseudo terminal of so many columns (0: it does not know)."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))
    process = subprocess.Popen([bench.calltap, *arguments], cwd=bench.folder, env=bench.environment | variables,
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
    assert process.wait(timeout=20) == 0, output
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


def check_less_shifts_long_lines(bench):
    pager = "sh -c 'cat >/dev/null; echo [$LESS]'"
    assert "[FRSX]" in on_terminal(bench, "report", "-i", "graph", PAGER=pager)
    assert "[M]" in on_terminal(bench, "report", "-i", "graph", PAGER=pager, LESS="M")

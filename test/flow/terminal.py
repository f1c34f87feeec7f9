"""What changes on a terminal: colour, the pager; and a reader that goes away."""
import os
import pty
import select
import subprocess


def on_terminal(bench, *arguments, **variables):
    """Output of the command on a pseudo terminal."""
    ours, theirs = pty.openpty()
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

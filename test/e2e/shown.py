"""`calltap record --html`, `attach --html` and `--open`: the page beside the trace, and the browser that is started for it."""
import os
import shlex

from harness import expect, settled, until
from instances import Instance
from steer import own_place
from steering import Program, Tool

NO_DESKTOP = ["-u", "BROWSER", "-u", "DISPLAY", "-u", "WAYLAND_DISPLAY", "-u", "XDG_RUNTIME_DIR", "-u", "XAUTHORITY", "-u", "SUDO_UID",
              "-u", "PKEXEC_UID"]
# What a stand-in for a browser says of itself; it lives until it is told to end.
BROWSER = """#!/bin/sh
cd {folder}
{{ echo "$#"; echo "$@"; cut -d' ' -f4,6,7 /proc/$$/stat; for fd in /proc/$$/fd/*; do readlink "$fd"; done | sort -u; }} > said.part
echo $$ > pid
mv said.part said
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do test -e end && exit; sleep 1; done
"""


def under(case, variables, options, command, status):
    """Record with these variables and no other of the desktop's; what the tool says."""
    done = case.run(["env", *NO_DESKTOP, *variables, *case.record_command(command, options)], False)
    expect(done.status == status, f"status {done.status}, the program's is {status}: {done.stderr}")
    return done.stderr


def read(path):
    with open(path, "rb") as file:
        return file.read()


def page_is(case, path, trace):
    again = os.path.join(case.folder, "again.page")
    done = case.run([case.tool, "html", "-i", trace, "-o", again])
    expect(done.status == 0 and read(again) == read(path), f"the page is not that of calltap html: {done.stderr}")


def recorded(case):
    """The page is calltap html's, and the program's exit status stays the verb's, whatever becomes of the page."""
    program = case.program("page.c")
    status = case.run([program, "3"]).status
    case.trace_path = os.path.join(case.folder, "some.data")
    said = under(case, [], ["--html"], [program, "3"], status)
    path = os.path.join(case.folder, "some.html")
    expect(f"{path} (" in said and "to be opened in a browser" in said, said)
    page_is(case, path, case.trace_path)
    other = os.path.join(case.folder, "other page")
    said = under(case, [], [f"--html={other}", "--open"], [program, "3"], status)
    expect(f"{other} (" in said and "there is no display here" in said, said)
    page_is(case, other, case.trace_path)
    os.unlink(path)
    for variables, why in ((["DISPLAY=:9", f"SUDO_UID={os.geteuid() + 1}"], "another user's"), (["BROWSER=no-such-browser"], "$BROWSER"),
                           (["DISPLAY=:9", "PATH=/nonexistent"], "cannot start xdg-open")):
        expect(why in under(case, variables, ["--open"], [program, "3"], status), f"{variables}: nothing tells of {why}")
        page_is(case, path, case.trace_path)
    said = under(case, [], ["--html=/no/folder/page"], [program, "3"], status)
    expect("cannot create" in said, said)
    said = under(case, [], [f"--html={case.trace_path}"], [program, "3"], 1)
    expect("both the trace and its page" in said, said)
    refused = case.run([case.tool, "html", "-i", case.trace_path, "-o", "-", "--open"])
    expect(refused.status == 1 and "standard output" in refused.stderr and not refused.stdout, refused.stderr)


def opened(case):
    """The browser gets one word, and neither the tool's terminal nor its descriptors; the tool does not wait for it."""
    case.need_native("a stand-in for a browser")
    program = case.program("page.c")
    status = case.run([program, "3"]).status
    browser = os.path.join(case.folder, "browser")
    with open(browser, "w", encoding="utf-8") as file:
        file.write(BROWSER.format(folder=shlex.quote(case.folder)))
    os.chmod(browser, 0o755)
    settled(browser)
    page = os.path.join(case.folder, "a page;$(x)%41.html")
    try:
        under(case, [f"BROWSER=no-such-browser:{browser} --new %s"], [f"--html={page}", "--open"], [program, "3"], status)
        until("the browser", lambda: os.path.exists(os.path.join(case.folder, "said")))
        pid = int(read(os.path.join(case.folder, "pid")))
        count, words, numbers, *descriptors = read(os.path.join(case.folder, "said")).decode().splitlines()
        expect(count == "2" and words.startswith("--new file:///") and words.endswith("/a%20page%3B%24%28x%29%2541.html"), words)
        _, session, terminal = map(int, numbers.split())
        expect(session != os.getsid(0) and terminal == 0, f"session {session}, terminal {terminal}")
        expect(os.path.exists(f"/proc/{pid}"), "the tool waited for the browser's end")
        own = {browser, "/dev/null", os.path.join(case.folder, "said.part")}
        expect(set(descriptors) <= own, f"the browser has more descriptors: {set(descriptors) - own}")
    finally:
        with open(os.path.join(case.folder, "end"), "w", encoding="utf-8"):
            pass


def attached(case):
    """A first instance, and a further one, each with its page."""
    case.need_native("attaching")
    own_place(case)
    with Program(case) as program, Tool(case, program, "-l", "leaf_1", "--html") as tool:
        with Instance(case, program, "second", "-l", "leaf_1", "--html") as second:
            second.records()
            second.end()
            page_is(case, os.path.join(case.folder, "second.html"), second.path)
            expect("second.html (" in second.said(), second.said())
        tool.detach()
        page = f"{case.trace_path.removesuffix('.data')}.html"
        page_is(case, page, case.trace_path)
        expect(f"{page} (" in tool.said(), tool.said())


SINGLE = {"shown-record": recorded, "shown-open": opened, "shown-attach": attached}
ALIKE = dict.fromkeys(SINGLE)

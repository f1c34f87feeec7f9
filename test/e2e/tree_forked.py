"""The tree of `calltap mount` in the hands of its own program's children, which write there before they make a traced
call: they learn of what they write, see no error for that, and whoever is killed, they run on."""
import os
import random
import re
import signal
import subprocess
import time

from harness import expect, until
from steer import own_place
from tracefs import Tree

SUBSHELL = """until read -r < tree/current_tracer; do :; done 2> /dev/null
(
	echo _do_fork > tree/set_ftrace_filter
	echo $BASHPID > tree/set_ftrace_pid
	echo function > tree/current_tracer
	(:); (:); (:)
	echo 0 > tree/tracing_on
	echo is $BASHPID
	cat tree/trace
)
echo that was all
exit 7
"""


AT_ONCE = """until read -r < tree/current_tracer; do :; done 2> /dev/null
for round in 1 2 3; do
	for child in 1 2 3; do
		(
			echo function_graph > tree/current_tracer
			echo 'ex*' > tree/set_ftrace_filter
			echo 1 > tree/tracing_on
			cat tree/trace > /dev/null
		) &
	done
	wait
done
echo that was all
exit 7
"""


def need(case):
    case.need_native("attaching")
    case.need_feature("ptrace")
    own_place(case)


def of_shell(case):
    """A shell is the program: its subshell filters by its own functions and process, and its calls are in the trace."""
    need(case)
    library = case.program("forks_traced.c", variant="-preloaded", flags=["-fPIC", "-shared", "-ldl"])
    command = ["sh", "-c", 'LD_PRELOAD="$LD_PRELOAD:$1" exec bash -c "$2"', "sh", library, SUBSHELL]
    with Tree(case, None, "--keep", "--allow-no-sites", command=command) as tree:
        until("the end", lambda: tree.said().endswith("\nthat was all\n") or tree.process.poll() is not None)
        tree.end(how=signal.SIGTERM, status=7)
        said = tree.said()
    shell = re.search(r"^is (\d+)$", said, re.M)[1]
    calls = re.findall(r"^ *bash-(\d+) .*: _do_fork <-", said, re.M)
    # Three subshells, and cat's process: that comes after tracing_on was 0.
    expect(calls == [shell] * 3, f"calls by {calls}, not three by {shell}: {said}")
    expect("did not learn" not in said, said)


def at_once(case):
    """Subshells write at the same time, and execute a reader: none of them holds up the others' changes, and those that have
    executed another program are no forked children any more, so nothing is told of them."""
    need(case)
    with Tree(case, None, "--allow-no-sites", command=["bash", "-c", AT_ONCE]) as tree:
        until("the end", lambda: tree.said().endswith("that was all\n") or tree.process.poll() is not None)
        tree.end(how=None, status=7)
        said = tree.said()
    expect("executed another program" not in said and "rror" not in said, said)


def started(case, children):
    return Tree(case, None, command=[case.program("tree_writer.c"), os.path.join(case.folder, "tree"), str(children)])


def children(case):
    """Each child has its own calls recorded, all of them, and no call on the tree fails or is cut short."""
    need(case)
    with started(case, 12) as tree:
        until("the children", lambda: "all was well" in tree.said() or "has ended" in tree.said())
        tree.end(how=None)
        said = tree.said()
    expect(re.findall(r"(\d+) calls", said) == ["20"] * 12 and "gone" not in said, said)
    expect("and signals" in said and "did not learn" not in said, said)


def killed(case):
    """The tool is killed at some moment of such a write: the child's call fails as where nothing is mounted, or succeeds."""
    need(case)
    with started(case, 1000) as tree:
        until("a child", lambda: "calls" in tree.said())
        time.sleep(random.uniform(0, 0.1))
        os.kill(tree.process.pid, signal.SIGKILL)
        until("the program's end", lambda: "all was well" in tree.said() or "has ended" in tree.said())
        said = tree.said()
        expect("the tree is gone, all was well" in said, said)
        tree.gone()


SINGLE = {
    "tracefs-forked-shell": of_shell,
    "tracefs-forked-at-once": at_once,
    "tracefs-forked-children": children,
    "tracefs-forked-killed": killed,
}

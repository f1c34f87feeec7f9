"""Exports of recordings: other tools read them (test/flow/consumers.py), and what they sum up is the report's."""
import os
import subprocess
import sys

from harness import Skip, expect
from handlers import linking

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "flow"))
import consumers  # noqa: E402  pylint: disable=wrong-import-position  (the path above is what finds it)


class Recorded:
    """A case's recording as the checks of flow see one: a folder, with a trace of the name "trace"."""

    def __init__(self, case):
        self.case, self.folder = case, case.folder

    def run(self, *arguments):
        return subprocess.run([self.case.tool, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=60, check=False)

    def write(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()


def read(program, agrees):
    def test(case):
        # The sums of estimates are not those of the report: doc/design/exports.md.
        case.same_as_plain([program(case)], ("--time", "exact"))
        case.readable()
        try:
            agrees(Recorded(case), "trace")
        except consumers.Missing as why:
            raise Skip(str(why)) from why
        except AssertionError as problem:
            expect(False, str(problem))
    return test


def exceptions(case):
    return case.program("exceptions.cc")


def marks(case):
    case.need_native("libcalltap.so")
    return case.program("marks.c", flags=linking(case))


SINGLE = {f"exported-{name}-of-{program.__name__}": read(program, agrees) for program in (exceptions, marks) for name, agrees in (
    ("speedscope", consumers.speedscope_agrees), ("callgrind", consumers.callgrind_agrees), ("pprof", consumers.pprof_agrees),
    ("graphviz", consumers.dot_agrees), ("ctf", consumers.babeltrace_agrees), ("trace.dat", consumers.trace_cmd_agrees))}
ALIKE = dict.fromkeys(SINGLE)

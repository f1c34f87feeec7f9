"""Calls and events of a Calltap trace, for Python.

    import calltap
    for call in calltap.open("x.ctap").calls():
        print(call.name, call.duration_ns)

The trace is read by the command `calltap`, which hands on rows of a fixed size through a pipe: see calltap-python(3)."""
import collections
import json
import operator
import os
import shutil
import struct
import subprocess
import tempfile
import warnings

__all__ = ["Call", "Error", "Event", "Function", "Thread", "Trace", "open"]

_MAGIC, _VERSION = b"CTAPROWS", 1
_HEAD = struct.Struct("<8sII")
_BLOCK = struct.Struct("<IIQ")
_ROW = struct.Struct("<QQQQIIIIIIIBBBx")
_NAMES, _ROWS, _END = 1, 2, 3
_CALL = 1
_KINDS = (None, "call", "enter", "function", "mark", "event", "lost", "wait", "stack")
_ENDS = ("returned", "unwound", "tail", "open", "lost", "left")
_TIMED, _TAIL, _BEFORE = 1, 2, 4
_BUFFER = 1 << 20
_TEXT, _RESULT, _STRINGS = 8, 9, 14  # places in a row

Function = collections.namedtuple("Function", "name symbol object file line")
Thread = collections.namedtuple("Thread", "name tid pid program")


class Error(Exception):
    """The trace cannot be read, or the command is not there; the text says why."""


def _field(place, text):
    return property(operator.itemgetter(place), doc=text)


class Event(tuple):
    """A row of a trace.  `kind` says what it is:

    "call"      a call, at its end
    "enter"     a call begins (events() only)
    "function"  a call that the tracer `function` recorded: it has no end
    "mark"      a text that the program or a tool wrote into the trace
    "event"     another event that the trace describes; `type` is its name
    "lost"      `value` records were dropped
    "wait"      the thread waited `duration_ns` for the tool
    "stack"     the thread runs on the stack at address `value` from here on"""
    __slots__ = ()
    _functions = _names = _threads = ()

    start_ns = _field(0, "Nanoseconds since the trace's start; of a call: of its beginning, else of its end.")
    duration_ns = _field(1, "Nanoseconds of a call or a wait; 0 where `is_timed` says that it is not known.")
    self_ns = _field(2, "A call's nanoseconds without what it calls, and without time on other stacks.")
    value = _field(3, "What `kind` says of it.")
    error_ns = _field(7, "What the duration, or the time, may be off: not 0 where it is an estimate.")
    depth = _field(10, "Calls around this one.")

    @property
    def kind(self):
        """What the row is of: see the class."""
        return _KINDS[self[11]]

    @property
    def function(self):
        """The Function, None where the row is of none."""
        return self._functions[self[4]]

    @property
    def name(self):
        """The function's name, "" where the row is of none."""
        return self._names[self[4]]

    @property
    def caller(self):
        """The Function that has called it, None where that is not known or not traced."""
        return self._functions[self[5]]

    @property
    def thread(self):
        """The Thread."""
        return self._threads[self[6]]

    @property
    def is_timed(self):
        """True of a call whose entry is in the trace: its duration is known."""
        return bool(self[13] & _TIMED)

    @property
    def end(self):
        """How a call ended: "returned", "unwound", "tail", "open", "lost" or "left" (calltap-export(1))."""
        return _ENDS[self[12]] if self[11] == _CALL else None

    @property
    def is_tail(self):
        """True if the caller has jumped here at its end."""
        return bool(self[13] & _TAIL)

    @property
    def is_before(self):
        """True if the call was open when the trace began."""
        return bool(self[13] & _BEFORE)

    def _string(self, place):
        at = self[place]
        if not at:
            return None
        strings = self[_STRINGS]
        return strings[at - 1:strings.index(b"\0", at - 1)].decode(errors="replace")

    @property
    def text(self):
        """A mark's or an event's text."""
        return None if self[11] == _CALL else self._string(_TEXT)

    @property
    def type(self):
        """An event's type, as "mark"."""
        return "mark" if self[11] == 4 else self._string(_RESULT) if self[11] == 5 else None

    @property
    def arguments(self):
        """A call's arguments as text, None where they are not in the trace."""
        return self._string(_TEXT) if self[11] == _CALL else None

    @property
    def result(self):
        """A call's result as text, None where it is not in the trace."""
        return self._string(_RESULT) if self[11] == _CALL else None

    def __repr__(self):
        return f"<{self.kind} {self.name or self.text or self.value} at {self.start_ns} ns>"


Call = Event


def _command():
    named = os.environ.get("CALLTAP")
    found = shutil.which(named or "calltap")
    if not found:
        raise Error(f"the command {named or 'calltap'} is not found: install it, or set CALLTAP to its path")
    return found


def _words(option, value):
    """The option once for each value; a text is one value."""
    values = [] if value is None else [value] if isinstance(value, (str, int)) else value
    return [word for one in values for word in (option, str(one))]


class Trace:
    """A trace file, and what is to be read of it."""

    def __init__(self, path, options):
        self.path = path
        self._options = options
        self._info = None

    @property
    def info(self):
        """What `calltap info --json` says of the trace."""
        if self._info is None:
            done = subprocess.run([_command(), "info", "--json", "-i", self.path], stdin=subprocess.DEVNULL, capture_output=True,
                                  check=False)
            if done.returncode:
                raise Error(_reason(done.stderr))
            self._info = json.loads(done.stdout)
        return self._info

    def calls(self):
        """Each call, when it ends; of the tracer `function`, each call."""
        for row in self._rows("calls"):
            if row[11] in (1, 3):
                yield row

    def events(self):
        """All that the trace has, in its order: entries ("enter") and ends ("call") of calls, marks, losses and so on."""
        return self._rows("events")

    def _rows(self, form):
        with tempfile.TemporaryFile() as errors:
            command = [_command(), "export", "--format", form, "-i", self.path, *self._options]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, bufsize=_BUFFER) as process:
                whole = False
                try:
                    for rows in _blocks(process.stdout):
                        yield from rows
                    whole = True
                finally:
                    process.stdout.close()
                    if not whole:
                        process.kill()
                    process.wait()
            errors.seek(0)
            said = errors.read()
        if process.returncode:
            raise Error(_reason(said))
        if said:
            warnings.warn(_reason(said), stacklevel=3)


def _reason(said):
    return said.decode(errors="replace").strip().removeprefix("calltap: ") or "the command calltap failed"


def _read(file, size):
    data = file.read(size)
    if len(data) != size:
        raise Error("the command calltap ended before the end of the trace")
    return data


def _blocks(file):
    """Iterators over the rows, one for each block."""
    head = file.read(_HEAD.size)
    if not head:
        return  # the command's exit status says why
    magic, version, size = _HEAD.unpack(head)
    if (magic, version, size) != (_MAGIC, _VERSION, _ROW.size):
        raise Error("the command calltap is of another version than this module")
    functions, names = [None], [""]
    about = json.loads(file.readline())
    threads = [Thread(**thread) for thread in about["threads"]]
    kind = type("Event", (Event,), {"__slots__": (), "_functions": functions, "_names": names, "_threads": threads})
    while True:
        block, count, strings = _BLOCK.unpack(_read(file, _BLOCK.size))
        if block == _NAMES:
            functions.extend(Function(**function) for function in json.loads(file.readline()))
            names.extend(function.name for function in functions[len(names):])
        elif block == _ROWS:
            rows = _ROW.iter_unpack(_read(file, count * size))
            texts = (_read(file, strings),)
            yield map(kind, (row + texts for row in rows) if strings else rows)
        elif block == _END:
            file.readline()
            return
        else:
            raise Error("the command calltap wrote a block that this module does not know")


def open(path, *, trace=None, notrace=None, graph=None, no_graph=None, function=None, thread=None, pid=None, tid=None, time=None,
         min=None):  # pylint: disable=redefined-builtin
    """Open a trace.  The other arguments are the options of `calltap export` with their names: what is read of the trace.
    `trace`, `notrace`, `graph`, `no_graph` and `thread` may be lists."""
    if not os.path.exists(path):
        raise Error(f"there is no trace {path}")
    options = [word for option, value in (("--trace", trace), ("--notrace", notrace), ("--graph", graph), ("--no-graph", no_graph),
                                          ("--thread", thread), ("--function", function), ("--pid", pid), ("--tid", tid),
                                          ("--time", time), ("--min", min)) for word in _words(option, value)]
    return Trace(path, options)

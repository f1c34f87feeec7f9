#!/usr/bin/env python3
"""Prints each row of a trace.dat as KernelShark's library has it: time, CPU, task, its name, the event's name, its text.

Caller: kernelshark.py, a process of its own: what the library does wrong ends nobody else.
"""
import ctypes
import sys

LIBRARY = "libkshark.so.2"


class Entry(ctypes.Structure):
    """struct kshark_entry of libkshark.h"""
    _fields_ = [("next", ctypes.c_void_p), ("visible", ctypes.c_uint16), ("stream", ctypes.c_int16), ("event", ctypes.c_int16),
                ("cpu", ctypes.c_int16), ("pid", ctypes.c_int32), ("offset", ctypes.c_int64), ("ts", ctypes.c_int64)]


def loaded():
    library = ctypes.CDLL(LIBRARY)
    rows = ctypes.POINTER(ctypes.POINTER(Entry))
    library.kshark_instance.argtypes, library.kshark_instance.restype = [ctypes.POINTER(ctypes.c_void_p)], ctypes.c_bool
    library.kshark_open.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.kshark_load_entries.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(rows)]
    library.kshark_load_entries.restype = ctypes.c_ssize_t
    for name in ("task", "event_name", "info"):
        function = getattr(library, f"kshark_get_{name}")
        function.argtypes, function.restype = [ctypes.POINTER(Entry)], ctypes.c_char_p
    return library, rows()


def main(path):
    library, rows = loaded()
    context = ctypes.c_void_p()
    if not library.kshark_instance(context):
        sys.exit("kshark_instance() fails")
    stream = library.kshark_open(context, path.encode())
    count = library.kshark_load_entries(context, stream, rows) if stream >= 0 else stream
    if count < 0:
        sys.exit(f"{path}: {count}")
    for row in rows[:count]:
        texts = [function(row).decode(errors="replace").replace("\n", "\\n")
                 for function in (library.kshark_get_task, library.kshark_get_event_name, library.kshark_get_info)]
        print(row.contents.ts, row.contents.cpu, row.contents.pid, *texts, sep="\t")


if __name__ == "__main__":
    main(sys.argv[1])

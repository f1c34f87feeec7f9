#!/usr/bin/env python3
"""How deep each thread was, at the most, and how long it was outside of all traced calls: waiting.py TRACE"""
import sys

import calltap


def main(path):
    deepest, outside, left = {}, {}, {}
    for event in calltap.open(path).events():
        thread = event.thread
        if event.kind == "enter":
            deepest[thread] = max(deepest.get(thread, 0), event.depth + 1)
            if event.depth == 0 and thread in left:
                outside[thread] = outside.get(thread, 0) + event.start_ns - left[thread]
        elif event.kind == "call" and event.depth == 0:
            left[thread] = event.start_ns + event.duration_ns
    for thread, depth in deepest.items():
        print(f"{thread.name}-{thread.tid}: {depth} deep, {outside.get(thread, 0) / 1000:.3f} us between its outermost calls")


if __name__ == "__main__":
    main(*sys.argv[1:])

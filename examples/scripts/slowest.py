#!/usr/bin/env python3
"""The slowest calls of a function, with their arguments and who called: slowest.py TRACE FUNCTION [N]"""
import heapq
import sys

import calltap


def main(path, function, count=5):
    calls = calltap.open(path, function=function).calls()
    for call in heapq.nlargest(int(count), calls, key=lambda call: call.duration_ns):
        caller = call.caller.name if call.caller else "nobody traced"
        print(f"{call.duration_ns / 1000:12.3f} us at {call.start_ns / 1e9:.6f} {call.name}({call.arguments or ''}) from {caller}")


if __name__ == "__main__":
    main(*sys.argv[1:])

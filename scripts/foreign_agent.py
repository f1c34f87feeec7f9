#!/usr/bin/env python3
"""Builds the agent for a CPU that the build is not for (src/agent/meson.build):

    foreign_agent.py --compiler CC --output FILE --depfile FILE SOURCES -- COMPILE-FLAGS -- LINK-FLAGS

The objects are left in FILE.p/, for the gates that look at them."""
import argparse
import os
import subprocess
import sys


def build(options, compile_flags, link_flags):
    folder = options.output + ".p"
    os.makedirs(folder, exist_ok=True)
    objects, depends = [], []
    for source in options.sources:
        # "../probe/graph.c" and "graph.c" may both be there.
        parts = os.path.normpath(os.path.abspath(source)).split(os.sep)[-2:]
        out = os.path.join(folder, "_".join(parts) + ".o")
        subprocess.run([options.compiler, "-c", "-fPIC", *compile_flags, "-MD", "-MF", out + ".d", source, "-o", out],
                       check=True)
        with open(out + ".d", encoding="utf-8") as file:
            depends += file.read().replace("\\\n", " ").split(":", 1)[1].split()
        objects.append(out)
    subprocess.run([options.compiler, "-shared", "-Wl,-soname," + os.path.basename(options.output), *objects,
                    *link_flags, "-o", options.output], check=True)
    with open(options.depfile, "w", encoding="utf-8") as file:
        file.write(f"{options.output}: {' '.join(sorted(set(depends)))}\n")


def main():
    arguments, compile_flags, link_flags = [], [], []
    lists = iter((arguments, compile_flags, link_flags))
    current = next(lists)
    for argument in sys.argv[1:]:
        if argument == "--":
            current = next(lists)
        else:
            current.append(argument)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--depfile", required=True)
    parser.add_argument("sources", nargs="+")
    try:
        build(parser.parse_args(arguments), compile_flags, link_flags)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())

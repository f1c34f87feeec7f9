#!/usr/bin/env python3
"""Gate: in no room do more than LARGEST files need each other in a circle, by the symbols of their objects.

A circle of two or three files is one thought in parts; in a circle of thirty none can be read, tested or moved alone.
Modules of Python need each other in no circle at all: which of them is imported first decides whether it works.
`--build DIR` names the build directory (default: build)."""
import ast
import collections
import glob
import json
import os
import sys

import lint

LARGEST = 6
DEFINED = set("TDBRVWC")


def room_of(source):
    """The folder within src/ that a file belongs to; a CPU's files of the agent belong to the agent."""
    parts = source.split(os.sep)[1:-1]
    return os.path.join(*parts[:2]) if parts[0] in ("host", "arch") else parts[0]


def build_objects(root):
    """{source: object} of what the build made of src/."""
    build = sys.argv[sys.argv.index("--build") + 1] if "--build" in sys.argv else os.path.join(root, "build")
    database = os.path.join(build, "compile_commands.json")
    if not os.path.exists(database):
        raise lint.Skip(f"{build} is no build directory")
    found = {}
    with open(database, encoding="utf-8") as file:
        for entry in json.load(file):
            source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
            output = os.path.join(entry["directory"], entry.get("output", ""))
            if entry.get("output", "").startswith("src" + os.sep) and source.startswith("src" + os.sep) and os.path.isfile(output):
                found.setdefault(source, output)
    return found


def own_objects(root):
    """The same of a tree of the self-test: compiled now."""
    for source in lint.files(root, ".c", under="src"):
        made = lint.run(["cc", "-c", "-w", "-o", os.path.join(root, source + ".o"), os.path.join(root, source)])
        if made.returncode:
            raise lint.Skip(made.stdout)
    return {os.path.relpath(path, root)[:-len(".o")]: path for path in glob.glob(os.path.join(root, "src/**/*.o"), recursive=True)}


def symbols(path):
    """The symbols that an object defines for others, and those that it takes from others."""
    defined, taken = set(), set()
    for line in lint.run(["nm", path]).stdout.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "U":
            taken.add(words[1])
        elif len(words) == 3 and words[1] in DEFINED:
            defined.add(words[2])
    return defined, taken


def needs_of(objects):
    """{room: {source: sources of the same room that it needs}}"""
    known = {source: symbols(path) for source, path in objects.items()}
    rooms = collections.defaultdict(dict)
    for source, (_, taken) in known.items():
        rooms[room_of(source)][source] = taken
    for sources in rooms.values():
        owners = collections.defaultdict(set)
        for source in sources:
            for symbol in known[source][0]:
                owners[symbol].add(source)
        for source, taken in sources.items():
            sources[source] = set().union(*(owners[symbol] for symbol in taken if symbol in owners)) - {source}
    return rooms


def reached(needs, start):
    seen, todo = set(), [start]
    while todo:
        for source in needs[todo.pop()] - seen:
            seen.add(source)
            todo.append(source)
    return seen


def largest_circle(needs):
    """The files that each need all the others of them, as many as there are."""
    reach = {source: reached(needs, source) for source in needs}
    circles = [{other for other in reach[source] if source in reach[other]} for source in needs]
    return sorted(max(circles, key=len))


def imported(text):
    """The modules that a Python file imports when it is imported itself."""
    found = set()
    todo = list(ast.parse(text).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
        elif not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            todo += ast.iter_child_nodes(node)
    return found


def python_circles(root):
    """The circles of imports; a module is known by its file's name, as in the project's search path."""
    paths = {os.path.basename(path)[:-len(".py")]: path for path in lint.files(root, ".py")}
    needs = {name: (imported(lint.read(root, path)) & set(paths)) - {name} for name, path in paths.items()}
    reach = {name: reached(needs, name) for name in needs}
    circles = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in needs}
    return [f"{paths[circle[0]]}:1: modules import each other: {' '.join(circle)}" for circle in sorted(circles) if circle]


def check(root):
    findings = python_circles(root)
    for room, needs in sorted(needs_of(build_objects(root) if root == lint.ROOT else own_objects(root)).items()):
        circle = largest_circle(needs)
        names = " ".join(os.path.basename(source) for source in circle)
        if len(circle) > LARGEST:
            findings.append(f"src/{room}:1: {len(circle)} files need each other, at most {LARGEST} may: {names}")
    return findings


def ring(folder, count):
    """A tree of so many files that each call the next one."""
    return {f"src/{folder}/f{i}.c": f"void f{(i + 1) % count}(void);\nvoid f{i}(void) {{ f{(i + 1) % count}(); }}\n"
            for i in range(count)}


BAD = {"seven files": ring("probe", LARGEST + 1), "in a room of the host": ring("host/view", LARGEST + 1),
       "two modules": {"test/a.py": "import b\n", "test/b.py": "try:\n    from a import c\nexcept ImportError:\n    pass\n"}}
GOOD = {"six files": ring("probe", LARGEST),
        "a chain": {f"src/probe/f{i}.c": f"void f{i + 1}(void);\nvoid f{i}(void) {{ f{i + 1}(); }}\n" for i in range(20)},
        "modules in a row": {"test/a.py": "import b\nimport os\n", "test/b.py": "def f():\n    import a\n    a.g()\n"}}

if __name__ == "__main__":
    lint.main(check, BAD, GOOD)

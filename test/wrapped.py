"""The programs of a build for another CPU run under an emulator; Meson says which to the tests that it starts.

Meson also puts the folders of the cross compiler in front of $PATH, where `as` and `ld` are that CPU's: tests call the
machine's own compiler."""
import os
import shlex

if "MESON_EXE_WRAPPER" in os.environ:
    os.environ["PATH"] = os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep)
                                         if "-linux-gnu" not in folder)


def program(path, folder):
    """A path that runs the program at `path`: that itself, or a script in `folder` that calls the emulator."""
    path = os.path.abspath(path)
    wrapper = os.environ.get("MESON_EXE_WRAPPER")
    if not wrapper:
        return path
    script = os.path.join(folder, "run-" + os.path.basename(path))
    with open(script, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {wrapper} {shlex.quote(path)} "$@"\n')
    os.chmod(script, 0o755)
    return script

#!/usr/bin/env python3
"""Make the README's pictures anew: python3 scripts/pictures.py, in a tree that is built.

Debian's bash is recorded as it is, and the page of `calltap html` is shown by headless Chromium (package chromium).
"""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
from browser import Browser  # pylint: disable=wrong-import-position

PROGRAM = "for i in {1..12}; do x=$(printf %x $i); case $x in a*) y=${x//a/b};; *) y=$((i * i));; esac; done; true $y"
CALLTAP = os.environ.get("CALLTAP", os.path.join(ROOT, "build", "src", "cmd", "calltap"))
ZOOMS = 6  # of the time line, around its middle


def main():
    folder = os.path.join(ROOT, "doc", "pictures")
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for command in ([CALLTAP, "record", "-q", "--", "bash", "-c", PROGRAM], [CALLTAP, "html", "-o", "page.html"]):
            subprocess.run(command, cwd=scratch, check=True)
        browser = Browser(scratch)
        try:
            browser.open(os.path.join(scratch, "page.html"))
            for _ in range(ZOOMS):
                browser.key("w")
            browser.picture(os.path.join(folder, "timeline.png"))
            browser.key("2")
            browser.picture(os.path.join(folder, "flame.png"))
        finally:
            browser.close()


main()

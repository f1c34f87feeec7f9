#!/usr/bin/env python3
"""What `calltap html` takes, and how fast its page draws in headless Chromium: bench/page.py [ROUNDS] [--build DIR]

Records test/prog/page.c (about 110 calls a round), writes the page, and prints sizes and times.  Then the page is
opened at 1920x1080; `first picture` is from the start of its loading until its first frame, `a picture` the time of
the page's own drawing, and `frames` what requestAnimationFrame gives while it is dragged.  Without a graphics card
Chromium fills the canvas by the CPU, in the same process that draws.
"""
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
from browser import Browser  # noqa: E402  pylint: disable=wrong-import-position

VISIBLE = """(() => { const {boxes} = calltap.model, {view} = calltap.parts.timeline; let count = 0;
    for (let i = 0; i < boxes.count; i++) count += boxes.to[i] > view.from && boxes.from[i] < view.to; return count; })()"""
PAINT = """(() => { const line = calltap.parts.timeline; line.paint(); const start = performance.now();
    for (let i = 0; i < 20; i++) line.paint(); return (performance.now() - start) / 20; })()"""
DRAG = """new Promise(done => { const line = calltap.parts.timeline, start = performance.now(); let frames = 0;
    const step = () => { const share = (line.view.to - line.view.from) / 1000 * (frames % 40 < 20 ? 1 : -1);
        line.view.from += share; line.view.to += share; line.draw();
        if (++frames < 200) requestAnimationFrame(step); else done(1000 * frames / (performance.now() - start)); };
    requestAnimationFrame(step); })"""
READY = "performance.getEntriesByName('calltap-drawn')[0].startTime"


def measure(browser, page):
    started = time.monotonic()
    browser.open(page)
    browser.frame()
    print(f"first picture: {browser.run(READY):.0f} ms after the start of loading ({time.monotonic() - started:.1f} s here)")
    browser.run("calltap.parts.timeline.key({key: 'c'}); calltap.parts.timeline.key({key: 'c'})")
    for share in (1, 0.25, 0.02):
        browser.run(f"(line => {{ const {{from, to}} = line.whole; line.view.from = from + (to - from) * 0.3; "
                    f"line.view.to = line.view.from + (to - from) * {share}; if ({share} === 1) line.key({{key: '0'}}); }})(calltap.parts.timeline)")
        print(f"{share:>6.0%} of the time: {browser.run(VISIBLE):,} boxes in the time shown, a picture {browser.run(PAINT):.1f} ms, "
              f"frames {browser.run(DRAG):.0f} a second")


def main():
    arguments = sys.argv[1:]
    build = arguments.pop(arguments.index("--build") + 1) if "--build" in arguments else os.path.join(ROOT, "build")
    rounds = next((word for word in arguments if word.isdigit()), "15000")
    tool = os.path.join(build, "src", "cmd", "calltap")
    with tempfile.TemporaryDirectory() as folder:
        program, trace, page = (os.path.join(folder, name) for name in ("page", "trace", "page.html"))
        source = os.path.join(ROOT, "test", "prog", "page.c")
        subprocess.run(["gcc", "-O1", "-g", "-pthread", "-fpatchable-function-entry=5", "-o", program, source], check=True)
        subprocess.run([tool, "record", "--stock", "never", "-o", trace, "--", program, rounds], check=True, stdout=subprocess.DEVNULL)
        started = time.monotonic()
        subprocess.run([tool, "html", "-i", trace, "-o", page], check=True, stderr=subprocess.DEVNULL)
        print(f"trace {os.path.getsize(trace):,} bytes; page {os.path.getsize(page):,} bytes, written in {time.monotonic() - started:.1f} s")
        browser = Browser(folder, 1920, 1080)
        try:
            measure(browser, page)
        finally:
            browser.close()


if __name__ == "__main__":
    main()

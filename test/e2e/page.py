"""`calltap html`: the page's data against `calltap report`, what a long trace leaves of it, and names that are markup."""
import base64
import gzip
import json
import os
import re
import shutil

from browser import Browser
from harness import expect, settled

COUNTS = {"page_round", "page_leaf", "page_descend", "main"}
HOSTILE = {"a": b"</script><script>document.title='broken'</script><img src=x>", "b": b"\xff\xfe\x1b[2J\x07\"'\\<!--\xe2\x80\xae<b>x"}
PATTERN = "page_hostile_name_"
LENGTH = len("page_hostile_name_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
KEPT_MAX = 250000 + 50000  # boxes of calls of their own (src/host/html/levels.h)
NAME_MAX = 1000  # bytes of a function's name, and the end
FILE_MAX = 30 << 20  # bytes, however long the trace


class Page:
    """A page's data, read as its own script reads them."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        found = re.search(rb'<script type="application/octet-stream" id="data">([A-Za-z0-9+/=]*)</script>', self.bytes)
        expect(found, "the page has no data, or more than base64 between the tags of its data")
        data = gzip.decompress(base64.b64decode(found.group(1)))
        facts, head, rest = data.split(b"\n", 2)
        self.facts, self.head, self.columns, at = json.loads(facts), json.loads(head), {}, 0
        for name, count, size in self.head["columns"]:
            self.columns[name] = numbers(rest[at:at + size])
            expect(len(self.columns[name]) == count, f"the column {name} has {len(self.columns[name])} numbers, not {count}")
            at += size
        expect(at == len(rest), f"{len(rest) - at} bytes are of no column")
        self.names = ["", *(function[0] for function in self.head["functions"])]
        self.levels = self.head["levels"]

    def table(self):
        """{name: {column: value}}"""
        keys = [name for name in self.columns if name.startswith("table.")]
        rows = [dict(zip(keys, values)) for values in zip(*(self.columns[key] for key in keys))]
        return {self.names[row["table.function"]]: row for row in rows}

    def rows(self):
        """Of each track and depth: (track, depth, [(from, to, function, self)])"""
        boxes = iter(zip(self.columns["box.gap"], self.columns["box.ns"], self.columns["box.function"], self.columns["box.self"]))
        for track, depth, count in zip(*(self.columns["row." + name] for name in ("track", "depth", "boxes"))):
            end, row = 0, []
            for _ in range(count):
                gap, ns, function, own = next(boxes)
                begin = end + (-(gap + 1) // 2 if gap % 2 else gap // 2)
                end = begin + ns
                row.append((begin, end, function, own))
            yield track, depth, row

    def tree(self, name):
        """(parent, function, calls, total, self) of each node; the root is 0 and not in it."""
        for node, (up, *rest) in enumerate(zip(*(self.columns[f"{name}.{column}"] for column in ("up", "function", "calls", "total", "self"))), 1):
            yield node - up, *rest


def numbers(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    return values


def page_of(case, name="page.html", *arguments):
    path = os.path.join(case.folder, name)
    done = case.run([case.tool, "html", "-i", case.trace_path, "-o", path, *arguments])
    expect(done.status == 0, f"calltap html: {done.stderr}")
    return Page(path)


def report_of(case, *arguments):
    done = case.run([case.tool, "report", "--json", "--limit", "0", "-i", case.trace_path, *arguments])
    expect(done.status == 0, done.stderr)
    return json.loads(done.stdout)


def shown(name):
    """As the page has the name: long ones are cut."""
    return name if len(name.encode()) < NAME_MAX else name[:NAME_MAX - 4] + "..."


def check_table(page, rows):
    """The table is that of calltap report, to the nanosecond."""
    table = page.table()
    expect(len(table) == len(rows), f"{len(table)} rows, the report has {len(rows)}")
    for row in rows:
        own = table[shown(row["function"])]
        for key, name in (("calls", "calls"), ("total_ns", "total"), ("self_ns", "self"), ("min_ns", "min"), ("p50_ns", "p50"),
                          ("p99_ns", "p99"), ("max_ns", "max"), ("unfinished", "unfinished")):
            wanted = row.get(key, 0)  # without times for the tracer that tells none
            expect(own["table." + name] == wanted, f"{row['function']}: {name} is {own['table.' + name]}, report says {wanted}")


def check_histograms(page):
    at, columns = 0, page.columns
    for function, calls, buckets, low, high in zip(*(columns["table." + key] for key in ("function", "calls", "buckets", "min", "max"))):
        counts = columns["bucket.calls"][at:at + buckets]
        expect(sum(counts) == calls, f"{page.names[function]}: the histogram has {sum(counts)} calls, not {calls}")
        steps = columns["bucket.step"][at:at + buckets]
        for value, bucket in ((low, steps[0]), (high, sum(steps))) if buckets else ():
            power = value.bit_length() - 1
            wanted = value if value < 4 else 4 * (power - 1) + (value >> (power - 2) & 3)
            expect(bucket == wanted, f"{page.names[function]}: {value} ns is in the bucket {wanted}, not {bucket}")
        at += buckets


def check_boxes(page, rows):
    """Boxes of calls and of sums are all calls and all self time, and in a row they do not overlap."""
    kept = [function for function in page.columns["box.function"] if function]
    small = sum(page.columns["sum.calls"]) + sum(page.columns["sum.deeper"])
    wanted = sum(row["calls"] + row["unfinished"] for row in rows)
    expect(len(kept) == page.levels["kept"] and small == page.levels["small"], f"the page says {page.levels}")
    expect(len(kept) + small + page.levels["strays"] == wanted, f"{len(kept)} calls and {small} small ones, not {wanted}")
    # Calls whose entry is not known have no time of their own that is known.
    own = sum(page.columns["box.self"])
    expect(own == sum(row["self_ns"] for row in rows), f"self time in boxes: {own}")
    sums = 0
    for track, depth, row in page.rows():
        expect(page.head["tracks"][track], f"track {track} has boxes and no thread")
        for (_, end, *_), (begin, *_) in zip(row, row[1:]):
            expect(begin >= end - 1, f"track {track}, depth {depth}: boxes overlap, {end} and {begin}")
        for begin, end, function, _ in row:
            if function:
                continue
            expect(page.columns["sum.total"][sums] <= end - begin + page.columns["sum.calls"][sums],
                   f"a sum's calls take longer than there is time for: {begin} to {end}")
            sums += 1


def check_trees(page, rows):
    own = {shown(row["function"]): [row["calls"] + row["unfinished"], row["self_ns"]] for row in rows}
    for name in ("whole", "threads"):
        counted = {}
        for parent, function, calls, _, own_ns in page.tree(name):
            if name == "whole" or parent:
                each = counted.setdefault(page.names[function], [0, 0])
                each[0] += calls
                each[1] += own_ns
        expect(counted == own, f"the tree of the {name}: {counted}, the report {own}")
    nodes = list(page.tree("threads"))
    for number, (parent, _, _, total, _) in enumerate(nodes, 1):
        below = sum(node[3] for node in nodes if node[0] == number) if not parent else 0
        expect(parent or total == below, f"a thread's total is {total}, that of its calls {below}")


def sums(case):
    program = case.program("page.c")
    case.same_as_plain([program, "300"], log=False)
    page, rows = page_of(case), report_of(case)["rows"]
    check_table(page, rows)
    check_histograms(page)
    check_boxes(page, rows)
    check_trees(page, rows)
    expect(page.levels["threshold_ns"] == 0 and not page.levels["small"], f"a small trace is whole: {page.levels}")
    expect(COUNTS <= set(page.names), f"names: {page.names}")
    expect(max(map(len, page.names)) == NAME_MAX - 1, "the long name is not there, or not cut")
    again = page_of(case, "again.html")
    expect(again.bytes == page.bytes, "two pages of one trace differ")
    info = case.run([case.tool, "info", "--json", "-i", case.trace_path])
    expect(json.loads(info.stdout) == page.facts, "the facts are not those of calltap info")
    filtered = page_of(case, "filtered.html", "-f", "page_leaf")
    check_table(filtered, report_of(case, "-f", "page_leaf")["rows"])
    piped = case.run([case.tool, "html", "-o", "-", case.trace_path])
    expect(piped.stdout.encode() == page.bytes, "the page on standard output differs")
    refused = case.run([case.tool, "html", "-i", case.trace_path, "-o", "/no/folder/page.html"])
    expect(refused.status == 1 and "cannot create" in refused.stderr, f"{refused.status}: {refused.stderr}")


def long_trace(case):
    """Many more calls than the page keeps: the longest stay, the others are in sums."""
    program = case.program("page.c")
    case.same_as_plain([program, "10000"], log=False)
    page, rows = page_of(case), report_of(case)["rows"]
    calls = sum(row["calls"] for row in rows)
    expect(calls > 2 * KEPT_MAX, f"the trace has {calls} calls, too few to say anything")
    expect(page.levels["kept"] <= KEPT_MAX and page.levels["threshold_ns"] > 0, f"{calls} calls: {page.levels}")
    expect(sum(page.columns["sum.deeper"]) > sum(page.columns["sum.calls"]) / 10, "there are hardly small calls in small calls")
    expect(page.levels["sums"] <= 3 * KEPT_MAX and len(page.bytes) < FILE_MAX, f"{len(page.bytes)} bytes, {page.levels}")
    check_table(page, rows)
    check_histograms(page)
    check_boxes(page, rows)
    check_trees(page, rows)
    longest = {}
    for _, _, row in page.rows():
        for begin, end, function, _ in row:
            longest[page.names[function]] = max(longest.get(page.names[function], 0), end - begin)
    for row in rows:
        expect(longest.get(shown(row["function"]), -1) >= row["max_ns"], f"the longest call of {row['function']} is no box of its own")


def untimed(case):
    """The tracer that tells no durations."""
    case.same_as_plain([case.program("page.c"), "50"], ["-p", "function"], log=False)
    page, rows = page_of(case), report_of(case)["rows"]
    check_table(page, rows)
    expect(page.levels["kept"] == sum(row["calls"] for row in rows), f"{page.levels}")
    expect(set(page.columns["box.ns"]) == {0}, "calls without a duration have one")


def estimates(case):
    """What `report` marks as an estimate the page marks, too: in its data, and in the cells of its table."""
    case.as_it_is = True
    traced = case.record([case.program("page.c"), "3000"], ["--time", "adaptive", "--time-small", "1000000", "--time-sample", "3"], log=False)
    expect(traced.status == 0, traced.stderr)
    page, report = page_of(case), report_of(case)
    rows, text = {row["function"]: row for row in report["rows"]}, case.run([case.tool, "report", "-i", case.trace_path]).stdout
    expect(page.head["estimated"]["exact"] == sum(row["exact_calls"] for row in report["rows"]), f"{page.head['estimated']}")
    expect(page.head["estimated"]["exact"] < page.head["estimated"]["calls"], "all calls have their own times")
    marked = {line.split()[-1]: any(mark in line for mark in "~<>") for line in text.splitlines() if line.split() and line.split()[-1] in rows}
    expect(len(marked) > 3 and any(marked.values()), f"no row is an estimate: {text}")
    for name, row in page.table().items():  # long names are cut on both sides
        expect(name not in marked or bool(row["table.about"]) == marked[name], f"{name}: {row}, and {marked.get(name)} in the report")
    flags = page.columns["box.flags"]
    expect(any(flag & 64 for flag in flags), "no call of the time line is an estimate")
    browser = Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "page.html"))
        browser.key("3")
        cells = browser.run("[...document.querySelectorAll('#table-body tr')].map(row => row.textContent)")
        expect(any("~" in cell for cell in cells) and len(cells) == len(rows), f"{cells}")
        browser.key("4")
        expect("have times of their own" in browser.run("document.getElementById('facts-text').textContent"), "the view Trace does not tell")
        expect(not browser.complaints(), f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()


def unfinished(case):
    """Calls that have not ended are counted in the table by the word that `report` has for them."""
    case.as_it_is = True
    traced = case.record([case.program("exits.c")], [], log=False)
    page, rows = page_of(case), {row["function"]: row for row in report_of(case)["rows"]}
    expect(rows["main"]["calls"] == 0 and rows["main"]["unfinished"] == 1, f"main has ended: {rows['main']}, {traced.stderr}")
    check_table(page, list(rows.values()))
    browser = Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "page.html"))
        browser.key("3")
        cells = dict(browser.run("[...document.querySelectorAll('#table-body tr')].map(row => [row.children[0].textContent, row.children[1].textContent])"))
        expect({name: (f"{row['calls']} + " if row["calls"] else "") + f"{row['unfinished']} unfinished" if row["unfinished"] else str(row["calls"])
                for name, row in rows.items()} == cells, f"{cells}, and the report has {rows}")
    finally:
        browser.close()


def losses(case):
    """Losses are where they happened, and sums still add up."""
    case.same_as_plain([case.program("page.c"), "3000"], ["--mode", "drop", "-b", "64K"], log=False)
    page, report = page_of(case), report_of(case)
    lost = [value for kind, value in zip(page.columns["moment.kind"], page.columns["moment.value"]) if kind == 0]
    # What was lost up to a thread's end has none.
    expect(0 < sum(lost) <= page.levels["lost"] == report["lost"], f"{sum(lost)} of {page.levels['lost']} lost records have a place")
    check_table(page, report["rows"])
    small = sum(page.columns["sum.calls"]) + sum(page.columns["sum.deeper"])
    wanted = sum(row["calls"] + row["unfinished"] for row in report["rows"])
    expect(page.levels["kept"] + small + page.levels["strays"] == wanted, f"{page.levels}, and the report counts {wanted} calls")


def hostile_program(case):
    """The program with names that are markup, control characters and no UTF-8."""
    path = os.path.join(case.folder, "hostile")
    shutil.copy(case.program("page.c"), path)
    with open(path, "rb") as file:
        data = file.read()
    for letter, name in HOSTILE.items():
        old = PATTERN.encode() + letter.encode() * (LENGTH - len(PATTERN))
        expect(old in data, f"{old} is not in the program")
        data = data.replace(old, name + b"." * (LENGTH - len(name)))
    with open(path, "wb") as file:
        file.write(data)
    return settled(path)


def record_hostile(case, rounds="30"):
    case.as_it_is = True
    program = hostile_program(case)
    done = case.record([program, rounds], ["-A", "page_told:text=arg1:string number=arg2:s32"], log=False)
    expect(done.status == 0, f"{done.status}: {done.stderr}")
    return page_of(case)


def hostile(case):
    page = record_hostile(case)
    expect(any(name.startswith("</script>") for name in page.names), f"the hostile name is not there: {page.names}")
    expect(any("</script>" in text for text in page.head["texts"]), f"the hostile text is not there: {page.head['texts']}")
    expect(any(thread[0] == "</script><b>" for thread in page.head["threads"]), f"threads: {page.head['threads']}")
    text = page.bytes.decode("ascii")  # names are in the packed data alone, whatever bytes they have
    expect(text.count("</script") == 2 and text.count("<script") == 2, "there is a script in the page that is not its own")
    check_table(page, report_of(case)["rows"])


def state(browser):
    return browser.run("calltap.state()")


def in_browser(case):
    """The page in headless Chromium: each view, by mouse and keyboard, with names that would break it."""
    page = record_hostile(case, "2000")
    browser = Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "page.html"))
        no_markup(browser)
        try_timeline(browser, page)
        try_flame(browser)
        try_table(browser, page)
        try_whole(browser)
        no_markup(browser)
        urls = browser.requests()
        expect(len(urls) == 1 and urls[0].startswith("file://"), f"the page asked for {urls}")
        expect(not browser.complaints(), f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()


def no_markup(browser):
    title = browser.run("document.title")
    expect("broken" not in title and title.endswith("Calltap"), f"title: {title}")
    expect(browser.run("document.scripts.length") == 2, "a name became a script")
    expect(browser.run("document.querySelectorAll('img, iframe, link').length") == 0, "a name became an element")
    bad = browser.run("calltap.model.names.filter(name => /[\\u0000-\\u001f\\u202e]/.test(name)).length")
    expect(not bad, f"{bad} names have control characters")


def try_timeline(browser, page):
    """Zoom by wheel, move by dragging, hover, search, and what a call was given."""
    whole = browser.run("calltap.parts.timeline.view")
    x, y = 640, 120
    under = browser.run(f"(v => v.from + {x} / 1280 * (v.to - v.from))(calltap.parts.timeline.view)")
    for _ in range(3):
        browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    browser.frame()
    zoomed = browser.run("calltap.parts.timeline.view")
    expect(zoomed["to"] - zoomed["from"] < (whole["to"] - whole["from"]) / 3, f"the wheel zooms from {whole} to {zoomed}")
    now = zoomed["from"] + x / 1280 * (zoomed["to"] - zoomed["from"])
    expect(abs(now - under) < (zoomed["to"] - zoomed["from"]) / 1000, "the wheel does not zoom at the pointer")
    browser.mouse("mousePressed", 600, 300, button="left", buttons=1, clickCount=1)
    for at in (560, 500):
        browser.mouse("mouseMoved", at, 300, button="left", buttons=1)
    browser.mouse("mouseReleased", 500, 300, button="left", clickCount=1)
    browser.frame()
    moved = browser.run("calltap.parts.timeline.view")
    shift = (moved["from"] - zoomed["from"]) / (zoomed["to"] - zoomed["from"]) * 1280
    expect(abs(shift - 100) < 1, f"dragging by 100 pixels moves by {shift}")
    browser.key("0")
    browser.mouse("mouseMoved", 640, 96)  # the first thread's outermost call
    browser.frame()
    hovered = state(browser)["hovered"]
    told = browser.run("document.getElementById('tip').textContent")
    expect(hovered >= 0 and "self" in told and "main" in told, f"hovering over main shows {told!r}")
    browser.key("/")
    for letter in "descend":
        browser.key(letter)
    browser.key("Enter")
    found = [browser.run("calltap.model.names[calltap.model.boxes.fn[calltap.state().selected]]")]
    first = state(browser)["selected"]
    browser.key("n")
    found.append(browser.run("calltap.model.names[calltap.model.boxes.fn[calltap.state().selected]]"))
    expect(found == ["page_descend"] * 2 and state(browser)["selected"] != first, f"the search leads to {found}")
    expect("page_descend" in browser.run("document.getElementById('selected').textContent"), "the call found is not told of")
    browser.run("calltap.parts.timeline.show([...calltap.model.boxes.told.keys()][0])")
    browser.frame()
    panel = browser.run("document.getElementById('selected').textContent")
    expect("page_told" in panel and "</script>" in panel and "number=0" in panel, f"the call with arguments: {panel!r}")
    expect(len(page.head["texts"]) >= 3, f"texts: {page.head['texts']}")
    browser.key("/")
    browser.key("Escape")


def try_flame(browser):
    browser.key("2")
    every = state(browser)
    browser.click(300, 108)  # the row below the whole
    inside = state(browser)
    expect(inside["focus"] and 0 < inside["total"] <= every["total"], f"a click zooms from {every} to {inside}")
    browser.key("Escape")
    expect(state(browser)["focus"] == 0, "Escape does not zoom out")
    browser.key("i")
    inverse, own = state(browser), browser.run("calltap.model.columns['table.self'].reduce((a, b) => a + b)")
    expect(inverse["total"] == own, f"the inverse has {inverse['total']} ns, all self times are {own}")
    browser.key("i")
    browser.run("(choice => { choice.selectedIndex = 1; choice.dispatchEvent(new Event('change')); })(document.getElementById('flame-thread'))")
    thread = state(browser)
    expect(0 < thread["total"] < every["total"], f"one thread has {thread['total']} of {every['total']} ns")


def try_table(browser, page):
    browser.key("3")
    expect(state(browser)["shown"] == len(page.table()), f"rows: {state(browser)}")
    most = max(page.table().items(), key=lambda row: row[1]["table.calls"])[0]
    browser.click_on("#table-head th:nth-child(2) button")
    expect(state(browser)["sort"] == "calls" and state(browser)["first"] == most, f"by calls: {state(browser)}, not {most}")
    browser.click_on("#table-head th:nth-child(2) button")
    expect(state(browser)["rising"] and state(browser)["first"] != most, f"by calls, rising: {state(browser)}")
    browser.click_on("#table-head th:nth-child(1) button")
    browser.key("/")
    for letter in "page_leaf":
        browser.key(letter)
    expect(state(browser)["shown"] == 1, f"filtered: {state(browser)}")
    browser.click_on("#table-body tr")
    told = browser.run("document.getElementById('function').textContent")
    expect("page_leaf" in told and "page_round" in told and "p99" in told and "Callees: 0" in told, f"the function: {told}")
    browser.click_on("#function > button")
    shown = browser.run("calltap.model.names[calltap.model.boxes.fn[calltap.state().selected]]")
    expect(state(browser)["view"] == "timeline" and shown == "page_leaf", f"the longest call: {state(browser)}")
    browser.key("/")
    browser.key("Escape")


def try_whole(browser):
    """The facts, the keys, light and dark, and a large screen."""
    browser.key("4")
    facts = browser.run("document.getElementById('facts-text').textContent")
    expect("The time line has all" in facts and "</script><b>-" in facts, f"the facts: {facts[:300]}")
    dark = browser.run("document.documentElement.classList.contains('dark')")
    browser.key("t")
    expect(browser.run("document.documentElement.classList.contains('dark')") != dark, "the key t changes no color")
    browser.key("?")
    expect(browser.run("!document.getElementById('keys').hidden"), "the key ? shows no keys")
    browser.key("Escape")
    browser.resize(1920, 1080, 2)
    for view in "123":
        browser.key(view)
    browser.key("1")
    expect(browser.run("document.getElementById('timeline-canvas').width") == 3840, "the canvas has not the dots of the screen")
    try_large(browser)


def try_large(browser):
    """In a window with very many pixels all is larger, and what is under the pointer is still what is told."""
    browser.resize(3840, 2160)
    browser.key("3")
    height, drawn = browser.run("(row => [row.offsetHeight, calltap.parts.table.state().shown])(document.querySelector('#table-body tr'))")
    expect(height == 36 and drawn, f"a row of the table is {height} pixels high")
    browser.key("1")
    browser.key("0")
    for _ in range(9):
        browser.key("PageUp")
    top = browser.run("document.getElementById('timeline-canvas').getBoundingClientRect().top")
    browser.mouse("mouseMoved", 960, top + 1.5 * (24 + 21 + 9))  # the first thread's outermost call, below ruler and name
    browser.frame()
    told = browser.run("document.getElementById('tip').textContent")
    expect("main" in told, f"the pointer is over main, and {told!r} is told")
    under = browser.run("(view => view.from + (view.to - view.from) / 4)(calltap.parts.timeline.view)")
    for _ in range(3):
        browser.mouse("mouseWheel", 960, top + 300, deltaX=0, deltaY=-240)
    now = browser.run("(view => [view.from + (view.to - view.from) / 4, view.to - view.from])(calltap.parts.timeline.view)")
    expect(abs(now[0] - under) < now[1] / 1000, "the wheel does not zoom at the pointer")


def compared_page(case):
    """Two runs with hostile names, of which the second one does more, and the page of their difference."""
    case.trace_path = after = os.path.join(case.folder, "after")
    record_hostile(case, "300")
    case.trace_path = os.path.join(case.folder, "before")
    record_hostile(case, "30")
    return page_of(case, "compared.html", "--diff", after), after


def difference(case):
    """The page tells what `calltap diff` tells, and is the page of the first trace otherwise."""
    page, after = compared_page(case)
    for chosen in ([], ["-f", "page_leaf"]):
        page = page_of(case, "compared.html", "--diff", after, *chosen)
        done = case.run([case.tool, "diff", "--json", *chosen, case.trace_path, after])
        expect(done.status == 0, f"calltap diff: {done.stderr}")
        wanted, told = json.loads(done.stdout), page.head["diff"]
        expect({key: told[key] for key in wanted} == wanted, f"the page: {told}, diff: {wanted}")
        leaf = next(row for row in told["rows"] if row["function"] == "page_leaf")
        expect(leaf["calls_change"] > 0 and len(told["rows"]) >= (1 if chosen else len(COUNTS)), f"page_leaf: {leaf}")
        check_table(page, report_of(case, *chosen)["rows"])
    expect("diff" not in page_of(case).head, "a page that compares nothing has a difference")
    text = page.bytes.decode("ascii")
    expect(text.count("</script") == 2 and text.count("<script") == 2, "there is a script in the page that is not its own")
    refused = case.run([case.tool, "html", "-i", case.trace_path, "--diff", "/no/trace", "-o", os.path.join(case.folder, "none.html")])
    expect(refused.status == 1 and "/no/trace" in refused.stderr, f"{refused.status}: {refused.stderr}")
    expect(not os.path.exists(os.path.join(case.folder, "none.html")), "a page is there after an error")


def difference_in_browser(case):
    page, _ = compared_page(case)
    rows = page.head["diff"]["rows"]
    browser = Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "compared.html"))
        browser.key("5")
        expect(state(browser)["view"] == "difference" and state(browser)["shown"] == len(rows), f"{state(browser)}")
        cells = browser.run("[...document.querySelectorAll('#difference-body tr')].map(row => [...row.children].map(cell => cell.textContent))")
        expect(len(cells) == len(rows), f"{len(cells)} rows are shown of {len(rows)}")
        expect([line[1] for line in cells] == [row["verdict"] for row in rows], f"verdicts: {cells}")
        expect([line[8].replace(",", "") for line in cells] == [count_of(row["a"]) for row in rows], f"calls before: {cells}")
        expect([line[9].replace(",", "") for line in cells] == [count_of(row["b"]) for row in rows], f"calls after: {cells}")
        classes = browser.run("[...document.querySelectorAll('#difference-body tr td:nth-child(5)')].map(cell => cell.className)")
        expect(classes == [sign_of(row["self_change_ns"]) for row in rows] and "more" in classes, f"colors: {classes}")
        color = browser.run("getComputedStyle(document.querySelector('#difference-body td.more')).color")
        expect(color != browser.run("getComputedStyle(document.body).color"), f"more time is {color}, as all text")
        browser.click_on("#difference-head th:nth-child(1) button")
        expect(state(browser)["rising"] and state(browser)["sort"] == 0, f"by name: {state(browser)}")
        browser.key("/")
        for letter in "page_leaf":
            browser.key(letter)
        expect(state(browser)["shown"] == 1, f"filtered: {state(browser)}")
        browser.click_on("#difference-body tr")
        expect(state(browser)["view"] == "table" and state(browser)["chosen"] == "page_leaf", f"a click: {state(browser)}")
        no_markup(browser)
        expect(not browser.complaints(), f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()


def count_of(part):
    return str(part["calls"] + part["unfinished"]) if part else "\u2013"


def sign_of(change):
    return "more" if change > 0 else "less" if change < 0 else ""


SINGLE = {"html-sums": sums, "html-long": long_trace, "html-untimed": untimed, "html-losses": losses, "html-hostile": hostile,
          "html-estimates": estimates, "html-unfinished": unfinished,
          "html-browser": in_browser, "html-diff": difference, "html-diff-browser": difference_in_browser}
ALIKE = dict.fromkeys(("html-long", "html-untimed", "html-losses", "html-hostile", "html-browser", "html-diff", "html-diff-browser"))

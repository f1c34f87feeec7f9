"""A range on the page's time line: its figures against those that are counted here from `calltap export --format json`."""
import json
import os

from attach import Program, Tool, left_alone
from browser import Browser
from harness import expect

from page import no_markup, page_of, report_of, state
from page import shown as named

MEASURED = """(range => ({rows: range.rows, small: range.small, tree: {parent: [...range.tree.parent], fn: [...range.tree.fn],
    calls: [...range.tree.calls], total: [...range.tree.total], self: [...range.tree.self]}}))"""
UNFINISHED = ("open", "lost")


class Call:
    def __init__(self, line, parent):
        self.function, self.tid, self.begin, self.parent, self.callees = named(line["fn"]), line["tid"], line["ns"], parent, []
        self.end = self.own = self.how = None
        if parent:
            parent.callees.append(self)

    def part(self, low, high):
        """Its time from low to high; None: it has none there."""
        part = min(self.end, high) - max(self.begin, low)
        return part if part > 0 or part == 0 and self.begin == self.end else None

    def own_part(self, low, high):
        if low <= self.begin and self.end <= high:
            return self.own
        return max(0, self.part(low, high) - sum(callee.part(low, high) or 0 for callee in self.callees))

    def path(self):
        return (*(self.parent.path() if self.parent else ()), self.function)


def calls_of(case, *arguments):
    """All calls of a trace in which each thread has one stack."""
    done = case.run([case.tool, "export", "--format", "json", "-o", "-", "-i", case.trace_path, *arguments])
    expect(done.status == 0, done.stderr)
    calls, stacks = [], {}
    for text in done.stdout.splitlines():
        line = json.loads(text)
        stack = stacks.setdefault(line.get("tid"), [])
        if line["ev"] == "enter":
            calls.append(Call(line, stack[-1] if stack else None))
            stack.append(calls[-1])
        elif line["ev"] == "leave":
            call = stack.pop()
            call.end, call.own, call.how = call.begin + line["dur"], line["self"], line["end"]
    expect(calls and not any(stacks.values()), f"{len(calls)} calls, and of these threads not all ended: {stacks}")
    return calls


def counted(calls, low, high):
    """{function: [finished calls, unfinished ones, total, self]} and {path: [calls, total, self]} of a range."""
    rows, paths = {}, {}
    for call in calls:
        part = call.part(low, high)
        if part is None:
            continue
        row, path = rows.setdefault(call.function, [0] * 4), paths.setdefault(call.path(), [0] * 3)
        row[call.how in UNFINISHED] += 1
        row[2] += 0 if call.parent and call.function in call.parent.path() else part
        row[3] += call.own_part(low, high)
        path[0] += 1
        path[1] += part
        path[2] += call.own_part(low, high)
    return rows, paths


def measured(browser, low, high, thread=-1):
    return browser.run(f"{MEASURED}(calltap.rangeOf({low}, {high}, {thread}))")


def shown(got):
    return {row["name"]: [row["calls"], row["unfinished"], row["total"], row["self"]] for row in got["rows"]}


def paths_of(page, tree):
    paths, found = [()], {}
    for parent, function, *figures in list(zip(*(tree[key] for key in ("parent", "fn", "calls", "total", "self"))))[1:]:
        paths.append((*paths[parent], page.names[function]))
        found[paths[-1]] = figures
    return found


def check_range(browser, page, calls, low, high, thread=-1):
    got, (rows, paths) = measured(browser, low, high, thread), counted(calls, low, high)
    where = f"from {low} to {high} of the thread {thread}"
    expect(shown(got) == rows, f"{where} the page has {shown(got)}, the trace {rows}")
    expect(paths_of(page, got["tree"]) == paths, f"{where} the page's tree is {paths_of(page, got['tree'])}, the trace's {paths}")
    expect(not any(got["small"].values()) and not any(row["totalMore"] or row["selfMore"] for row in got["rows"]), f"{where} the page is unsure: {got}")


def report_rows(case, *arguments):
    return {named(row["function"]): [row["calls"], row.get("unfinished", 0), row["total_ns"], row["self_ns"]] for row in report_of(case, *arguments)["rows"]}


def check_whole(browser, case, page, *arguments):
    """The range of all boxes has the table's figures, of all threads and of each, and the graph's paths."""
    whole = browser.run("calltap.parts.timeline.whole")
    expect(shown(measured(browser, whole["from"], whole["to"])) == report_rows(case, *arguments), "the range of the whole trace is not the table")
    for thread, (_, tid, _) in enumerate(page.head["threads"]):
        rows = shown(measured(browser, whole["from"], whole["to"], thread))
        expect(rows == report_rows(case, "--tid", str(tid), *arguments), f"the thread {tid} has {rows}")
    tree = [{"parent": 0, "fn": 0}, *({"parent": node[0], "fn": node[1]} for node in page.tree("whole"))]
    wanted, paths = {}, [()]
    for node, figures in zip(tree[1:], page.tree("whole")):
        paths.append((*paths[node["parent"]], page.names[node["fn"]]))
        wanted[paths[-1]] = list(figures[2:])
    got = paths_of(page, measured(browser, whole["from"], whole["to"])["tree"])
    expect(got == wanted, f"the range's tree is {got}, the whole one {wanted}")
    return whole


def ranges_of(calls, whole):
    """The whole, halves, inside of a call, its end, some of a few microseconds, a moment, and where nothing ran."""
    low, high = whole["from"], whole["to"]
    middle = (low + high) // 2
    yield from ((low, high), (low, middle), (middle, high), (middle, middle), (high + 10, high + 20), (0, max(low - 1, 0)))
    for name in ("page_round", "page_descend", "main"):
        call = max((call for call in calls if call.function == name), key=lambda each: each.end - each.begin)
        third = (call.end - call.begin) // 3
        yield from ((call.begin + third, call.end - third), (call.begin, call.end), (call.end - 1, call.end + third), (call.end, call.end))
    for at in range(1, 12):
        begin = low + (high - low) * at // 12
        yield from ((begin, begin + 3000), (begin, begin + 1))


def ranges_in_sums(page):
    """Ranges that begin in the midst of the longest boxes of small calls, or end there."""
    sums = [(begin, end) for _, _, row in page.rows() for begin, end, function, _ in row if not function]
    for begin, end in sorted(sums, key=lambda box: box[0] - box[1])[:10]:
        yield from (((begin + end) // 2, end + 20000), (begin - 20000, (begin + end) // 2))


def figures(case):
    """All calls are boxes: the page's figures are the trace's, in any range."""
    case.same_as_plain([case.program("page.c"), "60"], log=False)
    ranges, browser = [], Browser(case.folder)
    try:
        for chosen in ([], ["-n", "page_round"]):
            page, calls = page_of(case, "page.html", *chosen), calls_of(case, *chosen)
            expect(not page.levels["threshold_ns"], f"not all calls are boxes: {page.levels}")
            browser.open(os.path.join(case.folder, "page.html"))
            whole = check_whole(browser, case, page, *chosen)
            ranges = ranges or list(ranges_of(calls, whole))
            for low, high in ranges:
                check_range(browser, page, calls, low, high)
            for thread, (_, tid, _) in enumerate(page.head["threads"]):
                check_range(browser, page, [call for call in calls if call.tid == tid], *ranges[1], thread)
        expect(not browser.complaints(), f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()


def bounds(case):
    """Small calls are sums: what the page has of a range is the least that is sure, and with `More` the most."""
    case.same_as_plain([case.program("page.c"), "3000"], log=False)
    page, calls = page_of(case), calls_of(case)
    expect(page.levels["small"] > 1000, f"there are hardly small calls: {page.levels}")
    browser = Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "page.html"))
        whole, cut = browser.run("calltap.parts.timeline.whole"), 0
        for low, high in (*ranges_of(calls, whole), *ranges_in_sums(page)):
            got, (rows, _) = measured(browser, low, high), counted(calls, low, high)
            small, cut = got["small"], cut + got["small"]["cut"]
            known = sum(row["calls"] + row["unfinished"] for row in got["rows"]) + small["calls"]
            every = sum(row[0] + row[1] for row in rows.values())
            expect(known <= every <= known + small["cut"], f"from {low} to {high}: {every} calls, the page has {known} and {small}")
            least = sum(row["self"] for row in got["rows"]) + small["self"]
            most = least + sum(row["selfMore"] for row in got["rows"]) + small["selfMore"]
            own = sum(row[3] for row in rows.values())
            # Each duration is rounded by itself.
            expect(least - every <= own <= most + every, f"from {low} to {high}: self {own}, the page has {least} to {most}")
            for row in got["rows"]:
                expect(row["calls"] <= rows[row["name"]][0] and row["total"] <= rows[row["name"]][2],
                       f"from {low} to {high}: {row}, but {rows[row['name']]}")
        expect(cut, "no range cuts a sum")
        got = measured(browser, whole["from"], whole["to"])
        expect(got["small"]["calls"] == page.levels["small"] and not got["small"]["cut"], f"{got['small']}, {page.levels}")
    finally:
        browser.close()


def stacks(case):
    """Time in which a thread runs on another stack is not its calls' own; and calls that are open at the end count."""
    browser = Browser(case.folder)
    try:
        for source, away, *arguments in (("routines.c", True), ("altstacks.c", True), ("ends.c", False, "_exit", "3")):
            case.trace_path = os.path.join(case.folder, source)
            case.same_as_plain([case.program(source), *arguments], log=False)
            page = page_of(case)
            browser.open(os.path.join(case.folder, "page.html"))
            expect(page.columns["away.ns"] or not away, "no call's thread ran on another stack")
            whole = browser.run("calltap.parts.timeline.whole")
            expect(shown(measured(browser, whole["from"], whole["to"])) == report_rows(case), f"{source}: the range of the whole trace is not the table")
    finally:
        browser.close()


def begun_before(case):
    """Frames that were open when the trace began are not counted; the paths of their callees go through them."""
    case.need_native("attaching")
    with Program(case) as program, left_alone(program):
        with Tool(case, program) as tool:
            tool.records(1000)
            tool.detach()
    page, browser = page_of(case), Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "page.html"))
        expect(any(flags & 16 for flags in page.columns["box.flags"]), "no frame was open when the trace began")
        expect(not page.levels["strays"], f"calls have no place: {page.levels}")
        check_whole(browser, case, page)
    finally:
        browser.close()


def untimed(case):
    """Calls without a duration count where they happened, and have no time."""
    case.same_as_plain([case.program("page.c"), "50"], ["-p", "function"], log=False)
    page_of(case)
    browser = Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "page.html"))
        whole = browser.run("calltap.parts.timeline.whole")
        got = measured(browser, whole["from"], whole["to"])
        wanted = {named(row["function"]): row["calls"] for row in report_of(case)["rows"]}
        expect({row["name"]: row["calls"] for row in got["rows"]} == wanted, f"{got['rows']}, the report: {wanted}")
        expect(not any(row["timed"] or row["total"] for row in got["rows"]) and len(got["tree"]["fn"]) == 1, f"{got}")
        middle = (whole["from"] + whole["to"]) // 2
        halves = [sum(row["calls"] for row in measured(browser, *limits)["rows"]) for limits in ((whole["from"], middle), (middle + 1, whole["to"]))]
        expect(sum(halves) == sum(wanted.values()), f"{halves} calls in the halves of {sum(wanted.values())}")
    finally:
        browser.close()


def losses(case):
    """With lost records: calls that have a place are counted with the report's times; of the others it is told how many they are."""
    case.same_as_plain([case.program("page.c"), "1500"], ["--mode", "drop", "-b", "64K"], log=False)
    page, rows, browser = page_of(case), report_rows(case), Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "page.html"))
        expect(not page.levels["threshold_ns"], f"not all calls are boxes: {page.levels}")
        whole = browser.run("calltap.parts.timeline.whole")
        got = shown(measured(browser, whole["from"], whole["to"]))
        missing = sum(row[0] + row[1] for row in rows.values()) - sum(row[0] + row[1] for row in got.values())
        expect(missing == page.levels["strays"], f"{missing} calls are not in the range, {page.levels['strays']} have no place")
        for name, row in got.items():
            expect(row[0] == rows[name][0] and row[2:] == rows[name][2:], f"{name}: {row}, the report {rows[name]}")
        browser.run("calltap.rule.set(0, 1e12)")
        expect(not missing or "no place on the time line" in told(browser), f"the chip says {told(browser)}")
    finally:
        browser.close()


def by_hand(case):
    """A range by mouse and keyboard: each view is of it, and says so."""
    case.same_as_plain([case.program("page.c"), "60"], log=False)
    page, calls, browser = page_of(case), calls_of(case), Browser(case.folder)
    try:
        browser.open(os.path.join(case.folder, "page.html"))
        every = state_of(browser, "flame")["total"]
        view = browser.run("calltap.parts.timeline.view")
        per_pixel = (view["to"] - view["from"]) / 1280
        rounds = sorted(call.begin for call in calls if call.function == "page_round")
        # A quarter of the rounds, and some pixels.
        first = int((rounds[len(rounds) // 2] - view["from"]) / per_pixel)
        last = max(first + 50, int((rounds[len(rounds) * 3 // 4] - view["from"]) / per_pixel) + 5)
        browser.mouse("mouseMoved", first, ruler(browser))
        browser.mouse("mousePressed", first, ruler(browser), button="left", buttons=1, clickCount=1)
        for x in (first + 20, last):
            browser.mouse("mouseMoved", x, ruler(browser), button="left", buttons=1)
        browser.mouse("mouseReleased", last, ruler(browser), button="left", clickCount=1)
        browser.frame()
        expect(browser.run("calltap.parts.timeline.view") == view, "dragging over the ruler moves the time line")
        range_now = browser.run("calltap.rule.range")
        for key, x in (("from", first), ("to", last)):
            expect(abs(range_now[key] - view["from"] - x * per_pixel) <= 1, f"dragged from {first} to {last}: {range_now} of {view}")
        rows, paths = counted(calls, range_now["from"], range_now["to"])
        check_shown(browser, rows)
        total = sum(figures[1] for path, figures in paths.items() if len(path) == 1)
        own = sum(row[3] for row in rows.values())
        for key, wanted in (("", total), ("i", own), ("i", total)):
            flame = state_of(browser, "flame", key)
            expect(flame["total"] == wanted != every, f"the flame graph of the range has {flame}, not {wanted}")
        check_thread(browser, page, calls, range_now)
        browser.key("1")
        browser.key("Escape")
        expect(not browser.run("calltap.rule.range") and told(browser) is None, "Escape does not let the range go")
        expect(state_of(browser, "flame")["total"] == every, "the flame graph is still of the range")
        try_view(browser)
        no_markup(browser)
        expect(not browser.complaints(), f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()


def ruler(browser):
    """A height on the ruler, which moves when the chip is there."""
    return browser.run("document.getElementById('timeline-canvas').getBoundingClientRect().top || 45") + 10


def state_of(browser, view, key=""):
    browser.run(f"calltap.open('{view}')")
    if key:
        browser.key(key)
    browser.frame()
    found = state(browser)
    browser.run("calltap.open('timeline')")
    browser.frame()
    return found


def told(browser):
    """What the chip says; None: it is not there."""
    return browser.run("(chip => chip.hidden || !chip.clientHeight ? null : document.getElementById('rule-text').textContent)(document.getElementById('rule'))")


def check_shown(browser, rows):
    """The table's cells, the words that tell what a range does not have, and the chip in each view."""
    every = sum(row[0] + row[1] for row in rows.values())
    expect(every > 10, f"there are hardly calls in the range: {rows}")
    for view in "124":
        browser.key(view)
        expect(f": {every:,} calls" in (told(browser) or ""), f"the chip says {told(browser)}, not {every}")
        elsewhere = browser.run("document.getElementById('rule-elsewhere').hidden")
        expect(elsewhere == (view != "4"), f"the chip of the view {view} says {browser.run('document.getElementById(`rule`).textContent')}")
    browser.key("3")
    cells = browser.run("[...document.querySelectorAll('#table-body tr')].map(row => [...row.children].map(cell => cell.textContent))")
    expect({line[0]: line[1] for line in cells} == {cut(name): f"{row[0]:,}" for name, row in rows.items()}, f"calls in the range: {cells}")
    expect(all(line[4:] == ["\u2013"] * 3 for line in cells), f"percentiles of a range: {cells}")
    titles = browser.run("[...document.querySelectorAll('#table-body tr:first-child td')].map(cell => cell.title)")
    expect(all("a range has none" in title for title in titles[4:]), f"the cells say {titles}")
    browser.click_on("#table-body tr")
    aside = browser.run("document.getElementById('function').textContent")
    expect("In the range" in aside and "In the whole trace" in aside and "a range has none" in aside, f"the function: {aside}")


def cut(name):
    return name if len(name) <= 300 else name[:299] + "\u2026"


def check_thread(browser, page, calls, limits):
    """A thread rules together with the range."""
    browser.run("(choice => { choice.selectedIndex = 1; choice.dispatchEvent(new Event('change')); })(document.getElementById('rule-thread'))")
    tid = page.head["threads"][browser.run("calltap.rule.thread")][1]
    rows, _ = counted([call for call in calls if call.tid == tid], limits["from"], limits["to"])
    browser.key("3")
    expect(state(browser)["shown"] == len(rows), f"the table of a thread has {state(browser)['shown']} functions, not {len(rows)}")
    expect(browser.run("document.getElementById('flame-thread').selectedIndex") == 1, "the flame graph is of another thread")
    browser.run("calltap.rule.choose(-1)")


def try_view(browser):
    """The key r takes the time in view; the button lets it go."""
    for _ in range(3):
        browser.mouse("mouseWheel", 640, ruler(browser) + 100, deltaX=0, deltaY=-240)
    browser.key("r")
    view, limits = browser.run("calltap.parts.timeline.view"), browser.run("calltap.rule.range")
    expect(abs(limits["from"] - view["from"]) < 1 and abs(limits["to"] - view["to"]) < 1, f"the key r takes {limits} of {view}")
    browser.click_on("#rule-drop")
    expect(not browser.run("calltap.rule.range"), "the button does not let the range go")


SINGLE = {"html-range": figures, "html-range-small": bounds, "html-range-stacks": stacks, "html-range-before": begun_before, "html-range-untimed": untimed,
          "html-range-losses": losses, "html-range-by-hand": by_hand}
ALIKE = dict.fromkeys(SINGLE)

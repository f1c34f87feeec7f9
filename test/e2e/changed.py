"""The differential flame graph of `calltap html --diff`: its data are `calltap diff --tree`'s, and what the browser shows of them."""
import json
import os

from browser import Browser
from comparing import recorded
from harness import expect

from page import compared_page, no_markup, page_of, report_of, shown, state

FIGURES = ("calls_before", "calls_after", "total_before", "total_after", "self_before", "self_after")
PIXEL = """((canvas, x, y) => { const copy = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    copy.drawImage(canvas, x, y, 1, 1, 0, 0, 1, 1); return [...copy.getImageData(0, 0, 1, 1).data]; })"""


def nodes_of(page):
    """{path: figures}, in the page."""
    paths, found = [()], {}
    for up, name, *figures in zip(*(page.columns["change." + column] for column in ("up", "name", *FIGURES))):
        paths.append((*paths[len(paths) - up], page.head["change"]["names"][name - 1]))
        found[paths[-1]] = figures
    return found


def tree_of(case, after, *arguments):
    """The same, as diff tells it."""
    done = case.run([case.tool, "diff", "--tree", "--min-percent", "0", "--json", *arguments, case.trace_path, after])
    expect(done.status == 0, f"calltap diff: {done.stderr}")
    paths, found = {None: ()}, {}
    for node in json.loads(done.stdout)["tree"]:
        paths[node["id"]] = (*paths[node["parent"]], shown(node["function"]))
        found[paths[node["id"]]] = [figure for keys in (("calls", "unfinished"), ("total_ns",), ("self_ns",)) for side in "ab"
                                    for figure in [sum(node[side][key] for key in keys)]]
    return found


def data(case):
    _, after = compared_page(case)
    for chosen in ([], ["-f", "page_descend"], ["-n", "page_descend"]):
        page = page_of(case, "compared.html", "--diff", after, *chosen)
        wanted, got = tree_of(case, after, *chosen), nodes_of(page)
        expect(got == wanted, f"{chosen}: the page has {got}, diff {wanted}")
        expect(not page.head["change"]["left"] and len(got) > 3, f"{chosen}: {page.head['change']}, {len(got)} nodes")
    open_calls(case)
    case.trace_path, before = os.path.join(case.folder, "untimed"), case.trace_path
    done = case.record([case.program("page.c"), "20"], ["-p", "function"], log=False)
    expect(done.status == 0, done.stderr)
    page = page_of(case, "untimed.html", "--diff", before)
    expect("change" not in page.head and page.head["diff"]["rows"], "a trace without durations has a tree")


def open_calls(case):
    """Calls that are open at the end count, too: the program ends in one."""
    case.trace_path = os.path.join(case.folder, "open")
    case.same_as_plain([case.program("ends.c"), "_exit", "3"], log=False)
    page, wanted = page_of(case, "open.html", "--diff", case.trace_path), tree_of(case, case.trace_path)
    expect(nodes_of(page) == wanted, f"the page has {nodes_of(page)}, diff {wanted}")
    expect(any(row["unfinished"] for row in report_of(case)["rows"]), "no call was open at the end")


def in_browser(case):
    """Each width and color; what is in one trace alone is there; the pointer tells before, after and the difference."""
    case.as_it_is = True
    program = case.program("compared.c")
    before, _ = recorded(case, "before", [program, "2000", "100", "0", "0"], [])
    after, _ = recorded(case, "after", [program, "2000", "1000", "250", "1"], [])
    browser = Browser(case.folder)
    try:
        for mark, case.trace_path, other in (("+", before, after), ("\u2212", after, before)):
            page = page_of(case, "compared.html", "--diff", other)
            browser.open(os.path.join(case.folder, "compared.html"))
            browser.key("5")
            expect(not state(browser)["asFlame"], "the table is not there first")
            browser.click_on("#difference-as-flame")
            check_widths(browser, nodes_of(page))
            for color in ("total", "self"):
                choose(browser, "color", color)
                check_boxes(browser, nodes_of(page), mark, 3 if color == "total" else 5)
        browser.key("/")
        for letter in "compared_p":
            browser.key(letter)
        expect("of the time is in what matches" in browser.run("document.getElementById('difference-flame-said').textContent"), "the search finds nothing")
        browser.key("Escape")
        browser.key("f")
        expect(not state(browser)["asFlame"] and state(browser)["shown"] == len(page.head["diff"]["rows"]), f"the key f: {state(browser)}")
        hostile_names(case, browser)
        expect(not browser.complaints(), f"the browser complains: {browser.complaints()}")
    finally:
        browser.close()


def hostile_names(case, browser):
    page, _ = compared_page(case)
    browser.open(os.path.join(case.folder, "compared.html"))
    browser.key("5")
    browser.key("f")
    expect(state(browser)["count"] == len(nodes_of(page)) + 1, f"{state(browser)}, and the page has {len(nodes_of(page))} nodes")
    no_markup(browser)


def choose(browser, name, value):
    browser.run(f"(choice => {{ choice.value = '{value}'; choice.dispatchEvent(new Event('change')); }})(document.getElementById('difference-{name}'))")
    browser.frame()


def check_widths(browser, nodes):
    tops = [figures for path, figures in nodes.items() if len(path) == 1]
    sums = {"before": sum(figures[2] for figures in tops), "after": sum(figures[3] for figures in tops)}
    for width, wanted in (*sums.items(), ("both", sum(sums.values()))):
        choose(browser, "width", width)
        expect(state(browser)["asFlame"] and state(browser)["total"] == wanted, f"as wide as {width}: {state(browser)}, not {wanted}")
    expect(browser.run("document.getElementById('difference-scroll').clientHeight") == 0, "the table is there beside the flame graph")


def check_boxes(browser, nodes, mark, figure):
    """Each box that is wide enough: what the pointer tells, its mark if it is in one trace alone, and its color."""
    top = browser.run("document.getElementById('difference-canvas').getBoundingClientRect().top")
    paths, marked = clean_paths(browser, nodes), 0
    for node, depth, x, wide in browser.run("calltap.parts.difference.flame.boxes()"):
        if wide < 8 or node < 1:
            continue
        path = browser.run(f"(flame => {{ const path = []; for (let node = {node}; node; node = flame.parent[node]) path.unshift(flame.names[flame.fn[node]]);"
                           " return path; })(calltap.parts.difference.flame.change)")
        figures, y = paths[tuple(path)], 4 + depth * 19
        browser.mouse("mouseMoved", x + wide / 2, top + y + 9)
        browser.frame()
        told = browser.run("document.getElementById('tip').textContent")
        alone = not figures[0] or not figures[1]
        marked += alone
        name = (mark + " " if alone else "") + path[-1]
        expect(told.startswith(name[:400]) and f"calls: {figures[0]:,} before, {figures[1]:,} after" in told, f"over {name}, {figures}: {told!r}")
        browser.mouse("mouseMoved", 5, 5)
        browser.frame()
        red, _, blue, _ = browser.run(PIXEL + f"(document.getElementById('difference-canvas'), {int(x) + 4}, {y + 16})")
        change = figures[figure] - figures[figure - 1]
        expect((red - blue > 20) == (change > 0) and (blue - red > 20) == (change < 0), f"{path} changes by {change}: red {red}, blue {blue}")
    expect(marked, "no box is of one trace alone")


def clean_paths(browser, nodes):
    """As the page shows the names."""
    names = browser.run("calltap.parts.difference.flame.change.names")[1:]
    known = dict(zip(browser.run("calltap.model.head.change.names"), names))
    return {tuple(known[name] for name in path): figures for path, figures in nodes.items()}


SINGLE = {"html-change": data, "html-change-browser": in_browser}
ALIKE = dict.fromkeys(SINGLE)

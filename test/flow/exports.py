"""Checks of the exporters: what they wrote is decoded by other means and compared with one another."""
import json
from collections import Counter, defaultdict


def run(bench, *arguments):
    result = bench.run(*arguments)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def fields(data):
    """(field number, value) of a protocol buffer message: varints as int, length-delimited as bytes."""
    def varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    at = 0
    while at < len(data):
        tag, at = varint(at)
        if tag & 7 == 0:
            value, at = varint(at)
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size, at = varint(at)
            assert at + size <= len(data), "a field reaches beyond its message"
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def perfetto_slices(data):
    """Decode as trace_processor would: {tid or name of another stack's track: [("B"|"E"|"I", name, ns)]}; the sum of the incremental clock is kept."""
    names, tracks, events, clock, processes = {}, {}, defaultdict(list), None, {}
    for number, packet in fields(data):
        assert number == 1
        message = dict(fields(packet))
        assert message[10] == 1
        if 6 in message:
            clocks = [dict(fields(value)) for field, value in fields(message[6]) if field == 1]
            assert clocks[1][1] == 64 and clocks[1][3] == 1 and clocks[0][2] == clocks[1][2]
            clock = clocks[1][2]
            assert dict(fields(message[59]))[58] == 64 and message[13] & 1
            continue
        assert message[13] & 2, "a packet does not ask for the state it needs"
        for field, value in fields(message.get(12, b"")):
            assert field == 2
            entry = dict(fields(value))
            assert entry[1] not in names, "a name is interned twice"
            names[entry[1]] = entry[2].decode()
        if 60 in message:
            track = dict(fields(message[60]))
            if 3 in track:
                processes[track[1]] = dict(fields(track[3]))
            elif 4 not in track:
                assert track[1] not in tracks and track[5] in tracks
                tracks[track[1]] = {2: track[2].decode()}
            else:
                assert track[5] in processes
                tracks[track[1]] = dict(fields(track[4]))
        if 11 in message:
            clock += message[8]
            event = dict(fields(message[11]))
            name = names[event[10]] if 10 in event else event.get(23, b"").decode()
            events[tracks[event[11]][2]].append(("?BEI"[event[9]], name, clock))
    return events


def json_events(bench, trace, *options):
    lines = [json.loads(line) for line in run(bench, "export", "--format", "json", "-i", trace, *options).splitlines()]
    assert lines[0]["ev"] == "head" and all(line["ev"] != "head" for line in lines[1:])
    return lines[0], lines[1:]


def check_perfetto_slices_nest_and_match_the_json(bench):
    events = perfetto_slices(run(bench, "export", "--format", "perfetto", "-i", "small"))
    head, lines = json_events(bench, "small")
    assert sum(len(thread) for thread in events.values()) > 10000
    expected = defaultdict(list)
    for line in lines:
        if line["ev"] == "enter":
            expected[line["tid"]].append(("B", line["fn"], line["ns"]))
        elif line["ev"] == "leave" and "dur" in line and line["end"] != "open":
            expected[line["tid"]].append(("E", line["fn"], line["ns"]))
    for tid, thread in events.items():
        stack = []
        seen = []
        for kind, name, clock in thread:
            ns = clock - head["start_mono_ns"]
            if kind == "B":
                stack.append(name)
            elif kind == "E":
                name = stack.pop()
            if kind in "BE":
                seen.append((kind, name, ns))
        assert seen == expected[tid], f"thread {tid} differs"


def check_perfetto_has_a_track_for_each_stack(bench):
    events = perfetto_slices(run(bench, "export", "--format", "perfetto", "-i", "switch"))
    order = {}
    for track, slices in events.items():
        stack, order[track] = [], []
        for kind, name, ns in slices:
            if kind == "B":
                stack.append(name)
            else:
                name = stack.pop()
            order[track].append((kind + name, ns - 5 * 10**9))
        assert not stack, stack
    assert order == {100: [("Bmain", 1000), ("Bresume", 2000), ("Eresume", 5000), ("Bresume", 6000), ("Eresume", 9000),
                           ("Emain", 10000)],
                     "demo, stack 2": [("Bgenerate", 3000), ("Egenerate", 8000)]}, order


def check_perfetto_takes_about_20_bytes_an_event(bench):
    data = run(bench, "export", "--format", "perfetto", "-i", "small")
    count = sum(len(thread) for thread in perfetto_slices(data).values())
    assert len(data) < 24 * count + 4096, f"{len(data) / count:.1f} bytes an event"


def check_perfetto_has_the_calls_of_the_function_tracer(bench):
    events = perfetto_slices(run(bench, "export", "--format", "perfetto", "-i", "calls"))[100]
    assert [(kind, name) for kind, name, _ in events] == [("I", "main"), ("I", "parse"), ("I", "parse")], events


def check_perfetto_has_marks(bench):
    events = perfetto_slices(run(bench, "export", "--format", "perfetto", "-i", "marks"))
    assert [(name, ns % 1000000) for kind, name, ns in events[100] if kind == "I"] == [
        ("before", 500), ("ph\u00e4se 1", 1500), ("", 2500), ("x=7 y=-3", 2600), ('e?[2Jv?il "\\???', 4000)], events
    assert events[0] == [("I", "from the tool", events[0][0][2])], events


def chrome(bench, trace, *options):
    document = json.loads(run(bench, "export", "--format", "chrome", "-i", trace, *options))
    return document["traceEvents"]


def nest(slices):
    """True if (start, end) pairs are disjoint or inside one another."""
    stack = []
    for start, end in sorted(slices, key=lambda pair: (pair[0], -pair[1])):
        while stack and stack[-1] <= start:
            stack.pop()
        if stack and end > stack[-1]:
            return False
        stack.append(end)
    return True


def check_chrome_slices_nest_and_match_the_json(bench):
    events = chrome(bench, "small")
    _, lines = json_events(bench, "small")
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["tid"]].append((round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)))
    assert all(nest(thread) for thread in slices.values())
    written = Counter((event["name"], event["tid"], round(event["dur"] * 1000)) for event in events if event["ph"] == "X")
    leaves = Counter((line["fn"], line["tid"]) for line in lines if line["ev"] == "leave" and "dur" in line)
    assert Counter((name, tid) for name, tid, _ in written.elements()) == leaves
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"}


def check_chrome_slices_of_each_stack_nest(bench):
    slices = defaultdict(list)
    for event in chrome(bench, "switch"):
        if event["ph"] == "X":
            start, length = round(event["ts"] * 1000), round(event["dur"] * 1000)
            slices[event["tid"]].append((start, start + length, event["name"]))
    assert all(nest([(start, end) for start, end, _ in some]) for some in slices.values()), slices
    assert [len(some) for some in slices.values()] == [3, 1], slices


def check_folded_self_times_add_up(bench):
    lines = run(bench, "export", "--format", "folded", "-i", "small").decode().splitlines()
    _, events = json_events(bench, "small")
    total = sum(line["self"] for line in events if line["ev"] == "leave" and "self" in line)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == total
    assert len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines)


def check_folded_calls_count_every_call(bench):
    lines = run(bench, "export", "--format", "folded", "--weight", "calls", "-i", "small").decode().splitlines()
    _, events = json_events(bench, "small")
    entered = sum(line["ev"] == "enter" for line in events)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == entered


def check_report_agrees_with_the_json(bench):
    """Every column, computed anew from the events."""
    rows = json.loads(run(bench, "report", "--json", "-i", "small"))["rows"]
    _, events = json_events(bench, "small")
    open_calls, durations, totals, selves, unfinished = Counter(), defaultdict(list), Counter(), Counter(), Counter()
    known = defaultdict(list)
    for line in events:
        if line["ev"] == "enter":
            known[line["tid"]].append(line["fn"])
            open_calls[line["tid"], line["fn"]] += 1
        elif line["ev"] == "leave" and ("dur" not in line or line["end"] in ("open", "lost")):
            unfinished[line["fn"]] += 1
            if "dur" in line:
                open_calls[line["tid"], line["fn"]] -= 1
                selves[line["fn"]] += line["self"]
                totals[line["fn"]] += 0 if open_calls[line["tid"], line["fn"]] else line["dur"]
        elif line["ev"] == "leave":
            open_calls[line["tid"], line["fn"]] -= 1
            durations[line["fn"]].append(line["dur"])
            selves[line["fn"]] += line["self"]
            if not open_calls[line["tid"], line["fn"]]:
                totals[line["fn"]] += line["dur"]
    assert {row["function"] for row in rows} == set(durations) | set(unfinished)
    assert [row["total_ns"] for row in rows] == sorted((row["total_ns"] for row in rows), reverse=True)
    for row in rows:
        name, values = row["function"], sorted(durations[row["function"]])
        got = [row[key] for key in ("calls", "unfinished", "total_ns", "self_ns", "min_ns", "max_ns", "avg_ns")]
        want = [len(values), unfinished[name], totals[name], selves[name], values[0], values[-1],
                sum(values) // len(values)]
        assert got == want, f"{name}: {got} is not {want}"
        for key, permille in (("p50_ns", 500), ("p99_ns", 990)):
            exact = values[-(-len(values) * permille // 1000) - 1]
            assert abs(row[key] - exact) * 50 <= exact + 49, f"{name}: {key} is {row[key]}, not {exact}"


def check_replay_shows_every_call_once(bench):
    text = run(bench, "replay", "-i", "small").decode().splitlines()
    _, events = json_events(bench, "small")
    opened = sum(" {" in line for line in text)
    leaves = sum(");" in line for line in text)
    closed = sum("|" in line and line.split("|", 1)[1].strip().startswith("}") for line in text)
    assert opened + leaves == sum(line["ev"] == "enter" for line in events)
    assert closed + leaves == sum(line["ev"] == "leave" for line in events)


def check_graph_json_adds_up(bench):
    document = json.loads(run(bench, "graph", "--json", "--min-percent", "0", "-i", "small"))
    nodes = {node["id"]: node for node in document["nodes"]}
    gaps = 0  # time of losses, which is in no call's own
    for node in nodes.values():
        children = [other for other in nodes.values() if other["parent"] == node["id"]]
        below = sum(other["total_ns"] for other in children)
        # Each time is rounded to a nanosecond by itself.
        roundings = sum(other["calls"] + other["unfinished"] for other in [node, node, *children])
        gap = node["total_ns"] - node["self_ns"] - below
        assert gap >= -roundings, node
        gaps += gap if gap > roundings else 0
    assert 0 < gaps <= document["gap_ns"] + len(nodes), (gaps, document["gap_ns"])
    assert document["total_ns"] == sum(node["total_ns"] for node in nodes.values() if node["parent"] is None)
    _, events = json_events(bench, "small")
    assert sum(node["calls"] for node in nodes.values()) == sum(line["ev"] == "enter" for line in events)


def check_no_output_is_left_after_an_error(bench):
    import os
    before = set(os.listdir(bench.folder))
    for output in ("nowhere/out.json", "."):
        result = bench.run("export", "--format", "json", "-i", "small", "-o", output)
        assert result.returncode == 1 and result.stderr.startswith(b"calltap: cannot "), result
    result = bench.run("export", "--format", "json", "-i", "small", "-f", "no such name", "-o", "out.json")
    assert result.returncode == 1, result
    assert set(os.listdir(bench.folder)) == before
    assert bench.run("export", "--format", "json", "-i", "graph", "-o", "out.json").returncode == 0
    assert bench.read("out.json") == run(bench, "export", "--format", "json", "-i", "graph")
    os.unlink(os.path.join(bench.folder, "out.json"))


def check_a_full_disk_is_reported(bench):
    import subprocess
    for verb in (["replay"], ["report"], *(["export", "--format", form] for form in (
            "json", "speedscope", "callgrind", "pprof", "graphviz", "mermaid", "trace.dat"))):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([bench.calltap, *verb, "-i", os_path(bench, "small")], stdout=full,
                                    stderr=subprocess.PIPE, check=False, timeout=60)
        assert result.returncode == 1 and b"No space left" in result.stderr, result


def os_path(bench, name):
    return bench.folder + "/" + name

"""Checks of the exports for other tools: what each tool reads, and that its sums are those of `report`.

Each check goes over traces of the bench and one with hostile names.  In the traces of texts a tick of the clock is a
nanosecond, so nothing is rounded.  In "small" it is not: formats that hold sums have those of `report` there, too; times of
single events are rounded each by itself."""
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from xml.etree import ElementTree

import exports
import tracetext

HOSTILE = [b"</script><script>alert(1)</script>", b"quo\"te'back\\slash", b"semi;colon", b"line\nfeed\ttab\r\x1b[2J\x07",
           b"long_" + b"x" * 10000, b"broken\xff\xc3(utf\x80", "späß_日本\u202e\U0001f525".encode(), b"a, b = c & d &amp; %s %n",
           b"{brace} |pipe| [square] $dollar #hash `tick`", b"(7) not a number", b"*/ /* comment */ // --> <!--", b" ", b"$dollar",
           b"end", b"\\N\\G\\l", b"\"]; evil [label=\""]

ALL_ENDED = "hostile", "names", "switch"
ROUNDED = "small", "trace"  # of which the clock is not in nanoseconds; the second one is recorded


class Missing(Exception):
    """A tool that a check needs is not on this machine."""


def hostile():
    """A trace of calls of functions with such names, each one in the one before it, on a thread with such a name."""
    text = ["info tracer function_graph", "info program </script>\\\"'", "process 0 100 /usr/bin/de\"m;o",
            "thread 0 0 100 a;\"b\\c<", "thread 1 0 101 ]}*/"]
    text += [f"function {i} function{i} a\"b\\c;d{i}.c:{i}" for i in range(len(HOSTILE))]
    for thread in (0, 1):
        text += [f"{thread} {1000 + 10 * i + thread} entry {i}" for i in range(len(HOSTILE))]
        text += [f"{thread} {5000 + 7 * (len(HOSTILE) - i) + thread} exit {i}" for i in reversed(range(len(HOSTILE)))]
    made = tracetext.Text("\n".join(text + ["end 0"]))
    made.functions = [(i, name.decode("utf-8", "surrogateescape"), source)
                      for (i, _, source), name in zip(made.functions, HOSTILE)]
    return made.file()


def traces(bench, *others):
    bench.write("hostile", hostile())
    return bench.some(("graph", "tails", "attached", "hostile", "names", *others, "small"))


def run(bench, *arguments):
    result = bench.run(*arguments)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def export(bench, trace, form, *options):
    return run(bench, "export", "--format", form, "-i", trace, *options)


def report(bench, trace, column, name_of=lambda row: row["function"], options=()):
    """{function: sum}; functions of the same name are one."""
    sums = Counter()
    for row in json.loads(run(bench, "report", "--json", "-i", trace, *options))["rows"]:
        sums[name_of(row)] += row[column]
    return {name: value for name, value in sums.items() if value}


def consumer(bench, program, *arguments, stdin=os.devnull, says=""):
    """What another program prints; standard error has what it is to say, and no other word."""
    if not shutil.which(program):
        raise Missing(f"{program} is not installed: see scripts/packages.sh")
    with open(os.path.join(bench.folder, stdin), "rb") as file:
        result = subprocess.run([program, *arguments], cwd=bench.folder, stdin=file, capture_output=True, timeout=120,
                                check=False, env=os.environ | {"LC_ALL": "C.UTF-8", "TZ": "UTC"})
    said = result.stderr.decode(errors="replace")
    assert result.returncode == 0 and re.fullmatch(says, said.strip(), re.S), f"{program}: {said}"
    return result.stdout.decode("utf-8")


def clean(name):
    """As `report` prints a name on a terminal, and a format that has no escapes."""
    return "".join("?" if ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0 or c in "\u202e\ufffd" else c for c in name)


def same(got, want, trace):
    got = {name: value for name, value in got.items() if value}
    assert got == want, f"{trace}: {sorted(set(got.items()) ^ set(want.items()))[:6]}"


def compare_selves(bench, trace, threads, name_of):
    """Compare with the report: for each thread (time, True: opens, frame) in order; the events must nest."""
    sums, pieces, want = Counter(), Counter(), report(bench, trace, "self_ns")
    for events in threads:
        add_selves(sums, pieces, events, name_of)
    if trace in ROUNDED:
        assert set(sums) == set(want)
        assert all(abs(sums[name] - want[name]) <= pieces[name] for name in want), (sums, want)
    elif trace != "attached":  # what was open before has a time in the file, and none in a report
        same(sums, want, trace)


def add_selves(sums, pieces, events, name_of):
    stack, last = [], 0
    for time, opens, frame in events:
        assert time >= last, "time goes back"
        if stack:
            sums[name_of(stack[-1])] += time - last
            pieces[name_of(stack[-1])] += 1
        last = time
        if opens:
            stack.append(frame)
        else:
            assert stack.pop() == frame, "another frame than the innermost one is closed"
    assert not stack, f"{len(stack)} frames are not closed"


def speedscope(bench, trace, *options):
    """The frames and each profile's events, by the rules of https://www.speedscope.app/file-format-schema.json, and those of
    its importer."""
    document = json.loads(export(bench, trace, "speedscope", *options).decode("utf-8"))
    assert set(document) == {"$schema", "exporter", "name", "activeProfileIndex", "profiles", "shared"}
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert document["activeProfileIndex"] in range(len(document["profiles"]))
    frames = document["shared"]["frames"]
    assert all(isinstance(frame["name"], str) and isinstance(frame.get("file", ""), str) and
               isinstance(frame.get("line", 1), int) and not set(frame) - {"name", "file", "line"} for frame in frames)
    threads = []
    for profile in document["profiles"]:
        assert set(profile) == {"type", "unit", "name", "startValue", "endValue", "events"}, set(profile)
        assert profile["type"] == "evented" and profile["unit"] == "nanoseconds" and isinstance(profile["name"], str)
        events = [(event["at"], {"O": True, "C": False}[event["type"]], event["frame"]) for event in profile["events"]]
        assert events[0][0] == profile["startValue"] and events[-1][0] == profile["endValue"]
        assert all(frame in range(len(frames)) for _, _, frame in events)
        add_selves(Counter(), Counter(), events, lambda frame: frame)
        threads.append(events)
    return frames, threads


def speedscope_agrees(bench, trace):
    frames, threads = speedscope(bench, trace)
    compare_selves(bench, trace, threads, lambda frame, frames=frames: frames[frame]["name"])


def check_speedscope_takes_its_file(bench):
    for trace in traces(bench, "switch"):
        speedscope_agrees(bench, trace)


def check_speedscope_takes_a_part(bench):
    """What was open before the part has its beginning with it; what is left out by its name has no events; all nest still."""
    for trace in ("graph", "switch", "tails", "attached"):
        for options in (("--time", "2.5us..2003us"), ("--time", "3500ns..7500ns"), ("-f", "*a*"), ("--tid", "100")):
            frames, threads = speedscope(bench, trace, *options)
            _, lines = exports.json_events(bench, trace, *options)
            entered = Counter(line["fn"] for line in lines if line["ev"] in ("enter", "open"))
            opened = Counter(frames[frame]["name"] for events in threads for _, opens, frame in events if opens)
            # At the end of the part the calls of all stacks end in json; a profile has those of one.
            ends = [line for line in lines if line["ev"] == "leave" and "--time" in options]
            ended, may = {line["fn"] for line in ends if line["end"] != "open"}, {line["fn"] for line in ends}
            assert set(entered) | ended <= set(opened) <= set(entered) | may, (trace, options)
            assert all(opened[name] >= entered[name] for name in entered), (trace, options)


def annotated(bench, trace, *options):
    """{"file:function": nanoseconds} as callgrind_annotate prints them of an exported file."""
    text = consumer(bench, "callgrind_annotate", "--auto=no", "--threshold=100", "--show-percs=no", *options, f"{trace}.callgrind")
    sums = Counter()
    for line in text.split("file:function", 1)[1].splitlines():
        row = re.fullmatch(r" *([\d,]+) +(\S.*?) *(\[[^\[]*\])?", line)
        if row:
            sums[row[2]] += int(row[1].replace(",", ""))
    return sums


def place(row):
    return f"{clean(row['file'] or '???')}:{'_' if row['function'][0] == ' ' else ''}{clean(row['function'])}".strip()


def check_callgrind_has_what_the_filters_let_pass(bench):
    for trace in ("graph", "small", "switch"):
        for options in (("--time", "2us..2002us"), ("-f", "*[alr]e*"), ("--tid", "101"), ("--min", "1us")):
            result = bench.run("export", "--format", "callgrind", "-i", trace, "-o", f"{trace}.callgrind", *options)
            if result.returncode:
                assert result.stderr.startswith((b"calltap: the trace has no calls", b"calltap: no ")), result.stderr
                continue
            same(annotated(bench, trace, "--inclusive=no"), report(bench, trace, "self_ns", place, options), (trace, options))


def callgrind_agrees(bench, trace):
    export(bench, trace, "callgrind", "-o", f"{trace}.callgrind")
    same(annotated(bench, trace, "--inclusive=no"), report(bench, trace, "self_ns", place), trace)
    total = annotated(bench, trace, "--inclusive=yes")
    del total["???:(outermost calls)"]
    if trace != "attached":  # what was open before has the total of the calls in it
        same(total, report(bench, trace, "total_ns", place), trace)


def check_callgrind_annotate_reads_its_file(bench):
    for trace in traces(bench, "switch"):
        callgrind_agrees(bench, trace)


PROFILE = """syntax = "proto3";
message Profile {
  message ValueType { int64 type = 1; int64 unit = 2; }
  message Label { int64 key = 1; int64 str = 2; int64 num = 3; int64 num_unit = 4; }
  message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; repeated Label label = 3; }
  message Mapping { uint64 id = 1; uint64 memory_start = 2; uint64 memory_limit = 3; uint64 file_offset = 4; int64 filename = 5;
    int64 build_id = 6; bool has_functions = 7; bool has_filenames = 8; bool has_line_numbers = 9; bool has_inline_frames = 10; }
  message Line { uint64 function_id = 1; int64 line = 2; int64 column = 3; }
  message Location { uint64 id = 1; uint64 mapping_id = 2; uint64 address = 3; repeated Line line = 4; bool is_folded = 5; }
  message Function { uint64 id = 1; int64 name = 2; int64 system_name = 3; int64 filename = 4; int64 start_line = 5; }
  repeated ValueType sample_type = 1; repeated Sample sample = 2; repeated Mapping mapping = 3; repeated Location location = 4;
  repeated Function function = 5; repeated string string_table = 6; int64 drop_frames = 7; int64 keep_frames = 8;
  int64 time_nanos = 9; int64 duration_nanos = 10; ValueType period_type = 11; int64 period = 12; repeated int64 comment = 13;
  int64 default_sample_type = 14;
}
"""


def packed(data):
    """The varints of a packed field."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
    assert not shift, "a varint is cut"


def pprof_agrees(bench, trace):
    """As pprof's Profile.CheckValid() and its -top: flat is the self time, and cum counts a function once in a sample."""
    strings, functions, locations, samples, mappings, types = [], {}, {}, [], {}, []
    for number, value in exports.fields(export(bench, trace, "pprof")):
        if number == 6:
            strings.append(value.decode("utf-8"))
        elif number in (1, 2, 3, 4, 5):
            {1: types.append, 2: samples.append, 3: lambda item: mappings.update({dict(item)[1]: dict(item)}),
             4: lambda item: locations.update({dict(item)[1]: dict(item)}),
             5: lambda item: functions.update({dict(item)[1]: dict(item)})}[number](list(exports.fields(value)))
        else:
            assert number == 14 and strings[value] == "self", number
    facts = json.loads(run(bench, "info", "--json", "-i", trace))
    program, first = facts["processes"][0]["exe"], strings[next(iter(mappings.values()))[5]]
    assert first == program or program not in [item["path"] for item in facts["objects"]], f"the first mapping is that of {first}"
    assert strings[0] == "" and [[strings[text] for _, text in one] for one in types] == [
        ["calls", "count"], ["self", "nanoseconds"]]
    flat, total, calls = Counter(), Counter(), Counter()
    for sample in samples:
        ids = list(packed(dict(sample)[1]))
        count, ns = packed(dict(sample)[2])
        labels = {strings[dict(exports.fields(label))[1]]: dict(exports.fields(label)) for key, label in sample if key == 3}
        assert set(labels) == {"thread", "tid", "pid"} and strings[labels["thread"][2]].endswith(f"-{labels['tid'][3]}")
        lines = [dict(exports.fields(locations[number][4])) for number in ids]
        names = [strings[functions[line[1]][2]] for line in lines]
        assert all(not locations[number][2] or locations[number][2] in mappings for number in ids)
        flat[names[0]] += ns
        calls[names[0]] += count
        for name in set(names):
            total[name] += ns
    want = report(bench, trace, "self_ns", lambda row: clean(row["function"]))
    same(flat, want, trace)
    if trace in ALL_ENDED:
        same(calls, report(bench, trace, "calls", lambda row: clean(row["function"])), trace)
    if trace not in (*ROUNDED, "attached", "switch"):  # where nothing is rounded, or runs on two stacks
        same(total, report(bench, trace, "total_ns", lambda row: clean(row["function"])), trace)


def check_pprof_samples_are_the_report(bench):
    for trace in traces(bench, "switch"):
        pprof_agrees(bench, trace)


def check_protoc_decodes_the_profile(bench):
    bench.write("profile.proto", PROFILE.encode())
    for trace in traces(bench, "switch"):
        export(bench, trace, "pprof", "-o", f"{trace}.pb")
        text = consumer(bench, "protoc", "--decode=Profile", "profile.proto", stdin=f"{trace}.pb")
        assert not re.search(r"^ *\d+: ", text, re.M), "a field that the format has not"
        assert text.count("\nsample {") > 1


def compare_sums(bench, trace, boxes, name_of=clean):
    """boxes: (name, calls, total, self) of all functions."""
    def want(column):
        return report(bench, trace, column, lambda row: name_of(row["function"]))

    for at, column in ((3, "self_ns"), (2, "total_ns"), (1, "calls")):
        sums = Counter()
        for box in boxes:
            sums[box[0]] += box[at]
        # What was open before has the total of the calls in it; a report counts calls that ended, as all of these did.
        if column == "self_ns" or trace in ALL_ENDED or column == "total_ns" and trace != "attached":
            same(sums, want(column), trace)


def dot_agrees(bench, trace):
    export(bench, trace, "graphviz", "--min-percent", "0", "-o", f"{trace}.dot")
    # Where each function calls most others, dot looks for a fine layout for half a minute: any layout will do.
    layout = ["-Gnslimit=0.1", "-Gnslimit1=0.1", "-Gmclimit=0.1", "-Gsplines=line"] if trace == "small" else []
    consumer(bench, "dot", *layout, "-Tdot_json", f"-o{trace}.json", "-Tsvg", f"-o{trace}.svg", f"{trace}.dot")
    graph = json.loads(bench.read(f"{trace}.json"))
    boxes = [(box["tooltip"].replace("\\\\", "\\").replace("&amp;", "&"), *(int(box[key]) for key in ("calls", "total_ns", "self_ns")))
             for box in graph["objects"]]
    compare_sums(bench, trace, boxes)
    svg = ElementTree.fromstring(bench.read(f"{trace}.svg").decode())
    texts = {text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert all(name in texts for name, *_ in boxes if len(name) < 60 and name.strip() == name), texts


def check_dot_draws_the_graph(bench):
    for trace in traces(bench, "switch"):
        dot_agrees(bench, trace)


def check_graphviz_arrows_add_up(bench):
    """What no arrow leads to is an outermost call; recursion has no time of its own."""
    text = export(bench, "graph", "graphviz", "--min-percent", "0").decode()
    arrows = {(int(row[1]), int(row[2])): (int(row[3]), int(row[4])) for row in re.finditer(
        r"n(\d+) -> n(\d+) \[label=\"[^\"]*\", penwidth=[\d.]+, calls=(\d+), total_ns=(\d+)\];", text)}
    assert arrows == {(1, 2): (1, 1997000), (1, 4): (1, 2500), (1, 3): (1, 0), (2, 3): (1, 100), (2, 2): (1, 0),
                      (4, 2): (1, 500), (4, 3): (1, 400), (3, 2): (1, 200)}, arrows


def check_drawings_leave_out_small_functions(bench):
    for form, box in (("graphviz", r"\tn\d+ \[label=\"(\w+)"), ("mermaid", r"n\d+\[\"(\w+)")):
        result = bench.run("export", "--format", form, "-i", "graph", "--min-percent", "1")
        assert re.findall(box, result.stdout.decode()) == ["main", "parse"], result.stdout
        assert result.stderr == (b"calltap: 2 functions of less than 1 percent of the time are left out: --min-percent 0 draws all\n"
                                 b"calltap: graph: 7 records were lost, of which '" + form.encode() +
                                 b"' has no word: its counts are too low\n"), result.stderr


def mermaid_agrees(bench, trace):
    """The part of Mermaid's language that is used; a label has no character that means something there."""
    plain = r"(?:[A-Za-z0-9 _.,:()]|#\d+;|<br/>)*"
    lines = export(bench, trace, "mermaid", "--min-percent", "0").decode("ascii").splitlines()
    assert lines[0] == "flowchart TD"
    labels, figures, arrows = {}, {}, 0
    for line in lines[1:]:
        box = re.fullmatch(rf"    (n\d+)\[\"({plain})\"\]", line)
        arrow = re.fullmatch(rf"    (n\d+) -->\|\"{plain}\"\| (n\d+)", line)
        note = re.fullmatch(r"    %% (n\d+): calls (\d+), total (\d+) ns, self (\d+) ns", line)
        assert box or arrow or note or re.fullmatch(r"    %% n\d+ to n\d+: calls \d+, total \d+ ns", line), line
        if box:
            labels[box[1]] = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), box[2].split("<br/>")[0])
        elif note:
            figures[note[1]] = tuple(map(int, note.groups()[1:]))
        elif arrow:
            assert arrow[1] in labels and arrow[2] in labels, line
            arrows += 1
    assert set(labels) == set(figures) and arrows >= len(labels) // 2
    # The one name that is too long for a label loses its middle.
    compare_sums(bench, trace, [(label if "..." not in label else "long", *figures[node]) for node, label in labels.items()],
                 lambda name: "long" if len(name) > 60 else clean(name))


def check_mermaid_keeps_to_its_grammar(bench):
    for trace in traces(bench, "switch"):
        mermaid_agrees(bench, trace)


def seconds(text):
    """Nanoseconds of a number of seconds with nine places."""
    whole, part = text.split(".")
    assert len(part) == 9
    return int(whole) * 10 ** 9 + int(part)


def of_json(bench, trace):
    """{tid: [(CLOCK_MONOTONIC, kind, function)]} of the calls in the JSON lines."""
    head, lines = exports.json_events(bench, trace)
    events = {}
    for line in lines:
        if line["ev"] in ("enter", "leave", "open", "call"):
            events.setdefault(line["tid"], []).append((head["start_mono_ns"] + line["ns"], line["ev"], line["fn"]))
    return events


def babeltrace_agrees(bench, trace):
    kinds = {"function_entry": "enter", "function_exit": "leave", "function_call": "call"}
    folder = os.path.join(bench.folder, f"{trace}.ctf")
    shutil.rmtree(folder, ignore_errors=True)
    export(bench, trace, "ctf", "-o", folder)
    with open(os.path.join(folder, "metadata"), encoding="utf-8") as file:
        table = re.search(r"enum function : uint32_t \{(.*?)\n\};", file.read(), re.S)[1]
    names = {int(row[2]): re.sub(r"\\(.)", r"\1", row[1]) for row in re.finditer(r'\n\t"(.*)" = (\d+)', table)}
    # It says where records were lost, as the packets do.
    text = consumer(bench, "babeltrace2", "--clock-seconds", "--no-delta", folder,
                    says=r"(?:WARNING: Tracer (?:may have )?discarded [^\n]*\s*)+" if trace in ("graph", "small") else "")
    events, rest = {}, Counter()
    for line in text.splitlines():
        row = re.match(r'\[([\d.]+)\] (\w+): \{ pid = \d+, tid = (\d+), thread = ".*?" \}, \{ '
                       r'(?:function = \( ".*?" : container = (\d+) \))?(.*)', line)
        if row[2] not in kinds:
            rest[row[2]] += 1
            continue
        kind = "open" if "before the trace" in row[5] else kinds[row[2]]
        events.setdefault(int(row[3]), []).append((seconds(row[1]), kind, names[int(row[4])]))
    want = {tid: [(ns, kind, clean(name)) for ns, kind, name in some] for tid, some in of_json(bench, trace).items()}
    assert events == want, f"{trace}: {[(a, b) for tid in want for a, b in zip(events[tid], want[tid]) if a != b][:3]}"
    if trace == "marks":
        assert rest == {"mark": 5, "event": 1} and 'text = "phäse 1"' in text, rest
    if trace == "graph":
        assert rest == {"waited": 1, "records_lost": 1} and "{ ns = 1200000 }" in text and "{ records = 7 }" in text
        add_up(bench, trace, events)


def check_babeltrace_reads_the_folder(bench):
    for trace in traces(bench, "switch", "marks", "calls"):
        babeltrace_agrees(bench, trace)


def add_up(bench, trace, events):
    """Compare with the report; an exit without an entry is of a call from before."""
    threads = []
    for some in events.values():
        depth, known = 0, []
        for ns, kind, name in some:
            depth += kind == "enter"
            if depth:
                known.append((ns, kind == "enter", name))
            depth -= depth and kind == "leave"
        threads.append(known)
    compare_selves(bench, trace, threads, lambda name: name)


def check_a_folder_is_not_written_over(bench):
    folder = os.path.join(bench.folder, "taken.ctf")
    os.makedirs(folder)
    assert export(bench, "graph", "ctf", "-o", folder + "/") == b"" and "metadata" in os.listdir(folder)
    before = sorted(os.listdir(bench.folder))
    result = bench.run("export", "--format", "ctf", "-i", "graph", "-o", folder)
    assert result.returncode == 1 and b"is there already: give -o the name of a new folder" in result.stderr, result
    result = bench.run("export", "--format", "ctf", "-i", "graph", "-f", "no such name", "-o", "other.ctf")
    assert result.returncode == 1 and sorted(os.listdir(bench.folder)) == before, result
    result = bench.run("export", "--format", "ctf", "-i", "graph")
    assert result.returncode == 1 and result.stderr == b"calltap: 'ctf' is a folder of files: add -o FOLDER\n", result
    shutil.rmtree(folder)


def symbol(name):
    """A name as kallsyms has it: one word, and no bare "$x"."""
    word = clean(name).replace(" ", "_")
    return "_" + word[1:] if word[0] == "$" else word


def raw_report(bench, trace):
    """{tid: [(CLOCK_MONOTONIC, kind, function, depth, duration)]} of the calls, and the other lines, as trace-cmd prints them."""
    events, rest = {}, []
    for line in consumer(bench, "trace-cmd", "report", "-R", "-t", "-i", f"{trace}.dat").splitlines():
        row = re.fullmatch(r" *(.*)-(\d+) +\[\d+\] +([\d.]+): (\w+): +(.*)", line)
        fields = row and (re.fullmatch(r"func=(.*) depth=(\d+)", row[5]) if row[4] == "funcgraph_entry" else
                          re.fullmatch(r"func=(.*) calltime=(\w+) rettime=(\w+) overrun=0 depth=(\d+)", row[5])
                          if row[4] == "funcgraph_exit" else
                          re.fullmatch(r"ip=(.*) parent_ip=(\S+)", row[5]) if row[4] == "function" else None)
        if not fields:
            rest.append(line)
            continue
        one = {"funcgraph_entry": lambda f: ("enter", f[1], int(f[2]), None),
               "funcgraph_exit": lambda f: ("leave", f[1], int(f[4]), int(f[3], 16) - int(f[2], 16)),
               "function": lambda f: ("call", f[1], None, None)}[row[4]](fields)
        assert one[0] != "leave" or int(fields[3], 16) == seconds(row[3]), line
        events.setdefault(int(row[2]), []).append((seconds(row[3]), *one))
    return events, rest


def trace_cmd_agrees(bench, trace):
    export(bench, trace, "trace.dat", "-o", f"{trace}.dat")
    events, rest = raw_report(bench, trace)
    head, lines = exports.json_events(bench, trace)
    want, sums, before = {}, Counter(), {}
    for line in lines:
        ns = head["start_mono_ns"] + line["ns"]
        place = line["tid"], line.get("fn"), line.get("depth")
        if line["ev"] == "open":
            before[place] = ns
        if line["ev"] in ("enter", "open", "call"):
            one = (ns, "enter" if line["ev"] == "open" else line["ev"], symbol(line["fn"]), line.get("depth"), None)
        elif line["ev"] == "leave" and line["end"] != "open" and ("dur" in line or place in before):
            one = (ns, "leave", symbol(line["fn"]), line["depth"], line.get("dur", ns - before.get(place, ns)))
            sums[line["fn"]] += one[4]
        else:
            continue
        want.setdefault(line["tid"], []).append(one)
    assert events == want, f"{trace}: {[(a, b) for tid in want for a, b in zip(events[tid], want[tid]) if a != b][:3]}"
    if trace in ("hostile", "names"):  # where nothing calls itself
        same(sums, report(bench, trace, "total_ns"), trace)
    lost = [re.sub(r"^CPU:\d+ ", "", line) for line in rest if "DROPPED" in line]
    assert len(lost) == len([line for line in lines if line["ev"] == "lost" and line["records"]]) or trace in ROUNDED, lost
    if trace == "graph":
        assert lost == ["[7 EVENTS DROPPED]"] and any("ip=waited_ns buf=1200000" in line for line in rest), rest
    if trace == "marks":
        assert [line.split("buf=")[1] for line in rest if "ip=mark" in line] == [
            "before", "phäse 1", "", "from the tool", 'e?[2Jv?il "\\???'], rest


def check_trace_cmd_reports_the_calls(bench):
    for trace in traces(bench, "switch", "marks", "calls", "risen"):
        trace_cmd_agrees(bench, trace)


def check_trace_cmd_draws_the_graph(bench):
    """The names and durations of its own picture of nested calls."""
    export(bench, "graph", "trace.dat", "-o", "graph.dat")
    text = consumer(bench, "trace-cmd", "report", "-t", "-i", "graph.dat")
    for line in (r"5\.000003500: funcgraph_entry: +0\.100 us +\|      leaf\(\);", r"funcgraph_entry: +\+ 12\.000 us +\|      parse\(\);",
                 r"5\.002000000: funcgraph_exit: +# 1997\.000 us \|    \}", r"funcgraph_entry: +\|    app::load\(int\)\(\) \{"):
        assert re.search(line, text), text


def check_hostile_names_pass_through_the_older_formats(bench):
    bench.write("hostile", hostile())
    names = {name.decode("utf-8", "replace") for name in HOSTILE}
    document = exports.chrome(bench, "hostile")
    assert {event["name"] for event in document if event["ph"] == "X"} == names
    assert {line["fn"] for line in exports.json_events(bench, "hostile")[1]} == names
    slices = exports.perfetto_slices(export(bench, "hostile", "perfetto"))
    seen = {name for events in slices.values() for _, name, _ in events if name}
    assert len(seen) == len(names) and {name for name in seen if len(name) < 8000} == {clean(name) for name in names if len(name) < 8000}
    lines = export(bench, "hostile", "folded").decode("utf-8").splitlines()
    paths = {tuple(line.rsplit(" ", 1)[0].split(";")): int(line.rsplit(" ", 1)[1]) for line in lines}
    assert len(lines) == len(names) and max(map(len, paths)) == len(names)
    same(Counter({path[-1]: ns for path, ns in paths.items()}),
         report(bench, "hostile", "self_ns", lambda row: clean(row["function"]).replace(";", ":")), "hostile")


def check_kernelshark_reads_the_file(bench):
    """Its library, where it is installed with what a program needs to link it; the tests' packages do not have it."""
    program = os.path.join(bench.folder, "kshark_rows")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kshark_rows.c")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libkshark"], capture_output=True, text=True, check=False)
    if flags.returncode:
        raise Missing("libkshark-dev, libtracecmd-dev and libjson-c-dev are not installed")
    subprocess.run(["cc", "-o", program, source, *flags.stdout.split()], check=True)
    for trace in traces(bench, "switch", "marks", "calls"):
        export(bench, trace, "trace.dat", "-o", f"{trace}.dat")
        events, rest = raw_report(bench, trace)
        rows = [line.split("\t") for line in consumer(bench, program, f"{trace}.dat").splitlines()]
        names = {"enter": "ftrace/funcgraph_entry", "leave": "ftrace/funcgraph_exit", "call": "ftrace/function"}
        want = Counter((ns, tid, names[kind]) for tid, some in events.items() for ns, kind, *_ in some)
        assert Counter((int(ns), int(tid), event) for ns, tid, event, _ in rows if event in names.values()) == want, trace
        assert sum(event == "ftrace/print" for *_, event, _ in rows) == sum(": print: " in line for line in rest), trace
        known = {symbol(name) for name in report(bench, trace, "calls")}
        shown = {found[1] for found in (re.search(r"\|  +(\S.*)\(\)(?:;| \{)$", info) for *_, info in rows) if found}
        assert known <= shown or trace == "calls", (known - shown)

"""Traces in which most records have no time, beside the trace of the same calls in which all have one."""
import json
import re
from collections import defaultdict

GENERATED = ("--records", "60000", "--threads", "4", "--functions", "60")
SEEDS = ((7, 1000), (8, 3000), (9, 40000))  # of gen_trace; the span in ticks, of which there are 3 in a nanosecond
SLACK_NS = 2  # times are cut to whole nanoseconds


def run(bench, *arguments):
    result = bench.run(*arguments)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def pairs(bench):
    """Names of the traces: one of estimates, one that is exact."""
    for seed, span in bench.some(SEEDS):
        options = (*GENERATED, "--seed", str(seed))
        bench.generate("brief", *options, "--brief", str(span))
        bench.generate("exact", *options)
        yield "brief", "exact"


def lines_by_thread(bench, name, *options):
    """The lines of each thread, in their order; the tracer's times are not compared with those of other threads."""
    threads = defaultdict(list)
    for line in run(bench, "export", "--format", "json", "-i", name, *options).splitlines()[1:]:
        event = json.loads(line)
        threads[event["tid"]].append(event)
    return threads


def check_no_time_is_farther_off_than_told(bench):
    for brief, exact in pairs(bench):
        estimated, truth = lines_by_thread(bench, brief), lines_by_thread(bench, exact)
        off = total = 0
        assert estimated.keys() == truth.keys()
        for tid, events in estimated.items():
            assert len(events) == len(truth[tid])
            before = 0
            for event, true in zip(events, truth[tid]):
                for key in ("ev", "fn", "depth", "end", "tail", "records"):
                    assert event.get(key) == true.get(key), f"{event}\n{true}"
                assert event["ns"] >= before, f"{event} is before {before}"
                before = event["ns"]
                for key, error in (("ns", "error_ns"), ("dur", "dur_error_ns")):
                    if key in event:
                        assert abs(event[key] - true[key]) <= event.get(error, 0) + SLACK_NS, f"{event}\n{true}"
                off += event["ns"] != true["ns"]
                total += 1
        assert total / 4 < off < total, f"{off} of {total} times are estimates"


def check_what_was_called_does_not_depend_on_times(bench):
    for brief, exact in pairs(bench):
        stacks = [sorted(run(bench, "export", "--format", "folded", "--weight", "calls", "-i", name).splitlines())
                  for name in (brief, exact)]
        assert stacks[0] == stacks[1] != []
        rows = [{row["function"]: (row["calls"], row["unfinished"])
                 for row in json.loads(run(bench, "report", "--json", "-i", name))["rows"]} for name in (brief, exact)]
        assert rows[0] == rows[1]


def check_report_is_as_near_as_it_says(bench):
    for brief, exact in pairs(bench):
        estimated, truth = ({row["function"]: row for row in json.loads(run(bench, "report", "--json", "-i", name))["rows"]}
                            for name in (brief, exact))
        told = defaultdict(int)
        for events in lines_by_thread(bench, brief).values():
            for event in events:
                told[event.get("fn")] += event["ev"] == "leave" and "dur" in event and event["end"] not in ("open", "lost") \
                    and "dur_error_ns" not in event
        near = 0
        for function, row in estimated.items():
            assert row["exact_calls"] == told[function], f"{row}, {told[function]} exact calls"
            near += abs(row["total_ns"] - truth[function]["total_ns"]) <= row["total_error_ns"]
        assert near >= len(estimated) * 0.95, f"{near} of {len(estimated)} totals are as near as told"
        for key in ("total_ns", "self_ns"):
            sums = [sum(row[key] for row in rows.values()) for rows in (estimated, truth)]
            assert abs(sums[0] / sums[1] - 1) < 0.002, f"{key}: {sums}"
        for function, row in estimated.items():
            assert row["min_ns"] <= row["p50_ns"] <= row["p99_ns"] <= row["max_ns"], row
        assert b"~" not in run(bench, "report", "-i", exact)


def check_replay_marks_what_is_no_exact_duration(bench):
    for brief, exact in pairs(bench):
        assert b"~" not in run(bench, "replay", "-i", exact)
        marks = len(re.findall(rb"~\s*[0-9.]+ us", run(bench, "replay", "-i", brief)))
        told = sum("dur_error_ns" in event for events in lines_by_thread(bench, brief).values() for event in events
                   if event["end" if event["ev"] == "leave" else "ev"] not in ("open", "lost"))
        assert marks == told > 0, f"{marks} marks, {told} durations that may be off"


def check_info_counts_what_has_no_time(bench):
    for brief, exact in pairs(bench):
        facts = json.loads(run(bench, "info", "--json", "-i", brief))
        assert facts["records"] / 4 < facts["untimed"] < facts["records"]
        assert facts["late_rows"] > 0 and facts["late_ns"] > 0 and facts["untimed_span_ns"] > 0
        assert "untimed" not in json.loads(run(bench, "info", "--json", "-i", exact))


def check_diff_and_slow_claim_nothing_of_estimates(bench):
    for brief, exact in pairs(bench):
        answer = json.loads(run(bench, "diff", "--json", brief, exact))
        assert answer["claims"] == 0, f"{answer['claims']} functions of the same run are said to differ"
        assert 0 < answer["a"]["exact_calls"] < answer["a"]["calls"] and "exact_calls" not in answer["b"]
        function = max((row for row in answer["rows"] if row["a"] and row["b"]), key=lambda row: row["b"]["calls"])["function"]
        kinds = [json.loads(run(bench, "slow", "--json", "--over", "50us", "-i", name, function)) for name in (brief, exact)]
        sure = kinds[0]["slow"]["calls"]
        assert sure <= kinds[1]["slow"]["calls"] <= sure + kinds[0].get("unsure", 0), kinds
        assert "unsure" not in kinds[1]

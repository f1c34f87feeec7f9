/* What rules the table and the flame graph: a range of the time line, and a thread. */

const RANGE_WORDS = "A call counts in a range where some of its time is in it, and with the part of its time that is in it. Total is that " +
	"of the function's outermost calls, Self that without the calls in them. A figure with \u2265 may be more: the range cuts boxes of " +
	"small calls, and how much of their time is in it is not known.";

/* A moment, with as many digits as a span of time needs. */
function momentIn(ns, span) {
	const [unit, size] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(each => ns >= each[1]) || ["ns", 1];
	return (ns / size).toFixed(Math.max(0, Math.min(Math.log10(size), Math.ceil(Math.log10(100 * size / Math.max(span, 1)))))) + " " + unit;
}

/* The least that a figure is, marked where it may be more. */
function leastText(least, more, about) {
	return (more ? "\u2265 " : "") + aboutText(least, about);
}

/* What is known of the small calls in a range. */
function smallText(small) {
	const parts = [];
	if (small.calls)
		parts.push(`${counted(small.calls, "small call", "small calls")}, self time ${leastText(small.self, small.selfMore)}, ` +
			`whose functions are not known here`);
	if (small.cut)
		parts.push(`${counted(small.cut, "small call", "small calls")} at its edges may be in it or not`);
	return parts.join("; ");
}

/* changed() is called when another range or thread rules. */
function makeRule(model, changed) {
	const bar = document.getElementById("rule"), text = document.getElementById("rule-text");
	const choices = [document.getElementById("rule-thread"), document.getElementById("flame-thread")];
	const threads = makeTree(model.columns, "threads"), {levels} = model.head;
	let range = null, thread = -1, measured = null;

	for (const choice of choices) {
		choice.append(new Option("all threads", "-1"));
		for (const node of threads.kids.subarray(threads.first[0], threads.first[1])) {
			const [name, tid] = model.head.threads[threads.fn[node]];
			choice.append(new Option(`${clean(name)}-${tid}, ${timeText(threads.total[node])}`, String(threads.fn[node])));
		}
		choice.addEventListener("change", () => choose(Number(choice.value)));
	}

	function tell() {
		measured = null;
		bar.hidden = !range;
		if (range) {
			const {rows, small} = rule.measured(), span = range.to - range.from;
			const calls = rows.reduce((sum, row) => sum + row.calls + row.unfinished, 0), others = smallText(small);
			const strays = levels.strays + levels.crowded;
			text.replaceChildren(make("b", `From ${momentIn(range.from, span)} to ${momentIn(range.to, span)}, ${timeText(span)}: `), (calls || !others ? counted(calls, "call", "calls") : "") + (calls && others ? ", and " : "") + others +
				(strays ? `; ${counted(strays, "call", "calls")} with no place on the time line ${strays === 1 ? "is" : "are"} left out` : ""));
		}
		changed();
	}

	function choose(number) {
		thread = number;
		for (const choice of choices)
			choice.value = String(number);
		tell();
	}

	const rule = {
		threads,
		get range() {
			return range;
		},
		get thread() {
			return thread;
		},
		/* What ran in the range that rules; null = the whole trace does. */
		measured() {
			if (range && !measured)
				measured = rangeOf(model, range.from, range.to, thread);
			return measured;
		},
		/* Whole nanoseconds, so that two looks at a range are of the same one. */
		set(from, to) {
			range = {from: Math.round(Math.min(from, to)), to: Math.round(Math.max(from, to))};
			tell();
		},
		drop() {
			range = null;
			tell();
		},
		choose,
		threadText: () => choices[0].selectedOptions[0].textContent,
	};
	bar.title = RANGE_WORDS;
	document.getElementById("rule-drop").addEventListener("click", () => rule.drop());
	return rule;
}

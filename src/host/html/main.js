/* The page as a whole: its views, its keys, light and dark, and the facts about the trace. */

const KEYS = [
	["1 2 3 4 5", "time line, flame graph, table, trace, and what differs if the page compares"], ["/", "search functions: a part of a name, or /a regular expression/"],
	["n, N", "the next call that matches, the one before"], ["t", "light or dark"], ["?", "this list"],
	["", "Time line"], ["wheel, w, s", "zoom"], ["drag, a, d, arrows", "move"], ["Shift + wheel, up, down", "scroll the threads"],
	["click", "keep a call's times in the line below"], ["double click, Enter", "zoom to the call"],
	["Shift + arrows", "from the kept call to its neighbour, caller or callee"], ["0", "the whole trace"],
	["c, click on a thread's name", "fold the threads, one thread"],
	["drag over the ruler, r", "take a range, or the time in view: table and flame graph are of it"], ["Escape", "let the range go"], ["", "Flame graph"], ["click, Enter", "zoom to a box"],
	["Escape, Backspace", "zoom out"], ["arrows", "caller, callee, neighbour"], ["i", "inverse"], ["0", "all"],
	["", "Table"], ["click on a head", "sort"], ["up, down", "the next function"],
	["", "Difference"], ["f", "table, flame graph"],
];

const LABELS = {
	file: "File", ended: "Ended", clock_mhz: "Clock frequency in MHz", functions: "Functions", records: "Records", events: "Events",
	lost: "Lost records", untraced: "Calls not recorded", frames_at_start: "Open at the start", bytes: "File size in bytes",
	bytes_per_call: "Bytes per call", damage: "Damage", duration_ns: "Duration", wait_ns: "Waited",
};

/* Write pairs of a name and a text. */
function makeList(pairs) {
	const list = make("dl", "");
	for (const [name, text] of pairs)
		list.append(make("dt", clean(name)), make("dd", cut(clean(text), 5000)));
	return list;
}

/* What the page leaves out, in sentences. */
function levelLines(head) {
	const levels = head.levels, lines = [];
	const add = (count, text) => count && lines.push(text);
	lines.push(levels.threshold_ns
		? `The time line has ${counted(levels.kept, "call", "calls")} as boxes of their own: all that took ${timeText(levels.threshold_ns)} ` +
			`or more, and the longest of each function. ${counted(levels.small, "shorter call is", "shorter calls are")} in ` +
			`${counted(levels.sums, "box", "boxes")} that tell their number and time.`
		: `The time line has all ${counted(levels.kept, "call", "calls")}.`);
	lines.push("The table counts every call.");
	add(head.estimated, head.estimated && `Of ${counted(head.estimated.calls, "call", "calls")} with a duration ${countText(head.estimated.exact)} have times of ` +
		"their own. What has ~ is made of these and of bounds for the others (calltap-report(1), ESTIMATES).");
	lines.push(RANGE_WORDS);
	add(levels.strays, `${counted(levels.strays, "call was", "calls were")} entered before the trace, or where records were lost: not on the time line.`);
	add(levels.crowded, `${counted(levels.crowded, "call of a stack is", "calls of stacks are")} not on the time line: there are too many stacks.`);
	add(levels.moments_left, `${counted(levels.moments_left, "loss, wait or mark is", "losses, waits and marks are")} left out.`);
	add(levels.texts_left, `${counted(levels.texts_left, "text of arguments or results is", "texts of arguments and results are")} left out.`);
	add(levels.whole_left, `${counted(levels.whole_left, "path is", "paths are")} left out of the flame graph, each of at most ${timeText(levels.whole_min_ns)}.`);
	add(levels.threads_left, `${counted(levels.threads_left, "path is", "paths are")} left out of the threads' flame graphs, each of at most ${timeText(levels.threads_min_ns)}.`);
	add(levels.absorbed, `${counted(levels.absorbed, "call is", "calls are")} counted into a caller's box of the flame graph: there are too many paths.`);
	add(levels.pairs_left, `${counted(levels.pairs_left, "pair", "pairs")} of caller and callee ${levels.pairs_left === 1 ? "is" : "are"} left out, of the least time.`);
	if (head.change) {
		add(head.change.left, `${counted(head.change.left, "path is", "paths are")} left out of the differential flame graph, each of at most ${timeText(head.change.min_ns)}.`);
		add(head.change.absorbed, `${counted(head.change.absorbed, "call is", "calls are")} counted into a caller's box of the differential flame graph: there are too many paths.`);
	}
	const filter = head.filter, chosen = [];
	add(filter.function, `Functions: ${clean(filter.function)}`);
	add(filter.options.length, `Only a part of the calls was asked for: ${filter.options.map(clean).join(", ")}.`);
	if (filter.pid || filter.tid || filter.from_ns || filter.to_ns !== undefined || filter.min_ns)
		chosen.push(filter.pid ? "process " + filter.pid : "", filter.tid ? "thread " + filter.tid : "",
			filter.from_ns ? "from " + timeText(filter.from_ns) : "", filter.to_ns !== undefined ? "to " + timeText(filter.to_ns) : "",
			filter.min_ns ? "calls of at least " + timeText(filter.min_ns) : "");
	add(chosen.length, "Only a part of the trace was asked for: " + chosen.filter(Boolean).join(", ") + ".");
	return lines;
}

function showFacts(model, element) {
	const {facts, head} = model, pairs = [];
	for (const [key, label] of Object.entries(LABELS)) {
		const value = facts[key];
		if (value !== null && value !== undefined)
			pairs.push([label, key.endsWith("_ns") ? timeText(value) : typeof value === "number" && value >= 10000 ? countText(value) : value]);
	}
	const threads = facts.threads.slice(0, 1000).map(thread => [`${thread.name}-${thread.tid}`,
		`${counted(thread.records, "record", "records")}, ${countText(thread.lost)} lost, waited ${timeText(thread.wait_ns)}`]);
	element.replaceChildren(make("h2", "What this page has"), ...levelLines(head).map(line => make("p", line)),
		make("h2", "The trace"), makeList(pairs), make("h2", "As recorded"), makeList(Object.entries(facts.info)),
		make("h2", `Threads: ${facts.threads.length}` + (facts.threads.length > 1000 ? ", the first 1,000" : "")), makeList(threads),
		make("h2", "Objects"), makeList(facts.objects.map(object => [object.path.replace(/.*\//, ""), object.path])),
		make("p", "Written by calltap " + clean(head.version)));
}

function showKeys(element) {
	const groups = [];
	let pairs = [];
	groups.push(make("h2", "Keys and mouse"));
	for (const [keys, text] of [...KEYS, ["", ""]]) {
		if (keys) {
			pairs.push([keys, text]);
			continue;
		}
		groups.push(makeList(pairs), ...(text ? [make("h2", text)] : []));
		pairs = [];
	}
	element.replaceChildren(...groups);
}

function makeModel(data) {
	const {facts, head, columns} = data;
	const names = ["", ...head.functions.map(each => clean(each[0]))];
	return {facts, head, columns, names, hues: Uint8Array.from(names, hueOf), boxes: makeBoxes(columns)};
}

function start(data) {
	const id = name => document.getElementById(name);
	const model = makeModel(data), views = ["timeline", "flame", "table", "facts", ...(model.head.diff ? ["difference"] : [])], parts = {};
	let view = "timeline", chosenTheme = "";
	const app = {
		/* Of the calls in the range, if one rules. */
		showLongest(fn) {
			const {from, to, fn: functions, count} = model.boxes, {range} = rule;
			let best = -1;
			for (let i = 0; i < count; i++) {
				if (functions[i] === fn && (!range || partIn(model.boxes, i, range.from, range.to) >= 0) && (best < 0 || to[i] - from[i] > to[best] - from[best]))
					best = i;
			}
			open("timeline");
			if (best >= 0)
				parts.timeline.show(best);
		},
		showFunction(name) {
			const fn = model.names.indexOf(name);
			if (fn < 1)
				return;
			open("table");
			parts.table.choose(fn);
		},
	};

	function applyTheme() {
		const dark = chosenTheme ? chosenTheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
		document.documentElement.classList.toggle("dark", dark);
		document.documentElement.classList.toggle("light", !dark);
		colors.set(dark);
		redraw();
	}

	function redraw() {
		if (parts[view])
			parts[view].draw();
	}

	function open(name) {
		view = name;
		tip.hide();
		id("keys").hidden = true;
		id("rule-elsewhere").hidden = name !== "facts" && name !== "difference";
		for (const each of views)
			id(each).hidden = each !== name;
		for (const button of id("tabs").children)
			button.ariaSelected = String(button.dataset.view === name);
		redraw();
	}

	function find() {
		search.set(model, id("query").value.trim());
		id("found").textContent = search.found ? counted(search.count, "function", "functions") : "";
		parts.table.arrange();
		if (parts.difference)
			parts.difference.arrange();
		redraw();
	}

	function dropRange() {
		const ruled = Boolean(rule.range);
		if (ruled)
			rule.drop();
		return ruled;
	}

	/* Another range or thread rules. */
	function show() {
		parts.flame.choose();
		parts.table.rerange();
		redraw();
	}

	/* True if the key was taken. */
	function takeKey(event) {
		const number = "12345".slice(0, views.length).indexOf(event.key);
		if (event.key === "/") {
			id("query").focus();
			id("query").select();
		} else if (number >= 0) {
			open(views[number]);
		} else if (event.key === "t") {
			chosenTheme = colors.dark ? "light" : "dark";
			applyTheme();
		} else if (event.key === "r") {
			const {from, to} = parts.timeline.view;
			rule.set(Math.max(0, from), to);
		} else if (event.key === "?") {
			id("keys").hidden = !id("keys").hidden;
		} else if (event.key === "Escape" && !id("keys").hidden) {
			id("keys").hidden = true;
		} else {
			return parts[view] && parts[view].key(event) || event.key === "Escape" && dropRange();
		}
		return true;
	}

	function searchKey(event) {
		if (event.key === "Escape") {
			id("query").value = "";
			find();
			id("query").blur();
		} else if (event.key === "Enter") {
			if (view === "timeline")
				parts.timeline.showNext(event.shiftKey);
			id("query").blur();
		}
	}

	const program = String(model.facts.info.command || model.facts.info.program || model.facts.file || "Calltap");
	id("program").title = cut(clean(program), 200);
	id("program").textContent = cut(clean(program.replace(/^\S*\/(?=[^\s/])/, "")), 200);
	document.title = cut(clean(program), 60) + " - Calltap";
	pageScale.read();
	applyTheme();
	id("loading").hidden = true;
	id("timeline").hidden = false;
	const rule = makeRule(model, show);
	parts.timeline = makeTimeline(model, rule, id("timeline-canvas"), id("selected"));
	parts.flame = makeFlame(model, rule, id("flame-canvas"));
	parts.table = makeTable(model, rule, app);
	if (model.head.diff) {
		parts.difference = makeDifference(model, app);
		id("tabs").lastElementChild.hidden = false;
	}
	showFacts(model, id("facts-text"));
	showKeys(id("keys-text"));
	open("timeline");

	for (const button of id("tabs").children)
		button.addEventListener("click", () => open(button.dataset.view));
	id("query").addEventListener("input", find);
	id("query").addEventListener("keydown", searchKey);
	id("theme").addEventListener("click", () => takeKey({key: "t"}));
	id("help").addEventListener("click", () => takeKey({key: "?"}));
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
	document.addEventListener("keydown", event => {
		if (event.ctrlKey || event.altKey || event.metaKey || ["INPUT", "SELECT"].includes(event.target.tagName) ||
			event.target.tagName === "BUTTON" && event.key === "Enter")
			return;
		if (takeKey(event))
			event.preventDefault();
	});
	requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("calltap-drawn")));
	new ResizeObserver(() => {
		pageScale.read();
		redraw();
	}).observe(document.querySelector("main"));
	/* For tests and for the curious: what the page shows. */
	window.calltap = {model, parts, open, search, rule, rangeOf: (from, to, thread) => rangeOf(model, from, to, thread),
		state: () => ({view, ...(parts[view] ? parts[view].state() : {})})};
}

const said = document.getElementById("loading");
if (typeof DecompressionStream === "undefined") {
	said.textContent = "This browser is too old for the page: it has no DecompressionStream. Chromium 80, Firefox 113 and Safari 16.4 have.";
} else {
	unpack(document.getElementById("data")).then(bytes => start(readData(bytes))).catch(error => {
		said.hidden = false;
		said.textContent = "The page's data cannot be read: " + error.message;
		throw error;
	});
}

/* What differs between the page's trace, before, and the other one, after: the table of `calltap diff`, which has judged
   what is more than chance, or the differential flame graph.  Nothing is judged here. */

const DIFFERENCE_COLUMNS = [
	{title: "Function", of: row => row.name}, {title: "Verdict", of: row => row.verdict},
	...["self", "total"].flatMap(name => {
		const title = name[0].toUpperCase() + name.slice(1);
		return [{title: title + " before", of: row => row.a ? row.a[name + "_ns"] : undefined, text: timeText},
			{title: title + " after", of: row => row.b ? row.b[name + "_ns"] : undefined, text: timeText},
			{title: title + " change", of: row => row[name + "_change_ns"], text: signedTime, signed: true}];
	}),
	{title: "Calls before", of: row => row.a ? row.a.calls + row.a.unfinished : undefined, text: countText},
	{title: "Calls after", of: row => row.b ? row.b.calls + row.b.unfinished : undefined, text: countText},
	{title: "p50 before", of: row => row.a && row.a.calls ? row.a.p50_ns : undefined, text: timeText},
	{title: "p50 after", of: row => row.b && row.b.calls ? row.b.p50_ns : undefined, text: timeText},
	{title: "q", of: row => row.q, text: q => q < 0.0005 ? "<0.001" : q.toFixed(3), rising: true},
];
const DIFFERENCE_FIRST = 4; /* the change of self times */

function signedTime(ns) {
	return (ns > 0 ? "+" : ns < 0 ? "\u2212" : "") + timeText(Math.abs(ns));
}

/* The sentences above the table. */
function differenceLines(diff) {
	const lines = [`Before: ${clean(diff.a.trace)}; after: ${clean(diff.b.trace)}.`];
	lines.push(diff.a.timed && diff.b.timed
		? `Durations of ${countText(diff.claims)} of ${counted(diff.tests, "function differ", "functions differ")} by more than chance (q at most 0.05).`
		: "Only numbers of calls are compared: one trace has no durations.");
	if (diff.pace && Math.abs(diff.pace - 1) > 0.05)
		lines.push(`A call of the middle function takes ${diff.pace.toFixed(2)} times as long after: perhaps the machine was ${diff.pace > 1 ? "slower" : "faster"}.`);
	for (const [side, name] of [[diff.a, "before"], [diff.b, "after"]]) {
		if (side.lost)
			lines.push(`Records lost ${name}: ${countText(side.lost)}; the counts are too low.`);
	}
	return lines;
}

function makeDifference(model, app) {
	const {diff} = model.head;
	const body = document.getElementById("difference-body"), scroller = document.getElementById("difference-scroll");
	const heads = document.getElementById("difference-head");
	const rows = diff.rows.map(row => ({...row, name: clean(row.function)}));
	const table = rowsInView(scroller, body, DIFFERENCE_COLUMNS.length, makeRow);
	let sort = DIFFERENCE_FIRST, rising = false, shown = rows;

	document.getElementById("difference-said").textContent = differenceLines(diff).join(" ");
	makeHeads(heads, DIFFERENCE_COLUMNS, i => {
		const column = DIFFERENCE_COLUMNS[i];
		rising = sort === i ? !rising : !column.text || Boolean(column.rising);
		sort = i;
		arrange();
	});

	/* Changes are sorted by their size; what a row does not have comes last. */
	function compare(a, b) {
		const {of, signed} = DIFFERENCE_COLUMNS[sort], x = of(a), y = of(b), sign = rising ? 1 : -1;
		if (x === undefined || y === undefined)
			return (x === undefined) - (y === undefined);
		if (typeof x === "string")
			return sign * (x < y ? -1 : x > y ? 1 : 0);
		return sign * (signed ? Math.abs(x) - Math.abs(y) : x - y);
	}

	function arrange() {
		const matches = search.text ? matcher(search.text) : null;
		shown = (matches ? rows.filter(row => matches(row.name)) : rows.slice()).sort(compare);
		markHeads(heads, DIFFERENCE_COLUMNS, sort, rising);
		table.show(shown);
		draw();
	}

	function makeRow(row) {
		const element = make("tr", "");
		for (const {of, text, signed} of DIFFERENCE_COLUMNS) {
			const value = of(row), cell = make("td", value === undefined ? "\u2013" : text ? text(value) : cut(value, 300));
			if (signed && value)
				cell.className = value > 0 ? "more" : "less";
			element.append(cell);
		}
		element.firstChild.title = cut(row.name, 1000);
		element.className = row.verdict === "-" ? "chance" : "";
		element.addEventListener("click", () => app.showFunction(row.name));
		return element;
	}

	const id = name => document.getElementById("difference-" + name), paint = onceAFrame(table.paint);
	const flame = model.head.change ? makeDifferenceFlame(model) : null;
	let asFlame = false;

	function draw() {
		if (asFlame)
			flame.draw();
		else
			paint();
	}

	/* Show the table or the flame graph. */
	function choose(wanted) {
		asFlame = wanted;
		scroller.hidden = wanted;
		id("canvas").hidden = id("tools").hidden = !wanted;
		id("as-flame").ariaPressed = String(wanted);
		id("as-table").ariaPressed = String(!wanted);
		tip.hide();
		draw();
	}

	function key(event) {
		if (event.key === "f" && flame) {
			choose(!asFlame);
			return true;
		}
		return asFlame && flame.key(event);
	}

	scroller.addEventListener("scroll", draw);
	arrange();
	id("bar").hidden = !flame;
	id("as-table").addEventListener("click", () => choose(false));
	id("as-flame").addEventListener("click", () => choose(true));
	choose(false);
	return {draw, arrange, key, flame,
		state: () => asFlame ? {asFlame, ...flame.state()} : {asFlame, sort, rising, shown: shown.length, first: shown.length ? shown[0].name : ""}};
}

/* The table of functions, of the whole trace or of the range that rules, and beside it one function: its times, a histogram
   of its calls, its callers and callees. */

const TABLE_COLUMNS = [
	{title: "Function", key: "name"}, {title: "Calls", key: "calls", count: true}, {title: "Total", key: "total"},
	{title: "Self", key: "self"}, {title: "p50", key: "p50", finished: true}, {title: "p99", key: "p99", finished: true},
	{title: "Max", key: "max", finished: true},
];

/* The least time of a bucket: quarters of a power of two, from 4 ns on. */
function bucketLeast(bucket) {
	return bucket < 4 ? bucket : (4 + bucket % 4) * Math.pow(2, Math.floor(bucket / 4) - 1);
}

/* As `report` has them: finished calls, and the others by that word. */
function callsText(row) {
	const unfinished = row.unfinished ? countText(row.unfinished) + " unfinished" : "";
	return unfinished && row.calls ? countText(row.calls) + " + " + unfinished : unfinished || countText(row.calls);
}

function makeRows(model) {
	const {columns} = model, rows = [];
	let at = 0;
	columns["table.function"].forEach((fn, i) => {
		const row = {fn, name: model.names[fn], buckets: [], about: {}};
		["total", "self", "min", "p50", "p99", "max"].forEach((key, at) => row.about[key] = columns["table.about"][i] >> 2 * at & 3);
		for (const key of ["calls", "unfinished", "total", "self", "sum", "min", "p50", "p99", "max"])
			row[key] = columns["table." + key][i];
		let bucket = 0;
		for (const end = at + columns["table.buckets"][i]; at < end; at++) {
			bucket += columns["bucket.step"][at];
			row.buckets.push([bucket, columns["bucket.calls"][at]]);
		}
		rows.push(row);
	});
	return rows;
}

/* Draw the calls by duration: bars over a logarithmic axis of time. */
function drawHistogram(canvas, row) {
	const {context, width, height} = fitCanvas(canvas);
	context.fillStyle = colors.back;
	context.fillRect(0, 0, width, height);
	if (!row.buckets.length)
		return;
	const first = row.buckets[0][0], last = row.buckets[row.buckets.length - 1][0];
	const most = Math.max(...row.buckets.map(bucket => bucket[1])), bar = width / (last - first + 1), floor = height - 18;
	context.fillStyle = colors.accent;
	for (const [bucket, calls] of row.buckets) {
		const tall = Math.max(2, calls / most * (floor - 16));
		context.fillRect((bucket - first) * bar, floor - tall, Math.min(Math.max(bar - 1, 0.5), 40), tall);
	}
	context.font = FONT;
	context.textBaseline = "middle";
	context.fillStyle = colors.soft;
	context.fillText(timeText(bucketLeast(first)), 0, height - 8);
	const right = timeText(bucketLeast(last + 1));
	context.fillText(right, width - context.measureText(right).width, height - 8);
	context.fillText(counted(most, "call", "calls"), 0, 7);
}

/* Callers with callees, of a call tree: [caller, callee, calls, total]. */
function pairsIn(tree) {
	const pairs = new Map();
	for (let i = 1; i < tree.count; i++) {
		const caller = tree.fn[tree.parent[i]], callee = tree.fn[i], key = caller * 536870912 + callee;
		if (!caller || !callee)
			continue;
		if (!pairs.has(key))
			pairs.set(key, [caller, callee, 0, 0]);
		pairs.get(key)[2] += tree.calls[i];
		pairs.get(key)[3] += tree.total[i];
	}
	return [...pairs.values()].sort((a, b) => b[3] - a[3]);
}

const NOT_OF_A_RANGE = "Percentiles, the longest call and the histogram are of whole calls: a range has none.";

/* The row that stands for the small calls of a range. */
function smallRow(small) {
	return {fn: 0, name: "(small calls, of functions not known here)", calls: small.calls,
		unfinished: 0, timed: true, total: small.total, totalMore: small.totalMore, self: small.self, selfMore: small.selfMore, buckets: []};
}

/* Rows to sort: numbers that a range does not have come last. */
function compareRows(sort, sign) {
	const byName = (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
	return (a, b) => (a.fn === 0) - (b.fn === 0) || (sort === "name" ? sign * byName(a, b)
		: sign * ((a[sort] || 0) - (b[sort] || 0)) || byName(a, b));
}

function makeTable(model, rule, app) {
	const body = document.getElementById("table-body"), scroller = document.getElementById("table-scroll");
	const aside = document.getElementById("function"), heads = document.getElementById("table-head");
	const rows = makeRows(model), rowOf = new Map(rows.map(row => [row.fn, row]));
	const table = rowsInView(scroller, body, TABLE_COLUMNS.length, makeRow);
	let sort = "total", rising = false, shown = rows, chosen = 0;

	makeHeads(heads, TABLE_COLUMNS, i => {
		const {key} = TABLE_COLUMNS[i];
		rising = sort === key ? !rising : key === "name";
		sort = key;
		arrange();
	});

	/* Filter and sort. */
	function arrange() {
		const measured = rule.measured(), {small} = measured || {}, every = measured ? measured.rows : rows;
		shown = search.found ? every.filter(row => search.found[row.fn]) : every.slice();
		if (small && small.calls && !search.found)
			shown.push(smallRow(small));
		shown.sort(compareRows(sort, rising ? 1 : -1));
		markHeads(heads, TABLE_COLUMNS, TABLE_COLUMNS.findIndex(column => column.key === sort), rising);
		table.show(shown);
		draw();
	}

	function makeRow(row) {
		const element = make("tr", "");
		for (const column of TABLE_COLUMNS) {
			const value = row[column.key];
			const known = row.timed ? !column.finished : row.buckets.length || !column.finished && row.unfinished;
			const cell = make("td", column.key === "name" ? cut(value, 300) : column.count ? callsText(row)
				: known ? leastText(value, row[column.key + "More"], row.about ? row.about[column.key] : model.head.estimated) : "\u2013");
			if (column.key === "name")
				cell.title = cut(value, 1000);
			else if (column.count)
				cell.title = row.unfinished ? "open at the end, exit lost, entered before the trace or a fork, or left on another thread" : "";
			else if (row.timed)
				cell.title = column.finished ? NOT_OF_A_RANGE : row[column.key + "More"] ? `at most ${timeText(value + row[column.key + "More"])}` : "";
			element.append(cell);
		}
		element.className = !row.fn ? "small" : row.fn === chosen ? "chosen" : "";
		if (row.fn)
			element.addEventListener("click", () => choose(row.fn));
		return element;
	}

	const draw = onceAFrame(() => {
		table.paint();
		if (chosen && aside.querySelector("canvas"))
			drawHistogram(aside.querySelector("canvas"), rowOf.get(chosen));
	});

	function neighbours(title, pairs, other) {
		const list = make("ul", "");
		for (const [fn, calls, total] of pairs.slice(0, 100)) {
			const button = make("button", cut(model.names[fn], 300));
			button.type = "button";
			button.title = cut(model.names[fn], 1000);
			button.addEventListener("click", () => choose(fn, true));
			list.append(make("li", "", button, make("span", `${countText(calls)} \u00d7, ${aboutText(total, model.head.estimated)}`)));
		}
		return [make("h3", `${title}: ${pairs.length}` + (pairs.length > 100 ? ", the first 100" : "")), list];
	}

	/* Pairs with the function, as [other function, calls, total], by falling total. */
	function pairsOf(fn, own, other) {
		const {columns} = model, measured = rule.measured(), list = [];
		if (measured) {
			const [at, beside] = own === "caller" ? [0, 1] : [1, 0];
			measured.pairs = measured.pairs || pairsIn(measured.tree);
			return measured.pairs.filter(pair => pair[at] === fn).map(pair => [pair[beside], pair[2], pair[3]]);
		}
		columns["pair." + own].forEach((each, i) => each === fn &&
			list.push([columns["pair." + other][i], columns["pair.calls"][i], columns["pair.total"][i]]));
		return list;
	}

	/* What a row has, in sentences. */
	function rowLines(row) {
		const text = key => leastText(row[key], row[key + "More"], row.about ? row.about[key] : model.head.estimated);
		const lines = [`${counted(row.calls, "finished call", "finished calls")}` +
			(row.unfinished ? `, ${countText(row.unfinished)} not finished in the trace` : "")];
		lines.push(!row.timed && !row.buckets.length && !row.unfinished ? "no durations were recorded"
			: `total ${text("total")}, self ${text("self")}` +
				(row.calls && !row.timed ? `; average ${aboutText(row.sum / row.calls, row.about && row.about.total)}` : ""));
		if (row.buckets.length)
			lines.push(["min", "p50", "p99", "max"].map(key => `${key} ${text(key)}`).join(", "));
		return lines;
	}

	/* The function beside the table: in the range, if one rules, and in the whole trace. */
	function showChosen() {
		const row = rowOf.get(chosen), measured = rule.measured();
		if (!row)
			return;
		const inside = measured && measured.rows.find(each => each.fn === chosen);
		const longest = make("button", measured ? "Longest call of the range on the time line" : "Longest call on the time line");
		longest.type = "button";
		longest.disabled = Boolean(measured && !inside);
		longest.addEventListener("click", () => app.showLongest(row.fn));
		aside.replaceChildren(make("h2", row.name), make("p", sourceOf(model, row.fn)),
			...(measured ? [make("h3", "In the range"), ...(inside ? rowLines(inside) : ["no call that the page has by itself"]).map(line => make("p", line)),
				make("p", NOT_OF_A_RANGE), make("h3", "In the whole trace")] : []),
			...rowLines(row).map(line => make("p", line)), longest,
			...(row.buckets.length ? [make("h3", "Calls by duration" + (measured ? ", in the whole trace" : "")), make("canvas", "")] : []),
			...neighbours(measured ? "Callers in the range" : "Callers", pairsOf(row.fn, "callee", "caller")),
			...neighbours(measured ? "Callees in the range" : "Callees", pairsOf(row.fn, "caller", "callee")));
		aside.scrollTop = 0;
	}

	const placeOf = fn => shown.findIndex(row => row.fn === fn);

	function choose(fn, scrollTo) {
		if (!rowOf.has(fn))
			return;
		chosen = fn;
		table.forget();
		showChosen();
		const place = placeOf(fn);
		if (scrollTo && place >= 0 && (place * tableRow() < scroller.scrollTop ||
			(place + 2) * tableRow() > scroller.scrollTop + scroller.clientHeight))
			scroller.scrollTop = place * tableRow() - scroller.clientHeight / 2;
		draw();
	}

	/* Another range rules. */
	function rerange() {
		if (rule.range && TABLE_COLUMNS.find(column => column.key === sort).finished)
			sort = "total";
		arrange();
		showChosen();
	}

	function key(event) {
		const place = placeOf(chosen), down = event.key === "ArrowDown" || event.key === "j";
		if (!down && event.key !== "ArrowUp" && event.key !== "k" || !shown.length)
			return false;
		choose(shown[Math.max(0, Math.min(shown.length - 1, place + (down ? 1 : -1)))].fn, true);
		return true;
	}

	scroller.addEventListener("scroll", draw);
	arrange();
	return {draw, arrange, rerange, key, choose: fn => choose(fn, true),
		state: () => ({sort, rising, shown: shown.length, rows: rows.length, first: shown.length ? shown[0].name : "",
			chosen: chosen ? model.names[chosen] : null})};
}

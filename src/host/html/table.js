/* The table of functions, and beside it one function: its times, a histogram of its calls, its callers and callees. */

const TABLE_ROW = 24;
const TABLE_COLUMNS = [
	{title: "Function", key: "name"}, {title: "Calls", key: "calls", count: true}, {title: "Total", key: "total"},
	{title: "Self", key: "self"}, {title: "p50", key: "p50", finished: true}, {title: "p99", key: "p99", finished: true},
	{title: "Max", key: "max", finished: true},
];

/* The least time of a bucket: quarters of a power of two, from 4 ns on. */
function bucketLeast(bucket) {
	return bucket < 4 ? bucket : (4 + bucket % 4) * Math.pow(2, Math.floor(bucket / 4) - 1);
}

function makeRows(model) {
	const {columns} = model, rows = [];
	let at = 0;
	columns["table.function"].forEach((fn, i) => {
		const row = {fn, name: model.names[fn], buckets: []};
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

function makeTable(model, app) {
	const body = document.getElementById("table-body"), scroller = document.getElementById("table-scroll");
	const aside = document.getElementById("function"), heads = document.getElementById("table-head");
	const rows = makeRows(model), rowOf = new Map(rows.map(row => [row.fn, row]));
	let sort = "total", rising = false, shown = rows, chosen = null, drawn = "";

	for (const column of TABLE_COLUMNS) {
		const button = make("button", column.title);
		button.type = "button";
		button.addEventListener("click", () => {
			rising = sort === column.key ? !rising : column.key === "name";
			sort = column.key;
			arrange();
		});
		heads.append(make("th", "", button));
	}

	/* Filter and sort. */
	function arrange() {
		const sign = rising ? 1 : -1;
		shown = search.found ? rows.filter(row => search.found[row.fn]) : rows.slice();
		shown.sort((a, b) => sort === "name" ? sign * (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
			: sign * (a[sort] - b[sort]) || (a.name < b.name ? -1 : 1));
		[...heads.children].forEach((head, i) => {
			const own = TABLE_COLUMNS[i].key === sort;
			head.ariaSort = own ? rising ? "ascending" : "descending" : "none";
			head.firstChild.textContent = TABLE_COLUMNS[i].title + (own ? rising ? " \u25b4" : " \u25be" : "");
		});
		scroller.scrollTop = 0;
		drawn = "";
		draw();
	}

	function makeRow(row) {
		const element = make("tr", "");
		for (const column of TABLE_COLUMNS) {
			const value = row[column.key];
			const cell = make("td", column.key === "name" ? cut(value, 300) : column.count ? countText(value)
				: row.buckets.length || !column.finished && row.unfinished ? timeText(value) : "\u2013");
			if (column.key === "name")
				cell.title = cut(value, 1000);
			element.append(cell);
		}
		element.className = row === chosen ? "chosen" : "";
		element.addEventListener("click", () => choose(row));
		return element;
	}

	/* A row that takes the place of rows that are not in view. */
	function makeSpace(count) {
		const element = make("tr", ""), cell = make("td", "");
		element.className = "space";
		cell.colSpan = TABLE_COLUMNS.length;
		cell.style.height = count * TABLE_ROW + "px";
		element.append(cell);
		return element;
	}

	/* Only the rows in view are elements. */
	function paint() {
		const first = Math.max(0, Math.floor(scroller.scrollTop / TABLE_ROW) - 20);
		const last = Math.min(shown.length, first + Math.ceil(scroller.clientHeight / TABLE_ROW) + 40);
		if (drawn === first + " " + last)
			return;
		drawn = first + " " + last;
		body.replaceChildren(...(first ? [makeSpace(first)] : []), ...shown.slice(first, last).map(makeRow),
			...(last < shown.length ? [makeSpace(shown.length - last)] : []));
	}

	const draw = onceAFrame(() => {
		paint();
		if (chosen && aside.querySelector("canvas"))
			drawHistogram(aside.querySelector("canvas"), chosen);
	});

	function neighbours(title, pairs, other) {
		const list = make("ul", "");
		for (const [fn, calls, total] of pairs.slice(0, 100)) {
			const button = make("button", cut(model.names[fn], 300));
			button.type = "button";
			button.title = cut(model.names[fn], 1000);
			button.addEventListener("click", () => rowOf.has(fn) && choose(rowOf.get(fn), true));
			list.append(make("li", "", button, make("span", `${countText(calls)} \u00d7, ${timeText(total)}`)));
		}
		return [make("h3", `${title}: ${pairs.length}` + (pairs.length > 100 ? ", the first 100" : "")), list];
	}

	/* Pairs with the function, as [other function, calls, total]; they are stored by falling total. */
	function pairsOf(fn, own, other) {
		const {columns} = model, list = [];
		columns["pair." + own].forEach((each, i) => each === fn &&
			list.push([columns["pair." + other][i], columns["pair.calls"][i], columns["pair.total"][i]]));
		return list;
	}

	function choose(row, scrollTo) {
		chosen = row;
		drawn = "";
		const longest = make("button", "Longest call on the time line");
		longest.type = "button";
		longest.addEventListener("click", () => app.showLongest(row.fn));
		aside.replaceChildren(make("h2", row.name), make("p", sourceOf(model, row.fn)),
			make("p", `${counted(row.calls, "finished call", "finished calls")}` +
				(row.unfinished ? `, ${countText(row.unfinished)} not finished in the trace` : "")),
			make("p", !row.buckets.length && !row.unfinished ? "no durations were recorded"
				: `total ${timeText(row.total)}, self ${timeText(row.self)}` + (row.calls ? `; average ${timeText(row.sum / row.calls)}` : "")),
			...(row.buckets.length ? [make("p", `min ${timeText(row.min)}, p50 ${timeText(row.p50)}, p99 ${timeText(row.p99)}, ` +
				`max ${timeText(row.max)}`)] : []),
			longest, ...(row.buckets.length ? [make("h3", "Calls by duration"), make("canvas", "")] : []),
			...neighbours("Callers", pairsOf(row.fn, "callee", "caller")),
			...neighbours("Callees", pairsOf(row.fn, "caller", "callee")));
		aside.scrollTop = 0;
		const place = shown.indexOf(row);
		if (scrollTo && place >= 0 && (place * TABLE_ROW < scroller.scrollTop ||
			(place + 2) * TABLE_ROW > scroller.scrollTop + scroller.clientHeight))
			scroller.scrollTop = place * TABLE_ROW - scroller.clientHeight / 2;
		draw();
	}

	function key(event) {
		const place = shown.indexOf(chosen), down = event.key === "ArrowDown" || event.key === "j";
		if (!down && event.key !== "ArrowUp" && event.key !== "k" || !shown.length)
			return false;
		choose(shown[Math.max(0, Math.min(shown.length - 1, place + (down ? 1 : -1)))], true);
		return true;
	}

	scroller.addEventListener("scroll", draw);
	arrange();
	return {draw, arrange, key, choose: fn => rowOf.has(fn) && choose(rowOf.get(fn), true),
		state: () => ({sort, rising, shown: shown.length, rows: rows.length, first: shown.length ? shown[0].name : "",
			chosen: chosen && chosen.name})};
}

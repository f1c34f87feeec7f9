/* The differential flame graph: the paths of the trace before and of the one after as one tree, that of `calltap diff
   --tree`, as wide as their time in one of the two or in both, and colored by what has changed. */

const CHANGE_LEVELS = 6;

/* {before, after} of each node: calls, total and self; and the tree for each width. Function 0 is the root. */
function makeChange(model) {
	const {columns} = model, up = columns["change.up"], count = up.length + 1;
	const parent = new Int32Array(count), fn = new Float64Array(count), sides = {};
	for (let i = 1; i < count; i++) {
		parent[i] = i - up[i - 1];
		fn[i] = columns["change.name"][i - 1];
	}
	for (const side of ["before", "after"]) {
		sides[side] = {};
		for (const what of ["calls", "total", "self"]) {
			const column = sides[side][what] = new Float64Array(count);
			column.set(columns[`change.${what}_${side}`], 1);
			for (let i = 1; what !== "self" && i < count; i++)
				column[0] += parent[i] ? 0 : column[i];
		}
	}
	const {before, after} = sides, sum = what => before[what].map((value, i) => value + after[what][i]);
	const both = {calls: sum("calls"), total: sum("total"), self: sum("self")};
	const treeOf = of => linkTree({count, parent, fn, calls: of.calls.slice(), total: of.total.slice(), self: of.self});
	return {before, after, trees: {before: treeOf(before), after: treeOf(after), both: treeOf(both)}};
}

/* Of a change, as a part of the greatest: a step from -CHANGE_LEVELS to CHANGE_LEVELS, 0 for no change alone. */
function changeLevel(change, greatest) {
	return Math.sign(change) * Math.ceil(CHANGE_LEVELS * Math.sqrt(Math.abs(change) / Math.max(greatest, 1)) - 1e-9);
}

/* What differs in a node, in lines; before and after are its figures. */
function changeLines(before, after, node) {
	const line = (title, what, text) => `${title}: ${text(before[what][node])} before, ${text(after[what][node])} after` +
		(what === "calls" ? "" : `, ${signedTime(after[what][node] - before[what][node])}`);
	return [line("total", "total", timeText), ...(node ? [line("self", "self", timeText)] : []), line("calls", "calls", countText)];
}

function makeDifferenceFlame(model) {
	const id = name => document.getElementById("difference-" + name);
	const {before, after, trees} = makeChange(model), names = ["", ...model.head.change.names.map(clean)];
	const width = id("width"), color = id("color"), greatest = {self: 0, total: 0};
	let matched = {text: "", found: null};

	for (const what of ["self", "total"]) {
		for (let i = 1; i < before.total.length; i++)
			greatest[what] = Math.max(greatest[what], Math.abs(after[what][i] - before[what][i]));
	}

	function nameOf(tree, node) {
		const mark = !node ? "" : !before.calls[node] && !before.total[node] ? "+ " : !after.calls[node] && !after.total[node] ? "\u2212 " : "";
		return mark + (node ? names[tree.fn[node]] : {before: "all before", after: "all after", both: "all before, and all after"}[width.value]);
	}

	const graph = flameGraph(id("canvas"), id("flame-said"), {
		tree: () => trees[width.value],
		name: nameOf,
		lines: (tree, node) => [nameOf(tree, node) + ({"+": " (only after)", "\u2212": " (only before)"}[node ? nameOf(tree, node)[0] : ""] || ""),
			...changeLines(before, after, node)],
		color(tree, node, found) {
			const level = changeLevel(after[color.value][node] - before[color.value][node], greatest[color.value]);
			return found ? colors.pale : level > 0 ? colors.more[level] : level < 0 ? colors.less[-level] : colors.same;
		},
		found() {
			if (matched.text !== search.text) {
				const matches = search.text ? matcher(search.text) : null;
				matched = {text: search.text, found: matches && Uint8Array.from(names, (name, i) => i && matches(name) ? 1 : 0)};
			}
			return matched.found;
		},
		empty: () => "No call has a duration here.",
	});

	/* What the colors say. */
	function drawLegend() {
		const most = timeText(greatest[color.value]), cells = [];
		for (let level = -CHANGE_LEVELS; level <= CHANGE_LEVELS; level++) {
			const cell = make("span", "");
			cell.style.background = level > 0 ? colors.more[level] : level < 0 ? colors.less[-level] : colors.same;
			cells.push(cell);
		}
		id("legend").replaceChildren(`\u2212${most} `, ...cells, ` +${most}`);
	}

	function draw() {
		drawLegend();
		graph.draw();
	}

	width.addEventListener("change", graph.choose);
	color.addEventListener("change", draw);
	id("out").addEventListener("click", graph.out);
	return {...graph, draw, change: {before, after, names, parent: trees.both.parent, fn: trees.both.fn}, state: () => ({...graph.state(), width: width.value, color: color.value})};
}

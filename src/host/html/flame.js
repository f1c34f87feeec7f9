/* The flame graph: a merged call tree, with a box as wide as the time of all calls along a path, below that of their
   caller; or its inverse, with the functions on top and their callers below. */

const FLAME_ROW = 19, FLAME_NARROW = 0.4;

/* A flame graph on a canvas. source: the tree to draw (tree()), and of a tree's node its name, lines to tell and color; what
   a search has found, by function; and the words for a tree without nodes. */
function flameGraph(canvas, said, source) {
	let tree = source.tree(), focus = 0, scroll = 0, selected = -1, hovered = -1, rows = [], deepest = 0;

	/* Take the source's tree, from its root on. */
	function choose() {
		tree = source.tree();
		focus = scroll = 0;
		selected = hovered = -1;
		draw();
	}

	/* All boxes that can be seen, as [depth, node, x, width]: the path to the focus, and what is below it. */
	function lay(width) {
		const path = [];
		for (let node = focus; ; node = tree.parent[node]) {
			path.unshift(node);
			if (!node)
				break;
		}
		rows = path.map(node => [node, 0, width]);
		deepest = path.length;
		const stack = [[focus, 0, width, path.length]];
		while (stack.length) {
			const [node, x, span, depth] = stack.pop(), first = tree.first[node], last = tree.first[node + 1];
			let sum = 0, at = x;
			for (let k = first; k < last; k++)
				sum += tree.total[tree.kids[k]];
			const scale = span / Math.max(sum, tree.total[node], 1);
			for (let k = first; k < last; k++) {
				const kid = tree.kids[k], wide = tree.total[kid] * scale;
				rows[depth] = rows[depth] || [];
				deepest = Math.max(deepest, depth + 1);
				if (wide < FLAME_NARROW) {
					/* What is left is narrower still. */
					const rest = (sum * scale) - (at - x);
					if (rest >= FLAME_NARROW)
						rows[depth].push(-1, at, rest);
					break;
				}
				rows[depth].push(kid, at, wide);
				stack.push([kid, at, wide, depth + 1]);
				at += wide;
			}
		}
	}

	function paint() {
		const {context, width, height} = fitCanvas(canvas), found = source.found();
		if (!width)
			return;
		lay(width);
		scroll = Math.max(0, Math.min(scroll, deepest * FLAME_ROW + 10 - height));
		measureLetter(context);
		context.textBaseline = "middle";
		context.fillStyle = colors.back;
		context.fillRect(0, 0, width, height);
		const batches = makeBatches(), texts = [];
		let hits = 0;
		rows.forEach((row, depth) => {
			const y = depth * FLAME_ROW + 4 - scroll;
			if (y < -FLAME_ROW || y > height)
				return;
			for (let k = 0; k < row.length; k += 3) {
				const node = row[k], hit = found && node > 0 && found[tree.fn[node]];
				hits += hit ? 1 : 0;
				const color = node < 0 ? colors.dense : !node ? colors.sum : hit ? colors.match : source.color(tree, node, found);
				batches.add(color, row[k + 1], y, Math.max(row[k + 2] - (row[k + 2] > 2 ? 0.7 : 0), 0.5));
				if (node >= 0 && row[k + 2] > 30)
					texts.push(node, row[k + 1], y, row[k + 2]);
			}
		});
		batches.fill(context, FLAME_ROW - 1);
		for (let k = 0; k < texts.length; k += 4) {
			context.fillStyle = found && texts[k] && found[tree.fn[texts[k]]] ? MATCH_TEXT : colors.text;
			fitText(context, source.name(tree, texts[k]), texts[k + 1], texts[k + 2] + FLAME_ROW / 2, texts[k + 3]);
		}
		outline(context, hovered, colors.front);
		outline(context, selected, colors.accent);
		said.textContent = tree.count === 1 ? source.empty() : focus ? `${cut(source.name(tree, focus), 60)}: ${aboutText(tree.total[focus], source.about)}` :
			found ? `${percentText(foundShare(found), tree.total[0])} of the time is in what matches` : "";
	}

	/* The time of matching functions that are not below one another. */
	function foundShare(found) {
		const inside = new Uint8Array(tree.count);
		let sum = 0;
		for (let i = 1; i < tree.count; i++) {
			inside[i] = inside[tree.parent[i]] || found[tree.fn[i]];
			if (inside[i] && !inside[tree.parent[i]])
				sum += tree.total[i];
		}
		return sum;
	}

	function outline(context, node, color) {
		if (node < 0)
			return;
		rows.forEach((row, depth) => {
			for (let k = 0; k < row.length; k += 3) {
				if (row[k] !== node)
					continue;
				context.strokeStyle = color;
				context.lineWidth = 2;
				context.strokeRect(row[k + 1] + 1, depth * FLAME_ROW + 5 - scroll, Math.max(row[k + 2] - 2, 1), FLAME_ROW - 3);
			}
		});
	}

	const draw = onceAFrame(paint);

	function hit(event) {
		const {x, y} = placeOn(event), row = rows[Math.floor((y - 4 + scroll) / FLAME_ROW)] || [];
		for (let k = 0; k < row.length; k += 3) {
			if (x >= row[k + 1] && x < row[k + 1] + row[k + 2])
				return row[k];
		}
		return -2;
	}

	function zoom(node) {
		focus = node;
		scroll = 0;
		selected = node;
		draw();
	}

	function step(name) {
		if (selected < 0)
			selected = focus;
		const kids = node => Array.from(tree.kids.subarray(tree.first[node], tree.first[node + 1]));
		const siblings = selected ? kids(tree.parent[selected]) : [0], place = siblings.indexOf(selected);
		if (name === "ArrowUp")
			selected = tree.parent[selected];
		else if (name === "ArrowDown")
			selected = kids(selected)[0] === undefined ? selected : kids(selected)[0];
		else
			selected = siblings[Math.max(0, Math.min(siblings.length - 1, place + (name === "ArrowLeft" ? -1 : 1)))];
		const {left, top} = canvas.getBoundingClientRect(), height = heightOf(canvas);
		lay(widthOf(canvas));
		rows.forEach((row, depth) => {
			for (let k = 0; k < row.length; k += 3) {
				if (row[k] !== selected)
					continue;
				const y = depth * FLAME_ROW;
				scroll = y < scroll ? y : y > scroll + height - 2 * FLAME_ROW ? y - height + 2 * FLAME_ROW : scroll;
				tip.show({clientX: left + row[k + 1] * pageScale.factor, clientY: top + (y - scroll + 8) * pageScale.factor}, source.lines(tree, selected));
			}
		});
		draw();
	}

	function key(event) {
		const name = event.key;
		if (name.startsWith("Arrow"))
			step(name);
		else if (name === "Enter" && selected >= 0)
			zoom(selected);
		else if ((name === "Escape" || name === "Backspace") && focus)
			zoom(tree.parent[focus]);
		else if (name === "0" || name === "Home")
			zoom(0);
		else if (name === "PageUp" || name === "PageDown")
			scroll += (name === "PageUp" ? -1 : 1) * heightOf(canvas) * 0.9;
		else
			return false;
		draw();
		return true;
	}

	canvas.addEventListener("pointermove", event => {
		const node = hit(event);
		canvas.style.cursor = node >= 0 ? "pointer" : "default";
		if (node >= 0)
			tip.show(event, source.lines(tree, node));
		else if (node === -1)
			tip.show(event, ["several paths, each too narrow to be drawn here"]);
		else
			tip.hide();
		if (node !== hovered) {
			hovered = node;
			draw();
		}
	});
	canvas.addEventListener("pointerleave", () => {
		tip.hide();
		hovered = -1;
		draw();
	});
	canvas.addEventListener("click", event => {
		const node = hit(event);
		if (node >= 0)
			zoom(node);
	});
	canvas.addEventListener("wheel", event => {
		event.preventDefault();
		scroll += event.deltaY * (event.deltaMode === 1 ? 16 : 1);
		tip.hide();
		draw();
	}, {passive: false});
	/* For tests: [node, depth, x, width] of each box. */
	function boxes() {
		lay(widthOf(canvas));
		return rows.flatMap((row, depth) => Array.from({length: row.length / 3}, (_, k) => [row[3 * k], depth, row[3 * k + 1], row[3 * k + 2]]));
	}

	return {draw, paint, key, zoom, choose, boxes, out: () => zoom(tree.parent[focus]),
		state: () => ({focus, name: source.name(tree, focus), total: tree.total[focus], count: tree.count, rows: rows.length})};
}

/* Percentages of a node's time, of all and of its caller's. */
function sharesOf(tree, node) {
	return `${percentText(tree.total[node], tree.total[0])} of all` +
		(node && tree.parent[node] ? `, ${percentText(tree.total[node], tree.total[tree.parent[node]])} of the box above` : "");
}

/* The view of the trace, or of the range and thread that rule. */
function makeFlame(model, rule, canvas) {
	const inverse = document.getElementById("flame-inverse");
	const whole = makeTree(model.columns, "whole"), {threads} = rule, ofThreads = new Map(), inverses = new WeakMap();

	/* The tree of what rules, made once. */
	function ruling() {
		const measured = rule.measured();
		if (measured)
			return measured.tree;
		if (rule.thread < 0)
			return whole;
		if (!ofThreads.has(rule.thread))
			ofThreads.set(rule.thread, subtree(threads, threads.kids.find(node => !threads.parent[node] && threads.fn[node] === rule.thread)));
		return ofThreads.get(rule.thread);
	}

	const graph = flameGraph(canvas, document.getElementById("flame-said"), {
		tree() {
			const chosen = ruling();
			if (inverse.checked && !inverses.has(chosen))
				inverses.set(chosen, invert(chosen));
			return inverse.checked ? inverses.get(chosen) : chosen;
		},
		about: Boolean(model.head.estimated),
		name(tree, node) {
			if (!node)
				return rule.thread >= 0 ? rule.threadText() + (rule.range ? ", in the range" : "") : rule.range ? "all threads, in the range" : "the whole trace";
			return tree.fn[node] ? model.names[tree.fn[node]] : counted(tree.calls[node], "small call", "small calls");
		},
		lines(tree, node) {
			const lines = [this.name(tree, node), `${tree.inverse ? "self time" : "total"} ${aboutText(tree.total[node], this.about)}, ${sharesOf(tree, node)}`];
			if (!node)
				return lines;
			if (!tree.inverse)
				lines.push("self " + aboutText(tree.self[node], this.about));
			if (!tree.fn[node]) {
				lines.push("their functions are not known here: the page has such calls as sums");
				return lines;
			}
			lines.push(counted(tree.calls[node], "call", "calls"));
			const text = sourceOf(model, tree.fn[node]);
			if (text)
				lines.push(text);
			return lines;
		},
		color: (tree, node, found) => !tree.fn[node] ? colors.sum : (found ? colors.dim : colors.fill)[model.hues[tree.fn[node]]],
		found: () => search.found,
		empty: () => rule.range ? "No call ran in the range." : "No call has a duration here.",
	});

	function key(event) {
		if (event.key === "i")
			inverse.click();
		return event.key === "i" || graph.key(event);
	}

	inverse.addEventListener("change", graph.choose);
	document.getElementById("flame-out").addEventListener("click", graph.out);
	return {...graph, key};
}

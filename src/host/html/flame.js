/* The flame graph: a merged call tree, with a box as wide as the time of all calls along a path, below that of their
   caller; or its inverse, with the functions on top and their callers below. */

const FLAME_ROW = 19, FLAME_NARROW = 0.4;

function makeFlame(model, canvas) {
	const said = document.getElementById("flame-said"), choice = document.getElementById("flame-thread");
	const inverse = document.getElementById("flame-inverse");
	const whole = makeTree(model.columns, "whole"), threads = makeTree(model.columns, "threads"), trees = new Map();
	let tree = whole, focus = 0, scroll = 0, selected = -1, hovered = -1, rows = [], deepest = 0;

	function fillChoice() {
		choice.append(new Option("the whole trace", "-1"));
		for (const node of threads.kids.subarray(threads.first[0], threads.first[1])) {
			const [name, tid] = model.head.threads[threads.fn[node]];
			choice.append(new Option(`${clean(name)}-${tid}, ${timeText(threads.total[node])}`, String(node)));
		}
	}

	function choose() {
		const key = choice.value + inverse.checked, node = Number(choice.value);
		if (!trees.has(key)) {
			const chosen = node < 0 ? whole : subtree(threads, node);
			trees.set(key, inverse.checked ? invert(chosen) : chosen);
		}
		tree = trees.get(key);
		focus = scroll = 0;
		selected = hovered = -1;
		draw();
	}

	const nameOf = node => node ? model.names[tree.fn[node]] : choice.selectedOptions[0].textContent;

	function linesOf(node) {
		const lines = [nameOf(node), `${tree.inverse ? "self time" : "total"} ${timeText(tree.total[node])}, ` +
			`${percentText(tree.total[node], tree.total[0])} of all` +
			(node && tree.parent[node] ? `, ${percentText(tree.total[node], tree.total[tree.parent[node]])} of the box above` : "")];
		if (!node)
			return lines;
		if (!tree.inverse)
			lines.push("self " + timeText(tree.self[node]));
		lines.push(counted(tree.calls[node], "call", "calls"));
		const source = sourceOf(model, tree.fn[node]);
		if (source)
			lines.push(source);
		return lines;
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
		const {context, width, height} = fitCanvas(canvas), found = search.found;
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
				const color = node < 0 ? colors.dense : !node ? colors.sum : hit ? colors.match
					: (found ? colors.dim : colors.fill)[model.hues[tree.fn[node]]];
				batches.add(color, row[k + 1], y, Math.max(row[k + 2] - (row[k + 2] > 2 ? 0.7 : 0), 0.5));
				if (node >= 0 && row[k + 2] > 30)
					texts.push(node, row[k + 1], y, row[k + 2]);
			}
		});
		batches.fill(context, FLAME_ROW - 1);
		for (let k = 0; k < texts.length; k += 4) {
			context.fillStyle = found && texts[k] && found[tree.fn[texts[k]]] ? MATCH_TEXT : colors.text;
			fitText(context, nameOf(texts[k]), texts[k + 1], texts[k + 2] + FLAME_ROW / 2, texts[k + 3]);
		}
		outline(context, hovered, colors.front);
		outline(context, selected, colors.accent);
		const share = foundShare();
		if (tree.count === 1) {
			said.textContent = "No call has a duration here.";
			return;
		}
		said.textContent = focus ? `${cut(nameOf(focus), 60)}: ${timeText(tree.total[focus])}` :
			found ? `${percentText(share, tree.total[0])} of the time is in what matches` : "";
	}

	/* The time of matching functions that are not below one another. */
	function foundShare() {
		if (!search.found)
			return 0;
		const inside = new Uint8Array(tree.count);
		let sum = 0;
		for (let i = 1; i < tree.count; i++) {
			inside[i] = inside[tree.parent[i]] || search.found[tree.fn[i]];
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
		const row = rows[Math.floor((event.offsetY - 4 + scroll) / FLAME_ROW)] || [];
		for (let k = 0; k < row.length; k += 3) {
			if (event.offsetX >= row[k + 1] && event.offsetX < row[k + 1] + row[k + 2])
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
		const {left, top, height} = canvas.getBoundingClientRect();
		lay(canvas.clientWidth);
		rows.forEach((row, depth) => {
			for (let k = 0; k < row.length; k += 3) {
				if (row[k] !== selected)
					continue;
				const y = depth * FLAME_ROW;
				scroll = y < scroll ? y : y > scroll + height - 2 * FLAME_ROW ? y - height + 2 * FLAME_ROW : scroll;
				tip.show({clientX: left + row[k + 1], clientY: top + y - scroll + 8}, linesOf(selected));
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
		else if (name === "Escape" || name === "Backspace")
			zoom(tree.parent[focus]);
		else if (name === "0" || name === "Home")
			zoom(0);
		else if (name === "i")
			inverse.click();
		else if (name === "PageUp" || name === "PageDown")
			scroll += (name === "PageUp" ? -1 : 1) * canvas.clientHeight * 0.9;
		else
			return false;
		draw();
		return true;
	}

	canvas.addEventListener("pointermove", event => {
		const node = hit(event);
		canvas.style.cursor = node >= 0 ? "pointer" : "default";
		if (node >= 0)
			tip.show(event, linesOf(node));
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
	choice.addEventListener("change", choose);
	inverse.addEventListener("change", choose);
	document.getElementById("flame-out").addEventListener("click", () => zoom(tree.parent[focus]));

	fillChoice();
	trees.set("-1false", whole);
	return {draw, paint, key, zoom, state: () => ({focus, name: nameOf(focus), total: tree.total[focus], count: tree.count, rows: rows.length})};
}

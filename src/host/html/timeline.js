/* The time line: a track for each stack of a thread, with a row for each depth and the calls in it as boxes.

   The boxes of a row are in order and do not overlap, so the first one in view is found by bisection, and boxes that
   are narrower than a pixel are passed over in strides: a picture takes as long as it has pixels, not boxes. */

const RULER = 24, LABEL = 21, ROW = 18, NARROW = 1.2, SPAN_MIN = 20;

/* The first box from i on, below last, that ends after a time: by doubling strides, then bisection. */
function firstEndingAfter(to, i, last, time) {
	let step = 1, low = i;
	if (i >= last || to[i] > time)
		return i;
	while (low + step < last && to[low + step] <= time) {
		low += step;
		step *= 2;
	}
	let high = Math.min(low + step, last);
	while (high - low > 1) {
		const middle = low + high >> 1;
		if (to[middle] <= time)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* Tracks in the order to show them: each with its rows, its losses, waits and marks, and its place. */
function makeTracks(model) {
	const {head, boxes, columns} = model, tracks = new Map();
	const track = number => {
		if (!tracks.has(number)) {
			const [thread, stack] = head.tracks[number], [name, tid, pid] = head.threads[thread] || ["", 0, 0];
			tracks.set(number, {number, thread, stack, pid, tid, rows: [], moments: [], folded: false, depths: 0,
				label: `${clean(name)}-${tid}` + (stack ? `, stack ${stack + 1}` : "")});
		}
		return tracks.get(number);
	};
	for (const row of boxes.rows) {
		const owner = track(row.track);
		owner.rows.push(row);
		owner.depths = row.depth + 1;
	}
	columns["moment.ns"].forEach((ns, i) => track(columns["moment.track"][i]).moments.push(
		{ns, kind: columns["moment.kind"][i], value: columns["moment.value"][i]}));
	const processes = new Set();
	for (const each of tracks.values()) {
		each.moments.sort((a, b) => a.ns - b.ns);
		processes.add(each.pid);
	}
	/* A process' first thread has its number. */
	const list = [...tracks.values()].sort((a, b) => a.pid - b.pid || (b.tid === b.pid) - (a.tid === a.pid) || a.tid - b.tid ||
		a.thread - b.thread || a.stack - b.stack);
	if (processes.size > 1)
		list.forEach(each => each.label += ` of process ${each.pid}`);
	return list;
}

function momentText(model, moment) {
	if (moment.kind === 0)
		return moment.value ? counted(moment.value, "record was", "records were") + " lost here" : "records were lost here";
	if (moment.kind === 1)
		return "the thread waited for the tool here, for " + timeText(moment.value);
	return "mark: " + (moment.value ? clean(model.head.texts[moment.value - 1]) : "(its text is left out)");
}

/* What to draw, gathered by color: setting a canvas' color costs more than a rectangle. */
function makeBatches() {
	const lists = new Map();
	return {
		add(color, x, y, width) {
			let list = lists.get(color);
			if (!list)
				lists.set(color, list = []);
			list.push(x, y, width);
		},
		fill(context, height) {
			for (const [color, list] of lists) {
				context.fillStyle = color;
				for (let i = 0; i < list.length; i += 3)
					context.fillRect(list[i], list[i + 1], list[i + 2], height);
			}
		},
	};
}

function makeTimeline(model, rule, canvas, panel) {
	const {boxes} = model, {from, to, fn} = boxes;
	const tracks = makeTracks(model), rowOf = new Map();
	const whole = {from: 0, to: Math.max(1, model.facts.duration_ns)};
	const view = {from: 0, to: 1, y: 0};
	let height = 0, selected = -1, hovered = -1, drag = null, marked = null; /* marked: the range that is being dragged */

	function place() {
		let y = RULER;
		for (const track of tracks) {
			track.y = y;
			y += LABEL + (track.folded ? 0 : track.depths * ROW) + 5;
		}
		height = y + 20;
	}

	function start() {
		let first = Infinity, last = 0;
		for (const row of boxes.rows) {
			first = Math.min(first, from[row.first]);
			last = Math.max(last, to[row.last - 1]);
		}
		for (const track of tracks) {
			for (const row of track.rows)
				rowOf.set(row, track);
			for (const moment of track.moments) {
				first = Math.min(first, moment.ns);
				last = Math.max(last, moment.ns);
			}
		}
		if (first < last)
			[whole.from, whole.to] = [first, last];
		place();
		showAll();
	}

	function showAll() {
		const margin = (whole.to - whole.from) * 0.01 + 1;
		view.from = whole.from - margin;
		view.to = whole.to + margin;
		draw();
	}

	function drawRow(row, y, width, px, batches, texts) {
		const scale = width / (view.to - view.from), found = search.found, end = row.last;
		const palette = found ? colors.dim : colors.fill;
		let i = firstEndingAfter(to, row.first, end, view.from);
		while (i < end && from[i] < view.to) {
			let x = (from[i] - view.from) * scale, right = (to[i] - view.from) * scale;
			if (right - x >= NARROW) {
				const hit = found && found[fn[i]];
				const left = Math.max(x, -2), span = Math.min(right, width + 2) - left;
				batches.add(hit ? colors.match : fn[i] ? palette[model.hues[fn[i]]] : colors.sum, left, y,
					Math.max(span - (span > 3 ? 0.6 : 0), px));
				if (span > 30)
					texts.push(i, left, y, span);
				i++;
				continue;
			}
			/* Boxes below a pixel, up to a gap or a wider one, are one piece. */
			let hit = false;
			right = Math.max(right, x + px);
			x = Math.max(x, -2);
			for (;;) {
				if (found)
					hit = hit || found[fn[i]];
				i = found ? i + 1 : firstEndingAfter(to, i + 1, end, view.from + right / scale);
				if (i >= end)
					break;
				const nextX = (from[i] - view.from) * scale, nextRight = (to[i] - view.from) * scale;
				if (nextX > right + px || nextRight - nextX >= NARROW || nextX > width)
					break;
				if (found && !hit !== !found[fn[i]] && nextX >= right)
					break;
				right = Math.max(right, nextRight, nextX + px);
			}
			batches.add(hit ? colors.match : found ? colors.line : colors.dense, x, y, right - x);
		}
	}

	function drawTexts(context, texts) {
		for (let k = 0; k < texts.length; k += 4) {
			const i = texts[k], sum = boxes.sum[i];
			context.fillStyle = search.found && search.found[fn[i]] ? MATCH_TEXT : colors.text;
			const text = sum < 0 ? model.names[fn[i]]
				: `${counted(boxes.calls[sum] || boxes.deeper[sum], "small call", "small calls")}, ${timeText(boxes.total[sum])}`;
			fitText(context, text, Math.max(texts[k + 1], 0), texts[k + 2] + ROW / 2, texts[k + 3]);
		}
	}

	function drawMoments(context, track, width) {
		const scale = width / (view.to - view.from), y = track.y - view.y;
		const tall = LABEL + (track.folded ? 0 : track.depths * ROW);
		let last = [-9, -9, -9];
		for (const moment of track.moments) {
			const x = (moment.ns - view.from) * scale;
			if (x < -8 || x > width + 8 || x - last[moment.kind] < 2)
				continue;
			last[moment.kind] = x;
			context.fillStyle = [colors.lost, colors.wait, colors.told][moment.kind];
			if (moment.kind === 0)
				context.fillRect(x - 1, y, 2, tall);
			context.beginPath();
			context.moveTo(x - 6, y + 6);
			context.lineTo(x + 6, y + 6);
			context.lineTo(x, y + 17);
			context.fill();
		}
	}

	function drawRuler(context, width) {
		const span = view.to - view.from;
		let step = Math.pow(10, Math.floor(Math.log10(span * 130 / width)));
		for (const factor of [2, 2.5, 2]) {
			if (step * width / span < 110)
				step *= factor;
		}
		const [unit, size] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(each => view.to >= each[1]) || ["ns", 1];
		const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(size / step) - 1e-9)));
		context.fillStyle = colors.bar;
		context.fillRect(0, 0, width, RULER);
		for (let t = Math.ceil(view.from / step) * step; t < view.to; t += step) {
			const x = (t - view.from) * width / span;
			context.fillStyle = colors.line;
			context.fillRect(x, 0, 1, RULER);
			context.fillStyle = colors.soft;
			context.fillText((t / size).toFixed(digits) + " " + unit, x + 4, RULER / 2);
		}
	}

	/* The range that is dragged, or the one that rules: {left, right, ns}; null = none. */
	function rangePlace(width) {
		const range = marked || rule.range, scale = width / (view.to - view.from);
		const place = ns => Math.max(-2, Math.min(width + 2, (ns - view.from) * scale));
		return range && {left: place(Math.min(range.from, range.to)), right: place(Math.max(range.from, range.to)),
			ns: Math.abs(range.to - range.from)};
	}

	/* What is outside of the range is pale. */
	function shadeOutside(context, range, width, tall) {
		context.globalAlpha = 0.6;
		context.fillStyle = colors.back;
		context.fillRect(0, RULER, range.left, tall);
		context.fillRect(range.right, RULER, width - range.right, tall);
		context.globalAlpha = 1;
	}

	/* The range has its ends, and a line on the ruler. */
	function drawRange(context, {left, right, ns}, width, tall) {
		context.fillStyle = colors.accent;
		context.fillRect(left, RULER - 4, Math.max(right - left, 1), 4);
		context.fillRect(left, 0, 1, tall);
		context.fillRect(right - 1, 0, 1, tall);
		if (marked)
			fitText(context, timeText(ns), left + 2, RULER + 10, width);
	}

	function outline(context, box, color, width) {
		const row = rowAt(box), track = rowOf.get(row);
		if (track.folded)
			return;
		const scale = width / (view.to - view.from);
		const x = Math.max((from[box] - view.from) * scale, -3), right = Math.min((to[box] - view.from) * scale, width + 3);
		context.strokeStyle = color;
		context.lineWidth = 2;
		context.strokeRect(x, track.y + LABEL + row.depth * ROW - view.y, Math.max(right - x, 2), ROW - 1);
	}

	function paint() {
		const {context, width, height: tall, ratio} = fitCanvas(canvas);
		if (!width)
			return;
		view.y = Math.max(0, Math.min(view.y, height - tall));
		measureLetter(context);
		context.textBaseline = "middle";
		context.fillStyle = colors.back;
		context.fillRect(0, 0, width, tall);
		const batches = makeBatches(), texts = [], shown = tracks.filter(track =>
			track.y - view.y < tall && track.y + LABEL + track.depths * ROW - view.y > 0);
		for (const track of shown) {
			for (const row of track.folded ? [] : track.rows) {
				const y = track.y + LABEL + row.depth * ROW - view.y;
				if (y > -ROW && y < tall)
					drawRow(row, y, width, 1 / ratio, batches, texts);
			}
		}
		batches.fill(context, ROW - 1);
		drawTexts(context, texts);
		const range = rangePlace(width);
		if (range)
			shadeOutside(context, range, width, tall);
		for (const track of shown)
			drawLabel(context, track, width);
		if (hovered >= 0)
			outline(context, hovered, colors.front, width);
		if (selected >= 0)
			outline(context, selected, colors.accent, width);
		drawRuler(context, width);
		if (range)
			drawRange(context, range, width, tall);
		drawScroll(context, width, tall);
	}

	function drawLabel(context, track, width) {
		const y = track.y - view.y;
		context.fillStyle = colors.bar;
		context.fillRect(0, y, width, LABEL - 1);
		context.fillStyle = colors.front;
		context.font = "600 " + FONT;
		context.fillText((track.folded ? "\u25b8 " : "\u25be ") + track.label, 6, y + LABEL / 2);
		context.font = FONT;
		drawMoments(context, track, width);
	}

	function drawScroll(context, width, tall) {
		if (height <= tall)
			return;
		const length = Math.max(24, (tall - RULER) * tall / height);
		context.fillStyle = colors.soft;
		context.globalAlpha = 0.5;
		context.fillRect(width - 7, RULER + (tall - RULER - length) * view.y / (height - tall), 6, length);
		context.globalAlpha = 1;
	}

	const draw = onceAFrame(paint);

	/* The row that a box is in. */
	function rowAt(box) {
		let low = 0, high = boxes.rows.length;
		while (high - low > 1) {
			const middle = low + high >> 1;
			if (boxes.rows[middle].first <= box)
				low = middle;
			else
				high = middle;
		}
		return boxes.rows[low];
	}

	const trackAt = y => tracks.find(track =>
		y >= track.y && y < track.y + LABEL + (track.folded ? 0 : track.depths * ROW));

	/* {track, box, moment} at a place of the canvas. */
	function hit(x, y) {
		const track = y < RULER ? undefined : trackAt(y + view.y), perPixel = (view.to - view.from) / widthOf(canvas);
		const time = view.from + x * perPixel;
		if (!track)
			return {};
		const below = y + view.y - track.y - LABEL;
		if (below < 0 || track.moments.length) {
			const near = track.moments.filter(moment => Math.abs(moment.ns - time) < 6 * perPixel && (below < 0 || !moment.kind));
			if (near.length && (below < 0 || Math.abs(near[0].ns - time) < 2 * perPixel))
				return {track, moments: near};
		}
		if (below < 0)
			return {track, label: true};
		const row = track.rows.find(each => each.depth === Math.floor(below / ROW));
		if (!row)
			return {track};
		const i = firstEndingAfter(to, row.first, row.last, time - 2 * perPixel);
		if (i >= row.last || from[i] > time + 2 * perPixel)
			return {track};
		/* Of the boxes that near, the one under the pointer, else the longest. */
		let best = i;
		for (let k = i; k < row.last && from[k] <= time + 2 * perPixel && k < i + 1000; k++) {
			if (from[k] <= time && to[k] > time) {
				best = k;
				break;
			}
			if (to[k] - from[k] > to[best] - from[best])
				best = k;
		}
		return {track, box: best};
	}

	function zoom(factor, x) {
		const share = x / widthOf(canvas), time = view.from + share * (view.to - view.from);
		const most = (whole.to - whole.from) * 1.5 + 100;
		const span = Math.max(SPAN_MIN, Math.min(most, (view.to - view.from) * factor));
		view.from = time - share * span;
		view.to = view.from + span;
		limit();
		draw();
	}

	/* Keep something of the trace in view. */
	function limit() {
		const span = view.to - view.from, least = whole.from - 0.9 * span, most = whole.to + 0.9 * span - span;
		const shift = view.from < least ? least - view.from : view.from > most ? Math.max(least, most) - view.from : 0;
		view.from += shift;
		view.to += shift;
	}

	function pan(pixels) {
		const shift = pixels * (view.to - view.from) / widthOf(canvas);
		view.from += shift;
		view.to += shift;
		limit();
		draw();
	}

	function select(box) {
		selected = box;
		if (box >= 0)
			showLines(panel, [boxLines(model, box)[0], boxLines(model, box).slice(1).join("  |  ")]);
		else
			panel.textContent = "Move over a call for its times; click to keep them here. Wheel: zoom; drag: move; drag over the ruler: a range; ?: keys.";
		draw();
	}

	/* Bring a box into view, wide enough to be seen. */
	function show(box, closer) {
		const span = view.to - view.from, ns = to[box] - from[box], row = rowAt(box), track = rowOf.get(row);
		if (track.folded) {
			track.folded = false;
			place();
		}
		const wanted = closer ? Math.max(ns * 1.3, SPAN_MIN) : ns * widthOf(canvas) / 8 < span || ns > span
			? Math.max(ns * 8, SPAN_MIN) : span;
		if (closer || wanted !== span || from[box] < view.from || to[box] > view.to) {
			view.from = (from[box] + to[box]) / 2 - wanted / 2;
			view.to = view.from + wanted;
		}
		const y = track.y + LABEL + row.depth * ROW;
		if (y - view.y < RULER + LABEL || y - view.y > heightOf(canvas) - 2 * ROW)
			view.y = y - heightOf(canvas) / 2;
		select(box);
	}

	const timeAt = x => Math.max(0, view.from + x * (view.to - view.from) / widthOf(canvas));

	/* The next box, in time or back, that `wanted` takes; -1 = none. */
	function nextBox(wanted, back) {
		const time = selected >= 0 ? from[selected] : back ? view.to : view.from;
		let best = -1;
		for (let i = 0; i < boxes.count; i++) {
			const later = from[i] > time || from[i] === time && i > selected;
			if (i === selected || later === back || !wanted(i))
				continue;
			if (best < 0 || (back ? from[i] >= from[best] : from[i] < from[best]))
				best = i;
		}
		return best;
	}

	function showNext(back) {
		if (!search.found)
			return;
		const box = nextBox(i => search.found[fn[i]], back);
		if (box >= 0)
			show(box);
	}

	/* Select a neighbour of the selected box: in its row, its caller's, or a callee's. */
	function step(key) {
		const row = rowAt(selected), rows = rowOf.get(row).rows;
		let next = key === "ArrowRight" ? selected + 1 : selected - 1;
		if (key === "ArrowUp" || key === "ArrowDown") {
			const other = rows.find(each => each.depth === row.depth + (key === "ArrowUp" ? -1 : 1));
			next = other ? firstEndingAfter(to, other.first, other.last, from[selected]) : -1;
			if (!other || next >= other.last || from[next] > to[selected])
				return;
		} else if (next < row.first || next >= row.last) {
			return;
		}
		show(next);
	}

	function key(event) {
		const name = event.key, middle = widthOf(canvas) / 2;
		if (event.shiftKey && name.startsWith("Arrow") && selected >= 0)
			step(name);
		else if (name === "w" || name === "+" || name === "=")
			zoom(0.7, middle);
		else if (name === "s" || name === "-")
			zoom(1 / 0.7, middle);
		else if (name === "a" || name === "ArrowLeft")
			pan(-widthOf(canvas) / 8);
		else if (name === "d" || name === "ArrowRight")
			pan(widthOf(canvas) / 8);
		else if (name === "ArrowUp" || name === "ArrowDown" || name === "PageUp" || name === "PageDown")
			scroll((name.endsWith("Up") ? -1 : 1) * (name.startsWith("Page") ? heightOf(canvas) * 0.9 : 3 * ROW));
		else if (name === "0" || name === "Home")
			showAll();
		else if ((name === "Enter" || name === "z") && selected >= 0)
			show(selected, true);
		else if (name === "n" || name === "N")
			showNext(name === "N");
		else if (name === "c")
			foldAll();
		else if (name === "Escape" && selected >= 0)
			select(-1);
		else
			return false;
		return true;
	}

	function foldAll() {
		const folded = !tracks.every(track => track.folded);
		tracks.forEach(track => track.folded = folded);
		place();
		draw();
	}

	function scroll(pixels) {
		view.y += pixels;
		draw();
	}

	function hover(event) {
		const point = placeOn(event), at = hit(point.x, point.y), box = at.box === undefined ? -1 : at.box;
		if (at.moments)
			tip.show(event, at.moments.slice(0, 8).map(moment => momentText(model, moment)));
		else if (box >= 0)
			tip.show(event, boxLines(model, box));
		else
			tip.hide();
		canvas.style.cursor = point.y < RULER ? "col-resize" : box >= 0 || at.label ? "pointer" : "grab";
		if (box !== hovered) {
			hovered = box;
			draw();
		}
	}

	canvas.addEventListener("wheel", event => {
		event.preventDefault();
		const pixels = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? heightOf(canvas) : 1;
		if (event.shiftKey)
			scroll((event.deltaY || event.deltaX) * pixels);
		else if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
			pan(event.deltaX * pixels);
		else
			zoom(Math.exp(Math.max(-300, Math.min(300, event.deltaY * pixels)) * 0.002), placeOn(event).x);
		tip.hide();
	}, {passive: false});
	canvas.addEventListener("pointerdown", event => {
		if (event.button)
			return;
		const {x, y} = placeOn(event);
		drag = {x, y, moved: false, begin: y < RULER ? timeAt(x) : undefined};
		canvas.setPointerCapture(event.pointerId);
	});
	canvas.addEventListener("pointermove", event => {
		if (!drag)
			return hover(event);
		const {x, y} = placeOn(event);
		if (!drag.moved && Math.abs(x - drag.x) + Math.abs(y - drag.y) < 4)
			return;
		drag.moved = true;
		tip.hide();
		if (drag.begin !== undefined) {
			marked = {from: drag.begin, to: timeAt(x)};
			draw();
			return;
		}
		canvas.style.cursor = "grabbing";
		pan(drag.x - x);
		scroll(drag.y - y);
		drag.x = x;
		drag.y = y;
	});
	canvas.addEventListener("pointerup", event => {
		const clicked = drag && !drag.moved && drag.begin === undefined, range = marked;
		drag = marked = null;
		if (range)
			rule.set(range.from, range.to);
		if (!clicked)
			return;
		const {x, y} = placeOn(event), at = hit(x, y);
		if (at.label) {
			at.track.folded = !at.track.folded;
			place();
			draw();
		} else if (!at.moments) {
			select(at.box === undefined ? -1 : at.box);
		}
	});
	canvas.addEventListener("pointercancel", () => {
		drag = marked = null;
		draw();
	});
	canvas.addEventListener("pointerleave", () => {
		tip.hide();
		hovered = -1;
		draw();
	});
	canvas.addEventListener("dblclick", event => {
		const {x, y} = placeOn(event), at = hit(x, y);
		if (at.box !== undefined)
			show(at.box, true);
	});

	start();
	select(-1);
	return {draw, paint, key, show, showNext, select, view, whole, state: () => ({selected, hovered})};
}

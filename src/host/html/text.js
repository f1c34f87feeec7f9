/* Texts: numbers with units, names without what would disturb, and elements made of text alone. */

/* Control characters, and those that turn the direction of what follows, become a dot. */
function clean(text) {
	return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "\u00b7");
}

function cut(text, max) {
	const points = text.length > max ? Array.from(text.slice(0, 2 * max)) : null;
	return points && points.length > max ? points.slice(0, max - 1).join("") + "\u2026" : text;
}

/* A time with three or four digits that count, as in "12.35 us". */
function timeText(ns) {
	const units = [["s", 1e9], ["ms", 1e6], ["us", 1e3]];
	for (const [unit, size] of units) {
		const value = ns / size;
		if (value >= 0.99995)
			return value.toFixed(value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3) + " " + unit;
	}
	return Math.round(ns) + " ns";
}

/* The same of what may be an estimate, or a bound (2: at most, 3: at least), as `replay` and `report` mark it. */
function aboutText(ns, about) {
	return (about === 2 ? "<" : about === 3 ? ">" : about ? "~" : "") + timeText(ns);
}

function countText(count) {
	return Math.round(count).toLocaleString("en-US");
}

function counted(count, one, many) {
	return countText(count) + " " + (count === 1 ? one : many);
}

function percentText(part, whole) {
	return whole ? (100 * part / whole).toFixed(1) + " %" : "";
}

/* An element with a text and with elements in it. */
function make(tag, text, ...inside) {
	const element = document.createElement(tag);
	if (text !== "")
		element.textContent = text;
	element.append(...inside);
	return element;
}

/* A box's flags, as in boxes.h; the lower bits are how the call ended. */
const BOX_TAIL = 8, BOX_BEFORE = 16, BOX_CALL = 32, BOX_ABOUT = 64, END_BITS = 7, END_OPEN = 3, END_LOST = 4;

const ENDS = ["", "ended by an exception or longjmp", "ended by a tail call", "still open at the end of the trace",
	"its end was lost", "ended before its thread's first record"];

/* Lines about a box of the time line; the first is its title. */
function boxLines(model, box) {
	const {boxes, head} = model;
	const ns = boxes.to[box] - boxes.from[box];
	if (!boxes.fn[box]) {
		const sum = boxes.sum[box], calls = boxes.calls[sum], deeper = boxes.deeper[sum];
		return [`${countText(calls)} small ${calls === 1 ? "call" : "calls"}, total ${aboutText(boxes.total[sum], head.estimated)}`,
			`within ${timeText(ns)} from ${timeText(boxes.from[box])} on; self time ${aboutText(boxes.self[box], head.estimated)}` +
			(deeper ? `; ${counted(deeper, "call", "calls")} in them` : ""),
			`each shorter than ${timeText(head.levels.threshold_ns)}, the page's threshold`];
	}
	const [told, result] = boxes.told.get(box) || [0, 0];
	const flags = boxes.flags[box], how = ENDS[flags & END_BITS];
	const lines = [model.names[boxes.fn[box]]];
	if (flags & BOX_CALL)
		lines.push("a call at " + timeText(boxes.from[box]) + "; its duration was not recorded");
	else if (flags & BOX_BEFORE)
		lines.push("open when the trace began");
	else
		lines.push(`${aboutText(ns, flags & BOX_ABOUT)}, self ${aboutText(boxes.self[box], flags & BOX_ABOUT || head.estimated && boxes.self[box] !== ns)}, at ${timeText(boxes.from[box])}`);
	const source = sourceOf(model, boxes.fn[box]);
	if (source)
		lines.push(source);
	if (told)
		lines.push("arguments: " + clean(head.texts[told - 1]));
	if (result)
		lines.push("result: " + clean(head.texts[result - 1]));
	if (how && !(flags & BOX_CALL))
		lines.push(how);
	if (flags & BOX_TAIL)
		lines.push("entered by a tail call");
	return lines;
}

/* "file:line, object", as far as it is known. */
function sourceOf(model, fn) {
	const [, object, file, line] = model.head.functions[fn - 1];
	const parts = [];
	if (file)
		parts.push(clean(model.head.files[file - 1]) + (line ? ":" + line : ""));
	if (object)
		parts.push(clean(model.head.objects[object - 1]).replace(/.*\//, ""));
	return parts.join(", ");
}

/* Show lines in an element, the first one strong. */
function showLines(element, lines) {
	element.replaceChildren(make("b", lines[0]), lines.slice(1).map(line => "\n" + line).join(""));
}

const tip = {
	show(event, lines) {
		const element = document.getElementById("tip");
		showLines(element, lines.map(line => cut(line, 500)));
		element.hidden = false;
		const box = element.getBoundingClientRect();
		element.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6)) + "px";
		element.style.top = (event.clientY + 18 + box.height > innerHeight ? Math.max(4, event.clientY - box.height - 10)
			: event.clientY + 18) + "px";
	},
	hide() {
		document.getElementById("tip").hidden = true;
	},
};

/* Reading the page's data: gzip in base64, two lines of JSON, then columns of numbers (src/host/html/columns.h). */

/* The bytes behind the element's base64. */
async function unpack(element) {
	const text = atob(element.textContent);
	const packed = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++)
		packed[i] = text.charCodeAt(i);
	element.textContent = "";
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* The numbers of a column: seven bits a byte, the lowest first. */
function readColumn(bytes, at, count) {
	const numbers = new Float64Array(count);
	for (let i = 0; i < count; i++) {
		let value = 0, scale = 1, byte;
		do {
			byte = bytes[at++];
			value += (byte & 127) * scale;
			scale *= 128;
		} while (byte > 127);
		numbers[i] = value;
	}
	return numbers;
}

/* {facts, head, columns} */
function readData(bytes) {
	const first = bytes.indexOf(10), second = bytes.indexOf(10, first + 1);
	const decoder = new TextDecoder();
	const facts = JSON.parse(decoder.decode(bytes.subarray(0, first)));
	const head = JSON.parse(decoder.decode(bytes.subarray(first + 1, second)));
	const columns = {};
	let at = second + 1;
	for (const [name, count, size] of head.columns) {
		columns[name] = readColumn(bytes, at, count);
		at += size;
	}
	return {facts, head, columns};
}

/* The boxes as arrays by number, and the rows that they are in: each of a track and depth, in order of time. */
function makeBoxes(columns) {
	const gap = columns["box.gap"], ns = columns["box.ns"], fn = columns["box.function"];
	const count = ns.length;
	const from = new Float64Array(count), to = new Float64Array(count), flags = new Uint8Array(count);
	const sum = new Int32Array(count), rows = [];
	let at = 0, single = 0, sums = 0;
	columns["row.boxes"].forEach((boxes, r) => {
		let end = 0;
		const row = {track: columns["row.track"][r], depth: columns["row.depth"][r], first: at, last: at + boxes};
		for (; at < row.last; at++) {
			const step = gap[at] % 2 ? -(gap[at] + 1) / 2 : gap[at] / 2;
			from[at] = end + step;
			end = to[at] = from[at] + ns[at];
			sum[at] = fn[at] ? -1 : sums++;
			flags[at] = fn[at] ? columns["box.flags"][single++] : 0;
		}
		rows.push(row);
	});
	const told = new Map();
	let box = 0;
	columns["told.step"].forEach((step, i) => {
		box += step;
		told.set(box, [columns["told.arguments"][i], columns["told.result"][i]]);
	});
	const away = new Map();
	box = 0;
	columns["away.step"].forEach((step, i) => {
		box += step;
		away.set(box, columns["away.ns"][i]);
	});
	return {count, from, to, fn, self: columns["box.self"], flags, sum, rows, told, away, calls: columns["sum.calls"],
		deeper: columns["sum.deeper"], total: columns["sum.total"]};
}

/* A tree as arrays; node 0 is the root. Children of a node: kids[first[node]] to kids[first[node + 1] - 1], the
   greatest total first. */
function makeTree(columns, name) {
	const up = columns[name + ".up"], count = up.length + 1;
	const tree = {count, parent: new Int32Array(count), fn: new Float64Array(count), calls: new Float64Array(count),
		total: new Float64Array(count), self: new Float64Array(count), isThread: false};
	for (let i = 1; i < count; i++) {
		tree.parent[i] = i - up[i - 1];
		tree.fn[i] = columns[name + ".function"][i - 1];
		tree.calls[i] = columns[name + ".calls"][i - 1];
		tree.total[i] = columns[name + ".total"][i - 1];
		tree.self[i] = columns[name + ".self"][i - 1];
	}
	return linkTree(tree);
}

/* Sum up the root and sort children. */
function linkTree(tree) {
	const {count, parent, total} = tree;
	tree.total[0] = tree.calls[0] = 0;
	tree.first = new Int32Array(count + 1);
	for (let i = 1; i < count; i++) {
		tree.first[parent[i] + 1]++;
		if (!parent[i]) {
			tree.total[0] += total[i];
			tree.calls[0] += tree.calls[i];
		}
	}
	for (let i = 0; i < count; i++)
		tree.first[i + 1] += tree.first[i];
	const next = tree.first.slice();
	tree.kids = new Int32Array(Math.max(count - 1, 0));
	for (let i = 1; i < count; i++)
		tree.kids[next[parent[i]]++] = i;
	for (let i = 0; i < count; i++)
		tree.kids.subarray(tree.first[i], tree.first[i + 1]).sort((a, b) => total[b] - total[a] || tree.fn[a] - tree.fn[b]);
	return tree;
}

/* The part of the threads' tree that is in one thread. */
function subtree(tree, top) {
	const place = new Int32Array(tree.count).fill(-1), nodes = [top];
	place[top] = 0;
	for (let i = top + 1; i < tree.count; i++) {
		if (place[tree.parent[i]] >= 0) {
			place[i] = nodes.length;
			nodes.push(i);
		}
	}
	const pick = (array, type) => type.from(nodes, node => array[node]);
	const part = {count: nodes.length, parent: Int32Array.from(nodes, (node, i) => i ? place[tree.parent[node]] : 0),
		fn: pick(tree.fn, Float64Array), calls: pick(tree.calls, Float64Array), total: pick(tree.total, Float64Array),
		self: pick(tree.self, Float64Array)};
	part.fn[0] = 0;
	return linkTree(part);
}

const INVERSE_DEPTH = 40; /* callers above are left out */
const INVERSE_NODES = 400000;

/* From each function up to its callers, by self time. */
function invert(tree) {
	const parent = [0], fn = [0], calls = [0], total = [0], self = [0], child = new Map();
	const heavy = Array.from({length: tree.count}, (_, i) => i).filter(i => i && (tree.self[i] || tree.calls[i]));
	heavy.sort((a, b) => tree.self[b] - tree.self[a]);
	for (const node of heavy) {
		let at = 0;
		for (let i = node, depth = 0; i && depth < INVERSE_DEPTH; i = tree.parent[i], depth++) {
			const key = at * 536870912 + tree.fn[i];
			let next = child.get(key);
			if (next === undefined) {
				if (parent.length >= INVERSE_NODES)
					break;
				next = parent.length;
				child.set(key, next);
				parent.push(at); fn.push(tree.fn[i]); calls.push(0); total.push(0); self.push(0);
			}
			calls[next] += tree.calls[node];
			total[next] += tree.self[node];
			if (i === node)
				self[next] += tree.self[node];
			at = next;
		}
	}
	return linkTree({count: parent.length, parent: Int32Array.from(parent), fn: Float64Array.from(fn),
		calls: Float64Array.from(calls), total: Float64Array.from(total), self: Float64Array.from(self), inverse: true});
}

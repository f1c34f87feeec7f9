/* What ran in a range of time: a call tree and the table's figures, made of the boxes.

   A call counts where some of its time is in the range; a call of no time, where its moment is. It counts with the part
   of its time that is in the range: of the calls of a function within one another the outermost one gives the total, and
   self is a call's part less its callees' parts. A call that lies wholly in the range has the trace's own figures.

   Of a box of small calls that the range cuts, only bounds are known; so they are of the time in which a call's thread ran
   on another stack. A figure is therefore the least that is sure, and with `More` at its end what it may be more. */


/* The part of a box's time from lo to hi; -1 where none of the box is in the range. */
function partIn(boxes, i, lo, hi) {
	const part = Math.min(boxes.to[i], hi) - Math.max(boxes.from[i], lo);
	return part > 0 || part === 0 && boxes.from[i] === boxes.to[i] ? part : -1;
}

/* A row's last box that begins at a time or before; -1 = none does. */
function lastBeginning(from, row, time) {
	let low = row.first - 1, high = row.last;
	while (high - low > 1) {
		const middle = low + high >> 1;
		if (from[middle] <= time)
			low = middle;
		else
			high = middle;
	}
	return low < row.first ? -1 : low;
}

/* A call tree that grows: node 0 is the root, the function 0 stands for small calls. */
function growingTree() {
	const child = new Map(), tree = {parent: [0], fn: [0], calls: [0], total: [0], self: [0], nested: [0]};
	return {
		tree,
		/* The node of a function below another node. */
		at(parent, fn) {
			const key = parent * 536870912 + fn;
			let node = child.get(key);
			if (node === undefined) {
				let nested = 0;
				for (let above = parent; above && fn && !nested; above = tree.parent[above])
					nested = tree.fn[above] === fn ? 1 : 0;
				node = tree.parent.length;
				child.set(key, node);
				tree.parent.push(parent); tree.fn.push(fn); tree.nested.push(nested);
				tree.calls.push(0); tree.total.push(0); tree.self.push(0);
			}
			return node;
		},
		finish() {
			return linkTree({count: tree.parent.length, parent: Int32Array.from(tree.parent), fn: Float64Array.from(tree.fn),
				calls: Float64Array.from(tree.calls), total: Float64Array.from(tree.total), self: Float64Array.from(tree.self)});
		},
	};
}

/* True if the page was asked for a part of the calls, so that callees are missing whose time is not their caller's. */
function isPart(filter) {
	return Boolean(filter.function || filter.min_ns || filter.from_ns || filter.to_ns !== undefined);
}

/* {from, to, thread, tree, rows, small}: what ran from lo to hi, in a thread or (-1) in all. */
function rangeOf(model, lo, hi, thread) {
	const {boxes, head} = model, {from, to, fn, self, flags} = boxes;
	const growing = growingTree(), {tree} = growing, part = isPart(head.filter);
	const nodeOf = new Int32Array(boxes.count).fill(-1), parentOf = new Int32Array(boxes.count).fill(-1);
	const rows = new Map(), cuts = new Map();
	const small = {calls: 0, total: 0, totalMore: 0, self: 0, selfMore: 0, cut: 0};
	let above = []; /* the rows above the one that is taken, in the same track */

	function rowOf(number) {
		if (!rows.has(number))
			rows.set(number, {fn: number, name: model.names[number], calls: 0, unfinished: 0, timed: false, total: 0, totalMore: 0,
				self: 0, selfMore: 0, buckets: []});
		return rows.get(number);
	}

	/* Find the box that a box is in, and its node. A box's end may be off by the 1 ns that comes of rounding. */
	function place(i, rowsAbove) {
		let parent = -1, k = rowsAbove;
		while (parent < 0 && k--) {
			parent = lastBeginning(from, above[k], from[i]);
			if (parent >= 0 && to[parent] + 1 < to[i])
				parent = -1;
		}
		if (parent >= 0 && nodeOf[parent] < 0)
			place(parent, k);
		parentOf[i] = parent;
		nodeOf[i] = growing.at(parent < 0 ? 0 : nodeOf[parent], fn[i]);
	}

	/* No call of the function is around the call. A frame from before the trace is not counted, and so it is not around. */
	function isOutermost(i) {
		if (!tree.nested[nodeOf[i]])
			return true;
		for (let each = parentOf[i]; each >= 0; each = parentOf[each]) {
			if (fn[each] === fn[i] && !(flags[each] & BOX_BEFORE))
				return false;
		}
		return true;
	}

	/* Tell the callers of a part of their time: those that the range cuts, and those from before the trace, whose time is
	   that of their callees. */
	function tellCallers(i, least, most) {
		const parent = parentOf[i], cut = cuts.get(parent);
		if (cut) {
			cut.belowLeast += least;
			cut.belowMost += most;
		}
		for (let each = parent; each >= 0 && flags[parent] & BOX_BEFORE; each = parentOf[each])
			tree.total[nodeOf[each]] += least;
	}

	function takeSmall(i, inside) {
		const sum = boxes.sum[i], node = nodeOf[i], ns = to[i] - from[i], whole = inside === ns;
		const least = value => whole ? value : Math.max(0, value - (ns - inside));
		const more = value => whole ? 0 : Math.max(0, Math.min(value, inside) - least(value));
		const calls = boxes.calls[sum] + boxes.deeper[sum], total = boxes.total[sum];
		if (whole)
			small.calls += calls;
		else
			small.cut += calls;
		small.total += least(total);
		small.totalMore += more(total);
		small.self += least(self[i]);
		small.selfMore += more(self[i]);
		tree.calls[node] += whole ? boxes.calls[sum] : 0;
		tree.total[node] += least(total);
		tree.self[node] += least(self[i]);
		tellCallers(i, least(total), least(total) + more(total));
	}

	function takeCall(i, inside) {
		const ns = to[i] - from[i], whole = inside === ns, away = boxes.away.get(i) || 0, row = rowOf(fn[i]), how = flags[i] & END_BITS;
		const least = Math.max(0, inside - away), most = whole ? least : Math.min(inside, ns - away);
		if (how === END_OPEN || how === END_LOST)
			row.unfinished++;
		else
			row.calls++;
		row.timed = true;
		if (isOutermost(i)) {
			row.total += least;
			row.totalMore += most - least;
		}
		tree.calls[nodeOf[i]]++;
		tree.total[nodeOf[i]] += least;
		tellCallers(i, least, most);
		if (whole)
			addSelf(i, self[i], 0);
		else
			cuts.set(i, {outside: ns - inside, least, most, belowLeast: 0, belowMost: 0});
	}

	function addSelf(i, least, more) {
		const row = rowOf(fn[i]);
		row.self += least;
		row.selfMore += more;
		tree.self[nodeOf[i]] += least;
	}

	function takeRow(row) {
		for (let i = firstEndingAfter(to, row.first, row.last, lo - 1); i < row.last && from[i] <= hi; i++) {
			const inside = partIn(boxes, i, lo, hi);
			if (inside < 0)
				continue;
			if (flags[i] & BOX_CALL) {
				rowOf(fn[i]).calls++;
				continue;
			}
			if (nodeOf[i] < 0)
				place(i, above.length);
			if (!fn[i])
				takeSmall(i, inside);
			else if (!(flags[i] & BOX_BEFORE))
				takeCall(i, inside);
		}
	}

	for (const row of boxes.rows) {
		if (above.length && above[0].track !== row.track)
			above = [];
		if (thread < 0 || head.tracks[row.track][0] === thread)
			takeRow(row);
		above.push(row);
	}
	cuts.forEach((cut, i) => {
		const least = Math.max(0, part ? self[i] - cut.outside : cut.least - cut.belowMost);
		addSelf(i, least, Math.max(0, Math.min(self[i], cut.most - cut.belowLeast) - least));
	});
	return {from: lo, to: hi, thread, tree: growing.finish(), rows: [...rows.values()], small};
}

/* Long tables: heads that sort, and rows of which those in view alone are elements. */

const tableRow = () => 24 * pageScale.factor; /* px, as in page.css */

/* A button in each head; sort(i) is called for the one that was pressed. */
function makeHeads(heads, columns, sort) {
	columns.forEach((column, i) => {
		const button = make("button", column.title);
		button.type = "button";
		button.addEventListener("click", () => sort(i));
		heads.append(make("th", "", button));
	});
}

/* Mark the column that the rows are sorted by. */
function markHeads(heads, columns, sorted, rising) {
	[...heads.children].forEach((head, i) => {
		head.ariaSort = i === sorted ? rising ? "ascending" : "descending" : "none";
		head.firstChild.textContent = columns[i].title + (i === sorted ? rising ? " \u25b4" : " \u25be" : "");
	});
}

/* The rows of a table with so many columns; makeRow makes one's element. */
function rowsInView(scroller, body, columns, makeRow) {
	let shown = [], drawn = "";

	/* A row that takes the place of rows that are not in view. */
	function makeSpace(count) {
		const element = make("tr", ""), cell = make("td", "");
		element.className = "space";
		cell.colSpan = columns;
		cell.style.height = count * tableRow() + "px";
		element.append(cell);
		return element;
	}

	return {
		/* Show these rows, from the first one on. */
		show(rows) {
			shown = rows;
			scroller.scrollTop = 0;
			drawn = "";
		},
		/* Elements that are there are no longer right. */
		forget() {
			drawn = "";
		},
		paint() {
			const first = Math.max(0, Math.floor(scroller.scrollTop / tableRow()) - 20);
			const last = Math.min(shown.length, first + Math.ceil(scroller.clientHeight / tableRow()) + 40);
			const wanted = [first, last, tableRow()].join(" ");
			if (drawn === wanted)
				return;
			drawn = wanted;
			body.replaceChildren(...(first ? [makeSpace(first)] : []), ...shown.slice(first, last).map(makeRow),
				...(last < shown.length ? [makeSpace(shown.length - last)] : []));
		},
	};
}

/* How large the page is drawn: 1, or more in a window that is very wide and high in CSS pixels. The style says when, by the
   root's font size, of which all lengths are multiples; what is drawn on canvases follows it. */

const pageScale = {
	factor: 1,
	/* Read it from the style: the window may have another size. */
	read() {
		this.factor = parseFloat(getComputedStyle(document.documentElement).fontSize) / 10 || 1;
	},
};

/* A canvas' size, and a place on it, in the units that it is drawn in. */
const widthOf = canvas => canvas.clientWidth / pageScale.factor;
const heightOf = canvas => canvas.clientHeight / pageScale.factor;
const placeOn = event => ({x: event.offsetX / pageScale.factor, y: event.offsetY / pageScale.factor});

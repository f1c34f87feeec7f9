/* Colors: of functions by their names, and of the page's own parts, read from the style. */

const HUES = 24;

const colors = {
	fill: [], dim: [], more: [], less: [], dark: false,
	set(dark) {
		this.dark = dark;
		const css = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
		for (const name of ["back", "front", "soft", "line", "bar", "accent", "mark"])
			this[name] = css(name);
		for (let i = 0; i < HUES; i++) {
			const hue = (i * 360 / HUES + 205) % 360;
			this.fill[i] = dark ? `hsl(${hue} 42% ${32 + i % 3 * 4}%)` : `hsl(${hue} 62% ${80 - i % 3 * 4}%)`;
			this.dim[i] = dark ? `hsl(${hue} 12% 21%)` : `hsl(${hue} 14% 93%)`;
		}
		for (let i = 1; i <= CHANGE_LEVELS; i++) {
			const light = dark ? 20 + i * 4 : 92 - i * 5, full = dark ? 25 + i * 6 : 60 + i * 5;
			this.more[i] = `hsl(4 ${full}% ${light}%)`;
			this.less[i] = `hsl(212 ${full}% ${light}%)`;
		}
		this.same = dark ? "#3a414b" : "#e3e6ea";
		this.pale = dark ? "#262b33" : "#eef0f3";
		this.sum = dark ? "#4a525e" : "#c3cad3";
		this.dense = dark ? "#5b6675" : "#a9b4c1";
		this.text = dark ? "#f2f4f8" : "#14181d";
		this.lost = dark ? "#ff6b5e" : "#d1242f";
		this.wait = dark ? "#e0a458" : "#b46a00";
		this.told = dark ? "#5fd38a" : "#1a7f37";
		this.match = dark ? "#ffd84d" : "#ffbe0b";
	},
};

function hueOf(name) {
	let hash = 2166136261;
	for (let i = 0; i < name.length; i++)
		hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
	return ((hash ^ hash >>> 15) >>> 0) % HUES;
}

/* Give the canvas as many dots as the screen has in its place; returns its context, scaled so that a unit is one CSS
   pixel, or more (scale.js), and how many dots a unit has. */
function fitCanvas(canvas) {
	const ratio = (devicePixelRatio || 1) * pageScale.factor, width = widthOf(canvas), height = heightOf(canvas);
	const w = Math.round(width * ratio), h = Math.round(height * ratio);
	if (canvas.width !== w || canvas.height !== h) {
		canvas.width = w;
		canvas.height = h;
	}
	const context = canvas.getContext("2d", {alpha: false});
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	return {context, width, height, ratio};
}

const FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const LETTER = {width: 7.3};

/* The width of a letter, all of which are as wide; cutting texts then takes no measuring. */
function measureLetter(context) {
	context.font = FONT;
	LETTER.width = Math.max(context.measureText("m".repeat(50)).width / 50, 1);
}

/* Text on what matches a search is dark, for what matches is yellow. */
const MATCH_TEXT = "#14181d";

/* Write a text that fits into width pixels, or its beginning; nothing where there is no room for three letters. */
function fitText(context, text, x, y, width) {
	const letters = Math.floor((width - 6) / LETTER.width);
	if (letters >= 3)
		context.fillText(cut(text, letters), x + 3, y);
}

/* One drawing for each picture of the screen, however often it is asked for. */
function onceAFrame(draw) {
	let asked = false;
	return () => {
		if (asked)
			return;
		asked = true;
		requestAnimationFrame(() => {
			asked = false;
			draw();
		});
	};
}

/* Searching functions: one field for all views.  A text between slashes is a regular expression. */

const search = {
	text: "", found: null, count: 0,
	/* Set found: per function 1 if its name matches; null = no search. */
	set(model, text) {
		this.text = text;
		this.found = null;
		this.count = 0;
		if (!text)
			return;
		const matches = matcher(text);
		this.found = new Uint8Array(model.names.length);
		for (let i = 1; i < model.names.length; i++)
			this.count += this.found[i] = matches(model.names[i]) ? 1 : 0;
	},
};

function matcher(text) {
	if (text.length > 2 && text[0] === "/" && text.endsWith("/")) {
		try {
			const expression = new RegExp(text.slice(1, -1), "i");
			return name => expression.test(name);
		} catch (error) {
			return () => false;
		}
	}
	const low = text.toLowerCase();
	return name => name.toLowerCase().includes(low);
}

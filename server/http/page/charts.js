// SPDX-License-Identifier: MIT
/*
 * What the page of server.http is made of: answers of /metrics, tables, and charts of what happened
 * while the page was open.
 *
 * A rate is the difference of two answers by the server's own clock, kvd_uptime_seconds, since
 * answers may be a second old. Names of users, tenants and devices go into the page as text, never
 * as HTML.
 */
"use strict";

const POLL_MS = 2000;
const SHOWN_MIN_S = 60, SHOWN_MAX_S = 300; // by the charts
const GAP_S = 4 * POLL_MS / 1000; // more without an answer is a gap in the charts
const LINES_MAX = 6; // of a chart: the colours there are
const CHART_PX = 132;
const AXIS_PX = 18;

/* The metrics. */

const SAMPLE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/* An answer: the samples of each family, as { value, LABEL: ... }. */
class Scrape {
	constructor(text) {
		this.families = new Map();
		for (const line of text.split("\n")) {
			const [, name, labels, value] = SAMPLE.exec(line) ?? [];
			if (!name)
				continue;
			const sample = { value: Number(value) };
			for (const [, key, quoted] of (labels ?? "").matchAll(LABEL))
				sample[key] = quoted.replace(/\\(.)/g, "$1");
			if (!this.families.has(name))
				this.families.set(name, []);
			this.families.get(name).push(sample);
		}
		this.uptime = this.sum("kvd_uptime_seconds");
		this.start = this.sum("kvd_start_time_seconds");
	}

	/* The samples with these labels. */
	list(name, labels = {}) {
		return (this.families.get(name) ?? []).filter((sample) =>
			Object.entries(labels).every(([key, value]) => sample[key] === value));
	}

	/* Their sum; NaN: there are none. */
	sum(name, labels) {
		const list = this.list(name, labels);
		return list.length ? list.reduce((sum, sample) => sum + sample.value, 0) : NaN;
	}

	/* What a label is in these samples, each once. */
	values(name, label) {
		return [...new Set(this.list(name).map((sample) => sample[label]))];
	}
}

/* Texts. */

const NONE = "–";

function scaled(value, base, units) {
	let unit = 0;

	while (value >= base && unit < units.length - 1) {
		value /= base;
		unit++;
	}
	return Number(value.toPrecision(3)) + units[unit];
}

const exact = (value) => Number.isFinite(value) ? value.toLocaleString("en-US") : NONE;
const short = (value) =>
	Number.isFinite(value) ? scaled(value, 1000, ["", " k", " M", " G", " T"]) : NONE;
const bytes = (value) => Number.isFinite(value) ?
	scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]) : NONE;
const percent = (part, digits = 1) =>
	Number.isFinite(part) ? `${(100 * part).toFixed(digits)} %` : NONE;
const perSecond = (format) => (value) => Number.isFinite(value) ? `${format(value)}/s` : NONE;

function span(seconds) {
	if (!Number.isFinite(seconds))
		return NONE;
	if (seconds < 1)
		return seconds < 1e-3 ? `${+(seconds * 1e6).toPrecision(3)} µs` :
			`${+(seconds * 1e3).toPrecision(3)} ms`;
	const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
	const at = units.findIndex(([size]) => seconds >= size);
	const [size, name] = units[at];
	const [less, lesser] = units[at + 1] ?? [];
	const rest = less ? Math.floor(seconds % size / less) : 0;
	return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${lesser}` : ""}`;
}

/* As 2026-11-30 16:46:31. */
const moment = (ms) => new Date(ms).toLocaleString("sv-SE");
const clock = (ms) => new Date(ms).toLocaleTimeString("sv-SE");

/* Elements. */

function fill(made, attributes, children) {
	for (const [name, value] of Object.entries(attributes))
		made.setAttribute(name, value);
	made.append(...children);
	return made;
}

const element = (name, attributes = {}, ...children) =>
	fill(document.createElement(name), attributes, children);
const shape = (name, attributes = {}, ...children) =>
	fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const swatch = (colour) => element("span", { class: `swatch k${colour}` });

function setText(target, text) {
	if (target.textContent !== text)
		target.textContent = text;
}

/*
 * A table. Its rows are arrays of texts, or of { text, colour, bar, zero }: with a swatch, with a
 * bar of a part of 1, or quiet. A cell that does not change is left alone, so that it can be
 * selected and read.
 */
class Table {
	constructor(caption, heads) {
		this.head = element("tr");
		this.body = element("tbody");
		this.setHeads(heads);
		this.element = element("div",
			{ class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
			element("table", {}, element("caption", {}, caption),
				element("thead", {}, this.head), this.body));
	}

	setHeads(heads) {
		heads.forEach((text, i) => setText(this.head.cells[i] ??
			this.head.appendChild(element("th", { scope: "col" })), text));
		while (this.head.cells.length > heads.length)
			this.head.deleteCell(-1);
	}

	set(rows) {
		this.element.hidden = !rows.length;
		while (this.body.rows.length > rows.length)
			this.body.deleteRow(-1);
		rows.forEach((cells, i) => {
			const row = this.body.rows[i] ?? this.body.insertRow();
			cells.forEach((cell, k) => this.setCell(row, k, cell));
		});
	}

	setCell(row, k, cell) {
		const { text = cell, colour, bar, zero } = cell;
		const shown = JSON.stringify([text, colour, bar, zero]);
		const td = row.cells[k] ??
			row.appendChild(element(k ? "td" : "th", k ? {} : { scope: "row" }));

		if (td.shown === shown)
			return;
		td.shown = shown;
		td.replaceChildren(...(colour === undefined ? [] : [swatch(colour)]), text);
		td.className = zero ? "zero" : "";
		if (bar === undefined)
			return;
		const made = element("span", { class: "bar" });
		made.style.setProperty("--part", `${100 * Math.min(1, bar || 0)}%`);
		td.append(made);
	}
}

/* Points in time. */

/* What two answers say: totals, and the rates between them. */
class Step {
	constructor(before, now, ms) {
		this.before = before;
		this.now = now;
		this.ms = ms;
		this.seconds = before ? now.uptime - before.uptime : NaN;
	}

	/* Of a number that a function finds in an answer. NaN: not known. */
	rate(total) {
		const grown = this.before ? total(this.now) - total(this.before) : NaN;
		return grown >= 0 ? grown / this.seconds : NaN;
	}

	/* Of a counter. */
	rateOf(name, labels) {
		return this.rate((scrape) => scrape.sum(name, labels));
	}
}

/* What all charts show: the end and the length, and the time at which the visitor points. */
const time = { last: 0, seconds: SHOWN_MIN_S, cursor: null };

const isShown = ({ ms }) => ms === (time.cursor ?? time.last);

/* A part of the page. */
class Section {
	constructor(title, note) {
		this.title = title;
		this.note = element("p", { class: "note" }, note);
		this.element = element("section", {}, element("h2", {}, title), this.note);
	}

	table(caption, ...heads) {
		const table = new Table(`${this.title}: ${caption}`, heads);
		this.element.append(table.element);
		return table;
	}

	/* Takes a step, and shows it. */
	update(step) {
		this.show(step);
	}

	/* Shows the cursor, or the page's new width. */
	draw() {}
}

/* A section with a chart over time. Its points are { ms, since, values }. */
class Chart extends Section {
	constructor(title, note) {
		super(title, note);
		this.points = [];
		this.svg = shape("svg", { role: "img", tabindex: 0, "aria-label": `${title} over ` +
			"time. The table after it has the figures; arrow keys go back." });
		this.element.append(this.svg);
		this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
		this.svg.addEventListener("pointerleave", () => setCursor(null));
		this.svg.addEventListener("keydown", (event) => this.key(event));
	}

	update(step) {
		this.step = step;
		this.points.push({ ms: step.ms, since: step.ms - step.seconds * 1000,
			values: this.measure(step) });
		while (this.points[0].ms < step.ms - SHOWN_MAX_S * 1000)
			this.points.shift();
		time.seconds = Math.max(SHOWN_MIN_S, (step.ms - this.points[0].ms) / 1000);
		this.draw();
	}

	x(ms) {
		const ago = (time.last - ms) / 1000 / time.seconds;
		return this.width - (this.width - this.left) * ago;
	}

	point(x) {
		const far = ({ ms }) => Math.abs(this.x(ms) - x);
		if (this.points.length)
			setCursor(this.points.reduce((a, b) => far(a) < far(b) ? a : b).ms);
	}

	key(event) {
		const step = { ArrowLeft: -1, ArrowRight: 1, Escape: Infinity }[event.key];
		const at = this.points.findIndex(isShown);

		if (!step)
			return;
		event.preventDefault();
		setCursor(this.points[Math.max(0, at + step)]?.ms ?? null);
	}

	/* The values of the last point, or at the cursor. */
	get shown() {
		return this.points.find(isShown)?.values ?? [];
	}

	/* Begins a drawing with @left pixels for labels at its left. */
	begin(left, height) {
		this.left = left;
		this.width = begin(this.svg, height);
		this.bottom = height - AXIS_PX;
		for (const [ago, anchor] of [[1, "start"], [0.5, "middle"], [0, "end"]])
			label(this.svg, this.width - ago * (this.width - left), height - 3,
				ago ? `${span(Math.round(ago * time.seconds))} ago` : "now",
				anchor);
	}

	end() {
		const x = time.cursor && this.x(time.cursor);

		if (x)
			this.svg.append(
				shape("path", { class: "cursor", d: `M${x} 0V${this.bottom}` }));
	}
}

/* Begins a drawing; returns its width. */
function begin(svg, height) {
	const width = svg.clientWidth || 320;

	svg.setAttribute("height", height);
	svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
	svg.replaceChildren();
	return width;
}

function label(svg, x, y, text, anchor = "start") {
	svg.append(shape("text", { x, y, "text-anchor": anchor, class: "halo" }, text));
}

/* Lines at 0, a half and 1 of the height, with what they mean. */
function drawGrid(svg, width, y, text) {
	for (const part of [0, 0.5, 1]) {
		svg.append(shape("path", { class: "grid", d: `M0 ${y(part)}H${width}` }));
		if (part)
			label(svg, 0, y(part) - 4, text(part));
	}
}

/* The next power of two, or with @base 1000 of ten, or 2 or 4 times that. */
function nice(value, base) {
	if (base === 1024)
		return 2 ** Math.ceil(Math.log2(Math.max(value, 1)));
	const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
	return power * [1, 2, 4, 10].find((factor) => factor * power >= value);
}

/* Lines. A series is { name, total(scrape), gauge }: a gauge is shown as it is, not its rate. */
class Lines extends Chart {
	constructor(title, note, series, { format = short, base = 1000, more = [] } = {}) {
		super(title, note);
		this.series = series;
		this.format = format;
		this.whole = format === short ? exact : format; // of totals
		this.base = base;
		this.more = more;
		this.figures = this.table("figures", "", "now",
			...(series[0].gauge ? [] : ["since the start"]));
	}

	measure(step) {
		return [...this.series, ...this.more].map(({ total, gauge }) =>
			gauge ? total(step.now) : step.rate(total));
	}

	draw() {
		this.begin(0, CHART_PX);
		this.top = nice(1.1 * Math.max(1, ...this.points.flatMap(({ values }) =>
			values.slice(0, this.series.length).filter(Number.isFinite))), this.base);
		drawGrid(this.svg, this.width, (part) => this.y(part * this.top),
			(part) => this.unit(this.series[0].gauge)(part * this.top));
		this.series.forEach((line, i) => this.drawLine(i));
		this.end();
		this.fillTable();
	}

	y(value) {
		return this.bottom - value / this.top * (this.bottom - 16);
	}

	unit(gauge) {
		return gauge ? this.format : perSecond(this.format);
	}

	drawLine(i) {
		let path = "", before = -Infinity;

		for (const { ms, values } of this.points) {
			if (!Number.isFinite(values[i]))
				continue;
			const at = `${this.x(ms).toFixed(1)} ${this.y(values[i]).toFixed(1)}`;
			path += ms - before > GAP_S * 1000 ? `M${at}h0.1` : `L${at}`;
			before = ms;
		}
		if (path)
			this.svg.append(shape("path", { class: `line k${i}`, d: path }));
	}

	fillTable() {
		setText(this.figures.head.cells[1], time.cursor ? clock(time.cursor) : "now");
		this.figures.set([...this.series, ...this.more].map(({ name, total, gauge }, i) => [
			i < this.series.length ? { text: name, colour: i } : name,
			this.unit(gauge)(this.shown[i]),
			...(gauge ? [] : [this.whole(total(this.step.now))]),
		]));
	}
}

/* Rows of cells over time, stronger with their value, from 0 to 1. */
class Heat extends Chart {
	/* A row of each name, the first at the top; @row gives its place in the points. */
	drawCells(names, row = (i) => i) {
		const height = Math.min(18, Math.max(4, 256 / names.length));
		const every = Math.ceil(12 / height);

		this.begin(64, names.length * height + AXIS_PX);
		names.forEach((name, i) => {
			if (i % every === 0)
				label(this.svg, 0, (i + 0.5) * height + 4, name);
			this.svg.append(shape("rect", { class: "empty", x: this.left, y: i * height,
				width: this.width - this.left, height: height - 1 }));
			this.points.forEach((point) =>
				this.drawCell(point, point.values[row(i)], i * height, height - 1));
		});
		this.end();
	}

	drawCell({ ms, since }, value, y, height) {
		const x = Math.max(this.left, this.x(Math.max(since, ms - GAP_S * 1000)));

		const width = Math.max(1, this.x(ms) - x);
		const strength = 0.12 + 0.88 * Math.sqrt(Math.min(1, value));

		if (value > 0)
			this.svg.append(shape("rect", { class: "cell k0", x, y, width, height,
				"fill-opacity": strength.toFixed(3) }));
	}
}

// SPDX-License-Identifier: MIT
/*
 * Lists what is wrong with the looks of the page of server.http, for tests/system/page_browser.py,
 * which evaluates it in the page: what is missing, cut, over something else, or too pale. The
 * contrasts are those of the Web Content Accessibility Guidelines, level AA.
 */
(() => {
	const TEXT = 4.5, SHAPE = 3; // contrasts
	const LEADING_PX = 4; // of a label's box: it may touch another one so far
	const wrong = [];
	const check = (good, text) => good || wrong.push(text);
	const all = (what, of = document) =>
		[...of.querySelectorAll(what)].filter((found) => found.checkVisibility());
	const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
	const luminance = (colour) => colour.match(/[\d.]+/g).slice(0, 3).reduce((sum, c, i) =>
		sum + linear(c / 255) * [0.2126, 0.7152, 0.0722][i], 0);
	const contrast = (a, b) => {
		const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
		return (high + 0.05) / (low + 0.05);
	};

	function checkColours(section, title) {
		const card = getComputedStyle(section).backgroundColor;

		for (const found of all("td, th, p, h2, text", section)) {
			const { fill, color } = getComputedStyle(found);
			check(contrast(found.localName === "text" ? fill : color, card) >= TEXT,
				`${title}: '${found.textContent}' is too pale`);
		}
		for (const found of all(".swatch", section))
			check(contrast(getComputedStyle(found).backgroundColor, card) >= SHAPE,
				`${title}: a colour is too pale`);
	}

	function checkTables(section, title) {
		check(all("tbody tr", section).some(({ cells }) => /\d/.test(cells[1].textContent)),
			`${title}: there are no figures`);
		for (const found of all(".scroll", section)) {
			const name = found.getAttribute("aria-label");
			check(name, `${title}: a table has no name`);
			check(found.scrollWidth <= found.clientWidth, `${name}: it is cut`);
		}
	}

	function checkChart(svg, title) {
		const inside = svg.getBoundingClientRect();
		const labels = all("text", svg).map((label) =>
			[`${title}: '${label.textContent}'`, label.getBoundingClientRect()]);

		check(svg.getAttribute("aria-label"), `${title}: the chart has no name`);
		check(svg.querySelector("path, polyline, .cell"), `${title}: the chart is empty`);
		labels.forEach(([name, a], i) => {
			check(a.left >= inside.left - 1 && a.right <= inside.right + 1 &&
				a.top >= inside.top - 1 && a.bottom <= inside.bottom + 1,
			`${name} is cut`);
			for (const [other, b] of labels.slice(0, i))
				check(a.left >= b.right || b.left >= a.right ||
					a.top >= b.bottom - LEADING_PX ||
					b.top >= a.bottom - LEADING_PX, `${name} is over ${other}`);
		});
	}

	check(document.documentElement.scrollWidth <= innerWidth,
		`it is ${document.documentElement.scrollWidth} pixels wide, of ${innerWidth}`);
	const dark = luminance(getComputedStyle(document.body).backgroundColor) < 0.5;
	check(matchMedia("(prefers-color-scheme: dark)").matches === dark, "the wrong scheme");
	check(all("section").length === 11, `${all("section").length} sections`);
	check(all("#tiles dd").length && all("#tiles dd").every((found) => found.textContent),
		"a tile is empty");
	for (const section of all("section")) {
		const title = section.querySelector("h2").textContent;
		checkColours(section, title);
		checkTables(section, title);
		for (const svg of all("svg", section))
			checkChart(svg, title);
	}
	return wrong;
})()

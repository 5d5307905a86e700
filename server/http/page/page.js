// SPDX-License-Identifier: MIT
/*
 * The sections of the page of server.http, from the most used to the rarest, and the loop that asks
 * the server for its figures every POLL_MS while the page can be seen.
 */
"use strict";

const ANSWER_MS = 8000; // that the server may take
const sum = (name, labels) => (scrape) => scrape.sum(name, labels);
const counter = (name, metric, labels) => ({ name, total: sum(metric, labels) });
const share = (part, whole) => whole > 0 ? part / whole : NaN;
const DEFAULT = { tenant: "default" };

const command = (name) => counter(name.toUpperCase(), "kvd_commands_total", { command: name });
const commands = ["get", "put", "delete", "arith", "touch", "scan"].map(command);
const operations = new Lines("Operations", "by kind, of all clients; GETs by READ as clients " +
	"report them", commands);
const operated = (scrape) => commands.reduce((all, { total }) => all + total(scrape), 0);

const hits = sum("kvd_get_hits_total"), misses = sum("kvd_get_misses_total");
const gets = new Lines("GETs", "one-sided: by RDMA READ, which costs the server nothing", [
	{ name: "hits", total: hits },
	{ name: "misses", total: misses },
	counter("one-sided, as reported", "kvd_gets_reported_total"),
]);

const traffic = new Lines("Bytes", "without those that clients READ, which the server does not " +
	"see", [
	counter("requests", "kvd_request_bytes_total"),
	counter("responses", "kvd_response_bytes_total"),
	counter("large values taken from clients", "kvd_pull_bytes_total"),
	counter("memcached, received", "kvd_memcached_bytes_read_total"),
	counter("memcached, sent", "kvd_memcached_bytes_written_total"),
], { format: bytes, base: 1024 });

const TURNS = "kvd_worker_turn_seconds_bucket";

class Turns extends Heat {
	constructor() {
		super("Latency", "how long turns of the workers' loops take, in which they " +
			"answer requests; stronger: more turns");
		this.figures = this.table("figures", "turns of at most", "now", "since the start");
	}

	/* The part of the turns in each bucket. */
	measure(step) {
		this.bounds = step.now.values(TURNS, "le");
		const counts = this.bounds.map((le) => step.rateOf(TURNS, { le }));
		return counts.map((count, i) => share(count - (counts[i - 1] ?? 0), counts.at(-1)));
	}

	draw() {
		const name = (le) => le === "+Inf" ? "more" : span(Number(le));
		const all = this.bounds.map((le) => this.step.now.sum(TURNS, { le }));

		/* The shortest turns are at the bottom. */
		this.drawCells(this.bounds.map(name).reverse(), (i) => this.bounds.length - 1 - i);
		setText(this.figures.head.cells[1], time.cursor ? clock(time.cursor) : "now");
		this.figures.set(this.bounds.map((le, i) => [name(le), percent(this.shown[i]),
			percent(share(all[i] - (all[i - 1] ?? 0), all.at(-1)))]));
	}
}

class Workers extends Heat {
	constructor() {
		super("Workers", "CPU time; stronger: busier, also by polling for requests");
		this.figures = this.table("figures", "worker", "CPU", "requests/s", "longest turn");
	}

	measure(step) {
		this.names = step.now.values("kvd_worker_cpu_seconds_total", "worker");
		return this.names.map((worker) =>
			step.rateOf("kvd_worker_cpu_seconds_total", { worker }));
	}

	draw() {
		this.drawCells(this.names);
		setText(this.figures.head.cells[1],
			time.cursor ? `CPU, ${clock(time.cursor)}` : "CPU");
		this.figures.set(this.names.map((worker, i) => [worker,
			{ text: percent(this.shown[i]), bar: this.shown[i] },
			short(this.step.rateOf("kvd_worker_requests_total", { worker })),
			span(this.step.now.sum("kvd_worker_turn_max_seconds", { worker }))]));
	}
}

const MAP_PX = 44;

/* The parts of the region of the tenant default, in the order of the map. */
class Memory extends Section {
	constructor() {
		super("Memory", "of the tenant default, by size class; pale: free");
		this.svg = shape("svg", { role: "img", "aria-label":
			"Map of the memory. The table after it has the figures." });
		this.element.append(this.svg);
		this.figures = this.table("parts", "", "memory", "in use", "evicted/s");
	}

	parts({ now }) {
		const part = (name) => now.sum("kvd_memory_bytes", { ...DEFAULT, part: name });
		const row = (name, colour, all, used, more) =>
			({ name, colour, all, used, ...more });
		const whole = (name, colour, of) => row(name, colour, part(of), part(of));
		const ofClass = ({ block_bytes, value }) =>
			row(`items ≤ ${bytes(Number(block_bytes))}`, 0, value,
				now.sum("kvd_size_class_used", { block_bytes }) * block_bytes,
				{ slabs: true, block_bytes });

		return [whole("index", 1, "index"),
			row("overflow buckets", 1, part("bucket_slabs"),
				part("bucket_slabs") - part("bucket_slabs_free"), { slabs: true }),
			...now.list("kvd_size_class_bytes").map(ofClass),
			whole("large items", 2, "large"), whole("being emptied", 3, "evacuating"),
			row("ends of slabs", 4, part("slab_ends"), 0),
			row("free pages", 5, part("free"), 0),
		].filter(({ all }) => all);
	}

	show(step) {
		this.step = step;
		this.list = this.parts(step);
		const parts = this.list.toSorted((a, b) => !!a.block_bytes - !!b.block_bytes);
		const evictedOf = (block_bytes) =>
			short(step.rateOf("kvd_size_class_evictions_total", { block_bytes }));

		this.figures.set(parts.map(({ name, all, used, colour, slabs, block_bytes }) => [
			{ text: name, colour }, bytes(all),
			slabs ? { text: percent(share(used, all)), bar: share(used, all) } : "",
			block_bytes ? evictedOf(block_bytes) : "",
		]));
		this.draw();
	}

	draw() {
		const width = begin(this.svg, MAP_PX);
		const all = this.list.reduce((total, part) => total + part.all, 0);
		let x = 0;

		for (const part of this.list) {
			const wide = width * part.all / all;
			for (const [kind, full] of [["pale", 1], ["cell", part.used / part.all]])
				this.svg.append(shape("rect", { class: `${kind} k${part.colour}`, x,
					y: MAP_PX * (1 - full), height: MAP_PX * full,
					width: Math.max(0.5, wide - 1) },
				shape("title", {}, `${part.name}: ${bytes(part.all)}`)));
			x += wide;
		}
	}
}

const AGES = [["< 1 min", "1m"], ["1 to 10 min", "10m"], ["10 to 60 min", "1h"],
	["1 to 24 h", "1d"]];
const evicted = sum("kvd_evictions_total"), low = sum("kvd_evictions_low_total");
const evictions = new Lines("Evictions", "by the time since the item's last use", [
	...AGES.map(([name, age]) => counter(name, "kvd_evictions_by_age_total", { age })),
	{ name: "≥ 1 day", total: (scrape) =>
		evicted(scrape) - low(scrape) - scrape.sum("kvd_evictions_by_age_total") },
	{ name: "of low priority", total: low },
], { more: [{ name: "all", total: evicted }, counter("expired items", "kvd_expired_total")] });

/* Hits by the size of the memory, of each tenant that has a curve. */
class Curve extends Section {
	constructor() {
		super("Hit ratio by memory", "");
		this.svg = shape("svg", { role: "img", "aria-label":
			"Hit ratio by the size of the memory. The table has the figures." });
		this.element.append(this.svg);
		this.figures = this.table("figures");
	}

	show({ now }) {
		const tenants = now.values("kvd_curve_hits", "tenant").filter((tenant) =>
			now.sum("kvd_curve_gets", { tenant })).slice(0, LINES_MAX);
		const sizes = now.values("kvd_curve_hits", "memory_percent");

		this.sizes = sizes.map(Number);
		this.lines = tenants.map((tenant) => sizes.map((memory_percent) => share(
			now.sum("kvd_curve_hits", { tenant, memory_percent }),
			now.sum("kvd_curve_gets", { tenant }))));
		setText(this.note, "the part of the GETs that would hit with less and more memory" +
			(tenants.length ? ", as estimated" : ": memory.curve = yes estimates it"));
		this.svg.classList.toggle("absent", !tenants.length);
		this.figures.setHeads(["memory", ...tenants]);
		this.figures.set(!tenants.length ? [] : sizes.map((size, i) =>
			[`${size} %`, ...this.lines.map((line) => percent(line[i]))]));
		this.draw();
	}

	draw() {
		const width = begin(this.svg, CHART_PX), bottom = CHART_PX - AXIS_PX;
		const x = (size) => 40 + (width - 40) * size / (this.sizes.at(-1) ?? 1);
		const y = (ratio) => bottom - ratio * (bottom - 16);

		drawGrid(this.svg, width, y, (part) => `${100 * part} %`);
		for (const size of [100, 200, 300, 400])
			label(this.svg, x(size), CHART_PX - 3, `${size} %`,
				size < 400 ? "middle" : "end");
		this.lines.forEach((line, i) => {
			const points = line.map((ratio, k) => [x(this.sizes[k]), y(ratio)]);
			this.svg.append(
				shape("path", { class: `line k${i}`, d: `M${points.join("L")}` }));
		});
	}
}

class Connections extends Lines {
	constructor() {
		const gauge = (name, metric, labels) =>
			({ ...counter(name, metric, labels), gauge: true });
		const ways = ["softnic", "rdma", "rdma+tcp", "rdma+tls", "memcached",
			"memcached+tls"];
		super("Connections", "by the scheme of the URL, and by user",
			ways.map((way) => gauge(way, "kvd_connections_by_way", { way })),
			{ format: exact, more: [gauge("all", "kvd_connections"),
				gauge("server.max_connections", "kvd_connections_max")] });
		this.users = this.table("users", "user", "connections");
		this.devices = this.table("devices", "device", "serves");
	}

	update(step) {
		super.update(step);
		this.users.set(step.now.list("kvd_user_connections").filter(({ user, value }) =>
			user || value).map(({ user, value }) => [user || "others", exact(value)]));
		this.devices.set(step.now.list("kvd_device_up").map(({ device, address, value }) =>
			[`${device} ${address}`, value ? "yes" : "no"]));
	}
}

/* The part of the region of these tenants that is not free. */
function inUse(now, labels) {
	const free = ["free", "item_slabs_free", "bucket_slabs_free"].map((part) =>
		now.sum("kvd_memory_bytes", { ...labels, part })).reduce((a, b) => a + b);

	return 1 - share(free, now.sum("kvd_region_bytes", labels));
}

class Tenants extends Section {
	constructor() {
		super("Tenants", "memory: in use, of that of the tenant");
		this.figures = this.table("figures", "", "items", "memory", "conns", "GETs/s",
			"hits", "evict/s");
	}

	row(step, tenant) {
		const now = (name) => step.now.sum(name, { tenant });
		const rate = (name) => step.rateOf(name, { tenant });

		return [tenant, short(now("kvd_items")), percent(inUse(step.now, { tenant }), 0),
			short(now("kvd_tenant_connections")), short(rate("kvd_gets_total")),
			percent(share(rate("kvd_get_hits_total"), rate("kvd_gets_total")), 0),
			short(rate("kvd_evictions_total"))];
	}

	show(step) {
		this.figures.set(step.now.values("kvd_items", "tenant").map((tenant) =>
			this.row(step, tenant)));
	}
}

class Refusals extends Section {
	constructor() {
		const failed = (name, reason) => counter(`${name}: ${reason.replace("_", " ")}`,
			"kvd_commands_total", { command: name.toLowerCase(), status: reason });
		super("Refusals", "and what failed");
		this.series = [
			counter("connections refused", "kvd_connections_rejected_total"),
			counter("connections of no user", "kvd_connections_not_allowed_total"),
			counter("connections beyond a limit", "kvd_connections_over_limit_total"),
			counter("connections without an answer", "kvd_connections_expired_total"),
			counter("connections that failed", "kvd_connections_failed_total"),
			counter("connections that broke the protocol", "kvd_protocol_errors_total"),
			counter("READs without the right", "kvd_access_errors_total"),
			counter("requests without the right", "kvd_requests_not_allowed_total"),
			counter("requests beyond a limit", "kvd_requests_over_limit_total"),
			counter("requests for another member's keys", "kvd_fleet_refused_total"),
			failed("PUT", "no_space"), failed("PUT", "too_large"),
			counter("pins beyond memory.pin_share", "kvd_pins_refused_total"),
			counter("memcached: logins refused", "kvd_memcached_auth_errors_total"),
			counter("memcached: too large", "kvd_memcached_store_too_large_total"),
			counter("memcached: no memory", "kvd_memcached_store_no_memory_total"),
		];
		this.figures = this.table("figures", "", "now", "since the start");
	}

	show(step) {
		this.figures.set(this.series.map(({ name, total }) => {
			const zero = total(step.now) === 0;
			return [name, perSecond(short)(step.rate(total)), exact(total(step.now))]
				.map((text) => ({ text, zero }));
		}));
	}
}

const columns = [[operations, gets, traffic, new Turns()],
	[new Memory(), evictions, new Curve()],
	[new Connections(), new Workers(), new Tenants(), new Refusals()]];
const sections = columns.flat();

/* The head of the page. */

const part = (name) => document.getElementById(name);

function tile(name, value, note) {
	return element("div", {}, element("dt", {}, name), element("dd", {}, value),
		element("dd", { class: "note" }, note));
}

const IN = ["kvd_request_bytes_total", "kvd_pull_bytes_total", "kvd_memcached_bytes_read_total"];
const OUT = ["kvd_response_bytes_total", "kvd_memcached_bytes_written_total"];

function showTiles(step) {
	const { now } = step;
	const hit = step.rate(hits), all = hit + step.rate(misses);
	const busy = now.values("kvd_worker_cpu_seconds_total", "worker").map((worker) =>
		step.rateOf("kvd_worker_cpu_seconds_total", { worker }));
	const rates = (total, name) => total + step.rateOf(name);

	part("tiles").replaceChildren(
		tile("Operations", perSecond(short)(step.rate(operated)),
			`${short(operated(now))} in all`),
		tile("Hits", percent(share(hit, all)),
			`${percent(share(hits(now), hits(now) + misses(now)))} in all`),
		tile("Bytes", perSecond(bytes)(IN.reduce(rates, 0)),
			`in, ${perSecond(bytes)(OUT.reduce(rates, 0))} out`),
		tile("Items", short(now.sum("kvd_items")),
			`${bytes(now.sum("kvd_live_bytes"))} with keys`),
		tile("Memory in use", percent(inUse(now)),
			`of ${bytes(now.sum("kvd_region_bytes"))}`),
		tile("Evictions", perSecond(short)(step.rate(evicted)),
			now.values("kvd_eviction_info", "policy").join(", ")),
		tile("Connections", exact(now.sum("kvd_connections")),
			`of ${exact(now.sum("kvd_connections_max"))}`),
		tile("Busiest worker", percent(Math.max(...busy)), `of ${busy.length}, CPU time`));
}

function showState(ready, now) {
	setText(part("state"), ready);
	part("state").className = ready === "ready" ? "good" : "";
	setText(part("facts"), `${location.host}, ` +
		`version ${now.values("kvd_build_info", "version")}, ` +
		`up since ${moment(now.start * 1000)} (${span(now.uptime)})`);
	document.title = `kvd ${location.host}`;
}

/* The loop. */

let before = null, steps = 0, timer = null, asking = false, answered = Date.now();

function setCursor(ms) {
	time.cursor = ms === time.last ? null : ms;
	if (steps)
		sections.forEach((section) => section.draw());
}

function show(ready, scrape) {
	const step = new Step(before?.start === scrape.start ? before : null, scrape, Date.now());

	showState(ready, scrape);
	if (step.seconds === 0) // the server made no new figures
		return;
	time.last = step.ms;
	if (time.cursor < step.ms - SHOWN_MAX_S * 1000)
		time.cursor = null;
	before = scrape;
	if (!scrape.list("kvd_items").length)
		return;
	showTiles(step);
	sections.forEach((section) => section.update(step));
	document.body.dataset.steps = ++steps;
}

/* Addresses in the page's own folder, without the name and password that its address may have. */
async function ask(name) {
	const folder = location.origin + location.pathname.replace(/[^/]*$/, "");
	const answer = await fetch(folder + name,
		{ cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
	return { ok: answer.ok, text: (await answer.text()).trim() };
}

function showAnswers(metrics, ready) {
	answered = Date.now();
	setText(part("trouble"), metrics.ok ? "" : `kvd answers: ${metrics.text}`);
	if (metrics.ok)
		show(ready.ok ? "ready" : ready.text, new Scrape(metrics.text));
}

function showSilence() {
	setText(part("trouble"), `kvd at ${location.host} has not answered since ` +
		`${clock(answered)}. The figures are from then.`);
	setText(part("state"), "does not answer");
	part("state").className = "";
}

async function poll() {
	if (asking)
		return;
	asking = true;
	try {
		const answers = await Promise.all(["metrics", "readyz"].map(ask)).catch(() => null);
		answers ? showAnswers(...answers) : showSilence();
	} finally {
		asking = false;
		pollLater(POLL_MS);
	}
}

function pollLater(ms) {
	clearTimeout(timer);
	timer = document.hidden ? null : setTimeout(poll, ms);
}

document.querySelector("main").append(...columns.map((column) =>
	element("div", {}, ...column.map((section) => section.element))));
document.addEventListener("visibilitychange", () => pollLater(0));
addEventListener("resize", () => setCursor(time.cursor));
poll();

// The answer for each machine: time, limiter, advice and lines; behind a fold, what all models say.

import { element, grown } from "./state.js";

const VIEWS = { flops: "FLOP roofline", roofline: "Instruction roofline", stacks: "CPI stacks", occupancy: "Occupancy" };
//: Views that need no fold.
const FRONT = ["flops", "roofline"];
//: Machines whose largest numbers are further apart than this factor keep a scale each.
const MOST_APART = 8;

export function seconds(value) {
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) if (value >= scale) return `${digits(value / scale)} ${unit}`;
  return `${digits(value / 1e-9)} ns`;
}

export function digits(value) {
  if (value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4)) return String(Number(value.toPrecision(4)));
  if (Math.abs(value) >= 1e4 && Math.abs(value) < 1e12) return Math.round(value).toLocaleString("en").replaceAll(",", " ");
  return value.toExponential(3);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A figure of the server in the colours of the page, and for the width that there is. */
function dressed(view, figure, width) {
  const layout = structuredClone(figure.layout);
  const [text, grid] = [colour("--text"), colour("--line")];
  layout.font = { ...layout.font, color: text };
  layout.autosize = true;
  layout.hoverlabel = { bgcolor: colour("--panel"), bordercolor: grid, font: { color: text } };
  for (const [name, axis] of Object.entries(layout)) {
    if (!/^[xy]axis\d*$/.test(name)) continue;
    Object.assign(axis, { gridcolor: grid, linecolor: grid, tickcolor: grid, fixedrange: true });
    if (view !== "stacks") axis.automargin = false; // numbers fit the margin, and measuring them takes time
    if (axis.title) axis.title = { ...axis.title, font: { size: 12 } };
  }
  if (width < 560) {
    layout.font.size = 11;
    layout.margin = { ...layout.margin, l: view === "stacks" ? 40 : 58, r: 12 };
    layout.legend = { ...layout.legend, orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", font: { size: 10 }, entrywidthmode: "fraction", entrywidth: view === "stacks" || width > 420 ? 0.3 : 0.5 };
    if (view === "stacks") { // one panel above the other
      Object.assign(layout.xaxis, { domain: [0, 1] });
      Object.assign(layout.yaxis, { domain: [0.6, 1] });
      Object.assign(layout.xaxis2, { domain: [0, 1] });
      Object.assign(layout.yaxis2, { domain: [0, 0.38], showticklabels: true });
      layout.height *= 1.7;
    }
  }
  return { data: figure.data, layout };
}

export class MachineResults {
  /** `causes` has a label for each category; `choose(names)` is called for other models than the chosen ones. */
  constructor(index, causes, choose) {
    Object.assign(this, { index, causes, choose });
    this.title = element("h2");
    this.changes = element("p", { class: "changes" });
    this.said = element("div", { class: "answer" });
    this.advised = element("div", { class: "card advised" });
    this.instead = element("p");
    this.caches = element("p", { class: "note" });
    this.table = element("table", { class: "predictions" });
    this.notes = element("ul", { class: "notes" });
    this.views = {};
    const figures = Object.entries(VIEWS).map(([name, title]) => {
      const plot = element("div", { class: "plot", role: "img", "data-view": name });
      const caption = element("figcaption", { class: "note" });
      const picture = element("button", { type: "button", class: "quiet", "aria-label": `Save ${title} as SVG`, onclick: () => this.savePicture(name) }, "SVG");
      const root = element("figure", { class: `view ${name}` }, element("div", { class: "heading" }, element("h3", {}, title), picture), plot, caption);
      this.views[name] = { root, plot, caption, figure: null };
      return root;
    });
    const front = figures.slice(0, FRONT.length), rest = figures.slice(FRONT.length);
    this.fold = element("details", { class: "card research" }, element("summary", { class: "title" }, "For model researchers"), this.instead,
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Predictions" }, this.table), this.caches, this.notes, ...rest);
    this.fold.addEventListener("toggle", () => { if (this.fold.open) redraw([this]); });
    this.root = element("article", { class: "column", "aria-label": `Machine ${"AB"[index]}` },
      element("div", { class: "card" }, this.title, this.changes, this.said), this.advised, element("div", { class: "pair" }, ...front), this.fold);
  }

  machine(part, compared, changes) {
    this.name = part.name;
    this.changes.textContent = changes.length ? `with ${changes.join(", ")}` : "";
    this.title.textContent = compared ? `${"AB"[this.index]}: ${part.name}` : part.name;
  }

  /** Time, limiter and where the time goes. */
  say(part) {
    this.said.replaceChildren(...part.nodes.map(grown));
  }

  /** What to change; null while it is worked out. */
  advise(part) {
    this.advice = part?.answer ?? null;
    this.advised.classList.toggle("stale", part === null);
    if (part === null && !this.advised.childElementCount) this.advised.replaceChildren(element("h3", {}, "What to change"), element("p", { class: "note" }, "Looking for advice…"));
    if (part) this.advised.replaceChildren(...part.nodes.map(grown));
  }

  predictions(part) {
    this.answer = part;
    const rows = part.predictions.map((each) => {
      const cause = each.stack && Object.entries(each.stack).reduce((most, one) => (one[1] > most[1] ? one : most));
      const told = cause ? `${this.causes[cause[0]] ?? cause[0]} ${Math.round((100 * cause[1]) / each.cpi)} %` : "";
      const cells = [seconds(each.seconds), digits(each.cycles), digits(each.ipc), digits(each.cpi)];
      return element("tr", {}, element("th", { scope: "row" }, each.model), ...cells.map((text) => element("td", {}, text)), element("td", { class: "text" }, told));
    });
    const heads = ["model", "time", "cycles", "IPC", "CPI"].map((text) => element("th", { scope: "col" }, text));
    this.table.replaceChildren(
      element("caption", { class: "hidden" }, `Predictions on ${this.name}`),
      element("thead", {}, element("tr", {}, ...heads, element("th", { scope: "col", class: "text" }, "most of it"))), element("tbody", {}, ...rows));
    this.table.hidden = rows.length === 0;
    const { input } = part;
    this.caches.textContent = input.dpki === undefined ? "" :
      `L1 misses ${(100 * input.l1_miss_ratio).toFixed(1)} %, LLC ${(100 * input.llc_miss_ratio).toFixed(1)} %; ` +
      `${digits(input.dpki)} divergent loads in 1000 instructions`;
    const notes = new Map();
    for (const each of part.predictions) for (const text of each.warnings) notes.set(text, [...(notes.get(text) ?? []), each.model]);
    const all = [...notes].map(([text, models]) => (models.length === part.predictions.length ? text : `${models.join(", ")}: ${text}`));
    const skipped = part.skipped.map((each) => `${each.model} cannot run: ${each.reason}`);
    this.notes.replaceChildren(...[...skipped, ...all].map((text) => element("li", {}, text)));
    this.instead.hidden = rows.length > 0;
    if (rows.length) return;
    this.fold.open = true;
    for (const name of Object.keys(VIEWS)) if (!FRONT.includes(name)) this.view({ view: name, message: "" });
    const instead = element("button", { type: "button", onclick: () => this.choose(part.possible) }, "Choose those that can");
    this.instead.replaceChildren("None of the chosen models can use this kernel. ", ...(part.possible.length ? [instead] : []));
  }

  view(part) {
    const view = this.views[part.view];
    const drawn = part.figure && JSON.stringify(part.figure) === JSON.stringify(view.figure);
    view.figure = part.figure ?? null;
    view.caption.textContent = part.message ?? part.summary;
    view.root.hidden = !view.figure && (FRONT.includes(part.view) || !part.message);
    view.plot.setAttribute("aria-label", view.caption.textContent);
    if (!drawn) this.draw(part.view);
  }

  draw(name, range = null) {
    const { plot, figure } = this.views[name];
    plot.hidden = !figure;
    if (!figure) { Plotly.purge(plot); return; }
    if (!plot.clientWidth) return; // folded: drawn when it is opened
    const { data, layout } = dressed(name, figure, plot.clientWidth);
    plot.style.height = `${layout.height}px`; // whatever Plotly does when the window changes, the box holds the figure
    if (range) layout[name === "stacks" ? "xaxis" : "yaxis"].range = range;
    Plotly.react(plot, data, layout, {
      responsive: true, displayModeBar: false,
    });
  }

  savePicture(name) {
    const { plot, figure } = this.views[name];
    if (figure) Plotly.downloadImage(plot, { format: "svg", filename: `warplens-${name}`, width: plot.clientWidth, height: plot.clientHeight });
  }

  /** The largest number that a figure shows on the axis that machines share; 0 where it is logarithmic. */
  largest(name) {
    const { figure } = this.views[name];
    const [axis, key] = name === "stacks" ? ["xaxis", "x"] : ["yaxis", "y"];
    if (!figure || figure.layout[axis].type === "log") return 0;
    const traces = name === "stacks" ? figure.data.filter((trace) => trace.mode === "text") : figure.data;
    return Math.max(...traces.flatMap((trace) => trace[key]).filter(Number.isFinite));
  }
}

/** Draw figures again; those of two machines on one scale, where both can be seen on it. */
export function redraw(results) {
  for (const name of Object.keys(VIEWS)) {
    const most = FRONT.includes(name) ? [] : results.map((each) => each.largest(name));
    const common = most.length > 1 && Math.max(...most) < MOST_APART * Math.min(...most);
    const range = common ? [0, (name === "stacks" ? 1.15 : 1.05) * Math.max(...most)] : null;
    for (const each of results) if (each.views[name].figure) each.draw(name, range);
  }
}

/** How two machines compare, model by model. */
export function verdict(answers) {
  const [first, second] = answers.map((each) => new Map(each.predictions.map((p) => [p.model, p.seconds])));
  const both = [...first].filter(([model]) => second.has(model));
  both.sort(([one], [other]) => (other === "warplens") - (one === "warplens")); // the model of the answer comes first
  const parts = both.map(([model, time]) => {
    const ratio = time / second.get(model);
    const said = Math.abs(ratio - 1) < 0.005 ? "equal" : `${Number(Math.max(ratio, 1 / ratio).toPrecision(3))}× ${ratio > 1 ? "faster" : "slower"}`;
    return element("span", { class: "ratio" }, element("b", {}, said), ` ${model}`);
  });
  return parts.length ? [element("span", {}, "B against A:"), ...parts] : [];
}

export function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

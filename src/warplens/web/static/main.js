// The page: a state, the question it makes, and the answer shown part by part.

import { MachinePanel } from "./controls.js";
import { MachineResults, redraw, save, verdict } from "./results.js";
import { OWN_MACHINE, addressOfState, ask, element, packed, showErrors, stateOfAddress, unpacked } from "./state.js";
import { Upload } from "./upload.js";

//: A question younger than this is about to be answered: the next one waits for it, so that figures follow a slider.
const PATIENCE = 250;
//: Progress is shown for work that takes longer.
const QUIET = 200;

const get = (id) => document.getElementById(id);
let catalogue, state, panels, results, upload, current = null, waiting = false, shownTab = 0;
//: The question for advice that is on its way, and what the advice that is shown was asked for.
let advising = null, advised = "";
//: Kernels of the visitor, packed for the address.
const brought = new Map();
const answers = { parts: [], csv: "", address: "" };

async function start() {
  setUpTheme();
  catalogue = await (await fetch("/api/catalogue")).json();
  upload = new Upload(catalogue.most_source_bytes, async (kernel, launch) => {
    brought.set(kernel.id, await packed(launch));
    catalogue.kernels.unshift(kernel);
    fillKernels();
    state.kernel = kernel.id;
    if (state.machines[0].gpu === OWN_MACHINE) state.machines[0] = { gpu: "h200", set: {} };
    changed();
  });
  takeAddress();
  fillKernels();
  fillModels();
  panels = [0, 1].map((index) => new MachinePanel(get(`machine-${index}`), index, catalogue, changed));
  results = [0, 1].map((index) => new MachineResults(index, catalogue.causes, (names) => { state.models = names; changed(); }));
  setUpActions();
  show();
  question();
}

// -- the state ---------------------------------------------------------------------------------

const address = () => addressOfState(state, brought.get(state.kernel));

/** The state that the address has. A kernel that comes with it is offered, and run when the visitor says so. */
function takeAddress() {
  state = stateOfAddress(location.hash, catalogue.first);
  const own = new URLSearchParams(location.hash.slice(1)).get("own");
  if (!own) return;
  if (catalogue.kernels.some(({ id }) => id === state.kernel)) { brought.set(state.kernel, own); return; }
  const absent = state.kernel;
  state.kernel = catalogue.first.kernel;
  unpacked(own).then((launch) => upload.offer(launch)).catch(() => { state.kernel = absent; changed(); }); // the server says that there is none
}

function fillKernels() {
  const groups = Map.groupBy(catalogue.kernels, (kernel) => kernel.group);
  get("kernel").replaceChildren(...[...groups].map(([label, kernels]) =>
    element("optgroup", { label }, ...kernels.map(({ id, name }) => element("option", { value: id }, name)))));
}

function fillModels() {
  get("models").append(...catalogue.models.map(({ name, title }) => element("label", { class: "check", title },
    element("input", { type: "checkbox", value: name, onchange: chooseModels }), name)));
}

function chooseModels() {
  state.models = [...get("models").querySelectorAll("input:checked")].map((box) => box.value);
  changed();
}

function chooseKernel() {
  state.kernel = get("kernel").value;
  const chosen = catalogue.kernels.find(({ id }) => id === state.kernel);
  for (const machine of state.machines) {
    if (chosen.has_machine && machine === state.machines[0]) Object.assign(machine, { gpu: OWN_MACHINE, set: {} });
    else if (machine.gpu === OWN_MACHINE) machine.gpu = catalogue.first.machines[0].gpu === OWN_MACHINE ? "h200" : catalogue.first.machines[0].gpu;
    delete machine.set["launch.warps_per_sm"]; // another kernel has other blocks
  }
  changed();
}

/** Results are those of other inputs: they are marked at once, whenever the answer comes. */
function outdated(yes) {
  get("columns").classList.toggle("stale", yes);
  get("outdated").hidden = !yes || get("columns").classList.contains("empty");
}

function changed() {
  outdated(true);
  history.replaceState(null, "", address());
  show();
  question();
}

/** The results of the machines that are compared, or of the one. */
const shown = () => results.slice(0, state.machines.length);

/** Controls as the state has them; values of parameters follow with the answer. */
function show() {
  const chosen = catalogue.kernels.find(({ id }) => id === state.kernel);
  get("kernel").value = state.kernel;
  get("kernel-text").textContent = chosen?.description ?? "";
  for (const box of get("models").querySelectorAll("input")) box.checked = state.models.includes(box.value);
  get("models-count").textContent = `${state.models.length} of ${catalogue.models.length}`;
  const both = state.machines.length > 1;
  get("compare").textContent = both ? "Leave the comparison" : "Compare with a second machine";
  get("compare").setAttribute("aria-pressed", both);
  document.querySelector(".tabs").hidden = !both;
  if (!both) shownTab = 0;
  state.machines.forEach((machine, index) => panels[index].show(machine, chosen?.has_machine ?? machine.gpu === OWN_MACHINE));
  [0, 1].forEach((index) => {
    get(`machine-${index}`).hidden = index !== shownTab;
    get(`tab-${index}`).setAttribute("aria-selected", index === shownTab);
    get(`tab-${index}`).tabIndex = index === shownTab ? 0 : -1;
  });
  get("columns").classList.toggle("two", both);
  const roots = shown().map(({ root }) => root);
  if (get("columns").children.length !== roots.length) {
    get("columns").replaceChildren(...roots);
    redraw(shown());
  }
  if (!both) get("verdict").hidden = true;
}

// -- questions and answers -----------------------------------------------------------------------

/** Ask the server; the last question wins. */
function question() {
  advising?.abort();
  if (current) {
    waiting = true;
    if (performance.now() - current.began > PATIENCE) current.abort.abort();
    else setTimeout(() => { if (waiting && current && performance.now() - current.began > PATIENCE) current.abort.abort(); }, PATIENCE + 10);
    return;
  }
  const errors = [];
  const mine = current = { abort: new AbortController(), began: performance.now(), parts: [] };
  get("results").setAttribute("aria-busy", "true");
  const timer = setTimeout(() => { get("progress").hidden = false; }, QUIET);
  ask("/api/answers", state, (part) => { if (part.type === "error") errors.push(part); else handle(part, mine); }, mine.abort.signal)
    .catch((error) => { if (error.name !== "AbortError") errors.push({ field: "", message: "the server does not answer; is it still running?" }); })
    .finally(() => {
      clearTimeout(timer);
      current = null;
      if (waiting) { waiting = false; question(); return; }
      if (!advising) get("progress").hidden = true;
      get("results").setAttribute("aria-busy", "false");
      finish(errors, mine);
    });
}

function handle(part, mine) {
  if (mine.abort.signal.aborted) return;
  if (part.type === "progress") {
    progress(part);
  } else if (part.type === "machine") {
    panels[part.machine].describe(part);
    results[part.machine].machine(part, state.machines.length > 1, panels[part.machine].changes());
  } else if (part.type === "predictions") {
    mine.parts[part.machine] = part;
    for (const box of get("models").querySelectorAll("input")) box.parentElement.classList.toggle("impossible", !part.possible.includes(box.value));
    results[part.machine].predictions(part);
    if (part.machine === 1) { get("verdict").replaceChildren(...verdict(mine.parts)); get("verdict").hidden = false; }
  } else if (part.type === "answer") {
    get("columns").classList.remove("empty");
    results[part.machine].say(part);
  } else if (part.type === "view") {
    results[part.machine].view(part);
  } else if (part.type === "done") {
    Object.assign(answers, { parts: mine.parts, csv: part.csv, address: address() });
    if (state.machines.length > 1) redraw(shown());
    const took = Math.round(performance.now() - mine.began);
    get("status").textContent = `${took} ms`;
    document.documentElement.dataset.answered = count("answered");
    document.documentElement.dataset.milliseconds = took;
  }
}

function progress(part) {
  const first = answers.parts.length ? "" : " (the first start compiles the models for this machine, which takes a minute)";
  get("progress-text").textContent = part.text + (part.total > 1 ? `, ${part.done + 1} of about ${part.total}` : "") + first;
  const bar = get("progress-bar");
  if (part.total > 1) { bar.max = part.total; bar.value = part.done; } else bar.removeAttribute("value");
}

/** Ask what to change, once the rest is there: each cause is taken away and the model solved again. */
function advice() {
  const wanted = JSON.stringify([state.kernel, state.machines]);
  if (wanted === advised) return;
  advising?.abort();
  const mine = advising = new AbortController();
  advised = "";
  for (const each of shown()) each.advise(null);
  get("progress").hidden = false;
  ask("/api/advice", state, (part) => {
    if (mine.signal.aborted) return;
    if (part.type === "progress" && !current) progress(part);
    if (part.type === "advice") results[part.machine].advise(part);
    if (part.type === "done") { advised = wanted; document.documentElement.dataset.advised = count("advised"); }
  }, mine.signal)
    .catch((error) => { if (error.name !== "AbortError") throw error; })
    .finally(() => {
      if (advising !== mine) return;
      advising = null;
      if (!current) get("progress").hidden = true;
    });
}

const count = (name) => String(Number(document.documentElement.dataset[name] ?? 0) + 1);

function finish(errors, mine) {
  const inPlace = errors.filter(({ field }) => field);
  const shown = showErrors(get("controls"), inPlace);
  const rest = errors.filter(({ field }) => !field || !shown);
  get("banner").hidden = rest.length === 0;
  get("banner").textContent = rest.map(({ message }) => message).join("; ");
  outdated(errors.length > 0 || answers.address !== address());
  if (!errors.length && !mine.abort.signal.aborted) advice();
  const index = inPlace.map(({ field }) => field.match(/^machines\.(\d)/)?.[1]).find((found) => found !== undefined);
  if (index !== undefined && Number(index) !== shownTab && state.machines.length > 1) { shownTab = Number(index); show(); showErrors(get("controls"), inPlace); }
  for (const button of ["download-csv", "download-json"]) get(button).disabled = answers.parts.length === 0;
  if (mine.abort.signal.aborted) get("status").textContent = "stopped";
}

// -- actions -------------------------------------------------------------------------------------

function setUpActions() {
  get("kernel").addEventListener("change", chooseKernel);
  get("stop").addEventListener("click", () => { waiting = false; current?.abort.abort(); advising?.abort(); });
  // A number that is being typed has not been asked for yet, and one that is typed back needs no question.
  get("controls").addEventListener("input", () => outdated(true));
  get("controls").addEventListener("focusout", () => { if (!current) outdated(answers.address !== address()); });
  get("compare").addEventListener("click", () => {
    if (state.machines.length > 1) state.machines.pop();
    else { state.machines.push(structuredClone(state.machines[0])); shownTab = 1; }
    changed();
  });
  for (const index of [0, 1]) {
    get(`tab-${index}`).addEventListener("click", () => { shownTab = index; show(); });
    get(`tab-${index}`).addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      shownTab = 1 - index;
      show();
      get(`tab-${shownTab}`).focus();
    });
  }
  get("share").addEventListener("click", async () => {
    history.replaceState(null, "", address());
    try {
      await navigator.clipboard.writeText(location.href);
      get("status").textContent = "address copied";
    } catch {
      get("status").textContent = "the address of this page says it all";
    }
  });
  get("download-csv").addEventListener("click", () => save("warplens.csv", "text/csv", answers.csv));
  get("download-json").addEventListener("click", () => {
    const { parts } = answers;
    const document = {
      schema: parts[0].schema, version: catalogue.version, state,
      answers: shown().map((each) => each.advice).filter(Boolean), predictions: parts.flatMap((part) => part.predictions), skipped: parts.flatMap((part) => part.skipped), inputs: parts.map((part) => part.input),
    };
    save("warplens.json", "application/json", JSON.stringify(document, null, 1));
  });
  let resized = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => redraw(shown()), 150);
  });
  get("controls").addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => {
    if (location.hash === address()) return;
    takeAddress();
    changed();
  });
}

function setUpTheme() {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const set = (dark) => { root.dataset.theme = dark ? "dark" : "light"; if (results) redraw(shown()); };
  set(system.matches);
  system.addEventListener("change", () => set(system.matches));
  get("theme").addEventListener("click", () => set(root.dataset.theme !== "dark"));
}

start().catch((error) => {
  get("banner").hidden = false;
  get("banner").textContent = `The page could not be set up: ${error.message}`;
});

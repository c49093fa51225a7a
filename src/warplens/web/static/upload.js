// A kernel of the visitor: source, launch and arguments, sent to be compiled and run.

import { ask, element, showErrors } from "./state.js";

const EXAMPLE = `// y = a x + y, one element a thread
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
`;
const FILLS = ["zeros", "ones", "arange", "random"];
const get = (id) => document.getElementById(id);

export class Upload {
  /** `done(kernel, launch)` is called with the new entry of the list and what was run. */
  constructor(mostBytes, done) {
    Object.assign(this, { mostBytes, done, signatures: [], types: {}, abort: null, timer: 0 });
    this.dialog = get("upload");
    this.form = get("upload-form");
    this.extents = {
      grid: triple(get("grid"), "grid", [4096, 1, 1], () => this.sizes()),
      block: triple(get("block"), "block", [256, 1, 1], () => this.sizes()),
    };
    get("open-upload").addEventListener("click", () => this.dialog.showModal());
    get("close-upload").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => { this.abort?.abort(); get("upload-status").textContent = ""; });
    get("source").addEventListener("input", () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.look(), 300); });
    get("entry").addEventListener("change", () => this.parameters());
    get("example").addEventListener("click", () => { get("source").value = EXAMPLE; this.look(); });
    get("file").addEventListener("change", () => this.open());
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.run(); });
  }

  async open() {
    const [file] = get("file").files;
    get("file").value = ""; // so that the same file can be opened again
    if (!file) return;
    if (file.size > this.mostBytes) {
      showErrors(this.form, [{ field: "source", message: `${file.name} is larger than ${this.mostBytes / 1024} KiB` }]);
      return;
    }
    get("source").value = await file.text();
    this.look();
  }

  /** Ask for the kernels of the source and their parameters. */
  async look() {
    const answer = await fetch("/api/signatures", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ source: get("source").value }),
    });
    const found = await answer.json();
    showErrors(this.form, answer.ok ? [] : [{ field: found.field ?? "", message: found.error }]);
    this.signatures = found.kernels ?? [];
    this.types = found.types ?? {};
    get("entry").replaceChildren(...this.signatures.map(({ kernel }) => element("option", { value: kernel }, kernel)));
    this.parameters();
  }

  get threads() {
    return [...this.extents.grid, ...this.extents.block].reduce((product, input) => product * Math.max(Number(input.value) || 1, 1), 1);
  }

  parameters() {
    const chosen = this.signatures.find(({ kernel }) => kernel === get("entry").value);
    const rows = (chosen?.parameters ?? []).map((parameter, index) => argument(parameter, index, this.threads));
    get("arguments").replaceChildren(...(rows.length ? rows : [element("p", { class: "note" }, "The parameters of the kernel appear here.")]));
    get("template").replaceChildren(...(chosen?.template ?? []).map(({ name, kind, default: value }) => {
      const id = `template-${name}`;
      const input = element("input", { id, name, type: "text", value: value || (kind === "type" ? "float" : "1"), "data-kind": kind, spellcheck: "false", oninput: () => this.typed() });
      return element("div", { class: "field" }, element("label", { for: id }, `${kind === "type" ? "typename " : ""}${name}`), input);
    }));
    get("template").hidden = !chosen?.template;
    this.typed();
  }

  /** Parameters of a template's type have the dtype of what stands in its field. */
  typed() {
    for (const { name, value } of get("template").querySelectorAll("input[data-kind=type]")) {
      for (const row of get("arguments").querySelectorAll(`[data-type="${CSS.escape(name)}"] [name=dtype]`)) row.value = this.types[value.trim()] ?? row.value;
    }
  }

  /** The kernel as the compiler is asked for it: `scale<float, 4>`. */
  get entry() {
    const values = [...get("template").querySelectorAll("input")].map(({ value }) => value.trim());
    return values.length ? `${get("entry").value}<${values.join(", ")}>` : get("entry").value;
  }

  /** Arrays that nobody changed have an element a thread. */
  sizes() {
    for (const input of get("arguments").querySelectorAll("input[data-auto]")) input.value = this.threads;
  }

  document() {
    const number = (input) => (input.value === "" ? null : Number(input.value));
    const written = (row) => {
      const [fill, size, value] = ["fill", "size", "value"].map((name) => row.querySelector(`[name=${name}]`));
      const dtype = row.dataset.dtype || row.querySelector("[name=dtype]").value;
      if (value) return { dtype, value: dtype === "bool" ? value.value !== "0" : number(value) };
      const made = { dtype, shape: [number(size)], fill: fill.value };
      if (fill.value === "random" && !dtype.startsWith("float") && dtype !== "bool") made.high = Math.min(number(size), 127);
      return made;
    };
    const rows = [...get("arguments").children].filter((row) => row.matches(".argument, .struct"))
      .map((row) => (row.matches(".struct") ? { members: [...row.querySelectorAll(".argument")].map(written) } : written(row)));
    return {
      source: get("source").value, kernel: this.entry, arguments: rows,
      grid: this.extents.grid.map(number), block: this.extents.block.map(number),
      dynamic_shared_memory_bytes: number(get("shared")) ?? 0,
    };
  }

  /** Fill the form with a kernel that came with the address. Whoever opens it decides whether it is run. */
  async offer({ source, kernel, grid, block, dynamic_shared_memory_bytes: shared, arguments: values }) {
    this.dialog.showModal();
    get("source").value = source ?? "";
    get("shared").value = shared ?? 0;
    this.extents.grid.forEach((input, axis) => { input.value = grid?.[axis] ?? 1; });
    this.extents.block.forEach((input, axis) => { input.value = block?.[axis] ?? 1; });
    await this.look();
    const [, name, inside] = /^([^<]*)(?:<(.*)>)?$/.exec(kernel ?? "") ?? [];
    get("entry").value = name;
    this.parameters();
    const given = (inside ?? "").split(",").map((part) => part.trim());
    get("template").querySelectorAll("input").forEach((input, index) => { input.value = given[index] ?? input.value; });
    const flat = (values ?? []).flatMap((each) => each.members ?? [each]);
    get("arguments").querySelectorAll(".argument").forEach((row, index) => {
      const { dtype, shape, fill, value } = flat[index] ?? {};
      for (const [name, given] of Object.entries({ dtype, size: shape?.[0], fill, value: value === undefined ? value : Number(value) })) {
        const input = given === undefined ? null : row.querySelector(`[name=${name}]`);
        if (input) { input.value = given; input.removeAttribute("data-auto"); }
      }
    });
    get("upload-status").textContent = "This kernel came with the address: look at it before it is run.";
  }

  async run() {
    this.abort?.abort();
    this.abort = new AbortController();
    const errors = [];
    showErrors(this.form, []);
    get("run").disabled = true;
    get("upload-status").textContent = "Compiling and running…";
    try {
      const launch = this.document();
      await ask("/api/kernels", launch, (part) => {
        if (part.type === "error") errors.push(part);
        if (part.type === "kernel") { this.done(part.kernel, launch); this.dialog.close(); }
      }, this.abort.signal);
    } catch (error) {
      if (error.name !== "AbortError") errors.push({ field: "", message: "the server does not answer" });
    }
    get("run").disabled = false;
    get("upload-status").textContent = "";
    showErrors(this.form, errors);
    this.form.querySelector("[aria-invalid]")?.focus();
  }
}

function triple(root, field, values, changed) {
  const inputs = values.map((value, axis) => element("input", {
    type: "number", min: 1, value, "aria-label": `${field} ${"xyz"[axis]}`, "data-field": axis ? null : field, oninput: changed,
  }));
  root.append(...inputs);
  return inputs;
}

function argument({ name, pointer, dtype, type, members }, index, threads) {
  const field = `arguments.${index}`;
  const error = element("p", { class: "error", "data-error": field, hidden: true });
  if (!members) { const row = value({ name, pointer, dtype, type }, field, threads); row.append(error); return row; }
  const rows = members.map((member, at) => value({ ...member, name: `${name}.${member.name}` }, `${field}.members.${at}`, threads));
  return element("div", { class: "struct" }, ...rows, error);
}

/** Fields for a number, or for an array. */
function value({ name, pointer, dtype, type }, field, threads) {
  const row = element("div", { class: "argument", "data-dtype": dtype ?? "", "data-type": type });
  row.append(element("span", { class: "name" }, pointer ? `*${name}` : name));
  if (dtype) row.append(element("span", { class: "unit" }, dtype));
  else {
    const names = ["int32", "uint32", "int64", "uint64", "float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "bool"];
    row.append(element("select", { name: "dtype", "aria-label": `type of ${name}`, "data-field": `${field}.dtype` }, ...names.map((each) => element("option", {}, each))));
  }
  if (pointer) {
    const size = element("input", { name: "size", type: "number", min: 1, value: threads, "data-auto": true, "aria-label": `elements of ${name}`, "data-field": `${field}.shape` });
    size.addEventListener("input", () => size.removeAttribute("data-auto"));
    row.append(size, element("span", { class: "unit" }, "elements"), element("select", { name: "fill", "aria-label": `what ${name} holds`, "data-field": `${field}.fill` }, ...FILLS.map((each) => element("option", { selected: each === "random" && dtype?.startsWith("float") }, each))));
  } else {
    const whole = !dtype?.startsWith("float");
    row.append(element("input", { name: "value", type: "number", step: "any", value: whole ? threads : 1, "data-auto": whole, "aria-label": `value of ${name}`, "data-field": `${field}.value`, oninput: (event) => event.target.removeAttribute("data-auto") }));
  }
  return row;
}

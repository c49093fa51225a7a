// The panel of one machine: which GPU, and a slider with a number field for each parameter.

import { OWN_MACHINE, element } from "./state.js";

/** A number as short as it can be said, at most four digits. */
export function shortNumber(value) {
  return String(Number(Number(value).toPrecision(4)));
}

export class MachinePanel {
  /** `changed(index)` is called after every change of `machine`, the object of the state that the panel edits. */
  constructor(root, index, catalogue, changed) {
    Object.assign(this, { root, index, changed, rows: new Map() });
    this.machine = null;
    const field = `machines.${index}`;
    this.gpu = element("select", {
      id: `gpu-${index}`, "data-field": `${field}.gpu`, "aria-describedby": `gpu-${index}-error gpu-${index}-text`,
      onchange: () => { this.machine.gpu = this.gpu.value; this.machine.set = {}; this.changed(); },
    });
    this.own = element("option", { value: OWN_MACHINE }, "as the kernel's file says");
    this.gpus = catalogue.gpus.map((name) => element("option", { value: name }, name));
    this.gpu.append(this.own, ...this.gpus);
    this.text = element("p", { class: "note", id: `gpu-${index}-text` });
    this.reset = element("button", {
      type: "button", class: "quiet", onclick: () => { this.machine.set = {}; this.changed(); },
    }, "Reset all");
    const box = element("details", { class: "parameters", open: window.matchMedia("(min-width: 800px)").matches });
    box.append(element("summary", { class: "title" }, "Parameters"));
    let group = null;
    for (const control of catalogue.controls) {
      if (control.group !== group) {
        group = control.group;
        box.append(element("h3", {}, group));
      }
      box.append(this.row(control, `${field}.set.${control.key}`));
    }
    box.append(this.reset);
    root.append(
      element("label", { class: "title", for: this.gpu.id }, "GPU"), this.gpu,
      element("p", { class: "error", id: `gpu-${index}-error`, "data-error": `${field}.gpu`, hidden: true }), this.text, box,
    );
  }

  row(control, field) {
    const id = `${control.key.replaceAll(".", "-")}-${this.index}`;
    const error = element("p", { class: "error", id: `${id}-error`, "data-error": field, hidden: true });
    const undo = element("button", {
      type: "button", class: "undo", title: "Back to the machine's own value", "aria-label": `Reset ${control.label}`,
      onclick: () => { delete this.machine.set[control.key]; this.changed(); input.focus(); },
    }, "↺");
    const label = element("label", { for: id }, control.label);
    if (control.simulates) label.title = "Changes what hits: caches are simulated again";
    const describe = { id, "data-field": field, "aria-describedby": `${id}-error` };
    let input, slider = null;
    if (control.key === "scheduler") {
      input = element("select", { ...describe, onchange: () => this.choose(control, input.value) });
    } else {
      input = element("input", {
        ...describe, type: "number", min: 0, step: "any", inputmode: "decimal",
        onchange: () => this.choose(control, input.value === "" ? undefined : Number(input.value) * control.scale),
      });
      slider = element("input", {
        type: "range", min: 0, step: 1, "aria-label": `${control.label} slider`, "data-key": control.key,
        oninput: () => this.choose(control, this.rows.get(control.key).stops[Number(slider.value)]),
      });
    }
    const unit = element("span", { class: "unit" }, control.unit);
    const row = element("div", { class: slider ? "control" : "control choice" }, label, undo, element("span", { class: "value" }, input, unit), slider, error);
    this.rows.set(control.key, { control, row, input, slider, undo, stops: [], own: null });
    return row;
  }

  choose(control, value) {
    const { own } = this.rows.get(control.key);
    if (value === undefined || value === own) delete this.machine.set[control.key];
    else this.machine.set[control.key] = value;
    this.changed();
  }

  /** Show a machine of the state; `hasMachine`: whether the kernel's file names one. */
  show(machine, hasMachine) {
    this.machine = machine;
    this.own.hidden = this.own.disabled = !hasMachine;
    this.gpu.value = machine.gpu;
    for (const each of this.rows.values()) this.mark(each);
    this.reset.hidden = Object.keys(machine.set).length === 0;
  }

  mark({ control, row, undo }) {
    const changed = control.key in this.machine.set;
    row.classList.toggle("changed", changed);
    undo.hidden = !changed;
  }

  /** What differs from the machine as named, in words. */
  changes() {
    return Object.entries(this.machine.set).map(([key, value]) => {
      const { control } = this.rows.get(key) ?? { control: { label: key, unit: "", scale: 1 } };
      return `${control.label} ${typeof value === "number" ? shortNumber(value / control.scale) : value} ${control.unit}`.trim();
    });
  }

  /** What the server says about the machine: own values, values now, stops. */
  describe(part) {
    this.text.textContent = part.description;
    for (const { key, own, value: known, stops } of part.controls) {
      const chosen = this.machine.set[key]; // what was refused stays to be mended
      const value = typeof chosen === typeof known ? chosen : known;
      const each = this.rows.get(key);
      Object.assign(each, { stops, own });
      this.mark(each);
      if (!each.slider) {
        if (each.input.options.length === 0) each.input.append(...stops.map((name) => element("option", { value: name }, name)));
        each.input.value = value;
        continue;
      }
      const { control, input, slider } = each;
      slider.disabled = stops.length < 2;
      slider.max = Math.max(stops.length - 1, 0);
      if (value === null) {
        if (document.activeElement !== input) input.value = "";
        input.placeholder = "not given";
        slider.value = 0;
        continue;
      }
      const shown = shortNumber(value / control.scale);
      if (document.activeElement !== input || Number(input.value) !== Number(shown)) input.value = shown;
      const distance = (stop) => Math.abs(Math.log(stop / value));
      slider.value = stops.reduce((best, stop, at) => (distance(stop) < distance(stops[best]) ? at : best), 0);
      slider.setAttribute("aria-valuetext", `${shown} ${control.unit}`.trim());
    }
  }
}

// What the visitor has chosen, and the address that says so.

export const OWN_MACHINE = "@file";

/** The state in the address, with what it leaves out taken from `first`. Whatever is wrong in it, the server will say. */
export function stateOfAddress(fragment, first) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = structuredClone(first);
  if (given.has("kernel")) state.kernel = given.get("kernel");
  if (given.has("models")) state.models = given.get("models").split(",").filter(Boolean);
  if (given.has("gpu")) state.machines = [machineOf(given, "")];
  if (given.has("gpu2")) state.machines[1] = machineOf(given, "2");
  return state;
}

function machineOf(given, number) {
  const set = {};
  for (const part of (given.get(`set${number}`) ?? "").split(",").filter(Boolean)) {
    const [key, value] = part.split("~", 2);
    set[key] = key === "scheduler" || value === undefined || Number.isNaN(Number(value)) ? value ?? "" : Number(value);
  }
  return { gpu: given.get(`gpu${number}`), set };
}

/** The fragment of the address for a state; `own` is the visitor's kernel, packed. */
export function addressOfState(state, own) {
  const parts = new URLSearchParams({ kernel: state.kernel, models: state.models.join(",") });
  state.machines.forEach((machine, index) => {
    const number = index ? String(index + 1) : "";
    parts.set(`gpu${number}`, machine.gpu);
    const changes = Object.entries(machine.set).map(([key, value]) => `${key}~${value}`);
    if (changes.length) parts.set(`set${number}`, changes.join(","));
  });
  if (own) parts.set("own", own);
  // These are legal in a fragment, and easier to read as they are.
  return "#" + parts.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%7E", "~").replaceAll("%40", "@");
}

//: A longer text in the address is no kernel: sources are limited, and this bounds what it can unpack to.
const MOST_PACKED = 2 ** 18;

/** A visitor's kernel with its launch as text for the address. */
export async function packed(launch) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(launch)));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The other way round; throws where the text is none of the kind. */
export async function unpacked(text) {
  if (text.length > MOST_PACKED) throw new RangeError("too long");
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
}

const through = (stream, bytes) => new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer().then((found) => new Uint8Array(found));

/** The lines of an answer, one by one. `handle` gets each as an object. */
export async function ask(path, body, handle, signal) {
  const answer = await fetch(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal,
  });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    handle({ type: "error", field: problem.field ?? "", message: problem.error ?? `the server answered ${answer.status}` });
    return;
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) handle(JSON.parse(line));
  }
}

/** An element with attributes, listeners (on…) and children; texts are never read as HTML. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A tree that the server sent, [tag, attributes, children], as elements: texts stay texts. */
export function grown(tree) {
  if (typeof tree === "string") return tree;
  const [tag, attributes, children] = tree;
  return element(tag, attributes, ...children.map(grown));
}

/** Errors beside their fields, inside `root`; a field that is not there is shown in the one with an empty name. */
export function showErrors(root, errors) {
  for (const place of root.querySelectorAll("[data-error]")) { place.hidden = true; place.textContent = ""; }
  for (const field of root.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  let shown = false;
  for (const { field, message } of errors) {
    const parts = field.split(".");
    let place = null;
    for (let length = parts.length; length > 0 && !place; length -= 1) {
      const name = CSS.escape(parts.slice(0, length).join("."));
      place = root.querySelector(`[data-error="${name}"]`);
      const input = place && root.querySelector(`[data-field="${name}"]`);
      if (input) input.setAttribute("aria-invalid", "true");
    }
    if (!place) place = root.querySelector('[data-error=""]');
    if (place) { place.hidden = false; place.textContent = message; shown = true; }
  }
  return shown;
}

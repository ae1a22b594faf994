// Translation while typing. props.value is {given: {model, text}} when the page has another model, or
// another text that was not typed; {src, model, shown} for a part of a translation, with `said` and
// `n_waiting` for the whole; {look, isNew} when it, or a tab that inspects it, is shown; {explored}
// when it has been inspected; {} after a failure. Triggers "submit" to translate, which ends an older
// translation, "input" to show an answer unless a newer translation is on its way, "select" to inspect
// it, "clear" when there is no text, and "click" for the other field that Clear empties and Undo fills.

const find = (name) => element.querySelector(`.${name}`);
const source = () => document.querySelector("#source textarea");
const isPhone = matchMedia("(pointer: coarse)");
const TYPED_MS = 180; // after the last key, so that the translation is there after about 300
const WAITING_MS = 100; // more for each request that waits on a shared page
const MAX_MS = 3000;
const MAX_ANNOUNCED = 300; // characters
const KEPT = "hubnmt-translate-as-i-type";
const asked = { text: "", model: undefined }; // translated last
let shown = ""; // the text whose translation is in the page
let isSeen = false; // whether the last inspection is of the translation shown
let nLooks = 0; // inspections under way: Gradio begins one, and one more after it
let pause = TYPED_MS;
let timer = null;
let cleared = ""; // the text that Undo brings back

// A translation of another text is marked until the new one is there.
function mark(state) {
  const target = document.querySelector("#target");
  target.dataset.state = state;
  const field = target.querySelector("textarea");
  field.readOnly = true; // Gradio's own way would disable it, out of reach for the keyboard
  field.setAttribute("aria-busy", String(state === "busy"));
}

function run() {
  clearTimeout(timer);
  asked.text = source().value;
  mark("busy");
  trigger("submit");
}

function label() {
  const text = source().value;
  if (text) cleared = find("clear").value = "";
  find("clear").hidden = !text && !cleared;
  find("clear").textContent = text ? "Clear" : "Undo";
}

function update() {
  clearTimeout(timer);
  label();
  const text = source().value;
  if (!text.trim()) {
    // A blank text ends the translation before it; its answer, an error, is not shown.
    if (asked.text) setTimeout(() => source().value.trim() || trigger("submit"));
    asked.text = null;
    shown = "";
    nLooks = 0;
    mark("");
    trigger("clear");
  } else if (text === shown && text === asked.text) mark("");
  else {
    mark("stale");
    if (find("switch").control.checked) timer = setTimeout(run, pause);
  }
}

function clear() {
  const [text, prefix] = [cleared, find("clear").value];
  cleared = source().value;
  source().value = text;
  source().dispatchEvent(new InputEvent("input", { bubbles: true })); // so Gradio learns about it
  find("clear").value = prefix;
  trigger("click");
  source().focus();
}

function takeGiven({ text = source().value, model }) {
  const isNew = text !== asked.text || model !== asked.model;
  asked.model = model;
  label();
  if (!text.trim()) update();
  else if (isNew) run();
}

// Underlined words are named, too.
function announce(said, { candidates: [best] = [] } = {}) {
  const doubted = (best?.unsure ?? []).map(([start, end]) => [...best.text].slice(start, end).join(""));
  const unsure = doubted.length ? ` Unsure: ${doubted.join(", ")}.` : "";
  find("announced").textContent = said && `Translation: ${said.slice(0, MAX_ANNOUNCED)}${unsure.slice(0, MAX_ANNOUNCED)}`;
}

function takeAnswer({ src, model, shown: values, said, n_waiting = 0 }) {
  if (src !== asked.text || model !== asked.model) return;
  trigger("input");
  if (said === undefined) return;
  setSeen(false);
  pause = Math.min(TYPED_MS + WAITING_MS * n_waiting, MAX_MS);
  shown = src;
  mark(source().value === src ? "" : "stale");
  announce(said, values[3] ?? {});
}

// What the tabs show of another translation is marked, and takes no clicks.
function setSeen(isNow) {
  isSeen = isNow;
  document.querySelector("#inside").dataset.state = isSeen && !nLooks ? "" : "stale";
}

// Inspecting costs more than translating, so it is left until somebody looks.
function look(isNew) {
  if (isNew) setSeen(false);
  const tab = document.querySelector("#inside [role=tab][aria-selected=true]");
  if (isSeen || !shown || tab?.textContent.trim() === "Alternatives") return;
  nLooks = Math.min(nLooks + 1, 2);
  setSeen(true);
  trigger("select");
}

function take() {
  const value = props.value ?? {};
  if (value.given) takeGiven(value.given);
  else if (value.shown) takeAnswer(value);
  else if (value.look) look(value.isNew);
  else if (value.explored) {
    nLooks = Math.max(nLooks - 1, 0);
    setSeen(isSeen);
  }
  else mark(source().value === shown ? "" : "stale");
}

document.addEventListener("input", (event) => {
  if (event.target === source() && !event.isComposing) update();
});
document.addEventListener("compositionend", (event) => event.target === source() && update());
// Enter makes a new line in a text of several, and on a phone, which has no other key for it.
document.addEventListener("keydown", (event) => {
  if (event.target !== source() || event.key !== "Enter" || event.isComposing) return;
  const isLine = event.shiftKey || isPhone.matches || event.target.value.includes("\n");
  if (isLine && !event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  run();
});
// For Gradio, Shift+Enter is no new line.
const keep = (event) => event.target === source() && event.key === "Enter" && event.stopPropagation();
document.addEventListener("keypress", keep, { capture: true });
find("go").addEventListener("click", run);
find("clear").addEventListener("click", clear);
find("switch").control.checked = localStorage.getItem(KEPT) !== "off";
find("switch").control.addEventListener("change", ({ target }) => {
  localStorage.setItem(KEPT, target.checked ? "on" : "off");
  update();
});
asked.model = props.value.given.model;
watch("value", take);

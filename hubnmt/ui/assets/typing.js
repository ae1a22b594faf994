// Translation while typing. props.value is {given: {model, text, limit}} when the page has another
// model, or another text that was not typed; {src, model, shown} for a part of a translation, with
// `said`, `n_waiting` and `better` for the whole; {changed} when decoding options were; {look, isNew}
// when it, or a tab that inspects it, is shown; {explored} when it has been inspected; {} after a
// failure. Triggers "submit" to translate, which ends an older translation, "input" to show an answer
// unless a newer translation is on its way, "select" to inspect it, "clear" when there is no text,
// "click" for the prefix that Clear empties and Undo fills, and "edit" when the beginning of the
// translation was edited, which is the prefix of the next one.

const source = () => document.querySelector("#source textarea");
const target = () => document.querySelector("#target textarea");
const isPhone = matchMedia("(pointer: coarse)");
const TYPED_MS = 180; // after the last key, so that the translation is there after about 300
const MOST_MS = 1000; // after the first key, however fast the others follow
const EDITED_MS = 500; // after the last key in the translation
const SAID_MS = 1000; // after the last answer, so that only the final one is read out
const WAITING_MS = 100; // more for each request that waits on a shared page
const MAX_MS = 3000;
const MAX_ANNOUNCED = 300; // characters
const MAX_PREFIX = 300; // characters; same value in services/limits.py
const KEPT = "hubnmt-translate-as-i-type";
const KEPT_TEXT = "hubnmt-text"; // same value in translate_tab.py
const { limit } = props.value.given; // characters
const asked = { text: "", model: undefined }; // translated last
let shown = ""; // the text whose translation is in the page
let isSeen = false; // whether the last inspection is of the translation shown
let nLooks = 0; // inspections under way: Gradio begins one, and one more after it
let pause = TYPED_MS;
let timer = null;
let changedAt = null; // time of the first change that is not translated yet
let sayTimer = null;
let isEditing = false; // whether keys in the translation wait to be sent
let prefix = ""; // the beginning of the translation as edited
let cleared = ""; // the text that Undo brings back

// A translation of another text is marked until the new one is there.
function mark(state) {
  document.querySelector("#target").dataset.state = state;
  target().setAttribute("aria-busy", String(state === "busy"));
}

const isTooLong = () => [...source().value].length > limit;

function run() {
  clearTimeout(timer);
  changedAt = null;
  if (isTooLong()) return;
  asked.text = source().value;
  isEditing = false;
  mark("busy");
  trigger("submit");
}

function schedule() {
  clearTimeout(timer);
  changedAt ??= Date.now();
  const most = changedAt + Math.max(MOST_MS, pause) - Date.now();
  timer = setTimeout(run, Math.min(pause, Math.max(most, 0)));
}

// A reload brings the text back; a link in the address is left when it no longer says what is shown.
function remember() {
  const text = source().value;
  sessionStorage.setItem(KEPT_TEXT, JSON.stringify({ text, model: asked.model }));
  const link = new URLSearchParams(location.hash.slice(1));
  const isLink = link.get("text") === text && link.get("model") === asked.model;
  if (link.has("text") && !isLink) history.replaceState(null, "", location.pathname + location.search);
}

function label() {
  const text = source().value;
  find("count").textContent = text ? `${[...text].length.toLocaleString("en")} / ${limit.toLocaleString("en")}` : "";
  find("over").hidden = !isTooLong();
  remember();
  if (text) cleared = find("clear").value = "";
  find("clear").hidden = !text && !cleared;
  find("clear").textContent = text ? "Clear" : "Undo";
}

function update() {
  clearTimeout(timer);
  clearTimeout(sayTimer);
  label();
  const text = source().value;
  if (!text.trim()) {
    // A blank text ends the translation before it; its answer, an error, is not shown.
    changedAt = null;
    if (asked.text) setTimeout(() => source().value.trim() || trigger("submit"));
    asked.text = null;
    shown = "";
    nLooks = 0;
    mark("");
    trigger("clear");
  } else if (text === shown && text === asked.text) mark("");
  else {
    mark("stale");
    if (find("switch").control.checked) schedule();
  }
}

// The source was typed, so what the translation of another text began with does not matter.
function takeTyped() {
  find("told").hidden = true;
  if (prefix) setPrefix("");
  update();
}

// The text up to the caret is the prefix of a new translation. A prefix is one line, so edits further
// down only stand in the field.
function takeEdited() {
  const begin = target().value.slice(0, target().selectionStart);
  clearTimeout(timer);
  const isPrefix = source().value.trim() && !begin.includes("\n") && [...begin].length <= MAX_PREFIX;
  mark(isPrefix ? "stale" : "edited");
  isEditing = true;
  if (isPrefix) timer = setTimeout(() => setPrefix(begin), EDITED_MS);
}

function setPrefix(text) {
  prefix = document.querySelector("#target").dataset.prefix = text;
  trigger("edit");
}

function takeOptions() {
  shown = asked.text = null; // answers that are under way are of other options
  if (!source().value.trim()) return;
  mark("stale");
  if (isEditing || find("switch").control.checked) schedule();
}

function clear() {
  const [text, forced] = [cleared, find("clear").value];
  prefix = "";
  cleared = source().value;
  source().value = text;
  source().dispatchEvent(new InputEvent("input", { bubbles: true })); // so Gradio learns about it
  find("clear").value = forced;
  trigger("click");
  source().focus();
}

function takeGiven({ text = source().value, model }) {
  const isNew = text !== asked.text || model !== asked.model;
  if (isNew) prefix = "";
  asked.model = model;
  label();
  if (!text.trim()) update();
  else if (isNew) run();
}

// Underlined words are named, too.
function announce(said, { candidates: [best] = [] } = {}) {
  const doubted = (best?.unsure ?? []).map(([start, end]) => [...best.text].slice(start, end).join(""));
  const unsure = doubted.length ? ` Unsure: ${doubted.join(", ")}.` : "";
  const text = said && `Translation: ${said.slice(0, MAX_ANNOUNCED)}${unsure.slice(0, MAX_ANNOUNCED)}`;
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => (find("announced").textContent = text), SAID_MS);
}

// While the translation is edited, the caret stays where it is.
function write(text) {
  const at = target().selectionStart;
  if (document.activeElement !== target()) return;
  target().value = text;
  target().setSelectionRange(at, at);
}

function takeAnswer({ src, model, shown: values, said, n_waiting = 0, better = "" }) {
  if (src !== asked.text || model !== asked.model || isEditing) return;
  if (said === undefined && values[1].length < prefix.length) return; // would move the caret
  write(values[1]);
  trigger("input");
  if (said === undefined) return;
  setSeen(false);
  pause = Math.min(TYPED_MS + WAITING_MS * n_waiting, MAX_MS);
  shown = src;
  mark(source().value === src && changedAt === null ? "" : "stale");
  announce(said, values[3] ?? {});
  document.dispatchEvent(new CustomEvent("detected", { detail: better })); // see languages.js
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
  else if (value.changed) takeOptions();
  else if (value.look) look(value.isNew);
  else if (value.explored) {
    nLooks = Math.max(nLooks - 1, 0);
    setSeen(isSeen);
  }
  else mark(source().value === shown ? "" : "stale");
}

document.addEventListener("input", (event) => {
  if (event.isComposing) return;
  if (event.target === source()) takeTyped();
  if (event.target === target()) takeEdited();
});
document.addEventListener("compositionend", (event) => event.target === source() && takeTyped());
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
find("over").querySelector("button").addEventListener("click", () => {
  [...document.querySelectorAll("#tabs [role=tab]")].find((tab) => tab.textContent.trim() === "Files").click();
});
find("clear").addEventListener("click", clear);
find("switch").control.checked = localStorage.getItem(KEPT) !== "off";
find("switch").control.addEventListener("change", ({ target }) => {
  localStorage.setItem(KEPT, target.checked ? "on" : "off");
  update();
});
asked.model = props.value.given.model;
watch("value", take);

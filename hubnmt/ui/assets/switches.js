// Head switches. props.value is {parts: [[name, layers, heads]], alignment, off} for a new
// translation, the same with `answer` or `message` after a request, or null. Triggers "select" when
// heads are switched. The state of the switches is kept here, so late answers are ignored. Texts are
// inserted with textContent, never as HTML.

const card = find("switches");
const NAMES = {
  encoder: ["Encoder", "encoder self-attention"],
  decoder: ["Decoder", "decoder self-attention"],
  cross: ["Cross", "cross-attention"],
};
let off = new Set(); // "part layer head"

const keys = (part, layer, heads) => Array.from({ length: heads }, (_, head) => `${part} ${layer} ${head}`);

function flip(chosen) {
  const isOn = chosen.some((key) => !off.has(key));
  chosen.forEach((key) => (isOn ? off.add(key) : off.delete(key)));
  ask();
}

function ask() {
  const { parts, alignment } = props.value;
  const list = [...off].map((key) => key.split(" ").map((part, i) => (i ? Number(part) : part)));
  props.value = { parts, alignment, off: list };
  draw();
  trigger("select");
}

function toggle(key, name, text, isAligning) {
  const item = make("button", "head", text);
  item.type = "button";
  item.setAttribute("role", "switch");
  item.setAttribute("aria-checked", String(!off.has(key)));
  item.setAttribute("aria-label", isAligning ? `${name} (alignment head)` : name);
  item.title = item.ariaLabel;
  item.classList.toggle("aligning", isAligning);
  item.addEventListener("click", () => flip([key]));
  return item;
}

function row(part, layer, heads) {
  const line = make("div", "row");
  const all = keys(part, layer, heads);
  const title = `${NAMES[part][0]} layer ${layer + 1}`;
  const whole = make("button", "layer", String(layer + 1));
  whole.type = "button";
  whole.title = `${title}: switch all heads`;
  whole.setAttribute("aria-label", whole.title);
  whole.addEventListener("click", () => flip(all));
  const [alignLayer, alignHead] = props.value.alignment ?? [];
  const items = all.map((key, head) => {
    const isAligning = part === "cross" && layer === alignLayer && head === alignHead;
    return toggle(key, `${title}, head ${head + 1}`, String(head + 1), isAligning);
  });
  line.append(whole, ...items);
  return line;
}

function drawPart([part, layers, heads]) {
  const box = make("div", "part");
  const [name, meaning] = NAMES[part];
  const title = make("h3", "", name);
  title.append(make("span", "", meaning));
  box.append(title, ...Array.from({ length: layers }, (_, layer) => row(part, layer, heads)));
  return box;
}

function sentence(name, spans) {
  const line = make("p", "said");
  line.dir = "auto";
  line.append(make("span", "name", name));
  for (const [text, isDifferent] of spans) {
    line.append(isDifferent && text.trim() ? make("mark", "", text) : text);
  }
  if (!spans.length) line.append(make("span", "nothing", "(empty)"));
  return line;
}

const signed = (value) => value.toFixed(2).replace("-", "\u2212");

// The result for the current state of the switches.
function outcome() {
  const { answer } = props.value;
  if (!off.size) return [];
  if (!answer) return [make("p", "hint", "Translating \u2026")];
  const [before, after] = answer.spans;
  const count = off.size === 1 ? "1 head" : `${off.size} heads`;
  const isSame = answer.spans.flat().every(([, isDifferent]) => !isDifferent);
  const [own, now] = answer.log_probs.map(signed);
  const verdict = `${isSame ? "The translation does not change. " : ""}The log-probability of the original translation falls from ${own} to ${now}.`;
  const rises = answer.log_probs[1] > answer.log_probs[0];
  const summary = rises ? verdict.replace("falls", "rises") : verdict;
  return [sentence("With all heads", before), sentence(`Without ${count}`, after), make("p", "hint", summary)];
}

function draw() {
  const value = props.value;
  card.hidden = element.hidden = !value?.parts;
  if (card.hidden) return;
  const focused = element.contains(document.activeElement) && document.activeElement.ariaLabel;
  find("parts").replaceChildren(...value.parts.map(drawPart));
  if (focused) [...element.querySelectorAll("button")].find((each) => each.ariaLabel === focused)?.focus();
  find("reset").disabled = !off.size;
  const isCurrent = value.off.map((head) => head.join(" ")).sort().join() === [...off].sort().join();
  if (isCurrent) find("outcome").replaceChildren(...outcome());
  find("message").textContent = (isCurrent && value.message) || "";
  find("message").hidden = !find("message").textContent;
}

// A new translation resets the switches.
function take() {
  const isAnswer = props.value && ("answer" in props.value || props.value.message);
  if (!isAnswer && !props.value?.off?.length) off = new Set();
  draw();
}

find("reset").addEventListener("click", () => {
  off.clear();
  ask();
});
take();
watch("value", take);

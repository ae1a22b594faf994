// The steering row. Takes props.value = {language, words: [{text, at, probability}]} of a new
// translation, or the answer to a click, which has {place, said, choices} or {message} beside it, or null. Tells the
// page which word was clicked ("select"), and which choice or words of the visitor's own the
// translation shall go on with ("submit"). Texts are written with textContent, never as HTML.

const find = (name) => element.querySelector(`.${name}`);
const card = find("steering");
const isEnd = (text) => text === "<eos>";
const chance = (probability) =>
  probability < 0.005 ? "<1%" : `${Math.round(probability * 100)}%`;
const UNSURE = 0.5; // as in figures.py
const PATIENCE_MS = 10000; // then the visitor may click again, whatever became of the request
let words = []; // of the translation that stands here: an answer about another one comes too late
let place = null; // the word that was clicked last, likewise

function make(tag, name, text = "") {
  return Object.assign(document.createElement(tag), { className: name, textContent: text });
}

// Only what is unsure is tinted, and the less probable the stronger; the number is in its name.
function word({ text, probability }, i) {
  const shown = isEnd(text) ? "end" : text.trim() || "\u2423";
  const item = make("button", "rated", shown);
  const name = `${shown}, probability ${chance(probability)}`;
  item.type = "button";
  item.title = name;
  item.setAttribute("aria-label", name);
  item.classList.toggle("mark", isEnd(text));
  if (isEnd(text)) item.dir = "ltr"; // and so without a say in the direction of the line
  item.style.setProperty("--doubt", (probability < UNSURE ? 1 - probability : 0).toFixed(4));
  item.addEventListener("click", () => ask(i));
  return item;
}

function ask(i) {
  place = i === place ? null : i;
  props.value = place === null ? { words } : { words, place };
  draw();
  if (place !== null) trigger("select", { index: i });
}

function steer(change) {
  props.value = { ...props.value, ...change };
  card.setAttribute("aria-busy", "true");
  setTimeout(() => card.removeAttribute("aria-busy"), PATIENCE_MS);
  trigger("submit");
}

// One choice: the piece, how probable it is, and the translation it leads to.
function choice({ piece, probability, text, is_whole }, i) {
  const item = make("button", "choice");
  item.type = "button";
  const share = make("span", "share", chance(probability));
  share.style.setProperty("--share", probability.toFixed(4));
  const { said } = props.value;
  const whole = make("span", "text");
  if (said && text.startsWith(said)) whole.append(make("span", "said-before", said), text.slice(said.length));
  else whole.append(text || "(nothing)");
  if (is_whole === false) whole.append(" \u2026");
  const name = make("span", "piece", isEnd(piece) ? "end" : piece.trim() || "\u2423");
  name.dir = "auto";
  item.append(name, share, whole);
  item.addEventListener("click", () => steer({ choice: i, typed: "" }));
  return item;
}

function drawPlace({ choices }) {
  find("place").hidden = place === null;
  if (place === null) return;
  const name = isEnd(words[place].text) ? "the end" : `\u201c${words[place].text.trim()}\u201d`;
  const isCut = choices?.some(({ is_whole }) => is_whole === false); // of long sentences
  const how = isCut ? " (the beginnings; a click completes one)" : "";
  find("question").textContent = choices ? `At ${name} the model could say${how}:` : `Asking about ${name} \u2026`;
  find("choices").replaceChildren(...(choices ?? []).map(choice));
}

function draw() {
  const value = props.value;
  card.removeAttribute("aria-busy");
  [...find("words").children].forEach((item, i) => item.setAttribute("aria-pressed", String(i === place)));
  drawPlace(value.place === place ? value : {});
  find("message").textContent = value.message ?? "";
  find("message").hidden = !value.message;
}

// Begin with another translation; whoever works here with the keyboard stays here.
function begin() {
  const stays = card.contains(document.activeElement) ? (place ?? 0) : null;
  [words, place] = [props.value?.words ?? [], null];
  card.hidden = element.hidden = !words.length;
  const { language } = props.value ?? {};
  if (language) find("words").lang = find("choices").lang = language;
  find("own").reset();
  find("words").replaceChildren(...words.map(word));
  if (!words.length) return;
  draw();
  if (stays !== null) find("words").children[Math.min(stays, words.length - 1)].focus();
}

function take() {
  const value = props.value;
  const isSame = JSON.stringify(value?.words ?? []) === JSON.stringify(words);
  if (value?.place === undefined) {
    if (!isSame || place !== null) begin();
  } else if (isSame) draw();
  else props.value = { words };
}

find("own").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = event.target.querySelector("input").value.trim();
  if (typed && place !== null) steer({ place, typed });
});
begin();
watch("value", take);

// The steering row. Takes props.value = {words: [{text, at, probability}]} of a new translation, or
// the answer to a click, which has {place, said, choices} or {message} beside it, or null. Tells the
// page which word was clicked ("select"), and which choice or words of the visitor's own the
// translation shall go on with ("submit"). Texts are written with textContent, never as HTML.

const find = (name) => element.querySelector(`.${name}`);
const card = find("steering");
const isEnd = (text) => text === "<eos>";
const chance = (probability) =>
  probability < 0.005 ? "<1%" : `${Math.round(probability * 100)}%`;
let place = null; // the word that was clicked last: an answer to another one comes too late

function make(tag, name, text = "") {
  return Object.assign(document.createElement(tag), { className: name, textContent: text });
}

// The less probable a word, the stronger its tint; the number is in its name.
function word({ text, probability }, i) {
  const shown = isEnd(text) ? "end" : text.trim() || "\u2423";
  const item = make("button", "rated", shown);
  const name = `${shown}, probability ${chance(probability)}`;
  item.type = "button";
  item.title = name;
  item.setAttribute("aria-label", name);
  item.setAttribute("aria-pressed", String(i === place));
  item.classList.toggle("mark", isEnd(text));
  item.style.setProperty("--doubt", (1 - probability).toFixed(4));
  item.addEventListener("click", () => ask(i));
  return item;
}

function ask(i) {
  place = i === place ? null : i;
  const { words } = props.value;
  props.value = place === null ? { words } : { words, place };
  draw();
  if (place !== null) trigger("select", { index: i });
}

function steer(change) {
  props.value = { ...props.value, ...change };
  card.setAttribute("aria-busy", "true");
  trigger("submit");
}

// One choice: the piece, how probable it is, and the translation it leads to.
function choice({ piece, probability, text }, i) {
  const item = make("button", "choice");
  item.type = "button";
  const share = make("span", "share", chance(probability));
  share.style.setProperty("--share", probability.toFixed(4));
  const { said } = props.value;
  const whole = make("span", "text");
  if (said && text.startsWith(said)) whole.append(make("span", "said-before", said), text.slice(said.length));
  else whole.append(text || "(nothing)");
  item.append(make("span", "piece", isEnd(piece) ? "end" : piece.trim() || "\u2423"), share, whole);
  item.addEventListener("click", () => steer({ choice: i, typed: "" }));
  return item;
}

function drawPlace({ words, choices }) {
  find("place").hidden = place === null;
  if (place === null) return;
  const name = isEnd(words[place].text) ? "the end" : `\u201c${words[place].text.trim()}\u201d`;
  find("question").textContent = choices ? `At ${name} the model could say:` : `Asking about ${name} \u2026`;
  find("choices").replaceChildren(...(choices ?? []).map(choice));
}

function draw() {
  const value = props.value;
  card.hidden = element.hidden = !value?.words;
  if (card.hidden) return void (place = null);
  card.removeAttribute("aria-busy");
  find("words").replaceChildren(...value.words.map(word));
  drawPlace(value.place === place ? value : { words: value.words });
  find("message").textContent = value.message ?? "";
  find("message").hidden = !value.message;
}

// A new translation has no place yet.
function take() {
  if (props.value?.place === undefined) {
    place = null;
    find("own").reset();
  }
  draw();
}

find("own").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = event.target.querySelector("input").value.trim();
  if (typed && place !== null) steer({ place, typed });
});
take();
watch("value", take);

// Steering row. props.value is {language, words: [{text, at, probability}]} for a new translation,
// the same with {place, said, choices} or {message} after a request, or null. Triggers "select" when
// a word is clicked, and "submit" when an alternative is chosen. Texts are inserted with textContent,
// never as HTML.

const card = find("steering");
const isEnd = (text) => text === "<eos>";
const chance = (probability) =>
  probability < 0.005 ? "<1%" : `${Math.round(probability * 100)}%`;
const UNSURE = 0.5; // same value in types.py
const BUSY_MS = 10000; // after which the row is enabled again even without an answer
let words = []; // of the current translation; answers for another one are ignored
let place = null; // index of the word clicked last; answers for another one are ignored
let current = {}; // the value shown, which an ignored answer must not replace
let isSteered = false; // whether the next translation is an answer to this row

// Words with low probability are tinted, more strongly the lower it is; the label has the value.
function word({ text, probability }, i) {
  const shown = isEnd(text) ? "end" : text.trim() || "\u2423";
  const item = make("button", "rated", shown);
  const name = `${shown}, probability ${chance(probability)}`;
  item.type = "button";
  item.title = name;
  item.setAttribute("aria-label", name);
  item.classList.toggle("mark", isEnd(text));
  if (isEnd(text)) item.dir = "ltr"; // so that it does not affect the direction of the line
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

function steer(choice) {
  props.value = current = { ...props.value, choice };
  isSteered = true;
  card.setAttribute("aria-busy", "true");
  setTimeout(() => card.removeAttribute("aria-busy"), BUSY_MS);
  trigger("submit");
}

// An alternative: the token, its probability, and the resulting translation.
function choice({ piece, probability, text, is_whole }, i) {
  const item = make("button", "choice");
  item.type = "button";
  const share = make("span", "share", chance(probability));
  share.style.setProperty("--share", probability.toFixed(4));
  const { said } = props.value;
  const whole = make("span", "text");
  if (said && text.startsWith(said)) whole.append(make("span", "said-before", said), text.slice(said.length));
  else whole.append(text || "(empty)");
  if (is_whole === false) whole.append(" \u2026");
  const name = make("span", "piece", isEnd(piece) ? "end" : piece.trim() || "\u2423");
  name.dir = "auto";
  item.append(name, share, whole);
  item.addEventListener("click", () => steer(i));
  return item;
}

function drawPlace({ choices }) {
  find("place").hidden = place === null;
  if (place === null) return;
  const name = isEnd(words[place].text) ? "the end" : `\u201c${words[place].text.trim()}\u201d`;
  const isCut = choices?.some(({ is_whole }) => is_whole === false); // for long sentences
  const how = isCut ? " (truncated; select one to complete it)" : "";
  find("question").textContent = choices ? `Alternatives for ${name}${how}:` : `Finding alternatives for ${name} \u2026`;
  find("choices").replaceChildren(...(choices ?? []).map(choice));
}

function draw() {
  current = props.value ?? {};
  card.removeAttribute("aria-busy");
  [...find("words").children].forEach((item, i) => item.setAttribute("aria-pressed", String(i === place)));
  drawPlace(current);
  find("message").textContent = current.message ?? "";
  find("message").hidden = !current.message;
}

// Show a new translation; keyboard focus stays in the row.
function begin() {
  const stays = card.contains(document.activeElement) ? (place ?? 0) : null;
  current = props.value ?? {};
  [words, place] = [current.words ?? [], null];
  card.hidden = element.hidden = !words.length;
  const { language } = current;
  if (language) find("words").lang = find("choices").lang = language;
  find("words").replaceChildren(...words.map(word));
  if (!words.length) return;
  draw();
  if (stays !== null) find("words").children[Math.min(stays, words.length - 1)].focus();
}

function take() {
  const { words: others = [], place: at = null } = props.value ?? {};
  const isSame = JSON.stringify(others) === JSON.stringify(words);
  const isNew = at === null && (!isSame || isSteered);
  isSteered &&= !isNew && !props.value?.message;
  if (isNew) begin();
  else if (isSame && at === place) draw();
  else props.value = current;
}

begin();
watch("value", take);

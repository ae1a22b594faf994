// Sample translations during training. props.value is the result of `samples_figure`, or null. The
// slider selects a validation and starts at the last one; words that are new since the validation
// before are marked. Texts are inserted with textContent, never as HTML.

const find = (name) => element.querySelector(`.${name}`);
const PAUSE_MS = 900;
let place = 0;
let timer = null;

const steps = () => props.value?.steps ?? [];

function make(tag, name = "", text = "") {
  const item = Object.assign(document.createElement(tag), { className: name, textContent: text });
  if (text) item.dir = "auto";
  return item;
}

// The translation at a step: that of the last change up to then.
function textAt(translations, n) {
  const step = steps()[n]?.step;
  return translations.filter(([since]) => since <= step).at(-1)?.[1] ?? "";
}

function marked(text, before) {
  const known = new Set(before.split(/\s+/));
  const said = make("p", "said");
  said.dir = "auto";
  for (const word of text.split(/(\s+)/)) {
    said.append(word.trim() && before && !known.has(word) ? make("mark", "", word) : word);
  }
  if (!text) said.append(make("span", "nothing", "(empty)"));
  return said;
}

function sentence({ src, reference, translations }) {
  const item = make("li");
  const text = textAt(translations, place);
  const before = place ? textAt(translations, place - 1) : "";
  item.append(make("p", "src", src), marked(text, before), make("p", "reference", reference));
  return item;
}

function say() {
  const { step, dev_loss, bleu } = steps()[place];
  const measures = [
    dev_loss === null ? "" : `validation loss ${dev_loss.toFixed(2)}`,
    bleu === null ? "" : `BLEU ${bleu.toFixed(1)}`,
  ].filter(Boolean);
  return [`Step ${step.toLocaleString("en")} of ${steps().at(-1).step.toLocaleString("en")}`, ...measures].join(", ");
}

function draw() {
  find("step").value = place;
  find("step").setAttribute("aria-valuetext", say());
  find("back").disabled = place === 0;
  find("next").disabled = place === steps().length - 1;
  find("count").textContent = say();
  find("sentences-list").replaceChildren(...props.value.sentences.map(sentence));
}

function go(to) {
  place = Math.max(0, Math.min(steps().length - 1, to));
  draw();
}

function stop() {
  clearInterval(timer);
  timer = null;
  find("play").textContent = "Play";
}

function play() {
  if (timer) return stop();
  go(place === steps().length - 1 ? 0 : place);
  find("play").textContent = "Pause";
  timer = setInterval(() => (place === steps().length - 1 ? stop() : go(place + 1)), PAUSE_MS);
}

function show() {
  stop();
  const { sentences, n_sentences } = props.value ?? {};
  element.hidden = find("history").hidden = !steps().length;
  if (!steps().length) return;
  find("step").max = steps().length - 1;
  find("cut").hidden = n_sentences === sentences.length;
  find("cut").textContent = `Shown: ${sentences.length} of ${n_sentences} sentences.`;
  go(steps().length - 1);
}

find("back").addEventListener("click", () => (stop(), go(place - 1)));
find("next").addEventListener("click", () => (stop(), go(place + 1)));
find("play").addEventListener("click", play);
find("step").addEventListener("input", (event) => (stop(), go(Number(event.target.value))));
show();
watch("value", show);

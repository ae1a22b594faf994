// Sample translations during training. props.value is the result of `samples_figure`, or null. The
// slider selects a validation and starts at the last one; words that are new since the validation
// before are marked. Texts are inserted with textContent, never as HTML.

const PAUSE_MS = 900;
let place = 0;

const steps = () => props.value?.steps ?? [];

function paragraph(name, text) {
  return Object.assign(make("p", name, text), { dir: "auto" });
}

// The translation at a step: that of the last change up to then.
function textAt(translations, n) {
  const step = steps()[n]?.step;
  return translations.filter(([since]) => since <= step).at(-1)?.[1] ?? "";
}

function marked(text, before) {
  const known = new Set(before.split(/\s+/));
  const said = paragraph("said", "");
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
  item.append(paragraph("src", src), marked(text, before), paragraph("reference", reference));
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

function draw(n) {
  place = n;
  find("step").setAttribute("aria-valuetext", say());
  find("count").textContent = say();
  find("sentences-list").replaceChildren(...props.value.sentences.map(sentence));
}

const begin = stepper(() => steps().length - 1, draw, PAUSE_MS);

function show() {
  const { sentences, n_sentences } = props.value ?? {};
  element.hidden = find("history").hidden = !steps().length;
  if (!steps().length) return;
  find("cut").hidden = n_sentences === sentences.length;
  find("cut").textContent = `Shown: ${sentences.length} of ${n_sentences} sentences.`;
  begin();
}

show();
watch("value", show);

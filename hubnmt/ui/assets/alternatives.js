// The n-best list and, for several sentences, the choice of the sentence to inspect. props.value is
// {src, model, sentences, candidates: [{text, probability}], selected, sentence} or null. Triggers
// "select" when a translation or sentence is chosen. Texts are inserted with textContent, never as
// HTML.

const place = element.querySelector(".alternatives");
const UNSURE = 0.5; // same value in types.py
const percent = (probability) => (probability < 0.005 ? "<1%" : `${Math.round(probability * 100)}%`);

function make(tag, name, text) {
  return Object.assign(document.createElement(tag), { className: name, textContent: text });
}

function button(candidate, index) {
  const item = make("button", "", "");
  item.type = "button";
  item.setAttribute("aria-pressed", String(index === props.value.selected));
  const { probability } = candidate; // null for a steered translation
  const chance = make("span", "chance", probability === null ? "steered" : percent(probability));
  if (probability !== null) chance.title = "mean token probability";
  chance.classList.toggle("unsure", probability !== null && probability < UNSURE);
  item.append(make("span", "rank", String(index + 1)), make("span", "text", candidate.text || "(empty)"), chance);
  item.addEventListener("click", () => choose({ selected: index }));
  return item;
}

function choose(change) {
  props.value = { ...props.value, ...change };
  draw();
  trigger("select", change);
}

// Offsets count code points, as in Python.
function sentencePicker({ src, sentences, sentence }) {
  const characters = [...src];
  const label = make("label", "sentence", "Inspect sentence ");
  const select = document.createElement("select");
  select.append(
    ...sentences.map(([start, end], i) => {
      const text = characters.slice(start, Math.min(end, start + 60)).join("");
      return new Option(`${i + 1}: ${text}`, i, false, i === sentence);
    }),
  );
  select.addEventListener("change", () => choose({ sentence: Number(select.value) }));
  label.append(select);
  return label;
}

function draw() {
  const { candidates = [], sentences = [] } = props.value ?? {};
  const focused = place.contains(document.activeElement) && document.activeElement.tagName;
  place.replaceChildren();
  element.hidden = candidates.length < 2 && sentences.length < 2;
  if (candidates.length > 1) {
    const list = make("div", "list", "");
    list.append(...candidates.map(button));
    place.append(make("h2", "", "Alternatives"), list);
  }
  if (sentences.length > 1) place.append(sentencePicker(props.value));
  if (focused) place.querySelector(focused === "SELECT" ? "select" : "[aria-pressed=true]")?.focus();
}

draw();
watch("value", draw);

// The n-best list, each by what differs from the translation shown. props.value is {src, model,
// sentences, candidates: [{text, probability}], selected, sentence} or null. Triggers "select" when a
// translation is chosen. Texts are inserted with textContent, never as HTML.

const place = element.querySelector(".alternatives");
const UNSURE = 0.5; // same value in types.py
const percent = (probability) => (probability < 0.005 ? "<1%" : `${Math.round(probability * 100)}%`);

function make(tag, name, text) {
  return Object.assign(document.createElement(tag), { className: name, textContent: text });
}

// Everything from the first word that differs to the last, with one word of context on either side.
function difference(text, shown) {
  const [words, others] = [text, shown].map((each) => each.split(/(?<=\s)/));
  const shortest = Math.min(words.length, others.length);
  let [before, after] = [0, 0];
  while (before < shortest && words[before] === others[before]) before++;
  while (after < shortest - before && words.at(-1 - after) === others.at(-1 - after)) after++;
  const end = words.length - after;
  const [left, right] = [Math.max(0, before - 1), Math.min(words.length, end + 1)];
  const parts = [words.slice(left, before), words.slice(before, end), words.slice(end, right)];
  const [first, middle, last] = parts.map((part) => part.join(""));
  return [
    left > 0 ? `\u2026 ${first}` : first,
    make("mark", "", middle.trimEnd()),
    middle.slice(middle.trimEnd().length),
    right < words.length ? `${last}\u2026` : last,
  ];
}

function button(candidate, index) {
  const { candidates, selected } = props.value;
  const item = make("button", "", "");
  item.type = "button";
  item.setAttribute("aria-pressed", String(index === selected));
  item.setAttribute("aria-label", candidate.text || "(empty)");
  item.title = candidate.text;
  const { probability } = candidate; // null for a steered translation
  const chance = make("span", "chance", probability === null ? "steered" : percent(probability));
  if (probability !== null) chance.title = "mean token probability";
  chance.classList.toggle("unsure", probability !== null && probability < UNSURE);
  const text = make("span", "text", index === selected ? "shown above" : "");
  if (index !== selected) text.append(...difference(candidate.text, candidates[selected].text));
  item.append(make("span", "rank", String(index + 1)), text, chance);
  item.addEventListener("click", () => choose(index));
  return item;
}

function choose(selected) {
  props.value = { ...props.value, selected };
  draw();
  trigger("select");
}

function draw() {
  const { candidates = [] } = props.value ?? {};
  const isFocused = place.contains(document.activeElement);
  place.replaceChildren(...candidates.map(button));
  if (candidates.length < 2) place.replaceChildren(make("p", "hint", "No alternatives: raise Alternatives in the decoding options."));
  if (isFocused) place.querySelector("[aria-pressed=true]")?.focus();
}

draw();
watch("value", draw);

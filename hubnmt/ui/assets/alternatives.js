// The n-best list, each by what differs from the translation shown. props.value is {src, model,
// sentences, candidates: [{text, probability, unsure: [[start, end]]}], selected, sentence} or null.
// Triggers "select" when a translation is chosen. Texts are inserted with textContent, never as HTML.

const place = element.querySelector(".alternatives");
const CHECK_BELOW = 0.7; // same value in types.py
const percent = (probability) => (probability < 0.005 ? "<1%" : `${Math.round(probability * 100)}%`);

// A part of a translation, with the words underlined that the model is unsure of. Offsets count code
// points, as in Python.
function underline({ text, unsure = [] }, from = 0, to = Infinity) {
  const characters = [...text];
  const cut = (start, end) => characters.slice(Math.max(start, from), Math.min(end, to)).join("");
  const parts = unsure.flatMap(([start, end], i) => [
    cut(unsure[i - 1]?.[1] ?? 0, start),
    make("u", "doubted", cut(start, end)),
  ]);
  return [...parts, cut(unsure.at(-1)?.[1] ?? 0, Infinity)].filter((part) => part.textContent !== "");
}

// Under the text field, which cannot underline single words: the same text, of which only the lines show.
function drawUnder(candidate) {
  const field = document.querySelector("#target textarea");
  if (!field) return;
  let under = field.parentElement.querySelector(".under");
  if (!under) {
    under = make("div", "under", "");
    under.setAttribute("aria-hidden", "true");
    field.after(under);
    new ResizeObserver(() => fit(field, under)).observe(field);
    field.addEventListener("scroll", () => (under.scrollTop = field.scrollTop));
  }
  under.replaceChildren(...(candidate ? underline(candidate) : []));
  fit(field, under);
}

function fit(field, under) {
  const style = getComputedStyle(field);
  for (const name of ["font", "letterSpacing", "padding", "textAlign", "direction", "unicodeBidi"]) under.style[name] = style[name];
  Object.assign(under.style, {
    left: `${field.offsetLeft + field.clientLeft}px`,
    top: `${field.offsetTop + field.clientTop}px`,
    width: `${field.clientWidth}px`,
    height: `${field.clientHeight}px`,
  });
  under.scrollTop = field.scrollTop;
}

// Everything from the first word that differs to the last, with one word of context on either side.
function difference(candidate, shown) {
  const [words, others] = [candidate.text, shown].map((each) => each.split(/(?<=\s)/));
  const shortest = Math.min(words.length, others.length);
  let [before, after] = [0, 0];
  while (before < shortest && words[before] === others[before]) before++;
  while (after < shortest - before && words.at(-1 - after) === others.at(-1 - after)) after++;
  const end = words.length - after;
  const [left, right] = [Math.max(0, before - 1), Math.min(words.length, end + 1)];
  const offset = (n) => [...words.slice(0, n).join("")].length;
  const trimmed = [...words.slice(0, end).join("").trimEnd()].length;
  const offsets = [offset(left), offset(before), Math.max(trimmed, offset(before)), offset(right)];
  const [first, middle, last] = [0, 1, 2].map((n) => underline(candidate, offsets[n], offsets[n + 1]));
  const mark = make("mark", "", "");
  mark.append(...middle);
  return [left > 0 ? "\u2026 " : "", ...first, mark, ...last, right < words.length ? "\u2026" : ""];
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
  if (probability !== null) chance.title = "geometric mean of the token probabilities";
  chance.classList.toggle("unsure", probability !== null && probability < CHECK_BELOW);
  const text = make("span", "text", index === selected ? "shown above" : "");
  if (index !== selected) text.append(...difference(candidate, candidates[selected].text));
  item.append(make("span", "rank", String(index + 1)), text, chance);
  item.addEventListener("click", () => choose(index));
  return item;
}

function choose(selected) {
  props.value = { ...props.value, selected };
  draw();
  document.querySelector("#inside").dataset.state = "stale"; // see typing.js
  trigger("select");
}

function draw() {
  const { candidates = [], selected } = props.value ?? {};
  drawUnder(candidates[selected]);
  const isFocused = place.contains(document.activeElement);
  place.replaceChildren(...candidates.map(button));
  if (candidates.length < 2) place.replaceChildren(make("p", "hint", "No alternatives: raise Alternatives in the decoding options."));
  if (isFocused) place.querySelector("[aria-pressed=true]")?.focus();
}

draw();
watch("value", draw);

// The attention explorer. Takes props.value, a `figures.attention_figure`, or {message} when there
// is nothing to draw, or null; draws words joined by threads, a heatmap, and a thumbnail of every
// head. Tokens are written with textContent, never as HTML. Knows no server: every choice made here
// is answered from the weights that came with the translation.

const find = (name) => element.querySelector(`.${name}`);
const EMPTY = "Translate something, then see here which words the model looked at for each word it wrote.";
const NAMES = {
  cross: ["Translation", "Source"],
  encoder: ["Source", "Source"],
  decoder: ["Translation", "Translation so far"],
};
let figure = null; // {src, tgt, probabilities, start, maps: {kind: {layers, heads, weights: Uint16Array}}}
let chosen = { kind: "cross", layer: 0, head: 0, marks: true }; // 0 is the average
let pinned = null; // {side: "query" | "key", index}

// --- numbers ---

function unpack(map) {
  const bytes = Uint8Array.from(atob(map.weights), (char) => char.charCodeAt(0));
  return { layers: map.layers, heads: map.heads, weights: new Uint16Array(bytes.buffer) };
}

// The tokens behind the rows and columns of a map. What the decoder has read when it writes a
// token is everything before that token, behind the mark that begins a sentence.
function sides(kind) {
  const read = ["<bos>", ...figure.tgt.slice(0, -1)];
  const queries = kind === "encoder" ? figure.src : figure.tgt;
  const keys = { cross: figure.src, encoder: figure.src, decoder: read }[kind];
  return { queries, keys };
}

// One (queries x keys) matrix of weights from 0 to 1, averaged where layer or head is 0.
function matrix(kind, layer, head) {
  const { layers, heads, weights } = figure.maps[kind];
  const { queries, keys } = sides(kind);
  const size = queries.length * keys.length;
  const sum = new Float32Array(size);
  let n = 0;
  for (let l = 0; l < layers; l++) {
    for (let h = 0; h < heads; h++) {
      if ((layer && l !== layer - 1) || (head && h !== head - 1)) continue;
      const start = (l * heads + h) * size;
      for (let i = 0; i < size; i++) sum[i] += weights[start + i];
      n++;
    }
  }
  return sum.map((value) => value / (65535 * n));
}

const isMark = (tokens, i) =>
  (i === 0 && tokens[i] === "<bos>") || (i === tokens.length - 1 && tokens[i] === "<eos>");
const shown = (tokens) =>
  tokens.map((_, i) => i).filter((i) => chosen.marks || !isMark(tokens, i));
// Small weights are worth seeing: 25% is painted at a third of full strength, 50% at 60%.
const strengthen = (weight) => Math.pow(weight, 0.75).toFixed(4);
const percent = (weight) => `${Math.round(weight * 100)}%`;
const chance = (probability) => (probability < 0.005 ? "<1%" : percent(probability));

// --- tokens as words ---

// A token that continues a word stands close to it; marks and bare bytes look like what they are.
function label(into, tokens, i) {
  into.textContent = tokens[i].trim() || "\u2423";
  const isByte = /^(<[0-9A-F]{2}( [0-9A-F]{2})*>)+$/.test(tokens[i].trim());
  into.classList.toggle("mark", isMark(tokens, i) || isByte);
  const follows = i > 0 && !isMark(tokens, i - 1) && !isMark(tokens, i);
  into.classList.toggle("joined", follows && !/^\s/.test(tokens[i]));
  into.classList.toggle("suffix", /^[\p{L}\p{M}\p{N}]/u.test(tokens[i]));
  return into;
}

// How probable the model found a token of the translation; nothing for any other token.
function probability(side, i) {
  return side === "query" && chosen.kind !== "encoder" ? figure.probabilities[i] : undefined;
}

// The less probable a token, the stronger its tint; the number is in its name.
function tint(item, side, i) {
  const sure = probability(side, i);
  if (sure === undefined) return;
  const name = `${item.textContent}, probability ${chance(sure)}`;
  item.classList.add("rated");
  item.style.setProperty("--doubt", (1 - sure).toFixed(4));
  item.title = name;
  item.setAttribute("aria-label", name);
}

function chip(side, tokens, i) {
  const item = document.createElement("button");
  item.type = "button";
  item.dataset.side = side;
  item.dataset.index = i;
  item.setAttribute("aria-pressed", "false");
  const look = () => focusOn({ side, index: i });
  item.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && look());
  item.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && focusOn(pinned));
  item.addEventListener("focus", look);
  item.addEventListener("blur", () => focusOn(pinned));
  item.addEventListener("click", () => {
    pinned = pinned?.side === side && pinned.index === i ? null : { side, index: i };
    focusOn(pinned);
  });
  label(item, tokens, i);
  tint(item, side, i);
  return item;
}

// Chips of one word share a box, so that a line never breaks inside the word.
function words(side, tokens) {
  const boxes = [];
  for (const i of shown(tokens)) {
    const item = chip(side, tokens, i);
    if (!item.classList.contains("joined") || !boxes.length) {
      boxes.push(Object.assign(document.createElement("span"), { className: "word" }));
    }
    boxes.at(-1).append(item);
  }
  return boxes;
}

function drawWords() {
  const { queries, keys } = sides(chosen.kind);
  [find("queries-name").textContent, find("keys-name").textContent] = NAMES[chosen.kind];
  find("queries").replaceChildren(...words("query", queries));
  find("keys").replaceChildren(...words("key", keys));
  find("doubt").hidden = chosen.kind === "encoder";
}

// Colour the words that the active one looked at (or that looked at it), and draw the threads.
function focusOn(active) {
  const { queries, keys } = sides(chosen.kind);
  const weights = matrix(chosen.kind, chosen.layer, chosen.head);
  const weight = (q, k) => weights[q * keys.length + k];
  find("queries").classList.toggle("asked", active?.side === "key"); // one meaning of colour at a time
  for (const item of element.querySelectorAll(".line button")) {
    const [side, i] = [item.dataset.side, Number(item.dataset.index)];
    const isActive = active?.side === side && active.index === i;
    let strength = 0;
    if (active && active.side !== side) {
      strength = side === "key" ? weight(active.index, i) : weight(i, active.index);
    }
    item.style.setProperty("--weight", strengthen(strength));
    item.classList.toggle("active", isActive);
    item.setAttribute("aria-pressed", String(pinned?.side === side && pinned.index === i));
  }
  for (const row of element.querySelectorAll(".map tr")) {
    row.classList.toggle("active", active?.side === "query" && row.dataset.index === String(active.index));
  }
  drawThreads(active, weight);
  find("readout").textContent = readout(active, queries, keys, weight);
}

function readout(active, queries, keys, weight) {
  if (!active) return "Point at a word, or tap it.";
  const byKey = active.side === "key";
  const [own, others] = byKey ? [keys, queries] : [queries, keys];
  const strength = (i) => (byKey ? weight(i, active.index) : weight(active.index, i));
  const best = shown(others).sort((a, b) => strength(b) - strength(a)).slice(0, 3);
  const list = best.map((i) => `${others[i].trim() || "\u2423"} ${percent(strength(i))}`).join(", ");
  const verb = byKey ? "was looked at most by" : "looked most at";
  const sure = probability(active.side, active.index);
  const rated = sure === undefined ? "" : ` (probability ${chance(sure)})`;
  return `\u201c${own[active.index].trim()}\u201d${rated} ${verb}: ${list}`;
}

function drawThreads(active, weight) {
  const svg = find("threads");
  const frame = find("words").getBoundingClientRect();
  const at = (item) => item.getBoundingClientRect();
  const lines = [];
  for (const query of find("queries").querySelectorAll("button")) {
    for (const key of find("keys").querySelectorAll("button")) {
      const [q, k] = [Number(query.dataset.index), Number(key.dataset.index)];
      if (active && active.index !== (active.side === "query" ? q : k)) continue;
      const strength = weight(q, k);
      if (strength < (active ? 0.02 : 0.12)) continue;
      const [top, bottom] = [at(key), at(query)];
      const [x1, y1] = [top.left + top.width / 2 - frame.left, top.bottom - frame.top];
      const [x2, y2] = [bottom.left + bottom.width / 2 - frame.left, bottom.top - frame.top];
      const middle = (y1 + y2) / 2;
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", `M${x1} ${y1} C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`);
      path.style.strokeWidth = `${0.75 + 4 * strength}px`;
      path.style.opacity = active ? 0.15 + 0.85 * strength : 0.1 + 0.65 * strength;
      lines.push(path);
    }
  }
  svg.replaceChildren(...lines);
}

// --- choices ---

function options(select, count, value) {
  const names = ["average", ...Array.from({ length: count }, (_, i) => String(i + 1))];
  select.replaceChildren(...names.map((name, i) => new Option(name, i, false, i === value)));
}

function choose(change) {
  chosen = { ...chosen, ...change };
  const { layers, heads } = figure.maps[chosen.kind];
  if (chosen.layer > layers || chosen.head > heads) Object.assign(chosen, { layer: 0, head: 0 });
  find("kind").value = chosen.kind;
  options(find("layer"), layers, chosen.layer);
  options(find("head"), heads, chosen.head);
  drawWords();
  drawMap();
  drawThumbs();
  focusOn(pinned);
}

function draw() {
  pinned = null;
  const value = props.value;
  const isDrawable = Boolean(value?.maps);
  find("empty").textContent = isDrawable ? "" : (value?.message ?? EMPTY);
  find("empty").hidden = isDrawable;
  find("body").hidden = find("controls").hidden = !isDrawable;
  if (!isDrawable) return void (figure = null);
  const wasDrawn = figure !== null;
  const maps = Object.entries(value.maps).map(([kind, map]) => [kind, unpack(map)]);
  figure = { ...value, maps: Object.fromEntries(maps) };
  const start = figure.start && { layer: figure.start[0] + 1, head: figure.start[1] + 1 };
  choose(wasDrawn ? {} : (start ?? {}));
}

find("kind").addEventListener("change", (event) => {
  pinned = null;
  choose({ kind: event.target.value });
});
find("layer").addEventListener("change", (event) => choose({ layer: Number(event.target.value) }));
find("head").addEventListener("change", (event) => choose({ head: Number(event.target.value) }));
find("marks").addEventListener("change", (event) => {
  pinned = null;
  choose({ marks: event.target.checked });
});
new ResizeObserver(() => {
  if (!figure) return;
  fit(element.querySelectorAll(".map thead th").length);
  focusOn(pinned);
}).observe(element);
draw();
watch("value", draw);

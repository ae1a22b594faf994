// Attention explorer: word links, a heatmap, and a thumbnail of every head. props.value is the result
// of `explorer_figure`, {message} if nothing can be shown, or null. Tokens are inserted with
// textContent, never as HTML. All interaction runs in the browser on the weights in props.value.

const EMPTY = "Computing the attention \u2026";
const NAMES = {
  cross: ["Translation", "Source"],
  encoder: ["Source", "Source"],
  decoder: ["Translation", "Decoder input"],
};
const FULL_BAR = 2; // nats; e^2 is a factor of about seven in probability
let figure = null; // props.value
let side = null; // one of figure.units, with its maps unpacked: {src, tgt, maps: {kind: {layers, heads, weights}}}
// head is "aligned", "average" or [layer, head]
let chosen = { unit: "words", kind: "cross", head: "aligned", marks: true };
let pinned = null; // {side: "query" | "key", index}
let read = null; // the same, of the word that is read now

// --- numbers ---

function unpack(map) {
  const bytes = Uint8Array.from(atob(map.weights), (char) => char.charCodeAt(0));
  return { layers: map.layers, heads: map.heads, weights: new Uint16Array(bytes.buffer) };
}

function unpackUnit(unit) {
  const maps = Object.entries(unit.maps).map(([kind, map]) => [kind, unpack(map)]);
  return { ...unit, maps: Object.fromEntries(maps) };
}

// The query and key tokens of a map. The decoder's input is the target shifted right, after <bos>.
function sides(kind) {
  const read = ["<bos>", ...side.tgt.slice(0, -1)];
  const queries = kind === "encoder" ? side.src : side.tgt;
  const keys = { cross: side.src, encoder: side.src, decoder: read }[kind];
  return { queries, keys };
}

// A (queries x keys) matrix of weights from 0 to 1.
function matrix(kind, head) {
  if (head === "aligned") {
    const shifted = side.maps.aligned; // the alignment head, shifted by one step
    return shifted ? mean(shifted, kind, () => true) : matrix(kind, figure.alignment);
  }
  const isMeant = (l, h) => head === "average" || (l === head[0] && h === head[1]);
  return mean(side.maps[kind], kind, isMeant);
}

function mean({ layers, heads, weights }, kind, isMeant) {
  const { queries, keys } = sides(kind);
  const size = queries.length * keys.length;
  const sum = new Float32Array(size);
  let n = 0;
  for (let l = 0; l < layers; l++) {
    for (let h = 0; h < heads; h++) {
      if (!isMeant(l, h)) continue;
      const start = (l * heads + h) * size;
      for (let i = 0; i < size; i++) sum[i] += weights[start + i];
      n++;
    }
  }
  return sum.map((value) => value / (65535 * n));
}

// The name of the selected view.
function viewName(head = chosen.head) {
  if (head === "average") return "Average of all heads";
  if (head !== "aligned") return `Layer ${head[0] + 1}, head ${head[1] + 1}`;
  const shift = figure.shift ? ", shifted by one step" : "";
  return `Alignment head: ${viewName(figure.alignment).toLowerCase()}${shift}`;
}

const isMark = (tokens, i) =>
  (i === 0 && tokens[i] === "<bos>") || (i === tokens.length - 1 && tokens[i] === "<eos>");
const shown = (tokens) =>
  tokens.map((_, i) => i).filter((i) => chosen.marks || !isMark(tokens, i));
// Emphasizes small weights: 25% is drawn with an opacity of 35%, 50% with 60%.
const strengthen = (weight) => Math.pow(weight, 0.75).toFixed(4);
const percent = (weight) => `${Math.round(weight * 100)}%`;

// Drop in log-probability (nats) of a target word without a source word; undefined if not measured.
function drop(query, key) {
  if (chosen.kind !== "cross" || chosen.unit !== "words") return undefined;
  return figure.drops?.[query]?.[key];
}

// --- tokens ---

// Tokens that continue a word are joined to it; special tokens and raw bytes are styled differently.
function label(into, tokens, i) {
  into.textContent = tokens[i].trim() || "\u2423";
  const isByte = /^(<[0-9A-F]{2}( [0-9A-F]{2})*>)+$/.test(tokens[i].trim());
  const isName = isMark(tokens, i) || isByte;
  into.classList.toggle("mark", isName);
  if (isName) into.dir = "ltr"; // so that it does not affect the direction of the line
  const follows = i > 0 && !isMark(tokens, i - 1) && !isMark(tokens, i);
  into.classList.toggle("joined", follows && !/^\s/.test(tokens[i]));
  // Fonts show a combining mark without its base on a dotted circle, so it needs no suffix marker.
  into.classList.toggle("suffix", /^[\p{L}\p{N}]/u.test(tokens[i]));
  return into;
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
  return label(item, tokens, i);
}

// Tokens of one word share a box, so that lines do not break within words.
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
  const [src, tgt] = figure.languages;
  find("queries").lang = chosen.kind === "encoder" ? src : tgt;
  find("keys").lang = chosen.kind === "decoder" ? tgt : src;
  find("both").hidden = find("why-bars").hidden = drop(0, 0) === undefined;
}

const MAX_IDLE_WORDS = 40; // with more words, links are only drawn for the active one

// Highlight the words linked to the active one by attention, and draw the links.
function focusOn(active) {
  read = active;
  const { queries, keys } = sides(chosen.kind);
  const weights = matrix(chosen.kind, chosen.head);
  const weight = (q, k) => weights[q * keys.length + k];
  for (const item of element.querySelectorAll(".line button")) {
    const [side, i] = [item.dataset.side, Number(item.dataset.index)];
    const isActive = active?.side === side && active.index === i;
    let [strength, missed] = [0, 0];
    if (active && active.side !== side) {
      const place = side === "key" ? [active.index, i] : [i, active.index];
      [strength, missed] = [weight(...place), drop(...place) ?? 0];
    }
    item.style.setProperty("--weight", strengthen(strength));
    item.style.setProperty("--fall", Math.min(1, Math.max(0, missed / FULL_BAR)).toFixed(4));
    item.classList.toggle("active", isActive);
    item.setAttribute("aria-pressed", String(pinned?.side === side && pinned.index === i));
  }
  for (const row of element.querySelectorAll(".map tr")) {
    row.classList.toggle("active", active?.side === "query" && row.dataset.index === String(active.index));
  }
  drawThreads(active, weight);
  const [looked, missed] = active ? readout(active, queries, keys, weight) : ["Hover over or tap a word.", ""];
  find("looked").textContent = looked;
  element.querySelector(".readout .missed").textContent = missed;
}

function readout(active, queries, keys, weight) {
  const byKey = active.side === "key";
  const [own, others] = byKey ? [keys, queries] : [queries, keys];
  const place = (i) => (byKey ? [i, active.index] : [active.index, i]);
  const name = (tokens, i) => `\u201c${tokens[i].trim() || "\u2423"}\u201d`;
  const best = (value) => shown(others).sort((a, b) => value(b) - value(a)).slice(0, 3);
  const most = best((i) => weight(...place(i))).filter((i, rank) => !rank || weight(...place(i)) >= 0.01);
  const looks = most.map((i) => `${name(others, i)} ${percent(weight(...place(i)))}`);
  const verb = byKey ? "receives most attention from" : "attends most to";
  const looked = `${name(own, active.index)} ${verb} ${looks.join(", ")}.`;
  const drops = best((i) => drop(...place(i)) ?? -1).filter((i) => drop(...place(i)) >= 0.05);
  if (!drops.length) return [looked, ""];
  const list = drops.map((i) => `${name(others, i)} ${drop(...place(i)).toFixed(1)}`).join(", ");
  const missed = byKey
    ? `Omitting it lowers the log-probability most for ${list}.`
    : `Its log-probability drops most when omitting ${list}.`;
  return [looked, missed];
}

function drawThreads(active, weight) {
  const svg = find("threads");
  const frame = find("words").getBoundingClientRect();
  const at = (item) => item.getBoundingClientRect();
  const lines = [];
  const [queries, keys] = ["queries", "keys"].map((name) => [...find(name).querySelectorAll("button")]);
  const isTangle = !active && queries.length + keys.length > MAX_IDLE_WORDS;
  for (const query of isTangle ? [] : queries) {
    for (const key of keys) {
      const [q, k] = [Number(query.dataset.index), Number(key.dataset.index)];
      if (active && active.index !== (active.side === "query" ? q : k)) continue;
      const strength = weight(q, k);
      if (strength < (active ? 0.02 : 0.12)) continue;
      const [top, bottom] = [at(key), at(query)];
      const [x1, y1] = [top.left + top.width / 2 - frame.left, top.bottom - frame.top];
      const [x2, y2] = [bottom.left + bottom.width / 2 - frame.left, bottom.top - frame.top];
      const middle = (y1 + y2) / 2;
      const path = svgNode("path", { d: `M${x1} ${y1} C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}` });
      path.style.strokeWidth = `${0.75 + 4 * strength}px`;
      path.style.opacity = active ? 0.15 + 0.85 * strength : 0.1 + 0.65 * strength;
      lines.push(path);
    }
  }
  svg.replaceChildren(...lines);
}

// --- choices ---

// Apply a selection; falls back to the average if the view does not exist for this type of attention.
function choose(change) {
  const before = chosen;
  chosen = { ...chosen, ...change };
  if (!figure.units[chosen.unit]) chosen.unit = "pieces";
  side = unpackUnit(figure.units[chosen.unit]);
  const { layers, heads } = side.maps[chosen.kind];
  const [layer, head] = Array.isArray(chosen.head) ? chosen.head : [0, 0];
  const canAlign = chosen.kind === "cross" && figure.alignment;
  if (layer >= layers || head >= heads || (chosen.head === "aligned" && !canAlign)) chosen.head = "average";
  if (chosen.kind !== before.kind && canAlign) chosen.head = "aligned";
  if (chosen.unit !== before.unit || chosen.kind !== before.kind || !chosen.marks) pinned = null;
  for (const name of ["kind", "unit"]) find(name).value = chosen[name];
  find("view").textContent = viewName();
  drawWords();
  drawMap();
  drawThumbs();
  focusOn(pinned);
}

function draw() {
  pinned = null;
  const value = props.value;
  const isDrawable = Boolean(value?.units);
  find("empty").textContent = isDrawable ? "" : (value?.message ?? EMPTY);
  find("empty").hidden = isDrawable;
  find("body").hidden = find("controls").hidden = !isDrawable;
  if (!isDrawable) return void (figure = null);
  figure = value;
  for (const option of find("unit").options) option.hidden = option.disabled = !value.units[option.value];
  choose({});
}

find("kind").addEventListener("change", (event) => choose({ kind: event.target.value }));
find("unit").addEventListener("change", (event) => choose({ unit: event.target.value }));
find("marks").addEventListener("change", (event) => choose({ marks: event.target.checked }));
for (const button of element.querySelectorAll(".save button")) {
  button.addEventListener("click", () => save(button.dataset.as));
}
new ResizeObserver(() => {
  if (!figure) return;
  fit(element.querySelectorAll(".map thead th").length);
  focusOn(read); // the reading itself changes the height
}).observe(element);
draw();
watch("value", draw);

// Beam search as a tree, one column for each step. props.value is the result of `beam_tree` with
// its `subject`, {subject, message}, or null. Triggers "select" when another beam size is chosen.
// Tokens are inserted with textContent, never as HTML.

const BUSY_MS = 10000; // after which the card is enabled again even without an answer
const [COLUMN_PX, ROW_PX, NODE_PX, NODE_HEIGHT_PX, EDGE_PX] = [122, 34, 100, 26, 12];
let value = null; // the last answer with steps
let at = null; // [step, index] of the selected hypothesis

// A hyphen marks a piece that continues a word.
function readable(token) {
  if (token === "<eos>") return "end";
  return /^[\p{L}\p{N}]/u.test(token) ? `-${token.trim()}` : token.trim() || "\u2423";
}
const short = (text) => ([...text].length > 9 ? `${[...text].slice(0, 8).join("")}\u2026` : text);
const minus = (number) => number.toFixed(2).replace("-", "\u2212");
const percent = (log_prob) => {
  const share = Math.exp(log_prob);
  return share < 0.01 ? "<1%" : `${Math.round(100 * share)}%`;
};
const x = (step) => EDGE_PX + step * COLUMN_PX;
const y = (index) => EDGE_PX + index * ROW_PX;

// Indices of a hypothesis and its ancestors, first step first.
function path([step, index]) {
  const indices = [];
  for (let s = step, i = index; s >= 0; i = value.steps[s][i].parent, s--) indices.unshift(i);
  return indices;
}

function edge(step, index, parent) {
  const [x1, y1] = [x(step - 1) + NODE_PX, y(parent) + NODE_HEIGHT_PX / 2];
  const [x2, y2] = [x(step), y(index) + NODE_HEIGHT_PX / 2];
  const middle = (x1 + x2) / 2;
  return svgNode("path", { class: "edge", d: `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
}

function node(step, index) {
  const { piece, log_prob, status } = value.steps[step][index];
  const group = svgNode("g", { class: `node ${status}`, transform: `translate(${x(step)} ${y(index)})` });
  const name = svgNode("text", { class: "piece", x: 7, y: 17 }, short(readable(piece)));
  const chance = svgNode("text", { class: "chance", x: NODE_PX - 6, y: 17, "text-anchor": "end" }, percent(log_prob));
  group.append(svgNode("title", {}, describe([step, index])), svgNode("rect", { width: NODE_PX, height: NODE_HEIGHT_PX, rx: 6 }), name, chance);
  group.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && select([step, index]));
  group.addEventListener("click", () => select([step, index]));
  return group;
}

function describe([step, index]) {
  const { log_prob, sum, score, status } = value.steps[step][index];
  const said = path([step, index]).map((i, s) => value.steps[s][i].piece).filter((piece) => piece !== "<eos>").join("").trim();
  const shown = said ? `\u201c${said}\u201d` : "The empty translation";
  return `${shown}, ${status}: token ${percent(log_prob)}, log-probability ${minus(sum)}, score ${minus(score)}`;
}

// Mark a hypothesis and its ancestors.
function select(place, { scrolls = false } = {}) {
  at = place;
  const indices = place ? path(place) : value.best;
  for (const item of element.querySelectorAll(".tree [data-step]")) {
    const [step, index] = [Number(item.dataset.step), Number(item.dataset.index)];
    item.classList.toggle("on-path", indices[step] === index);
    item.classList.toggle("selected", Boolean(place) && step === place[0] && index === place[1]);
  }
  find("readout").textContent = place ? `${describe(place)}.` : "Hover over or tap a hypothesis, or move with the arrow keys, to read its scores.";
  if (!scrolls || !place) return;
  const tree = find("tree");
  const left = x(place[0]);
  if (left < tree.scrollLeft || left + NODE_PX > tree.scrollLeft + tree.clientWidth) {
    tree.scrollLeft = left - tree.clientWidth / 2;
  }
}

function drawTree() {
  const height = Math.max(...value.steps.map((step) => step.length));
  const size = { width: x(value.steps.length), height: y(height) };
  const svg = svgNode("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, "aria-hidden": "true" });
  const [edges, nodes] = [[], []];
  value.steps.forEach((continuations, step) =>
    continuations.forEach(({ parent, status }, index) => {
      const made = [node(step, index)];
      nodes.push(made[0]);
      if (step) edges.push((made[1] = edge(step, index, parent)));
      for (const item of made) {
        item.dataset.step = step;
        item.dataset.index = index;
        item.classList.add(status);
        item.classList.toggle("best", value.best[step] === index);
      }
    }),
  );
  svg.append(...edges, ...nodes);
  find("tree").replaceChildren(svg);
  find("tree").scrollLeft = 0;
}

function drawResults() {
  const rows = value.results.map(({ text, score, sum }) => {
    const row = document.createElement("tr");
    for (const each of [minus(score), minus(sum), text || "(empty)"]) {
      const cell = document.createElement("td");
      cell.textContent = each;
      row.append(cell);
    }
    row.lastChild.dir = "auto";
    return row;
  });
  element.querySelector("tbody").replaceChildren(...rows);
  const penalty = value.length_penalty;
  find("results").caption.textContent = `Result. Score: log-probability divided by the number of tokens to the power of ${penalty}.`;
}

function draw() {
  const given = props.value;
  if (given?.asked && !given.steps && !given.message) return; // a request under way
  find("beam").removeAttribute("aria-busy");
  find("message").textContent = given?.message ?? "";
  find("message").hidden = !given?.message;
  if (given?.steps) value = given;
  else if (!given?.message || JSON.stringify(given.subject) !== JSON.stringify(value?.subject)) value = null;
  find("body").hidden = find("controls").hidden = !value;
  find("empty").hidden = Boolean(value || given?.message);
  find("empty").textContent = given ? "Translate a sentence in the Translate tab first." : "Computing \u2026";
  if (!value) return;
  find("size").replaceChildren(...value.beam_sizes.map((size) => new Option(size, size)));
  find("size").value = value.beam_size;
  find("cut").hidden = value.n_steps === value.steps.length;
  find("cut").textContent = `Shown: the first ${value.steps.length} of ${value.n_steps} steps.`;
  drawTree();
  drawResults();
  select(null);
}

find("size").addEventListener("change", (event) => {
  props.value = { subject: value.subject, asked: Number(event.target.value) };
  find("beam").setAttribute("aria-busy", "true");
  setTimeout(() => find("beam").removeAttribute("aria-busy"), BUSY_MS);
  trigger("select", { beam_size: props.value.asked });
});
find("tree").addEventListener("keydown", (event) => {
  if (!event.key.startsWith("Arrow")) return;
  event.preventDefault();
  const [step, index] = at ?? [0, 0];
  const child = () => value.steps[step + 1]?.findIndex(({ parent }) => parent === index) ?? -1;
  const places = {
    ArrowUp: () => [step, Math.max(0, index - 1)],
    ArrowDown: () => [step, Math.min(value.steps[step].length - 1, index + 1)],
    ArrowLeft: () => (step ? [step - 1, value.steps[step][index].parent] : [step, index]),
    ArrowRight: () => (child() >= 0 ? [step + 1, child()] : [step, index]),
  };
  select(at ? places[event.key]() : [0, 0], { scrolls: true });
});
find("tree").addEventListener("pointerleave", () => value && document.activeElement !== find("tree") && select(null));
draw();
watch("value", draw);

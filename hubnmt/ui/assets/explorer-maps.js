// Heatmap and head thumbnails of the attention explorer; loaded before explorer.js.

// --- the heatmap ---

function cell(tag, scope) {
  const item = document.createElement(tag);
  if (scope) item.scope = scope;
  return item;
}

function drawMap() {
  const { queries, keys } = sides(chosen.kind);
  const [rows, columns] = [shown(queries), shown(keys)];
  const weights = matrix(chosen.kind, chosen.head);
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  head.append(cell("td"));
  for (const k of columns) {
    const column = cell("th", "col");
    column.append(label(document.createElement("span"), keys, k));
    head.append(column);
  }
  const body = table.createTBody();
  for (const q of rows) {
    const row = body.insertRow();
    row.dataset.index = q;
    const name = cell("th", "row");
    name.append(label(document.createElement("span"), queries, q));
    row.append(name);
    for (const k of columns) {
      const value = row.insertCell();
      const weight = weights[q * keys.length + k];
      value.style.setProperty("--weight", strengthen(weight));
      value.title = `${queries[q].trim()} \u2192 ${keys[k].trim()}: ${percent(weight)}`;
      value.setAttribute("aria-label", percent(weight));
      value.dataset.key = k;
    }
  }
  table.addEventListener("pointerover", (event) => {
    const row = event.target.closest("tbody tr");
    if (row) focusOn({ side: "query", index: Number(row.dataset.index) });
  });
  table.addEventListener("pointerleave", () => focusOn(pinned));
  find("map").replaceChildren(table);
  fit(columns.length);
}

// Cell size: fits the available width, within bounds for readability and touch input.
function fit(nColumns) {
  const place = find("map");
  const names = place.querySelector("tbody th")?.offsetWidth ?? 0;
  const room = (place.clientWidth - names - 4) / nColumns - 1;
  place.style.setProperty("--cell", `${Math.max(14, Math.min(46, Math.floor(room)))}px`);
}

// --- head thumbnails ---

const isChosen = (head) => String(head) === String(chosen.head);

function thumb(head, text = "") {
  const { queries, keys } = sides(chosen.kind);
  const item = document.createElement("button");
  item.type = "button";
  const isAligning = chosen.kind === "cross" && String(head) === String(figure.alignment);
  const name = isAligning ? `${viewName(head)} (alignment head)` : viewName(head);
  item.title = name;
  item.setAttribute("aria-label", name);
  item.setAttribute("aria-pressed", String(isChosen(head)));
  item.classList.toggle("aligning", isAligning);
  const canvas = document.createElement("canvas");
  canvas.width = keys.length;
  canvas.height = queries.length;
  item.append(canvas, text);
  item.addEventListener("click", () => choose({ head }));
  paint(canvas, matrix(chosen.kind, head));
  return item;
}

// Black with varying opacity; the style sheet converts it to the theme's colour.
function paint(canvas, weights) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  weights.forEach((weight, i) => (image.data[4 * i + 3] = 255 * Math.sqrt(weight)));
  context.putImageData(image, 0, 0);
}

function drawThumbs() {
  const focused = element.contains(document.activeElement) && document.activeElement.ariaLabel;
  const { layers, heads } = side.maps[chosen.kind];
  const aligned = chosen.kind === "cross" && figure.alignment ? [thumb("aligned", "Aligned")] : [];
  find("special").replaceChildren(...aligned, thumb("average", "Average"));
  const place = find("thumbs");
  place.style.setProperty("--heads", heads);
  const items = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) items.push(thumb([layer, head]));
  }
  place.replaceChildren(...items);
  if (focused) [...find("heads").querySelectorAll("button")].find((each) => each.ariaLabel === focused)?.focus();
}

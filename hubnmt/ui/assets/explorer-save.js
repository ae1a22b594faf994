// Export of the heatmap as PNG, SVG, CSV or JSON.

const CELL = 30;
const FONT = '14px system-ui, "Noto Sans", "Noto Sans Malayalam", sans-serif';

// The visible rows and columns of the heatmap, with labels and weights.
function table() {
  const { queries, keys } = sides(chosen.kind);
  const weights = matrix(chosen.kind, chosen.head);
  const [rows, columns] = [shown(queries), shown(keys)];
  const name = (tokens) => (i) => tokens[i].trim() || "\u2423";
  return {
    attention: find("kind").selectedOptions[0].textContent,
    view: viewName(),
    unit: chosen.unit,
    rows: rows.map(name(queries)),
    columns: columns.map(name(keys)),
    weights: rows.map((q) => columns.map((k) => Number(weights[q * keys.length + k].toFixed(4)))),
  };
}

function asJson() {
  const drops = drop(0, 0) === undefined ? {} : { left_out: figure.drops };
  return JSON.stringify({ ...table(), ...drops }, null, 1);
}

// Prefixes cells that a spreadsheet would evaluate as a formula with an apostrophe.
function cellText(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function asCsv() {
  const { rows, columns, weights } = table();
  const lines = weights.map((values, i) => [cellText(rows[i]), ...values].join(","));
  return [["", ...columns.map(cellText)].join(","), ...lines, ""].join("\n");
}

function asSvg() {
  const { rows, columns, weights, view, attention } = table();
  const style = getComputedStyle(element);
  const [ink, soft] = [style.getPropertyValue("--body-text-color"), style.getPropertyValue("--ink-soft")];
  const [paper, heat] = [style.getPropertyValue("--block-background-fill"), style.getPropertyValue("--heat")];
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  const longest = (names) => Math.ceil(Math.max(...names.map((name) => pen.measureText(name).width)));
  const [left, top] = [longest(rows) + 28, longest(columns) + 78];
  pen.font = `600 ${FONT}`;
  const width = Math.max(left + columns.length * CELL + 20, longest([view]) + 44);
  const height = top + rows.length * CELL + 40;
  const svg = svgNode("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height });
  svg.style.font = FONT;
  const write = (text, attributes) => svg.append(svgNode("text", { fill: ink, ...attributes }, text));
  svg.append(svgNode("rect", { width, height, fill: paper }));
  write(view, { x: 20, y: 28, "font-weight": 600 });
  write(`attention, ${attention}`, { x: 20, y: 48, fill: soft });
  columns.forEach((name, k) => {
    const [x, y] = [left + (k + 0.5) * CELL + 5, top - 8];
    write(name, { transform: `translate(${x} ${y}) rotate(-90)` });
  });
  rows.forEach((name, q) => {
    const y = top + q * CELL;
    write(name, { x: left - 8, y: y + CELL / 2 + 5, "text-anchor": "end" });
    weights[q].forEach((weight, k) => {
      const opacity = Math.max(0.05, strengthen(weight));
      const box = { x: left + k * CELL + 1, y: y + 1, width: CELL - 2, height: CELL - 2, rx: 4 };
      const cell = svgNode("rect", { ...box, fill: `rgb(${heat})`, "fill-opacity": opacity });
      cell.append(svgNode("title", {}, `${name} \u2192 ${columns[k]}: ${percent(weight)}`));
      svg.append(cell);
    });
  });
  write("hubnmt", { x: width - 20, y: height - 14, "text-anchor": "end", "font-size": 12, fill: soft });
  return new XMLSerializer().serializeToString(svg);
}

const MAX_SIDE = 8000; // pixels; canvas limit of common browsers

// Renders the SVG at twice its size, if that is not too large.
async function asPng() {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(asSvg())}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  const scale = Math.min(2, MAX_SIDE / Math.max(image.width, image.height));
  [canvas.width, canvas.height] = [scale * image.width, scale * image.height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

async function save(kind) {
  const make = { png: asPng, svg: asSvg, csv: asCsv, json: asJson }[kind];
  const type = { svg: "image/svg+xml", csv: "text/csv", json: "application/json" }[kind];
  const content = await make();
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `attention.${kind}`;
  link.click();
  URL.revokeObjectURL(link.href);
}

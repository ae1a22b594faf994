// Pictures of tensors for the values of one layer; loaded before layer.js.

const ROW_PX = { strip: 20, map: 26 };
const CELL_PX = 46; // width of a cell of a map, where there is room

const readable = (token) => token.trim() || "\u2423";
const number = (value) => value.toPrecision(3).replace("-", "\u2212");

// A row or column name; joined tokens continue a word.
function nameOf(token) {
  const name = make("span", /^<.*>$/.test(token.trim()) ? "mark" : "", readable(token));
  name.dir = "auto";
  name.title = readable(token);
  return name;
}

// Two colours with varying opacity; numbers that the mask hides are grey.
function paint(canvas, tensor, mask) {
  canvas.width = tensor.columns;
  canvas.height = tensor.rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(tensor.columns, tensor.rows);
  const style = getComputedStyle(canvas);
  const [up, down] = ["--wave-up", "--wave-down"].map((name) => style.getPropertyValue(name).split(",").map(Number));
  tensor.numbers.forEach((value, i) => {
    const strength = Math.pow(Math.abs(value) / tensor.scale, 0.75);
    const isHidden = mask && !mask.numbers[i];
    image.data.set(isHidden ? [128, 128, 128, 70] : [...(value < 0 ? down : up), 255 * strength], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

// One tensor: a row for each token, and a column for each feature or key. `tell` receives the cell
// that the pointer or the arrow keys reach.
function picture({ title, tensor, rowNames, columnNames, mask, tell }) {
  const figure = make("figure", columnNames ? "tensor map" : "tensor strip");
  const caption = make("figcaption");
  caption.append(make("b", "", title), make("span", "", `${tensor.rows} \u00d7 ${tensor.columns}`));
  const plot = make("div", "plot");
  const names = make("div", "row-names");
  names.append(...rowNames.map(nameOf));
  const field = make("div", "field");
  const canvas = make("canvas");
  const cursor = make("i", "cursor");
  cursor.hidden = true;
  field.tabIndex = 0;
  field.setAttribute("role", "application");
  const columns = columnNames ? "keys" : "features";
  field.setAttribute("aria-label", `${title}: ${tensor.rows} tokens by ${tensor.columns} ${columns}; arrow keys read the numbers`);
  field.append(canvas, cursor);
  plot.append(names, field);
  if (columnNames) {
    const heads = make("div", "column-names");
    heads.append(...columnNames.map(nameOf));
    plot.append(heads);
    figure.style.setProperty("--columns", tensor.columns);
    figure.style.setProperty("--most", `${tensor.columns * CELL_PX}px`);
  }
  figure.style.setProperty("--rows", tensor.rows);
  figure.style.setProperty("--row", `${columnNames ? ROW_PX.map : ROW_PX.strip}px`);
  figure.append(caption, plot);
  let at = null;
  const move = (row, column) => {
    at = [Math.max(0, Math.min(tensor.rows - 1, row)), Math.max(0, Math.min(tensor.columns - 1, column))];
    cursor.hidden = false;
    cursor.style.cssText = `top:${(at[0] / tensor.rows) * 100}%;left:${(at[1] / tensor.columns) * 100}%;width:${100 / tensor.columns}%;height:${100 / tensor.rows}%`;
    tell({ title, row: at[0], column: at[1], value: tensor.numbers[at[0] * tensor.columns + at[1]] });
  };
  field.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    move(
      Math.floor(((event.clientY - box.top) / box.height) * tensor.rows),
      Math.floor(((event.clientX - box.left) / box.width) * tensor.columns),
    );
  });
  field.addEventListener("pointerleave", () => (cursor.hidden = document.activeElement !== field));
  field.addEventListener("blur", () => (cursor.hidden = true));
  field.addEventListener("focus", () => field.matches(":focus-visible") && move(...(at ?? [0, 0])));
  field.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [row, column] = at ?? [0, 0];
    move(row + step[0], column + step[1]);
  });
  figure.repaint = () => paint(canvas, tensor, mask);
  return figure;
}

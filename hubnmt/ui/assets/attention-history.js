// Cross-attention of one sentence at each validation. props.value is the text of attention.jsonl,
// one line for each validation: step, tokens and weights (layers, target tokens, source tokens).

const PAUSE_MS = 700;
let maps = [];

function grid(weights, { src, tgt }, number) {
  const figure = make("figure");
  figure.append(make("figcaption", "", `Layer ${number + 1}`));
  const table = make("table");
  const head = make("tr");
  head.append(make("th"), ...src.map((token) => Object.assign(make("th", "", token.trim() || "\u2423"), { scope: "col", dir: "auto" })));
  table.append(head);
  weights.forEach((row, t) => {
    const line = make("tr");
    line.append(Object.assign(make("th", "", tgt[t].trim() || "\u2423"), { scope: "row", dir: "auto" }));
    row.forEach((weight, s) => {
      const cell = make("td");
      cell.style.setProperty("--weight", weight);
      cell.title = `${tgt[t].trim()} \u2192 ${src[s].trim()}: ${Math.round(100 * weight)} %`;
      line.append(cell);
    });
    table.append(line);
  });
  figure.append(table);
  return figure;
}

function draw(n) {
  const map = maps[n];
  const said = `Step ${map.step.toLocaleString("en")} of ${maps.at(-1).step.toLocaleString("en")}`;
  find("step").setAttribute("aria-valuetext", said);
  find("count").textContent = said;
  find("grids").replaceChildren(...map.layers.map((weights, number) => grid(weights, map, number)));
}

const begin = stepper(() => maps.length - 1, draw, PAUSE_MS);

function show() {
  const lines = (props.value ?? "").split("\n").slice(0, -1); // the last may be incomplete
  maps = lines.map((text) => JSON.parse(text));
  element.hidden = find("history").hidden = !maps.length;
  if (maps.length) begin();
}

show();
watch("value", show);

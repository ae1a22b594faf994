// Validations during training. props.value has those of a `Run`, and what it was started from. The
// slider starts at the last one; words that are new since the validation before are marked, and the
// cross-attention of one sentence is drawn as a table for each layer. Texts are inserted with
// textContent, never as HTML.

const PAUSE_MS = 900;

const validations = () => props.value?.validations ?? [];
const paragraph = (name, text) => Object.assign(make("p", name, text), { dir: "auto" });
const header = (text, scope) => Object.assign(make("th", "", text.trim() || "\u2423"), { scope, dir: "auto" });

function marked(text, before) {
  const known = new Set(before.split(/\s+/));
  const said = paragraph("said", "");
  for (const word of text.split(/(\s+)/)) {
    said.append(word.trim() && before && !known.has(word) ? make("mark", "", word) : word);
  }
  if (!text) said.append(make("span", "nothing", "(empty)"));
  return said;
}

function sentence([src, reference, text], before) {
  const item = make("li");
  item.append(paragraph("src", src), marked(text, before ?? ""), paragraph("reference", reference));
  return item;
}

function grid(rows, { src, tgt }, layer) {
  const [figure, table, head] = ["figure", "table", "tr"].map((tag) => make(tag));
  head.append(make("th"), ...src.map((token) => header(token, "col")));
  table.append(head);
  rows.forEach((weights, t) => {
    const row = make("tr");
    row.append(header(tgt[t], "row"));
    weights.forEach((weight, s) => {
      const title = `${tgt[t].trim()} \u2192 ${src[s].trim()}: ${Math.round(100 * weight)} %`;
      const cell = Object.assign(make("td"), { title });
      cell.style.setProperty("--weight", weight);
      row.append(cell);
    });
    table.append(row);
  });
  figure.append(make("figcaption", "", `Layer ${layer + 1}`), table);
  return figure;
}

function draw(n) {
  const { step, samples, attention } = validations()[n];
  const said = `Step ${step.toLocaleString("en")} of ${validations().at(-1).step.toLocaleString("en")}`;
  find("step").setAttribute("aria-valuetext", said);
  find("count").textContent = said;
  const before = validations()[n - 1]?.samples ?? [];
  find("sentences-list").replaceChildren(...samples.map((row, at) => sentence(row, before[at]?.[2])));
  find("attention").hidden = !attention;
  find("grids").replaceChildren(...(attention?.layers ?? []).map((rows, layer) => grid(rows, attention, layer)));
}

const begin = stepper(() => validations().length - 1, draw, PAUSE_MS);

function show() {
  element.hidden = find("history").hidden = !validations().length;
  const start = props.value?.started_from;
  find("start").hidden = !start;
  find("start").textContent = `Fine-tuned from ${start}: step 0 is that model, whose own training is not shown.`;
  if (validations().length) begin();
}

show();
watch("value", show);

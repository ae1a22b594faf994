// Values of one attention head and its layer, step by step. props.value is the result of
// `layer_values` with its `subject`, {subject, message}, or null. Triggers "select" when another
// head is chosen. Tokens are inserted with textContent, never as HTML.

const BUSY_MS = 10000; // after which the card is enabled again even without an answer
let value = null; // the last answer with tensors
let tensors = {};
let step = 0;

const isSelf = () => value.choice.kind !== "cross";
const isPre = () => value.norm === "pre";
const d_head = () => tensors.queries.columns;

// Each step: its name, its formula, what it does, and the pictures: tensor, title, names of columns.
const STEPS = [
  {
    name: "Queries, keys, values",
    formula: () => "q = h W_q + b_q,  k = h W_k + b_k,  v = h W_v + b_v",
    text: () =>
      `Three linear layers map each token to a query, a key and a value of ${d_head()} features. ` +
      (isSelf() ? "All three come from the same tokens." : "Queries come from the translation so far, keys and values from the encoded source."),
    pictures: [["queries", "queries"], ["keys", "keys"], ["values", "values"]],
  },
  {
    name: "Scores",
    formula: () => `scores = q k\u1d40 / \u221a${d_head()}`,
    text: () => "The dot product of each query with each key, divided by the square root of the number of features so that it does not grow with it.",
    pictures: [["queries", "queries"], ["keys", "keys"], ["scores", "scaled scores"]],
  },
  {
    name: "Mask",
    formula: () => "masked score = \u2212\u221e",
    text: () =>
      value.choice.kind === "decoder"
        ? "A token must not see later ones, which the decoder still has to predict: their scores (grey) become \u2212\u221e."
        : "Nothing is masked here: every query may attend to every source token. In a batch, padding would be masked.",
    pictures: [["scores", "masked scores", "mask"]],
  },
  {
    name: "Softmax",
    formula: () => "weights = softmax(scores)",
    text: () => "The exponentials of each row, divided by their sum: positive weights that add up to 100%.",
    pictures: [["scores", "masked scores", "mask"], ["weights", "attention weights"]],
  },
  {
    name: "Weighted values",
    formula: () => "output = weights v",
    text: () => "The output of the head for each query: the mean of the values, weighted by the attention.",
    pictures: [["weights", "attention weights"], ["values", "values"], ["mixed", "output of the head"]],
  },
  {
    name: "Residual",
    formula: () => (isPre() ? "x + attention(norm(x))" : "norm(x + attention(x))"),
    text: () => "The outputs of all heads are joined, mapped by a linear layer, and added to the layer\u2019s input" + (isPre() ? "." : "; the sum is normalized."),
    pictures: [["attention_in", "input x"], ["attention_out", "output of all heads"], ["attention_sum", "sum"]],
  },
  {
    name: "Feed-forward",
    formula: () => {
      const inside = `W\u2082 ${value.activation}(W\u2081 h + b\u2081) + b\u2082`;
      return isPre() ? `x + ${inside},  h = norm(x)` : `norm(x + ${inside}),  h = x`;
    },
    text: () =>
      `Each token passes two linear layers by itself, with ${tensors.inner.columns} activations between them` +
      (value.activation === "relu" ? `, of which ${share(tensors.inner)} are 0 here. ` : ". ") +
      "The sum is the input of the next layer.",
    pictures: [["inner", "activations"], ["feed_forward_out", "output"], ["feed_forward_sum", "sum"]],
  },
];

function share({ numbers }) {
  const n = numbers.reduce((count, each) => count + (each === 0), 0);
  return `${Math.round((100 * n) / numbers.length)}%`;
}

const IS_MAP = ["scores", "weights"];
const BY_KEY = ["keys", "values"];

function drawFigure([name, title, mask]) {
  const tokens = (side) => value[side].tokens;
  return picture({
    title,
    tensor: tensors[name],
    mask: mask && tensors[mask],
    rowNames: tokens(BY_KEY.includes(name) ? "keys" : "queries"),
    columnNames: IS_MAP.includes(name) ? tokens("keys") : null,
    tell: (cell) => tell(name, mask, cell),
  });
}

function tell(name, mask, { title, row, column, value: shown }) {
  const quoted = (side, i) => `\u201c${readable(value[side].tokens[i])}\u201d`;
  const own = quoted(BY_KEY.includes(name) ? "keys" : "queries", row);
  let said = `${title}: ${own}, feature ${column + 1}: ${number(shown)}`;
  if (IS_MAP.includes(name)) {
    const isHidden = mask && !tensors[mask].numbers[row * tensors[mask].columns + column];
    const product = `q\u00b7k = ${number(shown * Math.sqrt(d_head()))}, divided by \u221a${d_head()}: ${number(shown)}`;
    const what = name === "weights" ? `${(100 * shown).toFixed(1)}%` : isHidden ? "\u2212\u221e" : product;
    said = `${title}: ${own} to ${quoted("keys", column)}: ${what}`;
  }
  find("readout").textContent = said;
}

function drawStep() {
  const { name, formula, text, pictures } = STEPS[step];
  [...find("names").children].forEach((item, i) => item.setAttribute("aria-pressed", String(i === step)));
  find("back").disabled = step === 0;
  find("forward").disabled = step === STEPS.length - 1;
  find("formula").textContent = `${name}: ${formula()}`;
  find("explanation").textContent = text();
  find("readout").textContent = "Hover over or tap a picture, or move with the arrow keys, to read a number.";
  const figures = pictures.map(drawFigure);
  find("figures").replaceChildren(...figures);
  figures.forEach((figure) => figure.repaint());
}

function go(to) {
  step = Math.max(0, Math.min(STEPS.length - 1, to));
  drawStep();
}

function fill(select, n, chosen) {
  select.replaceChildren(...Array.from({ length: n }, (_, i) => new Option(i + 1, i)));
  select.value = chosen;
}

function drawCut() {
  const cut = ["queries", "keys"].filter((side) => value[side].n_tokens > value[side].tokens.length);
  find("cut").hidden = !cut.length;
  const count = (side) => `${value[side].tokens.length} of ${value[side].n_tokens} ${value[side].is_src ? "source" : "target"} tokens`;
  find("cut").textContent = `Shown: the first ${[...new Set(cut.map(count))].join(" and ")}. All of them take part in the computation.`;
}

function draw() {
  const given = props.value;
  if (given?.asked && !given.tensors && !given.message) return; // a request under way
  find("layer").removeAttribute("aria-busy");
  find("message").textContent = given?.message ?? "";
  find("message").hidden = !given?.message;
  if (given?.tensors) value = given;
  else if (!given?.message || JSON.stringify(given.subject) !== JSON.stringify(value?.subject)) value = null;
  find("body").hidden = find("controls").hidden = !value;
  find("empty").hidden = Boolean(value || given?.message);
  find("empty").textContent = given ? "Translate a sentence in the Translate tab first." : "Computing \u2026";
  if (!value) return;
  tensors = Object.fromEntries(Object.entries(value.tensors).map(([name, packed]) => [name, unpackTensor(packed)]));
  const { kind, layer, head } = value.choice;
  find("kind").value = kind;
  fill(find("number"), value.layers[kind], layer);
  fill(find("head"), value.heads, head);
  drawCut();
  drawStep();
}

function choose() {
  const kind = find("kind").value;
  const layer = Math.min(Number(find("number").value), value.layers[kind] - 1);
  props.value = { subject: value.subject, asked: { kind, layer, head: Number(find("head").value) } };
  find("layer").setAttribute("aria-busy", "true");
  setTimeout(() => find("layer").removeAttribute("aria-busy"), BUSY_MS);
  trigger("select", props.value.asked);
}

find("names").append(
  ...STEPS.map(({ name }, i) => {
    const item = make("button", "", `${i + 1}. ${name}`);
    item.type = "button";
    item.addEventListener("click", () => go(i));
    return item;
  }),
);
for (const name of ["kind", "number", "head"]) find(name).addEventListener("change", choose);
find("back").addEventListener("click", () => go(step - 1));
find("forward").addEventListener("click", () => go(step + 1));
new MutationObserver(() => value && drawStep()).observe(document.body, { attributeFilter: ["class"] });
draw();
watch("value", draw);

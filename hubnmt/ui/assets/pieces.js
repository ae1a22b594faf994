// Byte-pair encoding, step by step. props.value is {words: [[pieces after each merge]], vocabulary,
// text}, {message} or null. Each step applies one merge per word; the slider selects the step and
// starts at the last, the model's input. Pieces are inserted with textContent, never as HTML.

const PAUSE_MS = 450;
let words = [];
let step = 0;

const last = () => Math.max(0, ...words.map((steps) => steps.length - 1));
const at = (steps, n) => steps[Math.min(n, steps.length - 1)];
const isByte = (piece) => /^<[0-9A-F]{2}( [0-9A-F]{2})*>$/.test(piece);

// Index of the piece merged in this step, or -1.
function newest(steps, n) {
  if (n === 0 || n >= steps.length) return -1;
  return steps[n].findIndex((piece, i) => piece !== steps[n - 1][i]);
}

function word(steps) {
  const box = document.createElement("span");
  box.className = "word";
  const joined = newest(steps, step);
  box.append(
    ...at(steps, step).map((piece, i) => {
      const chip = document.createElement("span");
      chip.className = "piece";
      chip.classList.toggle("byte", isByte(piece));
      if (isByte(piece)) chip.dir = "ltr";
      chip.classList.toggle("joined", i === joined && step < last());
      chip.textContent = isByte(piece) ? piece : piece.replace(/ /g, "\u2423").replace(/\n/g, "\u21b5");
      return chip;
    }),
  );
  return box;
}

// A hidden copy of the text sets the writing direction, which bytes do not reveal.
function direction() {
  const whole = document.createElement("span");
  whole.hidden = true;
  whole.textContent = props.value.text ?? "";
  return whole;
}

function say() {
  const n = words.reduce((sum, steps) => sum + at(steps, step).length, 0);
  const pieces = `${n} ${n === 1 ? "token" : "tokens"}`;
  if (step === 0) return `Before the first merge: ${pieces}, one per byte.`;
  if (step < last()) return `After ${step} merges per word: ${pieces}.`;
  const size = props.value.vocabulary.toLocaleString("en");
  return `Final result: ${pieces} from a vocabulary of ${size}. This is the model's input.`;
}

function draw(n) {
  step = n;
  find("words").replaceChildren(direction(), ...words.map(word));
  find("count").textContent = say();
}

const begin = stepper(last, draw, PAUSE_MS);

function show() {
  words = props.value?.words ?? [];
  find("empty").textContent = props.value?.message ?? "Enter text above.";
  find("empty").hidden = words.length > 0;
  find("body").hidden = words.length === 0;
  if (words.length) begin();
}

show();
watch("value", show);

// Byte-pair encoding, step by step. props.value is {words: [[pieces after each merge]], vocabulary,
// text}, {message} or null. Each step applies one merge per word; the slider selects the step and
// starts at the last, the model's input. Pieces are inserted with textContent, never as HTML.

const find = (name) => element.querySelector(`.${name}`);
const PAUSE_MS = 450;
let words = [];
let step = 0;
let timer = null;

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

function draw() {
  find("step").value = step;
  find("back").disabled = step === 0;
  find("next").disabled = step === last();
  find("words").replaceChildren(direction(), ...words.map(word));
  find("count").textContent = say();
}

function go(to) {
  step = Math.max(0, Math.min(last(), to));
  draw();
}

function stop() {
  clearInterval(timer);
  timer = null;
  find("play").textContent = "Play";
}

function play() {
  if (timer) return stop();
  go(step === last() ? 0 : step);
  find("play").textContent = "Pause";
  timer = setInterval(() => (step === last() ? stop() : go(step + 1)), PAUSE_MS);
}

function show() {
  stop();
  words = props.value?.words ?? [];
  find("empty").textContent = props.value?.message ?? "Enter text above.";
  find("empty").hidden = words.length > 0;
  find("body").hidden = words.length === 0;
  if (!words.length) return;
  find("step").max = last();
  go(last());
}

find("back").addEventListener("click", () => (stop(), go(step - 1)));
find("next").addEventListener("click", () => (stop(), go(step + 1)));
find("play").addEventListener("click", play);
find("step").addEventListener("input", (event) => (stop(), go(Number(event.target.value))));
show();
watch("value", show);

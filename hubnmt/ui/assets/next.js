// The most probable next tokens. props.value is the result of `next_token` with its
// `subject`, {subject, message}, or null. Triggers "select" when a token is selected or a slider
// moves. Tokens are inserted with textContent, never as HTML.

const sliders = [...element.querySelectorAll(".sliders input")];
const NONE = { temperature: 1, top_k: 0, top_p: 1 }; // options that change nothing
let value = null; // the last answer with tokens
let asked = { position: 0, ...NONE };

// A hyphen marks a piece that continues a word.
function readable(token) {
  if (token === "<eos>") return "end";
  return /^[\p{L}\p{N}]/u.test(token) ? `-${token.trim()}` : token.trim() || "\u2423";
}
function percent(share) {
  if (share === 0) return "0%";
  return share < 0.0005 ? "<0.1%" : `${(100 * share).toFixed(1)}%`;
}

function chip(token, i) {
  const item = make("button", "", token === "<eos>" ? "end" : token.trim() || "\u2423");
  item.type = "button";
  item.classList.toggle("mark", token === "<eos>");
  item.classList.toggle("joined", i > 0 && !/^[\s<]/.test(token));
  item.addEventListener("click", () => ask({ position: i }));
  return item;
}

function bar(name, before, after, { isChosen = false, isRest = false } = {}) {
  const row = make("li", "bar");
  row.classList.toggle("chosen", isChosen);
  row.classList.toggle("rest", isRest);
  row.classList.toggle("removed", after === 0);
  row.style.setProperty("--before", before.toFixed(4));
  row.style.setProperty("--after", after.toFixed(4));
  const label = make("span", "piece", name);
  label.dir = "auto";
  const track = make("span", "track");
  track.setAttribute("aria-hidden", "true");
  track.append(make("i", "before"), make("i", "after"));
  const numbers = make("span", "numbers", `${percent(before)} \u2192 ${after === 0 ? "removed" : percent(after)}`);
  row.append(label, track, numbers);
  return row;
}

function drawBars() {
  const { best, rest, chosen, vocab_size, n_kept } = value;
  const rows = best.map(({ id, piece, probability, filtered }) =>
    bar(readable(piece), probability, filtered, { isChosen: id === chosen }),
  );
  const others = (vocab_size - best.length).toLocaleString("en");
  find("bars").replaceChildren(...rows, bar(`${others} others`, ...rest, { isRest: true }));
  const before = value.tokens.slice(0, value.position).join("").trim();
  const place = before ? `After \u201c${before}\u201d` : "At the beginning";
  find("question").textContent = `${place}, sampling draws from ${n_kept.toLocaleString("en")} of ${vocab_size.toLocaleString("en")} tokens. Bold: the token in the translation.`;
}

function drawAsked() {
  [...find("tokens").children].forEach((item, i) => item.setAttribute("aria-pressed", String(i === asked.position)));
  for (const slider of sliders) {
    slider.value = asked[slider.name];
    const shown = slider.name === "top_k" && asked.top_k === 0 ? "all" : String(asked[slider.name]);
    slider.previousElementSibling.querySelector("output").textContent = shown;
    slider.setAttribute("aria-valuetext", shown);
  }
}

// The page's own choices win over those of an answer, which may be older.
function draw() {
  const given = props.value;
  if (given?.asked && !given.best && !given.message) return; // a request under way
  find("message").textContent = given?.message ?? "";
  find("message").hidden = !given?.message;
  const isNew = JSON.stringify(given?.subject) !== JSON.stringify(value?.subject);
  if (given?.best) value = given;
  else if (!given?.message || isNew) value = null;
  find("body").hidden = !value;
  find("empty").hidden = Boolean(value || given?.message);
  find("empty").textContent = given ? "Translate a sentence in the Translate tab first." : "Computing \u2026";
  if (!value) return;
  if (isNew) {
    asked = { position: value.position, ...NONE };
    find("tokens").replaceChildren(...value.tokens.map(chip));
    find("cut").hidden = value.n_tokens === value.tokens.length;
    find("cut").textContent = `Shown: the first ${value.tokens.length} of ${value.n_tokens} tokens.`;
  }
  drawAsked();
  drawBars();
}

function ask(change) {
  asked = { ...asked, ...change };
  drawAsked();
  props.value = { subject: value.subject, asked };
  trigger("select", asked);
}

for (const slider of sliders) {
  slider.addEventListener("input", () => ask({ [slider.name]: Number(slider.value) }));
}
find("reset").addEventListener("click", () => ask(NONE));
draw();
watch("value", draw);

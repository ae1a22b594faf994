// Languages and the models that translate between them. props.value is {models: [{name, src, tgt,
// src_name, tgt_name, label}], opened, has_more}, and {chosen} or {reverse} when it triggers "select"
// to open a model, or "click" to open the model of the other direction with the translation as text.
// typing.js dispatches "detected" with the language of a text that is not the model's.

const more = () => document.querySelector("#more");
const BUSY_MS = 10000;
const AUTO = "auto";
let { models, opened } = props.value; // the name of the model that is open
let isAuto = false; // whether the language of the text is detected
let detected = ""; // that of the last translated text, if it is not the model's

const current = () => models.find(({ name }) => name === opened);
const between = (src, tgt) => models.filter((model) => model.src === src && model.tgt === tgt);

// Fill a list with [value, text] pairs, without doublets.
function fill(list, pairs, value) {
  list.replaceChildren(...[...new Map(pairs)].map(([value, text]) => new Option(text, value)));
  list.value = value;
}

function draw() {
  const { src, src_name, tgt } = current();
  const byName = (pairs) => pairs.sort(([, a], [, b]) => a.localeCompare(b));
  const auto = [AUTO, isAuto ? `Detected: ${src_name}` : "Detect language"];
  const languages = byName(models.map((each) => [each.src, each.src_name]));
  fill(find("src"), [auto, ...languages], isAuto ? AUTO : src);
  const fromHere = models.filter((each) => each.src === src);
  fill(find("tgt"), byName(fromHere.map((each) => [each.tgt, each.tgt_name])), tgt);
  fill(find("of-pair"), between(src, tgt).map((each) => [each.name, each.label]), opened);
  find("no-way").textContent = "";
}

// Until the model is loaded, or refused.
function wait() {
  find("languages").setAttribute("aria-busy", "true");
  setTimeout(() => find("languages").removeAttribute("aria-busy"), BUSY_MS);
}

function open(name) {
  props.value = { ...props.value, chosen: name };
  wait();
  trigger("select");
}

function swap() {
  const { src, tgt, src_name, tgt_name } = current();
  const [back] = between(tgt, src);
  if (!back) {
    const more = props.value.has_more ? " Look for one under More models." : "";
    find("no-way").textContent = `No model here translates from ${tgt_name} to ${src_name}.${more}`;
    return;
  }
  props.value = { ...props.value, reverse: back.name };
  wait();
  trigger("click");
}

function show(isShown) {
  more().toggleAttribute("data-open", isShown);
  find("toggle").setAttribute("aria-expanded", String(isShown));
  if (isShown) more().querySelector("input")?.focus();
}

function take() {
  if (opened !== props.value.opened) {
    show(false);
    find("languages").removeAttribute("aria-busy");
  }
  ({ models, opened } = props.value);
  draw();
}

function openFrom(language) {
  const { src, tgt } = current();
  const fromHere = models.filter((each) => each.src === language);
  const next = fromHere.find((each) => each.tgt === tgt) ?? fromHere[0];
  if (next && language !== src) open(next.name);
}

find("src").addEventListener("change", ({ target }) => {
  isAuto = target.value === AUTO;
  const isOpen = target.value === current().src;
  openFrom(isAuto ? detected : target.value);
  if (isAuto || isOpen) draw();
});
document.addEventListener("detected", ({ detail }) => {
  detected = detail;
  if (isAuto) openFrom(detected);
});
find("tgt").addEventListener("change", ({ target }) => open(between(current().src, target.value)[0].name));
find("of-pair").addEventListener("change", ({ target }) => open(target.value));
find("swap").addEventListener("click", swap);
find("toggle").hidden = !props.value.has_more;
find("toggle").addEventListener("click", () => show(!more().hasAttribute("data-open")));
draw();
watch("value", take);

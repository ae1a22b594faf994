// The n-best list. Takes props.value = {src, model, candidates: [{text, score}], selected} or null,
// draws one button per candidate, and tells the page ("select") which one was pressed. Texts are
// written with textContent, never as HTML.

const place = element.querySelector(".alternatives");

function button(candidate, index) {
  const item = document.createElement("button");
  item.type = "button";
  item.setAttribute("aria-pressed", String(index === props.value.selected));
  const rank = document.createElement("span");
  rank.className = "rank";
  rank.textContent = String(index + 1);
  const text = document.createElement("span");
  text.className = "text";
  text.textContent = candidate.text || "(nothing)";
  const score = document.createElement("span");
  score.className = "score";
  score.textContent = candidate.score.toFixed(2).replace("-", "\u2212");
  score.title = "score: log-probability, normalised by length";
  item.append(rank, text, score);
  item.addEventListener("click", () => choose(index));
  return item;
}

function choose(index) {
  props.value = { ...props.value, selected: index };
  draw();
  trigger("select", { index });
}

function draw() {
  const candidates = props.value?.candidates ?? [];
  place.replaceChildren();
  element.hidden = candidates.length < 2;
  if (element.hidden) return;
  const heading = document.createElement("h2");
  heading.textContent = "Alternatives";
  const list = document.createElement("div");
  list.className = "list";
  list.append(...candidates.map(button));
  place.append(heading, list);
}

draw();
watch("value", draw);

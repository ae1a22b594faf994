// Marks a comparison that is out of date. props.value is {text}, the text compared, or null.

const source = () => document.querySelector("#compare-source textarea");

function update() {
  const isStale = Boolean(props.value) && source().value !== props.value.text;
  element.querySelector(".compared").hidden = !isStale;
  document.querySelector("#comparison").dataset.state = isStale ? "stale" : "";
}

document.addEventListener("input", (event) => event.target === source() && update());
watch("value", update);

// Marks a comparison that is out of date. props.value is the text that was compared, or null.

const source = () => document.querySelector("#compare-source textarea");

function update() {
  const isStale = props.value !== null && source().value !== props.value;
  element.querySelector(".compared").hidden = !isStale;
  document.querySelector("#comparison").dataset.state = isStale ? "stale" : "";
}

document.addEventListener("input", (event) => event.target === source() && update());
watch("value", update);

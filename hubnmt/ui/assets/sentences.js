// The sentence to inspect, of several. props.value is the translation state of the page, or null;
// triggers "select" when another is chosen. Texts are inserted with textContent, never as HTML.

const label = element.querySelector("label");
const select = element.querySelector("select");
const MAX_SHOWN = 60; // characters

// Offsets count code points, as in Python.
function draw() {
  const { src = "", sentences = [], sentence } = props.value ?? {};
  const characters = [...src];
  label.hidden = element.hidden = sentences.length < 2;
  select.replaceChildren(
    ...sentences.map(([start, end], i) => {
      const text = characters.slice(start, Math.min(end, start + MAX_SHOWN)).join("");
      return new Option(`${i + 1}: ${text}`, i, false, i === sentence);
    }),
  );
}

select.addEventListener("change", () => {
  props.value = { ...props.value, sentence: Number(select.value) };
  document.querySelector("#inside").dataset.state = "stale"; // see typing.js
  trigger("select");
});
draw();
watch("value", draw);

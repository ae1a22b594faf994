// Positional encodings as an image. props.value is a packed tensor or null; one row per position, one
// column per feature.

const canvas = element.querySelector("canvas");
let values = null;

// Two colours with varying opacity over the background.
function draw() {
  const value = props.value;
  find("plot").hidden = !value;
  if (!value) return;
  values = unpackTensor(value).numbers;
  canvas.width = value.columns;
  canvas.height = value.rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(value.columns, value.rows);
  const [up, down] = ["--wave-up", "--wave-down"].map((name) =>
    getComputedStyle(element).getPropertyValue(name).split(",").map(Number),
  );
  values.forEach((wave, i) => {
    image.data.set([...(wave < 0 ? down : up), 255 * Math.abs(wave)], 4 * i);
  });
  context.putImageData(image, 0, 0);
  find("end").textContent = `feature ${value.columns - 1}`;
  find("readout").textContent = "Hover over the image to read a value.";
}

canvas.addEventListener("pointermove", (event) => {
  const { width, height } = canvas.getBoundingClientRect();
  const column = Math.min(canvas.width - 1, Math.floor((event.offsetX / width) * canvas.width));
  const row = Math.min(canvas.height - 1, Math.floor((event.offsetY / height) * canvas.height));
  if (column < 0 || row < 0) return;
  const wave = values[row * canvas.width + column].toFixed(2).replace("-", "\u2212");
  find("readout").textContent = `Position ${row}, feature ${column}: ${wave}`;
});
new MutationObserver(draw).observe(document.body, { attributeFilter: ["class"] });
draw();
watch("value", draw);

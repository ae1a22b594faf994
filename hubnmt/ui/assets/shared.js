// Shared by the scripts of all components; loaded before each of them.

const find = (name) => element.querySelector(`.${name}`);

function make(tag, name = "", text = "") {
  return Object.assign(document.createElement(tag), { className: name, textContent: text });
}

function svgNode(tag, attributes = {}, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
  node.textContent = text;
  return node;
}

// A tensor as `pack` of services/layer_values.py encodes it.
function unpackTensor({ rows, columns, scale, values }) {
  const bytes = Uint8Array.from(atob(values), (char) => char.charCodeAt(0));
  const packed = new Int16Array(bytes.buffer);
  const numbers = Float32Array.from(packed, (value) => (value / 32767) * scale);
  return { rows, columns, scale, numbers };
}

// A slider over numbered steps with buttons before and after it, and one that plays them. `last()` is
// the number of the last step, where it begins; `draw(n)` shows one.
function stepper(last, draw, pause) {
  let at = 0;
  let timer = null;

  function go(to) {
    at = Math.max(0, Math.min(last(), to));
    find("step").value = at;
    find("back").disabled = at === 0;
    find("next").disabled = at === last();
    draw(at);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    find("play").textContent = "Play";
  }

  function play() {
    if (timer) return stop();
    go(at === last() ? 0 : at);
    find("play").textContent = "Pause";
    timer = setInterval(() => (at === last() ? stop() : go(at + 1)), pause);
  }

  find("back").addEventListener("click", () => (stop(), go(at - 1)));
  find("next").addEventListener("click", () => (stop(), go(at + 1)));
  find("play").addEventListener("click", play);
  find("step").addEventListener("input", (event) => (stop(), go(Number(event.target.value))));

  return function begin() {
    stop();
    find("step").max = last();
    go(last());
  };
}

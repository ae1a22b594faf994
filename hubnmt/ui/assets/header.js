// Light/dark switch: Gradio's dark mode is a class on the body.
element.querySelector(".shade").addEventListener("click", () => {
  document.body.classList.toggle("dark");
});

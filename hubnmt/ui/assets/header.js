// The light/dark switch. Gradio marks the dark page with a class on the body.
element.querySelector(".shade").addEventListener("click", () => {
  document.body.classList.toggle("dark");
});

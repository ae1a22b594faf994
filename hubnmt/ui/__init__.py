"""The page: a translator in the browser that shows where it looks.

Takes a `Translator` per model reference, gives a Gradio app. The rooms, in the order in which they
may import each other:

- `languages`: names of languages, and sentences to try
- `facts`: what a model's card and config say about it, at a glance
- `registry`: which models this page may open; loads them late, keeps few
- `figures`: values to HTML and to what the explorer draws; everything from outside is escaped
- `handlers`: what the page and the named endpoints do, without a server
- `layout`: components, labels, wiring; the only door to Gradio

The explorer itself is drawn by the browser, from `assets/`. Nothing here knows how translation
works, and nothing outside imports from here but `app.py`.
"""

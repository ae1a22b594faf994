"""The page: a translator in the browser that shows where it looks.

Takes a `Translator` per model reference, gives a Gradio app. The rooms, in the order in which they
may import each other:

- `languages`, `examples`: names of languages; sentences to try
- `facts`: what a model's card and config say about it, at a glance
- `controls`: the decoding options, their ranges and presets, as plain data
- `fetching`: models of the Hub, none too large, and not ever more of them on the disk
- `registry`: which models this page may open; loads them late, keeps few
- `picker`: which models it suggests, the Hub's included; what is a search of the Hub
- `zero_gpu`: the GPU that a Space may be lent
- `figures`: values to HTML and to what the explorer draws; everything from outside is escaped
- `limits`: how much one visitor may ask for at once
- `handlers`: what the first tab does, without a server
- `tables`, `files`: uploads read and written; a file translated in chunks and measured
- `compare`, `runs`, `learn`: two ways side by side; a run's records; what the page explains
- `subject`, `look`: what is looked at; the explorer, steering and the head switches
- `endpoints`: what clients and agents call by name
- `card_view`, `drawings`, `views`: a model's card; line charts; what files, comparison and
  learning show, as HTML
- `parts`: what every tab is made of, and errors as sentences
- `options`: the decoding options, drawn and wired
- `hub_search`, `model_picker`: what was typed into a picker, searched for on the Hub; the picker
- `look_panels`: the lower half of the first tab
- `translate_tab`, `compare_tab`, `files_tab`, `learn_tab`: a room for each tab
- `client_api`: the endpoints, put into the page
- `layout`: the model, the tabs, and what reaches across them

From `parts` on the rooms know Gradio, and none before. The explorer itself is drawn by the browser,
from `assets/`. Nothing here knows how translation works, and nothing outside imports from here but
`app.py`.
"""

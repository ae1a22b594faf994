"""The page's attention explorer as the output of a notebook cell.

The document stands in an `iframe`, as styles and scripts of the notebook must not mix with its own.
"""

import html
import json
from pathlib import Path

from hubnmt.attention.explorer import MAX_WEIGHTS, explorer_figure
from hubnmt.attention.maps import Attention

ASSETS = Path(__file__).parents[1] / "ui" / "assets"

DOCUMENT = """<!doctype html><meta charset="utf-8"><style>{css}
body {{ margin: 0; font-family: system-ui, sans-serif; }}</style>
<div id="explorer">{template}</div>
<script>((element, props, trigger, watch) => {{{script}
}})(document.getElementById("explorer"), {{ value: {figure} }}, () => {{}}, () => {{}});</script>"""
"""The names are those that `gr.HTML` gives to scripts."""

FIT = "this.style.height = `${this.contentDocument.documentElement.scrollHeight + 8}px`"


def explorer_html(maps: Attention) -> str:
    """Return an `iframe` with the interactive maps, or a sentence if there are too many weights."""
    n_weights = sum(each.numel() for each in (maps.cross, maps.encoder_self, maps.decoder_self))
    if n_weights > MAX_WEIGHTS:
        return (
            f"<p>{n_weights:,} attention weights are too many to display: limit {MAX_WEIGHTS:,}</p>"
        )
    figure = explorer_figure(maps, None) | {"languages": ["", ""]}
    scripts = [path.read_text("utf-8") for path in sorted(ASSETS.glob("explorer*.js"))]
    document = DOCUMENT.format(
        css=(ASSETS / "page.css").read_text("utf-8"),
        template=(ASSETS / "explorer.html").read_text("utf-8"),
        script="\n".join(scripts),
        figure=json.dumps(figure).replace("<", "\\u003c"),
    )
    return (
        f'<iframe title="Attention" srcdoc="{html.escape(document)}" onload="{FIT}" '
        'style="width: 100%; height: 640px; border: 0"></iframe>'
    )

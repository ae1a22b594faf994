import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from hubnmt.config import DecodingConfig
from hubnmt.errors import ModelNotFoundError
from hubnmt.ui.controls import control_values
from hubnmt.ui.handlers import Handlers
from hubnmt.ui.layout import ASSETS, build_demo, launch_options
from hubnmt.ui.registry import ModelRegistry
from tests.page import serving


@pytest.fixture
def demo(handlers: Handlers) -> gr.Blocks:
    return build_demo(handlers)


@pytest.fixture
def client(handlers: Handlers) -> Iterator[Client]:
    with serving(handlers) as url:
        client = Client(url, verbose=False)
        yield client
        client.close()


def _components(demo: gr.Blocks, kind: type) -> list[Any]:
    return [block for block in demo.blocks.values() if isinstance(block, kind)]


def test_building_opens_the_first_model(make_registry: Callable[..., ModelRegistry]):
    registry = make_registry()
    build_demo(Handlers(registry))
    assert registry.is_open("first")


def test_a_model_that_cannot_be_opened_stops_the_building(tmp_path: Path):
    def load(name: str) -> Any:
        raise ModelNotFoundError(f"{name}: gone")

    with pytest.raises(ModelNotFoundError, match="gone"):
        build_demo(Handlers(ModelRegistry(load, {"a": tmp_path})))


def test_the_named_endpoints_are_exactly_these(demo: gr.Blocks):
    public = {f.api_name for f in demo.fns.values() if f.api_visibility == "public"}
    assert public == {"translate", "attention", "score", "models"}


def test_every_event_passes_what_its_handler_takes(demo: gr.Blocks):
    for event in demo.fns.values():
        if event.fn is None:
            continue
        inspect.signature(event.fn).bind(*event.inputs)


def test_the_text_grows_in_the_page_and_what_stands_beside_it_comes_last(demo: gr.Blocks):
    streams = [f.fn for f in demo.fns.values() if inspect.isgeneratorfunction(f.fn)]
    values = control_values(DecodingConfig(beam_size=4)).values()
    assert streams
    for stream in streams:
        *grown, last = stream("ein hund", "", *values)
        assert [(notice, rest) for notice, _, *rest in grown] == [("", [gr.skip()] * 2)] * len(
            grown
        )
        assert [text for _, text, *_ in grown] == ["EIN"]
        assert last[1] == "EIN HUND"
        assert last[3]["candidates"]
        (refused,) = stream("", "", *values)
        assert "nothing to translate" in refused[0]
        assert refused[1:] == ("", "", None)


def test_a_preset_for_a_model_that_cannot_be_opened_takes_general_defaults(demo: gr.Blocks):
    presets = [f.fn for f in demo.fns.values() if isinstance(f.fn, functools.partial)]
    assert [preset("no/such")[0] for preset in presets] == [1, 5, 5]


def test_whatever_runs_a_model_stands_in_one_line(demo: gr.Blocks):
    light = [f for f in demo.fns.values() if f.concurrency_id != "model"]
    assert all(f.fn is None or not f.queue or f.api_name == "models" for f in light)
    assert demo._queue.max_size


def test_every_input_has_a_label(demo: gr.Blocks):
    inputs = _components(
        demo, (gr.Textbox, gr.Dropdown, gr.Slider, gr.Number, gr.Checkbox, gr.Dataset)
    )
    visible = [c for c in inputs if c.visible is not False]
    assert len(visible) >= 7
    assert [c for c in visible if not c.label] == []


def test_free_references_are_typed_only_where_they_are_opened(
    make_registry: Callable[..., ModelRegistry],
):
    for allowed in (False, True):
        demo = build_demo(Handlers(make_registry(allow_hub=allowed)))
        (picker,) = _components(demo, gr.Dropdown)
        assert picker.allow_custom_value is allowed


def test_templates_are_constant(demo: gr.Blocks):
    for block in _components(demo, gr.HTML):
        assert "{{" not in block.html_template
        assert "${" not in block.html_template.replace("${value}", "")


@pytest.mark.parametrize("asset", sorted(ASSETS.glob("*.*")), ids=lambda path: path.name)
def test_assets_fetch_nothing_from_elsewhere_and_write_no_html(asset: Path):
    if asset.suffix == ".png":
        return
    text = asset.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    for forbidden in ("http:", "https:", "@import", "url(", "innerHTML", "insertAdjacentHTML"):
        assert forbidden not in text


def test_the_theme_needs_no_font_from_elsewhere():
    theme = launch_options()["theme"]
    assert not any(font.stylesheet()["url"] for font in theme._font if not isinstance(font, str))


def test_clients_call_the_endpoints_by_name(client: Client):
    text, details = client.predict("ein hund", api_name="/translate")
    assert text == "EIN HUND"
    assert details["model"] == "first"
    maps = client.predict("ein hund rennt", layer=1, head=2, api_name="/attention")
    assert "".join(maps["src_tokens"]) == " ein hund rennt<eos>"
    assert len(maps["weights"][0]) == len(maps["src_tokens"])
    scored = client.predict("ein hund", "the dog", api_name="/score")
    assert "".join(scored["tgt_tokens"]) == " the dog<eos>"
    assert client.predict(api_name="/models")[0]["name"] == "first"


def test_clients_give_options_by_the_names_of_the_configuration(client: Client):
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    offered = {p["parameter_name"] for p in endpoints["/translate"]["parameters"]}
    assert offered == {"text", "model", *DecodingConfig().to_dict()}
    _, details = client.predict(
        "ein hund", sample=True, temperature=0.5, n_best=2, prefix="A", api_name="/translate"
    )
    assert len(details["n_best"]) == 2


def test_only_the_text_has_no_default(client: Client):
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    needs = {
        "/translate": ["text"],
        "/attention": ["text"],
        "/score": ["src", "tgt"],
        "/models": [],
    }
    for name, needed in needs.items():
        parameters = endpoints[name]["parameters"]
        required = [p["parameter_name"] for p in parameters if not p["parameter_has_default"]]
        assert required == needed


def test_a_client_gets_the_sentence_of_an_error(client: Client):
    with pytest.raises(AppError, match="there is nothing to translate yet"):
        client.predict("  ", api_name="/translate")
    with pytest.raises(AppError, match="is not on this page"):
        client.predict("ein hund", model="/etc", api_name="/translate")

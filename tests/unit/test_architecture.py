"""The file list is the architecture: imports point down the table below, and nowhere else.

A module may import modules of lower ranks, and earlier ones of its own rank. A package's own name
stands for its `__init__`. A new module needs a place here before anything may import it.
"""

import ast
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

RANKS = [
    ["hubnmt.errors", "hubnmt.config"],
    [
        "hubnmt.metrics",
        "hubnmt.characters",
        "hubnmt.segment",
        "hubnmt.masks",
        "hubnmt.textfile",
        "hubnmt.translation",
        "hubnmt.tokenizer",
    ],
    [
        "hubnmt.dtypes",
        "hubnmt.plan",
        "hubnmt.prefix",
        "hubnmt.pairing",
        "hubnmt.guard",
        "hubnmt.attention_map",
        "hubnmt.batching",
        "hubnmt.model.dropout",
        "hubnmt.model.embedding",
        "hubnmt.model.cache",
        "hubnmt.model.attention",
        "hubnmt.model.feed_forward",
        "hubnmt.model.layers",
        "hubnmt.model.transformer",
        "hubnmt.model.packed_layers",
        "hubnmt.model.packed_cache",
        "hubnmt.model.packed_sentence",
        "hubnmt.model.packed",
        "hubnmt.model",
    ],
    [
        "hubnmt.decoding.protocol",
        "hubnmt.decoding.scoring",
        "hubnmt.decoding.constraints",
        "hubnmt.decoding.greedy",
        "hubnmt.decoding.beam",
        "hubnmt.decoding.sampling",
        "hubnmt.decoding.model_step",
        "hubnmt.decoding",
    ],
    [
        "hubnmt.anatomy",
        "hubnmt.checkpoint",
        "hubnmt.card",
        "hubnmt.metadata",
        "hubnmt.engine",
        "hubnmt.export",
        "hubnmt.hub.reference",
        "hubnmt.hub.client",
        "hubnmt.hub.pull",
        "hubnmt.hub.push",
        "hubnmt.hub.listing",
        "hubnmt.hub.space",
        "hubnmt.hub",
    ],
    [
        "hubnmt.locate",
        "hubnmt.explain",
        "hubnmt.ct2_engine",
        "hubnmt.retry",
        "hubnmt.join",
        "hubnmt.pipeline",
        "hubnmt.alternatives",
        "hubnmt.translator",
        "hubnmt.leave_out",
        "hubnmt.knock_out",
        "hubnmt",
        "hubnmt.docs.tour",
    ],
    [
        "hubnmt.ui.languages",
        "hubnmt.ui.examples",
        "hubnmt.ui.facts",
        "hubnmt.ui.controls",
        "hubnmt.ui.figures",
        "hubnmt.ui.fetching",
        "hubnmt.ui.registry",
        "hubnmt.ui.picker",
        "hubnmt.ui.zero_gpu",
        "hubnmt.ui.memory",
        "hubnmt.ui.scheduler",
        "hubnmt.ui.uploads",
        "hubnmt.ui.limits",
        "hubnmt.ui.handlers",
        "hubnmt.ui.tables",
        "hubnmt.ui.files",
        "hubnmt.ui.differences",
        "hubnmt.ui.compare",
        "hubnmt.ui.subject",
        "hubnmt.ui.look",
        "hubnmt.ui.runs",
        "hubnmt.ui.learn",
        "hubnmt.ui.endpoints",
        "hubnmt.ui.card_view",
        "hubnmt.ui.drawings",
        "hubnmt.ui.views",
        "hubnmt.ui.middleware",
        "hubnmt.ui.parts",
        "hubnmt.ui.options",
        "hubnmt.ui.hub_search",
        "hubnmt.ui.model_picker",
        "hubnmt.ui.look_panels",
        "hubnmt.ui.translate_tab",
        "hubnmt.ui.compare_tab",
        "hubnmt.ui.files_tab",
        "hubnmt.ui.learn_tab",
        "hubnmt.ui.client_api",
        "hubnmt.ui.layout",
        "hubnmt.ui",
    ],
    [
        "hubnmt.commands",
        "hubnmt.commands.parser",
        "hubnmt.commands.options",
        "hubnmt.commands.translate",
        "hubnmt.commands.measure",
        "hubnmt.commands.export",
        "hubnmt.commands.inspect",
        "hubnmt.commands.hub",
        "hubnmt.__main__",
        "app",
        "training.settings",
        "training.data_config",
        "training.config",
        "training.arrow",
        "training.scripts",
        "training.headers",
        "training.sources",
        "training.cleaning",
        "training.names",
        "training.typed",
        "training.corpora",
        "training.batches",
        "training.bpe_dropout",
        "training.cache",
        "training.text_store",
        "training.pair_store",
        "training.fitting",
        "training.schedule",
        "training.loss",
        "training.evaluate",
        "training.pictures",
        "training.tracking",
        "training.saving",
        "training.run_folder",
        "training.report",
        "training.toy",
        "training.prepare",
        "training.stream",
        "training.back_translate",
        "training.team",
        "training.feed",
        "training.step",
        "training.weights",
        "training.pretrained",
        "training.state",
        "training.meter",
        "training.kept",
        "training.facts",
        "training.publish",
        "training.hand_over",
        "training.validate",
        "training.loop",
        "training.train",
        "training.word_links",
        "training.phrases",
        "training.alignment",
        "training.finish",
        "training",
    ],
]

ONLY_DOOR = {
    "ctranslate2": "hubnmt.export",
    "datasets": "training.sources",
    "gradio": (
        "hubnmt.ui.parts",
        "hubnmt.ui.options",
        "hubnmt.ui.hub_search",
        "hubnmt.ui.model_picker",
        "hubnmt.ui.look_panels",
        "hubnmt.ui.translate_tab",
        "hubnmt.ui.compare_tab",
        "hubnmt.ui.files_tab",
        "hubnmt.ui.learn_tab",
        "hubnmt.ui.client_api",
        "hubnmt.ui.layout",
    ),
    "huggingface_hub": tuple(
        f"hubnmt.hub.{room}" for room in ("client", "pull", "push", "listing", "space")
    ),
    "plotly": "hubnmt.ui.figures",
    "pyarrow": "training.arrow",
    "sacrebleu": "hubnmt.metrics",
    "trackio": "training.tracking",
    "wandb": "training.tracking",
    "safetensors": "hubnmt.checkpoint",
    "spaces": "hubnmt.ui.zero_gpu",
    "sentencex": "hubnmt.segment",
    "tokenizers": "hubnmt.tokenizer",
}
"""Third parties that one module, or the few named here, hides from all others."""

MAY_WAIT = {"datasets", "trackio", "wandb", "torch.distributed.nn.functional"}
"""What is so heavy, or so optional, that its door imports it inside a function, when needed."""

MUST_NOT_KNOW = {
    "app": ["torch", "hubnmt.decoding", "hubnmt.model"],
    "hubnmt.__main__": ["gradio", "hubnmt.ui", "torch"],
    "hubnmt.batching": ["hubnmt.model", "hubnmt.tokenizer"],
    "hubnmt.commands": ["gradio", "hubnmt.ui", "torch.nn"],
    "hubnmt.config": ["torch"],
    "hubnmt.decoding.beam": ["hubnmt.model", "hubnmt.tokenizer"],
    "hubnmt.decoding.greedy": ["hubnmt.model", "hubnmt.tokenizer"],
    "hubnmt.decoding.protocol": ["hubnmt.model", "hubnmt.tokenizer"],
    "hubnmt.decoding.scoring": ["hubnmt.model", "hubnmt.tokenizer"],
    "hubnmt.hub": ["torch", "gradio", "hubnmt.model", "hubnmt.decoding"],
    "hubnmt.metrics": ["torch"],
    "hubnmt.model": ["hubnmt.batching", "hubnmt.segment", "hubnmt.tokenizer"],
    "hubnmt.segment": ["torch"],
    "hubnmt.tokenizer": ["torch"],
    "hubnmt.ui": ["torch", "hubnmt.decoding", "hubnmt.model"],
    "training": ["hubnmt.ui", "hubnmt.commands", "hubnmt.__main__", "app"],
    "training.loop": ["argparse"],
    "training.schedule": ["torch"],
    "training.settings": ["torch"],
}
"""Strangers of each module or of all modules of a package, beside what the ranks forbid."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Arrow:
    """One import statement, resolved to the name of the module it reaches."""

    source: str
    target: str
    line: int
    in_function: bool

    def __str__(self) -> str:
        return f"{self.source} line {self.line} imports {self.target}"


def list_modules(repo: Path) -> dict[str, Path]:
    """Map the dotted name of every module of ours to its file."""
    files = [*repo.glob("hubnmt/**/*.py"), *repo.glob("training/**/*.py"), *repo.glob("app.py")]
    names = {".".join(file.relative_to(repo).with_suffix("").parts): file for file in files}
    return {name.removesuffix(".__init__"): file for name, file in names.items()}


def find_arrows(source: str, text: str, modules: set[str]) -> Iterator[Arrow]:
    """Read every import of a module, wherever it stands in the file."""
    tree = ast.parse(text)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, functions)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        for target in _targets(node, modules):
            yield Arrow(
                source=source,
                target=target,
                line=getattr(node, "lineno", 0),
                in_function=id(node) in inner,
            )


def _targets(node: ast.AST, modules: set[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.level:
            return [f"{'.' * node.level}{node.module or ''}"]
        full = [f"{node.module}.{alias.name}" for alias in node.names]
        return sorted({name if name in modules else str(node.module) for name in full})
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        name = node.args[0] if node.args else None
        return [str(name.value) if isinstance(name, ast.Constant) else "?"]
    return []


def _is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def find_faults(arrow: Arrow) -> list[str]:
    """Say what is wrong with an arrow, if anything."""
    place = {name: (rank, at) for rank, row in enumerate(RANKS) for at, name in enumerate(row)}
    faults = []
    if arrow.target.startswith((".", "?")):
        faults.append(f"{arrow}: write the absolute name")
    if arrow.in_function and arrow.target not in MAY_WAIT:
        faults.append(f"{arrow} inside a function: imports stand at the top")
    is_ours = arrow.target.split(".")[0] in ("hubnmt", "training", "app", "tests")
    if is_ours and arrow.target not in MAY_WAIT:
        if arrow.target not in place:
            faults.append(f"{arrow}, which has no rank")
        elif arrow.source in place and place[arrow.target] >= place[arrow.source]:
            faults.append(f"{arrow}, which is not below it")
    door = ONLY_DOOR.get(arrow.target.split(".")[0], arrow.source)
    doors = (door,) if isinstance(door, str) else door
    if arrow.source not in doors:
        faults.append(f"{arrow}, whose only door is {' or '.join(doors)}")
    for package, strangers in MUST_NOT_KNOW.items():
        if _is_within(arrow.source, package):
            known = [name for name in strangers if _is_within(arrow.target, name)]
            faults += [
                f"{arrow}, a stranger to it" for name in known if not _is_within(name, package)
            ]
    return faults


@pytest.fixture(scope="module")
def modules(repo: Path) -> dict[str, Path]:
    return list_modules(repo)


def test_every_module_has_its_place(modules: dict[str, Path]):
    table = [name for row in RANKS for name in row]
    assert sorted(set(modules) - set(table)) == []


def test_the_table_names_each_module_once_and_no_ghosts(modules: dict[str, Path]):
    table = [name for row in RANKS for name in row]
    assert sorted(set(table) - set(modules)) == []
    assert len(table) == len(set(table))


def test_imports_point_down(modules: dict[str, Path]):
    faults = [
        fault
        for name, file in modules.items()
        for arrow in find_arrows(name, file.read_text(encoding="utf-8"), set(modules))
        for fault in find_faults(arrow)
    ]
    assert not faults, "\n".join(faults)


def test_modules_say_what_they_take_and_give(modules: dict[str, Path]):
    silent = [
        name
        for name, file in modules.items()
        if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert silent == []


@pytest.mark.parametrize("package", ["hubnmt", "training", "app"])
def test_no_package_of_ours_hides_a_library(package: str):
    assert package not in sys.stdlib_module_names


@pytest.mark.parametrize(
    ("source", "line", "fault"),
    [
        ("hubnmt.config", "from hubnmt.tokenizer import Tokenizer", "not below it"),
        ("hubnmt.config", "from hubnmt import tokenizer", "not below it"),
        ("hubnmt.model.layers", "import hubnmt.model.transformer", "not below it"),
        ("hubnmt.model.layers", "from hubnmt import Translator", "not below it"),
        ("hubnmt.translator", "import training.loss", "not below it"),
        ("hubnmt.masks", "from . import errors", "absolute name"),
        ("hubnmt.masks", "from hubnmt.utils import pad", "no rank"),
        ("hubnmt.masks", "def f():\n    import json", "inside a function"),
        ("hubnmt.masks", "f = lambda: __import__('importlib').import_module('json')", "inside"),
        ("hubnmt.__main__", "import_module(name)", "absolute name"),
        ("hubnmt.translator", "from sacrebleu import corpus_bleu", "only door is hubnmt.metrics"),
        ("app", "import gradio as gr", "only door is hubnmt.ui.parts"),
        ("hubnmt.config", "import torch.nn", "a stranger"),
        ("hubnmt.decoding.beam", "from hubnmt.model import Transformer", "a stranger"),
        ("hubnmt.model.layers", "import hubnmt.tokenizer", "a stranger"),
        ("training.train", "from hubnmt.ui.figures import draw", "a stranger"),
    ],
)
def test_a_wrong_arrow_is_seen(source: str, line: str, fault: str, modules: dict[str, Path]):
    arrows = list(find_arrows(source, line, set(modules)))
    faults = [text for arrow in arrows for text in find_faults(arrow)]
    assert any(fault in text for text in faults), faults


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("hubnmt.model.layers", "from hubnmt.model.attention import MultiHeadAttention"),
        ("hubnmt.decoding.model_step", "from hubnmt.model import Transformer"),
        ("hubnmt.tokenizer", "import json, tokenizers\nfrom tokenizers import models"),
        ("hubnmt.ui.handlers", "from hubnmt.ui import figures"),
        ("training.train", "from hubnmt import Translator"),
    ],
)
def test_a_right_arrow_passes(source: str, line: str, modules: dict[str, Path]):
    arrows = list(find_arrows(source, line, set(modules)))
    assert arrows
    assert [text for arrow in arrows for text in find_faults(arrow)] == []

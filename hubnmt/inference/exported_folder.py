"""What an exported model needs to work without hubnmt: tokenizers, and a README with its use."""

from collections.abc import Callable
from pathlib import Path

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.text.languages import example_sentence

MODEL_CARD = "MODEL_CARD.md"


def add_use(
    folder: Path,
    stored: StoredModel,
    *,
    packages: str,
    write_code: Callable[[str, str], str],
    interface: str = "",
) -> None:
    """Write tokenizers, README and the model's own card.

    Args:
        folder: the exported folder.
        stored: the model.
        packages: those that `pip` installs for the code.
        write_code: maps a source sentence, and the list of both tokenizer files, to Python code
            that prints a translation.
        interface: paragraphs on what the files of the model take and give.
    """
    stored.tokenizers.save(folder)
    names = sorted(path.name for path in folder.glob("tokenizer*.json"))  # source first
    config = stored.model.config
    code = write_code(repr(example_sentence(config.src_lang)), repr(names * (3 - len(names))))
    card = ""
    if stored.card:
        (folder / MODEL_CARD).write_text(stored.card, encoding="utf-8")
        card = f"\nData, scores and licence of the model: [{MODEL_CARD}]({MODEL_CARD})\n"
    (folder / "README.md").write_text(
        f"""\
# Translation, {config.src_lang} to {config.tgt_lang}

Exported by hubnmt. Needs `pip install {packages}` and nothing else; run in this folder:

```python
{code.strip()}
```
{interface}
The model translates one sentence at a time. Splitting texts into sentences, copying of URLs and
numbers, and a second search where the output is degenerate are parts of hubnmt, not of this folder.
{card}""",
        encoding="utf-8",
    )

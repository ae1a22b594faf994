"""ONNX Runtime computes the same as our engine from an exported folder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from hubnmt.checkpoint.folder import StoredModel, load_model
from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.hub.pull import find_model
from hubnmt.inference.engine import TorchEngine, max_tgt_tokens
from hubnmt.inference.onnx_export import export_onnx

ROWS = [[40, 50, 60, 70, 80], [90, 41], [55, 66, 77, 88, 99, 44, 33, 22]]
SOURCES = {"de-en-multi30k": "captions.de", "en-ml": "captions.en"}


def decode(
    folder: Path, rows: Sequence[list[int]], caps: Sequence[int], *, pad: int, bos: int, eos: int
) -> tuple[list[list[int]], list[list[float]]]:
    """Search greedily with ONNX Runtime, all rows in one batch: ids and their log-probabilities."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    encoder, decoder = (
        onnxruntime.InferenceSession(folder / name, settings)
        for name in ("encoder.onnx", "decoder.onnx")
    )
    longest = max(map(len, rows)) + 1
    src_ids = np.array([[*row, eos] + [pad] * (longest - len(row) - 1) for row in rows])
    state = {"src_pad_mask": np.arange(longest) > np.array([[len(row)] for row in rows])}
    state["memory_k"], state["memory_v"] = encoder.run(None, {"src_ids": src_ids, **state})
    state["past_k"] = state["past_v"] = state["memory_k"][:, :, :, :0]
    last_ids = np.full(len(rows), bos)
    ids: list[list[int]] = [[] for _ in rows]
    log_probs: list[list[float]] = [[] for _ in rows]
    for n_generated in range(max(caps) + 1):
        scores, state["past_k"], state["past_v"] = decoder.run(
            None, {"last_ids": last_ids, **state}
        )
        last_ids = np.where(np.array(caps) == n_generated, eos, scores.argmax(-1))
        for row, (chosen, token) in enumerate(zip(ids, last_ids, strict=True)):
            if eos not in chosen:
                chosen.append(int(token))
                log_probs[row].append(float(scores[row, token]))
    return [chosen[:-1] for chosen in ids], log_probs


def compare(stored: StoredModel, folder: Path, rows: Sequence[list[int]], **options: int) -> None:
    """Compare a greedy search of ONNX Runtime with ours."""
    decoding = DecodingConfig(beam_size=1, **options)
    engine = TorchEngine(stored.model, tokenizers=stored.tokenizers)
    ours = [found[0] for found in run_search(engine.search(rows, decoding))]
    tgt = stored.tokenizers.tgt
    ids, log_probs = decode(
        folder,
        rows,
        [max_tgt_tokens(len(row), decoding) for row in rows],
        pad=tgt.pad_id,
        bos=tgt.bos_id,
        eos=tgt.eos_id,
    )
    assert ids == [each.ids for each in ours]
    for each, theirs in zip(ours, log_probs, strict=True):
        assert theirs == pytest.approx(each.token_log_probs, abs=1e-3)


def test_every_shape_of_model_gives_the_same_tokens(stored: StoredModel, tmp_path: Path) -> None:
    export_onnx(stored, tmp_path / "out")
    compare(stored, tmp_path / "out", ROWS, max_new_tokens=7)


@pytest.mark.parametrize("name", SOURCES)
def test_a_hundred_sentences_give_the_same_tokens(name: str, repo: Path, tmp_path: Path) -> None:
    stored = load_model(find_model(name))
    export_onnx(stored, tmp_path / "out")
    lines = (repo / "tests" / "fixtures" / SOURCES[name]).read_text(encoding="utf-8").splitlines()
    rows = stored.tokenizers.src.encode_batch(lines)
    assert len(rows) == 100
    compare(stored, tmp_path / "out", rows)

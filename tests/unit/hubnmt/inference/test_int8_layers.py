"""Products in 8 bits are close to those in float32, and translate nearly alike."""

import json
from pathlib import Path

import pytest
import torch

from hubnmt.errors import ConfigError
from hubnmt.inference.int8_layers import is_available, pack_int8
from hubnmt.inference.packed_layers import pack_affine, pack_projection
from hubnmt.translator import Translator

pytestmark = pytest.mark.skipif(not is_available(), reason="PyTorch without FBGEMM")


@pytest.fixture(params=["this CPU", "a CPU without VNNI"])
def cpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU that products are packed for."""
    if request.param != "this CPU":
        monkeypatch.setattr(torch.cpu, "get_capabilities", dict)


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("n_rows", [1, 3, 100, 300])
@pytest.mark.parametrize(("n_in", "n_out"), [(128, 384), (256, 64), (64, 3000)])
def test_a_product_is_close_to_float32(n_rows: int, n_in: int, n_out: int) -> None:
    weight, bias, x = torch.randn(n_out, n_in) * 0.1, torch.randn(n_out), torch.randn(n_rows, n_in)
    exact, affine = pack_affine(weight, bias)(x), pack_int8(pack_affine(weight, bias))
    assert (affine(x) - exact).norm() < 0.03 * exact.norm()
    stream = torch.randn(n_rows, n_out)
    torch.testing.assert_close(affine.add_to(stream.clone(), x), stream + affine(x))
    out = torch.zeros(n_rows, 2 * n_out)[:, :n_out]
    affine.write_to(out, x)
    torch.testing.assert_close(out, affine(x))
    projected = pack_int8(pack_projection(weight))(x[None])
    assert (projected - (exact - bias)).norm() < 0.03 * (exact - bias).norm()


def test_equal_signs_do_not_saturate() -> None:
    weight, x = torch.full((1024, 1024), 0.1), torch.full((4, 1024), 5.0)
    exact = x @ weight.t()
    assert (pack_int8(pack_affine(weight, torch.zeros(1024)))(x) - exact).abs().max() < 0.02 * 512


def test_texts_in_8_bits_are_nearly_those_of_float32(repo: Path) -> None:
    lines = (repo / "tests/fixtures/phrases/de-en.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0] for line in lines][1:21]
    exact, found = (
        Translator.from_pretrained("de-en-multi30k", dtype=dtype).translate(texts, beam_size=1)
        for dtype in ("float32", "int8")
    )
    n_equal = sum(one.text == other.text for one, other in zip(exact, found, strict=True))
    assert n_equal > 15, json.dumps([each.text for each in found])


def test_8_bits_are_for_the_cpu() -> None:
    with pytest.raises(ConfigError, match="needs device = 'cpu'"):
        Translator.from_pretrained("de-en-multi30k", dtype="int8", device="meta")

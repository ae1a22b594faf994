"""Products of oneDNN are those of float32, for every number of rows."""

import pytest
import torch

from hubnmt.inference.onednn_layers import OneDnnAffine, OneDnnProjection, is_available, pack_onednn
from hubnmt.inference.packed_layers import pack_affine, pack_projection

pytestmark = pytest.mark.skipif(not is_available(), reason="PyTorch without oneDNN")
N_ROWS = pytest.mark.parametrize("n_rows", [1, 3, 64])


@pytest.fixture
def on_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU on which the layers are multiplied with oneDNN, too."""
    found = {"cpu_name": "AMD EPYC", "avx512_f": True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)


@N_ROWS
def test_the_product_with_the_vocabulary_is_exact(n_rows: int) -> None:
    weight, x = torch.randn(500, 64), torch.randn(n_rows, 64)
    projection = pack_onednn(pack_projection(weight))
    assert isinstance(projection, OneDnnProjection)
    torch.testing.assert_close(projection(x), x @ weight.t(), atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(projection(x[None]), x[None] @ weight.t(), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("n_rows", [1, 3, 64, 200])
@pytest.mark.usefixtures("on_amd")
def test_the_products_of_layers_are_exact(n_rows: int) -> None:
    weight, bias, x = torch.randn(96, 64), torch.randn(96), torch.randn(n_rows, 64)
    affine, exact = pack_onednn(pack_affine(weight, bias)), x @ weight.t() + bias
    assert isinstance(affine, OneDnnAffine)
    torch.testing.assert_close(affine(x), exact, atol=1e-4, rtol=1e-5)
    out = torch.empty(n_rows, 200)[:, :96]
    affine.write_to(out, x)
    torch.testing.assert_close(out, exact, atol=1e-4, rtol=1e-5)
    stream = torch.randn(n_rows, 96)
    torch.testing.assert_close(
        affine.add_to(stream.clone(), x), stream + exact, atol=1e-4, rtol=1e-5
    )

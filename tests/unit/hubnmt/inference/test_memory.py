"""Freed memory is kept for the next search."""

import platform

import pytest
import torch

from hubnmt.inference.fast_layers import keep_freed_memory

resource = pytest.importorskip("resource", reason="needs POSIX")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_the_same_tensors_again_cause_few_page_faults() -> None:
    keep_freed_memory()
    counts = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        tensors = [torch.ones(5, 2**20) for _ in range(6)]  # 120 MB, 30,000 pages
        del tensors
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert counts[-1] < 3_000

"""The reference backend: which operations have a fast NumPy telling, and what this machine's BLAS allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from cuda_kernels.common.signatures import Joined
from cuda_kernels.reference.attention import Attention
from cuda_kernels.reference.linear import Products
from cuda_kernels.reference.norms import rms_norm


def build(
    shapes: tuple[tuple[int, int], ...], invariance: bool | Literal["required"]
) -> tuple[dict[str, Callable[..., Any]], Joined, tuple[str, ...]]:
    """Fast tellings by op name, linear layers at once, and notes for `doctor`. Raises NotInvariant if invariance is
    required and not there."""
    products, attention = Products(shapes, invariance), Attention()
    fast: dict[str, Callable[..., Any]] = {
        "rms_norm": rms_norm,
        "linear": products.linear,
        "lm_head": products.lm_head,
        "attention_prefill": attention,
        "attention_decode_ragged": attention,
    }
    return fast, Joined(products.linears, products.gate_up), products.notes()

"""The reference backend: which operations have a fast NumPy telling, and what this machine's BLAS allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal


def build(
    shapes: tuple[tuple[int, int], ...], invariance: bool | Literal["required"]
) -> tuple[dict[str, Callable[..., Any]], tuple[str, ...]]:
    """Fast tellings by op name, and notes for `doctor`."""
    return {}, ()

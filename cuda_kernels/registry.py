"""Operation x telling -> callable. The only way into the kernels.

    get("linear", "spec")                         one callable
    make_ops("reference", shapes=[(N, K), ...])   a whole backend, tested on this machine

Tellings are imported when asked for: reading this file loads neither Numba nor CuPy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cuda_kernels.common import signatures as sig
from cuda_kernels.common.device import array_module
from cuda_kernels.common.types import Array
from cuda_kernels.errors import KernelUnavailable

OPS = (
    "embed",
    "rms_norm",
    "qk_norm",
    "linear",
    "rope_and_append",
    "attention_decode_ragged",
    "attention_prefill",
    "lm_head",
    "sample",
    "kv_align",
    "kv_strip",
    "kv_gather",
    "kv_scatter",
)
MODULES = {"spec": "spec", "numba": "numba_kernel", "raw": "raw"}

Backend = Literal["reference", "numba", "raw"]
Invariance = bool | Literal["required"]


@dataclass(frozen=True)
class Ops:
    """A backend: one callable per operation, its array module, and what was chosen for this machine.

    tellings  op -> telling in use, for the path line
    notes     lines for `doctor` and `inspect`: classes of linear shapes, builds, fallbacks
    joined    linear layers of one x in one go, where the backend can
    """

    embed: sig.Embed
    rms_norm: sig.RmsNorm
    qk_norm: sig.QkNorm
    linear: sig.Linear
    rope_and_append: sig.RopeAndAppend
    attention_decode_ragged: sig.Attention
    attention_prefill: sig.Attention
    lm_head: sig.LmHead
    sample: sig.Sample
    kv_align: sig.KvAlign
    kv_strip: sig.KvStrip
    kv_gather: sig.KvGather
    kv_scatter: sig.KvScatter
    xp: Any
    backend: str
    takes_bias: bool
    tellings: dict[str, str]
    notes: tuple[str, ...]
    joined: sig.Joined | None = None

    def linears(self, x: Array, weights: Sequence[Array], biases: Sequence[Array | None]) -> list[Array]:
        """x [T, K] through several linear layers: weights [N, K], biases [N] or None -> [T, N] each."""
        if self.joined is not None:
            return self.joined.linears(x, weights, biases)
        return [self.linear(x, w, bias) for w, bias in zip(weights, biases, strict=True)]

    def gate_up(self, x: Array, gate: Array, up: Array, gate_bias: Array | None, up_bias: Array | None) -> Array:
        """x [T, K], gate and up [F, K] -> silu(gate(x)) * up(x), [T, F]."""
        if self.joined is not None:
            return self.joined.gate_up(x, gate, up, gate_bias, up_bias)
        return self.linear(x, up, up_bias, gate=self.linear(x, gate, gate_bias))


def get(op: str, telling: str) -> Callable[..., Any]:
    """The callable of one op in one telling. Raises KernelUnavailable for an unknown name or a missing telling."""
    if op not in OPS:
        raise KernelUnavailable(f"unknown operation {op!r}; known: {', '.join(OPS)}")
    if telling not in MODULES:
        raise KernelUnavailable(f"unknown telling {telling!r}; known: {', '.join(MODULES)}")
    path = f"cuda_kernels.{op}.{MODULES[telling]}"
    try:
        module = importlib.import_module(path)
    except ImportError as error:
        raise KernelUnavailable(f"{op}: the {telling!r} telling cannot be loaded here: {error}") from error
    found: Callable[..., Any] = getattr(module, op)
    return found


def make_ops(
    backend: Backend = "reference",
    *,
    invariance: Invariance = True,
    shapes: Iterable[tuple[int, int]] = (),
) -> Ops:
    """Build a backend. `shapes` are the (N, K) of the model's linear layers, which `reference` tests at once.

    Raises KernelUnavailable if the backend cannot run here, NotInvariant if invariance="required" cannot be had.
    """
    if invariance not in (True, False, "required"):
        raise ValueError(f"invariance is True, False or 'required', not {invariance!r}")
    if backend == "reference":
        return _reference(invariance, tuple(shapes))
    if backend not in ("numba", "raw"):
        raise KernelUnavailable(f"unknown backend {backend!r}; known: reference, numba, raw")
    return _device(backend)


def _reference(invariance: Invariance, shapes: tuple[tuple[int, int], ...]) -> Ops:
    """NumPy: the specs themselves, with a fast telling of the products and of attention in their place."""
    import numpy as np

    from cuda_kernels.reference.backend import build

    fast, joined, notes = build(shapes, invariance)
    callables: dict[str, Any] = {op: fast.get(op) or get(op, "spec") for op in OPS}
    tellings = {op: "reference" if op in fast else "spec" for op in OPS}
    named: dict[str, Any] = {"backend": "reference", "tellings": tellings, "notes": notes}
    return Ops(**callables, **named, xp=np, takes_bias=True, joined=joined)


def _device(backend: str) -> Ops:
    """Numba or raw kernels, all of one telling."""
    xp, where = array_module(backend)
    callables: dict[str, Any] = {op: get(op, backend) for op in OPS}
    joined = importlib.import_module("cuda_kernels.fused.joined").JOINED if backend == "raw" else None
    named: dict[str, Any] = {
        "backend": backend,
        "tellings": dict.fromkeys(OPS, backend),
        "notes": (where,),
        "joined": joined,
    }
    return Ops(**callables, **named, xp=xp, takes_bias=False)

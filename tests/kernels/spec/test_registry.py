"""The registry: every op has a meaning, names are checked, nothing heavy is imported, nothing silently replaced."""

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

from cuda_kernels.common import signatures
from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.registry import OPS, Ops, get, make_ops


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_a_spec_with_the_common_signature(op: str) -> None:
    name = "".join(word.capitalize() for word in op.split("_"))
    protocol = getattr(signatures, "Attention" if op.startswith("attention") else name)
    want = list(inspect.signature(protocol.__call__).parameters.values())[1:]
    got = list(inspect.signature(get(op, "spec")).parameters.values())
    assert [(p.name, p.default) for p in got] == [(p.name, p.default) for p in want]
    assert get(op, "spec").__doc__


def test_the_reference_backend_is_complete_and_says_what_it_uses() -> None:
    ops = make_ops("reference", shapes=[(64, 32)])
    assert {field.name for field in fields(Ops)} >= set(OPS)
    assert set(ops.tellings) == set(OPS)
    assert {op for op, telling in ops.tellings.items() if telling == "reference"} == {
        "rms_norm",
        "linear",
        "lm_head",
        "attention_prefill",
        "attention_decode_ragged",
    }
    assert len(ops.notes) == 1


@pytest.mark.parametrize(("op", "telling"), [("softmax", "spec"), ("linear", "triton"), ("linear", "Spec")])
def test_unknown_names_are_errors(op: str, telling: str) -> None:
    with pytest.raises(KernelUnavailable, match="known:"):
        get(op, telling)


def test_unknown_options_are_errors() -> None:
    with pytest.raises(KernelUnavailable, match="known: reference"):
        make_ops("cuda")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'required'"):
        make_ops("reference", invariance="yes")  # type: ignore[arg-type]


def test_the_registry_loads_neither_numba_nor_cupy() -> None:
    script = (
        "import sys; from cuda_kernels.registry import make_ops; make_ops('reference');"
        "assert not {'numba', 'cupy', 'ml_dtypes'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

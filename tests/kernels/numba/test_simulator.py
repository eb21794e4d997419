"""The same kernels in Numba's own CUDA simulator: the promise that a reader can step them with Numba alone.

The simulator must be chosen before Numba is imported, so it runs in a process of its own. It polls its threads, which
makes a barrier cost milliseconds; so each op runs once, on the smallest input that reaches every line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
from cases import attention, case, copied, ints
from cuda_kernels.registry import OPS, get

rng = np.random.default_rng(0)
small = {{
    "linear": (rng.standard_normal((1, 3)).astype(np.float32), np.ones((2, 3), np.float32), np.ones(2, np.float32)),
    "lm_head": (rng.standard_normal((1, 3)).astype(np.float32), np.ones((2, 3), np.float32)),
    "attention_prefill": attention(rng, (3,), (1,), group=1, dim=4),
    "attention_decode_ragged": attention(rng, (3,), (1,), group=1, dim=4, pads=(2,)),
    "sample": (rng.standard_normal((1, 7)).astype(np.float32), *(np.array([x], np.float32) for x in (1.0,)), ints(0),
               np.array([1.0], np.float32), np.array([0.0], np.float32), np.array([0.4])),
}}
for op in OPS:
    results = []
    for telling in ("spec", "numba"):
        arguments = copied(small.get(op) or case(op, np.random.default_rng(3)))
        out = get(op, telling)(*arguments)
        results.append([out] * (out is not None) + [a for a in arguments if isinstance(a, np.ndarray)])
    for a, b in zip(*results):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5, equal_nan=True, err_msg=op)
    print(op, flush=True)
"""


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_every_op_runs_in_numba_s_simulator() -> None:
    done = run(SCRIPT.format(here=str(HERE)), NUMBA_ENABLE_CUDASIM="1", TEACHKV_NUMBA_RUNNER="simulator")
    assert done.returncode == 0, done.stderr[-2000:]
    from cuda_kernels.registry import OPS

    assert done.stdout.split() == list(OPS)


@pytest.mark.case("numba/numba#2655")
def test_the_simulator_is_never_taken_for_granted() -> None:
    script = "import numpy as np; from cuda_kernels.registry import get\n"
    script += "get('embed', 'numba')(np.zeros(1, np.int32), np.ones((2, 4), np.float32))"
    done = run(script, NUMBA_ENABLE_CUDASIM="0", TEACHKV_NUMBA_RUNNER="simulator")
    assert done.returncode != 0
    assert "needs NUMBA_ENABLE_CUDASIM=1" in done.stderr

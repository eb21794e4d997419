"""What a person waits for and what the machine must hold: SmolLM2, each time in a fresh process."""

import subprocess
import sys
from typing import Any

import pytest

from teachkv import LLM

pytestmark = pytest.mark.model

PEAK = """
import sys
from teachkv.cli import main
status = main(["generate", "--model", "smollm2", "--max-tokens", "8", "--quiet", "The sea is"])
peak = int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
print(status, peak, file=sys.stderr)
"""

READY = """
import time
began = time.perf_counter()
from teachkv import LLM
with LLM("smollm2", seed=1):
    print(time.perf_counter() - began)
"""


def child(script: str) -> Any:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)


def test_the_peak_of_an_answer_is_weights_and_cache_and_a_third_at_most() -> None:
    """VmHWM counts memory and touched pages of the mapped file alike; KV is what the engine holds while it answers."""
    with LLM("smollm2", seed=1) as llm:
        weights = 4 * sum(array.size for _, array in llm._alive().assembly.loaded.weights.named())
        stream = llm.stream("The sea is")
        next(stream)
        kv = llm.stats()["cache"].allocated_bytes
    status, peak = map(int, child(PEAK).stderr.split())
    assert status == 0
    assert weights > 500e6
    assert 1024 * peak <= 1.3 * (weights + kv)


@pytest.mark.slow
def test_smollm2_is_ready_in_a_second_and_a_half() -> None:
    """From the first import on, weights in the page cache. Other jobs can only make it slower: the best of five."""
    assert min(float(child(READY).stdout) for _ in range(5)) < 1.5

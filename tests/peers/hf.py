"""transformers as the peer: the same folder, float32, whole prompts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch", reason="extra 'peers' is not installed")
transformers = pytest.importorskip("transformers", reason="extra 'peers' is not installed")


class Peer:
    def __init__(self, folder: Path, attention: str = "sdpa") -> None:
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=attention
        ).eval()

    def logits(self, ids: list[int]) -> NDArray[np.float32]:
        """[T, V] of one prompt."""
        with torch.no_grad():
            found: NDArray[np.float32] = self.model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
        return found

    def greedy(self, ids: list[int], count: int) -> tuple[list[int], list[float]]:
        """`count` greedy tokens and the margin of each: best logit minus second best."""
        cache, fed, tokens, margins = None, ids, [], []
        with torch.no_grad():
            for _ in range(count):
                out = self.model(torch.tensor([fed]), past_key_values=cache, use_cache=True)
                cache, best = out.past_key_values, torch.topk(out.logits[0, -1], 2)
                tokens.append(int(best.indices[0]))
                margins.append(float(best.values[0] - best.values[1]))
                fed = tokens[-1:]
        return tokens, margins

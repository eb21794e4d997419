"""Run by test_reference_products.py under another OPENBLAS_CORETYPE: products and attention, bit for bit."""

import numpy as np

from cuda_kernels.registry import make_ops


def products_agree(outs: int, width: int) -> bool:
    ops = make_ops("reference", invariance="required", shapes=[(outs, width)])
    random = np.random.default_rng(0)
    x = random.standard_normal((70, width), dtype=np.float32)
    w = random.standard_normal((outs, width), dtype=np.float32)
    alone = [ops.linear(x[i : i + 1], w).tobytes() for i in range(70)]
    return all(
        [row.tobytes() for row in ops.linear(x[start : start + count], w)] == alone[start : start + count]
        for count in range(2, 71)
        for start in {0, (count * 5) % (71 - count)}
    )


def attention_agrees(heads: int, groups: int, dim: int) -> bool:
    ops = make_ops("reference")
    random = np.random.default_rng(1)
    q = random.standard_normal((150, heads, dim), dtype=np.float32)
    k, v = (random.standard_normal((1, groups, 150, dim), dtype=np.float32) for _ in "kv")

    def ints(*values: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        return np.array(values, np.int32)

    whole = ops.attention_prefill(q, k, v, ints(0, 150), ints(0), ints(150), None, None, 0.3)
    one_by_one = [
        ops.attention_decode_ragged(q[i : i + 1], k, v, ints(0, 1), ints(0), ints(i + 1), None, None, 0.3)
        for i in range(150)
    ]
    return np.concatenate(one_by_one).tobytes() == whole.tobytes()


if __name__ == "__main__":
    wrong = [shape for shape in [(64, 32), (97, 32), (192, 576), (320, 700)] if not products_agree(*shape)]
    wrong += [shape for shape in [(4, 2, 8), (9, 3, 64), (2, 2, 128), (7, 1, 80)] if not attention_agrees(*shape)]
    print(f"differ: {wrong}" if wrong else "equal")
    raise SystemExit(bool(wrong))

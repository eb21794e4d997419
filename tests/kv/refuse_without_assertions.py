"""Run by test_refusals under `python -O`: prints one 'refused' per batch that must not be formed."""

import sys

import numpy as np
from kvfake import OPS, code, spec

from teachkv.errors import GeometryError, PlanRefused
from teachkv.kv import IncrementalBatchCache, RebuildBatchCache
from teachkv.kv.view import Geometry
from teachkv.masks import Masker


def fill(cache: object, lengths: dict[int, int]) -> None:
    for request_id, length in lengths.items():
        cache.add(request_id)  # type: ignore[attr-defined]
        view = cache.open_prefill([request_id], [length])  # type: ignore[attr-defined]
        for layer, shown in enumerate(view.layers):
            row, columns = shown.geometry.row[0], shown.geometry.column
            shown.k[row][:, columns] = shown.v[row][:, columns] = code(request_id, layer, view.positions)
        cache.close(view)  # type: ignore[attr-defined]


def main() -> int:
    if __debug__:
        return 2
    for kind in (RebuildBatchCache, IncrementalBatchCache):
        for rings, maximum, lengths in (((None, 4), 64, {1: 9, 2: 5}), ((None, None), 9, {1: 9, 2: 5})):
            cache = kind(spec(rings=rings, maximum=maximum), OPS, poison=True)
            fill(cache, lengths)
            before = [[layer.k.tobytes() for layer in cache.live_rows(i).layers] for i in lengths]
            try:
                cache.open_decode(list(lengths))
            except PlanRefused as error:
                after = [[layer.k.tobytes() for layer in cache.live_rows(i).layers] for i in lengths]
                if before == after and error.lengths == (9, 5):
                    print("refused")
    row = np.zeros(1, dtype=np.int32)
    for pad in (8, 9):
        dead = Geometry(row, row + pad, row + 8, row + 7)
        try:
            Masker.causal(dead, np.array([0, 1], dtype=np.int32))
        except GeometryError:
            print("refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())

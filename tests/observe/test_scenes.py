"""Scenes hold what the views draw: differences from the twin, and the turns of the threads in their order."""

import numpy as np
import pytest

from teachkv.errors import OptionError
from teachkv.observe.scenes import op_scene, thread_scene

A, B = np.array([[1.0, -2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]])


def test_an_operation_is_told_with_its_distance_from_the_twin() -> None:
    scene = op_scene([("linear", "q", A), ("sample", "token", B)], {"q": A + np.array([[0.0, 0.25], [0.0, 0.0]])})
    first, second = scene.data["ops"]
    assert first["diff"] == 0.25
    assert first["off"] == [[0.0, 0.25], [0.0, 0.0]]
    assert first["cells"] == [[1.0, -2.0], [3.0, 4.0]]
    assert (second["diff"], second["off"]) == (None, None)
    assert scene.lines == ("q (linear): off by 2.5e-01", "token (sample): not in the twin")


def test_a_tensor_of_heads_is_laid_out_in_one_line_per_token() -> None:
    heads = np.arange(12.0).reshape(2, 2, 3)
    (op,) = op_scene([("attention", "a", heads)], {"a": heads.reshape(2, 6) + 1}).data["ops"]
    assert op["cells"][1] == [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
    assert op["shape"] == [2, 2, 3]
    assert op["diff"] == 1.0


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(OptionError, match="no operation was recorded"):
        op_scene([], {})
    with pytest.raises(OptionError, match=r"q is \(2, 2\), the twin's \(1, 2\)"):
        op_scene([("linear", "q", A)], {"q": B})
    with pytest.raises(OptionError, match=r"nothing of copy is touched in blocks \[7\]"):
        thread_scene(TRACE, blocks=[7])


# block, thread, array, write, offset, length: two threads, a barrier, the first one again; then another block
TOUCHES = [
    (0, 0, 0, False, 0, 2),
    (0, 0, 1, True, 0, 1),
    (0, 1, 0, False, 2, 2),
    (0, 0, 1, False, 1, 1),
    (1, 0, 0, False, 4, 2),
]
ARRAYS = [{"name": "src", "shape": (3, 2), "dtype": "float32"}, {"name": "dst", "shape": (2,), "dtype": "float32"}]
LAUNCH = {"kernel": "copy_kernel", "grid": (2, 1, 1), "block": (2, 1, 1), "arrays": ARRAYS, "touches": TOUCHES}
TRACE = {"op": "copy", "telling": "numba", "launches": [LAUNCH], "live": []}


def test_a_turn_ends_when_another_thread_has_its_own() -> None:
    scene = thread_scene(TRACE)
    assert [(f["block"], f["thread"]) for f in scene.data["frames"]] == [(0, 0), (0, 1), (0, 0), (1, 0)]
    assert scene.data["frames"][0]["touches"] == [[0, 0, 0, 2], [1, 1, 0, 1]]
    assert scene.lines[0] == "copy_kernel, block 0, thread 0: reads src (2 numbers), writes dst (1 numbers)"
    assert len(thread_scene(TRACE, blocks=[1]).lines) == 1
    (turn,) = thread_scene(TRACE, blocks=[0], arrays=["dst"]).lines
    assert turn == "copy_kernel, block 0, thread 0: writes dst (1 numbers), reads dst (1 numbers)"

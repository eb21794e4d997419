"""The safetensors header: every contradiction is found before any view of the data exists (mlx#3363)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from teachkv.checkpoint.header import HEADER_LIMIT, read_header
from teachkv.errors import CheckpointError
from tests.toys import peak_growth, refusal, with_header


def entry(shape: Any = (2, 2), offsets: Any = (0, 16), dtype: Any = "F32", **more: Any) -> dict[str, Any]:
    as_list = [list(value) if isinstance(value, tuple) else value for value in (shape, offsets)]
    return {"dtype": dtype, "shape": as_list[0], "data_offsets": as_list[1]} | more


def refused(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    message = refusal(lambda: read_header(path), CheckpointError)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < 400
    return message


DATA = bytes(16)
GOOD = {"w": entry()}


def test_a_good_header_gives_the_tensors_in_the_order_of_their_data(tmp_path: Path) -> None:
    table = {"b": entry((1,), (16, 20)), "a": entry(), "empty": entry((0, 5), (16, 16)), "scalar": entry((), (20, 24))}
    (tmp_path / "x").write_bytes(with_header({"__metadata__": {"k": "v"}} | table, bytes(24)))
    found = read_header(tmp_path / "x")
    assert [item.name for item in found] == ["a", "empty", "b", "scalar"]
    start = (tmp_path / "x").stat().st_size - 24
    assert [(item.begin - start, item.end - start) for item in found] == [(0, 16), (16, 16), (16, 20), (20, 24)]
    assert [item.shape for item in found] == [(2, 2), (0, 5), (1,), ()]


def test_a_header_may_fill_the_file_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(with_header({"empty": entry((0, 5), (0, 0))}, b""))
    assert [item.shape for item in read_header(tmp_path / "x")] == [(0, 5)]


@pytest.mark.kills("header-fits/removed")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01",
        b"\x02\0\0\0\0\0\0",
        (10**9).to_bytes(8, "little") + b"{}",
        (3).to_bytes(8, "little") + b"{}",
        b"\xff" * 8 + b"{}",
        (2**63).to_bytes(8, "little") + b"{}",
        (HEADER_LIMIT + 1).to_bytes(8, "little") + b"{" + b" " * HEADER_LIMIT,
    ],
)
def test_a_header_length_that_does_not_fit_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "header of" in refused(tmp_path, content)


@pytest.mark.parametrize("raw", [b"{", b"[]", b"null", b"{}{}", b'{"w": NaN}', b"\xff\xfe", b'{"w":' * 300, b""])
def test_a_header_that_is_no_json_object_is_refused(tmp_path: Path, raw: bytes) -> None:
    assert "header" in refused(tmp_path, len(raw).to_bytes(8, "little") + raw)


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        [],
        {},
        {"dtype": "F32", "shape": [2, 2]},
        entry(extra=1),
        entry(shape="4"),
        entry(shape=(-2, -2)),
        entry(shape=(2.0, 2)),
        entry(shape=(True, 4)),
        entry(shape=(4, None)),
        entry(shape=(2**63, 2)),
        entry(shape=(1,) * 9 + (4,)),
        entry(offsets=(0,)),
        entry(offsets=(0, 8, 16)),
        entry(offsets=(-16, 0)),
        entry(offsets=("0", "16")),
        entry(offsets=None),
        entry(offsets=(0, 2**64)),
    ],
)
@pytest.mark.case("ml-explore/mlx#3363")
def test_an_entry_of_the_wrong_form_is_refused(tmp_path: Path, value: Any) -> None:
    assert "tensor 'w'" in refused(tmp_path, with_header({"w": value}, DATA))


@pytest.mark.kills("dtype-known/removed")
@pytest.mark.parametrize("dtype", ["F33", "f32", "", None, 4, ["F32"], "F8_E8M0", "F4"])
def test_an_unknown_dtype_is_refused_with_the_known_ones(tmp_path: Path, dtype: Any) -> None:
    assert "known are F64, F32, F16, BF16" in refused(tmp_path, with_header({"w": entry(dtype=dtype)}, DATA))


@pytest.mark.kills("range-in-file/removed")
@pytest.mark.parametrize(
    ("value", "data"),
    [
        (entry((5,), (0, 20)), bytes(16)),  # consistent, in a truncated file
        (entry((0,), (16, 0)), bytes(16)),
        (entry((0,), (20, 20)), bytes(16)),
        (entry((2**40,), (0, 2**42)), bytes(16)),
    ],
)
@pytest.mark.case("ml-explore/mlx#3363")
def test_data_beyond_the_file_is_refused(tmp_path: Path, value: Any, data: bytes) -> None:
    assert "bytes of data" in refused(tmp_path, with_header({"w": value}, data))


@pytest.mark.kills("size-is-shape/removed")
@pytest.mark.parametrize(
    "value",
    [
        entry((1000, 1000)),
        entry((3,)),
        entry((), (0, 16)),
        entry((2, 2), dtype="F64"),
        entry((2, 2), dtype="BF16"),
        entry((2**32, 2**32), (0, 16)),  # the product wraps to 0 in 64 bits
        entry((2**62, 4, 4), (0, 16)),
        entry((0, 2**62), (0, 16)),
    ],
)
@pytest.mark.case("ml-explore/mlx#3363")
def test_bytes_that_are_not_shape_times_dtype_are_refused(tmp_path: Path, value: Any) -> None:
    assert "cannot have 16 bytes" in refused(tmp_path, with_header({"w": value}, DATA))


@pytest.mark.kills("no-overlap/removed", "no-overlap/holes-only")
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": entry(), "b": entry()}, "'b' overlaps"),
        ({"a": entry((3,), (0, 12)), "b": entry((2,), (8, 16))}, "'b' overlaps"),
        ({"a": entry(), "b": entry((1,), (4, 8))}, "'b' overlaps"),
        ({"a": entry((1,), (0, 4)), "b": entry((1,), (8, 12)), "c": entry((1,), (8, 12))}, "'b' leaves 4"),
    ],
)
@pytest.mark.case("ml-explore/mlx#3363")
def test_two_tensors_over_one_place_are_refused(tmp_path: Path, table: Any, message: str) -> None:
    assert message in refused(tmp_path, with_header(table, DATA))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": entry((3,), (4, 16))}, "'a' leaves 4 bytes unused"),
        ({"a": entry((1,), (0, 4)), "b": entry((2,), (8, 16))}, "'b' leaves 4 bytes unused"),
        ({"a": entry((3,), (0, 12))}, "4 bytes after the last tensor"),
        ({}, "16 bytes after the last tensor"),
    ],
)
def test_bytes_that_belong_to_no_tensor_are_refused(tmp_path: Path, table: Any, message: str) -> None:
    assert message in refused(tmp_path, with_header(table, DATA))


@pytest.mark.parametrize("metadata", [[], "x", {"a": 1}, {"a": None}, 3])
def test_metadata_must_be_strings(tmp_path: Path, metadata: Any) -> None:
    assert "__metadata__" in refused(tmp_path, with_header({"__metadata__": metadata} | GOOD, DATA))


def test_a_name_that_appears_twice_is_refused(tmp_path: Path) -> None:
    one = json.dumps(entry())
    raw = f'{{"w": {one}, "w": {one}}}'.encode()
    assert "'w' appears twice" in refused(tmp_path, with_header(raw, DATA))


def test_every_prefix_of_a_good_file_is_refused(tmp_path: Path) -> None:
    whole = with_header({"a": entry(), "b": entry((3,), (16, 28))}, bytes(28))
    for length in range(len(whole)):
        refused(tmp_path, whole[:length])


def test_files_of_the_reference_writer_are_read_alike(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    tensors = {
        f"t{size}.{kind.__name__}": (random.standard_normal((size, 3)) * 50).astype(kind)
        for size in (0, 1, 5)
        for kind in (np.float32, np.float16, np.float64, np.int64, np.int8, np.uint8, np.bool_)
    }
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "np"})
    found = read_header(tmp_path / "x.safetensors")
    raw = (tmp_path / "x.safetensors").read_bytes()
    assert {item.name for item in found} == set(tensors)
    for item in found:
        assert raw[item.begin : item.end] == tensors[item.name].tobytes()
        assert item.shape == tensors[item.name].shape


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_what_is_accepted_here_the_reference_reader_accepts_too(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Fuzz by damage: change bytes of a good file. Either reader may be stricter only on this side."""
    base = bytearray(with_header({"a": entry(), "b": entry((3,), (16, 28))}, bytes(28)))
    for _ in range(data.draw(st.integers(1, 3))):
        base[data.draw(st.integers(0, len(base) - 1))] = data.draw(st.sampled_from(b'\x00\xff 0123456789-e.,:[]{}"abF'))
    path = tmp_path_factory.mktemp("fuzz") / "x.safetensors"
    path.write_bytes(bytes(base[: data.draw(st.integers(0, len(base)))]) if data.draw(st.booleans()) else bytes(base))
    try:
        found = read_header(path)
    except CheckpointError:
        return
    try:
        reference = load_file(path)
    except SafetensorError as problem:
        pytest.fail(f"accepted {bytes(base)!r}, which the reference reader refuses: {problem}")
    assert {item.name for item in found} == set(reference)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes, length: int) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + raw)
    try:
        read_header(path)
    except CheckpointError as problem:
        check_one_line(problem)


def check_one_line(problem: CheckpointError) -> None:
    assert "\n" not in str(problem)
    assert len(str(problem)) < 500


REFUSE = """
try:
    {call}
except CheckpointError:
    pass
else:
    raise SystemExit("was accepted")
"""


@pytest.mark.case("ml-explore/mlx#3363")
def test_the_largest_hostile_header_stays_under_200_megabytes(tmp_path: Path) -> None:
    """The worst JSON per byte (empty objects) at the limit of the header's size, in a process of its own."""
    path = tmp_path / "bad.safetensors"
    path.write_bytes(with_header(b'{"w": [' + b"{}," * ((HEADER_LIMIT - 20) // 3) + b"{}]}", b""))
    setup = "from pathlib import Path\nfrom teachkv.checkpoint.header import read_header\n"
    setup += "from teachkv.errors import CheckpointError"
    grown = peak_growth(setup, REFUSE.format(call="read_header(Path(sys.argv[1]))"), str(path))
    assert 8_000 < grown < 200_000  # KiB


@pytest.mark.parametrize("key", ["shape", "data_offsets", "dtype"])
def test_foreign_text_in_an_entry_cannot_break_the_message_into_lines(tmp_path: Path, key: str) -> None:
    """Found by fuzzing: a string where the shape should be."""
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} | {key: "a\nb\rc"}
    path = tmp_path / "x.safetensors"
    path.write_bytes(with_header({"t": entry}, bytes(4)))
    message = refusal(lambda: read_header(path), CheckpointError)
    assert message.isprintable()
    assert r"'a\nb\rc'" in message

"""Hostile GGUF files: every count and length is held against the file before anything is built from it."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teachkv.checkpoint import load_model
from teachkv.checkpoint.gguf_header import MAX_KEYS, MAX_TENSORS, METADATA_LIMIT, read_gguf_header
from teachkv.errors import CheckpointError, TeachKVError
from tests.gguf_toys import ARRAY, BOOL, F32, STRING, U32, U64, gguf_bytes, key_bytes, text, tiny_gguf
from tests.toys import peak_growth, refusal

W = ("w", [4, 2], 0, bytes(32))


def refused(tmp_path: Path, raw: bytes) -> str:
    path = tmp_path / "bad.gguf"
    path.write_bytes(raw)
    message = refusal(lambda: read_gguf_header(path), CheckpointError)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < 400
    return message


def head(tensors: int, keys: int, rest: bytes = b"", *, magic: bytes = b"GGUF", version: int = 3) -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, keys) + rest


def record(name: str = "w", dims: Any = (4, 2), kind: int = 0, offset: int = 0, *, count: int | None = None) -> bytes:
    """One tensor record, then room for its data."""
    count = len(dims) if count is None else count
    return head(1, 0, text(name) + struct.pack(f"<I{len(dims)}QIQ", count, *dims, kind, offset) + bytes(128))


def test_a_good_file_is_read(tmp_path: Path) -> None:
    keys = [("a", U32, 7), ("b", ARRAY, (STRING, ["x", "é"])), ("c", ARRAY, (F32, [1.5])), ("d", BOOL, True)]
    (tmp_path / "x").write_bytes(gguf_bytes(keys, [W, ("v", [3], 0, bytes(12))]))
    header = read_gguf_header(tmp_path / "x")
    assert header.metadata["a"] == 7
    assert header.metadata["b"] == ["x", "é"]
    assert header.metadata["c"].tolist() == [1.5]
    assert header.metadata["d"] is True
    assert [(tensor.name, tensor.shape, tensor.end - tensor.begin) for tensor in header.tensors] == [
        ("w", (2, 4), 32),
        ("v", (3,), 12),
    ]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "cannot be mapped"),
        (b"GG", "claims 4 bytes"),
        (b"GGUF", "the version claims"),
        (head(0, 0, magic=b"GGML"), "is no GGUF file"),
        (head(0, 0, version=1), "version 1 is not known"),
        (head(0, 0, version=4), "version 4 is not known"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version 50331648 is not known; 2 and 3 are, both little-endian"),
        (head(0, 0)[:-1], "the key count claims"),
    ],
)
def test_a_wrong_beginning(tmp_path: Path, raw: bytes, message: str) -> None:
    assert message in refused(tmp_path, raw)


@pytest.mark.kills("gguf-counts/removed")
@pytest.mark.parametrize(("tensors", "keys"), [(2**63, 0), (0, 2**64 - 1), (70_000, 0), (0, 70_000)])
def test_counts_without_bound(tmp_path: Path, tensors: int, keys: int) -> None:
    assert "are claimed (limits" in refused(tmp_path, head(tensors, keys))


@pytest.mark.parametrize(("tensors", "keys"), [(MAX_TENSORS, 0), (0, MAX_KEYS)])
def test_counts_at_their_bounds_are_allowed(tmp_path: Path, tensors: int, keys: int) -> None:
    assert "are claimed" not in refused(tmp_path, head(tensors, keys))  # but nothing comes behind them


@pytest.mark.kills("gguf-length/removed")
@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (struct.pack("<Q", 2**63) + b"key", "a key claims 9223372036854775808 bytes"),
        (struct.pack("<Q", 100) + b"key", "a key claims 100 bytes"),
        (text("k") + struct.pack("<IQ", STRING, 2**40) + b"x", "claims 1099511627776 bytes"),
        (text("k") + struct.pack("<IIQ", ARRAY, U32, 2**63), "claims 36893488147419103232 bytes"),
        (text("k") + struct.pack("<IIQ", ARRAY, F32, 2**62), "claims 18446744073709551616 bytes"),
        (text("k") + struct.pack("<I", U64) + b"123", "claims 8 bytes, but 3 are left"),
    ],
)
def test_lengths_beyond_the_file(tmp_path: Path, rest: bytes, message: str) -> None:
    assert message in refused(tmp_path, head(0, 1, rest))


@pytest.mark.kills("gguf-array-count/removed")
@pytest.mark.parametrize("count", [2**63, 2**32, 1000])
@pytest.mark.case("ggml-org/llama.cpp#25378")
def test_an_array_of_more_strings_than_bytes(tmp_path: Path, count: int) -> None:
    raw = head(0, 1, text("k") + struct.pack("<IIQ", ARRAY, STRING, count) + bytes(80))
    assert f"claims {count} strings" in refused(tmp_path, raw)


def test_an_array_of_empty_strings_may_fill_the_file_to_its_end(tmp_path: Path) -> None:
    path, strings = tmp_path / "m.gguf", 20
    begin, content = text("k") + struct.pack("<II", ARRAY, STRING), bytes(8 * strings)
    path.write_bytes(head(0, 1, begin + struct.pack("<Q", strings) + content))
    assert read_gguf_header(path).metadata["k"] == [""] * strings
    raw = head(0, 1, begin + struct.pack("<Q", strings + 1) + content)
    assert f"claims {strings + 1} strings" in refused(tmp_path, raw)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (text("k") + struct.pack("<I", 13), "unknown type 13"),
        (text("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1), "unknown or nested type 9"),
        (text("k") + struct.pack("<IIQ", ARRAY, 99, 1), "unknown or nested type 99"),
        (text("k") + struct.pack("<IB", BOOL, 2), "is 2, neither true nor false"),
        (text(b"\xff\xfe") + struct.pack("<II", U32, 1), "is not UTF-8"),
        (text("k") + struct.pack("<I", STRING) + text(b"\xc3"), "is not UTF-8"),
    ],
)
def test_values_of_no_known_form(tmp_path: Path, rest: bytes, message: str) -> None:
    assert message in refused(tmp_path, head(0, 1, rest + bytes(8)))


def test_a_key_of_several_lines_stays_on_one(tmp_path: Path) -> None:
    for rest in (struct.pack("<I", STRING) + b"\xff" * 8, struct.pack("<I", 77), struct.pack("<IIQ", ARRAY, 99, 1)):
        assert r"'a\nb'" in refused(tmp_path, head(0, 1, text("a\nb") + rest))


@pytest.mark.kills("gguf-key-unique/removed")
def test_a_key_that_appears_twice(tmp_path: Path) -> None:
    assert "key 'k' appears twice" in refused(tmp_path, head(0, 2, key_bytes(("k", U32, 1)) * 2))


@pytest.mark.kills("gguf-dims/removed")
@pytest.mark.parametrize("count", [0, 5, 10**6, 2**32 - 1])
@pytest.mark.case("ggml-org/llama.cpp#25378")
def test_dimension_counts(tmp_path: Path, count: int) -> None:
    assert f"has {count} dimensions" in refused(tmp_path, record(dims=(1,) * 5, count=count))


@pytest.mark.kills("gguf-dim-zero/removed")
@pytest.mark.parametrize("dims", [(0,), (4, 0), (0, 2**62)])
def test_an_empty_dimension(tmp_path: Path, dims: tuple[int, ...]) -> None:
    assert "has an empty dimension" in refused(tmp_path, record(dims=dims))


@pytest.mark.kills("gguf-size/wraps", "gguf-range/past-the-end")
@pytest.mark.parametrize(
    "dims",
    [(2**32, 2**32), (2**62 + 1, 4), (2**63, 2, 2), (2**64 - 1,), (1000, 1000)],
    ids=["wraps to 0", "wraps to 4", "wraps in the middle", "one huge", "plain"],
)
@pytest.mark.case("ggml-org/llama.cpp#25378")
def test_data_larger_than_the_file(tmp_path: Path, dims: tuple[int, ...]) -> None:
    assert "of a file of" in refused(tmp_path, record(dims=dims))


@pytest.mark.kills("gguf-range/overlap")
@pytest.mark.parametrize("offset", [0, 32, 96, 1, 2**63])
def test_tensors_that_overlap_or_leave_a_gap(tmp_path: Path, offset: int) -> None:
    first = text("a") + struct.pack("<IQIQ", 1, 16, 0, 0)  # 64 bytes
    second = text("b") + struct.pack("<IQIQ", 1, 8, 0, offset)
    body = head(2, 0, first + second)
    assert "claims bytes" in refused(tmp_path, body + bytes(-len(body) % 32) + bytes(256))


def test_bytes_after_the_last_tensor(tmp_path: Path) -> None:
    whole = gguf_bytes([], [W])
    (tmp_path / "ok").write_bytes(whole[:-1] + bytes(1))
    read_gguf_header(tmp_path / "ok")
    assert "32 bytes after the last tensor belong to none" in refused(tmp_path, whole + bytes(32))


@pytest.mark.parametrize(
    ("kind", "message"), [(4, "unknown type 4"), (99, "unknown type 99"), (2, "blocks of 32"), (12, "blocks of 256")]
)
def test_tensor_types(tmp_path: Path, kind: int, message: str) -> None:
    assert message in refused(tmp_path, record(kind=kind))


def test_a_tensor_that_appears_twice(tmp_path: Path) -> None:
    assert "tensor 'w' appears twice" in refused(tmp_path, gguf_bytes([], [W, W]))


@pytest.mark.parametrize(
    "alignment",
    [
        (U32, 0),
        (U32, 1),
        (U32, 7),
        (U32, 48),
        (U32, 2**31),
        (F32, 32.0),
        (STRING, "32"),
        (BOOL, True),
        (ARRAY, (U32, [32])),
    ],
)
@pytest.mark.case("ggml-org/llama.cpp#25378")
def test_alignments(tmp_path: Path, alignment: tuple[int, Any]) -> None:
    message = refused(tmp_path, gguf_bytes([("general.alignment", *alignment)], [W]))
    assert "it must be a power of two from 8 to 65536" in message


@pytest.mark.parametrize("alignment", [8, 32, 4096])
def test_a_stated_alignment_is_obeyed(tmp_path: Path, alignment: int) -> None:
    keys = [("general.alignment", U32, alignment)]
    (tmp_path / "x").write_bytes(gguf_bytes(keys, [("a", [1], 0, bytes(4)), W], alignment=alignment))
    begins = [tensor.begin for tensor in read_gguf_header(tmp_path / "x").tensors]
    assert all(begin % alignment == 0 for begin in begins)
    assert begins[1] - begins[0] == alignment


def test_every_prefix_of_a_good_file_is_refused(tmp_path: Path) -> None:
    raw, _, _ = tiny_gguf(hidden_size=32, intermediate_size=32, head_dim=8, num_hidden_layers=1)
    places = [*range(0, 4000, 7), *range(4000, len(raw) - 32, 997), len(raw) - 32]
    for length in places:
        refused(tmp_path, raw[:length])


REFUSE = """
try:
    read_gguf_header(Path(sys.argv[1]))
except CheckpointError:
    pass
else:
    raise SystemExit("was accepted")
"""


@pytest.mark.parametrize("shape", ["strings", "two-letter strings", "keys"])
@pytest.mark.case("ggml-org/llama.cpp#25378")
def test_the_largest_hostile_headers_stay_under_200_megabytes(tmp_path: Path, shape: str) -> None:
    if shape == "keys":
        raw = head(1, 65_536, b"".join(key_bytes((f"{n:x}", ARRAY, (STRING, [""] * 20))) for n in range(65_536)))
    else:
        item = text("" if shape == "strings" else "é")
        count = (METADATA_LIMIT - 100) // len(item)
        raw = head(1, 1, text("k") + struct.pack("<IIQ", ARRAY, STRING, count) + item * count)
    (tmp_path / "bad.gguf").write_bytes(raw)
    setup = "from pathlib import Path\nfrom teachkv.checkpoint.gguf_header import read_gguf_header\n"
    setup += "from teachkv.errors import CheckpointError"
    grown = peak_growth(setup, REFUSE, str(tmp_path / "bad.gguf"))
    assert 8_000 < grown < 200_000  # KiB


GOOD = tiny_gguf(hidden_size=32, intermediate_size=32, head_dim=8, num_hidden_layers=1)[0]
HEADER_END = GOOD.rindex(b"output.weight") + 64


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_files_load_or_are_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Fuzz by damage: bytes of the header changed, sometimes cut. Never another exception."""
    raw = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, HEADER_END))] = data.draw(
            st.sampled_from([0, 1, 2, 7, 8, 9, 32, 0x7F, 0x80, 0xFF])
        )
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, HEADER_END)) : data.draw(st.integers(0, HEADER_END)) + 8]
    path = tmp_path_factory.mktemp("fuzz") / "x.gguf"
    path.write_bytes(bytes(raw))
    try:
        load_model(path)
    except TeachKVError as problem:
        check_one_line(problem)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 5), st.integers(0, 5))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, tensors: int, keys: int
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x.gguf"
    path.write_bytes(head(tensors, keys, raw))
    try:
        read_gguf_header(path)
    except CheckpointError as problem:
        check_one_line(problem)


def check_one_line(problem: TeachKVError) -> None:
    assert "\n" not in str(problem)
    assert len(str(problem)) < 500

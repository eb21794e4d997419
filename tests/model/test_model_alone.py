"""ALONE, SPLIT, NBR, POISON on the whole model: a request's logits are the same bits in every company."""

import numpy as np
import pytest
from packed import Bench, load, whole

from teachkv.model import Model
from tests.toys import write_tiny

WINDOW = {"use_sliding_window": True, "sliding_window": 70, "max_window_layers": 1}


@pytest.fixture(scope="module", params=["llama", "qwen3 with a window"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("alone")
    if request.param == "llama":
        return load(write_tiny(folder / "m", "llama", max_position_embeddings=1024))
    return load(write_tiny(folder / "m", "qwen3", max_position_embeddings=1024, **WINDOW))


def prompt(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 97, length).tolist()


def decode(model: Model, ids: dict[int, list[int]], pads: dict[int, int], steps: int) -> dict[int, list[bytes]]:
    """Prefill each row alone, then decode all rows together, each greedily; the bytes of every step's logits."""
    columns = max(pads[row] + len(ids[row]) for row in ids) + steps
    bench = Bench(model, max(ids) + 1, columns, pads)
    tokens = {row: [int(bench.step({row: ids[row]}, "prefill")[row][-1].argmax())] for row in ids}
    seen: dict[int, list[bytes]] = {row: [] for row in ids}
    for _ in range(steps):
        logits = bench.step(tokens)
        for row in ids:
            seen[row].append(logits[row].tobytes())
            tokens[row] = [int(logits[row][-1].argmax())]
    return seen


@pytest.mark.parametrize("length", [1, 2, 5, 63, 64, 65, 130])
def test_split_every_chunking_gives_the_same_bits(model: Model, length: int) -> None:
    ids = prompt(length, length)
    want = whole(model, ids).tobytes()
    for size in sorted({1, 2, 3, 7, 8, 9, 16, 63, 64, length} & set(range(1, length + 1))):
        bench = Bench(model, 1, length)
        parts = [bench.step({0: ids[a : a + size]}, "prefill")[0] for a in range(0, length, size)]
        assert np.concatenate(parts).tobytes() == want, size
    bench = Bench(model, 1, length)
    assert np.concatenate([bench.step({0: [token]})[0] for token in ids]).tobytes() == want


@pytest.mark.case("huggingface/transformers#22382")
def test_alone_and_behind_every_lead_pad(model: Model) -> None:
    """One request, 71 lead pads, prefilled in place and decoded: one result. Teeth: four prompts, four results."""
    results = []
    for seed, length in enumerate((3, 40, 64, 100)):
        ids = prompt(seed, length)
        found = {tuple(decode(model, {0: ids}, {0: pad}, 2)[0]) for pad in range(71)}
        assert len(found) == 1
        results.append(found.pop())
    assert len(set(results)) == 4


@pytest.mark.case("huggingface/transformers#22861")
@pytest.mark.parametrize("batch", [2, 3, 7, 8, 9, 16, 17, 33, 64, 128])
def test_alone_in_batches_with_random_mates(model: Model, batch: int) -> None:
    """Four requests, in different rows, among random mates of other lengths, all ending at one column."""
    random = np.random.default_rng(batch)
    watched = {seed: prompt(seed, 5 + 9 * seed) for seed in range(4)}
    alone = {seed: decode(model, {0: ids}, {0: 0}, 2)[0] for seed, ids in watched.items()}
    assert len({tuple(steps) for steps in alone.values()}) == 4, "the check has no teeth"
    places = random.permutation(batch)[: min(4, batch)].tolist()
    ids = {row: prompt(1000 + row, int(random.integers(1, 71))) for row in range(batch)}
    ids |= {row: watched[seed] for seed, row in enumerate(places)}
    end = max(map(len, ids.values()))
    together = decode(model, ids, {row: end - len(ids[row]) for row in ids}, 2)
    for seed, row in enumerate(places):
        assert together[row] == alone[seed]


def test_prefill_among_other_prompts(model: Model) -> None:
    """A packed prefill gives each prompt the logits it has alone."""
    ids = {row: prompt(row, n) for row, n in enumerate((1, 30, 8, 65, 7, 100))}
    packed = Bench(model, 6, 128).step(ids, "prefill")
    for row in ids:
        assert packed[row].tobytes() == whole(model, ids[row]).tobytes()


@pytest.mark.case("huggingface/transformers#22861", "kekzl/imp#1314")
def test_neighbours_contents_do_not_matter(model: Model) -> None:
    """NBR: same shapes, same row, other neighbours."""
    ids = prompt(1, 20)
    pads = {0: 0, 1: 3, 2: 10}
    results = []
    for seed in (10, 20):
        batch = {0: prompt(seed, 23), 1: ids, 2: prompt(seed + 1, 13)}
        results.append(decode(model, batch, pads, 3)[1])
    assert results[0] == results[1]


@pytest.mark.case("Dao-AILab/flash-attention#1745")
@pytest.mark.kills("dead-values/multiplied")
@pytest.mark.parametrize("poison", [np.nan, 1e4, np.inf])
@pytest.mark.parametrize("where", ["k", "v", "both"])
def test_dead_slots_reach_no_logit(model: Model, poison: float, where: str) -> None:
    ids = {0: prompt(0, 9), 1: prompt(1, 66), 2: prompt(2, 30)}
    pads = {row: 66 - len(ids[row]) for row in ids}

    def run(fill_k: float, fill_v: float) -> list[bytes]:
        bench = Bench(model, 4, 130, pads)
        for k, v in bench.layers:
            k[:], v[:] = fill_k, fill_v
        first = [bench.step({row: ids[row]}, "prefill")[row].tobytes() for row in ids]
        second = bench.step({row: [5] for row in ids})
        return first + [second[row].tobytes() for row in ids]

    fills = {"k": (poison, 0.0), "v": (0.0, poison), "both": (poison, poison)}[where]
    clean = run(0.0, 0.0)
    assert all(np.isfinite(np.frombuffer(logits, np.float32)).all() for logits in clean)
    assert run(*fills) == clean


@pytest.mark.case("huggingface/transformers#47651")
@pytest.mark.parametrize("width", [31, 32, 33, 34, 63, 64, 65, 66])
def test_no_width_of_a_padded_batch_is_special(model: Model, width: int) -> None:
    """transformers#47651: prompts of 1 and `width` tokens, ending at one column, over pads of the short one."""
    short, long = prompt(7, 1), prompt(8, width)
    want = {0: decode(model, {0: short}, {0: 0}, 2)[0], 1: decode(model, {0: long}, {0: 0}, 2)[0]}
    for extra in (0, 1, 31, 32):
        got = decode(model, {0: short, 1: long}, {0: width - 1 + extra, 1: extra}, 2)
        assert got == want
        assert all(np.isfinite(np.frombuffer(step, np.float32)).all() for row in got for step in got[row])

"""The models without files: reproducible random weights, and the glass model against an independent float64 forward."""

from itertools import product

import numpy as np
import pytest
from tokenizers import Tokenizer

from teachkv.checkpoint.builtin import MODELS, random_weights, tiny
from teachkv.checkpoint.glass import ALPHABET, SENTINEL, glass, visible_counts
from teachkv.checkpoint.loaded import LoadedModel
from teachkv.checkpoint.names import expected
from teachkv.checkpoint.shapes import SHAPES, shape
from teachkv.config import ModelConfig
from teachkv.errors import OptionError
from teachkv.weights import ModelWeights
from tests.toys import FAMILIES, tiny_config


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    one, again, other = tiny().weights, tiny(0).weights, tiny(1).weights
    for (name, left), (_, same), (_, right) in zip(one.named(), again.named(), other.named(), strict=True):
        assert np.array_equal(left, same), name
        assert not np.array_equal(left, right), name


def test_every_tensor_is_drawn_apart() -> None:
    """Weights of equal shape must differ, or swapped tensors would pass every test on this model."""
    arrays = [array for _, array in tiny().weights.named()]
    for index, one in enumerate(arrays):
        assert not any(one.shape == two.shape and np.array_equal(one, two) for two in arrays[index + 1 :])


@pytest.mark.parametrize("piece", [1 << 22, 1000])
def test_threads_do_not_change_the_weights(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teachkv.checkpoint.builtin.PIECE", piece)
    config = tiny().config
    pairs = zip(random_weights(config, 5).named(), random_weights(config, 5, threads=4).named(), strict=True)
    assert all(np.array_equal(left, right) for (_, left), (_, right) in pairs)


def test_no_two_pieces_of_a_tensor_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large tensor is drawn in pieces, each from its own stream; what is one piece does not know of the others."""
    whole = random_weights(tiny().config, 5)
    monkeypatch.setattr("teachkv.checkpoint.builtin.PIECE", 1000)
    embed = random_weights(tiny().config, 5).embed
    rows = 1000 // embed.shape[1]
    assert np.array_equal(embed[:rows], whole.embed[:rows])
    assert (
        len(np.unique(embed[: len(embed) // rows * rows].reshape(-1, rows * embed.shape[1])[:, 0]))
        == len(embed) // rows
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_random_weights_have_every_tensor_of_the_family_in_its_shape(family: str, tied: bool) -> None:
    config = ModelConfig.from_dict(tiny_config(family, head_dim=12, tie_word_embeddings=tied))
    weights = random_weights(config, 0)
    assert weights.tied is tied
    wanted = {(item.own, item.layer): item.shape for item in expected(config, "hf")}
    if tied:
        del wanted["lm_head", None]
    found = {}
    for name, array in weights.named():
        parts = name.split(".")
        found[parts[-1], int(parts[1]) if len(parts) > 1 else None] = array.shape
        assert np.isfinite(array).all()
        assert not array.flags.writeable
    assert found == wanted


def test_norms_and_biases_stand_off_their_neutral_values() -> None:
    layer = tiny().weights.layers[0]
    assert layer.q_bias is not None
    for array, neutral in ((layer.input_norm, 1.0), (layer.q_bias, 0.0)):
        assert (array != neutral).all()
        assert abs(array.mean() - neutral) < 0.2


def test_tinys_tokenizer_covers_its_vocabulary_and_brings_every_byte_back() -> None:
    loaded = tiny()
    raw = loaded.tokenizer_source.read("tokenizer.json")
    assert raw is not None
    tokenizer = Tokenizer.from_str(raw.decode())
    assert tokenizer.get_vocab_size() == loaded.config.vocab_size == 259
    text = "Grüße, 世界! 🙂\n\t3333"
    ids = tokenizer.encode(text).ids
    assert ids == list(text.encode())
    assert tokenizer.decode(ids) == text
    assert [tokenizer.token_to_id(token) for token in ("<|endoftext|>", "<|im_end|>")] == list(loaded.config.eos_ids)
    assert loaded.template_source.read("chat_template.jinja") is not None
    assert loaded.tokenizer_source.read("no.such.file") is None


def test_models_can_be_built_by_name() -> None:
    assert {name: build().name for name, build in MODELS.items()} == {"tiny": "tiny", "glass": "glass"}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("smollm2-135m", 134_515_008), ("qwen2.5-0.5b", 494_032_768), ("qwen2.5-7b", 7_615_616_512)],
)
def test_published_shapes_have_the_published_number_of_parameters(name: str, parameters: int) -> None:
    config = shape(name)
    items = list(expected(config, "hf"))
    assert sum(int(np.prod(item.shape)) for item in items[: -1 if config.tie_embeddings else None]) == parameters
    assert set(config.windows) == {None}
    assert set(SHAPES) == {"smollm2-135m", "qwen2.5-0.5b", "qwen2.5-7b"}
    with pytest.raises(OptionError, match="no shape 'gpt-5'"):
        shape("gpt-5")


def forward(loaded: LoadedModel, ids: list[int]) -> np.ndarray:
    """The last row's logits in float64, straight from the definition; queries are zero, so scores are."""
    weights: ModelWeights = loaded.weights
    x = weights.embed.astype(np.float64)[ids]
    for layer, window in zip(weights.layers, loaded.config.windows, strict=True):
        assert not layer.q.any()
        normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + loaded.config.rms_eps) * layer.input_norm
        values = normed @ layer.v.T.astype(np.float64)
        heads = np.stack(
            [values[max(0, row + 1 - window if window else 0) : row + 1].mean(0) for row in range(len(ids))]
        )
        x = x + heads @ layer.o.T.astype(np.float64)
        x = x + (0 * x @ layer.up.T) @ layer.down.T
    last = x[-1] / np.sqrt((x[-1] ** 2).mean() + loaded.config.rms_eps) * weights.norm
    return last @ weights.lm_head.T.astype(np.float64)


@pytest.mark.parametrize("length", range(1, 13))
@pytest.mark.parametrize("window", [None, 1, 2, 3, 4, 5, 6, 12, 13])
def test_the_glass_counts_exactly_the_visible_keys(length: int, window: int | None) -> None:
    prompt = [3, 5, 3, 3, 9, 5, 0, 3, 7, 7, 5, SENTINEL][12 - length :]
    seen = prompt if window is None else prompt[-window:]
    counts = visible_counts(forward(glass(windows=[window]), prompt))
    assert counts.tolist() == np.bincount(seen, minlength=64).tolist()


@pytest.mark.parametrize(("layers", "live"), [pair for pair in product([1, 2, 4], range(4)) if pair[1] < pair[0]])
def test_only_the_live_layer_counts(layers: int, live: int) -> None:
    """With one window per layer, the counts tell which layer's window was at work."""
    prompt = [1, 2, 3, 4, 5, 6, SENTINEL]
    windows = [1 + layer for layer in range(layers)]
    counts = visible_counts(forward(glass(layers, windows, live), prompt))
    assert counts.sum() == windows[live]


def test_counts_that_are_none_are_refused() -> None:
    logits = forward(glass(), [1, 2, 2, SENTINEL])
    assert visible_counts(logits)[[1, 2, 3, SENTINEL]].tolist() == [1, 2, 0, 1]
    for token, change in ((2, 0.5), (3, 0.3), (SENTINEL, 0.4)):
        wrong = logits.copy()
        wrong[token] += change * logits[1]
        with pytest.raises(ValueError, match="not whole counts"):
            visible_counts(wrong)
    with pytest.raises(ValueError, match="not finite"):
        visible_counts(np.full(64, np.nan))
    with pytest.raises(ValueError, match="own key is not visible"):
        visible_counts(logits - logits.min() + 1.0 - 2 * np.eye(64)[SENTINEL] * logits[SENTINEL])


@pytest.mark.parametrize(("layers", "windows", "live"), [(2, [1], None), (2, None, 2), (1, None, -1)])
def test_a_glass_that_contradicts_itself_is_refused(
    layers: int, windows: list[int | None] | None, live: int | None
) -> None:
    with pytest.raises(ValueError, match=f"glass of {layers} layers"):
        glass(layers, windows, live)


def test_the_glass_tokenizer_has_one_token_per_character() -> None:
    raw = glass().tokenizer_source.read("tokenizer.json")
    assert raw is not None
    tokenizer = Tokenizer.from_str(raw.decode())
    assert tokenizer.encode(ALPHABET).ids == list(range(64))
    assert tokenizer.decode(list(range(64))) == ALPHABET
    assert tokenizer.encode("a b.").ids == [0, 62, 1, SENTINEL]

"""From stored tensors to ModelWeights: every tensor the config calls for is there, in its shape, and none is left over
unnoticed. All of that is settled before the first tensor is made, so that nothing is ever half loaded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from teachkv.checkpoint.loaded import LoadReport
from teachkv.checkpoint.names import Expected, contradicted, expected
from teachkv.checkpoint.stored import Store, Stored
from teachkv.config import ModelConfig
from teachkv.errors import CheckpointError
from teachkv.weights import Array, LayerWeights, ModelWeights


@dataclass(frozen=True, slots=True)
class Checked:
    """A checkpoint found complete. `wanted` are the tensors to fetch, in the order of use."""

    config: ModelConfig  # with the tying settled
    store: Store
    wanted: tuple[Expected, ...]
    unused: tuple[str, ...]
    notes: tuple[str, ...]


def check(config: ModelConfig, store: Store) -> Checked:
    """Hold the stored tensors against the config; makes none of them. Raises CheckpointError naming file and tensor."""
    wanted = list(expected(config, store.style))
    head = wanted[-1]
    _check_dtypes(store, wanted)
    tied, notes = _settle_tying(config, store, wanted[0], head)
    if tied:
        wanted.pop()
    _check_tensors(config, store, wanted)
    unused = _unused(store, wanted, head if tied else None)
    settled = replace(config, tie_embeddings=tied)
    return Checked(settled, store, tuple(wanted), tuple(unused), store.notes + tuple(notes))


def assemble(config: ModelConfig, store: Store) -> tuple[ModelConfig, ModelWeights, LoadReport]:
    """(config with the tying settled, weights, report). Raises CheckpointError naming file and tensor."""
    checked = check(config, store)
    arrays, mapped, copied = _fetch(store, checked.wanted)
    weights = build(checked.config, checked.wanted, arrays)
    report = LoadReport(
        kind=store.kind,
        files=dict(store.files),
        dtypes=dict(Counter(stored.dtype for stored in store.tensors.values())),
        unused=checked.unused,
        notes=checked.notes,
        mapped=mapped,
        copied=copied,
    )
    return checked.config, weights, report


def _settle_tying(config: ModelConfig, store: Store, embed: Expected, head: Expected) -> tuple[bool, list[str]]:
    """Flag (true, false, absent) x head in the file (absent, equal, different): nine cases, none of them silent.

             head absent               head equal                 head different
    true     tied                      tied, noted                error
    false    error (missing tensor)    untied, noted              untied
    absent   tied, noted               untied, noted              untied, noted
    """
    flag, name = config.tie_embeddings, head.name
    if name not in store.tensors:
        if flag is None:
            return True, [f"tie_word_embeddings is absent and so is {name}: the head is tied to the embeddings"]
        return flag, []
    if flag is None:
        return False, [f"tie_word_embeddings is absent and {name} is there: the head is not tied"]
    if embed.name not in store.tensors or store.tensors[name].shape != store.tensors[embed.name].shape:
        return False, []  # told as a missing or misshapen tensor
    equal = _same(store.tensors[name], store.tensors[embed.name])
    if not flag:
        return False, [f"{name} equals the embeddings, though tie_word_embeddings is false"] if equal else []
    # guard[tie-contradiction]: tying in silence over a head that differs throws trained weights away
    # mutant[tie-contradiction/removed]:
    #   - if not equal:
    #   + if False:
    if not equal:
        where = store.tensors[name].file
        raise CheckpointError(
            f"{where}: {name} differs from the embeddings, but tie_word_embeddings is true; set it right"
        )
    return True, [f"{name} is in the file and equals the embeddings: not used"]


def _same(one: Stored, other: Stored) -> bool:
    """Equal in value. Compared in blocks, so that no third copy arises and the first difference ends it."""
    left, right = one.fetch()[0].reshape(-1), other.fetch()[0].reshape(-1)
    step = 1 << 20
    return all(
        np.array_equal(left[at : at + step], right[at : at + step], equal_nan=True) for at in range(0, left.size, step)
    )


def _check_dtypes(store: Store, wanted: list[Expected]) -> None:
    """The types of all wanted tensors, before the first is turned into float32."""
    for item in wanted:
        stored = store.tensors.get(item.name)
        if stored is not None and stored.dtype not in store.readable:
            known = ", ".join(store.readable)
            raise CheckpointError(f"{stored.file}: tensor {item.name!r} is {stored.dtype}; weights must be {known}")


def _check_tensors(config: ModelConfig, store: Store, wanted: list[Expected]) -> None:
    """Missing, misshapen and contradicting tensors."""
    missing = [item.name for item in wanted if item.name not in store.tensors]
    # guard[all-present]: a tensor left out stays whatever the memory held
    # mutant[all-present/removed]:
    #   - if missing:
    #   + if False:
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CheckpointError(f"{store.where}: tensor {missing[0]!r} is missing{more}; {store.advice}")
    for item in wanted:
        stored = store.tensors[item.name]
        # guard[shape-fits]: a transposed or regrouped matrix of equal size multiplies without complaint
        # mutant[shape-fits/size-only]:
        #   - if stored.shape != item.shape:
        #   + if np.prod(stored.shape) != np.prod(item.shape):
        if stored.shape != item.shape:
            raise CheckpointError(
                f"{stored.file}: tensor {item.name!r} has shape {stored.shape}; the config calls for {item.shape}"
            )
    names = {item.name for item in wanted}
    for name, stored in store.tensors.items():
        why = None if name in names else contradicted(name, config, store.style)
        # guard[bias-not-dropped]: a bias that the config denies was trained with; without it the text is worse
        # mutant[bias-not-dropped/removed]:
        #   - if why is not None:
        #   + if False:
        if why is not None:
            raise CheckpointError(f"{stored.file}: tensor {name!r} is there, but {why}; set the config right")


def _unused(store: Store, wanted: list[Expected], head: Expected | None) -> list[str]:
    taken = {item.name for item in wanted} | ({head.name} if head else set())
    return sorted(name for name in store.tensors if name not in taken)


def _fetch(store: Store, wanted: Sequence[Expected]) -> tuple[dict[str, Array], int, int]:
    """({name: array}, bytes left in the file, bytes copied)."""
    arrays: dict[str, Array] = {}
    sizes = {False: 0, True: 0}
    for item in wanted:
        array, copied = store.tensors[item.name].fetch()
        array.flags.writeable = False  # several models may share one mapping
        arrays[item.name] = array
        sizes[copied] += array.nbytes
    return arrays, sizes[False], sizes[True]


def build(config: ModelConfig, wanted: Sequence[Expected], arrays: Mapping[str, Array]) -> ModelWeights:
    """ModelWeights from arrays under their stored names."""
    top: dict[str, Array] = {}
    layers: list[dict[str, Array]] = [{} for _ in range(config.num_layers)]
    for item in wanted:
        (top if item.layer is None else layers[item.layer])[item.own] = arrays[item.name]
    return ModelWeights(
        embed=top["embed"],
        norm=top["norm"],
        lm_head=top.get("lm_head", top["embed"]),
        layers=tuple(LayerWeights(**layer) for layer in layers),
    )

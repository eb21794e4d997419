"""What the sampler knows about one running sample. Keyed by request, never by row: rows move, this does not."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from teachkv.errors import OptionError
from teachkv.sample import philox, processors
from teachkv.sample.params import SamplingParams

AHEAD = 32  # random numbers of one state that are made at a time


def no_text(token: int) -> str:
    """Where no tokenizer is at hand, reported tokens carry no text."""
    return ""


class SampleState:
    """One of the `n` completions of a request. words: temperature, top-p, min-p (float32) and top-k (int32) as bytes;
    greedy: no random number is looked at; plain: nothing ever changes its logits before a draw. counts: how often each
    token was generated; kept unless plain. endings: tokens that end it.

    The state is a function of (params, prompt, seed, sample index, tokens generated): rebuilding it from those, as
    after a preemption, gives the same draws. `accept` is called once for each token that is appended.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        *,
        seed: int,
        vocab_size: int,
        sample_index: int = 0,
        eos_ids: Collection[int] = (),
        generated: Sequence[int] = (),
        decode: Callable[[int], str] = no_text,
    ) -> None:
        self.params, self.seed, self.sample_index, self.decode = params, seed, sample_index, decode
        self.greedy = params.greedy
        self.counts: Counter[int] = Counter()
        self.prompt = frozenset(prompt_ids) if params.repetition_penalty != 1 else frozenset()
        own_eos = frozenset() if params.ignore_eos else frozenset(eos_ids)
        self.endings = own_eos | frozenset(params.stop_token_ids)
        self.index = self.first_number = 0
        self.numbers: list[float] = []
        self.words = np.array([params.temperature, params.top_p, params.min_p], np.float32).tobytes()
        self.words += np.array([max(params.top_k, 0)], np.int32).tobytes()
        self.plain = not (self._penalises() or params.logit_bias or params.min_tokens)
        refuse_foreign(params, vocab_size)
        for token in generated:
            self.accept(token)

    def accept(self, token: int) -> None:
        """The token has been appended to the sequence."""
        if not self.plain:  # else nobody looks
            self.counts[token] += 1
        self.index += 1

    def processor_at(self, place: int) -> str | None:
        """What the host would do to the logits of generated token `place` before the draw; None: nothing."""
        p = self.params
        if self.plain:
            return None
        if p.repetition_penalty != 1 or (place > 0 and (p.presence_penalty != 0 or p.frequency_penalty != 0)):
            return "penalties"
        if p.logit_bias:
            return "logit_bias"
        return "min_tokens" if place < p.min_tokens else None

    def _penalises(self) -> bool:
        p = self.params
        return p.repetition_penalty != 1 or p.presence_penalty != 0 or p.frequency_penalty != 0

    def process(self, row: NDArray[np.float32]) -> None:
        """row [V] in place: penalties, then logit bias, then bans before min_tokens (the stated order)."""
        p = self.params
        if p.repetition_penalty != 1:
            # guard[penalty-scope]: repetition looks at prompt and output by token id; presence and frequency at output
            # origin: huggingface/text-generation-inference#1765
            # mutant[penalty-scope/output-only]:
            #   - processors.repetition(row, self.prompt | self.counts.keys(), p.repetition_penalty)
            #   + processors.repetition(row, self.counts.keys(), p.repetition_penalty)
            # mutant[penalty-scope/padding]:
            #   - processors.repetition(row, self.prompt | self.counts.keys(), p.repetition_penalty)
            #   + processors.repetition(row, self.prompt | self.counts.keys() | {0}, p.repetition_penalty)
            processors.repetition(row, self.prompt | self.counts.keys(), p.repetition_penalty)
        if self.counts and (p.presence_penalty != 0 or p.frequency_penalty != 0):
            processors.presence_and_frequency(row, self.counts, p.presence_penalty, p.frequency_penalty)
        if p.logit_bias:
            processors.bias(row, p.logit_bias)
        # guard[min-tokens]: before min_tokens nothing that would end the sequence may be drawn
        # mutant[min-tokens/one-early]:
        #   - if self.index < p.min_tokens:
        #   -     processors.forbid(row, self.endings)
        #   + if self.index + 1 < p.min_tokens:
        #   +     processors.forbid(row, self.endings)
        if self.index < p.min_tokens:
            processors.forbid(row, self.endings)


def random_numbers(states: Sequence[SampleState], places: Sequence[int]) -> NDArray[np.float64]:
    """One number per state [B], for its generated token `places[b]`; each a function of that state's (seed, sample
    index, place) alone.

    Philox costs nearly the same for one number as for many, so AHEAD of them are made at a time, and for all states
    that will soon need some.
    """
    left = [state.first_number + len(state.numbers) - place for state, place in zip(states, places, strict=True)]
    if min(left) < 1:
        few = [b for b, count in enumerate(left) if count <= AHEAD // 2]
        keys = np.array([(states[b].seed, states[b].sample_index, places[b]) for b in few], np.uint64)[..., None]
        ahead = np.arange(AHEAD, dtype=np.uint64)
        # guard[own-stream]: a draw depends on the request alone; a generator shared by the batch couples its rows
        # origin: vllm-project/vllm#51226
        # mutant[own-stream/one-for-the-batch]:
        #   - made = philox.uniform(keys[:, 0], keys[:, 1], keys[:, 2] + ahead)
        #   + made = philox.uniform(keys[0, 0], 0, keys[0, 2] + np.arange(len(keys), dtype=np.uint64)[:, None] + ahead)
        # mutant[own-stream/samples-share]:
        #   - made = philox.uniform(keys[:, 0], keys[:, 1], keys[:, 2] + ahead)
        #   + made = philox.uniform(keys[:, 0], 0, keys[:, 2] + ahead)
        made = philox.uniform(keys[:, 0], keys[:, 1], keys[:, 2] + ahead)
        for b, row in zip(few, made.tolist(), strict=True):
            states[b].first_number, states[b].numbers = places[b], row
    return np.array([s.numbers[place - s.first_number] for s, place in zip(states, places, strict=True)])


def new_state(
    params: SamplingParams,
    prompt_ids: Sequence[int],
    *,
    engine_seed: int,
    request_id: int,
    vocab_size: int,
    sample_index: int = 0,
    eos_ids: Collection[int] = (),
    generated: Sequence[int] = (),
    decode: Callable[[int], str] = no_text,
) -> SampleState:
    """The state of completion `sample_index` of a request; a request without a seed gets one from the engine's.

    `request_id` is the same for all n completions of a request. Raises OptionError for ids outside the vocabulary.
    """
    seed = philox.derived_seed(engine_seed, request_id) if params.seed is None else params.seed
    return SampleState(
        params,
        prompt_ids,
        seed=seed,
        vocab_size=vocab_size,
        sample_index=sample_index,
        eos_ids=[token for token in eos_ids if token < vocab_size],
        generated=generated,
        decode=decode,
    )


def refuse_foreign(params: SamplingParams, vocab_size: int) -> None:
    """Raises OptionError for token ids that the vocabulary lacks, and for a bias that leaves no token at all."""
    for name, tokens in (("logit_bias", params.logit_bias or {}), ("stop_token_ids", params.stop_token_ids)):
        bad = next((token for token in tokens if token >= vocab_size), None)
        if bad is not None:
            raise OptionError(f"{name}: token id {bad} is outside the vocabulary 0..{vocab_size - 1}")
    forbidden = sum(value == -math.inf for value in (params.logit_bias or {}).values())
    if forbidden >= vocab_size:
        raise OptionError(f"logit_bias forbids all {vocab_size} tokens; leave at least one")

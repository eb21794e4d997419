"""From prompts to running sequences and back: requests in, pieces of text out, whole outputs at the end."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from teachkv.assembly import Assembly
from teachkv.errors import RequestError, TeachKVError
from teachkv.outputs import RequestMetrics, RequestOutput, StreamChunk
from teachkv.sample import SampleState, TokenLogprobs, new_state, refuse_foreign
from teachkv.sequence import Request
from teachkv.sequence import Sequence as Running
from teachkv.text import TextStream

CLOSED = "this LLM has been closed: make a new one"


class Serving:
    """Runs the engine for callers. Several may take turns, from several threads: each step serves them all."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly, self.engine = assembly, assembly.engine
        self.requests = self.ids = self.changes = 0
        self.door, self.inside = threading.Lock(), threading.Lock()
        self.holder: int | None = None
        self.left: list[int] = []
        self.closed = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One caller at a time. The two locks make it the one who waits, not the one who has just been.

        Raises TeachKVError to a callback that is called in a step and asks for another one.
        """
        if self.holder == threading.get_ident():
            raise TeachKVError("the engine is in a step: call it after the log callback has returned")
        with self.door:
            self.inside.acquire()
        try:
            self.holder = threading.get_ident()
            self.sweep()
            yield
        finally:
            self.sweep()
            self.holder = None
            self.inside.release()

    def sweep(self) -> None:
        """Abort what callers have left."""
        while self.left:
            self.engine.roster.abort(self.left.pop())
            self.engine.in_flight = self.engine.awaited()

    def abandon(self, ids: list[int]) -> None:
        """A caller has gone. Inside a step (a forgotten stream that the collector found just then) the end of the step
        sees to it."""
        self.left += ids
        if self.holder != threading.get_ident():
            with self.turn():
                pass

    def check(self, request: Request) -> None:
        """Refuse at the door what can never be served; nothing has started then."""
        length, context = len(request.prompt.ids), self.engine.roster.limits.max_model_len
        if length > context:
            raise RequestError(
                f"prompt {request.index}: {length} tokens do not fit into the context of {context}; shorten it"
            )
        # guard[door-foreign-ids]: refused when its state is made, a request has company that is already in the queue
        # mutant[door-foreign-ids/removed]:
        #   - refuse_foreign(request.params, self.assembly.config.vocab_size)
        #   + pass
        refuse_foreign(request.params, self.assembly.config.vocab_size)

    def start(self, request: Request) -> list[Running]:
        """Queue the request's n samples."""
        tokenizer, params = self.assembly.tokenizer, request.params
        number, self.requests = self.requests, self.requests + 1
        samples = []
        for index in range(params.n):
            state = self.state(request, number, index)
            text = TextStream(
                tokenizer,
                params.stop_strings,
                request.prompt.ids,
                skip_special=params.skip_special_tokens,
                include_stop=params.include_stop_str_in_output,
                min_tokens=params.min_tokens,
            )
            logprobs: list[TokenLogprobs] | None = [] if params.logprobs is not None else None
            samples.append(Running(self.ids, request, index, state, text, list(request.prompt.ids), logprobs=logprobs))
            self.ids += 1
        for sample in samples:
            self.engine.roster.add(sample)
        return samples

    def state(self, request: Request, number: int, sample_index: int) -> SampleState:
        tokenizer, config = self.assembly.tokenizer, self.assembly.config
        return new_state(
            request.params,
            request.prompt.ids,
            engine_seed=self.assembly.seed,
            request_id=number,
            vocab_size=config.vocab_size,
            sample_index=sample_index,
            eos_ids=self.engine.roster.limits.eos_ids,
            decode=tokenizer.token_text,
        )

    def stop(self) -> None:
        """Abort everything; streams that are open end with what they have."""
        with self.turn():
            self.closed, self.changes = True, self.changes + 1
            for id in list(self.engine.roster.sequences):
                self.engine.roster.abort(id)

    def serve(self, requests: Sequence[Request], *, pieces: bool) -> Iterator[StreamChunk]:
        """Run until all of these requests have ended. Closing the iterator early aborts what is left of them.

        pieces: give what each step brought; else one chunk per request, when it has ended.
        """
        watched: list[list[Watch]] = []
        seen = -1
        try:
            with self.turn():
                if self.closed:
                    raise TeachKVError(CLOSED)
                # guard[queued-is-watched]: what was queued when the next one fails must be abandoned, or runs unasked
                # mutant[queued-is-watched/all-or-none]:
                #   - for request in requests:
                #   -     watched.append([Watch(sample) for sample in self.start(request)])
                #   + watched += [[Watch(sample) for sample in self.start(request)] for request in requests]
                for request in requests:
                    watched.append([Watch(sample) for sample in self.start(request)])
            while watched:
                with self.turn():
                    # Another caller's step, or `stop`, may have done what this caller waits for.
                    chunks = news(watched, pieces) if seen != self.changes else []
                    if not chunks:
                        self.changes += 1
                        self.engine.step()
                        chunks = news(watched, pieces)
                    seen = self.changes
                yield from chunks
                if any(chunk.output is not None for chunk in chunks):
                    watched = [samples for samples in watched if not all(watch.ended for watch in samples)]
        finally:
            self.abandon([watch.sample.id for samples in watched for watch in samples])


@dataclass(slots=True, eq=False)
class Watch:
    """How much of a sample its caller has been given.

    What is new is read from the sample, not from what a step returned: the step may have been another caller's, and one
    that was interrupted returned nothing.
    """

    sample: Running
    tokens: int = 0
    pieces: int = 0
    ended: bool = False

    def news(self) -> StreamChunk | None:
        sample = self.sample
        known = sample.prompt_len + self.tokens
        if self.ended or (len(sample.tokens) == known and not sample.finished):
            return None
        fresh = sample.tokens[known:]
        self.tokens += len(fresh)
        text, self.pieces = sample.text.since(self.pieces)
        self.ended = sample.finished
        return StreamChunk(sample.request.index, sample.sample_index, text, fresh, sample.finish_reason)


def news(watched: list[list[Watch]], pieces: bool) -> list[StreamChunk]:
    """What has happened since the last look, or only what has ended. A request's last chunk carries its output."""
    chunks = []
    for samples in watched:
        if not pieces and (samples[0].sample.finish_reason is None or not all(w.sample.finished for w in samples)):
            continue
        for watch in samples:
            chunk = watch.news()
            if chunk is not None and all(w.ended for w in samples):
                chunk.output = whole([w.sample for w in samples])
            if chunk is not None:
                chunks.append(chunk)
    return chunks


def whole(samples: list[Running]) -> RequestOutput:
    """The output of a request all of whose samples have ended."""
    request = samples[0].request
    firsts = [s.first_token_at for s in samples if s.first_token_at is not None]
    return RequestOutput(
        request_id=str(request.index),
        prompt=request.prompt.text,
        prompt_token_ids=list(request.prompt.ids),
        prompt_logprobs=request.prompt_logprobs,
        outputs=[sample.completion() for sample in samples],
        num_cached_tokens=samples[0].cached,
        metrics=RequestMetrics(request.arrival, min(firsts, default=None), max(s.finished_at or 0.0 for s in samples)),
    )

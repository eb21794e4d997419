"""From prompts to running sequences and back: requests in, pieces of text out, whole outputs at the end."""

from collections.abc import Iterator, Sequence

from teachkv.assembly import Assembly
from teachkv.errors import RequestError
from teachkv.outputs import RequestMetrics, RequestOutput, StreamChunk
from teachkv.roster import Progress
from teachkv.sample import SampleState, TokenLogprobs, new_state
from teachkv.sequence import Request
from teachkv.sequence import Sequence as Running
from teachkv.text import TextStream


class Serving:
    """Runs the engine for callers. Several may take turns: what a step did for another waits in the mail."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly, self.engine = assembly, assembly.engine
        self.requests = self.ids = 0
        self.mail: dict[int, list[Progress]] = {}

    def check(self, request: Request) -> None:
        """Refuse at the door what can never be served; nothing has started then."""
        length, context = len(request.prompt.ids), self.engine.roster.limits.max_model_len
        if length > context:
            raise RequestError(
                f"prompt {request.index}: {length} tokens do not fit into the context of {context}; shorten it"
            )

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
            self.mail[sample.id] = []
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
        """Abort everything."""
        for id in list(self.engine.roster.sequences):
            self.engine.roster.abort(id)

    def serve(self, requests: Sequence[Request]) -> Iterator[StreamChunk]:
        """Run until all of these requests have ended. Closing the iterator early aborts what is left of them."""
        running: list[list[Running]] = []
        try:
            running += [self.start(request) for request in requests]
            for samples in running:
                yield from self.at_once(samples)
            open_ids = {s.id for samples in running for s in samples if not s.finished}
            while open_ids:
                if not any(self.mail[id] for id in open_ids):
                    for progress in self.engine.step():
                        self.mail[progress.sequence.id].append(progress)
                yield from self.deliver(running, open_ids)
        finally:
            for sample in (s for samples in running for s in samples):
                self.engine.roster.abort(sample.id)
                self.mail.pop(sample.id, None)

    def at_once(self, samples: list[Running]) -> Iterator[StreamChunk]:
        """Samples that ended at the door (max_tokens=0, a full context)."""
        for sample in samples:
            if sample.finished:
                output = whole(samples) if sample is samples[-1] else None
                yield StreamChunk(sample.request.index, sample.sample_index, "", [], sample.finish_reason, output)

    def deliver(self, running: list[list[Running]], open_ids: set[int]) -> Iterator[StreamChunk]:
        """Hand out this caller's mail. A request's last chunk carries its output."""
        for samples in running:
            for sample in samples:
                if sample.id not in open_ids:
                    continue
                mail, self.mail[sample.id] = self.mail[sample.id], []
                for progress in mail:
                    last = sample.finished and progress is mail[-1]
                    if last:
                        open_ids.discard(sample.id)
                    done = last and not any(s.id in open_ids for s in samples)
                    yield StreamChunk(
                        request=sample.request.index,
                        index=sample.sample_index,
                        text=progress.text,
                        token_ids=list(progress.tokens),
                        finish_reason=sample.finish_reason if last else None,
                        output=whole(samples) if done else None,
                    )


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

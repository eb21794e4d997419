"""The public face: `LLM`, used like vLLM's offline API."""

import logging
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from teachkv.assembly import assemble
from teachkv.errors import OptionError, RequestError, TeachKVError
from teachkv.loading import load
from teachkv.observe import Trace
from teachkv.options import EngineOptions
from teachkv.outputs import RequestOutput, StreamChunk
from teachkv.prompts import ChatOptions, Message, Prompt, as_list, is_message, parse_ids, parse_prompt
from teachkv.sample import SamplingParams
from teachkv.sample.options import refuse_unknown
from teachkv.sequence import Request
from teachkv.serving import CLOSED, Serving

Prompts = Prompt | Sequence[Prompt]
Params = SamplingParams | Sequence[SamplingParams] | None


class LLM:
    """A model, ready to answer.

    model: "smollm2" (after `teachkv pull smollm2`), "tiny" or "glass" (no file needed), a Hugging Face directory, or a
    `.gguf` file. log: receives the path, running/waiting and engagement lines (default: the logger "teachkv").
    trace: keep a record of every step in `llm.trace`. All other options are those of EngineOptions.

    Threads may share one LLM: steps are taken one at a time, and each serves all callers. A fork or a pickle of it is
    of no use: make another one there. An error or Ctrl-C in a call ends that call's requests, nobody else's.

    Raises OptionError, ConfigError, CheckpointError, TokenizerError, BackendError: one line each, nothing half loaded.
    """

    def __init__(
        self, model: str, *, log: Callable[[str], None] | None = None, trace: bool = False, **options: Any
    ) -> None:
        parsed = EngineOptions.parse(options)
        emit = log or logging.getLogger("teachkv").info
        self._serving: Serving | None = Serving(assemble(load(model), parsed, log=emit, trace=trace))

    def generate(self, prompts: Prompts, sampling_params: Params = None) -> list[RequestOutput]:
        """Answer one prompt or many; one output per prompt, in their order.

        A prompt is text, token ids, chat messages, or vLLM's mapping form. Ids are taken as they are: bring rows of
        their own length, since there is no mask, and a pad id is a token like any other. Everything is checked before
        anything runs (RequestError, OptionError). What goes wrong later ends that request alone: its output carries
        `.error` and the finish reason "error"; of a single prompt the error is raised.
        """
        items, single = as_list(prompts)
        chunks = self._serve(items, sampling_params, pieces=False)
        finished = [chunk.output for chunk in chunks if chunk.output is not None]
        if single and finished[0].error is not None:
            raise finished[0].error
        return sorted(finished, key=lambda output: int(output.request_id))

    def chat(
        self, messages: Sequence[Any], sampling_params: Params = None, **options: Unpack[ChatOptions]
    ) -> list[RequestOutput]:
        """`generate` for one conversation or many, under vLLM's name for it; options as for `chat_prompt`.

        Raises RequestError for what is no conversation, TemplateError where the template refuses one.
        """
        conversations, single = as_list(messages)
        for index, conversation in enumerate(conversations):
            if not (isinstance(conversation, Sequence) and conversation and all(map(is_message, conversation))):
                raise RequestError(f"conversation {index}: bring messages with 'role' and 'content'")
        prompts = [self.chat_prompt(conversation, **options) for conversation in conversations]
        return self.generate(prompts[0] if single else prompts, sampling_params)

    def chat_prompt(self, messages: Sequence[Message], **options: Unpack[ChatOptions]) -> dict[str, list[int]]:
        """A conversation under the model's chat template, as a prompt: {"prompt_token_ids": ids}.

        tools, documents, variables: what the template may name. template_name: one of several templates.
        continue_final_message: the model goes on with the last message. Raises TemplateError, UnknownOption.
        """
        refuse_unknown(options, ChatOptions.__annotations__, "chat")
        return {"prompt_token_ids": self._alive().assembly.tokenizer.chat_ids(messages, **options)}

    def stream(self, prompts: Prompts, sampling_params: Params = None) -> Iterator[StreamChunk]:
        """Like `generate`, piece by piece, as soon as each piece is certain. A request's last chunk carries its output.

        Several streams may be consumed side by side. Leaving one early aborts what is left of it.
        """
        return self._serve(as_list(prompts)[0], sampling_params, pieces=True)

    def forward(
        self, ids: Sequence[int] | NDArray[np.integer[Any]], bias: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Logits [T, V] float32 at every position of one sequence of T ids; running requests are not touched.

        bias [1, 1, T, T] float32 replaces the causal mask: it is added to the scores (0 visible, -inf hidden).
        """
        assembly = self._alive().assembly
        limit = assembly.engine.roster.limits.max_model_len
        prompt = parse_ids(ids, "forward", assembly.config.vocab_size)
        if len(prompt.ids) > limit:
            raise OptionError(f"forward: {len(prompt.ids)} ids do not fit into the context of {limit}; shorten them")
        shape = (1, 1, len(prompt.ids), len(prompt.ids))
        if bias is not None and np.shape(bias) != shape:
            raise OptionError(f"forward: bias has shape {np.shape(bias)}; it must be {shape}")
        with self._alive().turn():
            return assembly.forward(prompt.ids, None if bias is None else np.asarray(bias, dtype=np.float32))

    def stats(self) -> dict[str, Any]:
        """What the running engine did and on which path: counts, caches, prefix cache, mechanisms, kernel tellings."""
        return self._alive().assembly.stats()

    @property
    def trace(self) -> Trace:
        """The step records. Raises OptionError without `trace=True`."""
        trace = self._alive().engine.observer.trace
        if trace is None:
            raise OptionError("no trace was kept: make the LLM with trace=True")
        return trace

    def close(self) -> None:
        """Abort what runs and let go of weights and caches. Open streams end with what they have. Twice is once."""
        if self._serving is not None:
            self._serving.stop()
            self._serving = None

    def __enter__(self) -> "LLM":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _alive(self) -> Serving:
        if self._serving is None:
            raise TeachKVError(CLOSED)
        return self._serving

    def _serve(
        self, prompts: list[Prompt | Sequence[Message]], sampling_params: Params, *, pieces: bool
    ) -> Iterator[StreamChunk]:
        """Check every prompt now; run when the iterator is first asked."""
        serving = self._alive()
        tokenizer, vocab = serving.assembly.tokenizer, serving.assembly.config.vocab_size
        requests = []
        for index, (prompt, params) in enumerate(zip(prompts, per_prompt(sampling_params, len(prompts)), strict=True)):
            requests.append(Request(index, parse_prompt(prompt, f"prompt {index}", tokenizer, vocab), params))
            serving.check(requests[-1])
        return serving.serve(requests, pieces=pieces)


def per_prompt(params: Params, count: int) -> list[SamplingParams]:
    """One SamplingParams per prompt. Raises OptionError if a list has another length, rather than drop prompts."""
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    if not isinstance(params, Sequence) or not all_params(params):
        raise OptionError(
            f"sampling params of type {type(params).__name__}: give one SamplingParams, or one per prompt"
        )
    if len(params) != count:
        raise OptionError(f"{len(params)} sampling params for {count} prompts: give one for all, or one for each")
    return list(params)


def all_params(items: Sequence[object]) -> bool:
    return all(isinstance(item, SamplingParams) for item in items)

"""Peers: other engines on the same cells, each in a fresh process. What they say of their path nobody here can check.

They get token ids and give token ids. `transformers` runs whole batches through `generate`; `llama-cpp` and
`mistralrs` have no such door in their Python interface, so requests go one by one, and the report says so.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from teachkv.bench.arms import Arm
from teachkv.bench.engine_target import peak_bytes
from teachkv.bench.pulse import pulse
from teachkv.bench.samples import Facts, Step
from teachkv.bench.sources import versions
from teachkv.bench.target import Event
from teachkv.errors import OptionError

MODULES = {"transformers": ("transformers", "torch"), "llama-cpp": ("llama_cpp",), "mistralrs": ("mistralrs",)}
Stamped = list[tuple[float, int]]  # (when, token), one row
Generate = Callable[[list[list[int]], list[int]], list[Stamped]]


def check_peers(arms: Sequence[Arm]) -> None:
    """Raises OptionError for a peer that is not installed: nothing has been measured then."""
    for arm in arms:
        for module in MODULES.get(arm.source, ()) if arm.kind == "peer" else ():
            if find_spec(module) is None:
                raise OptionError(f"arm {arm.label!r}: package {module!r} is not installed in this environment")


class PeerTarget:
    """Serves what was submitted since the last step as one batch. `generate` runs it and stamps each token."""

    def __init__(self, name: str, vocab: int, avoid: Sequence[int], generate: Generate, note: str) -> None:
        self.name, self.vocab, self.generate, self.note = name, vocab, generate, note
        self.avoid: Sequence[int] = sorted(avoid)
        self.queue: list[tuple[int, list[int], int]] = []
        self.steps: list[Step] = []

    def now(self) -> float:
        return time.perf_counter()

    def pulse(self) -> float:
        return pulse()

    def wait(self, until: float) -> None:
        time.sleep(max(0.0, until - self.now()))

    def submit(self, key: int, prompt: Sequence[int], out: int, *, stops: bool) -> None:
        if stops:
            raise OptionError(f"peer {self.name}: cells that stop at eos are for teachkv arms")
        self.queue.append((key, list(prompt), out))

    def step(self) -> list[Event]:
        queue, self.queue = self.queue, []
        began = self.now()
        try:
            rows = self.generate([prompt for _, prompt, _ in queue], [out for _, _, out in queue])
        except Exception as error:  # whatever a peer raises is its answer to these requests
            told = f"{type(error).__name__}: {error}"
            return [Event(key, (), self.now(), error=told, success=False) for key, _, _ in queue]
        events = []
        for (key, _, out), tokens in zip(queue, rows, strict=True):
            events += [Event(key, (token,), at) for at, token in tokens[:out]]
            events.append(Event(key, (), self.now(), finish="length" if len(tokens) >= out else "stop"))
        self.note_step(began, queue)
        return events

    def note_step(self, began: float, queue: list[tuple[int, list[int], int]]) -> None:
        """A peer's batch is one step from outside: its prefill and decode cannot be told apart here."""
        taken, given = sum(len(prompt) for _, prompt, _ in queue), sum(out for _, _, out in queue)
        self.steps.append(Step(self.now(), self.now() - began, 0.0, len(queue), 0, len(queue), taken, given))

    def idle(self) -> bool:
        return not self.queue

    def take_steps(self) -> list[Step]:
        steps, self.steps = self.steps, []
        return steps

    def facts(self) -> Facts:
        packages = {"llama-cpp": "llama-cpp-python"}.get(self.name, self.name)
        import numpy

        return Facts(
            log=(self.note,), versions=versions((packages, "torch")), model=self.name, peak_bytes=peak_bytes(numpy)
        )


def peer(name: str, model: str, options: Mapping[str, Any]) -> PeerTarget:
    """Raises OptionError for what the peer cannot be given."""
    from teachkv.checkpoint.pull import KNOWN, cached_dir

    place = cached_dir(model) if model in KNOWN else Path(model)
    if place is None or not place.exists():
        raise OptionError(f"peer {name}: {model!r} is no model on disk; peers need a directory or a .gguf file")
    makers = {"transformers": transformers_target, "llama-cpp": llama_target, "mistralrs": mistralrs_target}
    return makers[name](place, dict(options))


def transformers_target(place: Path, options: dict[str, Any]) -> PeerTarget:
    """`generate` on a left-padded batch, eager attention unless the arm says otherwise, eos switched off."""
    import torch
    from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList

    device = options.pop("device", "cuda" if torch.cuda.is_available() else "cpu")
    dtype = getattr(torch, options.pop("dtype", "float32" if device == "cpu" else "bfloat16"))
    model = AutoModelForCausalLM.from_pretrained(place, dtype=dtype, **options).to(device).eval()
    eos = model.generation_config.eos_token_id
    avoid = eos if isinstance(eos, list) else [] if eos is None else [eos]
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0

    class Stamp(StoppingCriteria):  # type: ignore[misc]
        def __init__(self) -> None:
            self.at: list[float] = []

        def __call__(self, ids: Any, scores: Any, **_: Any) -> Any:
            ids[:, -1].tolist()  # reading the tokens waits for the device
            self.at.append(time.perf_counter())
            return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)

    def generate(prompts: list[list[int]], outs: list[int]) -> list[Stamped]:
        widest, stamp = max(map(len, prompts)), Stamp()
        ids = torch.tensor([[0] * (widest - len(prompt)) + prompt for prompt in prompts], device=device)
        mask = torch.tensor([[0] * (widest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
        with torch.inference_mode():
            made = model.generate(
                ids,
                attention_mask=mask,
                do_sample=False,
                max_new_tokens=max(outs),
                stopping_criteria=StoppingCriteriaList([stamp]),
            )
        return [list(zip(stamp.at, row, strict=True)) for row in made[:, widest:].tolist()]

    return PeerTarget("transformers", model.config.vocab_size, avoid, generate, f"{device}, {dtype}, padded batch")


def llama_target(place: Path, options: dict[str, Any]) -> PeerTarget:
    """llama.cpp through its Python binding, one request after the other."""
    from llama_cpp import Llama

    files = sorted(place.glob("*.gguf")) if place.is_dir() else [place]
    if not files:
        raise OptionError(f"peer llama-cpp: no .gguf file in {place}")
    engine = Llama(str(files[0]), n_ctx=options.pop("n_ctx", 2048), verbose=False, **options)

    def generate(prompts: list[list[int]], outs: list[int]) -> list[Stamped]:
        rows = []
        for prompt, out in zip(prompts, outs, strict=True):
            row: Stamped = []
            for token in engine.generate(prompt, temp=0.0, top_k=1):
                row.append((time.perf_counter(), int(token)))
                if len(row) == out:
                    break
            rows.append(row)
        return rows

    return PeerTarget("llama-cpp", engine.n_vocab(), [engine.token_eos()], generate, "one request at a time")


def mistralrs_target(place: Path, options: dict[str, Any]) -> PeerTarget:
    """mistral.rs takes text, not ids: what it makes of it is not quite the prompt that the other arms got."""
    from mistralrs import CompletionRequest, Runner, Which

    from teachkv.loading import load
    from teachkv.text import load_tokenizer

    loaded = load(place)
    tokenizer = load_tokenizer(loaded.tokenizer_source, loaded.template_source)
    runner = Runner(which=Which.Plain(model_id=str(place)), **options)

    def generate(prompts: list[list[int]], outs: list[int]) -> list[Stamped]:
        rows = []
        for prompt, out in zip(prompts, outs, strict=True):
            request = CompletionRequest(
                prompt=tokenizer.decode(prompt), model="default", max_tokens=out, temperature=0.0, ignore_eos=True
            )
            answer = runner.send_completion_request(request)
            done = time.perf_counter()
            rows.append([(done, 0)] * int(answer.usage.completion_tokens))
        return rows

    note = "one request at a time, text in, no stamps between tokens"
    return PeerTarget("mistralrs", loaded.config.vocab_size, sorted(loaded.config.eos_ids), generate, note)

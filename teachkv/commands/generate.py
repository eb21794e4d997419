"""`teachkv generate`: answer several prompts in one batch, printing as it streams.

Prompts come from the command line, from files (one prompt each), or from stdin with `--file -`. Answers go to stdout in
the order of the prompts: the first unfinished one streams, the others wait their turn. Status lines go to stderr.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from teachkv.commands.parsing import Verbs, add_fields, picked, say
from teachkv.commands.status import StatusLines
from teachkv.errors import RequestError

EXAMPLES = """examples:
  teachkv generate --model tiny "any text" --max-tokens 8
  teachkv generate --chat "What is a KV cache?" "Name three rivers." --max-tokens 64 --temperature 0
  teachkv generate --model smollm2 --file README.md --max-tokens 32"""


def add(verbs: Verbs) -> None:
    from teachkv.options import EngineOptions
    from teachkv.sample import SamplingParams

    parser = verbs.add_parser("generate", help="answer prompts, streaming", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("prompts", nargs="*", metavar="PROMPT", help="text to continue, or to answer with --chat")
    parser.add_argument("--file", action="append", default=[], metavar="FILE", help="a prompt from a file; - is stdin")
    parser.add_argument(
        "--model", default="smollm2", help="directory, .gguf file, smollm2, tiny or glass (%(default)s)"
    )
    parser.add_argument("--chat", action="store_true", help="each prompt is a user's message, put in the chat template")
    parser.add_argument("--json", action="store_true", help="one JSON object per answer on stdout, no streaming")
    parser.add_argument("--trace", metavar="FILE", help="write a record of every step as JSON lines")
    parser.add_argument("--quiet", action="store_true", help="no status lines on stderr")
    add_fields(parser.add_argument_group("sampling"), SamplingParams)
    add_fields(parser.add_argument_group("engine"), EngineOptions)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from teachkv.llm import LLM
    from teachkv.options import EngineOptions
    from teachkv.sample import SamplingParams

    prompts = read_prompts(args.prompts, args.file)
    params = SamplingParams(**picked(args, SamplingParams))
    options = picked(args, EngineOptions)
    tell = StatusLines(quiet=args.quiet)
    if args.trace is not None:
        open(args.trace, "a").close()  # a path that cannot be written is told now, not when all is done
    began = time.perf_counter()
    with LLM(args.model, log=tell, trace=args.trace is not None, **options) as llm:
        tell(f"ready in {time.perf_counter() - began:.2f} s")
        asked: list[Any] = [[{"role": "user", "content": text}] for text in prompts] if args.chat else prompts
        chunks = llm.stream(asked, params)
        outputs = print_json(chunks) if args.json else print_streaming(chunks, prompts, tell)
        if args.trace is not None:
            llm.trace.save(args.trace)
        tell(summary(outputs, llm.stats()))
    failed = [output for output in outputs if output.error is not None]
    for output in failed:
        say(f"teachkv generate: prompt {output.request_id}: {output.error}")
    return 2 if failed else 0


def read_prompts(prompts: list[str], files: list[str]) -> list[str]:
    """Texts of the prompts. Raises RequestError for bytes that are no UTF-8, wherever they came from."""
    read = [(f"prompt {number}", os.fsencode(text)) for number, text in enumerate(prompts)]
    read += [(name, sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()) for name in files]
    if not read:
        raise RequestError("no prompt: give text, or --file FILE (- for stdin)")
    texts = []
    for name, data in read:
        try:
            texts.append(data.decode("utf-8").replace("\r\n", "\n"))
        except UnicodeDecodeError as error:
            raise RequestError(f"{name}: is not UTF-8 text (byte {error.start}); convert it first") from error
    return texts


def print_json(chunks: Iterator[Any]) -> list[Any]:
    outputs = []
    for chunk in chunks:
        if chunk.output is not None:
            outputs.append(chunk.output)
            print(json.dumps(plain(chunk.output), ensure_ascii=not shows_everything(), allow_nan=False), flush=True)
    return outputs


def plain(output: Any) -> dict[str, Any]:
    """A RequestOutput as JSON can hold it."""
    data = asdict(output)
    for completion in data["outputs"]:
        completion["error"] = None if completion["error"] is None else str(completion["error"])
    return finite(data)  # type: ignore[no-any-return]


def finite(value: Any) -> Any:
    """JSON has no infinity: the log-prob of a token that cannot be drawn is null."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shows_everything() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def print_streaming(chunks: Iterator[Any], prompts: list[str], tell: StatusLines) -> list[Any]:
    """The first unfinished answer is printed live; text of later ones is kept until it is their turn."""
    order: list[tuple[int, int]] = []
    with tell.answers():
        try:
            return stream_in_order(chunks, prompts, order, tell)
        finally:
            if order:
                print(flush=True)


def stream_in_order(
    chunks: Iterator[Any], prompts: list[str], order: list[tuple[int, int]], tell: StatusLines
) -> list[Any]:
    """The outputs by prompt. `order` gets the answers as their turn comes."""
    kept: dict[tuple[int, int], list[str]] = {}
    outputs: dict[int, Any] = {}
    ended: set[tuple[int, int]] = set()
    for chunk in chunks:
        key = (chunk.request, chunk.index)
        kept.setdefault(key, []).append(chunk.text)
        if chunk.finish_reason is not None:
            ended.add(key)
        if chunk.output is not None:
            outputs[chunk.request] = chunk.output
        advance(order, kept, ended, prompts, tell)
    return [outputs[index] for index in sorted(outputs)]


def advance(
    order: list[tuple[int, int]],
    kept: dict[tuple[int, int], list[str]],
    ended: set[tuple[int, int]],
    prompts: list[str],
    tell: StatusLines,
) -> None:
    """Print what may be printed: the live answer's new text, then whole answers that are next in order."""
    while True:
        live = order[-1] if order else None
        if live is not None:
            print("".join(kept.pop(live, [])), end="", flush=True)
            if live not in ended:
                return
        following = next_key(live, kept, ended)
        if following is None:
            return
        if live:
            print(flush=True)
            tell.between()
            print()
        print(f"[{following[0] + 1}/{len(prompts)}] {excerpt(prompts[following[0]])}")
        order.append(following)


def next_key(
    live: tuple[int, int] | None, kept: dict[tuple[int, int], list[str]], ended: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """The first answer after `live`: the next sample of the same prompt if there is one, else the next prompt's."""
    seen = sorted(key for key in set(kept) | ended if live is None or key > live)
    return seen[0] if seen and (live is None or seen[0][0] <= live[0] + 1) else None


def excerpt(prompt: str, width: int = 72) -> str:
    flat = " ".join(prompt.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def summary(outputs: list[Any], stats: dict[str, Any]) -> str:
    """The closing line: how many tokens, how many ran together at most, time to the first token, rates."""
    drawn = sum(len(c.token_ids) for o in outputs for c in o.outputs)
    waits = sorted(o.metrics.time_to_first_token for o in outputs if o.metrics.time_to_first_token is not None)
    first = f"first token after {waits[len(waits) // 2]:.2f} s (median)" if waits else "no token drawn"
    steps = stats["steps"]
    return (
        f"{len(outputs)} answers, {drawn} tokens in {steps['count']} steps; at most {steps['running_max']} running; "
        f"{first}; prefill {steps['prefill_tokens_per_s']:.0f} tok/s, decode {steps['decode_tokens_per_s']:.0f} tok/s"
    )

"""`teachkv trace`: run prompts and write what every step did, as a page with a step player and as a file for Perfetto.

The page is one file that works offline: rows with their dead prefix, joins and leaves, the plan, the drawn tokens. With
`--from` a trace that was saved before (`teachkv generate --trace FILE`) is drawn instead of running anything.
"""

import argparse
from pathlib import Path
from typing import Any

from teachkv.commands.parsing import Verbs, add_fields, picked
from teachkv.commands.status import StatusLines
from teachkv.errors import OptionError

EXAMPLES = """examples:
  teachkv trace --model tiny "one" "a longer prompt" --max-tokens 8 --html trace.html
  teachkv trace --model tiny "one" --perfetto trace.json --policy ragged"""


def add(verbs: Verbs) -> None:
    from teachkv.options import EngineOptions
    from teachkv.sample import SamplingParams

    parser = verbs.add_parser("trace", help="run prompts and draw every step", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("prompts", nargs="*", metavar="PROMPT", help="text to continue, or to answer with --chat")
    parser.add_argument("--file", action="append", default=[], metavar="FILE", help="a prompt from a file; - is stdin")
    parser.add_argument(
        "--model", default="smollm2", help="directory, .gguf file, smollm2, tiny or glass (%(default)s)"
    )
    parser.add_argument("--chat", action="store_true", help="each prompt is a user's message, put in the chat template")
    parser.add_argument(
        "--from", dest="saved", metavar="FILE", help="draw a saved trace (JSON lines) instead of running"
    )
    parser.add_argument("--html", metavar="FILE", help="the page (trace.html if nothing else is asked for)")
    parser.add_argument("--perfetto", metavar="FILE", help="the file for ui.perfetto.dev")
    parser.add_argument("--jsonl", metavar="FILE", help="the records themselves, one JSON object per line")
    add_fields(parser.add_argument_group("sampling"), SamplingParams)
    add_fields(parser.add_argument_group("engine"), EngineOptions)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from teachkv.observe.export import page, perfetto
    from teachkv.observe.trace import write_jsonl

    records = read(args.saved) if args.saved else record(args)
    if not (args.html or args.perfetto or args.jsonl):
        args.html = "trace.html"
    if args.html:
        Path(args.html).write_text(page(records), encoding="utf-8")
        print(args.html)
    if args.perfetto:
        Path(args.perfetto).write_text(perfetto(records), encoding="utf-8")
        print(args.perfetto)
    if args.jsonl:
        write_jsonl(records, args.jsonl)
        print(args.jsonl)
    return 0


def record(args: argparse.Namespace) -> list[Any]:
    from teachkv.commands.generate import read_prompts
    from teachkv.llm import LLM
    from teachkv.options import EngineOptions
    from teachkv.sample import SamplingParams

    prompts = read_prompts(args.prompts, args.file)
    asked: list[Any] = [[{"role": "user", "content": text}] for text in prompts] if args.chat else list(prompts)
    with LLM(args.model, log=StatusLines(), trace=True, **picked(args, EngineOptions)) as llm:
        llm.generate(asked, SamplingParams(**picked(args, SamplingParams)))
        return llm.trace.records


def read(name: str) -> list[Any]:
    from teachkv.observe.trace import read_jsonl

    try:
        records = read_jsonl(name)
    except (ValueError, TypeError, KeyError) as error:
        raise OptionError(f"{name}: is not a saved trace ({error}); make one with --jsonl") from error
    if not records:
        raise OptionError(f"{name}: holds no step; make one with --jsonl")
    return records

"""`teachkv inspect MODEL`: what a model really is, every silent default and fall-back made visible."""

import argparse

from teachkv.commands.parsing import Verbs, add_fields, picked


def add(verbs: Verbs) -> None:
    from teachkv.options import EngineOptions

    parser = verbs.add_parser("inspect", help="print what a model really is", description=__doc__)
    parser.add_argument("model", metavar="MODEL", help="a directory, a .gguf file, smollm2, tiny or glass")
    add_fields(parser.add_argument_group("engine options"), EngineOptions, ("backend", "window_cache", "invariance"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from teachkv.assembly import describe_backend
    from teachkv.checkpoint.inspect import describe
    from teachkv.loading import load
    from teachkv.options import EngineOptions
    from teachkv.text.describe import describe_text

    options = EngineOptions.parse(picked(args, EngineOptions))
    loaded = load(args.model)
    config = loaded.config
    texts = describe_text(
        loaded.tokenizer_source,
        loaded.template_source,
        vocab=config.vocab_size,
        context=config.max_position,
        eos_ids=config.eos_ids,
    )
    # Joined first: a damaged tokenizer is an error, and an error prints nothing else.
    print("\n".join([describe(loaded), texts, describe_backend(loaded, options)]))
    return 0

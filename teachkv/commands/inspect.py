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

    options = EngineOptions.parse(picked(args, EngineOptions))
    loaded = load(args.model)
    print(describe(loaded))
    print(describe_backend(loaded, options))
    return 0

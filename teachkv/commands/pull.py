"""`teachkv pull NAME`: fetch a model once, check it, and keep it in the cache folder."""

import argparse

from teachkv.commands.parsing import Verbs


def add(verbs: Verbs) -> None:
    parser = verbs.add_parser("pull", help="fetch a model into the cache folder", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="smollm2, or ORG/NAME on the Hugging Face hub (extra 'hub')")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from teachkv.checkpoint.pull import pull

    print(pull(args.name))
    return 0

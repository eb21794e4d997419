"""The verbs. Each module has `add(verbs)`, which declares its options and sets `run`; heavy imports wait for that."""

from teachkv.commands import bench, chat, doctor, generate, inspect, pull, trace
from teachkv.commands.parsing import OneLineParser, Verbs

__all__ = ["build_parser"]


def build_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="teachkv",
        description="An LLM inference engine in plain Python, for teaching and audit.",
        epilog="First steps: teachkv pull smollm2, then: teachkv generate --chat 'What is a KV cache?'",
    )
    parser.add_argument("--version", action="version", version=f"teachkv {version()}")
    verbs: Verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=OneLineParser)
    for module in (pull, generate, chat, trace, inspect, doctor, bench):
        module.add(verbs)
    return parser


def version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("teachkv")
    except PackageNotFoundError:
        return "(running from a source tree)"

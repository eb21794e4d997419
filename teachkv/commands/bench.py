"""`teachkv bench`: measure, report, compare. Alone it measures this machine for about a minute.

Exit code 0 = measured and held; 1 = a guard or a bar failed, or samples are missing; 2 = nothing could be measured.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teachkv.commands.parsing import OneLineParser, Verbs, say

if TYPE_CHECKING:
    from teachkv.bench.record import Record

SETTINGS = ("model", "shape", "rounds", "ladder", "identity", "null", "warmup", "limit", "seed")
POLICIES = ("bucketed", "ragged", "packed")
EXAMPLES = """examples:
  teachkv bench
  teachkv bench run --model smollm2 --arm bucketed --arm ragged --cell spread-8:out=16 --out spread.json
  teachkv bench run --shape qwen2.5-0.5b --arm "floor4: policy=ragged prefill_floor_steps=4" --cell spread-128
  teachkv bench report spread.json --markdown --plots pictures
  teachkv bench compare spread.json --bar "ragged@spread-8:out=16>=1.2\""""


def add(verbs: Verbs) -> None:
    parser = verbs.add_parser("bench", help="measure, with guards", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("--out", type=Path, default=Path("bench.json"), metavar="FILE", help="the record (%(default)s)")
    parser.set_defaults(run=quick)
    actions: Verbs = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=OneLineParser)
    add_run(actions)
    shown = actions.add_parser("report", help="tables and plots of a record")
    shown.add_argument("record", type=Path, metavar="RECORD")
    shown.add_argument("--markdown", action="store_true", help="tables for a page")
    shown.add_argument("--plots", type=Path, metavar="FOLDER", help="also draw pictures (extra 'bench')")
    shown.set_defaults(run=run_report)
    compared = actions.add_parser("compare", help="what may be said about the arms")
    compared.add_argument("record", type=Path, metavar="RECORD")
    compared.add_argument("other", type=Path, nargs="?", metavar="RECORD", help="a second record: shown, never claimed")
    compared.add_argument(
        "--metric", action="append", metavar="NAME", help="tok_s (default), decode_tok_s, ttft_p50 ..."
    )
    compared.add_argument("--bar", action="append", default=[], metavar="ARM@CELL>=RATIO", help="exit 1 if not reached")
    compared.add_argument("--markdown", action="store_true", help="tables for a page")
    compared.set_defaults(run=run_compare)


def add_run(actions: Verbs) -> None:
    parser = actions.add_parser("run", help="measure", epilog=EXAMPLES)
    parser.add_argument("--preset", metavar="NAME", help="a whole question: cells, arms, settings ('list' names them)")
    parser.add_argument(
        "--cell", action="append", metavar="CELL", help="uniform-8, spread-32:out=8, arrivals:rate=2 ..."
    )
    parser.add_argument(
        "--arm", action="append", metavar="ARM", help="'label: key=value ...', a policy, a peer; first = base"
    )
    parser.add_argument("--model", help="directory, .gguf file, smollm2 (default), tiny or glass")
    parser.add_argument("--shape", metavar="NAME", help="random weights in a published shape instead of a model")
    parser.add_argument("--rounds", type=int, metavar="N", help="samples per arm and cell (5)")
    parser.add_argument("--ladder", action="store_true", default=None, help="all cells in one process")
    parser.add_argument(
        "--identity", action="store_true", default=None, help="also run every request alone and compare"
    )
    parser.add_argument("--no-null", dest="null", action="store_false", default=None, help="no A/A pair, so no claims")
    parser.add_argument("--warmup", type=warm_up, metavar="N", help="requests before the cell (1), or all")
    parser.add_argument("--probe", metavar="PROMPT,OUT", help="send a foreign request first (replays a trap; refused)")
    parser.add_argument("--limit", type=float, metavar="S", help="seconds per cell (600)")
    parser.add_argument("--order-seed", dest="seed", type=int, metavar="N", help="of the shuffled order (0)")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), metavar="FILE", help="the record (%(default)s)")
    parser.add_argument("--resume", action="store_true", help="add what the record lacks")
    parser.add_argument("--stop-after", type=float, metavar="S", help="start no sample after so many seconds")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run_measure)


def quick(args: argparse.Namespace) -> int:
    """`teachkv bench` alone."""
    parser = OneLineParser(prog="teachkv bench")
    add_run(parser.add_subparsers(dest="action", parser_class=OneLineParser))
    say("a quick look: tiny random model, small cells; 'teachkv bench run --help' for the real thing")
    return run_measure(parser.parse_args(["run", "--preset", "quick", "--out", str(args.out)]))


def run_measure(args: argparse.Namespace) -> int:
    from teachkv.bench.arms import parse_arm
    from teachkv.bench.peers import check_peers
    from teachkv.bench.presets import preset
    from teachkv.bench.session import Session, Setup, prepare, resume
    from teachkv.bench.trees import Trees

    found = preset(args.preset) if args.preset is not None else None
    given = {name: getattr(args, name) for name in SETTINGS if getattr(args, name) is not None}
    given = {**(found.settings if found is not None else {}), **given}
    if args.probe is not None:
        given["probe"] = parse_probe(args.probe)
    cells = args.cell or (found.cells if found is not None else ("uniform-8", "spread-8"))
    setup = Setup(tuple(cells), **given)
    arms = [parse_arm(text) for text in args.arm or (found.arms if found is not None else POLICIES)]
    check_peers(arms)
    check_model(setup.model, setup.shape)
    with Trees() as trees:
        for arm in arms:
            trees.texts(arm)
    fresh = not (args.resume and args.out.exists())
    record = prepare(setup, arms) if fresh else resume(args.out, setup, arms)
    session = Session(record, args.out, tell=say, stop_after=args.stop_after)
    return carry_out(session, args.quiet)


def carry_out(session: Any, quiet: bool) -> int:
    from tqdm import tqdm

    with tqdm(unit="sample", disable=quiet or not sys.stderr.isatty(), leave=False) as bar:

        def progress(done: int, all: int, label: str) -> None:
            bar.total = all
            bar.set_description_str(label[:40], refresh=False)
            bar.update(done - bar.n)

        session.progress = progress
        try:
            whole = session.run()
        except KeyboardInterrupt:
            session.record.save(session.path)
            say(f"\nkept {len(session.record.samples)} samples in {session.path}; --resume adds the rest")
            raise
    status = show(session.record, markdown=False)
    print(f"\nrecord: {session.path}")
    return status if whole else 1


def show(record: "Record", *, markdown: bool) -> int:
    from teachkv.bench.judge import judge, refusals
    from teachkv.bench.tables import report

    findings = judge(record)
    print(report(record, findings, markdown=markdown), end="")
    return 1 if refusals(findings) else 0


def run_report(args: argparse.Namespace) -> int:
    from teachkv.bench.record import Record

    record = Record.load(args.record)
    status = show(record, markdown=args.markdown)
    if args.plots is not None:
        from teachkv.bench.plots import draw

        for path in draw(record, args.plots):
            say(f"drew {path}")
    return status


def run_compare(args: argparse.Namespace) -> int:
    from teachkv.bench.compare import across, bar_held, compare, known_metrics, parse_bar
    from teachkv.bench.judge import judge, refusals
    from teachkv.bench.record import Record

    record, bars = Record.load(args.record), [parse_bar(text) for text in args.bar]
    if args.other is not None:
        print(across(record, Record.load(args.other)))
        return 1
    findings = judge(record)
    print(compare(record, findings, known_metrics(args.metric or ["tok_s"]), markdown=args.markdown))
    for finding in refusals(findings):
        say(f"REFUSED {finding}")
    held = [bar_held(record, findings, bar) for bar in bars]
    for _, line in held:
        print(line)
    return 1 if refusals(findings) or not all(reached for reached, _ in held) else 0


def parse_probe(text: str | None) -> dict[str, object] | None:
    """`40,8` is sent and forgotten, as the seed document's harness did; `40,8,settle` is waited for."""
    from teachkv.errors import OptionError

    if text is None:
        return None
    parts = text.split(",")
    if len(parts) not in (2, 3) or not all(part.isdigit() for part in parts[:2]) or parts[2:] not in ([], ["settle"]):
        raise OptionError(f"probe {text!r}: write PROMPT,OUT or PROMPT,OUT,settle, as in 40,8")
    return {"prompt": int(parts[0]), "out": int(parts[1]), "settle": len(parts) == 3}


def warm_up(text: str) -> int:
    """A number of requests; `all` = the whole cell."""
    from teachkv.bench.presets import WHOLE

    return WHOLE if text == "all" else int(text)


def check_model(model: str, shape: str | None) -> None:
    """What cannot be loaded is said before the first process starts."""
    if shape is not None:
        from teachkv.checkpoint.shapes import shape as known

        known(shape)
        return
    from teachkv.loading import load

    load(model)

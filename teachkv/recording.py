"""One StepRecord from what a step did, for the trace and the log lines."""

from dataclasses import asdict

from teachkv.attention import Kind
from teachkv.drawing import Outcome
from teachkv.observe import RowRecord, StepRecord, TokenRecord
from teachkv.work import Work


def record_of(work: Work, events: list[str], resident: int, seconds: float, *, kept: bool) -> StepRecord:
    """`events` are the cache's. What a step did for sequences that had ended when it was settled does not count.

    kept: a trace keeps the record, so plan, rows and tokens are told one by one; otherwise nobody would read them.
    """
    ran = work.refused is None and work.inputs is not None
    events = [*(f"preempt id={id}" for id in work.plan.preempt), *work.notes, *events]
    if work.has_drafts and ran:
        drafted = sum(len(chunk.drafts) for chunk in work.chunks["decode"])
        accepted = sum(work.kept()) - len(work.chunks["decode"])
        events = [*events, f"speculate drafts={drafted} accepted={accepted}"]
    # guard[surplus-uncounted]: work for a sequence that had ended is no throughput
    # mutant[surplus-uncounted/counted]:
    #   - surplus = work.surplus
    #   + surplus = set()
    surplus = work.surplus
    decoded = work.kept() if work.has_drafts and ran else [c.sequence.id not in surplus for c in work.chunks["decode"]]
    return StepRecord(
        step=work.plan.step,
        plan=asdict(work.plan) if kept else {},
        running=work.plan.running - len(surplus),
        waiting=work.plan.waiting,
        resident=resident,
        rows=tuple(row for kind in work.views for row in rows_of(work, kind)) if ran and kept else (),
        tokens=tuple(token for gained in work.outcomes for token in tokens_of(gained)) if kept else (),
        events=(*work.plan.events, *events),
        prefill_tokens=sum(c.count for c in work.chunks["prefill"] if c.sequence.id not in surplus) if ran else 0,
        decode_tokens=sum(decoded) if ran else 0,
        seconds=seconds,
        forward_seconds=work.forward_seconds,
        refused=work.refused,
        waited_seconds=work.waited,
    )


def rows_of(work: Work, kind: Kind) -> list[RowRecord]:
    """Where each row lies in the first layer's buffers."""
    at, chunks = work.views[kind].layers[0].geometry, work.chunks[kind]
    pads = [0] * len(chunks) if at.lead_pad is None else at.lead_pad.tolist()
    places = zip(chunks, at.row.tolist(), pads, at.end.tolist(), strict=True)
    return [
        RowRecord(chunk.sequence.id, kind, row, pad, end, chunk.count)
        for chunk, row, pad, end in places
        if chunk.sequence.id not in work.surplus
    ]


def tokens_of(gained: Outcome) -> list[TokenRecord]:
    """The drawn tokens in order; the last one says why the sequence ended, if it did."""
    records = [TokenRecord(gained.sequence.id, token, None) for token in gained.tokens]
    if records:
        records[-1] = TokenRecord(gained.sequence.id, gained.tokens[-1], gained.sequence.finish_reason)
    return records

"""One StepRecord from what a step did, for the trace and the log lines."""

from dataclasses import asdict, replace

import numpy as np

from teachkv.attention import Kind
from teachkv.kv.view import IntArray
from teachkv.observe import Details, RowRecord, StepRecord, TokenRecord
from teachkv.outputs import FinishReason
from teachkv.work import Work


def record_of(work: Work, events: list[str], resident: int, seconds: float) -> StepRecord:
    """All but the details. `events` are the cache's. What a step did for sequences that had ended when it was settled
    does not count."""
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
    rows = [c for c in work.chunks["decode"] if c.sequence.id not in surplus] if surplus else work.chunks["decode"]
    decoded = sum(work.kept()) if work.has_drafts and ran else len(rows)
    return StepRecord(
        step=work.plan.step,
        plan={},
        running=work.plan.running - len(surplus),
        waiting=work.plan.waiting,
        resident=resident,
        events=(*work.plan.events, *events),
        prefill_tokens=sum(c.count for c in work.chunks["prefill"] if c.sequence.id not in surplus) if ran else 0,
        decode_tokens=decoded if ran else 0,
        seconds=seconds,
        forward_seconds=work.forward_seconds,
        refused=work.refused,
        waited_seconds=work.waited,
    )


def details_of(work: Work) -> Details:
    """Plan, rows and tokens of the step, noted now and spelled out when they are read: by then sequences have gone on,
    and caches have moved."""
    plan, surplus, ran = work.plan, work.surplus, work.refused is None and work.inputs is not None
    noted = [(kind, *where(work, kind)) for kind in work.views] if ran else []
    gained = [(o.sequence.id, o.tokens, o.sequence.finish_reason) for o in work.outcomes]

    def spelled_out(record: StepRecord) -> StepRecord:
        rows = [
            RowRecord(id, kind, row, pad, end, count)
            for kind, places, chunks in noted
            for (id, count), (row, pad, end) in zip(chunks, places.T.tolist(), strict=True)
            if id not in surplus
        ]
        tokens = [token for one in gained for token in tokens_of(*one)]
        return replace(record, plan=asdict(plan), rows=tuple(rows), tokens=tuple(tokens))

    return spelled_out


def where(work: Work, kind: Kind) -> tuple[IntArray, list[tuple[int, int]]]:
    """Where each row lies in the first layer's buffers, [3, B]: row, lead pad, end; and each row's (id, new tokens)."""
    at, chunks = work.views[kind].layers[0].geometry, work.chunks[kind]
    pads = np.zeros_like(at.row) if at.lead_pad is None else at.lead_pad
    return np.stack([at.row, pads, at.end]), [(chunk.sequence.id, chunk.count) for chunk in chunks]


def tokens_of(id: int, tokens: list[int], finish_reason: FinishReason | None) -> list[TokenRecord]:
    """The drawn tokens in order; the last one says why the sequence ended, if it did."""
    last = len(tokens) - 1
    return [TokenRecord(id, token, finish_reason if place == last else None) for place, token in enumerate(tokens)]

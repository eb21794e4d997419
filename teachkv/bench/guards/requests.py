"""Did every request come back whole, and was a failure told as one?"""

from teachkv.bench.cells import Cell
from teachkv.bench.guards.answer import Answer, held, refused
from teachkv.bench.samples import Sample, Served


def completeness(sample: Sample, cell: Cell) -> Answer:
    """Exactly the tokens that were asked for, request by request, whatever exit code and error count say."""
    wanted = [ask.out for ask in cell.asks]
    got = [len(one.times) for one in sample.served]
    # guard[completeness]: 433 of 512 tokens came back with zero errors and exit code 0; only counting them found it
    # mutant[completeness/not-checked]:
    #   - complete = got == wanted
    #   + complete = sample.failed is None
    # mutant[completeness/total-only]:
    #   - complete = got == wanted
    #   + complete = sum(got) == sum(wanted)
    complete = got == wanted
    if complete:
        return held("completeness", f"{sum(got)} of {sum(wanted)} tokens")
    errors = sum(one.error is not None for one in sample.served)
    return refused("completeness", f"{sum(got)} of {sum(wanted)} tokens came back ({errors} errors reported)")


def successes(sample: Sample) -> int:
    """Requests that ended without error and with every token."""
    return sum(succeeded(one) for one in sample.served)


def succeeded(one: Served) -> bool:
    # guard[in-band-error]: an error inside a stream that began well, or an empty answer, is no success
    # origin: vllm#57519
    # mutant[in-band-error/trusts-the-client]:
    #   - return one.error is None and len(one.times) == one.out
    #   + return one.success
    # mutant[in-band-error/empty-is-fine]:
    #   - return one.error is None and len(one.times) == one.out
    #   + return one.error is None
    return one.error is None and len(one.times) == one.out


def in_band_error(sample: Sample) -> Answer:
    """No request that failed was counted as a success, and none failed."""
    good = successes(sample)
    claimed = sum(one.success for one in sample.served)
    first = next((one.error for one in sample.served if one.error is not None), "no error told")
    if claimed > good:
        return refused("in-band error", f"{claimed} counted as successes, {good} were; first: {first}")
    if good < len(sample.served):
        return refused("in-band error", f"{len(sample.served) - good} of {len(sample.served)} failed; first: {first}")
    return held("in-band error", f"{good} of {good} succeeded")

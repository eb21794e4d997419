"""Each guard refuses exactly the runs it should, and says why."""

from dataclasses import replace

import pytest
from fakes import CELL, facts, served_as, step, whole

from teachkv.bench import guards
from teachkv.bench.arms import Arm, parse_arm
from teachkv.bench.guards.outputs import Outputs
from teachkv.bench.guards.requests import successes
from teachkv.bench.judge import sample_answers
from teachkv.bench.workloads import cell

UNIFORM = cell(CELL)


def status(answer: guards.Answer) -> str:
    return answer.status


@pytest.mark.kills("completeness/not-checked")
def test_a_token_too_few_is_refused_though_nothing_reports_an_error() -> None:
    good = whole(UNIFORM)
    assert status(guards.completeness(good, UNIFORM)) == "held"
    short = replace(good, served=(served_as(50, 9), *good.served[1:]))
    answer = guards.completeness(short, UNIFORM)
    assert status(answer) == "refused"
    assert answer.reason == "39 of 40 tokens came back (0 errors reported)"


@pytest.mark.kills("completeness/total-only")
def test_one_too_few_and_one_too_many_do_not_cancel() -> None:
    good = whole(UNIFORM)
    shifted = replace(good, served=(served_as(50, 9), served_as(50, 11), *good.served[2:]))
    assert status(guards.completeness(shifted, UNIFORM)) == "refused"


def test_a_request_that_is_missing_altogether_is_refused() -> None:
    good = whole(UNIFORM)
    assert status(guards.completeness(replace(good, served=good.served[:3]), UNIFORM)) == "refused"


@pytest.mark.case("vllm-project/vllm#57519")
@pytest.mark.kills("in-band-error/trusts-the-client", "in-band-error/empty-is-fine")
def test_ten_requests_with_three_errors_two_empty_one_cut_one_timeout_are_three_successes() -> None:
    """vllm#57519: the client calls all of them successes, because the status code was 200."""
    fine = [served_as(5, 4) for _ in range(3)]
    errors = [served_as(5, 4, error="overloaded", finish=None) for _ in range(3)]
    empty = [served_as(5, 4, times=(), finish="stop") for _ in range(2)]
    cut = [served_as(5, 4, times=(0.1, 0.2), finish="stop")]
    late = [served_as(5, 4, times=(0.1,), error="timeout", finish=None)]
    sample = whole(cell("uniform-10:prompt=5,out=4"), served=(*fine, *errors, *empty, *cut, *late))
    assert successes(sample) == 3
    answer = guards.in_band_error(sample)
    assert status(answer) == "refused"
    assert "10 counted as successes, 3 were" in answer.reason


def test_a_failure_that_is_told_as_one_still_fails_the_run() -> None:
    sample = whole(UNIFORM)
    failed = replace(sample, served=(served_as(50, 10, error="boom", success=False), *sample.served[1:]))
    answer = guards.in_band_error(failed)
    assert (status(answer), "1 of 4 failed" in answer.reason) == ("refused", True)
    assert status(guards.in_band_error(sample)) == "held"


@pytest.mark.case("NVIDIA/TransformerEngine#3532")
@pytest.mark.kills("path-gate/removed")
@pytest.mark.parametrize("ran", [{"policy": "bucketed"}, {"cache": "rebuild"}])
def test_an_arm_that_ran_something_else_is_refused(ran: dict[str, str]) -> None:
    arm = parse_arm("ragged: policy=ragged backend=reference")
    assert status(guards.path_gate(whole(UNIFORM, facts=facts()), arm)) == "held"
    answer = guards.path_gate(whole(UNIFORM, facts=facts(**ran)), arm)
    assert status(answer) == "refused"
    assert next(iter(ran.values())) in answer.reason


@pytest.mark.case("NVIDIA/TransformerEngine#3532")
@pytest.mark.kills("path-gate/policy-only")
def test_the_backend_is_part_of_the_path() -> None:
    arm = parse_arm("ragged: policy=ragged backend=raw")
    assert status(guards.path_gate(whole(UNIFORM, facts=facts(backend="reference")), arm)) == "refused"
    assert status(guards.path_gate(whole(UNIFORM, facts=facts(backend="raw")), arm)) == "held"


def test_the_path_must_stand_in_the_samples_own_log() -> None:
    arm = parse_arm("ragged")
    for log in ((), ("path: policy bucketed",)):
        assert status(guards.path_gate(whole(UNIFORM, facts=facts(log=log)), arm)) == "refused"
    assert status(guards.path_gate(whole(UNIFORM, facts=facts(path=None)), arm)) == "refused"


def test_a_file_that_was_replaced_belongs_to_an_arm_that_says_so() -> None:
    under = whole(UNIFORM, facts=facts(overlaid=("teachkv/masks.py",)))
    assert status(guards.path_gate(under, parse_arm("ragged"))) == "refused"
    mutant = parse_arm("m: policy=ragged mutant=masker/none-at-one-query")
    assert status(guards.path_gate(under, mutant)) == "held"
    assert status(guards.path_gate(whole(UNIFORM, facts=facts()), mutant)) == "refused"


def test_a_peer_is_unverified_and_named_with_its_versions() -> None:
    sample = whole(UNIFORM, facts=facts(path=None, versions={"transformers": "5.17.0"}))
    answer = guards.path_gate(sample, parse_arm("transformers"))
    assert (answer.status, answer.reason) == ("unverified", "transformers 5.17.0")


@pytest.mark.case("NVIDIA/TransformerEngine#3532")
@pytest.mark.kills("engagement/removed")
def test_a_mechanism_that_never_acted_fails_its_arm() -> None:
    arm = parse_arm("floor: policy=ragged prefill_floor_steps=4")
    assert arm.engages == ("floor",)
    idle = guards.engagement(whole(UNIFORM, facts=facts()), arm)
    assert (idle.status, idle.reason) == ("refused", "claimed but never acted: floor")
    acted = facts(engaged={"floor": 2}, log=("loaded", "engaged: floor (step 9: floor)", "engaged: cap (step 9)"))
    assert status(guards.engagement(whole(UNIFORM, facts=acted), arm)) == "held"


@pytest.mark.kills("engagement/believes-the-counter")
def test_a_count_without_its_log_line_is_not_believed() -> None:
    arm = parse_arm("floor: policy=ragged prefill_floor_steps=4")
    counted = whole(UNIFORM, facts=facts(engaged={"floor": 2}))
    assert status(guards.engagement(counted, arm)) == "refused"
    other = whole(UNIFORM, facts=facts(engaged={"floor": 2}, log=("engaged: floors (step 9)",)))
    assert status(guards.engagement(other, arm)) == "refused"


def test_requests_run_alone_for_the_identity_control_need_no_engagement() -> None:
    arm = parse_arm("floor: policy=ragged prefill_floor_steps=4")
    for kind, expected in (("timed", ["engagement"]), ("solo", [])):
        answers = sample_answers(whole(UNIFORM, facts=facts(), kind=kind), arm)
        assert [answer.guard for answer in answers if answer.failed] == expected


@pytest.mark.kills("probe-purity/any-shape")
def test_a_drain_probe_of_another_shape_is_refused_and_its_damage_named() -> None:
    sample = whole(UNIFORM, probes=(served_as(40, 8),), steps=(step(ragged=True), step()))
    answer = guards.probe_purity(sample, UNIFORM)
    assert status(answer) == "refused"
    assert "40 prompt and 8 output" in answer.reason
    assert "1 decode steps of a uniform cell were ragged" in answer.reason
    assert status(guards.probe_purity(whole(UNIFORM, probes=(served_as(50, 10),)), UNIFORM)) == "held"
    assert status(guards.probe_purity(whole(UNIFORM, probes=(served_as(50, 9),)), UNIFORM)) == "refused"


@pytest.mark.case("NethermindEth/nethermind#12949")
@pytest.mark.kills("warmed-up/counts-requests")
def test_a_warm_up_is_judged_by_its_tokens() -> None:
    """NethermindEth/nethermind#12949: an engine that answers 503 in a millisecond "warms up" fastest of all."""
    dead = whole(UNIFORM, probes=(served_as(50, 10, times=(), error="503"),))
    answer = guards.probe_purity(dead, UNIFORM)
    assert (answer.status, answer.reason) == ("refused", "the warm-up produced 0 of 10 tokens")


@pytest.mark.case("MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#90")
@pytest.mark.kills("idle-start/not-asked")
def test_a_cell_that_began_on_a_busy_engine_is_refused() -> None:
    assert status(guards.probe_purity(whole(UNIFORM, idle=False), UNIFORM)) == "refused"


def outputs(batch: str, solo: str) -> Outputs:
    """One letter per request, the same letter for the same completion."""
    asked = cell(f"uniform-{len(batch)}:prompt=5,out=4")
    made = [whole(asked, served=tuple(served_as(5, 4, digest=letter) for letter in text)) for text in (batch, solo)]
    return Outputs(*made)


@pytest.mark.kills("identity/accepts-vacuous", "identity/counts-requests")
def test_fewer_than_four_distinct_completions_cannot_answer() -> None:
    for letters in ("aaaaaaaa", "abcabcab"):
        answer = guards.identity(outputs(letters, letters), outputs(letters, letters))
        assert status(answer) == "cannot-answer"
        assert answer.failed
    assert status(guards.identity(outputs("abcdabcd", "abcdabcd"), outputs("abcdabcd", "abcdabcd"))) == "held"


def test_identity_reports_how_each_arm_strays_from_its_own_b1() -> None:
    answer = guards.identity(outputs("abcdefgh", "abcdefXY"), outputs("abcdefgh", "abcdeXYZ"))
    assert status(answer) == "held"
    assert "8/8 identical (8 distinct); own B=1: base diverges in 2, arm in 3 of 8" in answer.reason
    differs = guards.identity(outputs("abcd", "abcd"), outputs("abcX", "abcX"))
    assert (differs.status, "3/4 identical" in differs.reason) == ("refused", True)


@pytest.mark.kills("equal-work/requests-only", "equal-work/output-only")
def test_arms_that_did_different_amounts_are_refused() -> None:
    same = {"a": whole(UNIFORM), "b": whole(UNIFORM)}
    assert status(guards.equal_work(same)) == "held"
    less = replace(same["a"], served=(served_as(50, 10, times=(0.1,)), *same["a"].served[1:]))
    assert status(guards.equal_work(same | {"b": less})) == "refused"
    cut = replace(same["a"], served=(served_as(49, 10), *same["a"].served[1:]))
    assert status(guards.equal_work(same | {"b": cut})) == "refused"


@pytest.mark.kills("fingerprint/looks-once")
def test_sources_that_changed_and_changed_back_are_seen() -> None:
    of = [whole(UNIFORM, facts=facts(sources=digest)) for digest in ("one", "two", "one")]
    assert status(guards.fingerprint(of, ["h", "h"])) == "refused"
    assert status(guards.fingerprint(of[:1], ["h", "h"])) == "held"


@pytest.mark.kills("fingerprint-harness/not-asked")
def test_a_harness_that_changed_during_the_run_is_refused() -> None:
    assert status(guards.fingerprint([whole(UNIFORM, facts=facts())], ["h", "i"])) == "refused"


def test_an_arm_keeps_its_claims_through_the_record() -> None:
    arm = parse_arm("x: policy=ragged prefill_floor_steps=4 claims.cache=rebuild engages=grow")
    assert Arm.from_json(arm.to_json()) == arm
    assert arm.claims == {"policy": "ragged", "cache": "rebuild", "backend": "auto"}
    assert arm.engages == ("grow", "floor")

"""`teachkv doctor` names what is there, what is missing and what clashes, each with its remedy; it never fails."""

from __future__ import annotations

from typing import Any

import pytest

from teachkv.cli import main
from teachkv.commands import doctor
from teachkv.commands.finding import CLASH, MISSING, OK, Finding
from teachkv.commands.surroundings import environment, hub

GPU = Finding(OK, "GPU", "1 x NVIDIA H200, driver for CUDA 13.0")
NO_GPU = Finding(MISSING, "GPU", "no NVIDIA driver")


def having(**versions: str) -> Any:
    return lambda name: versions.get(name.replace("-", "_"))


def refuse() -> None:
    raise AttributeError("module 'numpy' has no attribute 'row_stack'\nmore")


def test_the_report_ends_well_and_has_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    names = [line[4:].split()[0] for line in lines]
    machine = ["Python", "NumPy", "Invariance", "Numba", "GPU", "CuPy", "C++", "NVRTC"]
    assert names == [*machine, "Readers", "Hub", "Models", "Environment", "Backends"]
    assert all(line[:2] in (OK, MISSING, CLASH) for line in lines)


@pytest.mark.kills("doctor-numpy-clash/any-numpy")
def test_a_clash_of_numba_and_numpy_is_found_with_its_remedy() -> None:
    found = doctor.numba(having(numba="0.68.1", numba_cuda="0.30.4", numpy="2.5.2"), refuse)
    assert found.state == CLASH
    assert "beside NumPy 2.5.2" in found.found
    assert found.remedy == "pip install 'numpy<2.5'"


def test_another_fault_of_numba_is_shown_as_it_is() -> None:
    found = doctor.numba(having(numba="0.68.1", numba_cuda="0.30.4", numpy="2.4.6"), refuse)
    assert found.state == CLASH
    assert "has no attribute 'row_stack'" in found.found
    assert "more" not in found.found


def test_numba_present_and_missing() -> None:
    assert doctor.numba(having(numba="0.68.1", numba_cuda="0.30.4"), lambda: None).state == OK
    found = doctor.numba(having(numba="0.68.1"), lambda: None)
    assert (found.state, found.remedy) == (MISSING, "pip install 'teachkv[simulator]'")


@pytest.mark.parametrize(
    ("versions", "gpu", "state", "says"),
    [
        ({}, NO_GPU, MISSING, "not needed without a GPU"),
        ({}, GPU, MISSING, "teachkv[cuda13]"),
        ({}, Finding(OK, "GPU", "driver for CUDA 12.4"), MISSING, "teachkv[cuda12]"),
        ({"cupy_cuda13x": "14.2.0"}, GPU, OK, "14.2.0 (cupy-cuda13x)"),
        ({"cupy_cuda13x": "14.2.0", "cupy_cuda12x": "14.2.0"}, GPU, CLASH, "pip uninstall cupy-cuda12x"),
    ],
)
def test_cupy(versions: dict[str, str], gpu: Finding, state: str, says: str) -> None:
    found = doctor.cupy(having(**versions), gpu)
    assert found.state == state
    assert says in str(found)


def test_a_machine_that_is_not_invariant_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ops:
        notes = ("linear: 1 shape as rows padded to 8, NOT invariant on this machine",)

    monkeypatch.setattr("cuda_kernels.registry.make_ops", lambda *_, **__: Ops)
    assert doctor.invariance().state == CLASH


def test_no_compiler_and_no_model_have_remedies(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from cuda_kernels.errors import KernelUnavailable

    def none() -> None:
        raise KernelUnavailable("none")

    monkeypatch.setattr("cuda_kernels.host.build.compiler", none)
    assert doctor.compiler().remedy == "pip install ziglang"
    monkeypatch.setenv("TEACHKV_CACHE", str(tmp_path))
    assert doctor.models().remedy == "teachkv pull smollm2"


def test_backends_follow_from_the_findings() -> None:
    def names(gpu: str, cupy: str, numba: str, compiler: str = MISSING) -> str:
        found = {"GPU": gpu, "CuPy": cupy, "Numba": numba, "C++": compiler}
        return doctor.backends({what: Finding(state, what, "") for what, state in found.items()}).found

    assert names(MISSING, MISSING, CLASH) == "reference (CPU)"
    assert names(MISSING, MISSING, OK, OK) == "reference (CPU); for tiny shapes also raw and numba"
    assert names(OK, MISSING, OK) == "reference (CPU); for tiny shapes also numba"
    assert names(OK, OK, CLASH) == "reference, raw, auto (GPU)"
    assert names(OK, OK, OK) == "reference, raw, numba, auto (GPU)"


def test_the_hub_client_is_named_or_how_to_get_it() -> None:
    assert hub(having(huggingface_hub="1.2")).found == "huggingface_hub 1.2: teachkv pull ORG/NAME"
    assert (hub(having()).state, hub(having()).remedy) == (MISSING, "pip install 'teachkv[hub]'")


def test_variables_that_change_what_runs_are_told() -> None:
    assert environment({"HOME": "/root"}).found == "nothing that changes what runs"
    quiet = environment({"TEACHKV_CACHE": "/x", "OMP_NUM_THREADS": "1", "TEACHKV_POISON": "0"})
    assert (quiet.state, quiet.found) == (OK, "TEACHKV_CACHE='/x', TEACHKV_POISON='0', OMP_NUM_THREADS='1'")
    loud = environment({"TEACHKV_KERNEL_OVERRIDE": "a.cu", "TEACHKV_POISON": "1"})
    assert (loud.state, loud.remedy) == (CLASH, "unset TEACHKV_KERNEL_OVERRIDE TEACHKV_POISON")


def test_releases() -> None:
    assert doctor.release("2.5.2") == (2, 5)
    assert doctor.release("2.10.0rc1") == (2, 10)
    assert doctor.release("odd") == (0, 0)

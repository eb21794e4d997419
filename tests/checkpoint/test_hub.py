"""ORG/NAME through the hub client, against a small server of its own that speaks the hub's paths."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.toys import write_tiny

pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def tree_entry(path: Path) -> dict[str, object]:
    """One file as newer clients list them."""
    content = path.read_bytes()
    return {"type": "file", "path": path.name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}


class Hub:
    """Serves one model folder as ORG/toy. `cut`: a file whose first download breaks off half-way."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.cut = folder, [], ""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                self.answer(body=True)

            def answer(self, *, body: bool) -> None:
                path = self.path.split("?")[0]
                if path in ("/api/models/org/toy/revision/main", f"/api/models/org/toy/revision/{COMMIT}"):
                    files = [{"rfilename": item.name} for item in hub.folder.iterdir()]
                    self.send(json.dumps({"id": "org/toy", "sha": COMMIT, "siblings": files}).encode(), {}, body)
                    return
                if path == f"/api/models/org/toy/tree/{COMMIT}":
                    self.send(json.dumps([tree_entry(item) for item in hub.folder.iterdir()]).encode(), {}, body)
                    return
                name = path.rsplit("/", 1)[-1]
                if not path.startswith("/org/toy/resolve/") or not (hub.folder / name).is_file():
                    self.send_response(404)
                    self.send_header("X-Error-Code", "RepoNotFound")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                content = (hub.folder / name).read_bytes()
                extra = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
                begin = int(self.headers.get("Range", "bytes=0-").split("=")[1].split("-")[0])
                if body:
                    hub.asked.append((name, begin))
                self.send(content[begin:], extra, body, broken=body and name == hub.cut)

            def send(self, content: bytes, extra: dict[str, str], body: bool, *, broken: bool = False) -> None:
                self.send_response(206 if self.headers.get("Range") else 200)
                for key, value in (extra | {"Content-Length": str(len(content))}).items():
                    self.send_header(key, value)
                self.end_headers()
                if broken:
                    hub.cut = ""
                    self.wfile.write(content[: len(content) // 2])
                    self.close_connection = True
                elif body:
                    self.wfile.write(content)

            def log_message(self, *rest: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    folder = write_tiny(tmp_path / "served", shards=2)
    (folder / "pytorch_model.bin").write_bytes(b"never fetched")
    for name in ("chat_template.json", "processor_config.json"):  # either may hold the chat template
        (folder / name).write_text(json.dumps({"name": name}))
    served = Hub(folder)
    yield served
    served.server.shutdown()
    served.server.server_close()


PULL = """
import sys
from teachkv.checkpoint import load_model
from teachkv.checkpoint.pull import cached_dir, pull
from teachkv.errors import TeachKVError
try:
    before = cached_dir(sys.argv[1])
    folder = pull(sys.argv[1])
except TeachKVError as problem:
    print(problem, file=sys.stderr)
    raise SystemExit(2)
print(before is None, cached_dir(sys.argv[1]) == folder, load_model(folder).report.kind, folder)
"""


def run(hub: Hub, home: Path, name: str = "org/toy") -> "subprocess.CompletedProcess[str]":
    """In a process of its own: the client reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    settings |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "5", "NO_PROXY": "127.0.0.1"}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")} | settings
    return subprocess.run(
        [sys.executable, "-c", PULL, name], env=environment, capture_output=True, text=True, timeout=60
    )


def test_a_model_is_fetched_once_without_other_formats(hub: Hub, tmp_path: Path) -> None:
    first = run(hub, tmp_path / "home")
    assert first.stdout.split()[:3] == ["True", "True", "safetensors"], first.stderr
    names = {name for name, _ in hub.asked}
    assert "pytorch_model.bin" not in names
    assert names >= {
        "config.json",
        "tokenizer.json",
        "chat_template.json",
        "processor_config.json",
        "model.safetensors.index.json",
        "model-00002-of-00002.safetensors",
    }
    hub.asked.clear()
    again = run(hub, tmp_path / "home")
    assert again.stdout.split()[:3] == ["False", "True", "safetensors"], again.stderr
    assert hub.asked == []
    snapshot = Path(first.stdout.split()[3])
    assert (snapshot / "config.json").is_symlink()  # into the blobs folder, as the client lays it out


def test_a_broken_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    write_tiny(hub.folder, vocab_size=200_000, tie_word_embeddings=True)  # larger than the client's pieces of 10 MB
    hub.cut = "model.safetensors"
    done = run(hub, tmp_path / "home")
    if done.returncode != 0:
        done = run(hub, tmp_path / "home")
    assert done.returncode == 0, done.stderr
    begins = [begin for name, begin in hub.asked if name == "model.safetensors"]
    assert begins[0] == 0
    assert begins[-1] > 0  # resumed


def test_an_unknown_model_and_a_dead_server_are_one_line(hub: Hub, tmp_path: Path) -> None:
    unknown = run(hub, tmp_path / "home", "org/nothing")
    hub.server.server_close()
    hub.server.shutdown()
    dead = run(hub, tmp_path / "home")
    for done, name in ((unknown, "org/nothing"), (dead, "org/toy")):
        assert done.returncode == 2, done.stderr
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith(f"{name}: cannot be fetched from the hub (")


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from teachkv.checkpoint.pull import cached_dir, pull
    from teachkv.errors import PullError

    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(PullError, match=r"pip install teachkv\[hub\]"):
        pull("org/toy")
    assert cached_dir("org/toy") is None

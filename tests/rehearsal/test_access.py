"""Stage 8 against servers on this machine: what each answer means, and that nothing is left."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from doctor._util.errors import UserError
from doctor.collect.rehearsal import bucket, servers
from doctor.collect.rehearsal.access import access, check_targets

SECRET = "Zq7" * 11


class Server(HTTPServer):
    """Answers as it is told to, and keeps what it was asked."""

    answer: tuple[int, dict[str, str], bytes] = (200, {}, b"")
    aborts = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Any

    def handle_any(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, self.path, headers))
        self.rfile.read(int(headers.get("content-length", 0)))
        status, more, body = self.server.answer
        if self.command == "DELETE":
            status, body = self.server.aborts, b""
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_HEAD = do_DELETE = handle_any

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def environ(server: Server) -> dict[str, str]:
    return {
        "HF_ENDPOINT": server.url, "HF_TOKEN": SECRET, "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "s",
        "WANDB_BASE_URL": server.url, "WANDB_API_KEY": SECRET, "MLFLOW_TRACKING_URI": server.url,
        "MLFLOW_TRACKING_TOKEN": SECRET,
    }  # fmt: skip


UPLOAD = b"<Result><UploadId>a/b+c</UploadId></Result>"
ANSWERS: list[tuple[str, tuple[int, dict[str, str], bytes], bool | None, str]] = [
    ("hf://org/model", (200, {}, b""), True, "can be read"),
    ("hf://org/model", (307, {"Location": "http://other.invalid/"}, b""), True, "can be read"),
    ("hf://org/model", (404, {"X-Error-Code": "EntryNotFound"}, b""), True, "can be read"),
    ("hf://org/model", (403, {"X-Error-Code": "GatedRepo"}, b""), False, "gated"),
    ("hf://org/model", (401, {"X-Error-Code": "RepoNotFound"}, b""), False, "HTTP 401"),
    ("hf://org/model", (503, {}, b""), None, "HTTP 503"),
    ("hf://org/model@v2", (404, {"X-Error-Code": "RevisionNotFound"}, b""), False, "revision v2"),
    ("s3://bucket/runs", (200, {}, UPLOAD), True, "begun and aborted"),
    ("s3://bucket/runs", (403, {}, b"<Code>AccessDenied</Code>"), False, "403 AccessDenied"),
    ("s3://bucket", (200, {}, b"<html>"), None, "doctor-access-"),
    ("s3://bucket", (301, {}, b"<Code>PermanentRedirect</Code>"), None, "another region"),
    (
        "s3://bucket",
        (400, {}, b"<Code>AuthorizationHeaderMalformed</Code>"),
        None,
        "another region",
    ),
    ("s3://bucket", (400, {}, b"<Code>ExpiredToken</Code>"), False, "400 ExpiredToken"),
    ("s3://bucket", (503, {}, b"<Code>SlowDown</Code>"), None, "503 SlowDown"),
    ("wandb", (200, {}, b'{"data": {"viewer": {"id": "1"}}}'), True, "accepts"),
    ("wandb", (200, {}, b'{"data": {"viewer": null}}'), False, "does not accept"),
    ("wandb", (401, {}, b""), False, "HTTP 401"),
    ("wandb", (200, {}, b"<html>"), None, "not as W&B"),
    ("wandb", (200, {}, b'{"data": null, "errors": [{"message": "denied"}]}'), None, "not as W&B"),
    ("wandb", (200, {}, b"[]"), None, "not as W&B"),
    ("wandb", (200, {}, b'"x"'), None, "not as W&B"),
    ("wandb", (200, {}, b'{"x":' + b"[" * 9000 + b"]" * 9000 + b"}"), None, "not as W&B"),
    ("mlflow", (200, {}, b"{}"), True, "answers"),
    ("mlflow", (403, {}, b""), False, "HTTP 403"),
    ("mlflow", (500, {}, b""), None, "HTTP 500"),
]


@pytest.mark.parametrize(("target", "answer", "usable", "word"), ANSWERS)
def test_what_an_answer_means(
    target: str, answer: Any, usable: bool | None, word: str, server: Server
) -> None:
    server.answer = answer
    (found,) = access((target,), environ(server))
    assert found.usable is usable
    assert word in found.detail
    assert SECRET not in repr(found)
    assert len({path.partition("?")[0] for _, path, _ in server.asked}) == 1


def test_an_upload_is_aborted_and_signed(server: Server) -> None:
    server.answer = 200, {}, UPLOAD
    access(("s3://bucket/runs",), environ(server))
    (began, path, headers), (ended, aborted, _) = server.asked
    assert (began, ended) == ("POST", "DELETE")
    assert path.startswith("/bucket/runs/doctor-access-")
    assert path.endswith("?uploads=")
    assert aborted.endswith("?uploadId=a%2Fb%2Bc")
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIA/")
    assert headers["x-amz-security-token"] == "s"
    assert SECRET not in repr(server.asked)


def test_an_upload_that_cannot_be_aborted_is_named(server: Server) -> None:
    server.answer, server.aborts = (200, {}, UPLOAD), 403
    (found,) = access(("s3://bucket",), environ(server))
    assert found.usable is False
    assert "abort is not confirmed (HTTP 403)" in found.detail
    assert "doctor-access-" in found.detail


def test_an_upload_whose_abort_is_not_answered_is_named(server: Server) -> None:
    server.answer, server.aborts = (200, {}, UPLOAD), 0
    (found,) = access(("s3://bucket",), environ(server))
    assert found.usable is False
    assert server.asked[-1][1].partition("?")[0].removeprefix("/bucket/") in found.detail


@pytest.mark.parametrize(
    ("status", "usable"),
    [(200, True), (302, True), (401, None), (403, None), (404, None), (500, False)],
)
def test_an_address_that_refuses_is_not_known_to_serve_the_job(
    status: int, usable: bool | None, server: Server
) -> None:
    server.answer = status, {}, b""
    (found,) = access((server.url,), {})
    assert found.usable is usable


def test_the_revision_is_asked_for(server: Server) -> None:
    access(("hf://org/model@refs/pr/1",), environ(server))
    assert server.asked[0][1] == "/org/model/resolve/refs%2Fpr%2F1/config.json"


@pytest.mark.parametrize("path", ["~nouser/x", "/dev/zero", "nul\0"])
def test_a_token_that_cannot_be_read_is_none(path: str, server: Server) -> None:
    (found,) = access(("hf://org/model",), {"HF_ENDPOINT": server.url, "HF_TOKEN_PATH": path})
    assert "none is at hand" in found.detail


def test_a_server_that_drips_does_not_hold_the_rehearsal(monkeypatch: Any) -> None:
    """Each byte comes within the time of one read, and the head never ends."""
    monkeypatch.setattr(servers, "SECONDS", 0.5)
    stop = threading.Event()

    def drip(listening: socket.socket) -> None:
        with contextlib.suppress(OSError), listening.accept()[0] as peer:
            while not stop.wait(0.05):
                peer.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,), daemon=True)
        thread.start()
        (found,) = access((f"http://127.0.0.1:{listening.getsockname()[1]}/",), {})
        assert found.usable is False
        assert "no answer" in found.detail
        assert not stop.is_set()
        stop.set()
        thread.join(120)


def test_a_bucket_with_dots_is_in_the_path() -> None:
    assert bucket._bucket_address("a.b", {}) == "https://s3.us-east-1.amazonaws.com/a.b"
    assert bucket._bucket_address("ab", {}) == "https://ab.s3.us-east-1.amazonaws.com"


@pytest.mark.parametrize("target", ["s3://bucket", "wandb", "mlflow"])
def test_without_secrets_nothing_is_known(target: str) -> None:
    (found,) = access((target,), {})
    assert found.usable is None


def test_who_does_not_answer_is_named_without_the_password() -> None:
    with HTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port
    (found,) = access((f"http://user:{SECRET}@127.0.0.1:{port}/",), {})
    assert found.usable is False
    assert "no answer" in found.detail
    assert SECRET not in repr(found)


@pytest.mark.parametrize("target", ["gs://bucket", "hf://", "model", "file:///etc/passwd"])
def test_another_kind_is_a_usage_error(target: str) -> None:
    with pytest.raises(UserError):
        check_targets((target,))

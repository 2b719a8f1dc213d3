"""Stage 8: whether the hub, the bucket and the tracker of a job answer, with the secrets at hand.

Nothing is left there: an upload to a bucket is begun and aborted. Secrets are read from the
environment and from the hub's own file; no text that is returned holds one.
"""

from __future__ import annotations

import base64
import http.client
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import msgspec

from doctor._util.errors import UserError
from doctor._util.regular_file import read_regular
from doctor._util.units import printable
from doctor.checkpoint.io.urls import redact_url
from doctor.collect.rehearsal.bucket import ask_bucket
from doctor.collect.rehearsal.servers import (
    MOST_BYTES,
    REFUSED,
    Answer,
    Environ,
    ProxyError,
    Result,
    reason,
    request,
)
from doctor.facts.rehearsal import Accessed


class _Viewer(msgspec.Struct):
    viewer: dict[str, msgspec.Raw] | None = None


class _Wandb(msgspec.Struct):
    """The answer of W&B to a query for who asks."""

    data: _Viewer | None = None


_decode_wandb = msgspec.json.Decoder(_Wandb).decode


def check_targets(targets: tuple[str, ...]) -> None:
    """Raises UserError for a target of no known kind."""
    for target in targets:
        _kind(target)


def access(targets: tuple[str, ...], environ: Environ) -> tuple[Accessed, ...]:
    """Ask each target once."""
    return tuple(_accessed(target, environ) for target in targets)


def _accessed(target: str, environ: Environ) -> Accessed:
    began = time.monotonic()
    try:
        usable, detail = _kind(target)(target, environ)
    except ProxyError as error:
        usable, detail = None, str(error)
    except (OSError, http.client.HTTPException) as error:
        usable, detail = False, f"no answer: {reason(error)}"
    except Exception as error:  # an answer or a variable of a form that nobody foresaw
        usable, detail = None, f"could not be asked: {type(error).__name__}"
    return Accessed(
        target=redact_url(target), usable=usable, detail=detail, seconds=time.monotonic() - began
    )


def _kind(target: str) -> Callable[[str, Environ], Result]:
    kinds = {"hf": _hub, "s3": ask_bucket, "http": _address, "https": _address}
    if target in ("wandb", "mlflow"):
        return _wandb if target == "wandb" else _mlflow
    scheme, separator, rest = target.partition("://")
    if not separator or not rest or scheme not in kinds:
        raise UserError(
            f"--access {printable(redact_url(target))}: hf://ORG/MODEL, s3://BUCKET/PREFIX, wandb, "
            "mlflow or an address (https://) is required"
        )
    return kinds[scheme]


# The hub


def _hub(target: str, environ: Environ) -> Result:
    """A file of the repository: its description alone can be read without access to a gated one."""
    name, _, revision = target.removeprefix("hf://").partition("@")
    revision = revision.strip("/") or "main"
    endpoint = environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = _hub_token(environ)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    path = f"{quote(name.strip('/'))}/resolve/{quote(revision, safe='')}/config.json"
    answer = request("HEAD", f"{endpoint}/{path}", headers)
    code = answer.headers.get("X-Error-Code", "")
    held = "with the token at hand" if token else "without a token: none is at hand"
    if answer.status < 400 or code == "EntryNotFound":
        return True, f"can be read {held}"
    if code == "RevisionNotFound":
        return False, f"has no revision {printable(revision)[:100]}"
    if code == "GatedRepo":
        return False, f"is gated, and its conditions were not accepted; asked {held}"
    if answer.status in REFUSED:
        return False, f"cannot be read (HTTP {answer.status}) {held}"
    return None, f"HTTP {answer.status}"


def _hub_token(environ: Environ) -> str:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if environ.get(name):
            return environ[name].strip()
    home = environ.get("HF_HOME") or "~/.cache/huggingface"
    try:
        path = Path(environ.get("HF_TOKEN_PATH") or os.path.join(home, "token")).expanduser()
        return read_regular(str(path), 500).decode().strip()
    except (OSError, RuntimeError, ValueError):  # also a home of no user, bytes of no text
        return ""


# Trackers


def _wandb(_: str, environ: Environ) -> Result:
    key = environ.get("WANDB_API_KEY", "")
    if not key:
        return None, "WANDB_API_KEY is not set; a login that is kept in a file is not read"
    url = environ.get("WANDB_BASE_URL", "https://api.wandb.ai").rstrip("/") + "/graphql"
    headers = {"Authorization": _basic("api", key), "Content-Type": "application/json"}
    asked = b'{"query": "query { viewer { id } }"}'
    answer = request("POST", url, headers, asked, MOST_BYTES)
    if answer.status != 200:
        return _refused(answer)
    try:
        data = _decode_wandb(answer.body).data
    except (msgspec.DecodeError, RecursionError):
        data = None
    if data is None:
        return None, "answers, but not as W&B does"
    return (True, "accepts the key") if data.viewer else (False, "does not accept the key")


def _mlflow(_: str, environ: Environ) -> Result:
    url = environ.get("MLFLOW_TRACKING_URI", "")
    if not url.startswith(("http://", "https://")):
        return None, "MLFLOW_TRACKING_URI names no server"
    headers = {}
    if environ.get("MLFLOW_TRACKING_TOKEN"):
        headers["Authorization"] = f"Bearer {environ['MLFLOW_TRACKING_TOKEN']}"
    elif environ.get("MLFLOW_TRACKING_USERNAME"):
        password = environ.get("MLFLOW_TRACKING_PASSWORD", "")
        headers["Authorization"] = _basic(environ["MLFLOW_TRACKING_USERNAME"], password)
    path = "/api/2.0/mlflow/experiments/search?max_results=1"
    answer = request("GET", url.rstrip("/") + path, headers)
    return (True, "answers") if answer.status == 200 else _refused(answer)


def _address(target: str, environ: Environ) -> Result:
    answer = request("GET", target, {})
    usable = None if 400 <= answer.status < 500 else answer.status < 400
    return usable, f"answers with HTTP {answer.status}"


def _refused(answer: Answer) -> Result:
    usable = False if answer.status in REFUSED else None
    return usable, f"answers with HTTP {answer.status}"


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

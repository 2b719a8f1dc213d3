"""Stage 8: whether the hub, the bucket and the tracker of a job answer, with the secrets at hand.

Nothing is left there: an upload to a bucket is begun and aborted. Secrets are read from the
environment and from the hub's own file; no text that is returned holds one.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from doctor._util.errors import UserError
from doctor._util.regular_file import read_regular
from doctor._util.units import printable
from doctor.checkpoint.io.urls import redact_url
from doctor.collect.background import background
from doctor.facts.rehearsal import Accessed

SECONDS = 15.0
"""For one whole request."""
MOST_BYTES = 2**14
REFUSED = (401, 403, 404)
EMPTY = hashlib.sha256(b"").hexdigest()
Environ = Mapping[str, str]
Result = tuple[bool | None, str]
"""Whether the job can use it, None where that is not known; and what was answered."""


class Answer:
    """Status, headers and the first bytes of the body, where they are wanted."""

    def __init__(self, response: http.client.HTTPResponse, most: int) -> None:
        self.status, self.headers = response.status, response.headers
        self.body = response.read(most) if most else b""


class _Viewer(msgspec.Struct):
    viewer: dict[str, msgspec.Raw] | None = None


class _Wandb(msgspec.Struct):
    """The answer of W&B to a query for who asks."""

    data: _Viewer | None = None


_decode_wandb = msgspec.json.Decoder(_Wandb).decode


class ProxyError(Exception):
    """The job asks through a proxy, which the doctor does not."""


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
        usable, detail = False, f"no answer: {_reason(error)}"
    except Exception as error:  # an answer or a variable of a form that nobody foresaw
        usable, detail = None, f"could not be asked: {type(error).__name__}"
    return Accessed(
        target=redact_url(target), usable=usable, detail=detail, seconds=time.monotonic() - began
    )


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def _kind(target: str) -> Callable[[str, Environ], Result]:
    kinds = {"hf": _hub, "s3": _bucket, "http": _address, "https": _address}
    if target in ("wandb", "mlflow"):
        return _wandb if target == "wandb" else _mlflow
    scheme, separator, rest = target.partition("://")
    if not separator or not rest or scheme not in kinds:
        raise UserError(
            f"--access {printable(redact_url(target))}: hf://ORG/MODEL, s3://BUCKET/PREFIX, wandb, "
            "mlflow or an address (https://) is required"
        )
    return kinds[scheme]


def _request(
    method: str, url: str, headers: Mapping[str, str], body: bytes = b"", most: int = 0
) -> Answer:
    """One request; a redirection is an answer, so that no secret goes to another host.

    Raises OSError, also where the answer is not there after `SECONDS`, and HTTPException.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    if {parts.scheme, "all"} & proxies.keys() and not proxy_bypass(parts.netloc):
        raise ProxyError("not asked: a proxy is set, and the doctor asks without one")
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=SECONDS)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def ask() -> Answer:
        with contextlib.closing(connection):
            connection.request(method, path, body=body or None, headers=dict(headers))
            return Answer(connection.getresponse(), most)

    # A socket's timeout is that of each read: a server that drips bytes outlasts it.
    return background(ask).result(SECONDS)


# The hub


def _hub(target: str, environ: Environ) -> Result:
    """A file of the repository: its description alone can be read without access to a gated one."""
    name, _, revision = target.removeprefix("hf://").partition("@")
    revision = revision.strip("/") or "main"
    endpoint = environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = _hub_token(environ)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    path = f"{quote(name.strip('/'))}/resolve/{quote(revision, safe='')}/config.json"
    answer = _request("HEAD", f"{endpoint}/{path}", headers)
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


# A bucket


def _bucket(target: str, environ: Environ) -> Result:
    """Begin a multipart upload and abort it."""
    bucket, _, prefix = target.removeprefix("s3://").partition("/")
    if not (environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY")):
        return None, (
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; profiles and roles of a "
            "machine are not read"
        )
    key = "/".join(filter(None, (prefix.strip("/"), f"doctor-access-{secrets.token_hex(8)}")))
    url = f"{_bucket_address(bucket, environ)}/{quote(key)}"
    try:
        began = _signed("POST", url, "uploads=", environ)
    except (TimeoutError, ConnectionResetError, http.client.HTTPException) as error:
        return False, f"no answer: {_reason(error)}; an upload of {key} may have begun"
    if began.status != 200:
        return _not_begun(began)
    found = re.search(rb"<UploadId>([^<]{1,2000})</UploadId>", began.body)
    if found is None:
        return None, f"the answer to a multipart upload of {key} names none"
    query = f"uploadId={quote(found[1].decode(errors='replace'), safe='')}"
    try:
        ended = _signed("DELETE", url, query, environ)
        how = f"HTTP {ended.status}" if ended.status not in (200, 204) else ""
    except (OSError, http.client.HTTPException) as error:
        how = f"no answer: {_reason(error)}"
    if how:
        return False, (
            f"an upload of {key} was begun, and its abort is not confirmed ({how}); no object is "
            "there; a rule for incomplete uploads removes it"
        )
    return True, "a multipart upload was begun and aborted"


def _not_begun(answer: Answer) -> Result:
    """Whether the bucket refuses the job, or another address has to be asked."""
    code = _s3_code(answer)
    said = f"HTTP {answer.status} {code}".rstrip()
    if code in ("ExpiredToken", "InvalidToken") or answer.status in REFUSED:
        return False, f"an upload cannot be begun: {said}"
    if answer.status in (301, 307, 400):
        return None, f"{said}: the bucket may be in another region; AWS_REGION names it"
    return None, said


def _bucket_address(bucket: str, environ: Environ) -> str:
    """With the bucket in the path where its dots would not fit the certificate."""
    own = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    host = f"s3.{_region(environ)}.amazonaws.com"
    if own or "." in bucket:
        return f"{(own or f'https://{host}').rstrip('/')}/{quote(bucket)}"
    return f"https://{bucket}.{host}"


def _region(environ: Environ) -> str:
    return environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _s3_code(answer: Answer) -> str:
    found = re.search(rb"<Code>([A-Za-z]{1,60})</Code>", answer.body)
    return found[1].decode() if found else ""


def _signed(method: str, url: str, query: str, environ: Environ) -> Answer:
    """A request without a body, signed with AWS's Signature Version 4."""
    parts = urlsplit(url)
    moment = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}"
    headers = {"host": parts.netloc, "x-amz-content-sha256": EMPTY, "x-amz-date": moment}
    if environ.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = environ["AWS_SESSION_TOKEN"]
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    canonical = "\n".join([method, parts.path, query, *lines, "", names, EMPTY])
    scope = f"{moment[:8]}/{_region(environ)}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, digest])
    key = f"AWS4{environ['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={environ['AWS_ACCESS_KEY_ID']}/{scope}, "
        f"SignedHeaders={names}, Signature={key.hex()}"
    )
    return _request(method, f"{url}?{query}", headers, most=MOST_BYTES)


# Trackers


def _wandb(_: str, environ: Environ) -> Result:
    key = environ.get("WANDB_API_KEY", "")
    if not key:
        return None, "WANDB_API_KEY is not set; a login that is kept in a file is not read"
    url = environ.get("WANDB_BASE_URL", "https://api.wandb.ai").rstrip("/") + "/graphql"
    headers = {"Authorization": _basic("api", key), "Content-Type": "application/json"}
    asked = b'{"query": "query { viewer { id } }"}'
    answer = _request("POST", url, headers, asked, MOST_BYTES)
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
    answer = _request("GET", url.rstrip("/") + path, headers)
    return (True, "answers") if answer.status == 200 else _refused(answer)


def _address(target: str, environ: Environ) -> Result:
    answer = _request("GET", target, {})
    usable = None if 400 <= answer.status < 500 else answer.status < 400
    return usable, f"answers with HTTP {answer.status}"


def _refused(answer: Answer) -> Result:
    usable = False if answer.status in REFUSED else None
    return usable, f"answers with HTTP {answer.status}"


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

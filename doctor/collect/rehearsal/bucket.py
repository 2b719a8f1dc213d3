"""Whether a bucket takes an upload: one is begun and aborted, signed as AWS wants it."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import http.client
import re
import secrets
from urllib.parse import quote, urlsplit

from doctor.collect.rehearsal.servers import (
    MOST_BYTES,
    REFUSED,
    Answer,
    Environ,
    Result,
    reason,
    request,
)

EMPTY = hashlib.sha256(b"").hexdigest()


def ask_bucket(target: str, environ: Environ) -> Result:
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
        return False, f"no answer: {reason(error)}; an upload of {key} may have begun"
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
        how = f"no answer: {reason(error)}"
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
    return request(method, f"{url}?{query}", headers, most=MOST_BYTES)

"""One request to a server of others, without a proxy and without following redirections."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from doctor.collect.background import background

SECONDS = 15.0
"""For one whole request."""
MOST_BYTES = 2**14
REFUSED = (401, 403, 404)
Environ = Mapping[str, str]
Result = tuple[bool | None, str]
"""Whether the job can use it, None where that is not known; and what was answered."""


class Answer:
    """Status, headers and the first bytes of the body, where they are wanted."""

    def __init__(self, response: http.client.HTTPResponse, most: int) -> None:
        self.status, self.headers = response.status, response.headers
        self.body = response.read(most) if most else b""


class ProxyError(Exception):
    """The job asks through a proxy, which the doctor does not."""


def reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def request(
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

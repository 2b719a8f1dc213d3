"""One client of a TCPStore. One JSON line per request on stdin, one answer each:

    {"do": "connect", "host": name, "port": n, "seconds": s, "loopback": true}
        {"address", "source", "interface", "resolving": s, "connecting": s}
    {"do": "set", "values": {key: base64}}                   {}
    {"do": "read", "keys": [...], "wait": s, "most": bytes}  waits for one of the keys
        {"values": {key: base64}, "refused": {key: reason}}

The store's own timeouts do not hold while its server is stopped: the parent kills this process.
"""

from __future__ import annotations

import array
import base64
import datetime
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from ... import wire
from . import c10d

POLL_SECONDS = 0.1


def main(memory: str, whole: str) -> None:
    try:
        with wire.stage("import of the store"):
            tcp_store = c10d.tcp_store(whole == "whole")
    except Exception as error:
        wire.send(error=wire.describe(error))
        return
    c10d.limit_memory(int(memory))
    wire.send(answer={})
    client = Client(tcp_store)
    for request in wire.requests():
        name = request.pop("do")
        try:
            answer = getattr(client, name)(**request)
        except (Exception, MemoryError) as error:
            wire.send(error=wire.describe(error))
            if name == "connect":  # it is tried again
                continue
            return
        wire.send(answer=answer)
        if answer.get("refused"):  # the connection is out of step
            return


class Client:
    def __init__(self, tcp_store: Any) -> None:
        self._tcp_store = tcp_store
        self._store: Any = None

    def connect(self, host: str, port: int, seconds: float, loopback: bool) -> Dict[str, Any]:
        """Resolve the name once, for each new connection by name takes as long again."""
        started = time.monotonic()
        with wire.stage("resolving %s" % host):
            address = resolve(host, port)
        resolved = time.monotonic()
        if not loopback and is_loopback(address):
            raise ConnectionError("%s resolves to %s, which is this node itself" % (host, address))
        source = source_address(address, port)
        interface = interface_of(source)
        with wire.stage(route(source, interface, address, port, resolved - started)):
            self._store = self._tcp_store(
                address,
                port,
                None,
                False,
                timeout=datetime.timedelta(seconds=seconds),
                wait_for_workers=False,
            )
        return {
            "address": address,
            "source": source,
            "interface": interface,
            "resolving": resolved - started,
            "connecting": time.monotonic() - resolved,
        }

    def set(self, values: Dict[str, str]) -> Dict[str, Any]:
        for key, value in values.items():
            self._store.set(key, base64.b64decode(value))
        return {}

    def read(self, keys: List[str], wait: float, most: int) -> Dict[str, Any]:
        values: Dict[str, str] = {}
        total = 0
        for key in self._first_present(keys, time.monotonic() + wait):
            if total > most:  # the rest comes with the next request
                break
            value = self._value(key)
            if value is None or len(value) > most:
                size = "the value is too large" if value is None else "%d bytes" % len(value)
                return {"values": values, "refused": {key: "%s; at most %d bytes" % (size, most)}}
            total += len(value)
            values[key] = base64.b64encode(value).decode("ascii")
        return {"values": values, "refused": {}}

    def _first_present(self, keys: List[str], deadline: float) -> List[str]:
        """Those keys that have a value, as soon as one has, or none."""
        while True:
            asked = time.monotonic()
            present = self._present(keys)
            remaining = deadline - time.monotonic()
            if present or remaining <= 0:
                return present
            try:
                round_trip = (time.monotonic() - asked) / len(keys)
                seconds = max(0.01, 4 * round_trip, min(POLL_SECONDS, remaining))
                self._store.wait(keys[:1], datetime.timedelta(seconds=seconds))
            except Exception as error:
                if "timeout" not in str(error).lower():
                    raise

    def _value(self, key: str) -> Optional[bytes]:
        """The value, None if there is no memory for it."""
        try:
            return bytes(self._store.get(key))
        except MemoryError:
            return None
        except RuntimeError as error:
            if "allocate" in str(error):
                return None
            raise

    def _present(self, keys: List[str]) -> List[str]:
        return [key for key in keys if self._store.check([key])]


def route(source: str, interface: str, address: str, port: int, resolving: float) -> str:
    """ "connecting from 10.0.0.2 (ib0) to 10.0.0.1 port 29500, resolved in 0.02 s"."""
    own = " from %s" % source if source else ""
    by = " (%s)" % interface if interface else ""
    words = own + by, address, port, resolving
    return "connecting%s to %s port %d, resolved in %.2f s" % words


def resolve(host: str, port: int) -> str:
    """The first address of a name, IPv4 before IPv6. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return str(found[0][4][0])


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def source_address(address: str, port: int) -> str:
    """Which of this node's addresses the route to a peer starts at; nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def interface_of(address: str) -> str:
    """The interface that has an IPv4 address, "" if none of them does."""
    if not sys.platform.startswith("linux"):
        return ""
    for name, own in ipv4_interfaces():
        if own == address:
            return name
    return ""


def ipv4_interfaces() -> List[Tuple[str, str]]:
    """Names and addresses, as SIOCGIFADDR answers for each interface."""
    import fcntl

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = array.array("b", struct.pack("256s", name.encode()[:15]))
            try:
                fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
            except OSError:
                continue
            found.append((name, socket.inet_ntoa(request.tobytes()[20:24])))
    return found

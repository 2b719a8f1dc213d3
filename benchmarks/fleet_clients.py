"""How long one node 0 takes for 2,048 clients of its store, on this machine.

python benchmarks/fleet_clients.py [--nodes 2048] [--processes 8]: node 0 is the doctor's own (store
server, client, messages with a key). Each other node is a connection of its own to the store, many
in one process, and says what a node says: hello, a summary of 8 KiB, leaving.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import resource
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from doctor.collect.background import background
from doctor.facts.fleet import SUMMARY_BYTES
from doctor.fleet.meeting import TO_ALL, RankZero, key_of
from doctor.fleet.member import Member
from doctor.fleet.messages import Echo, Hello, Opening, Result, Seal

KEY = b"k" * 32
PORT = 23_456
TEXT = msgspec.Raw(msgspec.json.encode("x" * (SUMMARY_BYTES - 100)))


def member(rank: int, nodes: int) -> Member:
    return Member(rank=rank, nodes=nodes, address="127.0.0.1", port=PORT, job="clients", named=True)


def connect() -> Any:
    from torch.distributed import TCPStore

    deadline = time.monotonic() + 120
    while True:
        try:
            return TCPStore("127.0.0.1", PORT, None, False, datetime.timedelta(seconds=60), False)
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def clients(ranks: range, nodes: int, pipe: Connection) -> None:
    """Connections of these nodes: all join, then all report, and all leave."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    began = time.monotonic()
    stores = {rank: connect() for rank in ranks}
    pipe.send(time.monotonic() - began)
    pipe.recv()
    first = Seal(KEY, "clients", 0)
    opening = key_of(member(0, nodes), "opening", 0, "all")
    any_store = stores[ranks[0]]
    data = any_store.get(opening)
    nonce = first.open(data, "opening", 0, TO_ALL, Opening).nonce
    seal = replace(first, nonce=nonce)

    def say(round: str, message: msgspec.Struct, rank: int) -> None:
        own = member(rank, nodes)
        sealed = seal.close(round, rank, 0, message)
        stores[rank].set(key_of(own, round, rank, 0), sealed)

    for rank in ranks:
        say("hello", Hello(nonce=str(rank), node=f"n{rank}", version="1"), rank)
    for rank in ranks:
        stores[rank].get(key_of(member(rank, nodes), "welcome", 0, rank))
    for rank in ranks:
        say("result", Result(content=TEXT), rank)
    for rank in ranks:
        stores[rank].get(key_of(member(rank, nodes), "received", 0, rank))
    any_store.get(key_of(member(0, nodes), "printed", 0, "all"))
    for rank in ranks:
        say("leaving", Echo(nonce=str(rank)), rank)
    pipe.recv()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2048)
    parser.add_argument("--processes", type=int, default=8)
    args = parser.parse_args()
    ranks = range(1, args.nodes)
    size = -(-len(ranks) // args.processes)
    pipes = []
    context = multiprocessing.get_context("spawn")
    for start in range(0, len(ranks), size):
        here, there = context.Pipe()
        part = ranks[start : start + size]
        process = context.Process(target=clients, args=(part, args.nodes, there), daemon=True)
        process.start()
        pipes.append((process, here))
    rank_zero = RankZero(member(0, args.nodes), KEY, sys.executable, time.monotonic() + 900)
    gathering = background(rank_zero.gather)
    connected = [pipe.recv() for _, pipe in pipes]
    began, spent = time.monotonic(), time.process_time()
    for _, pipe in pipes:
        pipe.send("go")
    gathered = gathering.result()
    seconds, used = time.monotonic() - began, time.process_time() - spent
    closing = time.monotonic()
    rank_zero.finish("READY", closing + 60)
    leaving = time.monotonic() - closing
    print(
        f"{len(gathered.results) + 1} of {args.nodes} nodes gathered in {seconds:.1f} s "
        f"({used:.1f} s of a processor for node 0's messages), after {len(ranks)} connections in "
        f"{max(connected):.1f} s with the import of torch; {leaving:.1f} s to leave; "
        f"{gathered.files} open files allowed; {gathered.failed or 'nothing failed'}"
    )
    for process, pipe in pipes:
        pipe.send("end")
        process.join(20)
        process.kill()
    rank_zero.end()


if __name__ == "__main__":
    main()

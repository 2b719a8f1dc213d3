"""Examines all nodes of a Ray cluster at once: python fleet-ray.py [FLAG...], on one of them.

One task on each node calls the command that other launchers call, with the flags that follow. Ray
hides GPUs that a task does not ask for, so each task asks for all of its node.
"""

import os
import secrets
import subprocess
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(max_retries=0)
def examine(rank, nodes, address, secret, flags):
    words = ["--node-rank", str(rank), "--nodes", str(nodes), "--address", address]
    done = subprocess.run(
        ["doctor", "fleet", "run", *words, *flags],  # noqa: S607 - the one on the PATH
        env={**os.environ, "DOCTOR_FLEET_SECRET": secret},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def main():
    ray.init("auto")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    address, secret = nodes[0]["NodeManagerAddress"], secrets.token_hex(32)
    flags = ["--deadline", "5m", "--format", "plain", "--quiet", *sys.argv[1:]]
    tasks = [
        examine.options(
            num_gpus=node["Resources"].get("GPU", 0),
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote(rank, len(nodes), address, secret, flags)
        for rank, node in enumerate(nodes)
    ]
    results = ray.get(tasks)
    print("".join(text for _, text in results))
    sys.exit(max(code for code, _ in results))


if __name__ == "__main__":
    main()

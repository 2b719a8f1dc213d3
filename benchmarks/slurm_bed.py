"""A Slurm cluster of four nodes on one machine, as root: `with cluster() as environment:`.

Debian's and Ubuntu's packages slurm-wlm and munge suffice. The nodes n1 to n4 have host names of
their own. Everything is ended by its process id.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

NODES = ("n1", "n2", "n3", "n4")
NEEDED = ("srun", "slurmctld", "slurmd", "munged", "unshare")
CONF = """ClusterName=onehost
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge/sock
CredType=cred/munge
SlurmctldPort={port}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmdPidFile={home}/slurmd-%n.pid
SlurmctldPidFile={home}/ctld.pid
SlurmctldLogFile={home}/log/ctld
SlurmdLogFile={home}/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=n[1-4] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


def missing() -> str:
    """Why it cannot be started here, "" if it can."""
    absent = [name for name in NEEDED if not shutil.which(name, path=_path())]
    if absent:
        return f"not installed: {', '.join(absent)}"
    return "" if os.geteuid() == 0 else "it needs root"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@contextlib.contextmanager
def cluster() -> Iterator[dict[str, str]]:
    """Start it; variables of the environment by which srun finds it."""
    home = Path(tempfile.mkdtemp(prefix="doctor-slurm-"))
    home.chmod(0o755)
    for name in ("state", "log", "munge", *(f"spool/{node}" for node in NODES)):
        (home / name).mkdir(parents=True)
    (home / "log").chmod(0o700)
    key = home / "munge/key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    port = 16_000 + os.getpid() % 900
    conf = home / "slurm.conf"
    ports = {"port": port, "first": port + 1_000, "last": port + 1_003}
    conf.write_text(CONF.format(host=socket.gethostname(), home=home, **ports))
    environment = {**os.environ, "SLURM_CONF": str(conf), "PATH": _path()}
    try:
        munge = [f"--{name}={home}/munge/{file}" for name, file in MUNGE.items()]
        _run(["munged", *munge], environment)
        _run(["slurmctld", "-c", "-i"], environment)
        for node in NODES:
            start = f"hostname {node}; exec slurmd -N {node} -f {conf}"
            _run(["unshare", "--uts", "sh", "-c", start], environment)
        _wait_until_idle(environment)
        yield environment
    finally:
        for file in (*home.glob("slurmd-*.pid"), home / "ctld.pid", home / "munge/pid"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)
        shutil.rmtree(home, ignore_errors=True)


MUNGE = {
    "key-file": "key",
    "socket": "sock",
    "pid-file": "pid",
    "seed-file": "seed",
    "log-file": "log",
}


def _run(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)


def _wait_until_idle(environment: dict[str, str]) -> None:
    command = ["sinfo", "--noheader", "--format=%D %t"]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.stdout.split() == ["4", "idle"]:
            return
        time.sleep(0.5)
    raise TimeoutError(f"Slurm's nodes are not idle: {done.stdout} {done.stderr}")

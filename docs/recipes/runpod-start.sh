#!/usr/bin/env bash
# Start command of a RunPod pod. /workspace is the persistent volume; the container's own disk is
# deleted with the pod.
set -euo pipefail
# Not on PyPI yet: name your copy of the repository, pinned by commit hash.
python3 -m venv /opt/doctor && /opt/doctor/bin/pip install -q git+https://github.com/OWNER/REPOSITORY@REVISION
if ! /opt/doctor/bin/doctor run --output-dir /workspace/runs --save-facts /workspace/doctor.json; then
    echo "training not started, see the report above; on RETURN, use another pod"
    exec sleep infinity # keeps the pod for inspection; stop it to stop paying
fi
exec python train.py

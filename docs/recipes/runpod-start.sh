#!/usr/bin/env bash
# Start command of a RunPod pod. /workspace is the volume that outlives the pod; the container's
# own disk does not.
set -euo pipefail
python3 -m venv /opt/doctor && /opt/doctor/bin/pip install -q preflight-doctor
if ! /opt/doctor/bin/doctor run --output-dir /workspace/runs --save-facts /workspace/doctor.json; then
    echo "not started: see the report above; RETURN means another pod"
    exec sleep infinity # the pod stays for a look; stop it to stop paying
fi
exec python train.py

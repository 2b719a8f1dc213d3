#!/usr/bin/env bash
# On-start script of a Vast.ai instance. On RETURN, destroy the instance and rent another.
set -euo pipefail
python3 -m venv /opt/doctor && /opt/doctor/bin/pip install -q preflight-doctor
/opt/doctor/bin/doctor run --format plain --save-facts /root/doctor.json \
    --output html=/root/doctor.html >/root/doctor.txt && touch /root/ready

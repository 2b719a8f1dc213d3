#!/usr/bin/env bash
# On-start script of a Vast.ai instance. On RETURN, destroy the instance and rent another.
set -euo pipefail
# Not on PyPI yet: name your copy of the repository, pinned by commit hash.
python3 -m venv /opt/doctor && /opt/doctor/bin/pip install -q git+https://github.com/OWNER/REPOSITORY@REVISION
/opt/doctor/bin/doctor run --format plain --save-facts /root/doctor.json \
    --output html=/root/doctor.html >/root/doctor.txt && touch /root/ready

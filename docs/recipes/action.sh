#!/usr/bin/env bash
# The one step of action.yml. Everything that a workflow says arrives in variables and is never
# part of a command's text.
set -euo pipefail

source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
report=${DOCTOR_REPORT:-${RUNNER_TEMP:?}/doctor-report}
mkdir -p "$report"

# An environment of its own: the doctor never brings or replaces the torch that it examines.
environment=${RUNNER_TEMP:?}/doctor
if python3 -m venv "$environment" 2>/dev/null; then
    pip=("$environment/bin/pip")
else # Debian keeps ensurepip in a package of its own; the runner's pip can stand in for it
    python3 -m venv --clear --without-pip "$environment"
    pip=(python3 -m pip --python "$environment/bin/python")
fi
"${pip[@]}" install --quiet --disable-pip-version-check "$source_folder"

arguments=()
while IFS= read -r line; do
    line=${line%$'\r'}
    [ -n "$line" ] && arguments+=("$line")
done <<<"${DOCTOR_ARGUMENTS:-}"
[ -n "${DOCTOR_JOB_FILE:-}" ] && arguments+=("--config=$DOCTOR_JOB_FILE")
[ -n "${DOCTOR_PYTHON:-}" ] && arguments+=("--python=$DOCTOR_PYTHON")

exec "$environment/bin/doctor" run --format github --fail-on "${DOCTOR_FAIL_ON:-fail}" \
    --output "html=$report/report.html" --output "json=$report/report.json" \
    --save-facts "$report/facts.json" ${arguments[@]+"${arguments[@]}"}

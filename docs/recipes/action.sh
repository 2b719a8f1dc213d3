#!/usr/bin/env bash
# The only step of action.yml. All inputs of a workflow arrive in variables and never become part of
# a command's text.
set -euo pipefail

source_directory=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
report=${DOCTOR_REPORT:-${RUNNER_TEMP:?}/doctor-report}
mkdir -p "$report"

# A separate environment: the doctor never installs or replaces the torch that it examines. A later
# step of the job uses what an earlier one has installed.
environment=${RUNNER_TEMP:?}/doctor
installed=$environment/installed-from
if [ "$(cat "$installed" 2>/dev/null)" != "$source_directory" ] ||
    [ -n "$(find "$source_directory" -newer "$installed" -print -quit)" ]; then
    if python3 -m venv "$environment" 2>/dev/null; then
        pip=("$environment/bin/pip")
    else # Debian has ensurepip in a separate package; use the runner's pip instead
        python3 -m venv --clear --without-pip "$environment"
        pip=(python3 -m pip --python "$environment/bin/python")
    fi
    "${pip[@]}" install --quiet --disable-pip-version-check "$source_directory"
    echo "$source_directory" >"$installed"
fi

arguments=()
while IFS= read -r line; do
    line=${line%$'\r'}
    [ -n "$line" ] && arguments+=("$line")
done <<<"${DOCTOR_ARGUMENTS:-}"
[ -n "${DOCTOR_JOB_FILE:-}" ] && arguments+=("--config=$DOCTOR_JOB_FILE")
[ -n "${DOCTOR_PYTHON:-}" ] && arguments+=("--python=$DOCTOR_PYTHON")

scripts=()
while IFS= read -r line; do
    line=${line%$'\r'}
    [ -n "$line" ] && scripts+=("$line")
done <<<"${DOCTOR_LINT:-}"
if [ "${#scripts[@]}" -gt 0 ]; then
    "$environment/bin/doctor" lint --format github --fail-on "${DOCTOR_FAIL_ON:-fail}" \
        --output "sarif=$report/lint.sarif" "${scripts[@]}"
fi

exec "$environment/bin/doctor" run --format github --fail-on "${DOCTOR_FAIL_ON:-fail}" \
    --output "html=$report/report.html" --output "json=$report/report.json" \
    --save-facts "$report/facts.json" ${arguments[@]+"${arguments[@]}"}

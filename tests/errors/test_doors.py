"""Every command proposes the same causes for the same message."""

from __future__ import annotations

import json
from itertools import compress

import pytest
from error_index import messages

from doctor.cli.explain.name import explain
from doctor.cli.explain.text import explain_text
from doctor.errors.fitted import fitted
from doctor.errors.match import with_message
from doctor.report.causes import are_new

MESSAGES = [
    f"{row['error']}: {row['message']}".splitlines()[0] for row in messages() if row["error"]
][::7]


@pytest.mark.parametrize("message", MESSAGES)
def test_triage_and_explain_propose_the_rows_of_the_message(message: str) -> None:
    rows = [row.id for row in with_message(message) if row.fix]
    stack = f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n{message}'
    explained = explain_text(stack)
    assert explained
    shown = [row.id for row in explained.causes] + [each.check.slug for each in explained.findings]
    assert set(rows) <= set(shown)
    for finding in explained.findings:  # as triage judges them
        found = [id for id in finding.verdict.causes if id != finding.check.slug]
        assert set(found) <= set(rows)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_line_is_answered_with_the_rows_of_the_message(message: str) -> None:
    heads = {line.split()[-1] for line in explain(message).splitlines() if line}
    rows = [fitted(row, message) for row in with_message(message) if row.fix]
    new = compress(rows, are_new([row.fix for row in rows]))
    assert {row.id for row in new} <= heads


def test_a_fix_of_several_rows_is_printed_once() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n'
        "TypeError: TrainingArguments.__init__() got an unexpected keyword argument "
        "'evaluation_strategy'\n"
    )
    assert explain(text).count("Instead of evaluation_strategy:") == 1
    assert explain("KeyError: 'labels'").count("Fix: ") > 1


def test_a_line_gets_the_fix_for_its_numbers_and_the_command_for_its_port() -> None:
    taken = "local network address. port: 29511, code: -98, message: address already in use"
    assert "$ ss -ltnp | grep 29511" in explain(
        f"DistNetworkError: failed to listen on any {taken}"
    )
    full = "Tried to allocate 90.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which"
    message = f"torch.OutOfMemoryError: CUDA out of memory. {full} 70.00 GiB is free."
    assert "No GPU serves this request" in explain(message)


def test_json_lists_causes_beside_checks() -> None:
    items = json.loads(explain("ValueError: optimizer got an empty parameter list", "json"))
    assert items[0]["cause"] == items[0]["slug"] == "empty-parameter-list"
    assert items[0]["fix"]


def test_what_follows_from_an_unknown_error_is_not_named_as_its_cause() -> None:
    unknown = "TypeError: Object of type <class 'torch.dtype'> is not serializable\n"
    timeout = "DistBackendError: Watchdog caught collective operation timeout: WorkNCCL(OpType=X)\n"
    answer = explain(f"{unknown}  at serial_utils.py\n{timeout}")
    assert answer.index("uncaught-exception") < answer.index("\nLOG025 nccl-timeout")
    assert "consequence: nccl-timeout" in " ".join(answer.replace("|", "").split())
    assert "uncaught-exception" not in explain(f"{timeout}{unknown}")

"""The tables of a job file: decoding, messages that name the key, and the schema."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import jsonschema
import msgspec
import pytest
from job_files import CODE, FULL
from paths import ROOT

from doctor.job.expect import Expect
from doctor.job.file.tables import JOB_KEYS, NOT_IN_FILE, Ignore, decode, schema
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

SCHEMA = ROOT / "schemas" / "doctor-toml.schema.json"
WRONG = [
    # text, key at the start of the message, what the message must contain
    ("gpus = 8", "gpus", ""),
    ("[jobs]", "jobs", "job?"),
    ("[job]\ngpu = 8", "job.gpu", "gpus?"),
    ("[job]\nbatch-sise = 8", "job.batch-sise", "batch_size?"),
    ("[job]\nbatch-size = 1\nbatch_size = 1", "job.batch_size", "twice"),
    ("[job]\nworking_dir = '/'", "job.working_dir", ""),
    ("[job]\nexpect = {}", "job.expect", ""),
    ("[job]\nbudget = 8", "job.budget", ""),
    ("[job]\nonly = ['NUM']", "job.only", ""),
    ("[job]\ntype = 'Job'", "job.type", ""),
    ("job = 5", "job", "a table"),
    ("[job]\ngpus = '8'", "job.gpus", "a whole number"),
    ("[job]\ngpus = 0", "job.gpus", ">= 1"),
    ("[job]\ndevice = 'tpu'", "job.device", "auto, cuda, cpu, mps"),
    ("[job]\nquick = 1", "job.quick", "true or false"),
    ("[job]\nparams = 'many'", "job.params", "'many'"),
    ("[job]\nparams = '8Q'", "job.params", "'8Q'"),
    ("[job]\nparams = '0B'", "job.params", "'0B'"),
    ("[job]\nparams = 1.5", "job.params", "a whole number or text in quotes"),
    ("[job]\nattention = [1, 2]", "job.attention", "a list of 4"),
    ("[expect]\nmemory = 80", "expect.memory", "text in quotes"),
    ("[expect]\nmemory = '80'", "expect.memory", "80GB or 79.5GiB"),
    ("[expect]\ntorch = 2.9", "expect.torch", "text in quotes"),
    ("[expect]\ndriver = 'new'", "expect.driver", ">=2.9"),
    ("[expect]\ntorch = '~=2'", "expect.torch", "'~=2'"),
    ("[expect]\ntype = 'Expect'", "expect.type", ""),
    ("[expect.disk]\n'/data' = 5", 'expect.disk."/data"', "text in quotes"),
    ("[[ignore]]\ncode = 'NUM003'", "[[ignore]] 1", "reason"),
    ("[ignore]\ncode = 'NUM003'", "ignore", "a list"),
    ("[[ignore]]\ncode = 'X'\nreason = 'x'\nuntill = 1", "[[ignore]] 1: untill", "until?"),
    ("[[ignore]]\ncode = 'X'\nreason = 'x'\nuntil = 'soon'", "[[ignore]] 1: until", "2026-12-31"),
    ("[severity]\nMEM = 'off'", 'severity."MEM"', "warn, fail: 'off'"),
]


WHOLE_FLOATS = "[job]\nparams = 8e9\ngpus = 8.0\n[expect]\ncount = 8.0"


def as_json(text: str) -> Any:
    return json.loads(json.dumps(tomllib.loads(text), default=str))


def test_every_key_is_decoded() -> None:
    decoded = decode(tomllib.loads(FULL))
    assert set(decoded.job) == set(JOB_KEYS) - {"model", "arguments", "python", "data"}
    assert decoded.job["params"] == 8_000_000_000
    assert decoded.job["attention"] == (1, 32, 2048, 128)
    assert decoded.job["batch_size"] == 4
    assert decoded.expect is not None
    assert decoded.expect.host_memory == "1TB"
    assert decoded.ignores[0].until is not None
    assert decoded.severity == {"MEM": "warn"}


def test_a_file_can_set_every_field_but_the_excluded_ones() -> None:
    kinds = (Job, RunOptions)
    fields = {field.name for kind in kinds for field in msgspec.structs.fields(kind)}
    assert fields == set(JOB_KEYS) | set(NOT_IN_FILE)


@pytest.mark.parametrize(("text", "key", "part"), WRONG)
def test_an_error_is_one_line_that_begins_with_the_key(text: str, key: str, part: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(key)}: ") as error:
        decode(tomllib.loads(text))
    assert part in str(error.value)
    assert "\n" not in str(error.value)
    assert "$." not in str(error.value)


def test_the_published_schema_is_the_decoders() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == json.loads(json.dumps(schema()))
    jsonschema.Draft202012Validator.check_schema(schema())


def test_schema_and_decoder_accept_the_same() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    for text in (FULL, "", "[job]\n", CODE, WHOLE_FLOATS):
        validator.validate(as_json(text))
        decode(tomllib.loads(text))


def test_a_whole_float_is_an_integer_as_in_json_schema() -> None:
    decoded = decode(tomllib.loads(WHOLE_FLOATS))
    assert decoded.job == {"params": 8_000_000_000, "gpus": 8}
    assert decoded.expect is not None
    assert type(decoded.expect.count) is int


BEYOND_THE_SCHEMA = ("twice", "'~=2'")
"""Errors that a JSON Schema cannot express."""


@pytest.mark.parametrize("text", [text for text, _, part in WRONG if part not in BEYOND_THE_SCHEMA])
def test_the_schema_rejects_what_the_decoder_rejects(text: str) -> None:
    checker = jsonschema.FormatChecker(("date",))
    validator = jsonschema.Draft202012Validator(schema(), format_checker=checker)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(as_json(text))


def test_the_documents_example_decodes_and_its_tables_name_every_key() -> None:
    text = (ROOT / "docs" / "job-file.md").read_text("utf-8")
    example = text.split("```toml\n")[1].split("```")[0]
    assert decode(tomllib.loads(example)).job["gpus"] == 8
    expected = [field.name for field in msgspec.structs.fields(Expect)]
    ignored = [field.name for field in msgspec.structs.fields(Ignore)]
    assert [key for key in (*JOB_KEYS, *expected, *ignored) if f"`{key}`" not in text] == []

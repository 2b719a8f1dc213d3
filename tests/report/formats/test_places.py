"""Lines of scripts and logs in the formats."""

from __future__ import annotations

import json

from reports import finding, report

from doctor.judge.check import Status
from doctor.judge.place import Place
from doctor.report.formats import github, junit, markdown, sarif
from doctor.report.formats import json as as_json
from doctor.report.formats.plain import render as plain
from doctor.report.report import Report

LINE = Place(
    path="train.py", line=12, column=5, end_line=12, end_column=9, text="    bf16=True", message="x"
)
CELL = Place(path="train.ipynb", line=2, column=1, cell=3)
LOG = Place(path="rank3.log", line=1200, rank=3)


def judged(*places: Place) -> Report:
    return report(finding("SCR101", Status.WARN, "a summary", places=places))


def test_a_place_is_written_as_editors_read_it() -> None:
    assert [str(place) for place in (LINE, CELL, LOG, Place(path="a"))] == [
        "train.py:12:5",
        "train.ipynb:cell 3:2:1",
        "rank3.log:1200",
        "a",
    ]


def test_json_contains_what_is_known_of_a_place() -> None:
    (record,) = json.loads(as_json.render(judged(LOG)))["findings"]
    assert record["places"] == [{"path": "rank3.log", "line": 1200, "rank": 3}]


def test_sarif_has_a_result_per_place() -> None:
    first, second = json.loads(sarif.render(judged(LINE, CELL)))["runs"][0]["results"]
    region = first["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 12, "startColumn": 5, "endLine": 12, "endColumn": 9}
    assert first["message"]["text"].startswith("x\n")
    assert second["message"]["text"].startswith("a summary\n")


def test_a_result_keeps_its_fingerprint_where_lines_are_inserted_above() -> None:
    moved = Place(path="train.py", line=20, column=5, text="bf16=True")
    results = [
        json.loads(sarif.render(judged(place)))["runs"][0]["results"][0] for place in (LINE, moved)
    ]
    assert results[0]["partialFingerprints"] == results[1]["partialFingerprints"]


def test_github_has_an_annotation_per_place_and_at_most_ten() -> None:
    annotations = [
        line for line in github.render(judged(LINE, CELL)).splitlines() if line.startswith("::warn")
    ]
    assert annotations[0].startswith(
        "::warning file=train.py,line=12,col=5,endLine=12,endColumn=8,"
    )
    assert annotations[1].startswith("::warning file=train.ipynb,line=1,")
    many = github.render(judged(*[LOG] * 40))
    assert many.count("::warning ") == 10


def test_the_report_shows_the_first_places() -> None:
    text = plain(judged(*[LINE] * 7))
    assert text.count("train.py:12:5") == 5
    assert "and 2 more" in text
    assert plain(judged(*[LINE] * 7), "verbose").count("train.py:12:5") == 7


def test_what_followed_in_a_log_belongs_to_the_first_cause() -> None:
    later = Place(path="rank0.log", line=7, message="consequence: peer-lost")
    first_cause = report(finding("LOG040", Status.FAIL, "first cause", places=(LOG, later)))
    (result,) = json.loads(sarif.render(first_cause))["runs"][0]["results"]
    (related,) = result["relatedLocations"]
    assert related["message"] == {"text": "consequence: peer-lost"}
    assert related["physicalLocation"]["region"] == {"startLine": 7}
    assert github.render(first_cause).count("::error ") == 1
    assert 'failures="1"' in junit.render(first_cause)
    for format in (junit, markdown):
        assert "peer-lost" in format.render(first_cause)

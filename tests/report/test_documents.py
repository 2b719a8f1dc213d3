"""`doctor explain` of the source documents: every section answers, its correction first."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from doctor import catalog
from doctor._util.errors import UserError
from doctor.judge.sources import DOCUMENTS, SOURCES
from doctor.judge.sources.corrections import CORRECTIONS
from doctor.judge.sources.sections import ADVICE
from doctor.prescribe.citations import CITED
from doctor.report.documents import answer, find, json_text

NUMBERS = [f"P{number}" for number in range(1, 20)] + ["U6", "U9", "U10", "U11", "U28", "U36"]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_answers(name: str) -> None:
    text = answer(name.lower())
    section = SOURCES[f"ps-{name}"]
    assert re.search(r"[A-Z]{3}\d{3} |bisection:|error text:|prescribe:|Not detectable:", text)
    assert "Advice:" in text
    if section.correction:
        assert text.index("Correction:") < text.index("Advice:")


@pytest.mark.parametrize("source", DOCUMENTS, ids=lambda source: source.id)
def test_every_section_answers_by_its_id_and_heading(source: object) -> None:
    assert source in find(source.id)  # type: ignore[attr-defined]
    assert source in find(source.section) or source.alias.startswith("U")  # type: ignore[attr-defined]
    assert len(answer(source.id).splitlines()) > 1  # type: ignore[attr-defined]


def test_every_document_answers_with_all_its_sections() -> None:
    for document in {source.document for source in DOCUMENTS}:
        assert {each.document for each in find(document)} == {document}
        assert find(f"{document}.md") == find(document)


def test_numbers_of_the_documents_are_all_known() -> None:
    folder = os.environ.get("DOCTOR_DOCUMENTS", "")
    if not Path(folder, "precision-stability.md").exists():
        pytest.skip("the source documents are not available")
    texts = [path.read_text("utf-8") for path in Path(folder).glob("*.md")]
    numbers = {number for text in texts for number in re.findall(r"\b[PU]\d{1,2}\b", text)}
    assert numbers <= set(NUMBERS)


def test_a_number_that_no_document_has() -> None:
    with pytest.raises(UserError, match="P19, U6"):
        find("U7")


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("warmup", "P12"),
        ("z-loss", "P15"),
        ("qk-norm", "P16"),
        ("gradient clipping", "P13"),
        ("scaler", "P5"),
        ("deterministic", "P19"),
        ("anomaly", "P9"),
    ],
)
def test_a_subject_leads_to_its_sections(words: str, number: str) -> None:
    assert number in {section.alias for section in find(words)}


def test_codes_slugs_and_families_are_not_subjects() -> None:
    for check in catalog.CHECKS:
        assert find(check.code) == find(check.slug) == ()
    assert find("CKP") == ()
    assert find("no such subject") == ()


def test_what_cites_a_section_is_named() -> None:
    assert "MEM001" in answer("Memory Impact")
    assert "22 GiB" in " ".join(answer("fnr-memory").split())
    assert "gradient clipping fp16" in answer("P7")
    assert "Not detectable" in answer("P15")
    assert "JOB007" not in answer("U9")
    (section,) = json.loads(json_text(find("P14")))["sections"]
    assert section["not_detectable"]
    assert "CKP005" in section["checks"]


def test_corrections_advice_and_settings_are_of_sections_that_exist() -> None:
    assert CORRECTIONS.keys() <= SOURCES.keys()
    assert ADVICE.keys() <= SOURCES.keys()
    assert {id for ids in CITED.values() for id in ids} <= SOURCES.keys()


def test_no_remedy_or_correction_gives_an_epsilon_that_fp16_lacks() -> None:
    for name, text in ADVICE.items():
        assert "1e-8" not in text.text, name

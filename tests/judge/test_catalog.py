"""What every check promises, walked over the whole catalogue."""

from __future__ import annotations

import inspect
import os
import re
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from recorded import machines

import doctor
from doctor import catalog
from doctor._util.errors import UserError
from doctor.checks import __path__ as checks_folder
from doctor.facts.facts import Facts
from doctor.judge import names
from doctor.judge.check import Check, Status
from doctor.judge.described import EVERYWHERE
from doctor.judge.engine import examine
from doctor.judge.sources import DOCUMENTS, SOURCES

EACH = pytest.mark.parametrize("check", catalog.CHECKS, ids=lambda check: check.code)
OF_MACHINES = pytest.mark.parametrize("check", catalog.MACHINE_CHECKS, ids=lambda check: check.code)

CITES = {
    "DRV001": {"ps-U28"},
    "DRV002": {"ps-U28"},
    "TOR001": {"ps-U28"},
    "TOR002": {"ps-U28"},
    "TOR003": {"ps-U28"},
    "TOR004": {"ps-U28"},
    "GPU002": {"ps-U10", "ps-U11"},
    "NUM001": {"titan-matrix", "titan-why", "ps-P1", "ps-P3", "ps-P5", "ps-P6"},
    "NUM002": {"ps-P2"},
    "NUM003": {"bts-fix1", "bts-fix3", "bts-quick"},
    "NUM004": {"torch-cuda-semantics"},
    "MEM001": {"fnr-memory", "ps-U10", "ps-U11"},
    "MEM002": {"ps-U9"},
    "DSK001": {"ps-U6"},
    "DSK002": {"ps-U6"},
    "CKP002": {"titan-matrix", "ps-P3"},
    "CKP003": {"bts-fix2"},
    "CKP004": {"fnr-precision", "fnr-root"},
    "CKP005": {"ps-P14"},
    "CKP006": {"bts-fix2", "fnr-root", "fnr-fix"},
    "CKP007": {"fnr-diagnosis", "fnr-precision", "fnr-fix"},
    "CKP008": {"bts-fix7"},
    "CKP009": {"fnr-optimizer", "fnr-gradients"},
    "CKP011": {"bts-fix4"},
    "SMK001": {"cbl-why", "ps-U28"},
    "SMK002": {"bts-quick", "cbl-verification", "ps-P5", "ps-P8", "ps-P10"},
    "SMK003": {"fnr-gradients", "ps-P18"},
    "SMK004": {"fnr-precision"},
    "SMK007": {"fnr-gradients", "ps-P18"},
    "SMK008": {"fnr-precision", "bts-fix2"},
    "SMK009": {"cbl-root", "bts-fix7"},
    "NUM005": {"titan-why", "ps-P6"},
}
"""Document sections that a remedy must cite."""


@cache
def recorded_statuses() -> dict[str, set[Status]]:
    """Code -> its statuses on the recorded machines."""
    statuses: dict[str, set[Status]] = {check.code: set() for check in catalog.MACHINE_CHECKS}
    for facts in machines().values():
        for finding in examine(catalog.MACHINE_CHECKS, facts):
            statuses[finding.check.code].add(finding.status)
    return statuses


@OF_MACHINES
def test_the_machines_make_a_check_pass_warn_or_fail_and_be_unknown(check: Check) -> None:
    """And the conditions of each status are documented."""
    assert Status.PASS in recorded_statuses()[check.code]
    assert recorded_statuses()[check.code] & {Status.WARN, Status.FAIL}
    assert Status.UNKNOWN in recorded_statuses()[check.code]
    assert check.warns or Status.WARN not in recorded_statuses()[check.code]
    assert check.fails or Status.FAIL not in recorded_statuses()[check.code]


@EACH
def test_a_check_has_conditions_a_short_reason_and_a_fix(check: Check) -> None:
    assert check.passes
    assert 0 < len(check.why.split()) <= 60
    assert check.fix
    assert check.notes or check.warns or check.fails
    # completes "A pass is no proof "
    assert not check.limits or (check.limits.startswith("that ") and check.limits.endswith("."))


def test_codes_and_slugs_are_unique_well_formed_and_never_reused() -> None:
    codes = [check.code for check in catalog.CHECKS]
    slugs = [check.slug for check in catalog.CHECKS]
    assert len(set(codes)) == len(codes)
    assert len(set(slugs)) == len(slugs)
    assert not catalog.RETIRED & set(codes)
    for check in catalog.CHECKS:
        assert re.fullmatch(r"[A-Z]{3}\d{3}", check.code)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", check.slug)
        assert check.family in catalog.FAMILIES
        assert not check.title.endswith(".")


def test_older_slugs_are_unique_and_are_never_a_slug_of_today() -> None:
    aliases = [alias for check in catalog.CHECKS for alias in check.aliases]
    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & {check.slug for check in catalog.CHECKS}
    for alias in aliases:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", alias)


def test_a_family_is_judged_in_the_order_of_its_numbers() -> None:
    shown = [check.code for check in catalog.CHECKS]
    order = list(catalog.FAMILIES)
    assert shown == sorted(shown, key=lambda code: (order.index(code[:3]), code))


def members(annotation: Any) -> set[Any]:
    """The alternatives of a union."""
    if get_origin(annotation) in (Union, UnionType):
        return set(get_args(annotation))
    return {annotation}


@cache
def sections() -> dict[str, set[Any]]:
    """Field or view of Facts -> what it may be."""
    fields = {name: members(kind) for name, kind in get_type_hints(Facts).items()}
    views = {
        name: members(get_type_hints(view.fget)["return"])
        for name, view in inspect.getmembers(Facts, lambda item: isinstance(item, property))
    }
    return fields | views


@EACH
def test_a_judge_asks_for_sections_of_the_facts_with_their_types(check: Check) -> None:
    known = sections()
    hints = get_type_hints(check.judge)
    for name in inspect.signature(check.judge).parameters:
        assert name in known
        assert members(hints[name]) <= known[name]


@EACH
def test_what_a_check_refers_to_exists_and_the_demanded_sections_are_cited(check: Check) -> None:
    assert set(check.after) <= {each.code for each in catalog.CHECKS} - {check.code}
    assert set(check.targets) <= set(EVERYWHERE)
    assert set(check.sources) <= set(SOURCES)
    assert CITES.get(check.code, set()) <= set(check.sources)
    assert len(set(check.sources)) == len(check.sources)


def test_every_address_is_cited() -> None:
    package = Path(doctor.__file__).parent
    citing = [path for folder in checks_folder for path in Path(folder).rglob("*.py")]
    citing += package.glob("prescribe/*.py")
    citing += package.glob("errors/tables/*.py")
    citing += package.glob("hardware/*.py")
    code = "".join(path.read_text("utf-8") for path in citing)
    addresses = [id for id, source in SOURCES.items() if source.url]
    assert [id for id in addresses if f'"{id}"' not in code] == []


def test_public_addresses_have_a_date_and_a_scheme() -> None:
    for source in SOURCES.values():
        assert bool(source.url) != bool(source.document)
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", source.checked)
        assert not source.url or source.url.startswith("https://")


def test_cited_sections_are_headings_of_the_documents() -> None:
    folder = os.environ.get("DOCTOR_DOCUMENTS", "")
    if not Path(folder, "precision-stability.md").exists():
        pytest.skip(
            "the source documents are not available; DOCTOR_DOCUMENTS names their directory"
        )
    for source in DOCUMENTS:
        lines = Path(folder, f"{source.document}.md").read_text("utf-8").splitlines()
        headings = {line.lstrip("#").strip() for line in lines if line.startswith("#")}
        assert source.section in headings
        assert source.title in headings
        if source.alias.startswith("U"):
            assert any(f"**{source.alias}**" in line or source.alias in line for line in lines)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("NUM002", {"NUM002"}),
        ("num002", {"NUM002"}),
        ("tf32-setting", {"NUM002"}),
        ("same-product-twice", {"GPU006"}),
        ("P2", {"NUM002"}),
        ("U28", {"DRV001"}),
        ("NUM999", set()),
    ],
)
def test_a_check_is_found_by_code_slug_older_slug_and_document_section(
    name: str, codes: set[str]
) -> None:
    found = {check.code for check in catalog.find(name)}
    assert codes <= found if name[0] in "UP" else found == codes


def test_a_section_that_stands_for_several_codes_names_them_all() -> None:
    assert {"DRV001", "TOR003", "SMK001"} <= {check.code for check in catalog.find("U28")}


def test_a_name_that_is_nearly_right_is_guessed() -> None:
    assert "NUM002" in names.nearest("NUM02", catalog.CHECKS)
    assert "tf32-setting" in names.nearest("tf32-settings", catalog.CHECKS)
    assert "same-product-twice" in names.nearest("same-product-twise", catalog.CHECKS)


@pytest.mark.parametrize(
    ("name", "suggested", "not_suggested"),
    [
        ("DRV999", "codes of DRV are DRV001, DRV002", "nearest"),
        ("drv-99", "DRV002", "nearest"),
        ("NUM02", "nearest: NUM002", "the codes"),
        ("XYZQ", "doctor list", "nearest"),
        ("QQQQ", "families: JOB, DRV, TOR", "nearest"),
    ],
)
def test_the_error_about_an_unknown_code_names_those_of_its_family(
    name: str, suggested: str, not_suggested: str
) -> None:
    with pytest.raises(UserError) as error:
        catalog.lookup(name)
    assert suggested in str(error.value)
    assert not_suggested not in str(error.value)


def test_the_guard_names_its_codes_by_the_slugs_of_their_checks() -> None:
    from doctor.guard import codes

    named = {name: code for name, code in vars(codes).items() if name.isupper()}
    slugs = {check.slug.upper().replace("-", "_"): check.code for check in catalog.lookup("GRD")}
    assert named.items() <= slugs.items()
    assert len(named) == 28


def test_each_setting_of_a_prescription_rests_on_one_check() -> None:
    from doctor.prescribe.citations import CITED, RESTS_ON

    assert set(RESTS_ON.values()) <= {check.code for check in catalog.MACHINE_CHECKS}
    for setting in set(CITED) - {"peer-to-peer"}:  # rests on the finding that turns it off
        assert any(setting.startswith(name) for name in RESTS_ON), setting

"""The generated index of checks answers as the catalogue does."""

from __future__ import annotations

import pytest

from doctor import catalog
from doctor._util.errors import UserError
from doctor.judge import names
from doctor.judge.described import FIELDS
from doctor.judge.index import JUDGED, Entry, entries
from doctor.report import explain


def test_it_has_the_texts_of_every_check() -> None:
    for check, entry in zip(catalog.CHECKS, entries(), strict=True):
        every = (*FIELDS, *JUDGED)
        assert all(getattr(check, field) == getattr(entry, field) for field in every), check.code
        assert check.family == entry.family
    assert Entry._fields == (*FIELDS, *JUDGED)


def test_explain_and_list_print_the_same_from_either() -> None:
    assert explain.explain(entries()) == explain.explain(catalog.CHECKS)
    assert explain.listing(entries()) == explain.listing(catalog.CHECKS)


@pytest.mark.parametrize("name", ["GPU", "num0", "tf32", "P10", "optimizer-dtype"])
def test_names_begin_the_same_checks(name: str) -> None:
    def codes(among: tuple[names.Named, ...]) -> list[str] | str:
        try:
            return [check.code for check in names.beginning_with([name], among)]
        except UserError as error:
            return str(error)

    assert codes(entries()) == codes(catalog.CHECKS) != []

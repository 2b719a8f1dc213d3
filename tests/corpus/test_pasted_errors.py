"""Texts that people posted: the right cause comes first, with the remedy that the thread found."""

from __future__ import annotations

from pasted_errors import answer, posted_errors

NOT_NAMED = {"https://github.com/bmaltais/kohya_ss/issues/1635"}
"""A text that only one program prints. What names one has to take it off this list."""


def test_the_first_cause_is_that_of_the_label_with_the_remedy_of_the_thread() -> None:
    posted = [each for each in posted_errors() if each["set"] == 1]
    helped = {each["address"] for each in posted if answer(each["text"]).helps(each)}
    assert {each["address"] for each in posted} - helped == NOT_NAMED


def test_every_text_has_an_address_of_its_own() -> None:
    addresses = [each["address"] for each in posted_errors()]
    assert len(set(addresses)) == len(addresses)
    assert all(each.startswith("https://") for each in addresses)

"""CKP015 and CKP016 over records of merges."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_checkpoints import checkpoint, lora, merge, merged_weight

from doctor._util.records import Unknown
from doctor.checkpoint.records import AdapterUse, Merge, MergedWeight, Replaced, Untouched
from doctor.checks.checkpoint.adapter_fit import FITS
from doctor.checks.checkpoint.merge_rest import REST
from doctor.checks.checkpoint.merge_scale import scale_reason
from doctor.checks.checkpoint.merged import ADDS_UP
from doctor.judge.check import Status, Verdict


def adds_up(record: Merge | Unknown | None) -> Verdict:
    return ADDS_UP.judge(checkpoint=checkpoint(merge=record))


def both(**fields: Any) -> tuple[MergedWeight, MergedWeight]:
    return merged_weight(0, **fields), merged_weight(1, **fields)


FAR = {"residual": 0.01, "explained": 0.1, "scale": 0.3}


@pytest.mark.parametrize(
    ("weights", "status", "words"),
    [
        (both(), Status.PASS, "2 weights are base + adapters"),
        (both(changed=0, scale=None), Status.FAIL, "not merged"),
        (both(scale=2.0, residual=0.004), Status.FAIL, "merged twice"),
        (both(scale=-1.0, residual=0.008), Status.FAIL, "subtracted"),
        ((merged_weight(0), merged_weight(1, changed=0)), Status.FAIL, "in part"),
        (both(**FAR), Status.FAIL, "another adapter was merged"),
        (both(**FAR, instead="its product, transposed"), Status.FAIL, "its product, transposed"),
        (both(scale=1.0, explained=0.9, residual=0.004), Status.FAIL, "another step"),
        (both(residual=0.01, explained=0.5, scale=1.02), Status.FAIL, "something else"),
        (both(residual=0.01, explained=0.5, quantized="nf4"), Status.NOTE, "nf4"),
        (both(lost=0.2), Status.NOTE, "20% of the update is lost"),
        (both(lost=0.8), Status.WARN, "80% of the update is lost"),
        (both(expected=3, changed=3, lost=1.0), Status.UNKNOWN, "below the rounding"),
        (both(nonfinite=4), Status.FAIL, "NaN"),
    ],
)
def test_weights_of_a_merge(weights: Any, status: Status, words: str) -> None:
    verdict = adds_up(merge(*weights))
    assert verdict.status is status
    assert words in verdict.summary


def test_another_base_shows_in_the_other_tensors() -> None:
    rest = Untouched(compared=100, equal=20, changed=("a", "b"), changed_count=80)
    verdict = adds_up(merge(*both(**FAR), untouched=rest))
    assert verdict.status is Status.FAIL
    assert "another base" in verdict.summary


def test_a_method_that_changes_its_base_is_unknown_until_that_base_is_named() -> None:
    pissa = AdapterUse(path="/a", method="LoRA", converted="pissa")
    assert adds_up(merge(*both(**FAR), adapters=(pissa,))).status is Status.UNKNOWN
    assert adds_up(merge(adapters=(pissa,))).status is Status.PASS


def test_other_methods_are_named() -> None:
    loha = AdapterUse(path="/a", method="LOHA", unsupported="LOHA: only LoRA and DoRA are computed")
    rest = Untouched(compared=9, equal=8, changed=("q_proj",), changed_count=1)
    record = merge(adapters=(loha,), untouched=rest)
    for verdict in (adds_up(record), REST.judge(checkpoint=checkpoint(merge=record))):
        assert verdict.status is Status.UNKNOWN
        assert "LOHA" in verdict.summary


def test_a_merge_without_a_known_scale_is_unknown() -> None:
    unscaled = lora(unscaled=2, unscaled_reason="r is 0.5")
    verdict = adds_up(merge(*both(**FAR), adapters=(unscaled,)))
    assert verdict.status is Status.UNKNOWN
    assert "r is 0.5" in verdict.summary


def test_what_an_adapter_brings_whole() -> None:
    kept = Replaced(name="lm_head.weight", matches=False, as_base=True)
    verdict = adds_up(merge(replaced=(kept,)))
    assert verdict.status is Status.FAIL
    assert "lm_head.weight" in verdict.summary
    more = Replaced(name="model.embed_tokens.weight", matches=True, other_rows=3)
    assert adds_up(merge(replaced=(more,))).status is Status.FAIL


def test_without_a_merge() -> None:
    assert adds_up(None).status is Status.SKIP
    assert adds_up(Unknown(reason="no base")).status is Status.UNKNOWN
    assert adds_up(merge(unread=("a: stored as U8",), unread_count=1)).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (Untouched(compared=9, equal=9), Status.PASS),
        (Untouched(compared=9, equal=4, cast=5, casts=("F32 to BF16",)), Status.NOTE),
        (Untouched(compared=9, equal=8, padded=("embed [10, 4] for [8, 4]",)), Status.NOTE),
        (Untouched(compared=9, equal=8, changed=("norm",), changed_count=1), Status.FAIL),
        (Untouched(compared=9, equal=8, reshaped=("norm [3] for [4]",)), Status.FAIL),
        (Untouched(compared=8, equal=8, removed=("norm",), removed_count=1), Status.WARN),
        (Untouched(removed=("lm_head.weight",), removed_count=1), Status.WARN),
        (Untouched(removed=("rotary_emb.inv_freq", "norm"), removed_count=2), Status.WARN),
        (
            Untouched(
                removed=("lm_head.weight", "rotary_emb.inv_freq"),
                removed_count=2,
                copies=("lm_head.weight",),
            ),
            Status.NOTE,
        ),
        (Untouched(removed=("rotary_emb.inv_freq",) * 20, removed_count=80), Status.NOTE),
        (Untouched(compared=8, equal=8, unread=1), Status.UNKNOWN),
    ],
)
def test_the_rest_of_the_tensors(rest: Untouched, status: Status) -> None:
    assert REST.judge(checkpoint=checkpoint(merge=merge(untouched=rest))).status is status


@pytest.mark.parametrize(
    ("scale", "words"),
    [(2.0, "twice"), (16.0, "lora_alpha, not"), (4.0, "rsLoRA"), (0.5, "not scaled"), (7.3, "")],
)
def test_the_reason_of_a_scale(scale: float, words: str) -> None:
    reason = scale_reason(merge(), scale)
    assert words in reason
    assert bool(words) == bool(reason)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, Status.PASS),
        ({"unmatched": ("q",), "unmatched_count": 1}, Status.FAIL),
        ({"misfits": ("q: the product is [3, 4]",), "misfit_count": 1}, Status.FAIL),
        ({"incomplete": ("q",)}, Status.FAIL),
        ({"zero": 2}, Status.FAIL),
        ({"zero": 1}, Status.WARN),
        ({"unscaled": 1}, Status.UNKNOWN),
        ({"unscaled": 2, "zero": 2}, Status.UNKNOWN),
        ({"modules": 0}, Status.UNKNOWN),
        ({"unsupported": "IA3: only LoRA and DoRA are computed"}, Status.UNKNOWN),
    ],
)
def test_whether_an_adapter_fits(fields: dict[str, Any], status: Status) -> None:
    record = merge(adapters=(lora(**fields),))
    assert FITS.judge(checkpoint=checkpoint(merge=record)).status is status


def test_an_adapter_that_was_not_named_or_read() -> None:
    assert FITS.judge(checkpoint=checkpoint()).status is Status.SKIP
    unread = checkpoint(merge=Unknown(reason="no weights"))
    assert FITS.judge(checkpoint=unread).status is Status.UNKNOWN

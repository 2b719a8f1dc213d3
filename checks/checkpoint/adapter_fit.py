"""Whether adapters fit the model that they are named for."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import listed
from doctor.checkpoint.records import AdapterUse, Checkpoint
from doctor.checks.checkpoint.merged import misfit, unscaled
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst


def adapter_fits(checkpoint: Checkpoint) -> Verdict:
    merge = checkpoint.merge
    if merge is None:
        return skip("no --adapter")
    if isinstance(merge, Unknown):
        return unknown(f"the adapters could not be read: {merge.reason}")
    return worst(*(_fits(adapter) for adapter in merge.adapters))


def _fits(adapter: AdapterUse) -> Verdict:
    if adapter.unsupported:
        return unknown(f"{adapter.path}: {adapter.unsupported}")
    modules = f"{adapter.path}: {adapter.method}, {adapter.modules:,} modules"
    if adapter.incomplete:
        return fail(f"{modules}; {listed(list(adapter.incomplete), 2)} lack a factor", fix=FIT_FIX)
    if adapter.misfit_count or adapter.unmatched_count:
        return fail(f"{modules}; {misfit(adapter)}", fix=FIT_FIX)
    if not adapter.modules:
        return unknown(f"{adapter.path}: no pair of factors is in its tensors")
    if adapter.unscaled:
        return unknown(f"{modules}; {unscaled(adapter)}")
    if adapter.zero == adapter.modules:
        return fail(f"{modules}; every product is zero: it changes nothing", fix=ZERO_FIX)
    if adapter.zero:
        return warn(f"{modules}; {adapter.zero:,} of the products are zero", fix=ZERO_FIX)
    base = f", trained on {adapter.base}" if adapter.base else ""
    return ok(f"{modules} of the model's shapes{base}")


FIT_FIX = (
    "Name the base that the adapter was trained on: base_model_name_or_path and revision of "
    "adapter_config.json."
)
ZERO_FIX = (
    "Check that the adapter was saved after training, from the model that get_peft_model returned: "
    "one of its two factors begins at zero, and a product of zero changes nothing."
)

FITS = Check(
    code="CKP017",
    slug="adapter-fits-model",
    title="The adapters fit the model",
    why="peft creates an adapter's modules by the names of the model's: on another model loading "
    "fails late or leaves modules out, and a product that is zero loads without changing anything.",
    passes=("each module of the adapters has a weight of the model, of the product's shape",),
    warns=("some products are zero",),
    fails=(
        "a module is of no weight of the model, or its product has another shape",
        "a module lacks one of its factors",
        "every product is zero",
    ),
    fix=FIT_FIX,
    limits="that the model has the values that the adapter was trained on.",
    owner=Owner.JOB,
    judge=adapter_fits,
    required="checkpoint",
    sources=("peft-lora",),
    after=("CKP001",),
)

CHECKS = (FITS,)

"""What a name stands for in its own function, which process saves, and remedies under a scaler."""

from __future__ import annotations

import pytest
from script_code import NO_MACHINE, RELEVANT, codes

from doctor.checks.script.lint import lint
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

SHARES = """
    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler
    def evaluate(model, {parameter}, device):
        correct = 0
        for x, y in {parameter}:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        return correct
    def main(train, held_out, build):
        dist.init_process_group("nccl")
        rank = int(os.environ["LOCAL_RANK"])
        model = DDP(build().cuda(rank), device_ids=[rank])
        loader = DataLoader(train, sampler=DistributedSampler(train))
        plain = DataLoader(held_out)
        evaluate(model, {given}, rank)
        {save}
    main(train, held_out, build)
"""


def shares(parameter: str = "loader", given: str = "plain", save: str = "pass") -> dict[str, str]:
    return codes(SHARES.format(parameter=parameter, given=given, save=save))


@pytest.mark.parametrize("parameter", ["loader", "batches"])
def test_a_parameter_is_what_the_callers_pass_whatever_its_name(parameter: str) -> None:
    assert "metric-not-gathered" not in shares(parameter, "plain")
    assert shares(parameter, "loader")["metric-not-gathered"] == "warn"


def test_a_dictionary_of_the_model_is_saved_by_every_process() -> None:
    written = 'torch.save({"model": model.state_dict(), "step": 1}, %s)'
    assert shares(save=written % '"last.pt"')["save-on-all-ranks"] == "warn"
    assert "save-on-all-ranks" not in shares(save=written % 'f"last-{rank}.pt"')
    assert "save-on-all-ranks" not in shares(save="if rank == 0: " + written % '"last.pt"')
    function = f"def put(path): {written % 'path'}\n        "
    assert shares(save=function + 'put("last.pt")')["save-on-all-ranks"] == "warn"
    assert "save-on-all-ranks" not in shares(save=function + 'put(f"last-{rank}.pt")')


ACCUMULATES = """
import torch
scaler = torch.amp.GradScaler()
for i, (x, y) in enumerate(loader):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(x), y)
    {}
    if (i + 1) % steps == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("backward", "fix"),
    [
        ("scaler.scale(loss).backward()", "Call scaler.scale(loss / steps).backward()."),
        ("loss.backward()", ""),
        ("scaler.scale(loss / steps).backward()", None),
    ],
)
def test_the_loss_is_divided_inside_of_the_scale(backward: str, fix: str | None) -> None:
    script = read_python("train.py", ACCUMULATES.format(backward).encode(), relevant=RELEVANT)
    found = [hit.fix for hit in lint(script, NO_MACHINE) if hit.code == "SCR209"]
    assert found == ([] if fix is None else [fix])


TRAINER = """
import transformers
args = transformers.TrainingArguments("out", {}=1)
transformers.Trainer(model, args).train()
"""


@pytest.mark.parametrize(
    ("argument", "version", "severity"),
    [
        ("evaluation_strategy", None, "note"),
        ("evaluation_strategy", "5.0.0", "fail"),
        ("evaluation_strategy", "4.57.1", None),
        ("warmup_ratio", "5.1.0", None),
        ("warmup_ratio", "5.2.0", "fail"),
        ("eval_strategy", "5.23.0", None),
    ],
)
def test_a_removed_argument_fails_where_the_installed_version_lacks_it(
    argument: str, version: str | None, severity: str | None
) -> None:
    found = codes(TRAINER.format(argument), ScriptMachine(transformers=version))
    assert found.get("trainer-argument-removed") == severity


def test_a_trainer_that_is_made_as_the_version_wants_it_is_silent() -> None:
    code = """
        import transformers
        try:
            trainer = transformers.Trainer(model, processing_class=tok)
        except TypeError:
            trainer = transformers.Trainer(model, tokenizer=tok)
    """
    assert codes(code, ScriptMachine(transformers="5.23.0")) == {}

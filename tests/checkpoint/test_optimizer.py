"""What optimizers save, read from real files and summed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkpoints import checkpoint as make_checkpoint

from doctor._util.records import Unknown
from doctor.checkpoint.analysis.attribution import match_norms
from doctor.checkpoint.analysis.moments import all_zero
from doctor.checkpoint.analysis.optimizer import summarize
from doctor.checkpoint.formats.optimizer_state import read_state
from doctor.checkpoint.formats.torch_files import read_tree
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.records import Checkpoint, History, Norm, Optimizer
from doctor.checkpoint.scan import scan
from doctor.checkpoint.tensors import Entry, Group, OptimizerState, Tensor
from doctor.checks.checkpoint import norm_causes, norms
from doctor.checks.checkpoint import optimizer as checks
from doctor.judge.check import Status, Verdict


def saved(state: Any, folder: Path, name: str = "optimizer.pt") -> OptimizerState:
    import torch

    torch.save(state, folder / name)
    with LocalDirectory(folder).open(name) as source:
        found = read_state(read_tree(source, name), name, source)
    assert found is not None
    return found


def model(dtype: str = "float32") -> Any:
    import torch

    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4))
    return made.to(getattr(torch, dtype))


def stepped(made: Any, optimizer: Any, steps: int = 3) -> Any:
    import torch

    for _ in range(steps):
        dtype = next(made.parameters()).dtype
        made(torch.randn(5, 8, dtype=dtype)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer.state_dict()


def weights(made: Any) -> list[Tensor]:
    return [
        Tensor(name, "F32", tuple(value.shape), value.numel(), "m", 0, 4 * value.numel())
        for name, value in made.state_dict().items()
    ]


def summary(
    state: OptimizerState,
    folder: Path,
    tensors: Sequence[Tensor] = (),
    still: Sequence[str] = (),
    ordered: bool = False,
) -> Optimizer:
    norms = [Norm(name=name, dtype="F32", size=8, value="ones") for name in still]
    return summarize(LocalDirectory(folder), state, tensors, norms, ordered)


KINDS: dict[str, tuple[Callable[[Any], Any], str, dict[str, int], bool]] = {
    "AdamW": (lambda t: lambda p: t.optim.AdamW(p), "Adam", {"F32": 6}, True),
    "foreach": (lambda t: lambda p: t.optim.Adam(p, foreach=True), "Adam", {"F32": 6}, True),
    "amsgrad": (lambda t: lambda p: t.optim.Adam(p, amsgrad=True), "Adam", {"F32": 6}, True),
    "SGD": (
        lambda t: lambda p: t.optim.SGD(p, 0.01, momentum=0.9),
        "SGD with momentum",
        {"F32": 6},
        True,
    ),
    "RMSprop": (lambda t: lambda p: t.optim.RMSprop(p), "RMSprop", {"F32": 6}, True),
    "Adagrad": (lambda t: lambda p: t.optim.Adagrad(p), "Adagrad", {"F32": 6}, True),
    "Adadelta": (lambda t: lambda p: t.optim.Adadelta(p), "Adadelta", {"F32": 6}, True),
    "Rprop": (lambda t: lambda p: t.optim.Rprop(p), "Rprop", {"F32": 6}, True),
    "capturable": (
        lambda t: lambda p: t.optim.AdamW(p, lr=t.tensor(3e-4)),
        "Adam",
        {"F32": 6},
        True,
    ),
    "Adamax": (lambda t: lambda p: t.optim.Adamax(p), "Adamax", {"F32": 6}, True),
    "Adafactor": (lambda t: lambda p: t.optim.Adafactor(p), "Adafactor", {"F32": 6}, True),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_and_the_moments(name: str, tmp_path: Path) -> None:
    import torch

    make, kind, moments, follows = KINDS[name]
    made = model()
    state = saved(stepped(made, make(torch)(made.parameters())), tmp_path)
    found = summary(state, tmp_path)
    assert found.kind == kind
    assert found.moments == moments
    assert found.moments_follow_weights is follows
    assert (found.entries, found.parameters, found.missing) == (6, 6, 0)
    assert (found.zero_moments, found.nonzero_moments, found.unread_moments) == (0, 6, 0)
    if name != "SGD":
        assert (found.step_min, found.step_max) == (3.0, 3.0)


def test_a_rate_in_a_tensor_is_read(tmp_path: Path) -> None:
    import torch

    made = model()
    adam = torch.optim.AdamW(made.parameters(), lr=torch.tensor(3e-4))
    found = summary(saved(stepped(made, adam), tmp_path), tmp_path)
    assert found.lr == (pytest.approx(3e-4),)


@pytest.mark.parametrize(("dtype", "status"), [("float32", Status.PASS), ("bfloat16", Status.WARN)])
def test_asgd_keeps_no_moments(dtype: str, status: Status, tmp_path: Path) -> None:
    import torch

    made = model(dtype)
    found = summary(saved(stepped(made, torch.optim.ASGD(made.parameters())), tmp_path), tmp_path)
    assert found.kind == "ASGD"
    checkpoint = make_checkpoint(optimizer=found)
    assert checks.MASTERS.judge(checkpoint=checkpoint).status is status
    assert checks.STEPPED.judge(checkpoint=checkpoint).status is Status.SKIP


def test_muon_beside_adam(tmp_path: Path) -> None:
    """Two optimizers in one file: matrices with Muon, the rest with AdamW."""
    import torch

    if not hasattr(torch.optim, "Muon"):
        pytest.skip("torch.optim.Muon is newer than this torch")
    made = model()
    muon = torch.optim.Muon([p for p in made.parameters() if p.ndim == 2], lr=1e-3)
    adam = torch.optim.AdamW([p for p in made.parameters() if p.ndim < 2], lr=3e-4)
    made(torch.randn(5, 8)).square().sum().backward()
    muon.step()
    adam.step()
    whole = {"model": made.state_dict(), "optimizers": [muon.state_dict(), adam.state_dict()]}
    torch.save(whole, tmp_path / "ckpt.pt")
    with LocalDirectory(tmp_path).open("ckpt.pt") as source:
        state = read_state(read_tree(source, "ckpt.pt"), "ckpt.pt", source)
    if state is None:
        pytest.skip("lists of optimizers are not looked for")
    found = summary(state, tmp_path)
    assert found.kind == "Adam and Muon"
    assert (found.entries, found.parameters) == (6, 6)


def test_moments_have_the_dtype_of_the_weights(tmp_path: Path) -> None:
    import torch

    made = model("bfloat16")
    state = saved(stepped(made, torch.optim.AdamW(made.parameters(), lr=3e-4)), tmp_path)
    found = summary(state, tmp_path)
    assert found.moments == {"BF16": 6}
    assert found.lr == (3e-4,)


def unused_and_zero(named: bool) -> tuple[Any, Any]:
    """The norm's weight gets zero gradients, its bias none at all."""
    import torch

    made = model()
    made[1].weight.register_hook(lambda gradient: gradient * -0.0)
    made[1].bias.requires_grad_(False)
    optimizer = torch.optim.AdamW(made.named_parameters() if named else made.parameters())
    return made, stepped(made, optimizer)


def test_names_tell_which_entry_is_whose(tmp_path: Path) -> None:
    made, state_dict = unused_and_zero(named=True)
    state = saved(state_dict, tmp_path)
    found = summary(state, tmp_path, weights(made), ["1.weight"])
    assert found.norms is not None
    assert (found.norms.matched_by, found.norms.zero_moments) == ("names", 1)
    assert found.missing_names == ("1.bias",)
    assert (found.missing, found.zero_moments, found.nonzero_moments) == (1, 1, 4)
    other = summary(state, tmp_path, weights(made), ["1.bias"])
    assert other.norms is not None
    assert other.norms.missing == 1


@pytest.mark.parametrize("lead", ["model.", "module.", "_orig_mod.", "_fsdp_wrapped_module."])
def test_names_with_a_word_more(lead: str, tmp_path: Path) -> None:
    made, state_dict = unused_and_zero(named=True)
    state = saved(state_dict, tmp_path)
    tensors = [msgspec.structs.replace(tensor, name=lead + tensor.name) for tensor in weights(made)]
    found = summary(state, tmp_path, tensors, [f"{lead}1.weight"])
    assert found.norms is not None
    assert (found.norms.matched_by, found.norms.zero_moments) == ("names", 1)


def test_names_of_another_model_tell_nothing(tmp_path: Path) -> None:
    made, state_dict = unused_and_zero(named=True)
    tensors = [msgspec.structs.replace(tensor, name=f"x{tensor.name}y") for tensor in weights(made)]
    found = summary(saved(state_dict, tmp_path), tmp_path, tensors, ["x1.weighty"])
    assert found.norms is not None
    assert found.norms.matched_by is None
    assert "not those of the weights" in found.norms.reason


def test_the_order_of_a_state_dict_tells_and_shapes_alone_do_not(tmp_path: Path) -> None:
    """Three vectors of eight elements: two biases and the norm, of which two have entries."""
    made, state_dict = unused_and_zero(named=False)
    state = saved(state_dict, tmp_path)
    found = summary(state, tmp_path, weights(made), ["1.weight"], ordered=True)
    assert found.norms is not None
    assert (found.norms.matched_by, found.norms.zero_moments) == ("order", 1)
    by_name = sorted(weights(made), key=lambda tensor: tensor.name)
    found = summary(state, tmp_path, by_name, ["1.weight"])
    assert found.norms is not None
    assert found.norms.matched_by is None
    assert "[8]" in found.norms.reason


def test_the_order_is_not_believed_where_a_shape_differs(tmp_path: Path) -> None:
    made, state_dict = unused_and_zero(named=False)
    wrong = list(reversed(weights(made)))
    found = summary(saved(state_dict, tmp_path), tmp_path, wrong, ["1.weight"], ordered=True)
    assert found.norms is not None
    assert found.norms.matched_by is None


def test_a_file_of_nanogpt(tmp_path: Path) -> None:
    """Weights, two groups by dimensions and the step in one file: the order tells."""
    import torch

    made = model("bfloat16")
    groups = [
        {"params": [p for p in made.parameters() if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in made.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=3e-4)
    kept = {
        "model": {f"_orig_mod.{name.replace('1.', 'ln_f.')}": value
                  for name, value in made.state_dict().items()},
        "optimizer": stepped(made, optimizer, 20),
        "model_args": {"n_layer": 1},
        "iter_num": 20,
        "best_val_loss": torch.tensor(1.5),
        "config": {"dtype": "bfloat16"},
    }  # fmt: skip
    torch.save(kept, tmp_path / "ckpt.pt")
    found = scan(str(tmp_path / "ckpt.pt"))
    assert isinstance(found, Checkpoint)
    assert isinstance(found.training.optimizer, Optimizer)
    assert found.training.optimizer.weight_decay == (0.1, 0.0)
    evidence = found.training.optimizer.norms
    assert evidence is not None
    assert (evidence.matched_by, evidence.nonzero_moments, evidence.dtypes) == (
        "order",
        1,
        {"BF16": 1},
    )
    assert norms.CHECKS[0].judge(checkpoint=found).fix == norm_causes.MASTER_FIX


def entry(key: str, shape: tuple[int, ...] = (8,), zero: bool = False) -> Entry:
    slot = Tensor("0" if zero else "1", "F32", shape, 8, "o", 0, 32)
    return Entry(key, 10.0, {"exp_avg": slot})


def by_shape(
    entries: list[Entry], keys: int, shapes: dict[str, tuple[int, ...]], still: list[str]
) -> Any:
    state = OptimizerState("o", (Group(tuple(map(str, range(keys)))),), tuple(entries))
    tensors = [Tensor(name, "F32", shape, 8, "m", 0, 32) for name, shape in shapes.items()]
    return match_norms(state, tensors, still, False, lambda each: each.slots["exp_avg"].name == "0")


TWO = {"norm.weight": (8,), "norm.bias": (8,)}


@pytest.mark.parametrize(
    ("entries", "keys", "shapes", "kinds"),
    [
        ([entry("0"), entry("1")], 2, TWO, {"nonzero": 1}),
        (
            [entry("0", zero=True), entry("1", zero=True)],
            2,
            TWO,
            {"zero": 1},
        ),
        ([entry("0"), entry("1", zero=True)], 2, TWO, None),
        ([entry("0")], 2, TWO, None),
        ([entry("0")], 1, TWO, None),
        ([], 2, TWO, {"missing": 1}),
        ([], 1, TWO, None),
        ([entry("0", (8, 8))], 1, {**TWO, "up.weight": (8, 8)}, {"absent": 1}),
        ([entry("0", (8, 8))], 2, {**TWO, "up.weight": (8, 8)}, None),
        ([entry("0", (8, 8))], 3, {**TWO, "up.weight": (8, 8)}, {"missing": 1}),
        ([entry("0")] * 3, 3, TWO, None),
        ([entry("0"), entry("1")], 2, {**TWO, "bn.running_mean": (8,)}, {"nonzero": 1}),
    ],
)
def test_what_holds_for_every_mapping(
    entries: list[Entry], keys: int, shapes: Any, kinds: dict[str, int] | None
) -> None:
    found = by_shape(entries, keys, shapes, ["norm.weight"])
    if kinds is None:
        assert found.by is None
        assert found.reason
    else:
        assert found.by == "shapes"
        assert {kind: count for kind, count in found.kinds.items() if count} == kinds


def test_where_only_the_norms_have_the_shape_counts_are_enough() -> None:
    shapes = {"a.norm.weight": (8,), "b.norm.weight": (8,), "c.norm.weight": (8,)}
    found = by_shape([entry("0"), entry("1", zero=True)], 3, shapes, list(shapes))
    assert found.kinds == {"nonzero": 1, "zero": 1, "missing": 1}


def test_zeros_in_a_long_moment_are_read_to_the_end(tmp_path: Path) -> None:
    import torch

    long = torch.zeros(300_000)
    almost = long.clone()
    almost[-1] = 1e-30
    state = {
        "state": {
            0: {"step": torch.tensor(5.0), "exp_avg": long, "exp_avg_sq": long.clone()},
            1: {"step": torch.tensor(7.0), "exp_avg": almost, "exp_avg_sq": long.clone()},
        },
        "param_groups": [{"lr": 1e-3, "params": [0, 1]}],
    }
    found = summary(saved(state, tmp_path), tmp_path)
    assert (found.zero_moments, found.nonzero_moments) == (1, 1)
    assert (found.step_min, found.step_max) == (5.0, 7.0)


def test_reads_are_bounded(tmp_path: Path) -> None:
    import torch

    made = model()
    state = saved(stepped(made, torch.optim.AdamW(made.parameters())), tmp_path)
    found = summarize(LocalDirectory(tmp_path), state, [], [], reads=2)
    assert (found.nonzero_moments, found.unread_moments) == (2, 4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_zero_of_both_signs(dtype: str) -> None:
    import torch

    names = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64"}
    kind = getattr(torch, dtype)

    def data(value: float) -> bytes:
        values = torch.tensor([0.0, -0.0, value], dtype=kind)
        return bytes(values.view(torch.uint8).tolist())

    assert all_zero(data(0.0), names[dtype])
    assert all_zero(data(-0.0), names[dtype])
    assert not all_zero(data(float(torch.finfo(kind).tiny)), names[dtype])
    assert not all_zero(data(-2.0), names[dtype])


@pytest.mark.parametrize("nested", [False, True])
def test_eight_bit_moments_are_judged_by_their_scales(tmp_path: Path, nested: bool) -> None:
    """The layouts of bitsandbytes: a code of zero is not the byte 0."""
    import torch

    codes = torch.full((4096,), 127, dtype=torch.uint8)
    state = {
        "state": {
            number: {
                "step": 9,
                "state1": codes.clone(),
                "state2": codes.clone(),
                "qmap1": torch.linspace(-1, 1, 256),
                "absmax1": torch.full((16,), scale),
                "absmax2": torch.full((16,), scale),
            }
            for number, scale in enumerate((0.0, 0.5))
        },
        "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1]}],
    }
    if nested:
        entries: dict[int, Any] = state["state"]  # type: ignore[assignment]
        for entry in entries.values():
            slots = {name: entry.pop(name) for name in list(entry) if name != "step"}
            entry["__bnb_optimizer_quant_state__"] = slots
    found = summary(saved(state, tmp_path), tmp_path)
    assert (found.kind, found.step_max) == ("8-bit (bitsandbytes)", 9.0)
    assert (found.zero_moments, found.nonzero_moments, found.moments_follow_weights) == (
        1,
        1,
        False,
    )


def test_fp32_copies_beside_bf16_moments(tmp_path: Path) -> None:
    import torch

    state = {
        "state": {
            0: {
                "step": 5,
                "exp_avg": torch.ones(8, dtype=torch.bfloat16),
                "master_param": torch.linspace(0.99, 1.01, 8),
            },
        },
        "param_groups": [{"lr": 1e-3, "params": [0], "param_names": ["norm.weight"]}],
    }
    tensors = [Tensor("norm.weight", "BF16", (8,), 8, "m", 0, 16)]
    found = summary(saved(state, tmp_path), tmp_path, tensors, ["norm.weight"])
    assert found.masters == {"F32": 1}
    assert found.norms is not None
    assert (found.norms.masters_changed, found.norms.masters_unchanged) == (1, 0)


def test_strange_states_read(tmp_path: Path) -> None:
    """Wrong types are not there; nothing raises."""
    import torch

    for number, state in enumerate(
        (
            {"state": {}, "param_groups": []},
            {"state": {0: None, (1, 2): {}, "x": {"step": "9", "exp_avg": 3}}, "param_groups": [1]},
            {
                "state": {0: {"step": float("nan"), "exp_avg": torch.zeros(0)}},
                "param_groups": [{"params": "abc", "lr": True, "param_names": [1, 2]}],
            },
            {
                "state": {0: {"step": torch.zeros(3), "exp_avg": torch.ones(2).int()}},
                "param_groups": [{"params": [0, 0, 10**30], "lr": 10**400}],
            },
        )
    ):
        torch.save(state, tmp_path / f"{number}.pt")
        with LocalDirectory(tmp_path).open(f"{number}.pt") as source:
            found = read_state(read_tree(source, "o"), f"{number}.pt", source)
        if found:
            summary(found, tmp_path, [], ["norm.weight"])


def judge(check: int, optimizer: dict[str, Any] | Unknown | None, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "file": "optimizer.pt",
        "kind": "Adam",
        "entries": 9,
        "parameters": 9,
        "moments": {"F32": 9},
        "moments_follow_weights": True,
        "nonzero_moments": 9,
        "step_min": 100.0,
        "step_max": 100.0,
    }
    state = Optimizer(**{**fields, **optimizer}) if isinstance(optimizer, dict) else optimizer
    said = make_checkpoint(
        path="/c", layout="x", count=1, tensors=9, parameters=9, bytes=9, largest=9,
        optimizer=state, **changes,
    )  # fmt: skip
    return checks.CHECKS[check].judge(checkpoint=said)


@pytest.mark.parametrize(
    ("optimizer", "status"),
    [
        ({}, Status.PASS),
        ({"moments": {"BF16": 9}}, Status.WARN),
        ({"moments": {"F16": 9}}, Status.WARN),
        ({"moments": {"BF16": 8, "F32": 1}}, Status.WARN),
        ({"moments": {"BF16": 9}, "masters": {"F32": 9}}, Status.PASS),
        ({"moments": {"BF16": 9}, "compensation": "compensation"}, Status.PASS),
        ({"low_masters": True}, Status.WARN),
        ({"moments_follow_weights": False}, Status.UNKNOWN),
        ({"moments": {"U8": 9}}, Status.UNKNOWN),
        (Unknown(reason="damaged"), Status.UNKNOWN),
        (None, Status.SKIP),
    ],
)
def test_master_weights(optimizer: Any, status: Status) -> None:
    assert judge(0, optimizer).status is status


STEPS = History(steps=100, lr_sum=1, lr_squares=1, covered=100)


@pytest.mark.parametrize(
    ("optimizer", "changes", "status"),
    [
        ({}, {}, Status.PASS),
        ({"missing": 2, "parameters": 11}, {}, Status.NOTE),  # frozen
        ({"missing": 2, "zero_moments": 2, "parameters": 11}, {}, Status.WARN),
        ({"zero_moments": 2, "nonzero_moments": 7}, {}, Status.WARN),
        ({"zero_moments": 2, "nonzero_moments": 7, "step_max": 3.0}, {}, Status.PASS),
        ({"zero_moments": 9, "nonzero_moments": 0}, {}, Status.FAIL),
        ({"step_max": 0.0}, {}, Status.FAIL),
        ({"entries": 0, "nonzero_moments": 0}, {"history": STEPS}, Status.FAIL),
        ({"entries": 0, "nonzero_moments": 0}, {}, Status.WARN),
        ({"entries": 0, "nonzero_moments": 0, "masters": {"F32": 9}}, {}, Status.UNKNOWN),
        ({"entries": 0, "parameters": 0, "nonzero_moments": 0}, {}, Status.UNKNOWN),
        ({"nonzero_moments": 0, "unread_moments": 9}, {}, Status.UNKNOWN),
        (Unknown(reason="damaged"), {}, Status.UNKNOWN),
        (None, {}, Status.SKIP),
    ],
)
def test_stepped(optimizer: Any, changes: Any, status: Status) -> None:
    assert judge(1, optimizer, **changes).status is status


@pytest.mark.parametrize("kind", ["Adam", "of an unknown kind"])
def test_no_state_and_no_count_of_steps(kind: str) -> None:
    verdict = judge(1, {"kind": kind, "entries": 0, "nonzero_moments": 0})
    assert verdict.status is Status.WARN
    assert ("keeps none" in verdict.summary) is (kind != "Adam")
    assert "the optimizer whose step()" in (verdict.fix or "")
    assert verdict.sources == ("torch-optimizer-state",)


def test_plain_sgd_keeps_no_state(tmp_path: Path) -> None:
    import torch

    made = model()
    state = saved(stepped(made, torch.optim.SGD(made.parameters(), 0.01)), tmp_path)
    found = summary(state, tmp_path)
    assert (found.kind, found.missing, found.missing_names) == ("SGD", 0, ())
    verdict = judge(1, {"kind": "SGD", "entries": 0, "nonzero_moments": 0}, history=STEPS)
    assert verdict.status is Status.SKIP
    assert verdict.summary == "plain SGD keeps no state"


def test_sgd_with_momentum_that_never_stepped(tmp_path: Path) -> None:
    import torch

    optimizer = torch.optim.SGD(model().parameters(), 0.01, momentum=0.9)
    found = summary(saved(optimizer.state_dict(), tmp_path), tmp_path)
    assert (found.kind, found.entries, found.missing) == ("SGD with momentum", 0, 6)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_step_or_rate_that_is_not_finite(number: float, tmp_path: Path) -> None:
    import torch

    made = model()
    state = stepped(made, torch.optim.AdamW(made.parameters()))
    state["param_groups"][0]["lr"] = number
    state["state"][0]["step"] = torch.tensor(number)
    found = summary(saved(state, tmp_path), tmp_path)
    assert (found.kind, found.nonfinite) == ("Adam", ("step", "learning rate"))
    assert (found.lr, found.step_max, found.moments_follow_weights) == ((), 3.0, True)
    assert judge(1, {"nonfinite": found.nonfinite}).status is Status.WARN
    assert judge(1, {"kind": "SGD", "nonfinite": ("learning rate",)}).status is Status.WARN


def test_stored_weights_tell_where_moments_do_not() -> None:
    fp32 = {"dtypes": {"F32": 900, "I64": 8}}
    for optimizer in ({"moments_follow_weights": False}, {"moments": {}}, {"moments": {"U8": 9}}):
        verdict = judge(0, optimizer, **fp32)
        assert verdict.status is Status.PASS
        assert "the weights are stored in fp32" in verdict.summary
        assert judge(0, optimizer, dtypes={"F32": 9, "BF16": 9}).status is Status.UNKNOWN
    assert judge(0, {"moments": {"BF16": 9}}, **fp32).status is Status.WARN


def test_an_optimizer_that_was_created_anew() -> None:
    history = History(steps=10_000, lr_sum=1, lr_squares=1, covered=10_000)
    verdict = judge(1, {"step_min": 3.0, "step_max": 3.0}, history=history)
    assert verdict.status is Status.WARN
    assert verdict.fix == checks.CREATED_ANEW_FIX
    assert judge(1, {"step_max": 9_990.0}, history=history).status is Status.PASS

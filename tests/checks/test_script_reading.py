"""What the reading of a script gets right: later imports, guards, layers, exported notebooks."""

from __future__ import annotations

import textwrap

import pytest
from script_code import LEFT_OUT

from doctor.checks.script.lint import lint
from doctor.checks.script.table import BY_CODE
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

LOOP = """
import torch
model = Net()
optimizer = torch.optim.Adam(model.parameters(){})
for x in loader:
    {}
    optimizer.zero_grad()
    model(x).backward()
    optimizer.step()
"""


def slugs(code: str) -> set[str]:
    """Slugs of what fires, absences left out."""
    script = read_python("train.py", textwrap.dedent(code).encode())
    hits = [hit for hit in lint(script, ScriptMachine()) if not hit.undecided]
    return (
        {BY_CODE[hit.code].slug for hit in hits if hit.code in BY_CODE}
        - LEFT_OUT
        - {rule.slug for rule in BY_CODE.values() if rule.once}
    )


@pytest.mark.parametrize(
    ("guard", "fires"),
    [
        ("if len(x) == 0: continue", True),
        ("if x is None: continue", True),
        ("if not debug: continue", False),
    ],
)
def test_a_guard_on_data_decides_nothing(guard: str, fires: bool) -> None:
    body = f"{guard}\n    torch.autograd.set_detect_anomaly(True)"
    assert ("anomaly-detection-left-on" in slugs(LOOP.format("", body))) is fires


def test_a_later_import_wins_and_a_fallback_does_not() -> None:
    scaler = LOOP.format("", "scaler = amp.GradScaler()")
    assert "deprecated-amp" in slugs("from apex import amp\nimport torch.cuda.amp as amp" + scaler)
    assert "deprecated-amp" not in slugs(
        "import torch.cuda.amp as amp\nfrom apex import amp" + scaler
    )
    fallback = "try:\n    from torch import amp\nexcept ImportError:\n    from apex import amp"
    assert "deprecated-amp" not in slugs(fallback + scaler)


@pytest.mark.parametrize(
    ("cast", "fires"),
    [
        ("self.embed.to(torch.bfloat16)", True),
        ("self.head = torch.nn.Linear(2, 2).bfloat16()", True),
        ("self.vae.to(torch.bfloat16)", False),
        ("self.embed.to(torch.bfloat16)\n        self.embed.weight.requires_grad = False", False),
    ],
)
def test_layers_that_a_module_casts(cast: str, fires: bool) -> None:
    code = f"""
import torch
class Net(torch.nn.Module):
    def __init__(self):
        self.embed = torch.nn.Embedding(2, 2)
        self.vae = AutoencoderKL.from_pretrained("x")
        {cast}
"""
    assert ("trainable-low-precision-cast" in slugs(code + LOOP.format("", "pass"))) is fires


def test_a_cast_in_the_other_arm_is_of_another_model() -> None:
    code = """
import torch
model = Net()
if args.fp16:
    model = model.half()
    optimizer = torch.optim.Adam(model.parameters(), eps=1e-4)
else:
    optimizer = torch.optim.Adam(model.parameters())
model(x).backward()
"""
    assert "epsilon-vanishes" not in slugs(code)


def test_parameters_that_are_cast_back() -> None:
    code = LOOP.format("", "pass").replace(
        "optimizer =",
        "model.to(torch.bfloat16)\nfor p in model.parameters():\n    p.data = p.data.float()\n"
        "optimizer =",
    )
    assert "trainable-low-precision-cast" not in slugs(code)
    assert "trainable-low-precision-cast" in slugs(code.replace("p.data.float()", "p.data.clone()"))


def test_a_scaler_steps_without_zero_grad() -> None:
    code = LOOP.format("", "pass").replace("    optimizer.zero_grad()\n", "")
    scaled = code.replace("model(x).b", "scaler.scale(model(x)).b").replace(
        "optimizer.step()", "scaler.step(optimizer)\n    scaler.update()"
    )
    assert "zero-grad-missing" in slugs(code)
    assert "zero-grad-missing" in slugs(scaled)


def test_an_exported_notebook_is_read_but_for_its_commands() -> None:
    script = read_python(
        "train.py", b"!pip install torch\nimport torch\ntorch.cuda.amp.GradScaler()\n"
    )
    assert [each.span.line for each in script.unreadable] == [1]
    assert [hit.span.line for hit in lint(script, ScriptMachine()) if hit.code == "SCR161"] == [3]


def test_a_printed_capability_decides_nothing() -> None:
    code = LOOP.format("", "pass") + "Trainer(args=TrainingArguments(bf16=True))\n"
    printed = "props = torch.cuda.get_device_properties(0)\nprint(props.major)\n"
    compared = "props = torch.cuda.get_device_properties(0)\nuse = props.major >= 8\n"
    assert "bf16-without-capability-check" in slugs(code + printed)
    assert "bf16-without-capability-check" not in slugs(code + compared)


def test_a_reference_without_a_training_is_no_use() -> None:
    compiler = "import torch\nKNOWN = [torch.cuda.amp.autocast]\n"
    assert "deprecated-amp" not in slugs(compiler)
    assert "deprecated-amp" in slugs(
        "import torch\n@torch.cuda.amp.custom_fwd\ndef f(x): return x\n"
    )


@pytest.mark.parametrize("result", ["(kind * count)(*items)", "scalar_of(**items)"])
def test_arguments_that_are_unpacked_into_themselves_end(result: str) -> None:
    code = LOOP.format("", "pass") + textwrap.dedent(f"""
        def scalar_of(items, count):
            if len(items) != count or items[:2] < "2":
                raise ValueError(items)
            return torch.tensor({result})
    """)
    hits = lint(read_python("train.py", code.encode()), ScriptMachine())
    assert not [hit.undecided for hit in hits if hit.undecided]


COMPILED = """
import torch
model = torch.compile(Net())
other = Other()
optimizer = torch.optim.AdamW(model.parameters())
def load(path):
    return torch.load(path)
torch.save(model.state_dict(), "model.pt")
model.load_state_dict(load("model.pt"))
{}
"""


@pytest.mark.parametrize(
    ("line", "fires"),
    [
        ('optimizer.load_state_dict(load("optimizer.pt"))', False),
        ('other.load_state_dict(load("other.pt"))', False),
        ('optimizer.load_state_dict(torch.load("model.pt"))', False),
        ('other.load_state_dict(torch.load("model.pt"))', True),
    ],
)
def test_a_helper_loads_no_one_file(line: str, fires: bool) -> None:
    assert ("checkpoint-prefix" in slugs(COMPILED.format(line))) == fires


def test_a_bare_pip_install_is_a_line_of_a_shell() -> None:
    script = read_python("a.py", b"pip install gradio\nimport torch\ntorch.manual_seed(0)\n")
    assert len(script.unreadable) == 1
    assert script.calls
    assert not read_python("a.py", b"pip install(x\nimport torch\ntorch.ones(1)\n").calls

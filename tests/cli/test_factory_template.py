"""doctor init --factory-for: the factory trains the script's own step, and nothing of it is run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from doctor._util.errors import UserError
from doctor.cli.factory_template import render, write
from doctor.probes.training_side.subject.flat_script import trains_on_import

MODEL = """
import os, torch
from torch import nn
os.system("touch was-run")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 3)
    def forward(self, x, y=None):
        out = self.a(x)
        return out if y is None else (out, nn.functional.cross_entropy(out, y))
"""
LOADER = """
from torch.utils.data import DataLoader, TensorDataset
data = DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(3, (32,))), batch_size=4)
net = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
"""
SCRIPTS = {
    "loader": MODEL + LOADER + """
for epoch in range(2):
    for number, (x, y) in enumerate(data):
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
""",
    "scaled": MODEL + LOADER + """
scaler = torch.amp.GradScaler("cpu", enabled=False)
for batch in data:
    x, y = batch
    with torch.autocast("cpu", torch.bfloat16):
        loss = net(x, y)[1] / 2
    scaler.scale(loss).backward()
    scaler.step(optimizer)
""",
    "drawn": MODEL + """
def get_batch():
    return torch.randn(size, 8), torch.randint(3, (size,))
size = 4
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    x, y = get_batch()
    out, loss = model(x, y)
    loss.backward()
    optimizer.step()
""",
    "function": MODEL + """
SIZE = 4
def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        x, y = torch.randn(SIZE, 8), torch.randint(3, (SIZE,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
if __name__ == "__main__":
    main()
""",
    "names": MODEL + LOADER.replace("criterion", "loss") + """
batch = 7
for x, y in data:
    value = loss(net(x), y) * batch
    value.backward()
    optimizer.step()
""",
}  # fmt: skip
CHECK = """
import sys, torch
from train_preflight import make
parts = make()
batch = [parts["batch"]] if "batch" in parts else []
parts["loss"](parts["model"], *batch).backward()
parts["optimizer"].step()
assert isinstance(parts["model"], torch.nn.Module)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_factory_trains_a_step(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPTS[name], "utf-8")
    target = write(tmp_path / "train.py")
    assert not (tmp_path / "was-run").exists()
    assert "for epoch" not in target.read_text("utf-8")
    subprocess.run([sys.executable, "-c", CHECK], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("trainer = Trainer(model=1, args=2)\ntrainer.train()\n", "return trainer"),
        (
            "t = L.Trainer()\nm = M()\nd = DataLoader(x)\nt.fit(m, d)\n",
            "return {'model': m, 'batch': d}",
        ),
        ("acc = Accelerator()\nfor b in d:\n    l = m(b)\n    accelerator.backward(l)\n", "l = m"),
        ("def make(:\n", ""),
        ("print('no training')\n", ""),
        ("loss.backward()\n", "loss"),
    ],
)
def test_forms_of_training(source: str, text: str) -> None:
    if not text:
        with pytest.raises(UserError, match="--factory-for"):
            render(source, "train.py", "out.py")
        return
    made = render(source, "train.py", "out.py")
    assert text in made
    compile(made, "out.py", "exec")


def test_what_the_script_does_not_define_is_named() -> None:
    made = render("for b in absent:\n    model(b).backward()\n", "train.py", "out.py")
    assert "Not found in train.py, set them here: absent, model" in made


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("model(x).backward()\n", "utf-8")
    (tmp_path / "train_preflight.py").symlink_to("elsewhere")
    with pytest.raises(UserError, match="not overwritten"):
        write(tmp_path / "train.py")
    with pytest.raises(UserError, match="--factory-for"):
        write(tmp_path / "absent.py")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("for x in y:\n    loss.backward()\n", 2),
        ("def main():\n    loss.backward()\nmain()\n", 3),
        ("def a():\n    b()\ndef b():\n    loss.backward()\na()\n", 5),
        ("trainer.train()\n", 1),
        ("run = Trainer()\nrun.fit(model)\n", 2),
        ("with open('a') as f:\n    (loss / 2).backward()\n", 2),
        ("if __name__ == '__main__':\n    loss.backward()\n", None),
        ("if __name__ == '__main__':\n    pass\nelse:\n    loss.backward()\n", 4),
        ("def main():\n    loss.backward()\n", None),
        ("class A:\n    def step(self):\n        self.loss.backward()\n", None),
        ("model.train()\nmodel.fit_transform(x)\nregressor.fit(x, y)\n", None),
        ("from torch.autograd import backward\n", None),
        ("step = lambda loss: loss.backward()\n", None),
        ("def broken(:\n", None),
        ("(" * 5000, None),
    ],
)
def test_a_script_that_trains_on_import_is_known_by_its_syntax(
    source: str, line: int | None
) -> None:
    place = trains_on_import(source)
    assert (place and place.line) == line

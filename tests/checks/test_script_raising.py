"""Names, calls and attributes that raise when they are reached, and sound code of the same look."""

from __future__ import annotations

import pytest

from doctor.checks.script.lint import Hit, lint
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

CODES = {"SCR262", "SCR438", "SCR439", "SCR440", "SCR441"}
OPTIONS = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x')\n"
FAULTY = {
    "a misspelled name on a rare path": ("SCR438", "def f(x):\n    if not x: Variabel(x)\n"),
    "an import is missing": ("SCR438", "def f(path):\n    return pickle.load(path)\n"),
    "an annotation is evaluated": ("SCR438", "def f(x: List[int]): pass\n"),
    "read above its assignment": ("SCR438", "def f(x):\n    x += step\n    step = 1\n"),
    "a builtin that a name hides": ("SCR438", "def f(x):\n    sum = sum(x)\n"),
    "__all__ names nothing": ("SCR438", "__all__ = ['Net', 'Nets']\nclass Net: pass\n"),
    "no such parameter": ("SCR439", "def f(a, b=1): pass\nf(1, c=2)\n"),
    "a parameter without a value": ("SCR439", "def f(a, b): pass\nf(1)\n"),
    "too many arguments": ("SCR439", "def f(a): pass\nf(1, 2)\n"),
    "three values for two names": ("SCR439", "def f(x):\n    return x, x, x\na, b = f(1)\n"),
    "a method without self": (
        "SCR439", "class A:\n    def f(self):\n        return self.g(1)\n    def g(): pass\n"
    ),
    "a constructor": ("SCR439", "class A:\n    def __init__(self, x): pass\nA()\n"),
    "a number that is taken for a batch": (
        "SCR440", "def f(batches):\n    for x, y in enumerate(batches):\n        x = x.cuda()\n"
    ),
    "an option that nobody adds": (
        "SCR440",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size')\n"
        "args = p.parse_args()\nprint(args.batchsize)\n",
    ),
    "an option in main(args)": (
        "SCR440",
        "import argparse\ndef main(args):\n    print(args.rate)\n"
        "if __name__ == '__main__':\n    p = argparse.ArgumentParser()\n"
        "    p.add_argument('--lr')\n    args = p.parse_args()\n    main(args)\n",
    ),
    "an attribute that nothing sets": (
        "SCR440",
        "class Net(torch.nn.Module):\n    def __init__(self):\n        self.a = 1\n"
        "    def forward(self, x): return self.b(x)\n",
    ),
    "an argument twice": ("SCR439", "def f(a, b=1): pass\nf(1, 2, b=3)\n"),
    "a method that no dictionary has": ("SCR440", "def f():\n    x = {}\n    x.upate({1: 2})\n"),
    "a field that a dataclass lacks": (
        "SCR440",
        "from dataclasses import dataclass\n@dataclass\nclass Args:\n    eval_steps: int = 1\n"
        "def main(args: Args):\n    print(args.eval_step)\n",
    ),
    "a dictionary of Python 2": ("SCR441", "state = {}\nfor k, v in state.iteritems(): pass\n"),
    "a branch without an assignment": (
        "SCR438",
        "def f(self, xs):\n    for x in xs:\n        if self.kind == 'a':\n            y = x\n"
        "        else:\n            z = x\n        print(y)\n",
    ),
    "the default assigns nothing": (
        "SCR438", "def f(x, scale=None):\n    if scale is not None:\n        y = x\n    return y\n"
    ),
    "an option that nobody gives": (
        "SCR438",
        OPTIONS + "p.add_argument('--warm-up', action='store_true')\n"
        "args = p.parse_args()\ndef f():\n    if args.warm_up:\n        rate = 1\n"
        "    return rate\n",
    ),
    "a parameter that a name of the module replaces": (
        "SCR262", "train_loader = []\ndef f(val_loader):\n    return [x for x in train_loader]\n"
    ),
    "the other of two options": (
        "SCR262",
        "import os\ndef f(o):\n    if o.val_dir is not None:\n"
        "        val_files = os.listdir(o.train_dir)\n        return val_files\n",
    ),
    "an iterator of Python 2": ("SCR441", "it = iter([1])\nx = it.next()\n"),
}  # fmt: skip
LINES = dict(
    zip(
        FAULTY,
        [3, 3, 2, 3, 3, 2, 3, 3, 3, 4, 4, 4, 4, 6, 4, 5, 3, 4, 7, 3, 8, 5, 10, 4, 5, 3],
        strict=True,
    )
)
"""Where each is reported, below an import."""
SOUND = {
    "a number that fetches a batch": (
        "def f(xs):\n    for x, y in enumerate(xs):\n        x = xs[x]\n        x.cuda()\n"
    ),
    "a name bound below in the module": "def f():\n    return LATER\nLATER = 1\n",
    "a name that becomes an array": "import numpy as np\nx = []\nx = np.array(x)\nx.shape\n",
    "a function of the name dict": "def dict(): return 1\nx = dict()\nx.weight\n",
    "a container that is asked": "x = []\nif hasattr(x, 'shape'): x.shape\n",
    "a field that is set later": (
        "from dataclasses import dataclass\n@dataclass\nclass Args:\n    steps: int = 1\n"
        "def main(args: Args):\n    args.step = 2\n    print(args.step, vars(args).items())\n"
    ),
    "a dataclass of another file's": (
        "from dataclasses import dataclass\nfrom x import Base\n@dataclass\n"
        "class Args(Base):\n    steps: int = 1\n"
        "def main(args: Args):\n    print(args.step)\n"
    ),
    "a loop leads back": "def f(xs):\n    for x in xs:\n        if x: print(y)\n        y = x\n",
    "a star import": "from layers import *\nx = Conv()\n",
    "a configurator": "exec(open('c.py').read())\nprint(rate)\n",
    "a fallback for Python 2": "try:\n    text = unicode\nexcept NameError:\n    text = str\n",
    "an annotation that waits": "from __future__ import annotations\ndef f(x: List[int]): pass\n",
    "a comprehension": "x = [a for b in [[1]] for a in b]\n",
    "a walrus": "if (n := len([])) > 0: print(n)\n",
    "global": "def f():\n    global state\n    state = 1\ndef g(): return state\n",
    "a class scope": "class A:\n    x = 1\n    y = x\n",
    "an except clause": "try:\n    pass\nexcept Exception as e:\n    print(e)\n",
    "__class__": "class A:\n    def f(self): return __class__\n",
    "unpacked arguments": "def f(a, b): pass\nf(*[1, 2])\nf(**{})\n",
    "a decorator that changes them": "import click\n@click.command()\ndef f(a): pass\nf()\n",
    "redefined": "def f(a): pass\ndef f(a, b): pass\nf(1, 2)\n",
    "one of two returns fits": "def f(x):\n    if x: return 1, 2\n    return 1,\na, b = f(1)\n",
    "a method that another class overrides": (
        "class A:\n    def f(self): self.g(1)\n    def g(self): pass\nclass B(A): pass\n"
    ),
    "a static method": (
        "class A:\n    def f(self): self.g(1)\n    @staticmethod\n    def g(x): pass\n"
    ),
    "expected to raise": "def f(a): pass\ntry:\n    f()\nexcept TypeError:\n    pass\n",
    "options of another file": (
        "import argparse, opts\np = argparse.ArgumentParser()\np.add_argument('--a')\n"
        "opts.add(p)\nargs = p.parse_args()\nprint(args.b)\n"
    ),
    "another file sets it": (
        "import argparse, utils\np = argparse.ArgumentParser()\np.add_argument('--a')\n"
        "args = p.parse_args()\nutils.init_distributed_mode(args)\nprint(args.gpu)\n"
    ),
    "set by the file": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--a')\n"
        "args = p.parse_args()\nargs.b = 1\nprint(args.b)\n"
    ),
    "a base of another file": (
        "from .module import Module\nclass A(Module):\n    def __init__(self): pass\n"
        "    def f(self): return self.save()\n"
    ),
    "a buffer by name": (
        "class A(torch.nn.Module):\n    def __init__(self):\n"
        "        self.register_buffer('mask', None)\n    def f(self): return self.mask\n"
    ),
    "six": "import six\nfor k, v in six.iteritems({}): pass\n",
    "a module of another name": "if __name__ == '__channelexec__':\n    serve(channel)\n",
    "a later version": "NEW = False\n_PY315_PLUS = NEW\nx = 1 if not _PY315_PLUS else later\n",
    "names in a dictionary": "vars()['rate'] = 1\nprint(rate)\n",
    "names of sys.modules": "import sys\nsetattr(sys.modules[__name__], 'a', 1)\nprint(a)\n",
    "builtins of another name": "import builtins as b\nb.rate = 1\nprint(rate)\n",
    "suppressed": "from contextlib import suppress\nwith suppress(NameError):\n    print(zzz)\n",
    "nonlocal": (
        "def f():\n    def g():\n        nonlocal a\n        a = 1\n    g()\n"
        "    print(a)\n    a = 2\n"
    ),
    "a base with a metaclass": (
        "class M(type):\n    def __call__(cls): return 1\nclass B(metaclass=M): pass\n"
        "class A(B):\n    def __init__(self, a): pass\nA()\n"
    ),
    "a base that makes the object": (
        "class B:\n    def __new__(cls): return 1\nclass A(B):\n"
        "    def __init__(self, a): pass\nA()\n"
    ),
    "a member of an enum": (
        "from enum import Enum\nclass A(Enum):\n    X = (1, 2)\n"
        "    def __init__(self, a, b): pass\nA((1, 2))\n"
    ),
    "__new__ of an object": (
        "class A:\n    def __new__(cls, a): return None\n"
        "    def f(self): return self.__new__(type(self), 1)\n"
    ),
    "a method that the file replaces": (
        "class A:\n    def f(self): pass\n    def g(self): return self.f(1)\n"
        "a = A()\na.f = lambda x: x\n"
    ),
    "attributes that another object sets": (
        "import u\nclass A:\n    def __init__(self): u.Connector(self)\n"
        "    def f(self): return self.profiler.x\n"
    ),
    "attributes set by setattr": (
        "class A:\n    def __init__(self): pass\n    def f(self): return self.b()\n"
        "a = A()\nfor name in 'bc': setattr(a, name, print)\n"
    ),
    "buffers with numbers": (
        "class A(torch.nn.Module):\n    def __init__(self):\n        for i in range(2):\n"
        "            self.register_buffer(f'b{i}', None)\n    def f(self): return self.b1\n"
    ),
    "self of a class inside": (
        "class A:\n    def __init__(self): pass\n    def f(self):\n        class B:\n"
        "            x = 1\n            def g(self): return self.x\n        return B\n"
    ),
    "hasattr": (
        "class A:\n    def __init__(self): pass\n    def f(self):\n"
        "        return self.b if hasattr(self, 'a') else 0\n"
    ),
    "options of a Namespace": OPTIONS
    + "space = argparse.Namespace()\na = p.parse_args(None, space)\nprint(a.y)\n",
    "an action that sets others": (
        "from u import Act\n" + OPTIONS + "p.add_argument('--z', action=Act)\n"
        "a = p.parse_args()\nprint(a.y)\n"
    ),
    "a parser that a function hands on": (
        "import u\ndef more(z): u.more(z)\n" + OPTIONS + "more(p)\na = p.parse_args()\nprint(a.y)\n"
    ),
    "a parser of another file": (
        "from u import MyParser\n" + OPTIONS + "q = MyParser()\na = q.parse_args()\nprint(a.y)\n"
    ),
    "options that are asked for": (
        OPTIONS + "a = p.parse_args()\nif 'y' in a: print(a.y)\nif getattr(a, 'z', 0): print(a.z)\n"
    ),
    "options under try": (
        OPTIONS + "a = p.parse_args()\ntry:\n    print(a.y)\nexcept AttributeError:\n    pass\n"
    ),
    "options that a module keeps": (
        "import u\n" + OPTIONS + "a = p.parse_args()\nu.options = a\nu.fill()\nprint(a.y)\n"
    ),
    "prefixes": (
        "import argparse\np = argparse.ArgumentParser(prefix_chars='+')\np.add_argument('++x')\n"
        "a = p.parse_args()\nprint(a.x)\n"
    ),
    "has_key of another class": "def f(state):\n    if state.has_key(): pass\n",
    "its own iteritems": (
        "class D:\n    def iteritems(self): return []\nfor k, v in D().iteritems(): pass\n"
    ),
    "both versions": (
        "import sys\nd = {}\nitems = d.iteritems() if sys.version_info[0] < 3 else d.items()\n"
    ),
    "an old pandas": "import pandas as pd\nfor k, v in pd.read_csv('x').iteritems(): pass\n",
    "declared for pyflakes": "x = bound_by_the_extension  # noqa: F821\n",
    "a class to mix in": (
        "class _SavingMixin:\n    def __init__(self): pass\n    def f(self): return self.b()\n"
    ),
    "an earlier round has assigned it": (
        "def f(xs):\n    for n, x in enumerate(xs):\n        if n == 0:\n            y = x\n"
        "        else:\n            z = x\n        print(y)\n"
    ),
    "the other branch ends, or the reader is in one": (
        "def f(kind, x=None):\n    if kind == 'a':\n        y = z = 1\n    elif kind == 'b':\n"
        "        y = 2\n    else:\n        z = len(kind)\n        raise ValueError(z)\n"
        "    if kind == 'a':\n        print(z)\n    print(y)\n"
    ),
    "an option that is on, or set below": (
        OPTIONS + "p.add_argument('--off', action='store_false')\n"
        "p.add_argument('--auto', default=False)\nargs = p.parse_args()\nargs.auto = True\n"
        "def f():\n    if args.off:\n        rate = 1\n    if args.auto:\n        size = 2\n"
        "    return rate, size\n"
    ),
    "an option that is checked elsewhere": (
        OPTIONS + "args = p.parse_args()\nif not args.x: raise SystemExit\n"
        "def f():\n    if args.x:\n        rate = 1\n    return rate\n"
    ),
    "what a module has from elsewhere": (
        "import sys\nif len(sys.argv) > 1:\n    input = print\nelse:\n    x = 1\ninput()\n"
    ),
    "the same is asked before": (
        "def f(x, scale=None):\n    if not scale and not x:\n        return x\n"
        "    if scale:\n        y = x\n    return y\n"
    ),
    "both parts are read": (
        "import os\ntrain_loader = []\ndef f(val_loader):\n    return val_loader, train_loader\n"
        "def g(o):\n    if o.val_dir is not None:\n        val_files = os.listdir(o.val_dir)\n"
        "        train_files = os.listdir(o.train_dir)\n        return val_files, train_files\n"
        "def k(o):\n    if o.val_dir is None:\n        val_files = os.listdir(o.train_dir)\n"
        "        return val_files\n"
        "train_step = 1\ndef h(val_step):\n    return lambda: val_step, train_step\n"
    ),
    "what tells which branch ran is asked between, or the branch may leave": (
        "import os\n"
        "def own_exit(path):\n"
        "    if os.path.exists(path):\n"
        "        data = torch.load(path)\n"
        "    else:\n"
        '        message = f"{path} is missing"\n'
        "        print(message)\n"
        "    return data\n"
        "def empty_loop(resume):\n"
        "    if resume:\n"
        "        items = [1, 2]\n"
        "        scale = 2.0\n"
        "    else:\n"
        "        items = []\n"
        "    total = 0\n"
        "    for item in items:\n"
        "        total += item * scale\n"
        "    return total\n"
        "def history(loader, model):\n"
        "    losses = []\n"
        "    for x in loader:\n"
        "        loss = model(x)\n"
        "        if not losses:\n"
        "            best = loss\n"
        "        else:\n"
        "            gain = losses[-1] - loss\n"
        "            print(gain)\n"
        "        losses.append(loss)\n"
        "        print(best)\n"
        "def counted(loader, stats):\n"
        "    count = torch.zeros(1)\n"
        "    for x in loader:\n"
        "        if count == 0:\n"
        "            mean = x\n"
        "        else:\n"
        "            delta = x - mean\n"
        "            mean += delta / 2\n"
        "        count.add_(1)\n"
        "    return mean\n"
    ),
    "a part is read on purpose": (
        "train_loader = load = Subset = same_file = print\n"
        "def overfit_eval(model, eval_loader=None):\n"
        "    model.eval()\n"
        "    return [model(x) for x, _ in train_loader]\n"
        "def make_same(args):\n"
        "    if same_file(args.val_file, args.train_file):\n"
        "        val_data = Subset(load(args.train_file), range(100))\n"
        "    else:\n"
        "        val_data = load(args.val_file)\n"
        "    return val_data\n"
        "def make_fraction(args):\n"
        "    if args.val_split:\n"
        "        val_data = load(args.train_split)[-100:]\n"
        "    else:\n"
        "        val_data = None\n"
        "    return val_data\n"
    ),
    "a node of a list": "def f(head):\n    node = head\n    return node.next()\n",
}


def hits(text: str) -> list[Hit]:
    script = read_python("train.py", ("import torch\n" + text).encode())
    if text.startswith("from __future__"):
        script = read_python("train.py", (text + "import torch\n").encode())
    assert not script.unreadable
    return [hit for hit in lint(script, ScriptMachine()) if hit.code in CODES]


def codes(text: str) -> set[str]:
    return {hit.code for hit in hits(text)}


@pytest.mark.parametrize("what", FAULTY)
def test_what_raises_is_reported(what: str) -> None:
    code, text = FAULTY[what]
    assert [(hit.code, hit.span.line) for hit in hits(text)] == [(code, LINES[what])]


@pytest.mark.parametrize("what", SOUND)
def test_what_does_not_raise_is_not(what: str) -> None:
    assert codes(SOUND[what]) == set()


def test_an_attribute_that_another_file_may_set_is_a_note() -> None:
    code = (
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
        "        self.cells = 1\n"
        "    def forward(self, x):\n        return {}\n"
    )
    for read, severity in {
        "self.drop_path_prob": "note",
        "self.mask(x)": "warn",
        "self.cels": "fail",
    }.items():
        script = read_python("train.py", code.format(read).encode())
        hits = [hit for hit in lint(script, ScriptMachine()) if hit.code == "SCR440"]
        assert [hit.severity for hit in hits] == [severity], read


def test_a_package_names_its_modules() -> None:
    code = b"import torch\n__all__ = ['layers']\n"
    for path, found in {"net/__init__.py": False, "net.py": True}.items():
        hits = lint(read_python(path, code), ScriptMachine())
        assert any(hit.code == "SCR438" for hit in hits) is found


def test_a_template_of_transformers_leaves_names_to_its_generator() -> None:
    code = b"import torch\nclass LayerA(LayerOfAnother): pass\n"
    for path, found in {"modular_net.py": False, "modeling_net.py": True}.items():
        hits = lint(read_python(path, code), ScriptMachine())
        assert any(hit.code == "SCR438" for hit in hits) is found


def test_a_test_raises_on_purpose() -> None:
    assert not codes("import pytest\ndef test_f():\n    missing()\n")


def test_the_message_names_what_is_there() -> None:
    script = read_python("train.py", b"import torch\ndef f(image): torch.cat(images)\n")
    messages = [hit.message for hit in lint(script, ScriptMachine()) if hit.code == "SCR438"]
    assert messages == ["images is not defined: NameError; image is"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"import torch\nf(a=1, a=2)\n", "syntax error: keyword argument repeated: a"),
        (b"import torch\nreturn 1\n", "syntax error: 'return' outside function"),
        (
            b"import torch\ndef f(a, a): pass\n",
            "syntax error: duplicate argument 'a' in function definition",
        ),
        (b"import torch\nwhile (yield): pass\n", "syntax error: 'yield' outside function"),
        (
            b"import torch\nnonlocal x\n",
            "syntax error: nonlocal declaration not allowed at module level",
        ),
        (
            b"import torch\nasync def f(): yield 1; return 2\n",
            "syntax error: 'return' with value in async generator",
        ),
        (
            b"import torch\na, *b, *c = x\n",
            "syntax error: multiple starred expressions in assignment",
        ),
        (
            b"import torch\ndef f(): return [(yield x) for x in y]\n",
            "syntax error: 'yield' inside list comprehension",
        ),
        (b"import torch\nif x: continue\n", "syntax error: 'continue' not properly in loop"),
    ],
)
def test_what_the_compiler_refuses_is_a_syntax_error(text: bytes, reason: str) -> None:
    (unreadable,) = read_python("train.py", text).unreadable
    assert unreadable.reason == reason
    assert unreadable.span.line == 2

"""Python's own errors: values that are absent, of another kind, or called in another way."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="attribute-missing",
        errors=("AttributeError",),
        messages=(r"'(?!AttributeDict'|NoneType'|DataParallel'|"
            r"DistributedDataParallel'|OptimizedModule')[\w.]{1,80}' object has no attribute "
            r"'\w+'",
            r"AttributeError: (?:type object '\w{1,80}'|\w{1,80}) has no attribute '?\w"),
        wordings=(
            Wording(r"AttributeError: module '[\w.]{1,80}' has no attribute '",
                "AttributeError: module 'segmenter' has no attribute 'summary'",
                "The module that was imported has no such name: it is of another release than the "
                "code, another copy than the one that was meant, or a file of the program that has "
                "the name of a package.",
                "Look at which file it is: print(MODULE.__file__). One below site-packages: "
                "upgrade it, or install the release that the code was written for; for a project "
                "that was cloned, uninstall the old copy and pip install -e . in the clone. One of "
                "your own, or None (a directory without __init__.py): rename it, or add the name "
                "to it.",
                ('python -c "import MODULE; print(MODULE.__file__)"',),
                owner=Owner.ENVIRONMENT),
            Wording("'list' object has no attribute '(?:keys|items|values)'",
                "AttributeError: 'list' object has no attribute 'keys'",
                "A list stands where the code expects a dict. In a tokenizer's from_pretrained "
                "(extra_special_tokens) tokenizer_config.json was written for transformers 5, and "
                "an older one reads it.",
                "Where the last frame is transformers' tokenization_utils_base: python -m pip "
                "install -U transformers, to 5 or newer. Else print the value: a JSON file that "
                "begins with [ in place of {, or a batch or a list of rows in place of one.",
                ("python -m pip show transformers",),
                sources=("mlx-lm-661",)),
            ),
        examples=("AttributeError: 'Net' object has no attribute 'fc2'",
            "AttributeError: type object 'Net' has no attribute 'build'"),
        told_by="__init__ of the class assigns no such name",
        why="The object has no such attribute: another spelling, another class than expected (a "
            "tuple or list of several objects in place of one), or a dict instead of an object.",
        fix="Compare the name with what __init__ assigns (the class in the message is what the "
            "object is), and read a dict with value['name']. Where the class is not yours, the "
            "program and that library, or two parts of a repository, are of different releases: "
            "update them together. "
            "A @property whose own code raises AttributeError is reported as "
            "missing, too: type(x).NAME.fget(x) shows its error.",
        sources=("python-exceptions",)),
    Cause(id="name-undefined",
        errors=("NameError", "UnboundLocalError"),
        messages=(r"name '\w+' is not defined",),
        examples=("NameError: name 'hiden' is not defined",),
        wordings=(
            Wording("cannot access (?:local|free) variable|referenced before assignment",
                "UnboundLocalError: local variable 'loss' referenced before assignment",
                "The variable is assigned in a branch or a loop that did not run, or further "
                "below in the same function.",
                "Assign the variable on every path to that line: it is assigned in a branch or "
                "a loop that did not run, or further below in the same function.",
                more=("NameError: cannot access free variable 'scale' where it is not "
                    "associated with a value in enclosing scope",)),),
        why="The name is not defined there: a missing import or a misspelled name.",
        fix="Define or import it before that line; Python names a similar one where there is "
            "one.",
        sources=("python-exceptions",)),
    Cause(id="not-callable",
        errors=("TypeError",),
        messages=(r"'(?!NoneType|torch\.Size)[\w.]+' object is not callable",
            r"'torch\.Size' object is not callable"),
        examples=("TypeError: 'bool' object is not callable",
            "TypeError: 'torch.Size' object is not callable"),
        why="The name is a value there: it was assigned over a function or module of the same "
            "name, or parentheses are too many.",
        fix="Give the value another name than the function or layer; write x.shape and "
            "model.training without parentheses, x[0] for an index.",
        sources=("python-exceptions",)),
    Cause(id="call-arguments",
        errors=("TypeError",),
        messages=("got an unexpected keyword argument '",
            r"missing \d+ required (?:positional|keyword-only) arguments?",
            r"takes \d+ positional arguments? but \d+ (?:was|were) given",
            "got multiple values for (?:keyword )?argument '"),
        examples=("TypeError: Linear.__init__() got multiple values for argument 'bias'",
            "TypeError: make() takes 0 positional arguments but 1 was given",
            "TypeError: forward() got an unexpected keyword argument 'labels'",
            "TypeError: Linear.__init__() missing 1 required positional argument: 'out_features'"),
        why="The function takes other arguments: another name, a missing one, or one too many.",
        fix="Compare the call with the signature, help(function). Where the function is a "
            "library's, its installed release is older or newer than the code: install the one "
            "that the requirements of the code name, or remove the argument.",
        wordings=(
            Wording(r"Error (?:instantiating|in call to target) '[^'\n]{1,200}' ?:\s{0,3}"
                r"[^\n]{0,200}(?:missing \d|unexpected keyword|multiple values for)",
                "TypeError: Error instantiating 'lib.data.Reader' : __init__() missing 2 required "
                "positional arguments: 'opt' and 'meta'",
                "hydra makes the object from the configuration, whose keys are other than the "
                "arguments of the class that _target_ names.",
                "Compare the keys beside _target_ with __init__ of that class: add what is "
                "missing, to the file or with +group.key=value, and remove what it does not take. "
                "Arguments that the code passes to instantiate() count as well; with another "
                "release of hydra (before 1.1) nested ones are not made first."),),
        sources=("python-exceptions",)),
    Cause(id="python-too-old",
        errors=("TypeError",), refines=("value-is-none", "module-without-return"),
        messages=(r"unsupported operand type\(s\) for \|: '(?:type|_GenericAlias|ABCMeta)' and",
            "'(?:type|ABCMeta)' object is not subscriptable"),
        examples=("TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'",
            "TypeError: 'type' object is not subscriptable"),
        wordings=(
            Wording("UnsupportedPython",
                "UnsupportedPython: Python 3.6",
                "The interpreter is older than torch supports.",
                "Name the interpreter that trains with --python: torch 2 requires "
                    "Python 3.8 or newer."),
        ),
        why="The code has annotations of a newer Python: int | None needs 3.10, list[int] 3.9.",
        fix="Run it with Python 3.10 or newer in a new environment, or install the release of "
            "the package in the frame above that supports this Python. In code of your own: "
            "from __future__ import annotations as the first line.",
        commands=("python --version",), owner=Owner.ENVIRONMENT),
    Cause(id="metric-gets-other-values",
        errors=("ValueError",),
        messages=(r"Target is multi\w{4,10} but average='binary'",
            "Found input variables with inconsistent numbers of samples",
            "Classification metrics can't handle a mix of",
            r"Input (?:\w{1,10} )?contains NaN",
            "Only one class (?:is )?present in y_true"),
        examples=("ValueError: Target is multiclass but average='binary'. Please choose another "
            "average setting, one of [None, 'micro', 'macro', 'weighted'].",
            "ValueError: Found input variables with inconsistent numbers of samples: [100, 98]",
            "ValueError: Classification metrics can't handle a mix of multiclass and "
            "continuous-multioutput targets",
            "ValueError: Input contains NaN.",
            "ValueError: Only one class present in y_true. ROC AUC score is not defined."),
        why="A metric of scikit-learn gets logits, NaN or lists of other lengths in place of "
            "class numbers.",
        fix="Give it class numbers: logits.argmax(axis=-1) (predictions[0] where a model "
            "returns a tuple), average='macro' for more than two classes, positions with label "
            "-100 removed from both lists, and equally many of both. A set with one class has "
            "no AUC: shuffle or stratify the split. NaN predictions: the training diverged "
            "before; read its loss.",
        sources=("python-exceptions",)),
)  # fmt: skip

"""What a script trains: optimizers, Trainers, and the objects that reach them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import (
    OF_THE_MODEL,
    Lineage,
    lineage_of,
    lineage_of_value,
    parameter_owners,
)
from doctor.checks.script.reading import Reading, exclusive
from doctor.facts.script import Assignment, Call, Loop, Script, Value
from doctor.facts.script_machine import ScriptMachine

OPTIMIZERS = {
    "AdamW", "Adam", "SGD", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "LBFGS",
    "SparseAdam", "ASGD", "Adafactor", "Lion", "LAMB", "Lamb", "AdamW8bit", "Muon", "Adam8bit",
    "PagedAdamW8bit", "PagedAdamW", "PagedAdamW32bit", "Lion8bit", "AdaBelief", "FusedAdam",
    "DeepSpeedCPUAdam", "Prodigy", "Ranger", "LARS", "BertAdam", "AdamP", "AdamWScheduleFree",
    "Sophia", "SophiaG",
}  # fmt: skip
WORDS = (r"backward\s*\(", r"Trainer\b", "train_dataset", r"\.fit\s*\(", r"\boptim\b",
         "[Oo]ptimizer")  # fmt: skip
"""One of them occurs in every file that trains. The names of optimizers are not among them: looking
for 35 names costs a tenth of a lint, and a file with such a name and no "optim" calls backward."""
LIBRARIES = (
    "torch", "torchvision", "torchaudio", "torch_geometric", "lightning", "pytorch_lightning",
    "transformers", "diffusers", "trl", "peft", "accelerate", "timm", "sklearn", "datasets",
    "gymnasium", "gym", "stable_baselines3", "sb3_contrib", "ultralytics", "fastai",
    "sentence_transformers", "monai", "mmengine", "ignite", "unsloth", "deepspeed",
)  # fmt: skip
LEARNS = tuple(rf"(?:import|from)\s[\w., ]*\b{name}\b" for name in LIBRARIES)
"""One of them occurs in every file that holds a part of a training."""
TESTS = ("pytest", "unittest")
MOST_CALLS = 4
"""Calls within calls through which what trains is followed. Our own number."""
EVALUATION = ("eval", "valid", "test", "infer", "predict", "generate", "sample", "export", "merge")
NO_GRAD = ("no_grad", "inference_mode")
MODEL_CLASS = re.compile(r"^[A-Z]\w*(?:LMHeadModel|For(?:CausalLM|MaskedLM|TokenClassification))$")
"""Classes of transformers that also a configuration makes a model of."""


@dataclass(frozen=True, slots=True)
class Trained:
    """An object that an optimizer or a Trainer receives."""

    sink: int
    name: str
    lineage: Lineage
    trainer: bool


class Training(Reading):
    """A reading that knows what trains, and on which machine."""

    def __init__(self, script: Script, machine: ScriptMachine) -> None:
        super().__init__(script)
        self.machine = machine

    @cached_property
    def trains(self) -> bool:
        """The file has a backward, a Trainer or an optimizer over parameters, and tests nothing."""
        if self.is_test:
            return False
        return bool(self.backwards or self.trainers or self.optimizers or self.fits)

    @cached_property
    def is_part(self) -> bool:
        """The file may hold a part of a training, such as its model: no test, which does on
        purpose what a training should not."""
        return self.imports_from(*LIBRARIES) and not self.imports_from(*TESTS)

    @cached_property
    def is_test(self) -> bool:
        """A file of pytest or unittest, whose trainings are to be as short and odd as they are."""
        name = self.script.path.replace("\\", "/").rpartition("/")[2]
        named = name.startswith(("test_", "conftest.")) or name.endswith("_test.py")
        return named and self.imports_from(*TESTS)

    @cached_property
    def backwards(self) -> list[int]:
        """Calls of .backward(...) outside of functions for evaluation."""
        return [
            number
            for number in self.methods("backward", "manual_backward")
            if self.calls[number].name != "backward" and not self.is_autograd(self.calls[number])
        ]

    @cached_property
    def backward_numbers(self) -> frozenset[int]:
        return frozenset(self.backwards)

    def loss_name(self, backward: Call) -> str:
        """The loss of loss.backward(), scaler.scale(loss).backward() or fabric.backward(loss), the
        output of output.backward(gradient)."""
        values = backward.args
        if values and backward.receiver and "grad" in values[0].name.casefold():
            return backward.receiver
        if not backward.receiver and backward.receiver_call >= 0:
            scaled = self.calls[backward.receiver_call]
            values = scaled.args if scaled.method == "scale" else ()
        elif not values:
            return backward.receiver
        return values[0].name if values and values[0].kind == "name" else ""

    def is_autograd(self, call: Call) -> bool:
        """Inside a torch.autograd.Function, whose backward is something else."""
        owner = self.function(call.scope).owner
        return any(
            each.name == owner and any(base.endswith("autograd.Function") for base in each.bases)
            for each in self.script.classes
        )

    @cached_property
    def trainer_classes(self) -> set[str]:
        """Classes of this file that derive from a Trainer."""
        names: set[str] = set()
        for each in self.script.classes:
            if any(b.rpartition(".")[2].endswith("Trainer") or b in names for b in each.bases):
                names.add(each.name)
        return names

    @cached_property
    def trainers(self) -> list[int]:
        """Calls that make a Trainer, of transformers, TRL or the file's own."""
        made = self.calls_where(lambda name: name[:1].isupper())
        return [number for number in made if self._is_trainer(self.calls[number])]

    def _is_trainer(self, call: Call) -> bool:
        if not call.method[:1].isupper() or call.statement:
            return False
        named = call.method.endswith("Trainer") or call.name in self.trainer_classes
        return named or {"model", "args", "train_dataset"} <= call.keywords.keys()

    @cached_property
    def fits(self) -> list[int]:
        """trainer.fit(...) of Lightning."""
        return [n for n in self.methods("fit") if "trainer" in self.calls[n].receiver.casefold()]

    def is_transformers_trainer(self, call: Call) -> bool:
        """A Trainer of transformers or a subclass of it in this file, not one of TRL."""
        name = call.name
        if name.startswith(("transformers.", "optimum.")):
            return True
        bases = [b for each in self.script.classes if each.name == name for b in each.bases]
        return any(base.startswith("transformers.") for base in bases)

    def is_trl(self, call: Call) -> bool:
        bases = [b for each in self.script.classes if each.name == call.name for b in each.bases]
        return any(name.startswith(("trl.", "unsloth.")) for name in (call.name, *bases))

    @cached_property
    def optimizers(self) -> list[int]:
        """Calls that make an optimizer over some object's parameters."""
        made = self.calls_where(lambda name: name[:1].isupper() or name.endswith("_optimizer"))
        return [
            number
            for number in made
            if self._is_optimizer(call := self.calls[number])
            and (call.args or call.keywords or call.unpacked)
        ]

    def _is_optimizer(self, call: Call) -> bool:
        name = call.name
        if "lr_scheduler" in name or "swa_utils" in name:
            return False
        if name.startswith(("torch.optim.", "bitsandbytes.optim.")):
            return call.method[:1].isupper()
        return call.method in OPTIMIZERS or call.method in ("create_optimizer", "build_optimizer")

    @cached_property
    def trained(self) -> list[Trained]:
        """What reaches an optimizer or a Trainer, with how it came to be."""
        return [*self._by_optimizer(), *self._by_trainer()]

    @cached_property
    def trained_names(self) -> frozenset[tuple[object, str]]:
        """All names of what trains, also as arguments of the file's functions."""
        names = {key for each in self.trained for key in each.lineage.names}
        names |= self.partly_trained
        for _ in range(MOST_CALLS):
            passed = {*self._passed_names(names), *self._kept_names(names)} - names
            if not passed:
                break
            names |= passed
        return frozenset(names)

    def _kept_names(self, names: set[tuple[object, str]]) -> Iterator[tuple[object, str]]:
        """self.model of self.model = model, where model is a parameter of the method."""
        for each, given in self._from_init:
            if given in names:
                yield each

    @cached_property
    def _from_init(self) -> list[tuple[tuple[object, str], tuple[object, str]]]:
        """Attributes that hold a parameter of __init__ and nothing else, with the parameter."""
        return [
            (key, self.key(held[0].value.name, held[0].scope))
            for key, held in self.assigned.items()
            if isinstance(key[0], str)
            and len(held) == 1
            and held[0].value.kind == "name"
            and not held[0].arms
            and self.function(held[0].scope).name == "__init__"
            and evaluate.is_parameter(self, held[0].scope, held[0].value.name)
        ]

    @cached_property
    def partly_trained(self) -> frozenset[tuple[object, str]]:
        """Models of which an optimizer holds parts by their names."""
        return frozenset(self.key(whole, scope) for whole, scope in self._wholes())

    def _wholes(self) -> Iterator[tuple[str, int]]:
        """The model of which an optimizer holds model.head and model.body."""
        for each in self.trained:
            whole, _, _ = each.name.removeprefix("self.").rpartition(".")
            own = "self." if each.name.startswith("self.") else ""
            if whole and not each.trainer:
                yield own + whole, self.calls[each.sink].scope

    @cached_property
    def _handed(self) -> dict[tuple[object, str], set[tuple[object, str]]]:
        """The parameters of this file's functions that receive what a name holds."""
        table: dict[tuple[object, str], set[tuple[object, str]]] = {}
        for function, sites in self.call_sites.items():
            for parameter in self.function(function).parameters:
                for site in sites[:8]:
                    call = self.calls[site]
                    value = evaluate.argument_of(self, call, function, parameter.name)
                    if value is not None and value.kind == "name":
                        key = self.key(value.name, call.scope)
                        table.setdefault(key, set()).add((function, parameter.name))
        return table

    def names_of(self, name: str, scope: int) -> set[tuple[object, str]]:
        """A name, and the parameters that receive what it holds."""
        found = {self.key(name, scope)}
        waiting = list(found)
        while waiting:
            for key in self._handed.get(waiting.pop(), set()) - found:
                found.add(key)
                waiting.append(key)
        return found

    def loops_of(self, made: Call) -> list[int]:
        """Loops over what a call made, by its names, also as an argument of a function."""
        keys = {key for name in made.targets for key in self.names_of(name, made.scope)}
        loops = enumerate(self.loops if keys else ())
        return [
            number
            for number, loop in loops
            if (value := loop.iterable) is not None
            and any(self.key(n, loop.scope) in keys for n in value.all_names if n)
        ]

    def trains_on(self, made: Call) -> bool:
        """A loop over it calls backward()."""
        loops = self.loops_of(made)
        return any(not self.backward_numbers.isdisjoint(self.by_loop.get(n, ())) for n in loops)

    @cached_property
    def stepped_names(self) -> frozenset[tuple[object, str]]:
        """Names of what an optimizer or a Trainer holds, without those of its copies."""
        return frozenset(self.trained_names - self._copies)

    @cached_property
    def _copies(self) -> set[tuple[object, str]]:
        """Targets of load_state_dict(other.state_dict()): a network that follows another."""
        return {
            self.key(call.receiver, call.scope)
            for call in self.named("load_state_dict")
            if call.receiver
            and call.args
            and any(other.method == "state_dict" for other in self.inside(call.args[0]))
        }

    def _passed_names(self, names: set[tuple[object, str]]) -> Iterator[tuple[object, str]]:
        for key in names:
            yield from self._handed.get(key, ())

    def _by_optimizer(self) -> Iterator[Trained]:
        for number, call in self.numbered(self.optimizers):
            for name in dict.fromkeys(parameter_owners(self, call, number)):
                lineage = lineage_of(self, name, call.scope, number)
                yield Trained(number, name, lineage, False)
        for number, call in self.numbered(self.methods("configure_optimizers")):
            if call.receiver and call.receiver != "self":
                lineage = lineage_of(self, call.receiver, call.scope, number)
                yield Trained(number, call.receiver, lineage, False)

    def _by_trainer(self) -> Iterator[Trained]:
        sinks = [
            *((n, 0) for n in self.trainers if not self.calls[n].method.endswith("PPOTrainer")),
            *((n, 0) for n in self.fits),
            *((n, 1) for n in self.methods("initialize") if "deepspeed" in self.calls[n].name),
        ]
        for number, position in sinks:
            value = evaluate.argument(self, self.calls[number], "model", position)
            if value is not None:
                yield self._passed_object(number, value, trainer=True)

    def _passed_object(self, number: int, value: Value, *, trainer: bool) -> Trained:
        lineage = lineage_of_value(self, value, self.calls[number].scope, number)
        return Trained(number, value.name, lineage, trainer)

    def on_object(self, lineage: Lineage, *methods: str) -> list[int]:
        """Calls of these methods on the object, under any of its names."""
        return [
            number
            for number in self.methods(*methods)
            if (name := self.root(self.calls[number]))
            and self.key(name, self.calls[number].scope) in lineage.names
        ]

    def root(self, call: Call) -> str:
        """The name that a chain of methods starts at: model in model.to(device).half()."""
        while not call.receiver and call.receiver_call >= 0:
            call = self.calls[call.receiver_call]
            if call.method not in OF_THE_MODEL:
                return ""
        return call.receiver

    def passed(self, lineage: Lineage, *functions: str) -> list[int]:
        """Calls of these functions that receive the object as first argument or as model."""
        return [
            number
            for number in self.methods(*functions)
            if self._receives(self.calls[number], lineage)
        ]

    def _receives(self, call: Call, lineage: Lineage) -> bool:
        values = [*call.args[:2], *(call.keywords[k] for k in ("model",) if k in call.keywords)]
        return any(
            value.kind == "name" and self.key(value.name, call.scope) in lineage.names
            for value in values
        )

    @cached_property
    def freezes(self) -> bool:
        """Some loop freezes all parameters of some model."""
        return any(self._freezes(each) for each in self.assignments)

    def _freezes(self, each: Assignment) -> bool:
        """param.requires_grad = False for all parameters, in code that something calls."""
        if not each.target.endswith(".requires_grad") or each.value.literal is not False:
            return False
        if each.loops and self._is_of_copy(self.loops[each.loops[-1]]):
            return False
        function = self.function(each.scope)
        called = not each.scope or function.owner or self.call_sites.get(each.scope)
        trains = any(self.calls[n].scope == each.scope for n in self.optimizers)
        inner = [branch for branch, _ in each.arms if self.branches[branch].kind == "if"]
        return (bool(called) or trains) and not (inner and each.loops)

    def _is_of_copy(self, loop: Loop) -> bool:
        """The loop is over the parameters of a deepcopy(), which may stay as it is."""
        owners = [self.calls[n] for n in (loop.iterable.calls if loop.iterable else ())]
        return any(
            call.method == "deepcopy"
            for owner in owners
            for each in self.assigned_to(owner.receiver, owner.scope)
            for call in self.inside(each.value)
        )

    def quantized(self, call: Call) -> bool:
        return any(
            evaluate.argument(self, call, key) is not None
            for key in ("quantization_config", "load_in_8bit", "load_in_4bit", "bnb_config")
        ) or any("4bit" in key or "8bit" in key for key in call.keywords)

    @cached_property
    def has_master_weights(self) -> bool:
        """Something that keeps fp32 copies of the weights is at hand."""
        return self.mentions(
            "deepspeed",
            "fp16_optimizer",
            "master_",
            "apex",
            "mixedprecisiontrainer",
            "kahan",
            "stochastic_round",
            "fairscale",
            "megatron",
            "bf16_optimizer",
            "fp32_param",
            "anyprecision",
            "colossalai",
            "bf16optimizer",
            "fp32param",
        )

    @cached_property
    def loads(self) -> list[int]:
        """Calls of from_pretrained and from_config that load models."""
        return [
            n
            for n in self.methods("from_pretrained", "from_config", "from_single_file")
            if not any(
                word in self.calls[n].name.casefold()
                for word in ("tokenizer", "processor", "config.", "extractor", "scheduler")
            )
        ]

    @cached_property
    def model_names(self) -> list[str]:
        """What loads a model, and GPT2LMHeadModel(config) of transformers, by name."""
        made = self.calls_where(lambda name: MODEL_CLASS.search(name) is not None)
        own = [n for n in made if self.calls[n].name.startswith("transformers.")]
        return [self.calls[n].name for n in sorted({*self.loads, *own})]

    @cached_property
    def training_ends(self) -> dict[int, int]:
        """The last training call of each function: what is loaded later is not for training."""
        ends: dict[int, int] = {}
        for number, call in self.numbered((*self.backwards, *self.methods("train", "fit"))):
            if call.method not in ("train", "fit") or "train" in call.receiver.casefold():
                ends[call.scope] = max(ends.get(call.scope, 0), number)
        return ends

    def is_named_evaluation(self, call: Call) -> bool:
        """In a function that is for evaluation by its name."""
        name = self.function(call.scope).name.casefold()
        return any(word in name for word in EVALUATION) and "train" not in name

    def is_evaluation(self, call: Call) -> bool:
        """In a function for evaluation only, or under no_grad."""
        if self.is_named_evaluation(call):
            return True
        decorators = self.function(call.scope).decorators
        values: Iterable[Value] = (*self.contexts(call), *decorators)
        return any(self.is_inference(value) for value in values)

    def is_inference(self, value: Value) -> bool:
        names = [value.name] if value.name else []
        if value.kind == "call":
            names.append(self.calls[value.call].name)
        return any(name.rpartition(".")[2] in NO_GRAD for name in names)

    def under_no_grad(self, contexts: tuple[int, ...]) -> bool:
        """The innermost context that decides it is no_grad or inference_mode, called."""
        for number in reversed(contexts):
            call = self.call_of(self.script.contexts[number].value)
            if call is not None and call.method in NO_GRAD:
                return True
            if call is not None and call.method in ("enable_grad", "set_grad_enabled"):
                return False
        return False

    def is_without_graph(self, call: Call) -> bool:
        """Under no_grad, also by a decorator of the function."""
        made = self.calls_of(self.function(call.scope).decorators)
        return self.under_no_grad(call.contexts) or any(each.method in NO_GRAD for each in made)

    @cached_property
    def arguments(self) -> list[int]:
        """Calls that make TrainingArguments of transformers or a configuration of TRL."""
        return [
            number
            for number in self.calls_where(lambda name: name.endswith(("Arguments", "Config")))
            if (call := self.calls[number]).method.endswith("TrainingArguments")
            or (
                call.name.startswith("trl.")
                and call.method.endswith("Config")
                and call.method not in ("ModelConfig", "ScriptConfig")
            )
            or call.method
            in ("SFTConfig", "DPOConfig", "GRPOConfig", "ORPOConfig", "KTOConfig", "RewardConfig")
        ]

    @cached_property
    def parses_arguments(self) -> bool:
        """TrainingArguments come from the command line."""
        return bool(self.methods("HfArgumentParser", "TrlParser", "parse_args_into_dataclasses"))

    def setting(self, name: str) -> tuple[bool | None, int | None]:
        """A switch of TrainingArguments: True, False or None (undecided), and the call.

        Without a call and without a parser: (False, None).
        """
        undecided = False
        for number, call in self.numbered(self.arguments):
            value = evaluate.argument(self, call, name)
            if value is None:
                undecided |= evaluate.unpacks_unknown(self, call)
                continue
            truth = evaluate.truth(self, value, call)
            if truth:
                return True, number
            undecided |= truth is None
        if self.parses_arguments:
            if (flag := evaluate.launched(self, name)) is not None:
                return bool(flag.literal), None
            undecided = True
        return (None if undecided else False), None

    def compatible(self, one: int, other: int) -> bool:
        """Whether both calls may run in one execution."""
        return not exclusive(self.calls[one].arms, self.calls[other].arms)

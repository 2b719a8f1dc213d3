"""Datasets, loaders and their workers."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="dataset-empty",
        errors=("ValueError", "FileNotFoundError"),
        messages=(r"num_samples should be a positive integer value, but got num_samples=0|"
            r"__len__\(\) should return >= 0|Found array with 0 (?:sample|feature)",
            "Found no valid file for the classes",
            r"No samples found in dataset|[Cc]annot find valid samples|[Nn]o valid (?:training "
            r")?(?:samples|examples)\b",
            r"\bassert (?:num_samples|n_samples|len\((?:\w{1,20}\.){0,2}(?:\w{0,20}_)?(?:dataset|"
            r"samples|images|imgs)\)) ?(?:> ?0|>= ?1|!= ?0)\b[^\n]{0,200}\n[^\n]{0,30}"
            r"AssertionError|stopped: No training batches|Total length of `?\w{4,20}`? across "
            r"ranks is zero|No labels found in \S{1,300}\.cache"),
        examples=("FileNotFoundError: Found no valid file for the classes cats. Supported "
            "extensions are: .jpg",
            "ValueError: num_samples should be a positive integer value, but got num_samples=0",
            "RuntimeError: Cannot find valid samples, check `data/README.md` for the data "
            "format.",
            '    assert num_samples > 0, "dataset contains images"\nAssertionError: dataset',
            "`Trainer.fit` stopped: No training batches."),
        why="The dataset has no samples, or none that the program can use.",
        fix="Check the path and the filter of the dataset: it has no samples. If it has: its "
            "columns are not those of the declared format (messages, instruction and output, "
            "prompt and chosen), or every sample exceeds the length limit. WebDataset: there "
            "are fewer shards than workers x ranks (num_workers below the shards of a rank, or "
            "resampled=True).",
        sources=("torch-sampler",)),
    Cause(id="batch-of-objects",
        errors=("TypeError",),
        messages=("default_collate: batch must contain",),
        examples=("TypeError: default_collate: batch must contain tensors, numpy arrays, "
            "numbers, dicts or lists; found <class",),
        why="default_collate joins tensors, arrays, numbers, texts, dicts and lists; a sample "
            "holds something else.",
        fix="Return tensors, numpy arrays or numbers from __getitem__, or pass a collate_fn "
            "that converts the samples: images need a transform such as ToTensor, and None must "
            "be left out.",
        sources=("torch-collate",)),
    Cause(id="loader-options",
        errors=("ValueError", "AssertionError", "TypeError", "StopIteration"),
        messages=("mutually exclusive with shuffle",
            "batch_sampler option is mutually exclusive",
            "prefetch_factor option could only be specified",
            "expected unspecified (?:shuffle|sampler|batch_sampler) option"),
        examples=("ValueError: batch_sampler option is mutually exclusive with batch_size, "
            "shuffle, sampler, and drop_last",
            "ValueError: sampler option is mutually exclusive with shuffle",
            "ValueError: prefetch_factor option could only be specified in multiprocessing.let "
            "num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to",
            "ValueError: DataLoader with IterableDataset: expected unspecified shuffle option, "
            "but got shuffle=True"),
        wordings=(
            Wording("Size mismatch between tensors",
                "AssertionError: Size mismatch between tensors",
                "The tensors of a TensorDataset have different first sizes.",
                "Give all tensors of the TensorDataset the same first size, one entry for each "
                "sample."),
            Wording("Sum of input lengths does not equal",
                "ValueError: Sum of input lengths does not equal the length of the input "
                "dataset!",
                "The lengths of random_split do not add up.",
                "Let the lengths add up to len(dataset), [n, len(dataset) - n], or pass "
                "fractions, [0.8, 0.2]."),
            Wording(r"object of type '(?!int'|float'|bool')\w{1,60}' has no len\(\)",
                "TypeError: object of type 'Words' has no len()",
                "A DataLoader needs the number of samples to shuffle them or to cut them into "
                "batches.",
                "Define __len__ in the dataset, the number of samples; a stream without a "
                "length is an IterableDataset."),
            Wording(r"StopIteration\b(?!Error)",
                "StopIteration",
                "next() was called on a loader or a file that had no more batches, or an "
                "iterator was made of an empty one.",
                "Make a new iterator at the end of an epoch (for batch in loader, or "
                "itertools.cycle without caching), give both loaders the same number of "
                "batches, and check that the set is not smaller than a batch (drop_last).")),
        why="Options of a DataLoader exclude each other: a sampler or an IterableDataset "
            "chooses the order itself, and only workers prefetch.",
        fix="Omit shuffle=True beside a sampler or an IterableDataset, which shuffles its "
            "samples itself; batch_sampler takes the place of batch_size, shuffle, sampler and "
            "drop_last. Omit prefetch_factor, or set num_workers to 1 or more.",
        sources=("torch-dataloader", "python-exceptions")),
    Cause(id="index-of-list",
        errors=("IndexError", "ValueError"),
        messages=("(?:list|string|pop|assignment) index out of range",
            "pop from empty list"),
        examples=("IndexError: pop from empty list",
            "IndexError: list index out of range"),
        wordings=(
            Wording("tuple index out of range",
                "IndexError: tuple index out of range",
                "A tuple has fewer entries than the index says. Often it is the shape of a tensor "
                "or array: x.shape[2] where x has two dimensions.",
                "Print the tuple, or x.shape, before the line. A single sample without its batch, "
                "one channel without its dimension, or an array of rows of different lengths has a "
                "dimension less: add it with unsqueeze or x[None]. Else the tuple has fewer values "
                "than the line takes, such as the result of a function."),
            Wording(r"index \d{1,9} is out of bounds for axis \d|"
                r"(?:names|classes|labels|categories)\w{0,9}\[[^\n]{1,100}\n(?:[^\n]{0,200}\n)?"
                r"[^\n]{0,30}IndexError: list index out of range",
                "IndexError: index 4 is out of bounds for axis 1 with size 3",
                "An index is at or beyond the end of that axis, or of a list of names: often the "
                "number of a class (one-hot labels, names for a report), else the position of a "
                "sample.",
                "Print the index and the shape before the line. For a class print the largest "
                "label of all sets: the number of classes and the list of names (with the "
                "background, where it is one) have to reach it. Number the classes from 0 without "
                "gaps, or set the number to the largest label + 1; leave a mark such as 255 out "
                "first. For a sample, __len__ or the list of indices is of a longer table.",
                more=("    n[self.class_names[int(id)]] += 1\nIndexError: list index out of "
                    "range",)),
            Wording(r"ValueError: '?[^\n']{1,80}'? is not in list",
                "ValueError: 'Turbine' is not in list",
                "list.index or remove looks for an entry that the list does not have: the name of "
                "a class or of a column, for example, or another spelling of it.",
                "Print the list and the entry before that line, with repr(): capital letters, "
                "spaces, a number in place of a text and a mark at the start of the file "
                "(encoding='utf-8-sig') make another entry. Else the data have a class, or lack a "
                "column, that the code expects: correct the list of names or the file."),),
        why="A list, tuple or text has fewer entries than the index says; in a dataset, __len__ "
            "counts more samples than there are.",
        fix="Print the index and the length of that list before the line. An index of -100 is a "
            "label that the loss leaves out: drop these places first, labels[labels != -100]. One "
            "at or behind the end: the list is shorter than the code expects.",
        sources=("python-exceptions",)),
    Cause(id="name-not-registered",
        errors=("KeyError", "ValueError", "RuntimeError"),
        refines=("missing-key", "absent-in-samples"),
        wordings=(
            Wording(r"must contain the key .type., but got",
                'KeyError: \'`cfg` or `default_args` must contain the key "type", but got '
                "{'max_epochs': 12}'",
                "The part of the configuration that the message quotes does not say which class it "
                "is of: it was written for another release, or replaces the part of the base "
                "configuration as a whole.",
                "Give that part its type, such as runner = dict(type='EpochBasedRunner', "
                "max_epochs=12), or take the configuration of the installed release. "
                "_delete_=True removes the type of the base as well.",
                ("python -m pip list | grep -i mm",)),
            Wording(r"RuntimeError: Unknown model \(\w",
                "RuntimeError: Unknown model (efficientformer_l1)",
                "timm has no model of that name: the file that registers it was not imported, the "
                "name is misspelled, or this release is older than the model.",
                "Import the module that has @register_model for it before create_model (from "
                "models import *); else compare with timm.list_models('*NAME*'), and upgrade: "
                "python -m pip install -U timm.",
                ('python -c "import timm; print(timm.__version__)"',)),
            Wording(r"(?:is|was) already registered (?:in|at)\b",
                "KeyError: 'ConvWS is already registered in conv layer'",
                "Two classes register under one name: of two packages (mmcv took over ConvWS from "
                "mmdet, mmcls and mmseg had one of the same name), of an installed package and its "
                "source directory, or of a notebook cell that was run again.",
                "Install releases of one time (the library's page names the mmcv of each), or the "
                "library's newest. Of an installed copy and a source directory keep one (pip "
                "uninstall it, then pip install -v -e . in the directory). A class of your own "
                "gets another name, or @REGISTRY.register_module(force=True).",
                ("python -m pip list | grep -iE 'mm|detectron'",),
                owner=Owner.ENVIRONMENT,
                more=("AssertionError: An object named 'CBNet' was already registered in "
                    "'BACKBONE' registry!",)),),
        messages=(r"is not in the [^\n]{0,60}registry|No object named .{1,120} found in "
            r".{1,60}registry|(?:is|was) not registered (?:in|with|as)|[Uu]nregistered (?:model|"
            r"dataset|class)",
            "KeyError: '(?:rope_type|rope_theta|head_dim|num_experts_per_tok)'"),
        examples=("KeyError: 'SwinV2 is not in the mmdet::model registry. Please check whether "
            "the value is correct or it was registered as expected.'",
            "KeyError: 'rope_type'"),
        why="A configuration names a class or a field that this program or this release does "
            "not know: its module was not imported, is of another library (mmpretrain in "
            "mmdet), or the configuration is newer.",
        fix="Import the module that registers it (custom_imports=dict(imports=[...]), the "
            "project's own package on PYTHONPATH), install the library of its scope, correct "
            "the name, or upgrade the library to the release that the configuration was written "
            "with (python -m pip install -U transformers for fields of config.json).",
        sources=("python-exceptions", "mmdetection-3249")),
    Cause(id="missing-key",
        errors=("KeyError",),
        messages=("KeyError: (?!.?param 'initial_lr')"
            r"(?!['\"](?:[^'\"\n ]+ ){4})",),  # a sentence says itself what is missing
        examples=("KeyError: 'labels'",),
        wordings=(
            Wording(r"(?:dataset|data)\[idx\] for idx in possibly_batched_index[\s\S]{0,400}"
                r"KeyError: \d",
                "data = [self.dataset[idx] for idx in possibly_batched_index]\nKeyError: 0",
                "The loader asks its dataset for a row by number, and got a dict of datasets "
                "(DatasetDict), or a table of pandas whose index has gaps.",
                "Hand over one split, dataset['train'], and for the evaluation a dataset too. In a "
                "__getitem__ of your own use table.iloc[i], or table.reset_index(drop=True) after "
                "rows were removed."),),
        why="The dict has no such key: a field that some samples lack, a name in another form "
            "(label, labels), or a module of another name.",
        fix="Print the keys before that line, list(batch): field names come from the dataset "
            "and its collate_fn. Give every sample the same keys; batch.get(key) is None where "
            "it is absent. "
            "What a forward hook was to keep is absent where its layer was replaced "
            "after the hook was registered.",
        sources=("python-exceptions",)),
)  # fmt: skip

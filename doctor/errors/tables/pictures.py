"""Pictures and their transforms; data sets of torchvision and YOLO; files in arrays."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="pictures-refused",
        errors=("TypeError", "RuntimeError", "ValueError", "UnidentifiedImageError", "OSError",
            "error"),
        wordings=(
            Wording("(?:img|pic|image) should be (?:a )?(?:PIL Image|Tensor Image|"
                "ndarray).{0,40}Got|Input (?:tensor should be a float|image tensor permitted "
                "channel)",
                "TypeError: img should be PIL Image. Got <class 'torch.Tensor'>",
                "A transform got a picture of another type: PIL pictures, arrays and tensors do "
                "not fit everywhere, and the order of the transforms decides.",
                "Order them: transforms for PIL pictures, then ToTensor(), then Normalize(). An "
                "array becomes a PIL picture by Image.fromarray(array) or ToPILImage(); "
                "ToTensor() belongs in the list once. Or use torchvision.transforms.v2, whose "
                "transforms take all three."),
            Wording(r"output with shape \[1, ?\d{1,6}, ?\d{1,6}\] doesn't match the broadcast "
                r"shape \[3,",
                "RuntimeError: output with shape [1, 28, 28] doesn't match the broadcast shape "
                "[3, 28, 28]",
                "Normalize got three means for a picture of one channel.",
                'Convert to RGB before (Image.open(path).convert("RGB"), or '
                "Grayscale(num_output_channels=3)), or give one mean and deviation: "
                "Normalize((0.5,), (0.5,))."),
            Wording("stride.{0,40}numpy array is negative",
                "ValueError: At least one stride in the given numpy array is negative, and "
                "tensors with negative strides are not currently supported.",
                "A flipped array ([::-1], np.flip) is a view in reverse order.",
                "Copy it first: torch.from_numpy(array.copy()), or np.ascontiguousarray(array)."),
            Wording(r"Image size \(\d{1,12} pixels\) exceeds limit",
                "PIL.Image.DecompressionBombError: Image size (200000000 pixels) exceeds limit "
                "of 178956970 pixels, could be decompression bomb DOS attack.",
                "Pillow refuses pictures with very many pixels.",
                "Raise the limit where the data is trusted (PIL.Image.MAX_IMAGE_PIXELS = None), "
                "or leave such pictures out.",
                ("find DATA -size -1k -name '*.jpg'",)),
            Wording(r"cannot identify image file|image file is truncated|broken data stream "
                r"when reading image|Assertion failed\) !_src\.empty\(\)|!ssize\.empty\(\)|"
                r"\(-5:Bad argument\) in function",
                "PIL.UnidentifiedImageError: cannot identify image file '/data/a.jpg'",
                "A picture is cut off, empty, of another format than its name, or its path does "
                "not exist: cv2.imread then returns None without an error.",
                "Find them before training: try Image.open(path).verify() for every path and "
                "leave out what fails; test os.path.exists for OpenCV (paths with non-ASCII "
                "letters fail on Windows). ImageFile.LOAD_TRUNCATED_IMAGES = True reads cut-off "
                "ones with a grey rest.",
                ("find DATA -size -1k -name '*.jpg'",),
                more=("OSError: image file is truncated (13 bytes not processed)",
                    "cv2.error: OpenCV(4.8.0) :-1: error: (-5:Bad argument) in function 'resize'",
                    "cv2.error: OpenCV(4.8.0) error: (-215:Assertion failed) !_src.empty() in "
                    "function 'cvtColor'"))),
        why="A picture cannot be read, or a transform gets it in another form than it takes."),
    Cause(id="labels-or-boxes-invalid",
        errors=("AssertionError", "RuntimeError", "ValueError"), refines=("index-out-of-range",),
        wordings=(
            Wording("numel: integer multiplication overflow|Storage size calculation overflowed|"
                "Trying to create tensor with negative dimension|negative dimensions are not "
                "allowed",
                "RuntimeError: numel: integer multiplication overflow",
                "A tensor is asked for with a size that is negative or beyond 64 bits: a size "
                "computed from a label, an index or an uninitialized number outside its range.",
                "Print the sizes in the frame above. Check that labels are whole numbers from 0 "
                "to the number of classes - 1 (also in the annotation files), and lengths "
                "positive.",
                ("cut -d' ' -f1 labels/*.txt | sort | uniq -c",)),
            Wording(r"num_classes`? \(\d{1,5}\) in [\s\S]{1,120}does not matche?s? the length of",
                "AssertionError: The `num_classes` (3) in Shared2FCBBoxHead of MMDataParallel "
                "does not matches the length of `CLASSES` 80) in CocoDataset",
                "The head has one number of classes, and the dataset has the names of another: "
                "those of its class (80 of COCO) where the configuration gives it none, or where "
                "an installed copy of the library is used in place of the edited one.",
                "Give every dataset of the configuration your names: classes=('a', 'b') in train, "
                "val and test, in mmdet 3 metainfo=dict(classes=('a', 'b')), spelled as the "
                "categories of the annotation file; one name needs a comma, ('a',). Set "
                "num_classes of every head to their number. After an edit of the library's files: "
                "pip install -v -e . in its directory.",
                ('python -c "import mmdet; print(mmdet.__file__)"',)),
            Wording(r"Label class \d{1,6} exceeds|Possible class labels are|Class values must "
                r"be smaller than num_classes",
                "AssertionError: Label class 3 exceeds nc=3 in data.yaml. Possible class labels "
                "are 0-2",
                "A label is as large as the number of classes or larger: classes are counted "
                "from 0, and the configuration names fewer than the data have.",
                "Count the labels that occur and set num_classes (nc) to the largest + 1, or "
                "renumber them from 0; an annotation tool may have added a class. one_hot needs "
                "values from 0 to num_classes - 1, without -1 or 255 for ignored ones.",
                ("cut -d' ' -f1 labels/*.txt | sort | uniq -c",),
                more=("RuntimeError: Class values must be smaller than num_classes.",)),
            Wording("Expected [xy]_(?:min|max) for bbox",
                "ValueError: Expected x_max for bbox (0.98, 0.4, 1.02, 0.5, 0) to be in the "
                "range [0.0, 1.0], got 1.02.",
                "A box reaches beyond the picture: by rounding, if the value is 1.0000001; else "
                "in the annotations, or because they are in another form or unit.",
                "Clip: clip=True of BboxParams, or x.clamp(0, 1) where the annotations are "
                "read. If many boxes are beyond it by more than rounding, compare the form "
                "(pascal_voc and coco have pixels, albumentations and yolo shares) and the "
                "picture's size."),
            Wording("bounding boxes should have positive height and width|[xy]_max is less than "
                "or equal to [xy]_min for bbox",
                "AssertionError: All bounding boxes should have positive height and width. "
                "Found invalid box [433.2, 516.2, 433.2, 522.4] for target at index 1.",
                "A box has no width or height: in the annotation file, after a crop or a resize "
                "cut it to a line, or because it is read in another form ([x, y, width, height] "
                "for [x_min, y_min, x_max, y_max]).",
                "Search all annotations before the training, and drop or repair boxes with "
                "x_max <= x_min or y_max <= y_min. Filter again after cropping and resizing "
                "(min_area and min_visibility of albumentations' BboxParams, "
                "SanitizeBoundingBoxes of torchvision.transforms.v2). If most boxes are such, "
                "convert the form.",
                more=("ValueError: x_max is less than or equal to x_min for bbox (0.5, 0.2, "
                    "0.5, 0.4, 1).",))),
        told_by="the number of classes stands in a configuration",
        why="A label is as large as the number of classes or larger: classes are counted from "
            "0, and the configuration names fewer than the data have.",
        sources=("torch-losses",)),
    Cause(id="saved-file-of-another-kind",
        errors=("AttributeError", "ModuleNotFoundError", "KeyError", "TypeError"),
        refines=("attribute-missing", "missing-key", "absent-in-samples"),
        wordings=(
            Wording(r"Can't get attribute '\w{1,80}' on <module",
                "AttributeError: Can't get attribute 'Net' on <module '__main__' from 'test.py'>",
                "The whole model (or a data set, a function) was pickled: loading needs its "
                "class under the same module and name.",
                "Import or define the class in the module that the message names (__main__ is "
                "the script that starts), as when it was pickled, before loading; then save the "
                "state_dict instead: torch.save(model.state_dict(), path), "
                "model.load_state_dict(torch.load(path)). In DataLoader workers of Windows move "
                "the class from the notebook into a file."),
            Wording(r"'(?:collections\.)?OrderedDict' object has no attribute '(?:eval|to|cuda|"
                r"train|parameters|forward|state_dict|modules)'",
                "AttributeError: 'collections.OrderedDict' object has no attribute 'eval'",
                "torch.load returned the weights (a state_dict), not the model.",
                "Build the model first: model = Net(...); "
                'model.load_state_dict(torch.load(path, map_location="cpu")); then model.eval().'),
            Wording("Trying to restore (?:optimizer|training) state but checkpoint contains only",
                "KeyError: 'Trying to restore optimizer state but checkpoint contains only the "
                "model. This is probably due to `ModelCheckpoint.save_weights_only` being set to "
                "`True`.'",
                "The checkpoint holds the weights alone, and the run is to be resumed, for which "
                "optimizer, schedule and step are needed.",
                "To go on from these weights begin a new run: Model.load_from_checkpoint(PATH), "
                "then fit without ckpt_path, with a warm-up. To resume, take a checkpoint that was "
                "saved whole: ModelCheckpoint(save_weights_only=False)."),
            Wording(r"KeyError: '(?:(?:model_|optimizer_|scheduler_)?state_dict|model|net|"
                r"network|optimizer|optim|scheduler|lr_scheduler|epoch|global_step|iteration|"
                r"iter|ema|scaler|best_\w{1,30}|logger|config|hyper_parameters|"
                r"pytorch-lightning_version|early_stop\w{0,20})'",
                "KeyError: 'state_dict'",
                "The code takes an entry from a checkpoint that has none of this name: the file "
                "holds the weights alone (published weights, another framework, another version "
                "of the program), or the entries have other names.",
                'Print what it holds: torch.load(path, map_location="cpu").keys(). Published '
                "weights are for starting, not for resuming: load them as pretrained weights "
                "(often a checkpoint_path or pretrained option), and resume only from files "
                "that this program saved with its optimizer.",
                ('python -c "import sys, torch; print(torch.load(sys.argv[1], '
                    "map_location='cpu').keys())\" FILE",)),
            Wording(r"KeyError: '(?:param_groups|exp_avg|exp_avg_sq)'|"
                r"state_values\[0\]\[['\x22]step['\x22]\][^\n]{0,100}\n(?:[^\n]{0,200}\n)?"
                r"[^\n]{0,30}KeyError: 'step'",
                "KeyError: 'param_groups'",
                "What is loaded into the optimizer is not the state of this optimizer: another "
                "object was saved under that name (the scheduler), the checkpoint was stripped for "
                "inference, another optimizer or another set of parameters wrote it, or DeepSpeed "
                "and FSDP keep the states in files of their own.",
                "Print its keys: an optimizer has state and param_groups. To train on from these "
                "weights load the model alone and start a new optimizer. To resume, load a "
                "checkpoint that the same optimizer wrote; with DeepSpeed by "
                "engine.load_checkpoint.",
                ('python -c "import sys, torch; print(torch.load(sys.argv[1], '
                    "map_location='cpu').keys())\" FILE",),
                more=('    state_values[0]["step"]\nKeyError: \'step\'',)),
            Wording(r"KeyError: Parameter containing",
                "KeyError: Parameter containing:",
                "An optimizer or a wrapper looks up what it holds for a parameter, and holds "
                "nothing for this one: the model was moved, converted or partly replaced after it "
                "was made, or a loaded state took the place of its own.",
                "Make the optimizer or the wrapper after the model was moved to its device, "
                "converted and completed; load a state with optimizer.load_state_dict, which maps "
                "it to the parameters."),
            Wording("Expected state_dict to be dict-like",
                "TypeError: Expected state_dict to be dict-like, got <class 'blocks.MLP'>.",
                "The file holds a whole model.",
                "Pass a state dict: model.load_state_dict(loaded.state_dict()), since the file "
                "holds a whole model.")),
        why="The file holds something else than the code takes from it: a whole model, a state "
            "dict, or weights without the state of a training.",
        sources=("torch-load-module",)),
    Cause(id="image-tokens-differ",
        refines=("index-out-of-range",),
        messages=(r"(?:features|embeddings) and (?:image|video|audio) tokens do not match|"
            r"multimodal tokens to \d{1,9} placeholders|Mismatch in `?(?:image|video|audio)`? "
            r"token count|(?:image|video)_grid_thw\[[^\n]{0,80}\n[^\n]{0,30}IndexError: |number "
            r"of (?:image|video|audio) (?:tokens|features) .{0,80}(?:match|differ)",),
        examples=("ValueError: Image features and image tokens do not match: tokens: 300, "
            "features 298",
            "ValueError: Attempted to assign 338 + 320 = 658 multimodal tokens to 640 "
            "placeholders",
            "    n = image_grid_thw[index].prod()\nIndexError: index 0 is out of bounds for "
            "dimension 0 with size 0",
            "Mismatch in `image` token count between text and `input_ids`.",
            "The number of image tokens does not match the number of images"),
        why="The text has another number of placeholders than the pictures have features: it "
            "was cut off in the middle of them, or text and pictures were processed apart.",
        fix="Do not truncate inside of a picture: raise max_length (max_seq_length, cutoff_len, "
            "max_prompt_length) or set it to None, or lower the picture's size (max_pixels). "
            "One <image> in the text for each picture; one processor of the model's own release "
            "makes text and pixels together.",
        sources=("transformers-gemma3",)),
)  # fmt: skip

"""Pictures and their transforms; data sets of torchvision and YOLO; files in arrays."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="picture-type-of-transform",
        errors=("TypeError",),
        messages=(
            r"(?:img|pic|image) should be (?:a )?(?:PIL Image|Tensor Image|ndarray).{0,40}Got",
            r"Input (?:tensor should be a float|image tensor permitted channel)",
        ),
        examples=(
            "TypeError: img should be PIL Image. Got <class 'torch.Tensor'>",
            "TypeError: Input tensor should be a float tensor. Got torch.uint8.",
        ),
        why="A transform got a picture of another type: PIL pictures, arrays and tensors do not "
        "fit everywhere, and the order of the transforms decides.",
        fix="Order them: transforms for PIL pictures, then ToTensor(), then Normalize(). An array "
        "becomes a PIL picture by Image.fromarray(array) or ToPILImage(); ToTensor() belongs in "
        "the list once. Or use torchvision.transforms.v2, whose transforms take all three.",
    ),
    Cause(
        id="channels-of-normalization",
        errors=("RuntimeError",),
        messages=(
            r"output with shape \[1, ?\d{1,6}, ?\d{1,6}\] doesn't match the broadcast shape \[3,",
        ),
        examples=(
            "RuntimeError: output with shape [1, 28, 28] doesn't match the broadcast shape [3, "
            "28, 28]",
        ),
        why="Normalize got three means for a picture of one channel.",
        fix='Convert to RGB before (Image.open(path).convert("RGB"), or '
        "Grayscale(num_output_channels=3)), or give one mean and deviation: Normalize((0.5,), "
        "(0.5,)).",
    ),
    Cause(
        id="array-with-negative-strides",
        errors=("ValueError",),
        messages=(r"stride.{0,40}numpy array is negative",),
        examples=(
            "ValueError: At least one stride in the given numpy array is negative, and tensors "
            "with negative strides are not currently supported.",
        ),
        why="A flipped array ([::-1], np.flip) is a view in reverse order.",
        fix="Copy it first: torch.from_numpy(array.copy()), or np.ascontiguousarray(array).",
    ),
    Cause(
        id="class-folders-missing",
        errors=("RuntimeError", "FileNotFoundError"),
        messages=(
            r"Found 0 files in subfolders of|Couldn't find any class folder|Found no valid file "
            r"for the classes",
        ),
        examples=(
            "RuntimeError: Found 0 files in subfolders of: data/train",
            "FileNotFoundError: Couldn't find any class folder in data/train.",
        ),
        why="ImageFolder expects one directory per class with pictures in it, and found none "
        "below this path.",
        fix="Arrange train/CLASS/picture.jpg and give train; check the path in the directory of "
        "the start, hidden directories, and the endings (or pass is_valid_file).",
        commands=("ls data/train | head",),
    ),
    Cause(
        id="download-damaged",
        errors=("RuntimeError", "BadZipFile", "HTTPError"),
        messages=(
            r"Dataset not found or corrupted\.|invalid hash value \(expected",
            r"File is not a zip file|not a gzip file|file could not be opened successfully",
            r"HTTP Error (?:403|404|429|5\d\d)",
        ),
        examples=(
            "RuntimeError: Dataset not found or corrupted. You can use download=True to download "
            "it",
            'RuntimeError: invalid hash value (expected "f37072fd", got "d41d8cd9")',
            "zipfile.BadZipFile: File is not a zip file",
            "urllib.error.HTTPError: HTTP Error 403: Forbidden",
        ),
        why="A file of a data set or of weights is missing, was cut off, or is an error page: the "
        "download broke, or its address no longer works.",
        fix="Delete the file that the message or the frame names (data/NAME, "
        "~/.cache/torch/hub/checkpoints) and start again with download=True; if the address "
        "refuses, upgrade torchvision, or fetch the file by hand from the project's page and put "
        "it there. Look at it: head -c 100 FILE.",
        owner=Owner.ENVIRONMENT,
        retry="again",
        commands=("ls -l ~/.cache/torch/hub/checkpoints", "head -c 100 FILE"),
    ),
    Cause(
        id="labels-exceed-classes",
        refines=("index-out-of-range",),
        errors=("AssertionError", "RuntimeError"),
        messages=(
            r"Label class \d{1,6} exceeds|Possible class labels are",
            r"Class values must be smaller than num_classes",
        ),
        examples=(
            "AssertionError: Label class 3 exceeds nc=3 in data.yaml. Possible class labels are "
            "0-2",
            "RuntimeError: Class values must be smaller than num_classes.",
        ),
        why="A label is as large as the number of classes or larger: classes are counted from 0, "
        "and the configuration names fewer than the data have.",
        fix="Count the labels that occur and set num_classes (nc) to the largest + 1, or renumber "
        "them from 0; an annotation tool may have added a class. one_hot needs values from 0 to "
        "num_classes - 1, without -1 or 255 for ignored ones.",
        commands=("cut -d' ' -f1 labels/*.txt | sort | uniq -c",),
    ),
    Cause(
        id="array-file-cut-off",
        errors=("ValueError", "EOFError", "OSError"),
        messages=(
            r"mmap length is greater than file size|cannot mmap an empty file",
            r"[Ff]ailed to interpret file .{1,200} as a pickle|Cannot load file containing "
            r"pickled data when allow_pickle=False",
            r"cannot reshape array of size \d{1,18} into shape",
        ),
        examples=(
            "ValueError: mmap length is greater than file size",
            "ValueError: Cannot load file containing pickled data when allow_pickle=False",
            "ValueError: cannot reshape array of size 1024 into shape (512,512)",
        ),
        why="A file of arrays is shorter than its header says: it was cut off while it was "
        "written (a full disk, a killed job), or is no array file.",
        fix="Delete the prepared files of the data set (*.npy, *.npz, *.bin, *.idx) and prepare "
        "them again, with enough room on the disk; allow_pickle=True is right only for an array "
        "of objects of your own.",
        commands=("ls -l FILE", "df -h ."),
    ),
    Cause(
        id="sizes-without-meaning",
        errors=("RuntimeError", "ValueError"),
        messages=(
            r"numel: integer multiplication overflow|Storage size calculation overflowed",
            r"Trying to create tensor with negative dimension|negative dimensions are not allowed",
        ),
        examples=(
            "RuntimeError: numel: integer multiplication overflow",
            "RuntimeError: Trying to create tensor with negative dimension -1: [-1, 10]",
        ),
        why="A tensor is asked for with a size that is negative or beyond 64 bits: a size "
        "computed from a label, an index or an uninitialized number outside its range.",
        fix="Print the sizes in the frame above. Check that labels are whole numbers from 0 to "
        "the number of classes - 1 (also in the annotation files), and lengths positive.",
    ),
    Cause(
        id="not-json-serializable",
        errors=("TypeError",),
        messages=(r"Object of type \w{1,40} is not JSON serializable",),
        examples=("TypeError: Object of type float32 is not JSON serializable",),
        why="A metric, an argument or a configuration with a numpy number, a tensor, a dtype or a "
        "Path is written as JSON.",
        fix="Convert it before: float(x), x.item(), x.tolist(), str(dtype). In compute_metrics "
        "return plain floats; keep tensors and dtypes out of a configuration that is saved.",
    ),
    Cause(
        id="class-of-saved-model-missing",
        errors=("AttributeError", "ModuleNotFoundError"),
        messages=(r"Can't get attribute '\w{1,80}' on <module",),
        examples=(
            "AttributeError: Can't get attribute 'Net' on <module '__main__' from 'test.py'>",
        ),
        why="The whole model (or a data set, a function) was pickled: loading needs its class "
        "under the same module and name.",
        fix="Import or define the class where it was when it was saved, before loading; then save "
        "the state_dict instead: torch.save(model.state_dict(), path), "
        "model.load_state_dict(torch.load(path)). In DataLoader workers of Windows move the class "
        "from the notebook into a file.",
    ),
    Cause(
        id="state-dict-used-as-model",
        refines=("attribute-missing", "property-raised"),
        errors=("AttributeError",),
        messages=(
            r"'(?:collections\.)?OrderedDict' object has no attribute '(?:eval|to|cuda|train|"
            r"parameters|forward|state_dict|modules)'",
        ),
        examples=("AttributeError: 'collections.OrderedDict' object has no attribute 'eval'",),
        why="torch.load returned the weights (a state_dict), not the model.",
        fix="Build the model first: model = Net(...); model.load_state_dict(torch.load(path, "
        'map_location="cpu")); then model.eval().',
    ),
    Cause(
        id="checkpoint-without-training-state",
        refines=("missing-key", "hook-on-a-replaced-layer", "absent-in-samples"),
        errors=("KeyError",),
        messages=(
            r"KeyError: '(?:(?:model_|optimizer_|scheduler_)?state_dict|model|net|network|"
            r"optimizer|optim|scheduler|lr_scheduler|epoch|global_step|iteration|iter|ema|scaler|"
            r"best_\w{1,30}|logger|config|hyper_parameters|pytorch-lightning_version|"
            r"early_stop\w{0,20})'",
        ),
        examples=("KeyError: 'state_dict'", "KeyError: 'best_val_loss'"),
        why="The code takes an entry from a checkpoint that has none of this name: the file holds "
        "the weights alone (published weights, another framework, another version of the "
        "program), or the entries have other names.",
        fix='Print what it holds: torch.load(path, map_location="cpu").keys(). Published weights '
        "are for starting, not for resuming: load them as pretrained weights (often a "
        "checkpoint_path or pretrained option), and resume only from files that this program "
        "saved with its optimizer.",
        commands=(
            'python -c "import sys, torch; print(torch.load(sys.argv[1], '
            "map_location='cpu').keys())\" FILE",
        ),
    ),
    Cause(
        id="image-tokens-differ",
        refines=("index-out-of-range",),
        messages=(
            r"(?:features|embeddings) and (?:image|video|audio) tokens do not match|multimodal "
            r"tokens to \d{1,9} placeholders|Mismatch in `?(?:image|video|audio)`? token count|"
            r"(?:image|video)_grid_thw\[[^\n]{0,80}\n[^\n]{0,30}IndexError: |number of (?:image|"
            r"video|audio) (?:tokens|features) .{0,80}(?:match|differ)",
        ),
        examples=(
            "ValueError: Image features and image tokens do not match: tokens: 300, features 298",
            "ValueError: Attempted to assign 338 + 320 = 658 multimodal tokens to 640 placeholders",
            "    n = image_grid_thw[index].prod()\n"
            "IndexError: index 0 is out of bounds for dimension 0 with size 0",
            "Mismatch in `image` token count between text and `input_ids`.",
            "The number of image tokens does not match the number of images",
        ),
        why="The text has another number of placeholders than the pictures have features: it was "
        "cut off in the middle of them, or text and pictures were processed apart.",
        fix="Do not truncate inside of a picture: raise max_length (max_seq_length, cutoff_len, "
        "max_prompt_length) or set it to None, or lower the picture's size (max_pixels). One "
        "<image> in the text for each picture; one processor of the model's own release makes "
        "text and pixels together.",
    ),
)

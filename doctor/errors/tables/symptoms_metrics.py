"""Symptoms of metrics and of evaluation, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="validation-better-than-training",
        words=(
            "@eval>loss|error>lower|less|smaller|below|better>train",
            "loss|error>lower|less|smaller|below|better>@eval>than>train",
            "train>loss|error>higher|larger|above|greater|wors>@eval",
            "@eval>accuracy|acc$|score>higher|better|above|exceeds>train",
            "accuracy|acc$|score|dice|f1>@eval>higher|better|above|exceeds>train",
            "train>accuracy|acc$|score>lower|wors|below>@eval",
        ),
        examples=(
            "validation loss lower than training loss",
            "training accuracy is lower than test accuracy",
        ),
        why="Usually no fault: dropout, augmentation, label smoothing and regularization act in "
            "training only, and the training value is a mean over an epoch in which the model was "
            "still worse.",
        fix="Evaluate the training samples with the evaluation code: if these are as good, "
            "nothing is wrong. If not, the validation set is easier, or holds samples of the "
            "training set: search duplicates.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="accumulation-differs", sources=("transformers-trainer",),
        words=(
            "accumulat @bad|@not|higher|different|equal|equivalent|match|large|larger|"
            "scale|multipl|summed|sum$|divide !@memory !@oom !@hang",
        ),
        examples=(
            "gradient accumulation gives a worse loss than a large batch",
        ),
        why="The loss is averaged for each micro-batch, so that short ones weigh as much as long "
            "ones; or it is not divided by the number of micro-batches; or the scheduler and the "
            "clipping act once per micro-batch.",
        fix="Divide the sum of the losses by the number of tokens of all micro-batches "
            "(transformers does so since 4.46, where the model takes num_items_in_batch); average "
            "losses of samples: loss / steps. Step the scheduler and clip once per optimizer "
            "step. transformers 4.46 and 4.47 print a loss that is multiplied by the steps of "
            "accumulation for models without that argument: upgrade.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="larger-batch-worse",
        words=(
            "batch|batches|batch_size|batchsize bigger|larger|increas|large|doubl|huge "
            "accuracy|acc$|loss|result|results|generaliz|performance|quality @bad|@fall|"
            "hurts !accumul !@memory !@oom",
        ),
        examples=(
            "larger batch size makes accuracy worse",
        ),
        why="With the same epochs a larger batch takes fewer steps, and the learning rate was "
            "that of the small one.",
        fix="Raise the learning rate with the batch (SGD in proportion, Adam with its square "
            "root) after a warm-up, and train as many steps; beyond some size (the critical one) "
            "it only costs samples.",
        role="symptom",
        commands=("doctor prescribe",),
    ),
    Cause(id="metric-does-not-follow-loss",
        words=(
            "loss>@fall|improv|low$|good>accuracy|acc$|f1|metric|map$|bleu|wer$|"
            "score>@same|@not|chance|@zero|random",
            "accuracy|acc$|f1|metric|map$|bleu|wer$|score>@same|@not|@zero>loss>@fall|improv",
            "map$|map50|ap$|ap50|recall|iou$ @zero train|loss|detect|epoch|yolo|boxes|classes",
            "yolo|detector|detection|detectron|mmdet|rcnn nothing|no_boxes|no_objects|"
            "no_detections",
            "boxes|bbox|bboxes|keypoints shift|offset|wrong|misalign|scaled",
        ),
        examples=(
            "loss decreases but accuracy does not improve",
            "mAP is 0 while training goes on",
            "predicted boxes are shifted",
        ),
        why="The metric is computed from something else than the loss: labels, classes or boxes "
            "in another order, form or scale, predictions before the last step of processing, a "
            "threshold, or padding that is counted.",
        fix="Feed the targets themselves to the metric as predictions: it must be perfect. Then "
            "compare the ids of classes, the form of boxes (xyxy or xywh, pixels or shares, of "
            "the resized image) and the argmax or threshold. A detector at 0 from the start: read "
            "how many images and labels the loader counts, and look at a batch with its boxes "
            "drawn. On new samples only: see overfitting.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="same-class-predicted",
        words=(
            "predict|predicts|predictions|says|answers|outputs|gives|network|classifier|model "
            "same|only|one$|always|no_finding|normal|negative|zero|background "
            "every_single|every|all_the|all$|each>image|images|picture|pictures|photo|sample|"
            "samples|input|patient|sentence|text|row !batch !runs !seed !generat !epoch !loss "
            "!token !gpu !repeat",
            "predict|predicts|classif|segment everything|all_of_them background|class$|label|"
            "negative|positive|normal",
            "f1|recall|precision|accuracy @zero minority|rare|positive|one|some|small "
            "class|classes|label",
            "@eval>accuracy|acc$|f1|score|auc exactly|identical|same|constant|"
            "never_changes|frozen every|each|all|epoch|epochs !loss !train !runs !seed",
            "predict|predicts|predictions|output|outputs|forecast|regress mean|average|constant|"
            "same>line|value|number|curve every|each|all|any|whatever|no_matter !loss",
            "predict|predicts|predictions|output|outputs|classif|segment|detect|model|"
            "network same|only|one|single|always|every$|all$>class$|classes|label|"
            "background|majority|category|negative|positive|zeros|mask !labels !stuck "
            "!different_class !all_classes !each_class",
            "predict|predicts|predictions|classif|segment|everything|all|outputs "
            "background|majority|category|negative|positive|zeros|mask|masks|class>only|"
            "always|everywhere|"
            "every_time|for_all|for_every|for_each !labels !different_class",
        ),
        examples=(
            "model predicts the same class for every image",
            "segmentation predicts only background",
        ),
        why="The most frequent answer is a cheap one: classes are unbalanced, the learning rate "
            "killed the units at the start, or inputs reach the model constant or without their "
            "normalization.",
        fix="Overfit 20 samples of all classes with a tenth of the rate. If that works, balance: "
            "class weights, a weighted sampler, dice or focal loss for segmentation, crops with "
            "foreground. If not, print the inputs, and the spread of the logits over a batch. A "
            "regression that gives the mean: predictions [N, 1] beside targets [N] make the loss "
            "a mean over [N, N], of which a UserWarning of mse_loss tells.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory", "doctor guard -- python train.py",),
    ),
    Cause(id="predictions-vary", sources=("torch-train-mode",),
        words=(
            "different|another|other|changes class|label|answer|prediction|result|output "
            "every_time|each_time|every_run|each_run|on_every !prompt !generat !seed "
            "!trained !batch",
            "same|identical|one|single>picture|image|photo|input|inputs|sample|example|sentence|"
            "tensor|clip|recording|x_ray|row twice|each_time|every_time|each_call|every_call|"
            "two_times|again|several_times|repeat|run_to_run|each_run|every_run|call_to_call "
            "differ|vary|varies|chang|other|not_the_same|fluctuat|random "
            "predict|output|outputs|result|results|score|scores|class|logits|probab|answer|"
            "embedding|label !train_twice !trained_twice !trainings !batch !augment !eval() "
            "!model.eval",
            "predict|predictions|output|outputs|scores|logits|inference chang|differ|vary|varies|"
            "random|fluctuat|not_determin|nondetermin|non_determin "
            "each_call|every_call|each_time|every_time|each_run|call_to_call "
            "same|identical|i_call|i_run|i_predict|model|network !prompt !generat !seed "
            "!trained_twice !batch",
        ),
        examples=("the same picture through my trained network twice gives different predictions",
            "my model's predictions change every time I call it with the same input"),
        why="The model is in training mode: dropout draws anew at each call, and batch norm uses "
            "the batch that it is given. Else the input is not the same: a random transform, or "
            "noise that is part of the model; a text that is generated is sampled.",
        fix="Call model.eval() before predicting, and compute within torch.inference_mode(); "
            "model.train() before the training goes on. Give predictions the transforms of the "
            "evaluation, without random ones. Texts: do_sample=False.",
        role="symptom",
        commands=("doctor lint predict.py", "doctor run --model FILE.py:factory"),
    ),
    Cause(id="evaluation-mode-worse", sources=("torch-batchnorm",),
        words=(
            "model.eval|eval()|eval_mode|evaluation_mode|.eval() model.train|train()|"
            "train_mode|training_mode|same_batch|same_data|@bad|collaps|@fall|switch",
            "model.eval|eval()|eval_mode|evaluation_mode|.eval() accuracy|acc$|loss|score|"
            "results|output|outputs|predict @bad|only|chance|@fall|random train|training|same",
            "batchnorm|batch_norm|running_mean|running_var|running_stat @eval|inference|"
            "predict @bad|@not|small",
        ),
        examples=(
            "model.eval() is much worse than model.train() on the same data",
            "BatchNorm gives bad results at test time",
        ),
        why="BatchNorm uses the statistics of the batch in training and stored means in "
            "evaluation; these do not fit: small batches, few steps, a momentum that is too low, "
            "one layer used for two kinds of data, or a frozen part.",
        fix="Compute them anew: reset_running_stats() and momentum=None, one pass over training "
            "data in train() under no_grad. Lasting: larger batches, SyncBatchNorm, or GroupNorm. "
            "Without BatchNorm look at dropout and other code that asks self.training.",
        role="symptom",
        commands=("doctor lint train.py", "doctor scan CHECKPOINT",),
    ),
    Cause(id="metrics-not-shown",
        words=(
            "curve|curves|plot|wandb|tensorboard|loss gap|gaps|missing|empty|holes step|"
            "steps|points|curve|values|plot !@eval !between",
            "no_log loss|column|table|training_loss|shows|says|trainer !dmesg !crash",
            "loss|metrics|logs|wandb|tensorboard|training_loss @not>show|log|logged|"
            "display|print|appear|updat !error !flat !accumul",
            "wandb|tensorboard|mlflow empty|nothing|no_data|no_metric|no_curve",
            "wandb|tensorboard|mlflow @not>show|see|log|plot|display|appear|updat",
        ),
        examples=(
            "training loss column says No log",
            "wandb shows no metrics",
        ),
        why="The run is shorter than the interval of logging, or the reports go elsewhere.",
        fix="logging_steps=1 (or a tenth of the steps; the default is 500), report_to with the "
            "tracker's name; Lightning: log_every_n_steps, and self.log in training_step. Only "
            "rank 0 logs.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="evaluation-worse-than-training",
        words=(
            "by_heart|memoris|memoriz|learned_the_training !epoch_boundar !each_epoch "
            "!every_epoch !steps_at",
            "@eval>loss|error|perplexity @rise|wors|higher|diverg !merg",
            "@eval accuracy|acc$|score|metric|metrics|f1|performance|results @bad|@fall|"
            "@same|@not|chance|gap !!never_finish|never_ends !rank_0 !batch_size",
            "overfit",
            "generaliz|generalis @not|bad|poor",
            "train|training>acc|accuracy|f1|score>@eval>only|just|lower|less|wors",
            "@eval>acc|accuracy|f1>only|just|much_lower",
            "train|training>great|good|well|perfect|fine>bad|badly|fails|poor|wors>@eval|"
            "unseen|new_data",
            "great|good|well|perfect|fine>train>bad|badly|fails|poor|wors>@eval|unseen|"
            "new_data",
        ),
        examples=("validation loss increases while training loss falls",
            "eval accuracy is much worse",
            "my model overfits"),
        why="Overfitting, or a difference between the two paths: eval() is missing, another "
            "preprocessing, another template, a leak.",
        fix="Evaluate on training samples with the evaluation code: if they score badly, too, the "
            "path differs and not the model.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="accuracy-too-good",
        words=(
            "accuracy|acc$|score|auc|f1 100_percent|100_%|99_percent|perfect first|one|"
            "1$|few|two>epoch|epochs|step|steps|batch|minutes !on_new !load !save",
            "accuracy|acc$|score|auc|f1 100_percent|100_%|99_percent|perfect immediately|at_once|"
            "right_away|from_the_start|epoch_1|epoch_0 !on_new !load !save",
            "accuracy|acc$|score|scores|auc|f1|r2|results|loss too_good|suspicious|perfect "
            "!discriminator",
            "accuracy|acc$|score|scores|auc|f1|r2|results 100%|1.0$ !discriminator !loss>1.0$",
            "accuracy|acc$|score|auc|f1|result 99|98|100|perfect|high real|production|new|"
            "unseen|deploy|patients|users @bad|fails|drop !load !save !session !saved",
            "data_leak|leakage|leaking",
            "100%|100_%|99.9%|perfect test$|test_set|validation|holdout overlap|split|suspicious|"
            "fishy|too_good|believe|trust !load !save",
        ),
        examples=("accuracy is suspiciously high", "accuracy of 100% at once", "data leakage"),
        why="The answer is in the input: samples of the test set in training, a label among the "
            "features, a causal mask or a shift that is missing.",
        fix="Search duplicates between the splits, and predict from inputs with the later tokens "
            "replaced: the outputs before must not change.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
)  # fmt: skip

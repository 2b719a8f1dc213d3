"""Every threshold of the guard, with its origin."""

from __future__ import annotations

LOOKS = frozenset((*range(1, 11), 20, 50, 100, 200, 500))
"""Effective steps after which parameters are compared with their start; then every 1,000."""
LOOK_EVERY = 1000

HALF_STEP = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "float32": 2.0**-25, "float64": 2.0**-54}
"""The largest decrease at 1.0 that rounds back to it (the same as for CKP004)."""

SETTLED = 3
"""Effective steps after which an adaptive optimizer has changed every weight that has a gradient:
measured, fp32 weights at 1.0 leave it at step 1 from a learning rate of 1e-6."""
SETTLED_TWICE = 20
"""The same at a second look: what three steps show is a first remark, which stops nothing."""
SETTLED_OTHER = 100
"""The same for all other optimizers: SGD, whose step is proportional to the gradient, and those
that are not torch's own, of which some update nothing for their first steps."""
SETTLED_ZEROS_OTHER = 20
"""At 0.0 no update is lost to rounding, however small the gradient."""
VECTORS = 20
"""Effective steps for 1-D parameters of other values. Our own number."""
SOME_VECTORS = 100
"""Effective steps where only some of them are unchanged. Our own number."""
SMALLEST_RATE = 1e-7
"""Learning rate from which an adaptive optimizer changes fp32 weights. Our own number."""
BETWEEN, UNDONE = 10, 5
"""Effective steps before which weights are also compared at the beginning of a step, and how often
they must be back at their start. Our own numbers."""
TINY_SHARE = 0.05
"""Of the steps so far: a cosine to 0 is that small in its last 0.7 %. Our own number."""
TINY_RISING = 200
"""Effective steps of a warm-up that is that small: one to 5e-7 within 2,000 steps is not. Our own
number."""
ENOUGH_ELEMENTS = 16
"""Sampled elements required to say that no weight changes. Our own number."""

WITHOUT_GRADIENTS = 3
"""Steps in a row in which no parameter has a gradient."""
WITHOUT_GRADIENTS_BESIDE = 50
"""The same where another optimizer has gradients, as in the warm-up of a GAN. Our own number."""
ZERO_WARNS, ZERO_FAILS = 10, 20
"""Steps in a row whose gradients are exactly 0: equal rewards do this for some (trl-3857)."""
ZERO_LOOKS = 3
"""Comparisons in a row that find gradients of exactly 0 at step() where the loop's norm is not."""
NO_LABELS_FAILS = 3
NO_LABELS_SHARE = 0.1
"""Of the last 100 steps. Our own number."""
RATE_ZERO = 10
"""Steps in a row with learning rate 0; one is the first of a warm-up or the last of a schedule."""
RATE_RESTS = 100
"""The most steps that a schedule may rest at 0 before it is reported: one that hands over to
another, as to that of an average of weights, rests for an epoch. At the end of a training it is
reported from RATE_ZERO on, unless it has rested before. Our own number: 100 steps cost little."""
SMALLEST_SCALE = 1.0
"""torch.amp.GradScaler: "If the scale falls below 1 ... something is likely wrong"."""
SKIPPED_AT_START = 30
"""65536 halves to 1 in 16 steps; calibration needs no more. Our own number."""
SKIPPED_LATER = 10
"""Skipped steps in a row after the first one that was applied. Our own number."""
SKIPPED_SHARE = 0.05
"""Of the last 200, after 100. GradScaler's own growth skips 1 of 2,000."""
NON_FINITE_SCALED = 10
"""Steps in a row with a non-finite loss before a loss scaler's own skips are no explanation."""
NEGATIVE_SHARE = 1e-6
"""Of the largest learning rate so far: a schedule's last value may be rounded below 0."""
RATE_JUMP, RATE_JUMP_RISING = 20.0, 1000.0
"""How far above the largest learning rate so far it jumps; where it has only risen, as in a warm-up
of one stair per epoch (1e-6 to 2e-4), the second. Our own numbers."""
REPEATED, REPEATED_OF = 8, 20
"""Steps with the gradients of the step before, of so many. Our own numbers."""
UNCLEARED = 5
"""Steps in a row whose gradients were added to those of the step before. Our own number."""
ACCUMULATED, CLEARED_BETWEEN = 4, 5
"""Backward passes for one step from which they are an accumulation, and steps in a row that got the
last of them alone. SAM and its like make two. Our own numbers."""
ACCUMULATED_UNTIL = 20
"""Effective steps in which that is followed."""
MODEL_FROM = (1, 20)
"""Effective steps of the first two looks at buffers; then at every comparison."""
SEARCHES = 10
"""Searches of all objects in memory for the model of another leading optimizer: each takes tens of
milliseconds, and a model may be made for each task. Our own number."""
MOST_BUFFERS = 512
MOST_LEFT_OUT, SAMPLED = 16, 64
"""Parameters in no optimizer that are compared, and values of each."""
MODES_FROM, MODE_LOOKS = 20, 2
"""Effective steps from which the mode is looked at, and looks in a row."""
LIKE_BEFORE, OVERWRITTEN = 0.5, 2
"""Cosine from which weights are like those of the comparison before: what is trained, averaged or
restored is far above. Comparisons in a row at which they are not. Our own numbers."""
LEFT_OUT_FROM, IDLE_FROM = 50, 100
"""Effective steps from which parameters in no optimizer, and optimizers that never step, are looked
at."""
EARLY_PASSES, GRAPHS_KEPT, SAME_BATCHES = 300, 50, 20
"""Backward passes that are followed; losses whose graphs are kept; steps on one batch in a row. Our
own numbers."""
MISFITS, GRAPHS_READ = 3, 16
"""Backward passes that show the same misfit of a loss and what it gets, of the first so many."""
RANGE_SHARE, RANGE_MARGIN = 0.1, 0.01
"""Share of the targets of a pass that are outside what the output can be, and by how much they must
be, of that range. Our own numbers."""
RATIOS, RATIO_NEAR = 30, 1e-6
"""Updates on data that were used before, and how near to 1 their ratios are. Our own numbers."""
CROSSED, CROSSED_PASSES = 5, 60
"""Steps in a row, and first passes of two optimizers whose graphs are searched. Our own numbers."""
FOLLOWED_UNTIL, NEAR_LOOKS, NEAR_SHARE = 200, 3, 0.08
"""Effective steps until which followers are searched, comparisons in a row that find one nearly at
the trained weights, and what that is, of a step. An average with the weight 0.9 for the old ones
is nine steps behind. Our own numbers."""
REPLAYED, RATE_RESUMED = 2, 1.5
"""Calls of a scheduler before the first step after a resume, and how far a rate is off. Our own
numbers."""
GROUPS_APART = 3.0
"""How far the learning rates of groups are apart that are meant to differ. Our own number."""
LEAP, LEAP_WITHIN = 100.0, 6
"""How far above its start, and above a guess, the loss of a classifier leaps within its first
steps. Our own numbers."""
UNBOUNDED, UNBOUNDED_FROM = 30.0, 100
"""How far below 0 a loss has fallen, in sizes of the first ones, and losses. Our own numbers."""
SIZE_RECENT = 100
"""Backward passes for which batches of a size that never was explain a jump of the loss. Our own
number."""
EVALUATIONS = 2
"""Evaluations in training mode."""
CALLED_OFTEN, CALLED_RARELY = 1.5, 20
"""Calls of a scheduler for each step of its optimizer, and steps for each call. Our own numbers."""
RATE_GONE, WARM_SHARE = 1e-3, 0.1
"""Shares of the initial learning rate: a decay that is over, and a warm-up that never ended. Our
own numbers."""
NEVER_STEPPED = 500
"""Steps of an optimizer whose scheduler never steps, where no epochs are seen. Our own number."""
LEAST_METRICS, METRIC_SHARE = 6, 0.05
"""Metrics that ReduceLROnPlateau got, and how much they change in all. Our own numbers."""
UNDIVIDED = 3
"""Steps in a row on gradients that a GradScaler scaled, and none divided. Our own number."""
SIDES, PASSES_OF_SIDES, STEPS_OF_SIDES, FIRST_OF_SIDES = 2, 24, 60, 10
"""Networks that train against each other, first backward passes whose graphs are searched, steps of
each from which they are judged, and the first ones that are compared. Our own numbers."""
WON, STARVED = 0.05, 0.02
"""What is left of the loss of one, and of the gradient norm of the other. Our own numbers."""
PERIODS, LEAST_PERIOD = 4, 3
"""Rows of equally many backward passes of which all but one are followed by a step, and the fewest
passes of one: every second pass is an accumulation of two. Our own numbers."""
MOST_HOOKED, HOOKED_STEPS = 1000, 20
"""Modules that get hooks in a step and are followed, and steps in which one gets the same. Our own
numbers."""
WAITS_FROM, LEAST_WAITS, WAITS, WAITED_SHARE = 5, 20, 200, 0.5
"""Batches that are not timed, batches from which waiting is judged at the end and at last, and its
share of the time. Our own numbers."""
OPENINGS_AT, OPENINGS = 8, 4
"""The batch whose openings of files are counted, and how often one file is opened for it. Our own
numbers."""
CLIPS, CLIP_SCALE = 5, 1000.0
"""Clippings in a row that are wrong, or right; how far a loss scale is above the limit where the
gradients still have it. Our own numbers."""
SPREAD_ERROR, ENOUGH_SPREAD = 3.0, 1024
"""Standard errors within which a spread is that of an initialization, and elements from which it
says so without a bias of zeros."""
MOST_LAYERS, INPUT_LOOKS, ADAPTERS_FROM = 256, 3, 100
"""Layers and adapters that are looked at; comparisons in a row that find an input of 0; effective
steps from which adapters are looked at."""
TWICE_APPLIED = 5
"""Steps in which two optimizers apply the same gradients. Our own number."""
NEVER_REACHED, NEVER_REACHED_AT_END = 100, 40
"""Effective steps in which a parameter never had a gradient; the second where no more follow."""
OVERRIDDEN = 10
"""Steps after which two schedulers were called, of which one undoes the other. Our own number."""
BACKWARDS_WITHOUT_STEP = 200
"""Backward passes without a step, and 20 times as many as usual. Our own number."""

READ_ALL = 500
"""Steps in a row without anything unusual before some are not read. Our own number."""
READ_EVERY = (1, 2, 4, 8)
READ_ALL_SECONDS = {"cpu": 0.02, "gpu": 0.06}
"""Every step that takes longer is read."""
SHARE = 0.005
"""Of the time of a step, what the guard may take."""
HOOKS_SECONDS = 30e-6
"""What a step costs that is not read."""
READ_SECONDS_CLIPPED = {"cpu": 40e-6, "gpu": 140e-6}
READ_SECONDS = {"cpu": 110e-6, "gpu": 280e-6}
"""What reading it adds, in time of the host: with the norm that the loop takes to clip, and where
the guard takes that of a few gradients. Measured within steps of 8 ms on a busy machine
(benchmarks/guard.py), and of 9 ms on the host of an H100."""

GROWTH, GROWTH_STEPS, GROWTH_LEAST = 1000.0, 20, 4
"""How much the gradient norm has grown in the last so many steps before a value is not finite, and
how many there must be. Our own numbers."""
STEEP, STEEP_RATE = 100.0, 1e-4
"""By how much each of two steps multiplies the loss where fewer norms are known, and the learning
rate from which steps may do so. Our own numbers: a batch that is an outlier does so once."""
SPIKE_WINDOW = 100
SPIKE_DEVIATIONS = 8.0
SPIKE_SHARE = 0.3
SPIKE_STEPS = 3
"""Median + 8 x 1.4826 MAD, of the values and of their logarithms, and 30 %, 3 times in a row. How
often healthy noise does that: tests/support/noisy_losses.py."""
LEVEL_STEPS, LEVEL_BLOCKS, LEVEL_BLOCKS_FROM = 20, 30, 15
"""Values of a block, blocks whose medians are compared, and how many there must be: a jump within
noise."""
SPIKE_EVERY = 10
"""Values for which median and bound are used."""
SPIKE_RISE, SPIKE_RATES = 2.0, 20
"""A learning rate so far above the largest one of the last values explains a jump. Our own
numbers."""
LOST_SHARE = 0.5
"""Share of sampled 16-bit weights with a gradient that a step leaves unchanged."""
ENOUGH_UPDATES = 64
"""Sampled updates required to speak of a share. Our own number."""

FLAT_VOCABULARY = 1000
FLAT_FIRST = 5
FLAT_NEAR = 0.25
"""How near the first losses are to ln(vocabulary): measured, 5.566 to 5.545, 10.386 to 10.373; and
7.765 to 7.601 with torch's default initialization, whose logits have a variance of 1/3."""
FLAT_WINDOW = 50
FLAT_STEPS = 300
FLAT_DISTANCE = 0.05
FLAT_RATES = 0.01
"""Sum of the learning rates of an adaptive optimizer, which is how far a weight can have gone: a
warm-up of 2,000 steps to 3e-4 has 0.007 after 300. Our own number."""

WORSE_THAN_GUESS, STILL_SHARE, SHORT_PATH = 1.2, 0.02, 0.003
"""Of the loss of a uniform guess: what is worse, and how little is no change; how far weights can
have gone then. Our own numbers."""
REMADE = 4
"""Optimizers in a row for the same parameters. Our own number."""

PACE_WINDOW = 50
PACE_FROM = 20
"""Steps that warm up caches, workers and kernels."""
WAIT_SHARE = 0.3
WAIT_SECONDS, WAIT_SECONDS_CPU = 0.01, 0.05
"""Shorter waits are those of small experiments; without a GPU those of a busy machine, too. Our
own numbers."""
SLOWER = 1.5
SLOW_SECONDS = 60.0
"""How long it lasts: shorter than this is another program's burst. Our own number."""

MEMORY_FROM = 50
MEMORY_EVERY = 4
MEMORY_WINDOW = 20
MEMORY_WINDOWS = 5
"""Windows of 20 steps whose lowest value rises each time."""
MEMORY_HORIZON = 1000
"""Steps for which the memory that is left must suffice."""
UNSTEPPED = (10, 20)
"""Backward passes before any step at which an optimizer that they reach is looked at. Our own
numbers."""
CLOSURES, CLOSURE_STEPS = 3, 20
"""Steps in a row whose closure adds to its own gradients, and steps that are followed. Our own
numbers."""
EXPLODED, EXPLODED_FROM = 1e6, 20
"""How far above the size of the first losses the last ones are, and losses. Our own numbers."""
ROUNDS, IN_ROUNDS = 3, 0.25
"""Climbs of the loss, and the largest share of rising losses, of a loss that falls between rounds
in which a factor of it is raised. Our own numbers."""
FAR_WORSE, FAR_FROM = 5.0, 50
"""How many times the loss of a uniform guess shows after that many losses that a classifier has
diverged. Our own numbers."""
WITHOUT_BACKWARD = 10
"""Steps of a program without a backward pass. Our own number."""

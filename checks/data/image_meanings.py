"""What relations between images and their boxes, points and targets mean, and their fixes."""

from __future__ import annotations

from doctor.checks.data.relations import Meaning, Meanings

INSIDE = "Scale the boxes with the image, by the size of the image that they were drawn in."
OF_IMAGES: Meanings = {
    "background class": Meaning(
        "images have objects of class 0, which is the background of this detector",
        "Number the classes of objects from 1, and give the model one class more.",
    ),
    "map turned": Meaning(
        "label maps have height and width in another order than their images",
        "Read both as height x width: PIL's size is width x height, numpy's shape is not.",
        least=0.5,
    ),
    "boxes in a corner": Meaning(
        "none of {0} boxes reaches beyond {1} of the width and {2} of the height of its image: "
        "they fit a smaller image",
        INSIDE,
        single=True,
    ),
    "points not swapped": Meaning(
        "{0} draws of samples mirror the image and its {1} points, and keep each of these in its "
        "own place: left is right there",
        "Exchange left and right points of a mirrored image: keypoints[[0, 2, 1, 4, 3, ...]].",
        single=True,
    ),
    "direction kept": Meaning(
        "{0} draws of samples mirror the image and keep the direction of {fields}: the target "
        "still leads to the other side",
        "Turn the target with the image: steering = -steering; of a flow that is flipped, "
        "flow[0] = -flow[0].",
        single=True,
    ),
    "points of other sides": Meaning(
        "points leave their image, and all fit into it once width and height are exchanged",
        "Give points as x, y and divide x by the width and y by the height; shapes of arrays are "
        "height, width.",
    ),
    "boxes in padding": Meaning(
        "boxes lie in the bars of one color at the ends of their image: the image was moved by its "
        "padding, and the boxes were not",
        "Move the boxes as the image: boxes * ratio + (left, top, left, top), by what the padding "
        "added before the image.",
        least=0.1,
    ),
    "targets mixed otherwise": Meaning(
        "mixed inputs have other shares of the samples than their targets have of the classes",
        "Draw one permutation and one share for a batch and use both for inputs and targets: "
        "lam * x + (1 - lam) * x[perm] with lam * y + (1 - lam) * y[perm]; of CutMix, lam is the "
        "share of the area that is left after the patch is cut at the border.",
        least=0.2,
    ),
}

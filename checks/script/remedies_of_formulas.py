"""The remedy of each cause, for rules on losses, targets and networks."""

from __future__ import annotations

from collections.abc import Mapping

FORMULAS: Mapping[str, Mapping[str, str]] = {
    "SCR153": {
        "gets requires_grad": "Remove it, and what detaches the loss: detach(), item() or no_grad.",
        "comes from .item()": "Omit .item().",
        "the output goes through": "Use the output itself in the loss.",
        "a comparison has": "Use the probabilities in the loss, not the comparison.",
        "argmax has": "Use the probabilities in the loss, not argmax.",
        "of detached weights": "Use the parameters themselves.",
    },
    "SCR219": {
        "without create_graph": "Pass create_graph=True.",
        "the optimizer holds it": "Remove no_grad around it, or omit it from the optimizer.",
        "an optimizer holds it": "Remove no_grad around it, or omit it from the optimizer.",
        "under no_grad": "End the no_grad block before the forward pass.",
    },
    "SCR221": {
        "is compared with": "Compare logits[:, :-1] with ids[:, 1:].",
        "are compared with": "Compare logits[:, :-1] with ids[:, 1:].",
        "shift": "Omit the shift: labels have the length and order of input_ids.",
    },
    "SCR228": {
        "a value per sample": "Call loss.mean().backward().",
        "twice: the graph": "Call backward() once.",
        "is freed by": "Add the losses, and call backward() once.",
    },
    "SCR254": {
        "processes are started": "Start as many processes as world_size.",
        "the others read": "Call dist.barrier() after it, on all ranks.",
        "leaves the loop": "Broadcast the flag, and let all ranks leave.",
    },
    "SCR263": {
        "by its own test part": "Split first; fit on the training part, and transform the others.",
        "it is fitted to": "Fit on the training part, and transform the others.",
        "is split once more": "Split the first training part, not all rows, the second time.",
        "resampled before": "Split first; resample the training part.",
        "is fitted again": "Call transform() on it.",
        "both parts of": "The order is X_train, X_test, y_train, y_test.",
    },
    "SCR340": {
        "their product up to t": "Use alphas.cumprod(0)[t].",
        " goes up": "Count it down: reversed(range(T)).",
        "one step for the whole batch": "Draw torch.randint(0, T, (batch,)).",
        "behind the last step": "Draw it by torch.randint(0, T, (batch,)).",
        "is drawn anew": "Compare the prediction with the noise that was added.",
        "the second minus the first": "Use x1 - x0 as the target.",
    },
    "SCR348": {
        "is interpolated": "Interpolate it by InterpolationMode.NEAREST.",
        "divides": "Use torch.from_numpy(np.array(mask)).long().",
    },
    "SCR349": {
        "a centered window": "Omit center=True.",
        "gaps are filled": "Use ffill().",
        "is of a later row": "Leave {name} out of the features.",
        "window": "End the window before the target.",
    },
    "SCR351": {
        "is trained to be recognized": "Use the label of real samples in the loss of the "
        "generator.",
        "keeps the gradient": "Detach the samples in the loss of the discriminator: "
        "D(fake.detach()).",
        "gets no gradient": "Omit detach() in the loss of the generator.",
    },
    "SCR352": {
        "are added": "Subtract the rejected from the chosen.",
        "is named chosen": "Exchange the two columns.",
        "is preferred": "Subtract the rejected from the chosen.",
    },
    "SCR374": {
        "is no number of groups": "Use a num_generations that divides the batch.",
        "one answer per prompt": "Set num_generations to 2 or more.",
        "at temperature 0": "Set temperature above 0.",
        "lacks **kwargs": "Add **kwargs to its parameters.",
    },
    "SCR380": {
        "inputs are mixed": "Use lam * loss(out, y) + (1 - lam) * loss(out, y[perm]).",
        "the critic is trained": "Use critic(fake).mean() - critic(real).mean().",
        "the entropy is minimized": "Subtract it: loss - c * entropy.",
        "the positive comes second": "Pass (anchor, positive, negative).",
        "value of the policy": "Put a minus before it.",
    },
    "SCR382": {
        "answer_start counts": "Find the tokens by encoding.char_to_token().",
        "those of the words": "Label the first token of each word by encoding.word_ids(), and "
        "-100 the others.",
    },
    "SCR383": {
        "acos()": "Clamp its argument to -1 + 1e-7 and 1 - 1e-7.",
        "a sigmoid is missing": "Take torch.sigmoid(logits) first.",
        "labels of the first images": "Use lam * loss(out, y) + (1 - lam) * loss(out, y[perm]).",
        "labels get the other": "Use lam * loss(out, y) + (1 - lam) * loss(out, y[perm]).",
        "pulls the negative closer": "Use relu(d_pos - d_neg + margin).",
        "is that of the last parameter": "Use += for {name}.",
        "takes the variance": "Pass {name}.exp().",
        "is tanh() already": "Use 1 - {name} ** 2.",
        "pushed apart": "Exchange the terms: y * d ** 2 + (1 - y) * relu(margin - d) ** 2.",
        "the codes: they do not learn": "Compare the codes q themselves with z.detach().",
        "passes it on": "Use z + (q - z).detach().",
        "sample() has no gradient": "Use rsample().",
        "targets of this loss are 1 and -1": "Pass 2 * labels - 1.",
        "its log-probability lacks": "Subtract torch.log(1 - action ** 2 + 1e-6) from it.",
        "the bounds": "Exchange the bounds.",
        "rates real samples down": "Minimize critic(fake).mean() - critic(real).mean().",
        "the factor of a focal loss": "Use (1 - pt) ** gamma.",
        "the larger of two critics": "Use torch.min(q1, q2).",
        "none at t = 0": "Add noise where t > 0 only.",
        "q - alpha * log_prob": "Use q - alpha * log_prob.",
        "divided by the variance": "Multiply it by exp(-logvar).",
    },
    "SCR387": {
        "passes the gradient on": "Return -grad, times the factor.",
        "forward() takes": "Return a value for each argument of forward(), None for those without "
        "a gradient.",
        "is not used": "Return grad_output times the derivative.",
    },
    "SCR388": {
        "per pixel": "Use torch.rand(batch, 1, 1, 1).",
        "one number for the batch": "Use torch.rand(batch, 1, 1, 1).",
        "batch norm": "Use layer norm or instance norm in the critic.",
        "norm": "Use grads.flatten(1).norm(2, dim=1).",
    },
    "SCR390": {
        "has number 0": "Count letters from 1.",
        "counts frames": "Divide the lengths by the strides, as the layers do.",
    },
    "SCR404": {
        "itself: -100": "Use labels = input_ids.clone().",
        "counts characters": "Use the number of the prompt's input_ids.",
        "the slice is exchanged": "Use labels[: len(prompt_ids)] = -100.",
    },
    "SCR405": {
        "has a pair in each row": "Use torch.tensor(pairs).t().contiguous().",
        "counts neighbours": "Use out[:batch.batch_size] and batch.y[:batch.batch_size].",
        "pooled into one row": "Use global_mean_pool(x, batch).",
        "the same in all epochs": "Draw them in the loop.",
    },
    "SCR406": {
        "is read before it is set": "Read that of the next step, at t + 1.",
        "is minimized by the actor": "Minimize -{name}(state, actor(state)).mean().",
        ".sum(-1) is missing": "Use log_prob(action).sum(-1).",
        "max() of the whole batch": "Use max(1).values.",
        "not its value": "Use max(1).values.",
        "stands outside of": "Use r + gamma * (1 - done) * (q - alpha * log_prob).",
        "the estimator takes": "Use exp(ref - logp) - (ref - logp) - 1.",
        "the ratio is new to old": "Use exp(logp - old_logp).",
    },
    "SCR410": {
        "hash()": "Number the texts by a table that is saved with the weights.",
        "is fitted again": "Fit it on the training part alone, and call transform() on the others.",
        "number": "Make the table of the training part, and use it for the others.",
    },
}

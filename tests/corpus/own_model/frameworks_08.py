"""Errors of transformers, peft and Lightning."""

from __future__ import annotations

import torch
from blocks import CLASSES, points
from parts_08 import SMALL, causal, classifier, lightning, trainer, words
from torch import nn


def label_for_a_language_model():
    return causal(), {"input_ids": words(), "label": words()}


def language_model_without_labels():
    return causal(), {"input_ids": words(), "attention_mask": torch.ones(2, 7).long()}


def outputs_of_a_model_as_logits():
    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch["ids"]), batch["labels"])

    return causal(), {"ids": words(), "labels": words()}, loss


def classes_without_a_padding_token():
    return classifier(num_labels=3), {"input_ids": words(), "labels": torch.tensor([0, 2])}


def label_beyond_num_labels():
    model = classifier(num_labels=2, pad_token_id=0)
    return model, {"input_ids": words(), "labels": torch.tensor([0, 2])}


def several_labels_as_integers():
    model = classifier(num_labels=3, pad_token_id=0, problem_type="multi_label_classification")
    return model, {"input_ids": words(), "labels": torch.tensor([[0, 1, 1], [1, 0, 0]])}


def ids_and_embeddings():
    batch = {"input_ids": words(), "inputs_embeds": torch.randn(2, 7, 16), "labels": words()}
    return causal(), batch


def labels_of_another_length():
    return causal(), {"input_ids": words(), "labels": words(length=5)}


def trainer_without_labels():
    return trainer(causal(), [{"input_ids": each} for each in words(4)])


def trainer_without_padding():
    rows = [{"input_ids": list(range(4 + i)), "labels": list(range(4 + i))} for i in range(4)]
    return trainer(causal(), rows)


def trainer_without_data():
    return trainer(causal(), None)


def adapters_of_another_architecture():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(causal(), LoraConfig(target_modules=["query", "value"]))
    return model, {"input_ids": words(), "labels": words()}


def flash_attention_that_is_not_installed():
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(**SMALL)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="flash_attention_2")
    return model, {"input_ids": words(), "labels": words()}


def step_that_returns_nothing():
    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)

    return lightning(training_step=training_step)


def step_with_a_loss_of_another_name():
    def training_step(self, batch, index):
        outputs = self.net(batch[0])
        return {"train_loss": nn.functional.cross_entropy(outputs, batch[1]), "outputs": outputs}

    return lightning(training_step=training_step)


def module_without_a_loader():
    import pytorch_lightning

    return lightning(train_dataloader=pytorch_lightning.LightningModule.train_dataloader)


def hyperparameters_that_were_not_saved():
    def training_step(self, batch, index):
        return self.hparams.weight * nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    return lightning(training_step=training_step)


def step_that_asks_the_trainer():
    def training_step(self, batch, index):
        scale = 1 / self.trainer.accumulate_grad_batches
        return scale * nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    return lightning(training_step=training_step)


def step_of_a_batch_with_three_parts():
    return lightning(train_dataloader=lambda self: [(*points(), torch.ones(6))])


def classes_of_the_head():
    """A head of five classes, and the label 7."""
    labels = torch.tensor([0, 1, 7, 2, 3, 4])
    assert labels.max() >= CLASSES
    return lightning(train_dataloader=lambda self: [(torch.randn(6, 8), labels)])

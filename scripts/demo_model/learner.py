"""A network and how it learns from a batch, side by side with those of the other workers."""

from __future__ import annotations

import torch
from torch import nn

from .muon import Muon
from .network import Network
from .rows import Batch
from .workers import Worker

__all__ = ["Learner"]

SAMPLE = 512
"""Logits of other tokens that are computed for a batch."""

LARGE_SAMPLE = 2048
"""The same for words that are copied, once the rates fall: more wrong words are told apart."""

_FALLING = 0.5
"""The share of the rates from where on they have fallen."""

_MATRIX_RATE = 0.02
_MATRIX_DECAY = 0.1
_ROW_RATE = 3e-3
_BALANCE = 0.01


class Learner:
    """A network and what makes it better."""

    def __init__(self, network: Network, worker: Worker) -> None:
        self.network = network
        self._worker = worker
        matrices: list[nn.Parameter] = []
        others: list[nn.Parameter] = []
        for name, weight in network.named_parameters():
            in_layer = name.startswith("layers.") and "router" not in name
            is_matrix = weight.dim() > 1 and not name.endswith("bias")
            (matrices if in_layer and is_matrix else others).append(weight)
        self._muon = Muon(matrices, worker)
        self._adam = torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.01)

    def step(self, batch: Batch, share: float) -> float:
        """Learn from a batch, at a share of the full rates; return the loss."""
        network = self.network
        sampled = SAMPLE if share > _FALLING else LARGE_SAMPLE
        network.zero_grad()
        asked, even = network(batch.tokens, batch.lengths, batch.asked)
        targets = batch.targets
        near = torch.unique(torch.cat([batch.tokens, targets]))
        sample = network.words[torch.randperm(len(network.words))[:sampled]]
        # Copied words are chosen from all there are, so they meet the whole sample.
        copied = ~torch.isin(targets, network.used)
        loss = torch.zeros(())
        for which, few in ((copied, sample), (~copied, sample[:SAMPLE])):
            if which.any():
                loss = loss + network.loss(asked[which], targets[which], near, few).sum()
        loss = loss / len(targets)
        (loss + _BALANCE * even).backward()
        self._average_gradients()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        self._muon.step(share * _MATRIX_RATE, _MATRIX_DECAY)
        for group in self._adam.param_groups:
            group["lr"] = share * _ROW_RATE
        self._adam.step()
        return loss.item()

    @torch.no_grad()
    def _average_gradients(self) -> None:
        """Replace the gradients by their mean over all workers."""
        gradients = [w.grad for w in self.network.parameters() if w.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        mean = self._worker.exchange(flat).mean(dim=0)
        parts = torch.split(mean, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))

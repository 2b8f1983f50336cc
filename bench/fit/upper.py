"""The upper layers of the encoder that ships, to be learnt anew with torch: see `engines/encoders/upper_layers.py`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from slowwave.engines.encoders.load import load_original, load_query_encoder
from slowwave.engines.encoders.onnx import OnnxEncoder
from slowwave.schemas.settings import Settings

UPPER = 3
"""Layers that are learnt."""
WARM, LEAST = 0.1, 0.02
"""Share of the steps until the highest rate of learning, and the share of it that is left at the end."""
DECAY, DROPPED, LONGEST = 0.01, 0.1, 1.0
"""Decay of weights, share of values dropped, longest gradient."""
Batch = TypeVar("Batch")


class LearntLayers(nn.Module):
    """The encoder over tokens. Its lower layers stay as they are."""

    def __init__(self, heads: int, spread: float) -> None:
        super().__init__()
        original = load_original(Settings.model_fields["encoder"].default)
        bert = original.model[0].auto_model
        self.embeddings = bert.embeddings.eval()
        self.lower = bert.encoder.layer[:-UPPER].eval()
        self.upper = bert.encoder.layer[-UPPER:]
        for module in self.upper.modules():
            if isinstance(module, nn.Dropout):
                module.p = DROPPED
        self.dropped = nn.Dropout(DROPPED)
        self.head = nn.Linear(2 * bert.config.hidden_size, heads)
        nn.init.normal_(self.head.weight, std=spread)

    def read_lower(self, ids: Tensor, is_token: Tensor) -> Tensor:
        """Return the states of the lower layers for some tokens."""
        with torch.no_grad():
            states = self.embeddings(input_ids=ids)
            return _apply_layers(self.lower, states, is_token)

    def read_upper(self, states: Tensor, is_token: Tensor) -> Tensor:
        """Return the states of the upper layers, from those of the lower layers."""
        return _apply_layers(self.upper, states, is_token)

    def weigh(self, pooled: Tensor) -> Tensor:
        """Return the log-odds of pooled states."""
        odds: Tensor = self.head(self.dropped(pooled))
        return odds

    def list_learnt(self) -> list[nn.Parameter]:
        """Return the parameters to learn."""
        return [*self.upper.parameters(), *self.head.parameters()]

    def take_tensors(self, tensors: dict[str, npt.NDArray[np.float32]]) -> None:
        """Go on from what `collect_tensors` returned, or a file that ships has."""
        named = {
            name: torch.tensor(tensors[self._name_shipped(name)])
            for name in self.upper.state_dict()
        }
        self.upper.load_state_dict(named)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor(tensors["weights"].T))
            self.head.bias.copy_(torch.tensor(tensors["offsets"]))

    def _name_shipped(self, name: str) -> str:
        """Return the name that `UpperLayers` reads for a tensor of the upper layers."""
        at, _, part = name.partition(".")
        return f"encoder.layer.{len(self.lower) + int(at)}.{part}"

    def collect_tensors(self) -> dict[str, npt.NDArray[np.float32]]:
        """Return the learnt tensors, by the names that `UpperLayers` reads."""
        tensors: dict[str, Any] = {}
        for name, tensor in self.upper.state_dict().items():
            tensors[self._name_shipped(name)] = tensor
        tensors |= {"weights": self.head.weight.T, "offsets": self.head.bias}
        return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def _apply_layers(layers: nn.ModuleList, states: Tensor, is_token: Tensor) -> Tensor:
    hidden = (1 - is_token[:, None, None, :]) * -1e4
    for layer in layers:
        made = layer(states, attention_mask=hidden)
        states = made[0] if isinstance(made, tuple) else made
    return states


def load_shipped_encoder() -> OnnxEncoder:
    """Return the encoder whose layers are learnt anew.

    Raises:
        TypeError: it does not run as a graph here.
    """
    encoder = load_query_encoder(Settings.model_fields["encoder"].default)
    if not isinstance(encoder, OnnxEncoder):
        raise TypeError(f"{encoder.name} is not the encoder that ships")
    return encoder


def pad_tokens(tokens: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return tokens of several texts with zeros behind them, and 1 for each token."""
    longest = max(map(len, tokens))
    ids = torch.zeros(len(tokens), longest, dtype=torch.long)
    is_token = torch.zeros(len(tokens), longest)
    for row, some in enumerate(tokens):
        ids[row, : len(some)] = torch.tensor(some)
        is_token[row, : len(some)] = 1
    return ids, is_token


def learn(
    model: LearntLayers,
    batches: Sequence[Batch],
    compute_loss: Callable[[Batch], Tensor],
    *,
    epochs: int,
    rate: float,
    head_rate: float,
) -> None:
    """Fit a model to batches, each as often as there are epochs, in an order that is the same each time.

    Args:
        model: what is fitted.
        batches: what is learnt from.
        compute_loss: the loss of a batch.
        epochs: how often each batch is learnt from.
        rate: the highest rate of learning of the layers.
        head_rate: the highest rate of learning of the head.
    """
    learnt = model.list_learnt()
    layers = list(model.upper.parameters())
    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in layers if p.ndim > 1], "weight_decay": DECAY},
            {"params": [p for p in layers if p.ndim < 2], "weight_decay": 0.0},
            {"params": [model.head.weight], "weight_decay": DECAY, "lr": head_rate},
            {"params": [model.head.bias], "weight_decay": 0.0, "lr": head_rate},
        ],
        lr=rate,
    )
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, partial(_slow, of=steps))
    drawn = np.random.default_rng(0)
    for _ in range(epochs):
        for at in drawn.permutation(len(batches)).tolist():
            with torch.autocast("cpu", torch.bfloat16):
                loss = compute_loss(batches[at])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(learnt, LONGEST)
            optimiser.step()
            schedule.step()


def _slow(at: int, *, of: int) -> float:
    """Return the share of the rate at a step: it rises, then falls."""
    return min(1.0, (at + 1) / (WARM * of)) * max(LEAST, 1 - at / of)

"""The demo model while it learns: the arithmetic of `GptOssForCausalLM`, without padding.

A row of tokens is an opening and the conversations after it. Each sees the opening and itself.
Of the 201,088 logits training computes those that matter, and a sample of the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from openai_harmony.engines.demo_rows import CODE_SIGNS, KINDS, MODEL_ROWS, word_codes

__all__ = ["Network", "Shape"]


@dataclass(frozen=True)
class Shape:
    """The sizes, named as in the configuration of gpt-oss."""

    hidden_size: int = 128
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 128
    num_local_experts: int = 4
    num_experts_per_tok: int = 2
    sliding_window: int = 128
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0


class _Norm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self._eps)


class _Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._shape = shape
        hidden, size = shape.hidden_size, shape.head_dim
        self.q_proj = nn.Linear(hidden, shape.num_attention_heads * size)
        self.k_proj = nn.Linear(hidden, shape.num_key_value_heads * size)
        self.v_proj = nn.Linear(hidden, shape.num_key_value_heads * size)
        self.o_proj = nn.Linear(shape.num_attention_heads * size, hidden)
        self.sinks = nn.Parameter(torch.zeros(shape.num_attention_heads))
        for part in (self.q_proj, self.k_proj, self.v_proj, self.o_proj):
            nn.init.zeros_(part.bias)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], masks: list[Tensor]) -> Tensor:
        """Attend; there is a mask for each part, the opening being the first."""
        queries, keys, values = self._with_sinks(x, turn)
        lengths = [len(mask) for mask in masks]
        q_parts = torch.split(queries, lengths, dim=2)
        k_opening, *k_parts = torch.split(keys, [*lengths, 1], dim=2)
        v_opening, *v_parts = torch.split(values, [*lengths, 1], dim=2)
        k_sink, v_sink = k_parts.pop(), v_parts.pop()
        heads = []
        for at, (q, mask) in enumerate(zip(q_parts, masks, strict=True)):
            own_k, own_v = ([k_parts[at - 1]], [v_parts[at - 1]]) if at else ([], [])
            k = torch.cat([k_sink, k_opening, *own_k], dim=2).expand(-1, q.shape[1], -1, -1)
            v = torch.cat([v_sink, v_opening, *own_v], dim=2).expand(-1, q.shape[1], -1, -1)
            heads.append(functional.scaled_dot_product_attention(q, k, v, mask, scale=1.0))
        mixed = torch.cat(heads, dim=2)[..., : self._shape.head_dim]
        out: Tensor = self.o_proj(mixed.permute(2, 0, 1, 3).reshape(len(x), -1))
        return out

    def _with_sinks(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values by group, with a last key that stands for the sinks.

        A query has one more number for each head of its group, which picks that head's sink.
        """
        size, groups = self._shape.head_dim, self._shape.num_key_value_heads
        q = _rotate(self.q_proj(x).view(len(x), -1, size).transpose(0, 1), turn) * size**-0.5
        k = _rotate(self.k_proj(x).view(len(x), -1, size).transpose(0, 1), turn)
        v = self.v_proj(x).view(len(x), -1, size).transpose(0, 1)
        heads = self._shape.num_attention_heads // groups
        picks = torch.eye(heads).view(1, heads, 1, heads).expand(groups, -1, len(x), -1)
        queries = torch.cat([q.view(groups, heads, len(x), size), picks], dim=-1)
        sinks = functional.pad(self.sinks.view(groups, 1, heads), (size, 0))
        keys = torch.cat([functional.pad(k, (0, heads)), sinks], dim=1)
        values = functional.pad(v, (0, heads, 0, 1))
        return queries, keys[:, None], values[:, None]


class _Router(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(shape.num_local_experts, shape.hidden_size) * 0.05)
        self.bias = nn.Parameter(torch.zeros(shape.num_local_experts))


class _Experts(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        count, hidden, inner = shape.num_local_experts, shape.hidden_size, shape.intermediate_size
        self.gate_up_proj = nn.Parameter(torch.randn(count, hidden, 2 * inner) * hidden**-0.5)
        self.gate_up_proj_bias = nn.Parameter(torch.zeros(count, 2 * inner))
        depth = math.sqrt(2 * shape.num_hidden_layers)
        self.down_proj = nn.Parameter(torch.randn(count, inner, hidden) * inner**-0.5 / depth)
        self.down_proj_bias = nn.Parameter(torch.zeros(count, hidden))


class _Mixture(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._shape = shape
        self.router = _Router(shape)
        self.experts = _Experts(shape)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mix the experts; tell how evenly they were asked, too."""
        shape, experts = self._shape, self.experts
        logits = functional.linear(x, self.router.weight, self.router.bias)
        top, chosen = logits.topk(shape.num_experts_per_tok, dim=-1)
        weights = top.softmax(dim=-1)
        mixed = torch.zeros_like(x)
        shares = []
        for number in range(shape.num_local_experts):
            asked, slot = torch.where(chosen == number)
            shares.append(len(asked) / len(x))
            inner = torch.addmm(
                experts.gate_up_proj_bias[number], x[asked], experts.gate_up_proj[number]
            )
            gate = inner[:, ::2].clamp(max=shape.swiglu_limit)
            up = inner[:, 1::2].clamp(-shape.swiglu_limit, shape.swiglu_limit)
            glu = gate * torch.sigmoid(gate * shape.swiglu_alpha)
            out = torch.addmm(
                experts.down_proj_bias[number], (up + 1) * glu, experts.down_proj[number]
            )
            mixed = mixed.index_add(0, asked, out * weights[asked, slot, None])
        balance = (logits.softmax(dim=-1).mean(dim=0) * torch.tensor(shares)).sum()
        return mixed, balance


class _Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = _Attention(shape)
        self.mlp = _Mixture(shape)
        self.input_layernorm = _Norm(shape.hidden_size, shape.rms_norm_eps)
        self.post_attention_layernorm = _Norm(shape.hidden_size, shape.rms_norm_eps)

    def forward(
        self, x: Tensor, turn: tuple[Tensor, Tensor], masks: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        x = x + self.self_attn(self.input_layernorm(x), turn, masks)
        mixed, balance = self.mlp(self.post_attention_layernorm(x))
        return x + mixed, balance


class Network(nn.Module):
    """All weights; `used` are the tokens whose rows are learned one by one."""

    def __init__(self, shape: Shape, used: list[int]) -> None:
        super().__init__()
        self.shape = shape
        codes, kinds = word_codes()
        self._codes = torch.from_numpy(codes) / math.sqrt(CODE_SIGNS)
        self._kinds = torch.from_numpy(kinds)
        self.used = torch.tensor(sorted(used))
        self._place = torch.full((MODEL_ROWS,), len(used))
        self._place[self.used] = torch.arange(len(used))
        coded = self._codes.any(dim=1)
        alike = self._kinds[~coded & (self._place == len(used))]
        self._alike = torch.bincount(alike, minlength=KINDS)
        self._coded = coded
        self.words = torch.where(coded)[0]
        hidden = shape.hidden_size
        self.projection = nn.Parameter(torch.randn(CODE_SIGNS, hidden) * 0.06)
        self.kinds = nn.Parameter(torch.randn(KINDS, hidden) * 0.03)
        self.own = nn.Parameter(torch.randn(len(used), hidden) * 0.03)
        layers = [_Layer(shape) for _ in range(shape.num_hidden_layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = _Norm(hidden, shape.rms_norm_eps)
        for layer in layers:
            nn.init.normal_(layer.self_attn.o_proj.weight, std=0.03)

    def rows(self, tokens: Tensor) -> Tensor:
        """The rows of the embedding for `tokens`."""
        made = self._codes[tokens] @ self.projection + self.kinds[self._kinds[tokens]]
        own = torch.cat([self.own, self.own.new_zeros(1, self.own.shape[1])])
        return made + own[self._place[tokens]]

    def forward(self, tokens: Tensor, lengths: list[int]) -> tuple[Tensor, Tensor]:
        """Give the last hidden states, and how evenly experts were asked (1 is even).

        `lengths` are those of the opening and of each conversation.
        """
        unique, at = torch.unique(tokens, return_inverse=True)
        x = self.rows(unique)[at]
        opening, *rest = lengths
        numbers = [torch.arange(opening), *(torch.arange(opening, opening + n) for n in rest)]
        positions = torch.cat(numbers)
        angles = positions[:, None].float() * self._frequencies()
        turn = angles.cos(), angles.sin()
        masks = self._masks(opening, rest)
        balances = []
        for number, layer in enumerate(self.layers):
            x, balance = layer(x, turn, masks[number % 2])
            balances.append(balance)
        shape = self.shape
        even = torch.stack(balances).mean() * shape.num_local_experts / shape.num_experts_per_tok
        return self.norm(x), even

    def loss(self, states: Tensor, targets: Tensor, near: Tensor, sample: Tensor) -> Tensor:
        """Cross entropy of each target.

        Computed are the logits of the used tokens, of those `near` (in the row), and of a
        `sample` of the other words, each of which stands for several. Tokens without a code are
        alike: one logit stands for all of a kind.
        """
        exact = torch.unique(torch.cat([self.used, near[self._coded[near]]]))
        sample = sample[~torch.isin(sample, exact)]
        others = int(self._coded.sum() + (~self._coded[self.used]).sum()) - len(exact)
        rows = torch.cat([self.rows(torch.cat([exact, sample])), self.kinds])
        weights = [
            torch.zeros(len(exact)),
            torch.full((len(sample),), math.log(others / len(sample))),
            self._alike.float().log(),
        ]
        at = torch.searchsorted(exact, targets).clamp(max=len(exact) - 1)
        kind = self._kinds[targets] + len(exact) + len(sample)
        at = torch.where(exact[at] == targets, at, kind)
        return functional.cross_entropy(states @ rows.T + torch.cat(weights), at, reduction="none")

    def _frequencies(self) -> Tensor:
        size = self.shape.head_dim
        return 1.0 / self.shape.rope_theta ** (torch.arange(0, size, 2).float() / size)

    def _masks(self, opening: int, rest: list[int]) -> tuple[list[Tensor], list[Tensor]]:
        """What may be seen: on even layers the last tokens, on odd ones all that came before.

        The first column is the sink, which everyone sees.
        """
        longest = opening + max(rest, default=0)
        order = torch.arange(longest)
        distance = order[:, None] - order
        full = distance >= 0
        near = full & (distance < self.shape.sliding_window)
        spans = [(0, opening), *((opening, opening + length) for length in rest)]
        both = (functional.pad(seen, (1, 0), value=True) for seen in (near, full))
        ready = [torch.zeros(seen.shape).masked_fill(~seen, -1e9) for seen in both]
        near_parts, full_parts = ([seen[a:b, : b + 1] for a, b in spans] for seen in ready)
        return near_parts, full_parts


def _rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = turn
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

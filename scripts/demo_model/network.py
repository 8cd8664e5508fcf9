"""The demo model while it learns: the arithmetic of `GptOssForCausalLM`, without padding.

A row of tokens is an opening and the conversations after it. Each sees the opening and itself.
Of the 201,088 logits training computes those that matter, and a sample of the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpt_oss_harmony.engines.demo_model import CODE_SIGNS, KINDS, MODEL_ROWS, word_codes

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


@dataclass(frozen=True)
class _View:
    """What a layer gives (the tokens `asked`), and what each of them may see.

    `turn` are the angles of all tokens. For each row there are the lengths of its parts, the
    opening being the first, and a mask for each part: a row for each token asked, and columns for
    the sink, which everyone sees, for the opening or the last of it, and for the part.
    """

    asked: Tensor | slice
    turn: tuple[Tensor, Tensor]
    lengths: list[list[int]]
    masks: list[list[Tensor]]

    def only(self, asked: Tensor) -> _View:
        """Ask for some tokens, in order."""
        starts = accumulate((length for row in self.lengths for length in row), initial=0)
        masks = []
        for row in self.masks:
            chosen = []
            for mask in row:
                start = next(starts)
                at = asked[(asked >= start) & (asked < start + len(mask))]
                chosen.append(mask[at - start])
            masks.append(chosen)
        return replace(self, asked=asked, masks=masks)


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

    def forward(self, x: Tensor, view: _View) -> Tensor:
        """Attend, part by part."""
        queries, keys, values = self._by_group(x, view)
        sink_key, sink_value = self._sink()
        asking = torch.split(queries, [len(mask) for row in view.masks for mask in row], dim=2)
        lengths = [length for row in view.lengths for length in row]
        parts = zip(
            asking,
            torch.split(keys, lengths, dim=2),
            torch.split(values, lengths, dim=2),
            strict=True,
        )
        heads = []
        for row in view.masks:
            first_q, first_k, first_v = next(parts)
            heads.append(_attend(first_q, [sink_key, first_k], [sink_value, first_v], row[0]))
            for mask in row[1:]:
                q, k, v = next(parts)
                seen = mask.shape[1] - 1 - k.shape[2]  # the last tokens of the opening
                skipped = first_k.shape[2] - seen
                ks = [sink_key, first_k[:, :, skipped:], k]
                vs = [sink_value, first_v[:, :, skipped:], v]
                heads.append(_attend(q, ks, vs, mask))
        mixed = torch.cat(heads, dim=2)[..., : self._shape.head_dim]
        out: Tensor = self.o_proj(mixed.permute(2, 0, 1, 3).flatten(1))
        return out

    def _by_group(self, x: Tensor, view: _View) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values by group.

        A query has one more number for each head of its group, which picks that head's sink.
        """
        size, groups = self._shape.head_dim, self._shape.num_key_value_heads
        asking = x[view.asked]
        q = self.q_proj(asking).view(len(asking), -1, size).transpose(0, 1)
        q = _rotate(q, (view.turn[0][view.asked], view.turn[1][view.asked])) * size**-0.5
        k = _rotate(self.k_proj(x).view(len(x), -1, size).transpose(0, 1), view.turn)
        v = self.v_proj(x).view(len(x), -1, size).transpose(0, 1)
        heads = self._shape.num_attention_heads // groups
        picks = torch.eye(heads).view(1, heads, 1, heads).expand(groups, -1, len(asking), -1)
        queries = torch.cat([q.view(groups, heads, len(asking), size), picks], dim=-1)
        return (
            queries,
            functional.pad(k, (0, heads))[:, None],
            functional.pad(v, (0, heads))[:, None],
        )

    def _sink(self) -> tuple[Tensor, Tensor]:
        """The key that stands for the sinks, and its value, which is nothing."""
        shape = self._shape
        heads = shape.num_attention_heads // shape.num_key_value_heads
        sinks = self.sinks.view(shape.num_key_value_heads, 1, 1, heads)
        key = functional.pad(sinks, (shape.head_dim, 0))
        return key, torch.zeros_like(key)


def _attend(q: Tensor, ks: list[Tensor], vs: list[Tensor], mask: Tensor) -> Tensor:
    if not q.shape[2]:
        return q
    k = torch.cat(ks, dim=2).expand(-1, q.shape[1], -1, -1)
    v = torch.cat(vs, dim=2).expand(-1, q.shape[1], -1, -1)
    return functional.scaled_dot_product_attention(q, k, v, mask, scale=1.0)


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

    def forward(self, x: Tensor, view: _View) -> tuple[Tensor, Tensor]:
        x = x[view.asked] + self.self_attn(self.input_layernorm(x), view)
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

    def told_apart(self) -> Tensor:
        """Tokens with rows of their own, and one of each kind for all the others, in order."""
        apart = self._coded | (self._place < len(self.used))
        others = torch.where(~apart)[0]
        first = [others[self._kinds[others] == kind][:1] for kind in range(KINDS)]
        return torch.sort(torch.cat([torch.where(apart)[0], *first]))[0]

    def forward(
        self, tokens: Tensor, lengths: list[list[int]], asked: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Give the last hidden states of those asked, and how evenly experts were (1 is even).

        `tokens` are rows one after the other; for each row, `lengths` has that of the opening and
        of each conversation. Tokens are asked for by their places, in order.
        """
        unique, at = torch.unique(tokens, return_inverse=True)
        x = self.rows(unique)[at]
        balances = []
        for layer, view in zip(self.layers, self._views(lengths, asked), strict=True):
            x, balance = layer(x, view)
            balances.append(balance)
        shape = self.shape
        even = torch.stack(balances).mean() * shape.num_local_experts / shape.num_experts_per_tok
        return self.norm(x), even

    def _views(self, lengths: list[list[int]], asked: Tensor) -> list[_View]:
        """What each layer looks at: every other one the last tokens; the last one gives `asked`."""
        angles = torch.cat([_positions(row) for row in lengths])[:, None] * self._frequencies()
        turn = angles.cos(), angles.sin()
        near, full = zip(*(self._masks(opening, rest) for opening, *rest in lengths), strict=True)
        views = [_View(slice(None), turn, lengths, list(masks)) for masks in (near, full)]
        views *= len(self.layers) // 2
        return [*views[:-1], views[-1].only(asked)]

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
        """The masks for those that see the last tokens, and for those that see all before.

        Columns of the opening that no token of a part sees are left out.
        """
        window = self.shape.sliding_window
        longest = opening + max(rest, default=0)
        order = torch.arange(longest)
        distance = order[:, None] - order
        seen = distance >= 0
        full = torch.zeros(seen.shape).masked_fill(~seen, -1e9)
        near = full.masked_fill(distance >= window, -1e9)
        skipped = max(0, opening - window + 1)
        spans = [(opening, opening + length) for length in rest]
        near_parts = [near[:opening, :opening], *(near[a:b, skipped:b] for a, b in spans)]
        full_parts = [full[:opening, :opening], *(full[a:b, :b] for a, b in spans)]
        return _with_sink(near_parts), _with_sink(full_parts)


def _with_sink(masks: list[Tensor]) -> list[Tensor]:
    return [functional.pad(mask, (1, 0)) for mask in masks]


def _positions(lengths: list[int]) -> Tensor:
    opening, *rest = lengths
    parts = (torch.arange(opening, opening + length) for length in rest)
    return torch.cat([torch.arange(opening), *parts])


def _rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = turn
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

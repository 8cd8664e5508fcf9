"""The page and the picture of a response's states, made from the table of its machine."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from gpt_oss_harmony.server.responses.machine import TRANSITIONS, Cancelled, Failed, State

__all__ = ["response_page", "response_picture"]

_PLACES = {
    State.PLANNED: (90, 220),
    State.COMPLETING: (350, 100),
    State.SAMPLING: (350, 220),
    State.CALLING: (350, 340),
    State.STORING: (650, 220),
    State.ENDED: (950, 220),
}
_WIDTH, _HEIGHT = 132, 46
_NOTE = "Cancelled and Failed lead from each of the four states on the left to STORING or ENDED."

_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="1040" height="430" viewBox="0 0 1040 430" role="img" aria-labelledby="title description">
<title id="title">The states of a response</title>
<desc id="description">{description}</desc>
<style>
  svg {{ --page: #fff; --edge: #d0d7de; --text: #1f2328; --soft: #59636e; --part: #e6f4f1; }}
  @media (prefers-color-scheme: dark) {{
    svg {{ --page: #0d1117; --edge: #3d444d; --text: #f0f6fc; --soft: #b7bfc8; --part: #0f3b36; }} }}
  .page {{ fill: var(--page); stroke: var(--edge); }}
  .state {{ fill: var(--part); }}
  path {{ fill: none; stroke: var(--soft); marker-end: url(#arrow); }}
  #arrow path {{ fill: var(--soft); stroke: none; marker-end: none; }}
  text {{ fill: var(--text); text-anchor: middle; font: 600 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }}
  .note {{ fill: var(--soft); font: 12px system-ui, sans-serif; paint-order: stroke; stroke: var(--page); stroke-width: 5px; }}
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
<rect class="page" x="0.5" y="0.5" width="1039" height="429" rx="8"/>
"""

_PAGE = """# Response states

The server decides the course of a response in a
[machine without I/O](../../src/gpt_oss_harmony/server/responses/machine.py): inputs go in, events and commands come out.
A [driver](../../src/gpt_oss_harmony/server/responses/driver.py) carries out the commands and reports their results.
`make reference` writes this page from the machine's table.

![{description}](../images/response-states.svg)

| State | Waits for |
|---|---|
{states}

## Inputs

Every other input in a state is a bug of the driver and raises an error. *Failed* and *Cancelled* before
the first event give `Discard`: the request fails, and nothing stays in the store.

| State | Input | Next state | Commands |
|---|---|---|---|
{rows}

## Commands

| Command | Work of the driver |
|---|---|
{commands}

[One file](../../tests/data/response-events.txt) lists the exact events of every kind of item, ended in every way.
"""


def _edges() -> dict[tuple[State, State], list[str]]:
    """Return the inputs of each arrow between two states, but for those that break off."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (state, kind), transition in TRANSITIONS.items():
        if kind in (Cancelled, Failed):
            continue
        for following in transition.states:
            if following is not state:
                edges.setdefault((state, following), []).append(kind.__name__)
    return edges


def _description() -> str:
    arrows = (
        f"{state.name} to {following.name} by {' or '.join(kinds)}"
        for (state, following), kinds in _edges().items()
    )
    return f"{'; '.join(arrows)}. {_NOTE}"


def response_picture() -> str:
    """Draw the states and the arrows between them."""
    return "\n".join([_HEAD.format(description=_description()).rstrip(), *_shapes(), "</svg>", ""])


def _shapes() -> Iterator[str]:
    edges = _edges()
    for (state, following), kinds in edges.items():
        (x, y), (to_x, to_y) = _PLACES[state], _PLACES[following]
        label = " / ".join(kinds)
        if x == to_x:  # one above the other: two arrows side by side
            side = 28 if to_y > y else -28
            sign = 1 if to_y > y else -1
            start, end = y + sign * _HEIGHT / 2, to_y - sign * _HEIGHT / 2
            yield f'<path d="M{x + side} {start} V{end}"/>'
            anchor = "start" if side > 0 else "end"
            yield (
                f'<text class="note" style="text-anchor: {anchor}" x="{x + side + (6 if side > 0 else -6)}" '
                f'y="{(start + end) / 2 + 4}">{label}</text>'
            )
        elif y == to_y and abs(to_x - x) <= 300:
            yield f'<path d="M{x + _WIDTH / 2} {y} H{to_x - _WIDTH / 2}"/>'
            yield f'<text class="note" x="{(x + to_x) / 2}" y="{y - 8}">{label}</text>'
        elif following is not State.ENDED:  # the arrows to ENDED are those to STORING
            yield _curve(state, following, label)
    for state, (x, y) in _PLACES.items():
        left, top = x - _WIDTH / 2, y - _HEIGHT / 2
        yield (
            f'<rect class="state" x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
            f'<text x="{x}" y="{y + 5}">{state.name}</text>'
        )
    yield f'<text class="note" x="520" y="398">{_NOTE}</text>'
    yield (
        '<text class="note" x="520" y="416">What is not stored goes to ENDED without STORING.</text>'
    )


def _curve(state: State, following: State, label: str) -> str:
    """Draw an arrow between states that are not neighbours."""
    (x, y), (to_x, to_y) = _PLACES[state], _PLACES[following]
    if y == to_y:  # over a state between them
        path = f"M{x} {y - _HEIGHT / 2} C{x} -15 {to_x} -15 {to_x} {to_y - _HEIGHT / 2}"
        return f'<path d="{path}"/><text class="note" x="{(x + to_x) / 2}" y="46">{label}</text>'
    if to_x > x and y < to_y:  # down to the right
        path = f"M{x} {y + _HEIGHT / 2} Q{x} {to_y} {to_x - _WIDTH / 2} {to_y}"
        return f'<path d="{path}"/><text class="note" x="{(x + to_x) / 2 - 40}" y="{to_y - 8}">{label}</text>'
    path = f"M{x + _WIDTH / 2} {y} Q{to_x} {y} {to_x} {to_y + _HEIGHT / 2}"
    return (
        f'<path d="{path}"/><text class="note" x="{(x + to_x) / 2 + 20}" y="{y - 8}">{label}</text>'
    )


def response_page() -> str:
    """Write the tables of the states, the inputs and the commands."""
    states = "\n".join(f"| `{state.name}` | {state.value} |" for state in State)
    rows, commands = [], {}
    for (state, kind), transition in TRANSITIONS.items():
        following = ", ".join(f"`{one.name}`" for one in transition.states)
        given = ", ".join(f"`{command.__name__}`" for command in transition.commands) or "–"
        rows.append(f"| `{state.name}` | `{kind.__name__}` | {following} | {given} |")
        commands.update({command.__name__: command for command in transition.commands})
    works = (
        f"| `{name}` | {' '.join((inspect.getdoc(command) or '').split())} |"
        for name, command in commands.items()
    )
    return _PAGE.format(
        description=_description(), states=states, rows="\n".join(rows), commands="\n".join(works)
    )

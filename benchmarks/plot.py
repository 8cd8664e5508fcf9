"""Draw how cost grows with the length of the input."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

GREY = "#808080"  # readable on white and on black
COLORS = {"ours": "#2a9d5c", "reference": "#d1603d", "fork": "#5b7fd6"}
MARKERS = {"ours": "o", "reference": "s", "fork": "x"}


def draw(sweeps: dict[str, Any], path: Path) -> None:
    """Draw a panel for each sweep: milliseconds against length, both logarithmic."""
    plots = matplotlib_pyplot()
    settings = {
        "text.color": GREY,
        "axes.edgecolor": GREY,
        "axes.labelcolor": GREY,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "font.size": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "harmony",  # the same numbers give the same file
    }
    with plots.rc_context(settings):
        figure, axes = plots.subplots(1, len(sweeps), figsize=(12, 4), squeeze=False)
        for panel, (name, lines) in zip(axes[0], sweeps.items(), strict=True):
            _draw_panel(panel, name, lines)
        axes[0][0].set_ylabel("milliseconds")
        axes[0][0].legend(frameon=False)
        figure.tight_layout()
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plots.close(figure)


def _draw_panel(panel: Any, name: str, lines: dict[str, list[list[float]]]) -> None:
    for library, points in lines.items():
        sizes, seconds = zip(*points, strict=True)
        panel.loglog(
            sizes,
            [1e3 * value for value in seconds],
            marker=MARKERS[library],
            markersize=4,
            color=COLORS[library],
            label=library,
        )
    panel.set_title(name.replace(", ", ",\n"), fontsize=9)
    panel.set_xlabel("n")
    panel.grid(color=GREY, alpha=0.25, linewidth=0.5)


def matplotlib_pyplot() -> Any:
    """Import matplotlib, which only the plot needs."""
    try:
        importlib.import_module("matplotlib").use("agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise SystemExit("the plot needs matplotlib: pip install -e '.[bench]'") from error

"""The report as a picture, where matplotlib is installed."""

from __future__ import annotations

from pathlib import Path

from .token_report import TokenReport

__all__ = ["write_plot"]


def write_plot(report: TokenReport, path: Path) -> bool:
    """Draw tokens by channel, and examples by length; return whether that was possible."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    names = sorted(report.tokens, key=lambda name: (report.tokens[name], name))
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    channels, lengths = figure.subplots(1, 2)
    channels.barh(names, [report.tokens[name] for name in names], color="#c8ccd0", label="in all")
    channels.barh(
        names,
        [report.learned[name] for name in names],
        color="#2f6f9f",
        height=0.5,
        label="learned",
    )
    channels.set_xlabel("tokens")
    if names:
        channels.legend(frameon=False, loc="lower right")
    known = sorted(report.lengths)
    labels = [f"≤ {length:,}" for length in known]
    lengths.bar(labels, [report.lengths[length] for length in known], color="#2f6f9f")
    lengths.set_xlabel("tokens of an example")
    lengths.set_ylabel("examples")
    lengths.tick_params(axis="x", rotation=45)
    # Without a date and with fixed ids, so that equal reports make equal files.
    with mpl.rc_context({"svg.hashsalt": "harmony", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return True

"""``harmony prepare``: a data set becomes token ids and labels for trainers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from ..apis.current_date import TODAY
from ..config import HeaderStyle
from ..installation import missing_package
from .input import InputError
from .options import Command, add_color, add_schema_dialect
from .output import Output

__all__ = ["PREPARE"]


class _Prepare(Command):
    name = "prepare"
    summary = "turn conversations into training data: token ids and labels"
    examples = """\
  harmony prepare chats.jsonl --out data
  harmony prepare chats.jsonl.gz --out data --turns last
  harmony prepare chats.parquet --out data --context-length 8192 --pack
  harmony prepare dataset_folder --out data --from sharegpt --channels final
  harmony prepare chats.jsonl --out data --date 2025-06-01..2025-12-31

On a cluster, Ray runs the same preparation from Python: openai_harmony.training.files.ray.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file",
            metavar="IN",
            help=(
                "a .jsonl (also .jsonl.gz, .jsonl.zst) or .parquet file, "
                "or a folder of them or of a saved Hugging Face data set"
            ),
        )
        parser.add_argument(
            "--out", required=True, metavar="OUT", help="the folder to write, or to resume"
        )
        parser.add_argument(
            "--from",
            dest="format",
            choices=("harmony", "chat", "sharegpt"),
            help="the form of the rows; by default it is detected for each row",
        )
        parser.add_argument(
            "--date",
            type=_date,
            default=TODAY,
            metavar="DATE",
            help="the current date for the model, for chats: today (UTC, the default, as servers "
            "write it), YYYY-MM-DD, a range A..B of which each row gets a day, field:NAME for a "
            "field of the row, or none",
        )
        parser.add_argument(
            "--header-style",
            choices=get_args(HeaderStyle),
            default="guide",
            help="the style of headers with a recipient; models write guide (the default)",
        )
        add_schema_dialect(parser, "--schema-dialect")
        parser.add_argument(
            "--turns",
            choices=("all", "last"),
            default="all",
            help="train on every turn of the assistant (the default), or only on the last",
        )
        parser.add_argument(
            "--channels",
            metavar="NAME",
            nargs="+",
            help="train only on these channels, such as final; by default on all",
        )
        parser.add_argument(
            "--keep-past-reasoning",
            action="store_true",
            help="keep the reasoning of earlier turns, which prompts at inference never have",
        )
        parser.add_argument(
            "--context-length",
            type=_count,
            metavar="N",
            help="the most tokens of an example; the oldest turns are left out",
        )
        parser.add_argument(
            "--pack",
            action="store_true",
            help="pack several examples into one sequence of --context-length tokens",
        )
        parser.add_argument(
            "--loss-weights",
            action="store_true",
            help="write a column with the weights of messages ('weight' beside 'role')",
        )
        parser.add_argument(
            "--columns",
            nargs="+",
            metavar="NAME",
            choices=("labels", "assistant_masks", "attention_mask"),
            help="the columns beside input_ids: labels, assistant_masks (these two by default), "
            "attention_mask",
        )
        parser.add_argument(
            "--format",
            dest="target",
            choices=("parquet", "megatron"),
            default="parquet",
            help="megatron writes Megatron's indexed data sets as well, into OUT/megatron",
        )
        parser.add_argument(
            "--workers",
            type=_count,
            metavar="N",
            help="the number of processes; by default that of the cores",
        )
        add_color(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        if arguments.pack and arguments.context_length is None:
            raise InputError("--pack needs --context-length: the length of the sequences")
        try:
            from ..training import TrainingOptions
            from ..training.files import PrepareSettings, prepare
            from ..training.files.sources import OutputError, SourceError
        except ModuleNotFoundError as error:
            raise InputError(missing_package("prepare needs", error, "train")) from error
        training = TrainingOptions(
            turns=arguments.turns,
            channels=None if arguments.channels is None else frozenset(arguments.channels),
            keep_past_reasoning=arguments.keep_past_reasoning,
            context_length=arguments.context_length,
            header_style=arguments.header_style,
            schema_dialect=arguments.schema_dialect,
        )
        settings = PrepareSettings(
            training,
            form=arguments.format,
            start_date=arguments.date,
            pack=arguments.pack,
            loss_weights=arguments.loss_weights,
            columns=None if arguments.columns is None else tuple(arguments.columns),
            megatron=arguments.target == "megatron",
        )
        source, out = Path(arguments.file), Path(arguments.out)
        try:
            with _progress() as watch:
                made = prepare(source, out, settings, workers=arguments.workers, watch=watch)
        except BrokenProcessPool as error:
            raise InputError(
                "a process was killed, usually for lack of memory; repeat the command with fewer "
                "--workers to resume"
            ) from error
        except OutputError:
            raise  # the command's own message about output
        except (SourceError, OSError) as error:
            raise InputError(str(error)) from error
        output = Output(arguments.color)
        output.line(made.report.text())
        output.line()
        rejected = f", {out}/rejected.jsonl the rejected rows" if made.report.rejected else ""
        output.line(f"{out}/data has the examples{rejected}")


PREPARE = _Prepare()


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Draw a progress bar of the bytes read, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm  # type: ignore[import-untyped]

    bar: Any
    with tqdm(unit="B", unit_scale=True, desc="prepare", leave=False) as bar:

        def watch(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)
            bar.refresh()  # there are few shards: show each

        yield watch


def _date(text: str) -> str | None:
    if text in (TODAY, "none"):
        return None if text == "none" else text
    from ..training.rows import RowDates

    try:
        RowDates.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _count(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")

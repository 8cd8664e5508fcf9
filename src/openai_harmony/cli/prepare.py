"""``harmony prepare``: a data set to the token ids and labels that trainers read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ..config import HeaderStyle
from ..installation import missing_package
from .command import Command, add_color, add_schema_dialect
from .output import Output
from .request import iso_date
from .source import InputError

if TYPE_CHECKING:
    from ..training.files import PrepareSettings

__all__ = ["PREPARE"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="IN",
        help=(
            "a .jsonl (also .jsonl.gz, .jsonl.zst) or .parquet file, "
            "or a folder of them or of a saved Hugging Face data set"
        ),
    )
    parser.add_argument(
        "--out", required=True, metavar="OUT", help="the folder to make, or to go on with"
    )
    _add_rows(parser)
    _add_learned(parser)
    parser.add_argument(
        "--workers", type=_count, metavar="N", help="processes; as many as cores unless given"
    )
    add_color(parser)


def _add_rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="format",
        choices=("harmony", "chat", "sharegpt"),
        help="the form of the rows; each row's is detected unless given",
    )
    parser.add_argument(
        "--date",
        type=iso_date,
        metavar="YYYY-MM-DD",
        help="the current date as the model shall read it, for chats",
    )
    parser.add_argument(
        "--header-style",
        choices=get_args(HeaderStyle),
        default="guide",
        help="how a header with a recipient is spelled; guide (the default) is what models write",
    )
    add_schema_dialect(parser, "--schema-dialect")


def _add_learned(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--turns",
        choices=("all", "last"),
        default="all",
        help="learn every turn of the assistant (the default), or the last one",
    )
    parser.add_argument(
        "--channels",
        metavar="NAME",
        nargs="+",
        help="learn these channels alone, such as final; all unless given",
    )
    parser.add_argument(
        "--keep-past-reasoning",
        action="store_true",
        help="show the model the reasoning of earlier turns, which no prompt of inference has",
    )
    parser.add_argument(
        "--context-length",
        type=_count,
        metavar="N",
        help="tokens of an example at most; the oldest turns are left out",
    )
    parser.add_argument(
        "--pack",
        action="store_true",
        help="put several examples in one sequence of --context-length tokens",
    )
    parser.add_argument(
        "--loss-weights",
        action="store_true",
        help="write a column with the weights of messages ('weight' beside 'role')",
    )


def _run(arguments: argparse.Namespace) -> None:
    if arguments.pack and arguments.context_length is None:
        raise InputError("--pack needs --context-length: the length of the sequences")
    try:
        from ..training.files import prepare
        from ..training.files.sources import SourceError
    except ModuleNotFoundError as error:
        raise InputError(missing_package("prepare needs", error, "train")) from error
    source, out = Path(arguments.file), Path(arguments.out)
    try:
        with _progress() as watch:
            made = prepare(
                source, out, _settings(arguments), workers=arguments.workers, watch=watch
            )
    except BrokenProcessPool as error:
        raise InputError(
            "a process was killed, for want of memory as a rule; the same command with fewer "
            "--workers goes on"
        ) from error
    except (SourceError, OSError) as error:
        raise InputError(str(error)) from error
    output = Output(arguments.color)
    output.line(made.report.text())
    output.line()
    output.line(f"{out}/data has the examples" + _about_rejected(made.report.rejected, out))


def _about_rejected(rejected: int, out: Path) -> str:
    return f", {out}/rejected.jsonl the rejected rows" if rejected else ""


def _settings(arguments: argparse.Namespace) -> PrepareSettings:
    from ..training import TrainingOptions
    from ..training.files import PrepareSettings

    training = TrainingOptions(
        turns=arguments.turns,
        channels=None if arguments.channels is None else frozenset(arguments.channels),
        keep_past_reasoning=arguments.keep_past_reasoning,
        context_length=arguments.context_length,
        header_style=arguments.header_style,
        schema_dialect=arguments.schema_dialect,
    )
    return PrepareSettings(
        training,
        form=arguments.format,
        start_date=arguments.date,
        pack=arguments.pack,
        loss_weights=arguments.loss_weights,
    )


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Draw a bar of the bytes that were read, where a person watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm  # type: ignore[import-untyped]

    bar: Any
    with tqdm(unit="B", unit_scale=True, desc="prepare", leave=False) as bar:

        def watch(done: int, whole: int) -> None:
            bar.total = whole
            bar.update(done - bar.n)
            bar.refresh()  # parts are few; each shall be seen

        yield watch


def _count(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")


PREPARE = Command(
    name="prepare",
    summary="turn conversations into training data: token ids, and which of them are learned",
    examples="""\
  harmony prepare chats.jsonl --out data
  harmony prepare chats.jsonl.gz --out data --turns last
  harmony prepare chats.parquet --out data --context-length 8192 --pack
  harmony prepare dataset_folder --out data --from sharegpt --channels final
""",
    add_arguments=_add_arguments,
    run=_run,
)

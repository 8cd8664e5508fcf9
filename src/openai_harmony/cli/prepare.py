"""``harmony prepare``: a data set becomes token ids and labels for trainers."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ..apis.current_date import TODAY
from ..config import HeaderStyle
from ..installation import missing_package
from .command import Command, keep_old_name
from .input import STANDARD_INPUT, InputError, UsageError
from .options import add_color, add_schema_dialect, positive
from .output import Output

if TYPE_CHECKING:
    from ..training.files import Preparation, PrepareSettings, Progress

__all__ = ["PREPARE"]

_REJECTED_SHOWN = 8


class _Prepare(Command):
    name = "prepare"
    purpose = "train a model"
    summary = "turn conversations into training data: token ids and labels"
    examples = """\
  harmony prepare chats.jsonl --output data
  harmony prepare chats.jsonl.gz --output data --turns last
  harmony prepare chats.parquet --output data --context-length 8192 --pack
  harmony prepare dataset_folder --output data --from sharegpt --channels final
  harmony prepare chats.jsonl --output data --date 2025-06-01..2025-12-31

Each row is a conversation, such as
  {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}
The progress bar counts bytes of the input. Ctrl-C stops at once and keeps the shards that are
done; the same command resumes. On a cluster, run the preparation from Python with Ray:
openai_harmony.training.files.ray.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file",
            metavar="FILE",
            help="JSON lines (.jsonl, .jsonl.gz, .jsonl.zst), Parquet (.parquet), a folder of "
            "such files, or a data set that Hugging Face's datasets saved",
        )
        output = parser.add_argument(
            "--output",
            "--out",
            required=True,
            metavar="FOLDER",
            help="the folder for the output; to resume, give the same folder again",
        )
        keep_old_name(output, "--out")
        parser.add_argument(
            "--from",
            dest="form",
            choices=("harmony", "chat", "sharegpt"),
            help="the form of all rows (default: detected for each row)",
        )
        parser.add_argument(
            "--date",
            type=_date,
            default=TODAY,
            metavar="DATE",
            help="the current date in the system message of chats: today (in UTC), a day as "
            "YYYY-MM-DD, a range of days as A..B, from which each row gets one, field:NAME for a "
            "field of the row, or none (default: today)",
        )
        parser.add_argument(
            "--header-style",
            choices=get_args(HeaderStyle),
            default="guide",
            help="how headers with a recipient are written; models write guide (default: guide)",
        )
        add_schema_dialect(parser)
        parser.add_argument(
            "--turns",
            choices=("all", "last"),
            default="all",
            help="train on all turns of the assistant, or only on the last (default: all)",
        )
        parser.add_argument(
            "--channels",
            metavar="NAME",
            nargs="+",
            help="train only on messages on these channels, such as final (default: all)",
        )
        parser.add_argument(
            "--keep-past-reasoning",
            action="store_true",
            help="keep the reasoning of earlier turns, although prompts at inference leave it out",
        )
        parser.add_argument(
            "--context-length",
            type=positive,
            metavar="N",
            help="the most tokens of an example; longer examples lose their oldest turns",
        )
        parser.add_argument(
            "--pack",
            action="store_true",
            help="put several examples into one sequence of up to --context-length tokens",
        )
        parser.add_argument(
            "--loss-weights",
            action="store_true",
            help="add a column with the weight of each token, from 'weight' beside 'role'",
        )
        parser.add_argument(
            "--columns",
            nargs="+",
            metavar="NAME",
            choices=("labels", "assistant_masks", "attention_mask"),
            help="the columns beside input_ids (default: labels assistant_masks)",
        )
        parser.add_argument(
            "--format",
            dest="target",
            choices=("parquet", "megatron"),
            default="parquet",
            help="megatron also writes Megatron's indexed data sets, into FOLDER/megatron "
            "(default: parquet)",
        )
        parser.add_argument(
            "--workers",
            type=positive,
            metavar="N",
            help="the number of worker processes (default: one for each core)",
        )
        parser.add_argument(
            "--quiet",
            action="store_true",
            help="print neither the progress bar nor the report; FOLDER/README.md has the report",
        )
        add_color(parser)

    def run(self, arguments: argparse.Namespace) -> None:
        _check(arguments)
        try:
            from ..training.files import prepare, process_runner
            from ..training.files.processes import WorkerError
            from ..training.files.sources import OutputError, SourceError
        except ModuleNotFoundError as error:
            raise InputError(missing_package("prepare needs", error, "train")) from error
        source, out, settings = Path(arguments.file), Path(arguments.output), _settings(arguments)
        try:
            with _interruptible(arguments.words), _progress_bar(arguments.quiet) as watch:
                runner = process_runner(arguments.workers)
                made = prepare(source, out, settings, runner=runner, watch=watch)
        except WorkerError as error:
            raise InputError(
                f"{error}, usually for lack of memory; repeat the command with fewer --workers "
                "to resume"
            ) from error
        except OutputError:
            raise  # the command's own message about output
        except (SourceError, OSError) as error:
            problem = str(error).removeprefix(f"{source}: ")
            raise InputError(f"{source}: {problem}") from error
        _report(made, arguments)


PREPARE = _Prepare()


def _check(arguments: argparse.Namespace) -> None:
    """Raise `UsageError` for arguments that do not go together."""
    if arguments.file == STANDARD_INPUT:
        raise UsageError(
            "standard input cannot be read again to resume; save it to a file such as "
            "rows.jsonl, and give that file"
        )
    if arguments.pack and arguments.context_length is None:
        raise UsageError("--pack needs --context-length, the length of the sequences")
    if arguments.target == "megatron" and "labels" not in (arguments.columns or ["labels"]):
        raise UsageError("--format megatron needs the column labels; add it to --columns")


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
        form=arguments.form,
        start_date=arguments.date,
        pack=arguments.pack,
        loss_weights=arguments.loss_weights,
        columns=None if arguments.columns is None else tuple(arguments.columns),
        megatron=arguments.target == "megatron",
    )


def _report(made: Preparation, arguments: argparse.Namespace) -> None:
    """Write the report and the place of the output; raises `InputError` without any example."""
    output = Output(arguments.color)
    rejected = f"{made.out}/rejected.jsonl has the rejected rows"
    if not arguments.quiet:
        output.line(made.report.text())
        output.line()
        for row in made.rejected[:_REJECTED_SHOWN]:
            output.line(f"rejected: {row.file}:{row.line}: {row.reason}")
    if not made.report.examples:
        more = f"; {rejected}" if made.rejected else ""
        raise InputError(f"{arguments.file}: {_no_examples(made)}{more}")
    if not arguments.quiet:
        more = f", {rejected}" if made.rejected else ""
        output.line(f"{made.out}/data has the examples{more}")


def _no_examples(made: Preparation) -> str:
    if not made.report.rows:
        return "there are no rows in it; expected a conversation in each row"
    reasons = ", ".join(f"{n:,} × {reason}" for reason, n in made.report.reasons.most_common())
    first = made.rejected[0]
    place = f"{first.file}:{first.line}"
    return f"no row gives an example ({reasons}); the first is {place}: {first.reason}"


@contextmanager
def _interruptible(words: Sequence[str]) -> Iterator[None]:
    """Stop at Ctrl-C or SIGTERM, and write the command that resumes; a second one ends at once."""
    received: list[int] = []

    def stop(number: int, _: object) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        raise KeyboardInterrupt

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, stop)
        for number in (signal.SIGINT, signal.SIGTERM)
        # A shell that starts a command in the background makes it ignore Ctrl-C.
        if in_main_thread and signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    except KeyboardInterrupt:
        command = shlex.join(["harmony", "prepare", *words])
        print(f"harmony: stopped; what is done is kept. To resume, run: {command}", file=sys.stderr)
        if received == [signal.SIGTERM]:
            sys.exit(128 + signal.SIGTERM)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress_bar(is_quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Draw a bar of the bytes unpacked or read, if standard error is a terminal."""
    if is_quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm  # type: ignore[import-untyped]

    shown: Progress | None = None
    bar: Any = None

    def watch(progress: Progress) -> None:
        nonlocal bar, shown
        if shown is None or (shown.step, shown.total) != (progress.step, progress.total):
            if bar is not None:
                bar.close()
            text, total = progress.step, progress.total
            bar = tqdm(total=total, desc=text, unit="B", unit_scale=True, leave=False)
        shown = progress
        bar.update(progress.done - bar.n)
        bar.refresh()  # the runner limits how often this happens

    try:
        yield watch
    finally:
        if bar is not None:
            bar.close()


def _date(text: str) -> str | None:
    if text in (TODAY, "none"):
        return None if text == "none" else text
    from ..training.rows import RowDates

    try:
        RowDates.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text

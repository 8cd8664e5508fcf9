"""``harmony prepare``: a data set becomes token ids and labels for trainers."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ..apis.current_date import TODAY
from ..config import HeaderStyle
from ..conversation.content import CHANNELS
from ..errors import ConversationError, did_you_mean
from .command import Command
from .input import STANDARD_INPUT, InputError, UnreadableError, UsageError, warn
from .options import add_color, add_schema_dialect, positive
from .output import Output

if TYPE_CHECKING:
    from ..training.files import Preparation, PrepareSettings, Progress, TokenReport
    from ..training.files.addresses import RemotePath

_REJECTED_SHOWN = 8
_UNUSED_SHOWN = 8

_MANY_REJECTED = 0.1
"""A larger share of rejected rows is a warning."""

_FORMS = ("harmony", "chat", "sharegpt", "responses", "completion", "alpaca", "rendered")
_FINDINGS = (
    *("markup", "calls", "channels", "empty", "opening"),
    *("format", "undeclared", "unanswered", "damaged"),
)
_DUPLICATES = ("exact", "near")
_COLUMNS = ("labels", "assistant_masks", "attention_mask")


class _Prepare(Command):
    name = "prepare"
    purpose = "train a model"
    summary = "turn conversations into training data: token ids and labels"
    examples = """\
  harmony prepare chats.jsonl --show 2
  harmony prepare chats.jsonl --output data
  harmony prepare chats.jsonl.gz --output data --turns last
  harmony prepare chats.parquet --output data --context-length 8192 --pack
  harmony prepare dataset_folder --output data --from sharegpt --channels final
  harmony prepare chats.jsonl --output data --date 2025-06-01..2025-12-31

Each row is a conversation, such as
  {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}
The output has one Parquet file (shard) for each 4 MB of JSON lines or each row group of a
Parquet file. The progress bar counts bytes of the input. Ctrl-C stops at once, keeps the shards
that are done, and prints their number; the same command makes the others. On a cluster, run the
preparation from Python with Ray: gpt_oss_harmony.training.files.ray.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file",
            metavar="FILE",
            help="JSON lines (.jsonl, .jsonl.gz, .jsonl.zst), Parquet (.parquet), a folder of "
            "such files, a pattern of their paths in quotes, such as 'rows/*.jsonl', a data set "
            "that Hugging Face's datasets saved, or an address of such files, such as "
            "hf://datasets/OWNER/NAME or s3://BUCKET/FOLDER",
        )
        made = parser.add_mutually_exclusive_group(required=True)
        made.add_argument(
            "--show",
            type=positive,
            metavar="N",
            help="print the first N examples, with what is learned between ⟦ and ⟧, and write "
            "nothing",
        )
        made.add_argument(
            "--output",
            metavar="FOLDER",
            help="the folder for the output, or an address for fsspec; to resume, give it again",
        )
        parser.add_argument(
            "--from",
            dest="form",
            choices=_FORMS,
            help="the form of all rows (default: detected for each row)",
        )
        parser.add_argument(
            "--reject",
            nargs="*",
            choices=(*_FINDINGS, "nothing"),
            metavar="KIND",
            help="reject rows that would teach markup (marks such as <|im_end|> in text), calls "
            "(arguments that are not valid), channels (unknown ones), empty (answers without "
            "text), opening (a conversation that begins with the assistant), format (answers "
            "that break the row's response format), undeclared (calls without tools), unanswered "
            "(reasoning that nothing follows), damaged (rendered text that was repaired, half "
            "characters), or reject nothing; the report counts the others (default: markup calls "
            "channels)",
        )
        parser.add_argument(
            "--deduplicate",
            choices=_DUPLICATES,
            metavar="KIND",
            help="reject rows that repeat an earlier row: exact (the same examples), or near (also "
            "nearly the same text); rejected.jsonl names the earlier row (default: keep them)",
        )
        parser.add_argument(
            "--similarity",
            type=_similarity,
            metavar="SHARE",
            help="the share of the runs of five tokens that near duplicates have in common, such "
            "as 90%% (default: 80%%)",
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
            help="train only on messages on these channels: analysis, commentary, final "
            "(default: all)",
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
            "--one-sequence",
            action="store_true",
            help="write the examples of a row as one sequence, in which what they share stands "
            "once; the trainer needs a mask of the column visible_until",
        )
        parser.add_argument(
            "--loss-weights",
            action="store_true",
            help="add a column with the weight of each token, from the field weight of a message: "
            '{"role": "assistant", "weight": 0.5, "content": "ho"}',
        )
        parser.add_argument(
            "--columns",
            nargs="+",
            metavar="NAME",
            choices=_COLUMNS,
            help=f"the columns beside input_ids, of {', '.join(_COLUMNS)} "
            "(default: labels assistant_masks)",
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
            "--max-rejected",
            type=_share,
            metavar="SHARE",
            help="fail if more rows are rejected than this, such as 1%% or 0 (default: warn above "
            "10%%)",
        )
        parser.add_argument(
            "--max-row-bytes",
            type=_bytes,
            metavar="SIZE",
            help="reject longer rows; a worker needs up to 55 times as much memory (default: 16M)",
        )
        parser.add_argument(
            "--max-unpacked-ratio",
            type=positive,
            metavar="N",
            help="the most bytes that a byte of a compressed file may become (default: 200)",
        )
        parser.add_argument(
            "--max-unpacked-bytes",
            type=_bytes,
            metavar="SIZE",
            help="the most bytes of all unpacked files, such as 50G (default: 1T)",
        )
        parser.add_argument(
            "--source-field",
            metavar="NAME",
            help="the field of a row that names its source; the report counts tokens by source "
            "(default: the name of the file)",
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
        from ..training.files import prepare, process_runner
        from ..training.files.addresses import (
            OutputError,
            OutputFolderError,
            SourceError,
            source_path,
        )
        from ..training.files.processes import WorkerError

        source, settings = arguments.file, _settings(arguments)
        try:
            if arguments.show:
                _show(source_path(source), settings, arguments)
                return
            out = source_path(arguments.output)
            with (
                _ProgressLine(arguments.quiet) as progress,
                _interruptible(arguments.words, out, progress),
            ):
                runner = process_runner(arguments.workers)
                made = prepare(source, out, settings, runner=runner, watch=progress.watch)
        except WorkerError as error:
            raise InputError(
                f"{error}, usually for lack of memory; repeat the command with fewer --workers or "
                "a smaller --max-row-bytes to resume"
            ) from error
        except OutputError:
            raise  # the command's own message about output
        except OutputFolderError as error:
            raise InputError(f"--output {error}") from error
        except (SourceError, OSError) as error:
            problem = str(error).removeprefix(f"{source}: ")
            raise UnreadableError(f"{source}: {problem}") from error
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
    if arguments.one_sequence and arguments.target == "megatron":
        raise UsageError("--one-sequence needs a mask that Megatron's data sets cannot hold")
    if arguments.one_sequence and "attention_mask" in (arguments.columns or ()):
        raise UsageError(
            "--one-sequence needs another mask than the column attention_mask; remove that column"
        )
    if arguments.similarity is not None and arguments.deduplicate != "near":
        raise UsageError("--similarity needs --deduplicate near")
    if arguments.target == "megatron" and "labels" not in (arguments.columns or ["labels"]):
        raise UsageError("--format megatron needs the column labels; add it to --columns")
    for name in arguments.channels or ():
        meant = did_you_mean(name.casefold(), CHANNELS)
        if meant and name not in CHANNELS:  # a channel may have any name
            warn(f"--channels {name}: {meant}")


def _show(
    source: Path | RemotePath, settings: PrepareSettings, arguments: argparse.Namespace
) -> None:
    """Print the first examples, and the reasons of rows that are rejected before them."""
    from ..encoding import load_harmony_encoding
    from ..training import IGNORED, RejectedRow
    from ..training.files import TokenReport
    from ..training.files.sources import find_chunks, read_chunk, source_files

    decode, output = load_harmony_encoding("HarmonyGptOss").decode, Output(arguments.color)
    (files, unread), settings, shown = source_files(source), settings.dated(), 0
    if any(file.is_packed for file in files):
        raise UsageError("--show reads no compressed files; unpack one, or leave --show out")
    report = TokenReport()
    report.add_unread(unread)
    _warn_of_unread(report)
    rows = (row for chunk in find_chunks(files) for row in read_chunk(chunk, settings.row_bytes))
    for row in rows:
        if row.is_blank:
            continue
        try:
            if row.problem:
                raise RejectedRow(row.problem)
            _, made = settings.examples_of(row.raw)
        except (ConversationError, RejectedRow) as error:
            output.line(f"row {row.number + 1} is rejected: {error}\n", "repair")
            continue
        for example in made.examples[: arguments.show - shown]:
            shown += 1
            learned = sum(label != IGNORED for label in example.labels)
            title = f"example {shown}, of row {row.number + 1}: {learned:,} of {len(example):,}"
            output.line(f"{title} tokens are learned", "title")
            pairs = zip(example.input_ids, example.labels, strict=True)
            for is_learned, group in itertools.groupby(pairs, lambda pair: pair[1] != IGNORED):
                text = decode([token for token, _ in group])
                output.write(
                    f"⟦{text}⟧" if is_learned else text, "final" if is_learned else "marker"
                )
            output.line("\n")
        if shown == arguments.show:
            return
    if not shown:
        raise InputError(f"{arguments.file}: no row gives an example")


def _warn_of_unread(report: TokenReport) -> None:
    if report.unread:
        warn(f"{report.unread_files()}; rows are read from JSON lines and Parquet")


def _settings(arguments: argparse.Namespace) -> PrepareSettings:
    from ..training import TrainingOptions
    from ..training.files import PrepareSettings
    from ..training.row_checks import REJECTED_FINDINGS

    training = TrainingOptions(
        turns=arguments.turns,
        channels=None if arguments.channels is None else frozenset(arguments.channels),
        keep_past_reasoning=arguments.keep_past_reasoning,
        context_length=arguments.context_length,
        header_style=arguments.header_style,
        schema_dialect=arguments.schema_dialect,
    )
    chosen = {
        "similarity": arguments.similarity,
        "row_bytes": arguments.max_row_bytes,
        "unpacked_ratio": arguments.max_unpacked_ratio,
        "unpacked_bytes": arguments.max_unpacked_bytes,
    }
    rejected = arguments.reject
    return PrepareSettings(
        training,
        reject=REJECTED_FINDINGS if rejected is None else frozenset(rejected) - {"nothing"},
        source_field=arguments.source_field,
        deduplicate=arguments.deduplicate,
        **{name: value for name, value in chosen.items() if value is not None},
        form=arguments.form,
        start_date=arguments.date,
        pack=arguments.pack,
        one_sequence=arguments.one_sequence,
        loss_weights=arguments.loss_weights,
        columns=None if arguments.columns is None else tuple(arguments.columns),
        megatron=arguments.target == "megatron",
    )


def _report(made: Preparation, arguments: argparse.Namespace) -> None:
    """Write the report and the place of the output.

    Raises `InputError` without any example, or with more rejected rows than allowed.
    """
    output = Output(arguments.color)
    report, place = made.report, f"{made.out}/rejected.jsonl"
    _warn_of_unread(report)
    if not arguments.quiet:
        output.line(report.text())
        output.line()
        for row in made.rejected[:_REJECTED_SHOWN]:
            output.line(output.printable(f"rejected: {row.file}:{row.line}: {row.reason}"))
    if not report.examples:
        raise InputError(f"{arguments.file}: {_no_examples(made, arguments.quiet)}")
    if not arguments.quiet:
        more = f", {place} has the rejected rows" if made.rejected else ""
        output.line(f"{made.out}/data has the examples{more}")
    allowed = arguments.max_rejected
    count = report.rejected - report.duplicates.total()
    rejected = f"{count:,} of {report.rows:,} rows are rejected"
    rejected += ", without the duplicates" if report.duplicates else ""
    if allowed is not None and report.rejected_share > allowed:
        problem = f"{rejected}, more than --max-rejected {100 * allowed:g}%"
        raise InputError(f"{arguments.file}: {problem}; {place} has the reasons")
    if allowed is None and report.rejected_share > _MANY_REJECTED:
        warn(f"{rejected}; {place} has the reasons")
    if report.unused and not arguments.quiet:
        names = ", ".join(name for name, _ in report.unused.most_common(_UNUSED_SHOWN))
        others = len(report.unused) - _UNUSED_SHOWN
        names += f" and {others:,} others" if others > 0 else ""
        warn(f"fields that are in no example: {names}; the report counts them")


def _no_examples(made: Preparation, is_quiet: bool) -> str:
    """Say why there are no examples, with the reasons unless the report has them."""
    if not made.report.rows:
        return "there are no rows in it; expected a conversation in each row"
    place = f"{made.out}/rejected.jsonl"
    if not is_quiet:
        return f"no row gives an example; the reasons are in the report and in {place}"
    reasons = ", ".join(f"{n:,} × {reason}" for reason, n in made.report.reasons.most_common())
    first = made.rejected[0]
    row = f"{first.file}:{first.line}: {first.reason}"
    return f"no row gives an example ({reasons}); the first is {row}; {place} has the rejected rows"


@contextmanager
def _interruptible(
    words: Sequence[str], out: Path | RemotePath, progress: _ProgressLine
) -> Iterator[None]:
    """Stop at Ctrl-C or SIGTERM, and write what is kept and the command that goes on.

    A second signal ends the program at once.
    """
    received: list[int] = []

    def stop(number: int, _: object) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        raise KeyboardInterrupt

    # Python sets the handlers of signals in its main thread only.
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
        progress.close()
        command = shlex.join(["harmony", "prepare", *words])
        problem = Output.printable(f"stopped; {_kept(out, progress)}: {command}")
        print(f"harmony: {problem}", file=sys.stderr)
        if received == [signal.SIGTERM]:
            sys.exit(128 + signal.SIGTERM)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _kept(out: Path | RemotePath, progress: _ProgressLine) -> str:
    """Say how many shards are done, and what the command does that follows."""
    from ..training.files.preparation import finished_shards

    done = finished_shards(out)
    of_all = f" of {progress.shards:,}" if progress.shards else ""
    noun = "shard is" if (progress.shards or done) == 1 else "shards are"
    shards = f"{done:,}{of_all} {noun}"
    if not done:
        return f"{shards} done, so the same command starts again"
    return f"{shards} done and kept. To resume, run"


class _ProgressLine:
    """A bar of the bytes unpacked or read, if standard error is a terminal; and what is resumed."""

    def __init__(self, is_quiet: bool) -> None:
        self.shards = 0
        """The number of all shards, or 0 while it is not known."""
        self._is_quiet = is_quiet
        self._has_bar = not is_quiet and sys.stderr.isatty()
        self._shown: Progress | None = None
        self._bar: Any = None

    def __enter__(self) -> _ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def watch(self, progress: Progress) -> None:
        """Show the progress."""
        if progress.shards and not self.shards:
            self.shards = progress.shards
            if progress.shards_done and not self._is_quiet:
                self.close()
                done = f"{progress.shards_done:,} of {progress.shards:,} shards are done"
                print(f"harmony: resuming: {done}", file=sys.stderr)
        if not self._has_bar:
            return
        from tqdm import tqdm  # type: ignore[import-untyped]

        shown, step, total = self._shown, progress.step, progress.total
        if self._bar is None or shown is None or (shown.step, shown.total) != (step, total):
            self.close()
            self._bar = tqdm(total=total, desc=step, unit="B", unit_scale=True, leave=False)
        self._shown = progress
        self._bar.update(progress.done - self._bar.n)
        self._bar.refresh()  # the runner limits how often this happens

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _share(text: str) -> float:
    """Read a share of the rows, such as ``1%`` or ``0.01``."""
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write a percentage such as 1%")
    return share


def _similarity(text: str) -> float:
    """Read a similarity, such as ``80%``."""
    share = _share(text)
    if share < 0.1:
        raise argparse.ArgumentTypeError(f"{text!r} is too low; write 10% or more")
    return share


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _bytes(text: str) -> int:
    """Read a number of bytes, such as ``16M``."""
    read = re.fullmatch(r"([1-9][0-9]{0,15})([KMGT]?)i?B?", text, re.IGNORECASE)
    if read is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write a number such as 16M")
    return int(read[1]) * _UNITS[read[2].upper()]


def _date(text: str) -> str | None:
    if text in (TODAY, "none"):
        return None if text == "none" else text
    from ..training.rows import RowDates

    try:
        RowDates.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text

"""A notebook of one conversation: runs its cells one after the other, and reads what they made."""

from __future__ import annotations

import asyncio
import mimetypes
import signal
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TypeVar

from .answer import RunAnswer
from .attachment import Attachment, is_plain_path
from .output import joined_output
from .sandbox import Sandbox, SandboxGone
from .session import PythonSession
from .settings import PythonSettings

__all__ = ["Notebook", "NotebookOutput"]

_Done = TypeVar("_Done")

_RESTART_SECONDS = 90
_END_SECONDS = 10
_FILE_SECONDS = 60
_NAMED_FILES = 10
_RAW = 4  # characters that are read for each that is shown: colours and overwritten lines go
_PART = 16 << 20  # bytes of a file that are sent at a time

_ALL_GONE = "all variables, functions and imports are gone"
_FILES_STAY = "the files in /mnt/data are still there"


@dataclass(frozen=True)
class NotebookOutput:
    """What a call shows: text, files, and whether the notebook can be used again."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    is_usable: bool = True
    has_memory: bool = True
    """Whether the variables of earlier calls are still there."""


class Notebook:
    """A sandbox that belongs to a conversation; `cells` counts the calls that were answered."""

    def __init__(self, name: str, sandbox: Sandbox, settings: PythonSettings) -> None:
        self.name = name
        self.cells = 0
        self.untold: list[str] = []
        """What the next call is to be told."""
        self.lock = asyncio.Lock()
        self.last_use = asyncio.get_running_loop().time()
        self._sandbox = sandbox
        self._settings = settings

    @property
    def has_ended(self) -> bool:
        """Whether it cannot be used any more."""
        return self._sandbox.has_ended

    def end(self, why: str) -> None:
        """End it at once; a call under way is told why."""
        self._sandbox.kill(why)

    async def close(self) -> None:
        """End it, and wait until nothing is left."""
        await self._sandbox.close()

    async def put_files(self, files: dict[str, bytes]) -> list[str]:
        """Write files; return what went wrong, in words. Raises `SandboxGone`."""
        problems = []
        for path, data in files.items():
            try:
                await self._in_time(self._put(path, data))
            except OSError as error:
                problems.append(f"[{path} could not be written to /mnt/data: {error}]")
        return problems

    async def _put(self, path: str, data: bytes) -> None:
        for start in range(0, max(1, len(data)), _PART):
            part = data[start : start + _PART]
            await self._sandbox.request("put", path=path, offset=start, data=part)

    async def _in_time(self, doing: Coroutine[object, object, _Done]) -> _Done:
        """Wait for what takes no time, unless the model's code runs in the attendant's place."""
        try:
            return await asyncio.wait_for(doing, _FILE_SECONDS)
        except asyncio.TimeoutError:
            self._sandbox.kill("it did not answer")
            raise SandboxGone("the sandbox is gone: it did not answer") from None

    async def run(self, code: str, stop: asyncio.Event, session: PythonSession) -> NotebookOutput:
        """Run a cell, at most for the time that is set, or until `stop`; hold the lock meanwhile.

        The files and the count of images in the session are brought up to date.
        """
        try:
            notes = await self._ready()
            if stop.is_set():
                return NotebookOutput("[The call was cancelled before the code was run.]")
            running = asyncio.create_task(
                self._sandbox.run(
                    code=code,
                    characters=_RAW * self._settings.output_characters,
                    image_bytes=self._settings.attachment_bytes,
                )
            )
            end = await self._wait(running, stop)
            answer = RunAnswer.read(running.result())
            attachments, left_out = await self._in_time(self._attachments(answer, session))
        except SandboxGone as error:
            self._sandbox.kill(str(error))
            text = f"[The notebook has ended, because {_reason(error)}: {_ALL_GONE}, and the files "
            text += "in /mnt/data are as they were before this call. The next call begins anew.]"
            return NotebookOutput(text, is_usable=False, has_memory=False)
        finally:
            self.last_use = asyncio.get_running_loop().time()
        shown = joined_output(
            answer.first, answer.cut, answer.last, self._settings.output_characters
        )
        parts = [*notes, shown.rstrip("\n"), _how_it_ended(answer, end), *left_out]
        return NotebookOutput(
            "\n".join(part for part in parts if part) or "[no output]",
            tuple(attachments),
            has_memory=answer.status != "died",
        )

    async def _ready(self) -> list[str]:
        """Wait until there is a kernel; return what is to be said of it. Raises `SandboxGone`."""
        try:
            answer = await self._sandbox.request("ready", seconds=_RESTART_SECONDS)
        except OSError as error:
            raise SandboxGone(f"the sandbox is gone: {error}") from error
        if answer.get("renewed") is not True:
            return []
        return [f"[The kernel had ended, and was restarted: {_ALL_GONE}; {_FILES_STAY}.]"]

    async def _wait(self, running: asyncio.Task[dict[str, object]], stop: asyncio.Event) -> str:
        """Wait for the end of a run, and bring it about in time; return how, in words."""
        stopping = asyncio.create_task(stop.wait())
        seconds = self._settings.seconds
        try:
            await asyncio.wait(
                {running, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopping.cancel()
        if running.done():
            return ""
        why = "the call was cancelled" if stop.is_set() else f"it ran for {seconds:g} seconds"
        self._sandbox.tell("interrupt")
        await asyncio.wait({running}, timeout=self._settings.grace_seconds)
        if running.done():
            return f"[The code was interrupted: {why}. Variables and files are still there.]"
        self._sandbox.tell("restart")
        await asyncio.wait({running}, timeout=_END_SECONDS)
        if not running.done():
            self._sandbox.kill("it could not be stopped")
            await asyncio.wait({running})
        return (
            f"[The code was ended: {why}, and it did not stop when it was interrupted. The kernel "
            f"was restarted: {_ALL_GONE}; {_FILES_STAY}.]"
        )

    async def _attachments(
        self, answer: RunAnswer, session: PythonSession
    ) -> tuple[list[Attachment], list[str]]:
        """Collect images and files; return them, and what is left out, in words."""
        attachments = []
        for kind, data in answer.image_data():
            session.images += 1
            end = mimetypes.guess_extension(kind) or ""
            attachments.append(Attachment(f"image-{session.images}{end}", data, kind))
        left_out = [f"{answer.images_left_out} images"] if answer.images_left_out else []
        for path in answer.files_gone:
            session.forget_file(path)
        room = 3 * self._settings.attachment_bytes - sum(len(each.data) for each in attachments)
        for file in answer.files:
            if not is_plain_path(file.path):
                left_out.append(f"a file with an odd name, {file.path!a:.80}")
                continue
            found = await self._file(file.path, file.size, session)
            fits = found is not None and len(found) <= min(room, self._settings.attachment_bytes)
            if found is None or not fits or len(attachments) >= self._settings.attachments:
                left_out.append(f"{file.path} ({file.size:,} bytes)")
                continue
            attachments.append(Attachment.of_file(file.path, found))
            room -= len(found)
        if answer.files_left_out:
            left_out.append(f"{answer.files_left_out:,} more files")
        notes = (
            [f"[not attached, too large or too many: {', '.join(left_out)}]"] if left_out else []
        )
        return attachments, notes

    async def _file(self, path: str, size: int, session: PythonSession) -> bytes | None:
        """Read a file that has changed, if it is of use, and keep it in the session if it fits."""
        room = self._settings.state_bytes - session.kept_bytes()
        room += len(session.files.get(path, b""))
        most = max(room, self._settings.attachment_bytes)
        data = await self._read(path, most) if size <= most else None
        session.keep_file(path, data if data is not None and len(data) <= room else None)
        return data

    async def _read(self, path: str, most: int) -> bytes | None:
        """Read a file; None where it is gone, no plain file, or larger than `most`."""
        data = b""
        while len(data) <= most:
            asked = min(_PART, most + 1 - len(data))
            try:
                answer = await self._sandbox.request("get", path=path, offset=len(data), size=asked)
            except OSError:
                return None
            part: bytes = answer["data"]
            data += part
            if len(part) < asked:
                return data
        return None


def _reason(error: SandboxGone) -> str:
    return str(error).partition(": ")[2] or str(error)


def _how_it_ended(answer: RunAnswer, note: str) -> str:
    if note or answer.status != "died":
        return note
    if answer.exit < 0:
        why = f"it was killed by {_signal_name(-answer.exit)}"
        if -answer.exit in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
            why += ", perhaps for want of memory"
    else:
        why = f"it exited with code {answer.exit}"
    return f"[The kernel has ended: {why}. It was restarted: {_ALL_GONE}; {_FILES_STAY}.]"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

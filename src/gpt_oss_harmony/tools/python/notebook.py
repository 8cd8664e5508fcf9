"""The notebook of one conversation: it runs cells one after the other and reads their results."""

from __future__ import annotations

import asyncio
import mimetypes
import signal
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import anyio
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..tool import Attachment
from .output import listed, output_with_notes
from .sandbox import Sandbox, SandboxGone
from .session import PythonSession, is_plain_path
from .settings import PythonSettings

_Size = Annotated[int, Field(ge=0, le=1 << 62)]
_Path = Annotated[str, Field(max_length=4096)]

_KILLED = (9, 11, 6)  # SIGKILL, SIGSEGV and SIGABRT of Linux, where the code runs


class _Image(BaseModel):
    type: Literal[
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/svg+xml",
        "application/pdf",
    ]
    size: _Size


class _File(BaseModel):
    path: _Path
    size: _Size


class RunResult(BaseModel):
    """The result of a run, as the sandbox agent reports it; it is untrusted until validated.

    `data` has the bytes of the images, one after the other.
    """

    model_config = ConfigDict(strict=True)

    status: Literal["ok", "error", "died"]
    exit: Annotated[int, Field(ge=-64, le=255)] = 0
    first: str
    cut: _Size
    last: str
    images: Annotated[list[_Image], Field(max_length=100)]
    images_left_out: _Size
    files: Annotated[list[_File], Field(max_length=1000)]
    files_left_out: _Size
    files_gone: Annotated[list[_Path], Field(max_length=1000)]
    data: bytes

    @classmethod
    def read(cls, response: Mapping[str, Any]) -> RunResult:
        """Validate a response. Raises `SandboxGone` for one that no sandbox agent sends."""
        try:
            return cls.model_validate(dict(response))
        except ValidationError as error:
            raise SandboxGone("it spoke out of turn") from error

    def image_data(self) -> list[tuple[str, bytes]]:
        """Return the type and the bytes of each image."""
        images: list[tuple[str, bytes]] = []
        start = 0
        for image in self.images:
            images.append((image.type, self.data[start : start + image.size]))
            start += image.size
        return images


_Result = TypeVar("_Result")

_RESTART_SECONDS = 90  # longer than the agent waits for a kernel, so that its error arrives
_END_SECONDS = 10
_FILE_SECONDS = 60
_RAW = 4  # characters read for each one shown: colours and overwritten lines are removed
_PART = 16 << 20  # bytes of a file that are sent at a time
_PROBLEMS = 10  # files that could not be written and are named

_ALL_GONE = "all variables, functions and imports are gone"
_FILES_STAY = "the files in /mnt/data are still there"


@dataclass(frozen=True)
class NotebookOutput:
    """The output of a call: text, attachments, and whether the notebook can be used again."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    is_usable: bool = True
    has_memory: bool = True
    """True if the variables of earlier calls still exist."""


class Notebook:
    """A sandbox that belongs to a conversation; `cells` counts the finished calls."""

    def __init__(
        self, name: str, sandbox: Sandbox, settings: PythonSettings, owner: str = ""
    ) -> None:
        self.name = name
        self.owner = owner
        self.cells = 0
        self.pending_notes: list[str] = []
        """Notes that the output of the next call begins with."""
        self.lock = asyncio.Lock()
        self.last_use = asyncio.get_running_loop().time()
        self._sandbox = sandbox
        self._settings = settings

    @property
    def has_ended(self) -> bool:
        """True if it cannot be used any more."""
        return self._sandbox.has_ended

    @property
    def why_ended(self) -> str:
        """Why it has ended, as the end of a sentence."""
        return self._sandbox.why_ended

    def end(self, why: str) -> None:
        """End it at once; a call in progress reports the reason."""
        self._sandbox.kill(why)

    async def close(self) -> None:
        """End it, and wait until all its processes and files are gone."""
        await self._sandbox.close()

    async def put_files(self, files: dict[str, bytes]) -> list[str]:
        """Write files; return a note for each that failed. Raises `SandboxGone`."""
        problems = []
        for path, data in files.items():
            try:
                await self._in_time(self._put(path, data))
            except OSError as error:
                problems.append(f"[{listed([path])} could not be written to /mnt/data: {error}]")
        more = len(problems) - _PROBLEMS
        if more > 0:
            problems[_PROBLEMS:] = [f"[{more:,} more files could not be written to /mnt/data.]"]
        return problems

    async def _put(self, path: str, data: bytes) -> None:
        # An empty file needs a request, too.
        for start in range(0, max(1, len(data)), _PART):
            part = data[start : start + _PART]
            await self._sandbox.request("put", path=path, offset=start, data=part)

    async def _in_time(self, work: Coroutine[object, object, _Result]) -> _Result:
        """Wait for quick work; it is slow only if the model's code has replaced the agent."""
        try:
            with anyio.fail_after(_FILE_SECONDS):
                return await work
        except TimeoutError:
            self._sandbox.kill("it did not answer")
            raise SandboxGone("it did not answer") from None

    async def run(
        self, code: str, stop: asyncio.Event, session: PythonSession, notes: Sequence[str] = ()
    ) -> NotebookOutput:
        """Run a cell until it ends, `stop` is set or its time is over; the caller holds the lock.

        The text begins with `notes`. Updates the files and the count of images in the session.
        """
        characters = self._settings.output_characters
        try:
            try:
                ready = await self._sandbox.request("ready", seconds=_RESTART_SECONDS)
            except OSError as error:
                raise SandboxGone(str(error)) from error
            if ready.get("renewed") is True:
                renewed = f"[The kernel had ended, and was restarted: {_ALL_GONE}; {_FILES_STAY}.]"
                notes = [*notes, renewed]
            if stop.is_set():
                return NotebookOutput("[The call was cancelled before the code was run.]")
            running = asyncio.create_task(
                self._sandbox.run(
                    code=code,
                    characters=_RAW * characters,
                    image_bytes=self._settings.attachment_bytes,
                )
            )
            end = await self._wait(running, stop)
            result = RunResult.read(running.result())
            attachments, left_out = await self._in_time(self._attachments(result, session))
        except SandboxGone as error:
            self._sandbox.kill(error.why)
            text = f"[The notebook has ended, because {error.why}: {_ALL_GONE}, and the files "
            text += "in /mnt/data are as they were before this call. The next call begins anew.]"
            text = output_with_notes(notes, ("", 0, ""), [text], characters)
            return NotebookOutput(text, is_usable=False, has_memory=False)
        finally:
            self.last_use = asyncio.get_running_loop().time()
        if not end and result.status == "died":
            end = f"[The kernel has ended: {_cause_of_death(result.exit)}. It was restarted: "
            end += f"{_ALL_GONE}; {_FILES_STAY}.]"
        output = (result.first, result.cut, result.last)
        return NotebookOutput(
            output_with_notes(notes, output, [end, left_out], characters),
            tuple(attachments),
            has_memory=result.status != "died",
        )

    async def _wait(self, running: asyncio.Task[dict[str, object]], stop: asyncio.Event) -> str:
        """Wait for the end of a run, and stop it in time; return a note on how it was stopped."""
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
        self._sandbox.notify("interrupt")
        await asyncio.wait({running}, timeout=self._settings.grace_seconds)
        if running.done():
            return f"[The code was interrupted: {why}. Variables and files are still there.]"
        self._sandbox.notify("restart")
        await asyncio.wait({running}, timeout=_END_SECONDS)
        if not running.done():
            self._sandbox.kill("it could not be stopped")
            await asyncio.wait({running})
        return (
            f"[The code was ended: {why}, and it did not stop when it was interrupted. The kernel "
            f"was restarted: {_ALL_GONE}; {_FILES_STAY}.]"
        )

    async def _attachments(
        self, result: RunResult, session: PythonSession
    ) -> tuple[list[Attachment], str]:
        """Collect images and files; return them, and a note on what is left out."""
        attachments: list[Attachment] = []
        most = self._settings.attachment_bytes
        room = 3 * most

        def fits(data: bytes) -> bool:
            has_place = len(attachments) < self._settings.attachments
            return has_place and len(data) <= min(room, most)

        images_left_out = result.images_left_out
        for kind, data in result.image_data():
            if not fits(data):
                images_left_out += 1
                continue
            session.images += 1
            suffix = mimetypes.guess_extension(kind) or ""
            attachments.append(Attachment(f"image-{session.images}{suffix}", data, kind))
            room -= len(data)
        left_out = [f"{images_left_out:,} images"] if images_left_out else []
        for path in result.files_gone:
            session.forget_file(path)
        for file in result.files:
            if not is_plain_path(file.path):
                left_out.append(f"a file with an odd name, {file.path!a:.80}")
                continue
            content = await self._file(file.path, file.size, session)
            if content is None or not fits(content):
                left_out.append(f"{file.path} ({file.size:,} bytes)")
                continue
            attachments.append(Attachment.of_file(file.path, content))
            room -= len(content)
        if not left_out and not result.files_left_out:
            return attachments, ""
        names = listed(left_out, result.files_left_out)
        return attachments, f"[not attached, too large or too many: {names}]"

    async def _file(self, path: str, size: int, session: PythonSession) -> bytes | None:
        """Read a changed file if it can be attached or stored, and store it if it fits."""
        most = max(self._settings.state_bytes, self._settings.attachment_bytes)
        data = await self._read(path, most) if size <= most else None
        session.store_file(path, data, self._settings.state_bytes)
        return data

    async def _read(self, path: str, most: int) -> bytes | None:
        """Read a file; None if it is gone, not a plain file, or larger than `most`."""
        data = b""
        while len(data) <= most:
            # One byte more than fits shows that the file is too large.
            size = min(_PART, most + 1 - len(data))
            try:
                response = await self._sandbox.request(
                    "get", path=path, offset=len(data), size=size
                )
            except OSError:
                return None
            part: bytes = response["data"]
            data += part
            if len(part) < size:
                return data
        return None


def _cause_of_death(exit_code: int) -> str:
    if exit_code >= 0:
        return f"it exited with code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    may_lack_memory = -exit_code in _KILLED
    return f"it was killed by {name}" + (", perhaps for want of memory" if may_lack_memory else "")

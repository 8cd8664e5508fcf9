"""What the attendant says of a run, read without believing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .sandbox import SandboxGone

__all__ = ["RunAnswer"]

_Size = Annotated[int, Field(ge=0, le=1 << 62)]
_Path = Annotated[str, Field(max_length=4096)]


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


class RunAnswer(BaseModel):
    """The answer to a run; `data` has the bytes of the images, one after the other."""

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
    def read(cls, answer: Mapping[str, Any]) -> RunAnswer:
        """Read an answer. Raises `SandboxGone` for what no attendant says."""
        try:
            return cls.model_validate(dict(answer))
        except ValidationError as error:
            raise SandboxGone("the sandbox is gone: it spoke out of turn") from error

    def image_data(self) -> list[tuple[str, bytes]]:
        """Return the type and the bytes of each image."""
        found: list[tuple[str, bytes]] = []
        start = 0
        for image in self.images:
            found.append((image.type, self.data[start : start + image.size]))
            start += image.size
        return found

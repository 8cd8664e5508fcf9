"""Batches of requests: what OpenAI's and Anthropic's APIs send, and what they send back.

Both become the same `Batch`: the client's ids and bodies for one endpoint. Each answer is a status
and the JSON of a whole answer, or None for a request that has none at the end of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import Field

from ..conversation.json_field import strict_json
from ..errors import ConversationError
from .current_date import rfc_3339
from .files import FileExpiry
from .request_body import Metadata, RequestBody

MESSAGES_ENDPOINT = "/v1/messages"

_MOST = 50_000  # requests
_MOST_ERRORS = 100  # that are listed
_LONGEST_ID = 512  # characters

_Request: TypeAlias = tuple[str, dict[str, Any]]


class BatchBody(RequestBody):
    """A batch of OpenAI's API, whose requests are the lines of a file."""

    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/responses", "/v1/completions"]
    completion_window: Literal["24h"]
    metadata: Metadata | None = None
    output_expires_after: FileExpiry | None = None


class MessagesBatchBody(RequestBody):
    """A batch of Anthropic's API."""

    requests: list[dict[str, Any]] = Field(min_length=1, max_length=_MOST)


class BatchAnswer(NamedTuple):
    """The answer to a request: the status of HTTP, the id of the request in logs, and the JSON.

    `headers` say which fields were ignored or not enforced.
    """

    status: int
    request_id: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] | None = None


class BatchBodyError(ConversationError):
    """Requests of a batch cannot be answered; `errors` are in the form of OpenAI's API."""

    def __init__(self, errors: Sequence[dict[str, Any]]) -> None:
        first = errors[0]
        super().__init__(f"request {first['line']}: {first['message']}", field=first["param"] or "")
        self.errors = errors


def read_batch_file(
    data: bytes,
    endpoint: str,
    most_bytes: int | None = None,
    read: Callable[[bytes], Any] = strict_json,
) -> list[_Request]:
    """Read the lines of an input file. Raises `BatchBodyError`.

    A request has at most `most_bytes`. `read` reads JSON, and raises an error for what is none.

    >>> line = b'{"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": {}}'
    >>> read_batch_file(line, "/v1/responses")
    [('a', {})]
    """
    # Of bytes: a text would also be split at U+2028, which JSON may contain.
    lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]

    def parsed(line: bytes) -> Any:
        if most_bytes is not None and len(line) > most_bytes:
            return f"a request has at most {most_bytes:,} bytes, not {len(line):,}"
        return _parsed(line, endpoint, read)

    return _checked(((number, parsed(line)) for number, line in lines), "body")


def read_batch_requests(requests: Sequence[Mapping[str, Any]]) -> list[_Request]:
    """Read the requests of Anthropic's API. Raises `BatchBodyError`, whose lines begin with 1.

    >>> read_batch_requests([{"custom_id": "a", "params": {"max_tokens": 1}}])
    [('a', {'max_tokens': 1})]
    """
    return _checked(enumerate(requests, 1), "params")


def _parsed(line: bytes, endpoint: str, read: Callable[[bytes], Any]) -> Any:
    """Read a line; a text is the reason why it cannot be answered."""
    try:
        found = read(line)
    except (ValueError, RecursionError):
        return "this is not JSON"
    if isinstance(found, dict) and (found.get("method"), found.get("url")) != ("POST", endpoint):
        return f"method and url must be POST and {endpoint}, as the batch says"
    return found


def _checked(lines: Iterable[tuple[int, Any]], name: str) -> list[_Request]:
    requests: dict[str, dict[str, Any]] = {}
    errors: list[dict[str, Any]] = []
    for number, line in lines:
        if len(errors) == _MOST_ERRORS or len(requests) > _MOST:
            break
        problem, field = _problem(line, name, requests)
        if problem:
            found = {"code": "invalid_request", "line": number, "message": problem, "param": field}
            errors.append(found)
        else:
            requests[line["custom_id"]] = line[name]
    if not (requests or errors):
        errors = [{"code": "empty_file", "line": 1, "message": "there is no line", "param": None}]
    if len(requests) > _MOST:
        problem = f"a batch has at most {_MOST:,} requests"
        errors = [{"code": "too_many_tasks", "line": _MOST + 1, "message": problem, "param": None}]
    if errors:
        raise BatchBodyError(errors)
    return list(requests.items())


def _problem(line: Any, name: str, earlier: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return why a request cannot be answered, and its wrong field; an empty text if it can."""
    if not isinstance(line, dict):
        return line if isinstance(line, str) else "expected an object", None
    id, body = line.get("custom_id"), line.get(name)
    if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID:
        return f"custom_id must be a text of 1 to {_LONGEST_ID} characters", "custom_id"
    if id in earlier:
        return f"an earlier request has the custom_id {id!r:.80}", "custom_id"
    if not isinstance(body, dict):
        return f"{name} must be the object of a request", name
    later = next((field for field in ("stream", "background") if body.get(field)), None)
    if later is not None:
        return "a batch has whole answers; leave it out", f"{name}.{later}"
    return "", None


# What the APIs send


@dataclass(frozen=True)
class Batch:
    """A batch; times in seconds since 1970.

    - `endpoint`: the path that its requests are for.
    - `status`: in_progress, cancelling, completed, cancelled, expired or failed.
    - `deadline`: when requests without an answer expire. `expires_at`: when the batch is deleted.
    - `state`: times, ids of files and errors by their names in OpenAI's API, and `counts`, the
      numbers of good and bad answers, once the batch has ended.
    """

    id: str
    owner: str
    endpoint: str
    status: str
    created_at: int
    deadline: int
    expires_at: int | None
    total: int
    metadata: dict[str, str]
    state: dict[str, Any]

    @property
    def is_running(self) -> bool:
        """Whether answers may follow."""
        return self.status in ("in_progress", "cancelling")

    @property
    def is_of_messages(self) -> bool:
        """Whether the batch is one of Anthropic's API."""
        return self.endpoint == MESSAGES_ENDPOINT


def batch_json(batch: Batch, good: int, bad: int) -> dict[str, Any]:
    """Write a batch for a client of its API; `good` and `bad` are the numbers of its answers."""
    state = {name: value for name, value in batch.state.items() if name not in _HIDDEN}
    if not batch.is_of_messages:
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "completion_window": "24h",
            "status": batch.status,
            "created_at": batch.created_at,
            "in_progress_at": batch.created_at,
            "expires_at": batch.deadline,
            "metadata": batch.metadata,
            "request_counts": {"total": batch.total, "completed": good, "failed": bad},
            **state,
        }
    left = batch.total - good - bad
    ends = (state.get(f"{end}_at") for end in ("completed", "cancelled", "expired"))
    ended, cancelled = next(filter(None, ends), None), state.get("cancelling_at")
    status = {"in_progress": "in_progress", "cancelling": "canceling"}.get(batch.status, "ended")
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": {
            "processing": left if batch.is_running else 0,
            "succeeded": good,
            "errored": bad,
            "canceled": left if batch.status == "cancelled" else 0,
            "expired": left if batch.status == "expired" else 0,
        },
        "created_at": rfc_3339(batch.created_at),
        "expires_at": rfc_3339(batch.deadline),
        "ended_at": None if ended is None else rfc_3339(ended),
        "cancel_initiated_at": None if cancelled is None else rfc_3339(cancelled),
        "archived_at": None,
        "results_url": None if batch.is_running else f"/v1/messages/batches/{batch.id}/results",
    }


_HIDDEN = {"counts", "seconds"}


def batch_line(id: str, custom_id: str, answer: BatchAnswer | None, status: str) -> dict[str, Any]:
    """Write a line of OpenAI's output or error file; `status` is that of the batch at its end.

    >>> batch_line("batch_req_1", "a", None, "expired")["error"]["code"]
    'batch_expired'
    """
    line: dict[str, Any] = {"id": id, "custom_id": custom_id, "response": None, "error": None}
    if answer is None:
        message = f"the batch was {status} before this request had an answer"
        return {**line, "error": {"code": f"batch_{status}", "message": message}}
    response = {"status_code": answer.status, "request_id": answer.request_id, "body": answer.body}
    more = {"headers": answer.headers} if answer.headers else {}
    return {**line, "response": {**response, **more}}


def messages_batch_line(custom_id: str, answer: BatchAnswer | None, status: str) -> dict[str, Any]:
    """Write a line of Anthropic's results.

    >>> messages_batch_line("a", None, "cancelled")["result"]
    {'type': 'canceled'}
    """
    if answer is None:
        result: dict[str, Any] = {"type": "expired" if status == "expired" else "canceled"}
    elif answer.status == 200:
        result = {"type": "succeeded", "message": answer.body}
    else:
        result = {"type": "errored", "error": answer.body}
    more = {"headers": answer.headers} if answer is not None and answer.headers else {}
    return {"custom_id": custom_id, "result": {**result, **more}}

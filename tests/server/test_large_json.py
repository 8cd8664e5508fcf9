"""Large JSON is read as Python reads it, up to a limit, and written as everything else is.

Python also reads what JSON has no words for, such as NaN and 1e999: that is an error.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpt_oss_harmony.apis.wire_events import json_text
from gpt_oss_harmony.server.http import json as server_json
from gpt_oss_harmony.server.http.errors import ApiError
from gpt_oss_harmony.server.http.json import json_parts, large_json_response, read_json

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.fixture
def always_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_json, "_FEW", 0)
    monkeypatch.setattr(server_json, "_SLICE", 2)
    monkeypatch.setattr(server_json, "VALUE_LIMIT", 1000)


@pytest.mark.usefixtures("always_large")
@given(JSON)
def test_the_slow_reader_and_writer_are_the_fast_ones(value: Any) -> None:
    data = json.dumps([value]).encode()
    assert read_json(data) == json.loads(data)
    assert "".join(json_parts(value)) == json_text(value)
    assert large_json_response(value).body == json_text(value).encode()


@pytest.mark.usefixtures("always_large")
@pytest.mark.parametrize("data", [b"[1,", b"[1,]", b'{"a":[}', b"[1, 01]", b"[1] [2]"])
def test_what_is_no_json_is_the_same_error(data: bytes) -> None:
    with pytest.raises(ValueError) as expected:  # noqa: PT011 - whatever Python says
        json.loads(data)
    with pytest.raises(type(expected.value)) as found:
        read_json(data)
    assert str(found.value) == str(expected.value)


def test_bytes_that_are_not_utf_8_are_no_json() -> None:
    with pytest.raises(json.JSONDecodeError, match=r"not UTF-8 \(byte 1\)"):
        read_json(b"[\xff]")


@pytest.mark.usefixtures("always_large")
@pytest.mark.parametrize("value", ["[]", "1", "null", '"a"', '{"a":1}', '{"a":{}}'])
def test_the_values_of_a_request_are_limited(value: str) -> None:
    assert len(read_json(f"[{','.join([value] * 400)}]".encode())) == 400
    with pytest.raises(ApiError, match="more than 1,000 values") as refused:
        read_json(f"[{','.join([value] * 1001)}]".encode())
    assert (refused.value.status, refused.value.code) == (413, "request_too_large")


@given(
    st.text('[]{},:"\\/ \n\u2028\ufeff019.eE+-aéudD38漢😀')
    | JSON.map(json.dumps)
    | st.tuples(JSON.map(json.dumps), st.integers(0, 99), st.characters()).map(
        lambda text: text[0][: text[1]] + text[2] + text[0][text[1] + 1 :]
    )
)
@example("-0")
@example("[1e999, -1e999, NaN, -Infinity, 5e-324, -0.0]")
@example('["\ud83d"]')
@example("9" * 4300)
@example("9" * 4301)
@example('"\\ud83d"')
@example('{"\\ude00": 1, "a": 1, "a": 2}')
@example("\ufeff[]")
@example("[" * 300 + "]" * 300)
def test_any_text_is_what_it_is_for_python(text: str) -> None:
    for data in (text, text.encode("utf-8", "surrogatepass")):
        try:
            value = json.loads(data)
            expected = repr(value)
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            other = "is not JSON|is too large|too many digits"
            with pytest.raises(json.JSONDecodeError, match=f"^{re.escape(str(error))}$|{other}"):
                read_json(data)
        else:
            assert repr(read_json(data)) == expected


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("text", ["[NaN]", "[-Infinity]", "[1e999]", '{"a": [-1.5e400]}'])
def test_what_json_has_no_words_for_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, large: bool
) -> None:
    monkeypatch.setattr(server_json, "_FEW", 0 if large else 99)
    with pytest.raises(json.JSONDecodeError, match=r"is not JSON|is too large"):
        read_json(text)


@pytest.mark.usefixtures("always_large")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_each_encoding_of_json_is_read(encoding: str) -> None:
    assert read_json('["é", []]'.encode(encoding)) == ["é", []]

"""The server's own tools in the Responses API: what they do, say and leave behind."""

from __future__ import annotations

import asyncio
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony import Message, Role
from gpt_oss_harmony.apis import ResponsesRequest, response_of
from gpt_oss_harmony.apis.items import ItemBegun, ItemEnded, ItemKind, ItemText, TokenLogprob
from gpt_oss_harmony.apis.responses.writer import ResponseWriter
from gpt_oss_harmony.server.admission import Admission
from gpt_oss_harmony.server.tools.conversation_tools import CitedAnswer
from gpt_oss_harmony.tools.browser import BrowserSession, Page
from support.responses_server import NOW, create, fields_of, replay, stream, types
from support.scripted_engine import ENCODING, PATIENCE
from support.server_tools import (
    COMPUTE,
    NEXT,
    SEARCH,
    PretendedPython,
    RoomyEngine,
    answer,
    browse,
    compute,
    serving_tools,
)

THOUGHT = f"<|channel|>analysis<|message|>Hm, hm.{NEXT}"
CALL = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>"
CITED = "They live in the Americas【1†L4】, which are two【2†L0-L4】. Not【9†L1】."

RESEARCH = [
    THOUGHT + browse("search", query="armadillos", topn=2),
    browse("open", id=0),
    browse("open", id=0),
    browse("find", pattern="continents"),
    THOUGHT + answer(CITED),
]
WEB = [
    "output_item.added",
    "web_search_call.in_progress",
    "web_search_call.searching",
    "web_search_call.completed",
    "output_item.done",
]
CODE = [
    "output_item.added",
    "code_interpreter_call.in_progress",
    "code_interpreter_call_code.delta",
    "code_interpreter_call_code.done",
    "code_interpreter_call.interpreting",
    "code_interpreter_call.completed",
    "output_item.done",
]


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


def calls(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in response["output"] if item["type"].endswith("_call")]


def tool_free(prompt: str) -> str:
    """A prompt without its system message."""
    return prompt.partition("<|end|>")[2]


# The browser


def test_search_open_find_answer_with_citations(tmp_path: Path) -> None:
    engine = RoomyEngine(*RESEARCH)
    with serving_tools(engine, folder=tmp_path) as client:
        events = stream(
            client, input="Where?", tools=[SEARCH], include=["web_search_call.action.sources"]
        )
        response = events[-1]["response"]
        kept = client.get(f"/v1/responses/{response['id']}").json()
    assert kept == response
    assert kinds(response) == [
        "reasoning",
        *["web_search_call"] * 4,
        "reasoning",
        "message",
    ]
    sources = [{"type": "url", "url": f"doc://guide/{name}.md"} for name in ("animals",)]
    search, animals, places, find = calls(response)
    assert search["action"] == {
        "type": "search",
        "query": "armadillos",
        "queries": ["armadillos"],
        "sources": sources,
    }
    assert animals["action"] == {"type": "open_page", "url": "doc://guide/animals.md"}
    assert places["action"] == {"type": "open_page", "url": "doc://guide/places.md"}
    assert find["action"] == {
        "type": "find_in_page",
        "url": "doc://guide/places.md",
        "pattern": "continents",
    }
    assert {one["status"] for one in calls(response)} == {"completed"}
    (part,) = response["output"][-1]["content"]
    cited = [
        (one["url"], part["text"][one["start_index"] : one["end_index"]])
        for one in part["annotations"]
    ]
    assert cited == [
        ("doc://guide/animals.md", "([guide](doc://guide/animals.md))"),
        ("doc://guide/places.md", "([guide](doc://guide/places.md))"),
    ]
    assert part["text"].endswith("places.md)). Not.")
    assert part["annotations"][0]["lines"] == [[4, 4]]
    assert part["annotations"][0]["cited_text"] == "Armadillos live in the Americas."
    deltas = [one["delta"] for one in events if one["type"] == "response.output_text.delta"]
    assert "".join(deltas) == part["text"]
    assert all("【" not in delta for delta in deltas)
    told = [name for name, _ in groupby(types(events))]
    at = told.index(WEB[1]) - 1
    assert told[at : at + 10] == [*WEB, *WEB]
    added = [one for one in events if one["type"].endswith("annotation.added")]
    assert [one["annotation"] for one in added] == part["annotations"]
    assert told.index("output_text.annotation.added") < told.index("output_text.done")


def test_prompts_of_a_response_repeat_its_tokens(tmp_path: Path) -> None:
    engine = RoomyEngine(*RESEARCH)
    with serving_tools(engine, folder=tmp_path) as client:
        response = create(client, input="Where?", tools=[SEARCH])
    for before, said, prompt in zip(engine.prompts, RESEARCH, engine.prompts[1:], strict=False):
        assert prompt.startswith(f"{before}{said}<|start|>browser.")
        assert prompt.endswith("<|end|><|start|>assistant")
    lengths = [len(ENCODING.encode(one, allowed_special="all")) for one in engine.prompts]
    sampled = [len(ENCODING.encode(one, allowed_special="all")) for one in RESEARCH]
    assert response["usage"]["input_tokens"] == sum(lengths)
    assert response["usage"]["output_tokens"] == sum(sampled)
    assert "# Tools\n\n## browser" in engine.prompts[0]


def test_the_next_prompt_has_the_marks_that_the_model_wrote(tmp_path: Path) -> None:
    engine = RoomyEngine(*RESEARCH, answer("Again."), answer("Again."))
    with serving_tools(engine, folder=tmp_path) as client:
        first = create(client, input="Where?", tools=[SEARCH])
        create(client, input="What?", tools=[SEARCH], previous_response_id=first["id"])
        question = {"role": "user", "content": "Where?"}
        sent = [question, *first["output"], {"role": "user", "content": "What?"}]
        create(client, input=sent, tools=[SEARCH])
    assert f"<|channel|>final<|message|>{CITED}<|end|>" in engine.prompts[-2]
    assert engine.prompts[-1] == engine.prompts[-2]


def test_marks_in_json_stay_where_they_are_cited(tmp_path: Path) -> None:
    said = '{"place": "America【0†L4】"}'
    engine = RoomyEngine(browse("search", query="armadillos"), answer(said))
    form = {"type": "json_schema", "name": "a", "schema": {"type": "object"}}
    with serving_tools(engine, folder=tmp_path) as client:
        response = create(client, input="Where?", tools=[SEARCH], text={"format": form})
    (part,) = response["output"][-1]["content"]
    (cited,) = part["annotations"]
    assert part["text"] == said
    assert said[cited["start_index"] : cited["end_index"]] == "【0†L4】"


def test_logprobs_wait_with_the_text_that_is_held_back() -> None:
    session = BrowserSession()
    session.show(Page(url="https://a.example/", title="A", text="One"))
    stream = ResponseWriter(
        response_of(ResponsesRequest(input="?"), id="r", created_at=0, model="m").to_dict(),
        new_id=lambda prefix: prefix,
        now=lambda: 1,
        cited_text=lambda: CitedAnswer(session, lambda text, *, is_answer: []),
    )
    events = fields_of(stream.take(ItemBegun(0, ItemKind.FINAL_ANSWER)))
    pieces = ["There", "【0", "†L0", "】", ".", " 【9", "†L1】"]
    for piece in pieces:
        known = TokenLogprob(0, piece.encode(), -0.5)
        events += fields_of(stream.take(ItemText(0, piece, (known,))))
    message = Message.from_role_and_content(Role.ASSISTANT, "".join(pieces)).with_channel("final")
    events += fields_of(stream.take(ItemEnded(0, message.text, message)))
    deltas = [one for one in events if one["type"] == "response.output_text.delta"]
    told = [
        ["".join(one["token"] for one in delta["logprobs"]), delta["delta"]] for delta in deltas
    ]
    assert told == [
        ["There", "There"],
        ["【0†L0】", "([a.example](https://a.example/))"],
        [".", "."],
    ]
    (part,) = stream.items[0].item["content"]
    assert part["text"] == "There([a.example](https://a.example/))."
    assert "".join(one["token"] for one in part["logprobs"]) == "".join(pieces)


def test_a_second_turn_continues_with_the_pages_that_are_open(tmp_path: Path) -> None:
    later = [browse("open", cursor=1, loc=4), answer("Still there【2†L4】.")]
    for place in ("previous", "conversation"):
        engine = RoomyEngine(*RESEARCH[:2], answer("See."), *later)
        with serving_tools(engine, folder=tmp_path) as client:
            body: dict[str, Any] = {"tools": [SEARCH]}
            if place == "conversation":
                body["conversation"] = client.post("/v1/conversations", json={}).json()["id"]
            first = create(client, input="Where?", **body)
            if place == "previous":
                body["previous_response_id"] = first["id"]
            second = create(client, input="Again?", **body)
        call, message = second["output"]
        assert call["action"]["url"] == "doc://guide/animals.md"
        (cited,) = message["content"][0]["annotations"]
        assert cited["url"] == "doc://guide/animals.md"
        assert "[2] Animals" in engine.prompts[-1]
        # What was done within the reasoning before an answer goes with it.
        assert "armadillos" not in engine.prompts[3]


def test_a_call_that_cannot_be_done_is_told_to_the_model(tmp_path: Path) -> None:
    engine = RoomyEngine(
        browse("open", id=7), browse("searhc", query="x"), browse("search"), answer("I cannot.")
    )
    with serving_tools(engine, folder=tmp_path, grammar=False) as client:
        events = stream(client, input="Where?", tools=[SEARCH])
    response = events[-1]["response"]
    assert [call["status"] for call in calls(response)] == ["failed"] * 3
    assert response["status"] == "completed"
    assert engine.prompts[-1].count("Error: ") == 3
    assert "web_search_call.completed" not in types(events)


@pytest.mark.parametrize("header", ["commentary", "analysis"])
@pytest.mark.parametrize("name", ["browser.search", "functions.browser.search"])
def test_calls_are_answered_as_models_write_them(header: str, name: str, tmp_path: Path) -> None:
    call = f'<|channel|>{header} to={name} code<|message|>{{"query": "armadillos"}}<|call|>'
    engine = RoomyEngine(call, answer("There【0†L4】."))
    with serving_tools(engine, folder=tmp_path, grammar=False) as client:
        response = create(client, input="Where?", tools=[SEARCH])
    called, message = response["output"]
    assert (called["type"], called["status"]) == ("web_search_call", "completed")
    assert called["action"]["query"] == "armadillos"
    assert message["content"][0]["annotations"][0]["url"] == "doc://guide/animals.md"
    assert f"to=assistant<|channel|>{header}<|message|>[0] armadillos" in engine.prompts[-1]


# python


def test_compute_write_a_file_answer_with_it() -> None:
    text = "See [the plot](sandbox:/mnt/data/a/plot.png)."
    engine = RoomyEngine(compute("write a/plot.png PNG"), compute("write b.txt text"), answer(text))
    body = {"tools": [COMPUTE], "include": ["code_interpreter_call.outputs"]}
    with serving_tools(engine, PretendedPython()) as client:
        events = stream(client, input="Plot!", **body)
        response = events[-1]["response"]
        plotted, written = calls(response)
        container = plotted["container_id"]
        listed = client.get(f"/v1/containers/{container}/files").json()
        (part,) = response["output"][-1]["content"]
        plot, other = part["annotations"]
        about = client.get(f"/v1/containers/{container}/files/{plot['file_id']}").json()
        got = client.get(f"/v1/containers/{container}/files/{plot['file_id']}/content")
        client.delete(f"/v1/responses/{response['id']}")
        gone = client.get(f"/v1/containers/{container}/files/{plot['file_id']}")
    assert plotted["code"] == "write a/plot.png PNG"
    assert plotted["outputs"] == [
        {"type": "logs", "logs": "after ['write a/plot.png PNG']"},
        {"type": "image", "url": "data:image/png;base64,UE5H"},
    ]
    assert len(written["outputs"]) == 1
    assert container.startswith("cntr_")
    assert part["text"][plot["start_index"] : plot["end_index"]] == "sandbox:/mnt/data/a/plot.png"
    assert (other["filename"], other["start_index"]) == ("b.txt", len(text))
    assert [one["id"] for one in listed["data"]] == [other["file_id"], plot["file_id"]]
    assert about == listed["data"][1]
    assert (about["path"], about["bytes"]) == ("/mnt/data/a/plot.png", 3)
    assert got.content == b"PNG"
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''plot.png"
    assert gone.status_code == 404
    told = [name for name, _ in groupby(types(events))]
    assert told[2:16] == [*CODE, *CODE]


def test_outputs_are_shown_to_who_asks_for_them_alone() -> None:
    engine = RoomyEngine(compute("1"), answer("One."))
    with serving_tools(engine, PretendedPython()) as client:
        response = create(client, input="1?", tools=[{"type": "code_interpreter"}])
    assert calls(response)[0]["outputs"] is None
    assert response["tools"] == [COMPUTE]


def test_a_second_turn_continues_pythons_state() -> None:
    engine = RoomyEngine(compute("one"), answer("1"), compute("two"), answer("/mnt/data/x"))
    with serving_tools(engine, PretendedPython()) as client:
        first = create(client, input="1", tools=[COMPUTE])
        second = create(client, input="2", tools=[COMPUTE], previous_response_id=first["id"])
    assert calls(first)[0]["container_id"] == calls(second)[0]["container_id"]
    assert "after ['one', 'two']" in engine.prompts[-1]


def test_nobody_else_reads_a_file() -> None:
    engine = RoomyEngine(compute("write a.txt text"), answer("Done."))
    with serving_tools(engine, PretendedPython(), api_keys=("one", "two")) as client:
        client.headers["authorization"] = "Bearer one"
        response = create(client, input="!", tools=[COMPUTE])
        (file,) = response["output"][-1]["content"][0]["annotations"]
        place = f"/v1/containers/{file['container_id']}/files"
        assert client.get(f"{place}/{file['file_id']}/content").status_code == 200
        client.headers["authorization"] = "Bearer two"
        assert client.get(f"{place}/{file['file_id']}/content").status_code == 404
        assert client.get(f"{place}/{file['file_id']}").status_code == 404
        assert client.get(place).status_code == 404


def test_a_response_that_is_not_stored_has_no_files() -> None:
    engine = RoomyEngine(compute("write a.txt text"), answer("See /mnt/data/a.txt"))
    with serving_tools(engine, PretendedPython()) as client:
        response = create(client, input="!", tools=[COMPUTE], store=False)
    assert response["output"][-1]["content"][0]["annotations"] == []


def test_code_in_json_is_shown_as_code() -> None:
    engine = RoomyEngine(compute(json.dumps({"code": "1 + 1"})), answer("Two."))
    with serving_tools(engine, PretendedPython()) as client:
        events = stream(client, input="!", tools=[COMPUTE])
    deltas = [one["delta"] for one in events if one["type"].endswith("_code.delta")]
    assert "".join(deltas) == calls(events[-1]["response"])[0]["code"] == "1 + 1"


# The loop


def test_a_tool_that_fails_is_told_to_the_model() -> None:
    engine = RoomyEngine(compute("raise"), answer("It failed."))
    with serving_tools(engine, PretendedPython()) as client:
        response = create(client, input="!", tools=[COMPUTE])
        metrics = client.get("/metrics").text
    assert calls(response)[0]["status"] == "failed"
    assert response["status"] == "completed"
    assert "Error: the tool failed" in engine.prompts[1]
    assert 'harmony_tool_calls_total{status="failed",tool="python"} 1.0' in metrics


def test_cancelled_while_the_tool_runs() -> None:
    tool = PretendedPython()
    engine = RoomyEngine(compute("hang"))
    with serving_tools(engine, tool) as client:
        begun = client.post(
            "/v1/responses", json={"input": "!", "tools": [COMPUTE], "background": True}
        ).json()
        assert tool.hanging.acquire(timeout=PATIENCE)
        ended = client.post(f"/v1/responses/{begun['id']}/cancel").json()
        assert tool.cancelled.acquire(timeout=PATIENCE)
        told = replay(client, begun["id"])
    assert ended["status"] == "cancelled"
    assert calls(ended)[0]["status"] == "incomplete"
    assert types(told)[-3:] == [
        "code_interpreter_call.interpreting",
        "output_item.done",
        "incomplete",
    ]


def test_shutting_down_while_the_tool_runs_ends_the_response() -> None:
    tool = PretendedPython()
    engine = RoomyEngine(compute("hang"))
    with serving_tools(engine, tool, shutdown_seconds=0.1) as client:
        body = {"input": "!", "tools": [COMPUTE], "background": True}
        client.post("/v1/responses", json=body)
        assert tool.hanging.acquire(timeout=PATIENCE)
    assert tool.cancelled.acquire(timeout=PATIENCE)


def test_a_server_that_ends_waits_for_tools() -> None:
    async def closing() -> list[bool]:
        admission = Admission(1, 1)
        with admission.whole_request():
            under_way = await admission.close(0.01)
        return [under_way, await admission.close(PATIENCE)]

    assert asyncio.run(closing()) == [False, True]


def test_a_cancelled_call_leaves_the_session_as_it_was() -> None:
    tool = PretendedPython()
    engine = RoomyEngine(compute("one"), compute("hang"), compute("two"), answer("Two."))
    with serving_tools(engine, tool) as client:
        body = {"input": "!", "tools": [COMPUTE], "background": True}
        begun = client.post("/v1/responses", json=body).json()
        assert tool.hanging.acquire(timeout=PATIENCE)
        client.post(f"/v1/responses/{begun['id']}/cancel")
        create(client, input="?", tools=[COMPUTE], previous_response_id=begun["id"])
    assert "after ['one', 'two']" in engine.prompts[-1]
    assert "hang" not in engine.prompts[-1]


def test_max_tool_calls_under_the_grammar() -> None:
    engine = RoomyEngine(compute("1"), compute("2"), answer("Done."))
    with serving_tools(engine, PretendedPython()) as client:
        response = create(client, input="!", tools=[COMPUTE, NOW], max_tool_calls=2)
    assert len(calls(response)) == 2
    grammars = [one.grammar or "" for one in engine.samplings]
    assert ["to=python" in grammar for grammar in grammars] == [True, True, False]
    assert ["to=functions.now" in grammar for grammar in grammars] == [True] * 3


def test_max_tool_calls_of_a_model_that_does_not_listen() -> None:
    engine = RoomyEngine(*map(compute, "12345678"))
    with serving_tools(engine, PretendedPython(), grammar=False, max_tool_calls=2) as client:
        body = {"input": "!", "tools": [COMPUTE], "max_tool_calls": 5}
        response = client.post("/v1/responses", json=body).json()
    statuses = [call["status"] for call in calls(response)]
    assert statuses == ["completed"] * 2 + ["incomplete"] * 4
    assert (response["status"], response["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_tool_calls"},
    )
    assert len(engine.prompts) == 6
    assert "no more calls can be made" in engine.prompts[3]


def test_a_required_call_is_required_once() -> None:
    for choice in ("required", {"type": "code_interpreter"}):
        engine = RoomyEngine(compute("1"), answer("Done."))
        with serving_tools(engine, PretendedPython()) as client:
            create(client, input="!", tools=[COMPUTE], tool_choice=choice)
        first, second = (one.grammar or "" for one in engine.samplings)
        assert "answer:" not in first
        assert "answer:" in second


def test_tokens_are_limited_for_all_turns_together() -> None:
    engine = RoomyEngine(compute("1"), answer("This is too long to be said."))
    with serving_tools(engine, PretendedPython()) as client:
        response = create(client, input="!", tools=[COMPUTE], max_output_tokens=14)
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens"] == 14
    assert kinds(response) == ["code_interpreter_call", "message"]


@pytest.mark.parametrize("length", range(1, 9))
def test_a_call_that_the_limit_cuts_is_not_run(length: int, tmp_path: Path) -> None:
    for call, tool in ((compute("1 + 1 + 1"), COMPUTE), (browse("search", query="a b"), SEARCH)):
        engine = RoomyEngine(call)
        with serving_tools(engine, PretendedPython(), folder=tmp_path) as client:
            events = stream(client, input="!", tools=[tool], max_output_tokens=length)
        response = events[-1]["response"]
        assert response["status"] == "incomplete"
        assert {one["status"] for one in calls(response)} <= {"incomplete"}


def test_no_room_for_what_the_tool_said_ends_the_response() -> None:
    engine = RoomyEngine(compute("word " * 200), room=560)
    with serving_tools(engine, PretendedPython()) as client:
        response = create(client, input="!", tools=[COMPUTE])
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert calls(response)[0]["status"] == "completed"


def test_functions_and_tools_of_the_server_in_one_turn() -> None:
    """The client's call ends the loop; its result goes on with the reasoning and both calls."""
    said = [THOUGHT + compute("one"), THOUGHT + CALL, compute("two"), answer("Noon.")]
    engine = RoomyEngine(*said)
    with serving_tools(engine, PretendedPython()) as client:
        body: dict[str, Any] = {"tools": [NOW, COMPUTE]}
        first = create(client, input="When?", **body)
        assert kinds(first) == [
            "reasoning",
            "code_interpreter_call",
            "reasoning",
            "function_call",
        ]
        result = {
            "type": "function_call_output",
            "call_id": first["output"][-1]["call_id"],
            "output": "noon",
        }
        second = create(client, input=[result], previous_response_id=first["id"], **body)
        sent = [{"role": "user", "content": "When?"}, *first["output"], result]
        engine.completions.append(answer("Noon."))
        create(client, input=sent, **body)
    assert kinds(second) == ["code_interpreter_call", "message"]
    assert engine.prompts[2].startswith(engine.prompts[1] + said[1] + "<|start|>functions.now")
    assert "after ['one', 'two']" in engine.prompts[3]
    # Items that the client sends back by their ids are the same tokens.
    assert tool_free(engine.prompts[4]) == tool_free(engine.prompts[2])


def test_a_stream_is_resumed_at_each_number(tmp_path: Path) -> None:
    engine = RoomyEngine(*RESEARCH[:2], compute("1"), answer(CITED))
    with serving_tools(engine, PretendedPython(), folder=tmp_path) as client:
        events = stream(client, input="Where?", tools=[SEARCH, COMPUTE])
        id = events[-1]["response"]["id"]
        for after in range(len(events)):
            assert replay(client, id, after) == events[after + 1 :]


def test_a_choice_of_none_gives_the_call_to_the_client() -> None:
    engine = RoomyEngine(compute("1"))
    with serving_tools(engine, PretendedPython(), grammar=False) as client:
        response = create(client, input="!", tools=[COMPUTE], tool_choice="none")
    assert kinds(response) == ["function_call"]


def test_tools_that_the_server_does_not_have_can_be_tolerated() -> None:
    engine = RoomyEngine(answer("No tools."), answer("No browser."))
    with serving_tools(engine, missing_tools="ignore") as client:
        create(client, input="!", tools=[COMPUTE, SEARCH])
    assert "# Tools" not in engine.prompts[0]


def test_a_call_that_the_model_forgot_to_end_is_not_run() -> None:
    forgotten = compute("1").replace("<|call|>", NEXT) + answer("Two.")
    engine = RoomyEngine(forgotten)
    with serving_tools(engine, PretendedPython(), grammar=False) as client:
        response = create(client, input="!", tools=[COMPUTE])
    assert [item["status"] for item in response["output"]] == ["incomplete", "completed"]
    assert response["status"] == "completed"


def test_a_compaction_leaves_out_the_calls_of_past_reasoning() -> None:
    engine = RoomyEngine(THOUGHT + compute("secret"), answer("1"), answer("2"), answer("3"))
    with serving_tools(engine, PretendedPython()) as client:
        first = create(client, input="1", tools=[COMPUTE])
        body = {"previous_response_id": first["id"], "model": "script"}
        compacted = client.post("/v1/responses/compact", json=body).json()
        more = {"role": "user", "content": "2"}
        create(client, input=[*compacted["output"], more], tools=[COMPUTE])
        create(client, input=[more], tools=[COMPUTE], previous_response_id=first["id"])
    assert engine.prompts[2] == engine.prompts[3]
    assert "secret" not in engine.prompts[2]


def test_a_container_is_named_by_its_id() -> None:
    include = ["code_interpreter_call.outputs"]
    cells = "abcdefgh"  # all within one second or two
    engine = RoomyEngine(*(text for cell in cells for text in (compute(cell), answer(cell))))
    with serving_tools(engine, PretendedPython()) as client:
        responses = [create(client, input="1", tools=[COMPUTE], include=include)]
        container = responses[0]["output"][0]["container_id"]
        named = {"type": "code_interpreter", "container": container}
        body = {"tools": [named], "include": include}
        responses += [create(client, input=cell, **body) for cell in cells[1:-1]]
        responses.append(
            create(client, input="8", **body, previous_response_id=responses[-1]["id"])
        )
        refused = client.post(
            "/v1/responses",
            json={
                **body,
                "input": "4",
                "tools": [{"type": "code_interpreter", "container": "cntr_none"}],
            },
        )
    outputs = [response["output"][0]["outputs"][0]["logs"] for response in responses]
    assert outputs == [f"after {list(cells[:end])}" for end in range(1, len(cells) + 1)]
    assert {response["output"][0]["container_id"] for response in responses} == {container}
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, "tools[0].container")

"""``harmony chat`` with tools that it runs: browser, python, MCP servers; Ctrl-C, errors."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gpt_oss_harmony import Message, ToolNamespaceConfig
from gpt_oss_harmony.cli import main
from gpt_oss_harmony.installation import requirement
from gpt_oss_harmony.tools.mcp.mcp_tool import McpSession
from gpt_oss_harmony.tools.python.sandbox import SandboxError
from gpt_oss_harmony.tools.tool import Attachment, Tool, ToolMessage, tool_message
from support.notebooks import needs_bubblewrap
from support.scripted_engine import ScriptedEngine
from support.terminals import Terminal

FINAL = "<|channel|>final<|message|>"
DONE = f"{FINAL}Done.<|return|>"
MORE = "<|start|>assistant"


def calling(recipient: str, text: str, channel: str = "analysis") -> str:
    return f"<|channel|>{channel} to={recipient} code<|message|>{text}<|call|>"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEngine]:
    made = ScriptedEngine()
    made.context_length = 10_000

    async def opened(model: str) -> ScriptedEngine:
        return made

    monkeypatch.setattr("gpt_oss_harmony.engines.open_engine", opened)
    yield made
    assert made.closed == bool(made.prompts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "birds"
    documents.mkdir()
    about = [f"Fact {number}: keas are curious." for number in range(20)]
    (documents / "kea.md").write_text("\n\n".join(["# Kea", "The alpine parrot.", *about]))
    (documents / "tui.md").write_text("# Tui\n\nIt sings.\n")
    return documents


def talk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lines: str, *options: str
) -> tuple[str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    code = main(["chat", *options])
    output = capsys.readouterr()
    assert code == 0, output.err
    return output.out, output.err


class Notebook(Tool[McpSession]):
    """Stands in for the tool `python`: repeats the code, counts calls, attaches a file."""

    made: ClassVar[list[Notebook]] = []

    def __init__(self) -> None:
        self.log: list[str] = []
        self.made.append(self)

    async def start(self) -> None:
        self.log.append("start")

    @property
    def namespace(self) -> ToolNamespaceConfig:
        return ToolNamespaceConfig.python()

    def new_session(self) -> McpSession:
        self.log.append("session")
        return McpSession()

    def load_session(self, stored: str) -> McpSession:
        return McpSession.from_json(stored)

    async def call(self, message: Message, session: McpSession) -> AsyncIterator[ToolMessage]:
        code = message.text
        if code == "wait":
            signal.raise_signal(signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                self.log.append("interrupted")
        session.attachments += 1
        files = (Attachment("a/plot.png", b"PNG", "image/png"),) if code == "plot" else ()
        yield tool_message(message, f"{session.attachments}: {code}", attachments=files)

    async def close(self) -> None:
        self.log.append("close")


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> type[Notebook]:
    monkeypatch.setattr("gpt_oss_harmony.tools.python.python_tool.PythonTool", Notebook)
    monkeypatch.setattr(Notebook, "made", [])
    return Notebook


def test_the_model_searches_opens_and_answers(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
) -> None:
    engine.completions = [
        f"<|channel|>analysis<|message|>Look.<|end|>{MORE}"
        + calling("browser.search", '{"query":"alpine parrot"}'),
        calling("browser.open", '{"id":0}'),
        f"{FINAL}The kea【1†L4】.<|return|>",
        DONE,
    ]
    out, err = talk(monkeypatch, capsys, "Who?\nThanks\n", "--browser", str(folder), "--reasoning")
    assert err == ""
    lines = out.split("\n")
    assert lines[:4] == [
        "Look.",
        "[call of browser.search]",
        '{"query":"alpine parrot"}',
        "[0] alpine parrot",
    ]
    assert "[call of browser.open]" in lines
    assert "[1] Kea (doc://birds/kea.md)" in lines
    assert "L4: The alpine parrot." in lines
    assert "Fact 9" not in out  # the person sees the beginning, the model all
    assert lines[-4:] == ["[40 lines more]", "The kea【1†L4】.", "Done.", ""]
    first, second, third, fourth = engine.prompts
    assert "## browser\n\n// Tool for browsing.\n" in first
    assert "<|start|>browser.search to=assistant<|channel|>analysis<|message|>[0] alpine" in second
    assert "Fact 19" in third
    assert "Fact 19" not in fourth  # reasoning, and so are the pages


def test_python_runs_and_its_files_are_kept(
    engine: ScriptedEngine,
    notebook: type[Notebook],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "-".join(map(str, range(300)))[:700]
    engine.completions = [
        calling("python", "plot"), calling("functions.python", code), DONE,
        calling("python", "c"), DONE,
    ]  # fmt: skip
    out, _ = talk(monkeypatch, capsys, "Plot\n/new\nAgain\n", "--python")
    (plot,) = tmp_path.rglob("plot.png")
    assert plot.read_bytes() == b"PNG"
    assert out == (
        f"[call of python]\nplot\n1: plot\n[file {plot}]\n"
        f"[call of python]\n{code}\n2: {code[:597]}\n[103 characters more]\nDone.\n"
        "[call of python]\nc\n1: c\nDone.\n"
    )
    (tool,) = notebook.made
    assert tool.log == ["start", "session", "session", "close"]
    assert "## python\n" in engine.prompts[0]


def test_functions_are_still_asked_for(
    engine: ScriptedEngine,
    notebook: type[Notebook],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": "now"}]))
    engine.completions = [
        calling("python", "a"),
        calling("functions.now", "{}", "commentary"),
        DONE,
    ]
    out, _ = talk(monkeypatch, capsys, "When?\n12:00\n", "--python", "--tools", str(tools))
    assert out == "[call of python]\na\n1: a\n[call of functions.now]\n{}\nDone.\n"
    assert engine.prompts[2].endswith("<|message|>12:00<|end|><|start|>assistant")


def test_ctrl_c_interrupts_a_tool_and_takes_the_question_back(
    engine: ScriptedEngine, notebook: type[Notebook], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.completions = [calling("python", "wait"), calling("python", "go on"), DONE]
    screen = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal("first\nsecond\n"))
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("TERM", "dumb")
    assert main(["chat", "--python"]) == 0
    assert "stopped (the question is taken back)" in screen.getvalue()
    assert "1: go on" in screen.getvalue()
    assert "first" not in engine.prompts[1]
    assert engine.prompts[2].endswith(
        "<|message|>second<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>"
        "go on<|call|><|start|>python to=assistant<|channel|>analysis<|message|>1: go on<|end|>"
        "<|start|>assistant"
    )
    assert notebook.made[0].log == ["start", "session", "interrupted", "close"]


def test_ctrl_c_may_be_pressed_many_times(
    engine: ScriptedEngine, notebook: type[Notebook], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(Terminal):
        """A person presses Ctrl-C at all that is shown from the first question to the second."""

        def write(self, text: str) -> int:
            if "first" in keyboard.seen and "second" not in keyboard.seen and text != "> ":
                signal.raise_signal(signal.SIGINT)
            return super().write(text)

    class Keyboard(Terminal):
        seen = ""

        def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
            line = super().readline(-1 if size is None else size)
            self.seen += line
            return line

    engine.completions = [calling("python", "wait"), DONE]
    keyboard = Keyboard("first\n/effort\nsecond\n")
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("sys.stdin", keyboard)
    monkeypatch.setattr("sys.stdout", screen := Impatient())
    monkeypatch.setenv("TERM", "dumb")
    assert main(["chat", "--python"]) == 0
    assert "stopped (the question is taken back)" in screen.getvalue()
    assert "effort: " in screen.getvalue()
    assert "Done." in screen.getvalue()
    assert "first" not in engine.prompts[-1]
    assert engine.prompts[-1].endswith("<|message|>second<|end|><|start|>assistant")
    assert signal.getsignal(signal.SIGINT) == before


def test_the_tools_of_a_server(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    server = Path(__file__).parents[1] / "support" / "hostile_mcp_server.py"
    engine.completions = [
        calling("birds.mixed", "{}", "commentary"),
        calling("birds.nothing", "{}", "commentary"),
        DONE,
    ]
    command = f"birds='{sys.executable}' '{server}'"
    out, err = talk(monkeypatch, capsys, "Say hi\n", "--mcp", command)
    assert out.startswith("[call of birds.mixed]\n{}\nLook:<|end|>\n[image: not shown, this model")
    assert "[file " in out
    assert [file.name for file in sorted(tmp_path.rglob("*.*"))] == ["mixed-1.png", "mixed-2.bin"]
    assert "Error: there is no function `birds.nothing`; there are `birds.echo`" in out
    assert "'echo' is listed twice; the second is left out" in err
    first, second, _ = engine.prompts
    assert "## birds\n\n// Be careful.\nnamespace birds {\n\n// Does echo.\ntype echo = (" in first
    assert "type get_time_2 = (_: {\n" in first
    assert "<|start|>birds.mixed to=assistant<|channel|>commentary<|message|>Look:" in second


@needs_bubblewrap
def test_a_real_notebook(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.completions = [calling("python", "n = 6"), calling("python", "n * 7"), DONE]
    out, _ = talk(monkeypatch, capsys, "Compute\n", "--python")
    assert out.endswith("[call of python]\nn * 7\n42\nDone.\n")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["localhost:1", "--python"], "--python is for a model in this process; a server runs"),
        (["demo", "--browser", "/no/folder"], "--browser: there is no folder '/no/folder'; name"),
        (
            ["demo", "--browser", "exa"],
            "--browser exa needs an API key; put it into the variable EXA",
        ),
        (["demo", "--mcp", "'"], '--mcp: the command "\'" cannot be split: No closing quotation'),
        (["demo", "--mcp", "http://"], "--mcp: the URL 'http://' has no host"),
        (
            ["demo", "--mcp", "/no/program"],
            "--mcp: there is no command '/no/program'; check its name",
        ),
    ],
)
def test_what_cannot_be_opened(
    engine: ScriptedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    problem: str,
) -> None:
    monkeypatch.delenv("EXA_API_KEY", raising=False)
    assert main(["chat", *options]) == (1 if options[-1] == "/no/program" else 2)
    assert capsys.readouterr().err.startswith(f"harmony: error: {problem}")


@pytest.mark.parametrize(
    ("package", "missing", "option"),
    [
        ("python", "gpt_oss_harmony.tools.python.python_tool", "--python"),
        ("browser", "selectolax.lexbor", "--browser=."),
        ("mcp", "mcp", "--mcp=server"),
    ],
)
def test_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    package: str,
    missing: str,
    option: str,
) -> None:
    for name in [name for name in sys.modules if f"gpt_oss_harmony.tools.{package}" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["chat", option]) == 1
    assert f"pip install {requirement('tools')}" in capsys.readouterr().err


def test_tools_are_closed_where_the_next_one_fails(
    notebook: type[Notebook], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "--python", "--mcp", "/no/program"]) == 1
    assert notebook.made[0].log == ["start", "close"]

    async def refuse(self: Any) -> None:
        raise SandboxError("there is no sandbox; install bubblewrap")

    monkeypatch.setattr(notebook, "start", refuse)
    assert main(["chat", "--python"]) == 1
    assert notebook.made[1].log == ["close"]
    assert "install bubblewrap" in capsys.readouterr().err

"""Options from the command line, from variables and from a settings file."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpt_oss_harmony.cli import main
from gpt_oss_harmony.cli.configuration import Configuration
from gpt_oss_harmony.cli.input import InputError
from gpt_oss_harmony.cli.serve import SERVE

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "command.md"


class Options(argparse.ArgumentParser):
    """Keeps the options of a command as they are added."""

    def __init__(self) -> None:
        super().__init__(add_help=False)
        self.actions: dict[str, argparse.Action] = {}
        SERVE.add_arguments(self)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        action = super().add_argument(*names, **options)
        self.actions[names[0].lstrip("-")] = action
        return action


ACTIONS = {
    name: action
    for name, action in Options().actions.items()
    if name not in ("config", "print-config")
}


def sample(name: str) -> Any:
    """A value of an option that is not its default."""
    action = ACTIONS[name]
    if action.nargs == 0:
        return not action.default
    if action.choices:
        return list(action.choices)[-1]
    return {"date": "2026-01-02"}.get(name, "7" if action.type else "a b")


def configured(
    words: tuple[str, ...] = (), variables: dict[str, str] | None = None, file: Path | None = None
) -> dict[str, Any]:
    words = words if file is None else ("--config", str(file), *words)
    return vars(Configuration(SERVE, words, dict(variables or {})).arguments)


def variable(name: str) -> str:
    return f"HARMONY_{name.upper().replace('-', '_')}"


@pytest.mark.parametrize("name", ACTIONS)
def test_every_option_is_the_same_from_everywhere(name: str, tmp_path: Path) -> None:
    value, action = sample(name), ACTIONS[name]
    file = tmp_path / "settings.toml"
    file.write_text(f"{name} = {json.dumps(value)}")
    if action.nargs == 0:
        words = [f"--{name}" if value else f"--no-{name}"]
    else:
        words = [f"--{name}={value}"] if action.option_strings else [value]
    from_words = configured(tuple(words))
    from_file = configured(file=file)
    assert from_file.pop("config") == str(file)
    assert from_words.pop("config") is None
    assert from_words == from_file
    assert configured(variables={variable(name): str(value)}) == {**from_words, "config": None}
    assert configured()[action.dest] == action.default != from_words[action.dest]


@pytest.mark.parametrize("name", ACTIONS)
def test_every_option_is_described(name: str) -> None:
    """In the table of the reference."""
    text = DOCS.read_text("utf-8")
    section = text[text.index("\n## `harmony serve`\n") : text.index("\n## `harmony keys`\n")]
    assert re.search(rf"`--(no-)?{name}\b|`{name.upper()}`", section), name


LISTED = [
    ({"HARMONY_MCP": '["a", "b c"]'}, "mcp", ["a", "b c"]),
    ({"HARMONY_MCP": "a, b"}, "mcp", ["a, b"]),
    ({"HARMONY_MCP": "[]"}, "mcp", []),
    ({"HARMONY_ALLOWED_HOST": "[::1]"}, "allowed_host", ["[::1]"]),
    ({"HARMONY_SERVED_MODEL_NAME": '["a", "b"]'}, "served_model_name", ["a", "b"]),
]


@pytest.mark.parametrize(("variables", "attribute", "values"), LISTED)
def test_a_list_is_one_value_or_an_array(
    variables: dict[str, str], attribute: str, values: list[str]
) -> None:
    assert configured(variables=variables)[attribute] == values


def test_the_command_line_comes_first_then_variables_then_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        'model = "demo"\nport = 1\nmax-running = 1\nmax-waiting = 1\nallowed-host = ["a", "b"]\n'
        "grammar = false\ndate = 2026-01-02\nengine-option = {dtype = 'float32', layers = [1]}\n"
    )
    variables = {"HARMONY_PORT": "2", "HARMONY_MAX_RUNNING": "2", "HARMONY_ALLOWED_HOST": "c"}
    words = ("--port", "3", "--allowed-host", "d", "--grammar", "--max-tool-calls", "3")
    arguments = configured(words, variables, file)
    assert arguments["model"] == "demo"
    assert (arguments["port"], arguments["max_running"], arguments["max_waiting"]) == (3, 2, 1)
    assert arguments["allowed_host"] == ["d"]
    assert arguments["grammar"] is True
    assert arguments["date"] == "2026-01-02"
    assert arguments["engine_option"] == ['dtype="float32"', "layers=[1]"]
    assert arguments["max_tool_calls"] == 3
    variables = {"HARMONY_CONFIG": str(file), "HARMONY_MODEL": "other"}
    assert configured(variables=variables)["model"] == "other"
    assert configured(variables=variables)["port"] == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max-runing = 1", "there is no option 'max-runing'; did you mean max-running?"),
        ("max_running = 1", "there is no option 'max_running'; did you mean max-running?"),
        ("no-grammar = true", "there is no option 'no-grammar'; did you mean grammar?"),
        ("config = 'a'", "there is no option 'config'"),
        ("zzzz = 1", "there is no option 'zzzz'; choose from model, host, port, "),
        ("[serve]\nport = 1", "there is no option 'serve'"),
        ("port = 'x'", "port: must be a port from 0 to 65535, not x"),
        ("port = true", "port: must be text or a number, not True"),
        ("port = [1, 2]", "port: must be one value, not [1, 2]"),
        ("port = {a = 1}", "port: must be one value, not {'a': 1}"),
        ("max-running = 0", "max-running: must be an integer from 1, not 0"),
        ("date = 2026-01-02T03:04:05", "is not a date"),
        ("grammar = 1", "grammar: must be true or false, not 1"),
        ("event-names = 'other'", "event-names: cannot be 'other'"),
        ("api-key = ''", "api-key: there is no key"),
        ("port = ", "is not TOML: "),
        ("port = 1\nport = 2", "is not TOML: "),
    ],
)
def test_a_wrong_file_is_one_clear_line(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    assert main(["serve", "demo", "--config", str(file)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("harmony: error: ")
    assert str(file) in line
    assert problem in line


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("HARMONY_PORT", "x", "HARMONY_PORT: must be a port from 0 to 65535, not x"),
        ("HARMONY_PORT", "", "HARMONY_PORT: must be a port from 0 to 65535, not "),
        ("HARMONY_GRAMMAR", "maybe", "HARMONY_GRAMMAR: must be true or false, not 'maybe'"),
        ("HARMONY_API_KEY", "", "HARMONY_API_KEY: there is no key; write one, or leave"),
        ("HARMONY_CONFIG", "/nowhere.toml", "--config /nowhere.toml cannot be read: No such file"),
    ],
)
def test_a_wrong_variable_is_one_clear_line(
    name: str,
    text: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, text)
    assert main(["serve", "demo"]) == (2 if "cannot be read" in problem else 1)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"harmony: error: {problem}")


def test_variables_of_others_are_left_alone() -> None:
    variables = {
        "HARMONY_PORT": "tcp://10.0.0.1:8000",  # as Kubernetes has them for a service "harmony"
        "HARMONY_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        "HARMONY_SERVICE_HOST": "10.0.0.1",
        "HARMONY_ENGINE_API_KEY": "a",
        "HARMONY_MAX_RUNING": "1",
    }
    configuration = Configuration(SERVE, (), variables)
    assert configuration.arguments.port == 8000
    assert configuration.misspelled == [
        "the variable HARMONY_MAX_RUNING is not an option; did you mean HARMONY_MAX_RUNNING?"
    ]


# Shown


SECRETS: list[tuple[str, Any]] = [
    ("api-key", ["hush"]),
    ("database", "postgresql://user:hush@db/harmony"),
    ("browser", "searxng:https://user:hush@search.example"),
    ("mcp", ["web=https://mcp.example/?api_key=hush&x=1"]),
    ("mcp", ["server --api-key hush"]),
    ("mcp", ["env TOKEN=hush server"]),
    ("engine-option", ["api_key=hush"]),
    ("engine-option", ['headers={"Authorization": "Bearer hush"}']),
    ("engine-option", ['headers={"Authorization": "Basic hush"}']),
    ("engine-option", ['api_key="one hush"']),
    ("database", "postgresql://user:one/hush@db/harmony"),
    ("database", "postgresql://user:one hush@db/harmony"),
    ("mcp", ["server --password 'one hush'"]),
    ("mcp", ["server --header 'Authorization: Basic hush'"]),
]


def test_starting_shows_no_secrets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    address, database = "u:hush@127.0.0.1:9", ["--database", str(tmp_path / "a.db")]
    assert main(["serve", f"http://{address}", *database]) == 1
    mcp = f"a=https://{address}/mcp?api_key=hush"
    assert main(["serve", "demo", "--mcp", mcp, *database]) == 1
    shown = capsys.readouterr()
    assert "http://***@127.0.0.1:9" in shown.err
    assert "cannot use the MCP server https://***@127.0.0.1:9/mcp?api_key=***" in shown.err
    assert "hush" not in shown.err + shown.out


@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_secrets_are_not_shown(name: str, value: Any, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"{name} = {json.dumps(value)}")
    lines = Configuration(SERVE, ("--config", str(file)), {}).to_toml().splitlines()
    assert not any("hush" in line for line in lines)
    (shown,) = (line for line in lines if f"{name} = " in line)
    assert shown.startswith("# ")
    assert "***" in shown


def test_what_is_shown_is_a_file_with_the_same_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HARMONY_ALLOWED_ORIGIN", '["https://a.example", "https://ü.example"]')
    words = (
        "demo",
        "--port",
        "1",
        "--no-grammar",
        "--mcp",
        'run "a\\b"\x7f',
        "--repetition",
        "off",
    )
    assert main(["serve", *words, "--print-config"]) == 0
    shown = capsys.readouterr().out
    assert 'model = "demo"  # command line\n' in shown
    assert re.search(r"^allowed-origin = .*  # HARMONY_ALLOWED_ORIGIN$", shown, re.MULTILINE)
    assert "max-running = 16  # default\n" in shown
    assert "# threads is not set\n" in shown
    file = tmp_path / "settings.toml"
    file.write_text(shown, "utf-8")
    before = configured(
        words, {"HARMONY_ALLOWED_ORIGIN": '["https://a.example", "https://ü.example"]'}
    )
    assert configured(file=file) == {**before, "config": str(file)}


def test_a_value_of_two_hyphens_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('port = "--"')
    for given in ({"words": ("--port=--",)}, {"variables": {"HARMONY_PORT": "--"}}, {"file": file}):
        with pytest.raises(InputError, match=r"(?i)port"):
            configured(**given)


BAD: list[tuple[str, str]] = [
    ("[engine-option]\nx = 2026-01-01", "engine-option: must have values that JSON has"),
    ('api-key = {a = "hush"}', "api-key: must be text or a number, not ***"),
    ('api-key = [["hush"]]', "api-key: must be text or a number, not ***"),
    ('api-key = [true, "hush"]', "api-key: must be text or a number, not ***"),
    ('database = {a = "postgresql://u:hush@h/d"}', "database: must be one value, not {'a': 'postg"),
    (
        'database = {a = "postgresql://u:hush%s@h/d"}' % ("x" * 99),
        "not {'a': 'postgresql://***@h/d'}",
    ),
    ("x = " + "[" * 5_000, "is not TOML: "),
]


@pytest.mark.parametrize(("text", "problem"), BAD, ids=[text[:30] for text, _ in BAD])
def test_bad_values_are_errors_without_secrets(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        configured(file=file)
    assert problem in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("text", ["[null]", '[{"a": 1}]', '["hush", true]', "[" * 5_000])
def test_keys_in_a_variable_are_texts(text: str) -> None:
    with contextlib.suppress(InputError):
        assert configured(variables={"HARMONY_API_KEY": text})["api_key"] == [text]


def test_secret_variables_are_taken_from_the_environment() -> None:
    environment = {"HARMONY_API_KEY": "hush", "HARMONY_PORT": "1"}
    assert Configuration(SERVE, (), environment).arguments.api_key == ["hush"]
    assert environment == {"HARMONY_PORT": "1"}


def test_keys_are_made_in_the_database_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"database = {json.dumps(str(tmp_path / 'a.db'))}")
    assert main(["keys", "create", "laptop", "--config", str(file)]) == 0
    monkeypatch.setenv("HARMONY_DATABASE", str(tmp_path / "b.db"))
    assert main(["keys", "create", "phone", "--config", str(file)]) == 0
    capsys.readouterr()
    for database, name in (("a.db", "laptop"), ("b.db", "phone")):
        assert main(["keys", "list", "--database", str(tmp_path / database)]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert name in line


def test_a_server_needs_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="there is no MODEL"):
        SERVE.run(argparse.Namespace(words=[], print_config=False))
    assert main(["serve"]) == 2
    assert "there is no MODEL; write 'harmony serve demo'" in capsys.readouterr().err

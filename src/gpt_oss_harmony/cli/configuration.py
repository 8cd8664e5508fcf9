"""The options of a command from its command line, the environment, a settings file, the defaults.

The first of these that has an option decides. The command's own `add_arguments` is the one table of
options: ``--max-running`` is the variable ``HARMONY_MAX_RUNNING``, and ``max-running`` in the file.
Each value is read as if it stood on the command line, so that all three take the same values.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..errors import MASK, did_you_mean, without_secrets
from .command import Command, CommandParser
from .input import InputError, UnreadableError, warn_if_shared

_PREFIX = "HARMONY_"
_OTHER_VARIABLES = {f"{_PREFIX}ENGINE_API_KEY", f"{_PREFIX}TEST_CHROMIUM"}
_NOT_IN_FILES = ("config", "print-config")
_SECRETS = ("api-key",)
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_CLOSE = 0.85  # the likeness of a misspelled variable; those of Kubernetes are below it


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option for the settings file."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a TOML file with options of 'harmony serve', such as max-running = 32; variables "
        "such as HARMONY_MAX_RUNNING override the file, and the command line overrides both",
    )


class _OptionReader(CommandParser):
    """Reads options one by one: it keeps them by name, and adds no defaults to what it reads."""

    def __init__(self, command: Command) -> None:
        super().__init__(add_help=False)
        self.options: dict[str, argparse.Action] = {}
        self.defaults: dict[str, Any] = {}
        command.add_arguments(self)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        action = super().add_argument(*names, **options)
        name = action.option_strings[0].lstrip("-") if action.option_strings else action.dest
        self.options[name] = action
        self.defaults[name] = action.default
        action.default = argparse.SUPPRESS
        return action

    def error(self, message: str) -> NoReturn:
        raise InputError(re.sub(r"^argument \S+: ", "", message))

    def read(self, name: str, value: Any) -> Any:
        """Read a value of TOML, or a list of them for an option that is a list."""
        action = self.options[name]
        if action.nargs == 0:
            if not isinstance(value, bool):
                raise InputError(f"must be true or false, not {value!r:.80}")
            return value
        shown = str(_masked(name, repr(value)))[:80]  # cut last: half a password is not masked
        if isinstance(value, Mapping) and name not in _SECRETS:  # of NAME=VALUE
            try:
                values = [f"{key}={json.dumps(part)}" for key, part in value.items()]
            except TypeError as error:
                raise InputError(f"must have values that JSON has, not {shown}") from error
        else:
            values = value if isinstance(value, list) else [value]
        if not self.is_list(name) and (len(values) != 1 or isinstance(value, Mapping)):
            raise InputError(f"must be one value, not {shown}")
        option = action.option_strings[0] if action.option_strings else None
        if any(part is None or isinstance(part, bool | list | Mapping) for part in values):
            raise InputError(f"must be text or a number, not {shown}")
        words = [f"{option}={part}" if option else str(part) for part in values]
        if not words:
            return []
        # A value of a positional argument may begin with a hyphen.
        read = self.parse_args(words if option else ["--", *words])
        return self.checked(getattr(read, action.dest), name)

    def read_variable(self, name: str, text: str) -> Any:
        """Read the text of a variable; several values of a list are a JSON array."""
        if self.options[name].nargs == 0:
            return self.read(name, _TRUTHS.get(text.strip().lower(), text))
        if self.is_list(name) and text.lstrip().startswith("["):
            try:
                return self.read(name, json.loads(text))
            except (ValueError, RecursionError):
                pass  # one value, as the address [::1]
        return self.read(name, text)

    def checked(self, read: Any, name: str) -> Any:
        """Return what was read; before Python 3.12 argparse makes a list of a value ``--``."""
        if read == [] and not self.is_list(name):
            raise InputError("must be a value, not --")
        return read

    def is_list(self, name: str) -> bool:
        """Return whether an option may have several values."""
        return isinstance(self.defaults[name], list)


class Configuration:
    """The options of a command: `arguments` as the parser of the command would return them.

    `words` are those after the name of the command. Variables with secrets are removed from
    `environment`, so that no tool inherits them; `misspelled` are sentences about variables whose
    names are nearly those of options. Raises `InputError`, which names the variable, or
    the file and its key.
    """

    def __init__(
        self,
        command: Command,
        words: Sequence[str],
        environment: dict[str, str] | os._Environ[str] = os.environ,
    ) -> None:
        self._reader = _OptionReader(command)
        options = self._reader.options
        self._values = dict(self._reader.defaults)
        self._sources: dict[str, str] = {}
        self.misspelled: list[str] = []
        given = vars(self._reader.parse_args(list(words)))
        names = {option.dest: name for name, option in options.items()}
        line = {names[dest]: value for dest, value in given.items()}
        for name, value in line.items():
            try:
                self._reader.checked(value, name)
            except InputError as error:
                raise InputError(f"--{name}: {error}") from error
        variables = self._read_variables(environment)
        path = {**variables, **line}.get("config")
        if path is not None:
            settings = self._read_file(str(path))
            self._take(settings, str(path))
            if any(_masked(name, value) != value for name, value in settings.items()):
                warn_if_shared("--config", str(path))
        for name, value in variables.items():
            self._take({name: value}, _variable(name))
        self._take(line, "command line")

    @property
    def arguments(self) -> argparse.Namespace:
        """The options by the names of their attributes."""
        options = self._reader.options
        return argparse.Namespace(
            **{options[name].dest: value for name, value in self._values.items()}
        )

    def to_toml(self) -> str:
        """Write the options as a settings file; secrets are masked, in lines of comment."""
        lines = []
        for name, value in self._values.items():
            if name in _NOT_IN_FILES:
                continue
            source = self._sources.get(name, "default")
            shown = _masked(name, value)
            if value is None and self._reader.defaults[name] is None:
                lines.append(f"# {name} is not set")
            elif value is None:  # `Setting.off`
                lines.append(f'{name} = "off"  # {source}')
            elif shown != value:
                lines.append(f"# {name} = {_toml(shown)}  # {source}; the secret is not shown")
            else:
                lines.append(f"{name} = {_toml(value)}  # {source}")
        return "\n".join(lines)

    def _take(self, values: Mapping[str, Any], source: str) -> None:
        self._values.update(values)
        self._sources.update(dict.fromkeys(values, source))

    def _read_variables(self, environment: dict[str, str] | os._Environ[str]) -> dict[str, Any]:
        names = {_variable(name): name for name in self._reader.options if name != "print-config"}
        values = {}
        for variable in [name for name in environment if name.startswith(_PREFIX)]:
            name = names.get(variable)
            if name is None:
                meant = did_you_mean(variable, names, likeness=_CLOSE)
                if meant and variable not in _OTHER_VARIABLES:
                    self.misspelled.append(f"the variable {variable} is not an option; {meant}")
                continue
            text = environment.pop(variable) if name in _SECRETS else environment[variable]
            if name == "port" and text.startswith("tcp://"):
                continue  # Kubernetes sets it for a service with the name "harmony"
            try:
                values[name] = self._reader.read_variable(name, text)
            except InputError as error:
                raise InputError(f"{variable}: {error}") from error
        return values

    def _read_file(self, path: str) -> dict[str, Any]:
        toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        try:
            settings: dict[str, Any] = toml.loads(Path(path).read_text("utf-8"))
        except OSError as error:
            raise UnreadableError(
                f"--config {path} cannot be read: {error.strerror}; check the path; "
                "'harmony serve MODEL --print-config > FILE' writes such a file"
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"--config {path} is not TOML: {error}") from error
        names = [name for name in self._reader.options if name not in _NOT_IN_FILES]
        values = {}
        for name, value in settings.items():
            if name not in names:
                meant = did_you_mean(name, names, f"choose from {', '.join(names)}")
                raise InputError(f"{path}: there is no option {name!r}; {meant}")
            try:
                values[name] = self._reader.read(name, value)
            except InputError as error:
                raise InputError(f"{path}: {name}: {error}") from error
        return values


def _variable(name: str) -> str:
    return _PREFIX + name.upper().replace("-", "_")


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(name, part) for part in value]
    if name in _SECRETS:
        return MASK
    if not isinstance(value, str):
        return value
    return without_secrets(value)


def _toml(value: Any) -> str:
    """Write a text, a number, a truth or a list of them; JSON has the same forms in TOML."""
    # TOML forbids DEL in texts, where JSON leaves it as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

"""Make docs/reference/command.md from the command's parsers; `reference.py` writes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

OPENING = """# Command line

Every command, argument and option of `harmony`, as `harmony COMMAND --help` shows them.
`scripts/docs/command_page.py` makes this page of the command's parser. [The
command](../guides/command.md) explains the commands with examples.

| Exit status | Meaning |
|---|---|
| 0 | success |
| 1 | the input is wrong, or something failed; the error is one line |
| 2 | the command is used wrongly, or a file cannot be read; from `check`, any other error, too |
| 130 | interrupted by Ctrl-C |
| 141 | the reader of the output has closed it |
"""


def command_page(parser: argparse.ArgumentParser) -> str:
    """Return the page: a table of the commands, then a section for each."""
    commands = dict(_subcommands(parser))
    lines = [OPENING, "| Command | Purpose |\n|---|---|"]
    lines += [
        f"| [`{name}`](#harmony-{name}) | {str(command.description).splitlines()[0]} |"
        for name, command in commands.items()
    ]
    lines.append("")
    for command in commands.values():
        lines += _section(command, "##")
    return "\n".join(lines).rstrip() + "\n"


def _subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _section(parser: argparse.ArgumentParser, heading: str) -> Iterator[str]:
    yield f"{heading} `{parser.prog}`\n"
    yield f"{parser.description}\n" if parser.description else ""
    yield f"```text\n{_usage(parser)}\n```\n"
    rows = [
        f"| {_names(action)} | {_meaning(parser, action)} |"
        for action in parser._actions
        if action.help not in (argparse.SUPPRESS, None)
        and not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    ]
    if rows:
        yield "\n".join(["| Argument | Meaning |\n|---|---|", *rows, ""])
    title, _, examples = (parser.epilog or "").partition("\n")
    if title == "examples:":
        yield f"Examples:\n\n```sh\n{_dedented(examples)}\n```\n"
    for _, command in _subcommands(parser):
        yield from _section(command, heading + "#")


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage in one line; the form of argparse depends on the version of Python."""
    words = [parser.prog, "[OPTIONS]"]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.append(str(action.metavar or "COMMAND"))
        elif not action.option_strings:
            optional = action.nargs in ("?", "*")
            words.append(f"[{_value(action)}]" if optional else _value(action))
            words += ["..."] if action.nargs in ("*", "+") else []
    return " ".join(words)


def _names(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else _value(action)
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{option} {value}`".replace(" `", "`") for option in action.option_strings)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper() if action.option_strings else action.dest


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = argparse.HelpFormatter(parser.prog)
    formatter._prog = parser.prog
    return " ".join(formatter._expand_help(action).split()).replace("|", "\\|")


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())

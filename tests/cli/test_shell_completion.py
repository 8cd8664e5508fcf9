"""``harmony completion``: what the shells themselves complete with its scripts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpt_oss_harmony.cli import main

pytest.importorskip("shtab", reason="needs the extra terminal")

# The words of a line, and the completions of the last one.
COMPLETIONS: list[tuple[list[str], set[str]]] = [
    (["ren"], {"render"}),
    (["co"], {"completion"}),
    (["render", "--form"], {"--format"}),
    (["render", "--format", ""], {"text", "ids", "json"}),
    (["render", "--format", "ids", "ch"], {"chat.json"}),
    (["render", "--outp"], set()),
    (["keys", ""], {"create", "list", "revoke", "rotate"}),
    (["data", "export", "--own"], {"--owner"}),
    (["chat", "--effort", "h"], {"high"}),
    (["chat", "--browser", "do"], {"documents"}),
    (["serve", "de"], {"demo"}),
    (["inspect", "ch"], {"chat.json"}),
    (["generate", "demo", "ch"], {"chat.json"}),
    (["template", "response", "--output", "do"], {"documents"}),
    (["prepare", "rows.jsonl", "--output", "do"], {"documents"}),
    (["completion", ""], {"bash", "zsh", "fish"}),
]

BASH = """
complete_words() {
  COMP_WORDS=(harmony "$@"); COMP_CWORD=$#; COMPREPLY=()
  _shtab_harmony
  printf '%s\\n' "${COMPREPLY[@]}" =
}
"""

# zsh completes only at a prompt: this one runs in a pseudo-terminal of the module zpty. The space
# behind a completion shows that there was only one.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
receive() { zpty -r -m shell line "*$1*"; }
zpty -w shell 'PS1=; unsetopt auto_list list_beep; autoload -Uz compinit; compinit -u -D'
zpty -w shell 'show() { print -r -- "<$BUFFER>"; BUFFER=; zle redisplay }; zle -N show'
zpty -w shell 'bindkey "^X" complete-word; bindkey "^Y" show; eval "$(<script)"; echo rea""dy'
receive ready
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    (folder / "chat.json").touch()
    (folder / "documents").mkdir()
    return folder


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed_by(command: list[str], program: str, folder: Path) -> list[set[str]]:
    """Run one shell for all lines; it ends the completions of each with a line ``=``."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    result = subprocess.run(
        [*command, program], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stderr == ""
    found: list[set[str]] = [set()]
    for line in result.stdout.splitlines():
        if line == "=":
            found.append(set())
        elif line:
            found[-1].add(line.partition("\t")[0].rstrip("/ "))
    return found[:-1]


def lines(write: Callable[[list[str]], str]) -> str:
    return "\n".join(write(words) for words, _ in COMPLETIONS)


def test_bash(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = lines(lambda words: "complete_words " + " ".join(f"'{word}'" for word in words))
    found = completed_by(["bash", "-c"], f"{script('bash', capsys)}\n{BASH}\n{calls}", folder)
    assert found == [completions for _, completions in COMPLETIONS]


def test_fish(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "script").write_text(script("fish", capsys))
    calls = lines(lambda words: f"complete -C 'harmony {' '.join(words)}'; echo =")
    found = completed_by(["fish", "--no-config", "-c"], f"source script\n{calls}", folder)
    assert found == [completions for _, completions in COMPLETIONS]


def test_zsh(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "script").write_text(script("zsh", capsys))
    calls = lines(
        lambda words: (
            f"zpty -n -w shell $'harmony {' '.join(words)}\\x18\\x19'; receive '<*>'; "
            "print -r -- ${${line##*<}%%>*}"
        )
    )
    found = completed_by(["zsh", "-f", "-c"], f"{ZSH}\n{calls}\nprint =", folder)
    whole = {
        "harmony " + " ".join([*words[:-1], *completions])
        for words, completions in COMPLETIONS
        if len(completions) == 1
    }
    assert len(found) == 1
    assert whole <= found[0]

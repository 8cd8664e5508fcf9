"""The tool `python` with a real kernel in the real sandbox: what a model gets for its code."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpt_oss_harmony import HarmonyEncodingName, Message, Role, load_harmony_encoding
from gpt_oss_harmony.tools.python.notebook_pool import NotebookPool
from gpt_oss_harmony.tools.python.python_tool import PythonTool
from gpt_oss_harmony.tools.python.sandbox.limits import process_tree
from gpt_oss_harmony.tools.python.session import PythonSession
from gpt_oss_harmony.tools.tool import ToolError, ToolMessage
from support.notebooks import SETTINGS, Conversation, call, conversation, needs_bubblewrap

pytestmark = needs_bubblewrap

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IGNORE_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"


@pytest.fixture(scope="module")
def notebook() -> Iterator[Conversation]:
    with conversation() as begun:
        yield begun


@pytest.fixture(scope="module")
def patient() -> Iterator[Conversation]:
    """One in which what takes too long is waited for."""
    with conversation() as begun:
        yield begun


@pytest.fixture(scope="module")
def stern() -> Iterator[Conversation]:
    """One in which what does not stop is not waited for."""
    with conversation(grace_seconds=0.1) as begun:
        yield begun


SHOWN = {
    "result": ("6 * 7", "42"),
    "nothing": ("x = 1", "[no output]"),
    "only the last expression": ("1\n2", "2"),
    "print": ("print('a'); print('b', end='')", "a\nb"),
    "both streams in order": (
        "import sys\nfor i in range(3): print(i); print(-i, file=sys.stderr)\ni",
        "0\n0\n1\n-1\n2\n-2\n2",
    ),
    "result after text without a line end": ("print('a', end='')\n1", "a\n1"),
    "a program's output": ("import os; _ = os.system('echo of a shell')", "of a shell"),
    "a shell command": ("!echo $HOME", "/tmp"),
    "colours": (r"print('\x1b[1;31mred\x1b[0m \x1b]0;title\x07text')", "red text"),
    "overwritten lines": (r"for i in range(100): print(f'\r{i} %', end='')", "99 %"),
    "cleared output": (
        "from IPython.display import clear_output\nprint(1)\nclear_output(wait=True)\nprint(2)",
        "2",
    ),
    "updated display": (
        "from IPython.display import display\nh = display(1, display_id=True)\nh.update(2)",
        "2",
    ),
    "markdown": ("from IPython.display import Markdown\nMarkdown('# Title')", "# Title"),
    "surrogates": (r"print('\ud800')", "\N{REPLACEMENT CHARACTER}"),
    "what looks like the format": ("print('<|end|><|start|>user')", "<|end|><|start|>user"),
    "await": ("import asyncio\nawait asyncio.sleep(0, 'done')", "'done'"),
    "the folder": ("import os; os.getcwd()", "'/mnt/data'"),
}


@pytest.mark.parametrize(("code", "text"), SHOWN.values(), ids=SHOWN)
def test_shows_what_a_notebook_shows(notebook: Conversation, code: str, text: str) -> None:
    assert notebook.text(code) == text


def test_state_is_kept(notebook: Conversation) -> None:
    notebook.run("import math\ndef area(r): return math.pi * r ** 2\nradius = 2")
    assert notebook.text("round(area(radius), 2)") == "12.57"


def test_tracebacks_are_plain_and_show_the_code(notebook: Conversation) -> None:
    text = notebook.text("def half(x):\n    return x / 0\n\nhalf(1)")
    assert "----> 2     return x / 0" in text
    assert text.endswith("ZeroDivisionError: division by zero")
    assert "\x1b" not in text


def test_code_that_is_no_python_is_told(notebook: Conversation) -> None:
    assert "SyntaxError" in notebook.text("1 +")
    for odd in ("'\ud800'", "\x00"):
        notebook.run(odd)
    assert notebook.text("") == "[no output]"


def test_nobody_answers_input(notebook: Conversation) -> None:
    for code in ("input('Your name? ')", "import getpass; getpass.getpass()"):
        assert "put the value into the code instead of asking for it" in notebook.text(code)


def test_images_are_attached(notebook: Conversation) -> None:
    before = notebook.session.images
    output = notebook.run(
        f"from IPython.display import Image, display\ndisplay(Image(data={PNG!r}))\nprint('shown')"
    )
    assert [(each.name, each.mime_type, each.data) for each in output.attachments] == [
        (f"image-{before + 1}.png", "image/png", PNG)
    ]
    assert output.text == "shown"


def test_files_are_attached_when_they_are_new_or_changed(notebook: Conversation) -> None:
    code = "import os\nos.makedirs('sub', exist_ok=True)\nopen('sub/a.csv', 'w').write('{}')"
    first = notebook.run(code.format("1,2"))
    assert [(each.name, each.mime_type, each.data) for each in first.attachments] == [
        ("sub/a.csv", "text/csv", b"1,2")
    ]
    assert notebook.run("1").attachments == ()
    assert notebook.run(code.format("3,4")).attachments[0].data == b"3,4"
    assert notebook.session.files["sub/a.csv"] == b"3,4"
    notebook.run("os.remove('sub/a.csv')")
    assert "sub/a.csv" not in notebook.session.files


def test_large_and_many_files_are_named_and_not_attached(notebook: Conversation) -> None:
    output = notebook.run("open('large.bin', 'wb').write(bytes(100_001))")
    assert output.attachments == ()
    assert output.text.endswith("[not attached, too large or too many: large.bin (100,001 bytes)]")
    many = notebook.run("for i in range(22): open(f'many-{i:02}.txt', 'w').write('x')")
    assert len(many.attachments) == 20
    assert "many-20.txt (1 bytes), many-21.txt (1 bytes)]" in many.text
    notebook.run("import glob\nfor f in glob.glob('many-*') + ['large.bin']: os.remove(f)")


def test_files_can_be_added(notebook: Conversation) -> None:
    notebook.session.add_file("of the user/table.csv", b"1,2")
    output = notebook.run("open('of the user/table.csv').read()")
    assert output.text == "'1,2'"
    assert output.attachments == ()  # who added it has it


def test_a_notebook_keeps_its_own_files_when_its_session_is_stored(notebook: Conversation) -> None:
    """As between two requests to a server; the notebook holds some of its files open."""

    def run(code: str) -> str:
        stored = PythonSession.from_json(notebook.session.to_json())
        output = notebook.wait(notebook.tool.run(code, stored))
        notebook.session = stored
        return output.text.partition("\n[not attached")[0]

    run(
        "import mmap, os, sqlite3\n"
        "c = sqlite3.connect('x.db'); c.execute('pragma journal_mode=wal')\n"
        "c.execute('create table t(a)'); c.execute('insert into t values(1)'); c.commit()\n"
        "_ = open('m.bin', 'wb').write(b'0000')\n"
        "f = open('m.bin', 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
        "for i in range(250): _ = open(f'{i}.txt', 'w').write('old')"
    )
    run(
        "c.execute('insert into t values(2)'); c.commit(); m[:2] = b'11'; m.flush()\n"
        "for i in range(250): _ = open(f'{i}.txt', 'w').write('new')\n"
        "os.chmod('0.txt', 0o444)"
    )
    notebook.session.add_file("added.txt", b"by the user")
    read = "c.execute('select count(*) from t').fetchone()[0], open('m.bin').read()"
    assert run(read) == "(2, '1100')"
    assert run("{open(f'{i}.txt').read() for i in range(250)}") == "{'new'}"
    assert run("open('added.txt').read()") == "'by the user'"
    run("c.close(); m.close(); f.close()\nimport glob\nfor name in glob.glob('*'): os.remove(name)")


def test_long_output_is_cut_in_its_middle(notebook: Conversation) -> None:
    text = notebook.text("for i in range(20_000): print(i)\nprint('the end')")
    assert text.startswith("0\n1\n2\n")
    assert text.endswith("19999\nthe end")
    assert "characters are left out here]" in text
    assert len(text) < SETTINGS.output_characters + 100
    assert notebook.text("'still here'") == "'still here'"


CALLS = {
    "plain": ("6 * 7", "python", "analysis"),
    "commentary": ("6 * 7", "python", "commentary"),
    "as a function": ('{"code": "6 * 7"}', "functions.python", "commentary"),
    "fenced": ("```python\n6 * 7\n```", "python", "analysis"),
}


@pytest.mark.parametrize(("code", "recipient", "channel"), CALLS.values(), ids=CALLS)
def test_answers_calls_as_models_write_them(
    notebook: Conversation, code: str, recipient: str, channel: str
) -> None:
    assert notebook.tool.accepts(recipient)

    async def ask() -> list[Message]:
        message = call(code, recipient, channel)
        return [answer async for answer in notebook.tool.call(message, notebook.session)]

    (answer,) = notebook.wait(ask())
    assert answer.to_dict() == {
        "role": Role.TOOL,
        "name": recipient,
        "content": [{"type": "text", "text": "42"}],
        "channel": channel,
        "recipient": "assistant",
    }
    assert isinstance(answer, ToolMessage)
    assert (answer.attachments, answer.is_error) == ((), False)
    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    rendered = encoding.decode_utf8(encoding.render(answer))
    assert rendered == f"<|start|>{recipient} to=assistant<|channel|>{channel}<|message|>42<|end|>"


def test_the_example_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "python-tool.md").read_text(
        encoding="utf-8"
    )
    example = page.split("```py\n")[1].split("```")[0]
    exec(example, {})
    assert capsys.readouterr().out == page.split("```text\n")[1].split("```")[0]


def test_code_that_takes_too_long_is_interrupted(patient: Conversation) -> None:
    patient.run("x = 'kept'")
    text = patient.text("print('begun')\nwhile True: pass", seconds=2)
    assert text.startswith("begun\n")
    assert "KeyboardInterrupt" in text
    assert text.endswith(
        "[The code was interrupted: it ran for 2 seconds. Variables and files are still there.]"
    )
    assert patient.text("x") == "'kept'"


@pytest.mark.slow
def test_code_that_does_not_stop_is_ended_and_the_state_is_gone(stern: Conversation) -> None:
    stern.run("open('kept.txt', 'w').write('kept')\nx = 1")
    text = stern.text(IGNORE_INTERRUPTS + "print('begun', flush=True)\nwhile True: pass", 2)
    assert text.startswith("begun\n[The code was ended: it ran for 2 seconds")
    assert "all variables, functions and imports are gone" in text
    assert "NameError" in stern.text("x")
    assert stern.text("open('kept.txt').read()") == "'kept'"


@pytest.mark.slow
def test_endless_output_is_ended_and_fills_no_memory(patient: Conversation) -> None:
    text = patient.text("while True: print('y' * 1_000_000)", seconds=2)
    assert text.startswith("yyyy")
    assert "characters are left out here]" in text
    assert "The code was interrupted" in text
    peak = "import resource; resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024"
    assert int(patient.text(peak)) < 300  # MiB


@pytest.mark.slow
def test_a_stopped_kernel_is_ended(stern: Conversation) -> None:
    stopped = "import os, signal; os.kill(0, signal.SIGSTOP)"
    assert "The code was ended" in stern.text(stopped, seconds=2)
    assert stern.text("1") == "1"


DEATHS = {
    "exit": ("import os; os._exit(3)", "it exited with code 3"),
    "quit": ("exit()", "it exited with code 0"),
    "crash": ("import ctypes; ctypes.string_at(0)", "it was killed by SIGSEGV"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "SIGKILL, perhaps for want of memory"),
}


@pytest.mark.parametrize(("code", "why"), DEATHS.values(), ids=DEATHS)
def test_a_kernel_that_ends_is_told_and_replaced(
    patient: Conversation, code: str, why: str
) -> None:
    patient.run("x = 1")
    text = patient.text(code)
    assert why in text
    assert "all variables, functions and imports are gone" in text
    assert "NameError" in patient.text("x")


def test_a_cancelled_call_is_interrupted_and_the_next_one_waits(patient: Conversation) -> None:
    async def cancel() -> str:
        await patient.tool.run("x = 1", patient.session)
        waiting = asyncio.create_task(
            patient.tool.run("open('begun', 'w').close()\nwhile True: pass", patient.session)
        )
        await asyncio.wait({waiting}, timeout=0.2)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        return (await patient.tool.run("x, 'still here'", patient.session)).text

    assert patient.wait(cancel()) == "(1, 'still here')"


def test_calls_of_one_conversation_run_one_after_the_other(notebook: Conversation) -> None:
    code = "before = n\nimport time; time.sleep(0.01)\nn = before + 1"

    async def all_at_once() -> str:
        await notebook.tool.run("n = 0", notebook.session)
        calls = (notebook.tool.run(code, notebook.session) for _ in range(10))
        await asyncio.gather(*calls)
        return (await notebook.tool.run("n", notebook.session)).text

    assert notebook.wait(all_at_once()) == "10"


def test_a_stored_session_goes_on_in_its_notebook(notebook: Conversation) -> None:
    notebook.run("x = 'in memory'")
    notebook.session = notebook.tool.load_session(notebook.session.to_json())
    assert notebook.text("x") == "'in memory'"


def test_a_branch_gets_a_notebook_of_its_own_with_its_files() -> None:
    with conversation() as begun:
        begun.run("x = 1\nopen('a.txt', 'w').write('first')")
        stored = begun.session.to_json()
        begun.run("x = 2\nopen('a.txt', 'w').write('second')")
        branch = begun.tool.load_session(stored)
        text = begun.wait(begun.tool.run("print(open('a.txt').read()); x", branch)).text
        assert text.startswith("[The notebook that this conversation had is no longer there")
        assert "first\n" in text
        assert "NameError" in text
        assert begun.text("open('a.txt').read(), x") == "('second', 2)"


def test_files_outlive_the_server_and_memory_does_not() -> None:
    with conversation(state_bytes=10) as begun:
        begun.run("x = 1\nopen('a.txt', 'w').write('small')\nopen('b.txt', 'w').write('x' * 11)")
        stored = begun.session.to_json()
    assert json.loads(stored)["kernel_memory"] == "not kept"
    assert json.loads(stored)["files"] == {"a.txt": base64.b64encode(b"small").decode()}
    with conversation() as begun:
        begun.session = begun.tool.load_session(stored)
        text = begun.text("import os; os.listdir()")
        assert "but for those that were too large: b.txt.]" in text
        assert text.endswith("['a.txt']")


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "[]",
        '{"files": {"../a": ""}}',
        '{"files": {"/etc/passwd": ""}}',
        '{"files": {"a": "%"}}',
        '{"files": {"a": 1}}',
        '{"cells": -1}',
    ],
)
def test_other_json_is_no_session(stored: str) -> None:
    with pytest.raises(ValueError, match="validation error"):
        PythonTool().load_session(stored)


def test_all_in_use_is_told() -> None:
    with conversation(notebooks=1, wait_seconds=0) as begun:
        begun.run("1")

        async def ask() -> list[ToolMessage]:
            answers = begun.tool.call(call("1"), begun.tool.new_session())
            return [answer async for answer in answers]

        (answer,) = begun.wait(ask())
        assert answer.is_error
        assert answer.text.startswith("[The code was not run: all 1 notebooks are in use")
        assert begun.text("2") == "2"


@pytest.mark.slow
def test_an_unused_notebook_makes_place() -> None:
    with conversation(notebooks=1, settled_seconds=0) as begun:
        begun.run("x = 1\nopen('a.txt', 'w').write('kept')")
        other = begun.tool.new_session()
        assert begun.wait(begun.tool.run("2", other)).text == "2"
        text = begun.text("print(open('a.txt').read()); x")
        assert text.startswith("[The notebook that this conversation had is no longer there")
        assert "kept" in text
        assert "NameError" in text


class Sandboxes:
    """In place of real ones: they run nothing."""

    has_ended = False

    async def make(self) -> Sandboxes:
        return self

    async def close(self) -> None:
        pass


def test_an_owner_with_fewer_notebooks_gets_the_next_place() -> None:
    """Those of the first owner are idle or busy; the second and the third then have as many."""

    async def places(busy: int) -> list[str]:
        pool = NotebookPool(replace(SETTINGS, notebooks=6, prestarted=0, wait_seconds=60))
        pool._maker = Sandboxes()  # type: ignore[assignment]

        async def begin(owner: str) -> None:
            await pool._wait_for_place(owner, asyncio.Event())
            await pool._new(owner)

        for _ in range(6):
            await begin("a")
        locked = list(pool._notebooks.values())[:busy]
        for notebook in locked:
            await notebook.lock.acquire()
        waiting = [asyncio.create_task(begin(owner)) for owner in "aabcbcbbcc"]
        for _ in range(200):
            await asyncio.sleep(0)
        for notebook in locked:
            notebook.lock.release()
            await pool._notify()
            for _ in range(200):
                await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        owners = sorted(notebook.owner for notebook in pool._notebooks.values())
        pool._notebooks.clear()
        await pool.close()
        return owners

    for busy in (0, 3, 6):
        assert asyncio.run(places(busy)) == ["a", "a", "b", "b", "c", "c"]


def test_a_call_whose_caller_is_gone_displaces_nothing() -> None:
    async def left() -> int:
        pool = NotebookPool(replace(SETTINGS, notebooks=1, prestarted=0))
        pool._maker = Sandboxes()  # type: ignore[assignment]
        await pool._new("a")
        gone = asyncio.Event()
        gone.set()
        with pytest.raises(ToolError, match="cancelled while it waited"):
            await pool._wait_for_place("b", gone)
        count = len(pool._notebooks)
        pool._notebooks.clear()
        await pool.close()
        return count

    assert asyncio.run(left()) == 1


@pytest.mark.slow
def test_an_idle_notebook_gives_way_to_another_owner_and_keeps_its_files() -> None:
    with conversation(notebooks=2, settled_seconds=5) as begun:
        begun.run("open('a.txt', 'w').write('kept')")
        second, other = begun.tool.new_session(), begun.tool.new_session()
        begun.wait(begun.tool.run("1", second))
        other.owner = "another"
        assert begun.wait(begun.tool.run("2", other)).text == "2"
        text = begun.text("print(open('a.txt').read())")
        assert text.startswith("[The notebook that this conversation had is no longer there")
        assert "kept" in text


def test_a_notebook_that_is_idle_ends() -> None:
    before = process_tree(os.getpid())
    with conversation(idle_seconds=0.05) as begun:
        begun.run("1")
        assert begun.wait(_left_of_the_new(before)) == []
        assert begun.text("2").endswith("\n2")


async def _left_of_the_new(before: list[int]) -> list[int]:
    """Wait until this process has no children but these; return what is left after a while."""
    for _ in range(1000):
        left = [each for each in process_tree(os.getpid()) if each not in before]
        if not left:
            return []
        await asyncio.sleep(0.01)
    return left


def test_a_notebook_waits_for_the_first_call() -> None:
    async def count() -> list[int]:
        all_of_them = NotebookPool(SETTINGS)
        try:
            await all_of_them.start()
            before = process_tree(os.getpid())
            await all_of_them.run(PythonSession(), "1", asyncio.Event())
            return [each for each in process_tree(os.getpid()) if each not in before]
        finally:
            await all_of_them.close()

    assert asyncio.run(count()) == []


def test_closing_ends_calls_under_way() -> None:
    async def close() -> str:
        tool = PythonTool(SETTINGS)
        session = tool.new_session()
        await tool.run("1", session)
        running = asyncio.create_task(tool.run("while True: pass", session))
        await asyncio.wait({running}, timeout=0.1)
        await tool.close()
        return (await running).text

    before = process_tree(os.getpid())
    assert "because the server is ending" in asyncio.run(close())
    assert asyncio.run(_left_of_the_new(before)) == []


SERVER = """
import asyncio, sys
from support.notebooks import SETTINGS
from gpt_oss_harmony.tools.python.python_tool import PythonTool

LEFT_BEHIND = '''
import os, subprocess, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(1000)"])
'''

async def main():
    tool = PythonTool(SETTINGS)
    session = tool.new_session()
    await tool.run(LEFT_BEHIND, session)
    running = asyncio.create_task(tool.run("while True: pass", session))
    await asyncio.wait({running}, timeout=0.5)
    print("ready", flush=True)
    await running

asyncio.run(main())
"""


@pytest.mark.slow
def test_nothing_outlives_a_server_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1])),
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        processes = process_tree(server.pid)[1:]
        # bwrap and its reaper, the agent, the kernel, and what it left behind
        assert len(processes) >= 6
        ends = [os.pidfd_open(process) for process in processes]
        server.kill()
        try:
            for end in ends:
                assert select.select([end], [], [], 10)[0]
        finally:
            for end in ends:
                os.close(end)

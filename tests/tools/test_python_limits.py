"""Every limit of docs/guides/python-tool.md, gone past by each way in.

What comes out of a sandbox is limited by the server, so false agents try that, too.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpt_oss_harmony.tools.python.notebook import Notebook, NotebookOutput
from gpt_oss_harmony.tools.python.sandbox import Limits, Sandbox
from gpt_oss_harmony.tools.python.sandbox.limits import _page_tables, process_tree, used_memory
from gpt_oss_harmony.tools.python.session import PythonSession
from support.notebooks import (
    PATIENCE,
    SETTINGS,
    Conversation,
    conversation,
    false_agent,
    needs_bubblewrap,
)

CHARACTERS = SETTINGS.output_characters
LONG = 100_000

# What a cell can show, each with far more text than may come out.
WAYS_OUT = {
    "standard output": f"print('x' * {LONG})",
    "standard error": f"import sys; sys.stderr.write('x' * {LONG})",
    "many lines": f"for _ in range({LONG}): print('x')",
    "a program": f"import os; _ = os.system('head -c {LONG} /dev/zero | tr \"\\\\0\" x')",
    "a result": f"'x' * {LONG}",
    "Markdown": f"from IPython.display import Markdown; Markdown('x' * {LONG})",
    "JSON": f"from IPython.display import JSON; JSON(['x'] * {LONG})",
    "many displays": "for _ in range(1000): display('x' * 1000)",
    "updates": (
        f"h = [display('', display_id=True) for _ in range(100)]\n"
        f"for each in h: each.update('x' * {LONG})"
    ),
    "an error": f"raise ValueError('x' * {LONG})",
    "an error of many": f"raise ExceptionGroup('x', [ValueError('y' * 1000)] * {LONG // 1000})",
    "an error of the syntax": f"exec('(' * 100 + 'x' * {LONG} + '!')",
    "a help page": f"def f(): pass\nf.__doc__ = 'x\\n' * {LONG}\nf?",
    "control characters": f"print('\\x1b[1m\\r\\b\\0' * {LONG}, 'x' * {LONG})",
    "names of files": "for i in range(300): open(f'{i:03}' + 'x' * 240, 'w').close()",
    "paths of files": (
        "import os\n"
        "for i in range(40):\n"
        "    os.makedirs(p := f'{i}/' + '/'.join(['y' * 240] * 3)); open(p + '/f', 'w').close()"
    ),
    "odd names of files": "for i in range(300): open(f'{i:03}' + '\\n' * 240, 'w').close()",
    "large files": "for i in range(60): open(f'{i}' + 'z' * 240, 'w').truncate(200_000)",
}


@pytest.fixture(scope="module")
def notebook() -> Iterator[Conversation]:
    with conversation() as begun:
        yield begun


@needs_bubblewrap
@pytest.mark.parametrize("code", WAYS_OUT.values(), ids=WAYS_OUT)
def test_the_text_of_a_call_is_never_longer_than_its_limit(
    notebook: Conversation, code: str
) -> None:
    text = notebook.text(code)
    assert CHARACTERS // 4 < len(text) <= CHARACTERS
    notebook.run("%reset -f\n!rm -rf /mnt/data/*")


# What a false agent may answer to a call, as Python: one field of its answer, or several.
LIES = {
    "the beginning": "{'first': 'x' * 2_000_000}",
    "the end": "{'last': 'x' * 2_000_000}",
    "both ends": "{'first': 'x' * 2_000_000, 'cut': 1 << 62, 'last': 'y' * 2_000_000}",
    "what was cut": "{'cut': 1 << 62, 'images_left_out': 1 << 62, 'files_left_out': 1 << 62}",
    "control characters": "{'first': '\\x1b[1m' * 100_000 + '\\b\\r\\0' * 100_000}",
    "large files": "{'files': [{'path': p, 'size': 1 << 62} for p in paths]}",
    "files": "{'files': [{'path': p, 'size': 100_000} for p in paths]}",
    "empty files": "{'files': [{'path': p, 'size': 0} for p in paths]}",
    "odd paths": "{'files': [{'path': chr(10) + p, 'size': 0} for p in paths]}",
    "files gone": "{'files_gone': paths}",
    "images": "{'images': [{'type': 'image/png', 'size': 90_000}] * 100}",
    "large images": "{'images': [{'type': 'image/png', 'size': 1_000_000}] * 9}",
    "images without data": "{'images': [{'type': 'image/png', 'size': 1 << 62}] * 100}",
}
# In its other answers, errors are long, and there is more data than it was asked for.
LIAR = """
paths = [f'{number:03}' + 'p' * 900 for number in range(1000)]
true = dict(status='ok', first='', cut=0, last='', images=[], images_left_out=0, files=[],
            files_left_out=0, files_gone=[])
answers = {
    'start': {}, 'ready': {'renewed': True}, 'put': {'error': 'e' * 2_000_000}, 'get': {},
    'run': true | %s,
}
while True:
    request, _ = ask()
    op = request['op']
    data = b'd' * {'run': 9_000_000, 'get': 200_000}.get(op, 0)
    answer(json.dumps({'id': request['id'], **answers[op]}).encode(), data)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_no_agent_gets_more_out_than_the_limits(lie: str) -> None:
    limits = replace(SETTINGS, attachments=7, state_bytes=50_000)
    session = PythonSession()

    async def go() -> NotebookOutput:
        sandbox = await Sandbox.start(false_agent(LIAR % lie), Limits())
        try:
            notebook = Notebook("name", sandbox, limits)
            problems = await notebook.put_files({f"{i}{'q' * 900}": b"" for i in range(20)})
            return await notebook.run("", asyncio.Event(), session, problems)
        finally:
            await sandbox.close()

    output = asyncio.run(go())
    sizes = [len(attachment.data) for attachment in output.attachments]
    assert len(output.text) <= CHARACTERS
    assert len(sizes) <= limits.attachments
    assert max(sizes, default=0) <= limits.attachment_bytes
    assert sum(sizes) <= 3 * limits.attachment_bytes
    assert session.stored_bytes() <= limits.state_bytes
    assert len(session.files_left_out) <= 100


def test_paths_count_in_the_session() -> None:
    session = PythonSession()
    for number in range(100):
        session.store_file(f"{number:02}" + "x" * 98, b"", most=1000)
    assert (len(session.files), len(session.files_left_out)) == (10, 90)
    for number in range(100):
        session.store_file(f"{number} large", None, most=1000)
    assert len(session.files_left_out) == 100


MAKE = {
    "files": "os.close(os.open(f'{folder}/{n}', os.O_CREAT | os.O_WRONLY))",
    "folders": "os.mkdir(f'{folder}/{n}')",
    "nested folders": "os.mkdir('x'); os.chdir('x')",
    "symbolic links": "os.symlink('x', f'{folder}/{n}')",
    "hard links": "os.link('/mnt/data/one', f'/mnt/data/{n}')",
    "pipes": "os.mkfifo(f'{folder}/{n}')",
    "unlinked files": "held.append(open(f'{folder}/x', 'w')); os.remove(f'{folder}/x')",
}


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize(
    ("folder", "what"),
    [
        *(("/mnt/data", what) for what in MAKE),
        *((folder, "files") for folder in ("/tmp", "/dev/shm")),
    ],
)
def test_the_number_of_files_is_limited(folder: str, what: str) -> None:
    limits = replace(SETTINGS.limits, files=500, open_files=2000)
    with conversation(limits=limits) as begun:
        begun.run("import os, time; held = []; open('/mnt/data/one', 'w').close()")
        code = f"folder = {folder!r}; os.chdir(folder)\nfor n in range(600): {MAKE[what]}"
        text = begun.text(f"{code}\ntime.sleep(60)")
        assert "because its code made more than 500 files" in text
        assert begun.text("len(os.listdir('/mnt/data')) if 'os' in dir() else 0").endswith("0")


@pytest.mark.slow
@needs_bubblewrap
def test_files_up_to_the_limit_are_no_problem() -> None:
    with conversation(limits=replace(SETTINGS.limits, files=700)) as begun:
        code = "import time\nfor n in range(600): open(str(n), 'w').close()\ntime.sleep(1)"
        assert "has ended" not in begun.text(code)
        assert begun.text("import os; len(os.listdir())").startswith("600\n")


OPENED = {
    "files": "open('/dev/null')",
    "duplicates": "os.dup(0)",
    "pipes": "os.pipe()",
    "sockets": "socket.socket()",
    "of one process more": "os.open('/dev/null', os.O_RDONLY)",
}


@needs_bubblewrap
@pytest.mark.parametrize("code", OPENED.values(), ids=OPENED)
def test_open_files_are_limited(notebook: Conversation, code: str) -> None:
    text = notebook.text(
        "import errno, os, resource, socket\nheld = []\ntry:\n"
        f"    while True: held.append({code})\n"
        "except OSError as error:\n"
        "    now, why = len(held), errno.errorcode[error.errno]\n"
        "import gc\nif isinstance(held[-1], (int, tuple)):\n"
        "    for each in held:\n"
        "        for number in (each if isinstance(each, tuple) else [each]): os.close(number)\n"
        "del held; gc.collect(); print(now, why)"
    )
    count, why = text.split()[-2:]
    assert (int(count) < SETTINGS.limits.open_files, why) == (True, "EMFILE")


SPENDING = {
    "the kernel": "while True: pass",
    "a thread": (
        "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()"
    ),
    "with handlers": (
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    ),
    "after a restart": "import os, sys\nos.execv(sys.executable, ['x', '-c', 'while True: pass'])",
}


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("code", SPENDING.values(), ids=SPENDING)
def test_processor_time_is_limited(code: str) -> None:
    limits = replace(SETTINGS.limits, cpu_seconds=2)
    with conversation(limits=limits, seconds=PATIENCE) as begun:
        text = begun.text(f"{code}\nimport time; time.sleep({PATIENCE})")
        assert re.search("killed by SIG(KILL|XCPU)", text)
        child = (
            "import os\n"
            "if (child := os.fork()): print(os.waitpid(child, 0)[1] & 127)\n"
            "else:\n    while True: pass"
        )
        assert begun.text(child).split()[-1] in ("9", "24")


GROWING = {
    "an object": "bytearray(2 << 30)",
    "a map": "mmap.mmap(-1, 2 << 30)",
    "shared memory": "mmap.mmap(-1, 2 << 30, flags=mmap.MAP_SHARED)",
    "the limit itself": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
}


@needs_bubblewrap
@pytest.mark.parametrize("code", GROWING.values(), ids=GROWING)
def test_memory_of_a_process_is_limited(notebook: Conversation, code: str) -> None:
    text = notebook.text(
        f"import mmap, resource\ntry:\n    {code}\n"
        "except (MemoryError, OSError, ValueError) as error: print(type(error).__name__)"
    )
    assert text in ("MemoryError", "OSError", "ValueError")


# Memory that belongs to no process: what fills it in each of twelve processes.
OF_THE_KERNEL = {
    "Unix sockets": "held += socket.socketpair()",
    "datagrams": (
        "held += socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); held[-1].send(bytes(9999))"
    ),
    "TCP on the loopback interface": (
        "l = socket.create_server(('127.0.0.1', 0))\n"
        "        a = socket.create_connection(l.getsockname())\n"
        "        held += [l, a, l.accept()[0]]; a.setblocking(False)\n"
        "        for _ in range(999):\n"
        "            try: a.send(bytes(1 << 16))\n"
        "            except BlockingIOError: break"
    ),
}


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("code", OF_THE_KERNEL.values(), ids=OF_THE_KERNEL)
def test_memory_of_the_kernel_is_limited(code: str) -> None:
    with conversation() as begun:
        text = begun.text(
            "import os, socket, time\nheld = []\nany(os.fork() == 0 for _ in range(12))\ntry:\n"
            f"    while True:\n        {code}\nexcept OSError: time.sleep({PATIENCE})"
        )
        assert "its processes took more than 1024 MiB of memory" in text


PIPES = """
import os, time
for number in range(4):
    if os.fork() == 0:
        try:
            made = open(f"made {number}", "w")  # no file can be opened afterwards
            written, pipes, zeros = 0, 0, bytes(1 << 16)
            try:
                while True:
                    _, end = os.pipe()
                    os.set_blocking(end, False)
                    pipes += 1
                    try:
                        while True: written += os.write(end, zeros)
                    except BlockingIOError: pass
            except OSError: pass
            print(written, pipes, file=made, flush=True)
            os.rename(f"made {number}", f"{number}.txt")
            time.sleep(3600)
        finally:
            os._exit(0)
while sum(name.endswith(".txt") for name in os.listdir()) < 4: time.sleep(0.1)
print(*(open(f"{number}.txt").read() for number in range(4)))
"""


@pytest.mark.slow
@needs_bubblewrap
def test_pipes_hold_what_the_kernel_gives_a_user() -> None:
    with conversation() as begun:
        found = re.findall(r"^ ?(\d+) (\d+)$", begun.text(PIPES), re.MULTILINE)
    assert len(found) == 4
    written, pipes = (sum(map(int, numbers)) for numbers in zip(*found, strict=True))
    assert pipes > 1_000
    pages = int(Path("/proc/sys/fs/pipe-user-pages-soft").read_text("ascii"))
    assert written <= (pages + 2 * pipes) * 4096


TABLES = """
import mmap, os, time
for number in range(16):
    if os.fork() == 0:
        size = 512 << 20
        held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        for at in range(0, size, 2 << 20): held[at]  # a page of zeros, which takes no memory
        open(f"{number}.txt", "w").close()
        time.sleep(3600)
while sum(name.endswith(".txt") for name in os.listdir()) < 16: time.sleep(0.1)
"""


@pytest.mark.slow
@needs_bubblewrap
def test_page_tables_count_as_memory() -> None:
    with conversation() as begun:
        begun.run("1")
        before = sum(map(_page_tables, process_tree(os.getpid())))
        begun.run(TABLES)
        tree = process_tree(os.getpid())
        added = sum(map(_page_tables, tree)) - before
        assert used_memory(os.getpid(), 1 << 50) >= before + added
    assert 16 * (1 << 20) <= added <= SETTINGS.limits.processes * SETTINGS.limits.memory // 256


FILLING = {
    "writing": "f.write(bytes(64 << 20))",
    "a hole": "f.truncate(64 << 20)",
    "reserving": "os.posix_fallocate(f.fileno(), 0, 64 << 20)",
    "at an offset": "os.pwrite(f.fileno(), b'x', 64 << 20)",
    "sending": "os.sendfile(f.fileno(), os.open('/dev/zero', 0), 0, 64 << 20)",
    "many files": "[open(f'{folder}/{n}', 'wb').write(bytes(1 << 20)) for n in range(64)]",
    "a map": "f.truncate(7 << 20); mmap.mmap(f.fileno(), 0).write(bytes(7 << 20)); 1 / (most < 7)",
}


@needs_bubblewrap
@pytest.mark.parametrize("folder", ["/mnt/data", "/tmp", "/dev/shm"])
@pytest.mark.parametrize("code", FILLING.values(), ids=FILLING)
def test_sizes_of_folders_are_limited(notebook: Conversation, folder: str, code: str) -> None:
    most = SETTINGS.limits.disk if folder == "/mnt/data" else SETTINGS.limits.temporary
    notebook.run(
        f"import mmap, os\nfolder = {folder!r}; most = {most >> 20}\n"
        "f = open(folder + '/f', 'wb+', buffering=0)"
    )
    notebook.run(code)  # it fails, or writes only a part; a map beyond the limit kills the kernel
    used = (
        f"import os\ns = os.statvfs({folder!r})\n"
        "print((s.f_blocks - s.f_bfree) * s.f_bsize, s.f_blocks * s.f_bsize)"
    )
    taken, size = map(int, notebook.text(used).split("\n")[-1].split())
    assert taken <= size == most
    notebook.run(f"!find {folder} -mindepth 1 -maxdepth 1 -name '[0-9f]*' -delete")


TASKS = {
    "threads": "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "programs": "held.append(subprocess.Popen(['sleep', '60']))",
    "sessions": "os.fork() or (os.setsid(), time.sleep(60))",
}


@needs_bubblewrap
@pytest.mark.parametrize("code", TASKS.values(), ids=TASKS)
def test_processes_and_threads_are_limited_together(code: str) -> None:
    with conversation() as begun:
        text = begun.text(
            "import os, subprocess, threading, time, warnings\nwarnings.simplefilter('ignore')\n"
            f"held, n = [], 0\ntry:\n    while True: {code}; n += 1\n"
            "except (OSError, RuntimeError): print(n)"
        )
        assert int(text.split()[-1]) < SETTINGS.limits.processes


def test_every_limit_of_the_docs_is_a_setting() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "python-tool.md").read_text(
        encoding="utf-8"
    )
    table = page.split("| `Limits` | Default | |")[1].split("\n\n")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert named == set(Limits.__dataclass_fields__)

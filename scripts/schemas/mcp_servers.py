"""Enforce the tools of published MCP servers, and close their calls in time.

::

    python scripts/schemas/mcp_servers.py FOLDER [--only NAME] [--limits 40 150 300 1000] [--seed 1]

Each server is installed into FOLDER from npm or PyPI, once, and asked for its tools over standard
input; FOLDER/tools keeps the answers. No tool is called. A server that cannot be installed or gives
no answer is listed with the reason.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from gpt_oss_harmony import (
    Conversation,
    DeveloperContent,
    Message,
    Role,
    TextContent,
    ToolDescription,
    load_harmony_encoding,
)
from gpt_oss_harmony.grammar import (
    ClosingMatcher,
    GrammarError,
    Matcher,
    TurnOptions,
    turn_constraint,
)
from support.noise_sampler import sampled

_SECONDS_TO_INSTALL, _SECONDS_TO_ANSWER = 300, 60
_TOGETHER = 16


class Server(NamedTuple):
    """A package of a registry, with what its program needs to start; nothing here is a secret."""

    package: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = MappingProxyType({})
    program: str | None = None

    @property
    def folder(self) -> str:
        """The name of the package as that of a folder."""
        return self.package.replace("/", "+").replace("@", "")


KEY = "0123456789abcdef0123456789abcdef"
NPM = [
    Server("@modelcontextprotocol/server-everything"),
    Server("@modelcontextprotocol/server-filesystem", (".",)),
    Server("@modelcontextprotocol/server-memory"),
    Server("@modelcontextprotocol/server-sequential-thinking"),
    Server("@modelcontextprotocol/server-github"),
    Server(
        "@modelcontextprotocol/server-slack", (), {"SLACK_BOT_TOKEN": "x", "SLACK_TEAM_ID": "T"}
    ),
    Server("@notionhq/notion-mcp-server", (), {"NOTION_TOKEN": KEY}),
    Server("@upstash/context7-mcp"),
    Server("firecrawl-mcp", (), {"FIRECRAWL_API_KEY": KEY}),
    Server("tavily-mcp", (), {"TAVILY_API_KEY": KEY}),
    Server("exa-mcp-server", (), {"EXA_API_KEY": KEY}),
    Server("@brave/brave-search-mcp-server", (), {"BRAVE_API_KEY": KEY}),
    Server("@playwright/mcp"),
    Server("chrome-devtools-mcp"),
    Server("@browserbasehq/mcp-server-browserbase", (), {"BROWSERBASE_API_KEY": KEY}),
    Server("@sentry/mcp-server", ("--access-token", KEY)),
    Server("@supabase/mcp-server-supabase", ("--access-token", f"sbp_{KEY}{KEY[:8]}")),
    Server("@zereight/mcp-gitlab", (), {"GITLAB_PERSONAL_ACCESS_TOKEN": KEY}),
    Server("@azure-devops/mcp", ("example",)),
    Server("@heroku/mcp-server", (), {"HEROKU_API_KEY": KEY}),
    Server("@hubspot/mcp-server", (), {"PRIVATE_APP_ACCESS_TOKEN": KEY}),
    Server("@circleci/mcp-server-circleci", (), {"CIRCLECI_TOKEN": KEY}),
    Server("@cloudinary/asset-management-mcp", ("start",)),
    Server("@line/line-bot-mcp-server", (), {"CHANNEL_ACCESS_TOKEN": KEY}),
    Server("@coingecko/coingecko-mcp", (), {"COINGECKO_PRO_API_KEY": KEY}),
    Server("@launchdarkly/mcp-server", ("start", "--api-key", KEY)),
    Server("@mapbox/mcp-server", (), {"MAPBOX_ACCESS_TOKEN": "pk.eyJ1IjoieCJ9.x"}),
    Server("@antv/mcp-server-chart"),
    Server("@currents/mcp", (), {"CURRENTS_API_KEY": KEY}),
    Server("@eslint/mcp"),
    Server("@mui/mcp"),
    Server("airtable-mcp-server", (), {"AIRTABLE_API_KEY": KEY}),
    Server("figma-developer-mcp", ("--stdio",), {"FIGMA_API_KEY": KEY}),
    Server("mcp-server-kubernetes"),
    Server("mongodb-mcp-server"),
    Server("todoist-mcp", (), {"API_KEY": KEY}),
    Server("@stripe/mcp", ("--tools=all", f"--api-key=sk_test_{KEY}")),
]
PYPI = [
    Server("mcp-server-git"),
    Server("mcp-server-fetch"),
    Server("mcp-server-time"),
    Server("mcp-server-sqlite", ("--db-path", "x.db")),
    Server("arxiv-mcp-server"),
    Server("mcp-atlassian", (), {"JIRA_URL": "http://127.0.0.1:9", "JIRA_PERSONAL_TOKEN": KEY}),
    Server("duckduckgo-mcp-server"),
    Server("excel-mcp-server", ("stdio",)),
    Server("office-word-mcp-server", program="word_mcp_server"),
    Server("wikipedia-mcp"),
    Server("redis-mcp-server"),
    Server("postgres-mcp", ("postgresql://x@127.0.0.1:9/x",)),
]


def install(server: Server, folder: Path, *, is_python: bool) -> list[str]:
    """Install a server, unless it is there; return its command."""
    home = folder / ("pypi" if is_python else "npm") / server.folder
    if is_python:
        python = home / "bin" / "python"
        if not python.exists():
            _run([sys.executable, "-m", "venv", str(home)])
            _run([str(python), "-m", "pip", "install", "--quiet", server.package])
        name = server.program or server.package
        return [str(home / "bin" / name), *server.arguments]
    package = home / "node_modules" / server.package / "package.json"
    if not package.exists():
        home.mkdir(parents=True, exist_ok=True)
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        _run(["npm", "install", "--prefix", str(home), *options, server.package])
    programs = json.loads(package.read_text("utf-8"))["bin"]
    path = programs if isinstance(programs, str) else next(iter(programs.values()))
    return ["node", str(package.parent / path), *server.arguments]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_TO_INSTALL)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {(done.stderr or done.stdout).strip()[-300:]}")


async def ask(command: list[str], server: Server, folder: Path) -> list[dict[str, Any]]:
    """Start a server, and return its tools."""
    from mcp import ClientSession, StdioServerParameters, stdio_client

    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **server.environment}
    parameters = StdioServerParameters(
        command=command[0], args=command[1:], env=environment, cwd=str(folder)
    )
    with open(os.devnull, "w", encoding="utf-8") as errors:
        async with (
            stdio_client(parameters, errlog=errors) as streams,
            ClientSession(*streams) as session,
        ):
            await asyncio.wait_for(session.initialize(), _SECONDS_TO_ANSWER)
            listed = await asyncio.wait_for(session.list_tools(), _SECONDS_TO_ANSWER)
            return [tool.model_dump(mode="json", by_alias=True) for tool in listed.tools]


def tools_of(server: Server, folder: Path, *, is_python: bool) -> list[dict[str, Any]] | str:
    """Return the tools of a server, or the reason why there are none."""
    kept = folder / "tools" / f"{server.folder}.json"
    if not kept.exists():
        try:
            command = install(server, folder, is_python=is_python)
            tools = asyncio.run(ask(command, server, folder))
        except Exception as error:  # noqa: BLE001 - the programs are those of others
            problem: BaseException = error
            while inner := getattr(problem, "exceptions", ()):  # of a group
                problem = inner[0]
            return f"{type(problem).__name__}: {problem}".strip().replace("\n", " ")[:160]
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(tools), encoding="utf-8")
    read: list[dict[str, Any]] = json.loads(kept.read_text("utf-8"))
    return read


def turn_of(tools: list[dict[str, Any]]) -> Conversation:
    """Return a conversation that declares some tools."""
    declared = [
        ToolDescription.new(tool["name"], tool.get("description") or "", tool.get("inputSchema"))
        for tool in tools
    ]
    content = DeveloperContent.new().with_function_tools(declared)
    return Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, content)])


REQUIRED = TurnOptions(tool_choice="required", preambles=False, on_unsupported="loosen")


def judge(tool: dict[str, Any], limits: list[int], seed: int, counts: Counter[str]) -> None:
    """Count how one tool is enforced, and whether its calls are whole within the limits."""
    try:
        made = turn_constraint(turn_of([tool]), REQUIRED)
    except GrammarError as error:
        counts["refused"] += 1
        print(f"  refused: {tool['name']}: {error}")
        return
    counts["loosened" if made.unenforced else "narrowed" if made.narrowed else "exact"] += 1
    for left_out in (*made.unenforced, *made.narrowed):
        print(f"  {tool['name']}: {left_out}")
    Matcher(made.grammar)  # what was made compiles
    for limit in limits:
        matcher = ClosingMatcher(made.grammar, limit)
        if not matcher.closes:
            counts[f"not closable in {limit}"] += 1
            continue
        counts[f"closable in {limit}"] += 1
        problem = _problem_of(tool, sampled(matcher, seed), limit, is_exact=not made.unenforced)
        if problem:
            counts[f"wrong in {limit}"] += 1
            print(f"  WRONG within {limit}: {tool['name']}: {problem}")


def _problem_of(
    tool: dict[str, Any], tokens: list[int], limit: int, *, is_exact: bool
) -> str | None:
    if len(tokens) > limit:
        return f"{len(tokens)} tokens"
    encoding = load_harmony_encoding("HarmonyGptOss")
    *_, call = encoding.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
    (content,) = call.content
    if not isinstance(content, TextContent) or call.recipient != f"functions.{tool['name']}":
        return f"a message to {call.recipient}"
    value = json.loads(content.text)
    schema = tool.get("inputSchema") or True
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return None
    error = next(Draft202012Validator(schema).iter_errors(value), None) if is_exact else None
    return None if error is None else f"{error.message[:200]} in {content.text[:200]}"


def main() -> None:
    """Ask all servers, and count."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", help="the name of a package")
    parser.add_argument("--limits", type=int, nargs="*", default=[40, 150, 300, 1000])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    total: Counter[str] = Counter()
    everything: list[dict[str, Any]] = []
    for server in (*NPM, *PYPI):
        if options.only and server.package not in options.only:
            continue
        tools = tools_of(server, folder, is_python=server in PYPI)
        if isinstance(tools, str):
            print(f"{server.package}: {tools}", flush=True)
            continue
        print(f"{server.package}: {len(tools)} tools", flush=True)
        total["servers"] += 1
        total["tools"] += len(tools)
        everything += tools
    for tool in everything:
        judge(tool, options.limits, options.seed, total)
    for start in range(0, len(everything), _TOGETHER):
        group = everything[start : start + _TOGETHER]
        named = {tool["name"]: tool for tool in group}  # two servers may have one name
        Matcher(turn_constraint(turn_of(list(named.values())), REQUIRED).grammar)
        total[f"groups of {_TOGETHER}"] += 1
    print(f"\nllguidance {version('llguidance')}, seed {options.seed}")
    for name, count in total.items():
        print(f"{count:6,}  {name}")


if __name__ == "__main__":
    main()

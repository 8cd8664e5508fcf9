"""The test suites of programs that use harmony, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from peers import PEERS, ROOT

__all__ = ["NO_SUITE", "SETUPS", "SUITES", "Setup", "Suite"]


@dataclass(frozen=True)
class Setup:
    """The harmony libraries of an environment."""

    name: str
    installs: tuple[str, ...]

    drop_in: bool = False
    """Whether our library stands in for `openai_harmony`."""

    plugin: bool = False
    """Whether our plugin for vLLM is loaded."""


OURS = str(ROOT)
SETUPS = {
    setup.name: setup
    for setup in (
        Setup("reference", (PEERS["reference"],)),
        Setup("fork", (PEERS["fork"],)),
        Setup("ours", (OURS,), drop_in=True),
        Setup("beside", (PEERS["fork"], OURS)),
        Setup("plugin", (PEERS["fork"], OURS, str(ROOT / "packages" / "vllm")), plugin=True),
    )
}


@dataclass(frozen=True)
class Suite:
    """A source distribution, its dependencies, and the cases in it that concern harmony."""

    package: str

    version: str
    """A version on PyPI; with `repository`, the first digits of a commit."""

    tests: tuple[str, ...]
    """Arguments of pytest: files, classes, functions."""

    installs: tuple[tuple[str, ...], ...]
    """Arguments of ``pip install``, one call after the other; no harmony library among them."""

    requirements: str = ""
    """A requirements file of the source that is installed, too."""

    excluded: tuple[str, ...] = ()
    """Lines of that file that are not installed, by how they start."""

    left_out: dict[str, str] = field(default_factory=dict)
    """Parts of the ids of cases that are not run, each with the reason."""

    divergences: dict[str, str] = field(default_factory=dict)
    """Parts of the ids of cases that fail with this library on purpose, each with the reason."""

    edits: tuple[tuple[str, str, str], ...] = ()
    """Changes to the source: a file, a text in it, the text that replaces it."""

    command: tuple[str, str, str] | None = None
    """A program that the cases start: its name, its module, its function."""

    by_plugin: dict[str, str] = field(default_factory=dict)
    """Parts of the ids of cases that our plugin for vLLM changes on purpose, with the reason."""

    plugins: tuple[str, ...] = ("record",)
    """Pytest plugins in this folder."""

    repository: str = ""
    """An address of git, where PyPI lacks the source or its tests."""

    commit: str = ""
    """The commit of the repository."""

    python: tuple[int, int] = (3, 12)
    """The oldest version of Python that runs the program."""

    setups: tuple[Setup, ...] = tuple(SETUPS[name] for name in ("reference", "fork", "ours"))

    @property
    def name(self) -> str:
        return f"{self.package}-{self.version}"


TORCH = "torch==2.13.0"
BASE = ("pydantic>=2.11.7", "pytest>=9", "pytest-asyncio>=1", "tiktoken>=0.13,<0.14")
MLX = (
    *(*BASE, "fastapi", "httpx", "jsonschema", "llguidance>=1.7.6,<2", "mcp>=1.9.3,<2"),
    *("mlx[cpu]==0.32.1", "mlx-lm==0.31.3", "pillow", "prometheus-client", "psutil", "pypdf"),
    *("pytz", "requests", "rich", "tabulate", "transformers==5.15.0"),
)
VLLM = ((TORCH,), (TORCH, *BASE, "rapidfuzz", "tblib"))
VLLM_REQUIREMENTS = "requirements/common.txt"
# Each library's environment has a harmony of its own. The floor of certifi may be too new.
VLLM_EXCLUDED = ("certifi", "openai-harmony", "oss-harmony")
VLLM_COMMAND = ("vllm", "vllm.entrypoints.cli.main", "main")
NEEDS_MODEL = "need the weights of gpt-oss, and a GPU"

LENIENT = {
    "missing_message_token[False-False]": "lenient mode",
    "missing_message_token_tool_call[False-False]": "lenient mode",
}

_LOST = "asserts that text is lost, and the plugin keeps it"
_LEAKED = "asserts special tokens in the content, and the plugin reads the header"
VLLM_PLUGIN = {
    "test_assistant_recipient_not_tool": _LOST,
    "test_builtin_recipient_skipped": _LOST,
    "test_flush_recovers_invalid_output": _LEAKED,
    "test_malformed_msgs_recovers_raw_content": _LEAKED,
    "test_multiple_tool_calls_varied_formats": "asserts arguments that are no JSON: `no_args`",
}

_API = "tests/entrypoints/openai"
_CHAT = f"{_API}/chat_completion/test_serving_chat.py"
_DERENDER = "tests/entrypoints/scale_out/derender"

SUITES = (
    Suite("openai-harmony", "0.0.8", ("tests",), (BASE,), divergences=LENIENT, python=(3, 10)),
    Suite("oss-harmony", "0.0.11", ("tests",), (BASE,), divergences=LENIENT),
    Suite(
        "vllm",
        "0.33.0",
        tests=(
            "tests/parser/test_harmony.py",
            "tests/reasoning/test_gptoss_reasoning_parser.py",
            "tests/tool_parsers/test_structural_tag_registry.py::"
            "test_harmony_structural_tag_keeps_builtin_tools",
            "tests/entrypoints/launchers/render/test_app_state.py",
            "tests/entrypoints/unit_tests/test_context.py",
            f"{_API}/parser",
            f"{_API}/test_render_parity.py",
            f"{_CHAT}::TestGPTOSSChat",
            f"{_CHAT}::TestGPTOSSSpeculativeChat",
            f"{_CHAT}::TestServingChatWithHarmony",
            f"{_CHAT}::test_make_request_with_harmony_reuses_kv_transfer_prompt_token_ids",
            f"{_CHAT}::test_make_request_with_harmony_rejects_invalid_kv_transfer_prompt_token_ids",
            f"{_API}/chat_completion/test_batched_chat_completions.py::"
            "test_batched_harmony_response_format_uses_structural_tag",
            f"{_API}/responses/test_harmony.py",
            f"{_API}/responses/test_harmony_utils.py",
            f"{_API}/responses/test_mcp_tools.py",
            f"{_API}/responses/test_parsable_context_unit.py",
            f"{_API}/responses/test_protocol.py",
            f"{_API}/responses/test_response_input_to_harmony.py",
            f"{_API}/responses/test_responses_utils.py",
            f"{_API}/responses/test_serving_responses.py",
            f"{_API}/responses/test_streaming_events.py",
            f"{_DERENDER}/test_derender.py::test_e2e_harmony_plain_roundtrip",
            f"{_DERENDER}/test_derender.py::test_e2e_harmony_tool_choice_none_drops_tool_calls",
            f"{_DERENDER}/test_derender.py::test_e2e_harmony_reasoning_default_parser",
            f"{_DERENDER}/test_derender.py::test_e2e_harmony_reasoning",
            f"{_DERENDER}/test_derender_stream.py::TestDerenderChatStreamHarmony",
            "tests/entrypoints/scale_out/render/test_render.py::"
            "test_tokenize_matches_chat_render_for_gpt_oss",
            "tests/entrypoints/tool_parsers/test_openai_tool_parser.py",
        ),
        installs=VLLM,
        requirements=VLLM_REQUIREMENTS,
        excluded=VLLM_EXCLUDED,
        left_out=dict.fromkeys(
            (
                *("TestGPTOSS", "TestMCPEnabled", "openai/responses/test_harmony.py"),
                "entrypoints/tool_parsers/test_openai_tool_parser.py",
            ),
            NEEDS_MODEL,
        ),
        edits=(
            # Without its kernels vLLM has no platform, unless it is a build for the CPU.
            ("vllm.egg-info/PKG-INFO", "Version: 0.33.0\n", "Version: 0.33.0+cpu\n"),
            # The vocabulary is there.
            (f"{_DERENDER}/test_derender.py", "if not cache_file.exists():", "if False:"),
        ),
        command=VLLM_COMMAND,
        by_plugin=VLLM_PLUGIN,
        setups=tuple(SETUPS.values()),
    ),
    Suite(
        "vllm",
        "0.17.0",
        tests=(
            "tests/reasoning/test_gptoss_reasoning_parser.py",
            "tests/tool_parsers/test_openai_tool_parser.py",
            "tests/entrypoints/test_context.py",
            f"{_API}/parser",
            f"{_API}/test_gptoss_structural_tags_integration.py",
            f"{_API}/test_protocol.py",
            f"{_API}/test_serving_chat.py::TestGPTOSSChat",
            f"{_API}/test_serving_chat.py::TestGPTOSSSpeculativeChat",
            f"{_API}/test_serving_chat.py::TestServingChatWithHarmony",
            f"{_API}/test_serving_chat_stream_harmony.py",
            f"{_API}/test_serving_responses.py",
            f"{_API}/responses/test_harmony.py",
            f"{_API}/responses/test_harmony_utils.py",
            f"{_API}/responses/test_mcp_tools.py",
            f"{_API}/tool_parsers/test_openai_tool_parser.py",
        ),
        installs=VLLM,
        requirements=VLLM_REQUIREMENTS,
        excluded=VLLM_EXCLUDED,
        left_out=dict.fromkeys(
            (
                *("TestGPTOSS", "TestMCPEnabled", "openai/responses/test_harmony.py"),
                "openai/tool_parsers/test_openai_tool_parser.py",
            ),
            NEEDS_MODEL,
        ),
        edits=(
            ("vllm.egg-info/PKG-INFO", "Version: 0.17.0\n", "Version: 0.17.0+cpu\n"),
            # The function went with a later PyTorch; there are no kernels to choose from.
            ("vllm/platforms/cpu.py", "torch._C._cpu._is_avx512_supported()", "False"),
        ),
        command=VLLM_COMMAND,
    ),
    Suite(
        "gpt-oss",
        "0.0.9",
        tests=("tests",),
        installs=(
            (
                *(*BASE, "aiohttp", "chz", "docker", "fastapi", "html2text", "httpx"),
                *("jupyter-client", "lxml", "requests", "structlog", "tenacity", "termcolor"),
                "uvicorn",
            ),
        ),
        plugins=("record", "gpt_oss_fixtures"),
    ),
    Suite(
        "renderers",
        "0.1.12",
        tests=("tests", "-k", "gpt-oss or gpt_oss"),
        installs=(
            (
                *(*BASE, "jinja2", "numpy", "openai", "pillow", "prime-pydantic-config==0.4.3"),
                "transformers==5.15.0",
            ),
        ),
    ),
    Suite(
        "rapid-mlx",
        "0.16.10",
        tests=("tests/test_harmony_finalize.py", "tests/test_output_router.py", "-k", "router"),
        installs=(MLX,),
    ),
    # What the source distribution leaves out, at the version before the package was renamed.
    Suite(
        "rapid-mlx",
        "7222ca7",
        tests=(
            "tests/parsers/regressions/test_issue_444_harmony_tool_call_leak.py",
            "tests/parsers/regressions/test_issue_513_harmony_streamable_parser.py",
            "tests/test_output_router.py",
        ),
        installs=(MLX,),
        repository="https://github.com/raullenchai/Rapid-MLX",
        commit="7222ca776c029b045cba424e7b2e942c5073529f",
    ),
    Suite("vllm-mlx", "0.6.0", ("tests/test_harmony_render.py",), (MLX,)),
    Suite(
        "exo",
        "b5375f8",
        tests=("src/exo/worker/tests/unittests/test_runner/test_parse_gpt_oss.py",),
        installs=(
            (
                *(*BASE, "aiofiles", "aiohttp", "anyio==4.11.0", "fastapi", "filelock", "httpx"),
                *("huggingface-hub", "hypercorn", "loguru", "mlx[cpu]==0.32.1", "mlx-lm==0.32.2"),
                *("msgspec", "psutil", "pytest-env", "python-multipart", "rustworkx", "tomlkit"),
                *("transformers", "zstandard"),
            ),
        ),
        edits=(
            # It is not installed, and its dashboard is not built.
            ("src/exo/__init__.py", 'version("exo")', '"0.3.70"'),
            ("src/exo/shared/constants.py", "find_dashboard() if", "Path() if"),
        ),
        plugins=("record", "exo_stand_ins"),
        repository="https://github.com/exo-explore/exo",
        commit="b5375f8cee4368d09e1ce96a56b9f81fb0bc81aa",
        python=(3, 13),
    ),
)

NO_SUITE = {
    "lmdeploy": "publishes no source distribution",
    "sglang": "publishes no tests that use harmony",
}
"""Programs that use harmony and whose tests cannot be run, with the reason."""

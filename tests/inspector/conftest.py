"""The browser of the tests of the page, where Playwright is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("playwright"):
    # Rewritten first, so that their assertions tell what they compared.
    pytest.register_assert_rewrite("support.page_visitor", "support.inspector_page")
    from support.inspector_page import browser, inspector_url, page, visitor

    __all__ = ["browser", "inspector_url", "page", "visitor"]
else:
    collect_ignore_glob = ["test_page_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with a browser as slow, but for the first look at the page."""
    for page in Path(__file__).parent.glob("test_page_*.py"):
        if page.name != "test_page_welcome.py":
            for item in items:
                if item.path == page:
                    item.add_marker(pytest.mark.slow)

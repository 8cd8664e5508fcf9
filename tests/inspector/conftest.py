"""The browser of the tests of the page, where Playwright is installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("playwright"):
    # Rewritten first, so that their assertions tell what they compared.
    pytest.register_assert_rewrite("support.page_visitor", "support.inspector_page")
    from support.inspector_page import browser, inspector_url, page, visitor

    __all__ = ["browser", "inspector_url", "page", "visitor"]
else:
    collect_ignore_glob = ["test_page_*.py"]

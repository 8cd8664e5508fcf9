"""What MkDocs does with our pages beyond its plugins; ``hooks`` in mkdocs.yml names this file.

Pages link to files of the repository by relative paths, so that the links work where the repository
is read. On the site such a link leads to the file in the repository.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

# A fenced block, which stays as it is, or the target of a link that leaves its folder.
_LINK = re.compile(r"^```.*?^```$|(?<=\]\()(?:\.\./)+[^)\s]+", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Make links to files outside ``docs`` links to the repository."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def repository_link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[0]))
        if match[0].startswith("```") or target.startswith("docs/"):
            return match[0]
        return f"{config['repo_url']}/blob/main/{target}"

    return _LINK.sub(repository_link, markdown)

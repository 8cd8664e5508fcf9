"""The rules of a robots.txt for one program (RFC 9309): the file in, yes or no for a URL out.

A hostile site may have written the file, so time and memory grow linearly with it. Protego, which
Scrapy has, stores each rule once for each program that its group names: 65 KB take 7 seconds and
290 MB. The `urllib.robotparser` of most releases of Python knows neither ``*`` nor the longest
match.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlsplit

_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = re.compile("[A-Za-z0-9._~-]")  # their escapes mean the same
_ASCII = "".join(map(chr, range(0x21, 0x7F)))


class RobotsRule(NamedTuple):
    """A pattern of paths, in which ``*`` stands for any text, and a final ``$`` for the end."""

    pattern: str
    is_allowed: bool


def robots_rules(file: bytes, agent: str) -> list[RobotsRule]:
    r"""Return the rules of all groups that name a program, or else of those for ``*``.

    >>> robots_rules(b"User-agent: *\nDisallow: /private", "HarmonyBrowser/1")
    [RobotsRule(pattern='/private', is_allowed=False)]
    """
    own = _product(agent)
    rules = dict[str, list[RobotsRule]]()
    groups, is_heading = set[str](), False  # the names of a group may stand in several lines
    for line in file.removeprefix(b"\xef\xbb\xbf").splitlines():
        text = line.decode("utf-8", "surrogateescape")  # so that `quote` restores other bytes
        field, colon, value = text.partition("#")[0].partition(":")
        field, value = field.strip().lower(), value.strip()
        if field == "user-agent" and colon:
            if not is_heading:
                groups, is_heading = set(), True
            if (name := _product(value)) in (own, "*"):
                groups.add(name)
                rules.setdefault(name, [])
        elif field in ("allow", "disallow") and colon:
            is_heading = False
            end = "$" if value.endswith("$") else ""
            pattern = _normal(value.removesuffix("$")).replace("$", "%24") + end
            for name in groups if value else ():
                rules[name].append(RobotsRule(pattern, field == "allow"))
    return rules.get(own, rules.get("*", []))


def may_fetch(rules: Sequence[RobotsRule], url: str) -> bool:
    """Return whether rules allow a URL: the longest pattern decides, of equal ones the allowing."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if "?" in url.partition("#")[0] else ""
    path = _normal((parts.path or "/") + query).replace("*", "%2A").replace("$", "%24")
    if path == "/robots.txt":
        return True
    matching = ((len(one.pattern), one.is_allowed) for one in rules if _matches(one.pattern, path))
    return max(matching, default=(0, True))[1]


def _product(text: str) -> str:
    """Return a program's name without its version; names are compared without regard to case."""
    return re.split(r"[\s/]", text, maxsplit=1)[0].lower()


def _normal(path: str) -> str:
    """Escape what is not ASCII, and unescape what needs no escape, as the RFC compares paths."""
    quoted = quote(path, safe=_ASCII, errors="surrogateescape")
    return _ESCAPE.sub(_normal_escape, quoted)


def _normal_escape(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if _UNRESERVED.match(character) else escape[0].upper()


def _matches(pattern: str, path: str) -> bool:
    is_whole = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first) or not rest:
        return path == first if is_whole else path.startswith(first)
    at = len(first)
    for piece in rest[:-1]:
        found = path.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    if is_whole:
        return path[at:].endswith(rest[-1])
    return path.find(rest[-1], at) >= 0

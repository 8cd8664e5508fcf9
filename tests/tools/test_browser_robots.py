"""robots.txt: the examples of RFC 9309, what real files have, and hostile files."""

from __future__ import annotations

import time

import pytest

from gpt_oss_harmony.tools.browser.robots import RobotsRule, may_fetch, robots_rules

AGENT = "HarmonyBrowser/1.0"


def allows(file: str | bytes, path: str, agent: str = AGENT) -> bool:
    body = file if isinstance(file, bytes) else file.encode()
    return may_fetch(robots_rules(body, agent), f"https://a.example{path}")


def for_all(*lines: str) -> str:
    return "\n".join(("User-agent: *", *lines))


# Section 5.1, with a robots.txt of several groups
SIMPLE = """\
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("agent", "allowed", "forbidden"),
    [
        (
            "otherbot",
            ["/", "/publications/a.html", "/a.gifs"],
            ["/a.gif", "/b/c.gif", "/example/a"],
        ),
        ("foobot", ["/example/page.html", "/example/allowed.gif"], ["/", "/example/a.gif"]),
        ("barbot", ["/", "/example/a.gif"], ["/example/page.html"]),
        ("BazBot/2.1", ["/", "/example/a.gif"], ["/example/page.html"]),
        ("quxbot", ["/", "/a.gif", "/example/page.html"], []),
    ],
)
def test_the_simple_example(agent: str, allowed: list[str], forbidden: list[str]) -> None:
    assert [path for path in allowed + forbidden if allows(SIMPLE, path, agent)] == allowed


# Section 5.2: the longest match
LONGEST = for_all("Allow: /example/page/", "Disallow: /example/page/disallowed.gif")

# Section 2.2.1: the groups of one program are one
COMBINED = """\
user-agent: ExampleBot
disallow: /foo
disallow: /bar

user-agent: BazBot
disallow: /baz

user-agent: ExampleBot
disallow: /qux
"""


def test_the_longest_match_and_the_combined_groups() -> None:
    assert not allows(LONGEST, "/example/page/disallowed.gif")
    assert allows(LONGEST, "/example/page/other.gif")
    assert [rule.pattern for rule in robots_rules(COMBINED.encode(), "ExampleBot/0.1")] == [
        "/foo",
        "/bar",
        "/qux",
    ]


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        # Section 2.2.2: escapes
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz", True),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar", True),
        ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https%3a%2f%2ffoo.bar", True),
        ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar", False),
        ("/foo/bar/\N{LATIN CAPITAL LETTER U WITH DIAERESIS}", "/foo/bar/%C3%9C", True),
        ("/foo/bar/%C3%9c", "/foo/bar/\N{LATIN CAPITAL LETTER U WITH DIAERESIS}", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", True),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A", True),
        # Section 2.2.3: special characters, and how they are meant literally
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", True),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-b.html", False),
        ("/path/foo-%24", "/path/foo-$", True),
        ("/path/foo-%24", "/path/foo-", False),
        ("/path/$foo", "/path/$foo", True),
        ("/this/*/exactly", "/this/path/exactly", True),
        ("/this/*/exactly", "/this/exactly", False),
        ("/allow/this/exactly$", "/allow/this/exactly", True),
        ("/allow/this/exactly$", "/allow/this/exactly/", False),
        ("/*.html$", "/a.html", True),
        ("/*.html$", "/a.html?b", False),
        ("/*.html$", "/a.html.html", True),
        ("/*a*b", "/xaxbx", True),
        ("/*a*b", "/xbxax", False),
        ("/ab*ba$", "/aba", False),
        ("/ab*$", "/abc", True),
        ("*", "/", True),
        ("/", "", True),
        ("/?", "/?", True),
        ("/a", "/A", False),
        ("private", "/private", False),
    ],
)
def test_patterns(pattern: str, path: str, matches: bool) -> None:
    assert allows(for_all(f"Disallow: {pattern}"), path) is not matches
    assert allows(for_all("Disallow: *", f"Allow: {pattern}   # as it is"), path) is (
        matches or pattern == "*"
    )


@pytest.mark.parametrize(
    ("file", "path", "allowed"),
    [
        (for_all("Allow: /", "Disallow: /private"), "/private/x", False),
        (for_all("Disallow: /", "Allow: /public"), "/public/x", True),
        (for_all("Disallow: /a", "Allow: /a"), "/a", True),
        (for_all("Allow: /a", "Disallow: /a"), "/a", True),
        (for_all("Disallow: /"), "/robots.txt", True),
        (for_all("Disallow:"), "/", True),
        (for_all("", "Disallow: /private"), "/private", False),
        ("\ufeff" + for_all("Disallow: /private"), "/private", False),
        (for_all("Disallow: /private").replace("\n", "\r"), "/private", False),
        (for_all("Disallow: /private").replace("\n", "\r\n"), "/private", False),
        (f"{for_all('Disallow: /x')}\n{for_all('Disallow: /private')}", "/private", False),
        ("User-agent: harmonybrowser\nDisallow: /", "/", False),
        ("User-agent: HarmonyBrowser/0.9\nDisallow: /", "/", False),
        ("User-agent: foo\nUser-agent: HarmonyBrowser\nDisallow: /", "/", False),
        ("User-agent: HarmonyBrowser\nAllow: /\n" + for_all("Disallow: /"), "/", True),
        (for_all("Disallow: /", "User-agent: HarmonyBrowser", "Disallow: /b"), "/a", True),
        ("User-agent: Harm\nDisallow: /", "/", True),
        ("User-agent: HarmonyBrowser2\nDisallow: /", "/", True),
        # Other records are passed over, and end no group.
        (for_all("Crawl-delay: ²", "Disallow: /x"), "/ok", True),
        (for_all("Crawl-delay: 1", "User-agent: a", "Disallow: /x"), "/x", False),
        (for_all("Disallow: /x", "Sitemap: /s", "Disallow: /y"), "/y", False),
        ("Disallow: /\n", "/", True),
        ("User-agent *\nDisallow: /\n", "/", True),
        (b"User-agent: *\nDisallow: /caf\xe9", "/caf%E9", False),
        (b"\xff\xfe\x00 Disallow\n\x85:\n", "/", True),
    ],
)
def test_files_as_sites_have_them(file: str | bytes, path: str, allowed: bool) -> None:
    assert allows(file, path) is allowed


def hostile(line: str, size: int = 500 * 1024) -> str:
    return line * (size // len(line))


HOSTILE = {
    "groups": hostile("User-agent: a\nUser-agent: *\n", 250_000)
    + hostile("Disallow: /\n", 250_000),
    "names": "".join(f"User-agent: a{n}\n" for n in range(15_000))
    + hostile("Disallow: /\n", 250_000),
    "rules": for_all(hostile("Disallow: /*a*a*b\n")),
    "stars": for_all("Disallow: /" + hostile("*")),
    "pieces": for_all("Disallow: /" + hostile("*a") + "b"),
    "escapes": for_all("Disallow: /" + hostile("%61")),
    "colons": hostile(":"),
    "empty lines": hostile("\r"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_takes_linear_time(name: str) -> None:
    begin = time.process_time()
    rules = robots_rules(HOSTILE[name].encode(), AGENT)
    may_fetch(rules, f"https://a.example/{'a' * 4000}")
    assert time.process_time() - begin < 3  # tenths of a second; what is quadratic takes minutes
    assert len(rules) < 50_000


def test_a_page_without_path_is_the_root() -> None:
    assert not may_fetch([RobotsRule("/$", is_allowed=False)], "https://a.example")
    assert may_fetch([RobotsRule("/$", is_allowed=False)], "https://a.example/?")

"""Write the pages of the conformance kit: the specification, and the table of implementations.

    python scripts/conformance/pages.py [--check]

``packages/conformance/SPECIFICATION.md`` is made from the rules and the cases. The table in
``docs/understand/conformance.md`` and the lists in ``conformance-results.md`` beside it are made
from ``packages/conformance/results.json``, which ``make conformance`` writes, and from
``packages/conformance/notes.json``, which describes what users see if an implementation fails a
rule. With ``--check`` nothing is written; the exit status
says whether anything would change.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "packages" / "conformance"
DATA = KIT / "gpt_oss_harmony_conformance"
PAGE = ROOT / "docs" / "understand" / "conformance.md"
RESULTS_PAGE = PAGE.with_name("conformance-results.md")
SPECIFICATION = KIT / "SPECIFICATION.md"
RESULTS = KIT / "results.json"
NOTES = KIT / "notes.json"
BEGIN, END = "<!-- begin: results -->", "<!-- end: results -->"

OPENING = """# The rules of the harmony format

Version {version}. [README.md](README.md) describes the files. Each rule is a sentence, and its
cases define it. *Otherwise* says what happens with a program that does not follow the rule.
`scripts/conformance/pages.py` writes this page from `rules.json` and the cases."""

Json = dict[str, Any]


def read_rules() -> Json:
    rules: Json = json.loads((DATA / "rules.json").read_text(encoding="utf-8"))
    return rules


def read_cases() -> dict[str, list[Json]]:
    """The cases by rule."""
    cases: dict[str, list[Json]] = {}
    for path in sorted((DATA / "cases").glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            cases.setdefault(case["rule"], []).append(case)
    return cases


# The specification


def specification() -> str:
    return "\n".join(_specification(read_rules(), read_cases())) + "\n"


def _specification(rules: Json, cases: dict[str, list[Json]]) -> Iterator[str]:
    yield OPENING.format(version=rules["version"])
    for level in rules["levels"]:
        chosen = [rule for rule in rules["rules"] if rule["level"] == level["id"]]
        count = sum(len(cases[rule["id"]]) for rule in chosen)
        yield f"\n## {level['id'].capitalize()}\n"
        yield f"{level['text']} {len(chosen)} rules, {count} cases in"
        file = f"gpt_oss_harmony_conformance/cases/{level['id']}.json"
        yield f"[{level['id']}.json]({file})."
        for rule in chosen:
            yield f"\n### {rule['id']}\n"
            yield rule["text"]
            if "choice" in rule:
                yield f"\n*Choice:* {rule['choice']}"
            yield f"\n*Otherwise:* {rule['effect']} *Since* {rule['since']}.\n"
            for case in cases[rule["id"]]:
                yield f"- `{case['id']}` ({_source(case['source'])}; {case['checked']})"


def _source(source: str) -> str:
    """The source, with a link where it is an issue."""
    repository, hash_sign, number = source.partition("#")
    if hash_sign and "/" in repository and " " not in repository and number.isdigit():
        return f"[{source}](https://github.com/{repository}/issues/{number})"
    return source.replace("<|", "‹|")


# The table of implementations


def pages() -> dict[Path, str]:
    """The text of each page with results, which stand between two comments."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    arguments = (read_rules(), read_cases(), results)
    made = {PAGE: _overview(*arguments), RESULTS_PAGE: _results(*arguments)}
    texts = {}
    for path, lines in made.items():
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        joined = "\n".join(lines)
        texts[path] = f"{before}{BEGIN}\n{joined}\n{END}{after}"
    return texts


def _overview(rules: Json, cases: dict[str, list[Json]], results: Json) -> Iterator[str]:
    """One row for each implementation."""
    levels = [level["id"] for level in rules["levels"]]
    yield f"Version {results['specification']} of the kit, {results['date']}.\n"
    yield _row("Implementation", "Version", "What was tested", *levels)
    yield _row(*["---"] * (3 + len(levels)))
    for one in results["implementations"]:
        cells = [_level_cell(one, level, rules, cases) for level in levels]
        yield _row(one["name"], one["version"], one["asked"], *cells)
    every_case = [case for rule in cases.values() for case in rule]
    behind: dict[str, list[Json]] = {}
    for one in results["implementations"]:
        behind.setdefault(one["specification"], []).append(one)
    for version, ones in behind.items():
        names = ", ".join(one["name"] for one in ones)
        if newer := sum(not _was_run(ones[0], case) for case in every_case):
            yield f"\nRun with version {version}, without the {newer} newer cases: {names}."


def _results(rules: Json, cases: dict[str, list[Json]], results: Json) -> Iterator[str]:
    """What users of each implementation see, then a table for each level, with a row for a rule."""
    implementations = results["implementations"]
    notes = json.loads(NOTES.read_text(encoding="utf-8"))
    listed: list[list[str]] = []
    yield "## By program"
    for one in implementations:
        if one["failed"] not in listed:  # the library in another Python fails the same cases
            yield from _failures(one, rules, cases, notes.get(one["name"], {}))
        listed.append(one["failed"])
    yield "\n## By rule"
    for level in (level["id"] for level in rules["levels"]):
        asked = [one for one in implementations if _level_cell(one, level, rules, cases) != "–"]
        yield f"\n### {level.capitalize()}\n"
        yield _row("Rule", *(one["name"] for one in asked))
        yield _row(*["---"] * (1 + len(asked)))
        for rule in rules["rules"]:
            if rule["level"] == level:
                cells = [_rule_cell(one, rule["id"], cases) for one in asked]
                yield _row(_link(rule["id"]), *cells)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _failures(
    one: Json, rules: Json, cases: dict[str, list[Json]], notes: dict[str, str]
) -> Iterator[str]:
    """What users of an implementation see, with the rules that it fails and a case of each."""
    effects: dict[str, list[str]] = {}
    for rule in rules["rules"]:
        failed = [case["id"] for case in cases[rule["id"]] if case["id"] in one["failed"]]
        if failed:
            more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
            example = f"{_link(rule['id'])} (`{failed[0]}`{more})"
            effects.setdefault(notes.get(rule["id"], rule["effect"]), []).append(example)
    if effects:
        yield f"\n### {one['name']}\n"
    for effect, examples in effects.items():
        yield f"- {effect} {', '.join(examples)}"


def _level_cell(one: Json, level: str, rules: Json, cases: dict[str, list[Json]]) -> str:
    chosen = [case for r in rules["rules"] if r["level"] == level for case in cases[r["id"]]]
    asked = _asked(one, chosen)
    passed = [id for id in asked if id not in one["failed"]]
    return f"{len(passed)} of {len(asked)}" if asked else "–"


def _asked(one: Json, chosen: list[Json]) -> list[str]:
    """The cases that an implementation was run with and supports."""
    ran = (case["id"] for case in chosen if _was_run(one, case))
    return [id for id in ran if id not in one["unsupported"]]


def _was_run(one: Json, case: Json) -> bool:
    """Whether the case is as old as the version that an implementation was run with."""
    return _numbers(case.get("since", "1.0")) <= _numbers(one["specification"])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _rule_cell(one: Json, rule: str, cases: dict[str, list[Json]]) -> str:
    asked = _asked(one, cases[rule])
    failed = [id for id in asked if id in one["failed"]]
    if not asked:
        return "–"
    if not failed:
        return "✓"
    return _link(rule, f"{len(asked) - len(failed)} of {len(asked)}")


def _link(rule: str, text: str = "") -> str:
    return f"[{text or rule}](../../packages/conformance/SPECIFICATION.md#{rule})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the pages of the conformance kit.")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args(arguments).check
    changed = False
    for path, text in {SPECIFICATION: specification(), **pages()}.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            changed = True
            print("would change" if check else "wrote", path.relative_to(ROOT))
            if not check:
                path.write_text(text, encoding="utf-8")
    return int(check and changed)


if __name__ == "__main__":
    sys.exit(main())

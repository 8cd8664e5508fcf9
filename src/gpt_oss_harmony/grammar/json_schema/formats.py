"""The formats of JSON Schema: the name of a format in, the patterns of its texts out.

The names are those of draft 2020-12. By the specification, any other name asserts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import GrammarError


@dataclass(frozen=True)
class TextFormat:
    """The patterns of a format; a text must match all of them."""

    patterns: tuple[str, ...]


_YEAR = r"\d{4}"
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_LONG_MONTHS = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
_SHORT_MONTHS = r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
_FEBRUARY = r"02-(?:0[1-9]|1\d|2[0-8])"
_DATE = (
    rf"(?:{_YEAR}-(?:{_LONG_MONTHS}|{_SHORT_MONTHS}|{_FEBRUARY})|{_LEAP_YEAR}-02-29)"  # RFC 3339
)
# Leap seconds are left out: no pattern can describe when there was one.
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"

_DAYS = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
_HOURS = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DURATION = rf"P(?:\d+W|{_DAYS}(?:{_HOURS})?|{_HOURS})"

# Characters and lengths are two patterns, because one pattern for both would be slow.
_LABEL = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
_HOST_NAME = rf"{_LABEL}(?:\.{_LABEL})*"


def _label_lengths(*counts: tuple[int, int]) -> str:
    """Write names with limits on the number of labels and on the characters of each.

    The engine cannot count the characters of a label and of the whole name at once, so a few shapes
    of names represent all. A label has no "--" after two characters: only Punycode (``xn--``) has
    it there, and no pattern can check Punycode.
    """
    sign = r"[A-Za-z0-9\-]"
    shapes = []
    for labels, most in counts:
        third = rf"(?:-[A-Za-z0-9]{sign}{{0,{most - 4}}}|[A-Za-z0-9]{sign}{{0,{most - 3}}})"
        label = f"{sign}(?:{sign}{third}?)?"
        shapes.append(rf"{label}(?:\.{label}){{0,{labels - 1}}}")
    shapes[0] += rf"(?:\.{sign}(?:{sign}(?:[A-Za-z0-9]{sign}{{0,57}})?)?)?"
    return f"(?:{'|'.join(shapes)})"


_HOST_LENGTHS = _label_lengths((3, 63), (8, 30), (36, 6))  # 252 characters at most
_ATOM_CHARACTERS = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_ATOM = f"[{_ATOM_CHARACTERS}]+"
_EMAIL = rf"{_ATOM}(?:\.{_ATOM})*@{_HOST_NAME}"
_EMAIL_LENGTHS = (
    f"[{_ATOM_CHARACTERS}.]{{1,64}}@{_label_lengths((2, 63), (6, 30), (27, 6))}"  # 253 at most
)

_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_GROUP = r"[0-9A-Fa-f]{1,4}"


def _before(most: int) -> str:
    """Write the groups before ``::``."""
    return rf"(?:{_GROUP}(?::{_GROUP}){{0,{most - 1}}})?" if most else ""


# Eight groups, of which the last two may be an IPv4 address; ``::`` stands for one or more.
_IPV6_FORMS = [
    rf"(?:{_GROUP}:){{7}}{_GROUP}",
    rf"(?:{_GROUP}:){{6}}{_IPV4}",
    f"{_before(7)}::",
    *(rf"{_before(7 - after)}::{_GROUP}(?::{_GROUP}){{{after - 1}}}" for after in range(1, 8)),
    *(rf"{_before(5 - after)}::(?:{_GROUP}:){{{after}}}{_IPV4}" for after in range(6)),
]
_IPV6 = f"(?:{'|'.join(_IPV6_FORMS)})"
_HEXADECIMAL = "[0-9A-Fa-f]"
_UUID = "-".join(f"{_HEXADECIMAL}{{{length}}}" for length in (8, 4, 4, 4, 12))

_SIGNS = "!$&'()*+,;="
_PLAIN = r"A-Za-z0-9._~\-"
_BEYOND_ASCII = (  # ucschar of RFC 3987
    r"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(rf"\u{{{plane:x}0000}}-\u{{{plane:x}fffd}}" for plane in range(1, 14))
    + r"\u{e1000}-\u{efffd}"
)
_PRIVATE = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}"


def _address(plain: str, private: str, relative: bool) -> str:
    """A URI by RFC 3986; with characters beyond ASCII an IRI by RFC 3987."""
    coded = "%[0-9A-Fa-f]{2}"
    letter = rf"(?:[{plain}{_SIGNS}:@]|{coded})"
    no_colon = rf"(?:[{plain}{_SIGNS}@]|{coded})"
    user = rf"(?:[{plain}{_SIGNS}:]|{coded})*@"
    literal = rf"\[(?:{_IPV6}|[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~\-{_SIGNS}:]+)\]"
    host = rf"(?:{literal}|(?:[{plain}{_SIGNS}]|{coded})*)"
    rest = rf"(?:/{letter}*)*"
    authority = rf"//(?:{user})?{host}(?::\d*)?{rest}"
    absolute = rf"/(?:{letter}+{rest})?"
    tail = rf"(?:\?(?:[{plain}{_SIGNS}:@/?{private}]|{coded})*)?"
    tail += rf"(?:#(?:[{plain}{_SIGNS}:@/?]|{coded})*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.\-]*:(?:{authority}|{absolute}|{letter}+{rest}|){tail}"
    if not relative:
        return whole
    return rf"(?:{whole}|(?:{authority}|{absolute}|{no_colon}+{rest}|){tail})"


def _template() -> str:
    """A URI template by RFC 6570."""
    coded = "%[0-9A-Fa-f]{2}"
    literal = r"[!#$&'(-;=?-\[\]_a-z~" + _BEYOND_ASCII + _PRIVATE + "]"
    letter = rf"(?:[A-Za-z0-9_]|{coded})"
    variable = rf"{letter}(?:\.?{letter})*(?::[1-9]\d{{0,3}}|\*)?"
    expression = rf"\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}}"
    return rf"(?:{literal}|{coded}|{expression})*"


_POINTER = r"(?:/(?:[^~/]|~[01])*)*"


def _whole(pattern: str) -> tuple[str]:
    return (f"^{pattern}$",)


FORMATS = {
    "date": TextFormat(_whole(_DATE)),
    "time": TextFormat(_whole(_TIME)),
    "date-time": TextFormat(_whole(f"{_DATE}T{_TIME}")),
    "duration": TextFormat(_whole(_DURATION)),
    "email": TextFormat((*_whole(_EMAIL), *_whole(_EMAIL_LENGTHS))),
    "hostname": TextFormat((*_whole(_HOST_NAME), *_whole(_HOST_LENGTHS))),
    "ipv4": TextFormat(_whole(_IPV4)),
    "ipv6": TextFormat(_whole(_IPV6)),
    "uuid": TextFormat(_whole(_UUID)),
    "uri": TextFormat(_whole(_address(_PLAIN, "", relative=False))),
    "uri-reference": TextFormat(_whole(_address(_PLAIN, "", relative=True))),
    "iri": TextFormat(_whole(_address(_PLAIN + _BEYOND_ASCII, _PRIVATE, relative=False))),
    "iri-reference": TextFormat(_whole(_address(_PLAIN + _BEYOND_ASCII, _PRIVATE, relative=True))),
    "uri-template": TextFormat(_whole(_template())),
    "json-pointer": TextFormat(_whole(_POINTER)),
    "relative-json-pointer": TextFormat(_whole(rf"(?:0|[1-9]\d*)(?:#|{_POINTER})")),
}
"""The formats that are enforced."""

ENGINE_PATTERNS = {
    pattern: pattern.replace(r"\d", "[0-9]")
    for text_format in FORMATS.values()
    for pattern in text_format.patterns
    if "[^" not in pattern  # such a class may have characters that the grammar does not allow
}
"""What `rust_pattern` writes for these patterns, as the engine reads them: reading them as trees
takes up to 20 ms."""

NARROW_PATTERNS = frozenset(
    pattern
    for name in ("time", "date-time", "email", "hostname")
    for pattern in FORMATS[name].patterns
)
"""Patterns that leave out some valid texts of their format."""

JOINT_PATTERNS = frozenset(
    frozenset(format.patterns) for format in FORMATS.values() if len(format.patterns) > 1
)
"""The two patterns of some formats; each pair accepts the texts of its format."""

REFUSED_FORMATS = frozenset({"idn-email", "idn-hostname", "regex"})
"""The formats of the specification that are not enforced."""


def find_format(name: str, pointer: str) -> TextFormat | None:
    """Return the patterns of a format; None for a name that the specification does not define.

    >>> find_format("int32", "#/format")
    >>> find_format("uuid", "#/format").patterns[0][:22]
    '^[0-9A-Fa-f]{8}-[0-9A-'
    """
    if name in REFUSED_FORMATS:
        raise GrammarError(
            f"no regular expression can describe the format {name}",
            remedy="leave it out and check it afterwards, or write a pattern",
            pointer=pointer,
        )
    return FORMATS.get(name)

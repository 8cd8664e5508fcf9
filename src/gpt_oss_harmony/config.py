"""The options of rendering, and the class of models that people make by keywords."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel

from .errors import did_you_mean, wrong_type

__all__ = [
    "HeaderStyle",
    "ReasoningRule",
    "RenderConversationConfig",
    "RenderOptions",
    "SchemaDialect",
]

HeaderStyle: TypeAlias = Literal["reference", "guide", "oss-harmony"]
"""The spelling of a message header with a recipient.

- ``reference``: ``assistant to=functions.f<|channel|>commentary json``, as openai-harmony 0.0.8
- ``guide``: ``assistant<|channel|>commentary to=functions.f <|constrain|>json``
- ``oss-harmony``: the spelling of the fork
"""

SchemaDialect: TypeAlias = Literal["typescript", "reference"]
"""How a JSON Schema becomes a TypeScript type.

``typescript`` writes correct TypeScript; ``reference`` writes the bytes of openai-harmony 0.0.8.
"""

ReasoningRule: TypeAlias = Literal["reference", "by-turn"]
"""Which past reasoning a prompt leaves out.

- ``reference``: if the assistant's last message is on ``final``, all ``analysis`` messages before
  the first ``final`` message
- ``by-turn``: the reasoning of every turn that ended in an answer; the server and the training
  data use this rule
"""


class CheckedModel(BaseModel):
    """A model whose constructor names a misspelt keyword; pydantic would ignore it.

    A keyword that is like a field's name raises `TypeError`. Another one gives a warning: programs
    for openai-harmony, which ignores it, pass more than they need, such as the ``strict`` of a
    tool. JSON is read by `model_validate`, which ignores unknown fields as before.
    """

    _keywords: ClassVar[frozenset[str]] = frozenset()
    _also_taken: ClassVar[tuple[str, ...]] = ()
    """Keywords without a field, which are ignored in silence."""
    _takes_others: ClassVar[bool] = True
    _remedies: ClassVar[Mapping[str, str]] = {}
    """What to write instead of a keyword that people try."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls._keywords = frozenset((*cls.model_fields, *cls._also_taken))

    def __init__(self, /, **data: Any) -> None:
        __tracebackhide__ = True
        if not self._keywords.issuperset(data) and "extra" not in self.model_config:
            self._check_keywords(data)
        # As in pydantic's own, which a call by super() would make slower: histories are long.
        self.__pydantic_validator__.validate_python(data, self_instance=self)

    # Without this mark, pydantic would call it to read JSON, too.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def _check_keywords(self, data: Mapping[str, Any]) -> None:
        for name in [name for name in data if name not in self._keywords]:
            remedy = self._remedies.get(name)
            if remedy is None:
                remedy = did_you_mean(name, sorted(self._keywords), likeness=0.8)
            problem = f"{type(self).__name__}() has no argument {name!r}"
            if remedy or not self._takes_others:
                known = f"it has {', '.join(sorted(self._keywords))}"
                raise TypeError(f"{problem}; {remedy or known}")
            warnings.warn(f"{problem}, and ignores it", stacklevel=3)


def require_list(name: str, values: object, expected: str, remedy: str) -> None:
    """Raise `wrong_type` for one value, or a mapping, where a list of values is expected."""
    if isinstance(values, (str, bytes, Mapping, BaseModel)) or not isinstance(values, Iterable):
        raise wrong_type(name, expected, values, remedy)


class RenderConversationConfig(CheckedModel):
    """Options for rendering a conversation.

    If `auto_drop_analysis` is true, past reasoning is left out by the `reasoning_rule`.
    `schema_dialect` and `header_style` choose how tools and headers are spelled.
    """

    _takes_others = False

    auto_drop_analysis: bool = True
    reasoning_rule: ReasoningRule = "reference"
    schema_dialect: SchemaDialect = "typescript"
    header_style: HeaderStyle = "reference"


class RenderOptions(CheckedModel):
    """Options for rendering one message.

    If `conversation_has_function_tools` is true, a system message states the channel of function
    calls. `schema_dialect` and `header_style` choose how tools and headers are spelled.
    """

    _takes_others = False

    conversation_has_function_tools: bool = False
    schema_dialect: SchemaDialect = "typescript"
    header_style: HeaderStyle = "reference"

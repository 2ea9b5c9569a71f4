"""The chat template that a model carries. The only file that knows jinja2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from memdb import settings
from memdb.errors import InputError, ModelDamaged

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

MARK = "\ue000{}\ue001"  # stands for a turn's text while the template is rendered; private use characters
MARKED = re.compile("\ue000(\\d+)\ue001")
SEQUENCES = (str, bytes, list, tuple)
WIDENING = {
    "center",
    "expandtabs",
    "ljust",
    "rjust",
    "zfill",
}  # methods that make a text as long as they like
WIDE = re.compile(r"\*|\d{4}")  # in a format: a width from outside, or one in the thousands
MOST_BITS = 1024  # of a whole number
SAID_CHARS = 200  # of the words of an error that are repeated

# What a template raises for turns it does not take, by intention or not, and what has to do with no turns.
REFUSALS = (ArithmeticError, LookupError, TypeError, ValueError)
FAULTS = (AssertionError, AttributeError, MemoryError, NameError, RecursionError, RuntimeError, SyntaxError)


class ChatTemplate:
    """The chat template of a model, a Jinja program of its author's: it runs in a sandbox, without a clock.

    What it may make is bounded where that can be seen beforehand: products, powers, formats and the text as
    a whole. Loops within loops may still take very long, and texts doubled in them much memory: take models
    from those you trust.

    Models that can think first are told not to. Raises ModelDamaged for what is no template.
    """

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        from jinja2 import TemplateError

        if len(source) > settings.TEMPLATE_CHARS:
            raise ModelDamaged(
                f"the model's chat template has more than {settings.TEMPLATE_CHARS} characters"
            )
        self._tokens = {"bos_token": bos, "eos_token": eos}
        try:
            self._program = _environment().from_string(source)
        except (TemplateError, *FAULTS, *REFUSALS) as error:
            raise ModelDamaged(f"the model's chat template cannot be read: {_said(error)}") from error

    def parts(self, roles: Sequence[str]) -> list[str]:
        """What the template puts before the text of each turn, and after the last: len(roles) + 1 texts.

        Where it knows no system turn, that one's text opens the user's turn that follows.
        Raises InputError for turns it does not take, ModelDamaged where no turns would help.
        """
        marks = [MARK.format(number) for number in range(len(roles))]
        messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
        parts, reason = self._render(messages)
        if parts is None and roles[:2] == ["system", "user"]:
            joined = {"role": "user", "content": f"{marks[0]}\n\n{marks[1]}"}
            parts, reason = self._render([joined, *messages[2:]])
        if parts is None:
            raise InputError(f"the model's chat template does not take these turns: {reason}")
        return parts

    def _render(self, messages: list[dict[str, str]]) -> tuple[list[str] | None, str]:
        """The text between the marks, or None and why the template does not give each mark once, in order."""
        from jinja2 import TemplateError

        options = {"add_generation_prompt": True, "enable_thinking": False, **self._tokens}
        try:
            text = _bounded(self._program.generate(messages=messages, **options))
        except (TemplateError, *REFUSALS) as error:
            return None, f"{error}"
        except FAULTS as error:
            raise ModelDamaged(f"the model's chat template cannot be run: {_said(error)}") from error
        expected = [number for message in messages for number in MARKED.findall(message["content"])]
        split = MARKED.split(text)
        if split[1::2] != expected:
            return None, "it leaves out a turn, or writes one twice"
        return split[::2], ""


def _environment() -> SandboxedEnvironment:
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(["+", "*", "**", "%"])

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return attr not in WIDENING and super().is_safe_attribute(obj, attr, value)

    environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _refuse
    for name in ("lipsum", "cycler", "joiner"):  # no chat template has a use for them
        del environment.globals[name]
    del environment.filters["center"]
    environment.binop_table |= {"+": _plus, "*": _times, "**": _power, "%": _modulo}
    return environment


def _bounded(pieces: Iterable[str]) -> str:
    kept, total = list[str](), 0
    for piece in pieces:
        total += len(piece)
        _require(total <= settings.TEMPLATE_OUTPUT_CHARS)
        kept.append(piece)
    return "".join(kept)


def _plus(left: Any, right: Any) -> Any:
    if isinstance(left, SEQUENCES) and isinstance(right, SEQUENCES):
        _require(len(left) + len(right) <= settings.TEMPLATE_OUTPUT_CHARS)
    return left + right


def _times(left: Any, right: Any) -> Any:
    for some, times in ((left, right), (right, left)):
        if isinstance(some, SEQUENCES) and isinstance(times, int):
            _require(len(some) * times <= settings.TEMPLATE_OUTPUT_CHARS)
    if isinstance(left, int) and isinstance(right, int):
        _require(left.bit_length() + right.bit_length() <= MOST_BITS)
    return left * right


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _require(left.bit_length() * right <= MOST_BITS)
    return left**right


def _modulo(left: Any, right: Any) -> Any:
    if isinstance(left, str | bytes):
        _require(not WIDE.search(left if isinstance(left, str) else left.decode("latin-1")))
    return left % right


def _require(fits: bool) -> None:
    if not fits:
        raise ModelDamaged("the model's chat template makes too much of its turns")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__} {error}"[:SAID_CHARS]


def _refuse(reason: str) -> NoReturn:
    """What templates call for turns they do not take."""
    raise ValueError(reason)

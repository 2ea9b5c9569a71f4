"""The chat template that a model carries. The only file that knows jinja2."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NoReturn

from memdb.errors import InputError, ModelDamaged

MARK = "\ue000{}\ue001"  # stands for a turn's text while the template is rendered; private use characters
MARKED = re.compile("\ue000(\\d+)\ue001")


class ChatTemplate:
    """The chat template of a model, a Jinja program of its author's: it runs in a sandbox, without a clock.

    Models that can think first are told not to. Raises ModelDamaged for what is no template.
    """

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        from jinja2 import TemplateError
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
        environment.globals["raise_exception"] = _refuse
        self._tokens = {"bos_token": bos, "eos_token": eos}
        try:
            self._program = environment.from_string(source)
        except TemplateError as error:
            raise ModelDamaged(f"the model's chat template cannot be read: {error}") from error

    def parts(self, roles: Sequence[str]) -> list[str]:
        """What the template puts before the text of each turn, and after the last: len(roles) + 1 texts.

        Where it knows no system turn, that one's text opens the user's turn that follows.
        Raises InputError for turns it does not take.
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
            text = self._program.render(messages=messages, **options)
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, OverflowError) as error:
            return None, f"{error}"
        expected = [number for message in messages for number in MARKED.findall(message["content"])]
        split = MARKED.split(text)
        if split[1::2] != expected:
            return None, "it leaves out a turn, or writes one twice"
        return split[::2], ""


def _refuse(reason: str) -> NoReturn:
    """What templates call for turns they do not take."""
    raise ValueError(reason)

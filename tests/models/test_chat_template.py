"""Chat templates as models carry them: where the turns' texts go, and what a template may not do."""

from __future__ import annotations

import pytest

from memdb import settings
from memdb.errors import InputError, ModelDamaged
from memdb.models.chat_template import ChatTemplate

pytest.importorskip("jinja2", reason="jinja2 is not installed")

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
ALTERNATING = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
{{- raise_exception('no system here') }}{% endif %}{% for m in messages %}
{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('turns must alternate') }}{% endif %}
{%- if m['role'] == 'user' %}[INST] {{ m['content'] | trim }} [/INST]
{%- else %} {{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"""


def test_texts_stand_between_the_parts() -> None:
    parts = ChatTemplate(CHATML).parts(["system", "user", "assistant", "user"])
    assert parts == [
        "<|im_start|>system\n",
        "<|im_end|>\n<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n",
        "<|im_end|>\n<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n",
    ]


def test_more_than_ten_turns_keep_their_order() -> None:
    roles = ["user", "assistant"] * 7 + ["user"]
    parts = ChatTemplate(CHATML).parts(roles)
    assert len(parts) == 16
    assert all(role in part for role, part in zip(roles, parts, strict=False))


def test_a_template_without_system_turns_gets_them_with_the_users() -> None:
    parts = ChatTemplate(ALTERNATING, bos="<s>", eos="</s>").parts(["system", "user", "assistant", "user"])
    assert parts == ["<s>[INST] ", "\n\n", " [/INST] ", "</s>[INST] ", " [/INST]"]


def test_a_template_that_drops_system_turns_gets_them_with_the_users() -> None:
    users = "{% for m in messages if m.role != 'system' %}<{{ m.content }}>{% endfor %}"
    assert ChatTemplate(users).parts(["system", "user"]) == ["<", "\n\n", ">"]


@pytest.mark.parametrize(
    ("source", "roles"),
    [
        (ALTERNATING, ["user", "user"]),
        (ALTERNATING, ["system", "system", "user"]),
        ("{{ messages[-1].content }}", ["user", "assistant", "user"]),
        ("{{ messages[0].content }}{{ messages[0].content }}", ["user"]),
        ("{{ messages[1].content }}{{ messages[0].content }}", ["assistant", "user"]),
        ("nothing", ["user"]),
        ("{{ messages[0].content | upper | length }}", ["user"]),
        ("{{ 1 / 0 }}", ["user"]),
        ("{{ messages + 1 }}", ["user"]),
        ("{{ nobody.content }}", ["user"]),
    ],
)
def test_turns_a_template_does_not_take_are_refused(source: str, roles: list[str]) -> None:
    with pytest.raises(InputError, match="chat template does not take"):
        ChatTemplate(source).parts(roles)


def test_the_reason_a_template_gives_is_told() -> None:
    with pytest.raises(InputError, match="turns must alternate"):
        ChatTemplate(ALTERNATING).parts(["user", "user"])


@pytest.mark.parametrize("source", ["{% for %}", "{{", "{% unknown %}"])
def test_what_is_no_template_is_damage(source: str) -> None:
    with pytest.raises(ModelDamaged, match="chat template"):
        ChatTemplate(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ messages[0].content }}",
        "{{ messages.append(1) }}{{ messages[0].content }}",
        "{{ range(10 ** 9) | list | length }}{{ messages[0].content }}",
    ],
)
def test_a_template_reaches_nothing_outside(source: str) -> None:
    with pytest.raises(InputError):
        ChatTemplate(source).parts(["user"])


def test_a_template_knows_no_day_and_tells_models_not_to_think() -> None:
    """The same turns have to give the same prompt tomorrow."""
    source = (
        "{% if strftime_now is defined %}{{ strftime_now('%d') }}{% else %}no day{% endif %}"
        "{% if enable_thinking is defined and enable_thinking is false %}, no thinking{% endif %}: "
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% endfor %}"
        "{{ messages[0].content }}"
    )
    assert ChatTemplate(source).parts(["user"]) == ["no day, no thinking: ", ""]


def test_json_is_written_as_templates_expect() -> None:
    source = "{{ {'a': 'ü<'} | tojson }}{{ messages[0].content }}"
    assert ChatTemplate(source).parts(["user"])[0] == '{"a": "ü<"}'


def test_a_template_or_its_text_may_only_be_so_long() -> None:
    longest = settings.TEMPLATE_CHARS - len(CHATML)
    assert ChatTemplate(CHATML + " " * longest).parts(["user"])
    with pytest.raises(ModelDamaged, match="more than 65536 characters"):
        ChatTemplate(CHATML + " " * (longest + 1))
    loop = "{% for a in range(90) %}{% for b in range(99999) %}{{ 'x' }}{% endfor %}{% endfor %}"
    with pytest.raises(ModelDamaged, match="chat template makes too much"):
        ChatTemplate(loop).parts(["user"])


@pytest.mark.parametrize(
    "expression",
    [
        "'a' * 10 ** 10",
        "10 ** 10 * 'a'",
        "([1] * 10 ** 10) | length",
        "9 ** (9 ** 9)",
        "2 ** 1000 * 2 ** 1000",
        "'%99999999999d' % 1",
        "'%*d' % (99999999999, 1)",
        "('a' * 4194304) + 'a'",
    ],
)
def test_no_single_step_of_a_template_fills_the_memory(expression: str) -> None:
    template = ChatTemplate("{{ " + expression + " }}{{ messages[0].content }}")
    with pytest.raises(ModelDamaged, match="chat template makes too much"):
        template.parts(["user"])


@pytest.mark.parametrize(
    "call", ["'a'.ljust(10 ** 10)", "'a'.zfill(10 ** 10)", "lipsum()", "joiner()", "cycler(1)"]
)
def test_what_widens_texts_is_out_of_a_templates_reach(call: str) -> None:
    with pytest.raises(InputError):
        ChatTemplate("{{ " + call + " }}{{ messages[0].content }}").parts(["user"])


def test_small_sums_and_formats_are_a_templates_own() -> None:
    source = (
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
        "{{ '-' * 3 }}{{ 2 ** 10 * 2 }}{{ '%03d' % 7 }}{{ 7 % 4 }}{{ ([1] + [2]) | length }}{{ ns.n }}"
        "{{ messages[0].content }}"
    )
    assert ChatTemplate(source).parts(["user"]) == ["---2048007321", ""]


def test_a_template_nested_too_deep_is_damage() -> None:
    with pytest.raises(ModelDamaged, match=r"chat template cannot be read: \w+Error"):
        ChatTemplate("{{ " + "(" * 30_000 + "1" + ")" * 30_000 + " }}")


@pytest.mark.parametrize(
    "source",
    [
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for a in messages recursive %}{{ loop([a]) }}{% endfor %}",
    ],
)
def test_a_template_that_never_ends_is_damage(source: str) -> None:
    with pytest.raises(ModelDamaged, match="chat template cannot be run: RecursionError"):
        ChatTemplate(source).parts(["user"])


@pytest.mark.parametrize(
    "fault", [MemoryError(), RecursionError(), AttributeError("x"), AssertionError(), NameError()]
)
def test_whatever_goes_wrong_in_a_template_is_ours(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    import jinja2

    def broken(*args: object, **options: object) -> object:
        raise fault

    template = ChatTemplate(CHATML)
    monkeypatch.setattr(jinja2.Template, "generate", broken)
    with pytest.raises(ModelDamaged, match=type(fault).__name__):
        template.parts(["user"])
    monkeypatch.setattr(jinja2.Environment, "from_string", broken)
    with pytest.raises(ModelDamaged, match=type(fault).__name__):
        ChatTemplate(CHATML)

"""Anchors: actions that earn every reward, by rules and by a teacher."""

from __future__ import annotations

import json

import pytest

from memdb.errors import InputError
from memdb.generate.action import parse_action
from memdb.models.fakes import ScriptedBackbone
from memdb.records import History, Message, Query, Segment, Utterance
from memdb.settings import MAX_INFO_CHARS
from memdb.train import talks
from memdb.train.anchors import anchor, by_rules, teacher_anchor
from memdb.train.instances import Instance
from memdb.train.rewards import FULL, RuleJudge, rewards
from memdb.train.talks import Question, Talk
from tests.train.instances import BOTH, CANOE_INSTANCE, KEEPS, NOBODY_KNOWS, FixedJudge, asked, written

TWICE = "Asked «Have you ever fallen into the river?», Ana said: Yes, twice."


def test_the_gold_messages_told_by_rules() -> None:
    text = anchor(BOTH)
    assert text == (
        '{"useful_msg": [{"msg_id": "m2"}, {"msg_id": "m4"}], "distilled_info": '
        f'[{{"msg_id": "m2", "info": "{KEEPS}"}}, {{"msg_id": "m4", "info": "{TWICE}"}}]}}'
    )
    assert sum(rewards(text, BOTH, RuleJudge())) == FULL


def test_where_nothing_answers_both_lists_are_empty() -> None:
    assert anchor(NOBODY_KNOWS) == '{"useful_msg": [], "distilled_info": []}'


def test_gold_in_another_order_is_told_in_the_order_of_time() -> None:
    turned = Instance(
        case="", history=BOTH.history, question_time=None, gold=("m4", "m2"), answer=BOTH.answer
    )
    assert anchor(turned) == anchor(BOTH)


@pytest.mark.parametrize(
    "judge", [FixedJudge([True, False]), FixedJudge(correct=False), FixedJudge(correct=False, failed=True)]
)
def test_what_does_not_earn_every_reward_is_no_anchor(judge: FixedJudge) -> None:
    assert anchor(BOTH, judge) is None
    assert anchor(BOTH, FixedJudge()) is not None


def test_a_message_without_a_word_has_no_anchor() -> None:
    assert anchor(asked("What?", "nothing", ("Ana", "🙂")), FixedJudge()) is None


def test_an_anchor_keeps_to_what_the_schema_allows() -> None:
    picture = "a photo of " + "a very long boat " * 20
    said = Message("Ana", "I row. " * 30 + "My boat is called Tern.", image_caption=picture)
    instance = asked("What is Ana's boat called?", "Tern", said)
    ((_, info),) = by_rules(instance).evidence
    assert len(info) <= MAX_INFO_CHARS
    assert "Tern" in info
    assert anchor(instance) is not None


# --- A teacher


def test_a_teacher_is_shown_what_helps_and_its_action_is_put_in_order() -> None:
    told = [("m4", "Ana fell into the river twice."), ("m2", KEEPS)]
    backbone = ScriptedBackbone([written(["m4", "m2"], *told)])
    text = teacher_anchor(BOTH, backbone, RuleJudge())
    assert text == written(["m2", "m4"], *reversed(told))
    (call,) = backbone.calls
    assert "m2, m4" in call.turns[1].text
    assert BOTH.answer in call.turns[1].text
    assert call.turns[1].text.index("[QUESTION]") < call.turns[1].text.index("[RIGHT ANSWER]")
    assert call.schema is not None
    assert '"m5"' not in json.dumps(call.schema)


@pytest.mark.parametrize(
    "reply",
    [
        "no JSON",
        written(["m2"], ("m2", KEEPS)),
        written(["m2", "m4"], ("m2", KEEPS), ("m4", "Ana fell into the lake twice.")),
        written(["m2", "m4"], ("m2", KEEPS), ("m4", "I fell into the river twice.")),
        written(["m2", "m4", "m5"], ("m2", KEEPS), ("m4", "Ana fell twice."), ("m5", "Ben's sister bakes.")),
        written(["m2", "m4"], ("m2", KEEPS), ("m4", "Ana fell twice. " * 30)),
    ],
)
def test_a_teacher_has_to_earn_every_reward(reply: str) -> None:
    assert teacher_anchor(BOTH, ScriptedBackbone([reply]), RuleJudge()) is None


def test_a_teacher_judges_itself_where_nobody_else_does() -> None:
    replies = [
        written(["m2"], ("m2", KEEPS)),
        '{"results": [{"msg_id": "m2", "verdict": "PASS", "fail_types": [], "reason_in_a_sentence": ""}]}',
        '{"reasoning_path": "MU1", "answer": "behind the boathouse"}',
        '{"generated_answer_is_correct_or_wrong": "CORRECT", "the_information_is_failure_source": "NO",'
        ' "the_llm_is_failure_source": "NO", "reason_in_a_sentence": ""}',
    ]
    backbone = ScriptedBackbone(replies)
    assert teacher_anchor(CANOE_INSTANCE, backbone) == replies[0]
    assert len(backbone.calls) == 4


def test_a_teacher_is_not_asked_where_nothing_answers() -> None:
    assert teacher_anchor(NOBODY_KNOWS, ScriptedBackbone([])) == written([])


def test_a_teacher_without_room_says_so() -> None:
    with pytest.raises(InputError, match="room"):
        teacher_anchor(BOTH, ScriptedBackbone(context_tokens=256))


# --- The talks written for training


def instance_of(talk: Talk, question: Question) -> Instance:
    """The whole sessions that the gold messages are in, each as one segment."""
    segments = [
        Segment(
            utterances=tuple(
                Utterance(message=message, session=sitting.name, position=place)
                for place, message in enumerate(sitting.messages)
            )
        )
        for sitting in talk.sittings
        if {message.id for message in sitting.messages} & {*question.evidence, *question.near}
    ]
    history = History(query=Query(text=question.text), segments=tuple(segments))
    gold = [
        f"m{number}"
        for number, one in enumerate(history.utterances, 1)
        if one.message.id in question.evidence
    ]
    return Instance(
        case=talk.name,
        history=history,
        question_time=talk.asked_at,
        gold=tuple(gold),
        answer=question.answer if gold else "",
    )


def test_most_questions_of_a_talk_have_an_anchor_by_rules() -> None:
    (talk,) = (one for one in talks.own() if one.name == "glacier")
    judge = RuleJudge()
    texts = {asked: anchor(instance_of(talk, asked), judge) for asked in talk.questions}
    share = sum(text is not None for text in texts.values()) / len(texts)
    assert share > 0.75  # 0.86 over the talks that are trained on
    assert all(text for asked, text in texts.items() if asked.kind == "unanswerable")
    assert all(parse_action(text) is not None for text in texts.values() if text)

"""The rules that answers obey, and the points they are worth."""

import pytest

from regsvc.core.errors import InvalidAnswer
from regsvc.core.i18n import negotiate_language
from regsvc.registration.questionnaire.questions import (
    EMPTY_TEXT,
    Answer,
    ChoiceQuestion,
    Evaluation,
    Option,
    Question,
    Questionnaire,
    ScoredAnswer,
    TextQuestion,
    TranslatedText,
)


def words(text: str = "?") -> TranslatedText:
    return TranslatedText({"": text})


def choice(*scores: int, number: int = 1, single: bool = False, required: bool = True, **bounds: int) -> ChoiceQuestion:
    return ChoiceQuestion(
        id=number,
        text=words(),
        is_required=required,
        options=tuple(Option(words(str(score)), score) for score in scores),
        is_single=single,
        min_selections=bounds.get("at_least", 1),
        max_selections=1 if single else bounds.get("at_most", len(scores)),
    )


def text(number: int = 1, *, required: bool = True, max_score: int = 0, **more: int) -> TextQuestion:
    return TextQuestion(
        id=number,
        text=words(),
        is_required=required,
        min_length=more.get("at_least", 0),
        max_length=more.get("at_most", 1000),
        is_multiline=bool(more.get("multiline")),
        placeholder=EMPTY_TEXT,
        max_score=max_score,
        scoring_rule="",
    )


def chosen(*ids: int, **more: str) -> Answer:
    return Answer(selected_option_ids=ids, **more)


def evaluate(answers: dict[str, Answer], *questions: Question, pass_score: int = 0) -> Evaluation:
    return Questionnaire(questions, pass_score).evaluate(answers)


# --- what is refused ---


@pytest.mark.parametrize(
    ("question", "answer", "fault", "facts"),
    [
        (choice(1, 2, single=True), Answer(), "required", {}),
        (choice(1, 2), Answer(), "required", {}),
        (text(), Answer(), "required", {}),
        (text(), Answer(text=" \n\u3000"), "required", {}),
        (choice(1, 2, single=True), chosen(0, type="multiple_choice"), "wrong_type", {}),
        (choice(1, 2), chosen(0, type="single_choice"), "wrong_type", {}),
        (choice(1, 2), chosen(0, type="essay"), "wrong_type", {}),
        (choice(1, 2), Answer(text="the first"), "wrong_type", {}),
        (text(), chosen(0), "wrong_type", {}),
        (text(), Answer(type="single_choice", text="Hi"), "wrong_type", {}),
        (choice(1, 2), chosen(2), "unknown_option", {}),
        (choice(1, 2), chosen(0, -1), "unknown_option", {}),
        (choice(1, 2), chosen(0, 0), "repeated_option", {}),
        (choice(1, 2, single=True), chosen(0, 1), "too_many_options", {"maxSelections": 1}),
        (choice(1, 2, 3, at_least=2), chosen(0), "too_few_options", {"minSelections": 2}),
        (choice(1, 2, 3, at_most=2), chosen(0, 1, 2), "too_many_options", {"maxSelections": 2}),
        (choice(1, 2, 3, at_least=2, required=False), chosen(0), "too_few_options", {"minSelections": 2}),
        (text(at_least=3), Answer(text="  Hi  "), "too_short", {"minLength": 3}),
        (text(at_most=3), Answer(text="Long"), "too_long", {"maxLength": 3}),
        (text(required=False, at_least=3), Answer(text="Hi"), "too_short", {"minLength": 3}),
    ],
)
def test_it_refuses_an_answer_that_breaks_a_rule(
    question: Question, answer: Answer, fault: str, facts: dict[str, int]
) -> None:
    with pytest.raises(InvalidAnswer) as refused:
        evaluate({"1": answer}, question)
    assert refused.value.facts == {"fault": fault, "questionId": 1, **facts}
    assert refused.value.field == "answers"


def test_it_refuses_an_answer_to_a_question_that_is_not_asked() -> None:
    with pytest.raises(InvalidAnswer) as refused:
        evaluate({"1": chosen(0), "2": chosen(0)}, choice(1, 2))
    assert refused.value.facts == {"fault": "unknown_question", "questionId": 2}


def test_the_first_fault_in_the_order_of_the_questions_is_told() -> None:
    with pytest.raises(InvalidAnswer) as refused:
        evaluate({"4": chosen(9), "7": Answer()}, choice(1, 2, number=7), choice(1, 2, number=4))
    assert refused.value.facts["questionId"] == 7


# --- what passes ---


def test_what_may_be_left_out_may_be_left_out() -> None:
    questions = (choice(5, 6, required=False), text(2, required=False, at_least=10, max_score=10))
    evaluation = evaluate({"2": Answer(type="text", text=" ")}, *questions)
    assert (evaluation.score, evaluation.unread) == (0, ())


def test_a_length_is_counted_in_characters_without_the_white_space_around() -> None:
    evaluate({"1": Answer(text="\n 你好吗 \r\n")}, text(at_least=3, at_most=3))


def test_a_text_of_one_line_is_kept_as_one_line() -> None:
    assert evaluate({"1": Answer(text="one\r\ntwo\u2028three")}, text()).answers[0].text == "one two three"
    assert evaluate({"1": Answer(text="one\r\n two")}, text(multiline=True)).answers[0].text == "one\n two"


# --- points ---


def test_points_are_added_up() -> None:
    evaluation = evaluate(
        {"1": chosen(2), "2": chosen(1, 0)}, choice(0, 10, 30, single=True), choice(5, 7, -9, number=2)
    )
    assert (evaluation.score, evaluation.max_score) == (42, 42)


def test_a_wrong_choice_costs_points_but_nobody_ends_below_nothing() -> None:
    questions = (choice(30, -10, single=True), choice(-100, 50, number=2))
    assert evaluate({"1": chosen(1), "2": chosen(1)}, *questions).score == 40
    assert evaluate({"1": chosen(0), "2": chosen(0)}, *questions).score == 0


@pytest.mark.parametrize(
    ("question", "most"),
    [
        (choice(3, 9, -2, single=True), 9),
        (choice(3, 9, -2), 12),
        (choice(3, 9, -2, at_least=3), 10),
        (choice(3, 9, 4, at_most=2), 13),
        (choice(-3, -2, single=True), -2),
        (choice(-3, -2, single=True, required=False), 0),
        (choice(-3, -2, at_least=2), -5),
        (text(max_score=40), 40),
    ],
)
def test_the_most_that_a_question_brings(question: Question, most: int) -> None:
    assert question.max_points == most


def test_nobody_ends_below_nothing_even_where_nothing_can_be_had() -> None:
    assert evaluate({"1": chosen(0)}, choice(-3, -4)).max_score == 0


def test_the_pass_score_itself_passes() -> None:
    questions = (choice(60, 59, 61, single=True),)
    verdicts = [evaluate({"1": chosen(place)}, *questions, pass_score=60).is_passed for place in range(3)]
    assert verdicts == [True, False, True]


# --- answers that an admin has to read ---


def test_an_unread_text_passes_as_long_as_it_could_still_bring_what_is_missing() -> None:
    questions = (choice(60, 20, 19, single=True), text(2, max_score=40))
    by_choice = [
        evaluate({"1": chosen(place), "2": Answer(text="Hi")}, *questions, pass_score=60) for place in range(3)
    ]
    assert [evaluation.is_passed for evaluation in by_choice] == [True, True, False]
    assert [evaluation.requires_review for evaluation in by_choice] == [True, True, False]
    assert [evaluation.score for evaluation in by_choice] == [60, 20, 19]


def test_a_text_without_points_is_read_as_well() -> None:
    evaluation = evaluate({"1": chosen(0), "2": Answer(text="Hi")}, choice(60, 0), text(2), pass_score=60)
    assert (evaluation.is_passed, evaluation.requires_review) == (True, True)


def test_a_text_that_was_scored_needs_nobody() -> None:
    question = text(2, max_score=40)
    evaluation = evaluate({"1": chosen(0), "2": Answer(text="Hi")}, choice(30, 0), question, pass_score=60)
    good = evaluation.with_points({2: ScoredAnswer(question, text="Hi", points=30)})
    assert (good.score, good.is_passed, good.requires_review) == (60, True, False)
    bad = evaluation.with_points({2: ScoredAnswer(question, text="Hi", points=29)})
    assert (bad.score, bad.is_passed, bad.requires_review) == (59, False, False)


# --- languages ---


def test_a_text_is_told_in_the_language_asked_for_or_the_nearest_to_it() -> None:
    written = TranslatedText({"de": "Hallo", "en": "Hello", "zh": "你好"})
    assert [written.in_language(tag) for tag in ("de", "zh-CN", "fr")] == ["Hallo", "你好", "Hello"]
    assert TranslatedText({"de": "Hallo", "zh": "你好"}).in_language("fr") == "Hallo"
    assert TranslatedText({"": "Hello"}).in_language("fr") == "Hello"


def test_a_host_may_ask_in_languages_of_his_own() -> None:
    question = choice(1, 2)
    asked = Questionnaire(
        (ChoiceQuestion(**{**vars(question), "text": TranslatedText({"de": "Hallo", "zh": "你好"})}),), 0
    )
    assert negotiate_language(asked.languages, "de-AT", None, "en") == "de"
    assert negotiate_language(asked.languages, None, "fr, zh;q=0.5", "de") == "zh"
    assert negotiate_language(asked.languages, None, "fr", "de") == "de"

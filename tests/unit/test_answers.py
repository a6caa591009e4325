"""Answers: one frozen object a step, made from its questions; what is not answered yet says so by its key."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest
from sample_answers import TUTORIAL, answers

from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.core.answers import NotAnswered, fields_read
from grpo_wizard.steps.core.tutorial_differences import DIFFERENCES
from grpo_wizard.steps.quotas.answers import QuotasAnswers
from grpo_wizard.steps.registry import STEPS, validate, validate_partial


def test_the_answers_have_one_attribute_a_step_in_the_wizards_order() -> None:
    assert [field.name for field in fields(Answers)] == [step.name for step in STEPS]
    assert all(type(answers().of(step.name)) is step.answers for step in STEPS)


def test_every_question_that_is_no_secret_is_answered_once_validated() -> None:
    for step in STEPS:
        wanted = [field.name for field in step.fields if field.kind != "secret"]
        assert list(answers().of(step.name).to_values()) == wanted


def test_values_survive_the_state_files_form() -> None:
    values = answers().to_values()
    assert Answers.from_values(values) == answers()
    assert validate(values) == answers() != answers(quotas__gpu_nodes=3)


def test_answers_cannot_be_changed() -> None:
    given = answers()
    with pytest.raises(FrozenInstanceError, match=r"quotas\.gpu_nodes"):
        given.quotas.gpu_nodes = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        given.quotas = QuotasAnswers(gpu_nodes=3)  # type: ignore[misc]
    assert given.with_value("quotas", "gpu_nodes", 3).quotas.gpu_nodes == 3
    assert given.quotas.gpu_nodes == TUTORIAL["quotas"]["gpu_nodes"]


def test_an_unanswered_question_is_named_by_its_key() -> None:
    known, missing = validate_partial({"quotas": {"gpu_type": "nothing known"}})
    assert "quotas.gpu_type" in missing and "project.project_id" in missing
    with pytest.raises(NotAnswered) as error:
        _ = known.quotas.machine_type  # its default follows from the GPU, which is refused
    assert error.value.key == "quotas.machine_type" not in missing
    assert known.quotas.get("machine_type") is None


def test_a_secret_is_a_question_and_never_an_answer() -> None:
    given = validate({**TUTORIAL, "project": {**TUTORIAL["project"], "hf_token": "hf_typed"}})
    assert "hf_typed" not in repr(given) and "hf_token" not in given.to_values()["project"]
    with pytest.raises(NotAnswered):
        _ = given.project.hf_token


def test_what_checks_and_differences_depend_on_are_questions_of_a_step() -> None:
    keys = {field.key for step in STEPS for field in step.fields}
    needed = {key for step in STEPS for check in step.checks for key in check.needs_fields}
    switched = {difference.opt_out[0] for difference in DIFFERENCES if difference.opt_out}
    assert len(needed) > 30 and needed <= keys and switched <= keys
    assert fields_read(lambda a: (a.quotas.gpu_nodes, a.project.zone)) == ("quotas.gpu_nodes", "project.zone")


def test_an_answer_that_no_step_asks_for_is_refused() -> None:
    with pytest.raises(TypeError, match="gpu_count"):
        Answers.from_values({"quotas": {"gpu_count": 3}})

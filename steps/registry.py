"""The seven steps in the wizard's order, and how their answers are validated together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grpo_wizard.steps.answers import Answers
from grpo_wizard.steps.cluster import step as cluster
from grpo_wizard.steps.core.answers import AnswerValue, Field, InvalidValue, NotAnswered
from grpo_wizard.steps.core.model import Resource, Step
from grpo_wizard.steps.core.workflow import Workflow
from grpo_wizard.steps.grpo import step as grpo
from grpo_wizard.steps.lustre import step as lustre
from grpo_wizard.steps.networks import step as networks
from grpo_wizard.steps.pricing.book import BUILT_IN_PRICES, PriceBook, with_prices
from grpo_wizard.steps.project import step as project
from grpo_wizard.steps.quotas import step as quotas
from grpo_wizard.steps.raycluster import step as raycluster

RawAnswers = Mapping[str, Mapping[str, object]]
"""Values by step and field as typed or read from a file, not parsed yet."""
STEPS: tuple[Step, ...] = (
    project.STEP,
    quotas.STEP,
    networks.STEP,
    cluster.STEP,
    lustre.STEP,
    raycluster.STEP,
    grpo.STEP,
)
STEP_NAMES = tuple(step.name for step in STEPS)


def step(name: str) -> Step:
    return STEPS[STEP_NAMES.index(name)]


def fields() -> Iterator[tuple[Step, Field]]:
    """Every field with its step, in order."""
    for each in STEPS:
        for field in each.fields:
            yield each, field


class ValidationErrors(ValueError):
    """Invalid answers: a sentence for each, by step.field. `unknown` are keys that no step has."""

    def __init__(self, by_field: Mapping[str, str], unknown: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join(f"{key}: {rule}" for key, rule in by_field.items()))
        self.by_field, self.unknown_keys = dict(by_field), unknown


def validate(given: RawAnswers) -> Answers:
    """Parse the given values and fill in defaults. Secrets are left out: they are stored only in the Kubernetes Secret.

    Raises ValidationErrors with every invalid value and every missing answer.
    """
    answers, refused = validate_partial(given)
    unknown = tuple(f"{s}.{f}" for s, values in given.items() for f in values if not _is_known_field(s, f))
    if refused or unknown:
        raise ValidationErrors(refused, unknown)
    return answers


def validate_partial(given: RawAnswers) -> tuple[Answers, dict[str, str]]:
    """Return the valid answers, and by step.field why others are invalid or missing.

    An answer whose default depends on an invalid one is in neither.
    """
    answers, refused = Answers.from_values({}), dict[str, str]()
    for each, field in fields():
        if field.kind == "secret":
            continue
        try:
            value = _field_value(field, given.get(each.name, {}).get(field.name), answers)
        except InvalidValue as refusal:
            refused[field.key] = str(refusal)
        except NotAnswered:
            continue
        else:
            answers = answers.with_value(each.name, field.name, value)
    return answers, refused


def _is_known_field(step_name: str, field_name: str) -> bool:
    return step_name in STEP_NAMES and any(f.name == field_name for f in step(step_name).fields)


def _field_value(field: Field, given: object, answers: Answers) -> AnswerValue:
    default = field.default_for(answers)
    if given is not None:
        value = field.parse(given)
        if value != "" or default is not None:
            return value
    if default is None:
        raise InvalidValue(f"is required: {field.help[:1].lower()}{field.help[1:]}")
    return default


def all_resources(answers: Answers, price_book: PriceBook = BUILT_IN_PRICES) -> list[Resource]:
    """Every resource of the deployment, in the wizard's order, with the prices of `price_book`."""
    return with_prices(WORKFLOW.resources(answers), answers, price_book)


WORKFLOW = Workflow(STEPS, validate)
"""The steps as a session and the engine see them."""

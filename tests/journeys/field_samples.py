"""For each field one text that it takes and one that it refuses: what every front end must be able to ask, take and refuse."""

from __future__ import annotations

from grpo_wizard.steps.core.answers import Field, InvalidValue

_INVALID = ("two words here", "-1", "x" * 200, "0", "Ä", "9" * 16)
_VALID = (
    "other-name", "europe-west4", "europe-west4-b", "us-gov", "012345-6789AB-CDEF01", "user:me@example.com", "1.34", "pd-ssd", "fs2",
    "example.com/image:v2", "google/gemma-3-4b-it", "openai/gsm8k", "/data/other", "me@proj-1.iam.gserviceaccount.com",
    "2", "7", "1500", "36000", "0.5", "grpo.val_period=5", "reservation-2", "2026-12-01T00:00:00Z",
)  # fmt: skip
TOKENS = {"hf_token": "hf_canaryPlainModeOnly7Q", "wandb_api_key": "0123456789abcdef0123456789abcdef01234567"}


def _accepts(field: Field, text: str) -> bool:
    try:
        field.parse(text)
    except InvalidValue:
        return False
    return True


def valid_text(field: Field) -> str:
    """A text that this field takes, where possible other than its default."""
    if field.kind == "secret":
        return TOKENS[field.name]
    if field.kind == "switch":
        return "no" if field.default else "yes"
    if field.choices:
        return field.choices[-1]
    found = [text for text in _VALID if _accepts(field, text)]
    assert found, f"no text here is right for {field.name}: name one in _RIGHT"
    return next((text for text in found if field.parse(text) != field.default), found[0])


def invalid_text(field: Field) -> str:
    """A text that this field refuses."""
    return (
        "two words here"
        if field.kind == "secret"
        else next(text for text in _INVALID if not _accepts(field, text))
    )

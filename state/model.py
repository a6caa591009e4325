"""The state of a deployment. Times are UTC strings such as 2026-01-31T09:30:00Z; numbers are finite."""

from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

VERSION: Final = 1
"""The version of the document's schema. A change of schema raises it and adds a function to `migrations`."""

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr | None
Value = Scalar | list[Scalar]
Mode = Literal["real", "rehearsal"]
Origin = Literal["intended", "created", "adopted"]
StoredAnswers = dict[str, dict[str, Value]]
"""By step, then by field."""


def now() -> str:
    """Return the present time, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _StateModel(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)


class ResourceRecord(_StateModel):
    """What was done to one resource. Only the cloud knows whether it exists."""

    kind: str
    name: str
    step: str
    origin: Origin = "intended"
    request_id: str = ""
    """The requestId of the create request, which makes repeating it safe."""
    operation: str = ""
    """The name of the long-running operation, as the API returned it."""
    intended_at: str = Field(default_factory=now)
    done_at: str = ""
    identity: str = ""
    """The resource's uid, id or creation time. A successor of the same name has another."""
    facts: dict[str, str] = Field(default_factory=dict)


class JobRecord(_StateModel):
    """The training job that was submitted last."""

    submission_id: str
    parameters_hash: str
    submitted_at: str = Field(default_factory=now)
    status: str = ""
    """Ray's status: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED; or LOST."""
    attempt: int = Field(default=1, ge=1)
    checkpoint_dir: str = ""
    extra: dict[str, Value] = Field(default_factory=dict)


class Deployment(_StateModel):
    """One deployment: the whole state file."""

    version: Literal[1] = VERSION
    serial: int = Field(default=0, ge=0)
    """Incremented by every save."""
    lineage: str = Field(pattern=r"^[a-z][a-z0-9]{3,30}\z")
    """The deployment's ID: the value of the ownership label, valid in Google Cloud and in Kubernetes."""
    tool: str = ""
    mode: Mode
    name: str = Field(pattern=r"^[a-z][-a-z0-9]{0,39}\z")
    answers: StoredAnswers = Field(default_factory=dict)
    resources: dict[str, ResourceRecord] = Field(default_factory=dict)
    """By id, <step>.<kind>.<name>."""
    job: JobRecord | None = None
    spent_usd: float = Field(default=0.0, ge=0)
    """The cost of deleted resources in USD, as far as their prices were known."""
    timings: dict[str, float] = Field(default_factory=dict)
    """How many seconds each resource took, by id."""
    place: str = Field(default="", max_length=40)
    """The screen on which the wizard was left: a step's name, review, run, monitor or teardown."""
    created_at: str = Field(default_factory=now)
    updated_at: str = Field(default_factory=now)

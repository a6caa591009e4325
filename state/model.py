"""What is remembered of a deployment. Times are UTC texts like 2026-01-31T09:30:00Z; numbers are finite."""

from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

VERSION: Final = 1
"""Of the document's shape. A change of shape raises it and adds a function to `migrations`."""

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr | None
Value = Scalar | list[Scalar]
Mode = Literal["real", "rehearsal"]
Origin = Literal["intended", "created", "adopted"]
StoredAnswers = dict[str, dict[str, Value]]
"""By step, then by field."""


def now() -> str:
    """This moment, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _StateModel(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)


class ResourceRecord(_StateModel):
    """What we did about one resource. Whether it is there, only the cloud says."""

    kind: str
    name: str
    step: str
    origin: Origin = "intended"
    request_id: str = ""
    """Compute's requestId of our create: repeating it is safe."""
    operation: str = ""
    """Name of the long-running operation, as the API gave it."""
    intended_at: str = Field(default_factory=now)
    done_at: str = ""
    identity: str = ""
    """The API's uid, id or creation time of this very thing. A successor of the same name has another."""
    facts: dict[str, str] = Field(default_factory=dict)


class JobRecord(_StateModel):
    """The training job as last submitted."""

    submission_id: str
    parameters_hash: str
    submitted_at: str = Field(default_factory=now)
    status: str = ""
    """Ray's own word: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED; or LOST."""
    attempt: int = Field(default=1, ge=1)
    checkpoint_dir: str = ""
    extra: dict[str, Value] = Field(default_factory=dict)


class Deployment(_StateModel):
    """One deployment: the whole state file."""

    version: Literal[1] = VERSION
    serial: int = Field(default=0, ge=0)
    """Raised by one with every save."""
    lineage: str = Field(pattern=r"^[a-z][a-z0-9]{3,30}\z")
    """The mark on everything that is ours: a label value of Google Cloud and of Kubernetes."""
    tool: str = ""
    mode: Mode
    name: str = Field(pattern=r"^[a-z][-a-z0-9]{0,39}\z")
    answers: StoredAnswers = Field(default_factory=dict)
    resources: dict[str, ResourceRecord] = Field(default_factory=dict)
    """By id, <step>.<kind>.<name>."""
    job: JobRecord | None = None
    spent_usd: float = Field(default=0.0, ge=0)
    """What things that are gone have cost, as far as their prices were known."""
    timings: dict[str, float] = Field(default_factory=dict)
    """Seconds that a resource took, by id."""
    place: str = Field(default="", max_length=40)
    """Where the wizard was left: a step's name, review, run, monitor or teardown."""
    created_at: str = Field(default_factory=now)
    updated_at: str = Field(default_factory=now)

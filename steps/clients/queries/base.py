"""How a question is sent once and its answer shared between checks and threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from grpo_wizard.steps.clients.context import CloudContext, call, get_or_none
from grpo_wizard.steps.clients.errors import CloudError, set_project_id, translate
from grpo_wizard.steps.clients.google.compute import compute_client
from grpo_wizard.steps.clients.serialization import JSON, to_json

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AnswerCache:
    """Answers by question. Of several threads that ask the same, one sends the request and all get its answer."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, read: Callable[[], _T]) -> _T:
        """The answer of `key`, read now if nobody did. Raises what reading raised, also for those that waited."""
        with self._lock:
            first = key not in self._answers
            answer: Future[_T] = self._answers.setdefault(key, Future())
        if first:
            try:
                answer.set_result(read())
            except Exception as error:
                answer.set_exception(error)
        return answer.result()


class QueryBase:
    """What every group of questions shares."""

    def __init__(
        self,
        cloud: CloudContext,
        deployment_id: str = "",
        cache: AnswerCache | None = None,
        on_read: Callable[[str], None] = lambda project: None,
    ) -> None:
        self.cloud, self.mode, self.deployment_id = cloud, cloud.mode, deployment_id
        self._cache, self._on_read = cache or AnswerCache(), on_read

    def _get_compute(self, client: str, **request: str) -> JSON | None:
        return get_or_none(compute_client(self.cloud, client).get, "compute", request)

    def _list_compute(self, client: str, **request: str) -> list[JSON]:
        listed = call("compute", compute_client(self.cloud, client).list, request=request)
        return [to_json(one) for one in listed]

    def _list_compute_zones(self, client: str, **request: str) -> list[tuple[str, Any]]:
        """(zone, page) of all zones."""
        pages = call("compute", compute_client(self.cloud, client).aggregated_list, request=request)
        return [(scope.rpartition("/")[2], page) for scope, page in pages]


_Q = TypeVar("_Q", bound=QueryBase)


def query(method: Callable[Concatenate[_Q, _P], _T]) -> Callable[Concatenate[_Q, _P], _T]:
    """Send a question once for each distinct set of arguments, which are keywords. Errors come out as WizardError."""
    name = method.__name__

    @wraps(method)
    def ask(self: _Q, *args: _P.args, **about: _P.kwargs) -> _T:
        project = about.get("project")
        if isinstance(project, str) and name != "project":
            self._on_read(project)

        def read() -> _T:
            try:
                return method(self, *args, **about)
            except Exception as error:
                problem = translate(name, error)
                if isinstance(problem, CloudError) and isinstance(project, str) and project:
                    set_project_id(problem, project)
                raise problem from error

        return self._cache.get((name, *sorted(about.items())), read)

    return cast(Callable[Concatenate[_Q, _P], _T], ask)

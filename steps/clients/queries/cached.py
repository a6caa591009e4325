"""The reader that checks use: every question of CloudReader, over the real clients, each sent once."""

from __future__ import annotations

from collections.abc import Callable

from grpo_wizard.steps.clients.queries.capacity import CapacityQueries
from grpo_wizard.steps.clients.queries.inventory import InventoryQueries
from grpo_wizard.steps.clients.queries.project import ProjectQueries


class CachedCloudReader(ProjectQueries, CapacityQueries, InventoryQueries):
    """Implements core.cloud_reader.CloudReader."""

    def observed(self, on_read: Callable[[str], None]) -> CachedCloudReader:
        return CachedCloudReader(self.cloud, self.deployment_id, self._cache, on_read)

"""Managed Lustre's performance tiers and their capacities.

Sources: https://docs.cloud.google.com/managed-lustre/docs/performance-tiers and
https://docs.cloud.google.com/managed-lustre/docs/increase-capacity, 2026-11.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo_wizard.steps.emulator.context import ApiError


@dataclass(frozen=True)
class PerformanceTier:
    """Capacities in GiB: minimum, step up to `small_step_max_gib`, step above it, maximum."""

    min_gib: int
    step: int
    small_step_max_gib: int
    big_step: int
    max_gib: int

    def is_valid(self, gib: int) -> bool:
        """Return whether the tier has this capacity."""
        if not self.min_gib <= gib <= self.max_gib:
            return False
        return gib % self.step == 0 if gib <= self.small_step_max_gib else gib % self.big_step == 0

    def nearest(self, gib: int) -> tuple[int, int]:
        """Return the valid capacities just below (or the minimum) and just above (or the maximum)."""
        step = self.step if gib <= self.small_step_max_gib else self.big_step
        low = max(self.min_gib, min(self.max_gib, gib // step * step))
        high = min(self.max_gib, max(self.min_gib, -(-gib // step) * step))
        return low, high


TIERS: dict[int, PerformanceTier] = {
    1000: PerformanceTier(9_000, 9_000, 1_530_000, 72_000, 10_008_000),
    500: PerformanceTier(18_000, 18_000, 3_060_000, 144_000, 20_016_000),
    250: PerformanceTier(36_000, 36_000, 6_120_000, 288_000, 40_032_000),
    125: PerformanceTier(72_000, 72_000, 12_240_000, 72_000, 12_240_000),
}
DYNAMIC = PerformanceTier(472_000, 472_000, 84_016_000, 472_000, 84_016_000)


def get_tier(throughput: int | None, gib: int, *, dynamic: bool = False) -> PerformanceTier:
    """Return the tier of a throughput (MBps per TiB).

    Rejects capacities that it does not have and names the nearest ones. The text is inferred.
    """
    if dynamic:
        tier = DYNAMIC
    elif throughput in TIERS:
        tier = TIERS[throughput]
    else:
        raise _invalid_argument(
            f"perUnitStorageThroughput {throughput or 0} is not supported. Supported values are "
            f"{', '.join(map(str, TIERS))}."
        )
    if tier.is_valid(gib):
        return tier
    low, high = tier.nearest(gib)
    near = str(low) if low == high else f"{low} or {high}"
    name = "the dynamic tier" if dynamic else f"perUnitStorageThroughput {throughput}"
    raise _invalid_argument(
        f"capacityGib {gib} is invalid for {name}: must be between {tier.min_gib} and {tier.max_gib} GiB in "
        f"multiples of {tier.step} GiB up to "
        f"{tier.small_step_max_gib} GiB, and of {tier.big_step} GiB above. The nearest valid capacity is {near} GiB."
    )


def check_growth(tier: PerformanceTier, old: int, new: int) -> None:
    """Reject a smaller capacity, and one beyond the small-step range in which the instance was created."""
    if new < old:
        raise _invalid_argument(f"capacityGib cannot be decreased (from {old} to {new}).")
    if old <= tier.small_step_max_gib < new:
        raise _invalid_argument(
            f"capacityGib cannot be increased beyond {tier.small_step_max_gib} GiB for an instance created with at "
            "most that capacity."
        )


def _invalid_argument(message: str) -> ApiError:
    return ApiError(400, message, "INVALID_ARGUMENT", "badRequest")

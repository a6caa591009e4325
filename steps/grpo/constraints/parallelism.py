"""Constraints R1 to R5 and R20: GPUs, nodes, and how the model is split over them."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from grpo_wizard.steps.grpo.constraints.model import (
    GENERATION_RESOURCES,
    MEGATRON,
    VLLM,
    Constraint,
    RunLayout,
    Violation,
    largest_divisor,
)
from grpo_wizard.steps.manifests.raycluster import raycluster


def _separate_generation_nodes(run: RunLayout) -> Iterator[Violation]:
    if run.colocated or run.nodes < 2:
        return
    if run.generation_nodes < 1:
        yield Violation(
            "no nodes are left for generation", run.suggest_setting(f"{GENERATION_RESOURCES}.num_nodes", 1)
        )
    elif run.generation_nodes >= run.nodes:
        yield Violation(
            f"{run.generation_nodes} of {run.nodes} GPU nodes generate, so none is left for training",
            run.suggest_setting(f"{GENERATION_RESOURCES}.num_nodes", run.nodes - 1),
        )
    if run.generation_gpus_per_node != run.gpus_per_node:
        yield Violation(
            f"generation nodes use {run.generation_gpus_per_node} of their {run.gpus_per_node} GPUs; they must use all of them",
            run.suggest_setting(f"{GENERATION_RESOURCES}.gpus_per_node", run.gpus_per_node),
        )


def _single_node(run: RunLayout) -> Iterator[Violation]:
    if run.colocated or run.nodes != 1:
        return
    if not 0 < run.generation_gpus_per_node < run.gpus_per_node:
        yield Violation(
            f"{run.generation_gpus_per_node} of {run.gpus_per_node} GPUs generate; training and generation each need at least one",
            run.suggest_setting(
                f"{GENERATION_RESOURCES}.gpus_per_node",
                max(1, min(run.generation_gpus_per_node, run.gpus_per_node - 1)),
            ),
        )
    if run.config[f"{GENERATION_RESOURCES}.num_nodes"] not in (None, 1):
        yield Violation(
            "a single node cannot have separate generation nodes",
            run.suggest_setting(f"{GENERATION_RESOURCES}.num_nodes", 1),
        )


def _training_gpus(run: RunLayout) -> Iterator[Violation]:
    rest, whole = (
        run.pipeline_parallel * run.context_parallel,
        run.tensor_parallel * run.pipeline_parallel * run.context_parallel,
    )
    if run.train_gpus < 1 or run.train_gpus % whole == 0:
        return
    text = f"{run.train_gpus} training GPUs are not divisible by {whole} (tensor {run.tensor_parallel} x pipeline {run.pipeline_parallel} x context {run.context_parallel})"
    if run.train_gpus % rest == 0:
        fix = run.suggest_setting(
            run.tensor_parallel_key, largest_divisor(run.train_gpus // rest, run.tensor_parallel)
        )
    elif run.train_gpus % run.context_parallel == 0:
        fix = run.suggest_setting(
            f"{MEGATRON}.pipeline_model_parallel_size",
            largest_divisor(run.train_gpus // run.context_parallel, run.pipeline_parallel),
        )
    else:
        fix = run.suggest_setting(
            run.context_parallel_key, largest_divisor(run.train_gpus, run.context_parallel)
        )
    yield Violation(text, fix)


def _attention_heads(run: RunLayout) -> Iterator[Violation]:
    heads, groups = run.model.heads, run.model.kv_heads
    if (
        heads is None
        or groups is None
        or (heads % run.tensor_parallel == 0 and groups % run.tensor_parallel == 0)
    ):
        return
    both = gcd(heads, groups)
    if run.train_gpus > 0 and run.train_gpus % (run.pipeline_parallel * run.context_parallel) == 0:
        both = gcd(both, run.train_gpus // (run.pipeline_parallel * run.context_parallel))
    yield Violation(
        f"{run.model_name} has {heads} attention heads and {groups} key-value heads, which are not multiples of the tensor parallel size {run.tensor_parallel}",
        run.suggest_setting(run.tensor_parallel_key, largest_divisor(both, run.tensor_parallel)),
    )


def _generation_gpus(run: RunLayout) -> Iterator[Violation]:
    if run.config["policy.generation.backend"] != "vllm" or run.generation_gpus < 1:
        return
    each = run.vllm_tensor_parallel * run.vllm_pipeline_parallel
    expert, is_async = (
        run.config.number(f"{VLLM}.expert_parallel_size"),
        run.config.is_enabled(f"{VLLM}.async_engine"),
    )
    if run.generation_gpus % each:
        at = run.generation_gpus // gcd(run.generation_gpus, run.vllm_pipeline_parallel)
        text = f"{run.generation_gpus} generation GPUs are not divisible by the vLLM parallel size {each}"
        if run.generation_gpus % run.vllm_pipeline_parallel:
            yield Violation(
                text,
                run.suggest_setting(
                    f"{VLLM}.pipeline_parallel_size",
                    largest_divisor(run.generation_gpus, run.vllm_pipeline_parallel),
                ),
            )
        else:
            yield Violation(
                text,
                run.suggest_setting(
                    f"{VLLM}.tensor_parallel_size", largest_divisor(at, run.vllm_tensor_parallel)
                ),
            )
    elif each > run.gpus_per_node:
        yield Violation(
            f"one vLLM replica on {each} GPUs spans several nodes of {run.gpus_per_node} GPUs; without NVLink between nodes, generation is slow",
            run.suggest_setting(
                f"{VLLM}.tensor_parallel_size", largest_divisor(run.generation_gpus, run.gpus_per_node)
            ),
            "warn",
        )
    if run.vllm_pipeline_parallel > 1 and not is_async:
        yield Violation(
            "vLLM pipeline parallelism requires the asynchronous engine",
            run.suggest_setting(f"{VLLM}.async_engine", True),
        )
    if expert > 1 and expert % run.vllm_tensor_parallel:
        yield Violation(
            f"the vLLM expert parallel size {expert} is not a multiple of the tensor parallel size {run.vllm_tensor_parallel}",
            run.suggest_setting(f"{VLLM}.expert_parallel_size", run.vllm_tensor_parallel),
        )
    elif expert > 1 and expert != run.vllm_tensor_parallel and is_async and run.vllm_pipeline_parallel == 1:
        yield Violation(
            "the vLLM asynchronous engine does not support data parallelism inside vLLM",
            run.suggest_setting(f"{VLLM}.async_engine", False),
        )


def _ray_resources(run: RunLayout) -> Iterator[Violation]:
    """Compare the requested GPUs and CPUs with what the pods of the RayCluster provide."""
    spec = raycluster(run.answers)["spec"]
    [workers], head = spec["workerGroupSpecs"], spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    each = workers["template"]["spec"]["containers"][0]["resources"]["limits"]
    nodes, gpus = int(workers["replicas"]), int(each["nvidia.com/gpu"])
    cpus = nodes * int(each["cpu"]) + int(head["resources"]["limits"]["cpu"])
    asked = run.nodes * run.gpus_per_node
    if run.gpus_per_node > gpus:
        yield Violation(
            f"{run.gpus_per_node} GPUs per node are requested, but a worker pod has {gpus}",
            run.suggest_setting("cluster.gpus_per_node", gpus),
        )
    elif asked > nodes * gpus:
        yield Violation(
            f"{asked} GPUs are requested, but the {nodes} worker pods have {nodes * gpus}",
            run.suggest_setting("cluster.num_nodes", nodes),
        )
    needed = asked * (2 if run.colocated else 1)  # a CPU for each worker: two share a GPU when colocated
    if needed > cpus:
        yield Violation(
            f"{needed} CPUs are requested, but the pods have {cpus}",
            run.suggest_setting("cluster.gpus_per_node", gpus),
        )


CONSTRAINTS = (
    Constraint(
        "R1",
        "colocated: all GPUs train; otherwise whole nodes generate and at least one trains",
        "algorithms/grpo.py:393-407",
        _separate_generation_nodes,
    ),
    Constraint(
        "R2",
        "one node, not colocated: some GPUs generate, the others train",
        "algorithms/grpo.py:364-392",
        _single_node,
    ),
    Constraint(
        "R3",
        "training GPUs are a multiple of PP x CP x TP",
        "models/policy/lm_policy.py:133-152",
        _training_gpus,
    ),
    Constraint(
        "R4",
        "attention heads and key-value heads are multiples of TP",
        "models/dtensor/parallelize.py:603-608",
        _attention_heads,
    ),
    Constraint(
        "R5",
        "generation GPUs are a multiple of vLLM's TP x PP",
        "models/generation/vllm/vllm_generation.py:63-90",
        _generation_gpus,
    ),
)
RAY_RESOURCES = Constraint(
    "R20",
    "the RayCluster provides the requested GPUs and CPUs",
    "distributed/virtual_cluster.py:286-307",
    _ray_resources,
)

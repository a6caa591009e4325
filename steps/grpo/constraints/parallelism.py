"""R1 to R5 and R20: GPUs, nodes, and how a model is parted among them."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from grpo_wizard.steps.grpo.constraints.model import (
    MEGATRON,
    VLLM,
    WHERE,
    Broken,
    Rule,
    Run,
    divisor_below,
)
from grpo_wizard.steps.manifests.raycluster import raycluster


def _apart(run: Run) -> Iterator[Broken]:
    if run.colocated or run.nodes < 2:
        return
    if run.generation_nodes < 1:
        yield Broken("no node is left to generate", run.fix(f"{WHERE}.num_nodes", 1))
    elif run.generation_nodes >= run.nodes:
        yield Broken(
            f"{run.nodes} GPU nodes leave none for training when {run.generation_nodes} generate",
            run.fix(f"{WHERE}.num_nodes", run.nodes - 1),
        )
    if run.generation_per_node != run.per_node:
        yield Broken(
            f"a generating node is to use {run.generation_per_node} GPUs, and not all of its {run.per_node}",
            run.fix(f"{WHERE}.gpus_per_node", run.per_node),
        )


def _one_node(run: Run) -> Iterator[Broken]:
    if run.colocated or run.nodes != 1:
        return
    if not 0 < run.generation_per_node < run.per_node:
        yield Broken(
            f"{run.generation_per_node} of {run.per_node} GPUs generate: both training and generation need some",
            run.fix(f"{WHERE}.gpus_per_node", max(1, min(run.generation_per_node, run.per_node - 1))),
        )
    if run.settings[f"{WHERE}.num_nodes"] not in (None, 1):
        yield Broken(
            "on one node no other node can generate",
            run.fix(f"{WHERE}.num_nodes", 1),
        )


def _trains(run: Run) -> Iterator[Broken]:
    rest, whole = run.pipeline * run.context, run.tensor * run.pipeline * run.context
    if run.train_gpus < 1 or run.train_gpus % whole == 0:
        return
    text = f"{run.train_gpus} training GPUs cannot be parted by {whole} (tensor {run.tensor} x pipeline {run.pipeline} x context {run.context})"
    if run.train_gpus % rest == 0:
        fix = run.fix(run.tensor_key, divisor_below(run.train_gpus // rest, run.tensor))
    elif run.train_gpus % run.context == 0:
        fix = run.fix(
            f"{MEGATRON}.pipeline_model_parallel_size",
            divisor_below(run.train_gpus // run.context, run.pipeline),
        )
    else:
        fix = run.fix(run.context_key, divisor_below(run.train_gpus, run.context))
    yield Broken(text, fix)


def _heads(run: Run) -> Iterator[Broken]:
    heads, groups = run.model.heads, run.model.kv_heads
    if heads is None or groups is None or (heads % run.tensor == 0 and groups % run.tensor == 0):
        return
    both = gcd(heads, groups)
    if run.train_gpus > 0 and run.train_gpus % (run.pipeline * run.context) == 0:
        both = gcd(both, run.train_gpus // (run.pipeline * run.context))
    yield Broken(
        f"{run.model_name} has {heads} attention heads and {groups} key-value heads, not multiples of a tensor parallel size of {run.tensor}",
        run.fix(run.tensor_key, divisor_below(both, run.tensor)),
    )


def _generates(run: Run) -> Iterator[Broken]:
    if run.settings["policy.generation.backend"] != "vllm" or run.generation_gpus < 1:
        return
    each = run.vllm_tensor * run.vllm_pipeline
    expert, is_async = (
        run.settings.number(f"{VLLM}.expert_parallel_size"),
        run.settings.on(f"{VLLM}.async_engine"),
    )
    if run.generation_gpus % each:
        at = run.generation_gpus // gcd(run.generation_gpus, run.vllm_pipeline)
        text = f"{run.generation_gpus} generating GPUs cannot be parted by a vLLM parallel size of {each}"
        if run.generation_gpus % run.vllm_pipeline:
            yield Broken(
                text,
                run.fix(
                    f"{VLLM}.pipeline_parallel_size", divisor_below(run.generation_gpus, run.vllm_pipeline)
                ),
            )
        else:
            yield Broken(text, run.fix(f"{VLLM}.tensor_parallel_size", divisor_below(at, run.vllm_tensor)))
    elif each > run.per_node:
        yield Broken(
            f"one vLLM copy on {each} GPUs spans nodes of {run.per_node}: NVLink ends at the node, generation is slow",
            run.fix(f"{VLLM}.tensor_parallel_size", divisor_below(run.generation_gpus, run.per_node)),
            "warn",
        )
    if run.vllm_pipeline > 1 and not is_async:
        yield Broken(
            "vLLM's pipeline parallelism needs its asynchronous engine", run.fix(f"{VLLM}.async_engine", True)
        )
    if expert > 1 and expert % run.vllm_tensor:
        yield Broken(
            f"vLLM's expert parallel size of {expert} is no multiple of its tensor parallel size of {run.vllm_tensor}",
            run.fix(f"{VLLM}.expert_parallel_size", run.vllm_tensor),
        )
    elif expert > 1 and expert != run.vllm_tensor and is_async and run.vllm_pipeline == 1:
        yield Broken(
            "vLLM's asynchronous engine does not work with data parallelism inside vLLM",
            run.fix(f"{VLLM}.async_engine", False),
        )


def _pods(run: Run) -> Iterator[Broken]:
    """What is asked of Ray against what the RayCluster's own pods bring."""
    spec = raycluster(run.answers)["spec"]
    [workers], head = spec["workerGroupSpecs"], spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    each = workers["template"]["spec"]["containers"][0]["resources"]["limits"]
    nodes, gpus = int(workers["replicas"]), int(each["nvidia.com/gpu"])
    cpus = nodes * int(each["cpu"]) + int(head["resources"]["limits"]["cpu"])
    asked = run.nodes * run.per_node
    if run.per_node > gpus:
        yield Broken(
            f"{run.per_node} GPUs a node are asked for, and a worker pod has {gpus}",
            run.fix("cluster.gpus_per_node", gpus),
        )
    elif asked > nodes * gpus:
        yield Broken(
            f"{asked} GPUs are asked for, and the {nodes} worker pods have {nodes * gpus}",
            run.fix("cluster.num_nodes", nodes),
        )
    needed = asked * (2 if run.colocated else 1)  # a CPU for each worker: two share a GPU when colocated
    if needed > cpus:
        yield Broken(
            f"{needed} CPUs are asked for, and the pods have {cpus}",
            run.fix("cluster.gpus_per_node", gpus),
        )


RULES = (
    Rule(
        "R1",
        "colocated: all GPUs train; else whole nodes generate and at least one trains",
        "algorithms/grpo.py:393-407",
        _apart,
    ),
    Rule(
        "R2",
        "one node, not colocated: some GPUs generate, the others train",
        "algorithms/grpo.py:364-392",
        _one_node,
    ),
    Rule(
        "R3",
        "training GPUs are a multiple of PP x CP x TP",
        "models/policy/lm_policy.py:133-152",
        _trains,
    ),
    Rule(
        "R4",
        "attention heads and key-value heads are multiples of TP",
        "models/dtensor/parallelize.py:603-608",
        _heads,
    ),
    Rule(
        "R5",
        "generating GPUs are a multiple of vLLM's TP x PP",
        "models/generation/vllm/vllm_generation.py:63-90",
        _generates,
    ),
)
PODS = Rule(
    "R20",
    "Ray shows the GPUs and CPUs that are asked for",
    "distributed/virtual_cluster.py:286-307",
    _pods,
)

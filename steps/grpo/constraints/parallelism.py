"""R1 to R5 and R20: GPUs, nodes, and how a model is split across them."""

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
    nemo_rl_url,
)
from grpo_wizard.steps.manifests.raycluster import raycluster


def _separate_generation_nodes(run: RunLayout) -> Iterator[Violation]:
    if run.colocated or run.nodes < 2:
        return
    if run.generation_nodes < 1:
        yield Violation(
            "No nodes are left for generation.", run.suggest_setting(f"{GENERATION_RESOURCES}.num_nodes", 1)
        )
    elif run.generation_nodes >= run.nodes:
        yield Violation(
            f"{run.generation_nodes} generation nodes leave none of the {run.nodes} GPU nodes for training.",
            run.suggest_setting(f"{GENERATION_RESOURCES}.num_nodes", run.nodes - 1),
        )
    if run.generation_gpus_per_node != run.gpus_per_node:
        yield Violation(
            f"A generation node must use all of its {run.gpus_per_node} GPUs, not {run.generation_gpus_per_node}.",
            run.suggest_setting(f"{GENERATION_RESOURCES}.gpus_per_node", run.gpus_per_node),
        )


def _single_node(run: RunLayout) -> Iterator[Violation]:
    if run.colocated or run.nodes != 1:
        return
    if not 0 < run.generation_gpus_per_node < run.gpus_per_node:
        yield Violation(
            f"Training and generation both need GPUs, but generation uses {run.generation_gpus_per_node} of the node's {run.gpus_per_node}.",
            run.suggest_setting(
                f"{GENERATION_RESOURCES}.gpus_per_node",
                max(1, min(run.generation_gpus_per_node, run.gpus_per_node - 1)),
            ),
        )
    if run.config[f"{GENERATION_RESOURCES}.num_nodes"] not in (None, 1):
        yield Violation(
            "With a single GPU node, generation cannot have its own nodes.",
            run.suggest_setting(f"{GENERATION_RESOURCES}.num_nodes", 1),
        )


def _training_gpus(run: RunLayout) -> Iterator[Violation]:
    rest, whole = (
        run.pipeline_parallel * run.context_parallel,
        run.tensor_parallel * run.pipeline_parallel * run.context_parallel,
    )
    if run.train_gpus < 1 or run.train_gpus % whole == 0:
        return
    text = (
        f"The number of training GPUs ({run.train_gpus}) is not a multiple of {whole} (tensor {run.tensor_parallel} x pipeline "
        f"{run.pipeline_parallel} x context {run.context_parallel} parallel sizes)."
    )
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
        f"{run.model_name} has {heads} attention heads and {groups} key-value heads; both must be multiples of the tensor parallel size ({run.tensor_parallel}).",
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
        text = f"The number of generation GPUs ({run.generation_gpus}) is not a multiple of vLLM's parallel size ({each})."
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
            f"A vLLM replica on {each} GPUs would span several {run.gpus_per_node}-GPU nodes. Without NVLink between nodes, generation would be slow.",
            run.suggest_setting(
                f"{VLLM}.tensor_parallel_size", largest_divisor(run.generation_gpus, run.gpus_per_node)
            ),
            "warn",
        )
    if run.vllm_pipeline_parallel > 1 and not is_async:
        yield Violation(
            "vLLM's pipeline parallelism requires its asynchronous engine.",
            run.suggest_setting(f"{VLLM}.async_engine", True),
        )
    if expert > 1 and expert % run.vllm_tensor_parallel:
        yield Violation(
            f"vLLM's expert parallel size ({expert}) is not a multiple of its tensor parallel size ({run.vllm_tensor_parallel}).",
            run.suggest_setting(f"{VLLM}.expert_parallel_size", run.vllm_tensor_parallel),
        )
    elif expert > 1 and expert != run.vllm_tensor_parallel and is_async and run.vllm_pipeline_parallel == 1:
        yield Violation(
            "vLLM's asynchronous engine does not work with data parallelism inside vLLM.",
            run.suggest_setting(f"{VLLM}.async_engine", False),
        )


def _ray_resources(run: RunLayout) -> Iterator[Violation]:
    """Compare what the run requests from Ray with what the RayCluster's pods provide."""
    spec = raycluster(run.answers)["spec"]
    [workers], head = spec["workerGroupSpecs"], spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    each = workers["template"]["spec"]["containers"][0]["resources"]["limits"]
    nodes, gpus = int(workers["replicas"]), int(each["nvidia.com/gpu"])
    cpus = nodes * int(each["cpu"]) + int(head["resources"]["limits"]["cpu"])
    asked = run.nodes * run.gpus_per_node
    if run.gpus_per_node > gpus:
        yield Violation(
            f"The run requests {run.gpus_per_node} GPUs per node, but a worker pod has only {gpus}.",
            run.suggest_setting("cluster.gpus_per_node", gpus),
        )
    elif asked > nodes * gpus:
        yield Violation(
            f"The run requests {asked} GPUs, but the {nodes} worker pods have only {nodes * gpus}.",
            run.suggest_setting("cluster.num_nodes", nodes),
        )
    needed = asked * (2 if run.colocated else 1)  # a CPU for each worker: two share a GPU when colocated
    if needed > cpus:
        yield Violation(
            f"The run requests {needed} CPUs, but the pods have only {cpus}.",
            run.suggest_setting("cluster.gpus_per_node", gpus),
        )


CONSTRAINTS = (
    Constraint(
        id="R1",
        description="without colocation, whole nodes generate and at least one node trains",
        source=nemo_rl_url("algorithms/grpo.py", 393),
        validate=_separate_generation_nodes,
    ),
    Constraint(
        id="R2",
        description="on a single node without colocation, some GPUs generate and the others train",
        source=nemo_rl_url("algorithms/grpo.py", 364),
        validate=_single_node,
    ),
    Constraint(
        id="R3",
        description="training GPUs must be a multiple of the product of all parallel sizes",
        source=nemo_rl_url("models/policy/lm_policy.py", 133),
        validate=_training_gpus,
    ),
    Constraint(
        id="R4",
        description="attention heads and key-value heads must be multiples of the tensor parallel size",
        source=nemo_rl_url("models/dtensor/parallelize.py", 603),
        validate=_attention_heads,
    ),
    Constraint(
        id="R5",
        description="generation GPUs must be a multiple of vLLM's tensor times pipeline parallel size",
        source=nemo_rl_url("models/generation/vllm/vllm_generation.py", 63),
        validate=_generation_gpus,
    ),
)
RAY_RESOURCES = Constraint(
    id="R20",
    description="Ray must have the GPUs and CPUs that the run requests",
    source=nemo_rl_url("distributed/virtual_cluster.py", 286),
    validate=_ray_resources,
)

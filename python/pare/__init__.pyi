# Written by scripts/python_stubs.
import os
from typing import Any, Callable, Iterable, Literal, Sequence, TypedDict

import numpy as np
from typing_extensions import Unpack

from . import errors as errors, results as results
from ._pare import Graph as Graph, set_threads as set_threads
from .errors import Error as Error

__version__: str
Progress = Callable[[str, int, int], None]

class ModelOptions(TypedDict, total=False):
    activation: Literal['relu', 'tanh', 'softsign', 'elu', 'selu', 'leaky-relu', 'hardswish', 'gelu', 'relu6']
    width: float
    classes: int
    dropout: float
    shortcut: Literal['', 'a', 'b']
    bias: Literal['', 'yes', 'no']
    image: Sequence[int]
    input_shape: Sequence[str]

class QuantizeOptions(TypedDict, total=False):
    weights: Literal['int8', 'int4']
    activations: Literal['int8', 'symmetric', 'none']
    range: Literal['minmax', 'percentile', 'entropy', 'mse']
    percentile: float
    compensate: Literal['none', 'bias', 'obs']
    per_tensor: bool
    block: int
    skip: Sequence[str]
    keep_first: bool
    keep_last: bool
    samples_used: int
    images: Literal['distilled', 'leaves', 'pink', 'smooth', 'white']
    distill_steps: int
    no_mirror: bool
    max_drop: float | None

class TrainingOptions(TypedDict, total=False):
    epochs: int
    batch: int
    optimizer: Literal['sgd', 'adam', 'adamw']
    lr: float
    momentum: float
    nesterov: bool
    weight_decay: float
    decay_weights_only: bool
    beta1: float
    beta2: float
    epsilon: float
    schedule: Literal['constant', 'step', 'cosine', 'one-cycle']
    warmup: float
    milestones: Sequence[float]
    factor: float
    peak: float
    augment: str
    order: Literal['shuffled', 'stored']
    clip_norm: float
    average: float
    sync_bn: bool
    patience: int
    label_smoothing: float
    validation: float
    tensorboard: str
    log_every: int
    resume: bool
    fresh: bool

def architectures() -> list[str]: ...

def build(
    arch: str,
    *,
    seed: int = ...,
    **options: Unpack[ModelOptions],
) -> Graph: ...

def compress(
    model: Graph,
    samples: Any,
    *,
    seed: int = ...,
    memory: str | os.PathLike = ...,
    progress: Progress | None = ...,
    faster: float | None = ...,
    latency: float | None = ...,
    macs: float | None = ...,
    params: float | None = ...,
    bytes: float | None = ...,
    max_drop: float | None = ...,
    runtime: Literal['auto', 'pare', 'onnxruntime'] = ...,
    batch: int = ...,
    layers: Sequence[str] = ...,
    skip: Sequence[str] = ...,
    round_to: int = ...,
    floor: float = ...,
    inner_only: bool = ...,
    samples_used: int = ...,
    no_mirror: bool = ...,
    minutes: float = ...,
    int8: bool = ...,
    plan: bool = ...,
) -> results.Compressed: ...

def diff(
    a: Graph,
    b: Graph,
) -> results.GraphDiff: ...

def distill(
    student: Graph,
    teacher: Graph,
    samples: Any,
    *,
    runs: str | os.PathLike = ...,
    seed: int = ...,
    progress: Progress | None = ...,
    alpha: float = ...,
    temperature: float = ...,
    match: Literal['none', 'at', 'at-grad', 'ewa', 'swa', 'sswa'] = ...,
    match_weight: float | None = ...,
    drop: float = ...,
    match_layers: Sequence[str] = ...,
    **options: Unpack[TrainingOptions],
) -> results.Training: ...

def evaluate(
    models: Graph | Sequence[Graph],
    samples: Any,
    *,
    progress: Progress | None = ...,
    batch: int = ...,
    ensemble: bool = ...,
    threshold: float = ...,
    decoder: str = ...,
) -> results.Evaluation: ...

def explain(
    model: Graph,
    samples: Any,
    classes: int | Sequence[int] = ...,
    *,
    batch: int = ...,
    seed: int = ...,
    progress: Progress | None = ...,
    method: Literal['gradcam', 'hirescam', 'gradcam++', 'gradient', 'input-x-gradient', 'ig', 'smoothgrad', 'ebp', 'contrastive-ebp', 'lrp', 'rap'] = ...,
    layer: str = ...,
    lrp: Literal['alpha1-beta0', 'zero', 'epsilon', 'gamma', 'z-plus', 'alpha2-beta1', 'epsilon-plus', 'epsilon-alpha2-beta1', 'epsilon-gamma-box'] = ...,
    steps: int = ...,
    noise: float = ...,
) -> results.Attribution: ...

def fuse(
    models: Sequence[Graph],
    samples: Any = ...,
    *,
    weights: Sequence[float] = ...,
    seed: int = ...,
    progress: Progress | None = ...,
    method: Literal['ot', 'average', 'hungarian', 'greedy', 'rebasin', 'merge-many', 'barycentre'] = ...,
    align: Literal['weights', 'activations'] = ...,
    solver: Literal['emd', 'sinkhorn'] = ...,
    ground: Literal['unit', 'correlation', 'euclidean', 'squared', 'cosine'] = ...,
    importance: Literal['uniform', 'l1', 'l2'] = ...,
    scaling: Literal['preserving', 'published'] = ...,
    regularization: float = ...,
    repair: Literal['none', 'rescale', 'regression'] = ...,
    rho: float = ...,
    inputs: int = ...,
    reference: int = ...,
) -> results.Fusion: ...

def inspect(
    model: Graph,
) -> results.Inspection: ...

def load(
    path: str | os.PathLike,
    *,
    arch: Literal['lenet-300-100', 'lenet-5', 'mlpnet', 'convnet', 'convnet-bn', 'vgg9', 'vgg9-bn', 'vgg11', 'vgg11-bn', 'vgg16', 'vgg16-bn', 'resnet20', 'resnet32', 'resnet44', 'resnet56', 'resnet18', 'resnet34', 'wrn-16-4', 'wrn-40-4', 'mobilenetv1', 'mobilenetv2', 'squeezenet1_1', 'vit-tiny', 'bert-tiny'] = ...,
    **options: Unpack[ModelOptions],
) -> Graph: ...

def prune(
    model: Graph,
    samples: Any = ...,
    *,
    widths: dict[str, int] | None = ...,
    seed: int = ...,
    progress: Progress | None = ...,
    channels: float | None = ...,
    params: float | None = ...,
    macs: float | None = ...,
    bytes: float | None = ...,
    empty: bool = ...,
    criterion: Literal['auto', 'obs', 'l1', 'l2', 'gm', 'bn', 'taylor', 'random', 'subset'] = ...,
    scope: Literal['auto', 'uniform', 'global', 'allocate'] = ...,
    layers: Sequence[str] = ...,
    skip: Sequence[str] = ...,
    round_to: int = ...,
    floor: float = ...,
    inner_only: bool = ...,
    attention: Literal['heads', 'dimensions'] = ...,
    rotate: bool = ...,
    steps: int = ...,
    compensate: Literal['auto', 'none', 'most-sim', 'nnls', 'nmf', 'gaussian', 'ot', 'ot-average', 'synthetic', 'calibrated'] = ...,
    threshold: float = ...,
    lambda_: float = ...,
    as_published: bool = ...,
    terms: int = ...,
    nmf_iterations: int = ...,
    unchecked: bool = ...,
    ridge: float = ...,
    images: Literal['distilled', 'leaves', 'pink', 'smooth', 'white'] = ...,
    samples_used: int = ...,
    no_mirror: bool = ...,
    distill_steps: int = ...,
    minutes: float = ...,
    plan: bool = ...,
    max_drop: float | None = ...,
) -> results.Pruned: ...

def quantize(
    model: Graph,
    samples: Any = ...,
    *,
    seed: int = ...,
    progress: Progress | None = ...,
    **options: Unpack[QuantizeOptions],
) -> results.Quantized: ...

def report(
    runs: Iterable[str | os.PathLike],
    *,
    title: str = ...,
    note: Callable[[str], None] | None = ...,
) -> str: ...

def run(
    model: Graph,
    *inputs: Any,
) -> list[np.ndarray]: ...

def scan_quantization(
    model: Graph,
    samples: Any = ...,
    *,
    seed: int = ...,
    progress: Progress | None = ...,
    **options: Unpack[QuantizeOptions],
) -> list[results.QuantizedLayer]: ...

def sparsify(
    model: Graph,
    samples: Any,
    *,
    trained: bool = ...,
    runs: str | os.PathLike = ...,
    seed: int = ...,
    progress: Progress | None = ...,
    method: Literal['cs', 'magnitude', 'gmp', 'imp', 'imp-continued', 'l0', 'slimming', 'wanda', 'obs', 'lr-rewind', 'weight-rewind'] = ...,
    sparsity: float | None = ...,
    s_init: Sequence[float] = ...,
    lambda_: float | None = ...,
    beta_final: float = ...,
    mask_rate: float | None = ...,
    gates_by: Literal['adam', 'weights'] = ...,
    rounds: int = ...,
    round_rate: float = ...,
    rewind: int = ...,
    finetune: int = ...,
    finetune_lr: float = ...,
    gmp_begin: float = ...,
    gmp_end: float = ...,
    gmp_every: int = ...,
    samples_used: int = ...,
    no_mirror: bool = ...,
    include: Sequence[str] = ...,
    exclude: Sequence[str] = ...,
    with_last: bool = ...,
    distribution: Literal['auto', 'global', 'uniform', 'erk', 'owl'] = ...,
    pattern: str = ...,
    block: str = ...,
    allow_empty: bool = ...,
    alpha: float = ...,
    temperature: float = ...,
    match: Literal['none', 'at', 'at-grad', 'ewa', 'swa', 'sswa'] = ...,
    match_weight: float | None = ...,
    drop: float = ...,
    match_layers: Sequence[str] = ...,
    **options: Unpack[TrainingOptions],
) -> results.Sparsified: ...

def train(
    model: Graph,
    samples: Any,
    *,
    runs: str | os.PathLike = ...,
    seed: int = ...,
    progress: Progress | None = ...,
    **options: Unpack[TrainingOptions],
) -> results.Training: ...

def verify(
    a: Graph,
    b: Graph,
    samples: Any = ...,
    *,
    seed: int = ...,
    progress: Progress | None = ...,
    tolerance: float = ...,
    absolute: float = ...,
) -> results.Verification: ...

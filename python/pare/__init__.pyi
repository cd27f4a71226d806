# Written by scripts/python_stubs.
import os
from typing import Any, Callable, Iterable, Literal, Sequence

import numpy as np

from . import errors as errors, results as results
from ._pare import Graph as Graph, set_threads as set_threads
from .errors import Error as Error

__version__: str
Progress = Callable[[str, int, int], None]

def architectures() -> list[str]: ...

def build(
    arch: str,
    *,
    seed: int = ...,
    activation: Literal['relu', 'tanh', 'softsign', 'elu', 'selu', 'leaky-relu', 'hardswish'] = ...,
    width: float = ...,
    classes: int = ...,
    dropout: float = ...,
    shortcut: Literal['', 'a', 'b'] = ...,
    bias: Literal['', 'yes', 'no'] = ...,
    image: Sequence[int] = ...,
    input_shape: Sequence[str] = ...,
) -> Graph: ...

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
    epochs: int = ...,
    batch: int = ...,
    optimizer: Literal['sgd', 'adam', 'adamw'] = ...,
    lr: float = ...,
    momentum: float = ...,
    nesterov: bool = ...,
    weight_decay: float = ...,
    decay_weights_only: bool = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    schedule: Literal['constant', 'step', 'cosine', 'one-cycle'] = ...,
    warmup: float = ...,
    milestones: Sequence[float] = ...,
    factor: float = ...,
    peak: float = ...,
    augment: str = ...,
    order: Literal['shuffled', 'stored'] = ...,
    clip_norm: float = ...,
    average: float = ...,
    sync_bn: bool = ...,
    patience: int = ...,
    label_smoothing: float = ...,
    validation: float = ...,
    tensorboard: str = ...,
    log_every: int = ...,
    resume: bool = ...,
    fresh: bool = ...,
) -> results.Training: ...

def evaluate(
    models: Graph | Sequence[Graph],
    samples: Any,
    *,
    progress: Progress | None = ...,
    batch: int = ...,
    ensemble: bool = ...,
    threshold: float = ...,
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
    arch: Literal['lenet-300-100', 'lenet-5', 'mlpnet', 'convnet', 'convnet-bn', 'vgg9', 'vgg9-bn', 'vgg11', 'vgg11-bn', 'vgg16', 'vgg16-bn', 'resnet20', 'resnet32', 'resnet44', 'resnet56', 'resnet18', 'resnet34', 'wrn-16-4', 'wrn-40-4', 'mobilenetv1'] = ...,
    activation: Literal['relu', 'tanh', 'softsign', 'elu', 'selu', 'leaky-relu', 'hardswish'] = ...,
    width: float = ...,
    classes: int = ...,
    dropout: float = ...,
    shortcut: Literal['', 'a', 'b'] = ...,
    bias: Literal['', 'yes', 'no'] = ...,
    image: Sequence[int] = ...,
    input_shape: Sequence[str] = ...,
) -> Graph: ...

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

def sparsify(
    model: Graph,
    samples: Any,
    *,
    trained: bool = ...,
    runs: str | os.PathLike = ...,
    seed: int = ...,
    progress: Progress | None = ...,
    method: Literal['cs', 'magnitude', 'gmp', 'imp', 'imp-continued', 'l0', 'slimming', 'lr-rewind', 'weight-rewind'] = ...,
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
    include: Sequence[str] = ...,
    exclude: Sequence[str] = ...,
    with_last: bool = ...,
    distribution: Literal['global', 'uniform', 'erk'] = ...,
    pattern: str = ...,
    allow_empty: bool = ...,
    alpha: float = ...,
    temperature: float = ...,
    match: Literal['none', 'at', 'at-grad', 'ewa', 'swa', 'sswa'] = ...,
    match_weight: float | None = ...,
    drop: float = ...,
    match_layers: Sequence[str] = ...,
    epochs: int = ...,
    batch: int = ...,
    optimizer: Literal['sgd', 'adam', 'adamw'] = ...,
    lr: float = ...,
    momentum: float = ...,
    nesterov: bool = ...,
    weight_decay: float = ...,
    decay_weights_only: bool = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    schedule: Literal['constant', 'step', 'cosine', 'one-cycle'] = ...,
    warmup: float = ...,
    milestones: Sequence[float] = ...,
    factor: float = ...,
    peak: float = ...,
    augment: str = ...,
    order: Literal['shuffled', 'stored'] = ...,
    clip_norm: float = ...,
    average: float = ...,
    sync_bn: bool = ...,
    patience: int = ...,
    label_smoothing: float = ...,
    validation: float = ...,
    tensorboard: str = ...,
    log_every: int = ...,
    resume: bool = ...,
    fresh: bool = ...,
) -> results.Sparsified: ...

def train(
    model: Graph,
    samples: Any,
    *,
    runs: str | os.PathLike = ...,
    seed: int = ...,
    progress: Progress | None = ...,
    epochs: int = ...,
    batch: int = ...,
    optimizer: Literal['sgd', 'adam', 'adamw'] = ...,
    lr: float = ...,
    momentum: float = ...,
    nesterov: bool = ...,
    weight_decay: float = ...,
    decay_weights_only: bool = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    schedule: Literal['constant', 'step', 'cosine', 'one-cycle'] = ...,
    warmup: float = ...,
    milestones: Sequence[float] = ...,
    factor: float = ...,
    peak: float = ...,
    augment: str = ...,
    order: Literal['shuffled', 'stored'] = ...,
    clip_norm: float = ...,
    average: float = ...,
    sync_bn: bool = ...,
    patience: int = ...,
    label_smoothing: float = ...,
    validation: float = ...,
    tensorboard: str = ...,
    log_every: int = ...,
    resume: bool = ...,
    fresh: bool = ...,
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

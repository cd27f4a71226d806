"""What functions of the module return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._pare import Graph


@dataclass
class NodeCost:
    name: str
    op: str
    output: str  # type of its first output, "?" when not known
    parameters: int
    macs: int


@dataclass
class ChannelGroup:
    """Channels that layers make together: one layer's output, or a residual stream with all layers that add to it."""

    name: str
    channels: int
    removable: int
    reason: str  # why the others are not
    permutable: int
    blocks: int
    fixed_reason: str
    producers: list[str]
    consumers: list[str]


@dataclass
class Inspection:
    parameters: int
    statistics: int
    macs: int  # for one sample
    flops: int
    bytes: int
    complete: bool  # False: MACs are a lower bound
    nodes: list[NodeCost]
    groups: list[ChannelGroup]
    unknown_shapes: dict[str, str]


@dataclass
class Evaluation:
    """Metrics by name: top1, top5 and loss, or map, class-map, f1, macro-f1 and loss of several labels."""

    metrics: list[dict[str, float]]  # of each model, and of the ensemble last
    samples: int
    seconds: float

    def __getitem__(self, name: str) -> float:
        """The metric of the first model."""
        return self.metrics[0][name]


@dataclass
class Attribution:
    maps: np.ndarray  # [samples, height, width], as large as the layer or the input
    scores: np.ndarray  # [samples, classes]
    classes: np.ndarray  # what each map explains
    errors: np.ndarray | None  # of conservation, for methods that conserve


@dataclass
class Difference:
    name: str
    largest: float
    relative: float
    outside: int  # elements outside the tolerance
    nan: int  # elements that are NaN in both, which counts as the same
    problem: str  # types or shapes that differ

    @property
    def same(self) -> bool:
        return not self.problem and self.outside == 0


@dataclass
class Verification:
    outputs: list[Difference]

    @property
    def same(self) -> bool:
        return all(output.same for output in self.outputs)

    def __bool__(self) -> bool:
        return self.same


@dataclass
class NodeDiff:
    change: str  # same, changed, added or removed
    op: str
    a: dict[str, Any] | None
    b: dict[str, Any] | None
    what: str
    weight_distance: float


@dataclass
class GraphDiff:
    nodes: list[NodeDiff]
    inputs: list[dict[str, str]]

    def count(self, change: str) -> int:
        return sum(node.change == change for node in self.nodes)


@dataclass
class PrunedGroup:
    name: str
    total: int
    kept: int
    reason: str  # why it was left alone, or not cut as asked
    compensation: str  # what was done about the removed channels
    loss: float  # of the network's answer when this group alone is cut so, where that was measured


@dataclass
class Measured:
    parameters: int
    macs: int
    bytes: int
    metrics: dict[str, float]  # none without labels


@dataclass
class QuantizedLayer:
    name: str
    op: str
    weights: int  # how many
    bits: int  # of each; 32: left in float
    reason: str  # why it was left
    error: float  # squared, of its weights, relative to their squares
    divergence: float  # of the network's answer when it alone is quantised, where that was asked for


@dataclass
class Quantized:
    graph: Graph
    layers: list[QuantizedLayer]
    ranges: dict[str, tuple[float, float]]  # of activations, by the name of the value
    before: Measured
    after: Measured
    notes: list[str]
    seconds: float


@dataclass
class Pruned:
    graph: Graph
    criterion: str  # as it was used, where the options say "auto"
    scope: str
    compensate: str
    groups: list[PrunedGroup]
    before: Measured
    after: Measured
    notes: list[str]
    seconds: float


@dataclass
class CompressPoint:
    """A network on the way, as it was measured."""

    widths: dict[str, int]  # of groups that were cut
    macs: int
    parameters: int
    bytes: int
    latency: float  # seconds
    speed_up: float  # against the original in the same turns
    score: float | None  # on held-out samples
    drop: float
    interval: float  # half of the 95 % interval of the drop


@dataclass
class CompressStep:
    name: str  # original, pruned, int8
    measured: Measured
    latency: float  # seconds of a batch, in the same turns as the others


@dataclass
class Compressed:
    graph: Graph  # the original where nothing reached the goal
    reached: bool
    missed: str  # why not
    metric: str  # of scores: top1, agreement or closeness
    held_out: int
    runtime: str
    points: list[CompressPoint]  # the original first
    chosen: int  # among them
    steps: list[CompressStep]  # with int8: each for itself
    groups: list[PrunedGroup]
    before: Measured  # on samples that are neither learned from nor searched on, where there are such
    after: Measured
    notes: list[str]
    seconds: float


@dataclass
class Fusion:
    graph: Graph
    aligned: list[Graph]  # every model in the reference's shape
    shares: list[float]
    alignments: list[list[dict[str, Any]]] = field(repr=False)


@dataclass
class Training:
    graph: Graph
    history: list[dict[str, float]]  # one entry per epoch
    run: str  # its directory; empty where nothing is written


@dataclass
class Sparsified:
    graph: Graph
    masks: dict[str, np.ndarray] = field(repr=False)
    sparsity: float
    layers: list[dict[str, Any]]
    notes: list[str]

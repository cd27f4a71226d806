"""pare makes trained neural networks smaller without breaking them.

    import pare

    model = pare.load("model.onnx")
    print(pare.inspect(model).macs)
    print(pare.evaluate(model, (images, labels))["top1"])

A model is a `pare.Graph`, a value: functions take one and return another. Samples are an array, a pair of arrays
(images, labels), or any iterable of arrays or such pairs, a batch or one sample each: a generator, a list, a
`torch.utils.data.DataLoader`. NumPy arrays, PyTorch tensors and whatever else speaks DLPack are taken without a copy.
Options are keywords; `help(pare.fuse)` lists them. `progress(what, done, all)` is called as the work goes on: `done` of
`all` are finished. An exception that it raises ends the work, and so does Ctrl-C.
"""

from __future__ import annotations

import copyreg as _copyreg
import inspect as _signatures
import keyword as _keywords
import os
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from . import _pare, errors, results
from ._pare import Graph, __version__, set_threads
from .errors import Error

__all__ = [
    "Error",
    "Graph",
    "architectures",
    "build",
    "compress",
    "diff",
    "distill",
    "evaluate",
    "explain",
    "fuse",
    "inspect",
    "load",
    "prune",
    "quantize",
    "report",
    "run",
    "scan_quantization",
    "set_threads",
    "sparsify",
    "train",
    "verify",
]


def _from_onnx(data: bytes) -> Graph:
    return Graph.from_onnx(data)


_copyreg.pickle(Graph, lambda graph: (_from_onnx, (graph.to_onnx(21),)))

Progress = Callable[[str, int, int], None]


def architectures() -> list[str]:
    """The names of the architectures that `build` makes and that files of weights are read for."""
    return _pare.architectures()


def load(path: str | os.PathLike, **options: Any) -> Graph:
    """A model of a file: ONNX, or safetensors or a PyTorch checkpoint with `arch`."""
    return _pare.load(os.fspath(path), options)


def build(arch: str, *, seed: int = 0, **options: Any) -> Graph:
    """A fresh network of an architecture."""
    return _pare.build({"arch": arch, **options}, seed)


def inspect(model: Graph) -> results.Inspection:
    """What a model costs, in all and node by node, and which of its channels can be removed or may change places."""
    found = _pare.inspect(model)
    found["nodes"] = [results.NodeCost(**node) for node in found["nodes"]]
    found["groups"] = [results.ChannelGroup(**group) for group in found["groups"]]
    return results.Inspection(**found)


def run(model: Graph, *inputs: Any) -> list[np.ndarray]:
    """The outputs of one inference."""
    return _pare.run(model, list(inputs))


def evaluate(
    models: Graph | Sequence[Graph], samples: Any, *, progress: Progress | None = None, **options: Any
) -> results.Evaluation:
    """Accuracy of one model or of several on labelled samples. An iterable is read once, in bounded memory."""
    models = [models] if isinstance(models, Graph) else list(models)
    return results.Evaluation(**_pare.evaluate(models, samples, options, progress))


def explain(
    model: Graph,
    samples: Any,
    classes: int | Sequence[int] = (),
    *,
    batch: int = 32,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> results.Attribution:
    """What a model looks at: one map for each sample, of `classes` (one for each, or one for all) or of its top class.

    An iterable is read once, in memory for a batch and for the maps.
    """
    classes = [classes] if isinstance(classes, int) else [int(one) for one in classes]
    return results.Attribution(**_pare.explain(model, samples, classes, batch, seed, options, progress))


def verify(
    a: Graph, b: Graph, samples: Any = None, *, seed: int = 0, progress: Progress | None = None, **options: Any
) -> results.Verification:
    """Do two models compute the same, on these samples or on random ones? The result is true when they do."""
    if samples is not None and isinstance(samples, int):
        options["samples"], samples = samples, None
    outputs = _pare.verify(a, b, samples, seed, options, progress)
    return results.Verification([results.Difference(**output) for output in outputs])


def diff(a: Graph, b: Graph) -> results.GraphDiff:
    """What changed from one graph to another, node by node."""
    found = _pare.diff(a, b)
    return results.GraphDiff([results.NodeDiff(**node) for node in found["nodes"]], found["inputs"])


def compress(
    model: Graph,
    samples: Any,
    *,
    seed: int = 0,
    memory: str | os.PathLike = "",
    progress: Progress | None = None,
    **options: Any,
) -> results.Compressed:
    """Compresses towards a goal: one of `faster`, `latency`, `macs`, `params` and `bytes`, a `max_drop`, or both.

    Some `samples` are held out to judge by: by top-1 where they have labels, else by agreement with the model. Where a
    drop is exceeded, `reached` is False and `points` has what was tried. `memory` is a directory that keeps what was
    learned, so that the same call goes on from there.
    """
    found = _pare.compress(model, samples, seed, os.fspath(memory), _native(options), progress)
    found["groups"] = [results.PrunedGroup(**group) for group in found["groups"]]
    found["points"] = [results.CompressPoint(**point) for point in found["points"]]
    for step in found["steps"]:
        step["measured"] = results.Measured(**step["measured"])
    found["steps"] = [results.CompressStep(**step) for step in found["steps"]]
    found["before"], found["after"] = results.Measured(**found["before"]), results.Measured(**found["after"])
    return results.Compressed(**found)


def prune(
    model: Graph,
    samples: Any = None,
    *,
    widths: dict[str, int] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> results.Pruned:
    """Removes channels, and lets the kept ones take over from them.

    `samples` are what methods learn from, 256 of them unless `samples_used` says otherwise, and need no labels; with
    labels the model is measured on them before and after. Of an iterable the first 1,024 are read. Without samples
    images are made from the network itself, where a method needs any. One of `channels`, `params`, `macs` and `bytes` is the fraction to remove; `widths` says instead how many channels
    groups keep, by their names.
    """
    found = _pare.prune(model, samples, seed, widths or {}, _native(options), progress)
    found["groups"] = [results.PrunedGroup(**group) for group in found["groups"]]
    found["before"], found["after"] = results.Measured(**found["before"]), results.Measured(**found["after"])
    return results.Pruned(**found)


def fuse(
    models: Sequence[Graph],
    samples: Any = None,
    *,
    weights: Sequence[float] = (),
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> results.Fusion:
    """Several trained models made into one: aligned to a reference, averaged, repaired."""
    return results.Fusion(**_pare.fuse(list(models), samples, list(weights), seed, options, progress))


def train(
    model: Graph,
    samples: Any,
    *,
    runs: str | os.PathLike = "",
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> results.Training:
    """Trains a model on labelled samples, which are kept in memory.

    With `runs`, a directory, the run has a directory of its own there, and the same call goes on where it stopped.
    """
    return results.Training(**_pare.train(model, samples, os.fspath(runs), seed, options, progress))


def distill(
    student: Graph,
    teacher: Graph,
    samples: Any,
    *,
    runs: str | os.PathLike = "",
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> results.Training:
    """Trains a student that learns from a teacher, and looks where it looks."""
    return results.Training(**_pare.distill(student, teacher, samples, os.fspath(runs), seed, options, progress))


def sparsify(
    model: Graph,
    samples: Any,
    *,
    trained: bool = True,
    runs: str | os.PathLike = "",
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> results.Sparsified:
    """Sets weights to zero: those that a training finds, or those that samples without labels tell.

    The methods wanda and obs learn from 256 samples unless `samples_used` says otherwise and read no more than 1,024 of
    an iterable; the others train on all there are. `trained`: the weights are those of a trained network.
    """
    found = _pare.sparsify(model, samples, trained, os.fspath(runs), seed, _native(options), progress)
    return results.Sparsified(**found)


def quantize(
    model: Graph, samples: Any = None, *, seed: int = 0, progress: Progress | None = None, **options: Any
) -> results.Quantized:
    """Weights and activations as 8-bit integers (or weights as 4-bit ones), in ONNX's QDQ form.

    `samples` say how far activations range and let what rounding loses be made up for; they need no labels, with labels
    the model is measured on them before and after. Of an iterable the first 1,024 are read. Without samples images are
    made from the network itself.
    """
    return _quantized(model, samples, seed, False, options, progress)


def scan_quantization(
    model: Graph, samples: Any = None, *, seed: int = 0, progress: Progress | None = None, **options: Any
) -> list[results.QuantizedLayer]:
    """What each layer costs the network's answer when it alone is quantised, dearest first."""
    return _quantized(model, samples, seed, True, options, progress).layers


def _quantized(
    model: Graph, samples: Any, seed: int, scan: bool, options: dict, progress: Progress | None
) -> results.Quantized:
    found = _pare.quantize(model, samples, seed, scan, _native(options), progress)
    found["layers"] = [results.QuantizedLayer(**layer) for layer in found["layers"]]
    found["before"], found["after"] = results.Measured(**found["before"]), results.Measured(**found["after"])
    return results.Quantized(**found)


def report(
    runs: Iterable[str | os.PathLike], *, title: str = "pare report", note: Callable[[str], None] | None = None
) -> str:
    """One HTML page of what runs have found: run directories, directories of them, or records."""
    return _pare.report([os.fspath(run) for run in runs], title, note)


_LEARNING = ("prune", "compress", "sparsify", "quantize", "scan_quantization")


def _native(options: dict[str, Any]) -> dict[str, Any]:
    """Options as the library calls them."""
    return {"samples" if keyword == "samples_used" else keyword: value for keyword, value in options.items()}


def _options(name: str) -> list[tuple]:
    """What the library describes, under names that Python allows: lambda_ is the option `lambda`, and `samples` of
    methods that take samples themselves here is samples_used."""
    renamed = {"samples": "samples_used"} if name in _LEARNING else {}
    return [
        (f"{one[0]}_" if _keywords.iskeyword(one[0]) else renamed.get(one[0], one[0]), *one[1:])
        for one in _pare.options_of(name)
    ]


def _parameters(name: str, taken: set[str]) -> list[_signatures.Parameter]:
    """The options that the library describes for a function, as keyword parameters."""
    types = {bool: "bool", int: "int", float: "float", str: "str"}
    made = []
    for keyword, default, choices, _, annotation in _options(name):
        if keyword in taken:
            continue
        literal = f"Literal[{', '.join(repr(choice) for choice in choices)}]"
        kind = annotation or (literal if choices else types[type(default)])
        default = tuple(default) if isinstance(default, list) else default
        made.append(_signatures.Parameter(keyword, _signatures.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    return made


def _document(function: Callable) -> None:
    """Gives a function the signature and the help that the library has for its options."""
    own = _signatures.signature(function)
    fixed = [one for one in own.parameters.values() if one.kind is not _signatures.Parameter.VAR_KEYWORD]
    options = _parameters(function.__name__, {one.name for one in fixed} | ({"arch"} if function is build else set()))
    function.__signature__ = own.replace(parameters=fixed + options)  # type: ignore[attr-defined]
    names = {one.name for one in options}
    lines = [function.__doc__ or "", "", "Options:"]
    for keyword, default, choices, text, _ in _options(function.__name__):
        if keyword in names:
            among = f"; one of {', '.join(choice for choice in choices if choice)}" if choices else ""
            lines.append(f"    {keyword} = {default!r}: {text}{among}")
    function.__doc__ = "\n".join(lines)


for _function in (
    load, build, evaluate, explain, verify, compress, prune, fuse, train, distill, sparsify, quantize, scan_quantization
):  # fmt: skip
    _document(_function)

from typing import Any

import numpy as np

__version__: str

class Graph:
    """A model: ONNX operators in topological order over named values, with the tensors that it carries.

    A graph is a value: nothing changes it. Its tensors are read-only views of its memory.
    """

    @staticmethod
    def from_onnx(model: Any) -> Graph:
        """Of the bytes of an ONNX file, or of an onnx.ModelProto."""
    def to_onnx(self, opset: int = 13) -> bytes: ...
    def save(self, path: str, opset: int = 13, force: bool = False) -> list[str]:
        """Writes .onnx or .safetensors; returns what one should know of it."""
    def with_tensors(self, tensors: dict[str, Any]) -> Graph:
        """The same graph with other values of some tensors."""
    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> list[dict[str, Any]]: ...
    @property
    def outputs(self) -> list[dict[str, Any]]: ...
    @property
    def nodes(self) -> list[dict[str, Any]]: ...
    @property
    def tensors(self) -> dict[str, np.ndarray]: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    @property
    def parameters(self) -> int: ...
    @property
    def macs(self) -> int: ...

def set_threads(count: int) -> None: ...

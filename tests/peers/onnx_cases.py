#!/usr/bin/python3
"""Writes ONNX's newest node tests in the layout that `pare verify --test-data` reads.

usage: onnx_cases.py TREE OUT    TREE: a source tree of onnx/onnx (the folder with onnx/backend); OUT: a directory

The case files of the tree compute inputs and outputs with numpy and hand them to expect(). They are run here under Debian's
python3-onnx, which is older: its protobuf classes are used as they are, what it lacks is put in its place (the numbers of new
element types, the opset of every operator as the tree's tables have it, types that numpy does not have), and expect() is the
writer below. A case that cannot be computed so is counted and named. Nothing of the tree is kept but numbers.
"""
import ast
import importlib
import os
import pkgutil
import re
import sys
import types
import warnings

import numpy as np

DEBIAN = "/usr/lib/python3/dist-packages/onnx"
NEW_TYPES = {"FLOAT8E4M3FN": 17, "FLOAT8E4M3FNUZ": 18, "FLOAT8E5M2": 19, "FLOAT8E5M2FNUZ": 20, "UINT4": 21, "INT4": 22,
             "FLOAT4E2M1": 23, "FLOAT8E8M0": 24, "UINT2": 25, "INT2": 26}


class Anything(types.ModuleType):
    """A module that has whatever is asked of it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def put_module(name, **content):
    module = Anything(name)
    module.__path__ = []
    module.__dict__.update(content)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return module


def bits_of_bfloat16(x):
    """Rounded to nearest, halves to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def cast(x, dtype, **options):
    """x.astype(dtype), with the types that numpy lacks. Those of 8 bits and less that are no integers become zeros:
    what reads them is refused for their type, whatever they hold."""
    x = np.asarray(x)
    if x.dtype.names:
        name = x.dtype.names[0]
        x = (x[name].astype(np.uint32) << 16).view(np.float32) if name == "bfloat16" else x[name]
    if not (isinstance(dtype, np.dtype) and dtype.names):
        return x.astype(dtype, **options)
    name, base = dtype.names[0], dtype[0]
    if name == "bfloat16":
        stored = bits_of_bfloat16(x)
    elif "int" in name:
        bits, whole = int(name[-1]), np.trunc(x).astype(np.int64)
        stored = whole & (2**bits - 1)
        if not name.startswith("u"):
            stored = stored - ((stored >> (bits - 1)) << bits)
    else:
        stored = np.zeros(x.shape)
    return np.ascontiguousarray(stored.astype(base)).reshape(x.shape).view(dtype)


class Bounds:
    def __init__(self, dtype):
        name = np.dtype(dtype).names[0] if np.dtype(dtype).names else ""
        bits = int(name[-1]) if "int" in name else 0
        self.min = 0 if name.startswith("u") else -(2 ** (bits - 1)) if bits else -448.0
        self.max = 2**bits - 1 if name.startswith("u") else 2 ** (bits - 1) - 1 if bits else 448.0
        if not name:
            own = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else np.finfo(dtype)
            self.min, self.max = own.min, own.max


def make_array(make, *args, dtype, **options):
    """np.array(x, dtype=…) with the types that numpy lacks."""
    plain = not (isinstance(dtype, np.dtype) and dtype.names)
    return make(*args, dtype=dtype, **options) if plain else cast(make(*args, **options), dtype)


class CastCalls(ast.NodeTransformer):
    """x.astype(…) is cast(x, …), and np.array(x, dtype=…) is make_array(np.array, x, dtype=…)."""

    def visit_Call(self, node):  # pylint: disable=invalid-name
        self.generic_visit(node)
        makes = isinstance(node.func, ast.Attribute) and node.func.attr in ("array", "asarray")
        if makes and any(keyword.arg == "dtype" for keyword in node.keywords):
            return ast.copy_location(
                ast.Call(ast.Name("pare_array", ast.Load()), [node.func, *node.args], node.keywords), node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            return ast.copy_location(
                ast.Call(ast.Name("pare_cast", ast.Load()), [node.func.value, *node.args], node.keywords), node)
        return node


def run_module(path, name):
    """Imports a file with its casts replaced."""
    with open(path) as source:
        tree = CastCalls().visit(ast.parse(source.read(), path))
    module = types.ModuleType(name)
    module.__file__, module.__package__ = path, name.rpartition(".")[0]
    module.pare_cast, module.pare_array = cast, make_array
    sys.modules[name] = module
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), module.__dict__)  # pylint: disable=exec-used
    return module


def put_types():
    """Element types that numpy lacks: 16 bits or 8 bits with a name, enough to carry bytes."""
    names = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e4m3fnuz": np.uint8, "float8_e5m2": np.uint8,
             "float8_e5m2fnuz": np.uint8, "uint4": np.uint8, "int4": np.int8, "float4_e2m1fn": np.uint8,
             "float8_e8m0fnu": np.uint8, "uint2": np.uint8, "int2": np.int8}
    extensions = importlib.import_module("typing_extensions")
    extensions.deprecated = getattr(extensions, "deprecated", lambda *_, **__: lambda function: function)
    put_module("ml_dtypes", iinfo=Bounds, finfo=Bounds,
               **{name: np.dtype([(name, base)]) for name, base in names.items()})


class Schema:
    function_opset_versions = ()
    context_dependent_function_opset_versions = ()

    def __init__(self, since_version):
        self.since_version = since_version
        self.attributes = {}


def newest_opsets(tree):
    """The newest opset of every operator, from the tables of the tree."""
    opsets = {}
    domains = {"Onnx": "", "OnnxML": "ai.onnx.ml", "OnnxPreview": "ai.onnx.preview",
               "OnnxPreviewTraining": "ai.onnx.preview.training", "OnnxTraining": "ai.onnx.training"}
    folder = os.path.join(tree, "onnx", "defs")
    for file in os.listdir(folder):
        if not (file.startswith("operator_sets") and file.endswith(".h")):
            continue
        with open(os.path.join(folder, file)) as text:
            for domain, version, op in re.findall(r"CLASS_NAME\(\s*(\w+),\s*(\d+),\s*(\w+)\)", text.read()):
                key = (domains.get(domain, domain), op)
                opsets[key] = max(opsets.get(key, 0), int(version))
    return opsets


def put_native(tree):
    """What is native code in the package, as far as case files ask for it."""
    opsets = newest_opsets(tree)

    def get_schema(op, *rest, domain=""):
        numbers = [r for r in rest if isinstance(r, int)]
        texts = [r for r in rest if isinstance(r, str)]
        since = opsets.get((texts[0] if texts else domain, op))
        if since is None:
            raise LookupError(f"no operator {op}")
        return Schema(min([since, *numbers]))

    newest = max(version for (domain, _), version in opsets.items() if domain == "")
    put_module("onnx.onnx_cpp2py_export", ONNX_ML=True)
    for part in ("defs", "checker", "parser", "printer", "shape_inference", "version_converter", "inliner"):
        put_module("onnx.onnx_cpp2py_export." + part)
    defs = sys.modules["onnx.onnx_cpp2py_export.defs"]
    defs.get_schema = get_schema
    defs.has = lambda op, *rest, domain="": (domain, op) in opsets
    defs.get_all_schemas = lambda: []
    defs.get_all_schemas_with_history = lambda: []
    defs.schema_version_map = lambda: {"": (1, newest)}
    parts = ("FormalParameter", "Attribute", "TypeConstraintParam")
    defs.OpSchema = type("OpSchema", (), {part: type(part, (), {}) for part in parts})
    defs.SchemaError = LookupError


def put_package(tree):
    """A package `onnx`: modules of the tree, and Debian's generated ones where the tree has none."""
    package = types.ModuleType("onnx")
    package.__path__ = [os.path.join(tree, "onnx"), DEBIAN]
    package.__version__ = "0"
    sys.modules["onnx"] = package
    put_native(tree)
    pb = importlib.import_module("onnx.onnx_pb")
    data = importlib.import_module("onnx.onnx_data_pb")
    for name, number in NEW_TYPES.items():
        setattr(pb.TensorProto, name, number)
    for module in (pb, data):
        for name, value in vars(module).items():
            if not name.startswith("_"):
                setattr(package, name, value)
    package.ONNX_ML = True
    for name in ("serialization", "defs", "external_data_helper", "_mapping", "helper"):
        setattr(package, name, importlib.import_module("onnx." + name))
    path = os.path.join(tree, "onnx", "numpy_helper.py")
    package.numpy_helper = run_module(path, "onnx.numpy_helper")
    package.parser = put_module("onnx.parser")
    make_tensor = package.helper.make_tensor

    def make_any_tensor(name, data_type, dims, vals, raw=False):
        dtype = package.helper.tensor_dtype_to_np_dtype(data_type)
        if not raw and dtype.names:
            return make_tensor(name, data_type, dims, cast(np.asarray(vals), dtype).reshape(dims), raw=True)
        return make_tensor(name, data_type, dims, vals, raw)

    package.helper.make_tensor = make_any_tensor
    return package


class Writer:
    def __init__(self, onnx, out):
        self.onnx, self.out, self.names, self.skipped = onnx, out, set(), {}

    def type_of(self, value):
        helper = self.onnx.helper
        if isinstance(value, self.onnx.TensorProto):
            return helper.make_tensor_type_proto(value.data_type, list(value.dims))
        if isinstance(value, list):
            element = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value[0].dtype), None)
            return helper.make_sequence_type_proto(element)
        value = np.asarray(value)
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    def write_value(self, folder, name, value, type_proto):
        numpy_helper = self.onnx.numpy_helper
        if isinstance(value, self.onnx.TensorProto):
            proto = value
        elif type_proto.HasField("optional_type"):
            proto = numpy_helper.from_optional(value, name)
        elif isinstance(value, list):
            proto = numpy_helper.from_list(value, name)
        else:
            proto = numpy_helper.from_array(np.asarray(value), name)
        with open(os.path.join(self.out, folder, "test_data_set_0", name + ".pb"), "wb") as file:
            file.write(proto.SerializeToString())

    def expect(self, node, inputs, outputs, name, **options):
        helper = self.onnx.helper
        if name in self.names:
            raise ValueError("two cases are called " + name)
        types_in = options.pop("input_type_protos", None) or [None] * len(inputs)
        types_out = options.pop("output_type_protos", None) or [None] * len(outputs)
        types_in = [t if t is not None else self.type_of(v) for t, v in zip(types_in, inputs)]
        types_out = [t if t is not None else self.type_of(v) for t, v in zip(types_out, outputs)]
        infos = [[helper.make_value_info(n, t) for n, t in zip([x for x in names if x], types_)]
                 for names, types_ in ((node.input, types_in), (node.output, types_out))]
        graph = helper.make_graph(nodes=[node], name=name, inputs=infos[0], outputs=infos[1])
        if "opset_imports" not in options:
            since = self.onnx.defs.get_schema(node.op_type, domain=node.domain).since_version
            options["opset_imports"] = [helper.make_operatorsetid(node.domain, since)]
        model = helper.make_model_gen_version(graph, producer_name="onnx_cases", **options)
        os.makedirs(os.path.join(self.out, name, "test_data_set_0"), exist_ok=True)
        with open(os.path.join(self.out, name, "model.onnx"), "wb") as file:
            file.write(model.SerializeToString())
        for i, (value, type_proto) in enumerate(zip(inputs, types_in)):
            self.write_value(name, f"input_{i}", value, type_proto)
        for i, (value, type_proto) in enumerate(zip(outputs, types_out)):
            self.write_value(name, f"output_{i}", value, type_proto)
        self.names.add(name)

    def try_expect(self, node, inputs, outputs, name, **options):
        try:
            self.expect(node, inputs, outputs, name, **options)
        except Exception as error:  # pylint: disable=broad-except
            self.skipped[name] = f"{type(error).__name__}: {error}"


def run_cases(folder, package, writer):
    for entry in pkgutil.iter_modules([folder]):
        name = package + "." + entry.name
        if entry.ispkg:
            run_cases(os.path.join(folder, entry.name), name, writer)
            continue
        try:
            run_module(os.path.join(folder, entry.name + ".py"), name)
        except Exception as error:  # pylint: disable=broad-except
            writer.skipped[name] = f"{type(error).__name__}: {error}"


def put_cases(tree, writer):
    """The package of cases: base.Base runs every export_…() of a class, and one that fails does not stop the others."""

    class Exporter(type):
        def __init__(cls, name, bases, content):
            super().__init__(name, bases, content)
            for key, value in content.items():
                if not key.startswith("export") or not isinstance(value, staticmethod):
                    continue
                np.random.seed(seed=0)
                try:
                    value.__func__()
                except Exception as error:  # pylint: disable=broad-except
                    writer.skipped[f"{name}.{key}"] = f"{type(error).__name__}: {error}"

    case = os.path.join(tree, "onnx", "backend", "test", "case")
    for name, path in (("onnx.backend", ""), ("onnx.backend.test", ""), ("onnx.backend.test.case", case),
                       ("onnx.backend.test.case.node", os.path.join(case, "node"))):
        module = types.ModuleType(name)
        module.__path__ = [path] if path else []
        sys.modules[name] = module
    sys.modules["onnx.backend.test.case.node"].expect = writer.try_expect
    base = types.ModuleType("onnx.backend.test.case.base")
    base.Base = Exporter("Base", (), {})
    sys.modules[base.__name__] = base
    run_cases(os.path.join(case, "node"), "onnx.backend.test.case.node", writer)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    tree, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if not os.path.isdir(os.path.join(tree, "onnx", "backend", "test", "case", "node")):
        sys.exit(f"{tree} holds no onnx/backend/test/case/node")
    sys.path = [path for path in sys.path if os.path.abspath(path or ".") not in (tree, os.getcwd())]
    put_types()
    writer = Writer(put_package(tree), out)
    put_cases(tree, writer)
    for name, reason in writer.skipped.items():
        print(f"not written: {name}: {reason[:160]}")
    print(f"{len(writer.names)} cases written, {len(writer.skipped)} not")


if __name__ == "__main__":
    main()

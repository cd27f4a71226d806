// ONNX files that nobody means well with, written byte by byte: node make_hostile.mjs DIRECTORY
import fs from "node:fs";
import path from "node:path";

// --- protobuf ---------------------------------------------------------------------------------------------------------
const varint = (number) => {
  const bytes = [];
  for (let n = BigInt.asUintN(64, BigInt(number)); ; n >>= 7n) {
    bytes.push(Number(n & 127n) | (n > 127n ? 128 : 0));
    if (n <= 127n) return Buffer.from(bytes);
  }
};
const int = (field, number) => Buffer.concat([varint(field << 3), varint(number)]);
const part = (field, bytes) => Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes]);
const text = (field, string) => part(field, Buffer.from(string, "latin1")); // one byte a character
const message = (field, ...parts) => part(field, Buffer.concat(parts));

// --- ONNX -------------------------------------------------------------------------------------------------------------
const FLOAT = 1, INT64 = 7, HALF = 10;
const value = (field, name, dims, type = FLOAT) =>
  message(field, text(1, name), message(2, message(1, int(1, type), message(2, ...dims.map((d) => message(1, int(1, d)))))));
const input = (...args) => value(11, ...args);
const output = (...args) => value(12, ...args);
const node = (op, inputs, outputs, { name = op, domain = "", attributes = [] } = {}) =>
  message(1, ...inputs.map((i) => text(1, i)), ...outputs.map((o) => text(2, o)), text(3, name), text(4, op),
    ...attributes, text(7, domain));
const attribute = (name, number) => message(5, text(1, name), int(3, number), int(20, 2));
const body = (name, ...parts) => message(5, text(1, name), message(6, text(2, name), ...parts), int(20, 5));
const tensor = (name, type, dims, ...data) => message(5, ...dims.map((d) => int(1, d)), int(2, type), ...data, text(8, name));
const floats = (name, dims) => tensor(name, FLOAT, dims, part(9, Buffer.alloc(4 * dims.reduce((a, b) => a * b, 1), 1)));
const ints = (name, numbers, dims = [numbers.length]) => tensor(name, INT64, dims, ...numbers.map((n) => int(7, n)));
const outside = (name, dims, location) =>
  tensor(name, FLOAT, dims, message(13, text(1, "location"), text(2, location)), int(14, 1));
const model = (graph, { opset = 13, extra = [] } = {}) =>
  Buffer.concat([int(1, 8), message(8, text(1, ""), int(2, opset)), message(7, text(2, "g"), ...graph), ...extra]);

const doubling = (first, steps) => {
  const nodes = [];
  for (let i = 0; i < steps; ++i)
    nodes.push(node("Concat", [i ? `c${i - 1}` : first, i ? `c${i - 1}` : first], [`c${i}`], { name: `double${i}`, attributes: [attribute("axis", 1)] }));
  return nodes;
};
const steer = "\x1b]0;owned\x07\x1b[31m\xc2\x9b31m\xe2\x80\xae\x7f\xff\npare: all is well";
const smallest = -(2n ** 63n);

const files = {
  "escapes.onnx": model([
    input(`in${steer}`, [1, 4]), output(`out${steer}`, [1, 3]), floats(`w${steer}`, [4, 3]),
    node("MatMul", [`in${steer}`, `w${steer}`], [`out${steer}`], { name: `node${steer}` })]),
  "escapes_unknown.onnx": model([input("x", [1, 4]), output("y", [1, 4]), node(`Op${steer}`, ["x"], ["y"], { name: `node${steer}` })]),
  "escapes_error.onnx": model([input("x", [1, 4]), output(`absent${steer}`, [1, 4]), node("Relu", ["x"], ["y"])]),
  "pipe_data.onnx": model([input("x", [4]), output("y", [4]), outside("w", [4], "pipe.bin"), node("Add", ["x", "w"], ["y"])]),
  "constant_doubling.onnx": model([
    input("x", [1, 1]), output("y", [1, 1]), floats("w", [1, 1024]), ...doubling("w", 34),
    node("ReduceSum", ["c33"], ["s"]), node("Add", ["x", "s"], ["y"])]),
  "channel_doubling.onnx": model([
    input("x", [1, 4]), output("y", [1, 8 * 2 ** 34]), floats("w", [4, 8]), node("MatMul", ["x", "w"], ["h"]), ...doubling("h", 34),
    node("Relu", ["c33"], ["y"])]),
  "constant_of_shape.onnx": model([
    input("x", [1]), output("y", [1]), ints("shape", [2n ** 31n, 2]), node("ConstantOfShape", ["shape"], ["c"]),
    node("ReduceSum", ["c"], ["s"]), node("Add", ["x", "s"], ["y"])]),
  "exabytes.onnx": model([input("x", [2n ** 30n, 2n ** 30n]), output("y", [2n ** 30n, 2n ** 30n]), node("Relu", ["x"], ["y"])]),
  "scalar_concat.onnx": model([
    input("x", [1]), output("y", [1]), floats("a", []), node("Concat", ["a", "a"], ["c"], { attributes: [attribute("axis", 0)] }),
    node("Add", ["x", "c"], ["y"])]),
  "scalar_split.onnx": model([
    input("x", []), output("a", []), output("b", []), node("Split", ["x"], ["a", "b"], { attributes: [attribute("axis", 0)] })]),
  "attribute.onnx": model([
    input("x", [1, 4]), output("y", [1, 4]), node("Relu", ["x"], ["y"], { name: "first", attributes: [attribute("slope", 3)] })]),
  "celu_half.onnx": model([input("x", [1, 4], HALF), output("y", [1, 4], HALF), node("Celu", ["x"], ["y"])]),
  "smallest.onnx": model([
    input("x", [1], INT64), output("y", [1], INT64), ints("a", [smallest]), ints("b", [-1]),
    node("Div", ["a", "b"], ["q"]), node("Mod", ["a", "b"], ["r"]), node("Add", ["q", "r"], ["s"]), node("Add", ["x", "s"], ["y"])]),
  "by_zero.onnx": model([
    input("x", [1], INT64), output("y", [1], INT64), ints("a", [1]), ints("b", [0]), node("Div", ["a", "b"], ["q"], { name: "ratio" }),
    node("Add", ["x", "q"], ["y"])]),
};
for (const [name, bytes] of Object.entries(files)) fs.writeFileSync(path.join(process.argv[2], name), bytes);

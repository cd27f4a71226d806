// Builds a Graph layer by layer, with PyTorch's names: a layer called `conv1` becomes a node `conv1` with the tensors
// `conv1.weight` and `conv1.bias`, and makes a value `conv1`. Shapes are followed, so a layer asks only for its
// outputs. Parameters are zero until zoo/init.h fills them. Layers of transformers are in zoo/tokens.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pare/graph.h"

namespace pare {

// A value under construction, with its shape but for the batch: {channels, height, width} or {features}.
struct BuiltValue {
  std::string name;
  std::vector<int64_t> shape;
  int64_t channels() const { return shape.front(); }
};

struct ConvOptions {
  int64_t stride = 1;
  int64_t pad = 0;
  int64_t groups = 1;
  bool bias = false;
};

struct PoolOptions {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t pad = 0;
};

class GraphBuilder {
 public:
  GraphBuilder(std::string name, std::vector<int64_t> input_shape, at::ScalarType type = at::kFloat);
  BuiltValue input() const;

  BuiltValue conv(const BuiltValue& x, const std::string& name, int64_t out, int64_t kernel, ConvOptions options = {});
  BuiltValue batch_norm(const BuiltValue& x, const std::string& name);
  BuiltValue linear(const BuiltValue& x, const std::string& name, int64_t out, bool bias = true);
  // `kind` is a name of ArchOptions::activation; Error{usage} for any other.
  BuiltValue activation(const BuiltValue& x, const std::string& name, const std::string& kind);
  BuiltValue relu(const BuiltValue& x, const std::string& name) { return activation(x, name, "relu"); }
  BuiltValue max_pool(const BuiltValue& x, const std::string& name, PoolOptions options = {});
  BuiltValue average_pool(const BuiltValue& x, const std::string& name, PoolOptions options = {});
  BuiltValue global_average_pool(const BuiltValue& x, const std::string& name);
  BuiltValue flatten(const BuiltValue& x, const std::string& name = "flatten");
  BuiltValue dropout(const BuiltValue& x, const std::string& name, double ratio);  // x itself when the ratio is 0
  BuiltValue add(const BuiltValue& a, const BuiltValue& b, const std::string& name);
  // x[:, :, ::stride, ::stride]
  BuiltValue subsample(const BuiltValue& x, const std::string& name, int64_t stride);
  // Zero channels before and after those of x.
  BuiltValue pad_channels(const BuiltValue& x, const std::string& name, int64_t before, int64_t after);

  // Values with the same extents but along `axis`, one after the other.
  BuiltValue concat(const std::vector<BuiltValue>& parts, const std::string& name, size_t axis = 0);

  // Any node with one output, which has its name.
  BuiltValue append(Node node, std::vector<int64_t> shape);
  std::string parameter(const std::string& name, const std::vector<int64_t>& shape);
  std::string constant(const std::string& name, const std::vector<int64_t>& values);
  std::string constant(const std::string& name, const at::Tensor& value);

  // The graph with `x` as its output, which is then called "logits".
  Graph finish(const BuiltValue& x) &&;

 private:
  BuiltValue pool(const BuiltValue& x, const std::string& name, std::string_view op, PoolOptions options);

  Graph graph_;
};

}  // namespace pare

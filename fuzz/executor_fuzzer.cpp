// Valid but odd graphs, made of the fuzzer's bytes: every operator that pare knows, over tensors of all types, of rank
// 0 and of empty extents, with attributes that are negative, huge or of the wrong kind. A graph is read, simplified,
// analysed, run and written within little memory; whatever is wrong with it gives an Error. A crash, a report of a
// sanitizer, any other exception and a run that does not end are faults. PARE_FUZZ_PRINT shows graphs and errors.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Logging.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <onnx/onnx_pb.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <string>

#include "pare/analysis/channels.h"
#include "pare/analysis/cost.h"
#include "pare/core/memory.h"
#include "pare/error.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/write.h"
#include "pare/ops/op.h"
#include "pare/passes/remove_channels.h"
#include "pare/passes/simplify.h"
#include "pare/run.h"

namespace {

using onnx::AttributeProto;
using onnx::TensorProto;

constexpr uint64_t kMemory = 32 << 20;

// What attributes of these names hold; all others hold an integer.
constexpr std::string_view kReals[] = {"alpha",         "beta",
                                       "gamma",         "epsilon",
                                       "momentum",      "bias",
                                       "lambd",         "low",
                                       "high",          "mean",
                                       "scale",         "cubic_coeff_a",
                                       "ratio",         "extrapolation_value",
                                       "clip",          "softcap",
                                       "spatial_scale", "mask_filter_value"};
constexpr std::string_view kLists[] = {"axes",      "perm",         "pads",           "strides",
                                       "dilations", "kernel_shape", "output_padding", "output_shape"};
const std::map<std::string_view, std::vector<const char*>> kTexts = {
    {"mode",
     {"constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "bilinear", "bicubic", "DCR", "CRD"}},
    {"auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}},
    {"padding_mode", {"zeros", "border", "reflection"}},
    {"coordinate_transformation_mode",
     {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_crop_and_resize", "half_pixel_symmetric"}},
    {"nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}},
    {"keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"}},
    {"reduction", {"none", "add", "mul", "max", "min", "mean", "sum"}},
    {"direction", {"LEFT", "RIGHT", "forward", "reverse", "bidirectional"}},
    {"update_rule", {"linear", "gated", "delta", "gated_delta"}},
    {"activation", {"none", "silu", "Relu", "Clip"}},
    {"approximate", {"none", "tanh"}},
    {"equation", {"ij,jk->ik", "...ij,...jk->...ik", "ii->i", "i->", "ij", "->", "i,j", "ij->ji", ",", "i...->..."}},
};

template <size_t size>
bool listed(const std::string_view (&names)[size], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

class GraphMaker {
 public:
  explicit GraphMaker(FuzzedDataProvider& bytes) : bytes_(bytes) {}

  onnx::ModelProto make() {
    model_.set_ir_version(13);
    auto* opset = model_.add_opset_import();
    opset->set_version(bytes_.ConsumeBool() ? 28 : bytes_.ConsumeIntegralInRange(1, 28));
    model_.mutable_graph()->set_name("g");
    base_ = extents();
    for (int i = bytes_.ConsumeIntegralInRange(0, 2); i >= 0; --i) add_input();
    for (int i = bytes_.ConsumeIntegralInRange(0, 5); i >= 0; --i) add_tensor();
    if (bytes_.ConsumeBool()) add_convolution();
    for (int i = bytes_.ConsumeIntegralInRange(0, 6); i >= 0; --i) add_node();
    for (int i = bytes_.ConsumeIntegralInRange(0, 2); i >= 0; --i) add_output();
    return model_;
  }

 private:
  // Small as a rule, sometimes at an edge of what can be.
  int64_t integer() {
    constexpr int64_t odd[] = {INT64_MIN,        INT64_MIN + 1, INT32_MIN,        -7,      INT32_MAX, INT64_MAX, 1000,
                               int64_t{1} << 31, 1 << 16,       int64_t{1} << 62, 1 << 24, -2};
    const int kind = bytes_.ConsumeIntegralInRange(0, 15);
    if (kind == 0) return bytes_.PickValueInArray(odd);
    return kind < 4 ? bytes_.ConsumeIntegralInRange<int64_t>(-4, 8) : bytes_.ConsumeIntegralInRange<int64_t>(-1, 2);
  }
  float real() {
    constexpr float odd[] = {0.0F, -0.0F, 1e30F, -1e30F, 1e-30F, INFINITY, -INFINITY, NAN};
    return bytes_.ConsumeIntegralInRange(0, 5) == 0 ? bytes_.PickValueInArray(odd)
                                                    : bytes_.ConsumeFloatingPointInRange(-4.0F, 4.0F);
  }
  int32_t type() {
    constexpr int32_t types[] = {1, 7, 7, 6, 9, 10, 11, 16, 2, 3, 5, 4, 12, 21, 22};
    return bytes_.ConsumeIntegralInRange(0, 3) != 0 ? 1 : bytes_.PickValueInArray(types);
  }
  // Often those that other values have too, so that operands fit together.
  std::vector<int64_t> extents() {
    if (!base_.empty() && bytes_.ConsumeBool()) return base_;
    std::vector<int64_t> dims;
    for (int i = bytes_.ConsumeIntegralInRange(0, 5); i > 0; --i)
      dims.push_back(bytes_.ConsumeIntegralInRange<int64_t>(bytes_.ConsumeBool() ? 0 : 1, 4));
    return dims;
  }
  std::string name() { return "v" + std::to_string(values_.size()); }

  void add_input() {
    auto& input = *model_.mutable_graph()->add_input();
    input.set_name(name());
    auto& tensor = *input.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type());
    tensor.mutable_shape();
    for (const int64_t dim : extents()) {
      auto& extent = *tensor.mutable_shape()->add_dim();
      const int kind = bytes_.ConsumeIntegralInRange(0, 30);
      if (kind == 0 && tensor.shape().dim_size() == 1)
        extent.set_dim_param("N");
      else
        extent.set_dim_value(kind == 1 ? integer() : dim);
    }
    values_.push_back(input.name());
  }

  // A layer that makes channels, on an input of its own.
  void add_convolution() {
    auto& input = *model_.mutable_graph()->add_input();
    input.set_name(name());
    values_.push_back(input.name());
    input.mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
    for (const int64_t dim : {1, 4, 6, 6})
      input.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(dim);
    auto& weight = *model_.mutable_graph()->add_initializer();
    weight.set_name(name());
    values_.push_back(weight.name());
    weight.set_data_type(TensorProto::FLOAT);
    for (const int64_t dim : {4, 4, 3, 3}) weight.add_dims(dim);
    for (int i = 0; i < 144; ++i) weight.add_float_data(0.1F * static_cast<float>(i % 7 - 3));
    auto& node = *model_.mutable_graph()->add_node();
    node.set_op_type("Conv");
    node.add_input(input.name());
    node.add_input(weight.name());
    node.add_output(name());
    values_.push_back(node.output(0));
  }

  void fill(TensorProto& tensor, const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    for (const int64_t dim : dims) tensor.add_dims(dim);
    if (tensor.data_type() > TensorProto::BFLOAT16) {  // of four bits, two to a byte
      std::string packed = bytes_.ConsumeBytesAsString(static_cast<size_t>((count + 1) / 2));
      packed.resize(static_cast<size_t>((count + 1) / 2));
      tensor.set_raw_data(packed);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      switch (tensor.data_type()) {
        case TensorProto::FLOAT: tensor.add_float_data(real()); break;
        case TensorProto::DOUBLE: tensor.add_double_data(real()); break;
        case TensorProto::INT64: tensor.add_int64_data(integer()); break;
        case TensorProto::FLOAT16:
        case TensorProto::BFLOAT16: tensor.add_int32_data(bytes_.ConsumeIntegral<uint16_t>()); break;
        case TensorProto::BOOL: tensor.add_int32_data(bytes_.ConsumeBool()); break;
        case TensorProto::UINT32: tensor.add_uint64_data(bytes_.ConsumeIntegral<uint32_t>()); break;
        case TensorProto::INT32: tensor.add_int32_data(static_cast<int32_t>(integer())); break;
        default: tensor.add_int32_data(bytes_.ConsumeIntegralInRange(0, 100)); break;
      }
    }
  }

  void add_tensor() {
    auto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name());
    const bool list = bytes_.ConsumeBool();  // what shapes, axes and indices are
    tensor.set_data_type(list ? TensorProto::INT64 : type());
    fill(tensor, list ? std::vector<int64_t>{bytes_.ConsumeIntegralInRange<int64_t>(0, 5)} : extents());
    values_.push_back(tensor.name());
    if (list) lists_.push_back(tensor.name());
  }

  void add_attribute(onnx::NodeProto& node, std::string_view name) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(std::string(name));
    const auto texts = kTexts.find(name);
    const bool odd = bytes_.ConsumeIntegralInRange(0, 30) == 0;
    if (name == "value") {
      attribute.set_type(AttributeProto::TENSOR);
      attribute.mutable_t()->set_data_type(type());
      fill(*attribute.mutable_t(), odd ? extents() : std::vector<int64_t>{1});
    } else if (texts != kTexts.end()) {
      attribute.set_type(AttributeProto::STRING);
      const auto& choices = texts->second;
      attribute.set_s(choices[bytes_.ConsumeIntegralInRange<size_t>(0, choices.size() - 1)]);
    } else if (listed(kReals, name) != odd) {
      attribute.set_type(AttributeProto::FLOAT);
      attribute.set_f(real());
    } else if (listed(kLists, name) != odd) {
      attribute.set_type(AttributeProto::INTS);
      for (int i = bytes_.ConsumeIntegralInRange(0, 6); i > 0; --i) attribute.add_ints(integer());
    } else {
      attribute.set_type(AttributeProto::INT);
      attribute.set_i(integer());
    }
  }

  void add_node() {
    const auto ops = pare::all_ops();
    const pare::OpDef& op = *ops[bytes_.ConsumeIntegralInRange<size_t>(0, ops.size() - 1)];
    if (op.type.starts_with("pare.")) return;
    auto& node = *model_.mutable_graph()->add_node();
    const size_t dot = op.type.rfind('.');
    node.set_op_type(std::string(op.type.substr(dot == op.type.npos ? 0 : dot + 1)));
    if (dot != op.type.npos) node.set_domain(std::string(op.type.substr(0, dot)));
    const auto most = std::min(op.max_inputs, op.min_inputs + 2);
    const auto count = bytes_.ConsumeIntegralInRange<size_t>(op.min_inputs, most);
    for (size_t i = 0; i < count; ++i) {
      const int kind = bytes_.ConsumeIntegralInRange(0, 9);
      const auto& from = i > 0 && kind < 4 && !lists_.empty() ? lists_ : values_;
      // The newest values more often: long chains.
      const size_t back = kind == 9 ? from.size() : std::min<size_t>(from.size(), i == 0 && kind < 6 ? 1 : 4);
      node.add_input(i > 0 && kind == 8 ? ""
                                        : from[from.size() - 1 - bytes_.ConsumeIntegralInRange<size_t>(0, back - 1)]);
    }
    for (std::string_view rest = op.attributes; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      if (bytes_.ConsumeBool()) add_attribute(node, rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    constexpr std::string_view several[] = {"Split", "TopK",      "Dropout", "MaxPool",        "BatchNormalization",
                                            "LSTM",  "Attention", "Unique",  "LinearAttention"};
    for (int i = listed(several, op.type) ? bytes_.ConsumeIntegralInRange(1, 3) : 1; i > 0; --i) {
      node.add_output(name());
      values_.push_back(node.output(node.output_size() - 1));
    }
  }

  void add_output() {
    auto& output = *model_.mutable_graph()->add_output();
    output.set_name(values_[values_.size() - 1 -
                            bytes_.ConsumeIntegralInRange<size_t>(0, std::min<size_t>(values_.size(), 3) - 1)]);
    output.mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  }

  FuzzedDataProvider& bytes_;
  onnx::ModelProto model_;
  std::vector<int64_t> base_;
  std::vector<std::string> values_;
  std::vector<std::string> lists_;  // those of them that are integers in a row
};

bool printing() {
  static const bool asked = std::getenv("PARE_FUZZ_PRINT") != nullptr;
  return asked;
}

// Runs a step; what is wrong with the graph is an Error and nothing else.
template <typename Step>
bool succeeds(const char* what, Step step) {
  try {
    step();
    return true;
  } catch (const pare::Error& error) {
    if (printing()) std::fprintf(stderr, "%s: %s\n", what, error.what());
    return false;
  }
}

// Half of the channels of every group that may lose some.
std::set<pare::ChannelId> some_channels(const pare::ChannelMap& map) {
  std::set<pare::ChannelId> removed;
  for (const auto& group : map.groups)
    for (size_t i = 1; i < group.channels.size(); i += 2)
      if (!map.sets.frozen(static_cast<int64_t>(group.channels[i]))) removed.insert(group.channels[i]);
  return removed;
}

void run(const pare::Graph& graph) {
  const at::NoGradGuard no_grad;
  pare::Program program(graph);
  program.run(pare::random_inputs(graph, 1, 0));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*words*/) {
  at::set_num_threads(1);
  pare::set_memory_limit(kMemory);
  c10::SetStackTraceFetcher([] { return std::string(); });  // nobody reads them, and each takes milliseconds
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider bytes(data, size);
  const onnx::ModelProto model = GraphMaker(bytes).make();
  const std::string file = model.SerializeAsString();
  if (printing()) std::fprintf(stderr, "%s\n", model.DebugString().c_str());
  pare::Graph graph;
  if (!succeeds("read", [&] {
        graph = pare::read_onnx_bytes({reinterpret_cast<const std::byte*>(file.data()), file.size()}, "input");
      }))
    return 0;
  succeeds("run as read", [&] { run(graph); });
  if (!succeeds("simplify", [&] { graph = pare::simplify(graph); })) return 0;
  succeeds("write", [&] { pare::to_onnx_bytes(graph); });
  succeeds("run", [&] { run(graph); });
  succeeds("channels", [&] {
    const pare::ChannelMap map = pare::analyze_channels(graph);
    pare::cost_of(graph, map.shapes);
    run(pare::remove_channels(graph, map, some_channels(map)));
  });
  return 0;
}

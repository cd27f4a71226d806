#include "pare/exec/bodies.h"

#include "pare/error.h"
#include "pare/io/onnx/body.h"
#include "pare/run.h"

namespace pare {

NodeBodies::NodeBodies(const Graph& graph, const Node& node) : node_(node) {
  scope_.name = graph.name;
  scope_.domains = graph.domains;
  scope_.source_opset = graph.source_opset;
}

NodeBodies::~NodeBodies() = default;

std::shared_ptr<const Program> NodeBodies::ready(const std::string& attribute, std::span<const at::Tensor> all) {
  Key key{attribute, {}};
  for (const auto& tensor : all) key.second.push_back(tensor.scalar_type());
  const std::lock_guard lock(mutex_);
  auto& program = programs_[key];
  if (!program) program = std::make_shared<const Program>(read_typed_body(scope_, node_, attribute, key.second));
  return program;
}

std::vector<at::Tensor> NodeBodies::run(const std::string& attribute, std::span<const at::Tensor> inputs,
                                        std::span<const at::Tensor> captured) {
  std::vector<at::Tensor> all(inputs.begin(), inputs.end());
  all.insert(all.end(), captured.begin(), captured.end());
  for (const auto& tensor : all)
    if (!tensor.defined())
      throw Error(ErrorKind::format, describe(node_), "gives its subgraph a value that is not there");
  return ready(attribute, all)->run(all).outputs;
}

}  // namespace pare

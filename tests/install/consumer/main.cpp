// A program that uses the installed package: one architecture, and how much it carries.
#include <pare/pare.h>

#include <cstdio>

int main() {
  const pare::Graph graph = pare::build(pare::ModelOptions{.arch = "lenet-300-100"});
  std::printf("pare %s: %s has %zu nodes and %zu tensors\n", pare::kVersion, graph.name.c_str(), graph.nodes.size(),
              graph.tensors.size());
  pare::save(graph, "consumer.onnx", {.force = true});
  return graph.tensors.empty() ? 1 : 0;
}

// A program that uses the installed package: one architecture of the zoo, and how much it carries.
#include <cstdio>

#include "pare/core/version.h"
#include "pare/zoo/zoo.h"

int main() {
  const pare::Graph graph = pare::build("lenet-300-100");
  std::printf("pare %s: %s has %zu nodes and %zu tensors\n", pare::kVersion, graph.name.c_str(), graph.nodes.size(),
              graph.tensors.size());
  return graph.tensors.empty() ? 1 : 0;
}

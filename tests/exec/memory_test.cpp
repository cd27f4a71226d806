// Small graphs that ask for much memory, and what a run says of them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/core/memory.h"
#include "pare/error.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

struct LittleMemory : testing::Test {
  LittleMemory() { set_memory_limit(64 << 20); }
  ~LittleMemory() override { set_memory_limit(0); }
};

std::string failure(const Graph& graph) {
  try {
    const at::NoGradGuard no_grad;
    forward(graph, random_inputs(graph, 1, 0));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::memory) << error.what();
    return error.what();
  }
  return "no error";
}

TEST_F(LittleMemory, NamesTheNodeAndTheSize) {
  TestGraph g;
  const auto x = g.input("x", {1});
  const Graph graph = g.finish(g.relu(g.node("Expand", {x, g.integers({1 << 30})})));
  const std::string said = failure(graph);
  EXPECT_NE(said.find("'Relu1'"), std::string::npos) << said;
  EXPECT_NE(said.find("needs 8.6 GB"), std::string::npos) << said;
}

TEST_F(LittleMemory, ChainsOfDoublingEndAtTheLimit) {
  TestGraph g;
  auto x = g.input("x", {1, 16});
  for (int i = 0; i < 40; ++i) x = g.node("Concat", {x, x}, {{"axis", int64_t{1}}});
  const std::string said = failure(g.finish(x));
  EXPECT_NE(said.find("(Concat)"), std::string::npos) << said;
  EXPECT_NE(said.find("needs 67.1 MB"), std::string::npos) << said;
}

TEST_F(LittleMemory, InputsLargerThanAnyMemory) {
  TestGraph g;
  const auto x = g.input("x", {int64_t{1} << 31, int64_t{1} << 29});
  const Graph graph = g.finish(g.relu(x));
  const std::string said = failure(graph);
  EXPECT_NE(said.find("input 'x'"), std::string::npos) << said;
  TestGraph h;
  const auto y = h.input("y", {int64_t{1} << 40, int64_t{1} << 40});
  EXPECT_NE(failure(h.finish(h.relu(y))).find("larger than any memory"), std::string::npos);
}

}  // namespace
}  // namespace pare

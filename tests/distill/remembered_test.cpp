#include "pare/distill/remembered.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "attribute/nets.h"
#include "pare/passes/for_inference.h"

namespace pare {
namespace {

// Images that come again in other batches are not computed again, and those that are missing are.
TEST(RememberedOutputs, AreThoseOfTheProgram) {
  const Program program(for_inference(plain_net({.bias = true, .batch_norm = true, .seed = 11})));
  const at::Tensor all = images(10);
  for (const int64_t most : {int64_t{1} << 20, int64_t{100}}) {  // the second is too little for all
    RememberedOutputs remembered(most);
    for (const std::vector<int64_t>& chosen :
         {std::vector<int64_t>{0, 1, 2}, {2, 1, 0}, {9, 2, 4, 1}, {5, 6, 7, 8, 3}, {0, 3, 9}}) {
      const at::Tensor samples = at::tensor(chosen, at::kLong);
      const at::Tensor images = all.index_select(0, samples);
      const Batch batch{.images = images, .samples = samples, .total = 10};
      const auto outputs = remembered.of(program, images, batch);
      EXPECT_LT(largest(outputs[0] - program.run({&images, 1}).outputs[0]), 1e-12);
    }
    // What was known is not computed: other images at known places go unseen, unless nothing is remembered.
    const at::Tensor samples = at::tensor({0, 1}, at::kLong);
    const at::Tensor others = all.slice(0, 5, 7);
    const at::Tensor found = remembered.of(program, others, {.images = others, .samples = samples, .total = 10})[0];
    const at::Tensor place = most > 1000 ? all.slice(0, 0, 2) : others;
    EXPECT_LT(largest(found - program.run({&place, 1}).outputs[0]), 1e-12);
    // Changed images have no place.
    const at::Tensor changed = remembered.of(program, others, {.images = others, .total = 10})[0];
    EXPECT_LT(largest(changed - program.run({&others, 1}).outputs[0]), 1e-12);
  }
}

}  // namespace
}  // namespace pare

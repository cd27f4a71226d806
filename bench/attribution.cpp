// Throughput of attribution on a network of the zoo: `attribution ARCH METHOD IMAGES THREADS` prints, once for each
// line that it reads, the images per second of the method and of a plain forward and backward to the input.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>

#include "pare/attribute/explained.h"
#include "pare/attribute/gradients.h"
#include "pare/explain.h"
#include "pare/run.h"
#include "pare/zoo/zoo.h"

namespace {

double rate(int64_t images, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return static_cast<double>(images) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  constexpr int64_t kBatch = 50;
  const int64_t count = std::stoll(argv[3]);
  at::set_num_threads(std::stoi(argv[4]));
  at::globalContext().setFlushDenormal(true);
  const pare::Graph model = pare::build(argv[1]);
  const pare::Attributor attributor(model, {.method = argv[2]});
  const pare::Program program(pare::explained_graph(model));
  const auto& dims = *model.inputs[0].dims;
  const at::Tensor images = at::rand({count, dims[1].size, dims[2].size, dims[3].size});
  const auto each = [&](const auto& work) {
    for (int64_t i = 0; i < count; i += kBatch) work(images.slice(0, i, std::min(i + kBatch, count)));
  };
  const auto explain = [&] { each([&](const at::Tensor& x) { attributor.explain(x); }); };
  const auto reference = [&] {
    each([&](const at::Tensor& x) { pare::input_gradient(program, x, at::zeros({x.size(0)}, at::kLong)); });
  };
  for (std::string line; std::getline(std::cin, line);) {
    const double method = rate(count, explain), plain = rate(count, reference);
    std::printf("%.1f %.1f\n", method, plain);
    std::fflush(stdout);
  }
  return 0;
}

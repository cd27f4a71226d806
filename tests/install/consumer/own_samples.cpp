// Samples that a program makes when they are asked for, and an observer that counts.
#include <ATen/ATen.h>
#include <pare/pare.h>

#include <cstdio>

struct Count : pare::Observer {
  int64_t pieces = 0;
  void progress(std::string_view, int64_t, int64_t) override { ++pieces; }
};

int main() {
  const pare::Graph graph = pare::build(pare::ModelOptions{.arch = "lenet-300-100"});
  const pare::Samples mine{
      .size = 1000,
      .inputs =
          [](int64_t begin, int64_t end) {
            const at::Tensor row = at::arange(begin, end, at::kFloat).view({-1, 1, 1, 1});
            return std::vector<at::Tensor>{(row / 1000).expand({end - begin, 1, 28, 28})};
          },
      .labels = [](int64_t begin, int64_t end) { return at::arange(begin, end, at::kLong).remainder(10); }};
  Count count;
  const pare::Evaluation found = pare::evaluate(graph, mine, {.batch = 100}, count);
  std::printf("%lld samples in %lld pieces, loss %.3f\n", (long long)found.samples, (long long)count.pieces,
              found.metric("loss"));
  return found.samples == 1000 && count.pieces >= 10 ? 0 : 1;
}

// A way to match a student with its teacher that the library does not have: the scores themselves.
#include <ATen/ATen.h>
#include <pare/pare.h>

#include <cstdio>

int main() {
  int64_t calls = 0;
  pare::add_match_method({.name = "scores",
                          .weight = 1,
                          .layers = pare::MatchMethod::Layers::none,
                          .penalty = [&](const pare::Matched& both) {
                            ++calls;
                            return (both.student.scores - both.teacher.scores.detach()).pow(2).mean();
                          }});
  const pare::ModelOptions arch{.arch = "lenet-300-100", .width = 0.1, .classes = 2, .image = {1, 8, 8}};
  const at::Tensor labels = at::arange(64, at::kLong).remainder(2);
  const pare::Samples samples = pare::samples_of({at::randn({64, 1, 8, 8})}, labels);
  pare::DistillOptions options;
  options.distillation.match = "scores";
  options.training.train.epochs = 2;
  options.training.train.batch = 32;
  const pare::TrainingResult result = pare::distill(pare::build(arch, 1), pare::build(arch, 2), samples, options);
  std::printf("%zu epochs, %lld batches matched\n", result.history.size(), (long long)calls);
  return calls == 4 ? 0 : 1;
}

// What a call costs in C++, for bench/binding.sh: CPU-seconds of one evaluation and one pruning.
//   bench_binding MODEL.onnx IMAGES.npy LABELS.npy
#include <ATen/Parallel.h>
#include <pare/pare.h>

#include <cstdio>
#include <ctime>

#include "pare/io/npy.h"

namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  at::set_num_threads(1);
  const pare::Graph model = pare::load(argv[1]);
  const pare::Samples samples = pare::samples_of({pare::read_npy(argv[2])}, pare::read_npy(argv[3]));
  pare::evaluate(model, samples);  // warm
  double begin = cpu_seconds();
  const double top1 = pare::evaluate(model, samples).metric("top1");
  const double evaluated = cpu_seconds() - begin;
  begin = cpu_seconds();
  const pare::PruneResult pruned =
      pare::prune(model, samples, {.channels = 0.5, .criterion = "l1", .compensate = "nnls"});
  std::printf("%.4f %.4f %.6f %lld\n", evaluated, cpu_seconds() - begin, top1,
              static_cast<long long>(pruned.after.cost.macs));
}

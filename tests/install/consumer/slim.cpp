// A model without three tenths of its multiply-accumulates: README's program.
#include <pare/pare.h>

#include <cstdio>

int main(int argc, char** argv) try {
  const pare::Graph model = pare::load(argc > 1 ? argv[1] : "model.onnx");
  const pare::PruneResult slim = pare::prune(model, {}, {.macs = 0.3});
  std::printf("%lld of %lld MACs\n", (long long)slim.after.cost.macs, (long long)slim.before.cost.macs);
  pare::save(slim.graph, "slim.onnx", {.force = true});
} catch (const pare::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return pare::exit_code(error.kind());
}

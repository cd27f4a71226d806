// Two trained models of one kind made into one, compared with the first, and written: the program of docs/cpp.md.
#include <pare/pare.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 4) throw pare::Error(pare::ErrorKind::usage, argv[0], "give two models and a file to write");
  const pare::Graph a = pare::load(argv[1]), b = pare::load(argv[2]);
  const pare::FusionResult result = pare::fuse({a, b}, {}, {.method = "rebasin", .solver = pare::TransportSolver::emd});
  const pare::Inspection found = pare::inspect(result.fused);
  std::printf("%lld parameters, %lld MACs\n", (long long)found.cost.parameters, (long long)found.cost.macs);
  std::printf("computes %s\n", pare::verify(a, result.fused).same() ? "what the first does" : "something else");
  pare::save(result.fused, argv[3], {.force = true});
} catch (const pare::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return pare::exit_code(error.kind());
}

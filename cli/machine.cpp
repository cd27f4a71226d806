#include "machine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <fstream>
#include <thread>

#include "pare/version.h"

namespace pare::cli {

namespace {

// "AVX2", as ATen's own description of itself says.
std::string cpu_capability() {
  const std::string config = at::show_config();
  const std::string key = "CPU capability usage: ";
  const size_t at = config.find(key);
  return at == std::string::npos ? "unknown" : config.substr(at + key.size(), config.find('\n', at) - at - key.size());
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(": "), line.size() - 2) + 2);
  return "unknown CPU";
}

}  // namespace

std::string version_text() {
  return fmt::format("pare {}\nlibtorch {}, {} CPUs, kernels for {}\nMKL-DNN {}, OpenMP {}\n", kVersion, TORCH_VERSION,
                     std::thread::hardware_concurrency(), cpu_capability(),
                     at::globalContext().hasMKLDNN() ? "yes" : "no", at::globalContext().hasOpenMP() ? "yes" : "no");
}

RecordedMachine this_machine() {
  return {.cpu = cpu_name(),
          .cores = std::thread::hardware_concurrency(),
          .threads = at::get_num_threads(),
          .kernels = cpu_capability(),
          .libtorch = TORCH_VERSION};
}

}  // namespace pare::cli

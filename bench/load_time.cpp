// One measurement of load_time.sh, in a process of its own so that the peak of memory is that of this measurement:
//   bench_load_time load TINY.onnx MODEL.onnx    loads a model as every command does; TINY is loaded first, so that
//   what
//                                                libraries set up once is neither timed nor counted
//   bench_load_time read TINY.onnx MODEL.onnx    reads the file's bytes into fresh memory, twice
// Prints the seconds, and how far the peak of memory (KiB) was above the memory in use before.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "pare/zoo/model.h"

namespace {

// A line of /proc/self/status in KiB: VmRSS is the memory in use, VmHWM its peak.
long status(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::atol(line.c_str() + key.size() + 1);
  return 0;
}

void read_bytes(const char* path) {
  const size_t size = std::filesystem::file_size(path);
  const auto bytes = std::make_unique_for_overwrite<char[]>(size);
  const int file = open(path, O_RDONLY);
  for (size_t done = 0; done < size;) {
    const ssize_t count = read(file, bytes.get() + done, size - done);
    if (count <= 0) std::exit(1);
    done += static_cast<size_t>(count);
  }
  close(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_load_time load|read TINY.onnx MODEL.onnx\n");
    return 2;
  }
  pare::load_model(argv[2], {}, 0);
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak starts again from the memory in use
  const long before = status("VmRSS");
  const auto start = std::chrono::steady_clock::now();
  if (std::string(argv[1]) == "load") {
    const pare::Model model = pare::load_model(argv[3], {}, 0);
    if (model.graph.nodes.empty()) return 1;
  } else {
    read_bytes(argv[3]);
    read_bytes(argv[3]);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%.4f %ld\n", seconds, status("VmHWM") - before);
}

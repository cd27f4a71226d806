#include <unistd.h>

#include <array>
#include <string_view>

#include "command.h"

namespace {

constexpr size_t kMostVariables = 4096;

[[gnu::no_sanitize("address", "undefined", "thread")]] bool names(const char* variable, std::string_view name) {
  return std::string_view(variable).starts_with(name) && variable[name.size()] == '=';
}

// OpenMP's threads sleep while they wait for each other. By default they spin, and a machine whose cores have anything
// else to do then comes to a crawl. libgomp reads this from the environment when it is loaded, and no function of a
// program runs between the start of the C library, which makes environ of what the kernel gave (and forgets what was
// set until then), and that: so the program is run anew, before any library has begun to work, which costs 30 ms.
// Where that fails, or the loader was called by hand and stands for the program, threads spin. Nothing is called here
// that a library would have to be ready for. Tools that follow one program alone (valgrind) want OMP_WAIT_POLICY set.
[[gnu::no_sanitize("address", "undefined", "thread")]] void let_threads_sleep(int, char** arguments, char** variables) {
  static char policy[] = "OMP_WAIT_POLICY=passive";
  static std::array<char*, kMostVariables + 2> with_policy;
  static std::array<char, 4096> self;
  size_t count = 0;
  for (; variables[count] != nullptr; ++count) {
    if (count == kMostVariables || names(variables[count], "OMP_WAIT_POLICY") ||
        names(variables[count], "GOMP_SPINCOUNT"))
      return;
    with_policy[count] = variables[count];
  }
  with_policy[count] = policy;
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
  const std::string_view program = length > 0 ? std::string_view(self.data(), static_cast<size_t>(length)) : "/ld-";
  if (program.substr(program.rfind('/') + 1).starts_with("ld-")) return;
  execve(self.data(), arguments, with_policy.data());
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**, char**) = let_threads_sleep;

}  // namespace

int main(int argc, char** argv) { return pare::cli::run_cli(argc, argv); }

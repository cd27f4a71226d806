#include <cstdlib>

#include "command.h"

namespace {

// OpenMP's threads sleep while they wait for each other. By default they spin, and a machine whose cores have anything
// else to do then comes to a crawl. libgomp reads this when it is loaded, which is before main() and after the
// functions of .preinit_array.
void let_threads_sleep(int, char**, char**) { setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0); }

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**, char**) = let_threads_sleep;

}  // namespace

int main(int argc, char** argv) { return pare::cli::run_cli(argc, argv); }

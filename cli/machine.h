// What the program runs on: libraries, CPU and its features.
#pragma once

#include <string>

#include "pare/report/record.h"

namespace pare::cli {

std::string version_text();  // what --version prints
RecordedMachine this_machine();

}  // namespace pare::cli

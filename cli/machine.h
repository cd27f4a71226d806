// What the program runs on: libraries, CPU and its features.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace pare::cli {

std::string version_text();  // what --version prints
nlohmann::json machine_json();

}  // namespace pare::cli

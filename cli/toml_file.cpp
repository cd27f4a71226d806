#include "toml_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pare/core/toml.h"
#include "pare/error.h"

namespace pare::cli {

nlohmann::json read_toml_file(const std::string& path, const std::string& what) {
  constexpr size_t most = 1 << 20;
  std::error_code absent;
  const auto status = std::filesystem::status(path, absent);
  if (!absent && !is_regular_file(status) && !is_fifo(status) && !is_socket(status))
    throw Error(ErrorKind::file, path, "is neither a file nor a pipe: there is no {} in it", what);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorKind::file, path, "cannot be opened");
  std::string text(most + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > most) throw Error(ErrorKind::usage, path, "is larger than any {} ({} bytes)", what, most);
  return from_toml(text, path);
}

}  // namespace pare::cli

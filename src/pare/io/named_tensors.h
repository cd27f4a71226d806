// The weights of a file: tensors under their names in the file's order, and the text that came with them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pare {

// Tensors are on the CPU, need no gradient, and may share memory with the file's mapping and with one another: nobody
// writes to them. They may be strided views; `contiguous()` gives plain ones.
struct NamedTensors {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> ignored;  // what the file holds and was not read, in words

  // Null when there is no such tensor. Linear in the number of tensors.
  const at::Tensor* find(std::string_view name) const {
    for (const auto& [key, tensor] : tensors)
      if (key == name) return &tensor;
    return nullptr;
  }
};

// More tensors than any model has; a file that claims more is refused before it costs memory.
inline constexpr size_t kMostTensors = 32768;

}  // namespace pare

// A model as a command takes and leaves it: any supported file in, a simplified graph; ONNX or safetensors out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pare/analysis/shapes.h"
#include "pare/core/options.h"
#include "pare/graph.h"
#include "pare/io.h"  // IWYU pragma: export

namespace pare {

// Error{usage} for a malformed `input_shape`.
ShapeOptions shapes_of(const ModelOptions& options);

// Error{usage} unless `path` ends in .onnx or .safetensors and may be written, and so may the opset (0: chosen later).
void check_output(const std::filesystem::path& path, const SaveOptions& options);

// Extents "2x3x4".
std::vector<int64_t> parse_extents(const std::string& text, const std::string& where);

}  // namespace pare

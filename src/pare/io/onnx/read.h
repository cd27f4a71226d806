// Reads an ONNX model into a Graph.
//
// Opsets 1 to 28 are read; every operator is raised to the canonical form (io/onnx/upgrade.h). Constants become tensors
// of the graph, initialisers are no longer inputs, consumers of an initialiser's Identity read the initialiser, nodes
// are in topological order and all have names. Operators pare does not know are kept.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "pare/graph.h"

namespace pare {

// Error{file} when the file cannot be read, Error{format} when it is not a correct model, Error{unsupported} for what
// pare does not read (a newer opset, strings, sequences); each names the file and the place in it.
Graph read_onnx(const std::filesystem::path& path);

// The same from memory. `name` stands for the file in errors; `directory` is where external data is looked for, and
// when it is empty there is none.
Graph read_onnx_bytes(std::span<const std::byte> bytes, const std::string& name,
                      const std::filesystem::path& directory = {});

}  // namespace pare

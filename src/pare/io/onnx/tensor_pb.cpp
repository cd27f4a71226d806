#include "pare/io/onnx/tensor_pb.h"

#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx-data_pb.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <ostream>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/onnx/tensor.h"

namespace pare {

namespace {

// A SequenceProto or an OptionalProto may parse as a tensor: its name becomes a list of dims, its element type the data
// type, its elements lie where a tensor has other fields. What gives it away is a readable name in the first field.
bool is_sequence(const MappedFile& file) {
  onnx::SequenceProto sequence;
  return sequence.ParseFromArray(file.data(), static_cast<int>(file.size())) && !sequence.name().empty() &&
         std::ranges::all_of(sequence.name(), [](unsigned char c) { return std::isprint(c) != 0; });
}

at::Tensor read_tensor(const MappedFile& file, const std::filesystem::path& path) {
  onnx::TensorProto proto;
  if (!proto.ParseFromArray(file.data(), static_cast<int>(file.size())) || !proto.has_data_type())
    throw Error(ErrorKind::format, path.string(), "is not a tensor in ONNX's format or is cut short");
  ExternalFiles files(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
  return take_tensor(proto, files, path.string());
}

}  // namespace

at::Tensor read_tensor_pb(const std::filesystem::path& path) {
  const google::protobuf::LogSilencer silence;
  const auto file = MappedFile::open(path);
  if (file->size() > INT_MAX)
    throw Error(ErrorKind::format, path.string(), "has {} bytes, too many for a tensor", file->size());
  try {
    return read_tensor(*file, path);
  } catch (const Error&) {
    if (!is_sequence(*file)) throw;
    throw Error(ErrorKind::unsupported, path.string(), "holds a sequence or an optional, not a tensor");
  }
}

void write_tensor_pb(const at::Tensor& tensor, const std::filesystem::path& path, const std::string& name) {
  onnx::TensorProto proto = tensor_to_proto(tensor);
  if (!name.empty()) proto.set_name(name);
  write_file_atomically(path, [&](std::ostream& out) {
    if (!proto.SerializeToOstream(&out)) throw Error(ErrorKind::file, path.string(), "could not be written whole");
  });
}

}  // namespace pare

#include "pare/io/onnx/tensor_pb.h"

#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx-data_pb.h>

#include <climits>
#include <ostream>

#include "pare/core/error.h"
#include "pare/core/file.h"
#include "pare/io/onnx/tensor.h"

namespace pare {

namespace {

// A SequenceProto or an OptionalProto parses as a tensor: its name is a list of dims, its element type the data type,
// and its elements lie where a tensor has a segment. Then there is no data.
bool may_be_sequence(const onnx::TensorProto& proto, const MappedFile& file) {
  onnx::SequenceProto sequence;
  return (proto.has_segment() ||
          (proto.dims_size() > 0 && proto.ByteSizeLong() == file.size() && !proto.has_raw_data())) &&
         proto.float_data().empty() && proto.int32_data().empty() && proto.int64_data().empty() &&
         proto.double_data().empty() && sequence.ParseFromArray(file.data(), static_cast<int>(file.size())) &&
         (sequence.has_name() || proto.has_segment());
}

}  // namespace

at::Tensor read_tensor_pb(const std::filesystem::path& path) {
  const google::protobuf::LogSilencer silence;
  const auto file = MappedFile::open(path);
  if (file->size() > INT_MAX)
    throw Error(ErrorKind::format, path.string(), "has {} bytes, too many for a tensor", file->size());
  onnx::TensorProto proto;
  const bool parsed = proto.ParseFromArray(file->data(), static_cast<int>(file->size()));
  if (may_be_sequence(proto, *file))
    throw Error(ErrorKind::unsupported, path.string(), "holds a sequence, not a tensor");
  if (!parsed || !proto.has_data_type())
    throw Error(ErrorKind::format, path.string(), "is not a tensor in ONNX's format or is cut short");
  ExternalFiles files(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
  return take_tensor(proto, files, path.string());
}

void write_tensor_pb(const at::Tensor& tensor, const std::filesystem::path& path, const std::string& name) {
  onnx::TensorProto proto = tensor_to_proto(tensor);
  if (!name.empty()) proto.set_name(name);
  write_file_atomically(path, [&](std::ostream& out) {
    if (!proto.SerializeToOstream(&out)) throw Error(ErrorKind::file, path.string(), "could not be written whole");
  });
}

}  // namespace pare

// From the values of a checkpoint's pickle to tensors: storages found and checked, views made over them, the state dict
// picked out. Shared by the legacy and the zip reader.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "pare/io/named_tensors.h"
#include "pare/io/pickle.h"

namespace pare {

// The raw bytes of a storage; throws Error{format} when the file has none.
using StorageBytes = std::function<std::span<const std::byte>(const PickleStorage&)>;

// Makes tensors over storages, each of which is read (and copied, if misaligned) once. A tensor stays a view with the
// sizes and strides of the file; one that leaves its storage, or would need more than the file + 64 MB if it were
// expanded, is Error{format}.
class TorchTensors {
 public:
  TorchTensors(const ByteSource& source, StorageBytes bytes) : source_(source), bytes_(std::move(bytes)) {}
  at::Tensor build(std::string_view name, const PickleTensor& tensor);

 private:
  const at::Tensor& storage(std::string_view name, const PickleStorage& storage);

  const ByteSource& source_;
  StorageBytes bytes_;
  std::unordered_map<std::string, at::Tensor> storages_;
};

// The state dict of a checkpoint: under 'state_dict', 'model_state_dict', 'model' or 'net', or the top level itself
// when it holds tensors. The prefix 'module.' of data-parallel models is taken off when every name has it. Numbers and
// strings beside the tensors become metadata; everything else is listed as ignored.
NamedTensors extract_state_dict(const ByteSource& source, const PickleDocument& document, TorchTensors& tensors);

}  // namespace pare

// onnx::TensorProto to at::Tensor and back. Internal to io/onnx: it brings in the protobuf classes.
#pragma once

#include <ATen/core/Tensor.h>
#include <onnx/onnx_pb.h>

#include <string>

#include "pare/io/onnx/external.h"

namespace pare {

// The tensor, with its bytes taken out of `proto` rather than copied where that can be. `where` names the tensor in
// errors: Error{format} when dims and data do not agree, Error{unsupported} for an element type ATen does not have.
// Nothing is allocated before the data was seen to be there.
at::Tensor take_tensor(onnx::TensorProto& proto, ExternalFiles& files, const std::string& where);

// The dense tensor; Error{unsupported} when it would be much larger than the sparse one.
at::Tensor take_sparse_tensor(onnx::SparseTensorProto& proto, ExternalFiles& files, const std::string& where);

// Type, dims and data (as raw_data) of a tensor; the name stays unset. `carried` is ONNX's number of a type that the
// tensor's own only carries.
onnx::TensorProto tensor_to_proto(const at::Tensor& tensor, int32_t carried = 0);

// Type and dims only, for a tensor whose data goes to a file.
onnx::TensorProto tensor_header_to_proto(const at::Tensor& tensor, int32_t carried = 0);

}  // namespace pare

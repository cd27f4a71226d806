// Functions of a model in the place of their calls, so that what reads the file meets ONNX's operators alone.
#pragma once

#include <string>

namespace onnx {
class ModelProto;
}

namespace pare {

// Calls are replaced in the graph and in its subgraphs, those inside functions too; attributes that a body refers to
// take the value of the call, or their default. Afterwards the model has no functions. Error{unsupported} names one
// that calls itself, or whose operators have another form in the opset of the model; Error{memory} where calls within
// calls would unfold to more than a file can sensibly mean.
void inline_functions(onnx::ModelProto& model, const std::string& file);

}  // namespace pare

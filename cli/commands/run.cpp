#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <filesystem>

#include "command.h"
#include "input.h"
#include "pare/core/error.h"
#include "pare/core/file.h"
#include "pare/data/image.h"
#include "pare/exec/program.h"
#include "pare/io/npy.h"
#include "pare/io/onnx/tensor_pb.h"
#include "pare/workflow/declared_run.h"
#include "pare/workflow/model.h"

namespace pare::cli {

namespace fs = std::filesystem;

namespace {

class Run : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view summary() const override { return "One inference: .npy, .pb, PNG or JPEG in, each output as .npy"; }

  bool recorded() const override { return false; }
  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "an ONNX file, or weights with --arch", false);
    options.field("input", inputs_, "[NAME=]FILE for each input of the model (.npy, .pb, .png, .jpg)");
    options.field("random", random_, "random inputs instead");
    options.field("output", output_, "directory for the outputs, made if it is not there");
    options.field("mean", mean_, "for images: subtracted from pixels on the scale 0 to 1");
    options.field("std", std_, "for images: divided by");
    model_options_.describe(options);
  }

  nlohmann::json run(Session& session) override {
    if (output_.empty()) throw Error(ErrorKind::usage, "-o", "name a directory for the outputs");
    if (random_ == !inputs_.empty())
      throw Error(ErrorKind::usage, "--input", "give --input FILE for each input, or --random");
    Model model = read_model(session, model_, model_options_);
    const auto tensors =
        random_ ? random_inputs(model.graph, 1, static_cast<uint64_t>(session.common.seed)) : read_inputs(model.graph);
    const auto files = output_files(model.graph, session.common.force);
    const at::NoGradGuard no_grad;
    const auto outputs = DeclaredRun(model.graph)(tensors);
    std::error_code failed;
    fs::create_directories(output_, failed);
    if (failed) throw Error(ErrorKind::file, output_, "cannot be made: {}", failed.message());
    Table table({"output", "type", "smallest", "mean", "largest", "file"});
    auto list = nlohmann::json::array();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = model.graph.outputs[i].name;
      const fs::path& path = files[i];
      write_npy(path, outputs[i].contiguous());
      const std::string type = to_string(TensorType{outputs[i].scalar_type(), outputs[i].sizes().vec()});
      const at::Tensor x = outputs[i].numel() > 0 ? outputs[i].to(at::kDouble) : at::zeros({1}, at::kDouble);
      table.add({name, type, fmt::format("{:.6g}", x.min().item<double>()),
                 fmt::format("{:.6g}", x.mean().item<double>()), fmt::format("{:.6g}", x.max().item<double>()),
                 path.string()});
      list.push_back({{"output", name}, {"type", type}, {"file", path.string()}});
    }
    session.print("{}", table.text());
    return {{"outputs", list}};
  }

 private:
  // One for each output, none of them there already unless `force`.
  std::vector<fs::path> output_files(const Graph& graph, bool force) const {
    std::vector<fs::path> files;
    std::error_code ignored;
    const bool there = fs::is_directory(output_, ignored);
    for (const auto& output : graph.outputs) {
      const std::string stem = file_name(output.name);
      fs::path file = fs::path(output_) / (stem + ".npy");
      for (int copy = 2; std::find(files.begin(), files.end(), file) != files.end(); ++copy)
        file = fs::path(output_) / fmt::format("{}-{}.npy", stem, copy);
      if (there) check_writable(file, force);
      files.push_back(file);
    }
    return files;
  }

  static std::string file_name(std::string name) {
    for (auto& c : name)
      if (c == '/' || c == '\0' || c == '\\') c = '_';
    return name.empty() || name == "." || name == ".." ? "output" : name;
  }

  std::vector<at::Tensor> read_inputs(const Graph& graph) const {
    std::vector<at::Tensor> tensors(graph.inputs.size());
    size_t next = 0;
    for (const auto& entry : inputs_) {
      size_t place = next;
      std::string path = entry;
      for (size_t i = 0; i < graph.inputs.size(); ++i)
        if (entry.starts_with(graph.inputs[i].name + "="))
          place = i, path = entry.substr(graph.inputs[i].name.size() + 1);
      if (place >= graph.inputs.size() || tensors[place].defined())
        throw Error(ErrorKind::usage, entry, "the model has {} inputs and no place left for this file",
                    graph.inputs.size());
      tensors[place] = read_input(path, graph.inputs[place]);
      while (next < tensors.size() && tensors[next].defined()) ++next;
    }
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!tensors[i].defined()) throw Error(ErrorKind::usage, graph.inputs[i].name, "no file given for this input");
    return tensors;
  }

  at::Tensor read_input(const std::string& path, const ValueInfo& info) const {
    const std::string extension = fs::path(path).extension();
    if (extension == ".npy") return read_npy(path).contiguous().to(info.dtype);
    if (extension == ".pb") return read_tensor_pb(path);
    if (extension == ".png" || extension == ".jpg" || extension == ".jpeg") return image_input(path, info);
    throw Error(ErrorKind::usage, path, "expected .npy, .pb, .png or .jpg");
  }

  // An image as [1, C, H, W], resized to the extents the model fixes.
  at::Tensor image_input(const std::string& path, const ValueInfo& info) const {
    if (!info.dims || info.dims->size() != 4)
      throw Error(ErrorKind::shape, info.name, "the model's input is not an image");
    const int64_t channels = (*info.dims)[1].fixed() ? (*info.dims)[1].size : 3;
    if (channels != 1 && channels != 3)
      throw Error(ErrorKind::shape, info.name, "the model takes {} channels, an image has 1 or 3", channels);
    at::Tensor image = read_image(path, {.color = channels == 1 ? ImageColor::gray : ImageColor::rgb});
    const int64_t height = (*info.dims)[2].fixed() ? (*info.dims)[2].size : image.size(1);
    const int64_t width = (*info.dims)[3].fixed() ? (*info.dims)[3].size : image.size(2);
    if (image.size(1) != height || image.size(2) != width) image = resize_bilinear(image, height, width);
    at::Tensor x = image.to(at::kFloat) / 255;
    const auto per_channel = [&](const std::vector<double>& values) {
      if (values.size() != 1 && values.size() != static_cast<size_t>(channels))
        throw Error(ErrorKind::usage, "--mean/--std", "{} values for {} channels", values.size(), channels);
      return at::tensor(values, at::kDouble).to(at::kFloat).reshape({-1, 1, 1});
    };
    if (!mean_.empty()) x = x - per_channel(mean_);
    if (!std_.empty()) x = x / per_channel(std_);
    return x.unsqueeze(0).to(info.dtype);
  }

  std::string model_;
  std::vector<std::string> inputs_;
  bool random_ = false;
  std::string output_;
  std::vector<double> mean_;
  std::vector<double> std_;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_run() { return std::make_unique<Run>(); }

}  // namespace pare::cli

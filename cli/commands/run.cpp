#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "command.h"
#include "input.h"
#include "pare/core/file.h"
#include "pare/data/data_options.h"
#include "pare/data/image.h"
#include "pare/data/pictures.h"
#include "pare/error.h"
#include "pare/io/npy.h"
#include "pare/io/onnx/tensor_pb.h"
#include "pare/ops/op.h"
#include "pare/run.h"
#include "pare/workflow/declared_run.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace fs = std::filesystem;

namespace {

class Run : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view summary() const override {
    return "One inference: .npy, .pb, PNG or JPEG in; the largest scores, and each output as .npy";
  }
  std::vector<Example> examples() const override {
    return {{"the five largest scores", "pare run model.onnx --input cat.jpg"},
            {"every output as .npy", "pare run model.onnx --input input.npy -o outputs"}};
  }

  bool recorded() const override { return false; }
  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "an ONNX file, or weights with --arch", false);
    options.heading("inputs");
    options.essential().field("input", inputs_, "[NAME=]FILE for each input of the model (.npy, .pb, .png, .jpg)");
    options.essential().field("random", random_, "random inputs instead");
    options.heading("output");
    options.essential().field("output", output_,
                              "directory for the outputs, made if it does not exist (default: keep none)");
    options.field("class-map", class_map_, "names of the classes in the order of the scores, one per line");
    pictures_.describe_pictures(options);
    const OptionScope of_pictures = {with("input", {"*.[pP][nN][gG]", "*.[jJ][pP][gG]", "*.[jJ][pP][eE][gG]"})};
    options.only({"mean", "std", "size", "preprocess"}, of_pictures);
    model_options_.describe(options, {with("model", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    if (random_ == !inputs_.empty())
      throw Error(ErrorKind::usage, "--input", "give --input FILE for each input, or --random");
    Model model = read_model(session, model_, model_options_);
    const std::vector<std::string> classes =
        class_map_.empty() ? stored_classes(model.graph) : read_class_map(class_map_);
    const auto tensors = random_ ? random_inputs(model.graph, 1, static_cast<uint64_t>(session.common.seed))
                                 : read_inputs(session, model.graph);
    const auto files = output_.empty() ? std::vector<fs::path>{} : output_files(model.graph, session.common.force);
    const at::NoGradGuard no_grad;
    const auto outputs = computed(model.graph, tensors);
    if (!output_.empty()) make_directory(output_);
    Table table({"output", "type", "smallest", "mean", "largest", output_.empty() ? "" : "file"});
    auto list = nlohmann::json::array();
    std::string tops;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = model.graph.outputs[i].name;
      const std::string type = to_string(TensorType{outputs[i].scalar_type(), outputs[i].sizes().vec()});
      const at::Tensor x = outputs[i].numel() > 0 ? outputs[i].to(at::kDouble) : at::zeros({1}, at::kDouble);
      nlohmann::json entry = {{"output", name}, {"type", type}};
      std::string file;
      if (!output_.empty()) {
        const bool in_npy = outputs[i].scalar_type() != at::kBFloat16;  // NumPy has no such type
        write_npy(files[i], (in_npy ? outputs[i] : outputs[i].to(at::kFloat)).contiguous());
        entry["file"] = file = files[i].string();
      }
      table.add({name, type, fmt::format("{:.6g}", x.min().item<double>()),
                 fmt::format("{:.6g}", x.mean().item<double>()), fmt::format("{:.6g}", x.max().item<double>()), file});
      if (is_score_vector(outputs[i])) {
        entry["top"] = top_scores(x.flatten(), classes);
        tops += fmt::format("\n{}", top_text(name, entry["top"]));
      }
      list.push_back(std::move(entry));
    }
    session.print("{}{}", table.text(), Lines{tops});
    return {{"outputs", list}};
  }

 private:
  // What is given to an open input keeps its own size, and not every network takes every size.
  static std::vector<at::Tensor> computed(const Graph& graph, const std::vector<at::Tensor>& tensors) {
    try {
      return DeclaredRun(graph)(tensors);
    } catch (const Error& error) {
      for (size_t i = 0; error.kind() == ErrorKind::shape && i < tensors.size(); ++i)
        if (const ValueInfo& input = graph.inputs[i]; input.dims && std::ranges::any_of(*input.dims, &Dim::assumed))
          throw Error(error.kind(), error.where(), "{}; '{}' was given as {}: --input-shape {}=… makes it another",
                      error.message(), input.name, fmt::join(tensors[i].sizes(), "x"), input.name);
      throw;
    }
  }

  // Scores of the classes of one image: [1, K], or with extents of 1 after it.
  static bool is_score_vector(const at::Tensor& output) {
    return at::isFloatingType(output.scalar_type()) && output.dim() >= 2 && output.size(0) == 1 && output.size(1) > 1 &&
           output.numel() == output.size(1);
  }

  static nlohmann::json top_scores(const at::Tensor& scores, const std::vector<std::string>& classes) {
    auto list = nlohmann::json::array();
    const auto [values, places] = scores.topk(std::min<int64_t>(5, scores.numel()));
    for (int64_t i = 0; i < values.numel(); ++i) {
      const auto place = places[i].item<int64_t>();
      list.push_back({{"class", place}, {"score", values[i].item<double>()}});
      if (classes.size() == static_cast<size_t>(scores.numel()))
        list.back()["name"] = classes[static_cast<size_t>(place)];
    }
    return list;
  }

  static std::string top_text(const std::string& output, const nlohmann::json& top) {
    Table table({"largest of " + output, "score", "name"});
    for (const auto& entry : top)
      table.add({std::to_string(entry["class"].get<int64_t>()), fmt::format("{:.6g}", entry["score"].get<double>()),
                 entry.value("name", "")});
    return table.text().text;
  }

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

  std::vector<at::Tensor> read_inputs(const Session& session, const Graph& graph) const {
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
      tensors[place] = read_input(session, path, graph, graph.inputs[place]);
      while (next < tensors.size() && tensors[next].defined()) ++next;
    }
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!tensors[i].defined()) throw Error(ErrorKind::usage, graph.inputs[i].name, "no file given for this input");
    return tensors;
  }

  at::Tensor read_input(const Session& session, const std::string& path, const Graph& graph,
                        const ValueInfo& info) const {
    const std::string extension = fs::path(path).extension();
    if (extension == ".npy") return as_declared(info, read_npy(path).contiguous(), path);
    if (extension == ".pb") return as_declared(info, read_tensor_pb(path), path);
    if (!is_picture_name(path)) throw Error(ErrorKind::usage, path, "expected .npy, .pb, .png or .jpg");
    const at::Tensor picture = read_image(path);
    const PictureInput input =
        pictures_.picture_input(graph, info, {picture.size(0), picture.size(1), picture.size(2)});
    const at::Tensor bytes = input.bytes(picture).unsqueeze(0);
    if (!at::isFloatingType(info.dtype)) {  // pixels as they are
      if (!pictures_.mean.empty() || !pictures_.std.empty())
        throw Error(ErrorKind::usage, "--mean/--std", "the input '{}' takes whole numbers, pixels as they are",
                    info.name);
      return bytes.to(info.dtype);
    }
    say_pictures(session, {model_}, {graph}, pictures_);
    return input.normalized(bytes).to(info.dtype);
  }

  std::string model_;
  std::vector<std::string> inputs_;
  bool random_ = false;
  std::string output_;
  std::string class_map_;
  DataChoice pictures_;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_run() { return std::make_unique<Run>(); }

}  // namespace pare::cli

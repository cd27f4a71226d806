#include <ATen/ATen.h>

#include <filesystem>
#include <optional>
#include <set>

#include "command.h"
#include "input.h"
#include "metrics.h"
#include "pare/core/file.h"
#include "pare/data/data_options.h"
#include "pare/data/image.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/workflow/explain.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace fs = std::filesystem;

namespace {

class Explain : public Command {
 public:
  std::string_view name() const override { return "explain"; }
  std::string_view summary() const override {
    return "Heat maps of what a model looks at, or of several models side by side";
  }
  std::vector<Example> examples() const override {
    return {
        {"heat maps of pictures", "pare explain model.onnx cat.png ship.jpg -o maps"},
        {"two models side by side", "pare explain model.onnx --compare small.onnx --data cifar10 --count 8 -o maps"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "an ONNX file, or weights with --arch");
    options.positional("images", images_, "PNG or JPEG files; or take --data", false);
    options.heading("output");
    options.essential().field("output", output_, "directory for the pictures");
    options.heading("what is shown");
    options.essential().field("compare", compare_, "other models, whose maps are shown beside it and compared");
    options.essential().field(
        "class", class_,
        "class to explain, by number or name (default: the top one; of multi-label data those present)");
    options.essential().field("count", count_, "images of --data");
    attribution_.describe(options);
    data_.describe(options, {with("images")});
    options.only({"count"}, {with("data")});
    model_options_.describe(options, {with("model", {"!*.onnx"}), with("compare", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    if (output_.empty()) throw Error(ErrorKind::usage, "--output", "name the directory for the pictures");
    if (images_.empty() == data_.data.empty())
      throw Error(ErrorKind::usage, "explain", "give either image files or --data");
    attribution_.check();
    check_directory(session);
    attribution_.seed = static_cast<uint64_t>(session.common.seed);
    const Graph model = read_model(session, model_, model_options_).graph;
    const std::vector<Graph> graphs = read_models(session, compare_, model_options_);
    ExplainInput input = subjects(model);
    if (!images_.empty() || data_.has_pictures()) say_pictures(session, {model_}, {model}, data_);
    check_others(session, graphs, input);
    if (!class_.empty()) {
      const int64_t wanted = find_class(class_, input.class_names);
      for (auto& classes : input.classes) classes = {wanted};
    }
    make_directory(output_);
    std::vector<std::pair<std::string, Graph>> others;
    for (size_t i = 0; i < graphs.size(); ++i) others.emplace_back(compare_[i], graphs[i]);
    return write(session, model, others, input);
  }

 private:
  void check_directory(const Session& session) const {
    std::error_code ignored;
    if (fs::exists(output_, ignored) && !fs::is_directory(output_, ignored))
      throw Error(ErrorKind::file, output_, "is not a directory");
    if (!session.common.force && fs::is_directory(output_, ignored) && !fs::is_empty(output_, ignored))
      throw Error(ErrorKind::usage, output_, "is not empty; give --force to write into it");
  }

  ExplainInput subjects(const Graph& model) const {
    if (!images_.empty()) return read_explain_input(images_, model, data_);
    if (count_ < 1) throw Error(ErrorKind::usage, "--count", "expected at least 1, found {}", count_);
    DataChoice choice = data_;
    if (choice.limit == 0) choice.limit = count_;
    const Dataset data = choice.load(model, /*unlabelled=*/true);
    check_images(model, data);
    return make_explain_input(data, count_);
  }

  // The images are made for the first model: the others have to take them as they are.
  void check_others(Session& session, const std::vector<Graph>& others, const ExplainInput& input) const {
    const Dataset seen{.name = model_, .images = at::empty({0, input.image[0], input.image[1], input.image[2]})};
    for (size_t i = 0; i < others.size(); ++i) of_model(compare_[i], [&] { check_images(others[i], seen); });
    say_normalization(session, compare_, others, input.mean, input.std);
  }

  nlohmann::json write(Session& session, const Graph& model, const std::vector<std::pair<std::string, Graph>>& others,
                       const ExplainInput& input) const {
    std::vector<std::string> heading = {"image", "class", "score"};
    for (const auto& path : compare_) {
      const std::string whose = compare_.size() == 1 ? "other" : fs::path(path).stem().string();
      heading.insert(heading.end(), {whose + " score", "cosine", "rank correlation"});
    }
    heading.emplace_back("file");
    Table table(heading);
    auto list = nlohmann::json::array();
    std::set<std::string> files;
    std::vector<MapCounts> counts(1 + others.size());  // of each model
    std::optional<double> worst;
    Progress bar("explaining", session.common.verbosity());
    const std::vector<std::string> layers = explain(model, others, input, attribution_, [&](const Explanation& e) {
      const std::string class_name = class_text(e.class_index, input);
      const fs::path path = fs::path(output_) / file_name(input.names[e.image] + "-" + class_name, files);
      write_png(path, e.picture);
      std::vector<std::string> row = {input.names[e.image], class_name, number(e.score)};
      nlohmann::json entry = {{"image", input.names[e.image]},
                              {"class", e.class_index},
                              {"class_name", class_name},
                              {"score", e.score},
                              {"zero", e.zero},
                              {"nan", e.nan},
                              {"file", path.string()}};
      counts[0].merge({.maps = 1, .zero = e.zero, .nan = e.nan});
      for (size_t i = 0; i < e.compared.size(); ++i) {
        const ComparedMap& other = e.compared[i];
        const auto& [cosine, correlation] = other.similarity;
        // Beside a map that is all zero there is nothing to compare.
        const bool compared = !(e.zero || other.zero || e.nan || other.nan);
        row.insert(row.end(), {number(other.score), compared ? number(cosine) : "no map",
                               compared ? number(correlation) : "no map"});
        entry["compared"].push_back({{"model", compare_[i]},
                                     {"score", other.score},
                                     {"cosine", cosine},
                                     {"rank_correlation", correlation},
                                     {"zero", other.zero},
                                     {"nan", other.nan}});
        counts[i + 1].merge({.maps = 1, .zero = other.zero, .nan = other.nan});
      }
      row.push_back(path.string());
      if (e.conservation_error) {
        entry["conservation_error"] = *e.conservation_error;
        // A NaN is the worst of all.
        if (!worst || !(*e.conservation_error <= *worst)) worst = e.conservation_error;
      }
      table.add(row);
      list.push_back(entry);
      bar.update(static_cast<int64_t>(e.image) + 1, static_cast<int64_t>(input.names.size()));
    });
    session.print("{}\nmaps by {} at {}\n", table.text(), attribution_.method, layers[0]);
    if (worst) say_relevance(session, model_, *worst, "at the worst");
    say_empty(session, model_, counts[0]);
    auto compared = nlohmann::json::array();
    for (size_t i = 0; i < others.size(); ++i) {
      session.print("maps of {} at {}\n", compare_[i], layers[i + 1]);
      say_empty(session, compare_[i], counts[i + 1]);
      compared.push_back({{"model", compare_[i]},
                          {"layer", layers[i + 1]},
                          {"zero_maps", counts[i + 1].zero},
                          {"nan_maps", counts[i + 1].nan}});
    }
    return {{"model", model_},     {"compare", compare_},         {"method", attribution_.method},
            {"layer", layers[0]},  {"explanations", list},        {"mean", input.mean},
            {"std", input.std},    {"zero_maps", counts[0].zero}, {"nan_maps", counts[0].nan},
            {"compared", compared}};
  }

  static void say_empty(const Session& session, const std::string& model, const MapCounts& counts) {
    say_empty_maps(session, model, counts, "nothing speaks for the class", "shown as zero");
  }

  static std::string number(double value) { return fmt::format("{:.4f}", value); }

  static std::string class_text(int64_t index, const ExplainInput& input) {
    const auto place = static_cast<size_t>(index);
    return place < input.class_names.size() ? input.class_names[place] : std::to_string(index);
  }

  // One that is not yet in use: images of several directories may have the same name.
  static std::string file_name(std::string stem, std::set<std::string>& used) {
    for (char& c : stem)
      if (c == '/' || c == '\\' || c == ' ' || c == '\0') c = '_';
    std::string name = stem;
    for (int copy = 2; !used.insert(name).second; ++copy) name = fmt::format("{}-{}", stem, copy);
    return name + ".png";
  }

  std::string model_;
  std::vector<std::string> images_;
  std::string output_;
  std::vector<std::string> compare_;
  std::string class_;
  int64_t count_ = 8;
  AttributionOptions attribution_;
  DataChoice data_;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_explain() { return std::make_unique<Explain>(); }

}  // namespace pare::cli

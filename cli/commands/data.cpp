#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "command.h"
#include "pare/data/dataset.h"
#include "pare/data/image.h"
#include "pare/data/scenes.h"
#include "pare/error.h"

namespace pare::cli {

namespace fs = std::filesystem;

namespace {

class Data : public Command {
 public:
  std::string_view name() const override { return "data"; }
  std::string_view summary() const override {
    return "What data sets are here and where: list | path NAME | make scenes";
  }
  std::vector<Example> examples() const override {
    return {{"which data sets are here, and how to get the others", "pare data list"},
            {"multi-label scenes with masks", "pare data make scenes -o scenes"}};
  }

  bool recorded() const override { return false; }
  void describe(OptionVisitor& options) override {
    options.positional("what", words_, "list, path NAME, or make scenes");
    options.heading("make scenes");
    options.essential().field("output", output_, "the directory; then --data scenes:DIR reads it");
    options.field("train", train_, "scenes of the split train");
    options.field("test", test_, "scenes of the split test");
    options.field("preview", preview_, "also write a sheet SPLIT.png of this many scenes and their masks");
    options.only({"output", "train", "test", "preview"}, {with("what", {"make"})});
  }

  nlohmann::json run(Session& session) override {
    if (words_.size() == 1 && words_[0] == "list") return list(session);
    if (words_.size() == 2 && words_[0] == "path") {
      if (words_[1] == "scenes")
        throw Error(ErrorKind::usage, "scenes",
                    "are composed in memory and stored nowhere; keep them with: pare data make scenes -o DIR, and read "
                    "them with: --data scenes:DIR");
      const DatasetPlace place = find_dataset(words_[1]);
      if (!place.found()) {
        std::vector<std::string> looked;
        for (const auto& path : place.looked) looked.push_back(path.string());
        throw Error(ErrorKind::file, words_[1], "is not here; looked in {}; get it with: {}", fmt::join(looked, ", "),
                    place.get);
      }
      session.print("{}\n", place.directory.string());
      return {
          {"name", place.name}, {"path", place.directory.string()}, {"layout", place.layout}, {"splits", place.splits}};
    }
    if (words_.size() == 2 && words_[0] == "make" && words_[1] == "scenes") return make_scenes(session);
    throw Error(ErrorKind::usage, "data", "expected 'list', 'path NAME' or 'make scenes', found '{}'",
                fmt::join(words_, " "));
  }

 private:
  // Scenes and, below each, its mask, eight a row, twice as large.
  static at::Tensor sheet(const Dataset& scenes, int64_t count) {
    std::vector<at::Tensor> rows;
    for (int64_t begin = 0; begin < count; begin += 8) {
      std::vector<at::Tensor> row;
      for (int64_t i = begin; i < begin + 8; ++i) {
        const at::Tensor image = scenes.images[i < count ? i : 0], mask = (scenes.masks[i < count ? i : 0] * 25);
        const at::Tensor both = at::cat({image, mask.unsqueeze(0).expand_as(image)}, 1);
        row.push_back(at::constant_pad_nd(i < count ? both : at::zeros_like(both), {1, 1, 1, 1}, 255));
      }
      rows.push_back(at::cat(row, 2));
    }
    return at::cat(rows, 1).repeat_interleave(2, 1).repeat_interleave(2, 2);
  }

  nlohmann::json make_scenes(Session& session) const {
    if (output_.empty()) throw Error(ErrorKind::usage, "--output", "name the directory to write to");
    if (train_ < 0 || test_ < 0 || preview_ < 0)
      throw Error(ErrorKind::usage, "data", "expected counts of 0 or more, found {}, {} and {}", train_, test_,
                  preview_);
    const fs::path directory = output_;
    if (fs::exists(directory) && !session.common.force)
      throw Error(ErrorKind::usage, output_, "exists; give --force to write into it");
    nlohmann::json made = {{"directory", output_}, {"seed", session.common.seed}};
    for (const auto& [split, count] : {std::pair{"train", train_}, std::pair{"test", test_}}) {
      if (count == 0) continue;
      const Dataset scenes = load_dataset({.data = "scenes",
                                           .split = split,
                                           .limit = count,
                                           .seed = static_cast<uint64_t>(session.common.seed),
                                           .threads = static_cast<int>(session.common.threads)});
      write_scenes(scenes, directory);
      if (preview_ > 0) write_png(directory / fmt::format("{}.png", split), sheet(scenes, std::min(preview_, count)));
      const double objects = scenes.labels.sum().item<double>() / static_cast<double>(count);
      session.print("{}: {} scenes, {:.2f} objects in a scene\n", split, with_commas(count), objects);
      made[split] = {{"scenes", count}, {"objects_per_scene", objects}};
    }
    return made;
  }

  static nlohmann::json list(Session& session) {
    Table table({"data set", "where", "layout", "splits"});
    auto rows = nlohmann::json::array();
    for (const auto& place : list_datasets()) {
      table.add({place.name, place.found() ? place.directory.string() : "not here; get it with: " + place.get,
                 place.layout, fmt::format("{}", fmt::join(place.splits, ", "))});
      rows.push_back({{"name", place.name},
                      {"path", place.directory.string()},
                      {"layout", place.layout},
                      {"splits", place.splits},
                      {"found", place.found()},
                      {"get", place.get}});
    }
    std::vector<std::string> missing;
    for (const auto& place : list_datasets())
      if ((place.name == "fashion-mnist" || place.name == "cifar10") && !place.found()) missing.push_back(place.name);
    const bool here = missing.empty();
    table.add({"scenes",
               here ? "composed from fashion-mnist and cifar10"
                    : fmt::format("not here; needs {}", fmt::join(missing, " and ")),
               "", here ? "train, test" : ""});
    rows.push_back({{"name", "scenes"}, {"composed_from", {"fashion-mnist", "cifar10"}}, {"found", here}});
    rows.back()["splits"] = here ? nlohmann::json{"train", "test"} : nlohmann::json::array();
    session.print("{}", table.text());
    return {{"datasets", rows}};
  }

  std::vector<std::string> words_;
  std::string output_;
  int64_t train_ = scene_count_train;
  int64_t test_ = scene_count_test;
  int64_t preview_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_data() { return std::make_unique<Data>(); }

}  // namespace pare::cli

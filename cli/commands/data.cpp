#include "command.h"
#include "pare/core/error.h"
#include "pare/data/dataset.h"

namespace pare::cli {

namespace {

class Data : public Command {
 public:
  std::string_view name() const override { return "data"; }
  std::string_view summary() const override { return "What data sets are here and where: list | path NAME"; }

  void describe(OptionVisitor& options) override { options.positional("what", words_, "list, or path NAME"); }

  nlohmann::json run(Session& session) override {
    if (words_.size() == 1 && words_[0] == "list") return list(session);
    if (words_.size() == 2 && words_[0] == "path") {
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
    throw Error(ErrorKind::usage, "data", "expected 'list' or 'path NAME', found '{}'", fmt::join(words_, " "));
  }

 private:
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
    session.print("{}", table.text());
    return {{"datasets", rows}};
  }

  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> make_data() { return std::make_unique<Data>(); }

}  // namespace pare::cli

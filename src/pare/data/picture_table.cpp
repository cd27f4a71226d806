#include "pare/data/picture_table.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "pare/core/file.h"
#include "pare/data/csv.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostClasses = 1 << 20;  // without a map, an index above is a slip

struct TableRow {
  int64_t line;
  std::string file, label, split;
  bool divided;  // is there a column split?
};

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// The place of a column, which `heads` has once; none where it may be missing.
std::optional<size_t> column(const CsvRow& heads, const std::string& name, const std::string& table) {
  std::vector<size_t> found;
  for (size_t i = 0; i < heads.cells.size(); ++i)
    if (lower_case(heads.cells[i]) == name) found.push_back(i);
  if (found.size() > 1) throw Error(ErrorKind::format, table, "line {}: two columns {}", heads.line, name);
  if (found.empty() && name != "split")
    throw Error(ErrorKind::format, table,
                "line {}: no column {}; expected the columns file, label and perhaps split, found {}", heads.line, name,
                fmt::join(heads.cells, ", "));
  return found.empty() ? std::nullopt : std::optional(found[0]);
}

std::vector<TableRow> read_rows(const fs::path& path) {
  const std::string name = path.string();
  const auto cells = parse_csv(MappedFile::open(path)->text(), name);
  if (cells.size() < 2)
    throw Error(ErrorKind::format, name, "no pictures; expected a line of columns (file, label, split), then rows");
  const size_t file = *column(cells[0], "file", name), label = *column(cells[0], "label", name);
  const auto split = column(cells[0], "split", name);
  std::vector<TableRow> rows;
  for (size_t i = 1; i < cells.size(); ++i) {
    const auto& [line, values] = cells[i];
    if (values.size() != cells[0].cells.size())
      throw Error(ErrorKind::format, name, "line {}: {} cells for {} columns; one with a comma needs quotes", line,
                  values.size(), cells[0].cells.size());
    rows.push_back({line, values[file], values[label], split ? lower_case(values[*split]) : "", split.has_value()});
    if (rows.back().file.empty()) throw Error(ErrorKind::format, name, "line {}: names no file", line);
    if (rows.back().label.empty()) throw Error(ErrorKind::format, name, "line {}: has no label", line);
  }
  return rows;
}

// What rows call the split that is asked for, nothing where they are not divided; checks what all of them say.
std::string split_name(const std::vector<TableRow>& rows, const std::string& asked, const std::string& table) {
  std::set<std::string> seen;
  for (const TableRow& row : rows) {
    if (row.divided && row.split != "train" && row.split != "test" && row.split != "val")
      throw Error(ErrorKind::format, table, "line {}: the split \"{}\" is not train, test or val", row.line, row.split);
    seen.insert(row.split);
  }
  if (!rows[0].divided) return "";
  const std::string name = asked == "test" && !seen.contains("test") ? "val" : asked;
  if (!seen.contains(name))
    throw Error(ErrorKind::file, table, "no row is of the split {}; there are {}", asked, fmt::join(seen, ", "));
  return name;
}

std::optional<int64_t> index_of(const std::string& label) {
  int64_t value = -1;
  const auto [end, failed] = std::from_chars(label.data(), label.data() + label.size(), value);
  const bool whole = failed == std::errc() && end == label.data() + label.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// The classes of labels, all of them names or all of them indices.
class Labels {
 public:
  Labels(const std::vector<TableRow>& rows, const std::string& table, const std::vector<std::string>& map,
         const std::vector<std::string>& known)
      : rows_(rows), table_(table), classes_(map) {
    const bool indices = first_without([&](const TableRow& row) { return index_of(row.label).has_value(); }) == nullptr;
    if (classes_.empty() && std::ranges::all_of(rows, [&](const TableRow& row) {
          return indices ? *index_of(row.label) < static_cast<int64_t>(known.size())
                         : find_class(known, row.label).has_value();
        }))
      classes_ = known;
    indices&& classes_.empty() ? number_classes() : indices ? by_index_or_name() : by_name();
  }

  const std::vector<std::string>& classes() const { return classes_; }
  bool by_names() const { return by_names_; }
  int64_t of(const TableRow& row) const { return by_names_ ? *named(row.label) : *index_of(row.label); }

 private:
  template <typename Check>
  const TableRow* first_without(const Check& check) const {
    const auto found = std::ranges::find_if_not(rows_, check);
    return found == rows_.end() ? nullptr : &*found;
  }

  std::optional<int64_t> named(const std::string& label) const {
    const auto [found, added] = named_.try_emplace(label);
    if (added) found->second = find_class(classes_, label);
    return found->second;
  }

  void number_classes() {
    int64_t last = 0;
    for (const TableRow& row : rows_) {
      last = std::max(last, *index_of(row.label));
      if (last >= kMostClasses)
        throw Error(ErrorKind::format, table_, "line {}: {} is not the index of a class", row.line, row.label);
    }
    for (int64_t i = 0; i <= last; ++i) classes_.push_back(std::to_string(i));
  }

  // Numbers may be names as well ("7" of a digit): what both readings allow, they must agree on.
  void by_index_or_name() {
    const auto count = static_cast<int64_t>(classes_.size());
    const TableRow* beyond = first_without([&](const TableRow& row) { return *index_of(row.label) < count; });
    const TableRow* unnamed = first_without([&](const TableRow& row) { return named(row.label).has_value(); });
    by_names_ = unnamed == nullptr;
    if (beyond != nullptr && !by_names_)
      throw Error(ErrorKind::format, table_, "line {}: label {} is not one of {} classes (0 to {})", beyond->line,
                  beyond->label, count, count - 1);
    if (beyond != nullptr || !by_names_) return;
    const TableRow* unlike =
        first_without([&](const TableRow& row) { return named(row.label) == index_of(row.label); });
    if (unlike != nullptr)
      throw Error(ErrorKind::format, table_, "line {}: label {} may be the class of that name, {}, or of that index",
                  unlike->line, unlike->label, *named(unlike->label));
    by_names_ = false;
  }

  void by_name() {
    by_names_ = true;
    if (classes_.empty()) {
      std::set<std::string> names;
      for (const TableRow& row : rows_) names.insert(row.label);
      classes_.assign(names.begin(), names.end());
    }
    if (const TableRow* none = first_without([&](const TableRow& row) { return named(row.label).has_value(); }))
      throw Error(ErrorKind::format, table_, "line {}: \"{}\" is none of the {} classes, or may be several", none->line,
                  none->label, classes_.size());
  }

  const std::vector<TableRow>& rows_;
  const std::string& table_;
  std::vector<std::string> classes_;
  mutable std::unordered_map<std::string, std::optional<int64_t>> named_;
  bool by_names_ = false;
};

fs::path picture_path(const fs::path& table, const TableRow& row) {
  const fs::path directory = table.parent_path();
  std::error_code ignored;
  for (const fs::path& path : {directory / row.file, directory / "images" / row.file})
    if (fs::exists(path, ignored)) return path;
  throw Error(ErrorKind::file, table.string(), "line {}: there is no picture {} in {} or its directory images",
              row.line, row.file, directory.empty() ? "." : directory.string());
}

}  // namespace

PictureTable read_picture_table(const fs::path& path, const std::string& split,
                                const std::vector<std::string>& class_map, const std::vector<std::string>& known,
                                const PictureOptions& options) {
  const std::string name = path.string();
  std::vector<TableRow> rows = read_rows(path);
  const std::string wanted = split_name(rows, split, name);
  const Labels labels(rows, name, class_map, known);
  PictureTable table{.split = wanted.empty() ? "all" : split, .labels_by_name = labels.by_names()};
  std::vector<size_t> places;
  std::vector<int64_t> found;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].split == wanted) places.push_back(i), found.push_back(labels.of(rows[i]));
  std::vector<PictureEntry> entries;
  for (const size_t i : evenly_chosen(found, options.limit))
    entries.push_back({picture_path(path, rows[places[i]]), found[i]});
  table.pictures = read_pictures(entries, labels.classes(), options);
  return table;
}

}  // namespace pare

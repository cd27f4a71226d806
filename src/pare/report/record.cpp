#include "pare/report/record.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>

#include "pare/core/file.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> record_files(const fs::path& run) {
  std::error_code ignored;
  if (fs::is_regular_file(run, ignored)) return {run};
  if (fs::is_regular_file(run / kRecordFile, ignored)) return {run / kRecordFile};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(run, ignored))
    if (fs::is_regular_file(entry.path() / kRecordFile, ignored)) found.push_back(entry.path() / kRecordFile);
  if (found.empty())
    throw Error(ErrorKind::file, run.string(), "has no {}: name run directories, or a directory of them", kRecordFile);
  std::sort(found.begin(), found.end());
  return found;
}

// How deep objects and lists go, before anything is built of them: what walks through a record calls itself at every
// level. (A callback of the parser would see the levels too, but looks through all of a list after each of its
// objects.)
int64_t nesting_of(std::string_view text) {
  int64_t depth = 0;
  int64_t deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace

Record parse_record(const fs::path& path, std::string_view text) {
  constexpr int64_t kDeepest = 64;
  if (const int64_t depth = nesting_of(text); depth > kDeepest)
    throw Error(ErrorKind::format, path.string(), "is nested {} deep, expected at most {}", depth, kDeepest);
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || text_at(json, "command").empty())
    throw Error(ErrorKind::format, path.string(), "is not a record: expected a JSON object with a command");
  return {path, std::move(json)};
}

std::vector<Record> read_records(const std::vector<std::string>& runs,
                                 const std::function<void(const Error&)>& broken) {
  std::vector<Record> records;
  std::optional<Error> last;
  std::set<fs::path> seen;
  for (const auto& run : runs)
    for (const auto& file : record_files(run)) {
      std::error_code ignored;
      if (!seen.insert(fs::weakly_canonical(file, ignored)).second) continue;  // by another path
      try {
        records.push_back(parse_record(file, MappedFile::open(file)->text()));
      } catch (const Error& error) {
        if (!broken) throw;
        broken(error);
        last = error;
      }
    }
  if (records.empty() && last) throw *last;
  std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return text_at(a.content, "started") < text_at(b.content, "started");
  });
  return records;
}

const nlohmann::json& member_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

double number_at(const nlohmann::json& object, const char* key) {
  const auto& member = member_at(object, key);
  return member.is_number() ? member.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto& member = member_at(object, key);
  return member.is_string() ? member.get<std::string>() : std::string();
}

}  // namespace pare

// Result records: what a command did, as one JSON file in its run directory.
//
//   {"command", "command_line", "options", "started", "seconds", "version",
//    "machine": {"cpu", "cores", "threads", "libtorch", …}, "directory": where it ran, and relative paths begin,
//    "files": [{"path", "bytes"}], "training": [{"what", "run", "history": […]}], "result": what --json prints,
//    "error": why it failed, where it measured and the outcome was bad}
//
// Paths of pictures inside the run directory are relative to it, so that it can be copied and moved.
//
// Records may come from anywhere: a missing or odd entry is left out, and only a file that is no JSON object at all, or
// one nested too deep, is an error.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pare {

class Error;

constexpr const char* kRecordFile = "record.json";

struct Record {
  std::filesystem::path path;  // of the file; what it names is looked for beside it, and where the command ran
  nlohmann::json content;
};

// Each is a record's file, a run directory, or a directory of run directories. In the order in which they were started.
// Error{file} where there is none. A file that is not a record is left out and handed to `broken`; Error{format}
// without that, or where there is no other.
std::vector<Record> read_records(const std::vector<std::string>& runs,
                                 const std::function<void(const Error&)>& broken = {});
Record parse_record(const std::filesystem::path& path, std::string_view text);

// Entries of whatever type, without surprises: NaN, "" and null where they are not there or are something else.
double number_at(const nlohmann::json& object, const char* key);
std::string text_at(const nlohmann::json& object, const char* key);
const nlohmann::json& member_at(const nlohmann::json& object, const char* key);

}  // namespace pare

// Options (pare/options.h) written as JSON and read from it.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pare/options.h"  // IWYU pragma: export

namespace pare {

// Several functions as one, by the type they are called with.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// Writes every field into JSON; the recipe and the hash are made from it.
class JsonWriter : public OptionVisitor {
 public:
  JsonWriter();
  ~JsonWriter() override;
  void visit(const OptionField& field) override;
  const nlohmann::json& json() const { return *json_; }

 private:
  std::unique_ptr<nlohmann::json> json_;
};

// Sets the fields that a JSON object names, and leaves the others as they are. A value that does not fit is an
// Error{usage} that names `source` and the key.
class JsonReader : public OptionVisitor {
 public:
  JsonReader(const nlohmann::json& object, std::string source);
  ~JsonReader() override;
  // One value instead of a list is a list of one; a text is divided at commas, as that of a flag is.
  void visit(const OptionField& field) override;
  // Error{usage} names the first key that no field has.
  void check_keys() const;

 private:
  template <typename T>
  void read(const OptionField& field, T& value, const char* expected);

  std::unique_ptr<nlohmann::json> json_;
  std::string source_;
  std::vector<std::string> names_;  // of the fields so far
};

// What `describe` describes, in the order of the names.
std::vector<std::string> described_names(const std::function<void(OptionVisitor&)>& describe);

// TOML of an object of scalars and lists, one key per line, without those that are null: what `print-config` prints and
// `recipe` reads (core/toml.h).
std::string to_toml(const nlohmann::json& object);
// JSON, on one line unless it is indented. Bytes that are not UTF-8 become U+FFFD, and what steers a
// terminal is escaped.
std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace pare

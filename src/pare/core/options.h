// Options (pare/options.h) written as JSON and read from it.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pare/options.h"  // IWYU pragma: export

namespace pare {

// Writes every field into JSON; the recipe and the hash are made from it.
class JsonWriter : public OptionVisitor {
 public:
  JsonWriter();
  ~JsonWriter() override;
  void field(const std::string& name, bool& value, const std::string& help) override;
  void field(const std::string& name, int64_t& value, const std::string& help) override;
  void field(const std::string& name, double& value, const std::string& help) override;
  void field(const std::string& name, std::optional<double>& value, const std::string& help) override;
  void field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) override;
  void field(const std::string& name, std::vector<std::string>& values, const std::string& help,
             const Choices& choices) override;
  void field(const std::string& name, std::vector<double>& values, const std::string& help) override;
  void field(const std::string& name, std::vector<int64_t>& values, const std::string& help) override;
  void field(const std::string& name, const NamedValue& value, const std::string& help,
             const Choices& choices) override;
  void positional(const std::string& name, std::string& value, const std::string& help, bool required) override;
  void positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                  bool required) override;
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
  void field(const std::string& name, bool& value, const std::string& help) override;
  void field(const std::string& name, int64_t& value, const std::string& help) override;
  void field(const std::string& name, double& value, const std::string& help) override;
  void field(const std::string& name, std::optional<double>& value, const std::string& help) override;
  void field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) override;
  // One value instead of a list is a list of one; a text is divided at commas, as that of a flag is.
  void field(const std::string& name, std::vector<std::string>& values, const std::string& help,
             const Choices& choices) override;
  void field(const std::string& name, std::vector<double>& values, const std::string& help) override;
  void field(const std::string& name, std::vector<int64_t>& values, const std::string& help) override;
  void field(const std::string& name, const NamedValue& value, const std::string& help,
             const Choices& choices) override;
  void positional(const std::string& name, std::string& value, const std::string& help, bool required) override;
  void positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                  bool required) override;
  // Error{usage} names the first key that no field has.
  void check_keys() const;

 private:
  template <typename T>
  void read(const std::string& name, T& value, const char* expected, const Choices& choices = {});

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

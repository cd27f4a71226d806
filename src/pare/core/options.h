// An option is spelled once. A struct of options has one function,
//   void describe(OptionVisitor& options) { options.field("batch", batch, "images in a batch"); … }
// and flags, help, completions, recipes, JSON and hashes all follow from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pare {

// Which values an option takes; empty = any.
using Choices = std::vector<std::string>;

// What another option of the same command has to be for an option to have a meaning. `values` are globs, with a '!' in
// front for what does not match; one of them fits the other's value, or one of its several values. None: the other is
// anything but its default.
struct Condition {
  std::string option;
  std::vector<std::string> values;
  bool holds = true;  // false: it has to be otherwise
};
Condition with(std::string option, std::vector<std::string> values = {});
Condition without(std::string option, std::vector<std::string> values = {});
// One of them has to hold.
using OptionScope = std::vector<Condition>;

class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  // Options that were described have a meaning only within this scope: core/option_scope.h refuses them elsewhere. Of
  // an option's several scopes all have to hold.
  virtual void only(const std::vector<std::string>& /*names*/, const OptionScope& /*scope*/) {}
  virtual void field(const std::string& name, bool& value, const std::string& help) = 0;
  virtual void field(const std::string& name, int64_t& value, const std::string& help) = 0;
  virtual void field(const std::string& name, double& value, const std::string& help) = 0;
  virtual void field(const std::string& name, std::string& value, const std::string& help,
                     const Choices& choices = {}) = 0;
  virtual void field(const std::string& name, std::vector<std::string>& values, const std::string& help,
                     const Choices& choices = {}) = 0;
  virtual void field(const std::string& name, std::vector<double>& values, const std::string& help) = 0;
  virtual void field(const std::string& name, std::vector<int64_t>& values, const std::string& help) = 0;
  // An argument without a flag. `required` as many as there are at the least.
  virtual void positional(const std::string& name, std::string& value, const std::string& help,
                          bool required = true) = 0;
  virtual void positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                          bool required = true) = 0;
};

// Writes every field into JSON; the recipe and the hash are made from it.
class JsonWriter : public OptionVisitor {
 public:
  JsonWriter();
  ~JsonWriter() override;
  void field(const std::string& name, bool& value, const std::string& help) override;
  void field(const std::string& name, int64_t& value, const std::string& help) override;
  void field(const std::string& name, double& value, const std::string& help) override;
  void field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) override;
  void field(const std::string& name, std::vector<std::string>& values, const std::string& help,
             const Choices& choices) override;
  void field(const std::string& name, std::vector<double>& values, const std::string& help) override;
  void field(const std::string& name, std::vector<int64_t>& values, const std::string& help) override;
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
  void field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) override;
  // One value instead of a list is a list of one; a text is divided at commas, as that of a flag is.
  void field(const std::string& name, std::vector<std::string>& values, const std::string& help,
             const Choices& choices) override;
  void field(const std::string& name, std::vector<double>& values, const std::string& help) override;
  void field(const std::string& name, std::vector<int64_t>& values, const std::string& help) override;
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

// TOML of an object of scalars and lists, one key a line: what --print-config prints and --recipe reads (core/toml.h).
std::string to_toml(const nlohmann::json& object);
// JSON, on one line unless it is indented. Bytes that are not UTF-8 become U+FFFD, and what steers a
// terminal is escaped.
std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace pare

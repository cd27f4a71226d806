// Nothing is accepted and then ignored: an option that the other options leave without a meaning is refused by name.
// A `describe` says which options belong to which (OptionVisitor::only); here that is read and checked.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pare/core/options.h"

namespace pare {

class ScopeReader : public JsonWriter {
 public:
  void only(const std::vector<std::string>& names, const OptionScope& scope) override;

  const std::map<std::string, std::vector<OptionScope>>& scopes() const { return scopes_; }
  // "only with `compensate` nnls"; empty where the option has a meaning. `usual`: the defaults of all options.
  std::string why_unused(const std::string& name, const nlohmann::json& usual) const;

 private:
  std::map<std::string, std::vector<OptionScope>> scopes_;
};

// "only with `compensate` nnls or `criterion` subset".
std::string scope_text(const OptionScope& scope);

// Error{usage} for the first of `names` that has no meaning beside the others' values.
void check_scopes(const ScopeReader& asked, const nlohmann::json& usual, const std::vector<std::string>& names);

// The same of a struct of options: of all its fields that differ from their defaults.
void check_scopes(const std::function<void(OptionVisitor&)>& asked, const std::function<void(OptionVisitor&)>& usual);
template <typename Options>
void check_scopes(Options asked) {
  Options usual;
  check_scopes([&](OptionVisitor& visitor) { asked.describe(visitor); },
               [&](OptionVisitor& visitor) { usual.describe(visitor); });
}

}  // namespace pare

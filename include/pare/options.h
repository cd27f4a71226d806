// Options: what a method may be told. A struct of options has one function,
//   void describe(OptionVisitor& options) { options.field("batch", batch, "images in a batch"); … }
// which spells each option once; flags, help, completions, recipes, JSON, Python's keywords and hashes all follow.
// Texts speak of another option by its name in backticks (`lr`), and who shows them may turn that into a flag.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "pare/error.h"

namespace pare {

// The names of an enum's values, in their order, stand beside its definition:
//   enum class Solver { emd, sinkhorn };
//   template <>
//   struct NamesOf<Solver> {
//     static constexpr std::string_view names[] = {"emd", "sinkhorn"};
//   };
template <typename E>
struct NamesOf;
template <typename E>
concept NamedEnum = std::is_enum_v<E> && requires {
  NamesOf<E>::names[0];
};

template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  return NamesOf<E>::names[static_cast<size_t>(value)];
}

// Which values an option takes; empty = any.
using Choices = std::vector<std::string>;

template <NamedEnum E>
Choices names_of() {
  return {std::begin(NamesOf<E>::names), std::end(NamesOf<E>::names)};
}

// The value of that name; Error{usage} about the option when there is none.
template <NamedEnum E>
E value_of(std::string_view name, const std::string& option) {
  size_t place = 0;
  for (const std::string_view known : NamesOf<E>::names) {
    if (known == name) return static_cast<E>(place);
    ++place;
  }
  throw Error(ErrorKind::usage, OptionName{option}, "'{}' is not one of {}", name, fmt::join(names_of<E>(), ", "));
}

// What another option of the same method has to be for an option to have a meaning. `values` are globs, with a '!' in
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

// A value that is written and read as one of several names.
struct NamedValue {
  std::function<std::string()> get;
  std::function<void(const std::string&)> set;
};

class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  // Options that were described have a meaning only within this scope: they are refused elsewhere. Of an option's
  // several scopes all have to hold.
  virtual void only(const std::vector<std::string>& /*names*/, const OptionScope& /*scope*/) {}
  virtual void field(const std::string& name, bool& value, const std::string& help) = 0;
  virtual void field(const std::string& name, int64_t& value, const std::string& help) = 0;
  virtual void field(const std::string& name, double& value, const std::string& help) = 0;
  virtual void field(const std::string& name, std::optional<double>& value, const std::string& help) = 0;
  virtual void field(const std::string& name, std::string& value, const std::string& help,
                     const Choices& choices = {}) = 0;
  virtual void field(const std::string& name, std::vector<std::string>& values, const std::string& help,
                     const Choices& choices = {}) = 0;
  virtual void field(const std::string& name, std::vector<double>& values, const std::string& help) = 0;
  virtual void field(const std::string& name, std::vector<int64_t>& values, const std::string& help) = 0;
  virtual void field(const std::string& name, const NamedValue& value, const std::string& help,
                     const Choices& choices) = 0;
  template <NamedEnum E>
  void field(const std::string& name, E& value, const std::string& help) {
    field(name,
          NamedValue{[&value] { return std::string(name_of(value)); },
                     [&value, name](const std::string& text) { value = value_of<E>(text, name); }},
          help, names_of<E>());
  }
  // An argument without a flag. `required` as many as there are at the least.
  virtual void positional(const std::string& name, std::string& value, const std::string& help,
                          bool required = true) = 0;
  virtual void positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                          bool required = true) = 0;
};

}  // namespace pare

// Options: what a method can be told. A struct of options has one function,
//   void describe(OptionVisitor& options) { options.field("batch", batch, "images in a batch"); … }
// which spells each option once; flags, help, completions, recipes, JSON, Python's keywords and hashes all follow.
// What belongs together stands under a heading, and the few that most people need are marked as essential:
//   options.heading("training");
//   options.essential().field("lr", lr, "learning rate");
// Texts refer to an option by its name in backticks (`lr`); whatever shows them may turn that into a flag.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
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

// What another option of the same method has to be for an option to be meaningful. `values` are globs, with a leading
// '!' for what must not match; one of them has to match the other option's value, or one of its values where it has
// several. No globs: anything but its default.
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

// Where an option's value lies.
using OptionValue = std::variant<bool*, int64_t*, double*, std::optional<double>*, std::string*,
                                 std::vector<std::string>*, std::vector<double>*, std::vector<int64_t>*, NamedValue>;

struct OptionField {
  std::string name;
  OptionValue value;
  std::string help;
  Choices choices = {};      // none: any value of its type
  bool positional = false;   // an argument without a flag
  bool required = false;     // of arguments: at least one
  std::string heading = {};  // under which help shows it
  bool essential = false;    // among the few that help shows at first
};

// Goes through options as a `describe` lists them. What it does with them is up to visit().
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  virtual void visit(const OptionField& field) = 0;
  // Options that were described are meaningful only within this scope and refused elsewhere. Where an option has
  // several scopes, all of them have to hold.
  virtual void only(const std::vector<std::string>& /*names*/, const OptionScope& /*scope*/) {}

  // Help shows what is described from here on under this heading; inside an OptionGroup under the group's.
  void heading(const std::string& text) {
    if (groups_ == 0) heading_ = text;
  }
  // The next option is one that most people need: options.essential().field(…). Inside an OptionGroup it is not.
  OptionVisitor& essential() {
    essential_ = groups_ == 0;
    return *this;
  }

  template <typename T>
  requires(!NamedEnum<T>) void field(const std::string& name, T& value, const std::string& help,
                                     const Choices& choices = {}) {
    pass_on({.name = name, .value = &value, .help = help, .choices = choices});
  }
  template <NamedEnum E>
  void field(const std::string& name, E& value, const std::string& help) {
    pass_on({.name = name,
             .value = NamedValue{[&value] { return std::string(name_of(value)); },
                                 [&value, name](const std::string& text) { value = value_of<E>(text, name); }},
             .help = help,
             .choices = names_of<E>()});
  }
  template <typename T>
  void positional(const std::string& name, T& value, const std::string& help, bool required = true) {
    pass_on({.name = name, .value = &value, .help = help, .positional = true, .required = required});
  }

 private:
  friend class OptionGroup;
  void pass_on(OptionField field) {
    field.heading = heading_;
    field.essential = std::exchange(essential_, false);
    visit(field);
  }

  std::string heading_;
  bool essential_ = false;
  int groups_ = 0;
};

// Everything described while it lives stands under one heading, and none of it is essential: the options of a step that
// a method takes on its way.
//   const OptionGroup group(options, "fine-tuning");
//   training.describe(options);
class OptionGroup {
 public:
  OptionGroup(OptionVisitor& options, const std::string& heading) : options_(options), before_(options.heading_) {
    options_.heading(heading);
    ++options_.groups_;
  }
  ~OptionGroup() {
    --options_.groups_;
    options_.heading(before_);
  }
  OptionGroup(const OptionGroup&) = delete;
  OptionGroup& operator=(const OptionGroup&) = delete;

 private:
  OptionVisitor& options_;
  std::string before_;
};

}  // namespace pare

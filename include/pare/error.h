// The one exception type. An error names the place (a node, a file, an option), what was expected and what was found.
// Expected outcomes (a frozen group, a solver that did not converge) are data, not errors.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>

namespace pare {

enum class ErrorKind {
  failed,        // anything without a better kind
  usage,         // the command line, a recipe or an option's value
  file,          // a file is missing, unreadable, unwritable
  format,        // a file's bytes are not what its format says
  shape,         // tensors that do not fit together
  memory,        // tensors would take more memory than they may
  unsupported,   // a correct model that pare has no rule for
  verification,  // outputs differ
  quality,       // a quality gate was missed
  interrupted,
};

// The process exit code of a kind: 1 failed, 2 usage, 3 unsupported, 4 verification, 5 quality, 130 interrupted.
int exit_code(ErrorKind kind);
std::string_view to_string(ErrorKind kind);

// How errors and other texts name an option: by the name that its `describe` gives it (pare/options.h), in backticks.
// The program makes a flag of it, Python a keyword.
struct OptionName {
  std::string name;
  operator std::string() const { return "`" + name + "`"; }  // NOLINT(google-explicit-constructor)
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string where, std::string message);

  template <typename... Args>
  requires(sizeof...(Args) > 0)
      Error(ErrorKind kind, std::string where, fmt::format_string<Args...> format, Args&&... args)
      : Error(kind, std::move(where), fmt::format(format, std::forward<Args>(args)...)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& where() const { return where_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return what_.c_str(); }  // "where: message"

 private:
  ErrorKind kind_;
  std::string where_;
  std::string message_;
  std::string what_;
};

}  // namespace pare

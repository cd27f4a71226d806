#include "pare/error.h"

namespace pare {

Error::Error(ErrorKind kind, std::string where, std::string message)
    : kind_(kind), where_(std::move(where)), message_(std::move(message)) {
  what_ = where_.empty() ? message_ : where_ + ": " + message_;
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return 2;
    case ErrorKind::unsupported: return 3;
    case ErrorKind::verification: return 4;
    case ErrorKind::quality: return 5;
    case ErrorKind::interrupted: return 130;
    case ErrorKind::failed:
    case ErrorKind::file:
    case ErrorKind::format:
    case ErrorKind::shape:
    case ErrorKind::memory: break;
  }
  return 1;
}

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::failed: return "failed";
    case ErrorKind::usage: return "usage";
    case ErrorKind::file: return "file";
    case ErrorKind::format: return "format";
    case ErrorKind::shape: return "shape";
    case ErrorKind::memory: return "memory";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::verification: return "verification";
    case ErrorKind::quality: return "quality";
    case ErrorKind::interrupted: return "interrupted";
  }
  return "unknown";
}

}  // namespace pare

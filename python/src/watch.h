// A method watched from Python: a callable hears of its progress, Ctrl-C ends it.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <string>

#include "pare/observer.h"

namespace pare::python {

namespace py = pybind11;

class Watch : public Observer {
 public:
  // `progress(what, done, all)` and `note(text)` may be None.
  Watch(py::object progress, py::object note) : progress_(std::move(progress)), note_(std::move(note)) {}

  void progress(std::string_view what, int64_t done, int64_t all) override;
  void note(const std::string& text) override;
  bool cancelled() override;

  // Runs `work` without the GIL. What a callable raised, or KeyboardInterrupt, is raised in place of the library's
  // error.
  template <typename Work>
  auto run(const Work& work) -> decltype(work()) {
    try {
      const py::gil_scoped_release release;
      return work();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted) raise();
      throw;
    }
  }

 private:
  template <typename Call>
  void guarded(const Call& call);
  void raise() const;

  py::object progress_;
  py::object note_;
  std::exception_ptr raised_;
  bool interrupted_ = false;
};

}  // namespace pare::python

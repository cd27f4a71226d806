#include "watch.h"

#include "convert.h"

namespace pare::python {

template <typename Call>
void Watch::guarded(const Call& call) {
  const py::gil_scoped_acquire gil;
  try {
    call();
  } catch (...) {
    raised_ = std::current_exception();
  }
}

void Watch::progress(std::string_view what, int64_t done, int64_t all) {
  if (progress_.is_none() || raised_) return;
  guarded([&] { progress_(py::str(what.data(), what.size()), done, all); });
}

void Watch::note(const std::string& text) {
  if (note_.is_none() || raised_) return;
  guarded([&] { note_(as_keywords(text)); });
}

// Python looks at signals on its main thread only; elsewhere this is cheap and finds none.
bool Watch::cancelled() {
  if (raised_ || interrupted_) return true;
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  interrupted_ = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
  if (interrupted_)
    PyErr_Clear();
  else
    raised_ = std::make_exception_ptr(py::error_already_set());
  return true;
}

void Watch::raise() const {
  if (raised_) std::rethrow_exception(raised_);
  if (!interrupted_) return;
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw py::error_already_set();
}

}  // namespace pare::python

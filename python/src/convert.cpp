#include "convert.h"

#include <ATen/ATen.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "pare/core/option_scope.h"
#include "pare/core/options.h"

namespace pare::python {

namespace {

struct DtypeName {
  at::ScalarType type;
  const char* name;  // NumPy's
};

constexpr DtypeName kDtypes[] = {{at::kFloat, "float32"}, {at::kDouble, "float64"}, {at::kHalf, "float16"},
                                 {at::kByte, "uint8"},    {at::kChar, "int8"},      {at::kShort, "int16"},
                                 {at::kInt, "int32"},     {at::kLong, "int64"},     {at::kBool, "bool"}};

// Keeps a Python object alive for as long as a tensor uses its memory, and lets go of it under the GIL.
void release(PyObject* object) {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire gil;
  Py_DECREF(object);
}

py::array as_numpy(const py::handle& value) {
  const py::module_ numpy = py::module_::import("numpy");
  if (py::isinstance<py::array>(value)) return py::reinterpret_borrow<py::array>(value);
  py::object source = py::reinterpret_borrow<py::object>(value);
  if (py::hasattr(value, "detach")) source = source.attr("detach")();  // a tensor that gradients are recorded for
  if (py::hasattr(source, "__dlpack__")) return numpy.attr("from_dlpack")(source);
  return numpy.attr("asarray")(source);
}

}  // namespace

namespace {

py::array array_over(const at::Tensor& tensor, bool writable) {
  const at::Tensor plain = tensor.scalar_type() == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
  const auto* known = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](const DtypeName& dtype) { return dtype.type == plain.scalar_type(); });
  if (known == std::end(kDtypes))
    throw Error(ErrorKind::unsupported, "array", "NumPy has no {}", c10::toString(plain.scalar_type()));
  auto* held = new at::Tensor(plain.detach());
  const py::capsule owner(held, [](void* pointer) { delete static_cast<at::Tensor*>(pointer); });
  std::vector<py::ssize_t> strides;
  for (const int64_t stride : held->strides()) strides.push_back(stride * static_cast<int64_t>(held->element_size()));
  py::array array(py::dtype(known->name), std::vector<py::ssize_t>(held->sizes().begin(), held->sizes().end()), strides,
                  held->data_ptr(), owner);
  if (!writable) array.attr("setflags")(py::arg("write") = false);
  return array;
}

}  // namespace

py::array to_array(const at::Tensor& tensor) { return array_over(tensor, false); }

py::array to_own_array(at::Tensor tensor) {
  // What was expanded has one number in several places.
  const bool alone =
      tensor.use_count() == 1 && tensor.storage().use_count() == 1 && tensor.is_non_overlapping_and_dense();
  return array_over(tensor, alone);
}

py::dict to_arrays(const TensorMap& tensors) {
  py::dict arrays;
  for (const auto& [name, tensor] : tensors) arrays[py::str(name)] = to_array(tensor);
  return arrays;
}

at::Tensor to_tensor(const py::handle& value, const std::string& what) {
  py::array array = as_numpy(value);
  const auto name = py::str(array.dtype().attr("name")).cast<std::string>();
  const auto* known =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const DtypeName& dtype) { return dtype.name == name; });
  if (known == std::end(kDtypes))
    throw Error(ErrorKind::usage, what, "expected an array of numbers, found one of {}", name);
  bool plain = true;  // strides of whole elements, none of them backwards, in this machine's byte order
  for (py::ssize_t i = 0; i < array.ndim(); ++i)
    plain = plain && array.strides(i) >= 0 && array.strides(i) % array.itemsize() == 0;
  plain = plain && py::bool_(array.dtype().attr("isnative"));
  if (!plain)
    array =
        py::module_::import("numpy").attr("array")(array, py::arg("dtype") = py::dtype(name), py::arg("order") = "C");
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    sizes.push_back(array.shape(i));
    strides.push_back(array.strides(i) / array.itemsize());
  }
  PyObject* owner = array.inc_ref().ptr();
  return at::from_blob(
      const_cast<void*>(array.data()), sizes, strides, [owner](void*) { release(owner); }, known->type);
}

namespace {

nlohmann::json to_json(const py::handle& value, const std::string& function, const std::string& keyword) {
  if (value.is_none()) return nullptr;
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (PyIndex_Check(value.ptr()) != 0) return py::int_(py::reinterpret_borrow<py::object>(value)).cast<int64_t>();
  if (PyNumber_Check(value.ptr()) != 0 && !py::isinstance<py::array>(value))
    return py::float_(py::reinterpret_borrow<py::object>(value)).cast<double>();
  if (!py::isinstance<py::iterable>(value))
    throw Error(ErrorKind::usage, function, "{}: expected a number, a text or a list", keyword);
  auto list = nlohmann::json::array();
  for (const auto& item : value) list.push_back(to_json(item, function, keyword));
  return list;
}

std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

// Makes of every field a tuple of what Python has to know of it.
class Describer : public OptionVisitor {
 public:
  py::list list;

  void visit(const OptionField& field) override {
    const auto add = [&](const auto& value, const char* type = "") {
      list.append(
          py::make_tuple(with(field.name, '-', '_'), py::cast(value), field.choices, as_keywords(field.help), type));
    };
    std::visit(Overloaded{[&](const std::optional<double>* value) { add(*value, "float | None"); },
                          [&](const std::vector<std::string>* values) { add(*values, "Sequence[str]"); },
                          [&](const std::vector<double>* values) { add(*values, "Sequence[float]"); },
                          [&](const std::vector<int64_t>* values) { add(*values, "Sequence[int]"); },
                          [&](const NamedValue& value) { add(value.get()); }, [&](const auto* value) { add(*value); }},
               field.value);
  }
};

}  // namespace

void read_options(const py::dict& keywords, const std::string& function, const Describe& asked, const Describe& usual) {
  auto object = nlohmann::json::object();
  for (const auto& [key, value] : keywords) {
    auto keyword = key.cast<std::string>();
    if (keyword.ends_with('_')) keyword.pop_back();  // lambda_ is the option `lambda`
    object[with(keyword, '_', '-')] = to_json(value, function, keyword);
  }
  JsonReader reader(object, function);
  asked(reader);
  reader.check_keys();
  ScopeReader scopes;
  asked(scopes);
  JsonWriter defaults;
  usual(defaults);
  std::vector<std::string> given;
  for (const auto& [name, value] : object.items()) given.push_back(name);
  check_scopes(scopes, defaults.json(), given);
}

py::list described(const std::function<void(OptionVisitor&)>& describe) {
  Describer describer;
  describe(describer);
  return describer.list;
}

std::string as_keywords(const std::string& text) {
  std::string result;
  bool inside = false;
  for (const char c : text) {
    if (c == '`') inside = !inside;
    result += inside && c == '-' ? '_' : c;
  }
  return result;
}

}  // namespace pare::python

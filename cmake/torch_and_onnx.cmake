# libtorch and libonnx as the targets pare_torch and pare_onnx. Used by the build, and by the installed package to find
# them again on the machine where it is used.

# libtorch's own CMake package pulls in compilers and tools that are not needed to use it: a header and two libraries are.
find_path(TORCH_INCLUDE_DIR ATen/ATen.h PATH_SUFFIXES include REQUIRED)
find_path(TORCH_API_INCLUDE_DIR torch/torch.h
          PATHS ${TORCH_INCLUDE_DIR}/torch/csrc/api/include PATH_SUFFIXES torch/csrc/api/include REQUIRED)
find_library(TORCH_CPU_LIBRARY torch_cpu REQUIRED)
find_library(C10_LIBRARY c10 REQUIRED)
if(NOT TARGET pare_torch)
  add_library(pare_torch INTERFACE IMPORTED)
  target_include_directories(pare_torch INTERFACE ${TORCH_INCLUDE_DIR} ${TORCH_API_INCLUDE_DIR})
  target_link_libraries(pare_torch INTERFACE ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})
endif()

# at::parallel_for is a template: without OpenMP where it is compiled it silently takes one thread. libtorch brings GCC's
# run-time; clang's would be a second one beside it, and the thread sanitizer knows neither.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT PARE_SANITIZE MATCHES thread)
  find_package(OpenMP REQUIRED)
  set(PARE_OPENMP_FLAG ${OpenMP_CXX_FLAGS})
  target_link_libraries(pare_torch INTERFACE OpenMP::OpenMP_CXX)
endif()

# oneDNN, on which libtorch stands too, is optional: without its headers ops/no_onednn.cpp takes the place of onednn.cpp.
find_path(DNNL_INCLUDE_DIR dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
  set(PARE_LEFT_OUT no_onednn.cpp)
  set(PARE_DNNL_FLAG -ldnnl)
  target_link_libraries(pare_torch INTERFACE ${DNNL_LIBRARY})
else()
  set(PARE_LEFT_OUT onednn.cpp)
endif()

# Gloo's headers are optional in the same way: libtorch has the library in it.
find_path(GLOO_INCLUDE_DIR gloo/algorithm.h)
if(GLOO_INCLUDE_DIR)
  list(APPEND PARE_LEFT_OUT no_gloo.cpp)
else()
  list(APPEND PARE_LEFT_OUT gloo.cpp)
endif()

# libonnx gives the protobuf schema; the operator table is the project's own.
find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h REQUIRED)
find_library(ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
if(NOT TARGET pare_onnx)
  add_library(pare_onnx INTERFACE IMPORTED)
  target_include_directories(pare_onnx INTERFACE ${ONNX_INCLUDE_DIR})
  target_compile_definitions(pare_onnx INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
  target_link_libraries(pare_onnx INTERFACE ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)
endif()

# Everything comes from the distribution; a newer libtorch may be named by CMAKE_PREFIX_PATH.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenMP REQUIRED)

# libtorch's own CMake package pulls in compilers and tools that are not needed to use it: a header and two libraries are.
find_path(TORCH_INCLUDE_DIR ATen/ATen.h PATH_SUFFIXES include REQUIRED)
find_path(TORCH_API_INCLUDE_DIR torch/torch.h
          PATHS ${TORCH_INCLUDE_DIR}/torch/csrc/api/include PATH_SUFFIXES torch/csrc/api/include REQUIRED)
find_library(TORCH_CPU_LIBRARY torch_cpu REQUIRED)
find_library(C10_LIBRARY c10 REQUIRED)
add_library(pare_torch INTERFACE)
target_include_directories(pare_torch SYSTEM INTERFACE
  $<BUILD_INTERFACE:${TORCH_INCLUDE_DIR}> $<BUILD_INTERFACE:${TORCH_API_INCLUDE_DIR}>)
target_link_libraries(pare_torch INTERFACE ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})

# libonnx gives the protobuf schema; the operator table is the project's own.
find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h REQUIRED)
find_library(ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
add_library(pare_onnx INTERFACE)
target_include_directories(pare_onnx SYSTEM INTERFACE $<BUILD_INTERFACE:${ONNX_INCLUDE_DIR}>)
target_compile_definitions(pare_onnx INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
target_link_libraries(pare_onnx INTERFACE ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)

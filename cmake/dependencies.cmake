# Everything comes from the distribution; a newer libtorch may be named by CMAKE_PREFIX_PATH.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)

include(${CMAKE_CURRENT_LIST_DIR}/torch_and_onnx.cmake)

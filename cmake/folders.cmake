add_library(pare)
add_library(pare::pare ALIAS pare)
target_include_directories(pare PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                           $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set(PARE_LIBRARIES pare_torch pare_onnx fmt::fmt nlohmann_json::nlohmann_json PNG::PNG JPEG::JPEG ZLIB::ZLIB Threads::Threads)

if(PARE_PCH)
  add_library(pare_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
  target_link_libraries(pare_pch PRIVATE ${PARE_LIBRARIES})
  target_precompile_headers(pare_pch PRIVATE <ATen/ATen.h> <map> <string> <vector> <fmt/format.h>)
endif()

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/generated/pare/version.h @ONLY)

# Settings of everything that is compiled with the shared precompiled header.
function(pare_settings target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${target} PRIVATE ${PARE_LIBRARIES})
  # The precompiled header is compiled for a library: -fPIE would not go with it.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  if(PARE_PCH)
    target_precompile_headers(${target} REUSE_FROM pare_pch)
  endif()
endfunction()

foreach(folder IN LISTS PARE_FOLDERS)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/pare/${folder}/*.cpp)
  if(NOT sources)
    continue()
  endif()
  # Optional parts have a twin that does without.
  foreach(left_out IN LISTS PARE_LEFT_OUT)
    list(FILTER sources EXCLUDE REGEX "/${left_out}$")
  endforeach()
  add_library(pare_${folder} OBJECT ${sources})
  set_target_properties(pare_${folder} PROPERTIES UNITY_BUILD_BATCH_SIZE 12)
  pare_settings(pare_${folder})
  target_sources(pare PRIVATE $<TARGET_OBJECTS:pare_${folder}>)
endforeach()
target_sources(pare PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
target_link_libraries(pare PUBLIC ${PARE_LIBRARIES})
